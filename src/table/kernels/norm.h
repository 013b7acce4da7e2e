// layer_norm and rms_norm over rows, and their gradients. A row is `length` elements, the last
// dimensions of x. Statistics are float32, float64 where x is.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

struct LayerNorm {
  static constexpr KernelInfo kInfo{"layer_norm", Anchor::Rowwise, 3, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T y, mean{}, rstd;  // of each row; a mean is two numbers: see cpu/norm.cpp
    T x, weight{}, bias{};
  };
  template <class T>
  struct Numbers {
    T length, eps;
  };
};
// Without mean and bias.
struct RmsNorm : LayerNorm {
  static constexpr KernelInfo kInfo{"rms_norm", Anchor::Rowwise, 3, Layout::RowMajor};
};

struct LayerNormBackward {
  static constexpr KernelInfo kInfo{"layer_norm_backward", Anchor::Rowwise, 3, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T dx, dweight{}, dbias{};
    T dy, x, mean{}, rstd, weight{};
  };
  template <class T>
  struct Numbers {
    T length;
  };
};
struct RmsNormBackward : LayerNormBackward {
  static constexpr KernelInfo kInfo{"rms_norm_backward", Anchor::Rowwise, 3, Layout::RowMajor};
};

}  // namespace pyflame::kernels
