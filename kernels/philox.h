// Philox 4x32-10 and what random kernels make of its words: src/cpu/philox.h, bit for bit.
#ifndef PF_PHILOX_H
#define PF_PHILOX_H

#include "math.h"

struct pf_words {
  pf_u32 w[4];
};
PF_DEVICE pf_words pf_philox(pf_u64 counter, pf_u64 seed) {
  pf_words c = {{static_cast<pf_u32>(counter), static_cast<pf_u32>(counter >> 32), 0, 0}};
  pf_u32 k0 = static_cast<pf_u32>(seed), k1 = static_cast<pf_u32>(seed >> 32);
  PF_UNROLL for (int round = 0; round < 10; ++round) {
    const pf_u64 p0 = 0xD2511F53ull * c.w[0], p1 = 0xCD9E8D57ull * c.w[2];
    c = {{static_cast<pf_u32>(p1 >> 32) ^ c.w[1] ^ k0, static_cast<pf_u32>(p1),
          static_cast<pf_u32>(p0 >> 32) ^ c.w[3] ^ k1, static_cast<pf_u32>(p0)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

PF_DEVICE pf_u64 pf_join(pf_u32 low, pf_u32 high) {
  return static_cast<pf_u64>(high) << 32 | low;
}
PF_DEVICE double pf_unit_double(pf_u32 low, pf_u32 high) {
  return static_cast<double>(pf_join(low, high) >> 11) * 0x1p-53;
}
PF_DEVICE float pf_open_float(pf_u32 w) {
  return pf_fma(static_cast<float>(static_cast<pf_i32>(w >> 1)), 0x1p-31f, 0x1p-33f);
}
PF_DEVICE double pf_open_double(pf_u32 low, pf_u32 high) {
  return pf_fma(static_cast<double>(static_cast<pf_i64>(pf_join(low, high) >> 1)), 0x1p-63,
                0x1p-65);
}

// Natural logarithm of a positive normal number: mantissa in [sqrt(1/2), sqrt(2)), then the series
// of 2 atanh(s), s = (m - 1) / (m + 1).
PF_DEVICE float pf_log_positive(float x) {
  pf_u32 bits = pf_bits<pf_u32>(x);
  const pf_i32 e = static_cast<pf_i32>(bits - 0x3F3504F3u) >> 23;
  bits -= static_cast<pf_u32>(e) << 23;
  const float m = pf_bits<float>(bits);
  const float s = (m - 1.0f) / (m + 1.0f);
  const float s2 = s * s;
  float p = 1.0f / 11;
  p = pf_fma(p, s2, 1.0f / 9);
  p = pf_fma(p, s2, 1.0f / 7);
  p = pf_fma(p, s2, 1.0f / 5);
  p = pf_fma(p, s2, 1.0f / 3);
  const float two_s = s + s;
  const float r = pf_fma(p * s2, two_s, two_s);
  const float f = static_cast<float>(e);
  return pf_fma(f, 0x1.62e43p-1f, pf_fma(f, -0x1.05c610p-29f, r));
}
PF_DEVICE double pf_log_positive(double x) {
  pf_u64 bits = pf_bits<pf_u64>(x);
  const pf_i64 e = static_cast<pf_i64>(bits - 0x3FE6A09E667F3BCDull) >> 52;
  bits -= static_cast<pf_u64>(e) << 52;
  const double m = pf_bits<double>(bits);
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double p = 1.0 / 23;
  p = pf_fma(p, s2, 1.0 / 21);
  p = pf_fma(p, s2, 1.0 / 19);
  p = pf_fma(p, s2, 1.0 / 17);
  p = pf_fma(p, s2, 1.0 / 15);
  p = pf_fma(p, s2, 1.0 / 13);
  p = pf_fma(p, s2, 1.0 / 11);
  p = pf_fma(p, s2, 1.0 / 9);
  p = pf_fma(p, s2, 1.0 / 7);
  p = pf_fma(p, s2, 1.0 / 5);
  p = pf_fma(p, s2, 1.0 / 3);
  const double two_s = s + s;
  const double r = pf_fma(p * s2, two_s, two_s);
  const double f = static_cast<double>(e);
  return pf_fma(f, 0x1.62e42fefa38p-1, pf_fma(f, 0x1.ef35793c7673p-45, r));
}

#endif
