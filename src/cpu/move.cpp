#include "cpu/move.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "cpu/strided.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace pyflame::cpu {
namespace {

template <class F>
void by_size(int bytes, F&& fn) {
  switch (bytes) {
    case 1:
      fn(uint8_t{});
      break;
    case 2:
      fn(uint16_t{});
      break;
    case 4:
      fn(uint32_t{});
      break;
    case 8:
      fn(uint64_t{});
      break;
    default:
      fn(Bytes16{});
      break;
  }
}

// dst[c * ds + r] = src[r * ss + c] for a square whose side fills 32 bytes.
template <class T>
inline constexpr int64_t kSide = 1;
#if defined(__AVX2__)
template <>
inline constexpr int64_t kSide<uint32_t> = 8;
template <>
inline constexpr int64_t kSide<uint64_t> = 4;

inline void transpose_square(uint32_t* dst, int64_t ds, const uint32_t* src, int64_t ss) {
  const float* s = reinterpret_cast<const float*>(src);
  __m256 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(s + i * ss);
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  for (int h = 0; h < 2; ++h) {
    r[4 * h] = _mm256_shuffle_ps(t[4 * h], t[4 * h + 2], 0x44);
    r[4 * h + 1] = _mm256_shuffle_ps(t[4 * h], t[4 * h + 2], 0xee);
    r[4 * h + 2] = _mm256_shuffle_ps(t[4 * h + 1], t[4 * h + 3], 0x44);
    r[4 * h + 3] = _mm256_shuffle_ps(t[4 * h + 1], t[4 * h + 3], 0xee);
  }
  float* d = reinterpret_cast<float*>(dst);
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(d + i * ds, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(d + (i + 4) * ds, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}
inline void transpose_square(uint64_t* dst, int64_t ds, const uint64_t* src, int64_t ss) {
  const double* s = reinterpret_cast<const double*>(src);
  __m256d r[4], t[4];
  for (int i = 0; i < 4; ++i) r[i] = _mm256_loadu_pd(s + i * ss);
  t[0] = _mm256_unpacklo_pd(r[0], r[1]);
  t[1] = _mm256_unpackhi_pd(r[0], r[1]);
  t[2] = _mm256_unpacklo_pd(r[2], r[3]);
  t[3] = _mm256_unpackhi_pd(r[2], r[3]);
  double* d = reinterpret_cast<double*>(dst);
  for (int i = 0; i < 2; ++i) {
    _mm256_storeu_pd(d + i * ds, _mm256_permute2f128_pd(t[i], t[i + 2], 0x20));
    _mm256_storeu_pd(d + (i + 2) * ds, _mm256_permute2f128_pd(t[i], t[i + 2], 0x31));
  }
}
inline void transpose_small(uint32_t* dst, int64_t ds, const uint32_t* src, int64_t ss) {
  const float* s = reinterpret_cast<const float*>(src);
  __m128 r[4];
  for (int i = 0; i < 4; ++i) r[i] = _mm_loadu_ps(s + i * ss);
  _MM_TRANSPOSE4_PS(r[0], r[1], r[2], r[3]);
  for (int i = 0; i < 4; ++i) _mm_storeu_ps(reinterpret_cast<float*>(dst) + i * ds, r[i]);
}
#endif

// dst[c * ds + r] = src[r * ss + c] for r < nr, c < nc: rows of the source are contiguous.
template <class T>
void transpose(T* dst, int64_t ds, const T* src, int64_t ss, int64_t nr, int64_t nc) {
  // In squares; the last one of a line may do again what the one before it did.
  [[maybe_unused]] const auto in_squares = [&](int64_t side, auto&& square) {
    for (int64_t r = 0;; r = std::min(r + side, nr - side)) {
      for (int64_t c = 0;; c = std::min(c + side, nc - side)) {
        square(dst + c * ds + r, ds, src + r * ss + c, ss);
        if (c + side == nc) break;
      }
      if (r + side == nr) break;
    }
  };
#if defined(__AVX2__)
  const int64_t least = std::min(nr, nc);
  if constexpr (kSide < T >> 1)
    if (least >= kSide<T>) return in_squares(kSide<T>, [](auto... a) { transpose_square(a...); });
  if constexpr (sizeof(T) == 4)
    if (least >= 4) return in_squares(4, [](auto... a) { transpose_small(a...); });
#endif
  for (int64_t r = 0; r < nr; ++r)
    for (int64_t c = 0; c < nc; ++c) dst[c * ds + r] = src[r * ss + c];
}

template <class T>
void copy_row(T* dst, const T* src, int64_t n) {
  if (n >= 16) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i];
  }
}
// dst[r * n + c] = src[r * step]. Whole vectors, whose last one the next row writes over.
template <class T>
void spread_rows(T* dst, const T* src, int64_t rows, int64_t n, int64_t step) {
  int64_t r = 0;
#if defined(__AVX2__)
  constexpr auto kLanes = static_cast<int64_t>(32 / sizeof(T));
  for (; n >= kLanes / 2 && (r + 1) * n + kLanes <= rows * n; ++r) {
    T many[32 / sizeof(T)];
    std::fill_n(many, kLanes, src[r * step]);
    __m256i v;
    std::memcpy(&v, many, 32);
    T* to = dst + r * n;
    for (int64_t c = 0; c < n; c += kLanes)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + c), v);
  }
#endif
  for (; r < rows; ++r) std::fill_n(dst + r * n, n, src[r * step]);
}
// 64-byte aligned destination and size.
inline void stream_row(char* dst, const char* src, int64_t bytes) {
#if defined(__AVX2__)
  for (int64_t i = 0; i < bytes; i += 64) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + i));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + i + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(dst + i), a);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(dst + i + 32), b);
  }
#else
  std::memcpy(dst, src, static_cast<size_t>(bytes));
#endif
}

}  // namespace

void gather_box(void* dst_, const void* src_, int bytes, int64_t nr, int64_t nc, int64_t rs,
                int64_t cs) {
  by_size(bytes, [&]<class T>(T) {
    T* dst = static_cast<T*>(dst_);
    const T* src = static_cast<const T*>(src_);
    if (cs == 1) {
      for (int64_t r = 0; r < nr; ++r) copy_row(dst + r * nc, src + r * rs, nc);
    } else if (cs == 0) {
      spread_rows(dst, src, nr, nc, rs);
    } else if (rs == 1 && nr > 1) {
      transpose(dst, nc, src, cs, nc, nr);
    } else {
      for (int64_t r = 0; r < nr; ++r)
        for (int64_t c = 0; c < nc; ++c) dst[r * nc + c] = src[r * rs + c * cs];
    }
  });
}

void scatter_box(void* dst_, const void* src_, int bytes, int64_t nr, int64_t nc, int64_t rs,
                 int64_t cs, bool stream) {
  by_size(bytes, [&]<class T>(T) {
    T* dst = static_cast<T*>(dst_);
    const T* src = static_cast<const T*>(src_);
    if (cs == 1) {
      const int64_t row = nc * static_cast<int64_t>(sizeof(T));
      const bool aligned = reinterpret_cast<uintptr_t>(dst) % 64 == 0 && row % 64 == 0 &&
                           rs * static_cast<int64_t>(sizeof(T)) % 64 == 0;
      for (int64_t r = 0; r < nr; ++r) {
        if (stream && aligned)
          stream_row(reinterpret_cast<char*>(dst + r * rs),
                     reinterpret_cast<const char*>(src + r * nc), row);
        else
          copy_row(dst + r * rs, src + r * nc, nc);
      }
    } else if (rs == 1 && nr > 1) {
      transpose(dst, cs, src, nc, nr, nc);
    } else {
      for (int64_t r = 0; r < nr; ++r)
        for (int64_t c = 0; c < nc; ++c) dst[r * rs + c * cs] = src[r * nc + c];
    }
  });
}

void splat_element(void* slot, const void* src, int bytes) {
  by_size(bytes, [&]<class T>(T) {
    T v;
    std::memcpy(&v, src, sizeof(T));
    T* d = static_cast<T*>(slot);
    for (size_t i = 0; i < 64 / sizeof(T); ++i) d[i] = v;
  });
}

void finish_streaming() {
#if defined(__AVX2__)
  _mm_sfence();
#endif
}

int64_t streaming_threshold() {
  static const int64_t bytes = [] {
    long l3 = -1;
#ifdef _SC_LEVEL3_CACHE_SIZE
    l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    if (l3 <= 0) l3 = 32 << 20;
    return std::clamp<int64_t>(l3 / 2, 4 << 20, 64 << 20);
  }();
  return bytes;
}

}  // namespace pyflame::cpu
