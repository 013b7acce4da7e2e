// Fourier transforms of contiguous complex tensors. `dims` has a bit for each dimension that is
// transformed; all terms are multiplied by `scale`.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

struct Fft {
  static constexpr KernelInfo kInfo{"fft", Anchor::General, 1, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T y;
    T x;
  };
  template <class T>
  struct Numbers {
    T dims, inverse, scale;
  };
};

// Of real numbers along the last dimension, n of them: the first n / 2 + 1 terms.
struct Rfft {
  static constexpr KernelInfo kInfo{"rfft", Anchor::General, 1, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T y;
    T x;
  };
  template <class T>
  struct Numbers {
    T scale;
  };
};
// The reverse: n real numbers of n / 2 + 1 terms.
struct Irfft : Rfft {
  static constexpr KernelInfo kInfo{"irfft", Anchor::General, 1, Layout::RowMajor};
};

}  // namespace pyflame::kernels
