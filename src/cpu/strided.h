// Walking over strided tensors, and values converted through their compute type.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cpu/kernel.h"

namespace pyflame::cpu {

template <class T>
using Compute = ComputeType<T>;

template <class T>
inline constexpr bool kIsFloat = kIsFloatType<T>;

template <class T>
inline Compute<T> load(T v) {
  if constexpr (kIsHalf<T>)
    return to_float(v);
  else
    return v;
}
template <class T, class C>
inline T store(C v) {
  if constexpr (std::is_same_v<T, float16>)
    return to_float16(static_cast<float>(v));
  else if constexpr (std::is_same_v<T, bfloat16>)
    return to_bfloat16(static_cast<float>(v));
  else if constexpr (std::is_same_v<T, bool8>)
    return v != C(0);
  else
    return static_cast<T>(v);
}
// A scalar attribute as a compute value.
template <class T>
inline Compute<T> scalar(const pf_scalar& s) {
  if constexpr (kIsFloat<T>)
    return static_cast<Compute<T>>(s.f);
  else if constexpr (std::is_same_v<T, bool8>)
    return s.i != 0 || s.f != 0;
  else
    return static_cast<T>(s.i);
}

// An element moved without looking at it. Kernels that only move data are instantiated by size.
struct Bytes16 {
  uint64_t a, b;
};
template <class F>
void dispatch_size(DType t, F&& fn) {
  switch (itemsize(t)) {
    case 1:
      fn.template operator()<uint8_t>();
      break;
    case 2:
      fn.template operator()<uint16_t>();
      break;
    case 4:
      fn.template operator()<uint32_t>();
      break;
    case 8:
      fn.template operator()<uint64_t>();
      break;
    default:
      fn.template operator()<Bytes16>();
      break;
  }
}

// Row-major walk over `shape` that keeps the element offset for up to N stride vectors.
template <int N>
class Walker {
 public:
  // Walks the first `ndim` dimensions of `shape`, starting at row-major position `start`.
  Walker(int ndim, const int64_t* shape, const int64_t* const* strides, int64_t start = 0)
      : ndim_(ndim) {
    for (int d = 0; d < ndim; ++d) {
      shape_[d] = shape[d];
      for (int k = 0; k < N; ++k) strides_[k][d] = strides[k][d];
    }
    for (int k = 0; k < N; ++k) offset[k] = 0;
    for (int d = ndim - 1; d >= 0; --d) {
      int64_t s = shape_[d] > 0 ? shape_[d] : 1;
      at[d] = start % s;
      start /= s;
      for (int k = 0; k < N; ++k) offset[k] += at[d] * strides_[k][d];
    }
  }
  void next() {
    for (int d = ndim_ - 1; d >= 0; --d) {
      if (++at[d] < shape_[d]) {
        for (int k = 0; k < N; ++k) offset[k] += strides_[k][d];
        return;
      }
      for (int k = 0; k < N; ++k) offset[k] -= strides_[k][d] * (shape_[d] - 1);
      at[d] = 0;
    }
  }
  int64_t offset[N];
  int64_t at[PF_MAX_DIMS];

 private:
  int ndim_;
  int64_t shape_[PF_MAX_DIMS];
  int64_t strides_[N][PF_MAX_DIMS];
};

inline Walker<1> walk(const pf_tensor& t, int64_t start = 0) {
  const int64_t* s[1] = {t.strides};
  return Walker<1>(t.ndim, t.shape, s, start);
}

// Elements that one thread should get at least, for kernels that move or compare.
inline constexpr int64_t kGrain = 16384;

// A geometry with neighbouring dimensions merged where all N stride vectors allow it.
template <int N>
struct Folded {
  int ndim = 0;
  int64_t shape[PF_MAX_DIMS];
  int64_t strides[N][PF_MAX_DIMS];

  Folded(int n, const int64_t* sizes, const int64_t* const* steps) {
    for (int d = 0; d < n; ++d) {
      if (sizes[d] == 1) continue;
      if (ndim > 0) {
        bool joins = true;
        for (int k = 0; k < N; ++k) joins = joins && strides[k][ndim - 1] == steps[k][d] * sizes[d];
        if (joins) {
          shape[ndim - 1] *= sizes[d];
          for (int k = 0; k < N; ++k) strides[k][ndim - 1] = steps[k][d];
          continue;
        }
      }
      shape[ndim] = sizes[d];
      for (int k = 0; k < N; ++k) strides[k][ndim] = steps[k][d];
      ++ndim;
    }
  }
};

}  // namespace pyflame::cpu
