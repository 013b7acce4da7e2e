// Primitives of prelude.h for AMD.
#ifndef PF_PRELUDE_AMD_H
#define PF_PRELUDE_AMD_H

#define PF_AMD 1
#pragma clang fp contract(off)
// Otherwise registers are shared out for 1024 threads.
#define PF_KERNEL(NAME, THREADS) \
  extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(1, THREADS))) NAME
#define PF_STEPS _Pragma("nounroll")

template <class T>
PF_DEVICE T* pf_global(T* p) {
  return (T*)(__attribute__((address_space(1))) T*)(pf_u64)p;
}
template <bool ALIKE>
PF_DEVICE pf_i32 pf_opaque(pf_i32 v) {
  if constexpr (ALIKE)
    asm volatile("" : "+s"(v));
  else
    asm volatile("" : "+v"(v));
  return v;
}
PF_DEVICE void pf_next_may_start() {}
PF_DEVICE void pf_wait_for_earlier() {}
PF_DEVICE void pf_prefetch(const void*) {}
PF_DEVICE pf_u32 pf_thread() {
  return __builtin_amdgcn_workitem_id_x();
}
// What follows from it, such as where elements lie, would be kept for all phases of a loop, in half
// of the registers.
PF_DEVICE pf_u32 pf_thread_anew() {
  return static_cast<pf_u32>(pf_opaque<false>(static_cast<pf_i32>(pf_thread())));
}
PF_DEVICE pf_u32 pf_block() {
  return __builtin_amdgcn_workgroup_id_x();
}
PF_DEVICE pf_u32 pf_threads() {
  return __builtin_amdgcn_workgroup_size_x();
}
PF_DEVICE pf_u32 pf_blocks() {
  return __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x();
}
PF_DEVICE void pf_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
PF_DEVICE void pf_warp_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
PF_DEVICE void pf_fence() {
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
}
PF_DEVICE pf_u32 pf_lane() {
  const pf_u32 low = __builtin_amdgcn_mbcnt_lo(~0u, 0u);
  return PF_WARP == 64 ? __builtin_amdgcn_mbcnt_hi(~0u, low) : low;
}
PF_DEVICE pf_u32 pf_shuffle_word(pf_u32 v, pf_u32 from) {
  return static_cast<pf_u32>(
      __builtin_amdgcn_ds_bpermute(static_cast<int>(from << 2), static_cast<int>(v)));
}
PF_DEVICE pf_u64 pf_ballot(bool p) {
#if PF_WARP == 64
  return __builtin_amdgcn_ballot_w64(p);
#else
  return __builtin_amdgcn_ballot_w32(p);
#endif
}
template <class T>
PF_DEVICE pf_u32 pf_count_bits(T v) {
  return static_cast<pf_u32>(sizeof(T) == 4 ? __builtin_popcount(static_cast<pf_u32>(v))
                                            : __builtin_popcountll(v));
}
extern __shared__ __attribute__((aligned(16))) char pf_dynamic_memory[];
PF_DEVICE char* pf_dynamic_shared() {
  return pf_dynamic_memory;
}
template <class T>
PF_DEVICE T pf_atomic_add(T* p, T v) {
  return __hip_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
PF_DEVICE T pf_atomic_max(T* p, T v) {
  return __hip_atomic_fetch_max(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
PF_DEVICE T pf_atomic_min(T* p, T v) {
  return __hip_atomic_fetch_min(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
PF_DEVICE T pf_atomic_cas(T* p, T expected, T v) {
  __hip_atomic_compare_exchange_strong(p, &expected, v, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                       __HIP_MEMORY_SCOPE_AGENT);
  return expected;
}
template <class T>
PF_DEVICE T pf_atomic_exchange(T* p, T v) {
  return __hip_atomic_exchange(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
PF_DEVICE T pf_atomic_cas_system(T* p, T expected, T v) {
  __hip_atomic_compare_exchange_strong(p, &expected, v, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                       __HIP_MEMORY_SCOPE_SYSTEM);
  return expected;
}

#endif
