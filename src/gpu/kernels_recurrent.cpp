// Recurrent layers (table/kernels/recurrent.h): a product with the state and a launch for each
// step, and a product behind that where there is a projection. Products are the library's, or ours,
// as any.
#include <algorithm>

#include "gpu/axes.h"
#include "gpu/host.h"
#include "gpu/kernel.h"
#include "gpu/product.h"
#include "kernels/recurrent_args.h"
#include "table/kernels/recurrent.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int kBlock = 128;

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
        "recurrent.h",
        Defines()
            .type("PF_T", type)
            .value("PF_MODE", static_cast<int64_t>(mode))
            .value("PF_V", vector)
            .text("PF_INDEX", 4 * time.batch * hidden < int64_t{1} << 31 ? "pf_u32" : "pf_u64"),
        entry);
  }
  template <class... A>
  void launch(Function f, int64_t elements, const A&... args) const {
    a.launch(f, blocks_for(elements / vector, kBlock), kBlock, 0, args...);
  }
  // to [rows, n] = from [rows, k] times the weight: [k, n], or turned, [n, k].
  void multiply_rows(int64_t rows, const void* from, int64_t k, int weight, bool turned, int64_t n,
                     void* to, const void* bias = nullptr) const {
    Product p{};
    p.m = rows;
    p.n = n;
    p.k = k;
    p.dtype = p.out = type;
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
