#include "engine/capture.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "core/backends.h"
#include "core/blocks.h"
#include "core/kept.h"
#include "engine/counters.h"
#include "engine/gil.h"
#include "engine/hazards.h"
#include "engine/takeover.h"
#include "pyflame/memory.h"
#include "table/kernels/move.h"
#include "table/rows.h"

namespace pyflame::engine {

const char* CapturedLaunch::name() const {
  if (kernel) return options.op;
  if (!before.program) return "tensor";
  return row_label(before.program->key.nodes[before.program->key.nnodes - 1]);
}

namespace {

std::atomic<bool> g_captures{false};
std::atomic<uint32_t> g_serial{0};

uint32_t serial_of(Storage& s) {
  uint32_t known = s.serial.load(std::memory_order_relaxed);
  if (known) return known;
  const uint32_t fresh = g_serial.fetch_add(1, std::memory_order_relaxed) + 1;
  return s.serial.compare_exchange_strong(known, fresh) ? fresh : known;
}

bool same_scalar(const pf_scalar& a, const pf_scalar& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

std::string text_of(const pf_scalar& s) {
  std::string r = std::to_string(s.f);
  while (r.find('.') != std::string::npos && (r.back() == '0' || r.back() == '.')) {
    const bool point = r.back() == '.';
    r.pop_back();
    if (point) break;
  }
  return r;
}

}  // namespace

// ---- while it captures --------------------------------------------------------------------------

std::shared_ptr<Capture> Capture::begin(Device device, bool trial) {
  flush(Flush::Explicit);
  make_all_again(Flush::Explicit);
  PF_CHECK(!g_captures.exchange(true), ValueError, "capture",
           "another one is being made; expected one at a time in a process; let it end first");
  std::shared_ptr<Capture> c(new Capture(device));
  try {
    if (!trial) {
      c->pool_ = make_memory_pool(device);
      keep_memory_pool(device, c->pool_);
      c->route_before_ = use_memory_pool(device, c->pool_);
    }
  } catch (...) {
    g_captures.store(false);
    throw;
  }
  c->group_ = &current_group();
  c->group_->capture = c.get();
  c->random_first_ = random_state().offset;
  c->seed_ = random_state().seed;
  return c;
}

Capture::Capture(Device d) : device_(d) {}

Capture::~Capture() {
  if (group_) leave();
  launches_.clear();
  slots_.clear();
  if (pool_) {
    try {
      drop_memory_pool(device_, pool_);
    } catch (const std::exception&) {
      // Its device is gone, and its memory with it.
    }
  }
}

void Capture::leave() noexcept {
  group_->capture = nullptr;
  group_ = nullptr;
  forget_capture(*this);
  noting_ = false;
  try {
    if (pool_) use_memory_pool(device_, route_before_);
  } catch (const std::exception&) {
    break_off("the device is gone");
  }
  g_captures.store(false);
}

void Capture::break_off(const std::string& reason) {
  if (!group_ || !broken_.empty()) return;
  broken_ = reason;
  noting_ = false;
}

void Capture::abandon() noexcept {
  if (group_) leave();
}

void Capture::open_stage(std::span<const Tensor> inputs) {
  flush(Flush::Explicit);
  Stage& stage = stages_.emplace_back();
  stage.parts.push_back({launches_.size(), launches_.size()});
  for (const Tensor& t : inputs) {
    device_data(t);  // has memory from here on
    const int before = static_cast<int>(slots_.size());
    const int slot = slot_of(*t->storage);
    if (slot < before && broken_.empty())
      broken_ = "an input shares its memory with another tensor of the step";
    if (!(t->storage->device == device_) && broken_.empty()) broken_ = "arguments on two devices";
    Slot& s = slots_[static_cast<size_t>(slot)];
    s.kind = Kind::Input;
    stage.inputs.push_back({slot, t->dtype, t->shape, t->strides, t->offset, t->floating});
  }
  noting_ = broken_.empty();
}

void Capture::pause() {
  flush(Flush::Explicit);
  stages_.back().parts.back().last = launches_.size();
  noting_ = false;
  group_->capture = nullptr;
  if (pool_) use_memory_pool(device_, route_before_);
}

void Capture::resume() {
  flush(Flush::Explicit);
  if (pool_) use_memory_pool(device_, pool_);
  group_->capture = this;
  stages_.back().parts.push_back({launches_.size(), launches_.size()});
  noting_ = broken_.empty();
}

void Capture::close_stage(std::span<const Tensor> outputs) {
  flush(Flush::Explicit);
  if (moves && waits_in(*this)) note_read_again();  // it may be read later
  Stage& stage = stages_.back();
  stage.parts.back().last = launches_.size();
  for (const Tensor& t : outputs) {
    device_data(t);
    const int slot = slot_of(*t->storage);
    Slot& s = slots_[static_cast<size_t>(slot)];
    if (s.kind == Kind::Inner) s.kind = Kind::Output;
    s.storage = Ref<Storage>::share(t->storage.get());
    s.holder = make_view(t, t->shape, t->strides, t->offset);
    stage.results.push_back({slot, t->dtype, t->shape, t->strides, t->offset, t->floating});
  }
  noting_ = false;
}

void Capture::end() {
  const uint64_t now = random_state().offset;
  random_count_ = now - random_first_;
  random_now_ = random_first_;
  seed_ = random_state().seed;
  leave();
  changed_.resize(launches_.size());
  for (Slot& s : slots_) {
    if (s.kind == Kind::Inner) {
      s.sites.clear();
      s.sites.shrink_to_fit();
    } else {
      s.version = s.storage ? seen_version(*s.storage) : 0;
    }
  }
}

bool Capture::inner(const Storage& s) const {
  return !pool_ || (s.block && s.block->segment->pool == pool_ && s.device == device_);
}

int Capture::slot_of(Storage& s) {
  const uint32_t serial = serial_of(s);
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
    slots_.push_back(std::move(slot));
  }
  slots_[static_cast<size_t>(at->second)].last_stage = stage;
  return at->second;
}

void Capture::note(void** where, Storage& s, bool writes) {
  Slot& slot = slots_[static_cast<size_t>(slot_of(s))];
  slot.written |= writes;
  launches_.back()->serials.push_back(slot.serial);
  // Memory that went on to a result of the same launch: within, and never looked up.
  if (s.data)
    slot.sites.push_back({where, static_cast<char*>(*where) - static_cast<char*>(s.data),
                          static_cast<uint32_t>(launches_.size() - 1)});
}

CapturedLaunch& Capture::add() {
  return *launches_.emplace_back(std::make_unique<CapturedLaunch>());
}

void Capture::keep_program(CapturedProgram& to, const ProgramStep& step,
                           const std::shared_ptr<const CompiledProgram>& program) {
  const auto nin = static_cast<size_t>(step.ninputs), nout = static_cast<size_t>(step.noutputs),
             ndim = static_cast<size_t>(step.launch.ndim);
  to.program = program;
  to.in.assign(step.in, step.in + nin);
  to.out.assign(step.out, step.out + nout);
  to.scalars.assign(step.launch.scalars, step.launch.scalars + step.key.nscalars);
  to.dims.reserve(ndim * (1 + nin + nout));
  to.dims.assign(step.launch.shape, step.launch.shape + ndim);
  for (auto* list : {&to.in, &to.out})
    for (pf_operand& o : *list) {
      const int64_t* strides = o.strides;
      o.strides = to.dims.data() + to.dims.size();
      if (strides)
        to.dims.insert(to.dims.end(), strides, strides + ndim);
      else
        o.strides = nullptr;
    }
  to.launch = step.launch;
  to.launch.shape = to.dims.data();
  to.launch.inputs = to.in.data();
  to.launch.outputs = to.out.data();
  to.launch.scalars = to.scalars.data();
  work_ += step.launch.numel * step.key.nnodes;
  const Phase& ph = *step.phase;
  for (size_t j = 0; j < nin; ++j)
    if (!(step.inputs_without >> j & 1))
      note(&to.in[j].data, *ph.inputs[step.used[j]].storage, false);
  for (size_t o = 0; o < nout; ++o)
    if (!(step.outputs_without >> o & 1))
      note(&to.out[o].data, *ph.outputs[step.stored[o]].storage, true);
}

void Capture::note_program(const ProgramStep& step,
                           const std::shared_ptr<const CompiledProgram>& program) {
  if (!noting_) return;
  keep_program(add().before, step, program);
}

void Capture::note_kernel(const Kernel& k, std::span<const pf_tensor> tensors,
                          std::span<Storage* const> storages, std::span<const pf_scalar> attrs,
                          int outputs, const CallOptions& options) {
  if (!noting_) return;
  if (options.run) return break_off(std::string(options.op) + ": a kernel of the user's own");
  CapturedLaunch& l = add();
  l.kernel = &k;
  l.tensors.assign(tensors.begin(), tensors.end());
  l.attrs.assign(attrs.begin(), attrs.end());
  l.options = options;
  if (k.random) {
    l.attrs[1].i -= static_cast<int64_t>(random_first_);
    random_.push_back(static_cast<uint32_t>(launches_.size() - 1));
  }
  for (size_t i = 0; i < l.tensors.size(); ++i) {
    if (!storages[i]) continue;
    if (!(storages[i]->device == device_)) break_off(std::string(options.op) + ": another device");
    note(&l.tensors[i].data, *storages[i], static_cast<int>(i) < outputs);
    int64_t n = 1;
    for (int d = 0; d < l.tensors[i].ndim; ++d) n *= l.tensors[i].shape[d];
    work_ += k.anchor == Anchor::Library ? 16 * n : n;
  }
  if (options.keeps >= 0 && device_.is_cpu())
    l.keeps = slot_of(*storages[static_cast<size_t>(options.keeps)]);
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
  l.attrs.assign(group.attrs, group.attrs + group.nattrs);
  for (int i = 0; i < a.ntensors; ++i) {
    if (!a.tensors[i].storage || (group.without >> i & 1)) continue;
    note(&l.tensors[static_cast<size_t>(i)].data, *a.tensors[i].storage, i < a.nouts);
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
  note(&l.to, *to->storage, true);
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

void Capture::forbid_donations(ProgramStep& step) const {
  if (!step.runs()) return;
  for (int o = 0; o < step.noutputs; ++o) {
    if (step.donor[o] < 0) continue;
    const Storage& from = *step.phase->inputs[step.used[step.donor[o]]].storage;
    if (from.data && !inner(from)) step.donor[o] = -1;
  }
}

// ---- when it has ended --------------------------------------------------------------------------

int Capture::parts(int stage) const {
  return static_cast<int>(stages_.at(static_cast<size_t>(stage)).parts.size());
}

int64_t Capture::pool_bytes() const {
  return memory_pool_stats(device_, pool_).reserved_bytes.current;
}

void Capture::watch(std::span<const Tensor> tensors) {
  watched_.clear();
  for (const Tensor& t : tensors) watched_.push_back({t, t->storage.get()});
}

bool Capture::watched_still_there() const {
  return std::all_of(watched_.begin(), watched_.end(),
                     [](const Watched& w) { return w.tensor->storage.get() == w.storage; });
}

// Fresh memory for an output.
void Capture::make_memory(Slot& slot) {
  slot.holder = make_tensor_at({static_cast<int64_t>(slot.nbytes)}, DType::UInt8, device_);
  slot.storage = Ref<Storage>::share(slot.holder->storage.get());
  ensure_memory(*slot.storage, current_group().stream(device_),
                {"captured step", DType::UInt8, &slot.holder->shape});
}

void Capture::patch(Slot& slot) {
  void* base = slot.kind == Kind::Input ? slot.base : slot.storage->data;
  for (const Site& site : slot.sites) {
    *site.where = static_cast<char*>(base) + site.offset;
    changed_[site.launch] = 1;
  }
  slot.base = base;
}

void Capture::start(int stage, std::span<const Tensor> inputs) {
  Stage& st = stages_.at(static_cast<size_t>(stage));
  PF_CHECK(inputs.size() == st.inputs.size(), ValueError, "capture", "got ", inputs.size(),
           " inputs; expected ", st.inputs.size(), ", as when it was made");
  flush(Flush::Explicit);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = inputs[i];
    const Seen& g = st.inputs[i];
    PF_CHECK(t->dtype == g.dtype && t->shape == g.shape && t->strides == g.strides &&
                 t->storage->device == device_,
             ValueError, "capture", "got input ", i, " of shape ", t->shape, " and dtype ",
             t->dtype, "; expected shape ", g.shape, " and dtype ", g.dtype,
             ", lying in memory and on the device as when it was made");
  }
  for (Slot& s : slots_) {
    if (s.kind != Kind::Inner && s.first_stage < stage && s.last_stage >= stage)
      PF_CHECK(s.storage && seen_version(*s.storage) == s.version, AutogradError, "backward",
               "a tensor that the captured step needs for its gradient was changed in place, or "
               "the step ran again, since the forward pass; run the backward pass first");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    Slot& s = slots_[static_cast<size_t>(st.inputs[i].slot)];
    char* data = static_cast<char*>(device_data(inputs[i]));
    s.holder = inputs[i];
    s.storage = Ref<Storage>::share(inputs[i]->storage.get());
    // As if the storage began so that the input lies where it lay in the one before.
    void* base = data - st.inputs[i].offset * static_cast<int64_t>(itemsize(inputs[i]->dtype));
    if (s.base == base) continue;
    s.base = base;
    patch(s);
  }
  if (stage == 0) {
    const RandomState r = take_random(static_cast<int64_t>(4 * random_count_));
    random_now_ = r.offset;
    seed_ = r.seed;
  }
  std::vector<bool> made(slots_.size());
  for (const Seen& r : st.results) {
    const auto i = static_cast<size_t>(r.slot);
    if (slots_[i].kind != Kind::Output || made[i]) continue;
    make_memory(slots_[i]);
    patch(slots_[i]);
    made[i] = true;
  }
}

void Capture::launch(CapturedLaunch& l, StreamState* stream) {
  const pf_backend* b = backend_of(device_);
  const pf_stream on = handle_of(stream);
  if (!l.kernel) {
    if (!l.before.program) {
      bump(counters().copies_from_host);
      const pf_status status =
          b->copy_from_host(device_.index, on, l.to, l.bytes.data(), l.bytes.size());
      if (status != PF_OK) raise_status(b, status, "copy");
      return;
    }
    bump(counters().programs);
    const pf_status status =
        b->program_launch(device_.index, on, l.before.program->kernel, &l.before.launch);
    if (status != PF_OK) raise_status(b, status, "pointwise group");
    return;
  }
  const KeepScope keep(l.keeps >= 0 ? slots_[static_cast<size_t>(l.keeps)].storage.get() : nullptr);
  if (!l.together) {
    std::vector<pf_scalar> drawn;
    if (l.kernel->random) {
      drawn = l.attrs;
      drawn[0] = to_kernel_scalar(Scalar(static_cast<int64_t>(seed_)));
      drawn[1] = to_kernel_scalar(Scalar(static_cast<int64_t>(random_now_) + l.attrs[1].i));
    }
    return run_kernel(*l.kernel, device_, stream, l.tensors, drawn.empty() ? l.attrs : drawn,
                      l.options);
  }
  bump(counters().kernels);
  pf_index_error error = index_error(*l.kernel, l.options);
  int32_t joined = 0;
  l.group.error = &error;
  l.group.joined = &joined;
  const pf_status status = b->group_launch(device_.index, on, &l.group);
  if (status != PF_OK) raise_status(b, status, l.options.op);
  raise_index_error(error);
  counters().joined.fetch_add(joined, std::memory_order_relaxed);
}

void Capture::run(int stage, int part) {
  Part& p = stages_.at(static_cast<size_t>(stage)).parts.at(static_cast<size_t>(part));
  flush(Flush::Explicit);
  GilScope gil;
  StreamState* stream = current_group().stream(device_);
  // On another stream than the last run, which writes the same memory.
  if (ran_ && stream_ != stream) wait_for_stream(device_, stream_, "captured step");
  stream_ = stream;
  ran_ = true;
  for (Slot& s : slots_) {
    if (s.kind == Kind::Inner || !s.within(stage) || !s.storage) continue;
    if (s.written)
      settle_write(*s.storage, nullptr, "captured step");
    else
      settle_read(*s.storage, nullptr);
    ensure_memory(*s.storage, stream, {"captured step", DType::UInt8, nullptr});
    if (s.kind != Kind::Input && s.base != s.storage->data) patch(s);
  }
  long_work(work_);
  if (cells_differ(p) || !launch_as_graph(p, stream)) launch_one_by_one(p, stream);
  if (part + 1 < parts(stage)) return;
  for (Slot& s : slots_) {
    if (s.kind == Kind::Inner || !s.storage) continue;
    if (s.written && s.within(stage) && s.kind != Kind::Output) {
      ++s.storage->version;
      drop_kept(*s.storage);
    }
    s.version = seen_version(*s.storage);
  }
}

bool Capture::launch_as_graph(Part& p, StreamState* stream) {
  if (device_.is_cpu()) return false;
  if (drawn_.seed != seed_ || drawn_.offset != random_now_) {
    drawn_ = {seed_, random_now_};
    for (uint32_t i : random_) changed_[i] = 1;
  }
  if (!p.graph) p.graph = std::make_unique<PartGraph>(device_);
  const bool ran =
      p.graph->run(stream, std::span(changed_).subspan(p.first, p.last - p.first),
                   [&](size_t i, StreamState* on) { launch(*launches_[p.first + i], on); });
  return ran;
}

std::string Capture::graphs() const {
  int parts = 0, nodes = 0;
  std::string why;
  for (const Stage& s : stages_)
    for (const Part& p : s.parts) {
      if (!p.graph) continue;
      parts += p.graph->nodes() > 0;
      nodes += p.graph->nodes();
      if (why.empty()) why = p.graph->why_not();
    }
  std::string r;
  if (parts)
    r = std::to_string(parts) + " graphs of the device with " + std::to_string(nodes) + " nodes";
  if (!why.empty()) r += std::string(parts ? "; " : "") + "launched one by one: " + why;
  return r;
}

std::vector<Tensor> Capture::results(int stage) {
  std::vector<Tensor> r;
  for (const Seen& out : stages_.at(static_cast<size_t>(stage)).results) {
    const Slot& slot = slots_[static_cast<size_t>(out.slot)];
    TensorImpl* t = TensorImpl::create();
    t->dtype = out.dtype;
    t->floating = out.floating;
    t->shape = out.shape;
    t->strides = out.strides;
    t->offset = out.offset;
    t->numel = numel(out.shape);
    t->contiguous = is_contiguous(out.shape, out.strides);
    t->storage = StorageHandle::share(slot.storage.get());
    if (slot.kind == Kind::Output) t->storage->device.floating = out.floating;
    r.push_back(Tensor::adopt(t));
  }
  for (Slot& s : slots_) {
    if (s.last_stage > stage || (s.kind != Kind::Input && s.kind != Kind::Output)) continue;
    s.holder = {};
    s.storage.reset();
  }
  return r;
}

std::vector<Tensor> Capture::copied_results(int stage) {
  std::vector<bool> made(slots_.size());
  for (const Seen& r : stages_.at(static_cast<size_t>(stage)).results) {
    const auto i = static_cast<size_t>(r.slot);
    Slot& s = slots_[i];
    if (s.kind != Kind::Output || made[i]) continue;
    made[i] = true;
    const Ref<Storage> from = s.storage;
    const Tensor kept = s.holder;
    make_memory(s);
    const Tensor bytes = make_view(kept, kept->shape, kept->strides, kept->offset);
    bytes->dtype = DType::UInt8;
    bytes->shape = s.holder->shape;
    bytes->strides = s.holder->strides;
    bytes->numel = s.holder->numel;
    bytes->offset = 0;
    bytes->contiguous = true;
    call<kernels::Copy>({s.holder, bytes}, {.takes = Takes::All});
  }
  flush(Flush::Explicit);
  return results(stage);
}

Capture::Difference Capture::difference(const Capture& trial) const {
  const size_t n = stages_[0].parts.back().last;
  if (n != trial.launches_.size())
    return {"it launches " + std::to_string(trial.launches_.size()) +
            " programs and kernels, and launched " + std::to_string(n)};
  const auto of_scalars = [](const char* name, std::span<const pf_scalar> a,
                             std::span<const pf_scalar> b) -> std::string {
    for (size_t i = 0; i < a.size(); ++i)
      if (!same_scalar(a[i], b[i]))
        return std::string("a number of '") + name + "' is " + text_of(b[i]) + ", and was " +
               text_of(a[i]);
    return "";
  };
  const auto same_program = [](const CapturedProgram& a, const CapturedProgram& b) {
    if (!a.program || !b.program) return !a.program == !b.program;
    const ProgramKey &x = a.program->key, &y = b.program->key;
    return x.size() == y.size() && std::memcmp(&x, &y, x.size()) == 0 && a.dims == b.dims;
  };
  const auto same_tensor = [](const pf_tensor& a, const pf_tensor& b) {
    return a.ndim == b.ndim && a.dtype == b.dtype &&
           std::equal(a.shape, a.shape + a.ndim, b.shape) &&
           std::equal(a.strides, a.strides + a.ndim, b.strides);
  };
  Difference numbers;
  for (size_t i = 0; i < n; ++i) {
    const CapturedLaunch &a = *launches_[i], &b = *trial.launches_[i];
    const char* name = b.name();
    if (a.kernel != b.kernel || a.together != b.together || a.bytes.size() != b.bytes.size() ||
        a.attrs.size() != b.attrs.size() || a.serials.size() != b.serials.size() ||
        !same_program(a.before, b.before) || !same_program(a.after, b.after) ||
        !std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    same_tensor))
      return {std::string("it launches '") + name + "', or over other shapes, where it launched '" +
              a.name() + "'"};
    for (size_t j = 0; j < a.serials.size(); ++j) {
      const Slot& s = slots_[static_cast<size_t>(by_serial_.at(a.serials[j]))];
      if (s.kind == Kind::Outer && a.serials[j] != b.serials[j])
        return {std::string("'") + name + "' reads or writes another tensor from outside"};
    }
    if (!numbers.what.empty()) continue;
    // Of random kernels seed and offset are the generator's, of cells all is the program's.
    const size_t first = a.live ? a.attrs.size() : a.kernel && a.kernel->random ? 2 : 0;
    numbers.what =
        of_scalars(name, std::span(a.attrs).subspan(first), std::span(b.attrs).subspan(first));
    for (const auto part : {&CapturedLaunch::before, &CapturedLaunch::after})
      if (numbers.what.empty())
        numbers.what = of_scalars(name, (a.*part).scalars, (b.*part).scalars);
    if (numbers.what.empty() && a.bytes != b.bytes)
      numbers.what = "a tensor is made of other numbers";
    numbers.numbers = !numbers.what.empty();
  }
  return numbers;
}

}  // namespace pyflame::engine
