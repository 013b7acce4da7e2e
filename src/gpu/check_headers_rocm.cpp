// Compares what we say of AMD's libraries with their own headers (check_headers.h).
#include "gpu/blas.h"
#include "gpu/fft_library.h"
#include "gpu/miopen.h"
#include "gpu/rocblas.h"
#include "gpu/solver_library.h"

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
#if __has_include(<hipfft/hipfft.h>)
#include <hipfft/hipfft.h>
#define PF_CHECK_FFT 1
#endif
#if __has_include(<hipsolver/hipsolver.h>) && __has_include(<hipblas/hipblas.h>)
#include <hipblas/hipblas.h>
#include <hipsolver/hipsolver.h>
#define PF_CHECK_SOLVER 1
#endif

#include "gpu/check_headers.h"

namespace pyflame::gpu {
namespace {

#define X(NAME, REAL) \
  static_assert(SameCall<decltype(Runtime::NAME), decltype(&::REAL)>::value, #REAL);
X(SetDevice, hipSetDevice)
X(GetDeviceProperties, hipGetDeviceProperties)
X(DeviceEnablePeerAccess, hipDeviceEnablePeerAccess)
#undef X

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

#ifdef PF_CHECK_BLAS
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
static_assert(kDescScaleA == int(HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER) &&
              kDescScaleB == int(HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER));
#if HIP_VERSION_MAJOR >= 7
static_assert(kR8E4M3 == int(HIP_R_8F_E4M3) && kR8E5M2 == int(HIP_R_8F_E5M2));
static_assert(kDescScaleModeA == int(HIPBLASLT_MATMUL_DESC_A_SCALE_MODE) &&
              kDescScaleModeB == int(HIPBLASLT_MATMUL_DESC_B_SCALE_MODE) &&
              kScaleOuter == int(HIPBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F));
#endif
static_assert(sizeof(BlasAlgo) == sizeof(hipblasLtMatmulAlgo_t));
static_assert(sizeof(BlasHeuristic) == sizeof(hipblasLtMatmulHeuristicResult_t));
static_assert(offsetof(BlasHeuristic, state) == offsetof(hipblasLtMatmulHeuristicResult_t, state));
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

#ifdef PF_CHECK_FFT
static_assert(kFftC2C == int(HIPFFT_C2C) && kFftR2C == int(HIPFFT_R2C) &&
              kFftC2R == int(HIPFFT_C2R));
static_assert(kFftZ2Z == int(HIPFFT_Z2Z) && kFftD2Z == int(HIPFFT_D2Z) &&
              kFftZ2D == int(HIPFFT_Z2D));
static_assert(kFftForward == HIPFFT_FORWARD && kFftBackward == HIPFFT_BACKWARD);
#define X(NAME, ARGS) static_assert(SameCall<decltype(&::hipfft##NAME), int(*) ARGS>::value, #NAME);
PF_FFT_CALLS(X)
#undef X
#endif

#ifdef PF_CHECK_SOLVER
static_assert(kSolverLower == int(HIPBLAS_FILL_MODE_LOWER) &&
              kSolverUpper == int(HIPBLAS_FILL_MODE_UPPER));
static_assert(kSolverPlain == int(HIPBLAS_OP_N) && kSolverTransposed == int(HIPBLAS_OP_T) &&
              kSolverAdjoint == int(HIPBLAS_OP_C));
static_assert(kSolverLeft == int(HIPBLAS_SIDE_LEFT) && kSolverRight == int(HIPBLAS_SIDE_RIGHT));
static_assert(kSolverUnit == int(HIPBLAS_DIAG_UNIT) &&
              kSolverNotUnit == int(HIPBLAS_DIAG_NON_UNIT));
static_assert(kSolverValues == int(HIPSOLVER_EIG_MODE_NOVECTOR) &&
              kSolverVectors == int(HIPSOLVER_EIG_MODE_VECTOR));
#define X(OURS, S, D, C, Z, ARGS)                                               \
  static_assert(SameCall<decltype(&::hipsolverDn##S), int(*) ARGS>::value, #S); \
  static_assert(SameCall<decltype(&::hipsolverDn##D), int(*) ARGS>::value, #D); \
  static_assert(SameCall<decltype(&::hipsolverDn##C), int(*) ARGS>::value, #C); \
  static_assert(SameCall<decltype(&::hipsolverDn##Z), int(*) ARGS>::value, #Z);
PF_SOLVER_ROUTINES(X)
#undef X
#define X(NAME, ARGS) \
  static_assert(SameCall<decltype(&::hipsolverDn##NAME), int(*) ARGS>::value, #NAME);
PF_SOLVER_CALLS(X)
#undef X
#define X(OURS, S, D, C, Z, ARGS)                                           \
  static_assert(SameCall<decltype(&::hipblas##S), int(*) ARGS>::value, #S); \
  static_assert(SameCall<decltype(&::hipblas##D), int(*) ARGS>::value, #D); \
  static_assert(SameCall<decltype(&::hipblas##C), int(*) ARGS>::value, #C); \
  static_assert(SameCall<decltype(&::hipblas##Z), int(*) ARGS>::value, #Z);
PF_SOLVER_BLAS_ROUTINES(X)
#undef X
#define X(OURS, NAME, ARGS) \
  static_assert(SameCall<decltype(&::hipblas##NAME), int(*) ARGS>::value, #NAME);
PF_SOLVER_BLAS_CALLS(X)
#undef X
#endif

}  // namespace
}  // namespace pyflame::gpu
