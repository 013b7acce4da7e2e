// Products of eight-bit floats with scales, and what makes such operands.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

// out [m, n] = a [m, k] b [k, n] * scale_a * scale_b + bias [n]: summed in float32, rounded once.
// a and b are e4m3fn or e5m2; k has stride 1 in both. Scales are float32, dense: one number each,
// or one for each row of a and one for each column of b. bias has out's dtype.
struct ScaledMatmul {
  static constexpr KernelInfo kInfo{"scaled_matmul", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out;
    T a, b, scale_a, scale_b, bias{};
  };
  template <class T>
  struct Numbers {
    T by_row, fast_sums;  // fast_sums: the device may keep fewer bits of its sums (Hopper)
  };
};

// x [m, n] times a scale that makes its largest magnitude the largest number of out's dtype;
// `inverse` takes 1 / scale. The scale is 1 where that magnitude is 0, infinite or NaN. What is
// finite stays finite; infinity becomes NaN where out has none.
struct ToFloat8 {
  static constexpr KernelInfo kInfo{"to_float8", Anchor::General, 3, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T out, turned{}, inverse;  // turned: the same as [n, m]
    T x;
  };
  template <class T>
  struct Numbers {};
};

}  // namespace pyflame::kernels
