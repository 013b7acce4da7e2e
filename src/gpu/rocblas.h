// The calls and numbers of rocBLAS that we use; check_headers.cpp compares them with the real
// header where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/runtime.h"

namespace pyflame::gpu {

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

}  // namespace pyflame::gpu
