// Philox 4x32-10 and the transforms from its words to numbers. Everything here is made of IEEE
// basic operations, explicit fma and bit operations, so every device can repeat it bit for bit.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace pyflame::cpu::philox {

struct Words {
  uint32_t w[4];
};

inline Words block(Words c, uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{0xD2511F53} * c.w[0];
    uint64_t p1 = uint64_t{0xCD9E8D57} * c.w[2];
    c = {{static_cast<uint32_t>(p1 >> 32) ^ c.w[1] ^ k0, static_cast<uint32_t>(p1),
          static_cast<uint32_t>(p0 >> 32) ^ c.w[3] ^ k1, static_cast<uint32_t>(p0)}};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

inline Words block(uint64_t counter, uint64_t seed) {
  return block({{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}},
               static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
}

// One tile is 64 words: 16 consecutive counters.
inline constexpr int kCounters = 16;
inline constexpr int kTile = 4 * kCounters;

#ifdef __AVX2__
// Four counters to a vector of 64-bit lanes; only the low halves count until the end.
inline void tile(uint64_t counter, uint64_t seed, uint32_t* out) {
  constexpr int kVectors = kCounters / 4;
  const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
  __m256i a[kVectors], b[kVectors], c[kVectors], d[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    a[i] = _mm256_add_epi64(_mm256_set1_epi64x(static_cast<int64_t>(counter) + 4 * i),
                            _mm256_set_epi64x(3, 2, 1, 0));
    b[i] = _mm256_srli_epi64(a[i], 32);
    c[i] = d[i] = _mm256_setzero_si256();
  }
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const __m256i v0 = _mm256_set1_epi64x(k0), v1 = _mm256_set1_epi64x(k1);
    for (int i = 0; i < kVectors; ++i) {
      __m256i p0 = _mm256_mul_epu32(a[i], m0), p1 = _mm256_mul_epu32(c[i], m1);
      a[i] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), b[i]), v0);
      c[i] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), d[i]), v1);
      b[i] = p1;
      d[i] = p0;
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  for (int i = 0; i < kVectors; ++i) {
    __m256i ab = _mm256_blend_epi32(a[i], _mm256_slli_epi64(b[i], 32), 0xAA);
    __m256i cd = _mm256_blend_epi32(c[i], _mm256_slli_epi64(d[i], 32), 0xAA);
    __m256i even = _mm256_unpacklo_epi64(ab, cd), odd = _mm256_unpackhi_epi64(ab, cd);
    auto* to = reinterpret_cast<__m256i*>(out + 16 * i);
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
}
#else
inline void tile(uint64_t counter, uint64_t seed, uint32_t* out) {
  for (int i = 0; i < kCounters; ++i) {
    Words w = block(counter + static_cast<uint64_t>(i), seed);
    std::memcpy(out + 4 * i, w.w, sizeof(w.w));
  }
}
#endif

inline uint64_t join(uint32_t low, uint32_t high) {
  return (static_cast<uint64_t>(high) << 32) | low;
}

// [0, 1) with as many bits as the type holds exactly.
inline float unit_float(uint32_t w) {
  return static_cast<float>(static_cast<int32_t>(w >> 8)) * 0x1p-24f;
}
inline double unit_double(uint32_t low, uint32_t high) {
  return static_cast<double>(join(low, high) >> 11) * 0x1p-53;
}
// (0, 1]: safe for the logarithm.
inline float open_float(uint32_t w) {
  return std::fma(static_cast<float>(static_cast<int32_t>(w >> 1)), 0x1p-31f, 0x1p-33f);
}
inline double open_double(uint32_t low, uint32_t high) {
  return std::fma(static_cast<double>(static_cast<int64_t>(join(low, high) >> 1)), 0x1p-63,
                  0x1p-65);
}

// Natural logarithm of a positive normal number: mantissa in [sqrt(1/2), sqrt(2)), then the series
// of 2 atanh(s), s = (m - 1) / (m + 1).
inline float log_positive(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  uint32_t shifted = bits - 0x3F3504F3u;  // sqrt(1/2)
  int32_t e = static_cast<int32_t>(shifted) >> 23;
  bits -= static_cast<uint32_t>(e) << 23;
  float m;
  std::memcpy(&m, &bits, 4);
  float s = (m - 1.0f) / (m + 1.0f);
  float s2 = s * s;
  float p = 1.0f / 11;
  p = std::fma(p, s2, 1.0f / 9);
  p = std::fma(p, s2, 1.0f / 7);
  p = std::fma(p, s2, 1.0f / 5);
  p = std::fma(p, s2, 1.0f / 3);
  float two_s = s + s;
  float r = std::fma(p * s2, two_s, two_s);
  return std::fma(static_cast<float>(e), 0x1.62e43p-1f,
                  std::fma(static_cast<float>(e), -0x1.05c610p-29f, r));
}

inline double log_positive(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, 8);
  uint64_t shifted = bits - 0x3FE6A09E667F3BCDull;  // sqrt(1/2)
  int64_t e = static_cast<int64_t>(shifted) >> 52;
  bits -= static_cast<uint64_t>(e) << 52;
  double m;
  std::memcpy(&m, &bits, 8);
  double s = (m - 1.0) / (m + 1.0);
  double s2 = s * s;
  double p = 1.0 / 23;
  p = std::fma(p, s2, 1.0 / 21);
  p = std::fma(p, s2, 1.0 / 19);
  p = std::fma(p, s2, 1.0 / 17);
  p = std::fma(p, s2, 1.0 / 15);
  p = std::fma(p, s2, 1.0 / 13);
  p = std::fma(p, s2, 1.0 / 11);
  p = std::fma(p, s2, 1.0 / 9);
  p = std::fma(p, s2, 1.0 / 7);
  p = std::fma(p, s2, 1.0 / 5);
  p = std::fma(p, s2, 1.0 / 3);
  double two_s = s + s;
  double r = std::fma(p * s2, two_s, two_s);
  return std::fma(static_cast<double>(e), 0x1.62e42fefa38p-1,
                  std::fma(static_cast<double>(e), 0x1.ef35793c7673p-45, r));
}

// cos and sin of a full turn cut at the word's top two bits; y in [-pi/4, pi/4] is the rest.
inline void cos_sin_turn(uint32_t w, float* cosine, float* sine) {
  int32_t fraction = static_cast<int32_t>(w & 0x3FFFFFFFu) - (1 << 29);
  float y = static_cast<float>(fraction) * static_cast<float>(0x1.921fb54442d18p0 * 0x1p-30);
  float y2 = y * y;
  float s = 1.0f / 362880;
  s = std::fma(s, y2, -1.0f / 5040);
  s = std::fma(s, y2, 1.0f / 120);
  s = std::fma(s, y2, -1.0f / 6);
  s = std::fma(s * y2, y, y);
  float c = -1.0f / 3628800;
  c = std::fma(c, y2, 1.0f / 40320);
  c = std::fma(c, y2, -1.0f / 720);
  c = std::fma(c, y2, 1.0f / 24);
  c = std::fma(c, y2, -0.5f);
  c = std::fma(c, y2, 1.0f);
  uint32_t quadrant = w >> 30;
  bool swapped = quadrant & 1;
  float a = swapped ? s : c, b = swapped ? c : s;
  *cosine = (quadrant == 1 || quadrant == 2) ? -a : a;
  *sine = quadrant >= 2 ? -b : b;
}

inline void cos_sin_turn(uint64_t w, double* cosine, double* sine) {
  int64_t fraction = static_cast<int64_t>(w & 0x3FFFFFFFFFFFFFFFull) - (int64_t{1} << 61);
  double y = static_cast<double>(fraction) * (0x1.921fb54442d18p0 * 0x1p-62);
  double y2 = y * y;
  double s = 1.0 / 355687428096000.0;  // 1/17!
  s = std::fma(s, y2, -1.0 / 1307674368000.0);
  s = std::fma(s, y2, 1.0 / 6227020800.0);
  s = std::fma(s, y2, -1.0 / 39916800.0);
  s = std::fma(s, y2, 1.0 / 362880.0);
  s = std::fma(s, y2, -1.0 / 5040.0);
  s = std::fma(s, y2, 1.0 / 120.0);
  s = std::fma(s, y2, -1.0 / 6.0);
  s = std::fma(s * y2, y, y);
  double c = -1.0 / 6402373705728000.0;  // 1/18!
  c = std::fma(c, y2, 1.0 / 20922789888000.0);
  c = std::fma(c, y2, -1.0 / 87178291200.0);
  c = std::fma(c, y2, 1.0 / 479001600.0);
  c = std::fma(c, y2, -1.0 / 3628800.0);
  c = std::fma(c, y2, 1.0 / 40320.0);
  c = std::fma(c, y2, -1.0 / 720.0);
  c = std::fma(c, y2, 1.0 / 24.0);
  c = std::fma(c, y2, -0.5);
  c = std::fma(c, y2, 1.0);
  uint32_t quadrant = static_cast<uint32_t>(w >> 62);
  bool swapped = quadrant & 1;
  double a = swapped ? s : c, b = swapped ? c : s;
  *cosine = (quadrant == 1 || quadrant == 2) ? -a : a;
  *sine = quadrant >= 2 ? -b : b;
}

// Box-Muller: two words (or two pairs) give two standard normal numbers.
inline void normal_pair(uint32_t w0, uint32_t w1, float* z) {
  float r = std::sqrt(-2.0f * log_positive(open_float(w0)));
  float c, s;
  cos_sin_turn(w1, &c, &s);
  z[0] = r * c;
  z[1] = r * s;
}
inline void normal_pair(const uint32_t* w, double* z) {
  double r = std::sqrt(-2.0 * log_positive(open_double(w[0], w[1])));
  double c, s;
  cos_sin_turn(join(w[2], w[3]), &c, &s);
  z[0] = r * c;
  z[1] = r * s;
}

}  // namespace pyflame::cpu::philox
