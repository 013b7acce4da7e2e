// What kernel text stands on: one set of names for hipRTC, NVRTC, clang and the host. Kernels are
// plain C++17 over these names; they include no vendor header and use no vendor built-in.
//
//   -DPF_WARP=32|64   the device's warp width; never write the number
//   -DPF_HOST         run on the host: "shim.h" gives the primitives of the first block
//
// No contraction anywhere (-ffp-contract=off, NVRTC -fmad=false): fused multiply-add is pf_fma.
#ifndef PF_PRELUDE_H
#define PF_PRELUDE_H

#include "integers.h"
#define PF_LONG_MIN (-9223372036854775807ll - 1)

// ---- primitives: where platforms differ -------------------------------------------------------
// PF_KERNEL(NAME, THREADS) (arguments) { ... }  an entry for at most THREADS threads a block
// pf_begin()                the first statement of every kernel, put there when it is compiled:
//                           pf_next_may_start() lets the stream's next kernel take the room that is
//                           left, which pf_wait_for_earlier() keeps until all before it have ended
//                           and can be seen. A kernel that begins with the first by itself waits by
//                           itself, in all its threads; before that it may read its arguments, and
//                           otherwise only what it was promised that nobody writes.
// pf_prefetch(p)            brings 128 bytes into the cache that all blocks share; at any time
// PF_DEVICE, PF_METHOD      before every function; before a static member
// PF_INLINE                 of a lambda, between its parameters and its body: otherwise what it
//                           refers to may lie in memory
// PF_SHARED T name[N];      memory of the block, within a kernel's body
// pf_dynamic_shared()       the block's memory whose size the launch gives
// pf_thread() pf_block()    one-dimensional indices; sizes: pf_threads() pf_blocks()
// pf_barrier()              of the block; orders shared and global memory
// pf_warp_barrier()         of the warp; all its lanes take part
// pf_fence()                orders this thread's accesses for the whole device
// pf_lane(), pf_shuffle_word(v, lane), pf_ballot(p): all lanes of the warp take part
// pf_count_bits(v)          how many are set, of 32 or 64
// pf_atomic_add             int, unsigned, 64-bit, float, double
// pf_atomic_max _min        int, unsigned, 64-bit
// pf_atomic_cas _exchange   32 and 64 bits; pf_atomic_cas_system is seen by the host too
// Atomics are relaxed, within the device, and return the old value.
// PF_STEPS                  before a loop whose unrolled sums of integers cost AMD's compiler more
//                           registers than there are
// pf_global(p)              the same address, of global memory. Compilers know that of what a
//                           kernel's arguments hold, but not of addresses that come from a table in
//                           memory: AMD's then take instructions that look where an address points
//                           (flat), and wait for two counters.
// pf_opaque<ALIKE>(v)       the same number, which compilers take for a new one each time: what
//                           depends on it is computed where it is used. ALIKE: it is the same for
//                           all threads. pf_thread_anew(): the thread, so, where AMD compiles.
#if defined(PF_HOST)
#define PF_DEVICE static inline
#define PF_METHOD inline
#define PF_KERNEL(NAME, THREADS) extern "C" void NAME
#define PF_COLD static
#define PF_TABLE static const
#define PF_UNROLL
#define PF_NO_UNROLL
#define PF_STEPS
#define PF_INLINE __attribute__((always_inline))
#include "shim.h"  // PF_SHARED and the functions above
template <class T>
PF_DEVICE T* pf_global(T* p) {
  return p;
}
template <bool ALIKE>
PF_DEVICE pf_i32 pf_opaque(pf_i32 v) {
  return v;
}
#else
#ifndef PF_WARP
#error "give -DPF_WARP=32 or 64, the device's warp width"
#endif

#ifndef __device__
#define __device__ __attribute__((device))
#endif
#ifndef __global__
#define __global__ __attribute__((global))
#endif
#ifndef __shared__
#define __shared__ __attribute__((shared))
#endif
#ifndef __constant__
#define __constant__ __attribute__((constant))
#endif

#define PF_DEVICE static inline __device__ __attribute__((always_inline))
#define PF_METHOD inline __device__ __attribute__((always_inline))
#define PF_SHARED __shared__ __attribute__((aligned(16)))
#define PF_TABLE static __device__ const  // a constant array that lanes index freely
#define PF_COLD static __device__ __attribute__((noinline))  // called where it is rare
#define PF_UNROLL _Pragma("unroll")
#define PF_NO_UNROLL _Pragma("unroll 1")  // what runs a few times: copies cost compilers time
#define PF_INLINE __attribute__((always_inline))

#if defined(__CUDA_ARCH__)
#include "prelude_nvidia.h"
#else
#include "prelude_amd.h"
#endif
#endif  // PF_HOST

PF_DEVICE void pf_begin() {
  pf_next_may_start();
  pf_wait_for_earlier();
}

template <class To, class From>
PF_DEVICE To pf_bits(From v) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  return __builtin_bit_cast(To, v);
}

// ---- warps, from the primitives ---------------------------------------------------------------
template <class T>
PF_DEVICE T pf_shuffle(T v, pf_u32 from) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "4 or 8 bytes");
  if constexpr (sizeof(T) == 4) {
    return pf_bits<T>(pf_shuffle_word(pf_bits<pf_u32>(v), from));
  } else {
    const pf_u64 b = pf_bits<pf_u64>(v);
    const pf_u64 low = pf_shuffle_word(static_cast<pf_u32>(b), from);
    const pf_u64 high = pf_shuffle_word(static_cast<pf_u32>(b >> 32), from);
    return pf_bits<T>(high << 32 | low);
  }
}
template <class T>
PF_DEVICE T pf_shuffle_xor(T v, pf_u32 mask) {
  return pf_shuffle(v, pf_lane() ^ mask);
}
template <class T>
PF_DEVICE T pf_shuffle_up(T v, pf_u32 by) {
  const pf_u32 lane = pf_lane();
  return pf_shuffle(v, lane < by ? lane : lane - by);
}
PF_DEVICE bool pf_any(bool p) {
  return pf_ballot(p) != 0;
}
PF_DEVICE bool pf_all(bool p) {
  return pf_ballot(!p) == 0;
}
#include "types.h"

#endif
