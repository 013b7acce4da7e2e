// Products of matrices: out[..., m, n] = a[..., m, k] b[..., k, n] + bias[n], rounded once. Batch
// dimensions broadcast. No operand is copied: a and b have any strides, and numbers say whether
// they are given transposed; out and bias are contiguous. out has the operands' dtype, or int32
// where they have int8; on GPUs also float32 where they have 16 bits.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

struct Matmul {
  static constexpr KernelInfo kInfo{"matmul", Anchor::Library, 1};
  template <class T>
  struct Tensors {
    T out;
    T a, b, bias{};
  };
  template <class T>
  struct Numbers {
    T a_transposed, b_transposed;
  };
};

// y = layer_norm(x) of one row, and its product with b, where a device makes them at once: tensors
// and numbers of both (table/kernels/norm.h; `scale` and `shift` are the norm's weight and bias).
// Columns of the result from `first` on may also go to a row of `kept`, in place: that which
// `place` names, of whose shape they are (a step of decoding writes keys and values into its
// cache).
struct NormMatmul {
  static constexpr KernelInfo kInfo{"norm_matmul", Anchor::Library, 5};
  template <class T>
  struct Tensors {
    T out, y, mean{}, rstd, kept{};
    T x, scale{}, shift{}, b, bias{}, place{};
  };
  template <class T>
  struct Numbers {
    T length, eps, b_transposed, first;
  };
};
struct RmsNormMatmul : NormMatmul {
  static constexpr KernelInfo kInfo{"rms_norm_matmul", Anchor::Library, 5};
};

}  // namespace pyflame::kernels
