// What of NVIDIA's driver has no like in AMD's runtime, or other arguments; as runtime_rocm.h.
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef PF_GPU_CUDA
#error "compile with -DPF_GPU_ROCM or -DPF_GPU_CUDA: list the source in PYFLAME_RUNTIME_SOURCES"
#endif

namespace pyflame::gpu {

inline constexpr bool kAmd = false;
inline constexpr const char* kVendorName = "cuda";
#define PF_RT(HIP, CUDA) CUDA

enum : int {  // attributes of devices, and one of functions
  kMaxThreadsPerBlock = 1,
  kWarpSize = 10,
  kMultiprocessorCount = 16,
  kMemoryBusWidth = 37,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kMaxSharedOptin = 97,
  kFuncMaxDynamicShared = 8,
};

enum : int {  // of tensor maps
  kMapUInt8 = 0,
  kMapUInt16 = 1,
  kMapUInt32 = 2,
  kMapTF32 = 11,
  kMapPlain = 0,  // in one piece, no swizzle, zeros outside
  kMapSwizzle32 = 1,
  kMapSwizzle64 = 2,
  kMapSwizzle128 = 3,
  kMapFetch256 = 3,  // bytes that the L2 cache fetches
};

// CUlaunchAttribute, CUlaunchConfig and CUgraphEdgeData.
struct LaunchAttribute {
  int id, pad;
  union {
    int allowed;
    char bytes[64];
  } value;
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};
struct EdgeData {
  unsigned char from_port, to_port, type, reserved[5];
};
enum : int {
  kLaunchProgrammatic = 6,  // ..._PROGRAMMATIC_STREAM_SERIALIZATION
  kPortProgrammatic = 1,
  kEdgeProgrammatic = 1,
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
  // Null where the driver is too old (before 12.0): both or neither.
  int (*TensorMapEncodeTiled)(void* map, int type, uint32_t rank, void* data, const uint64_t* sizes,
                              const uint64_t* strides, const uint32_t* box, const uint32_t* steps,
                              int interleave, int swizzle, int promotion, int fill) = nullptr;
  int (*TensorMapEncodeIm2col)(void* map, int type, uint32_t rank, void* data,
                               const uint64_t* sizes, const uint64_t* strides, const int* low,
                               const int* high, uint32_t channels, uint32_t pixels,
                               const uint32_t* steps, int interleave, int swizzle, int promotion,
                               int fill) = nullptr;

  // Null where the driver is too old (before 12.3): both or neither.
  int (*LaunchKernelEx)(const LaunchConfig*, void* function, void** args, void** extra) = nullptr;
  int (*GraphAddDependencies)(void* graph, void* const* from, void* const* to, const EdgeData*,
                              size_t count) = nullptr;

  // Kernels that wait by themselves (Loaded::early) may begin before those in front have ended:
  // behind a kernel of the stream, or of a graph, where the edge is one of these.
  bool early_launches() const { return LaunchKernelEx && GraphAddDependencies; }
  int launch_early(void* function, const unsigned (&grid)[3], const unsigned (&block)[3],
                   unsigned shared, void* stream, void** args) const {
    LaunchAttribute early{kLaunchProgrammatic, 0, {1}};
    const LaunchConfig config{
        {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared, stream, &early, 1};
    return LaunchKernelEx(&config, function, args, nullptr);
  }
  int add_early_edge(void* graph, void* from, void* to) const {
    const EdgeData edge{kPortProgrammatic, 0, kEdgeProgrammatic, {}};
    return GraphAddDependencies(graph, &from, &to, &edge, 1);
  }
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
  bool tensor_maps() const { return TensorMapEncodeTiled && TensorMapEncodeIm2col; }
  static int map_type(size_t item, bool tf32) {
    return tf32 ? kMapTF32 : item == 1 ? kMapUInt8 : item == 2 ? kMapUInt16 : kMapUInt32;
  }
  // Of elements of `item` bytes; lines of `permuted` bytes, or 0; `tf32`: floats are rounded.
  int encode_tensor_map(void* map, size_t item, bool tf32, int permuted, int rank, const void* data,
                        const uint64_t* sizes, const uint64_t* strides, const uint32_t* box) const {
    constexpr uint32_t kSteps[5] = {1, 1, 1, 1, 1};
    return TensorMapEncodeTiled(map, map_type(item, tf32), static_cast<uint32_t>(rank),
                                const_cast<void*>(data), sizes, strides, box, kSteps, kMapPlain,
                                permuted == 128  ? kMapSwizzle128
                                : permuted == 64 ? kMapSwizzle64
                                : permuted == 32 ? kMapSwizzle32
                                                 : kMapPlain,
                                kMapFetch256, kMapPlain);
  }
  // Of channels, width, height and pictures, in permuted lines.
  int encode_window_map(void* map, size_t item, bool tf32, const void* data, const uint64_t* sizes,
                        const uint64_t* strides, const int* low, const int* high, uint32_t channels,
                        uint32_t pixels, const uint32_t* steps) const {
    return TensorMapEncodeIm2col(map, map_type(item, tf32), 4, const_cast<void*>(data), sizes,
                                 strides, low, high, channels, pixels, steps, kMapPlain,
                                 kMapSwizzle128, kMapFetch256, kMapPlain);
  }
  void say(int error, const char** name, const char** text) const {
    GetErrorName(error, name);
    GetErrorString(error, text);
  }
};

}  // namespace pyflame::gpu
