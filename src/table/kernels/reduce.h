// Reductions over any dimensions: bit d of `dims` says that dimension d of x is reduced. x has any
// strides, results are contiguous.
#pragma once

#include "core/kernel_numbers.h"
#include "table/kernel.h"

namespace pyflame::kernels {

// Of floating-point numbers: sums of what `kind` (SumKind) makes of an element, divided by
// `divisor`. `mean` is of differences, has x's rank and 1 for what is reduced. Where x has 16 bits
// and the differences (`out`, then `mean`) are float32, it is as if x were float32. On GPUs a plain
// sum of 16 bits may be float32, too: it is not rounded then.
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

// Several of them at once, of one x, each as it would be alone (a rule of engine/rules.cpp): Plain,
// Differences, and the Spread about these, each with its divisor. `differences` is 1 where x is
// reduced, as `mean` is.
struct Moments {
  static constexpr KernelInfo kInfo{"moments", Anchor::Reduce, 3};
  template <class T>
  struct Tensors {
    T total{}, differences{}, spread{};
    T x;
  };
  template <class T>
  struct Numbers {
    T dims, total, differences, spread;
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

// Several of these at once, each as it would be alone (a rule of engine/rules.cpp). The tensors
// that they are of have one dtype, shape and strides, results one dtype: of floating-point numbers,
// or extremes of integers. Result a is `what` of which of the tensors, in a number (reduction_of),
// divided by a_by, and so on.
inline constexpr int kMostReductions = 4;
// Beside those of SumKind that have no differences.
inline constexpr SumKind kProduct{5}, kLargest{6}, kSmallest{7};
struct Reductions {
  static constexpr KernelInfo kInfo{"reductions", Anchor::Reduce, kMostReductions};
  template <class T>
  struct Tensors {
    T a{}, b{}, c{}, d{};
    T x, y{}, z{}, w{};
  };
  template <class T>
  struct Numbers {
    T dims, a, b, c, d, a_by, b_by, c_by, d_by;
  };
};
constexpr int64_t reduction_of(SumKind what, int tensor) {
  return static_cast<int64_t>(what) * kMostReductions + tensor;
}
constexpr SumKind what_of(int64_t reduction) {
  return SumKind{reduction / kMostReductions};
}
constexpr int tensor_of(int64_t reduction) {
  return static_cast<int>(reduction % kMostReductions);
}

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
