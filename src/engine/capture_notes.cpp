// What a capture is told while it captures: launches, and where their addresses come from.
#include <algorithm>
#include <atomic>
#include <mutex>

#include "core/blocks.h"
#include "engine/capture.h"
#include "engine/capture_ends.h"

namespace pyflame::engine {
namespace {

std::atomic<uint32_t> g_serial{0};

uint32_t serial_of(Storage& s) {
  uint32_t known = s.serial.load(std::memory_order_relaxed);
  if (known) return known;
  const uint32_t fresh = g_serial.fetch_add(1, std::memory_order_relaxed) + 1;
  return s.serial.compare_exchange_strong(known, fresh) ? fresh : known;
}

Reach reach(int ndim, const int64_t* shape, const int64_t* strides, int64_t itemsize) {
  Reach r{0, 1, 1};
  for (int d = 0; d < ndim; ++d) {
    if (!shape[d]) return {0, 0, 0};
    const int64_t far = (shape[d] - 1) * strides[d];
    (far < 0 ? r.low : r.high) += far;
    r.count *= shape[d];
  }
  return {r.low * itemsize, r.high * itemsize, r.count * itemsize};
}

Reach reach(const pf_tensor& t) {
  return reach(t.ndim, t.shape, t.strides,
               static_cast<int64_t>(itemsize(static_cast<DType>(t.dtype))));
}

Capture::Located located(const Place& p) {
  return {p.storage.get(), p.offset * static_cast<int64_t>(itemsize(p.dtype))};
}

// Whether a result holds values that the kernel reads, or leaves as they are.
bool keeps_values(const CallOptions& options, size_t output) {
  return options.inplace == CallOptions::kAllInplace ||
         (output < 32 && options.inplace >> output & 1);
}

}  // namespace

bool Capture::inner(const Storage& s) const {
  return !pool_ || (s.block && s.block->segment->pool == pool_ && s.device == device_);
}

int Capture::slot_of(Storage& s) {
  const uint32_t serial = serial_of(s);
  std::lock_guard lock(ends().mutex);
  const auto [at, fresh] = by_serial_.try_emplace(serial, static_cast<int>(slots_.size()));
  const auto stage = static_cast<int8_t>(stages_.empty() ? 0 : stages_.size() - 1);
  if (fresh) {
    Slot slot;
    slot.serial = serial;
    slot.first_stage = stage;
    slot.kind = inner(s) || !s.data ? Kind::Inner : Kind::Outer;
    if (slot.kind == Kind::Outer) slot.storage = Ref<Storage>::share(&s);
    slot.base = s.data;
    slot.nbytes = s.nbytes;
    slot.alive = &s;
    slots_.push_back(std::move(slot));
  }
  slots_[static_cast<size_t>(at->second)].last_stage = stage;
  return at->second;
}

int Capture::slot_of_made(const Tensor& t) const {
  if (!pool_ || outcome_.planned || stages_.size() != 1) return -1;
  const auto at = by_serial_.find(t->storage->serial.load(std::memory_order_relaxed));
  if (at == by_serial_.end()) return -1;
  const Slot& s = slots_[static_cast<size_t>(at->second)];
  return s.kind == Kind::Inner && !s.fixed && s.alive == t->storage.get() ? at->second : -1;
}

bool Capture::put_in_place(int slot, const Tensor& t) {
  Storage& with = *t->storage;
  const uint32_t serial = serial_of(with);
  std::lock_guard lock(ends().mutex);
  Slot& s = slots_.at(static_cast<size_t>(slot));
  if (with.nbytes != s.nbytes || !(with.device == device_)) return false;
  if (const auto at = by_serial_.find(serial); at != by_serial_.end()) return at->second == slot;
  for (const Site& site : s.sites) {
    auto& serials = launches_[site.launch]->serials;
    std::replace(serials.begin(), serials.end(), s.serial, serial);
  }
  by_serial_.erase(s.serial);
  by_serial_.emplace(serial, slot);
  s.alive = &with;
  s.serial = serial;
  return true;
}

void Capture::note(void** where, const Located& in, bool reads, bool writes, const Reach& reach) {
  const int index = slot_of(*in.storage);
  Slot& slot = slots_[static_cast<size_t>(index)];
  slot.written |= writes;
  CapturedLaunch& l = *launches_.back();
  l.serials.push_back(slot.serial);
  // Not the storage's own address, which is gone where its memory went on to a result of the same
  // launch.
  void* base = static_cast<char*>(*where) - in.offset;
  if (!slot.base) slot.base = base;
  if (slot.base != base) slot.fixed = true;
  const bool whole = writes && in.offset + reach.low == 0 &&
                     reach.high - reach.low == reach.count &&
                     reach.count >= static_cast<int64_t>(slot.nbytes);
  l.accesses.push_back({index, reads, writes, whole, where, in.offset, index});
  slot.sites.push_back({where, in.offset, static_cast<uint32_t>(launches_.size() - 1)});
}

void Capture::note_place(const Storage& s) {
  if (noting_) place_of_[&s] = place_here();
}

int32_t Capture::place_here() {
  const auto [at, fresh] =
      known_places_.try_emplace(call_site(), static_cast<int32_t>(places_.size()));
  if (fresh) places_.push_back(at->first);
  return at->second;
}

int32_t Capture::place_of(const Storage& s) const {
  const auto at = place_of_.find(&s);
  return at == place_of_.end() ? 0 : at->second;
}

CapturedLaunch& Capture::add() {
  std::lock_guard lock(ends().mutex);
  return *launches_.emplace_back(std::make_unique<CapturedLaunch>());
}

void Capture::keep_program(CapturedProgram& to, const PlannedProgram& planned,
                           const std::shared_ptr<const CompiledProgram>& program) {
  const auto nin = static_cast<size_t>(planned.ninputs),
             nout = static_cast<size_t>(planned.noutputs),
             ndim = static_cast<size_t>(planned.launch.ndim);
  to.program = program;
  to.in.assign(planned.in, planned.in + nin);
  to.out.assign(planned.out, planned.out + nout);
  to.scalars.assign(planned.launch.scalars, planned.launch.scalars + planned.key.nscalars);
  to.dims.reserve(ndim * (1 + nin + nout));
  to.dims.assign(planned.launch.shape, planned.launch.shape + ndim);
  for (auto* list : {&to.in, &to.out})
    for (pf_operand& o : *list) {
      const int64_t* strides = o.strides;
      o.strides = to.dims.data() + to.dims.size();
      if (strides)
        to.dims.insert(to.dims.end(), strides, strides + ndim);
      else
        o.strides = nullptr;
    }
  to.launch = planned.launch;
  to.launch.shape = to.dims.data();
  to.launch.inputs = to.in.data();
  to.launch.outputs = to.out.data();
  to.launch.scalars = to.scalars.data();
  work_ += planned.launch.numel * planned.key.nnodes;
  const Phase& ph = *planned.phase;
  const auto extent_of = [&](const pf_operand& o, uint8_t dtype) {
    const auto size = static_cast<int64_t>(itemsize(static_cast<DType>(dtype)));
    if (o.contiguous) return Reach{0, planned.launch.numel * size, planned.launch.numel * size};
    return reach(to.launch.ndim, to.launch.shape, o.strides, size);
  };
  for (size_t j = 0; j < nin; ++j)
    if (!(planned.inputs_without >> j & 1))
      note(&to.in[j].data, located(ph.inputs[planned.used[j]]), true, false,
           extent_of(to.in[j], planned.key.input_dtypes[j]));
  for (size_t o = 0; o < nout; ++o)
    if (!(planned.outputs_without >> o & 1))
      note(&to.out[o].data, located(ph.outputs[planned.stored[o]]), false, true,
           extent_of(to.out[o], planned.output_dtypes[o]));
  to.scalar_places.resize(to.scalars.size());
  for (int i = 0; i < ph.nnodes; ++i) {
    const pf_node& node = ph.nodes[i];
    const int32_t place = place_of(*ph.outputs[i].storage);
    const auto used = [&](int scalar) {
      if (scalar < static_cast<int>(to.scalars.size()))
        to.scalar_places[static_cast<size_t>(scalar)] = place;
    };
    for (int k = 0; k < node.nattr; ++k) used(node.attr0 + k);
    for (int k = 0; k < node.nin; ++k)
      if (node.in[k].kind == PF_REF_SCALAR) used(node.in[k].index);
  }
  if (nout && !launches_.back()->place)
    launches_.back()->place = place_of(*ph.outputs[planned.stored[nout - 1]].storage);
}

void Capture::note_program(const PlannedProgram& planned,
                           const std::shared_ptr<const CompiledProgram>& program) {
  if (!noting_) return;
  keep_program(add().before, planned, program);
}

// Its counters are so many behind the first of the part that took them, which may be one before.
bool Capture::set_drawn(CapturedLaunch& l) const {
  const auto at = static_cast<uint64_t>(l.attrs[1].i);
  for (size_t s = stages_.size(); s-- > 0;) {
    const std::vector<Part>& parts = stages_[s].parts;
    for (size_t p = parts.size(); p-- > 0;) {
      const bool open = s + 1 == stages_.size() && p + 1 == parts.size();
      if (at < parts[p].drawn_first || (!open && at >= parts[p].drawn_first + parts[p].drawn))
        continue;
      l.draws = true;
      l.drawn_stage = s;
      l.drawn_part = p;
      l.attrs[1].i -= static_cast<int64_t>(parts[p].drawn_first);
      return true;
    }
  }
  return false;
}

void Capture::note_kernel(const Kernel& k, std::span<const pf_tensor> tensors,
                          std::span<const Located> storages, std::span<const pf_scalar> attrs,
                          int outputs, const CallOptions& options) {
  if (!noting_) return;
  if (options.run) return break_off(std::string(options.op) + ": a kernel of the user's own");
  CapturedLaunch& l = add();
  l.kernel = &k;
  l.tensors.assign(tensors.begin(), tensors.end());
  l.outputs = outputs;
  l.attrs.assign(attrs.begin(), attrs.end());
  l.options = options;
  // A kernel that may draw numbers and does not (attention without dropout) has a counter of 0.
  if (k.random && set_drawn(l))
    random_.push_back(static_cast<uint32_t>(launches_.size() - 1));
  else if (k.random && l.attrs[1].i != 0)
    return break_off("random: numbers drawn outside of it");
  for (size_t i = 0; i < l.tensors.size(); ++i) {
    if (!storages[i].storage) continue;
    if (!(storages[i].storage->device == device_))
      break_off(std::string(options.op) + ": another device");
    const bool writes = static_cast<int>(i) < outputs;
    note(&l.tensors[i].data, storages[i], !writes || keeps_values(options, i), writes,
         reach(l.tensors[i]));
    int64_t n = 1;
    for (int d = 0; d < l.tensors[i].ndim; ++d) n *= l.tensors[i].shape[d];
    work_ += k.anchor == Anchor::Library ? 16 * n : n;
  }
  if (!storages.empty() && storages[0].storage) l.place = place_of(*storages[0].storage);
  if (options.keeps >= 0 && device_.is_cpu())
    l.keeps = slot_of(*storages[static_cast<size_t>(options.keeps)].storage);
}

void Capture::note_group(const Plan& plan, const AnchorCall& a, const pf_group& group,
                         const std::shared_ptr<const CompiledProgram>& before,
                         const std::shared_ptr<const CompiledProgram>& after) {
  if (!noting_) return;
  CapturedLaunch& l = add();
  l.together = true;
  l.kernel = a.kernel;
  l.options = a.options;
  l.tensors.assign(group.tensors, group.tensors + group.ntensors);
  l.outputs = a.nouts;
  l.attrs.assign(group.attrs, group.attrs + group.nattrs);
  if (a.nouts && a.tensors[0].storage) l.place = place_of(*a.tensors[0].storage);
  for (int i = 0; i < a.ntensors; ++i) {
    if (!a.tensors[i].storage || (group.without >> i & 1)) continue;
    pf_tensor& t = l.tensors[static_cast<size_t>(i)];
    const bool writes = i < a.nouts;
    note(&t.data, located(a.tensors[i]), !writes || keeps_values(a.options, static_cast<size_t>(i)),
         writes, reach(t));
    work_ += numel(a.shapes[i]) * (a.kernel->anchor == Anchor::Library ? 16 : 1);
  }
  if (group.before) keep_program(l.before, plan.before, before);
  if (group.after) keep_program(l.after, plan.after, after);
  if (a.options.keeps >= 0 && device_.is_cpu())
    l.keeps = slot_of(*a.tensors[a.options.keeps].storage);
  l.feeds.assign(group.feeds, group.feeds + group.nfeeds);
  l.takes.assign(group.takes, group.takes + group.ntakes);
  l.group = group;
  l.group.tensors = l.tensors.data();
  l.group.attrs = l.attrs.data();
  l.group.before_launch = group.before ? &l.before.launch : nullptr;
  l.group.after_launch = group.after ? &l.after.launch : nullptr;
  l.group.feeds = l.feeds.data();
  l.group.takes = l.takes.data();
}

void Capture::note_bytes(const Tensor& to, const void* from, size_t bytes) {
  if (!noting_) return;
  if (!(to->storage->device == device_)) return break_off("a tensor of another device is made");
  CapturedLaunch& l = add();
  l.bytes.assign(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
  l.to = static_cast<char*>(to->storage->data) +
         to->offset * static_cast<int64_t>(itemsize(to->dtype));
  l.place = place_here();
  const auto count = static_cast<int64_t>(bytes);
  note(&l.to, {to->storage.get(), to->offset * static_cast<int64_t>(itemsize(to->dtype))}, false,
       true, {0, count, count});
  work_ += static_cast<int64_t>(bytes);
}

void Capture::note_leaf(const Tensor& leaf, bool had) {
  if (!noting_) return;
  const bool known = std::any_of(leaves_.begin(), leaves_.end(),
                                 [&](const Leaf& l) { return l.tensor.impl() == leaf.impl(); });
  if (!known) leaves_.push_back({leaf, had});
}

// Numbers that were drawn within may be drawn again; others do not follow from where a run begins.
void Capture::note_random_state(RandomState s) {
  if (s.seed != seed_ || s.offset < random_first_) break_off("random: the generator is seeded");
}

void Capture::forbid_donations(PlannedProgram& planned) const {
  if (!planned.runs()) return;
  for (int o = 0; o < planned.noutputs; ++o) {
    if (planned.donor[o] < 0) continue;
    const Storage& from = *planned.phase->inputs[planned.used[planned.donor[o]]].storage;
    if (from.data && !inner(from)) planned.donor[o] = -1;
  }
}

}  // namespace pyflame::engine
