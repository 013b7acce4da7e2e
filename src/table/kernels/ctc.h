// Connectionist temporal classification: how likely sequences are to be read, summed over all ways
// to lay their labels along time. Positions of a sequence: a blank before, between and behind its
// labels, 2 S + 1 of the longest.
//
//   log_probs      [T, N, C]      float32 or float64
//   targets        [N, S]         int64; behind a sequence's end anything below C
//   input_lengths, target_lengths [N], int64
//   loss           [N]            minus the logarithm; inf where no way leads through
//   alpha          [N, T, 2 S + 1] logarithms of what leads to each position
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

struct Ctc {
  static constexpr KernelInfo kInfo{"ctc", Anchor::General, 2, Layout::Strided, Indices::Classes};
  template <class T>
  struct Tensors {
    T loss, alpha, log_probs, targets, input_lengths, target_lengths;
  };
  template <class T>
  struct Numbers {
    T blank;
  };
};

// grad [T, N, C]: g [N] times (exp(log_probs) - share of each class), as PyTorch has it: right
// behind log_softmax. With zero_infinity losses that are infinite have none.
struct CtcBackward {
  static constexpr KernelInfo kInfo{"ctc_backward", Anchor::General, 1, Layout::Strided,
                                    Indices::Classes};
  template <class T>
  struct Tensors {
    T grad, g, loss, alpha, log_probs, targets, input_lengths, target_lengths;
  };
  template <class T>
  struct Numbers {
    T blank, zero_infinity;
  };
};

}  // namespace pyflame::kernels
