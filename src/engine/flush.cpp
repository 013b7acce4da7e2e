// Running a group: which results anybody still needs, the plan for that, memory, launches.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/allocator.h"
#include "core/backends.h"
#include "core/lock.h"
#include "core/room.h"
#include "engine/group.h"
#include "engine/trace.h"
#include "table/rows.h"

namespace pyflame::engine {

Counters& counters() {
  static Counters c;
  return c;
}

// ---- the GIL -----------------------------------------------------------------------------------

namespace {
Hooks g_hooks;
thread_local int t_gil_depth = 0;
thread_local void* t_gil_state = nullptr;
constexpr int64_t kLongWork = 1 << 17;  // elements; giving the GIL away costs about a microsecond
}  // namespace

void set_hooks(Hooks h) {
  g_hooks = h;
}

GilScope::GilScope() {
  ++t_gil_depth;
}
GilScope::~GilScope() {
  if (--t_gil_depth || !t_gil_state) return;
  AtWork::leave();
  g_hooks.acquire_gil(std::exchange(t_gil_state, nullptr));
}
namespace {
thread_local std::string t_site;  // from before the GIL was given away
[[maybe_unused]] const AtThreadStart kMade([] { AtThreadStart::touch(&t_site); });
}  // namespace
std::string call_site() {
  if (t_gil_state) return t_site;
  return g_hooks.call_site ? g_hooks.call_site() : std::string();
}
void long_work(int64_t elements) {
  if (elements < kLongWork || !g_hooks.release_gil || t_gil_depth == 0 || t_gil_state) return;
  if (tracing()) t_site = call_site();
  AtWork::enter();  // before somebody else has the GIL, and may fork
  t_gil_state = g_hooks.release_gil();
  if (!t_gil_state) AtWork::leave();
}

// ---- named kernels -----------------------------------------------------------------------------

namespace {

constexpr int kMaxKernels = 1024;
constexpr int kDeviceTypes = 4;
struct KernelTable {
  Mutex mutex;
  int count = 0;
  std::atomic<void*> found[kMaxKernels][kDeviceTypes]{};
};
KernelTable& kernel_table() {
  static auto* t = new KernelTable;
  return *t;
}

}  // namespace

Kernel::Kernel(const char* n, Anchor a, const Kernel* before, const Kernel* with)
    : name(n), anchor(a), first(before), both(with) {
  KernelTable& t = kernel_table();
  std::lock_guard lock(t.mutex);
  id = t.count++;
  PF_CHECK(id < kMaxKernels, BackendError, n, "more than ", kMaxKernels, " kernel call sites");
}

pf_scalar to_kernel_scalar(Scalar s) {
  return {s.to_double(), s.to_int()};
}

void* find_kernel(const Kernel& k, Device device) {
  auto& slot = kernel_table().found[k.id][static_cast<int>(device.type)];
  void* kernel = slot.load(std::memory_order_acquire);
  if (!kernel) {
    kernel = backend_of(device)->kernel_find(k.name);
    slot.store(kernel, std::memory_order_release);
  }
  return kernel;
}

bool run_kernel(const Kernel& k, Device device, StreamState* stream,
                std::span<const pf_tensor> tensors, std::span<const pf_scalar> attrs,
                const CallOptions& options, const Epilogue* epilogue) {
  if (options.run) {
    bump(counters().kernels);
    (*options.run)(device, tensors);
    return false;
  }
  const pf_backend* b = backend_of(device);
  void* kernel = find_kernel(k, device);
  PF_CHECK(kernel, NotSupportedError, options.op, "the ", b->name, " backend has no kernel '",
           k.name, "'; run this operation on another device");
  bump(counters().kernels);
  pf_index_error error{0, 0, 0, options.op};
  const auto ntensors = static_cast<int32_t>(tensors.size()),
             nattrs = static_cast<int32_t>(attrs.size());
  int32_t joined = 0;
  pf_status status =
      epilogue && PF_HAS(b, kernel_launch_with)
          ? b->kernel_launch_with(device.index, handle_of(stream), kernel, tensors.data(), ntensors,
                                  attrs.data(), nattrs, &error, epilogue->program,
                                  &epilogue->launch, epilogue->from, epilogue->keep, &joined)
          : b->kernel_launch(device.index, handle_of(stream), kernel, tensors.data(), ntensors,
                             attrs.data(), nattrs, &error);
  if (status != PF_OK) raise_status(b, status, options.op);
  raise_index_error(error);
  if (joined) bump(counters().epilogues);
  return joined != 0;
}

void raise_index_error(const pf_index_error& e) {
  if (!e.set) return;
  const std::string_view op = e.op ? e.op : "";
  auto any_of = [op](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), op) != names.end();
  };
  if (any_of({"cross_entropy", "nll_loss"}))
    PF_FAIL(IndexError, e.op, "got the target ", e.index, " for ", e.limit,
            " classes; expected 0 to ", e.limit - 1, ", or ignore_index; correct the target");
  const int64_t lowest =
      any_of({"embedding", "one_hot", "bincount", "multi_margin_loss"}) ? 0 : -e.limit;
  PF_FAIL(IndexError, e.op, "index ", e.index, " is out of bounds for a size of ", e.limit,
          "; valid indices are ", lowest, " to ", e.limit - 1);
}

void ensure_memory(Storage& s, StreamState* stream, const MemoryUse& use) {
  if (s.data) {
    if (s.block && s.block->stream != stream) [[unlikely]]
      add_user(*s.block, stream);
    return;
  }
  s.block = allocate(s.device, stream, std::max<size_t>(s.nbytes, 1), use);
  s.data = s.block->data;
}

// ---- plans -------------------------------------------------------------------------------------

// The key: everything that a program depends on, as bytes. Compared whole on a hit.
struct PlanKey {
  uint8_t nnodes = 0, ninputs = 0, noutputs = 0, nscalars = 0, device = 0;
  uint8_t reserved = 0;  // in place of padding, whose bytes would be anything
  uint8_t input_dtypes[kMaxInputs]{};
  pf_node nodes[kMaxNodes];

  size_t size() const { return offsetof(PlanKey, nodes) + nnodes * sizeof(pf_node); }
  uint64_t hash() const {
    static_assert(sizeof(pf_node) == 16 && offsetof(PlanKey, nodes) == 6 + kMaxInputs);
    const char* p = reinterpret_cast<const char*>(this);
    uint64_t h = size();
    size_t i = 0;
    for (; i + 8 <= size(); i += 8) {
      uint64_t w;
      std::memcpy(&w, p + i, 8);
      h = (h ^ w) * 0x9E3779B97F4A7C15u;
      h ^= h >> 29;
    }
    uint64_t w = 0;
    std::memcpy(&w, p + i, size() - i);
    h = (h ^ w) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
  }
};

struct Plan {
  PlanKey key;
  uint64_t hash = 0;
  Device device;
  void* kernel = nullptr;
  mutable std::atomic<bool> used{true};  // since the hand of the cache came by

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (kernel) backend_of(device)->program_destroy(device.index, kernel);
  }
  void touch() const {
    if (!used.load(std::memory_order_relaxed)) used.store(true, std::memory_order_relaxed);
  }
};

namespace {

// Programs that make ever new structures must not fill memory with plans: of so many (some 5 MB)
// the one goes that was not used for longest, as nearly as a hand that goes around can tell.
constexpr size_t kMaxPlans = 4096;

struct PlanCache {
  Mutex mutex;
  std::unordered_multimap<uint64_t, std::shared_ptr<const Plan>> plans;
  std::list<const Plan*> ring;  // the hand stands at its front

  // Takes memory first: without any left, all stays as it was.
  void add(std::shared_ptr<const Plan> plan) {
    std::list<const Plan*> one{plan.get()};
    const uint64_t hash = plan->hash;
    plans.emplace(hash, std::move(plan));
    ring.splice(ring.end(), one);
    while (plans.size() > kMaxPlans) {
      const Plan* oldest = ring.front();
      if (oldest->used.exchange(false, std::memory_order_relaxed)) {
        ring.splice(ring.end(), ring, ring.begin());
        continue;
      }
      ring.pop_front();
      auto [first, last] = plans.equal_range(oldest->hash);
      plans.erase(std::find_if(first, last, [&](auto& e) { return e.second.get() == oldest; }));
    }
  }
};
PlanCache& plan_cache() {
  static auto* c = new PlanCache;
  return *c;
}

bool same_key(const PlanKey& a, const PlanKey& b) {
  return a.size() == b.size() && std::memcmp(&a, &b, a.size()) == 0;
}

const Plan& find_plan(Group& g, const PlanKey& key, const uint8_t* output_dtypes) {
  uint64_t h = key.hash();
  std::shared_ptr<const Plan>& recent = g.recent[h & 63];
  if (recent && recent->hash == h && same_key(recent->key, key)) {
    recent->touch();
    bump(counters().plan_hits);
    return *recent;
  }
  PlanCache& cache = plan_cache();
  std::lock_guard lock(cache.mutex);
  auto [first, last] = cache.plans.equal_range(h);
  for (auto it = first; it != last; ++it)
    if (same_key(it->second->key, key)) {
      it->second->touch();
      bump(counters().plan_hits);
      return *(recent = it->second);
    }
  auto plan = std::make_shared<Plan>();
  std::memcpy(static_cast<void*>(&plan->key), &key, key.size());
  plan->hash = h;
  plan->device = g.device;
  pf_program program{key.nnodes,   key.ninputs,     key.noutputs,
                     key.nscalars, plan->key.nodes, plan->key.input_dtypes,
                     output_dtypes};
  const pf_backend* b = backend_of(g.device);
  pf_status status = b->program_create(g.device.index, &program, &plan->kernel);
  if (status != PF_OK) raise_status(b, status, "pointwise group");
  bump(counters().plans);
  recent = plan;
  cache.add(std::move(plan));
  return *recent;
}

const char* row_label(const pf_node& n) {
  if (n.op == table::op::cast && n.in[0].kind == PF_REF_SCALAR) return "fill";
  return n.op < table::kNumRows ? table::kRowTable[n.op].name : "gradient";
}

// A dead input's block becomes the result's: no fresh memory, no page faults.
bool donate(Place& out, Phase& ph, const uint8_t* used, int nused, uint32_t& donated,
            StreamState* stream, const MemoryUse& use) {
  Storage& to = *out.storage;
  for (int j = 0; j < nused; ++j) {
    Place& in = ph.inputs[used[j]];
    Storage& from = *in.storage;
    if (donated >> j & 1 || from.handles.load(std::memory_order_relaxed) != 0 ||
        from.refs.load(std::memory_order_relaxed) != 1 || !from.block ||
        from.block->stream != stream || !from.block->users.empty() || !in.contiguous ||
        in.offset != 0 || from.nbytes != to.nbytes || itemsize(in.dtype) != itemsize(out.dtype))
      continue;
    donated |= 1u << j;
    to.data = std::exchange(from.data, nullptr);
    to.block = std::exchange(from.block, nullptr);
    relabel(*to.block, use);
    bump(counters().donated);
    return true;
  }
  return false;
}

// A phase that is ready to run: its memory is there.
struct ReadyPhase {
  const Plan* plan;
  int ninputs, noutputs;
  pf_operand in[kMaxInputs], out[kMaxNodes];
  uint8_t used[kMaxInputs];  // which inputs of the phase
  pf_launch launch;
};

// False where nothing has to run. With `only`, nothing but these nodes is stored, and all memory
// stays what it is.
bool prepare_phase(Group& g, Phase& ph, ReadyPhase& ready, uint32_t only = 0) {
  if (ph.nnodes == 0) return false;
  // What must be stored, and what that needs.
  uint32_t live = 0;
  for (int i = 0; i < ph.nnodes; ++i)
    if (!(ph.superseded >> i & 1) &&
        ((ph.materialise >> i & 1) ||
         ph.outputs[i].storage->handles.load(std::memory_order_relaxed) > 0))
      live |= 1u << i;
  if (only) live = only;
  if (!live) return false;
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
  PlanKey key;
  key.device = static_cast<uint8_t>(g.device.type) << 4 | static_cast<uint8_t>(g.device.index);
  key.nscalars = static_cast<uint8_t>(ph.nscalars);
  uint8_t input_at[kMaxInputs], node_at[kMaxNodes], stored[kMaxNodes];
  uint8_t(&used)[kMaxInputs] = ready.used;
  uint8_t output_dtypes[kMaxNodes];
  for (int j = 0; j < ph.ninputs; ++j) {
    if (!(inputs >> j & 1)) continue;
    input_at[j] = key.ninputs;
    used[key.ninputs] = static_cast<uint8_t>(j);
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
      output_dtypes[key.noutputs] = n.dtype;
      stored[key.noutputs] = static_cast<uint8_t>(i);
      n.store = static_cast<int8_t>(key.noutputs++);
    }
    node_at[i] = key.nnodes;
    key.nodes[key.nnodes++] = n;
  }
  StreamState* stream = g.stream(g.device);
  auto use_of = [&](int o) {
    const int i = stored[o];
    return MemoryUse{row_label(ph.nodes[i]), ph.outputs[i].dtype, &ph.shape};
  };
  if (ph.numel == 0) {
    for (int o = 0; o < key.noutputs; ++o)
      ensure_memory(*ph.outputs[stored[o]].storage, stream, use_of(o));
    return false;
  }
  ready.plan = &find_plan(g, key, output_dtypes);
  ready.ninputs = key.ninputs;
  ready.noutputs = key.noutputs;
  for (int j = 0; j < key.ninputs; ++j) {
    Place& p = ph.inputs[used[j]];
    ensure_memory(*p.storage, stream, {"pointwise group", p.dtype, &ph.shape});
    ready.in[j] = {p.address(), p.strides.data(), p.contiguous};
  }
  uint32_t donated = 0;
  for (int o = 0; o < key.noutputs; ++o) {
    Place& p = ph.outputs[stored[o]];
    if (!only && !p.storage->data && p.contiguous && p.offset == 0 &&
        donate(p, ph, used, key.ninputs, donated, stream, use_of(o))) {
    } else {
      ensure_memory(*p.storage, stream, use_of(o));
    }
    ready.out[o] = {p.address(), p.strides.data(), p.contiguous};
  }
  ready.launch = {ph.shape.size(), ph.shape.data(), ph.numel, ready.in, ready.out, ph.scalars};
  long_work(ph.numel * key.nnodes);
  return true;
}

void launch_phase(Group& g, const ReadyPhase& ready) {
  const pf_backend* b = backend_of(g.device);
  bump(counters().programs);
  pf_status status = b->program_launch(g.device.index, handle_of(g.stream(g.device)),
                                       ready.plan->kernel, &ready.launch);
  if (status != PF_OK) raise_status(b, status, "pointwise group");
}

// Whether a kernel may run what follows it in the same launch: that reads its output once, as it
// lies there, and writes nothing that the kernel reads.
bool follows(const Group& g, const ReadyPhase& ready, Epilogue& epilogue) {
  const AnchorCall& a = g.anchor;
  const Phase& ph = g.phases[1];
  if (a.kernel->anchor != Anchor::Library || a.nouts != 1) return false;
  const Place& result = a.tensors[0];
  int from = -1;
  for (int j = 0; j < ready.ninputs; ++j) {
    const Place& p = ph.inputs[ready.used[j]];
    if (p.storage.get() != result.storage.get()) continue;
    if (from >= 0 || !p.contiguous || p.offset != result.offset || p.dtype != result.dtype)
      return false;
    from = j;
  }
  if (from < 0) return false;
  for (int i = 0; i < ph.nnodes; ++i)
    for (int k = 0; k < a.ntensors; ++k)
      if (ph.outputs[i].storage && ph.outputs[i].storage.get() == a.tensors[k].storage.get())
        return false;
  epilogue = {ready.plan->kernel, ready.launch, from,
              result.storage->handles.load(std::memory_order_relaxed) > 0};
  return true;
}

void run_anchor(Group& g) {
  AnchorCall& a = g.anchor;
  pf_tensor tensors[kMaxAnchorTensors];
  int64_t work = 0;
  StreamState* stream = g.stream(g.device);
  ReadyPhase after;
  if (const uint32_t early = g.phases[1].early) {
    if (prepare_phase(g, g.phases[1], after, early)) launch_phase(g, after);
    g.phases[1].superseded |= early;
  }
  for (int i = 0; i < a.ntensors; ++i) {
    pf_tensor& t = tensors[i];
    Place& p = a.tensors[i];
    if (!p.storage) {
      t = {};
      continue;
    }
    ensure_memory(*p.storage, stream, {a.options.op, p.dtype, &a.shapes[i]});
    t.data = p.address();
    t.dtype = static_cast<uint8_t>(p.dtype);
    t.ndim = a.shapes[i].size();
    int64_t n = 1;
    for (int d = 0; d < t.ndim; ++d) {
      t.shape[d] = a.shapes[i][d];
      t.strides[d] = p.strides[d];
      n *= t.shape[d];
    }
    work += n;
  }
  long_work(a.kernel->anchor == Anchor::Library ? work * 16 : work);
  // Before the kernel runs: it may take what follows with it.
  Epilogue epilogue;
  const bool more = prepare_phase(g, g.phases[1], after);
  const bool follow = more && follows(g, after, epilogue);
  const bool joined =
      run_kernel(*a.kernel, g.device, stream, {tensors, static_cast<size_t>(a.ntensors)},
                 {a.attrs, static_cast<size_t>(a.nattrs)}, a.options, follow ? &epilogue : nullptr);
  if (more && !joined) launch_phase(g, after);
}

// Calls fn(storage) for everything that the group was to write.
template <class F>
void each_written(Group& g, F&& fn) {
  for (Phase& ph : g.phases)
    for (int i = 0; i < ph.nnodes; ++i) fn(*ph.outputs[i].storage);
  if (g.has_anchor)
    for (int i = 0; i < g.anchor.nouts; ++i)
      if (g.anchor.tensors[i].storage) fn(*g.anchor.tensors[i].storage);
}

void clear(Group& g) {
  each_written(g, [&](Storage& s) {
    if (s.writer.load(std::memory_order_relaxed) == &g)
      s.writer.store(nullptr, std::memory_order_release);
  });
  auto unread = [&](Place& p) {
    Group* me = &g;  // unless another thread has just made it many_readers()
    if (p.storage && p.storage->reader.load(std::memory_order_relaxed) == me)
      p.storage->reader.compare_exchange_strong(me, nullptr, std::memory_order_acq_rel);
    p.storage.reset();
  };
  for (Phase& ph : g.phases) {
    for (int i = 0; i < ph.ninputs; ++i) unread(ph.inputs[i]);
    for (int i = 0; i < ph.nnodes; ++i) ph.outputs[i].storage.reset();
    ph.nnodes = ph.ninputs = ph.nscalars = 0;
    ph.consumed = ph.materialise = ph.superseded = ph.early = 0;
  }
  if (g.has_anchor)
    for (int i = 0; i < g.anchor.ntensors; ++i) unread(g.anchor.tensors[i]);
  g.has_anchor = false;
  g.output_bytes = g.input_bytes = 0;
}

}  // namespace

void run_group(Group& g, Flush why) noexcept {
  bump(counters().flushes[static_cast<int>(why)]);
  if (!g.empty()) bump(counters().groups);
  if (tracing() && !g.empty()) [[unlikely]]
    trace_group(g, why);
  try {
    ReadyPhase ready;
    if (prepare_phase(g, g.phases[0], ready)) launch_phase(g, ready);
    if (g.has_anchor) run_anchor(g);
  } catch (...) {
    g.error = std::current_exception();
    discard(g);
  }
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

// ---- counters ----------------------------------------------------------------------------------

const char* flush_name(Flush f) {
  static constexpr const char* kNames[] = {
      "cannot_join",   "caps",         "alias_hazard", "dropped_root", "held_memory",
      "data",          "item",         "print",        "synchronize",  "explicit",
      "device_switch", "other_thread", "foreign",      "general",      "eager",
      "memory_stats",  "thread_exit",  "budget",       "event",        "stream_switch"};
  static_assert(std::size(kNames) == static_cast<size_t>(Flush::kCount));
  return kNames[static_cast<int>(f)];
}

std::vector<std::pair<std::string, int64_t>> stats() {
  Counters& c = counters();
  std::vector<std::pair<std::string, int64_t>> r;
  int64_t total = 0;
  for (int i = 0; i < static_cast<int>(Flush::kCount); ++i) {
    r.emplace_back(std::string("flush.") + flush_name(static_cast<Flush>(i)), c.flushes[i].load());
    total += c.flushes[i].load();
  }
  r.emplace_back("flushes", total);
  r.emplace_back("nodes", c.nodes.load());
  r.emplace_back("groups", c.groups.load());
  r.emplace_back("programs", c.programs.load());
  r.emplace_back("kernels", c.kernels.load());
  r.emplace_back("epilogues", c.epilogues.load());
  r.emplace_back("merged", c.merged.load());
  r.emplace_back("plans", c.plans.load());
  r.emplace_back("plan_hits", c.plan_hits.load());
  r.emplace_back("donated", c.donated.load());
  r.emplace_back("copies_to_host", c.copies_to_host.load());
  r.emplace_back("copies_from_host", c.copies_from_host.load());
  r.emplace_back("moved", c.moved.load());
  r.emplace_back("moved_bytes", c.moved_bytes.load());
  r.emplace_back("slow", c.slow.load());
  return r;
}

void reset_stats() {
  Counters& c = counters();
  for (auto& f : c.flushes) f.store(0);
  for (auto* a : {&c.nodes, &c.groups, &c.programs, &c.kernels, &c.epilogues, &c.merged, &c.plans,
                  &c.plan_hits, &c.donated, &c.copies_to_host, &c.copies_from_host, &c.moved,
                  &c.moved_bytes, &c.slow})
    a->store(0);
}

}  // namespace pyflame::engine
