#include "engine/rules.h"

#include <algorithm>

#include "engine/counters.h"
#include "engine/hazards.h"
#include "table/kernels/loss.h"

namespace pyflame::engine {
namespace {

// Whether a node after the anchor can be computed before it: neither it nor what it needs looks at
// what the anchor writes, and where it lies nobody looks.
bool can_precede(const Group& g, int node) {
  const Phase& ph = g.phases[1];
  const AnchorCall& a = g.anchor;
  uint32_t needed = 1u << node;
  for (int i = node; i >= 0; --i) {
    if (!(needed >> i & 1)) continue;
    for (int k = 0; k < ph.nodes[i].nin; ++k) {
      const pf_ref r = ph.nodes[i].in[k];
      if (r.kind == PF_REF_NODE) needed |= 1u << r.index;
      if (r.kind != PF_REF_INPUT) continue;
      for (int t = 0; t < a.nouts; ++t)
        if (a.tensors[t].storage.get() == ph.inputs[r.index].storage.get()) return false;
    }
  }
  const Storage* out = ph.outputs[node].storage.get();
  for (int j = 0; j < ph.ninputs; ++j)
    if (ph.inputs[j].storage.get() == out) return false;
  for (int t = 0; t < a.ntensors; ++t)
    if (a.tensors[t].storage.get() == out) return false;
  return !(ph.superseded >> node & 1);
}

// Two kernels whose work one does. The second reads what the first reads, with the same numbers,
// and one tensor more, its first input. Tensors of `both`: what the first writes, what the second
// writes, what the first reads, and that one.
struct Merge {
  const Kernel &first, &second, &both;
};
std::span<const Merge> merges() {
  using namespace kernels;
  static const Merge all[] = {
      // The loss and its gradient: logits are read once.
      {kernel<CrossEntropy>(), kernel<CrossEntropyBackward>(), kernel<CrossEntropyBoth>()},
  };
  return all;
}

bool apply(const Kernel& both, Group& g, std::span<const Tensor> outs, std::span<const Tensor> ins,
           std::span<const Scalar> attrs) {
  AnchorCall& a = g.anchor;
  const int extra = static_cast<int>(outs.size()) + 1;
  if (a.ntensors + extra > kMaxAnchorTensors || a.nattrs != static_cast<int>(attrs.size()) ||
      !find_kernel(both, g.device))
    return false;
  for (int i = 0; i < a.nattrs; ++i) {
    const pf_scalar s = to_kernel_scalar(attrs[static_cast<size_t>(i)]);
    if (s.i != a.attrs[i].i || s.f != a.attrs[i].f) return false;
  }
  for (const Tensor& t : outs)
    if (!t.defined() || t->storage->writer.load(std::memory_order_relaxed) ||
        t->storage->reader.load(std::memory_order_relaxed))
      return false;
  for (const Tensor& t : ins.subspan(1)) {
    if (!t.defined()) continue;
    bool known = false;
    for (int i = 0; i < a.ntensors; ++i)
      known |= a.tensors[i].storage.get() == t->storage.get() && a.shapes[i] == t->shape &&
               same_place(a.tensors[i], *t.impl(), t->shape);
    if (!known || writes(g, *t->storage, kAfter)) return false;
  }
  if (!ins[0].defined()) return false;
  Storage& s = *ins[0]->storage;
  if (writes(g, s)) {
    const int part = part_of(s.writer_node), node = index_of(s.writer_node);
    if (part == kAnchor) return false;
    Phase& ph = g.phases[part == kAfter ? 1 : 0];
    if (!(ph.shape == ins[0]->shape) || !same_place(ph.outputs[node], *ins[0].impl(), ph.shape))
      return false;
    if (part == kAfter && !can_precede(g, node)) return false;
    (part == kAfter ? a.reads_behind : ph.materialise) |= 1u << node;
  }
  // Room between the outputs and the inputs.
  const int more = static_cast<int>(outs.size());
  for (int i = a.ntensors - 1; i >= a.nouts; --i) {
    a.tensors[i + more] = std::move(a.tensors[i]);
    a.shapes[i + more] = a.shapes[i];
  }
  for (int i = 0; i < more; ++i) {
    const Tensor& t = outs[static_cast<size_t>(i)];
    set_place(a.tensors[a.nouts + i], *t.impl(), t->shape);
    a.shapes[a.nouts + i] = t->shape;
    t->storage->writer_node = code_of(kAnchor, a.nouts + i);
    t->storage->writer.store(&g, std::memory_order_release);
    g.output_bytes += t->storage->nbytes;
  }
  a.nouts += more;
  a.ntensors += extra;
  set_place(a.tensors[a.ntensors - 1], *ins[0].impl(), ins[0]->shape);
  a.shapes[a.ntensors - 1] = ins[0]->shape;
  mark_reader(s, g);
  g.input_bytes += s.nbytes;
  a.kernel = &both;
  bump(counters().nodes);
  bump(counters().merged);
  return true;
}

}  // namespace

bool merge(Group& g, const Kernel& k, std::span<const Tensor> outs, std::span<const Tensor> ins,
           std::span<const Scalar> attrs) {
  for (const Merge& m : merges())
    if (&m.second == &k && &m.first == g.anchor.kernel) return apply(m.both, g, outs, ins, attrs);
  return false;
}

bool keep_last_phase(Group& g, const Kernel& k, std::span<const Tensor> ins) {
  if (!g.has_anchor || g.anchor.kernel->anchor != Anchor::Library || k.anchor != Anchor::Rowwise)
    return false;
  const bool reads = std::any_of(ins.begin(), ins.end(), [&g](const Tensor& t) {
    return t.defined() && writes(g, *t->storage, kAfter);
  });
  if (!reads) return false;
  if (!run_to_anchor(g, Flush::CannotJoin)) return true;
  Phase& ph = g.phases[0];
  for (int i = 0; i < ph.nnodes; ++i) {
    Storage& s = *ph.outputs[i].storage;
    if (writes(g, s)) s.writer_node = code_of(kBefore, i);
    g.output_bytes += s.nbytes;
  }
  for (int i = 0; i < ph.ninputs; ++i) {
    mark_reader(*ph.inputs[i].storage, g);
    g.input_bytes += ph.inputs[i].storage->nbytes;
  }
  return true;
}

}  // namespace pyflame::engine
