// The vendor's runtime and run-time compiler.
#include "gpu/runtime.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "gpu/compile_only.h"
#include "gpu/kernel.h"
#include "gpu/library.h"

#define PF_NAME2(X) #X
#define PF_NAME(X) PF_NAME2(X)

namespace pyflame::gpu {
namespace {

#ifdef PF_GPU_ROCM
Names runtime_names() {
  Names r;
  if (std::string l = loaded_already("libamdhip64"); !l.empty()) r.push_back(l);
  for (const char* n : {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}) r.push_back(n);
  if (const char* p = std::getenv("ROCM_PATH")) r.push_back(std::string(p) + "/lib/libamdhip64.so");
  r.push_back("/opt/rocm/lib/libamdhip64.so");
  for (const std::string& f : package_folders())
    add_matches(r, f + "/_rocm_sdk_core/lib/libamdhip64.so*");
  r.push_back("libamdhip64.so");
  return r;
}
Names rtc_names() {
  Names r;
  // The compiler of the same installation first.
  const std::string& runtime_path = runtime().library;
  if (size_t slash = runtime_path.rfind('/'); slash != std::string::npos)
    add_matches(r, runtime_path.substr(0, slash) + "/libhiprtc.so*");
  for (const char* n : {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5"}) r.push_back(n);
  if (const char* p = std::getenv("ROCM_PATH")) r.push_back(std::string(p) + "/lib/libhiprtc.so");
  r.push_back("/opt/rocm/lib/libhiprtc.so");
  for (const std::string& f : package_folders())
    add_matches(r, f + "/_rocm_sdk_core/lib/libhiprtc.so*");
  r.push_back("libhiprtc.so");
  return r;
}
#else
Names runtime_names() {
  return {"libcuda.so.1", "libcuda.so"};
}
Names rtc_names() {
  Names r;
  if (std::string l = loaded_already("libnvrtc"); !l.empty()) r.push_back(l);
  for (const char* n : {"libnvrtc.so.13", "libnvrtc.so.12"}) r.push_back(n);
  for (const std::string& f : package_folders()) {
    add_matches(r, f + "/nvidia/cu13/lib/libnvrtc.so.13");
    add_matches(r, f + "/nvidia/cuda_nvrtc/lib/libnvrtc.so.1[23]");
  }
  add_matches(r, "/usr/local/cuda*/lib64/libnvrtc.so.1[23]");
  return r;
}
#endif

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
  take(r.GraphCreate, PF_RT("hipGraphCreate", "cuGraphCreate"), false);
  take(r.GraphAddKernelNode, PF_RT("hipGraphAddKernelNode", "cuGraphAddKernelNode"), false);
  take(r.GraphInstantiateWithFlags,
       PF_RT("hipGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags"), false);
  take(r.GraphExecKernelNodeSetParams,
       PF_RT("hipGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams"), false);
  take(r.GraphLaunch, PF_RT("hipGraphLaunch", "cuGraphLaunch"), false);
#ifdef PF_GPU_ROCM
  take(r.SetDevice, "hipSetDevice");
  take(r.DeviceEnablePeerAccess, "hipDeviceEnablePeerAccess");
  take(r.GetDeviceProperties, "hipGetDevicePropertiesR0600", false);
  r.properties_r0600 = r.GetDeviceProperties != nullptr;
  if (!r.properties_r0600) take(r.GetDeviceProperties, "hipGetDeviceProperties");
#else
  take(r.DeviceGetAttribute, "cuDeviceGetAttribute");
  take(r.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  take(r.CtxSetCurrent, "cuCtxSetCurrent");
  take(r.CtxEnablePeerAccess, "cuCtxEnablePeerAccess");
#endif
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
#ifdef PF_GPU_ROCM
  if (!compile_only().empty()) return clang_rtc();
#endif
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
#ifdef PF_GPU_ROCM
  const char *name = r.GetErrorName(error), *text = r.GetErrorString(error);
#else
  const char *name = nullptr, *text = nullptr;
  r.GetErrorName(error, &name);
  r.GetErrorString(error, &text);
#endif
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
