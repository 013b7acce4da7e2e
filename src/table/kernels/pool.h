// The largest elements, or averages, of windows over three dimensions of space. x is dense, [outer,
// in_d, in_h, in_w, inner] in the order of its memory, y [outer, out_d, out_h, out_w, inner]; none
// of the numbers of elements is 0. Window i of a dimension takes `kernel` elements `dilation` apart
// from i
// * stride - padding on, as far as they are inside; or, `adaptive`, those from floor(i * in / out)
// to ceil((i + 1) * in / out). A NaN is larger than anything, and of equals the first is taken.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

// `index` says where the largest one is: in bytes the number of the tap in the window, as int64 the
// place in the space of x.
struct PoolMax {
  static constexpr KernelInfo kInfo{"pool_max", Anchor::General, 2};
  template <class T>
  struct Tensors {
    T y, index;
    T x;
  };
  template <class T>
  struct Numbers {
    T outer, in_d, in_h, in_w, inner, out_d, out_h, out_w;
    T kernel_d, kernel_h, kernel_w, stride_d, stride_h, stride_w;
    T padding_d, padding_h, padding_w, dilation_d, dilation_h, dilation_w, adaptive;
    T counts_padding, divisor;  // of averages: what a sum is divided by, the latter if not 0
  };
};
// The largest ones alone.
struct PoolMaxValues {
  static constexpr KernelInfo kInfo{"pool_max_values", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T y;
    T x;
  };
  template <class T>
  using Numbers = PoolMax::Numbers<T>;
};
// Its gradient: each element of x has the sum of what the windows got whose largest it was.
struct PoolMaxInput {
  static constexpr KernelInfo kInfo{"pool_max_input", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T dx;
    T dy, index;
  };
  template <class T>
  using Numbers = PoolMax::Numbers<T>;
};
// And the gradient of that: what stands at the places.
struct PoolMaxPick {
  static constexpr KernelInfo kInfo{"pool_max_pick", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T y;
    T x, index;
  };
  template <class T>
  using Numbers = PoolMax::Numbers<T>;
};

struct PoolAverage {
  static constexpr KernelInfo kInfo{"pool_average", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T y;
    T x;
  };
  template <class T>
  using Numbers = PoolMax::Numbers<T>;
};
struct PoolAverageInput {
  static constexpr KernelInfo kInfo{"pool_average_input", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T dx;
    T dy;
  };
  template <class T>
  using Numbers = PoolMax::Numbers<T>;
};

}  // namespace pyflame::kernels
