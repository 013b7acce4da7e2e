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
// A word of each of four counters, in the low halves of lanes of 64 bits; what lies in the high
// ones does not count.
struct FourWords {
  __m256i v;
};
inline FourWords operator^(FourWords a, FourWords b) {
  return {_mm256_xor_si256(a.v, b.v)};
}
inline FourWords operator^(FourWords a, uint32_t b) {
  return {_mm256_xor_si256(a.v, _mm256_set1_epi64x(b))};
}
inline FourWords pf_wide_product(FourWords a, uint32_t b) {
  return {_mm256_mul_epu32(a.v, _mm256_set1_epi64x(b))};
}
inline FourWords pf_high_word(FourWords x) {
  return {_mm256_srli_epi64(x.v, 32)};
}
inline FourWords pf_low_word(FourWords x) {
  return x;
}
inline void tile(uint64_t counter, uint64_t seed, uint32_t* out, uint32_t array = 0) {
  constexpr int kVectors = kCounters / 4;
  pf_words_of<FourWords> c[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    const FourWords at{_mm256_add_epi64(_mm256_set1_epi64x(static_cast<int64_t>(counter) + 4 * i),
                                        _mm256_set_epi64x(3, 2, 1, 0))};
    c[i] = {{at, pf_high_word(at), {_mm256_set1_epi64x(array)}, {_mm256_setzero_si256()}}};
  }
  pf_philox_rounds<kVectors>(c, static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  for (int i = 0; i < kVectors; ++i) {
    const auto& w = c[i].w;
    __m256i ab = _mm256_blend_epi32(w[0].v, _mm256_slli_epi64(w[1].v, 32), 0xAA);
    __m256i cd = _mm256_blend_epi32(w[2].v, _mm256_slli_epi64(w[3].v, 32), 0xAA);
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
