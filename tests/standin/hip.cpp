// A stand-in for AMD's HIP runtime, for tests on machines without an AMD GPU: the calls that the
// plug-in makes (under the names of NVIDIA's driver too, for the other plug-in), with memory behind
// guard pages, streams that run on threads of their own, and failures on request. It runs what the
// stand-in compiler (hiprtc.cpp) made.
//
//   PYFLAME_STANDIN_ARCH=gfx1100   the device's target id (default gfx942:sramecc+:xnack-)
//   PYFLAME_STANDIN_SM=80          the same under NVIDIA's names (default 90)
//   PYFLAME_STANDIN_DEVICES=2      how many there are (default 1)
//   PYFLAME_STANDIN_MEMORY=BYTES   of each (default 8 GiB)
//   PYFLAME_STANDIN_DELAY_US=50    longest random pause before a job (default 20)
//   HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES   as in the real one: which of them are seen
//
// standin_fault(call, nth, error) makes the nth next call of that name return an error.
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#define PF_GPU_CUDA 1
#include "gpu/runtime.h"
#include "machine.h"

namespace standin {

// A pack beside the plug-in has code for real GPUs.
[[maybe_unused]] const int no_pack = setenv("PYFLAME_KERNEL_PACK", "/none", 0);

std::string setting(const char* name, const char* otherwise) {
  const char* v = std::getenv(name);
  return v && *v ? v : otherwise;
}

namespace {

// ---- faults ------------------------------------------------------------------------------------

struct Fault {
  int64_t left = 0, times = 0;  // calls until the first failure, and failures
  int error = 0;
};
std::mutex fault_mutex;
std::map<std::string, Fault>& fault_table() {
  static auto* t = new std::map<std::string, Fault>;
  return *t;
}
std::atomic<bool> any_fault{false};

}  // namespace

int fault(const char* call) {
  if (!any_fault.load(std::memory_order_relaxed)) return kOk;
  std::lock_guard lock(fault_mutex);
  auto it = fault_table().find(call);
  if (it == fault_table().end() || it->second.times == 0) return kOk;
  Fault& f = it->second;
  if (f.left > 1) return --f.left, kOk;
  return --f.times, f.error;
}

// ---- devices and memory ------------------------------------------------------------------------

Machine& machine() {
  static auto* m = new Machine;
  return *m;
}

namespace {

constexpr size_t kPage = 4096, kAlign = 256;
constexpr unsigned char kPoison = 0xFF, kSlack = 0xA5;

thread_local int t_device = 0;
Gpu& gpu() {
  return *machine().gpus[static_cast<size_t>(t_device)];
}

// The block ends where its last page ends (to 256 bytes), behind which nothing is mapped.
int take(size_t bytes, int device, void** out) {
  if (!bytes) return *out = nullptr, kOk;
  Machine& m = machine();
  if (device >= 0) {
    Gpu& g = *m.gpus[static_cast<size_t>(device)];
    if (g.used.fetch_add(bytes) + bytes > g.total) {
      g.used -= bytes;
      return kOutOfMemory;
    }
  }
  const size_t body = (bytes + kAlign - 1) / kAlign * kAlign;
  const size_t pages = (body + kPage - 1) / kPage * kPage;
  char* map = static_cast<char*>(mmap(nullptr, pages + 2 * kPage, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (map == MAP_FAILED) return kOutOfMemory;
  mprotect(map, kPage, PROT_NONE);
  mprotect(map + kPage + pages, kPage, PROT_NONE);
  char* p = map + kPage + pages - body;
  std::memset(map + kPage, kSlack, pages - body);
  // Large blocks are poisoned at their ends only: the pages between cost memory.
  const size_t most = size_t{1} << 20;
  std::memset(p, kPoison, std::min(bytes, most));
  if (bytes > most)
    std::memset(p + bytes - std::min(bytes - most, most), kPoison, std::min(bytes - most, most));
  std::memset(p + bytes, kSlack, body - bytes);
  std::lock_guard lock(m.mutex);
  m.allocations[p] = {map, pages + 2 * kPage, bytes, device};
  *out = p;
  return kOk;
}

int give(void* p) {
  if (!p) return kOk;
  Machine& m = machine();
  Allocation a;
  {
    std::lock_guard lock(m.mutex);
    auto it = m.allocations.find(static_cast<char*>(p));
    if (it == m.allocations.end()) return kInvalidValue;
    a = it->second;
    m.allocations.erase(it);
  }
  const char* c = static_cast<char*>(p);
  bool whole = true;
  for (const char* q = a.map + kPage; q < c; ++q) whole &= static_cast<unsigned char>(*q) == kSlack;
  for (const char* q = c + a.bytes; q < a.map + a.map_bytes - kPage; ++q)
    whole &= static_cast<unsigned char>(*q) == kSlack;
  if (a.device >= 0) machine().gpus[static_cast<size_t>(a.device)]->used -= a.bytes;
  munmap(a.map, a.map_bytes);
  if (!whole) {
    std::fprintf(stderr, "stand-in: something wrote outside of a block of %zu bytes\n", a.bytes);
    std::abort();
  }
  return kOk;
}

size_t elf_bytes(const void* image) {
  auto* h = static_cast<const Elf64_Ehdr*>(image);
  if (std::memcmp(h->e_ident, ELFMAG, SELFMAG) != 0) return 0;
  return h->e_shoff + size_t{h->e_shentsize} * h->e_shnum;
}

}  // namespace

int current_device() {
  return t_device;
}

int check_launch(const Function& f, Extent grid, Extent block, unsigned shared) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z,
                 blocks = uint64_t{grid.x} * grid.y * grid.z;
  if (blocks == 0 || grid.y > 65535 || grid.z > 65535 || threads == 0 || threads > 1024 ||
      shared > kMostShared || blocks * threads > 0xFFFFFFFFu)
    return kInvalidValue;
  return threads > static_cast<unsigned>(f.entry->most_threads) ? kLaunchOutOfResources : kOk;
}
std::function<void()> job_of(int device, std::shared_ptr<Launch> launch, Extent grid, Extent block,
                             unsigned shared, bool early) {
  Gpu* g = machine().gpus[static_cast<size_t>(device)].get();
  return [=] {
    if (g->lost.load()) return;
    if (int e = fault("kernel")) {
      g->lost.store(e);
      return;
    }
    std::lock_guard lock(launch->f->module->running);
    std::string wrong = run_blocks(*launch->f->entry, launch->packed, grid, block, shared, early);
    if (wrong.empty()) return;
    std::fprintf(stderr, "stand-in: kernel %s: %s\n", launch->f->name.c_str(), wrong.c_str());
    g->lost.store(kLaunchFailure);
  };
}

}  // namespace standin

using namespace standin;

CALL hipInit(unsigned) {
  FAULT("hipInit");
  return machine().gpus.empty() ? kNoDevice : kOk;
}
CALL hipDriverGetVersion(int* v) {
  return *v = 60400000, kOk;
}
CALL hipGetDeviceCount(int* n) {
  FAULT("hipGetDeviceCount");
  *n = static_cast<int>(machine().gpus.size());
  return *n ? kOk : kNoDevice;
}
CALL hipSetDevice(int d) {
  if (d < 0 || d >= static_cast<int>(machine().gpus.size())) return kInvalidDevice;
  return t_device = d, kOk;
}
CALL hipDeviceGetName(char* name, int n, int) {
  std::snprintf(name, static_cast<size_t>(n), "Stand-in for an AMD GPU");
  return kOk;
}
CALL hipDeviceTotalMem(size_t* bytes, int d) {
  return *bytes = machine().gpus[static_cast<size_t>(d)]->total, kOk;
}
// hipDeviceProp_tR0600: 1472 bytes; only what the plug-in reads is filled in.
CALL hipGetDevicePropertiesR0600(void* out, int d) {
  FAULT("hipGetDeviceProperties");
  if (d < 0 || d >= static_cast<int>(machine().gpus.size())) return kInvalidDevice;
  const Gpu& g = *machine().gpus[static_cast<size_t>(d)];
  char* p = static_cast<char*>(out);
  std::memset(p, 0, 1472);
  auto put = [p](size_t at, auto v) { std::memcpy(p + at, &v, sizeof v); };
  std::strcpy(p, "Stand-in for an AMD GPU");
  put(288, g.total);
  put(296, size_t{64} << 10);
  put(308, static_cast<int>(g.warp));
  put(320, 1024);
  put(336, 2147483647);
  put(388, 4);
  std::strncpy(p + 1160, g.target.c_str(), 255);
  return kOk;
}
CALL hipDeviceCanAccessPeer(int* can, int, int) {
  return *can = 1, kOk;
}
CALL hipDeviceEnablePeerAccess(int, unsigned) {
  return kOk;
}
CALL hipMemGetInfo(size_t* free, size_t* total) {
  FAULT("hipMemGetInfo");
  Gpu& g = gpu();
  *total = g.total;
  *free = g.total - std::min(g.total, g.used.load());
  return g.lost.load();
}
CALL hipMalloc(void** out, size_t bytes) {
  FAULT("hipMalloc");
  if (int e = gpu().lost.load()) return e;
  return take(bytes, t_device, out);
}
CALL hipFree(void* p) {
  return give(p);
}
CALL hipHostMalloc(void** out, size_t bytes, unsigned) {
  FAULT("hipHostMalloc");
  int e = take(bytes, -1, out);
  return e;
}
CALL hipHostFree(void* p) {
  return give(p);
}
CALL hipHostRegister(void*, size_t, unsigned) {
  return kOk;
}
CALL hipHostUnregister(void*) {
  return kOk;
}
CALL hipHostGetDevicePointer(void** device, void* host, unsigned) {
  return *device = host, kOk;
}

namespace {
int copy_job(const char* call, void* to, const void* from, size_t bytes, void* stream) {
  FAULT(call);
  if (int e = lost_on(stream)) return e;
  of(stream)->push([=] { std::memcpy(to, from, bytes); });
  return kOk;
}
}  // namespace
CALL hipMemcpyHtoDAsync(void* to, const void* from, size_t n, void* s) {
  return copy_job("hipMemcpyHtoDAsync", to, from, n, s);
}
CALL hipMemcpyDtoHAsync(void* to, const void* from, size_t n, void* s) {
  return copy_job("hipMemcpyDtoHAsync", to, from, n, s);
}
CALL hipMemcpyDtoDAsync(void* to, const void* from, size_t n, void* s) {
  return copy_job("hipMemcpyDtoDAsync", to, from, n, s);
}
CALL hipMemcpyPeerAsync(void* to, int, const void* from, int, size_t n, void* s) {
  return copy_job("hipMemcpyPeerAsync", to, from, n, s);
}
CALL hipMemsetD8Async(void* p, unsigned char value, size_t n, void* s) {
  FAULT("hipMemsetD8Async");
  if (int e = lost_on(s)) return e;
  of(s)->push([=] { std::memset(p, value, n); });
  return kOk;
}

CALL hipStreamCreateWithPriority(void** out, unsigned, int) {
  FAULT("hipStreamCreateWithPriority");
  return *out = new Stream(t_device), kOk;
}
CALL hipStreamDestroy(void* s) {
  delete of(s);
  return kOk;
}
CALL hipStreamSynchronize(void* s) {
  FAULT("hipStreamSynchronize");
  if (of(s)->spoils_capture()) return kCaptureUnsupported;
  of(s)->drain();
  return lost_on(s);
}
CALL hipStreamQuery(void* s) {
  if (int e = lost_on(s)) return e;
  if (of(s)->spoils_capture()) return kCaptureUnsupported;
  return of(s)->idle() ? kOk : kNotReady;
}
CALL hipStreamWaitEvent(void* s, void* e, unsigned) {
  if (auto m = static_cast<Event*>(e)->get()) of(s)->push([m] { m->wait(); });
  return kOk;
}
CALL hipEventCreateWithFlags(void** out, unsigned flags) {
  auto* e = new Event;
  e->timed = !(flags & 2);
  return *out = e, kOk;
}
CALL hipEventDestroy(void* e) {
  delete static_cast<Event*>(e);
  return kOk;
}
CALL hipEventRecord(void* e, void* s) {
  FAULT("hipEventRecord");
  auto m = std::make_shared<Moment>();
  {
    auto* event = static_cast<Event*>(e);
    std::lock_guard lock(event->mutex);
    event->moment = m;
  }
  of(s)->push([m] { m->set(); });
  return kOk;
}
CALL hipEventQuery(void* e) {
  auto m = static_cast<Event*>(e)->get();
  if (!m) return kOk;
  std::lock_guard lock(m->mutex);
  return m->done ? kOk : kNotReady;
}
CALL hipEventSynchronize(void* e) {
  FAULT("hipEventSynchronize");
  if (auto m = static_cast<Event*>(e)->get()) m->wait();
  return kOk;
}
CALL hipEventElapsedTime(float* ms, void* from, void* to) {
  auto *a = static_cast<Event*>(from), *b = static_cast<Event*>(to);
  auto m = a->get(), n = b->get();
  if (!a->timed || !b->timed || !m || !n) return kInvalidValue;
  std::scoped_lock lock(m->mutex, n->mutex);
  if (!m->done || !n->done) return kNotReady;
  *ms = std::chrono::duration<float, std::milli>(n->at - m->at).count();
  return kOk;
}

CALL hipModuleLoadData(void** out, const void* image) {
  FAULT("hipModuleLoadData");
  const size_t n = elf_bytes(image);
  if (!n) return kInvalidImage;
  auto m = std::make_unique<Module>();
  m->fd = memfd_create("kernel", MFD_CLOEXEC);
  if (m->fd < 0 || write(m->fd, image, n) != static_cast<ssize_t>(n)) return kInvalidImage;
  m->handle = dlopen(("/proc/self/fd/" + std::to_string(m->fd)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!m->handle) {
    std::fprintf(stderr, "stand-in: %s\n", dlerror());
    return kInvalidImage;
  }
  // The file stays open: its name must not be given to the next module, or dlopen takes it for
  // the same one.
  return *out = m.release(), kOk;
}
CALL hipModuleUnload(void* module) {
  auto* m = static_cast<Module*>(module);
  dlclose(m->handle);
  close(m->fd);
  delete m;
  return kOk;
}
CALL hipModuleGetFunction(void** out, void* module, const char* name) {
  FAULT("hipModuleGetFunction");
  auto* m = static_cast<Module*>(module);
  auto* entry = static_cast<Entry*>(dlsym(m->handle, (std::string("pf_entry_") + name).c_str()));
  if (!entry) return kNotFound;
  return *out = new Function{m, entry, name}, kOk;
}
CALL hipFuncSetAttribute(const void*, int, int) {
  return kOk;
}

CALL hipModuleLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                           unsigned by, unsigned bz, unsigned shared, void* stream, void** args,
                           void**) {
  FAULT("hipModuleLaunchKernel");
  if (int e = lost_on(stream)) return e;
  auto* f = static_cast<Function*>(function);
  if (int e = check_launch(*f, {gx, gy, gz}, {bx, by, bz}, shared)) return e;
  of(stream)->push({job_of(of(stream)->device(), std::make_shared<Launch>(f, args), {gx, gy, gz},
                           {bx, by, bz}, shared),
                    f});
  return kOk;
}

extern "C" __attribute__((visibility("default"))) const char* hipGetErrorName(int e) {
  switch (e) {
    case kOk:
      return "hipSuccess";
    case kInvalidValue:
      return "hipErrorInvalidValue";
    case kOutOfMemory:
      return "hipErrorOutOfMemory";
    case kNoDevice:
      return "hipErrorNoDevice";
    case kInvalidDevice:
      return "hipErrorInvalidDevice";
    case kInvalidImage:
      return "hipErrorInvalidImage";
    case kNotFound:
      return "hipErrorNotFound";
    case kLaunchOutOfResources:
      return "hipErrorLaunchOutOfResources";
    case kLaunchFailure:
      return "hipErrorLaunchFailure";
    case kCaptureUnsupported:
      return "hipErrorStreamCaptureUnsupported";
    case kCaptureInvalidated:
      return "hipErrorStreamCaptureInvalidated";
    case kUpdateFailure:
      return "hipErrorGraphExecUpdateFailure";
    default:
      return "hipErrorUnknown";
  }
}
extern "C" __attribute__((visibility("default"))) const char* hipGetErrorString(int) {
  return "as the stand-in was told";
}

// ---- the names of NVIDIA's driver --------------------------------------------------------------

using namespace pyflame::gpu;
extern "C" {
#define X(NAME, HIP, CUDA, ARGS) __attribute__((visibility("default"), alias(#HIP))) int CUDA ARGS;
PF_RUNTIME_CALLS(X)
#undef X
}
CALL cuLaunchKernelEx(const LaunchConfig* c, void* function, void** args, void**) {
  FAULT("cuLaunchKernelEx");
  if (int e = lost_on(c->stream)) return e;
  if (c->count != 1 || c->attributes->id != kLaunchProgrammatic || !c->attributes->value.allowed)
    return kInvalidValue;
  auto* f = static_cast<Function*>(function);
  const Extent grid{c->grid[0], c->grid[1], c->grid[2]},
      block{c->block[0], c->block[1], c->block[2]};
  if (int e = check_launch(*f, grid, block, c->shared)) return e;
  of(c->stream)->push({job_of(of(c->stream)->device(), std::make_shared<Launch>(f, args), grid,
                              block, c->shared, true),
                       f});
  return kOk;
}
CALL cuDeviceGetAttribute(int* value, int attribute, int) {
  const int sm = std::atoi(setting("PYFLAME_STANDIN_SM", "90").c_str());
  switch (attribute) {
    case kMaxThreadsPerBlock:
      return *value = 1024, kOk;
    case kWarpSize:
      return *value = 32, kOk;
    case kMultiprocessorCount:
      return *value = 4, kOk;
    case kMemoryBusWidth:
      return *value = 1024, kOk;
    case kCapabilityMajor:
      return *value = sm / 10, kOk;
    case kCapabilityMinor:
      return *value = sm % 10, kOk;
    case kMaxSharedOptin:
      return *value = kMostShared, kOk;
    default:
      return kInvalidValue;
  }
}
// A context is its device's number, plus one.
CALL cuDevicePrimaryCtxRetain(void** context, int device) {
  return *context = reinterpret_cast<void*>(intptr_t{device} + 1), kOk;
}
CALL cuCtxSetCurrent(void* context) {
  return hipSetDevice(static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1);
}
CALL cuCtxEnablePeerAccess(void*, unsigned) {
  return kOk;
}
CALL cuMemcpyPeerAsync(void* to, void*, const void* from, void*, size_t n, void* s) {
  return copy_job("cuMemcpyPeerAsync", to, from, n, s);
}
CALL cuFuncSetAttribute(void*, int, int) {
  return kOk;
}

CALL cuGetErrorName(int e, const char** text) {
  return *text = hipGetErrorName(e), kOk;
}
CALL cuGetErrorString(int e, const char** text) {
  return *text = hipGetErrorString(e), kOk;
}

// ---- for tests ---------------------------------------------------------------------------------

// The nth next call fails, and those behind it, `times` in all.
CALL standin_faults(const char* call, int64_t nth, int64_t times, int error) {
  std::lock_guard lock(fault_mutex);
  fault_table()[call] = {nth, times, error};
  any_fault.store(true);
  return 0;
}
CALL standin_fault(const char* call, int64_t nth, int error) {
  return standin_faults(call, nth, 1, error);
}
// How many of those that were asked for have not come yet.
CALL standin_faults_left(const char* call) {
  std::lock_guard lock(fault_mutex);
  return static_cast<int>(fault_table()[call].times);
}
// Takes back what standin_fault and broken kernels did.
CALL standin_reset() {
  std::lock_guard lock(fault_mutex);
  fault_table().clear();
  for (auto& g : machine().gpus) g->lost.store(0);
  return 0;
}
extern "C" __attribute__((visibility("default"))) int64_t standin_allocated() {
  std::lock_guard lock(machine().mutex);
  int64_t n = 0;
  for (auto& [p, a] : machine().allocations)
    if (a.device >= 0) n += static_cast<int64_t>(a.bytes);
  return n;
}
