// What types.h, math.h and others have of NVIDIA's instructions.
#ifndef PF_TYPES_NVIDIA_H
#define PF_TYPES_NVIDIA_H

// ---- sixteen bits and floats ------------------------------------------------------------------
PF_DEVICE pf_u32 pf_f16_bits_of(float x) {
  pf_u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
PF_DEVICE float pf_f16_value(pf_u32 bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<pf_u16>(bits)));
  return x;
}
// The bits of a number of eight bits that is not beyond the largest one.
#if __CUDA_ARCH__ >= 890
#define PF_F8_UNIT
PF_DEVICE pf_u32 pf_e5m2_bits_of(float x) {
  pf_u16 pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return pair & 0xffu;
}
PF_DEVICE pf_u32 pf_e4m3_bits_of(float x) {
  pf_u16 pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return pair & 0xffu;
}
#endif
// Two at once; the first in the low half.
PF_DEVICE pf_u32 pf_bf16_pair(float a, float b) {
#if __CUDA_ARCH__ >= 800
  pf_u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
  return r;
#else
  return pf_bf16_bits_of(a) | pf_bf16_bits_of(b) << 16;
#endif
}
PF_DEVICE pf_u32 pf_f16_pair(float a, float b) {
#if __CUDA_ARCH__ >= 800
  pf_u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
  return r;
#else
  return pf_f16_bits_of(a) | pf_f16_bits_of(b) << 16;
#endif
}
// 24 bits are enough for one rounding by float32 and another to 8 to be as one. Between such
// operations packing and unpacking cancel.
#if __CUDA_ARCH__ >= 800
PF_DEVICE pf_u32 pf_bf16_join(float low, float high) {
  return pf_bits<pf_u32>(low) >> 16 | (pf_bits<pf_u32>(high) & 0xffff0000u);
}
#if __CUDA_ARCH__ >= 900
#define PF_PAIR_ASM(NAME, OP, A, B, C) \
  asm(#NAME ".rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b))
#else
#define PF_PAIR_ASM(NAME, OP, A, B, C) \
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(A), "r"(B), "r"(C))
#endif
#define PF_PAIR(NAME, OP, A, B, C)                                                              \
  PF_DEVICE void pf_pair_##NAME(float& r0, float& r1, float a0, float a1, float b0, float b1) { \
    const pf_u32 a = pf_bf16_join(a0, a1), b = pf_bf16_join(b0, b1);                            \
    pf_u32 r;                                                                                   \
    PF_PAIR_ASM(NAME, OP, A, B, C);                                                             \
    r0 = pf_bits<float>(r << 16);                                                               \
    r1 = pf_bits<float>(r & 0xffff0000u);                                                       \
  }
#else
#define PF_PAIR(NAME, OP, A, B, C)                                                              \
  PF_DEVICE void pf_pair_##NAME(float& r0, float& r1, float a0, float a1, float b0, float b1) { \
    const pf_u32 r = pf_bf16_pair(a0 OP b0, a1 OP b1);                                          \
    r0 = pf_bf16_value(r & 0xffffu);                                                            \
    r1 = pf_bf16_value(r >> 16);                                                                \
  }
#endif

// ---- IEEE operations ---------------------------------------------------------------------------
PF_DEVICE float pf_fma(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
PF_DEVICE double pf_fma(double a, double b, double c) {
  return __fma_rn(a, b, c);
}
#define PF_UNARY(NAME, F, D)        \
  PF_DEVICE float NAME(float x) {   \
    return F(x);                    \
  }                                 \
  PF_DEVICE double NAME(double x) { \
    return D(x);                    \
  }
PF_UNARY(pf_sqrt, sqrtf, sqrt)
PF_UNARY(pf_abs, fabsf, fabs)
PF_UNARY(pf_floor, floorf, floor)
PF_UNARY(pf_ceil, ceilf, ceil)
PF_UNARY(pf_round, rintf, rint)
PF_UNARY(pf_trunc, truncf, trunc)
#undef PF_UNARY
PF_DEVICE float pf_copysign(float x, float y) {
  return copysignf(x, y);
}
PF_DEVICE double pf_copysign(double x, double y) {
  return copysign(x, y);
}
// The number where the other is NaN.
PF_DEVICE float pf_least(float a, float b) {
  return fminf(a, b);
}
PF_DEVICE float pf_most(float a, float b) {
  return fmaxf(a, b);
}
PF_DEVICE double pf_most(double a, double b) {
  return fmax(a, b);
}
PF_DEVICE pf_i64 pf_quotient(pf_i64 a, pf_i64 b) {
  return a / b;
}

// ---- the hardware's approximations: results below the smallest normal number are 0 --------------
PF_DEVICE float pf_exp2_quick(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
PF_DEVICE float pf_inverse_quick(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// A float rounded to tf32, halves away from zero; NaN stays.
PF_DEVICE pf_u32 pf_tf32_bits(pf_u32 w) {
  pf_u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(pf_bits<float>(w)));
  return r;
}
// Four bytes of a (0..3) and b (4..7), as the digits of WHICH say from the lowest on.
template <pf_u32 WHICH>
PF_DEVICE pf_u32 pf_pick_bytes(pf_u32 a, pf_u32 b) {
  return __byte_perm(a, b, WHICH);
}

// ---- memory -------------------------------------------------------------------------------------
// BYTES (1, 2, 4, 8 or 16) as words, from an address aligned to them. PAST: not needed again soon.
template <int BYTES, bool PAST>
PF_DEVICE void pf_load_words(const void* p, pf_u32* w) {
  if constexpr (BYTES == 16) {
    const uint4* q = static_cast<const uint4*>(p);
    const uint4 v = PAST ? __ldcs(q) : *q;
    w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
  } else if constexpr (BYTES == 8) {
    const uint2* q = static_cast<const uint2*>(p);
    const uint2 v = PAST ? __ldcs(q) : *q;
    w[0] = v.x, w[1] = v.y;
  } else if constexpr (BYTES == 4) {
    const pf_u32* q = static_cast<const pf_u32*>(p);
    w[0] = PAST ? __ldcs(q) : *q;
  } else if constexpr (BYTES == 2) {
    w[0] = *static_cast<const pf_u16*>(p);
  } else {
    w[0] = *static_cast<const pf_u8*>(p);
  }
}
template <int BYTES, bool PAST>
PF_DEVICE void pf_store_words(void* p, const pf_u32* w) {
  if constexpr (BYTES == 16) {
    uint4* q = static_cast<uint4*>(p);
    const uint4 v = {w[0], w[1], w[2], w[3]};
    if constexpr (PAST)
      __stcs(q, v);
    else
      *q = v;
  } else if constexpr (BYTES == 8) {
    uint2* q = static_cast<uint2*>(p);
    const uint2 v = {w[0], w[1]};
    if constexpr (PAST)
      __stcs(q, v);
    else
      *q = v;
  } else if constexpr (BYTES == 4) {
    pf_u32* q = static_cast<pf_u32*>(p);
    if constexpr (PAST)
      __stcs(q, w[0]);
    else
      *q = w[0];
  } else if constexpr (BYTES == 2) {
    *static_cast<pf_u16*>(p) = static_cast<pf_u16>(w[0]);
  } else {
    *static_cast<pf_u8*>(p) = static_cast<pf_u8>(w[0]);
  }
}

// ---- how far ahead ---------------------------------------------------------------------------
// Fours of rows of columns that are read before a program makes something of them (sum.h).
enum { PF_FOURS_AHEAD = 2 };

#endif
