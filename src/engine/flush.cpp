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

void run_kernel(const Kernel& k, Device device, StreamState* stream,
                std::span<const pf_tensor> tensors, std::span<const pf_scalar> attrs,
                const CallOptions& options) {
  if (options.run) {
    bump(counters().kernels);
    (*options.run)(device, tensors);
    return;
  }
  const pf_backend* b = backend_of(device);
  void* kernel = find_kernel(k, device);
  PF_CHECK(kernel, NotSupportedError, options.op, "the ", b->name, " backend has no kernel '",
           k.name, "'; run this operation on another device");
  bump(counters().kernels);
  pf_index_error error{0, 0, 0, options.op};
  const pf_status status = b->kernel_launch(device.index, handle_of(stream), kernel, tensors.data(),
                                            static_cast<int32_t>(tensors.size()), attrs.data(),
                                            static_cast<int32_t>(attrs.size()), &error);
  if (status != PF_OK) raise_status(b, status, options.op);
  raise_index_error(error);
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

const std::shared_ptr<const Plan>& find_plan(Group& g, const PlanKey& key,
                                             const uint8_t* output_dtypes) {
  uint64_t h = key.hash();
  std::shared_ptr<const Plan>& recent = g.recent[h & 63];
  if (recent && recent->hash == h && same_key(recent->key, key)) {
    recent->touch();
    bump(counters().plan_hits);
    return recent;
  }
  PlanCache& cache = plan_cache();
  std::lock_guard lock(cache.mutex);
  auto [first, last] = cache.plans.equal_range(h);
  for (auto it = first; it != last; ++it)
    if (same_key(it->second->key, key)) {
      it->second->touch();
      bump(counters().plan_hits);
      return recent = it->second;
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
  return recent;
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
        from.block->stream != stream || !from.block->users.empty() ||
        !(in.contiguous ? out.contiguous : in.strides == out.strides) || in.offset != 0 ||
        from.nbytes != to.nbytes || itemsize(in.dtype) != itemsize(out.dtype))
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

// What of a phase is run: a plan, and which inputs and nodes are its inputs and outputs.
struct ReadyPhase {
  std::shared_ptr<const Plan> plan;
  int ninputs, noutputs;
  uint8_t used[kMaxInputs], stored[kMaxNodes];
  pf_operand in[kMaxInputs], out[kMaxNodes];
  pf_launch launch;
  // Of a launch whose dimensions are not in the phase's order.
  int64_t shape[kMaxDims], strides[kMaxInputs + kMaxNodes][kMaxDims];
};

// Puts the dimensions of a launch in the order in which the first result has them in memory: what
// is permuted alike is dense for the backend.
void put_in_order(ReadyPhase& ready, const Phase& ph) {
  Dims dense;
  const int n = ph.shape.size();
  if (ready.out[0].contiguous || n < 2 ||
      !dense_strides_like(ph.shape, ph.outputs[ready.stored[0]].strides, &dense))
    return;
  int order[kMaxDims];
  for (int d = 0; d < n; ++d) order[d] = d;
  std::stable_sort(order, order + n, [&](int a, int b) { return dense[a] > dense[b]; });
  for (int d = 0; d < n; ++d) ready.shape[d] = ph.shape[order[d]];
  int64_t(*strides)[kMaxDims] = ready.strides;
  const auto apply = [&](pf_operand& o) {
    int64_t step = 1;
    o.contiguous = 1;
    for (int d = n - 1; d >= 0; --d) {
      (*strides)[d] = o.strides[order[d]];
      if (ready.shape[d] != 1 && (*strides)[d] != step) o.contiguous = 0;
      step *= ready.shape[d];
    }
    o.strides = *strides++;
  };
  for (int j = 0; j < ready.ninputs; ++j) apply(ready.in[j]);
  for (int o = 0; o < ready.noutputs; ++o) apply(ready.out[o]);
  ready.launch.shape = ready.shape;
}

MemoryUse use_of(const Phase& ph, const ReadyPhase& ready, int output) {
  const int i = ready.stored[output];
  return {row_label(ph.nodes[i]), ph.outputs[i].dtype, &ph.shape};
}
void* address_yet(const Place& p) {
  return p.storage->data ? p.address() : PF_NO_MEMORY;
}
pf_operand operand_of(const Place& p) {
  return {address_yet(p), p.strides.data(), p.contiguous};
}

// False where nothing has to run. With `only`, nothing but these nodes is stored. No memory is
// touched, but for results without elements.
bool plan_phase(Group& g, Phase& ph, ReadyPhase& ready, uint32_t only = 0) {
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
  uint8_t input_at[kMaxInputs], node_at[kMaxNodes];
  uint8_t output_dtypes[kMaxNodes];
  for (int j = 0; j < ph.ninputs; ++j) {
    if (!(inputs >> j & 1)) continue;
    input_at[j] = key.ninputs;
    ready.used[key.ninputs] = static_cast<uint8_t>(j);
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
      ready.stored[key.noutputs] = static_cast<uint8_t>(i);
      n.store = static_cast<int8_t>(key.noutputs++);
    }
    node_at[i] = key.nnodes;
    key.nodes[key.nnodes++] = n;
  }
  ready.ninputs = key.ninputs;
  ready.noutputs = key.noutputs;
  if (ph.numel == 0) {
    for (int o = 0; o < key.noutputs; ++o)
      ensure_memory(*ph.outputs[ready.stored[o]].storage, g.stream(g.device), use_of(ph, ready, o));
    return false;
  }
  ready.plan = find_plan(g, key, output_dtypes);
  for (int j = 0; j < key.ninputs; ++j) ready.in[j] = operand_of(ph.inputs[ready.used[j]]);
  for (int o = 0; o < key.noutputs; ++o) ready.out[o] = operand_of(ph.outputs[ready.stored[o]]);
  ready.launch = {ph.shape.size(), ph.shape.data(), ph.numel, ready.in, ready.out, ph.scalars};
  put_in_order(ready, ph);
  return true;
}

// Gives its inputs and outputs memory, but for those where bits say so. Outputs of which `only`
// some are stored take no other's.
void supply_phase(Group& g, Phase& ph, ReadyPhase& ready, uint32_t inputs_without = 0,
                  uint32_t outputs_without = 0, bool only = false) {
  StreamState* stream = g.stream(g.device);
  for (int j = 0; j < ready.ninputs; ++j) {
    if (inputs_without >> j & 1) continue;
    Place& p = ph.inputs[ready.used[j]];
    ensure_memory(*p.storage, stream, {"pointwise group", p.dtype, &ph.shape});
    ready.in[j].data = p.address();
  }
  uint32_t donated = inputs_without;
  for (int o = 0; o < ready.noutputs; ++o) {
    if (outputs_without >> o & 1) continue;
    Place& p = ph.outputs[ready.stored[o]];
    if (only || p.storage->data || p.offset != 0 ||
        !donate(p, ph, ready.used, ready.ninputs, donated, stream, use_of(ph, ready, o)))
      ensure_memory(*p.storage, stream, use_of(ph, ready, o));
    ready.out[o].data = p.address();
  }
  long_work(ph.numel * ready.plan->key.nnodes);
}

void launch_phase(Group& g, const ReadyPhase& ready) {
  const pf_backend* b = backend_of(g.device);
  bump(counters().programs);
  pf_status status = b->program_launch(g.device.index, handle_of(g.stream(g.device)),
                                       ready.plan->kernel, &ready.launch);
  if (status != PF_OK) raise_status(b, status, "pointwise group");
}

// How the parts of a group hang together; see pf_group.
struct Links {
  int8_t feeds[kMaxNodes], takes[kMaxInputs];
  uint32_t unread = 0;
  // Which may be without memory: outputs of the first phase, inputs of the second, the kernel's.
  uint32_t before_without = 0, after_without = 0, kernel_without = 0;
};

// All of what `whole` is, in the same order.
bool is_whole(const Place& p, const Dims& shape, const Place& whole, int64_t count) {
  return p.contiguous && whole.contiguous && p.offset == whole.offset && p.dtype == whole.dtype &&
         numel(shape) == count;
}

bool has_handles(const Storage& s) {
  return s.handles.load(std::memory_order_relaxed) > 0;
}

// False where its parts must be seen to run one after the other: one reads what another writes in
// some other way than element by element.
// `kept`: the last phase, where it runs later.
bool link(const Group& g, const ReadyPhase* before, const ReadyPhase* after,
          const PhaseCounts* kept, Links& links) {
  const AnchorCall& a = g.anchor;
  const Phase &first = g.phases[0], &last = g.phases[1];
  // Where a part of fresh memory will lie is not known: backends look at addresses.
  const auto unknown = [](const Place& p) {
    return p.storage && !p.storage->data && p.offset != 0;
  };
  if (std::any_of(a.tensors, a.tensors + a.ntensors, unknown)) return false;
  for (int k = 0; k < 2; ++k) {
    const ReadyPhase* ready = k ? after : before;
    for (int j = 0; ready && j < ready->ninputs; ++j)
      if (unknown(g.phases[k].inputs[ready->used[j]])) return false;
    for (int o = 0; ready && o < ready->noutputs; ++o)
      if (unknown(g.phases[k].outputs[ready->stored[o]])) return false;
  }
  // The kernel's rows are in the order of its dimensions.
  for (const ReadyPhase* ready : {before, after})
    if (ready && ready->launch.shape == ready->shape) return false;
  const auto input_of = [](const Phase& ph, const ReadyPhase* ready, const Storage* s) {
    for (int j = 0; ready && j < ready->ninputs; ++j)
      if (ph.inputs[ready->used[j]].storage.get() == s) return j;
    return -1;
  };
  for (int o = 0; before && o < before->noutputs; ++o) {
    const Place& p = first.outputs[before->stored[o]];
    links.feeds[o] = -1;
    int readers = 0;
    for (int i = 0; i < a.ntensors; ++i) {
      if (a.tensors[i].storage.get() != p.storage.get()) continue;
      if (i < a.nouts || !is_whole(a.tensors[i], a.shapes[i], p, first.numel)) return false;
      links.feeds[o] = static_cast<int8_t>(i);
      if (++readers > 1) return false;
    }
    if (after)
      for (int j = 0; j < after->ninputs; ++j) {
        const Place& in = last.inputs[after->used[j]];
        if (in.storage.get() == p.storage.get() && !is_whole(in, last.shape, p, first.numel))
          return false;
      }
    const bool later =
        kept && std::any_of(last.inputs, last.inputs + kept->ninputs,
                            [&](const Place& in) { return in.storage == p.storage; });
    if (readers == 1 && !p.storage->data && !has_handles(*p.storage) && !later &&
        input_of(last, after, p.storage.get()) < 0) {
      links.before_without |= 1u << o;
      links.kernel_without |= 1u << links.feeds[o];
    }
  }
  for (int i = 0; i < a.nouts; ++i) {
    const Place& p = a.tensors[i];
    if (!p.storage) continue;
    if (input_of(first, before, p.storage.get()) >= 0) return false;
    if (has_handles(*p.storage)) continue;
    links.unread |= 1u << i;
    if (!p.storage->data && a.kernel->anchor == Anchor::Rowwise &&
        input_of(last, after, p.storage.get()) >= 0)
      links.kernel_without |= 1u << i;
  }
  for (int j = 0; after && j < after->ninputs; ++j) {
    const Place& p = last.inputs[after->used[j]];
    links.takes[j] = -1;
    for (int i = 0; i < a.nouts; ++i) {
      if (a.tensors[i].storage.get() != p.storage.get()) continue;
      if (!is_whole(a.tensors[i], a.shapes[i], p, last.numel)) return false;
      links.takes[j] = static_cast<int8_t>(i);
      if (links.kernel_without >> i & 1) links.after_without |= 1u << j;
    }
  }
  for (int o = 0; after && o < after->noutputs; ++o) {
    const Storage* s = last.outputs[after->stored[o]].storage.get();
    if (input_of(first, before, s) >= 0) return false;
    for (int i = 0; i < a.ntensors; ++i)
      if (a.tensors[i].storage.get() == s) return false;
    for (int k = 0; before && k < before->noutputs; ++k)
      if (first.outputs[before->stored[k]].storage.get() == s) return false;
  }
  return true;
}

void run_anchor(Group& g, const PhaseCounts* kept = nullptr) {
  AnchorCall& a = g.anchor;
  const pf_backend* b = backend_of(g.device);
  StreamState* stream = g.stream(g.device);
  ReadyPhase before, after;
  bool first = plan_phase(g, g.phases[0], before);
  const auto run_first = [&] {
    supply_phase(g, g.phases[0], before);
    launch_phase(g, before);
    first = false;
  };
  if (const uint32_t early = g.phases[1].early) {
    if (first) run_first();
    if (plan_phase(g, g.phases[1], after, early)) {
      supply_phase(g, g.phases[1], after, 0, 0, true);
      launch_phase(g, after);
    }
    g.phases[1].superseded |= early;
  }
  const bool last = plan_phase(g, g.phases[1], after);

  pf_tensor tensors[kMaxAnchorTensors];
  int64_t work = 0;
  for (int i = 0; i < a.ntensors; ++i) {
    pf_tensor& t = tensors[i];
    const Place& p = a.tensors[i];
    t = {};
    if (!p.storage) continue;
    t.data = address_yet(p);
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
  Links links{};
  int32_t joined = 0;
  pf_index_error error{0, 0, 0, a.options.op};
  pf_group group{};
  bool together = (first || last) && !a.options.run && PF_HAS(b, group_launch) &&
                  link(g, first ? &before : nullptr, last ? &after : nullptr, kept, links);
  if (together) {
    group = {.kernel = find_kernel(*a.kernel, g.device),
             .tensors = tensors,
             .ntensors = a.ntensors,
             .attrs = a.attrs,
             .nattrs = a.nattrs,
             .error = &error,
             .before = first ? before.plan->kernel : nullptr,
             .before_launch = first ? &before.launch : nullptr,
             .after = last ? after.plan->kernel : nullptr,
             .after_launch = last ? &after.launch : nullptr,
             .feeds = links.feeds,
             .nfeeds = first ? before.noutputs : 0,
             .takes = links.takes,
             .ntakes = last ? after.ninputs : 0,
             .unread = links.unread,
             .without = links.kernel_without,
             .joins = 0,
             .joined = &joined};
    if (!group.kernel || !PF_HAS(b, group_takes))
      group.without = 0;  // all gets memory
    else if (!b->group_takes(g.device.index, &group))
      group.kernel = nullptr;
    together = group.kernel != nullptr;
  }
  links.kernel_without = together ? group.without : 0;
  for (int o = 0; first && o < before.noutputs; ++o)
    if (!(links.kernel_without >> std::max<int>(links.feeds[o], 0) & 1))
      links.before_without &= ~(1u << o);
  for (int j = 0; last && j < after.ninputs; ++j)
    if (!(links.kernel_without >> std::max<int>(links.takes[j], 0) & 1))
      links.after_without &= ~(1u << j);
  if (first) {
    if (together)
      supply_phase(g, g.phases[0], before, 0, links.before_without);
    else
      run_first();
  }
  for (int i = 0; i < a.ntensors; ++i) {
    Place& p = a.tensors[i];
    if (!p.storage || links.kernel_without >> i & 1) continue;
    ensure_memory(*p.storage, stream, {a.options.op, p.dtype, &a.shapes[i]});
    tensors[i].data = p.address();
  }
  long_work(a.kernel->anchor == Anchor::Library ? work * 16 : work);
  if (last) supply_phase(g, g.phases[1], after, links.after_without);
  if (!together) {
    run_kernel(*a.kernel, g.device, stream, {tensors, static_cast<size_t>(a.ntensors)},
               {a.attrs, static_cast<size_t>(a.nattrs)}, a.options);
    if (last) launch_phase(g, after);
    return;
  }
  const pf_status status = b->group_launch(g.device.index, handle_of(stream), &group);
  if (status != PF_OK) raise_status(b, status, a.options.op);
  raise_index_error(error);
  bump(counters().kernels);
  counters().programs.fetch_add(first + last, std::memory_order_relaxed);
  counters().joined.fetch_add(joined, std::memory_order_relaxed);
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

// `kept`: the last phase, which goes on reading what it reads, and writing what it writes.
void clear(Group& g, const PhaseCounts* kept = nullptr) {
  const auto among = [](const Place* first, int n, const Storage* s) {
    return std::any_of(first, first + n, [s](const Place& p) { return p.storage.get() == s; });
  };
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
    if (g.has_anchor) {
      run_anchor(g);
    } else if (ReadyPhase ready; plan_phase(g, g.phases[0], ready)) {
      supply_phase(g, g.phases[0], ready);
      launch_phase(g, ready);
    }
  } catch (...) {
    g.error = std::current_exception();
    discard(g);
  }
  clear(g);
}

bool run_all_but_last(Group& g, Flush why) noexcept {
  // Without counts there is nothing in it.
  PhaseCounts& last = g.phases[1];
  const PhaseCounts counts = std::exchange(last, {});
  bump(counters().flushes[static_cast<int>(why)]);
  bump(counters().groups);
  if (tracing()) [[unlikely]]
    trace_group(g, why);
  try {
    run_anchor(g, &counts);
  } catch (...) {
    g.error = std::current_exception();
    last = counts;
    discard(g);
    return false;
  }
  clear(g, &counts);
  last = counts;
  std::swap(g.phases[0], g.phases[1]);
  return true;
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
  r.emplace_back("joined", c.joined.load());
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
  for (auto* a :
       {&c.nodes, &c.groups, &c.programs, &c.kernels, &c.joined, &c.merged, &c.plans, &c.plan_hits,
        &c.donated, &c.copies_to_host, &c.copies_from_host, &c.moved, &c.moved_bytes, &c.slow})
    a->store(0);
}

}  // namespace pyflame::engine
