// What AMD's and NVIDIA's run-time compilers know without an include, as far as the tests' user
// kernels need it: for the stand-in (PF_HOST) and for clang without ROCm's headers. Included by
// kernels/user.h after prelude.h.
#ifndef PF_BUILTINS_H
#define PF_BUILTINS_H

#if defined(PF_HOST)
#include <math.h>
#include <stdio.h>
#define __device__
#define __host__
#define __global__
#define __constant__ static const
#define __shared__ static __attribute__((section("pf_lds"), aligned(16)))
#define __launch_bounds__(...)
#define PF_BUILTIN static inline
#else
#define __host__ __attribute__((host))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define PF_BUILTIN static inline __device__ __attribute__((always_inline))
typedef __SIZE_TYPE__ size_t;
#endif
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(N) __attribute__((aligned(N)))

// ---- vectors and indices -----------------------------------------------------------------------
#define PF_VECTORS(TYPE, NAME, A2, A4)                                \
  struct NAME##1 {                                                    \
    TYPE x;                                                           \
  };                                                                  \
  struct A2 NAME##2 {                                                 \
    TYPE x, y;                                                        \
  };                                                                  \
  struct NAME##3 {                                                    \
    TYPE x, y, z;                                                     \
  };                                                                  \
  struct A4 NAME##4 {                                                 \
    TYPE x, y, z, w;                                                  \
  };                                                                  \
  PF_BUILTIN NAME##2 make_##NAME##2(TYPE x, TYPE y) {                 \
    return {x, y};                                                    \
  }                                                                   \
  PF_BUILTIN NAME##3 make_##NAME##3(TYPE x, TYPE y, TYPE z) {         \
    return {x, y, z};                                                 \
  }                                                                   \
  PF_BUILTIN NAME##4 make_##NAME##4(TYPE x, TYPE y, TYPE z, TYPE w) { \
    return {x, y, z, w};                                              \
  }
PF_VECTORS(float, float, alignas(8), alignas(16))
PF_VECTORS(double, double, alignas(16), alignas(16))
PF_VECTORS(int, int, alignas(8), alignas(16))
PF_VECTORS(unsigned int, uint, alignas(8), alignas(16))
PF_VECTORS(unsigned char, uchar, alignas(2), alignas(4))

struct dim3 {
  unsigned x, y, z;
};
#if defined(PF_HOST)
PF_BUILTIN uint3 pf_three(unsigned i, const unsigned* sizes) {
  return {i % sizes[0], i / sizes[0] % sizes[1], i / sizes[0] / sizes[1]};
}
#define threadIdx pf_three(pf_shim->thread, pf_shim->block_size)
#define blockIdx pf_three(pf_shim->block, pf_shim->grid_size)
#define blockDim (dim3{pf_shim->block_size[0], pf_shim->block_size[1], pf_shim->block_size[2]})
#define gridDim (dim3{pf_shim->grid_size[0], pf_shim->grid_size[1], pf_shim->grid_size[2]})
#else
#define threadIdx                                                            \
  (uint3{__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), \
         __builtin_amdgcn_workitem_id_z()})
#define blockIdx                                                               \
  (uint3{__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), \
         __builtin_amdgcn_workgroup_id_z()})
#define blockDim                                                                  \
  (dim3{__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(), \
        __builtin_amdgcn_workgroup_size_z()})
#define gridDim                                                                                   \
  (dim3{__builtin_amdgcn_grid_size_x() / blockDim.x, __builtin_amdgcn_grid_size_y() / blockDim.y, \
        __builtin_amdgcn_grid_size_z() / blockDim.z})
#endif

// ---- barriers and atomics ----------------------------------------------------------------------
#define __syncthreads() pf_barrier()
#define __threadfence() pf_fence()
#define __threadfence_block() pf_fence()
template <class T>
PF_BUILTIN T atomicAdd(T* p, T v) {
  return pf_atomic_add(p, v);
}
PF_BUILTIN float atomicAdd(float* p, float v) {
  return pf_atomic_add(p, v);
}
PF_BUILTIN double atomicAdd(double* p, double v) {
  return pf_atomic_add(p, v);
}
PF_BUILTIN unsigned atomicAdd(unsigned* p, unsigned v) {
  return pf_atomic_add(p, v);
}
PF_BUILTIN unsigned long long atomicAdd(unsigned long long* p, unsigned long long v) {
  return pf_atomic_add(p, v);
}
template <class T>
PF_BUILTIN T atomicMax(T* p, T v) {
  return pf_atomic_max(p, v);
}
template <class T>
PF_BUILTIN T atomicMin(T* p, T v) {
  return pf_atomic_min(p, v);
}
template <class T>
PF_BUILTIN T atomicCAS(T* p, T expected, T v) {
  return pf_atomic_cas(p, expected, v);
}
template <class T>
PF_BUILTIN T atomicExch(T* p, T v) {
  return pf_atomic_exchange(p, v);
}
#define unsafeAtomicAdd(P, V) atomicAdd(P, V)

// ---- arithmetic --------------------------------------------------------------------------------
template <class T>
PF_BUILTIN T max(T a, T b) {
  return a > b ? a : b;
}
template <class T>
PF_BUILTIN T min(T a, T b) {
  return a < b ? a : b;
}
template <class T>
PF_BUILTIN T __ldg(const T* p) {
  return *p;
}
PF_BUILTIN int __float_as_int(float x) {
  return pf_bits<int>(x);
}
PF_BUILTIN float __int_as_float(int x) {
  return pf_bits<float>(x);
}
PF_BUILTIN int __popc(unsigned x) {
  return __builtin_popcount(x);
}
PF_BUILTIN int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
PF_BUILTIN int __ffs(int x) {
  return __builtin_ffs(x);
}
#if !defined(PF_HOST)
PF_BUILTIN float expf(float x) {
  return __builtin_expf(x);
}
PF_BUILTIN float logf(float x) {
  return __builtin_logf(x);
}
PF_BUILTIN float sqrtf(float x) {
  return __builtin_sqrtf(x);
}
PF_BUILTIN float fabsf(float x) {
  return __builtin_fabsf(x);
}
PF_BUILTIN float fmaxf(float a, float b) {
  return __builtin_fmaxf(a, b);
}
PF_BUILTIN float fminf(float a, float b) {
  return __builtin_fminf(a, b);
}
PF_BUILTIN float fmaf(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
#endif
#define __expf(X) expf(X)
#define __fdividef(A, B) ((A) / (B))
#define rsqrtf(X) (1.0f / sqrtf(X))

#endif
