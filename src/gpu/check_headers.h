// Compares runtime.h with the vendor's own headers, which who includes this has included: values,
// layouts and the types of functions. Only compiled, never run.
#pragma once

#include "gpu/runtime.h"

#include <type_traits>

namespace pyflame::gpu {
namespace {

// Passed alike by the calling convention: integers and enums of one size, or addresses (which the
// CUDA driver spells as 64-bit integers).
template <class A, class B>
constexpr bool alike() {
  constexpr bool a_address = std::is_pointer_v<A>, b_address = std::is_pointer_v<B>;
  if constexpr (a_address || b_address)
    return sizeof(A) == sizeof(B);  // NOLINT(bugprone-sizeof-expression)
  else
    return sizeof(A) == sizeof(B) && std::is_floating_point_v<A> == std::is_floating_point_v<B>;
}
template <class F, class G>
struct SameCall : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameCall<R (*)(A...), S (*)(B...)>
    : std::bool_constant<alike<R, S>() && (alike<A, B>() && ...)> {
};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameCall<R (*)(A...), S (*)(B...) noexcept>
    : std::bool_constant<alike<R, S>() && (alike<A, B>() && ...)> {
};

#define X(NAME, HIP, CUDA, ARGS)                                                         \
  static_assert(SameCall<decltype(Runtime::NAME), decltype(&::PF_RT(HIP, CUDA))>::value, \
                #HIP " / " #CUDA);
PF_RUNTIME_CALLS(X)
PF_GRAPH_CALLS(X)
#undef X
#define X(NAME, HIP, CUDA, ARGS)                                                     \
  static_assert(SameCall<decltype(Rtc::NAME), decltype(&::PF_RT(HIP, CUDA))>::value, \
                #HIP " / " #CUDA);
PF_RTC_CALLS(X)
#undef X
#define X(NAME, REAL) \
  static_assert(SameCall<decltype(Runtime::NAME), decltype(&::REAL)>::value, #REAL);
X(GetErrorName, PF_RT(hipGetErrorName, cuGetErrorName))
X(GetErrorString, PF_RT(hipGetErrorString, cuGetErrorString))
X(MemcpyPeerAsync, PF_RT(hipMemcpyPeerAsync, cuMemcpyPeerAsync))
X(FuncSetAttribute, PF_RT(hipFuncSetAttribute, cuFuncSetAttribute))
#undef X

using RealNode = PF_RT(hipKernelNodeParams, CUDA_KERNEL_NODE_PARAMS_v1);
#define SAME_PLACE(OURS, HIP, CUDA) \
  static_assert(offsetof(KernelNode, OURS) == offsetof(RealNode, PF_RT(HIP, CUDA)));
static_assert(sizeof(KernelNode) == sizeof(RealNode));
SAME_PLACE(function, func, func)
SAME_PLACE(grid, gridDim, gridDimX)
SAME_PLACE(block, blockDim, blockDimX)
SAME_PLACE(shared, sharedMemBytes, sharedMemBytes)
SAME_PLACE(args, kernelParams, kernelParams)

#define SAME_VALUE(OURS, HIP, CUDA) static_assert(OURS == static_cast<int>(PF_RT(HIP, CUDA)));
SAME_VALUE(kSuccess, hipSuccess, CUDA_SUCCESS)
SAME_VALUE(kErrorInvalidValue, hipErrorInvalidValue, CUDA_ERROR_INVALID_VALUE)
SAME_VALUE(kErrorOutOfMemory, hipErrorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY)
SAME_VALUE(kErrorNotInitialized, hipErrorNotInitialized, CUDA_ERROR_NOT_INITIALIZED)
SAME_VALUE(kErrorNoDevice, hipErrorNoDevice, CUDA_ERROR_NO_DEVICE)
SAME_VALUE(kErrorInvalidDevice, hipErrorInvalidDevice, CUDA_ERROR_INVALID_DEVICE)
SAME_VALUE(kErrorInvalidImage, hipErrorInvalidImage, CUDA_ERROR_INVALID_IMAGE)
SAME_VALUE(kErrorNoBinaryForGpu, hipErrorNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU)
SAME_VALUE(kErrorECC, hipErrorECCNotCorrectable, CUDA_ERROR_ECC_UNCORRECTABLE)
SAME_VALUE(kErrorNotFound, hipErrorNotFound, CUDA_ERROR_NOT_FOUND)
SAME_VALUE(kErrorNotReady, hipErrorNotReady, CUDA_ERROR_NOT_READY)
SAME_VALUE(kErrorIllegalAddress, hipErrorIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS)
SAME_VALUE(kErrorLaunchOutOfResources, hipErrorLaunchOutOfResources,
           CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)
SAME_VALUE(kErrorLaunchTimeOut, hipErrorLaunchTimeOut, CUDA_ERROR_LAUNCH_TIMEOUT)
SAME_VALUE(kErrorContextIsDestroyed, hipErrorContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED)
SAME_VALUE(kErrorAssert, hipErrorAssert, CUDA_ERROR_ASSERT)
SAME_VALUE(kErrorLaunchFailure, hipErrorLaunchFailure, CUDA_ERROR_LAUNCH_FAILED)
SAME_VALUE(kErrorNotSupported, hipErrorNotSupported, CUDA_ERROR_NOT_SUPPORTED)
SAME_VALUE(kErrorUnknown, hipErrorUnknown, CUDA_ERROR_UNKNOWN)
SAME_VALUE(kStreamNonBlocking, hipStreamNonBlocking, CU_STREAM_NON_BLOCKING)
SAME_VALUE(kEventDisableTiming, hipEventDisableTiming, CU_EVENT_DISABLE_TIMING)
SAME_VALUE(kHostPortableMapped, (hipHostMallocPortable | hipHostMallocMapped),
           (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP))

}  // namespace
}  // namespace pyflame::gpu
