// Names of CUDA for user.h, and warps as the text sees them.
#ifndef PF_USER_AMD_H
#define PF_USER_AMD_H

#if defined(PF_AMD)
#pragma clang fp contract(fast)
#endif

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
