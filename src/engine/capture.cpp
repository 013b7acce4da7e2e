#include "engine/capture.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "core/backends.h"
#include "core/blocks.h"
#include "core/interrupt.h"
#include "core/kept.h"
#include "engine/autograd.h"
#include "engine/capture_ends.h"
#include "engine/counters.h"
#include "engine/gil.h"
#include "engine/hazards.h"
#include "engine/region.h"
#include "engine/takeover.h"
#include "engine/trace.h"
#include "pyflame/memory.h"
#include "table/kernels/move.h"
#include "table/kernels/optim.h"
#include "table/rows.h"

namespace pyflame::engine {
namespace {

std::atomic<bool> g_captures{false};
std::atomic<int> g_unplanned{0};

}  // namespace

const char* CapturedLaunch::name() const {
  if (kernel) return options.op;
  if (!before.program) return "tensor";
  return row_label(before.program->key.nodes[before.program->key.nnodes - 1]);
}

Ends& ends() {
  static auto* e = new Ends;
  return *e;
}

void Capture::storage_ends(Storage& s) noexcept {
  if (!g_unplanned.load(std::memory_order_acquire)) return;
  std::lock_guard lock(ends().mutex);
  for (Capture* c : ends().captures) {
    const auto at = c->by_serial_.find(s.serial.load(std::memory_order_relaxed));
    if (at == c->by_serial_.end()) continue;
    Slot& slot = c->slots_[static_cast<size_t>(at->second)];
    slot.alive = nullptr;
    slot.died_at = static_cast<int>(c->launches_.size());
  }
}

// See core/upcalls.h.
void on_numbered_storage_ends(Storage& s) noexcept {
  Capture::storage_ends(s);
}

void Capture::listen(bool on) noexcept {
  std::lock_guard lock(ends().mutex);
  auto& all = ends().captures;
  const auto at = std::find(all.begin(), all.end(), this);
  if (on == (at != all.end())) return;
  if (on)
    all.push_back(this);
  else
    all.erase(at);
  g_unplanned.store(static_cast<int>(all.size()), std::memory_order_release);
}

// ---- while it captures --------------------------------------------------------------------------

std::shared_ptr<Capture> Capture::begin(Device device, const Capture* tried) {
  flush(Flush::Explicit);
  make_all_again(Flush::Explicit);
  PF_CHECK(!g_captures.exchange(true), ValueError, "capture",
           "another one is being made; expected one at a time in a process; let it end first");
  std::shared_ptr<Capture> c(new Capture(device));
  try {
    if (!tried) {
      // What the call before has left there would lie idle beside the pool.
      empty_cache(device);
      c->pool_ = make_memory_pool(device);
      keep_memory_pool(device, c->pool_);
      c->listen(true);
    } else if (tried->pool_ && !tried->outcome_.planned && !tried->any_fixed()) {
      // Its memory is idle, and will lie elsewhere when it runs.
      c->borrowed_ = tried->pool_;
    }
    c->enter();
  } catch (...) {
    g_captures.store(false);
    throw;
  }
  c->tape_begins_ = autograd::reserve_numbers();
  c->random_first_ = random_state().offset;
  c->seed_ = random_state().seed;
  return c;
}

Capture::Capture(Device d) : device_(d) {}

Capture::~Capture() {
  if (group_) leave();
  listen(false);
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

void Capture::enter() {
  if (const int64_t pool = pool_ ? pool_ : borrowed_)
    route_before_ = use_memory_pool(device_, pool);
  group_ = &current_group();
  group_->capture = this;
}

void Capture::leave() noexcept {
  group_->capture = nullptr;
  group_ = nullptr;
  forget_capture(*this);
  noting_ = false;
  try {
    if (pool_ || borrowed_) use_memory_pool(device_, route_before_);
  } catch (const std::exception&) {
    break_off("the device is gone");
  }
  g_captures.store(false);
}

bool Capture::reopen() {
  flush(Flush::Explicit);
  make_all_again(Flush::Explicit);
  if (g_captures.exchange(true)) return false;
  try {
    enter();
  } catch (...) {
    g_captures.store(false);
    throw;
  }
  const Part& last = stages_.back().parts.back();
  const RandomState now = random_state();
  if (now.seed != seed_ || now.offset < last.drawn_first + last.drawn)
    break_off("random: the generator is seeded before the backward pass");
  return true;
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
  open_part(stage);
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

void Capture::open_part(Stage& stage) {
  Part& p = stage.parts.emplace_back();
  p.first = p.last = launches_.size();
  p.drawn_first = random_state().offset;
}
void Capture::close_part() {
  Part& part = stages_.back().parts.back();
  part.last = launches_.size();
  const uint64_t now = random_state().offset;
  if (now < part.drawn_first) return break_off("random: the generator is set back");
  part.drawn = now - part.drawn_first;
}

void Capture::pause() {
  flush(Flush::Explicit);
  close_part();
  noting_ = false;
  group_->capture = nullptr;
  if (pool_ || borrowed_) use_memory_pool(device_, route_before_);
}

void Capture::resume() {
  flush(Flush::Explicit);
  if (pool_ || borrowed_) use_memory_pool(device_, pool_ ? pool_ : borrowed_);
  group_->capture = this;
  open_part(stages_.back());
  noting_ = broken_.empty();
}

void Capture::close_stage(std::span<const Tensor> outputs) {
  flush(Flush::Explicit);
  if (moves && waits_in(*this)) note_read_again();  // it may be read later
  Stage& stage = stages_.back();
  close_part();
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
  if (pool_) outcome_.pool_bytes = memory_pool_stats(device_, pool_).reserved_bytes.current;
  find_fixed();
  ended_ = true;
  if (group_) {  // and not abandoned between two stages
    seed_ = random_state().seed;
    leave();
  }
  changed_.resize(launches_.size());
  place_of_.clear();
  for (Slot& s : slots_) {
    if (s.kind == Kind::Inner || !s.storage) continue;
    s.version = seen_version(*s.storage);
    s.at_end = s.storage->version;
  }
}

// ---- when it has ended --------------------------------------------------------------------------

int Capture::parts(int stage) const {
  return static_cast<int>(stages_.at(static_cast<size_t>(stage)).parts.size());
}

int64_t Capture::pool_bytes() const {
  const int64_t arena = arena_ ? static_cast<int64_t>(arena_->nbytes) : 0;
  return arena + (pool_ ? memory_pool_stats(device_, pool_).reserved_bytes.current : 0);
}

bool Capture::room_for_trial() const {
  return !outcome_.planned || memory_headroom(device_) >= outcome_.pool_bytes;
}

void Capture::watch(std::span<const Tensor> tensors) {
  watched_.clear();
  for (const Tensor& t : tensors)
    watched_.push_back({t, t->storage.get(), t->shape, t->strides, t->offset,
                        static_cast<bool>(t->requires_grad), autograd::has_hooks(t)});
}

bool Capture::watched_still_there() const {
  return std::all_of(watched_.begin(), watched_.end(), [](const Watched& w) {
    const TensorImpl& t = *w.tensor.impl();
    return (w.hooked || !autograd::has_hooks(w.tensor)) && t.storage.get() == w.storage &&
           t.requires_grad == w.requires_grad && t.offset == w.offset && t.shape == w.shape &&
           t.strides == w.strides;
  });
}

// Fresh memory for an output.
Tensor Capture::fresh_memory(const Slot& slot) const {
  Tensor t = make_tensor_at({static_cast<int64_t>(slot.nbytes)}, DType::UInt8, device_);
  ensure_memory(*t->storage, current_group().stream(device_),
                {"captured step", DType::UInt8, &t->shape});
  return t;
}
void Capture::make_memory(Slot& slot) {
  slot.holder = fresh_memory(slot);
  slot.storage = Ref<Storage>::share(slot.holder->storage.get());
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
  plan();
  if (stage == 0) began_ = random_state();
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
    std::vector<pf_scalar> other;
    const auto set = [&](int number, int64_t value) {
      if (other.empty()) other = l.attrs;
      other[static_cast<size_t>(number)] = to_kernel_scalar(Scalar(value));
    };
    if (l.draws) {
      set(0, static_cast<int64_t>(seed_));
      set(1, static_cast<int64_t>(stages_[l.drawn_stage].parts[l.drawn_part].drawn_now) +
                 l.attrs[1].i);
    }
    if (l.copies) set(l.kernel->weights, static_cast<int64_t>(kernels::Weights::Copies));
    return run_kernel(*l.kernel, device_, stream, l.tensors, other.empty() ? l.attrs : other,
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

void Capture::launch_noted(size_t i, StreamState* stream) {
  CapturedLaunch& l = *launches_[i];
  if (l.fate != CapturedLaunch::Fate::Runs) return;
  if (!timed_) [[likely]]
    return launch(l, stream);
  using Clock = std::chrono::steady_clock;
  if (!backend_of(device_)->synchronous) wait_for_stream(device_, stream, "captured step");
  const auto began = Clock::now();
  launch(l, stream);
  if (!backend_of(device_)->synchronous) wait_for_stream(device_, stream, "captured step");
  l.seconds = std::chrono::duration<float>(Clock::now() - began).count();
}

void Capture::run(int stage, int part) {
  if (stage == 0 && g_watches.load(std::memory_order_relaxed)) [[unlikely]]
    for (const Slot& s : slots_)
      if (s.written && s.within(stage) && (s.kind == Kind::Outer || s.kind == Kind::Input))
        about_to_write(*s.storage);
  Part& p = stages_.at(static_cast<size_t>(stage)).parts.at(static_cast<size_t>(part));
  flush(Flush::Explicit);
  if (p.drawn > 0) {
    const RandomState r = take_random(static_cast<int64_t>(4 * p.drawn));
    p.drawn_now = r.offset;
    seed_ = r.seed;
    for (uint32_t i : random_)
      if (launches_[i]->drawn_stage == static_cast<size_t>(stage) &&
          launches_[i]->drawn_part == static_cast<size_t>(part))
        changed_[i] = 1;
  }
  GilScope gil;
  StreamState* stream = current_group().stream(device_);
  // On another stream than the last run, which writes the same memory.
  if (ran_ && stream_ != stream) wait_for_stream(device_, stream_, "captured step");
  stream_ = stream;
  ran_ = true;
  for (Slot& s : slots_) {
    if (s.kind == Kind::Inner || !s.within(stage) || !s.storage) continue;
    if (s.window) {  // of a run that failed
      s.storage->poisoned = false;
      s.storage->error = nullptr;
    }
    if (s.written)
      settle_write(*s.storage, nullptr, "captured step");
    else
      settle_read(*s.storage, nullptr);
    ensure_memory(*s.storage, stream, {"captured step", DType::UInt8, nullptr});
    if (s.kind != Kind::Input && s.base != s.storage->data) patch(s);
  }
  if (arena_) ensure_memory(*arena_, stream, {});
  long_work(work_);
  const bool again = constants_changed(p);
  p.stale = again;  // until all has run
  lost_ |= cells_differ(p);
  using Fate = CapturedLaunch::Fate;
  if (tracing()) [[unlikely]]
    for (size_t i = p.first; i < p.last; ++i) {
      const CapturedLaunch& l = *launches_[i];
      if (l.fate == Fate::Runs || (again && l.fate == Fate::Constant))
        trace_replay(l, device_, text_of_place(l.place));
    }
  // Once more from its start: what it writes nobody has yet.
  const bool fresh = hears_interrupts() && std::none_of(slots_.begin(), slots_.end(), [&](auto& s) {
                       return s.written && s.storage && s.within(stage) && s.kind != Kind::Inner &&
                              s.kind != Kind::Output;
                     });
  const MayStop stoppable(fresh, work_);
  try {
    if (again)
      for (size_t i = p.first; i < p.last; ++i)
        if (launches_[i]->fate == Fate::Constant) launch(*launches_[i], stream);
    if (timed_ || cells_differ(p) || !launch_as_graph(p, stream)) launch_one_by_one(p, stream);
  } catch (...) {
    for (Slot& s : slots_)
      if (s.window) poison(*s.storage);
    lost_ = true;
    note_copied(lost_);
    throw;
  }
  p.stale = false;
  if (part + 1 < parts(stage)) return;
  for (Slot& s : slots_) {
    if (s.kind == Kind::Inner || !s.storage) continue;
    if (s.written && s.within(stage) && s.kind != Kind::Output) {
      ++s.storage->version;
      drop_kept(*s.storage);
    }
    s.version = seen_version(*s.storage);
  }
  note_copied(std::exchange(lost_, false));
}

bool Capture::launch_as_graph(Part& p, StreamState* stream) {
  if (device_.is_cpu()) return false;
  if (!p.graph) p.graph = std::make_unique<PartGraph>(device_);
  const std::span part = std::span(launches_).subspan(p.first, p.last - p.first);
  return p.graph->run(stream, part, std::span(changed_).subspan(p.first, part.size()),
                      [&](CapturedLaunch& l, StreamState* on) {
                        if (l.fate == CapturedLaunch::Fate::Runs) launch(l, on);
                      });
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

void Capture::spend(const std::vector<bool>& which) {
  std::vector<Seen>& results = stages_.back().results;
  for (size_t i = 0; i < results.size(); ++i) results[i].spent = which.at(i);
}

Tensor Capture::look(Storage* s, const Seen& out) {
  struct Spent final : autograd::Node {
    Spent() : Node("captured_step") { released = true; }
    autograd::Grads apply(const autograd::Grads&) override {
      PF_FAIL(AutogradError, "backward",
              "the graph of a captured step's result was already used and freed within the step; "
              "call backward(retain_graph=True) there");
    }
  };
  Tensor t = look_at(s, out.dtype, out.floating, out.shape, out.strides, out.offset);
  if (out.spent) autograd::attach(Ref<autograd::Node>::adopt(new Spent), {&t, 1}, {});
  return t;
}

std::vector<Tensor> Capture::results(int stage) {
  std::vector<Tensor> r;
  for (const Seen& out : stages_.at(static_cast<size_t>(stage)).results) {
    const Slot& slot = slots_[static_cast<size_t>(out.slot)];
    if (slot.kind == Kind::Output) slot.storage->device.floating = out.floating;
    r.push_back(look(slot.storage.get(), out));
  }
  forget_behind(stage);
  return r;
}

void Capture::forget_behind(int stage) {
  for (Slot& s : slots_) {
    if (s.last_stage > stage || (s.kind != Kind::Input && s.kind != Kind::Output)) continue;
    s.holder = {};
    s.storage.reset();
  }
}

// The bytes of what looks like `t`, whose storage has so many.
static Tensor bytes_of(const Tensor& t, size_t nbytes) {
  Tensor bytes = make_view(t, t->shape, t->strides, t->offset);
  bytes->dtype = DType::UInt8;
  bytes->shape = {static_cast<int64_t>(nbytes)};
  bytes->strides = {1};
  bytes->numel = static_cast<int64_t>(nbytes);
  bytes->offset = 0;
  bytes->contiguous = true;
  return bytes;
}

std::vector<Tensor> Capture::copied_results(int stage) {
  std::vector<Tensor> copies(slots_.size()), r;
  for (const Seen& out : stages_.at(static_cast<size_t>(stage)).results) {
    const auto i = static_cast<size_t>(out.slot);
    Slot& s = slots_[i];
    if (s.kind == Kind::Output && !copies[i].defined()) {
      copies[i] = fresh_memory(s);
      copies[i]->storage->device.floating = out.floating;
      call<kernels::Copy>({copies[i], bytes_of(s.holder, s.nbytes)}, {.takes = Takes::All});
    }
    Storage* from = copies[i].defined() ? copies[i]->storage.get() : s.storage.get();
    r.push_back(look(from, out));
  }
  flush(Flush::Explicit);
  if (ended_) forget_behind(stage);
  return r;
}

std::vector<Tensor> Capture::written() const {
  std::vector<Tensor> r;
  for (const Slot& s : slots_) {
    if (s.kind != Kind::Outer || !s.written || s.first_stage > 0) continue;
    const auto n = static_cast<int64_t>(s.nbytes);
    r.push_back(look_at(s.storage.get(), DType::UInt8, false, {n}, {1}, 0));
  }
  return r;
}

std::vector<size_t> Capture::written_inputs() const {
  std::vector<size_t> r;
  const std::vector<Seen>& inputs = stages_.at(0).inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (slots_[static_cast<size_t>(inputs[i].slot)].written) r.push_back(i);
  return r;
}

std::vector<Capture::Given> Capture::given() const {
  std::vector<Given> r;
  for (const Seen& out : stages_.at(0).results) {
    const Slot& s = slots_[static_cast<size_t>(out.slot)];
    Given& g = r.emplace_back();
    if (s.kind != Kind::Output || !s.storage) continue;
    g.tensor =
        look_at(s.storage.get(), out.dtype, out.floating, out.shape, out.strides, out.offset);
    g.version = s.version;
  }
  return r;
}

bool Capture::only_reads(const Storage& storage) const {
  const auto at = by_serial_.find(storage.serial.load(std::memory_order_relaxed));
  if (at == by_serial_.end()) return false;
  const Slot& s = slots_[static_cast<size_t>(at->second)];
  return s.kind == Kind::Outer && !s.written && s.first_stage == 0;
}

bool Capture::unchanged(std::span<const Tensor> inputs) const {
  const Stage& first = stages_.at(0);
  for (size_t i = 0; i < first.inputs.size(); ++i) {
    const Slot& s = slots_[static_cast<size_t>(first.inputs[i].slot)];
    if (!s.written && seen_version(*inputs[i]->storage) != s.version) return false;
  }
  return std::all_of(slots_.begin(), slots_.end(), [](const Slot& s) {
    return s.kind != Kind::Outer || s.written || s.first_stage > 0 || !s.storage ||
           seen_version(*s.storage) == s.version;
  });
}

}  // namespace pyflame::engine
