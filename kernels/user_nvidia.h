// Names of HIP for user.h.
#ifndef PF_USER_NVIDIA_H
#define PF_USER_NVIDIA_H

#define __HIP_PLATFORM_NVIDIA__ 1
#define __HIP_DEVICE_COMPILE__ 1
#define _Float16 pf_user_half  // of user_half.h
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

#endif
