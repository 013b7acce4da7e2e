// Packing of operands into panels: dst[p * width + i] for k index p and panel row i, converted to
// the type of the accumulation. Padding rows become zero.
#include <cstring>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "cpu/gemm_own.h"

namespace pyflame::cpu::micro {
namespace {

inline float widen(float x) {
  return x;
}
inline double widen(double x) {
  return x;
}
inline float widen(bfloat16 x) {
  uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}
#ifdef __F16C__
inline float widen(float16 x) {
  return _cvtsh_ss(x.bits);
}
#else
inline float widen(float16 x) {
  return to_float(x);
}
#endif

#ifdef __AVX2__
inline __m256 load8(const float* p) {
  return _mm256_loadu_ps(p);
}
inline __m256 load8(const bfloat16* p) {
  __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
#ifdef __F16C__
inline __m256 load8(const float16* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
#endif

// Four rows of eight k steps: transposed in the two halves, written as eight groups of four.
template <class S>
inline void transpose_4x8(const S* s, int64_t row, float* d, int64_t width) {
  __m256 r0 = load8(s), r1 = load8(s + row), r2 = load8(s + 2 * row), r3 = load8(s + 3 * row);
  __m256 a = _mm256_unpacklo_ps(r0, r1), b = _mm256_unpackhi_ps(r0, r1);
  __m256 c = _mm256_unpacklo_ps(r2, r3), e = _mm256_unpackhi_ps(r2, r3);
  __m256 t0 = _mm256_shuffle_ps(a, c, 0x44), t1 = _mm256_shuffle_ps(a, c, 0xee);
  __m256 t2 = _mm256_shuffle_ps(b, e, 0x44), t3 = _mm256_shuffle_ps(b, e, 0xee);
  _mm_storeu_ps(d, _mm256_castps256_ps128(t0));
  _mm_storeu_ps(d + width, _mm256_castps256_ps128(t1));
  _mm_storeu_ps(d + 2 * width, _mm256_castps256_ps128(t2));
  _mm_storeu_ps(d + 3 * width, _mm256_castps256_ps128(t3));
  d += 4 * width;
  _mm_storeu_ps(d, _mm256_extractf128_ps(t0, 1));
  _mm_storeu_ps(d + width, _mm256_extractf128_ps(t1, 1));
  _mm_storeu_ps(d + 2 * width, _mm256_extractf128_ps(t2, 1));
  _mm_storeu_ps(d + 3 * width, _mm256_extractf128_ps(t3, 1));
}
#endif

template <class S, class T>
void pack_any(const S* src, int64_t row, int64_t col, int rows, int64_t k, int64_t width, T* dst) {
  int done = 0;
  if (row == 1) {
    for (int64_t p = 0; p < k; ++p) {
      const S* s = src + p * col;
      T* d = dst + p * width;
      for (int i = 0; i < rows; ++i) d[i] = widen(s[i]);
    }
    done = rows;
  }
#ifdef __AVX2__
  if constexpr (sizeof(T) == sizeof(float)) {
    if (col == 1) {
      for (; done + 4 <= rows; done += 4) {
        const S* s = src + done * row;
        int64_t p = 0;
        for (; p + 8 <= k; p += 8) transpose_4x8(s + p, row, dst + p * width + done, width);
        for (; p < k; ++p)
          for (int i = 0; i < 4; ++i) dst[p * width + done + i] = widen(s[i * row + p]);
      }
    }
  }
#endif
  for (; done < rows; ++done) {
    const S* s = src + done * row;
    for (int64_t p = 0; p < k; ++p) dst[p * width + done] = widen(s[p * col]);
  }
}
template <class S, class T>
void pack_whole(const S* src, int64_t row, int64_t col, int rows, int64_t k, int width, T* dst) {
  pack_any(src, row, col, rows, k, width, dst);
  if (rows < width)
    for (int64_t p = 0; p < k; ++p)
      for (int i = rows; i < width; ++i) dst[p * width + i] = T(0);
}

}  // namespace

void turn(const float* src, int64_t row, int rows, int64_t k, int64_t width, float* dst) {
  pack_any(src, row, 1, rows, k, width, dst);
}
void turn(const double* src, int64_t row, int rows, int64_t k, int64_t width, double* dst) {
  pack_any(src, row, 1, rows, k, width, dst);
}

void pack(const float* src, int64_t row, int64_t col, int rows, int64_t k, int width, float* dst) {
  pack_whole(src, row, col, rows, k, width, dst);
}
void pack(const double* src, int64_t row, int64_t col, int rows, int64_t k, int width,
          double* dst) {
  pack_whole(src, row, col, rows, k, width, dst);
}
void pack(const bfloat16* src, int64_t row, int64_t col, int rows, int64_t k, int width,
          float* dst) {
  pack_whole(src, row, col, rows, k, width, dst);
}
void pack(const float16* src, int64_t row, int64_t col, int rows, int64_t k, int width,
          float* dst) {
  pack_whole(src, row, col, rows, k, width, dst);
}
void pack(const int8_t* src, int64_t row, int64_t col, int rows, int64_t k, int width,
          int32_t* dst) {
  const auto pair = [](int8_t low, int8_t high) {
    return static_cast<int32_t>((static_cast<uint32_t>(low) & 0xffff) | static_cast<uint32_t>(high)
                                                                            << 16);
  };
  for (int64_t p = 0; p < k; p += 2, dst += width) {
    const int8_t *s = src + p * col, *t = s + col;
    if (p + 1 == k)
      for (int i = 0; i < rows; ++i) dst[i] = pair(s[i * row], 0);
    else if (row == 1)
      for (int i = 0; i < rows; ++i) dst[i] = pair(s[i], t[i]);
    else
      for (int i = 0; i < rows; ++i) dst[i] = pair(s[i * row], t[i * row]);
    for (int i = rows; i < width; ++i) dst[i] = 0;
  }
}

void store(const float* src, int64_t n, bfloat16* dst) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, src + i, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40;
    dst[i].bits = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
  }
}
void store(const float* src, int64_t n, float16* dst) {
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i < n; ++i) dst[i] = to_float16(src[i]);
}

}  // namespace pyflame::cpu::micro
