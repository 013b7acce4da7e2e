// One row times a matrix: bound by reading the matrix, so it is read once, in the order in which
// it lies. Every element is summed in the order of the tiled product, with the same result.
#include <algorithm>
#include <cmath>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "cpu/gemm_own.h"

namespace pyflame::cpu::micro {
namespace {

// sum[j] = fma(a[p], b[p][j], sum[j]) for p in order; rows of b are read as streams.
void add_rows(const float* a, int64_t a_col, const float* b, int64_t b_row, int64_t k, int64_t n,
              float* sum) {
  int64_t p = 0;
#ifdef __AVX2__
  for (; p + 4 <= k; p += 4) {
    const float *b0 = b + p * b_row, *b1 = b0 + b_row, *b2 = b1 + b_row, *b3 = b2 + b_row;
    const float* at = a + p * a_col;
    const __m256 a0 = _mm256_set1_ps(at[0]), a1 = _mm256_set1_ps(at[a_col]);
    const __m256 a2 = _mm256_set1_ps(at[2 * a_col]), a3 = _mm256_set1_ps(at[3 * a_col]);
    int64_t j = 0;
    for (; j + 8 <= n; j += 8) {
      __m256 s = _mm256_loadu_ps(sum + j);
      s = _mm256_fmadd_ps(a0, _mm256_loadu_ps(b0 + j), s);
      s = _mm256_fmadd_ps(a1, _mm256_loadu_ps(b1 + j), s);
      s = _mm256_fmadd_ps(a2, _mm256_loadu_ps(b2 + j), s);
      s = _mm256_fmadd_ps(a3, _mm256_loadu_ps(b3 + j), s);
      _mm256_storeu_ps(sum + j, s);
    }
    for (; j < n; ++j) {
      float s = std::fma(at[0], b0[j], sum[j]);
      s = std::fma(at[a_col], b1[j], s);
      s = std::fma(at[2 * a_col], b2[j], s);
      sum[j] = std::fma(at[3 * a_col], b3[j], s);
    }
  }
#endif
  for (; p < k; ++p)
    for (int64_t j = 0; j < n; ++j) sum[j] = std::fma(a[p * a_col], b[p * b_row + j], sum[j]);
}

#ifdef __AVX2__
// Eight columns of b, each k-contiguous, eight steps of k: transposed in registers, added in order.
inline __m256 add_8x8(const float* a, const float* b, int64_t b_col, __m256 s) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(b + i * b_col);
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i)
    s = _mm256_fmadd_ps(_mm256_set1_ps(a[i]), _mm256_permute2f128_ps(r[i], r[i + 4], 0x20), s);
  for (int i = 0; i < 4; ++i)
    s = _mm256_fmadd_ps(_mm256_set1_ps(a[i + 4]), _mm256_permute2f128_ps(r[i], r[i + 4], 0x31), s);
  return s;
}
#endif

// The same for k-contiguous columns of b and a contiguous a.
void add_columns(const float* a, const float* b, int64_t b_col, int64_t k, int64_t n, float* sum) {
  int64_t j = 0;
#ifdef __AVX2__
  for (; j + 32 <= n; j += 32) {  // four chains hide the latency of fma
    __m256 s0 = _mm256_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
    const float* at = b + j * b_col;
    int64_t p = 0;
    for (; p + 8 <= k; p += 8) {
      s0 = add_8x8(a + p, at + p, b_col, s0);
      s1 = add_8x8(a + p, at + 8 * b_col + p, b_col, s1);
      s2 = add_8x8(a + p, at + 16 * b_col + p, b_col, s2);
      s3 = add_8x8(a + p, at + 24 * b_col + p, b_col, s3);
    }
    _mm256_storeu_ps(sum + j, s0);
    _mm256_storeu_ps(sum + j + 8, s1);
    _mm256_storeu_ps(sum + j + 16, s2);
    _mm256_storeu_ps(sum + j + 24, s3);
    for (; p < k; ++p)
      for (int i = 0; i < 32; ++i) sum[j + i] = std::fma(a[p], at[i * b_col + p], sum[j + i]);
  }
#endif
  for (; j < n; ++j) {
    float s = 0;
    for (int64_t p = 0; p < k; ++p) s = std::fma(a[p], b[j * b_col + p], s);
    sum[j] = s;
  }
}

}  // namespace

bool one_row(const float* a, int64_t a_col, const float* b, int64_t b_row, int64_t b_col, int64_t k,
             int64_t k_block, int64_t n, const float* bias, float* c) {
  const bool columns = b_row == 1 && a_col == 1;
  if (!columns && b_col != 1) return false;
  constexpr int64_t kChunk = 1024;
  float sum[kChunk];
  for (int64_t j = 0; j < n; j += kChunk) {
    const int64_t w = std::min(kChunk, n - j);
    for (int64_t p = 0; p < k || p == 0; p += k_block) {
      const int64_t kb = std::min(k_block, k - p);
      if (columns) {
        add_columns(a + p, b + p + j * b_col, b_col, kb, w, sum);
      } else {
        std::fill_n(sum, w, 0.0f);
        add_rows(a + p * a_col, a_col, b + p * b_row + j, b_row, kb, w, sum);
      }
      const bool last = p + kb >= k;
      for (int64_t i = 0; i < w; ++i) {
        float x = p > 0 ? c[j + i] + sum[i] : sum[i];
        if (last && bias) x += bias[j + i];
        c[j + i] = x;
      }
    }
  }
  return true;
}

}  // namespace pyflame::cpu::micro
