#include "engine/planner.h"

#include <algorithm>
#include <utility>

#include "core/allocator.h"

namespace pyflame::engine {
namespace {

constinit thread_local bool t_fast = false;

bool has_handles(const Storage& s) {
  return s.handles.load(std::memory_order_relaxed) > 0;
}

// ---- programs ----------------------------------------------------------------------------------

// Results that somebody may still look at.
uint32_t live_nodes(const Phase& ph) {
  uint32_t live = 0;
  for (int i = 0; i < ph.nnodes; ++i)
    if (!(ph.superseded >> i & 1) &&
        ((ph.materialise >> i & 1) || has_handles(*ph.outputs[i].storage)))
      live |= 1u << i;
  return live;
}

// Puts the dimensions of a launch in the order in which the first result has them in memory: what
// is permuted alike is dense for the backend.
void put_in_order(PlannedProgram& planned) {
  const Phase& ph = *planned.phase;
  Dims dense;
  const int n = ph.shape.size();
  if (planned.out[0].contiguous || n < 2 ||
      !dense_strides_like(ph.shape, ph.outputs[planned.stored[0]].strides, &dense))
    return;
  int order[kMaxDims];
  for (int d = 0; d < n; ++d) order[d] = d;
  std::stable_sort(order, order + n, [&](int a, int b) { return dense[a] > dense[b]; });
  for (int d = 0; d < n; ++d) planned.shape[d] = ph.shape[order[d]];
  int64_t(*strides)[kMaxDims] = planned.strides;
  const auto apply = [&](pf_operand& o) {
    int64_t stride = 1;
    o.contiguous = 1;
    for (int d = n - 1; d >= 0; --d) {
      (*strides)[d] = o.strides[order[d]];
      if (planned.shape[d] != 1 && (*strides)[d] != stride) o.contiguous = 0;
      stride *= planned.shape[d];
    }
    o.strides = *strides++;
  };
  for (int j = 0; j < planned.ninputs; ++j) apply(planned.in[j]);
  for (int o = 0; o < planned.noutputs; ++o) apply(planned.out[o]);
  planned.launch.shape = planned.shape;
}

pf_operand operand_of(const Place& p) {
  return {p.storage->data ? p.address() : PF_NO_MEMORY, p.strides.data(), p.contiguous};
}

// What of a phase has to run so that these nodes are stored.
void plan_program(const Window& w, Phase& ph, uint32_t live, PlannedProgram& planned) {
  if (!live) return;
  planned.phase = &ph;
  uint32_t needed = live, inputs = 0;
  for (int i = ph.nnodes - 1; i >= 0; --i) {
    if (!(needed >> i & 1)) continue;
    const pf_node& n = ph.nodes[i];
    for (int k = 0; k < n.nin; ++k) {
      if (n.in[k].kind == PF_REF_NODE) needed |= 1u << n.in[k].index;
      if (n.in[k].kind == PF_REF_INPUT) inputs |= 1u << n.in[k].index;
    }
  }
  // The compact program.
  ProgramKey& key = planned.key;
  key.device = static_cast<uint8_t>(w.device.type) << 4 | static_cast<uint8_t>(w.device.index);
  key.nscalars = static_cast<uint8_t>(ph.nscalars);
  uint8_t input_at[kMaxInputs], node_at[kMaxNodes];
  for (int j = 0; j < ph.ninputs; ++j) {
    if (!(inputs >> j & 1)) continue;
    input_at[j] = key.ninputs;
    planned.used[key.ninputs] = static_cast<uint8_t>(j);
    key.input_dtypes[key.ninputs++] = static_cast<uint8_t>(ph.inputs[j].dtype);
  }
  for (int i = 0; i < ph.nnodes; ++i) {
    if (!(needed >> i & 1)) continue;
    pf_node n = ph.nodes[i];
    for (int k = 0; k < n.nin; ++k) {
      if (n.in[k].kind == PF_REF_NODE) n.in[k].index = node_at[n.in[k].index];
      if (n.in[k].kind == PF_REF_INPUT) n.in[k].index = input_at[n.in[k].index];
    }
    if (live >> i & 1) {
      planned.output_dtypes[key.noutputs] = n.dtype;
      planned.stored[key.noutputs] = static_cast<uint8_t>(i);
      n.store = static_cast<int8_t>(key.noutputs++);
    } else if (t_fast && n.compute == static_cast<uint8_t>(DType::Float32) &&
               (n.dtype == static_cast<uint8_t>(DType::BFloat16) ||
                n.dtype == static_cast<uint8_t>(DType::Float16)))
      n.dtype = n.compute;
    node_at[i] = key.nnodes;
    key.nodes[key.nnodes++] = n;
  }
  planned.ninputs = key.ninputs;
  planned.noutputs = key.noutputs;
  std::fill_n(planned.donor, planned.noutputs, int8_t{-1});
  planned.empty = ph.numel == 0;
  if (planned.empty) return;
  for (int j = 0; j < key.ninputs; ++j) planned.in[j] = operand_of(ph.inputs[planned.used[j]]);
  for (int o = 0; o < key.noutputs; ++o) planned.out[o] = operand_of(ph.outputs[planned.stored[o]]);
  planned.launch = {ph.shape.size(), ph.shape.data(), ph.numel,
                    planned.in,      planned.out,     ph.scalars};
  put_in_order(planned);
}

// ---- how programs and kernel hang together ------------------------------------------------------

// All of what `whole` is, in the same order.
bool is_whole(const Place& p, const Dims& shape, const Place& whole, int64_t count) {
  return p.contiguous && whole.contiguous && p.offset == whole.offset && p.dtype == whole.dtype &&
         numel(shape) == count;
}
// The same of input `j` of a program over the dimensions of `p` in the order in which they lie.
bool is_whole_as_it_lies(const Place& p, const Dims& shape, const PlannedProgram& planned, int j) {
  const Place& in = planned.phase->inputs[planned.used[j]];
  return planned.in[j].contiguous && shape == planned.phase->shape && p.strides == in.strides &&
         p.offset == in.offset && p.dtype == in.dtype;
}

// The input of a program that this storage is, or -1.
int input_of(const PlannedProgram& planned, const Storage* s) {
  for (int j = 0; planned.runs() && j < planned.ninputs; ++j)
    if (planned.phase->inputs[planned.used[j]].storage.get() == s) return j;
  return -1;
}

// Where a part of fresh memory will lie is not known, and backends look at addresses.
bool all_known(const Window& w, const Plan& plan) {
  const auto unknown = [](const Place& p) {
    return p.storage && !p.storage->data && p.offset != 0;
  };
  const AnchorCall& a = w.anchor;
  if (std::any_of(a.tensors, a.tensors + a.ntensors, unknown)) return false;
  for (const PlannedProgram* planned : {&plan.before, &plan.after}) {
    if (!planned->runs()) continue;
    for (int j = 0; j < planned->ninputs; ++j)
      if (unknown(planned->phase->inputs[planned->used[j]])) return false;
    for (int o = 0; o < planned->noutputs; ++o)
      if (unknown(planned->phase->outputs[planned->stored[o]])) return false;
  }
  return true;
}

bool writes_place(const PlannedProgram& planned, const Place& p) {
  return std::any_of(planned.stored, planned.stored + planned.noutputs,
                     [&](int i) { return planned.phase->outputs[i].storage == p.storage; });
}

// What the program before gives the kernel.
bool link_before(const Window& w, Plan& plan) {
  const AnchorCall& a = w.anchor;
  const Phase &first = w.phases[0], &last = w.phases[1];
  plan.links.apart = std::none_of(a.tensors, a.tensors + a.ntensors, [&](const Place& p) {
    return p.storage && writes_place(plan.before, p);
  });
  if (plan.links.apart) return true;
  for (int o = 0; o < plan.before.noutputs; ++o) {
    const Place& p = first.outputs[plan.before.stored[o]];
    plan.links.feeds[o] = -1;
    int readers = 0;
    for (int i = 0; i < a.ntensors; ++i) {
      if (a.tensors[i].storage.get() != p.storage.get()) continue;
      if (i < a.nouts || !is_whole(a.tensors[i], a.shapes[i], p, first.numel)) return false;
      plan.links.feeds[o] = static_cast<int8_t>(i);
      if (++readers > 1) return false;
    }
    if (plan.after.runs())
      for (int j = 0; j < plan.after.ninputs; ++j) {
        const Place& in = last.inputs[plan.after.used[j]];
        if (in.storage.get() == p.storage.get() && !is_whole(in, last.shape, p, first.numel))
          return false;
      }
    const bool later =
        plan.to_anchor && std::any_of(last.inputs, last.inputs + last.ninputs,
                                      [&](const Place& in) { return in.storage == p.storage; });
    if (readers == 1 && !p.storage->data && !has_handles(*p.storage) && !later &&
        input_of(plan.after, p.storage.get()) < 0) {
      plan.links.before_without |= 1u << o;
      plan.links.kernel_without |= 1u << plan.links.feeds[o];
    }
  }
  return true;
}

// One number for each cell, which is a channel.
bool is_of_channels(const Place& p, const Dims& shape, const Place& whole) {
  if (p.offset != whole.offset || p.dtype != whole.dtype) return false;
  for (int d = 0; d < shape.size(); ++d)
    if (shape[d] > 1 && p.strides[d] != (d == 1)) return false;
  return true;
}
// Whether a program goes through the elements of a kernel's cells in the order of their memory.
bool goes_through_cells(const AnchorCall& a, const PlannedProgram& planned) {
  const int x = a.nouts;
  return a.shapes[x] == planned.phase->shape &&
         a.tensors[x].strides == planned.phase->outputs[planned.stored[0]].strides;
}
// Whether what reads results of the program before such a kernel has each element in its place.
bool cells_before(const Window& w, const PlannedProgram& before) {
  if (!goes_through_cells(w.anchor, before)) return false;
  const auto lies_so = [&](const Place* p, const Dims* shapes, int n) {
    return std::all_of(p, p + n, [&](const Place& in) {
      return std::all_of(before.stored, before.stored + before.noutputs, [&](int i) {
        const Place& out = before.phase->outputs[i];
        return in.storage != out.storage ||
               ((!shapes || shapes[&in - p] == before.phase->shape) && in.dtype == out.dtype &&
                in.offset == out.offset && in.strides == out.strides);
      });
    });
  };
  const AnchorCall& a = w.anchor;
  return lies_so(a.tensors, a.shapes, a.ntensors) &&
         lies_so(w.phases[1].inputs, nullptr, w.phases[1].ninputs);
}

// What the kernel gives the program after it.
bool link_after(const Window& w, Plan& plan) {
  const AnchorCall& a = w.anchor;
  const Phase &first = w.phases[0], &last = w.phases[1];
  const bool cells = a.kernel->anchor == Anchor::Cells;
  if (cells && !goes_through_cells(a, plan.after)) return false;
  for (int j = 0; j < plan.after.ninputs; ++j) {
    const Place& p = last.inputs[plan.after.used[j]];
    plan.links.takes[j] = -1;
    for (int i = 0; i < a.nouts; ++i) {
      if (a.tensors[i].storage.get() != p.storage.get()) continue;
      if (cells                    ? !is_of_channels(p, last.shape, a.tensors[i])
          : plan.after.reordered() ? !is_whole_as_it_lies(a.tensors[i], a.shapes[i], plan.after, j)
                                   : !is_whole(a.tensors[i], a.shapes[i], p, last.numel))
        return false;
      plan.links.takes[j] = static_cast<int8_t>(i);
      if (plan.links.kernel_without >> i & 1) plan.links.after_without |= 1u << j;
    }
  }
  for (int o = 0; o < plan.after.noutputs; ++o) {
    const Storage* s = last.outputs[plan.after.stored[o]].storage.get();
    if (input_of(plan.before, s) >= 0) return false;
    for (int i = 0; i < a.ntensors; ++i)
      if (a.tensors[i].storage.get() == s) return false;
    for (int k = 0; plan.before.runs() && k < plan.before.noutputs; ++k)
      if (first.outputs[plan.before.stored[k]].storage.get() == s) return false;
  }
  return true;
}

// Whether what runs beside the kernel and the programs around it do not look at each other's
// results, so that they may run in another order.
bool is_aside(const PlannedProgram& planned, const Plan& plan) {
  if (!planned.runs()) return true;
  const auto place = [&](int i) -> const Place& {
    return planned.phase->outputs[planned.stored[i]];
  };
  for (const PlannedProgram* other : {&plan.before, &plan.after}) {
    if (!other->runs()) continue;
    for (int o = 0; o < planned.noutputs; ++o)
      if (input_of(*other, place(o).storage.get()) >= 0) return false;
    for (int o = 0; o < other->noutputs; ++o) {
      const Place& p = other->phase->outputs[other->stored[o]];
      if (input_of(planned, p.storage.get()) >= 0 || writes_place(planned, p)) return false;
    }
  }
  return true;
}

// See Plan::may_join.
bool link(const Window& w, Plan& plan) {
  const AnchorCall& a = w.anchor;
  if (!all_known(w, plan) || !is_aside(plan.early, plan) || !is_aside(plan.late, plan))
    return false;
  const bool cells = a.kernel->anchor == Anchor::Cells;
  // The rows of a kernel are in the order of its dimensions; what libraries would make lies as the
  // kernel was told to lay it.
  if (cells) {
    plan.links.apart = !plan.before.runs() || !plan.after.runs() || !cells_before(w, plan.before);
    std::fill_n(plan.links.feeds, kMaxNodes, int8_t{-1});
  } else if (plan.before.runs() && !link_before(w, plan))
    return false;
  if (plan.before.runs() && plan.before.reordered() && !plan.links.apart && !cells) return false;
  if (plan.after.runs() && plan.after.reordered() && a.kernel->anchor != Anchor::Library && !cells)
    return false;
  for (int i = 0; i < a.nouts; ++i) {
    const Place& p = a.tensors[i];
    if (!p.storage) continue;
    if (input_of(plan.before, p.storage.get()) >= 0) return false;
    if (has_handles(*p.storage) || input_of(plan.late, p.storage.get()) >= 0) continue;
    plan.links.unread |= 1u << i;
    if (!p.storage->data && a.kernel->anchor == Anchor::Rowwise &&
        input_of(plan.after, p.storage.get()) >= 0)
      plan.links.kernel_without |= 1u << i;
  }
  return !plan.after.runs() || link_after(w, plan);
}

}  // namespace

void make_plan(Window& w, bool to_anchor, Plan& plan) {
  plan.to_anchor = to_anchor;
  plan_program(w, w.phases[0], live_nodes(w.phases[0]), plan.before);
  if (!w.has_anchor) return;
  plan.kernel = true;
  const uint32_t early = w.anchor.reads_beside;
  plan_program(w, w.phases[2], early, plan.early);
  plan_program(w, w.phases[2], live_nodes(w.phases[2]) & ~early, plan.late);
  if (!to_anchor) plan_program(w, w.phases[1], live_nodes(w.phases[1]), plan.after);
  plan.may_join = (plan.before.runs() || plan.after.runs()) && link(w, plan) &&
                  (plan.before_joins() || plan.after.runs());
}

void plan_donations(PlannedProgram& planned, const StreamState* stream, const Window* behind) {
  Phase& ph = *planned.phase;
  uint32_t given = planned.inputs_without;
  // Who else holds it: the kernel whose result it is, or all that ran before.
  const auto holders = [&](const Place& in) {
    const auto count = [&in](const Place* p, int n) {
      return std::count_if(p, p + n, [&in](const Place& q) { return q.storage == in.storage; });
    };
    // In parts, if it lies there as it does here.
    const auto alike = [&in](const Place* p, int n) {
      return std::count_if(p, p + n, [&in](const Place& q) {
        return q.storage == in.storage && q.strides == in.strides && q.offset == in.offset;
      });
    };
    if (!behind) return int64_t{1};
    const AnchorCall& a = behind->anchor;
    if (a.kernel->anchor != Anchor::Cells) return 1 + count(a.tensors, a.nouts);
    const Phase& first = behind->phases[0];
    return 1 + alike(a.tensors, a.ntensors) + alike(first.outputs, first.nnodes);
  };
  const auto gives = [&](int j, const Place& out) {
    const Place& in = ph.inputs[planned.used[j]];
    const Storage &from = *in.storage, &to = *out.storage;
    if (given >> j & 1 || has_handles(from) ||
        from.refs.load(std::memory_order_relaxed) != holders(in))
      return false;
    // Memory of this stream, or none yet.
    if (from.data && (!from.block || from.block->stream != stream || !from.block->users.empty()))
      return false;
    return (in.contiguous ? out.contiguous : in.strides == out.strides) && in.offset == 0 &&
           from.nbytes == to.nbytes && itemsize(in.dtype) == itemsize(out.dtype);
  };
  for (int o = 0; o < planned.noutputs; ++o) {
    const Place& out = ph.outputs[planned.stored[o]];
    if (planned.outputs_without >> o & 1 || out.storage->data || out.offset != 0 ||
        input_of(planned, out.storage.get()) >= 0)
      continue;
    for (int j = 0; j < planned.ninputs; ++j) {
      if (!gives(j, out)) continue;
      given |= 1u << j;
      planned.donor[o] = static_cast<int8_t>(j);
      break;
    }
  }
}

bool set_fast_numerics(bool on) {
  return std::exchange(t_fast, on);
}
bool fast_numerics() {
  return t_fast;
}

}  // namespace pyflame::engine
