// One row times a matrix: bound by reading the matrix, so it is read once, in the order in which
// it lies. Rows of it are added one after the other, as the tiled product does; of columns that lie
// along k, sixteen interleaved sums are kept: sixteen of them at once would collide in the cache.
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

// Dot products of a with R columns of b.
template <int R>
void dots(const float* a, const float* b, int64_t b_col, int64_t k, float* out) {
  float lanes[R][16] = {};
  int64_t p = 0;
#ifdef __AVX2__
  __m256 low[R], high[R];
  for (int r = 0; r < R; ++r) low[r] = high[r] = _mm256_setzero_ps();
  for (; p + 16 <= k; p += 16) {
    const __m256 a0 = _mm256_loadu_ps(a + p), a1 = _mm256_loadu_ps(a + p + 8);
    for (int r = 0; r < R; ++r) {
      low[r] = _mm256_fmadd_ps(a0, _mm256_loadu_ps(b + r * b_col + p), low[r]);
      high[r] = _mm256_fmadd_ps(a1, _mm256_loadu_ps(b + r * b_col + p + 8), high[r]);
    }
  }
  for (int r = 0; r < R; ++r) {
    _mm256_storeu_ps(lanes[r], low[r]);
    _mm256_storeu_ps(lanes[r] + 8, high[r]);
  }
#endif
  for (; p < k; ++p)
    for (int r = 0; r < R; ++r)
      lanes[r][p % 16] = std::fma(a[p], b[r * b_col + p], lanes[r][p % 16]);
  for (int r = 0; r < R; ++r) {
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) lanes[r][i] += lanes[r][i + half];
    out[r] = lanes[r][0];
  }
}

void add_bias(float* c, const float* bias, int64_t n) {
  if (bias)
    for (int64_t i = 0; i < n; ++i) c[i] += bias[i];
}

}  // namespace

bool one_row(const float* a, int64_t a_col, const float* b, int64_t b_row, int64_t b_col, int64_t k,
             int64_t k_block, int64_t n, const float* bias, float* c) {
  if (b_row == 1 && a_col == 1) {
    int64_t j = 0;
    for (; j + 4 <= n; j += 4) dots<4>(a, b + j * b_col, b_col, k, c + j);
    for (; j < n; ++j) dots<1>(a, b + j * b_col, b_col, k, c + j);
    add_bias(c, bias, n);
    return true;
  }
  if (b_col != 1) return false;
  constexpr int64_t kChunk = 1024;
  float sum[kChunk];
  for (int64_t j = 0; j < n; j += kChunk) {
    const int64_t w = std::min(kChunk, n - j);
    for (int64_t p = 0; p < k; p += k_block) {
      std::fill_n(sum, w, 0.0f);
      add_rows(a + p * a_col, a_col, b + p * b_row + j, b_row, std::min(k_block, k - p), w, sum);
      for (int64_t i = 0; i < w; ++i) c[j + i] = p > 0 ? c[j + i] + sum[i] : sum[i];
    }
    add_bias(c + j, bias ? bias + j : nullptr, w);
  }
  return true;
}

}  // namespace pyflame::cpu::micro
