// Compares what we say of NVIDIA's libraries with their own headers (check_headers.h).
#include "gpu/blas.h"
#include "gpu/cudnn.h"
#include "gpu/fft_library.h"
#include "gpu/solver_library.h"

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
#if __has_include(<cufft.h>)
#include <cufft.h>
#define PF_CHECK_FFT 1
#endif
#if __has_include(<cusolverDn.h>) && __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#include <cusolverDn.h>
#define PF_CHECK_SOLVER 1
#endif

#include "gpu/check_headers.h"
#include "kernels/tensor_map_args.h"

namespace pyflame::gpu {
namespace {

#define X(NAME, REAL) \
  static_assert(SameCall<decltype(Runtime::NAME), decltype(&::REAL)>::value, #REAL);
X(DeviceGetAttribute, cuDeviceGetAttribute)
X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)
X(CtxSetCurrent, cuCtxSetCurrent)
X(CtxEnablePeerAccess, cuCtxEnablePeerAccess)
X(LaunchKernelEx, cuLaunchKernelEx)
X(GraphAddDependencies, cuGraphAddDependencies)
X(TensorMapEncodeTiled, cuTensorMapEncodeTiled)
X(TensorMapEncodeIm2col, cuTensorMapEncodeIm2col)
#undef X

static_assert(kMaxThreadsPerBlock == static_cast<int>(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
static_assert(kWarpSize == static_cast<int>(CU_DEVICE_ATTRIBUTE_WARP_SIZE));
static_assert(kMultiprocessorCount == static_cast<int>(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(kMemoryBusWidth == static_cast<int>(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH));
static_assert(kCapabilityMajor == static_cast<int>(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(kCapabilityMinor == static_cast<int>(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(kMaxSharedOptin ==
              static_cast<int>(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
static_assert(kFuncMaxDynamicShared ==
              static_cast<int>(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));

static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute) &&
              offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value) &&
              sizeof(LaunchConfig) == sizeof(CUlaunchConfig) &&
              offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream) &&
              offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs) &&
              offsetof(LaunchConfig, count) == offsetof(CUlaunchConfig, numAttrs) &&
              sizeof(EdgeData) == sizeof(CUgraphEdgeData) &&
              offsetof(EdgeData, type) == offsetof(CUgraphEdgeData, type) &&
              kLaunchProgrammatic == int(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) &&
              kPortProgrammatic == int(CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC) &&
              kEdgeProgrammatic == int(CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC));

static_assert(sizeof(pf_tensor_map) == sizeof(CUtensorMap) &&
              alignof(pf_tensor_map) == alignof(CUtensorMap));
static_assert(kMapUInt8 == int(CU_TENSOR_MAP_DATA_TYPE_UINT8) &&
              kMapUInt16 == int(CU_TENSOR_MAP_DATA_TYPE_UINT16) &&
              kMapUInt32 == int(CU_TENSOR_MAP_DATA_TYPE_UINT32) &&
              kMapTF32 == int(CU_TENSOR_MAP_DATA_TYPE_TFLOAT32) &&
              kMapSwizzle32 == int(CU_TENSOR_MAP_SWIZZLE_32B) &&
              kMapSwizzle64 == int(CU_TENSOR_MAP_SWIZZLE_64B) &&
              kMapSwizzle128 == int(CU_TENSOR_MAP_SWIZZLE_128B));
static_assert(kMapPlain == int(CU_TENSOR_MAP_INTERLEAVE_NONE) &&
              kMapPlain == int(CU_TENSOR_MAP_SWIZZLE_NONE) &&
              kMapPlain == int(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) &&
              kMapFetch256 == int(CU_TENSOR_MAP_L2_PROMOTION_L2_256B));

#ifdef PF_CHECK_BLAS
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
static_assert(kR8E4M3 == int(CUDA_R_8F_E4M3) && kR8E5M2 == int(CUDA_R_8F_E5M2));
static_assert(kDescScaleA == int(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER) &&
              kDescScaleB == int(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER) &&
              kDescFastSums == int(CUBLASLT_MATMUL_DESC_FAST_ACCUM));
#if CUBLAS_VER_MAJOR >= 13
static_assert(kDescScaleModeA == int(CUBLASLT_MATMUL_DESC_A_SCALE_MODE) &&
              kDescScaleModeB == int(CUBLASLT_MATMUL_DESC_B_SCALE_MODE) &&
              kScaleOuter == int(CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F));
#endif
static_assert(sizeof(BlasAlgo) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(BlasHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(BlasHeuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
#define X(NAME, ARGS) static_assert(SameCall<decltype(&PF_BLAS(NAME)), int(*) ARGS>::value, #NAME);
PF_BLAS_CALLS(X)
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
SAME(kDnnInt32, CUDNN_DATA_INT32)
SAME(kDnnBoolean, CUDNN_DATA_BOOLEAN)
SAME(kDnnTypeBoolean, CUDNN_TYPE_BOOLEAN)
SAME(kDnnTypePointwiseMode, CUDNN_TYPE_POINTWISE_MODE)
SAME(kDnnTypeReductionOperator, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE)
SAME(kDnnPointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
SAME(kDnnPointwiseOp, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
SAME(kDnnMatmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR)
SAME(kDnnMatmulOp, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
SAME(kDnnReduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
SAME(kDnnReductionOp, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
SAME(kDnnReshapeOp, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
SAME(kDnnPointwiseMode, CUDNN_ATTR_POINTWISE_MODE)
SAME(kDnnPointwiseComputeType, CUDNN_ATTR_POINTWISE_MATH_PREC)
SAME(kDnnPointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS)
SAME(kDnnOpPointwise, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
SAME(kDnnOpPointwiseX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC)
SAME(kDnnOpPointwiseB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC)
SAME(kDnnOpPointwiseY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC)
SAME(kDnnOpPointwiseT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC)
SAME(kDnnTensorVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL)
SAME(kDnnTensorByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE)
SAME(kDnnMatmulComputeType, CUDNN_ATTR_MATMUL_COMP_TYPE)
SAME(kDnnOpMatmulA, CUDNN_ATTR_OPERATION_MATMUL_ADESC)
SAME(kDnnOpMatmulB, CUDNN_ATTR_OPERATION_MATMUL_BDESC)
SAME(kDnnOpMatmulC, CUDNN_ATTR_OPERATION_MATMUL_CDESC)
SAME(kDnnOpMatmul, CUDNN_ATTR_OPERATION_MATMUL_DESC)
SAME(kDnnReductionOperator, CUDNN_ATTR_REDUCTION_OPERATOR)
SAME(kDnnReductionComputeType, CUDNN_ATTR_REDUCTION_COMP_TYPE)
SAME(kDnnOpReductionX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC)
SAME(kDnnOpReductionY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC)
SAME(kDnnOpReduction, CUDNN_ATTR_OPERATION_REDUCTION_DESC)
SAME(kDnnOpReshapeX, CUDNN_ATTR_OPERATION_RESHAPE_XDESC)
SAME(kDnnOpReshapeY, CUDNN_ATTR_OPERATION_RESHAPE_YDESC)
SAME(kDnnAdd, CUDNN_POINTWISE_ADD)
SAME(kDnnMul, CUDNN_POINTWISE_MUL)
SAME(kDnnDiv, CUDNN_POINTWISE_DIV)
SAME(kDnnSub, CUDNN_POINTWISE_SUB)
SAME(kDnnExp, CUDNN_POINTWISE_EXP)
SAME(kDnnLog, CUDNN_POINTWISE_LOG)
SAME(kDnnIdentity, CUDNN_POINTWISE_IDENTITY)
SAME(kDnnGreaterEqual, CUDNN_POINTWISE_CMP_GE)
SAME(kDnnIndex, CUDNN_POINTWISE_GEN_INDEX)
SAME(kDnnSelect, CUDNN_POINTWISE_BINARY_SELECT)
SAME(kDnnSum, CUDNN_REDUCE_TENSOR_ADD)
SAME(kDnnMax, CUDNN_REDUCE_TENSOR_MAX)
SAME(kDnnNoteOtherEachTime, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
#undef SAME
#define X(NAME, ARGS) static_assert(SameCall<decltype(&::cudnn##NAME), int(*) ARGS>::value, #NAME);
PF_CUDNN_CALLS(X)
#undef X
#endif

#ifdef PF_CHECK_FFT
static_assert(kFftC2C == int(CUFFT_C2C) && kFftR2C == int(CUFFT_R2C) && kFftC2R == int(CUFFT_C2R));
static_assert(kFftZ2Z == int(CUFFT_Z2Z) && kFftD2Z == int(CUFFT_D2Z) && kFftZ2D == int(CUFFT_Z2D));
static_assert(kFftForward == CUFFT_FORWARD && kFftBackward == CUFFT_INVERSE);
#define X(NAME, ARGS) static_assert(SameCall<decltype(&::cufft##NAME), int(*) ARGS>::value, #NAME);
PF_FFT_CALLS(X)
#undef X
#endif

#ifdef PF_CHECK_SOLVER
static_assert(kSolverLower == int(CUBLAS_FILL_MODE_LOWER) &&
              kSolverUpper == int(CUBLAS_FILL_MODE_UPPER));
static_assert(kSolverPlain == int(CUBLAS_OP_N) && kSolverTransposed == int(CUBLAS_OP_T) &&
              kSolverAdjoint == int(CUBLAS_OP_C));
static_assert(kSolverLeft == int(CUBLAS_SIDE_LEFT) && kSolverRight == int(CUBLAS_SIDE_RIGHT));
static_assert(kSolverUnit == int(CUBLAS_DIAG_UNIT) && kSolverNotUnit == int(CUBLAS_DIAG_NON_UNIT));
static_assert(kSolverValues == int(CUSOLVER_EIG_MODE_NOVECTOR) &&
              kSolverVectors == int(CUSOLVER_EIG_MODE_VECTOR));
#define X(OURS, S, D, C, Z, ARGS)                                              \
  static_assert(SameCall<decltype(&::cusolverDn##S), int(*) ARGS>::value, #S); \
  static_assert(SameCall<decltype(&::cusolverDn##D), int(*) ARGS>::value, #D); \
  static_assert(SameCall<decltype(&::cusolverDn##C), int(*) ARGS>::value, #C); \
  static_assert(SameCall<decltype(&::cusolverDn##Z), int(*) ARGS>::value, #Z);
PF_SOLVER_ROUTINES(X)
#undef X
#define X(NAME, ARGS) \
  static_assert(SameCall<decltype(&::cusolverDn##NAME), int(*) ARGS>::value, #NAME);
PF_SOLVER_CALLS(X)
#undef X
#define X(OURS, S, D, C, Z, ARGS)                                          \
  static_assert(SameCall<decltype(&::cublas##S), int(*) ARGS>::value, #S); \
  static_assert(SameCall<decltype(&::cublas##D), int(*) ARGS>::value, #D); \
  static_assert(SameCall<decltype(&::cublas##C), int(*) ARGS>::value, #C); \
  static_assert(SameCall<decltype(&::cublas##Z), int(*) ARGS>::value, #Z);
PF_SOLVER_BLAS_ROUTINES(X)
#undef X
#define X(OURS, NAME, ARGS) \
  static_assert(SameCall<decltype(&::cublas##NAME), int(*) ARGS>::value, #NAME);
PF_SOLVER_BLAS_CALLS(X)
#undef X
#endif

}  // namespace
}  // namespace pyflame::gpu
