// Dtypes without arithmetic: how they are stored, and conversions between all dtypes, through the
// widest value of their kind. As src/core/float8.h and src/cpu/convert.cpp do it.
#ifndef PF_STORED_H
#define PF_STORED_H

#include "prelude.h"

template <int MANTISSA, int BIAS>
struct pf_f8 {
  pf_u8 bits;
};
typedef pf_f8<3, 7> pf_e4m3fn;
typedef pf_f8<2, 15> pf_e5m2;
// Without infinities and without -0, whose pattern is the only NaN.
typedef pf_f8<3, 8> pf_e4m3fnuz;
typedef pf_f8<2, 16> pf_e5m2fnuz;
// An exponent alone.
struct pf_e8m0fnu {
  pf_u8 bits;
};
template <class R>
struct pf_complex {
  R re, im;
};
typedef pf_complex<float> pf_c64;
typedef pf_complex<double> pf_c128;
// Two elements in a byte, the even one in its low half.
struct pf_i4 {
  pf_u8 both;
};

template <class A, class B>
struct pf_same {
  enum { value = 0 };
};
template <class A>
struct pf_same<A, A> {
  enum { value = 1 };
};

// ---- eight-bit floats ---------------------------------------------------------------------------
template <int M, int BIAS>
PF_DEVICE float pf_f8_value(pf_f8<M, BIAS> v) {
  constexpr bool unsigned_zero = BIAS == 1 << (6 - M);
  const pf_u32 sign = (v.bits & 0x80u) << 24, a = v.bits & 0x7fu;
  if constexpr (unsigned_zero) {
    if (v.bits == 0x80) return pf_bits<float>(0x7fc00000u);
  } else if constexpr (M == 3) {
    if (a == 0x7f) return pf_bits<float>(sign | 0x7fc00000u);
  } else {
    if (a >= 0x7c) return pf_bits<float>(sign | (a > 0x7c ? 0x7fc00000u : 0x7f800000u));
  }
  if (a >> M == 0) {
    const float step = pf_bits<float>(static_cast<pf_u32>(128 - BIAS - M) << 23);
    return pf_bits<float>(sign | pf_bits<pf_u32>(static_cast<float>(a) * step));
  }
  return pf_bits<float>(sign | ((a << (23 - M)) + (static_cast<pf_u32>(127 - BIAS) << 23)));
}
PF_DEVICE float pf_f8_value(pf_e8m0fnu v) {
  const pf_u32 e = v.bits;
  return pf_bits<float>(e == 255 ? 0x7fc00000u : e ? e << 23 : 0x00400000u);
}
// As matrix units read them.
template <int M, int BIAS>
struct pf_dtype<pf_f8<M, BIAS>> {
  typedef float compute;
  static PF_METHOD float decode(pf_u32 b) {
    return pf_f8_value(pf_f8<M, BIAS>{static_cast<pf_u8>(b)});
  }
};
template <int M, int BIAS>
PF_DEVICE void pf_f8_set(pf_f8<M, BIAS>& to, float x) {
  constexpr bool unsigned_zero = BIAS == 1 << (6 - M);
  constexpr pf_u32 shift = 23 - M, magic = static_cast<pf_u32>(128 - BIAS - M + 23) << 23;
  const pf_u32 u = pf_bits<pf_u32>(x), a = u & 0x7fffffffu, sign = u >> 24 & 0x80u;
  const bool nan = a > 0x7f800000u;
  pf_u32 code;
  if (a >= 192u << 23) {  // far beyond all of them
    code = 0xff;
  } else if (a < static_cast<pf_u32>(128 - BIAS) << 23) {  // below the normal numbers
    code = pf_bits<pf_u32>(pf_bits<float>(a) + pf_bits<float>(magic)) - magic;
  } else {
    code = (a + ((1u << (shift - 1)) - 1) + (a >> shift & 1u)) >> shift;
    code -= static_cast<pf_u32>(127 - BIAS) << M;
  }
  if constexpr (unsigned_zero) {
    code = nan || code > 0x7f ? 0x80u : code ? sign | code : 0u;
  } else {
    constexpr pf_u32 most = M == 3 ? 0x7e : 0x7c;
    code = sign | (nan ? 0x7fu : code > most ? most : code);
  }
  to.bits = static_cast<pf_u8>(code);
}
// Halfway goes up, except below 2^-126. The sign is dropped.
PF_DEVICE void pf_f8_set(pf_e8m0fnu& to, float x) {
  const pf_u32 a = pf_bits<pf_u32>(x) & 0x7fffffffu, e = a >> 23, rest = a & 0x7fffffu;
  const bool up = rest > 0x400000u || (rest == 0x400000u && e > 0);
  to.bits = static_cast<pf_u8>(a >= 0x7f800000u ? 255u : e + up);
}

// ---- wide values --------------------------------------------------------------------------------
PF_DEVICE double pf_widen(float x) {
  return x;
}
PF_DEVICE double pf_widen(double x) {
  return x;
}
PF_DEVICE double pf_widen(pf_f16 x) {
  return pf_dtype<pf_f16>::decode(x.bits);
}
PF_DEVICE double pf_widen(pf_bf16 x) {
  return pf_dtype<pf_bf16>::decode(x.bits);
}
PF_DEVICE pf_i64 pf_widen(pf_bool x) {
  return x.byte != 0;
}
PF_DEVICE pf_u64 pf_widen(pf_u64 x) {
  return x;
}
template <int M, int BIAS>
PF_DEVICE double pf_widen(pf_f8<M, BIAS> x) {
  return pf_f8_value(x);
}
PF_DEVICE double pf_widen(pf_e8m0fnu x) {
  return pf_f8_value(x);
}
PF_DEVICE pf_c128 pf_widen(pf_c64 x) {
  return {x.re, x.im};
}
PF_DEVICE pf_c128 pf_widen(pf_c128 x) {
  return x;
}
#define PF_WIDEN(T)                \
  PF_DEVICE pf_i64 pf_widen(T x) { \
    return x;                      \
  }
PF_WIDEN(pf_i64)
PF_WIDEN(pf_i32)
PF_WIDEN(pf_i16)
PF_WIDEN(pf_i8)
PF_WIDEN(pf_u8)
PF_WIDEN(pf_u16)
PF_WIDEN(pf_u32)
#undef PF_WIDEN

template <class T>
struct pf_narrow {  // integers wrap
  static PF_METHOD T of(pf_i64 v) { return static_cast<T>(v); }
  static PF_METHOD T of(pf_u64 v) { return static_cast<T>(v); }
  static PF_METHOD T of(double v) {
    if constexpr (pf_same<T, pf_u64>::value)
      if (v >= 0x1p63) return v < 0x1p64 ? static_cast<T>(v) : T(0);
    return static_cast<T>(pf_cast_to<pf_i64>::of(v));
  }
};
template <>
struct pf_narrow<float> {
  template <class W>
  static PF_METHOD float of(W v) {
    return static_cast<float>(v);
  }
};
template <>
struct pf_narrow<double> {
  template <class W>
  static PF_METHOD double of(W v) {
    return static_cast<double>(v);
  }
};
template <>
struct pf_narrow<pf_f16> {
  template <class W>
  static PF_METHOD pf_f16 of(W v) {
    return {static_cast<pf_u16>(pf_f16_bits_of(static_cast<float>(v)))};
  }
};
template <>
struct pf_narrow<pf_bf16> {
  template <class W>
  static PF_METHOD pf_bf16 of(W v) {
    return {static_cast<pf_u16>(pf_bf16_bits_of(static_cast<float>(v)))};
  }
};
template <int M, int BIAS>
struct pf_narrow<pf_f8<M, BIAS>> {
  template <class W>
  static PF_METHOD pf_f8<M, BIAS> of(W v) {
    pf_f8<M, BIAS> r;
    pf_f8_set(r, static_cast<float>(v));
    return r;
  }
};
template <>
struct pf_narrow<pf_e8m0fnu> {
  template <class W>
  static PF_METHOD pf_e8m0fnu of(W v) {
    pf_e8m0fnu r;
    pf_f8_set(r, static_cast<float>(v));
    return r;
  }
};
template <>
struct pf_narrow<pf_bool> {
  template <class W>
  static PF_METHOD pf_bool of(W v) {
    return {static_cast<pf_u8>(v != W(0))};
  }
  static PF_METHOD pf_bool of(pf_c128 v) { return {static_cast<pf_u8>(v.re != 0 || v.im != 0)}; }
};
template <class R>
struct pf_narrow<pf_complex<R>> {
  template <class W>
  static PF_METHOD pf_complex<R> of(W v) {
    return {static_cast<R>(v), R(0)};
  }
  static PF_METHOD pf_complex<R> of(pf_c128 v) {
    return {static_cast<R>(v.re), static_cast<R>(v.im)};
  }
};

// ---- elements -----------------------------------------------------------------------------------
template <class T>
PF_DEVICE auto pf_get_stored(const void* p, pf_i64 i) {
  if constexpr (pf_same<T, pf_i4>::value) {
    const pf_u8 both = static_cast<const pf_u8*>(p)[i >> 1];
    return static_cast<pf_i64>(static_cast<pf_i8>(i & 1 ? both : both << 4) >> 4);
  } else {
    return pf_widen(static_cast<const T*>(p)[i]);
  }
}
template <class T, class W>
PF_DEVICE T pf_stored_of(W v) {
  // Of a complex number the imaginary part is lost, except where it can be kept.
  if constexpr (pf_same<W, pf_c128>::value && !pf_same<T, pf_c64>::value &&
                !pf_same<T, pf_c128>::value && !pf_same<T, pf_bool>::value)
    return pf_narrow<T>::of(v.re);
  else
    return pf_narrow<T>::of(v);
}

#endif
