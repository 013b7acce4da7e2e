// Primitives of prelude.h for NVIDIA.
#ifndef PF_PRELUDE_NVIDIA_H
#define PF_PRELUDE_NVIDIA_H

#define PF_NVIDIA 1
#ifdef PF_RESIDENT  // so many blocks have room on a multiprocessor
#define PF_BOUNDS(THREADS) __launch_bounds__(THREADS, PF_RESIDENT)
#else
#define PF_BOUNDS(THREADS) __launch_bounds__(THREADS)
#endif
#ifdef PF_CLUSTER  // blocks that run at once (tma_nvidia.h)
#define PF_KERNEL(NAME, THREADS) \
  extern "C" __global__ void __cluster_dims__(PF_CLUSTER, 1, 1) PF_BOUNDS(THREADS) NAME
#else
#define PF_KERNEL(NAME, THREADS) extern "C" __global__ void PF_BOUNDS(THREADS) NAME
#endif
#define PF_STEPS PF_UNROLL

template <class T>
PF_DEVICE T* pf_global(T* p) {
  return p;
}
template <bool ALIKE>
PF_DEVICE pf_i32 pf_opaque(pf_i32 v) {
  asm volatile("" : "+r"(v));
  return v;
}
// Instructions of Hopper and later.
PF_DEVICE void pf_next_may_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
PF_DEVICE void pf_wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
PF_DEVICE void pf_prefetch(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}
PF_DEVICE pf_u32 pf_thread() {
  return threadIdx.x;
}
PF_DEVICE pf_u32 pf_thread_anew() {
  return pf_thread();
}
PF_DEVICE pf_u32 pf_block() {
  return blockIdx.x;
}
PF_DEVICE pf_u32 pf_threads() {
  return blockDim.x;
}
PF_DEVICE pf_u32 pf_blocks() {
  return gridDim.x;
}
PF_DEVICE void pf_barrier() {
  __syncthreads();
}
PF_DEVICE void pf_warp_barrier() {
  __syncwarp(0xffffffffu);
}
PF_DEVICE void pf_fence() {
  __threadfence();
}
PF_DEVICE pf_u32 pf_lane() {
  return threadIdx.x % PF_WARP;
}
PF_DEVICE pf_u32 pf_shuffle_word(pf_u32 v, pf_u32 from) {
  return __shfl_sync(0xffffffffu, v, static_cast<int>(from));
}
PF_DEVICE pf_u64 pf_ballot(bool p) {
  return __ballot_sync(0xffffffffu, p);
}
template <class T>
PF_DEVICE pf_u32 pf_count_bits(T v) {
  return static_cast<pf_u32>(sizeof(T) == 4 ? __popc(static_cast<pf_u32>(v)) : __popcll(v));
}
extern __shared__ __attribute__((aligned(16))) char pf_dynamic_memory[];
PF_DEVICE char* pf_dynamic_shared() {
  return pf_dynamic_memory;
}
template <class T>
PF_DEVICE T pf_atomic_add(T* p, T v) {
  return atomicAdd(p, v);
}
PF_DEVICE pf_i64 pf_atomic_add(pf_i64* p, pf_i64 v) {
  return static_cast<pf_i64>(atomicAdd(reinterpret_cast<pf_u64*>(p), static_cast<pf_u64>(v)));
}
template <class T>
PF_DEVICE T pf_atomic_max(T* p, T v) {
  return atomicMax(p, v);
}
template <class T>
PF_DEVICE T pf_atomic_min(T* p, T v) {
  return atomicMin(p, v);
}
template <class T>
PF_DEVICE T pf_atomic_cas(T* p, T expected, T v) {
  return atomicCAS(p, expected, v);
}
template <class T>
PF_DEVICE T pf_atomic_exchange(T* p, T v) {
  return atomicExch(p, v);
}
template <class T>
PF_DEVICE T pf_atomic_cas_system(T* p, T expected, T v) {
  return atomicCAS_system(p, expected, v);
}

#endif
