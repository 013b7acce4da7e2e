// Running sums, products, logarithms of sums of exponentials, and extremes along one dimension.
// Any strides; the two results of extremes lie alike.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

struct Cumsum {
  static constexpr KernelInfo kInfo{"cumsum", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out;
    T x;
  };
  template <class T>
  struct Numbers {
    T dim, backwards;  // from the last element to the first
  };
};
struct Cumprod : Cumsum {
  static constexpr KernelInfo kInfo{"cumprod", Anchor::General, 1};
};
struct LogCumsumExp : Cumsum {
  static constexpr KernelInfo kInfo{"logcumsumexp", Anchor::General, 1};
};

// The last of equals counts; NaN wins.
struct CumExtreme {
  static constexpr KernelInfo kInfo{"cumextreme", Anchor::General, 2};
  template <class T>
  struct Tensors {
    T values, indices;
    T x;
  };
  template <class T>
  struct Numbers {
    T dim, smallest;
  };
};

}  // namespace pyflame::kernels
