// Values of images at places of a grid (kernels/grid_place.h). x is [n, c, in_d, in_h, in_w], of
// which the depth may be 1 and missing (`dims` 2), dense, and with `beside` channels-last; y and dy
// are [n, c, points] and lie as it does. grid is [n, points, dims], row-major, the last dimension
// of space first. None of the numbers is 0.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

struct GridSample {
  static constexpr KernelInfo kInfo{"grid_sample", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T y;
    T x, grid;
  };
  template <class T>
  struct Numbers {
    T n, c, points, in_d, in_h, in_w;
    T dims, mode, padding, align, beside;
  };
};
// The gradient of the grid.
struct GridSampleGrid {
  static constexpr KernelInfo kInfo{"grid_sample_grid", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T dgrid;
    T dy, x, grid;
  };
  template <class T>
  using Numbers = GridSample::Numbers<T>;
};
// The gradient of x, in what sums of its dtype are in.
struct GridSampleInput {
  static constexpr KernelInfo kInfo{"grid_sample_input", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T dx;
    T dy, grid;
  };
  template <class T>
  using Numbers = GridSample::Numbers<T>;
};

}  // namespace pyflame::kernels
