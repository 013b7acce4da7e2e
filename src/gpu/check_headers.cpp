// Compares runtime.h with the vendor's own headers, where those are installed (the target
// pyflame_check_headers): values, layouts and the types of functions. Only compiled, never run.
#include "gpu/blas.h"
#include "gpu/cudnn.h"
#include "gpu/miopen.h"
#include "gpu/rocblas.h"
#include "gpu/runtime.h"

#ifdef PF_GPU_ROCM
#define __HIP_PLATFORM_AMD__ 1
#define __HIP_DISABLE_CPP_FUNCTIONS__ 1  // templates beside the functions
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>
#if __has_include(<hipblaslt/hipblaslt.h>)
#include <hipblaslt/hipblaslt.h>
#define PF_CHECK_BLAS 1
#endif
#if __has_include(<rocblas/rocblas.h>)
#define ROCBLAS_BETA_FEATURES_API 1
#include <rocblas/rocblas.h>
#define PF_CHECK_ROCBLAS 1
#endif
#if __has_include(<miopen/miopen.h>)
#include <miopen/miopen.h>
#define PF_CHECK_MIOPEN 1
#endif
#else
#include <cuda.h>
#include <nvrtc.h>
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define PF_CHECK_BLAS 1
#endif
#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>
#define PF_CHECK_CUDNN 1
#endif
#endif

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
#undef X
#define X(NAME, HIP, CUDA, ARGS)                                                     \
  static_assert(SameCall<decltype(Rtc::NAME), decltype(&::PF_RT(HIP, CUDA))>::value, \
                #HIP " / " #CUDA);
PF_RTC_CALLS(X)
#undef X
#define X(NAME, REAL) \
  static_assert(SameCall<decltype(Runtime::NAME), decltype(&::REAL)>::value, #REAL);
X(GraphCreate, PF_RT(hipGraphCreate, cuGraphCreate))
X(GraphAddKernelNode, PF_RT(hipGraphAddKernelNode, cuGraphAddKernelNode))
X(GraphInstantiateWithFlags, PF_RT(hipGraphInstantiateWithFlags, cuGraphInstantiateWithFlags))
X(GraphExecKernelNodeSetParams,
  PF_RT(hipGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams))
X(GraphLaunch, PF_RT(hipGraphLaunch, cuGraphLaunch))
#ifdef PF_GPU_ROCM
X(SetDevice, hipSetDevice)
X(GetDeviceProperties, hipGetDeviceProperties)
X(GetErrorName, hipGetErrorName)
X(GetErrorString, hipGetErrorString)
X(MemcpyPeerAsync, hipMemcpyPeerAsync)
X(DeviceEnablePeerAccess, hipDeviceEnablePeerAccess)
X(FuncSetAttribute, hipFuncSetAttribute)
#else
X(DeviceGetAttribute, cuDeviceGetAttribute)
X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)
X(CtxSetCurrent, cuCtxSetCurrent)
X(GetErrorName, cuGetErrorName)
X(GetErrorString, cuGetErrorString)
X(MemcpyPeerAsync, cuMemcpyPeerAsync)
X(CtxEnablePeerAccess, cuCtxEnablePeerAccess)
X(FuncSetAttribute, cuFuncSetAttribute)
#endif
#undef X

#ifdef PF_GPU_ROCM
using RealNode = hipKernelNodeParams;
#define SAME_PLACE(OURS, HIP, CUDA) \
  static_assert(offsetof(KernelNode, OURS) == offsetof(RealNode, HIP));
#else
using RealNode = CUDA_KERNEL_NODE_PARAMS_v1;
#define SAME_PLACE(OURS, HIP, CUDA) \
  static_assert(offsetof(KernelNode, OURS) == offsetof(RealNode, CUDA));
#endif
static_assert(sizeof(KernelNode) == sizeof(RealNode));
SAME_PLACE(function, func, func)
SAME_PLACE(grid, gridDim, gridDimX)
SAME_PLACE(block, blockDim, blockDimX)
SAME_PLACE(shared, sharedMemBytes, sharedMemBytes)
SAME_PLACE(args, kernelParams, kernelParams)

#ifdef PF_GPU_ROCM
#define SAME_VALUE(OURS, HIP, CUDA) static_assert(OURS == static_cast<int>(HIP));
#else
#define SAME_VALUE(OURS, HIP, CUDA) static_assert(OURS == static_cast<int>(CUDA));
#endif
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

#ifdef PF_GPU_ROCM
#if HIP_VERSION_MAJOR >= 6
using Properties = hipDeviceProp_tR0600;
constexpr PropertyLayout kLayout = kPropertiesR0600;
#else
using Properties = hipDeviceProp_t;
constexpr PropertyLayout kLayout = kPropertiesR0000;
#endif
static_assert(sizeof(Properties) <= kPropertyBytes);
static_assert(kLayout.total_memory == offsetof(Properties, totalGlobalMem));
static_assert(kLayout.shared == offsetof(Properties, sharedMemPerBlock));
static_assert(kLayout.warp == offsetof(Properties, warpSize));
static_assert(kLayout.max_block == offsetof(Properties, maxThreadsPerBlock));
static_assert(kLayout.max_grid == offsetof(Properties, maxGridSize));
static_assert(kLayout.compute_units == offsetof(Properties, multiProcessorCount));
static_assert(kLayout.arch == offsetof(Properties, gcnArchName));
static_assert(sizeof(Properties::gcnArchName) == 256);
#else
static_assert(kMaxThreadsPerBlock == static_cast<int>(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
static_assert(kWarpSize == static_cast<int>(CU_DEVICE_ATTRIBUTE_WARP_SIZE));
static_assert(kMultiprocessorCount == static_cast<int>(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(kCapabilityMajor == static_cast<int>(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(kCapabilityMinor == static_cast<int>(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(kMaxSharedOptin ==
              static_cast<int>(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
static_assert(kFuncMaxDynamicShared ==
              static_cast<int>(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
#endif

#ifdef PF_CHECK_BLAS
#ifdef PF_GPU_ROCM
#define PF_BLAS(NAME) hipblasLt##NAME
static_assert(kR32F == int(HIP_R_32F) && kR64F == int(HIP_R_64F) && kR16F == int(HIP_R_16F) &&
              kR16BF == int(HIP_R_16BF) && kR8I == int(HIP_R_8I) && kR32I == int(HIP_R_32I));
static_assert(kCompute32F == int(HIPBLAS_COMPUTE_32F) && kCompute64F == int(HIPBLAS_COMPUTE_64F) &&
              kCompute32I == int(HIPBLAS_COMPUTE_32I));
static_assert(kComputeTF32 == int(HIPBLAS_COMPUTE_32F_FAST_TF32));
static_assert(kOpN == int(HIPBLAS_OP_N) && kOpT == int(HIPBLAS_OP_T));
static_assert(kDescTransA == int(HIPBLASLT_MATMUL_DESC_TRANSA) &&
              kDescTransB == int(HIPBLASLT_MATMUL_DESC_TRANSB) &&
              kDescEpilogue == int(HIPBLASLT_MATMUL_DESC_EPILOGUE) &&
              kDescBias == int(HIPBLASLT_MATMUL_DESC_BIAS_POINTER) &&
              kDescBiasType == int(HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE));
static_assert(kLayoutBatchCount == int(HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT) &&
              kLayoutBatchStride == int(HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET));
static_assert(kPrefWorkspace == int(HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES));
static_assert(kEpilogueBias == int(HIPBLASLT_EPILOGUE_BIAS));
static_assert(sizeof(BlasAlgo) == sizeof(hipblasLtMatmulAlgo_t));
static_assert(sizeof(BlasHeuristic) == sizeof(hipblasLtMatmulHeuristicResult_t));
static_assert(offsetof(BlasHeuristic, state) == offsetof(hipblasLtMatmulHeuristicResult_t, state));
#else
#define PF_BLAS(NAME) cublasLt##NAME
static_assert(kR32F == int(CUDA_R_32F) && kR64F == int(CUDA_R_64F) && kR16F == int(CUDA_R_16F) &&
              kR16BF == int(CUDA_R_16BF) && kR8I == int(CUDA_R_8I) && kR32I == int(CUDA_R_32I));
static_assert(kCompute32F == int(CUBLAS_COMPUTE_32F) && kCompute64F == int(CUBLAS_COMPUTE_64F) &&
              kCompute32I == int(CUBLAS_COMPUTE_32I));
static_assert(kComputeTF32 == int(CUBLAS_COMPUTE_32F_FAST_TF32));
static_assert(kOpN == int(CUBLAS_OP_N) && kOpT == int(CUBLAS_OP_T));
static_assert(kDescTransA == int(CUBLASLT_MATMUL_DESC_TRANSA) &&
              kDescTransB == int(CUBLASLT_MATMUL_DESC_TRANSB) &&
              kDescEpilogue == int(CUBLASLT_MATMUL_DESC_EPILOGUE) &&
              kDescBias == int(CUBLASLT_MATMUL_DESC_BIAS_POINTER) &&
              kDescBiasType == int(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE));
static_assert(kLayoutBatchCount == int(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) &&
              kLayoutBatchStride == int(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET));
static_assert(kPrefWorkspace == int(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) &&
              kPrefAlignA == int(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES) &&
              kPrefAlignA + 3 == int(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES));
static_assert(kEpilogueBias == int(CUBLASLT_EPILOGUE_BIAS));
static_assert(sizeof(BlasAlgo) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(BlasHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(BlasHeuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
#endif
#define X(NAME, ARGS) static_assert(SameCall<decltype(&PF_BLAS(NAME)), int(*) ARGS>::value, #NAME);
PF_BLAS_CALLS(X)
#undef X
#endif

#ifdef PF_CHECK_ROCBLAS
static_assert(kRocF16 == int(rocblas_datatype_f16_r) && kRocF32 == int(rocblas_datatype_f32_r) &&
              kRocF64 == int(rocblas_datatype_f64_r) && kRocBF16 == int(rocblas_datatype_bf16_r));
static_assert(kRocAsItIs == int(rocblas_operation_none) &&
              kRocTransposed == int(rocblas_operation_transpose));
static_assert(kRocNotImplemented == int(rocblas_status_not_implemented) &&
              kRocMemoryError == int(rocblas_status_memory_error));
static_assert(rocblas_gemm_algo_standard == 0 && rocblas_gemm_flags_none == 0);
#define X(NAME, ARGS) \
  static_assert(SameCall<decltype(&::rocblas_##NAME), int(*) ARGS>::value, #NAME);
PF_ROCBLAS_CALLS(X)
#undef X
#endif

#ifdef PF_CHECK_MIOPEN
static_assert(kMioHalf == int(miopenHalf) && kMioFloat == int(miopenFloat) &&
              kMioBFloat16 == int(miopenBFloat16));
static_assert(kMioConvolution == int(miopenConvolution) && kMioAdd == int(miopenTensorOpAdd));
static_assert(kMioDeterministic == int(MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC));
static_assert(kMioFft == int(miopenConvolutionAlgoFFT) &&
              kMioWinograd == int(miopenConvolutionAlgoWinograd));
static_assert(sizeof(MiopenSolution) == sizeof(miopenConvSolution_t));
static_assert(offsetof(MiopenSolution, workspace) ==
              offsetof(miopenConvSolution_t, workspace_size));
static_assert(offsetof(MiopenSolution, id) == offsetof(miopenConvSolution_t, solution_id));
static_assert(offsetof(MiopenSolution, algorithm) == offsetof(miopenConvSolution_t, algorithm));
#define X(NAME, ARGS) static_assert(SameCall<decltype(&::miopen##NAME), int(*) ARGS>::value, #NAME);
PF_MIOPEN_CALLS(X)
#undef X
#endif

#ifdef PF_CHECK_CUDNN
#define SAME(OURS, THEIRS) static_assert(OURS == int(THEIRS), #THEIRS);
SAME(kDnnFloat, CUDNN_DATA_FLOAT)
SAME(kDnnDouble, CUDNN_DATA_DOUBLE)
SAME(kDnnHalf, CUDNN_DATA_HALF)
SAME(kDnnBFloat16, CUDNN_DATA_BFLOAT16)
SAME(kDnnCrossCorrelation, CUDNN_CROSS_CORRELATION)
SAME(kDnnHeuristicA, CUDNN_HEUR_MODE_A)
SAME(kDnnHeuristicFallback, CUDNN_HEUR_MODE_FALLBACK)
SAME(kDnnTypeHandle, CUDNN_TYPE_HANDLE)
SAME(kDnnTypeDataType, CUDNN_TYPE_DATA_TYPE)
SAME(kDnnTypeInt64, CUDNN_TYPE_INT64)
SAME(kDnnTypeFloat, CUDNN_TYPE_FLOAT)
SAME(kDnnTypeDouble, CUDNN_TYPE_DOUBLE)
SAME(kDnnTypePointer, CUDNN_TYPE_VOID_PTR)
SAME(kDnnTypeConvolutionMode, CUDNN_TYPE_CONVOLUTION_MODE)
SAME(kDnnTypeHeuristicMode, CUDNN_TYPE_HEUR_MODE)
SAME(kDnnTypeNumericalNote, CUDNN_TYPE_NUMERICAL_NOTE)
SAME(kDnnTypeDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR)
SAME(kDnnConvolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
SAME(kDnnEngine, CUDNN_BACKEND_ENGINE_DESCRIPTOR)
SAME(kDnnEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
SAME(kDnnHeuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
SAME(kDnnPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
SAME(kDnnForward, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
SAME(kDnnBackwardFilter, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
SAME(kDnnBackwardData, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
SAME(kDnnGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
SAME(kDnnVariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
SAME(kDnnTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR)
SAME(kDnnConvolutionComputeType, CUDNN_ATTR_CONVOLUTION_COMP_TYPE)
SAME(kDnnConvolutionMode, CUDNN_ATTR_CONVOLUTION_CONV_MODE)
SAME(kDnnConvolutionDilations, CUDNN_ATTR_CONVOLUTION_DILATIONS)
SAME(kDnnConvolutionStrides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)
SAME(kDnnConvolutionPostPaddings, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)
SAME(kDnnConvolutionPrePaddings, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)
SAME(kDnnConvolutionSpace, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS)
SAME(kDnnHeuristicMode, CUDNN_ATTR_ENGINEHEUR_MODE)
SAME(kDnnHeuristicGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
SAME(kDnnHeuristicResults, CUDNN_ATTR_ENGINEHEUR_RESULTS)
SAME(kDnnConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE)
SAME(kDnnPlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
SAME(kDnnPlanConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
SAME(kDnnPlanWorkspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
SAME(kDnnForwardAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA)
SAME(kDnnForwardAlpha + 1, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA)
SAME(kDnnForwardAlpha + 2, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC)
SAME(kDnnForwardAlpha + 3, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W)
SAME(kDnnForwardAlpha + 4, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X)
SAME(kDnnForwardAlpha + 5, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y)
SAME(kDnnDataAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA)
SAME(kDnnDataAlpha + 1, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA)
SAME(kDnnDataAlpha + 2, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC)
SAME(kDnnDataAlpha + 3, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W)
SAME(kDnnDataAlpha + 4, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX)
SAME(kDnnDataAlpha + 5, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY)
SAME(kDnnFilterAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA)
SAME(kDnnFilterAlpha + 1, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA)
SAME(kDnnFilterAlpha + 2, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC)
SAME(kDnnFilterAlpha + 3, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW)
SAME(kDnnFilterAlpha + 4, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X)
SAME(kDnnFilterAlpha + 5, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY)
SAME(kDnnGraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
SAME(kDnnGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS)
SAME(kDnnTensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
SAME(kDnnTensorDataType, CUDNN_ATTR_TENSOR_DATA_TYPE)
SAME(kDnnTensorSizes, CUDNN_ATTR_TENSOR_DIMENSIONS)
SAME(kDnnTensorStrides, CUDNN_ATTR_TENSOR_STRIDES)
SAME(kDnnTensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID)
SAME(kDnnPackIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)
SAME(kDnnPackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)
SAME(kDnnPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
SAME(kDnnEngineNotes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)
SAME(kDnnNoteTensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE)
SAME(kDnnNoteDownConvert, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)
SAME(kDnnNoteStrictNan, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP)
#undef SAME
#define X(NAME, ARGS) static_assert(SameCall<decltype(&::cudnn##NAME), int(*) ARGS>::value, #NAME);
PF_CUDNN_CALLS(X)
#undef X
#endif

}  // namespace
}  // namespace pyflame::gpu
