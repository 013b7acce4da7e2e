// Steps of optimizers, norms and clipping over lists of contiguous tensors, in place. Tensors have
// names where there is one of them; arrays of a list stand one behind the other, each with one
// tensor for each of `count` parameters.
#pragma once

#include <cstddef>
#include <iterator>

#include "table/kernel.h"

namespace pyflame::kernels {

// What `weights` says. Masters: parameters are float32 masters of the weights, which are written as
// well; where a weight is not its master rounded, the master begins from it. Copies: float32
// parameters rounded to 16 bits are written, and not read; those that nobody wants are undefined.
enum class Weights : int { None, Masters, Copies };

// Of both: `random`: what is kept in 16 bits is rounded at random (kernels/random_rounding.h):
// tensor i takes (numel + 7) / 8 counters behind those of the ones before it.

// Arrays: parameters, momentum buffers (where momentum is not 0), [weights,] gradients.
struct Sgd {
  static constexpr KernelInfo kInfo{
      "sgd", Anchor::MultiTensor, kLists, Layout::Strided, Indices::None, true, 10};
  template <class T>
  using Tensors = None<T>;
  template <class T>
  struct Numbers {
    T seed{}, offset{};
    T count, lr, momentum, dampening, weight_decay, nesterov, maximize, first_step;
    T weights{}, random{};
  };
};
static_assert(numbers<Sgd>.weights == Sgd::kInfo.weights);

// Arrays: parameters, averages, averages of squares, their maxima (where amsgrad), [weights,]
// gradients.
struct AdamW {
  static constexpr KernelInfo kInfo{
      "adamw", Anchor::MultiTensor, kLists, Layout::Strided, Indices::None, true, 12};
  template <class T>
  using Tensors = None<T>;
  template <class T>
  struct Numbers {
    T seed{}, offset{};
    T count, lr, beta1, beta2, eps, weight_decay, step, decoupled, maximize, amsgrad;
    T weights{}, random{};
  };
};
static_assert(numbers<AdamW>.weights == AdamW::kInfo.weights);

// Any other optimizer whose step is made element by element (kernels/optim_rules.h, whose numbers
// of rules these are).
enum class StepRule : int {
  RmsProp,
  RmsPropCentered,
  RmsPropMomentum,
  RmsPropCenteredMomentum,
  Adagrad,
  Adadelta,
  Adamax,
  NAdam,
  RAdam,
  Asgd,
  Rprop,
  Lion,
  Lamb,
  kCount
};
struct StepRuleInfo {
  const char* name;
  int states, numbers;
};
inline constexpr StepRuleInfo kStepRules[] = {
    {"rmsprop", 1, 4},
    {"rmsprop_centered", 2, 4},
    {"rmsprop_momentum", 2, 5},
    {"rmsprop_centered_momentum", 3, 5},
    {"adagrad", 1, 2},
    {"adadelta", 2, 4},
    {"adamax", 2, 4},
    {"nadam", 2, 7},
    {"radam", 2, 6},
    {"asgd", 1, 3},
    {"rprop", 2, 4},
    {"lion", 1, 5},
    {"lamb", 3, 7},
};
static_assert(std::size(kStepRules) == static_cast<size_t>(StepRule::kCount));
inline constexpr int kStepNumbers = 8;  // as many as any rule has, and one to spare

// Arrays: parameters, the rule's states one behind the other, gradients.
struct OptimStep {
  static constexpr KernelInfo kInfo{"optim_step", Anchor::MultiTensor, kLists};
  template <class T>
  using Tensors = None<T>;
  template <class T>
  struct Numbers {
    T count, rule, decays, decay, maximize, n0, n1, n2, n3, n4, n5, n6, n7;
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
