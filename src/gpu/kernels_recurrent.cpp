// One step of a recurrent layer behind its product with the state, its gradient before that, and
// what is carried to the state before the first step (table/kernels/recurrent.h). A thread has
// PF_V neighbouring elements of the state, and those of all gates.
//   -DPF_T=      dtype
//   -DPF_MODE=   0 tanh, 1 relu, 2 LSTM, 3 GRU
//   -DPF_V=      elements of a thread; hidden is a multiple of it
//   -DPF_INDEX=  integers that count elements
#include "kernels/integers.h"

// Rows of one step: `items` threads have PF_V of the `hidden` elements each.
struct pf_recurrent {
  const void *x, *product;    // [rows, gates, hidden]: what the input and the state give
  const void *before, *cell;  // the states before it
  void *h, *c, *kept;         // those behind it; kept may be null
  pf_i64 items, hidden;
};
// `sum` is what reaches the state from the next step, in T, `carried` what reaches it around the
// product (of a GRU) or reaches an LSTM's c, in C; behind the first `old` elements of the states
// there is no next step, and `last` and `given` stand for them.
struct pf_recurrent_back {
  const void *dout, *sum, *last, *given;  // null: 0
  const void *before, *behind;            // states before and behind it, of an LSTM c
  const void* kept;
  void *dx, *dstate;  // of a GRU the second
  void* carried;
  pf_i64 items, hidden, old;
};
static_assert(sizeof(pf_recurrent) == 72 && sizeof(pf_recurrent_back) == 104, "as hosts fill them");

#ifdef PF_DEVICE_TEXT
#include "kernels/rows.h"
#include "kernels/space.h"

typedef PF_T T;
typedef pf_compute<T> C;
constexpr int G = PF_MODE == 2 ? 4 : PF_MODE == 3 ? 3 : 1;

PF_DEVICE C pf_gate(C x) {
  if constexpr (sizeof(T) == 2) return pf_half::pf_sigmoid(x);
  return pf_sigmoid(x);
}
PF_DEVICE C pf_value(C x) {
  if constexpr (sizeof(T) == 2) return pf_half::pf_tanh(x);
  return pf_tanh(x);
}
#include "kernels/recurrent_cells.h"

// Where a thread is: its element of a state, and of the first gate where there are GATES.
struct pf_place {
  pf_index state, row, column;
  PF_METHOD pf_index gate(pf_index hidden, int gates, int g) const {
    return (row * static_cast<pf_index>(gates) + static_cast<pf_index>(g)) * hidden + column;
  }
};
PF_DEVICE pf_place pf_place_of(pf_u64 item, pf_index hidden) {
  const pf_index at = static_cast<pf_index>(item) * PF_V, row = at / hidden;
  return {at, row, at - row * hidden};
}
PF_DEVICE void pf_take(const void* p, pf_index at, C (&v)[PF_V]) {
  pf_load<T, PF_V, false>(static_cast<const T*>(p) + at, v);
}
PF_DEVICE void pf_give(void* p, pf_index at, C (&v)[PF_V]) {
  pf_put<T, PF_V, false>(static_cast<T*>(p) + at, v);
}
PF_DEVICE void pf_add(const void* p, pf_index at, C (&v)[PF_V]) {
  if (!p) return;
  C more[PF_V];
  pf_take(p, at, more);
  PF_UNROLL for (int i = 0; i < PF_V; ++i) v[i] += more[i];
}

PF_KERNEL(recurrent_step, 128)(const pf_recurrent r) {
  const pf_index hidden = static_cast<pf_index>(r.hidden);
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(r.items); e += pf_item_step()) {
    const pf_place at = pf_place_of(e, hidden);
    C x[G][PF_V], p[G][PF_V], h[PF_V], c[PF_V];
    PF_UNROLL for (int g = 0; g < G; ++g) {
      pf_take(r.x, at.gate(hidden, G, g), x[g]);
      pf_take(r.product, at.gate(hidden, G, g), p[g]);
    }
    if constexpr (PF_MODE == 2) pf_take(r.cell, at.state, c);
    if constexpr (PF_MODE == 3) pf_take(r.before, at.state, h);
    PF_UNROLL for (int i = 0; i < PF_V; ++i) {
      C of_x[G], of_state[G];
      PF_UNROLL for (int g = 0; g < G; ++g) of_x[g] = x[g][i], of_state[g] = p[g][i];
      pf_cell_step<PF_MODE>(of_x, of_state, h[i], c[i]);
      PF_UNROLL for (int g = 0; g < G; ++g) x[g][i] = of_x[g];
    }
    pf_give(r.h, at.state, h);
    if constexpr (PF_MODE == 2) pf_give(r.c, at.state, c);
    if constexpr (G > 1) {
      if (!r.kept) continue;
      PF_UNROLL for (int g = 0; g < G; ++g) pf_give(r.kept, at.gate(hidden, 4, g), x[g]);
      if constexpr (G == 3) pf_give(r.kept, at.gate(hidden, 4, 3), p[2]);
    }
  }
}

PF_KERNEL(recurrent_step_back, 128)(const pf_recurrent_back r) {
  const pf_index hidden = static_cast<pf_index>(r.hidden);
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(r.items); e += pf_item_step()) {
    const pf_place at = pf_place_of(e, hidden);
    C g[PF_V], carried[PF_V], y[PF_V], before[PF_V], k[4][PF_V], d[G][PF_V], part[PF_V];
    PF_UNROLL for (int i = 0; i < PF_V; ++i) {
      g[i] = carried[i] = y[i] = before[i] = C(0);
      PF_UNROLL for (int j = 0; j < 4; ++j) k[j][i] = C(0);
    }
    const bool old = at.state < static_cast<pf_index>(r.old);
    pf_add(r.dout, at.state, g);
    pf_add(old ? r.sum : r.last, at.state, g);
    C* const carry = static_cast<C*>(r.carried) + at.state;
    if constexpr (G == 1) pf_take(r.behind, at.state, y);
    if constexpr (G > 1) {
      if (old) pf_load<C, PF_V, false>(carry, carried);
      PF_UNROLL for (int j = 0; j < 4; ++j) pf_take(r.kept, at.gate(hidden, 4, j), k[j]);
      pf_take(r.before, at.state, before);
    }
    if constexpr (PF_MODE == 2) {
      if (!old) pf_add(r.given, at.state, carried);
      pf_take(r.behind, at.state, y);
    }
    PF_UNROLL for (int i = 0; i < PF_V; ++i) {
      C of_gate[G];
      const C kept[4] = {k[0][i], k[1][i], k[2][i], k[3][i]};
      pf_cell_back<PF_MODE>(g[i], carried[i], kept, y[i], before[i], of_gate, part[i]);
      PF_UNROLL for (int j = 0; j < G; ++j) d[j][i] = of_gate[j];
    }
    PF_UNROLL for (int j = 0; j < G; ++j) pf_give(r.dx, at.gate(hidden, G, j), d[j]);
    if constexpr (PF_MODE == 3) {
      PF_UNROLL for (int j = 0; j < 2; ++j) pf_give(r.dstate, at.gate(hidden, 3, j), d[j]);
      pf_give(r.dstate, at.gate(hidden, 3, 2), part);
    }
    if constexpr (G > 1) pf_store<C, PF_V, false>(carry, carried);
  }
}

// The gradient of what a projection gave: of the step, and of the next one for the first `old`.
PF_KERNEL(recurrent_sum, 128)
(const void* dout, const void* sum, const void* last, void* to, pf_i64 items, pf_i64 old) {
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(items); e += pf_item_step()) {
    const pf_index at = static_cast<pf_index>(e) * PF_V;
    C v[PF_V];
    PF_UNROLL for (int i = 0; i < PF_V; ++i) v[i] = C(0);
    pf_add(dout, at, v);
    pf_add(at < static_cast<pf_index>(old) ? sum : last, at, v);
    pf_give(to, at, v);
  }
}

// The carried part and, where there is one, that of a product, as the gradient of a first state.
PF_KERNEL(recurrent_end, 128)(const void* carried, const void* sum, void* to, pf_i64 items) {
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(items); e += pf_item_step()) {
    const pf_index at = static_cast<pf_index>(e) * PF_V;
    C v[PF_V];
    pf_load<C, PF_V, false>(static_cast<const C*>(carried) + at, v);
    pf_add(sum, at, v);
    pf_give(to, at, v);
  }
}

#else  // launchers
// A product with the state and a launch for each step, and a product behind that where there is a
// projection. Products are the library's, or ours, as any.
#include <algorithm>

#include "gpu/axes.h"
#include "gpu/host.h"
#include "gpu/kernel.h"
#include "gpu/product.h"
#include "pyflame/amp.h"
#include "table/kernels/recurrent.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int kThreads = 128;

// The tensors `x` and `states` have its sizes.
struct Layer {
  const KernelArgs& a;
  DType type;
  RecurrentMode mode;
  RecurrentTime time;
  int64_t hidden, out, vector;

  Layer(const KernelArgs& args, int x, int states)
      : a(args),
        type(args.dtype(states)),
        mode(static_cast<RecurrentMode>(args.i(numbers<Recurrent>.mode))),
        time(recurrent_time(args)),
        hidden(args.tensor(x).shape[args.tensor(x).ndim - 1] / gates_of(mode)),
        out(args.tensor(states).shape[1]),
        vector(std::min<int64_t>(4, 16 / item())) {
    while (hidden % vector != 0 || out % vector != 0) vector /= 2;
    for (int i = 0; i < args.ntensors; ++i)
      while (vector > 1 && !aligned(args.data(i), vector * item())) vector /= 2;
  }

  int64_t item() const { return static_cast<int64_t>(itemsize(type)); }
  int64_t gates() const { return gates_of(mode) * hidden; }
  bool lstm() const { return mode == RecurrentMode::Lstm; }
  bool gru() const { return mode == RecurrentMode::Gru; }
  // A row, of so many elements each; null where there is no such tensor.
  void* at(int tensor, int64_t row, int64_t each) const {
    char* p = static_cast<char*>(a.data(tensor));
    return p ? p + row * each * item() : nullptr;
  }
  void* workspace(int64_t rows, int64_t each, DType of) const {
    return a.workspace(static_cast<size_t>(rows * each) * itemsize(of));
  }

  Function compile(const char* entry) const {
    return a.compile(
        "kernels_recurrent.cpp",
        Defines()
            .type("PF_T", type)
            .value("PF_MODE", static_cast<int64_t>(mode))
            .value("PF_V", vector)
            .text("PF_INDEX", 4 * time.batch * hidden < int64_t{1} << 31 ? "pf_u32" : "pf_u64"),
        entry);
  }
  template <class... A>
  void launch(Function f, int64_t elements, const A&... args) const {
    a.launch(f, blocks_for(elements / vector, kThreads), kThreads, 0, args...);
  }
  // to [rows, n] = from [rows, k] times the weight: [k, n], or turned, [n, k].
  void multiply_rows(int64_t rows, const void* from, int64_t k, int weight, bool turned, int64_t n,
                     void* to, const void* bias = nullptr) const {
    Product p{};
    p.m = rows;
    p.n = n;
    p.k = k;
    p.dtype = p.out = type;
    p.tf32 = type == DType::Float32 && float32_matmul_precision() != MatmulPrecision::Highest;
    p.a = from;
    p.b = a.data(weight);
    p.bias = bias;
    p.c = to;
    p.a_row = k;
    p.a_col = 1;
    p.b_row = turned ? 1 : n;
    p.b_col = turned ? k : 1;
    ScratchScope own;  // each product gives back what it took
    multiply(a, p);
  }
};

void recurrent(const KernelArgs& a) {
  constexpr auto at = tensors<Recurrent>;
  const Layer l(a, at.x, at.h);
  const RecurrentTime& time = l.time;
  void* product = l.workspace(time.batch, l.gates(), l.type);
  const Function run = l.compile("recurrent_step");
  const bool keeps = a.tensor(at.kept).ndim == 2, projected = a.has(at.projection);
  for (int64_t i = 0; i < time.steps; ++i) {
    const auto step = time.step(i);
    const int64_t before = time.place(step.before), behind = time.place(step.behind);
    const auto begin = [&](int to, int from, int64_t each) {
      const auto [first, end] = time.enter(step.before);
      if (first < end)
        a.copy(l.at(to, before + first, each), l.at(from, first, each),
               static_cast<size_t>((end - first) * each * l.item()));
    };
    begin(at.h, at.first, l.out);
    if (l.lstm()) begin(at.c, at.cell, l.hidden);
    void* const h = l.at(at.h, behind, l.out);
    void* const wide = projected ? l.at(at.wide, step.row, l.hidden) : h;
    l.multiply_rows(step.rows, l.at(at.h, before, l.out), l.out, at.weight, true, l.gates(),
                    product, a.data(at.bias));
    const int64_t elements = step.rows * l.hidden;
    const pf_recurrent r{l.at(at.x, step.row, l.gates()),
                         product,
                         l.at(at.h, before, l.out),
                         l.lstm() ? l.at(at.c, before, l.hidden) : nullptr,
                         wide,
                         l.lstm() ? l.at(at.c, behind, l.hidden) : nullptr,
                         keeps ? l.at(at.kept, step.row, 4 * l.hidden) : nullptr,
                         elements / l.vector,
                         l.hidden};
    l.launch(run, elements, r);
    if (projected) l.multiply_rows(step.rows, wide, l.hidden, at.projection, true, l.out, h);
  }
}

void recurrent_backward(const KernelArgs& a) {
  constexpr auto at = tensors<RecurrentBackward>;
  const Layer l(a, at.dx, at.h);
  const RecurrentTime& time = l.time;
  const bool carries = l.lstm() || l.gru(), projected = a.has(at.projection);
  const int states = l.lstm() ? at.c : at.h;
  // What reaches the states from the next step: in the end the first ones.
  void* const sum = a.data(at.dfirst);
  void* const carried = carries ? l.workspace(time.batch, l.hidden, compute_type(l.type)) : nullptr;
  void* const wide = projected ? l.workspace(time.batch, l.hidden, l.type) : nullptr;
  const Function run = l.compile("recurrent_step_back");
  const Function add = projected ? l.compile("recurrent_sum") : nullptr;
  for (int64_t i = time.steps; i-- > 0;) {
    const auto step = time.step(i);
    const int64_t elements = step.rows * l.hidden;
    // Sequences that had a next step.
    const int64_t old = i + 1 < time.steps ? std::min(step.rows, time.step(i + 1).rows) : 0;
    const void* dout = l.at(at.dout, step.row, l.out);
    const void* last = a.data(at.dlast);
    pf_recurrent_back r{};
    r.dout = dout;
    r.sum = sum;
    r.last = last;
    r.given = a.data(at.dlast_cell);
    r.old = old * l.hidden;
    if (projected) {
      void* const dh = l.at(at.dh, step.row, l.out);
      const int64_t out = step.rows * l.out, items = out / l.vector, old_out = old * l.out;
      const void* const next = sum;
      l.launch(add, out, dout, next, last, dh, items, old_out);
      l.multiply_rows(step.rows, dh, l.out, at.projection, false, l.hidden, wide);
      r.dout = wide;
      r.sum = r.last = nullptr;
    }
    r.before = l.at(states, time.place(step.before), l.hidden);
    r.behind = l.at(states, time.place(step.behind), l.hidden);
    if (carries) r.kept = l.at(at.kept, step.row, 4 * l.hidden);
    r.dx = l.at(at.dx, step.row, l.gates());
    if (l.gru()) r.dstate = l.at(at.dstate, step.row, l.gates());
    r.carried = carried;
    r.items = elements / l.vector;
    r.hidden = l.hidden;
    l.launch(run, elements, r);
    l.multiply_rows(step.rows, l.gru() ? r.dstate : r.dx, l.gates(), at.weight, false, l.out, sum);
  }
  if (!carries) return;
  const int64_t elements = time.batch * l.hidden, items = elements / l.vector;
  const void* const carry = carried;
  const void* const with = l.gru() ? sum : nullptr;
  void* const to = l.gru() ? sum : a.data(at.dcell);
  l.launch(l.compile("recurrent_end"), elements, carry, with, to, items);
}

}  // namespace

PF_GPU_KERNEL(Recurrent::kInfo, recurrent)
PF_GPU_KERNEL(RecurrentBackward::kInfo, recurrent_backward)

}  // namespace pyflame::gpu
#endif
