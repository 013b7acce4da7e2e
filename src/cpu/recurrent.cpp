// Recurrent layers (table/kernels/recurrent.h): sequences do not see each other, so each thread
// takes some of them through all steps. The weight is packed once; a step is tiles of the product
// with the state, all gates of some neighbouring elements, and the cell of those while they are in
// cache. A value depends on its own sequence alone, not on who is beside it.
#include "cpu/recurrent.h"

#include <algorithm>
#include <type_traits>

#include "core/dispatch.h"
#include "cpu/gemm_own.h"
#include "cpu/kernel.h"
#include "cpu/scratch.h"
#include "cpu/threads.h"
#include "table/kernels/recurrent.h"

namespace pyflame::cpu {
namespace {

using namespace kernels;

constexpr int64_t kDepth = 256;  // of k: a panel of it stays in the first cache
// Sequences that a thread takes through time together. Where the weight does not stay in the second
// cache, more of them share what is read of it.
constexpr int64_t kTogether = 24, kTogetherLarge = 96, kLargeWeight = 3 << 20;  // bytes

template <class S>
struct Layer {
  using C = ComputeType<S>;
  const micro::Kernels<C>& micro = micro::kernels<C>();
  RecurrentMode mode;
  bool backwards;
  int64_t steps, batch, hidden, gates, panels, width;

  Layer(const KernelArgs& a, int states) {
    constexpr auto number = numbers<Recurrent>;
    const pf_tensor& h = a.tensor(states);
    mode = static_cast<RecurrentMode>(a.i(number.mode));
    backwards = a.i(number.backwards) != 0;
    steps = h.shape[0] - 1, batch = h.shape[1], hidden = h.shape[2];
    gates = gates_of(mode);
    width = micro.nr;
    panels = (hidden + width - 1) / width;
  }
  bool lstm() const { return mode == RecurrentMode::Lstm; }
  bool gru() const { return mode == RecurrentMode::Gru; }
  int64_t panel_columns(int64_t j) const { return std::min(width, hidden - j * width); }
  int64_t together() const {
    return gates * hidden * hidden * static_cast<int64_t>(sizeof(C)) > kLargeWeight ? kTogetherLarge
                                                                                    : kTogether;
  }
  int64_t grain() const {
    return std::max<int64_t>(1, (1 << 17) / (steps * gates * hidden * hidden));
  }
  RecurrentStep step(int64_t i) const { return recurrent_step(i, steps, backwards); }
  // c [rows, width] = a [rows, k] times a panel [k, width], plus bias [width] if there is one.
  void multiply(const C* a, int64_t a_row, int64_t k, const C* panel, const C* bias, int64_t rows,
                C* c, int64_t c_row) const {
    const micro::Split split(rows, micro.mr);
    for (int64_t p = 0; p < k; p += kDepth) {
      const int64_t depth = std::min(kDepth, k - p);
      for (int64_t i = 0; i < split.count; ++i) {
        const int64_t r = split.at(i);
        micro::Tile<C> t{};
        t.k = depth;
        t.a = a + r * a_row + p, t.a_row = a_row, t.a_col = 1;
        t.b = panel + p * width, t.b_row = width;
        t.c = c + r * c_row, t.c_row = c_row;
        t.cols = static_cast<int>(width);
        t.accumulate = p > 0;
        t.bias = p + depth == k ? bias : nullptr;
        micro.run(static_cast<int>(split.at(i + 1) - r), t);
      }
    }
  }
};

template <class S, class C>
void widen(const S* from, int64_t n, C* to) {
  if constexpr (std::is_same_v<S, C>)
    std::copy_n(from, n, to);
  else
    micro::pack(from, 0, 1, 1, n, 1, to);
}
template <class S, class C>
void narrow(const C* from, int64_t n, S* to) {
  if constexpr (std::is_same_v<S, C>)
    std::copy_n(from, n, to);
  else
    micro::store(from, n, to);
}

// n elements as a product reads them: where they lie, or in `room` where they are of another type.
template <class S>
const ComputeType<S>* as_operand(const S* from, int64_t n, ComputeType<S>* room) {
  if constexpr (std::is_same_v<S, ComputeType<S>>) {
    return from;
  } else {
    widen(from, n, room);
    return room;
  }
}

// Elements of a panel's width as the cells take them: where they lie, or by way of a buffer where
// they are of another type or fewer.
template <class S>
class Window {
  using C = ComputeType<S>;

 public:
  static constexpr int kMost = 24;
  Window(C* room, int64_t columns, int64_t width) : room_(room), columns_(columns), width_(width) {}
  const C* in(const S* p) {
    if constexpr (std::is_same_v<S, C>)
      if (columns_ == width_) return p;
    C* at = take();
    widen(p, columns_, at);
    return at;
  }
  C* out(S* p) {
    if constexpr (std::is_same_v<S, C>)
      if (columns_ == width_) return p;
    C* at = take();
    to_[outs_] = p, from_[outs_++] = at;
    return at;
  }
  void finish() {
    for (int i = 0; i < outs_; ++i) narrow(from_[i], columns_, to_[i]);
    outs_ = 0;
    taken_ = 0;
  }

 private:
  C* take() {
    C* at = room_ + taken_++ * width_;
    std::fill(at + columns_, at + width_, C(0));
    return at;
  }
  C* room_;
  int64_t columns_, width_;
  int taken_ = 0, outs_ = 0;
  S* to_[kMost];
  const C* from_[kMost];
};

template <class S>
void forward(const KernelArgs& a) {
  using C = ComputeType<S>;
  constexpr auto at = tensors<Recurrent>;
  const Layer<S> l(a, at.h);
  const int64_t hidden = l.hidden, width = l.width, gates = l.gates, batch = l.batch;
  S* const h = a.data<S>(at.h);
  S* const c = a.data<S>(at.c);
  S* const kept = a.tensor(at.kept).ndim == 3 ? a.data<S>(at.kept) : nullptr;
  const S* const x = a.data<const S>(at.x);
  const S* const weight = a.data<const S>(at.weight);
  const S* const bias = a.data<const S>(at.bias);

  // Of each panel its gates, [hidden][width]; then their biases.
  const int64_t panel = hidden * width, count = l.panels * gates;
  Scratch<C> packed(count * panel + (bias ? count * width : 0));
  C* const biases = packed.get() + count * panel;
  parallel_for(count, std::max<int64_t>(1, (1 << 16) / panel), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t j = i / gates, first = i % gates * hidden + j * width, n = l.panel_columns(j);
      micro::pack(weight + first * hidden, hidden, 1, static_cast<int>(n), hidden,
                  static_cast<int>(width), packed.get() + i * panel);
      if (!bias) continue;
      widen(bias + first, n, biases + i * width);
      std::fill(biases + i * width + n, biases + (i + 1) * width, C(0));
    }
  });

  constexpr bool same = std::is_same_v<S, C>;
  const int64_t most = std::min(l.together(), batch);
  const size_t bytes = Parts::bytes<C>(gates * most * width) +
                       Parts::bytes<C>(Window<S>::kMost * width) +
                       (same ? 0 : Parts::bytes<C>(most * hidden));
  const auto& cell = recurrent_cells<C>().step[static_cast<int>(l.mode)];
  parallel_with(batch, l.grain(), bytes, [&](int64_t begin, int64_t end, char* memory) {
    Parts parts(memory);
    C* const tiles = parts.take<C>(gates * most * width);
    C* const room = parts.take<C>(Window<S>::kMost * width);
    C* const wide = same ? nullptr : parts.take<C>(most * hidden);
    for (int64_t r0 = begin; r0 < end; r0 += most) {
      const int64_t rows = std::min(most, end - r0);
      const auto state = [&](S* of, int64_t i) { return of + (i * batch + r0) * hidden; };
      const int64_t start = l.step(0).before;
      std::copy_n(a.data<const S>(at.first) + r0 * hidden, rows * hidden, state(h, start));
      if (l.lstm())
        std::copy_n(a.data<const S>(at.cell) + r0 * hidden, rows * hidden, state(c, start));
      for (int64_t i = 0; i < l.steps; ++i) {
        const auto [t, before, behind] = l.step(i);
        const C* const from = as_operand<S>(state(h, before), rows * hidden, wide);
        for (int64_t j = 0; j < l.panels; ++j) {
          for (int64_t g = 0; g < gates; ++g) {
            const int64_t p = j * gates + g;
            l.multiply(from, hidden, hidden, packed.get() + p * panel,
                       bias ? biases + p * width : nullptr, rows, tiles + g * rows * width, width);
          }
          Window<S> window(room, l.panel_columns(j), width);
          for (int64_t r = 0; r < rows; ++r) {
            const int64_t in_state = r * hidden + j * width, row = t * batch + r0 + r;
            CellStep<C> s{};
            for (int64_t g = 0; g < gates; ++g) {
              s.x[g] = window.in(x + (row * gates + g) * hidden + j * width);
              s.product[g] = tiles + (g * rows + r) * width;
            }
            if (l.gru()) s.before = window.in(state(h, before) + in_state);
            if (l.lstm()) s.cell = window.in(state(c, before) + in_state);
            s.h = window.out(state(h, behind) + in_state);
            if (l.lstm()) s.c = window.out(state(c, behind) + in_state);
            if (kept)
              for (int64_t g = 0; g < 4; ++g)
                s.kept[g] = window.out(kept + (row * 4 + g) * hidden + j * width);
            cell(s, width);
            window.finish();
          }
        }
      }
    }
  });
}

template <class S>
void backward(const KernelArgs& a) {
  using C = ComputeType<S>;
  constexpr auto at = tensors<RecurrentBackward>;
  const Layer<S> l(a, at.h);
  const int64_t hidden = l.hidden, width = l.width, gates = l.gates, batch = l.batch;
  const int64_t all = gates * hidden, padded = l.panels * width;
  S* const dx = a.data<S>(at.dx);
  S* const dstate = l.gru() ? a.data<S>(at.dstate) : nullptr;
  const S* const h = a.data<const S>(at.h);
  const S* const c = a.data<const S>(at.c);
  const S* const kept = a.data<const S>(at.kept);
  const S* const weight = a.data<const S>(at.weight);
  const S* const dout = a.data<const S>(at.dout);
  const S* const dlast = a.data<const S>(at.dlast);
  const S* const dlast_cell = a.data<const S>(at.dlast_cell);

  const int64_t panel = all * width;
  Scratch<C> packed(l.panels * panel);
  parallel_for(l.panels, std::max<int64_t>(1, (1 << 16) / panel), [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j)
      micro::pack(weight + j * width, 1, hidden, static_cast<int>(l.panel_columns(j)), all,
                  static_cast<int>(width), packed.get() + j * panel);
  });

  constexpr bool same = std::is_same_v<S, C>;
  const int64_t most = std::min(l.together(), batch);
  const size_t bytes = 2 * Parts::bytes<C>(most * padded) + Parts::bytes<C>(width) +
                       Parts::bytes<C>(Window<S>::kMost * width) +
                       (same ? 0 : Parts::bytes<C>(most * all));
  const auto& cell = recurrent_cells<C>().step_back[static_cast<int>(l.mode)];
  parallel_with(batch, l.grain(), bytes, [&](int64_t begin, int64_t end, char* memory) {
    Parts parts(memory);
    C* const sum = parts.take<C>(most * padded);      // what reaches the state by the product,
    C* const carried = parts.take<C>(most * padded);  // and around it
    C* const zeros = parts.take<C>(width);
    C* const room = parts.take<C>(Window<S>::kMost * width);
    C* const wide = same ? nullptr : parts.take<C>(most * all);
    std::fill_n(zeros, width, C(0));
    for (int64_t r0 = begin; r0 < end; r0 += most) {
      const int64_t rows = std::min(most, end - r0);
      const auto state = [&](const S* of, int64_t i) { return of + (i * batch + r0) * hidden; };
      const auto begin_with = [&](C* to, const S* from) {
        std::fill_n(to, rows * padded, C(0));
        if (!from) return;
        for (int64_t r = 0; r < rows; ++r) widen(from + (r0 + r) * hidden, hidden, to + r * padded);
      };
      begin_with(sum, dlast);
      begin_with(carried, l.lstm() ? dlast_cell : nullptr);
      for (int64_t i = l.steps; i-- > 0;) {
        const auto [t, before, behind] = l.step(i);
        for (int64_t j = 0; j < l.panels; ++j) {
          Window<S> window(room, l.panel_columns(j), width);
          for (int64_t r = 0; r < rows; ++r) {
            const int64_t in_state = r * hidden + j * width, row = t * batch + r0 + r;
            CellStepBack<C> s{};
            s.dout = dout ? window.in(state(dout, t) + in_state) : zeros;
            s.sum = sum + r * padded + j * width;
            s.carried = carried + r * padded + j * width;
            if (l.lstm() || l.gru())
              for (int64_t g = 0; g < 4; ++g)
                s.kept[g] = window.in(kept + (row * 4 + g) * hidden + j * width);
            if (l.gru()) s.before = window.in(state(h, before) + in_state);
            if (gates == 1) s.h = window.in(state(h, behind) + in_state);
            if (l.lstm()) {
              s.cell = window.in(state(c, before) + in_state);
              s.c = window.in(state(c, behind) + in_state);
            }
            for (int64_t g = 0; g < gates; ++g) {
              s.dx[g] = window.out(dx + (row * gates + g) * hidden + j * width);
              if (l.gru())
                s.dstate[g] = window.out(dstate + (row * gates + g) * hidden + j * width);
            }
            cell(s, width);
            window.finish();
          }
        }
        const S* const through = (l.gru() ? dstate : dx) + (t * batch + r0) * all;
        const C* const from = as_operand<S>(through, rows * all, wide);
        for (int64_t j = 0; j < l.panels; ++j)
          l.multiply(from, all, all, packed.get() + j * panel, nullptr, rows, sum + j * width,
                     padded);
      }
      for (int64_t r = 0; r < rows; ++r) {
        C* const of_h = sum + r * padded;
        C* const around = carried + r * padded;
        if (l.gru())
          for (int64_t e = 0; e < hidden; ++e) of_h[e] += around[e];
        narrow(of_h, hidden, a.data<S>(at.dfirst) + (r0 + r) * hidden);
        if (l.lstm()) narrow(around, hidden, a.data<S>(at.dcell) + (r0 + r) * hidden);
      }
    }
  });
}

void recurrent(const KernelArgs& a) {
  dispatch_float(a.dtype(tensors<Recurrent>.h), [&]<class S>() { forward<S>(a); });
}
void recurrent_backward(const KernelArgs& a) {
  dispatch_float(a.dtype(tensors<RecurrentBackward>.h), [&]<class S>() { backward<S>(a); });
}

}  // namespace

PF_CPU_KERNEL(Recurrent::kInfo, recurrent)
PF_CPU_KERNEL(RecurrentBackward::kInfo, recurrent_backward)

}  // namespace pyflame::cpu
