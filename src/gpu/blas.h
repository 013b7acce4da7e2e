// The calls and numbers of hipBLASLt and cuBLASLt that we use. The two agree but for names and
// values; check_headers_*.cpp compares them with the real headers where those are installed.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef PF_GPU_ROCM
#include "gpu/hipblaslt.h"
#else
#include "gpu/cublaslt.h"
#endif
#include "gpu/runtime.h"

namespace pyflame::gpu {

using BlasHandle = void*;
using BlasDesc = void*;
using BlasLayout = void*;
using BlasPreference = void*;

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

}  // namespace pyflame::gpu
