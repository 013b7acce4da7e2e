// Random words of the CPU: the text that GPUs have too (kernels/philox.h), and tiles of words.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "kernels/integers.h"

namespace pyflame::cpu::philox {

inline float pf_fma(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline double pf_fma(double a, double b, double c) {
  return std::fma(a, b, c);
}
inline float pf_sqrt(float x) {
  return std::sqrt(x);
}
inline double pf_sqrt(double x) {
  return std::sqrt(x);
}
template <class To, class From>
To pf_bits(From x) {
  return std::bit_cast<To>(x);
}
#define PF_DEVICE inline
#define PF_UNROLL
#include "kernels/philox.h"
#include "kernels/random_rounding.h"
#undef PF_DEVICE
#undef PF_UNROLL

// One tile is 64 words: 16 consecutive counters. `array`: as for pf_rounding_words; 0 has the words
// of pf_philox.
inline constexpr int kCounters = 16;
inline constexpr int kTile = 4 * kCounters;

#ifdef __AVX2__
// Four counters to a vector of 64-bit lanes; only the low halves count until the end.
inline void tile(uint64_t counter, uint64_t seed, uint32_t* out, uint32_t array = 0) {
  constexpr int kVectors = kCounters / 4;
  const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
  __m256i a[kVectors], b[kVectors], c[kVectors], d[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    a[i] = _mm256_add_epi64(_mm256_set1_epi64x(static_cast<int64_t>(counter) + 4 * i),
                            _mm256_set_epi64x(3, 2, 1, 0));
    b[i] = _mm256_srli_epi64(a[i], 32);
    c[i] = _mm256_set1_epi64x(array);
    d[i] = _mm256_setzero_si256();
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
inline void tile(uint64_t counter, uint64_t seed, uint32_t* out, uint32_t array = 0) {
  for (int i = 0; i < kCounters; ++i) {
    pf_words w = pf_rounding_words(counter + static_cast<uint64_t>(i), array, seed);
    std::memcpy(out + 4 * i, w.w, sizeof(w.w));
  }
}
#endif

}  // namespace pyflame::cpu::philox
