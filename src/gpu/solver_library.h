// The calls and numbers of cuSOLVER and hipSOLVER that we use, and of cuBLAS and hipBLAS what they
// lack. The two agree but for names and values; check_headers_*.cpp compares them with the real
// headers where those are installed. Matrices lie by columns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/runtime.h"

namespace pyflame::gpu {

enum : int {
  kSolverLower = PF_RT(122, 0),
  kSolverUpper = PF_RT(121, 1),
  kSolverPlain = PF_RT(111, 0),
  kSolverTransposed = PF_RT(112, 1),
  kSolverAdjoint = PF_RT(113, 2),
  kSolverLeft = PF_RT(141, 0),
  kSolverRight = PF_RT(142, 1),
  kSolverUnit = PF_RT(132, 1),
  kSolverNotUnit = PF_RT(131, 0),
  kSolverValues = PF_RT(201, 0),  // of eigenvalues: without vectors
  kSolverVectors = PF_RT(202, 1),
};

// Each for float32, float64 and complex numbers of these: X(ours, theirs of each, arguments).
#define PF_SOLVER_NAMES(X, OURS, NAME, ARGS) X(OURS, S##NAME, D##NAME, C##NAME, Z##NAME, ARGS)
#define PF_SOLVER_SAME(X, OURS, NAME, ARGS) PF_SOLVER_NAMES(X, OURS, NAME, ARGS)
#define PF_SOLVER_APART(X, OURS, REAL, COMPLEX, ARGS) \
  X(OURS, S##REAL, D##REAL, C##COMPLEX, Z##COMPLEX, ARGS)
#define PF_SOLVER_ROUTINES(X)                                                                      \
  PF_SOLVER_SAME(X, potrf_size, potrf_bufferSize,                                                  \
                 (void* handle, int uplo, int n, void* a, int lda, int* elements))                 \
  PF_SOLVER_SAME(                                                                                  \
      X, potrf, potrf,                                                                             \
      (void* handle, int uplo, int n, void* a, int lda, void* work, int elements, int* info))      \
  PF_SOLVER_SAME(X, potrf_batched, potrfBatched,                                                   \
                 (void* handle, int uplo, int n, void** a, int lda, int* info, int batch))         \
  PF_SOLVER_SAME(X, getrf_size, getrf_bufferSize,                                                  \
                 (void* handle, int m, int n, void* a, int lda, int* elements))                    \
  PF_SOLVER_SAME(                                                                                  \
      X, getrf, getrf,                                                                             \
      (void* handle, int m, int n, void* a, int lda, void* work, int* pivots, int* info))          \
  PF_SOLVER_SAME(X, geqrf_size, geqrf_bufferSize,                                                  \
                 (void* handle, int m, int n, void* a, int lda, int* elements))                    \
  PF_SOLVER_SAME(X, geqrf, geqrf,                                                                  \
                 (void* handle, int m, int n, void* a, int lda, void* tau, void* work,             \
                  int elements, int* info))                                                        \
  PF_SOLVER_APART(                                                                                 \
      X, orgqr_size, orgqr_bufferSize, ungqr_bufferSize,                                           \
      (void* handle, int m, int n, int k, const void* a, int lda, const void* tau, int* elements)) \
  PF_SOLVER_APART(X, orgqr, orgqr, ungqr,                                                          \
                  (void* handle, int m, int n, int k, void* a, int lda, const void* tau,           \
                   void* work, int elements, int* info))                                           \
  PF_SOLVER_APART(X, ormqr_size, ormqr_bufferSize, unmqr_bufferSize,                               \
                  (void* handle, int side, int op, int m, int n, int k, const void* a, int lda,    \
                   const void* tau, const void* c, int ldc, int* elements))                        \
  PF_SOLVER_APART(X, ormqr, ormqr, unmqr,                                                          \
                  (void* handle, int side, int op, int m, int n, int k, const void* a, int lda,    \
                   const void* tau, void* c, int ldc, void* work, int elements, int* info))        \
  PF_SOLVER_APART(X, syevd_size, syevd_bufferSize, heevd_bufferSize,                               \
                  (void* handle, int job, int uplo, int n, const void* a, int lda, const void* w,  \
                   int* elements))                                                                 \
  PF_SOLVER_APART(X, syevd, syevd, heevd,                                                          \
                  (void* handle, int job, int uplo, int n, void* a, int lda, void* w, void* work,  \
                   int elements, int* info))                                                       \
  PF_SOLVER_APART(X, syevj_batched_size, syevjBatched_bufferSize, heevjBatched_bufferSize,         \
                  (void* handle, int job, int uplo, int n, const void* a, int lda, const void* w,  \
                   int* elements, void* how, int batch))                                           \
  PF_SOLVER_APART(X, syevj_batched, syevjBatched, heevjBatched,                                    \
                  (void* handle, int job, int uplo, int n, void* a, int lda, void* w, void* work,  \
                   int elements, int* info, void* how, int batch))                                 \
  PF_SOLVER_SAME(                                                                                  \
      X, gesvdj_batched_size, gesvdjBatched_bufferSize,                                            \
      (void* handle, int job, int m, int n, const void* a, int lda, const void* s, const void* u,  \
       int ldu, const void* v, int ldv, int* elements, void* how, int batch))                      \
  PF_SOLVER_SAME(                                                                                  \
      X, gesvdj_batched, gesvdjBatched,                                                            \
      (void* handle, int job, int m, int n, void* a, int lda, void* s, void* u, int ldu, void* v,  \
       int ldv, void* work, int elements, int* info, void* how, int batch))                        \
  PF_SOLVER_SAME(                                                                                  \
      X, gesvdj_size, gesvdj_bufferSize,                                                           \
      (void* handle, int job, int few, int m, int n, const void* a, int lda, const void* s,        \
       const void* u, int ldu, const void* v, int ldv, int* elements, void* how))                  \
  PF_SOLVER_SAME(                                                                                  \
      X, gesvdj, gesvdj,                                                                           \
      (void* handle, int job, int few, int m, int n, void* a, int lda, void* s, void* u, int ldu,  \
       void* v, int ldv, void* work, int elements, int* info, void* how))

#define PF_SOLVER_CALLS(X)                \
  X(Create, (void** handle))              \
  X(SetStream, (void* handle, hipStream)) \
  X(CreateSyevjInfo, (void** how))        \
  X(CreateGesvdjInfo, (void** how))

// Of cuBLAS and hipBLAS, which have the batches.
#define PF_SOLVER_BLAS_ROUTINES(X)                                                     \
  PF_SOLVER_SAME(X, trsm, PF_RT(trsm, trsm_v2),                                        \
                 (void* handle, int side, int uplo, int op, int unit, int m, int n,    \
                  const void* alpha, const void* a, int lda, void* b, int ldb))        \
  PF_SOLVER_SAME(X, trsm_batched, trsmBatched,                                         \
                 (void* handle, int side, int uplo, int op, int unit, int m, int n,    \
                  const void* alpha, void** a, int lda, void** b, int ldb, int batch)) \
  PF_SOLVER_SAME(X, getrf_batched, getrfBatched,                                       \
                 (void* handle, int n, void** a, int lda, int* pivots, int* info, int batch))

#define PF_SOLVER_ONE(X, OURS, NAME, ARGS) X(OURS, NAME, ARGS)
#define PF_SOLVER_BLAS_CALLS(X)                                       \
  PF_SOLVER_ONE(X, Create, PF_RT(Create, Create_v2), (void** handle)) \
  PF_SOLVER_ONE(X, SetStream, PF_RT(SetStream, SetStream_v2), (void* handle, hipStream))

}  // namespace pyflame::gpu
