// The plug-in's pf_backend: every entry turns failures into a status and a text.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <vector>

#include "gpu/around.h"
#include "gpu/builder.h"
#include "gpu/graph.h"
#include "gpu/graph_recorder.h"
#include "gpu/host.h"
#include "gpu/queue.h"

namespace pyflame::gpu {

// ---- what the core gives -----------------------------------------------------------------------

namespace {
const pf_host* g_host = nullptr;

struct Scratch {
  void* data;
  void* block;
};
thread_local std::vector<Scratch> t_scratch;
}  // namespace

void set_host(const pf_host* h) {
  g_host = h;
}
const pf_host* host() {
  return g_host;
}

void* scratch(pf_device device, pf_stream stream, size_t bytes) {
  Scratch s{};
  pf_status status =
      g_host->allocate(g_host, device, stream, std::max<size_t>(bytes, 1), &s.data, &s.block);
  if (status != PF_OK)
    throw Failure(status, "no device memory for " + std::to_string(bytes) + " bytes of workspace");
  t_scratch.push_back(s);
  return s.data;
}

ScratchScope::ScratchScope() : outer_(t_scratch.size()) {}
ScratchScope::~ScratchScope() {
  while (t_scratch.size() > outer_) {
    g_host->release(g_host, t_scratch.back().block);
    t_scratch.pop_back();
  }
}

backend::Faults& faults() {
  static backend::Faults f;
  return f;
}

namespace {

// Why the runtime may see no GPU.
std::string who_hides_gpus() {
  std::string set;
  for (const char* name :
       {PF_RT("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
        PF_RT("ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"), PF_RT("CUDA_VISIBLE_DEVICES", "")})
    if (const char* value = *name ? std::getenv(name) : nullptr)
      set += std::string(set.empty() ? "" : " and ") + name + "='" + value + "'";
  if (!set.empty()) return set + " may hide what there is: unset it";
  return PF_RT(
      "see that the driver is loaded (/dev/kfd is there) and that you are in the groups render "
      "and video",
      "see whether nvidia-smi lists one");
}

// ---- devices -----------------------------------------------------------------------------------

pf_status attach(const pf_host* h) {
  return guarded([&] {
    set_host(h);
    Builder::stop_in_time();
    const int n = Device::count();
    if (n == 0)
      throw Failure(PF_UNSUPPORTED,
                    runtime().library + " was opened, but it sees no GPU; " + who_hides_gpus());
    std::string reasons;
    for (int i = 0; i < n; ++i) {
      std::string why = Device::unusable(Device::describe(i));
      if (why.empty()) return;
      reasons += (i ? "; " : "") + why;
    }
    throw Failure(PF_UNSUPPORTED, reasons);
  });
}

int32_t device_count() {
  int32_t n = 0;
  guarded([&] { n = Device::count(); });
  return n;
}

pf_status device_info(pf_device device, char* text, size_t capacity) {
  return guarded([&] {
    const Traits t = Device::describe(device);
    const std::string why = Device::unusable(t);
    int driver = 0;
    runtime().DriverGetVersion(&driver);
    std::string compiler = "none: ";
    try {
      compiler = rtc().library + " " + rtc().version;
    } catch (const Failure& f) {
      compiler += f.what();
    }
    std::snprintf(text, capacity,
                  "name=%s\narchitecture=%s\ntarget=%s\ntotal_memory=%zu\ncompute_units=%d\n"
                  "warp_size=%d\nmax_threads_per_block=%d\nshared_memory_per_block=%zu\n"
                  "runtime=%s\nruntime_version=%d\ncompiler=%s\nusable=%s\nbackend=%s\n",
                  t.name.c_str(), t.architecture.c_str(), t.target.c_str(), t.total_memory,
                  t.compute_units, t.warp, t.max_block, t.max_shared, runtime().library.c_str(),
                  driver, compiler.c_str(), why.empty() ? "yes" : why.c_str(), kVendorName);
  });
}

pf_status memory_info(pf_device device, pf_memory_info* info) {
  return guarded([&] {
    Device::get(device).activate();
    check(runtime().MemGetInfo(&info->free_bytes, &info->total_bytes),
          PF_RT("hipMemGetInfo", "cuMemGetInfo"));
  });
}

// ---- memory ------------------------------------------------------------------------------------

pf_status allocate(pf_device device, size_t bytes, void** out) {
  if (pf_status s = faults().check(backend::Faults::kAllocate)) return s;
  return guarded([&] {
    Device::get(device).activate();
    check(runtime().Malloc(out, bytes), PF_RT("hipMalloc", "cuMemAlloc"));
  });
}

void release(pf_device device, void* p, size_t) {
  guarded([&] {
    if (!Device::existing(device)) return;
    Device& d = Device::get(device);
    d.activate();
    // Nothing that was launched may still use it.
    d.drain();
    check(runtime().Free(p), PF_RT("hipFree", "cuMemFree"));
  });
}

pf_status copy_to_host(pf_device device, pf_stream stream, void* to, const void* from,
                       size_t bytes) {
  if (pf_status s = faults().check(backend::Faults::kCopy)) return s;
  return guarded([&] {
    Device& d = Device::get(device);
    Stream& s = d.stream(stream);
    s.queue.drain();
    d.staging.to_host(s, to, from, bytes);
  });
}

pf_status copy_from_host(pf_device device, pf_stream stream, void* to, const void* from,
                         size_t bytes) {
  if (pf_status s = faults().check(backend::Faults::kCopy)) return s;
  return guarded(
      [&] { Device::get(device).stream(stream).queue.copy_from_host("copy", to, from, bytes); });
}

pf_status copy_async(pf_device device, pf_stream stream, void* to, const void* from, size_t bytes,
                     pf_copy kind) {
  if (pf_status s = faults().check(backend::Faults::kCopy)) return s;
  return guarded([&] {
    Device& d = Device::get(device);
    if (!bytes) return;
    Stream& on = d.stream(stream);
    on.queue.in_order("copy", [&d, s = on.handle, to, from, bytes, kind] {
      const Runtime& r = runtime();
      d.activate();
      if (kind == PF_COPY_FROM_HOST)
        check(r.MemcpyHtoDAsync(to, from, bytes, s),
              PF_RT("hipMemcpyHtoDAsync", "cuMemcpyHtoDAsync"));
      else if (kind == PF_COPY_TO_HOST)
        check(r.MemcpyDtoHAsync(to, from, bytes, s),
              PF_RT("hipMemcpyDtoHAsync", "cuMemcpyDtoHAsync"));
      else
        check(r.MemcpyDtoDAsync(to, from, bytes, s),
              PF_RT("hipMemcpyDtoDAsync", "cuMemcpyDtoDAsync"));
    });
  });
}

// `after` waits for what `before` has been given so far.
void order(Stream& before, Stream& after) {
  std::shared_ptr<Mark> mark;
  before.queue.record(mark);
  after.queue.wait(mark);
}

pf_status copy_peer(pf_device to_device, pf_stream to_stream, void* to, pf_device from_device,
                    pf_stream from_stream, const void* from, size_t bytes) {
  if (pf_status s = faults().check(backend::Faults::kCopy)) return s;
  return guarded([&] {
    if (!bytes) return;
    Device &d = Device::get(to_device), &source = Device::get(from_device);
    d.enable_peer(source);
    source.enable_peer(d);
    Stream &receiver = d.stream(to_stream), &sender = source.stream(from_stream);
    order(sender, receiver);
    receiver.queue.in_order("copy", [&d, &source, s = receiver.handle, to, from, bytes] {
      d.activate();
      check(runtime().copy_peer(to, d.index, d.context(), from, source.index, source.context(),
                                bytes, s),
            PF_RT("hipMemcpyPeerAsync", "cuMemcpyPeerAsync"));
    });
    order(receiver, sender);  // its memory is not used again before it was read
  });
}

pf_status fill(pf_device device, pf_stream stream, void* p, int32_t byte, size_t bytes) {
  return guarded([&] {
    if (!bytes) return;
    Device& d = Device::get(device);
    Stream& on = d.stream(stream);
    on.queue.in_order("fill", [&d, s = on.handle, p, byte, bytes] {
      d.activate();
      check(runtime().MemsetD8Async(p, static_cast<unsigned char>(byte), bytes, s),
            PF_RT("hipMemsetD8Async", "cuMemsetD8Async"));
    });
  });
}

pf_status pinned_allocate(pf_device device, size_t bytes, void** out) {
  return guarded([&] {
    Device::get(device).activate();
    check(runtime().HostMalloc(out, bytes, kHostPortableMapped),
          PF_RT("hipHostMalloc", "cuMemHostAlloc"));
  });
}
void pinned_release(pf_device device, void* p) {
  guarded([&] {
    Device::get(device).activate();
    check(runtime().HostFree(p), PF_RT("hipHostFree", "cuMemFreeHost"));
  });
}
pf_status pinned_register(pf_device device, void* p, size_t bytes) {
  return guarded([&] {
    Device::get(device).activate();
    check(runtime().HostRegister(p, bytes, kHostPortableMapped),
          PF_RT("hipHostRegister", "cuMemHostRegister"));
  });
}
pf_status pinned_unregister(pf_device device, void* p) {
  return guarded([&] {
    Device::get(device).activate();
    check(runtime().HostUnregister(p), PF_RT("hipHostUnregister", "cuMemHostUnregister"));
  });
}

// ---- streams and events ------------------------------------------------------------------------

pf_status synchronize(pf_device device, pf_stream stream, pf_index_error* error) {
  return guarded([&] {
    if (error) *error = {};
    if (!Device::existing(device)) return;  // never used: nothing to wait for
    Stream& s = Device::get(device).stream(stream);
    if (error)
      s.queue.drain();
    else
      s.queue.finish();
    s.synchronize(error);
  });
}

pf_status stream_create(pf_device device, int32_t priority, pf_stream* out) {
  return guarded([&] {
    Device& d = Device::get(device);
    d.activate();
    *out = d.add_stream(priority);
  });
}
void stream_destroy(pf_device device, pf_stream stream) {
  guarded([&] {
    Device& d = Device::get(device);
    auto* s = static_cast<Stream*>(stream);
    s->queue.finish();
    d.remove_stream(s);
  });
}
// Asked about a stream, a device begins with all that it kept back.
pf_status stream_query(pf_device device, pf_stream stream, int32_t* done) {
  return guarded([&] {
    Device& d = Device::get(device);
    *done = 0;
    Stream& s = d.stream(stream);
    if (Queue::any()) d.advance();
    if (!s.queue.empty()) return;
    d.activate();
    int e = runtime().StreamQuery(s.handle);
    *done = e == kSuccess;
    if (e != kErrorNotReady) check(e, PF_RT("hipStreamQuery", "cuStreamQuery"));
  });
}

// What it was recorded as last.
struct Event {
  const unsigned flags;
  std::mutex mutex;
  std::shared_ptr<Mark> mark;
  std::shared_ptr<Mark> last() {
    std::lock_guard lock(mutex);
    return mark;
  }
};
Event& event_of(pf_event e) {
  return *static_cast<Event*>(e);
}

pf_status make_event(pf_device device, unsigned flags, pf_event* out) {
  return guarded([&] {
    Device::get(device);
    *out = new Event{flags, {}, {}};
  });
}
pf_status event_create(pf_device d, pf_event* out) {
  return make_event(d, kEventDisableTiming, out);
}
pf_status event_create_timed(pf_device d, pf_event* out) {
  return make_event(d, 0, out);
}
pf_status event_record(pf_device device, pf_event event, pf_stream stream) {
  return guarded([&] {
    Device& d = Device::get(device);
    Event& e = event_of(event);
    std::lock_guard lock(e.mutex);
    d.stream(stream).queue.record(e.mark, e.flags);
  });
}
pf_status event_wait(pf_device device, pf_stream stream, pf_event event) {
  return guarded([&] {
    Device& d = Device::get(device);
    if (const auto mark = event_of(event).last()) d.stream(stream).queue.wait(mark);
  });
}
pf_status event_query(pf_device device, pf_event event, int32_t* done) {
  return guarded([&] {
    Device& d = Device::get(device);
    const auto mark = event_of(event).last();
    *done = !mark;
    if (!mark || !mark->advance()) return;
    d.activate();
    int e = runtime().EventQuery(mark->event);
    *done = e == kSuccess;
    if (e != kErrorNotReady) check(e, PF_RT("hipEventQuery", "cuEventQuery"));
  });
}
pf_status event_synchronize(pf_device device, pf_event event) {
  return guarded([&] {
    Device& d = Device::get(device);
    const auto mark = event_of(event).last();
    if (!mark) return;
    mark->reach();
    d.activate();
    check(runtime().EventSynchronize(mark->event),
          PF_RT("hipEventSynchronize", "cuEventSynchronize"));
    if (mark->failure)
      throw static_cast<const Failure&>(*mark->failure);  // the stream will say it, too
  });
}
pf_status event_elapsed(pf_device device, pf_event from, pf_event to, float* ms) {
  return guarded([&] {
    Device& d = Device::get(device);
    const auto first = event_of(from).last(), second = event_of(to).last();
    if (!first || !second) throw Failure(PF_INVALID, "an event was never recorded");
    first->reach();
    second->reach();
    d.activate();
    check(runtime().EventElapsedTime(ms, first->event, second->event),
          PF_RT("hipEventElapsedTime", "cuEventElapsedTime"));
  });
}
void event_destroy(pf_device device, pf_event event) {
  guarded([&] {
    Device::get(device);  // in a forked child there is nothing to be destroyed
    delete &event_of(event);
  });
}

// ---- kernels -----------------------------------------------------------------------------------

void* kernel_find(const char* name) {
  return const_cast<KernelEntry*>(find_kernel(name));
}

pf_status launch_kernel(pf_device device, pf_stream stream, void* kernel, const pf_tensor* tensors,
                        int32_t ntensors, const pf_scalar* attrs, int32_t nattrs,
                        const pf_index_error* error, Around* around) {
  if (pf_status s = faults().check(backend::Faults::kKernelLaunch)) return s;
  return guarded([&] {
    Device& d = Device::get(device);
    ScratchScope scope;
    KernelArgs args{d,
                    stream,
                    tensors,
                    ntensors,
                    attrs,
                    nattrs,
                    error ? error->op : nullptr,
                    around,
                    error ? error->kind : 0};
    int64_t work = 0;
    for (int32_t i = 0; i < ntensors; ++i)
      if (tensors[i].data) work += numel(tensors[i]);
    args.small = work <= kSmallWork;
    const auto* entry = static_cast<const KernelEntry*>(kernel);
    if (GraphRecorder* r = d.stream(stream).queue.recorder()) [[unlikely]] {
      for (int32_t i = 0; i < std::min(ntensors, entry->outputs); ++i)
        r->writes(reach_of(tensors[i]));
      if (around)
        for (const Around::Part* part : {&around->before, &around->after})
          if (part->program) program_writes(part->program, *part->launch, *r);
    }
    entry->launch(args);
    // What libraries launch, too: Device::launch_now has waited for ours.
    if (launch_blocking())
      check(runtime().StreamSynchronize(d.stream(stream).handle),
            PF_RT("waiting for the launch (hipStreamSynchronize)",
                  "waiting for the launch (cuStreamSynchronize)"));
  });
}

pf_status kernel_launch(pf_device device, pf_stream stream, void* kernel, const pf_tensor* tensors,
                        int32_t ntensors, const pf_scalar* attrs, int32_t nattrs,
                        pf_index_error* error) {
  return launch_kernel(device, stream, kernel, tensors, ntensors, attrs, nattrs, error, nullptr);
}

// What of a group a kernel may run in its own launch: the program before it that makes some of its
// tensors, the program after it that takes its first output alone.
FullAround around_of(const pf_group& g) {
  FullAround around;
  Around::Part& before = around.before;
  int feeds = 0, takes = 0;
  for (int32_t o = 0; g.before && o < g.nfeeds; ++o) {
    const int tensor = g.feeds[o], operand = o + program_inputs(g.before);
    if (tensor < 0) continue;
    const bool keep = !(g.without >> tensor & 1);
    if (feeds == 0)
      before.operand = operand, before.tensor = tensor, before.keep = keep;
    else if (feeds <= static_cast<int>(std::size(around.others)))
      around.others[around.more++] = {operand, tensor, keep};
    ++feeds;
  }
  if (feeds > 0 && feeds == 1 + around.more) {
    before.program = g.before;
    before.launch = g.before_launch;
  }
  for (int32_t j = 0; g.after && j < g.ntakes; ++j)
    if (g.takes[j] >= 0) around.after.operand = j, around.after.tensor = g.takes[j], ++takes;
  if (takes == 1) {
    around.after.program = g.after;
    around.after.launch = g.after_launch;
    around.after.keep = !(g.unread & 1);
  }
  return around;
}

// Bits of pf_group::joins.
constexpr uint32_t kBefore = 1, kAfter = 2;

int32_t group_takes(pf_device device, pf_group* g) {
  uint32_t without = 0;
  g->joins = kAfter;  // products find out when they run
  if (const auto* entry = static_cast<const KernelEntry*>(g->kernel); entry->over_rows) {
    FullAround around = around_of(*g);
    around.asked = true;
    const pf_status s = guarded([&] {
      entry->launch({Device::get(device), nullptr, g->tensors, g->ntensors, g->attrs, g->nattrs,
                     nullptr, &around});
    });
    if (s != PF_OK) return 0;  // to be told by the launch
    g->joins = (around.before.joined ? kBefore : 0) | (around.after.joined ? kAfter : 0);
    if (around.before.joined) without |= around.tensors();
    if (around.after.joined) without |= 1u << around.after.tensor;
  }
  g->without &= without;
  return 1;
}

pf_status group_launch(pf_device device, pf_stream stream, const pf_group* g) {
  FullAround around = around_of(*g);
  if (!(g->joins & kBefore)) {
    around.before = {};
    around.more = 0;
    if (g->before)
      if (pf_status s = program_launch(device, stream, g->before, g->before_launch)) return s;
  }
  around.before.must = around.before.program != nullptr;
  if (!(g->joins & kAfter)) around.after = {};
  around.after.must = around.after.program && g->without >> around.after.tensor & 1;
  pf_status s = launch_kernel(device, stream, g->kernel, g->tensors, g->ntensors, g->attrs,
                              g->nattrs, g->error, &around);
  if (s == PF_OK && around.before.program && !around.before.joined) s = PF_INVALID;
  *g->joined = s == PF_OK ? around.before.joined + around.after.joined : 0;
  if (s == PF_OK && g->after && !around.after.joined)
    s = program_launch(device, stream, g->after, g->after_launch);
  return s;
}

// Failures are for the next wait to tell.
pf_status submit(pf_device device) {
  return guarded([&] {
    if (!Queue::any() || !Device::existing(device)) return;
    for (Stream* s : Device::get(device).streams()) s->queue.finish();
  });
}

pf_status statistics(pf_device, char* text, size_t capacity) {
  std::snprintf(text, capacity,
                "kernels_compiled=%lld\nkernels_from_disk=%lld\nkernels_from_pack=%lld\n"
                "graphs=%lld\nkernels_in_graphs=%lld\n",
                static_cast<long long>(compile_stats().compiled.load()),
                static_cast<long long>(compile_stats().from_disk.load()),
                static_cast<long long>(compile_stats().from_pack.load()),
                static_cast<long long>(graph_stats().graphs.load()),
                static_cast<long long>(graph_stats().kernels.load()));
  return PF_OK;
}

}  // namespace
}  // namespace pyflame::gpu

extern "C" __attribute__((visibility("default"))) const pf_backend* pyflame_plugin(void) {
  namespace gpu = pyflame::gpu;
  static const pf_backend backend = [] {
    pf_backend b{};
    b.size = sizeof(pf_backend);
    b.version = PF_BACKEND_VERSION;
    b.name = gpu::kVendorName;
    b.device_count = gpu::device_count;
    b.device_info = gpu::device_info;
    b.memory_info = gpu::memory_info;
    b.allocate = gpu::allocate;
    b.release = gpu::release;
    b.copy_to_host = gpu::copy_to_host;
    b.copy_from_host = gpu::copy_from_host;
    b.synchronize = gpu::synchronize;
    b.event_create = gpu::event_create;
    b.event_record = gpu::event_record;
    b.event_wait = gpu::event_wait;
    b.event_query = gpu::event_query;
    b.event_destroy = gpu::event_destroy;
    b.program_create = gpu::program_create;
    b.program_destroy = gpu::program_destroy;
    b.program_launch = gpu::program_launch;
    b.kernel_find = gpu::kernel_find;
    b.kernel_launch = gpu::kernel_launch;
    b.last_error = pyflame::backend::last_error;
    b.inject_fault = [](const char* call, int64_t nth, pf_status s) {
      return gpu::faults().inject(call, nth, s);
    };
    b.attach = gpu::attach;
    b.fill = gpu::fill;
    b.pinned_allocate = gpu::pinned_allocate;
    b.pinned_release = gpu::pinned_release;
    b.pinned_register = gpu::pinned_register;
    b.pinned_unregister = gpu::pinned_unregister;
    b.copy_async = gpu::copy_async;
    b.copy_peer = gpu::copy_peer;
    b.stream_create = gpu::stream_create;
    b.stream_destroy = gpu::stream_destroy;
    b.stream_query = gpu::stream_query;
    b.event_create_timed = gpu::event_create_timed;
    b.event_synchronize = gpu::event_synchronize;
    b.event_elapsed = gpu::event_elapsed;
    b.function_create = gpu::function_create;
    b.function_launch = gpu::function_launch;
    b.statistics = gpu::statistics;
    b.group_launch = gpu::group_launch;
    b.group_takes = gpu::group_takes;
    b.submit = gpu::submit;
    b.graph_begin = gpu::graph_begin;
    b.graph_item = gpu::graph_item;
    b.graph_end = gpu::graph_end;
    b.graph_update = gpu::graph_update;
    b.graph_launch = gpu::graph_launch;
    b.graph_drop = gpu::graph_drop;
    return b;
  }();
  return &backend;
}
