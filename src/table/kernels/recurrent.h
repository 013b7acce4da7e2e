// Recurrent layers: all steps of one layer in one direction. Sequences are sorted by length, so
// that step t has the first rows(t) of them; over padded sequences that is always the batch. Of
// what is one row a step and sequence, the rows of a step lie behind those of the step before
// (`total` of all steps). G gates of `hidden` values lie side by side in the order of PyTorch: an
// LSTM has in, forget, fresh and out (G 4), a GRU reset, keep and fresh (G 3), the others one. A
// state is `out` wide: as hidden, or less behind an LSTM's projection.
//
//   x       [..., G hidden]          total rows: product of the weight and the input, with its bias
//                                    (for all but a GRU with that of the state, too)
//   first   [batch, out]             state before the first step; cell [batch, hidden]: an LSTM's c
//   weight  [G hidden, out]          of the state; bias [G hidden]: of a GRU's state
//   h, c    [batch + total, ...]     states between steps (RecurrentTime). c is an LSTM's, without
//                                    elements elsewhere
//   kept    [total, 4 hidden]        what the gradient reads: an LSTM's gates; a GRU's gates and
//                                    the state's part in the fresh value, before its reset.
//                                    Without elements where nobody wants it, and for other modes
//   projection [out, hidden]         of an LSTM's state; wide [total, hidden]: that before it,
//                                    without elements where there is none
//
// What a step makes is rounded to the dtype at h, c, kept and wide alone.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "table/kernel.h"

namespace pyflame::kernels {

enum class RecurrentMode { Tanh, Relu, Lstm, Gru };
constexpr int gates_of(RecurrentMode m) {
  return m == RecurrentMode::Lstm ? 4 : m == RecurrentMode::Gru ? 3 : 1;
}

// Which step runs when, and where its rows and states lie. The states have a place before each step
// and one behind the last, in the order of time: place 0 of `batch` rows, place t + 1 of rows(t).
// Backwards, sequences whose last step is t have their first state in place t + 1, behind those
// that come from step t + 1.
struct RecurrentTime {
  struct Step {
    int64_t t, rows, row;    // row: its first one
    int64_t before, behind;  // places
  };
  bool backwards;
  int64_t steps, batch;
  std::vector<int64_t> row;  // of each step, and of all

  RecurrentTime(const std::vector<int64_t>& rows, bool back)
      : backwards(back), steps(static_cast<int64_t>(rows.size())), batch(rows[0]), row{0} {
    for (const int64_t n : rows) row.push_back(row.back() + n);
  }
  int64_t total() const { return row.back(); }
  bool even() const { return rows(steps - 1) == batch; }
  int64_t rows(int64_t t) const { return t < steps ? at(t + 1) - at(t) : 0; }
  // First row of a place.
  int64_t place(int64_t i) const { return i == 0 ? 0 : batch + at(i - 1); }
  // The i-th to run.
  Step step(int64_t i) const {
    const int64_t t = backwards ? steps - 1 - i : i, later = t + 1;
    return {t, rows(t), at(t), backwards ? later : t, backwards ? t : later};
  }
  // Rows of a place before a step that hold first states.
  std::pair<int64_t, int64_t> enter(int64_t i) const {
    if (backwards) return {rows(i), rows(i - 1)};
    return {0, i == 0 ? batch : 0};
  }

 private:
  int64_t at(int64_t t) const { return row[static_cast<size_t>(t)]; }
};

struct Recurrent {
  static constexpr KernelInfo kInfo{"recurrent", Anchor::General, 4, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T h, c, kept, wide;
    T x, first, weight, cell{}, bias{}, projection{};
  };
  // Behind these the rows of each step.
  template <class T>
  struct Numbers {
    T mode, backwards;
  };
};
// Gradients of x, of the product with the state where that differs (a GRU; without elements
// elsewhere), of the first states (dcell of an LSTM), and of what a projection gives, [total, out].
// dout [total, out] is that of the states behind each step, dlast and dlast_cell those of the last
// step to run of each sequence; what is undefined is 0.
struct RecurrentBackward {
  static constexpr KernelInfo kInfo{"recurrent_backward", Anchor::General, 5, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T dx, dstate, dfirst, dcell, dh;
    T h, c, kept, weight, projection{}, dout{}, dlast{}, dlast_cell{};
  };
  template <class T>
  using Numbers = Recurrent::Numbers<T>;
};
// Of a call: the numbers behind those that have names.
template <class Args>
RecurrentTime recurrent_time(const Args& a) {
  std::vector<int64_t> rows;
  for (int i = kCount<Recurrent::Numbers>; i < a.nattrs; ++i) rows.push_back(a.i(i));
  return {rows, a.i(numbers<Recurrent>.backwards) != 0};
}

}  // namespace pyflame::kernels
