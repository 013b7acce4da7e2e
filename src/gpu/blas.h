// The calls and numbers of hipBLASLt and cuBLASLt that we use. The two agree but for names and
// values; check_headers.cpp compares them with the real headers where those are installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/runtime.h"

namespace pyflame::gpu {

using BlasHandle = void*;
using BlasDesc = void*;
using BlasLayout = void*;
using BlasPreference = void*;

#ifdef PF_GPU_ROCM
struct BlasAlgo {
  uint8_t data[16];
  size_t max_workspace;
};
enum : int {
  kR32F = 0,
  kR64F = 1,
  kR16F = 2,
  kR16BF = 14,
  kR8I = 3,
  kR32I = 10,
  kCompute32F = 2,
  kComputeTF32 = 6,
  kCompute64F = 7,
  kCompute32I = 9,
  kOpN = 111,
  kOpT = 112,
  kDescTransA = 0,
  kDescTransB = 1,
  kDescEpilogue = 2,
  kDescBias = 3,
  kDescBiasType = 4,
  kLayoutBatchCount = 0,
  kLayoutBatchStride = 1,
  kPrefWorkspace = 1,
  kEpilogueBias = 4,
};
#else
struct BlasAlgo {
  uint64_t data[8];
};
enum : int {
  kR32F = 0,
  kR64F = 1,
  kR16F = 2,
  kR16BF = 14,
  kR8I = 3,
  kR32I = 10,
  kCompute32F = 68,
  kComputeTF32 = 77,
  kCompute64F = 70,
  kCompute32I = 72,
  kOpN = 0,
  kOpT = 1,
  kDescTransA = 3,
  kDescTransB = 4,
  kDescEpilogue = 7,
  kDescBias = 8,
  kDescBiasType = 26,
  kLayoutBatchCount = 5,
  kLayoutBatchStride = 6,
  kPrefWorkspace = 1,
  kPrefAlignA = 5,  // A, B, C, D follow each other
  kEpilogueBias = 4,
};
#endif
struct BlasHeuristic {
  BlasAlgo algo;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

#define PF_BLAS_CALLS(X)                                                                           \
  X(Create, (BlasHandle*))                                                                         \
  X(MatmulDescCreate, (BlasDesc*, int compute, int scale))                                         \
  X(MatmulDescDestroy, (BlasDesc))                                                                 \
  X(MatmulDescSetAttribute, (BlasDesc, int attribute, const void* value, size_t bytes))            \
  X(MatrixLayoutCreate, (BlasLayout*, int type, uint64_t rows, uint64_t cols, int64_t ld))         \
  X(MatrixLayoutDestroy, (BlasLayout))                                                             \
  X(MatrixLayoutSetAttribute, (BlasLayout, int attribute, const void* value, size_t bytes))        \
  X(MatmulPreferenceCreate, (BlasPreference*))                                                     \
  X(MatmulPreferenceDestroy, (BlasPreference))                                                     \
  X(MatmulPreferenceSetAttribute,                                                                  \
    (BlasPreference, int attribute, const void* value, size_t bytes))                              \
  X(MatmulAlgoGetHeuristic,                                                                        \
    (BlasHandle, BlasDesc, BlasLayout a, BlasLayout b, BlasLayout c, BlasLayout d, BlasPreference, \
     int wanted, BlasHeuristic* found, int* count))                                                \
  X(Matmul, (BlasHandle, BlasDesc, const void* alpha, const void* a, BlasLayout, const void* b,    \
             BlasLayout, const void* beta, const void* c, BlasLayout, void* d, BlasLayout,         \
             const BlasAlgo*, void* workspace, size_t bytes, hipStream))

#ifdef PF_GPU_ROCM
// ---- rocBLAS -----------------------------------------------------------------------------------
enum : int {
  kRocF16 = 150,
  kRocF32 = 151,
  kRocF64 = 152,
  kRocBF16 = 168,
  kRocAsItIs = 111,
  kRocTransposed = 112,
  kRocNotImplemented = 2,
  kRocMemoryError = 5,
};
#define PF_ROCBLAS_CALLS(X)                                                                        \
  X(create_handle, (void** handle))                                                                \
  X(set_stream, (void* handle, hipStream))                                                         \
  X(set_workspace, (void* handle, void* memory, size_t bytes))                                     \
  X(gemm_strided_batched_ex,                                                                       \
    (void* handle, int trans_a, int trans_b, int m, int n, int k, const void* alpha,               \
     const void* a, int a_type, int lda, int64_t stride_a, const void* b, int b_type, int ldb,     \
     int64_t stride_b, const void* beta, const void* c, int c_type, int ldc, int64_t stride_c,     \
     void* d, int d_type, int ldd, int64_t stride_d, int batches, int compute_type, int algorithm, \
     int32_t solution, uint32_t flags))
#endif

}  // namespace pyflame::gpu
