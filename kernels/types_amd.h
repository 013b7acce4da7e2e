// What types.h, math.h and others have of AMD's instructions; the host, which has none of them,
// acts them out.
#ifndef PF_TYPES_AMD_H
#define PF_TYPES_AMD_H

// ---- sixteen bits and floats ------------------------------------------------------------------
#if defined(PF_AMD)
PF_DEVICE pf_u32 pf_f16_bits_of(float x) {
  return pf_bits<pf_u16>(static_cast<_Float16>(x));
}
PF_DEVICE float pf_f16_value(pf_u32 bits) {
  return static_cast<float>(pf_bits<_Float16>(static_cast<pf_u16>(bits)));
}
#else
PF_DEVICE pf_u32 pf_f16_bits_of(float x) {
  return pf_f16_bits_by_hand(x);
}
PF_DEVICE float pf_f16_value(pf_u32 bits) {
  return pf_f16_value_by_hand(bits);
}
#endif
PF_DEVICE pf_u32 pf_bf16_pair(float a, float b) {
  return pf_bf16_bits_of(a) | pf_bf16_bits_of(b) << 16;
}
PF_DEVICE pf_u32 pf_f16_pair(float a, float b) {
  return pf_f16_bits_of(a) | pf_f16_bits_of(b) << 16;
}
#define PF_PAIR(NAME, OP, A, B, C)                                                              \
  PF_DEVICE void pf_pair_##NAME(float& r0, float& r1, float a0, float a1, float b0, float b1) { \
    const pf_u32 r = pf_bf16_pair(a0 OP b0, a1 OP b1);                                          \
    r0 = pf_bf16_value(r & 0xffffu);                                                            \
    r1 = pf_bf16_value(r >> 16);                                                                \
  }

// ---- IEEE operations ---------------------------------------------------------------------------
PF_DEVICE float pf_fma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
PF_DEVICE double pf_fma(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}
#define PF_UNARY(NAME, BUILTIN)     \
  PF_DEVICE float NAME(float x) {   \
    return BUILTIN##f(x);           \
  }                                 \
  PF_DEVICE double NAME(double x) { \
    return BUILTIN(x);              \
  }
PF_UNARY(pf_sqrt, __builtin_sqrt)
PF_UNARY(pf_abs, __builtin_fabs)
PF_UNARY(pf_floor, __builtin_floor)
PF_UNARY(pf_ceil, __builtin_ceil)
PF_UNARY(pf_round, __builtin_rint)
PF_UNARY(pf_trunc, __builtin_trunc)
#undef PF_UNARY
PF_DEVICE float pf_copysign(float x, float y) {
  return __builtin_copysignf(x, y);
}
PF_DEVICE double pf_copysign(double x, double y) {
  return __builtin_copysign(x, y);
}
// The number where the other is NaN.
PF_DEVICE float pf_least(float a, float b) {
  return __builtin_fminf(a, b);
}
PF_DEVICE float pf_most(float a, float b) {
  return __builtin_fmaxf(a, b);
}
PF_DEVICE double pf_most(double a, double b) {
  return __builtin_fmax(a, b);
}
// Divisions of 64 bits are slow; most operands fit into 32. NVIDIA's compiler looks by itself.
PF_DEVICE pf_i64 pf_quotient(pf_i64 a, pf_i64 b) {
  if (((a | b) >> 32) == 0)
    return static_cast<pf_i64>(static_cast<pf_u32>(a) / static_cast<pf_u32>(b));
  return a / b;
}

// ---- the hardware's approximations: results below the smallest normal number are 0 --------------
#if defined(PF_AMD)
PF_DEVICE float pf_exp2_quick(float x) {
  return __builtin_amdgcn_exp2f(x);
}
PF_DEVICE float pf_inverse_quick(float x) {
  return __builtin_amdgcn_rcpf(x);
}
#else
PF_DEVICE float pf_exp2_quick(float x) {
  const float y = __builtin_exp2f(x);
  return y < 0x1p-126f ? 0.0f : y;
}
PF_DEVICE float pf_inverse_quick(float x) {
  const float y = 1.0f / x;
  return y < 0x1p-126f && x > 0.0f ? 0.0f : y;
}
#endif
// A float rounded to tf32, halves away from zero; NaN stays.
PF_DEVICE pf_u32 pf_tf32_bits(pf_u32 w) {
  return (w & 0x7fffffffu) > 0x7f800000u ? w | 0x400000u : (w + 0x1000u) & ~0x1fffu;
}
// Four bytes of a (0..3) and b (4..7), as the digits of WHICH say from the lowest on.
template <pf_u32 WHICH>
PF_DEVICE pf_u32 pf_pick_bytes(pf_u32 a, pf_u32 b) {
#if defined(PF_AMD)
  return __builtin_amdgcn_perm(
      b, a, (WHICH & 0xf) | (WHICH & 0xf0) << 4 | (WHICH & 0xf00) << 8 | (WHICH & 0xf000) << 12);
#else
  const pf_u64 both = static_cast<pf_u64>(b) << 32 | a;
  pf_u32 r = 0;
  for (pf_u32 i = 0; i < 4; ++i)
    r |= static_cast<pf_u32>(both >> (WHICH >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return r;
#endif
}

// ---- memory -------------------------------------------------------------------------------------
// BYTES (1, 2, 4, 8 or 16) as words, from an address aligned to them. PAST: not needed again soon.
// The same memory is seen through several of these types.
typedef pf_u32 __attribute__((vector_size(16), may_alias)) pf_words4;
typedef pf_u32 __attribute__((vector_size(8), may_alias)) pf_words2;
typedef pf_u32 __attribute__((may_alias)) pf_words1;
typedef pf_u16 __attribute__((may_alias)) pf_half_word;
template <int BYTES, bool PAST>
PF_DEVICE void pf_load_words(const void* p, pf_u32* w) {
#if defined(PF_AMD)
#define PF_FETCH(T) \
  (PAST ? __builtin_nontemporal_load(static_cast<const T*>(p)) : *static_cast<const T*>(p))
#else
#define PF_FETCH(T) (*static_cast<const T*>(p))
#endif
  if constexpr (BYTES == 16) {
    const pf_words4 v = PF_FETCH(pf_words4);
    w[0] = v[0], w[1] = v[1], w[2] = v[2], w[3] = v[3];
  } else if constexpr (BYTES == 8) {
    const pf_words2 v = PF_FETCH(pf_words2);
    w[0] = v[0], w[1] = v[1];
  } else if constexpr (BYTES == 4) {
    w[0] = PF_FETCH(pf_words1);
  } else if constexpr (BYTES == 2) {
    w[0] = *static_cast<const pf_half_word*>(p);
  } else {
    w[0] = *static_cast<const pf_u8*>(p);
  }
#undef PF_FETCH
}
template <int BYTES, bool PAST>
PF_DEVICE void pf_store_words(void* p, const pf_u32* w) {
#if defined(PF_AMD)
#define PF_PUT(T, V)                                      \
  do {                                                    \
    if constexpr (PAST)                                   \
      __builtin_nontemporal_store(V, static_cast<T*>(p)); \
    else                                                  \
      *static_cast<T*>(p) = V;                            \
  } while (0)
#else
#define PF_PUT(T, V) (*static_cast<T*>(p) = (V))
#endif
  if constexpr (BYTES == 16) {
    const pf_words4 v = {w[0], w[1], w[2], w[3]};
    PF_PUT(pf_words4, v);
  } else if constexpr (BYTES == 8) {
    const pf_words2 v = {w[0], w[1]};
    PF_PUT(pf_words2, v);
  } else if constexpr (BYTES == 4) {
    PF_PUT(pf_words1, w[0]);
  } else if constexpr (BYTES == 2) {
    *static_cast<pf_half_word*>(p) = static_cast<pf_u16>(w[0]);
  } else {
    *static_cast<pf_u8*>(p) = static_cast<pf_u8>(w[0]);
  }
#undef PF_PUT
}

// ---- how far ahead ---------------------------------------------------------------------------
// Fours of rows of columns that are read before a program makes something of them (sum.h): with
// two, registers do not suffice for GELU's gradient.
enum { PF_FOURS_AHEAD = 1 };

#endif
