// The executor: runs plans. It owns what planning may not touch: compiled programs, the backend's
// answers, memory, launches, and what becomes of a window when they fail.
#include <algorithm>
#include <utility>

#include "core/allocator.h"
#include "core/backends.h"
#include "core/interrupt.h"
#include "core/kept.h"
#include "engine/capture.h"
#include "engine/counters.h"
#include "engine/gil.h"
#include "engine/group.h"
#include "engine/hazards.h"
#include "engine/planner.h"
#include "engine/rules.h"
#include "engine/takeover.h"
#include "engine/trace.h"
#include "table/rows.h"

namespace pyflame::engine {

void ensure_memory(Storage& s, StreamState* stream, const MemoryUse& use) {
  if (s.data) {
    if (s.block && s.block->stream != stream) [[unlikely]]
      add_user(*s.block, stream);
    return;
  }
  if (s.writer.load(std::memory_order_relaxed)) [[unlikely]] {
    make_again_if_it_waits(s);  // another thread's window has taken its memory meanwhile
    if (s.data) return;
  }
  s.block = allocate(s.device, stream, std::max<size_t>(s.nbytes, 1), use);
  s.data = s.block->data;
}

const char* row_label(const pf_node& n) {
  if (n.op == table::op::cast && n.in[0].kind == PF_REF_SCALAR) return "fill";
  return n.op < table::kNumRows ? table::kRowTable[n.op].name : "gradient";
}

namespace {

// Calls fn(storage) for everything that the group was to write.
template <class F>
void each_written(Group& g, F&& fn) {
  for (Phase& ph : g.phases)
    for (int i = 0; i < ph.nnodes; ++i) fn(*ph.outputs[i].storage);
  if (g.has_anchor)
    for (int i = 0; i < g.anchor.nouts; ++i)
      if (g.anchor.tensors[i].storage) fn(*g.anchor.tensors[i].storage);
}

class Execution {
 public:
  Execution(Group& g, bool to_anchor)
      : g_(g), stream_(g.stream(g.device)), b_(backend_of(g.device)) {
    make_plan(g, to_anchor, plan_);
  }

  // Everything that may fail before anything has memory.
  void prepare();
  void run();

  const Plan& plan() const { return plan_; }
  bool together() const { return together_; }

 private:
  void compile(PlannedProgram& planned) {
    if (planned.runs())
      program(planned) = find_program(g_.recent, g_.device, planned.key, planned.output_dtypes);
  }
  std::shared_ptr<const CompiledProgram>& program(const PlannedProgram& planned) {
    const PlannedProgram* const all[] = {&plan_.before, &plan_.early, &plan_.late, &plan_.after};
    return programs_[std::find(all, all + 4, &planned) - all];
  }
  void prepare_kernel();
  void ask();
  int64_t work_of(const PlannedProgram& p) const {
    return p.phase ? p.phase->numel * p.key.nnodes : 0;
  }
  bool makes_fresh() const;
  void supply(PlannedProgram&);
  void launch(const PlannedProgram&);
  void supply_kernel();
  void launch_kernel();

  Group& g_;
  StreamState* stream_;
  const pf_backend* b_;
  Plan plan_;
  std::shared_ptr<const CompiledProgram> programs_[4];
  pf_tensor tensors_[kMaxAnchorTensors];
  int64_t work_ = 0;       // elements of the kernel's tensors
  bool may_stop_ = false;  // half of it computed harms nobody
  pf_group group_{};
  int32_t joined_ = 0;
  pf_index_error error_{};
  bool together_ = false;  // the kernel and the programs beside it are one launch
};

void Execution::prepare() {
  compile(plan_.before);
  compile(plan_.early);
  compile(plan_.after);
  compile(plan_.late);
  if (plan_.kernel) prepare_kernel();
  // What `early` reads is read once more behind the kernel: it gets no input's memory.
  if (plan_.before.runs()) plan_donations(plan_.before, stream_);
  // A result of the kernel goes on as the program's, unless both are made within one launch that
  // stores both.
  const bool apart = !together_ ||
                     (g_.device.is_cpu() && g_.anchor.kernel->anchor == Anchor::Library) ||
                     g_.anchor.kernel->anchor == Anchor::Cells;
  if (plan_.after.runs())
    plan_donations(plan_.after, stream_, plan_.kernel && apart ? &g_ : nullptr);
  if (g_.capture) [[unlikely]] {
    g_.capture->forbid_donations(plan_.before);
    g_.capture->forbid_donations(plan_.after);
  }
}

void Execution::prepare_kernel() {
  const AnchorCall& a = g_.anchor;
  for (int i = 0; i < a.ntensors; ++i) {
    const Place& p = a.tensors[i];
    if (!p.storage) {
      set_undefined(tensors_[i]);
      continue;
    }
    set_tensor(tensors_[i], p.storage->data ? p.address() : PF_NO_MEMORY, p.dtype, a.shapes[i],
               p.strides);
    work_ += numel(a.shapes[i]);
  }
  error_ = index_error(*a.kernel, a.options);
  if (plan_.may_join && !a.options.run && PF_HAS(b_, group_launch)) ask();
  if (!together_) return;
  for (int o = 0; plan_.before.runs() && o < plan_.before.noutputs; ++o)
    if (group_.without >> std::max<int>(plan_.links.feeds[o], 0) & 1)
      plan_.before.outputs_without |= plan_.links.before_without & 1u << o;
  for (int j = 0; plan_.after.runs() && j < plan_.after.ninputs; ++j)
    if (group_.without >> std::max<int>(plan_.links.takes[j], 0) & 1)
      plan_.after.inputs_without |= plan_.links.after_without & 1u << j;
}

// Whether the backend takes them as one, and what then goes without memory.
void Execution::ask() {
  const AnchorCall& a = g_.anchor;
  const PlannedProgram &before = plan_.before, &after = plan_.after;
  const bool first = plan_.before_joins(), last = after.runs();
  group_ = {.kernel = find_kernel(*a.kernel, g_.device),
            .tensors = tensors_,
            .ntensors = a.ntensors,
            .attrs = a.attrs,
            .nattrs = a.nattrs,
            .error = &error_,
            .before = first ? program(before)->kernel : nullptr,
            .before_launch = first ? &before.launch : nullptr,
            .after = last ? program(after)->kernel : nullptr,
            .after_launch = last ? &after.launch : nullptr,
            .feeds = plan_.links.feeds,
            .nfeeds = first ? before.noutputs : 0,
            .takes = plan_.links.takes,
            .ntakes = last ? after.ninputs : 0,
            .unread = plan_.links.unread,
            .without = plan_.links.kernel_without,
            .joins = 0,
            .joined = &joined_};
  if (!group_.kernel || !PF_HAS(b_, group_takes))
    group_.without = 0;  // all gets memory
  else if (!b_->group_takes(g_.device.index, &group_))
    group_.kernel = nullptr;
  together_ = group_.kernel != nullptr;
}

// Gives inputs and outputs memory, but for those that the plan leaves without.
void Execution::supply(PlannedProgram& planned) {
  Phase& ph = *planned.phase;
  const auto use_of = [&](int output) -> MemoryUse {
    const int i = planned.stored[output];
    return {row_label(ph.nodes[i]), ph.outputs[i].dtype, &ph.shape};
  };
  if (planned.empty) {
    for (int o = 0; o < planned.noutputs; ++o)
      ensure_memory(*ph.outputs[planned.stored[o]].storage, stream_, use_of(o));
    return;
  }
  for (int j = 0; j < planned.ninputs; ++j) {
    if (planned.inputs_without >> j & 1) continue;
    Place& p = ph.inputs[planned.used[j]];
    ensure_memory(*p.storage, stream_, {"pointwise group", p.dtype, &ph.shape});
    planned.in[j].data = p.address();
  }
  for (int o = 0; o < planned.noutputs; ++o) {
    if (planned.outputs_without >> o & 1) continue;
    Place& p = ph.outputs[planned.stored[o]];
    if (planned.donor[o] >= 0 && !p.storage->data) {  // no fresh memory, no page faults
      Storage& from = *ph.inputs[planned.used[planned.donor[o]]].storage;
      p.storage->data = std::exchange(from.data, nullptr);
      p.storage->block = std::exchange(from.block, nullptr);
      relabel(*p.storage->block, use_of(o));
      bump(counters().donated);
    } else {
      ensure_memory(*p.storage, stream_, use_of(o));
    }
    planned.out[o].data = p.address();
  }
  long_work(work_of(planned));
}

void Execution::launch(const PlannedProgram& planned) {
  const MayStop stoppable(may_stop_ && hears_interrupts(), work_of(planned));
  bump(counters().programs);
  pf_status status = b_->program_launch(g_.device.index, handle_of(stream_),
                                        program(planned)->kernel, &planned.launch);
  if (status != PF_OK)  // one operation by its own name
    raise_status(b_, status,
                 planned.key.nnodes == 1 ? row_label(planned.key.nodes[0]) : "pointwise group");
  if (g_.capture) [[unlikely]]
    g_.capture->note_program(planned, program(planned));
}

void Execution::supply_kernel() {
  AnchorCall& a = g_.anchor;
  const auto without = [&](int i) { return together_ && group_.without >> i & 1; };
  const auto goes_without = [&](const Storage* s) {
    for (int i = 0; i < a.ntensors; ++i)
      if (a.tensors[i].storage.get() == s && without(i)) return true;
    return false;
  };
  Takeover* const t = g_.takeover.get();
  const bool taken = t && !goes_without(t->to.get()) && !goes_without(t->from.get()) &&
                     take_over(g_, stream_, {a.options.op, a.tensors[0].dtype, &a.shapes[0]});
  for (int i = 0; i < a.ntensors; ++i) {
    Place& p = a.tensors[i];
    if (!p.storage || without(i)) continue;
    if (taken && p.storage.get() == t->from.get()) {
      tensors_[i].data =
          static_cast<char*>(t->to->data) + p.offset * static_cast<int64_t>(itemsize(p.dtype));
      continue;
    }
    ensure_memory(*p.storage, stream_, {a.options.op, p.dtype, &a.shapes[i]});
    tensors_[i].data = p.address();
  }
  long_work(a.kernel->anchor == Anchor::Library ? work_ * 16 : work_);
}

void Execution::launch_kernel() {
  const AnchorCall& a = g_.anchor;
  const MayStop stoppable(may_stop_ && hears_interrupts(), work_);
  const KeepScope keep(a.options.keeps >= 0 && g_.device.is_cpu()
                           ? a.tensors[a.options.keeps].storage.get()
                           : nullptr);
  if (!together_) {
    run_kernel(*a.kernel, g_.device, stream_, {tensors_, static_cast<size_t>(a.ntensors)},
               {a.attrs, static_cast<size_t>(a.nattrs)}, a.options);
    if (g_.capture) [[unlikely]] {
      Capture::Located storages[kMaxAnchorTensors];
      for (int i = 0; i < a.ntensors; ++i)
        storages[i] = {a.tensors[i].storage.get(),
                       a.tensors[i].offset * static_cast<int64_t>(itemsize(a.tensors[i].dtype))};
      const auto n = static_cast<size_t>(a.ntensors);
      g_.capture->note_kernel(*a.kernel, {tensors_, n}, {storages, n},
                              {a.attrs, static_cast<size_t>(a.nattrs)}, a.nouts, a.options);
    }
    return;
  }
  const pf_status status = b_->group_launch(g_.device.index, handle_of(stream_), &group_);
  if (status != PF_OK) raise_status(b_, status, a.options.op);
  raise_index_error(error_);
  bump(counters().kernels);
  counters().programs.fetch_add(plan_.before_joins() + plan_.after.runs(),
                                std::memory_order_relaxed);
  counters().joined.fetch_add(joined_, std::memory_order_relaxed);
  if (g_.capture) [[unlikely]]
    g_.capture->note_group(plan_, a, group_, program(plan_.before), program(plan_.after));
}

// Whether nothing that is written holds values already.
bool Execution::makes_fresh() const {
  bool fresh = true;
  each_written(g_, [&](Storage& s) { fresh &= s.data == nullptr; });
  return fresh;
}

void Execution::run() {
  const int64_t most = std::max({work_ * 16, work_of(plan_.before), work_of(plan_.after),
                                 work_of(plan_.early), work_of(plan_.late)});
  if (most >= kLongWork) may_stop_ = makes_fresh();
  if (plan_.before.phase) supply(plan_.before);
  if (plan_.before.runs() && !(together_ && plan_.before_joins())) launch(plan_.before);
  if (plan_.early.phase) supply(plan_.early);
  if (plan_.early.runs()) launch(plan_.early);
  if (!plan_.kernel) return;
  supply_kernel();
  if (plan_.after.phase) supply(plan_.after);
  launch_kernel();
  if (plan_.late.phase) supply(plan_.late);
  if (plan_.late.runs()) launch(plan_.late);
  if (plan_.after.runs() && !together_) launch(plan_.after);
}

// ---- what becomes of a window -------------------------------------------------------------------

// `kept`: the last phase goes on reading what it reads, and writing what it writes; its counts.
void clear(Group& g, const PhaseCounts* kept = nullptr) {
  const auto among = [](const Place* first, int n, const Storage* s) {
    return std::any_of(first, first + n, [s](const Place& p) { return p.storage.get() == s; });
  };
  if (kept) static_cast<PhaseCounts&>(g.phases[1]) = {};
  each_written(g, [&](Storage& s) {
    if (kept && among(g.phases[1].outputs, kept->nnodes, &s)) return;
    if (s.writer.load(std::memory_order_relaxed) == &g)
      s.writer.store(nullptr, std::memory_order_release);
  });
  const auto unread = [&](Place& p) {
    if (kept && among(g.phases[1].inputs, kept->ninputs, p.storage.get())) {
      p.storage.reset();
      return;
    }
    Group* me = &g;  // unless another thread has just made it many_readers()
    if (p.storage && p.storage->reader.load(std::memory_order_relaxed) == me)
      p.storage->reader.compare_exchange_strong(me, nullptr, std::memory_order_acq_rel);
    p.storage.reset();
  };
  for (Phase& ph : g.phases) {
    for (int i = 0; i < ph.ninputs; ++i) unread(ph.inputs[i]);
    for (int i = 0; i < ph.nnodes; ++i) ph.outputs[i].storage.reset();
    static_cast<PhaseCounts&>(ph) = {};
  }
  if (g.has_anchor)
    for (int i = 0; i < g.anchor.ntensors; ++i) unread(g.anchor.tensors[i]);
  g.has_anchor = g.needs_aside = false;
  g.takeover.reset();
  g.output_bytes = g.input_bytes = 0;
}

// False where it failed: what should have been written is poisoned, and the group is empty.
bool execute(Group& g, bool to_anchor, Flush why) noexcept {
  constexpr int kLongest = 4;  // groups that a window aside waits for; reductions for none
  if (g.aside && (g.needs_aside || g.since_aside < 0 || ++g.since_aside == kLongest) &&
      !run_aside(g) && g.needs_aside) [[unlikely]] {
    discard(g);
    return false;
  }
  if (g.empty()) return true;
  bump(counters().flushes[static_cast<int>(why)]);
  bump(counters().groups);
  bool told = !tracing();
  try {
    Execution e(g, to_anchor);
    try {
      e.prepare();
    } catch (...) {
      if (!std::exchange(told, true)) trace_group(g, why, e.plan(), false);
      throw;
    }
    if (!told) [[unlikely]]
      trace_group(g, why, e.plan(), e.together());
    e.run();
  } catch (...) {
    g.error = std::current_exception();
    discard(g);
    return false;
  }
  return true;
}

}  // namespace

// Of the places that there are, few.
void move_phase(Phase& from, Phase& to) {
  std::copy_n(from.nodes, from.nnodes, to.nodes);
  std::move(from.outputs, from.outputs + from.nnodes, to.outputs);
  std::move(from.inputs, from.inputs + from.ninputs, to.inputs);
  std::copy_n(from.scalars, from.nscalars, to.scalars);
  to.shape = from.shape;
  to.numel = from.numel;
  static_cast<PhaseCounts&>(to) = std::exchange(static_cast<PhaseCounts&>(from), {});
}

void run_group(Group& g, Flush why) noexcept {
  if (execute(g, false, why)) clear(g);
}

void set_undefined(pf_tensor& t) {
  t.data = nullptr;
  t.ndim = 0;
  t.dtype = 0;
}
void set_tensor(pf_tensor& t, void* data, DType dtype, const Dims& shape, const Dims& strides) {
  t.data = data;
  t.ndim = shape.size();
  t.dtype = static_cast<uint8_t>(dtype);
  std::copy(shape.begin(), shape.end(), t.shape);
  std::copy(strides.begin(), strides.end(), t.strides);
}

bool run_to_anchor(Group& g, Flush why) noexcept {
  if (!execute(g, true, why)) return false;
  const PhaseCounts kept = g.phases[1];
  clear(g, &kept);
  static_cast<PhaseCounts&>(g.phases[1]) = kept;
  move_phase(g.phases[1], g.phases[0]);
  return true;
}

namespace {

// What one group has recorded becomes another's, which is empty.
void move_window(Group& from, Group& to) {
  to.device = from.device;
  to.output_bytes = std::exchange(from.output_bytes, 0);
  to.input_bytes = std::exchange(from.input_bytes, 0);
  for (int i = 0; i < 3; ++i) move_phase(from.phases[i], to.phases[i]);
  to.has_anchor = std::exchange(from.has_anchor, false);
  to.takeover = std::move(from.takeover);
  AnchorCall &a = from.anchor, &b = to.anchor;
  if (to.has_anchor) {
    b.kernel = a.kernel;
    b.nouts = a.nouts;
    b.ntensors = a.ntensors;
    b.nattrs = a.nattrs;
    b.reads_beside = a.reads_beside;
    b.options = a.options;
    std::move(a.tensors, a.tensors + a.ntensors, b.tensors);
    std::copy_n(a.shapes, a.ntensors, b.shapes);
    std::copy_n(a.attrs, a.nattrs, b.attrs);
  }
  each_written(to, [&](Storage& s) {
    if (writes(from, s)) s.writer.store(&to, std::memory_order_release);
  });
  const auto is_read = [&](const Place& p) {
    Group* it = &from;  // unless another thread has just made it many_readers()
    if (p.storage) p.storage->reader.compare_exchange_strong(it, &to, std::memory_order_acq_rel);
  };
  for (const Phase& ph : to.phases) std::for_each_n(ph.inputs, ph.ninputs, is_read);
  if (to.has_anchor) std::for_each_n(b.tensors, b.ntensors, is_read);
}

}  // namespace

bool make_before(Group& g, Group& from, Phase& ph) {
  Phase& to = g.phases[0];
  AnchorCall& a = g.anchor;
  const auto among = [](const Place* first, int n, const Place& p) {
    return std::any_of(first, first + n, [&p](const Place& q) { return p.storage == q.storage; });
  };
  if ((to.nnodes && !(to.shape == ph.shape)) || to.nnodes + ph.nnodes > kMaxNodes ||
      to.nscalars + ph.nscalars > kMaxScalars || ph.superseded || g.phases[2].nnodes)
    return false;
  for (int i = 0; i < ph.nnodes; ++i)
    if (const Place& out = ph.outputs[i];
        among(to.inputs, to.ninputs, out) || among(to.outputs, to.nnodes, out) ||
        among(ph.inputs, ph.ninputs, out) || among(a.tensors, a.ntensors, out))
      return false;
  pf_ref refs[kMaxInputs];  // what becomes of an input
  int ninputs = to.ninputs;
  for (int j = 0; j < ph.ninputs; ++j) {
    const Place& in = ph.inputs[j];
    const auto same = [&in](const Place& p) {
      return p.storage == in.storage && p.offset == in.offset && p.dtype == in.dtype &&
             p.strides == in.strides;
    };
    if (writes(g, *in.storage)) {
      const int code = in.storage->writer_node;
      if (part_of(code) != kBefore || !same(to.outputs[index_of(code)])) return false;
      refs[j] = {PF_REF_NODE, static_cast<uint8_t>(index_of(code))};
      continue;
    }
    const auto known = std::find_if(to.inputs, to.inputs + to.ninputs, same) - to.inputs;
    refs[j] = {PF_REF_INPUT, static_cast<uint8_t>(known < to.ninputs ? known : ninputs++)};
  }
  if (ninputs > kMaxInputs) return false;
  const auto goes = [&](Storage& s) {
    Group* it = &from;  // unless another thread has just made it many_readers()
    if (&from != &g) s.reader.compare_exchange_strong(it, &g, std::memory_order_acq_rel);
  };
  for (int j = 0; j < ph.ninputs; ++j) {
    goes(*ph.inputs[j].storage);
    if (refs[j].kind == PF_REF_INPUT && refs[j].index >= to.ninputs)
      to.inputs[refs[j].index] = std::move(ph.inputs[j]);
    else
      ph.inputs[j].storage.reset();
  }
  for (int i = 0; i < ph.nnodes; ++i) {
    pf_node n = ph.nodes[i];
    n.attr0 = static_cast<uint8_t>(n.attr0 + to.nscalars);
    for (int k = 0; k < n.nin; ++k) {
      pf_ref& r = n.in[k];
      if (r.kind == PF_REF_INPUT)
        r = refs[r.index];
      else
        r.index = static_cast<uint8_t>(r.index + (r.kind == PF_REF_NODE ? to.nnodes : to.nscalars));
      if (r.kind == PF_REF_NODE) to.consumed |= 1u << r.index;
    }
    const int at = to.nnodes + i;
    to.nodes[at] = n;
    to.outputs[at] = std::move(ph.outputs[i]);
    Storage& s = *to.outputs[at].storage;
    if (!writes(from, s)) continue;
    s.writer_node = code_of(kBefore, at);
    s.writer.store(&g, std::memory_order_release);
  }
  std::copy_n(ph.scalars, ph.nscalars, to.scalars + to.nscalars);
  to.shape = ph.shape;
  to.numel = ph.numel;
  to.nnodes += ph.nnodes;
  to.ninputs = ninputs;
  to.nscalars += ph.nscalars;
  static_cast<PhaseCounts&>(ph) = {};
  // What the last phase read through memory is in the same one now.
  if (&from == &g) to.materialise = 0;
  for (int i = a.nouts; i < a.ntensors; ++i)
    if (a.tensors[i].storage && writes(g, *a.tensors[i].storage, kBefore))
      to.materialise |= 1u << index_of(a.tensors[i].storage->writer_node);
  return true;
}

bool bring_back_before(Group& g) {
  Group& d = *g.aside;
  std::lock_guard lock(d.mutex);
  if (g.has_anchor || (!g.empty() && !make_before(d, g, g.phases[0]))) return false;
  d.output_bytes += std::exchange(g.output_bytes, 0);
  d.input_bytes += std::exchange(g.input_bytes, 0);
  move_window(d, g);
  g.since_aside = 0;
  return true;
}

void set_aside(Group& g) {
  if (!g.aside) g.aside = new_group();
  Group& d = *g.aside;
  run_aside(g);
  // Reductions wait for others in the next group alone.
  g.since_aside = g.has_anchor && g.anchor.kernel->anchor == Anchor::Reduce ? -1 : 0;
  std::lock_guard lock(d.mutex);
  d.capture = g.capture;
  std::copy(std::begin(g.streams), std::end(g.streams), std::begin(d.streams));
  move_window(g, d);
}

void bring_back(Group& g) {
  g.since_aside = 0;
  if (!g.empty()) run_group(g, Flush::CannotJoin);
  std::lock_guard lock(g.aside->mutex);
  if (!g.aside->empty()) move_window(*g.aside, g);
}

void read_aside(Group& g, std::span<const Tensor> ins) {
  if (!g.aside) return;
  Group& d = *g.aside;
  std::lock_guard lock(d.mutex);
  for (const Tensor& t : ins) {
    if (!t.defined() || !writes(d, *t->storage)) continue;
    if (part_of(t->storage->writer_node) != kAfter) {
      run_group(d, Flush::CannotJoin);
      return;
    }
    d.phases[1].materialise |= 1u << index_of(t->storage->writer_node);
    g.needs_aside = true;
  }
}

bool run_aside(Group& g) noexcept {
  if (!g.aside) return true;
  g.since_aside = 0;
  Group& d = *g.aside;
  std::lock_guard lock(d.mutex);
  if (!d.empty()) run_group(d, Flush::CannotJoin);
  if (!d.error) return true;
  g.error = std::exchange(d.error, nullptr);
  return false;
}

size_t bytes_aside(const Group& g) {
  if (!g.aside) return 0;
  std::lock_guard lock(g.aside->mutex);
  return g.aside->output_bytes;
}

void forget_error(Group& g, const std::exception_ptr& error) {
  if (g.error == error) g.error = nullptr;
  if (!g.aside) return;
  std::lock_guard lock(g.aside->mutex);
  if (g.aside->error == error) g.aside->error = nullptr;
}

void abandon(Group& g) noexcept {
  clear(g);
}

void discard(Group& g) noexcept {
  each_written(g, [&](Storage& s) {
    if (s.writer.load(std::memory_order_relaxed) != &g) return;
    s.poisoned = true;
    s.error = g.error;
  });
  clear(g);
}

}  // namespace pyflame::engine
