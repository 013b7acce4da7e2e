// What of NVIDIA's driver has no like in AMD's runtime, or other arguments; as runtime_rocm.h.
#pragma once

#include <cstddef>

#ifndef PF_GPU_CUDA
#error "compile with one of -DPF_GPU_ROCM and -DPF_GPU_CUDA"
#endif

namespace pyflame::gpu {

inline constexpr bool kAmd = false;
inline constexpr const char* kVendorName = "cuda";
#define PF_RT(HIP, CUDA) CUDA

enum : int {  // attributes of devices, and one of functions
  kMaxThreadsPerBlock = 1,
  kWarpSize = 10,
  kMultiprocessorCount = 16,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kMaxSharedOptin = 97,
  kFuncMaxDynamicShared = 8,
};

inline constexpr size_t kStaticShared = 48 << 10;  // more has to be asked for

struct VendorCalls {
  int (*DeviceGetAttribute)(int* value, int attribute, int device) = nullptr;
  int (*DevicePrimaryCtxRetain)(void** context, int device) = nullptr;
  int (*CtxSetCurrent)(void* context) = nullptr;
  int (*GetErrorName)(int error, const char** text) = nullptr;
  int (*GetErrorString)(int error, const char** text) = nullptr;
  int (*MemcpyPeerAsync)(void* to, void* to_context, const void* from, void* from_context,
                         size_t bytes, void* stream) = nullptr;
  int (*CtxEnablePeerAccess)(void* peer_context, unsigned flags) = nullptr;
  int (*FuncSetAttribute)(void* function, int attribute, int value) = nullptr;

  int hold(int device, void** context) const { return DevicePrimaryCtxRetain(context, device); }
  int make_current(int /*device*/, void* context) const { return CtxSetCurrent(context); }
  int enable_peer(int /*peer*/, void* context) const { return CtxEnablePeerAccess(context, 0); }
  int copy_peer(void* to, int /*to_device*/, void* to_context, const void* from,
                int /*from_device*/, void* from_context, size_t bytes, void* stream) const {
    return MemcpyPeerAsync(to, to_context, from, from_context, bytes, stream);
  }
  int allow_shared(void* function, size_t bytes) const {
    return FuncSetAttribute(function, kFuncMaxDynamicShared, static_cast<int>(bytes));
  }
  void say(int error, const char** name, const char** text) const {
    GetErrorName(error, name);
    GetErrorString(error, text);
  }
};

}  // namespace pyflame::gpu
