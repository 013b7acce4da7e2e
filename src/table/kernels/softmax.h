// softmax and log_softmax over the last dimension, and their gradients.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

struct Softmax {
  static constexpr KernelInfo kInfo{"softmax", Anchor::Rowwise, 1, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T y, x;
  };
  template <class T>
  using Numbers = None<T>;
};
struct LogSoftmax : Softmax {
  static constexpr KernelInfo kInfo{"log_softmax", Anchor::Rowwise, 1, Layout::RowMajor};
};

struct SoftmaxBackward {
  static constexpr KernelInfo kInfo{"softmax_backward", Anchor::Rowwise, 1, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T dx, dy, y;
  };
  template <class T>
  using Numbers = None<T>;
};
struct LogSoftmaxBackward : SoftmaxBackward {
  static constexpr KernelInfo kInfo{"log_softmax_backward", Anchor::Rowwise, 1, Layout::RowMajor};
};

}  // namespace pyflame::kernels
