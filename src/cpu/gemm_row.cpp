// One row times a matrix: bound by reading the matrix, so it is read once, where it lies. Every
// element is summed in the order of the tiled product: its bits do not depend on how many rows
// there are, nor on which way the matrix lies.
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
// Rows and columns of 8 x 8 floats changed about, up to the last step, which pairs r[i], r[i + 4].
inline void transpose_halves(__m256* r) {
  __m256 t[8];
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
}
inline __m256 first(const __m256* r, int i) {
  return _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
}
inline __m256 second(const __m256* r, int i) {
  return _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
}

// Eight columns of b, each contiguous along k: eight steps of their eight sums.
inline __m256 add_8x8(const float* a, const float* b, int64_t b_col, __m256 s) {
  __m256 r[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(b + i * b_col);
  transpose_halves(r);
  for (int i = 0; i < 4; ++i) s = _mm256_fmadd_ps(_mm256_broadcast_ss(a + i), first(r, i), s);
  for (int i = 0; i < 4; ++i) s = _mm256_fmadd_ps(_mm256_broadcast_ss(a + i + 4), second(r, i), s);
  return s;
}

// Four steps of eight blocks of k elements each: r[i] is step i of all blocks.
inline void load_steps(const float* at, int64_t k, __m256* r) {
  __m256 x[4], t[4];
  for (int i = 0; i < 4; ++i)
    x[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(at + i * k)),
                                _mm_loadu_ps(at + (i + 4) * k), 1);
  for (int i = 0; i < 4; i += 2) {
    t[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    r[2 * i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[2 * i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
  }
}

// The sums of eight consecutive blocks of k steps of one column, side by side. Halves of vectors
// are loaded where they are wanted: 8 shuffles for 32 elements, where whole ones take 12.
inline void add_blocks(const float* a, const float* b, int64_t k, float* sums) {
  __m256 s = _mm256_setzero_ps(), x[4], y[4];
  for (int64_t p = 0; p < k; p += 4) {
    // The next eight blocks, in order of memory: sixteen streams are more than hardware follows.
    for (int64_t i = (p + k) * 8; i < (p + k + 4) * 8; i += 16) {
      _mm_prefetch(reinterpret_cast<const char*>(a + i), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(b + i), _MM_HINT_T0);
    }
    load_steps(a + p, k, x);
    load_steps(b + p, k, y);
    for (int i = 0; i < 4; ++i) s = _mm256_fmadd_ps(x[i], y[i], s);
  }
  _mm256_storeu_ps(sums, s);
}
#endif

// c[j] of n columns contiguous along k, in blocks of k_block steps.
void add_columns(const float* a, const float* b, int64_t b_col, int64_t k, int64_t k_block,
                 int64_t n, float* c) {
  for (int64_t j = 0; j < n; j += 8) {  // more columns at once would collide in the cache
    const float* at = b + j * b_col;
    const int64_t w = std::min<int64_t>(8, n - j);
    int64_t p0 = 0;
    float sum[8];
#ifdef __AVX2__
    __m256 total = _mm256_setzero_ps();
    for (; w == 8 && p0 + 2 * k_block <= k; p0 += 2 * k_block) {  // two chains: two blocks
      __m256 s0 = _mm256_setzero_ps(), s1 = s0;
      for (int64_t p = p0; p < p0 + k_block; p += 8) {
        s0 = add_8x8(a + p, at + p, b_col, s0);
        s1 = add_8x8(a + p + k_block, at + p + k_block, b_col, s1);
      }
      total = p0 > 0 ? _mm256_add_ps(total, s0) : s0;
      total = _mm256_add_ps(total, s1);
    }
    if (p0 > 0) _mm256_storeu_ps(c + j, total);
#endif
    for (; p0 < k; p0 += k_block) {
      const int64_t end = std::min(k, p0 + k_block);
      int64_t p = p0;
      std::fill_n(sum, 8, 0.0f);
#ifdef __AVX2__
      if (w == 8) {
        __m256 s = _mm256_setzero_ps();
        for (; p + 8 <= end; p += 8) s = add_8x8(a + p, at + p, b_col, s);
        _mm256_storeu_ps(sum, s);
      }
#endif
      for (; p < end; ++p)
        for (int64_t i = 0; i < w; ++i) sum[i] = std::fma(a[p], at[i * b_col + p], sum[i]);
      for (int64_t i = 0; i < w; ++i) c[j + i] = p0 > 0 ? c[j + i] + sum[i] : sum[i];
    }
  }
}

// One column contiguous along k.
float dot(const float* a, const float* b, int64_t k, int64_t k_block) {
  float c = 0;
  int64_t p = 0;
#ifdef __AVX2__
  for (; p + 8 * k_block <= k; p += 8 * k_block) {
    float sums[8];
    add_blocks(a + p, b + p, k_block, sums);
    for (int i = 0; i < 8; ++i) c = p + i > 0 ? c + sums[i] : sums[i];
  }
#endif
  for (; p < k; p += k_block) {
    float sum = 0;
    for (int64_t q = p; q < std::min(k, p + k_block); ++q) sum = std::fma(a[q], b[q], sum);
    c = p > 0 ? c + sum : sum;
  }
  return c;
}

void add_bias(float* c, const float* bias, int64_t n) {
  if (bias)
    for (int64_t i = 0; i < n; ++i) c[i] += bias[i];
}

}  // namespace

bool one_row(const float* a, int64_t a_col, const float* b, int64_t b_row, int64_t b_col, int64_t k,
             int64_t k_block, int64_t n, const float* bias, float* c) {
  if (k == 1) {
    if (b_col == 1)
      for (int64_t j = 0; j < n; ++j) c[j] = std::fma(a[0], b[j], 0.0f);
    else
      for (int64_t j = 0; j < n; ++j) c[j] = std::fma(a[0], b[j * b_col], 0.0f);
    add_bias(c, bias, n);
    return true;
  }
  if (b_row == 1 && a_col == 1) {
    if (n == 1)
      c[0] = dot(a, b, k, k_block);
    else
      add_columns(a, b, b_col, k, k_block, n, c);
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
