// Recurrent layers (table/kernels/recurrent.h): a product with the state and a launch for each
// step. Products are the library's, or ours, as any.
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
constexpr auto kNumber = numbers<Recurrent>;

// A layer as its tensor of states [steps + 1, batch, hidden] has it.
struct Layer {
  const KernelArgs& a;
  DType type;
  RecurrentMode mode;
  bool backwards;
  int64_t steps, batch, hidden, vector;

  Layer(const KernelArgs& args, int states)
      : a(args),
        type(args.dtype(states)),
        mode(static_cast<RecurrentMode>(args.i(kNumber.mode))),
        backwards(args.i(kNumber.backwards) != 0),
        steps(args.tensor(states).shape[0] - 1),
        batch(args.tensor(states).shape[1]),
        hidden(args.tensor(states).shape[2]),
        vector(std::min<int64_t>(4, 16 / item())) {
    while (hidden % vector != 0) vector /= 2;
    for (int i = 0; i < args.ntensors; ++i)
      while (vector > 1 && !aligned(args.data(i), vector * item())) vector /= 2;
  }

  int64_t item() const { return static_cast<int64_t>(itemsize(type)); }
  int64_t state() const { return batch * hidden; }
  int64_t gates() const { return gates_of(mode) * hidden; }
  int64_t items() const { return state() / vector; }
  bool carries() const { return mode == RecurrentMode::Lstm || mode == RecurrentMode::Gru; }
  // The memory of step `t`, of so many elements each; null where there is none.
  void* at(int tensor, int64_t t, int64_t each) const {
    char* p = static_cast<char*>(a.data(tensor));
    return p ? p + t * each * item() : nullptr;
  }
  RecurrentStep step(int64_t i) const { return recurrent_step(i, steps, backwards); }

  Function compile(const char* entry) const {
    return a.compile("recurrent.h",
                     Defines()
                         .type("PF_T", type)
                         .value("PF_MODE", static_cast<int64_t>(mode))
                         .value("PF_V", vector)
                         .text("PF_INDEX", 4 * state() < int64_t{1} << 31 ? "pf_u32" : "pf_u64"),
                     entry);
  }
  // to [batch, n] = from [batch, k] times the weight [gates, hidden], as it lies or turned.
  void multiply_state(const void* from, void* to, const void* weight, const void* bias,
                      bool turned) const {
    Product p{};
    p.m = batch;
    p.n = turned ? gates() : hidden;
    p.k = turned ? hidden : gates();
    p.dtype = p.out = type;
    p.a = from;
    p.b = weight;
    p.bias = bias;
    p.c = to;
    p.a_row = p.k;
    p.a_col = 1;
    p.b_row = turned ? 1 : hidden;
    p.b_col = turned ? hidden : 1;
    ScratchScope own;  // each product gives back what it took
    multiply(a, p);
  }
};

void recurrent(const KernelArgs& a) {
  constexpr auto at = tensors<Recurrent>;
  const Layer l(a, at.h);
  const int64_t state = l.state(), start = l.step(0).before;
  const auto bytes = static_cast<size_t>(state * l.item());
  const bool lstm = l.mode == RecurrentMode::Lstm;
  a.copy(l.at(at.h, start, state), a.data(at.first), bytes);
  if (lstm) a.copy(l.at(at.c, start, state), a.data(at.cell), bytes);
  void* product = a.workspace(static_cast<size_t>(l.batch * l.gates() * l.item()));
  const Function run = l.compile("recurrent_step");
  const bool keeps = a.tensor(at.kept).ndim == 3;
  for (int64_t i = 0; i < l.steps; ++i) {
    const auto [t, before, behind] = l.step(i);
    l.multiply_state(l.at(at.h, before, state), product, a.data(at.weight), a.data(at.bias), true);
    const pf_recurrent r{l.at(at.x, t, l.batch * l.gates()),
                         product,
                         l.at(at.h, before, state),
                         lstm ? l.at(at.c, before, state) : nullptr,
                         l.at(at.h, behind, state),
                         lstm ? l.at(at.c, behind, state) : nullptr,
                         keeps ? l.at(at.kept, t, 4 * state) : nullptr,
                         l.items(),
                         l.hidden};
    a.launch(run, blocks_for(r.items, kBlock), kBlock, 0, r);
  }
}

void recurrent_backward(const KernelArgs& a) {
  constexpr auto at = tensors<RecurrentBackward>;
  const Layer l(a, at.h);
  const int64_t state = l.state();
  const auto elements = static_cast<size_t>(state);
  const bool lstm = l.mode == RecurrentMode::Lstm, gru = l.mode == RecurrentMode::Gru;
  void* sum = a.workspace(elements * static_cast<size_t>(l.item()));
  void* carried = l.carries() ? a.workspace(elements * itemsize(compute_type(l.type))) : nullptr;
  const Function run = l.compile("recurrent_step_back");
  for (int64_t i = l.steps; i-- > 0;) {
    const auto [t, before, behind] = l.step(i);
    const bool begins = i + 1 == l.steps;
    pf_recurrent_back r{};
    r.dout = l.at(at.dout, t, state);
    r.sum = begins ? a.data(at.dlast) : sum;
    r.before = l.at(at.h, before, state);
    r.h = l.at(at.h, behind, state);
    if (lstm) {
      r.given = a.data(at.dlast_cell);
      r.cell = l.at(at.c, before, state);
      r.c = l.at(at.c, behind, state);
    }
    if (l.carries()) r.kept = l.at(at.kept, t, 4 * state);
    r.dx = l.at(at.dx, t, l.batch * l.gates());
    if (gru) r.dstate = l.at(at.dstate, t, l.batch * l.gates());
    r.carried = carried;
    r.items = l.items();
    r.hidden = l.hidden;
    r.begins = begins;
    a.launch(run, blocks_for(r.items, kBlock), kBlock, 0, r);
    l.multiply_state(gru ? r.dstate : r.dx, i == 0 && !gru ? a.data(at.dfirst) : sum,
                     a.data(at.weight), nullptr, false);
  }
  if (!l.carries()) return;
  const void* carry = carried;
  const void* with = gru ? sum : nullptr;
  void* to = a.data(gru ? at.dfirst : at.dcell);
  a.launch(l.compile("recurrent_end"), blocks_for(l.items(), kBlock), kBlock, 0, carry, with, to,
           l.items());
}

}  // namespace

PF_GPU_KERNEL(Recurrent::kInfo, recurrent)
PF_GPU_KERNEL(RecurrentBackward::kInfo, recurrent_backward)

}  // namespace pyflame::gpu
