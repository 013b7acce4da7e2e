// Geometry of a tensor as kernels get it.
#pragma once

#include "pyflame/backend.h"

namespace pyflame {

inline int64_t numel(const pf_tensor& t) {
  int64_t n = 1;
  for (int i = 0; i < t.ndim; ++i) n *= t.shape[i];
  return n;
}

// Row-major, without gaps.
inline bool contiguous(const pf_tensor& t) {
  int64_t step = 1;
  for (int i = t.ndim - 1; i >= 0; --i) {
    if (t.shape[i] == 0) return true;
    if (t.shape[i] != 1) {
      if (t.strides[i] != step) return false;
      step *= t.shape[i];
    }
  }
  return true;
}

}  // namespace pyflame
