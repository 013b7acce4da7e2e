// What stands before a kernel of the user's (pf.kernel), so that text in either dialect runs on
// either vendor. The vendors' compilers bring threadIdx, atomicAdd, expf, float4 and the like;
// here is what only one of them has, under the other's name, and what their headers would bring.
//
//   -DPF_WARP        the device's warp width
//   -DPF_USER_WARP   the width that the text sees: 32 for text in CUDA's dialect, whose masks,
//                    shuffles and ballots name 32 lanes; a wider warp then holds two such groups
//   -DPF_USER_HALF   the text names 16-bit floats
//
// Vendors' names are macros here, because their own headers may have declared them as functions.
#ifndef PF_USER_H
#define PF_USER_H

#if defined(PF_HOST)  // the stand-in's warps are as wide as an entry says
#undef PF_WARP
#define PF_WARP PF_USER_WARP
#endif
#include "prelude.h"
#if defined(PF_AMD)
#pragma clang fp contract(fast)
#endif
#if !defined(PF_NVIDIA) && !defined(__HIPCC_RTC__)
#include "builtins.h"  // tests: what hipRTC knows without an include (tests/standin/builtins.h)
#endif

#define int8_t pf_i8
#define uint8_t pf_u8
#define int16_t pf_i16
#define uint16_t pf_u16
#define int32_t pf_i32
#define uint32_t pf_u32
#define int64_t pf_i64
#define uint64_t pf_u64
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;

#ifndef INFINITY
#define INFINITY PF_INF
#endif
#ifndef NAN
#define NAN PF_NAN
#endif
#ifndef FLT_MAX
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#endif
#ifndef INT_MAX
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
#define LLONG_MAX 9223372036854775807ll
#define LLONG_MIN (-LLONG_MAX - 1)
#endif
#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif

#undef warpSize
#define warpSize PF_USER_WARP

// ---- names of HIP ------------------------------------------------------------------------------
#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z
#undef HIP_DYNAMIC_SHARED
#if defined(PF_HOST)
#define HIP_DYNAMIC_SHARED(TYPE, NAME) TYPE* NAME = reinterpret_cast<TYPE*>(pf_dynamic_shared());
#else
#define HIP_DYNAMIC_SHARED(TYPE, NAME) extern __shared__ TYPE NAME[];
#endif

#if defined(PF_NVIDIA)
#define __HIP_PLATFORM_NVIDIA__ 1
#define __HIP_DEVICE_COMPILE__ 1
#define __shfl(...) __shfl_sync(0xffffffffu, __VA_ARGS__)
#define __shfl_up(...) __shfl_up_sync(0xffffffffu, __VA_ARGS__)
#define __shfl_down(...) __shfl_down_sync(0xffffffffu, __VA_ARGS__)
#define __shfl_xor(...) __shfl_xor_sync(0xffffffffu, __VA_ARGS__)
#define __ballot(P) static_cast<unsigned long long>(__ballot_sync(0xffffffffu, P))
#define __any(P) __any_sync(0xffffffffu, P)
#define __all(P) __all_sync(0xffffffffu, P)
PF_DEVICE pf_u32 pf_user_lane() {
  pf_u32 lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}
#define __lane_id() pf_user_lane()
#define unsafeAtomicAdd(P, V) atomicAdd(P, V)
#define safeAtomicAdd(P, V) atomicAdd(P, V)
#define atomicAddNoRet(P, V) (void)atomicAdd(P, V)
#define wall_clock64() clock64()
PF_DEVICE float atomicMax(float* p, float v) {  // NaN is never stored
  int old = __float_as_int(*p), seen;
  while (__int_as_float(old) < v &&
         (seen = atomicCAS(reinterpret_cast<int*>(p), old, __float_as_int(v))) != old)
    old = seen;
  return __int_as_float(old);
}
PF_DEVICE float atomicMin(float* p, float v) {
  int old = __float_as_int(*p), seen;
  while (__int_as_float(old) > v &&
         (seen = atomicCAS(reinterpret_cast<int*>(p), old, __float_as_int(v))) != old)
    old = seen;
  return __int_as_float(old);
}

// ---- names of CUDA, and warps as the text sees them --------------------------------------------
#else
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1
#endif
PF_DEVICE pf_u32 pf_user_lane() {
  return pf_lane() & (PF_USER_WARP - 1);
}
// Any type, in words of 32 bits. `from` counts in the device's warp.
template <class T>
PF_DEVICE T pf_user_take(T v, pf_u32 from) {
  constexpr unsigned kWords = (sizeof(T) + 3) / 4;
  pf_u32 words[kWords] = {};
  __builtin_memcpy(words, &v, sizeof(T));
  for (unsigned i = 0; i < kWords; ++i) words[i] = pf_shuffle_word(words[i], from);
  __builtin_memcpy(&v, words, sizeof(T));
  return v;
}
template <class T>
PF_DEVICE T pf_user_shfl(T v, int from, int width = PF_USER_WARP) {
  const pf_u32 w = static_cast<pf_u32>(width) - 1;
  return pf_user_take(v, (pf_lane() & ~w) | (static_cast<pf_u32>(from) & w));
}
template <class T>
PF_DEVICE T pf_user_shfl_up(T v, unsigned by, int width = PF_USER_WARP) {
  const pf_u32 lane = pf_lane(), w = static_cast<pf_u32>(width) - 1;
  return pf_user_take(v, (lane & w) < by ? lane : lane - by);
}
template <class T>
PF_DEVICE T pf_user_shfl_down(T v, unsigned by, int width = PF_USER_WARP) {
  const pf_u32 lane = pf_lane(), w = static_cast<pf_u32>(width) - 1;
  return pf_user_take(v, (lane & w) + by > w ? lane : lane + by);
}
template <class T>
PF_DEVICE T pf_user_shfl_xor(T v, int mask, int width = PF_USER_WARP) {
  const pf_u32 lane = pf_lane(), to = lane ^ static_cast<pf_u32>(mask);
  return pf_user_take(v, to > (lane | (static_cast<pf_u32>(width) - 1)) ? lane : to);
}
#undef __shfl
#undef __shfl_up
#undef __shfl_down
#undef __shfl_xor
#define __shfl(...) pf_user_shfl(__VA_ARGS__)
#define __shfl_up(...) pf_user_shfl_up(__VA_ARGS__)
#define __shfl_down(...) pf_user_shfl_down(__VA_ARGS__)
#define __shfl_xor(...) pf_user_shfl_xor(__VA_ARGS__)
#define __shfl_sync(MASK, ...) pf_user_shfl(__VA_ARGS__)
#define __shfl_up_sync(MASK, ...) pf_user_shfl_up(__VA_ARGS__)
#define __shfl_down_sync(MASK, ...) pf_user_shfl_down(__VA_ARGS__)
#define __shfl_xor_sync(MASK, ...) pf_user_shfl_xor(__VA_ARGS__)

// Bit i is lane i of the group that this thread is in.
#if PF_USER_WARP == PF_WARP
typedef pf_u64 pf_user_mask;
PF_DEVICE pf_user_mask pf_user_ballot(bool p) {
  return pf_ballot(p);
}
#else
typedef pf_u32 pf_user_mask;
PF_DEVICE pf_user_mask pf_user_ballot(bool p) {
  return static_cast<pf_u32>(pf_ballot(p) >> (pf_lane() & 32));
}
#endif
PF_DEVICE pf_u32 pf_user_ballot_sync(pf_u64 mask, bool p) {
  return static_cast<pf_u32>(pf_user_ballot(p) & mask);
}
#define __ballot(P) static_cast<pf_u64>(pf_user_ballot(P))
#define __any(P) static_cast<int>(pf_user_ballot(P) != 0)
#define __all(P) static_cast<int>(pf_user_ballot(!(P)) == 0)
#if PF_USER_WARP == 32
#define __ballot_sync(MASK, P) pf_user_ballot_sync(MASK, P)
#define __activemask() static_cast<pf_u32>(pf_user_ballot(true))
#else
#define __ballot_sync(MASK, P) static_cast<pf_u64>(pf_user_ballot(P))
#define __activemask() static_cast<pf_u64>(pf_user_ballot(true))
#endif
#define __any_sync(MASK, P) static_cast<int>(pf_user_ballot(P) != 0)
#define __all_sync(MASK, P) static_cast<int>(pf_user_ballot(!(P)) == 0)
#define __lane_id() pf_user_lane()

PF_DEVICE void pf_user_syncwarp(pf_u64 = 0) {
  pf_warp_barrier();
}
#define __syncwarp(...) pf_user_syncwarp(__VA_ARGS__)

#define PF_USER_REDUCE(NAME, EXPRESSION)           \
  template <class T>                               \
  PF_DEVICE T NAME(T a) {                          \
    for (int by = PF_USER_WARP / 2; by; by /= 2) { \
      const T b = pf_user_shfl_xor(a, by);         \
      a = EXPRESSION;                              \
    }                                              \
    return a;                                      \
  }
PF_USER_REDUCE(pf_user_reduce_add, a + b)
PF_USER_REDUCE(pf_user_reduce_min, a < b ? a : b)
PF_USER_REDUCE(pf_user_reduce_max, a > b ? a : b)
PF_USER_REDUCE(pf_user_reduce_and, a& b)
PF_USER_REDUCE(pf_user_reduce_or, a | b)
PF_USER_REDUCE(pf_user_reduce_xor, a ^ b)
#define __reduce_add_sync(MASK, V) pf_user_reduce_add(V)
#define __reduce_min_sync(MASK, V) pf_user_reduce_min(V)
#define __reduce_max_sync(MASK, V) pf_user_reduce_max(V)
#define __reduce_and_sync(MASK, V) pf_user_reduce_and(V)
#define __reduce_or_sync(MASK, V) pf_user_reduce_or(V)
#define __reduce_xor_sync(MASK, V) pf_user_reduce_xor(V)

// Hints for caches.
#define __ldcs(P) (*(P))
#define __ldcg(P) (*(P))
#define __ldca(P) (*(P))
#define __ldlu(P) (*(P))
#define __ldcv(P) (*(P))
#define __stcs(P, V) (void)(*(P) = (V))
#define __stcg(P, V) (void)(*(P) = (V))
#define __stwb(P, V) (void)(*(P) = (V))
#define __stwt(P, V) (void)(*(P) = (V))
#define __grid_constant__
#endif

// ---- 16-bit floats -----------------------------------------------------------------------------
#if defined(PF_USER_HALF)
#include "user_half.h"
#endif

// Behind the user's text; the stand-in needs a table of what a kernel takes.
#if defined(PF_HOST)
#define PF_USER_ENTRY(NAME) PF_HOST_ENTRY(NAME, 1024)
#else
#define PF_USER_ENTRY(NAME)
#endif

#endif
