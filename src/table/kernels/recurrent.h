// Recurrent layers over padded sequences: all steps of one layer in one direction. There are
// `steps` of them in memory; `backwards`, the last one runs first. G gates of `hidden` values lie
// side by side in the order of PyTorch: an LSTM has in, forget, fresh and out (G 4), a GRU reset,
// keep and fresh (G 3), the others one.
//
//   x       [steps, batch, G hidden]  product of the weight and the input, with its bias (for all
//                                     but a GRU with that of the state, too)
//   first   [batch, hidden]           state before the first step; cell: the same of an LSTM's c
//   weight  [G hidden, hidden]        of the state; bias [G hidden]: of a GRU's state
//   h, c    [steps + 1, batch, hidden]  states between steps, in the order of time: that before the
//                                     first step too. c is an LSTM's, without elements elsewhere
//   kept    [steps, batch, 4 hidden]  what the gradient reads: an LSTM's gates; a GRU's gates and
//                                     the state's part in the fresh value, before its reset.
//                                     Without elements where nobody wants it, and for other modes
//
// What a step makes is rounded to the dtype at h, c and kept alone.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

enum class RecurrentMode { Tanh, Relu, Lstm, Gru };
constexpr int gates_of(RecurrentMode m) {
  return m == RecurrentMode::Lstm ? 4 : m == RecurrentMode::Gru ? 3 : 1;
}
// The step in time that runs as number i, and the places of the states before and behind it.
struct RecurrentStep {
  int64_t t, before, behind;
};
constexpr RecurrentStep recurrent_step(int64_t i, int64_t steps, bool backwards) {
  if (backwards) return {steps - 1 - i, steps - i, steps - 1 - i};
  return {i, i, i + 1};
}

struct Recurrent {
  static constexpr KernelInfo kInfo{"recurrent", Anchor::General, 3, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T h, c, kept;
    T x, first, weight, cell{}, bias{};
  };
  template <class T>
  struct Numbers {
    T mode, backwards;
  };
};
// Gradients of x, of the product with the state where that differs (a GRU; without elements
// elsewhere), and of the first states (dcell of an LSTM). dout [steps, batch, hidden] is that of
// the states behind each step, dlast and dlast_cell those of the last step to run; what is
// undefined is 0.
struct RecurrentBackward {
  static constexpr KernelInfo kInfo{"recurrent_backward", Anchor::General, 4, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T dx, dstate, dfirst, dcell;
    T h, c, kept, weight, dout{}, dlast{}, dlast_cell{};
  };
  template <class T>
  using Numbers = Recurrent::Numbers<T>;
};

}  // namespace pyflame::kernels
