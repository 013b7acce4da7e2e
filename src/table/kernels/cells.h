// Sums over the cells of batch, group and instance norms. Dense tensors are seen as [batch, outer,
// cells, inner] in the order of their memory; the elements of a cell are those of all `outer` and
// `inner`. So channels have cells in both layouts: [1, N, C, HW] and [1, N HW, C, 1]. Results are
// [batch * cells], in float32, float64 where x is; how elements are added follows from the four
// numbers and the dtype. None of them is 0.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

// The mean, and the mean of the squares of what elements differ from it by.
struct CellMoments {
  static constexpr KernelInfo kInfo{"cell_moments", Anchor::Reduce, 2};
  template <class T>
  struct Tensors {
    T mean, var;
    T x;
  };
  template <class T>
  struct Numbers {
    T batch, outer, cells, inner;
  };
};
// Of gradients: their sum, and that of g * (x - mean).
struct CellSums {
  static constexpr KernelInfo kInfo{"cell_sums", Anchor::Reduce, 2};
  template <class T>
  struct Tensors {
    T sum, product;
    T g, x, mean;  // of one dtype the first two, the mean as the results
  };
  template <class T>
  using Numbers = CellMoments::Numbers<T>;
};
// What channels are normalized by, and what their gradient takes: the moments and the sums as
// above, of one batch, with all that follows from them for each cell. So a program over the
// elements can follow in the same window. Backends may have none of the two.
struct CellScales {
  static constexpr KernelInfo kInfo{"cell_scales", Anchor::Cells, 4};
  template <class T>
  struct Tensors {
    T mean, var, rstd, scale;  // 1 / sqrt(var + eps), and that times the weight
    T x;
    T weight = {};  // 1 where it is missing; as the mean
  };
  template <class T>
  struct Numbers {
    T batch, outer, cells, inner, eps;
  };
};
struct CellSlopes {
  static constexpr KernelInfo kInfo{"cell_slopes", Anchor::Cells, 4};
  template <class T>
  struct Tensors {
    T sum, product;  // the latter times rstd
    T shift, slope;  // of the gradient g * scale + (x - mean) * slope + shift
    T g, x, mean, rstd, scale;
  };
  template <class T>
  using Numbers = CellMoments::Numbers<T>;
};
// CellSums of gradients behind a relu, of which those are 0 where bias + (x - mean) * scale,
// rounded to the dtype of x, is not above 0 (or NaN). Backends may have none.
struct GatedCellSums {
  static constexpr KernelInfo kInfo{"gated_cell_sums", Anchor::Reduce, 2};
  template <class T>
  struct Tensors {
    T sum, product;
    T g, x, mean, scale;
    T bias = {};  // 0 where it is missing; both as the mean
  };
  template <class T>
  using Numbers = CellMoments::Numbers<T>;
};

}  // namespace pyflame::kernels
