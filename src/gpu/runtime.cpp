// The vendor's runtime and run-time compiler.
#include "gpu/runtime.h"

#include <dlfcn.h>

#include <mutex>

#include "gpu/compile_only.h"
#include "gpu/kernel.h"
#include "gpu/library.h"

#define PF_NAME2(X) #X
#define PF_NAME(X) PF_NAME2(X)

namespace pyflame::gpu {
namespace {

Runtime open_runtime() {
  if (!compile_only().empty()) return absent_runtime();
  const Library h =
      open_library(PF_RT("HIP runtime (ROCm)", "CUDA driver"),
                   PF_RT("PYFLAME_HIP_LIBRARY", "PYFLAME_CUDA_LIBRARY"), runtime_names());
  Runtime r;
  r.library = h.path;
#define X(NAME, HIP, CUDA, ARGS) \
  r.NAME = reinterpret_cast<decltype(r.NAME)>(h.symbol(PF_NAME(PF_RT(HIP, CUDA))));
  PF_RUNTIME_CALLS(X)
#undef X
  auto take = [&](auto& to, const char* name, bool needed = true) {
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(h.symbol(name, needed));
  };
  take(r.GetErrorName, PF_RT("hipGetErrorName", "cuGetErrorName"));
  take(r.GetErrorString, PF_RT("hipGetErrorString", "cuGetErrorString"));
  take(r.MemcpyPeerAsync, PF_RT("hipMemcpyPeerAsync", "cuMemcpyPeerAsync"));
  take(r.FuncSetAttribute, PF_RT("hipFuncSetAttribute", "cuFuncSetAttribute"));
#define X(NAME, HIP, CUDA, ARGS) take(r.NAME, PF_NAME(PF_RT(HIP, CUDA)), false);
  PF_GRAPH_CALLS(X)
#undef X
  take_vendor_calls(h, r);
  return r;
}

Rtc open_rtc() try {
  const Library h =
      open_library(PF_RT("run-time compiler (hipRTC)", "run-time compiler (NVRTC)"),
                   PF_RT("PYFLAME_HIPRTC_LIBRARY", "PYFLAME_NVRTC_LIBRARY"), rtc_names());
  Rtc r;
  r.library = h.path;
#define X(NAME, HIP, CUDA, ARGS) \
  r.NAME = reinterpret_cast<decltype(r.NAME)>(h.symbol(PF_NAME(PF_RT(HIP, CUDA))));
  PF_RTC_CALLS(X)
#undef X
  r.GetErrorString = reinterpret_cast<decltype(r.GetErrorString)>(
      h.symbol(PF_RT("hiprtcGetErrorString", "nvrtcGetErrorString")));
  int major = 0, minor = 0;
  r.Version(&major, &minor);
  r.version = std::to_string(major) + "." + std::to_string(minor);
  return r;
} catch (const Failure& f) {
  if constexpr (kAmd)
    if (!compile_only().empty()) return clang_rtc();
  throw Failure(PF_COMPILE, f.what());  // the device is there, but nothing to build kernels with
}

// Opened once; a failure is kept and thrown again.
template <class T>
const T& opened(T (*open)()) {
  static std::mutex mutex;
  static T* value = nullptr;
  static Failure* failure = nullptr;
  std::lock_guard lock(mutex);
  if (!value && !failure) {
    try {
      value = new T(open());
    } catch (const Failure& f) {
      failure = new Failure(f);
    }
  }
  if (failure) throw *failure;
  return *value;
}

}  // namespace

const Runtime& runtime() {
  static const Runtime& r = opened(&open_runtime);
  return r;
}
const Rtc& rtc() {
  static const Rtc& r = opened(&open_rtc);
  return r;
}

std::string error_text(int error) {
  const Runtime& r = runtime();
  const char *name = nullptr, *text = nullptr;
  r.say(error, &name, &text);
  return std::string(name ? name : "unknown error") + ": " +
         (text ? text : "error " + std::to_string(error));
}

pf_status status_of(int error) {
  switch (error) {
    case kSuccess:
      return PF_OK;
    case kErrorOutOfMemory:
      return PF_OOM;
    case kErrorNoDevice:
    case kErrorInvalidDevice:
    case kErrorNotSupported:
    case kErrorNoBinaryForGpu:
      return PF_UNSUPPORTED;
    case kErrorECC:
    case kErrorIllegalAddress:
    case kErrorLaunchTimeOut:
    case kErrorContextIsDestroyed:
    case kErrorAssert:
    case kErrorHardwareStack:
    case kErrorIllegalInstruction:
    case kErrorMisalignedAddress:
    case kErrorLaunchFailure:
    case kErrorUnknown:
      return PF_LOST;  // the context is corrupted: every later call fails too
    default:
      return PF_LAUNCH;
  }
}

void check(int error, const char* call) {
  if (error != kSuccess)
    throw Failure(status_of(error), std::string(call) + ": " + error_text(error));
}

}  // namespace pyflame::gpu
