// cross_entropy of class indices over rows of logits, its gradient, and nll_loss. x is
// (N, classes), target N integers, weight of x's dtype. `reduction` is one of Reduction. A loss has
// N elements or, reduced, one; `total` is the weight of all rows that count.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

// stats (N, 2): maximum, 1 / sum of exp(x - maximum). Logits of 16 bits may have a loss of float32.
// Who has not had the classes checked says that this one does (CallOptions::indices).
struct CrossEntropy {
  static constexpr KernelInfo kInfo{"cross_entropy", Anchor::Rowwise, 3, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T loss, stats, total;
    T x, target, weight{};
  };
  template <class T>
  struct Numbers {
    T ignore, smoothing, reduction;
  };
};

struct CrossEntropyBackward {
  static constexpr KernelInfo kInfo{"cross_entropy_backward", Anchor::Rowwise, 1, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T dx;
    T dloss, x, target, stats, total, weight{};
  };
  template <class T>
  using Numbers = CrossEntropy::Numbers<T>;
};

// Both at once, where the gradient of the loss is known.
struct CrossEntropyBoth {
  static constexpr KernelInfo kInfo{"cross_entropy_both", Anchor::Rowwise, 4, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T dx, loss, stats, total;
    T x, target, weight{}, dloss;
  };
  template <class T>
  using Numbers = CrossEntropy::Numbers<T>;
};

// Looks whether there are such classes, so that CrossEntropy may wait where an error is its call's.
struct CheckClasses {
  static constexpr KernelInfo kInfo{"check_classes", Anchor::General, 0, Layout::RowMajor,
                                    Indices::Classes};
  template <class T>
  struct Tensors {
    T target;
  };
  template <class T>
  struct Numbers {
    T classes, ignore;
  };
};

// x: logarithms of probabilities. A class of weight 0 does not count even where its entry is
// infinite.
struct NllLoss {
  static constexpr KernelInfo kInfo{"nll_loss", Anchor::Rowwise, 2, Layout::RowMajor,
                                    Indices::Classes};
  template <class T>
  struct Tensors {
    T loss, total;
    T x, target, weight{};
  };
  template <class T>
  struct Numbers {
    T ignore, reduction;
  };
};

}  // namespace pyflame::kernels
