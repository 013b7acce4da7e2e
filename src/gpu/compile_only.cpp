#include "gpu/compile_only.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gpu/kernel.h"

namespace pyflame::gpu {
namespace {

constexpr size_t kFront = 4096;  // a page with the size

// Untouched pages of it take no memory, and nobody counts them: operands may be larger than the
// machine.
int allocate(void** out, size_t bytes) {
  const size_t size = bytes + kFront;
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
  if (p == MAP_FAILED) return kErrorOutOfMemory;
  *static_cast<size_t*>(p) = size;
  *out = static_cast<char*>(p) + kFront;
  return kSuccess;
}
int release(void* p) {
  if (!p) return kSuccess;
  void* begin = static_cast<char*>(p) - kFront;
  munmap(begin, *static_cast<size_t*>(begin));
  return kSuccess;
}

}  // namespace

int make_absent_handle(void** out) {
  static int something;
  *out = &something;
  return kSuccess;
}

std::string compile_only() {
  const char* v = std::getenv("PYFLAME_COMPILE_ONLY");
  const std::string arch = v ? v : "";
  return arch.rfind(PF_RT("gfx", "sm_"), 0) == 0 ? arch : "";
}

Runtime absent_runtime() {
  Runtime r;
  r.library = "none (PYFLAME_COMPILE_ONLY)";
#define X(NAME, HIP, CUDA, ARGS) do_nothing(r.NAME);
  PF_RUNTIME_CALLS(X)
#undef X
  do_nothing(r.MemcpyPeerAsync);
  do_nothing(r.FuncSetAttribute);
  r.GetDeviceCount = [](int* n) { return *n = 1, static_cast<int>(kSuccess); };
  r.DriverGetVersion = [](int* v) { return *v = 0, static_cast<int>(kSuccess); };
  r.DeviceGetName = [](char* name, int n, int) {
    std::snprintf(name, static_cast<size_t>(n), "%s that is not there", compile_only().c_str());
    return static_cast<int>(kSuccess);
  };
  r.DeviceTotalMem = [](size_t* n, int) { return *n = kAbsentMemory, static_cast<int>(kSuccess); };
  r.DeviceCanAccessPeer = [](int* can, int, int) { return *can = 0, static_cast<int>(kSuccess); };
  r.MemGetInfo = [](size_t* free, size_t* total) {
    *free = *total = kAbsentMemory;
    return static_cast<int>(kSuccess);
  };
  r.Malloc = allocate;
  r.Free = release;
  r.HostMalloc = [](void** out, size_t bytes, unsigned) { return allocate(out, bytes); };
  r.HostFree = release;
  r.HostGetDevicePointer = [](void** device, void* host, unsigned) {
    return *device = host, static_cast<int>(kSuccess);
  };
  // What kernels would have computed is not there: zeros are read, not chance. Counts, on which
  // launches depend (nonzero, unique), are another number where one is asked for.
  r.MemcpyDtoHAsync = [](void* to, const void*, size_t bytes, hipStream) {
    std::memset(to, 0, bytes);
    const char* v = std::getenv("PYFLAME_COMPILE_ONLY_COUNT");
    if (const int64_t count = v ? std::atoll(v) : 0; bytes == sizeof count)
      std::memcpy(to, &count, sizeof count);
    return static_cast<int>(kSuccess);
  };
  r.StreamCreateWithPriority = [](hipStream* out, unsigned, int) {
    return make_absent_handle(out);
  };
  r.EventCreateWithFlags = [](hipEvent* out, unsigned) { return make_absent_handle(out); };
  r.EventElapsedTime = [](float* ms, hipEvent, hipEvent) {
    return *ms = 0, static_cast<int>(kSuccess);
  };
  r.ModuleLoadData = [](hipModule* out, const void*) { return make_absent_handle(out); };
  r.ModuleGetFunction = [](hipFunction* out, hipModule, const char*) {
    return make_absent_handle(out);
  };
  answer_as_vendor(r);
  return r;
}

}  // namespace pyflame::gpu
