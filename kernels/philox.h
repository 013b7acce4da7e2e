// Philox 4x32-10 and the transforms from its words to numbers, for GPUs and the CPU
// (cpu/philox.h): made of IEEE basic operations, explicit fma and bit operations, they give the
// same bits everywhere. Stands on what integers.h has, pf_fma, pf_sqrt and pf_bits of floats and
// doubles; includes nothing, for the CPU has it within a namespace.
#ifndef PF_PHILOX_H
#define PF_PHILOX_H

// W: a word, or on the CPU a vector of those of several counters.
template <class W>
struct pf_words_of {
  W w[4];
};
typedef pf_words_of<pf_u32> pf_words;
PF_DEVICE pf_u64 pf_wide_product(pf_u32 a, pf_u32 b) {
  return static_cast<pf_u64>(a) * b;
}
PF_DEVICE pf_u32 pf_high_word(pf_u64 x) {
  return static_cast<pf_u32>(x >> 32);
}
PF_DEVICE pf_u32 pf_low_word(pf_u64 x) {
  return static_cast<pf_u32>(x);
}
template <class W>
PF_DEVICE void pf_philox_round(pf_words_of<W>& c, pf_u32 k0, pf_u32 k1) {
  const auto p0 = pf_wide_product(c.w[0], 0xD2511F53u);
  const auto p1 = pf_wide_product(c.w[2], 0xCD9E8D57u);
  c = {{pf_high_word(p1) ^ c.w[1] ^ k0, pf_low_word(p1), pf_high_word(p0) ^ c.w[3] ^ k1,
        pf_low_word(p0)}};
}
// Of some counters, whose rounds go side by side.
template <int COUNT, class W>
PF_DEVICE void pf_philox_rounds(pf_words_of<W>* c, pf_u32 k0, pf_u32 k1) {
  PF_UNROLL for (int round = 0; round < 10; ++round) {
    PF_UNROLL for (int i = 0; i < COUNT; ++i) pf_philox_round(c[i], k0, k1);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}
PF_DEVICE pf_words pf_philox_words(pf_words c, pf_u64 seed) {
  pf_philox_rounds<1>(&c, static_cast<pf_u32>(seed), static_cast<pf_u32>(seed >> 32));
  return c;
}
PF_DEVICE pf_words pf_philox(pf_u64 counter, pf_u64 seed) {
  return pf_philox_words({{pf_low_word(counter), pf_high_word(counter), 0, 0}}, seed);
}

PF_DEVICE pf_u64 pf_join(pf_u32 low, pf_u32 high) {
  return static_cast<pf_u64>(high) << 32 | low;
}
// [0, 1) with as many bits as the type holds exactly.
PF_DEVICE double pf_unit_double(pf_u32 low, pf_u32 high) {
  return static_cast<double>(pf_join(low, high) >> 11) * 0x1p-53;
}
// (0, 1]: safe for the logarithm.
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

// cos and sin of a full turn cut at the word's top two bits; y in [-pi/4, pi/4] is the rest.
PF_DEVICE void pf_cos_sin_turn(pf_u32 w, float* cosine, float* sine) {
  const pf_i32 fraction = static_cast<pf_i32>(w & 0x3FFFFFFFu) - (1 << 29);
  const float y = static_cast<float>(fraction) * static_cast<float>(0x1.921fb54442d18p0 * 0x1p-30);
  const float y2 = y * y;
  float s = 1.0f / 362880;
  s = pf_fma(s, y2, -1.0f / 5040);
  s = pf_fma(s, y2, 1.0f / 120);
  s = pf_fma(s, y2, -1.0f / 6);
  s = pf_fma(s * y2, y, y);
  float c = -1.0f / 3628800;
  c = pf_fma(c, y2, 1.0f / 40320);
  c = pf_fma(c, y2, -1.0f / 720);
  c = pf_fma(c, y2, 1.0f / 24);
  c = pf_fma(c, y2, -0.5f);
  c = pf_fma(c, y2, 1.0f);
  const pf_u32 quadrant = w >> 30;
  const float a = quadrant & 1 ? s : c, b = quadrant & 1 ? c : s;
  *cosine = quadrant == 1 || quadrant == 2 ? -a : a;
  *sine = quadrant >= 2 ? -b : b;
}
PF_DEVICE void pf_cos_sin_turn(pf_u64 w, double* cosine, double* sine) {
  const pf_i64 fraction = static_cast<pf_i64>(w & 0x3FFFFFFFFFFFFFFFull) - (1ll << 61);
  const double y = static_cast<double>(fraction) * (0x1.921fb54442d18p0 * 0x1p-62);
  const double y2 = y * y;
  double s = 1.0 / 355687428096000.0;  // 1/17!
  s = pf_fma(s, y2, -1.0 / 1307674368000.0);
  s = pf_fma(s, y2, 1.0 / 6227020800.0);
  s = pf_fma(s, y2, -1.0 / 39916800.0);
  s = pf_fma(s, y2, 1.0 / 362880.0);
  s = pf_fma(s, y2, -1.0 / 5040.0);
  s = pf_fma(s, y2, 1.0 / 120.0);
  s = pf_fma(s, y2, -1.0 / 6.0);
  s = pf_fma(s * y2, y, y);
  double c = -1.0 / 6402373705728000.0;  // 1/18!
  c = pf_fma(c, y2, 1.0 / 20922789888000.0);
  c = pf_fma(c, y2, -1.0 / 87178291200.0);
  c = pf_fma(c, y2, 1.0 / 479001600.0);
  c = pf_fma(c, y2, -1.0 / 3628800.0);
  c = pf_fma(c, y2, 1.0 / 40320.0);
  c = pf_fma(c, y2, -1.0 / 720.0);
  c = pf_fma(c, y2, 1.0 / 24.0);
  c = pf_fma(c, y2, -0.5);
  c = pf_fma(c, y2, 1.0);
  const pf_u32 quadrant = static_cast<pf_u32>(w >> 62);
  const double a = quadrant & 1 ? s : c, b = quadrant & 1 ? c : s;
  *cosine = quadrant == 1 || quadrant == 2 ? -a : a;
  *sine = quadrant >= 2 ? -b : b;
}

// Box-Muller: two words (or two pairs) give two standard normal numbers.
PF_DEVICE void pf_normal_pair(pf_u32 w0, pf_u32 w1, float* z) {
  const float r = pf_sqrt(-2.0f * pf_log_positive(pf_open_float(w0)));
  float c, s;
  pf_cos_sin_turn(w1, &c, &s);
  z[0] = r * c;
  z[1] = r * s;
}
PF_DEVICE void pf_normal_pair(const pf_u32* w, double* z) {
  const double r = pf_sqrt(-2.0 * pf_log_positive(pf_open_double(w[0], w[1])));
  double c, s;
  pf_cos_sin_turn(pf_join(w[2], w[3]), &c, &s);
  z[0] = r * c;
  z[1] = r * s;
}

#endif
