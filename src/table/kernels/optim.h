// Steps of optimizers, norms and clipping over lists of contiguous tensors, in place. Tensors have
// names where there is one of them; arrays of a list stand one behind the other, each with one
// tensor for each of `count` parameters.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

// Arrays: parameters, momentum buffers (where momentum is not 0), gradients.
struct Sgd {
  static constexpr KernelInfo kInfo{"sgd", Anchor::MultiTensor, kLists};
  template <class T>
  using Tensors = None<T>;
  template <class T>
  struct Numbers {
    T count, lr, momentum, dampening, weight_decay, nesterov, maximize, first_step;
  };
};

// Arrays: parameters, averages, averages of squares, their maxima (where amsgrad), gradients.
struct AdamW {
  static constexpr KernelInfo kInfo{"adamw", Anchor::MultiTensor, kLists};
  template <class T>
  using Tensors = None<T>;
  template <class T>
  struct Numbers {
    T count, lr, beta1, beta2, eps, weight_decay, step, decoupled, maximize, amsgrad;
  };
};

// The norm, float32 or float64, of all elements of the tensors behind it.
struct MultiNorm {
  static constexpr KernelInfo kInfo{"multi_norm", Anchor::MultiTensor, 1};
  template <class T>
  struct Tensors {
    T norm;
  };
  template <class T>
  struct Numbers {
    T p;
  };
};

// Scales tensors by min(1, most / (norm + 1e-6)); the norm is the last tensor.
struct MultiClipNorm {
  static constexpr KernelInfo kInfo{"multi_clip_norm", Anchor::MultiTensor, kLists};
  template <class T>
  using Tensors = None<T>;
  template <class T>
  struct Numbers {
    T most;
  };
};

// Clamps tensors to [-bound, bound]; NaN stays.
struct MultiClipValue {
  static constexpr KernelInfo kInfo{"multi_clip_value", Anchor::MultiTensor, kLists};
  template <class T>
  using Tensors = None<T>;
  template <class T>
  struct Numbers {
    T bound;
  };
};

// Whether (bool) an element of the tensors behind it is NaN or infinite.
struct MultiNonfinite {
  static constexpr KernelInfo kInfo{"multi_nonfinite", Anchor::MultiTensor, 1};
  template <class T>
  struct Tensors {
    T found;
  };
  template <class T>
  using Numbers = None<T>;
};

}  // namespace pyflame::kernels
