// What of AMD's runtime has no like in NVIDIA's, or other arguments. runtime.h includes it;
// VendorCalls has the same methods for both, which return the runtime's errors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pyflame::gpu {

inline constexpr bool kAmd = true;
inline constexpr const char* kVendorName = "rocm";
#define PF_RT(HIP, CUDA) HIP

// Where hipDeviceProp_t holds what is needed, in its two layouts: hipGetDevicePropertiesR0600
// (ROCm 6 and newer) and hipGetDeviceProperties (ROCm 5).
struct PropertyLayout {
  size_t total_memory, shared, warp, max_block, max_grid, compute_units, arch;
};
inline constexpr PropertyLayout kPropertiesR0600{288, 296, 308, 320, 336, 388, 1160};
inline constexpr PropertyLayout kPropertiesR0000{256, 264, 276, 280, 296, 336, 396};
inline constexpr size_t kPropertyBytes = 4096;  // larger than either

inline constexpr size_t kStaticShared = SIZE_MAX;  // nothing has to be asked for

struct VendorCalls {
  // The calling thread's device; the layout of the properties depends on the release.
  int (*SetDevice)(int device) = nullptr;
  int (*GetDeviceProperties)(void* properties, int device) = nullptr;
  bool properties_r0600 = false;
  const char* (*GetErrorName)(int error) = nullptr;
  const char* (*GetErrorString)(int error) = nullptr;
  int (*MemcpyPeerAsync)(void* to, int to_device, const void* from, int from_device, size_t bytes,
                         void* stream) = nullptr;
  int (*DeviceEnablePeerAccess)(int peer, unsigned flags) = nullptr;
  int (*FuncSetAttribute)(const void* function, int attribute, int value) = nullptr;

  bool early_launches() const { return false; }
  int launch_early(void*, const unsigned (&)[3], const unsigned (&)[3], unsigned, void*,
                   void**) const {
    return 801;  // hipErrorNotSupported
  }
  int add_early_edge(void*, void*, void*) const { return 801; }
  int hold(int /*device*/, void** /*context*/) const { return 0; }
  int make_current(int device, void* /*context*/) const { return SetDevice(device); }
  int enable_peer(int peer, void* /*context*/) const { return DeviceEnablePeerAccess(peer, 0); }
  int copy_peer(void* to, int to_device, void* /*its context*/, const void* from, int from_device,
                void* /*its context*/, size_t bytes, void* stream) const {
    return MemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
  }
  int allow_shared(void* /*function*/, size_t /*bytes*/) const { return 0; }
  bool tensor_maps() const { return false; }
  int encode_tensor_map(void*, size_t, bool, int, int, const void*, const uint64_t*,
                        const uint64_t*, const uint32_t*) const {
    return 801;  // hipErrorNotSupported
  }
  int encode_window_map(void*, size_t, bool, const void*, const uint64_t*, const uint64_t*,
                        const int*, const int*, uint32_t, uint32_t, const uint32_t*) const {
    return 801;
  }
  void say(int error, const char** name, const char** text) const {
    *name = GetErrorName(error);
    *text = GetErrorString(error);
  }
};

}  // namespace pyflame::gpu
