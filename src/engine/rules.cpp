#include "engine/rules.h"

#include <algorithm>

#include "core/backends.h"
#include "core/kernel_numbers.h"
#include "engine/counters.h"
#include "engine/hazards.h"
#include "table/kernels/index.h"
#include "table/kernels/loss.h"
#include "table/kernels/matmul.h"
#include "table/kernels/norm.h"
#include "table/kernels/reduce.h"
#include "table/rows.h"

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

// How a call becomes one with the pending kernel: where the tensors of both are among those of the
// kernel that does the work of the two (-1: the call has none there), and its numbers.
struct Pairing {
  int ntensors = 0, nouts = 0, nattrs = 0;
  int first[kMaxAnchorTensors], second[kMaxAnchorTensors];
  pf_scalar attrs[kMaxAttrs];
};
using Attrs = std::span<const pf_scalar>;
// What is about to be recorded.
struct Call {
  const Kernel& kernel;
  std::span<const Tensor> outs, ins;
  Attrs attrs;
};

template <class K>
void kernel_of(Pairing& p) {
  static_assert(kernels::kCount<K::template Tensors> <= kMaxAnchorTensors);
  p.ntensors = kernels::kCount<K::template Tensors>;
  p.nouts = K::kInfo.outputs;
  p.nattrs = kernels::kCount<K::template Numbers>;
}
// Positions by name, in the order of a kernel's own tensors.
template <template <class> class List>
void place(int* to, const List<int>& at) {
  std::copy_n(kernels::members<List>(at), kernels::kCount<List>, to);
}

// The loss and its gradient: logits are read once.
bool loss_and_gradient(const Group& g, const Call& c, Pairing& p) {
  using namespace kernels;
  const AnchorCall& a = g.anchor;
  const auto same = [](const pf_scalar& s, const pf_scalar& t) { return s.i == t.i && s.f == t.f; };
  if (!std::equal(c.attrs.begin(), c.attrs.end(), a.attrs, same)) return false;
  constexpr auto at = tensors<CrossEntropyBoth>;
  kernel_of<CrossEntropyBoth>(p);
  place<CrossEntropy::Tensors>(p.first, {.loss = at.loss,
                                         .stats = at.stats,
                                         .total = at.total,
                                         .x = at.x,
                                         .target = at.target,
                                         .weight = at.weight});
  place<CrossEntropyBackward::Tensors>(p.second, {.dx = at.dx,
                                                  .dloss = at.dloss,
                                                  .x = at.x,
                                                  .target = at.target,
                                                  .stats = at.stats,
                                                  .total = at.total,
                                                  .weight = at.weight});
  std::copy(c.attrs.begin(), c.attrs.end(), p.attrs);
  return true;
}

// One sum among several of an x: its tensors' places, and its divisor.
bool add_sum(Attrs attrs, int* places, Pairing& p) {
  using namespace kernels;
  constexpr auto at = tensors<Moments>;
  constexpr auto from = numbers<Sum>;
  constexpr auto to = numbers<Moments>;
  const auto add = [&](int out, int mean, int divisor) {
    place<Sum::Tensors>(places, {.out = out, .x = at.x, .mean = mean});
    p.attrs[divisor] = attrs[static_cast<size_t>(from.divisor)];
    return true;
  };
  switch (static_cast<SumKind>(attrs[static_cast<size_t>(from.kind)].i)) {
    case SumKind::Plain:
      return add(at.total, -1, to.total);
    case SumKind::Differences:
      return add(at.differences, -1, to.differences);
    case SumKind::Spread:
      return add(at.spread, at.differences, to.spread);
    default:
      return false;
  }
}
// The mean of an x, and its variance: x is read once.
bool sum_and_sum(const Group& g, const Call& c, Pairing& p) {
  using namespace kernels;
  const AnchorCall& a = g.anchor;
  constexpr auto from = numbers<Sum>;
  const pf_scalar dims = c.attrs[static_cast<size_t>(from.dims)];
  if (a.attrs[from.dims].i != dims.i) return false;
  kernel_of<Moments>(p);
  std::fill_n(p.attrs, p.nattrs, pf_scalar{});
  p.attrs[numbers<Moments>.dims] = dims;
  return add_sum({a.attrs, static_cast<size_t>(a.nattrs)}, p.first, p) &&
         add_sum(c.attrs, p.second, p);
}
bool sums_and_sum(const Group& g, const Call& c, Pairing& p) {
  using namespace kernels;
  const AnchorCall& a = g.anchor;
  if (a.attrs[numbers<Moments>.dims].i != c.attrs[static_cast<size_t>(numbers<Sum>.dims)].i)
    return false;
  kernel_of<Moments>(p);
  place<Moments::Tensors>(p.first, tensors<Moments>);
  std::copy_n(a.attrs, a.nattrs, p.attrs);
  return add_sum(c.attrs, p.second, p);
}

// A reduction as one of several, and what it is divided by; false where it cannot be.
bool as_one_of_several(const Kernel& k, Attrs attrs, DType of, SumKind* what, double* by) {
  using namespace kernels;
  *by = 1;
  if (&k == &kernel<Sum>()) {
    *what = SumKind{attrs[static_cast<size_t>(numbers<Sum>.kind)].i};
    *by = attrs[static_cast<size_t>(numbers<Sum>.divisor)].f;
    return *what != SumKind::Differences && *what != SumKind::Spread;
  }
  if (&k == &kernel<Prod>()) return *what = kProduct, is_float(of);
  *what = &k == &kernel<Amax>() ? kLargest : kSmallest;
  return (&k == &kernel<Amax>() || &k == &kernel<Amin>()) && of != DType::Bool;
}
bool is_one_of_several(const AnchorCall& a, SumKind* what, double* by) {
  return a.nouts == 1 && a.ntensors > 1 &&
         as_one_of_several(*a.kernel, {a.attrs, static_cast<size_t>(a.nattrs)}, a.tensors[1].dtype,
                           what, by);
}
// Reductions of one tensor, or of what is made of the same tensors, over the same dimensions.
bool several_reductions(const Group& g, const Call& c, Pairing& p) {
  using namespace kernels;
  const AnchorCall& a = g.anchor;
  if (a.kernel->anchor != Anchor::Reduce || c.kernel.anchor != Anchor::Reduce) return false;
  constexpr auto at = tensors<Reductions>;
  constexpr auto to = numbers<Reductions>;
  constexpr int kMost = kMostReductions;
  static_assert(numbers<Sum>.dims == to.dims && numbers<SumInt>.dims == to.dims);
  const bool again = a.kernel == &kernel<Reductions>();
  const int first = again ? at.x : 1;  // among the tensors of the pending kernel
  SumKind what;
  double by;
  const auto put = [&](int i, int tensor) {
    p.attrs[to.a + i] = to_kernel_scalar(Scalar(reduction_of(what, tensor)));
    p.attrs[to.a_by + i] = to_kernel_scalar(Scalar(by));
  };
  kernel_of<Reductions>(p);
  int n = 1, tensor = 0, known = 1;
  if (again) {
    for (int i = 0; i < a.ntensors; ++i) p.first[i] = a.tensors[i].storage ? i : -1;
    std::copy_n(a.attrs, a.nattrs, p.attrs);
    while (n < kMost && a.tensors[n].storage) ++n;
    while (known < kMost && a.tensors[first + known].storage) ++known;
  } else {
    if (!is_one_of_several(a, &what, &by)) return false;
    std::fill_n(p.first, kMaxAnchorTensors, -1);
    p.first[0] = at.a;
    p.first[1] = at.x;
    std::fill_n(p.attrs, p.nattrs, pf_scalar{});
    p.attrs[to.dims] = a.attrs[to.dims];
    put(0, 0);
  }
  if (n == kMost || a.attrs[to.dims].i != c.attrs[static_cast<size_t>(to.dims)].i) return false;
  // What nobody reads any more waits for no other: a loop that drops its results does real work.
  for (int i = 0; i < n; ++i) {
    const Storage& made = *a.tensors[i].storage;
    const auto reads = [&made](const Phase& ph) {
      return std::any_of(ph.inputs, ph.inputs + ph.ninputs,
                         [&made](const Place& q) { return q.storage.get() == &made; });
    };
    if (made.handles.load(std::memory_order_relaxed) == 0 && !reads(g.phases[1]) &&
        !reads(g.phases[2]))
      return false;
  }
  const Tensor &out = c.outs[0], &in = c.ins[0];
  if (!as_one_of_several(c.kernel, c.attrs, in->dtype, &what, &by)) return false;
  const Place& x = a.tensors[first];
  if (in->dtype != x.dtype || out->dtype != a.tensors[0].dtype || !(in->shape == a.shapes[first]) ||
      !(in->strides == x.strides))
    return false;
  const Storage& s = *in->storage;
  const auto is_in = [&s](const Place& q) { return q.storage.get() == &s; };
  while (tensor < known &&
         !(is_in(a.tensors[first + tensor]) && a.tensors[first + tensor].offset == in->offset))
    ++tensor;
  // What nobody here reads would only be read beside it.
  if (tensor == known && !s.writer.load(std::memory_order_relaxed) &&
      std::none_of(a.tensors + first, a.tensors + first + known, is_in) &&
      std::none_of(g.phases[0].inputs, g.phases[0].inputs + g.phases[0].ninputs, is_in))
    return false;
  std::fill_n(p.second, kMaxAnchorTensors, -1);
  p.second[0] = at.a + n;
  p.second[1] = at.x + tensor;
  put(n, tensor);
  return true;
}

// The norm of one row, and its product with a matrix: every block of the product makes the row.
bool norm_and_product(const Group& g, const Call& c, Pairing& p) {
  using namespace kernels;
  const AnchorCall& a = g.anchor;
  constexpr auto at = tensors<NormMatmul>;
  constexpr auto from = numbers<LayerNorm>;
  constexpr auto to = numbers<NormMatmul>;
  if (numel(a.shapes[tensors<LayerNorm>.x]) != a.attrs[from.length].i ||
      c.attrs[static_cast<size_t>(numbers<Matmul>.a_transposed)].i != 0)
    return false;
  kernel_of<NormMatmul>(p);
  place<LayerNorm::Tensors>(p.first, {.y = at.y,
                                      .mean = at.mean,
                                      .rstd = at.rstd,
                                      .x = at.x,
                                      .weight = at.scale,
                                      .bias = at.shift});
  place<Matmul::Tensors>(p.second, {.out = at.out, .a = at.y, .b = at.b, .bias = at.bias});
  p.attrs[to.length] = a.attrs[from.length];
  p.attrs[to.eps] = a.attrs[from.eps];
  p.attrs[to.first] = {};
  p.attrs[to.b_transposed] = c.attrs[static_cast<size_t>(numbers<Matmul>.b_transposed)];
  return true;
}

// Two kernels whose work one does, where `pair` says so: the second's tensors are new, are what the
// first has in that place, or, what both write, not there.
struct Merge {
  const Kernel *first, *second;  // null: any
  const Kernel& both;
  bool (*pair)(const Group& first, const Call& second, Pairing&);
};
std::span<const Merge> merges() {
  using namespace kernels;
  static const Merge all[] = {
      {&kernel<CrossEntropy>(), &kernel<CrossEntropyBackward>(), kernel<CrossEntropyBoth>(),
       loss_and_gradient},
      {&kernel<Sum>(), &kernel<Sum>(), kernel<Moments>(), sum_and_sum},
      {&kernel<Moments>(), &kernel<Sum>(), kernel<Moments>(), sums_and_sum},
      {nullptr, nullptr, kernel<Reductions>(), several_reductions},
      {&kernel<LayerNorm>(), &kernel<Matmul>(), kernel<NormMatmul>(), norm_and_product},
      {&kernel<RmsNorm>(), &kernel<Matmul>(), kernel<RmsNormMatmul>(), norm_and_product},
  };
  return all;
}

// Whether a tensor that the pending kernel does not look at can be read by it: what it needs is
// computed before the kernel.
bool take_input(Group& g, const Tensor& t) {
  AnchorCall& a = g.anchor;
  const Storage& s = *t->storage;
  if (!writes(g, s)) return true;
  if (part_of(s.writer_node) == kAfter && a.kernel->anchor == Anchor::Reduce)
    make_before(g, g, g.phases[1]);
  const int part = part_of(s.writer_node), node = index_of(s.writer_node);
  if (part == kAnchor || part == kBeside) return false;
  Phase& ph = g.phase(part);
  if (!(ph.shape == t->shape) || !same_place(ph.outputs[node], *t.impl(), ph.shape)) return false;
  if (part == kAfter && (g.phases[2].nnodes || !can_precede(g, node))) return false;
  (part == kAfter ? a.reads_beside : ph.materialise) |= 1u << node;
  return true;
}

bool apply(const Merge& m, Group& g, const Call& c) {
  AnchorCall& a = g.anchor;
  const auto [outs, ins] = std::pair(c.outs, c.ins);
  Pairing p;
  if (!m.pair(g, c, p) || !find_kernel(m.both, g.device)) return false;
  int known[kMaxAnchorTensors];  // by place: the pending kernel's tensor, or -1
  std::fill_n(known, p.ntensors, -1);
  for (int i = 0; i < a.ntensors; ++i) {
    if (p.first[i] < 0) continue;
    // What the pending kernel reads, and both would write: the mean of an earlier one.
    if (i >= a.nouts && p.first[i] < p.nouts && a.tensors[i].storage) return false;
    known[p.first[i]] = i;
  }
  // Everything that may say no stands before the first change.
  const Tensor* fresh[kMaxAnchorTensors];  // inputs that the pending kernel has not
  int nfresh = 0;
  for (size_t i = 0; i < outs.size() + ins.size(); ++i) {
    const bool out = i < outs.size();
    const Tensor& t = out ? outs[i] : ins[i - outs.size()];
    const int at = p.second[i], pending = at < 0 ? -1 : known[at];
    const Place* mine = pending < 0 || !a.tensors[pending].storage ? nullptr : &a.tensors[pending];
    if (out) {
      if (!t.defined() || mine || t->storage->writer.load(std::memory_order_relaxed) ||
          t->storage->reader.load(std::memory_order_relaxed))
        return false;
    } else if (mine || !t.defined()) {
      if (!mine != !t.defined()) return false;
      if (!mine) continue;
      if (mine->storage.get() != t->storage.get() || !(a.shapes[pending] == t->shape) ||
          !same_place(*mine, *t.impl(), t->shape) || writes(g, *t->storage, kAfter))
        return false;
    } else {
      if (at < p.nouts || pending >= 0) return false;
      fresh[nfresh++] = &t;
    }
  }
  for (int i = 0; i < nfresh; ++i)
    if (nfresh > 1 ? writes(g, *(*fresh[i])->storage) : !take_input(g, *fresh[i])) return false;
  // What is behind the kernel is no longer: nodes over what both make come there.
  if (a.reads_beside && !g.phases[2].nnodes) {
    move_phase(g.phases[1], g.phases[2]);
    for (int i = 0; i < g.phases[2].nnodes; ++i) {
      Storage& s = *g.phases[2].outputs[i].storage;
      if (writes(g, s, kAfter)) s.writer_node = code_of(kBeside, index_of(s.writer_node));
    }
  }
  // The pending kernel's tensors go to their new places, behind which the others come.
  Place tensors[kMaxAnchorTensors];
  Dims shapes[kMaxAnchorTensors];
  for (int at = 0; at < p.ntensors; ++at) {
    if (known[at] < 0) continue;
    tensors[at] = std::move(a.tensors[known[at]]);
    shapes[at] = a.shapes[known[at]];
  }
  for (size_t i = 0; i < outs.size() + ins.size(); ++i) {
    const bool out = i < outs.size();
    const Tensor& t = out ? outs[i] : ins[i - outs.size()];
    if (!out && std::find(fresh, fresh + nfresh, &t) == fresh + nfresh) continue;
    const int at = p.second[i];
    set_place(tensors[at], *t.impl(), t->shape);
    shapes[at] = t->shape;
    Storage& s = *t->storage;
    if (out) {
      g.output_bytes += s.nbytes;
    } else {
      mark_reader(s, g);
      g.input_bytes += s.nbytes;
    }
  }
  for (int at = 0; at < p.ntensors; ++at) {
    a.tensors[at] = std::move(tensors[at]);
    a.shapes[at] = shapes[at];
    if (at >= p.nouts || !a.tensors[at].storage) continue;
    a.tensors[at].storage->writer_node = code_of(kAnchor, at);
    a.tensors[at].storage->writer.store(&g, std::memory_order_release);
  }
  a.kernel = &m.both;
  a.nouts = p.nouts;
  a.ntensors = p.ntensors;
  a.nattrs = p.nattrs;
  std::copy_n(p.attrs, p.nattrs, a.attrs);
  bump(counters().nodes);
  bump(counters().merged);
  return true;
}

// Whether the window aside is back, with what is recorded before its reductions, of which this is
// to be one more.
bool back_for(Group& g, const Call& c) {
  if (!c.outs[0].defined()) return false;  // `argmax` without its values
  Pairing p;
  {
    std::lock_guard lock(g.aside->mutex);
    const Group& d = *g.aside;
    if (!d.has_anchor || !(d.device == c.outs[0]->storage->device) || !several_reductions(d, c, p))
      return false;
  }
  return bring_back_before(g);
}

// Whether a norm of one row, which has the shape of a pending product, will be made by the product
// that reads it, anew in each of its blocks: then nothing can be made on the way to it.
bool joins_next_product(const Group& g, const Kernel& k) {
  using namespace kernels;
  const Kernel* both = &k == &kernel<LayerNorm>() ? &kernel<NormMatmul>()
                       : &k == &kernel<RmsNorm>() ? &kernel<RmsNormMatmul>()
                                                  : nullptr;
  const Dims& shape = g.anchor.shapes[0];
  return both && !shape.empty() && numel(shape) == shape.back() && find_kernel(*both, g.device);
}

}  // namespace

bool merge(Group& g, const Kernel& k, std::span<const Tensor> outs, std::span<const Tensor> ins,
           std::span<const Scalar> attrs) {
  if (!(g.has_anchor || (g.aside && k.anchor == Anchor::Reduce)) || attrs.size() > kMaxAttrs)
    return false;
  pf_scalar numbers[kMaxAttrs];
  std::transform(attrs.begin(), attrs.end(), numbers, to_kernel_scalar);
  const Call c{k, outs, ins, {numbers, attrs.size()}};
  if (!g.has_anchor && !back_for(g, c)) return false;
  return std::any_of(merges().begin(), merges().end(), [&](const Merge& m) {
    return (!m.first || m.first == g.anchor.kernel) && (!m.second || m.second == &k) &&
           apply(m, g, c);
  });
}

bool keep_row(Group& g, const Kernel& k, std::span<const Tensor> outs, std::span<const Tensor> ins,
              std::span<const Scalar> attrs, const CallOptions& options) {
  using namespace kernels;
  constexpr auto from = tensors<Scatter>;
  constexpr auto at = tensors<NormMatmul>;
  constexpr auto number = numbers<Scatter>;
  AnchorCall& a = g.anchor;
  if (&k != &kernel<Scatter>() || !g.has_anchor || g.phases[1].nnodes ||
      (a.kernel != &kernel<NormMatmul>() && a.kernel != &kernel<RmsNormMatmul>()) ||
      a.tensors[at.kept].storage)
    return false;
  const Tensor &kept = outs[from.out], &place = ins[from.index - from.index],
               &row = ins[from.src - from.index];
  const auto is = [&](int n, int64_t v) {
    return to_kernel_scalar(attrs[static_cast<size_t>(n)]).i == v;
  };
  // One index for all of a row, the lines of both of which lie one behind the other.
  const auto line = [](const Tensor& t) {
    int64_t step = 1;
    for (int d = t->shape.size() - 1; d > 0; step *= t->shape[d--])
      if (t->shape[d] != 1 && t->strides[d] != step) return false;
    return true;
  };
  const auto lanes = [](const Dims& s) { return numel(s) / s[0]; };
  if (!is(number.dim, 0) || !is(number.mode, kAssign) || !is(number.skip, INT64_MIN) ||
      kept->shape.empty() || numel(kept->shape) == 0 || place->shape.size() != kept->shape.size() ||
      place->shape[0] != 1 || !(place->shape == row->shape) || !line(kept) || !line(row) ||
      lanes(kept->shape) != lanes(row->shape) || kept->dtype != row->dtype)
    return false;
  for (int d = 1; d < place->shape.size(); ++d)
    if (place->shape[d] != kept->shape[d] || (place->shape[d] != 1 && place->strides[d] != 0))
      return false;
  Storage& to = *kept->storage;
  const Place& made = a.tensors[at.out];
  if (made.storage.get() != row->storage.get() || made.dtype != row->dtype ||
      row->offset < made.offset || writes(g, *place->storage) ||
      to.writer.load(std::memory_order_relaxed) || to.reader.load(std::memory_order_relaxed))
    return false;
  set_place(a.tensors[at.kept], *kept.impl(), kept->shape);
  a.shapes[at.kept] = kept->shape;
  to.writer_node = code_of(kAnchor, at.kept);
  to.writer.store(&g, std::memory_order_release);
  set_place(a.tensors[at.place], *place.impl(), place->shape);
  a.shapes[at.place] = place->shape;
  mark_reader(*place->storage, g);
  a.attrs[numbers<NormMatmul>.first].i = row->offset - made.offset;
  a.options.inplace |= 1u << at.kept;
  a.options.indices = k.indices;
  a.options.op = options.op;
  bump(counters().nodes);
  bump(counters().merged);
  return true;
}

bool keep_last_phase(Group& g, const Kernel& k, std::span<const Tensor> ins) {
  if (!g.has_anchor || g.anchor.kernel->anchor != Anchor::Library || k.anchor != Anchor::Rowwise ||
      joins_next_product(g, k))
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

bool carry_cast(Group& g, const Kernel& k, std::span<const Tensor> ins) {
  Phase& ph = g.phases[1];
  if (!g.has_anchor || k.anchor != Anchor::Rowwise || ph.nnodes < 2) return false;
  const int last = ph.nnodes - 1;
  const pf_node n = ph.nodes[last];
  if (n.op != table::op::cast || n.in[0].kind != PF_REF_INPUT ||
      (ph.consumed | ph.materialise | ph.superseded) >> last & 1)
    return false;
  const Ref<Storage> made = ph.outputs[last].storage, from = ph.inputs[n.in[0].index].storage;
  if (writes(g, *from) || !writes(g, *made, kAfter) || index_of(made->writer_node) != last ||
      std::none_of(ins.begin(), ins.end(),
                   [&](const Tensor& t) { return t.defined() && t->storage.get() == made.get(); }))
    return false;
  Place in = ph.inputs[n.in[0].index], out = std::move(ph.outputs[last]);
  const Dims shape = ph.shape;
  const int64_t count = ph.numel;
  ph.nnodes = last;
  run_group(g, Flush::CannotJoin);
  Phase& to = g.phases[0];
  to.shape = shape;
  to.numel = count;
  to.nodes[0] = n;
  to.nodes[0].in[0].index = 0;
  to.nnodes = to.ninputs = 1;
  mark_reader(*from, g);
  g.input_bytes += from->nbytes;
  g.output_bytes += made->nbytes;
  to.inputs[0] = std::move(in);
  to.outputs[0] = std::move(out);
  made->writer_node = code_of(kBefore, 0);
  made->writer.store(&g, std::memory_order_release);
  return true;
}

bool better_later(const Group& g) {
  constexpr size_t kWorthIt = size_t{1} << 20;  // bytes
  const AnchorCall& a = g.anchor;
  const Phase& ph = g.phases[1];
  return g.has_anchor && a.kernel->anchor == Anchor::Rowwise &&
         std::any_of(a.tensors, a.tensors + a.nouts, [&](const Place& p) {
           return p.storage && p.storage->nbytes >= kWorthIt &&
                  p.storage->handles.load(std::memory_order_relaxed) > 0 &&
                  std::any_of(ph.inputs, ph.inputs + ph.ninputs,
                              [&](const Place& in) { return in.storage == p.storage; });
         });
}

bool follows_later(const Group& g) {
  constexpr size_t kWorthIt = size_t{1} << 20;  // bytes
  const AnchorCall& a = g.anchor;
  return g.has_anchor && a.kernel == &kernel<kernels::Matmul>() && g.phases[1].nnodes == 0 &&
         !backend_of(g.device)->synchronous && a.tensors[0].storage->nbytes >= kWorthIt &&
         a.tensors[0].storage->handles.load(std::memory_order_relaxed) > 0;
}

bool reduces_the_same(const Group& g, const Dims& shape, std::span<const Operand> operands) {
  const AnchorCall& a = g.anchor;
  SumKind what;
  double by;
  if (!g.has_anchor || a.kernel->anchor != Anchor::Reduce || !(a.shapes[a.nouts] == shape) ||
      (a.kernel == &kernel<kernels::Reductions>()
           ? a.tensors[a.nouts - 1].storage.get() != nullptr  // there is room for no more
           : !is_one_of_several(a, &what, &by)))
    return false;
  if (g.aside) {
    std::lock_guard lock(g.aside->mutex);
    if (!g.aside->empty()) return false;
  }
  const auto is_read = [&](const Operand& o) {
    const auto is = [&o](const Place& p) { return p.storage.get() == (*o.tensor)->storage.get(); };
    return o.tensor &&
           (std::any_of(a.tensors + a.nouts, a.tensors + a.ntensors, is) ||
            std::any_of(g.phases[0].inputs, g.phases[0].inputs + g.phases[0].ninputs, is));
  };
  return std::any_of(operands.begin(), operands.end(), is_read);
}

bool follows_aside(const Group& g, std::span<const Operand> operands) {
  return g.aside && g.since_aside >= 0 &&
         std::any_of(operands.begin(), operands.end(), [&g](const Operand& o) {
           return o.tensor && writes(*g.aside, *(*o.tensor)->storage, kAnchor);
         });
}

}  // namespace pyflame::engine
