// Reductions over any dimensions: bit d of `dims` says that dimension d of x is reduced. x has any
// strides, results are contiguous.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

// Of floating-point numbers: sums of what `kind` (SumKind) makes of an element, divided by
// `divisor`. `mean` is of differences, has x's rank and 1 for what is reduced.
struct Sum {
  static constexpr KernelInfo kInfo{"sum", Anchor::Reduce, 1};
  template <class T>
  struct Tensors {
    T out;
    T x, mean{};
  };
  template <class T>
  struct Numbers {
    T dims, kind, divisor;
  };
};

// Of integers and bool, in int64.
struct SumInt {
  static constexpr KernelInfo kInfo{"sum_int", Anchor::Reduce, 1};
  template <class T>
  struct Tensors {
    T out;
    T x;
  };
  template <class T>
  struct Numbers {
    T dims;
  };
};
// Of integers in int64.
struct Prod : SumInt {
  static constexpr KernelInfo kInfo{"prod", Anchor::Reduce, 1};
};
// NaN wins.
struct Amax : SumInt {
  static constexpr KernelInfo kInfo{"amax", Anchor::Reduce, 1};
};
struct Amin : SumInt {
  static constexpr KernelInfo kInfo{"amin", Anchor::Reduce, 1};
};
struct Any : SumInt {
  static constexpr KernelInfo kInfo{"any", Anchor::Reduce, 1};
};
struct All : SumInt {
  static constexpr KernelInfo kInfo{"all", Anchor::Reduce, 1};
};
struct CountNonzero : SumInt {
  static constexpr KernelInfo kInfo{"count_nonzero", Anchor::Reduce, 1};
};

// Along one dimension: where the first extreme is, or the first NaN.
struct FindExtreme {
  static constexpr KernelInfo kInfo{"find_extreme", Anchor::Reduce, 2};
  template <class T>
  struct Tensors {
    T values{}, indices;
    T x;
  };
  template <class T>
  struct Numbers {
    T dim, largest;
  };
};

}  // namespace pyflame::kernels
