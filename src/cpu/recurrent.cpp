// Recurrent layers (table/kernels/recurrent.h): sequences do not see each other, so each thread
// takes some of them, as many steps as others, through all of them. The weight is packed once; a
// step is tiles of the product with the state, all gates of some neighbouring elements, and the
// cell of those while they are in cache; a projection is a product behind them. A value depends on
// its own sequence alone, not on who is beside it.
#include "cpu/recurrent.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "core/dispatch.h"
#include "cpu/gemm_own.h"
#include "cpu/kept_forms.h"
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
  const KernelArgs& args;
  const micro::Kernels<C>& micro = micro::kernels<C>();
  RecurrentMode mode = static_cast<RecurrentMode>(args.i(numbers<Recurrent>.mode));
  RecurrentTime time = recurrent_time(args);
  int64_t batch = time.batch, gates = gates_of(mode), width = micro.nr;
  int64_t hidden, out, panels, out_panels;

  // The positions of x and h, or of what has their sizes.
  Layer(const KernelArgs& a, int x, int h) : args(a) {
    const pf_tensor& rows = a.tensor(x);
    hidden = rows.shape[rows.ndim - 1] / gates;
    out = a.tensor(h).shape[1];
    panels = (hidden + width - 1) / width;
    out_panels = (out + width - 1) / width;
  }
  bool lstm() const { return mode == RecurrentMode::Lstm; }
  bool gru() const { return mode == RecurrentMode::Gru; }
  int64_t columns(int64_t of, int64_t j) const { return std::min(width, of - j * width); }
  int64_t together() const {
    const int64_t most = gates * hidden * out * static_cast<int64_t>(sizeof(C)) > kLargeWeight
                             ? kTogetherLarge
                             : kTogether;
    return std::min(most, batch);
  }
  // fn(r0, rows, memory): the sequences from r0 on, up to together() of them.
  template <class F>
  void over_sequences(size_t bytes, const F& fn) const {
    // Of each sequence the steps of those before it: what threads share evenly.
    std::vector<int64_t> before(static_cast<size_t>(batch));
    for (int64_t b = 1, length = time.steps; b < batch; ++b) {
      while (time.rows(length - 1) < b) --length;
      before[static_cast<size_t>(b)] = before[static_cast<size_t>(b - 1)] + length;
    }
    const auto first_from = [&](int64_t step) {
      return std::lower_bound(before.begin(), before.end(), step) - before.begin();
    };
    const int64_t grain = std::max<int64_t>(1, (1 << 17) / (gates * hidden * out)),
                  most = together();
    parallel_with(time.total(), grain, bytes, [&](int64_t begin, int64_t end, char* memory) {
      for (int64_t r0 = first_from(begin), stop = first_from(end); r0 < stop; r0 += most)
        fn(r0, std::min(most, stop - r0), memory);
    });
  }
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
  bool direct() const { return std::is_same_v<S, C> && columns_ == width_; }
  const C* in(const S* p) {
    if constexpr (std::is_same_v<S, C>)
      if (direct()) return p;
    C* at = take();
    widen(p, columns_, at);
    return at;
  }
  C* out(S* p) {
    if constexpr (std::is_same_v<S, C>)
      if (direct()) return p;
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
  const Layer<S> l(a, at.x, at.h);
  const RecurrentTime& time = l.time;
  const int64_t hidden = l.hidden, out = l.out, width = l.width, gates = l.gates;
  S* const h = a.data<S>(at.h);
  S* const c = a.data<S>(at.c);
  S* const kept = a.tensor(at.kept).ndim == 2 ? a.data<S>(at.kept) : nullptr;
  S* const wide = a.data<S>(at.wide);
  const S* const x = a.data<const S>(at.x);
  const S* const weight = a.data<const S>(at.weight);
  const S* const bias = a.data<const S>(at.bias);
  const S* const projection = a.data<const S>(at.projection);

  // Of each panel its gates, [out][width]: kept from an earlier call, or made for this one.
  const int64_t panel = out * width, count = l.panels * gates;
  const auto pack = [&](C* panels) {
    parallel_for(count, std::max<int64_t>(1, (1 << 16) / panel), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        micro::pack(weight + (i % gates * hidden + i / gates * width) * out, out, 1,
                    static_cast<int>(l.columns(hidden, i / gates)), out, static_cast<int>(width),
                    panels + i * panel);
    });
  };
  const auto held = pyflame::kept({kRecurrentForm, static_cast<int64_t>(a.dtype(at.weight)),
                                   address(weight), hidden, out, gates, width},
                                  static_cast<size_t>(count * panel) * sizeof(C),
                                  [&](char* to) { pack(reinterpret_cast<C*>(to)); });
  // The panels, their biases, and those of the projection, [hidden][width].
  const int64_t own = held ? 0 : count * panel, behind_panel = hidden * width;
  const Scratch<C> made(own + (bias ? count * width : 0) +
                        (projection ? l.out_panels * behind_panel : 0));
  if (!held) pack(made.get());
  const C* const packed = held ? reinterpret_cast<const C*>(held.get()) : made.get();
  C* const biases = made.get() + own;
  C* const behind_panels = biases + (bias ? count * width : 0);
  for (int64_t i = 0; bias && i < count; ++i) {
    const int64_t n = l.columns(hidden, i / gates);
    widen(bias + i % gates * hidden + i / gates * width, n, biases + i * width);
    std::fill(biases + i * width + n, biases + (i + 1) * width, C(0));
  }
  for (int64_t j = 0; projection && j < l.out_panels; ++j)
    micro::pack(projection + j * width * hidden, hidden, 1, static_cast<int>(l.columns(out, j)),
                hidden, static_cast<int>(width), behind_panels + j * behind_panel);

  constexpr bool same = std::is_same_v<S, C>;
  const int64_t most = l.together();
  const size_t bytes = Parts::bytes<C>(gates * most * width) +
                       Parts::bytes<C>(Window<S>::kMost * width) +
                       (same ? 0 : Parts::bytes<C>(most * hidden));
  const auto& cell = recurrent_cells<C>().step[static_cast<int>(l.mode)];
  l.over_sequences(bytes, [&](int64_t r0, int64_t rows, char* memory) {
    Parts parts(memory);
    C* const tiles = parts.take<C>(gates * most * width);
    C* const room = parts.take<C>(Window<S>::kMost * width);
    C* const operand = same ? nullptr : parts.take<C>(most * hidden);
    for (int64_t i = 0; i < time.steps; ++i) {
      const auto step = time.step(i);
      const int64_t n = std::min(step.rows - r0, rows), row0 = step.row + r0;
      if (n <= 0) continue;
      const int64_t before = time.place(step.before) + r0, behind = time.place(step.behind) + r0;
      auto [enter, stop] = time.enter(step.before);
      enter = std::max(enter - r0, int64_t{0}), stop = std::min(stop - r0, rows);
      if (enter < stop) {
        std::copy_n(a.data<const S>(at.first) + (r0 + enter) * out, (stop - enter) * out,
                    h + (before + enter) * out);
        if (l.lstm())
          std::copy_n(a.data<const S>(at.cell) + (r0 + enter) * hidden, (stop - enter) * hidden,
                      c + (before + enter) * hidden);
      }
      const C* const from = as_operand<S>(h + before * out, n * out, operand);
      S* const to = projection ? wide + row0 * hidden : h + behind * hidden;
      for (int64_t j = 0; j < l.panels; ++j) {
        for (int64_t g = 0; g < gates; ++g) {
          const int64_t p = j * gates + g;
          l.multiply(from, out, out, packed + p * panel, bias ? biases + p * width : nullptr, n,
                     tiles + g * n * width, width);
        }
        // Where they lie, all rows at once, or one by one through a window.
        Window<S> window(room, l.columns(hidden, j), width);
        const int64_t at_once = window.direct() ? n : 1;
        for (int64_t r = 0; r < n; r += at_once) {
          const int64_t in_row = r * hidden + j * width, row = row0 + r;
          CellStep<C> s{};
          s.x_row = gates * hidden, s.product_row = width, s.state_row = hidden;
          s.kept_row = 4 * hidden;
          for (int64_t g = 0; g < gates; ++g) {
            s.x[g] = window.in(x + (row * gates + g) * hidden + j * width);
            s.product[g] = tiles + (g * n + r) * width;
          }
          if (l.gru()) s.before = window.in(h + before * hidden + in_row);
          if (l.lstm()) s.cell = window.in(c + before * hidden + in_row);
          s.h = window.out(to + in_row);
          if (l.lstm()) s.c = window.out(c + behind * hidden + in_row);
          for (int64_t g = 0; kept && g < 4; ++g)
            s.kept[g] = window.out(kept + (row * 4 + g) * hidden + j * width);
          cell(s, width, at_once);
          window.finish();
        }
      }
      if (!projection) continue;
      const C* const all = as_operand<S>(to, n * hidden, operand);
      for (int64_t j = 0; j < l.out_panels; ++j) {
        l.multiply(all, hidden, hidden, behind_panels + j * behind_panel, nullptr, n, tiles, width);
        for (int64_t r = 0; r < n; ++r)
          narrow(tiles + r * width, l.columns(out, j), h + (behind + r) * out + j * width);
      }
    }
  });
}

template <class S>
void backward(const KernelArgs& a) {
  using C = ComputeType<S>;
  constexpr auto at = tensors<RecurrentBackward>;
  const Layer<S> l(a, at.dx, at.h);
  const RecurrentTime& time = l.time;
  const int64_t hidden = l.hidden, out = l.out, width = l.width, gates = l.gates;
  const int64_t all = gates * hidden, padded = l.panels * width, out_padded = l.out_panels * width;
  S* const dx = a.data<S>(at.dx);
  S* const dstate = l.gru() ? a.data<S>(at.dstate) : nullptr;
  S* const dh = a.data<S>(at.dh);
  const S* const h = a.data<const S>(at.h);
  const S* const c = a.data<const S>(at.c);
  const S* const states = l.lstm() ? c : h;  // what cells read
  const S* const kept = a.data<const S>(at.kept);
  const S* const weight = a.data<const S>(at.weight);
  const S* const projection = a.data<const S>(at.projection);
  const S* const dout = a.data<const S>(at.dout);
  const S* const dlast = a.data<const S>(at.dlast);
  const S* const dlast_cell = a.data<const S>(at.dlast_cell);

  // Panels of the weight, [G hidden][width], then of the projection, [out][width].
  const int64_t panel = all * width, wide_panel = out * width;
  Scratch<C> packed(l.out_panels * panel + (projection ? l.panels * wide_panel : 0));
  C* const wide_panels = packed.get() + l.out_panels * panel;
  const int64_t all_panels = l.out_panels + (projection ? l.panels : 0);
  parallel_for(
      all_panels, std::max<int64_t>(1, (1 << 16) / panel), [&](int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; ++j) {
          const int64_t k = j - l.out_panels;
          if (k < 0)
            micro::pack(weight + j * width, 1, out, static_cast<int>(l.columns(out, j)), all,
                        static_cast<int>(width), packed.get() + j * panel);
          else
            micro::pack(projection + k * width, 1, hidden, static_cast<int>(l.columns(hidden, k)),
                        out, static_cast<int>(width), wide_panels + k * wide_panel);
        }
      });

  constexpr bool same = std::is_same_v<S, C>;
  const int64_t most = l.together();
  const size_t bytes = Parts::bytes<C>(most * out_padded) + Parts::bytes<C>(most * padded) +
                       Parts::bytes<C>(width) + Parts::bytes<C>(Window<S>::kMost * width) +
                       (projection ? Parts::bytes<C>(most * padded) + Parts::bytes<C>(out) : 0) +
                       (same ? 0 : Parts::bytes<C>(most * all));
  const auto& cell = recurrent_cells<C>().step_back[static_cast<int>(l.mode)];
  l.over_sequences(bytes, [&](int64_t r0, int64_t rows, char* memory) {
    Parts parts(memory);
    C* const sum = parts.take<C>(most * out_padded);  // what reaches the state by the product,
    C* const carried = parts.take<C>(most * padded);  // and around it
    C* const zeros = parts.take<C>(width);
    C* const room = parts.take<C>(Window<S>::kMost * width);
    C* const wide = projection ? parts.take<C>(most * padded) : nullptr;
    C* const line = projection ? parts.take<C>(out) : nullptr;
    C* const operand = same ? nullptr : parts.take<C>(most * all);
    std::fill_n(zeros, width, C(0));
    const auto begin_with = [&](C* to, int64_t step, const S* from, int64_t n) {
      std::fill_n(to, rows * step, C(0));
      if (!from) return;
      for (int64_t r = 0; r < rows; ++r) widen(from + (r0 + r) * n, n, to + r * step);
    };
    // A sequence's rows are first touched at its last step, and not behind its first one.
    begin_with(sum, out_padded, dlast, out);
    begin_with(carried, padded, l.lstm() ? dlast_cell : nullptr, hidden);
    for (int64_t i = time.steps; i-- > 0;) {
      const auto step = time.step(i);
      const int64_t n = std::min(step.rows - r0, rows), row0 = step.row + r0;
      if (n <= 0) continue;
      const int64_t before = time.place(step.before) + r0, behind = time.place(step.behind) + r0;
      if (projection) {
        for (int64_t r = 0; r < n; ++r) {
          const C* const more = sum + r * out_padded;
          if (dout)
            widen(dout + (row0 + r) * out, out, line);
          else
            std::fill_n(line, out, C(0));
          for (int64_t e = 0; e < out; ++e) line[e] += more[e];
          narrow(line, out, dh + (row0 + r) * out);
        }
        const C* const from = as_operand<S>(dh + row0 * out, n * out, operand);
        for (int64_t j = 0; j < l.panels; ++j)
          l.multiply(from, out, out, wide_panels + j * wide_panel, nullptr, n, wide + j * width,
                     padded);
      }
      for (int64_t j = 0; j < l.panels; ++j) {
        Window<S> window(room, l.columns(hidden, j), width);
        for (int64_t r = 0; r < n; ++r) {
          const int64_t in_row = r * hidden + j * width, row = row0 + r;
          CellStepBack<C> s{};
          s.dout = dout && !projection ? window.in(dout + row0 * hidden + in_row) : zeros;
          s.sum = (projection ? wide : sum) + r * padded + j * width;
          s.carried = carried + r * padded + j * width;
          if (gates > 1) {
            for (int64_t g = 0; g < 4; ++g)
              s.kept[g] = window.in(kept + (row * 4 + g) * hidden + j * width);
            s.before = window.in(states + before * hidden + in_row);
          }
          if (!l.gru()) s.behind = window.in(states + behind * hidden + in_row);
          for (int64_t g = 0; g < gates; ++g) {
            s.dx[g] = window.out(dx + (row * gates + g) * hidden + j * width);
            if (l.gru()) s.dstate[g] = window.out(dstate + (row * gates + g) * hidden + j * width);
          }
          cell(s, width);
          window.finish();
        }
      }
      const C* const from = as_operand<S>((l.gru() ? dstate : dx) + row0 * all, n * all, operand);
      for (int64_t j = 0; j < l.out_panels; ++j)
        l.multiply(from, all, all, packed.get() + j * panel, nullptr, n, sum + j * width,
                   out_padded);
    }
    for (int64_t r = 0; r < rows; ++r) {
      C* const of_h = sum + r * out_padded;
      C* const around = carried + r * padded;
      if (l.gru())
        for (int64_t e = 0; e < hidden; ++e) of_h[e] += around[e];
      narrow(of_h, out, a.data<S>(at.dfirst) + (r0 + r) * out);
      if (l.lstm()) narrow(around, hidden, a.data<S>(at.dcell) + (r0 + r) * hidden);
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
