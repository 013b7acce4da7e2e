// The vendor's runtime and run-time compiler, AMD's spelling first. Nothing is linked and no
// vendor header is needed: libraries are opened at first use, and the declarations below are our
// own text of the few calls that the plug-in makes (check_headers_*.cpp compares them with the real
// headers where those are installed). Both ABIs agree on everything but names: handles are
// pointers, device addresses are 64 bits, enums are ints with equal values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#ifdef PF_GPU_ROCM
#include "gpu/runtime_rocm.h"
#else
#include "gpu/runtime_cuda.h"
#endif
#include "pyflame/backend.h"

namespace pyflame::gpu {

using hipError = int;
using hipStream = void*;
using hipEvent = void*;
using hipModule = void*;
using hipFunction = void*;
using hiprtcProgram = void*;

// Values that both vendors share (hipErrorOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY, ...).
enum : int {
  kSuccess = 0,
  kErrorInvalidValue = 1,
  kErrorOutOfMemory = 2,
  kErrorNotInitialized = 3,
  kErrorNoDevice = 100,
  kErrorInvalidDevice = 101,
  kErrorInvalidImage = 200,
  kErrorNoBinaryForGpu = 209,
  kErrorECC = 214,
  kErrorNotFound = 500,
  kErrorNotReady = 600,
  kErrorIllegalAddress = 700,
  kErrorLaunchOutOfResources = 701,
  kErrorLaunchTimeOut = 702,
  kErrorContextIsDestroyed = 709,
  kErrorAssert = 710,
  kErrorHardwareStack = 714,
  kErrorIllegalInstruction = 715,
  kErrorMisalignedAddress = 716,
  kErrorLaunchFailure = 719,
  kErrorNotSupported = 801,
  kErrorUnknown = 999,
  kStreamNonBlocking = 1,
  kEventDisableTiming = 2,
  kHostPortableMapped = 3,
  kCaptureRelaxed = 2,
};

// hipKernelNodeParams, and CUDA_KERNEL_NODE_PARAMS in its first version.
struct HipKernelNode {
  unsigned block[3];
  void** extra;
  hipFunction function;
  unsigned grid[3];
  void** args;
  unsigned shared;
};
struct CudaKernelNode {
  hipFunction function;
  unsigned grid[3], block[3], shared;
  void** args;
  void** extra;
};
using KernelNode = PF_RT(HipKernelNode, CudaKernelNode);

// name here, hip..., cu..., arguments
#define PF_RUNTIME_CALLS(X)                                                                       \
  X(Init, hipInit, cuInit, (unsigned flags))                                                      \
  X(DriverGetVersion, hipDriverGetVersion, cuDriverGetVersion, (int* version))                    \
  X(GetDeviceCount, hipGetDeviceCount, cuDeviceGetCount, (int* count))                            \
  X(DeviceGetName, hipDeviceGetName, cuDeviceGetName, (char* name, int n, int device))            \
  X(DeviceTotalMem, hipDeviceTotalMem, cuDeviceTotalMem_v2, (size_t * bytes, int device))         \
  X(DeviceCanAccessPeer, hipDeviceCanAccessPeer, cuDeviceCanAccessPeer,                           \
    (int* can, int device, int peer))                                                             \
  X(MemGetInfo, hipMemGetInfo, cuMemGetInfo_v2, (size_t * free, size_t * total))                  \
  X(Malloc, hipMalloc, cuMemAlloc_v2, (void** out, size_t bytes))                                 \
  X(Free, hipFree, cuMemFree_v2, (void* p))                                                       \
  X(HostMalloc, hipHostMalloc, cuMemHostAlloc, (void** out, size_t bytes, unsigned flags))        \
  X(HostFree, hipHostFree, cuMemFreeHost, (void* p))                                              \
  X(HostRegister, hipHostRegister, cuMemHostRegister_v2, (void* p, size_t bytes, unsigned flags)) \
  X(HostUnregister, hipHostUnregister, cuMemHostUnregister, (void* p))                            \
  X(HostGetDevicePointer, hipHostGetDevicePointer, cuMemHostGetDevicePointer_v2,                  \
    (void** device, void* host, unsigned flags))                                                  \
  X(MemcpyHtoDAsync, hipMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2,                                    \
    (void* to, const void* from, size_t bytes, hipStream stream))                                 \
  X(MemcpyDtoHAsync, hipMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2,                                    \
    (void* to, const void* from, size_t bytes, hipStream stream))                                 \
  X(MemcpyDtoDAsync, hipMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2,                                    \
    (void* to, const void* from, size_t bytes, hipStream stream))                                 \
  X(MemsetD8Async, hipMemsetD8Async, cuMemsetD8Async,                                             \
    (void* to, unsigned char value, size_t count, hipStream stream))                              \
  X(StreamCreateWithPriority, hipStreamCreateWithPriority, cuStreamCreateWithPriority,            \
    (hipStream * out, unsigned flags, int priority))                                              \
  X(StreamDestroy, hipStreamDestroy, cuStreamDestroy_v2, (hipStream stream))                      \
  X(StreamSynchronize, hipStreamSynchronize, cuStreamSynchronize, (hipStream stream))             \
  X(StreamQuery, hipStreamQuery, cuStreamQuery, (hipStream stream))                               \
  X(StreamWaitEvent, hipStreamWaitEvent, cuStreamWaitEvent,                                       \
    (hipStream stream, hipEvent event, unsigned flags))                                           \
  X(EventCreateWithFlags, hipEventCreateWithFlags, cuEventCreate,                                 \
    (hipEvent * out, unsigned flags))                                                             \
  X(EventDestroy, hipEventDestroy, cuEventDestroy_v2, (hipEvent event))                           \
  X(EventRecord, hipEventRecord, cuEventRecord, (hipEvent event, hipStream stream))               \
  X(EventQuery, hipEventQuery, cuEventQuery, (hipEvent event))                                    \
  X(EventSynchronize, hipEventSynchronize, cuEventSynchronize, (hipEvent event))                  \
  X(EventElapsedTime, hipEventElapsedTime, cuEventElapsedTime,                                    \
    (float* ms, hipEvent from, hipEvent to))                                                      \
  X(ModuleLoadData, hipModuleLoadData, cuModuleLoadData, (hipModule * out, const void* image))    \
  X(ModuleUnload, hipModuleUnload, cuModuleUnload, (hipModule module))                            \
  X(ModuleGetFunction, hipModuleGetFunction, cuModuleGetFunction,                                 \
    (hipFunction * out, hipModule module, const char* name))                                      \
  X(ModuleLaunchKernel, hipModuleLaunchKernel, cuLaunchKernel,                                    \
    (hipFunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,       \
     unsigned bz, unsigned shared, hipStream stream, void** args, void** extra))

// Graphs: null where the library is too old (CUDA before 11.4).
#define PF_GRAPH_CALLS(X)                                                                          \
  X(GraphCreate, hipGraphCreate, cuGraphCreate, (void** graph, unsigned flags))                    \
  X(GraphDestroy, hipGraphDestroy, cuGraphDestroy, (void* graph))                                  \
  X(GraphGetNodes, hipGraphGetNodes, cuGraphGetNodes, (void* graph, void** nodes, size_t* count))  \
  X(GraphAddKernelNode, hipGraphAddKernelNode, cuGraphAddKernelNode,                               \
    (void** node, void* graph, void* const* after, size_t count, const KernelNode* what))          \
  X(GraphAddChildGraphNode, hipGraphAddChildGraphNode, cuGraphAddChildGraphNode,                   \
    (void** node, void* graph, void* const* after, size_t count, void* child))                     \
  X(GraphInstantiateWithFlags, hipGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,          \
    (void** executable, void* graph, unsigned long long flags))                                    \
  X(GraphExecDestroy, hipGraphExecDestroy, cuGraphExecDestroy, (void* executable))                 \
  X(GraphExecKernelNodeSetParams, hipGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, \
    (void* executable, void* node, const KernelNode* what))                                        \
  X(GraphExecChildGraphNodeSetParams, hipGraphExecChildGraphNodeSetParams,                         \
    cuGraphExecChildGraphNodeSetParams, (void* executable, void* node, void* child))               \
  X(GraphLaunch, hipGraphLaunch, cuGraphLaunch, (void* executable, hipStream stream))              \
  X(StreamBeginCapture, hipStreamBeginCapture, cuStreamBeginCapture_v2,                            \
    (hipStream stream, int mode))                                                                  \
  X(StreamEndCapture, hipStreamEndCapture, cuStreamEndCapture, (hipStream stream, void** graph))

// The run-time compiler: hipRTC or NVRTC, whose calls agree but for the names.
#define PF_RTC_CALLS(X)                                                                         \
  X(Version, hiprtcVersion, nvrtcVersion, (int* major, int* minor))                             \
  X(CreateProgram, hiprtcCreateProgram, nvrtcCreateProgram,                                     \
    (hiprtcProgram * out, const char* source, const char* name, int nheaders,                   \
     const char* const* headers, const char* const* names))                                     \
  X(CompileProgram, hiprtcCompileProgram, nvrtcCompileProgram,                                  \
    (hiprtcProgram program, int noptions, const char* const* options))                          \
  X(GetProgramLogSize, hiprtcGetProgramLogSize, nvrtcGetProgramLogSize,                         \
    (hiprtcProgram program, size_t * bytes))                                                    \
  X(GetProgramLog, hiprtcGetProgramLog, nvrtcGetProgramLog, (hiprtcProgram program, char* log)) \
  X(GetCodeSize, hiprtcGetCodeSize, nvrtcGetCUBINSize, (hiprtcProgram program, size_t * bytes)) \
  X(GetCode, hiprtcGetCode, nvrtcGetCUBIN, (hiprtcProgram program, char* code))                 \
  X(DestroyProgram, hiprtcDestroyProgram, nvrtcDestroyProgram, (hiprtcProgram * program))

#define PF_DECLARE(NAME, HIP, CUDA, ARGS) int(*NAME) ARGS = nullptr;

struct Runtime : VendorCalls {
  PF_RUNTIME_CALLS(PF_DECLARE)
  PF_GRAPH_CALLS(PF_DECLARE)
  std::string library;  // path that was opened
};

struct Rtc {
  PF_RTC_CALLS(PF_DECLARE)
  const char* (*GetErrorString)(int error) = nullptr;
  std::string library, version;  // "13.0"
};
#undef PF_DECLARE

// Opens the library at first use; throws Failure that says which names were tried, and why each
// did not serve. PYFLAME_HIP_LIBRARY, PYFLAME_HIPRTC_LIBRARY (PYFLAME_CUDA_LIBRARY,
// PYFLAME_NVRTC_LIBRARY) name one, and then no other is tried.
const Runtime& runtime();
const Rtc& rtc();

// "hipErrorOutOfMemory: out of memory"
std::string error_text(int error);
// The class of a runtime error.
pf_status status_of(int error);
// Throws Failure unless success: "hipMalloc: hipErrorOutOfMemory: out of memory".
void check(int error, const char* call);

}  // namespace pyflame::gpu
