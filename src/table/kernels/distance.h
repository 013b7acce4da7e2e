// Distances between all pairs of rows, of x1 [batch, p, m] and x2 [batch, r, m], for the norms 0,
// 1, 2 and inf. Distances are [batch, p, r], or, for a `triangle`, of x1's own pairs those with j >
// i, in one dimension.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

struct Distances {
  static constexpr KernelInfo kInfo{"distances", Anchor::General, 1, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T out;
    T x1, x2;
  };
  template <class T>
  struct Numbers {
    T p, triangle;
  };
};

// The gradient of x1, row-major as x2. The distances and their gradient have any strides.
struct DistancesBackward {
  static constexpr KernelInfo kInfo{"distances_backward", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T dx;
    T x1, x2, dout, out;
  };
  template <class T>
  using Numbers = Distances::Numbers<T>;
};

}  // namespace pyflame::kernels
