// float16 and bfloat16 under the names of both vendors, for kernels of the user's: values are
// computed in float and rounded when they are stored. Part of user.h.
#ifndef PF_USER_HALF_H
#define PF_USER_HALF_H

#define PF_USER_METHOD inline __device__ __attribute__((always_inline))

template <class Bits>
struct pf_user_small {
  pf_u16 bits;
  pf_user_small() = default;
  PF_USER_METHOD pf_user_small(float x) : bits(Bits::of(x)) {}
  PF_USER_METHOD pf_user_small(double x) : bits(Bits::of(static_cast<float>(x))) {}
  PF_USER_METHOD pf_user_small(int x) : bits(Bits::of(static_cast<float>(x))) {}
  PF_USER_METHOD pf_user_small(unsigned x) : bits(Bits::of(static_cast<float>(x))) {}
  PF_USER_METHOD pf_user_small(long x) : bits(Bits::of(static_cast<float>(x))) {}
  PF_USER_METHOD pf_user_small(unsigned long x) : bits(Bits::of(static_cast<float>(x))) {}
  PF_USER_METHOD pf_user_small(long long x) : bits(Bits::of(static_cast<float>(x))) {}
  PF_USER_METHOD pf_user_small(unsigned long long x) : bits(Bits::of(static_cast<float>(x))) {}
  PF_USER_METHOD operator float() const { return Bits::value(bits); }
  PF_USER_METHOD pf_user_small& operator+=(float x) { return *this = *this + x; }
  PF_USER_METHOD pf_user_small& operator-=(float x) { return *this = *this - x; }
  PF_USER_METHOD pf_user_small& operator*=(float x) { return *this = *this * x; }
  PF_USER_METHOD pf_user_small& operator/=(float x) { return *this = *this / x; }
};
struct pf_user_f16_bits {
  static PF_USER_METHOD pf_u16 of(float x) { return static_cast<pf_u16>(pf_f16_bits_of(x)); }
  static PF_USER_METHOD float value(pf_u16 b) { return pf_f16_value(b); }
};
struct pf_user_bf16_bits {
  static PF_USER_METHOD pf_u16 of(float x) { return static_cast<pf_u16>(pf_bf16_bits_of(x)); }
  static PF_USER_METHOD float value(pf_u16 b) { return pf_bf16_value(b); }
};
typedef pf_user_small<pf_user_f16_bits> pf_user_half;
typedef pf_user_small<pf_user_bf16_bits> pf_user_bfloat16;
template <class T>
struct alignas(4) pf_user_pair {
  T x, y;
};
typedef pf_user_pair<pf_user_half> pf_user_half2;
typedef pf_user_pair<pf_user_bfloat16> pf_user_bfloat162;

// Macros: hipRTC has some of these as types of its own.
#define __half pf_user_half
#define half pf_user_half
#define __half2 pf_user_half2
#define half2 pf_user_half2
#define __nv_bfloat16 pf_user_bfloat16
#define nv_bfloat16 pf_user_bfloat16
#define __hip_bfloat16 pf_user_bfloat16
#define hip_bfloat16 pf_user_bfloat16
#define __nv_bfloat162 pf_user_bfloat162
#define nv_bfloat162 pf_user_bfloat162
#define __hip_bfloat162 pf_user_bfloat162

#define __float2half(X) pf_user_half(static_cast<float>(X))
#define __float2half_rn(X) pf_user_half(static_cast<float>(X))
#define __half2float(X) static_cast<float>(X)
#define __float2bfloat16(X) pf_user_bfloat16(static_cast<float>(X))
#define __float2bfloat16_rn(X) pf_user_bfloat16(static_cast<float>(X))
#define __bfloat162float(X) static_cast<float>(X)

#define PF_USER_ARITHMETIC(NAME, EXPRESSION)                                        \
  template <class B>                                                                \
  PF_DEVICE pf_user_small<B> NAME(pf_user_small<B> a, pf_user_small<B> b) {         \
    const float x = a, y = b;                                                       \
    return pf_user_small<B>(EXPRESSION);                                            \
  }                                                                                 \
  template <class B>                                                                \
  PF_DEVICE pf_user_pair<pf_user_small<B>> NAME(pf_user_pair<pf_user_small<B>> a,   \
                                                pf_user_pair<pf_user_small<B>> b) { \
    return {NAME(a.x, b.x), NAME(a.y, b.y)};                                        \
  }
PF_USER_ARITHMETIC(pf_user_add, x + y)
PF_USER_ARITHMETIC(pf_user_sub, x - y)
PF_USER_ARITHMETIC(pf_user_mul, x* y)
PF_USER_ARITHMETIC(pf_user_div, x / y)
PF_USER_ARITHMETIC(pf_user_max, (x > y || y != y) ? x : y)
PF_USER_ARITHMETIC(pf_user_min, (x < y || y != y) ? x : y)
template <class B>
PF_DEVICE pf_user_small<B> pf_user_fma(pf_user_small<B> a, pf_user_small<B> b, pf_user_small<B> c) {
  // Rounded to float, then to 16 bits: rarely, the last place differs from that of one rounding.
  return pf_user_small<B>(
      fmaf(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)));
}
template <class B>
PF_DEVICE pf_user_pair<pf_user_small<B>> pf_user_fma(pf_user_pair<pf_user_small<B>> a,
                                                     pf_user_pair<pf_user_small<B>> b,
                                                     pf_user_pair<pf_user_small<B>> c) {
  return {pf_user_fma(a.x, b.x, c.x), pf_user_fma(a.y, b.y, c.y)};
}
#define __hadd(A, B) pf_user_add(A, B)
#define __hsub(A, B) pf_user_sub(A, B)
#define __hmul(A, B) pf_user_mul(A, B)
#define __hdiv(A, B) pf_user_div(A, B)
#define __hmax(A, B) pf_user_max(A, B)
#define __hmin(A, B) pf_user_min(A, B)
#define __hfma(A, B, C) pf_user_fma(A, B, C)
#define __hadd2(A, B) pf_user_add(A, B)
#define __hsub2(A, B) pf_user_sub(A, B)
#define __hmul2(A, B) pf_user_mul(A, B)
#define __hmax2(A, B) pf_user_max(A, B)
#define __hmin2(A, B) pf_user_min(A, B)
#define __hfma2(A, B, C) pf_user_fma(A, B, C)
#define __hneg(A) decltype(A)(-static_cast<float>(A))
#define __heq(A, B) (static_cast<float>(A) == static_cast<float>(B))
#define __hne(A, B) (static_cast<float>(A) != static_cast<float>(B))
#define __hlt(A, B) (static_cast<float>(A) < static_cast<float>(B))
#define __hle(A, B) (static_cast<float>(A) <= static_cast<float>(B))
#define __hgt(A, B) (static_cast<float>(A) > static_cast<float>(B))
#define __hge(A, B) (static_cast<float>(A) >= static_cast<float>(B))

PF_DEVICE pf_user_half2 pf_user_make_half2(pf_user_half x, pf_user_half y) {
  return {x, y};
}
PF_DEVICE pf_user_bfloat162 pf_user_make_bfloat162(pf_user_bfloat16 x, pf_user_bfloat16 y) {
  return {x, y};
}
template <class T>
PF_DEVICE float2 pf_user_pair2float(pf_user_pair<T> p) {
  return make_float2(p.x, p.y);
}
#define __halves2half2(X, Y) pf_user_make_half2(X, Y)
#define make_half2(X, Y) pf_user_make_half2(X, Y)
#define __floats2half2_rn(X, Y) pf_user_make_half2(pf_user_half(X), pf_user_half(Y))
#define __float2half2_rn(X) pf_user_make_half2(pf_user_half(X), pf_user_half(X))
#define __half2half2(X) pf_user_make_half2(X, X)
#define __half22float2(P) pf_user_pair2float(P)
#define __floats2bfloat162_rn(X, Y) pf_user_make_bfloat162(pf_user_bfloat16(X), pf_user_bfloat16(Y))
#define __halves2bfloat162(X, Y) pf_user_make_bfloat162(X, Y)
#define __bfloat1622float2(P) pf_user_pair2float(P)
#define __low2float(P) static_cast<float>((P).x)
#define __high2float(P) static_cast<float>((P).y)
#define __low2half(P) ((P).x)
#define __high2half(P) ((P).y)

// Adds to 16 bits within their word of 32; gives the old value.
template <class B>
PF_DEVICE pf_user_small<B> atomicAdd(pf_user_small<B>* p, pf_user_small<B> v) {
  const pf_u64 at = reinterpret_cast<pf_u64>(p);
  pf_u32* word = reinterpret_cast<pf_u32*>(at & ~pf_u64{3});
  const pf_u32 shift = (at & 2) ? 16 : 0;
  pf_u32 old = *word, seen;
  pf_user_small<B> before, after;
  for (;;) {
    before.bits = static_cast<pf_u16>(old >> shift);
    after = pf_user_small<B>(static_cast<float>(before) + static_cast<float>(v));
    seen = pf_atomic_cas(word, old,
                         (old & ~(0xffffu << shift)) | static_cast<pf_u32>(after.bits) << shift);
    if (seen == old) return before;
    old = seen;
  }
}

#endif
