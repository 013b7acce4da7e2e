// What kernels/prelude.h asks of its platform, on the host: included by it under PF_HOST. The
// stand-in runtime (block.cpp) runs the threads of a block one after another, each on a stack of
// its own from the first barrier or shuffle on.
#ifndef PF_SHIM_H
#define PF_SHIM_H
#include "tensor_map.h"

// The block that is running; the runtime fills it in. One block at a time runs in a module.
struct pf_shim_block {
  unsigned thread, block, threads, blocks;
  unsigned lane;
  char* dynamic_shared;
  void (*barrier)();
  unsigned (*shuffle)(unsigned value, unsigned from);
  unsigned long long (*ballot)(bool);
  unsigned block_size[3], grid_size[3];  // `thread` and `block` count through all three
  void (*pause)();
  unsigned progress;
  unsigned waited;           // threads that waited for what was launched before,
  unsigned waited_in[1024];  // and of each the last block, counted from 1, in which it did
};
#define PF_EXPORT __attribute__((visibility("default")))
extern "C" PF_EXPORT pf_shim_block* pf_shim;
pf_shim_block* pf_shim = nullptr;

// Memory of the block lies together, so that it can be filled with nonsense before every block.
#define PF_SHARED static __attribute__((section("pf_lds"), aligned(16)))
extern char pf_lds_begin[] __asm__("__start_pf_lds") __attribute__((weak, visibility("hidden")));
extern char pf_lds_end[] __asm__("__stop_pf_lds") __attribute__((weak, visibility("hidden")));

PF_DEVICE void pf_next_may_start() {}
PF_DEVICE void pf_wait_for_earlier() {
  unsigned& last = pf_shim->waited_in[pf_shim->thread];
  if (last != pf_shim->block + 1) ++pf_shim->waited;
  last = pf_shim->block + 1;
}
PF_DEVICE void pf_prefetch(const void*) {}
PF_DEVICE unsigned pf_thread() {
  return pf_shim->thread;
}
PF_DEVICE unsigned pf_thread_anew() {
  return pf_thread();
}
PF_DEVICE unsigned pf_block() {
  return pf_shim->block;
}
PF_DEVICE unsigned pf_threads() {
  return pf_shim->threads;
}
PF_DEVICE unsigned pf_blocks() {
  return pf_shim->blocks;
}
PF_DEVICE unsigned pf_lane() {
  return pf_shim->lane;
}
PF_DEVICE char* pf_dynamic_shared() {
  return pf_shim->dynamic_shared;
}
PF_DEVICE void pf_barrier() {
  pf_shim->barrier();
}
PF_DEVICE void pf_fence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
PF_DEVICE unsigned pf_shuffle_word(unsigned v, unsigned from) {
  return pf_shim->shuffle(v, from);
}
PF_DEVICE unsigned long long pf_ballot(bool p) {
  return pf_shim->ballot(p);
}
PF_DEVICE void pf_warp_barrier() {
  pf_ballot(true);
}
template <class T>
PF_DEVICE unsigned pf_count_bits(T v) {
  return static_cast<unsigned>(sizeof(T) == 4 ? __builtin_popcount(static_cast<unsigned>(v))
                                              : __builtin_popcountll(v));
}
// For threads that look at memory until another one has changed it: lets the others run. Who
// changes it says so, since the runtime gives up when all threads pause and nobody did.
PF_DEVICE void pf_pause() {
  pf_shim->pause();
}
PF_DEVICE void pf_progress() {
  ++pf_shim->progress;
}

// Other streams' threads may be at the same memory: these are real atomics.
template <class T, class F>
PF_DEVICE T pf_shim_update(T* p, F next) {
  T old, v;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do v = next(old);
  while (!__atomic_compare_exchange(p, &old, &v, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}
template <class T>
PF_DEVICE T pf_atomic_add(T* p, T v) {
  return pf_shim_update(p, [v](T old) { return static_cast<T>(old + v); });
}
template <class T>
PF_DEVICE T pf_atomic_max(T* p, T v) {
  return pf_shim_update(p, [v](T old) { return old > v ? old : v; });
}
template <class T>
PF_DEVICE T pf_atomic_min(T* p, T v) {
  return pf_shim_update(p, [v](T old) { return old < v ? old : v; });
}
template <class T>
PF_DEVICE T pf_atomic_cas(T* p, T expected, T v) {
  __atomic_compare_exchange(p, &expected, &v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <class T>
PF_DEVICE T pf_atomic_exchange(T* p, T v) {
  T old;
  __atomic_exchange(p, &v, &old, __ATOMIC_RELAXED);
  return old;
}
template <class T>
PF_DEVICE T pf_atomic_cas_system(T* p, T expected, T v) {
  return pf_atomic_cas(p, expected, v);
}

// ---- entries: what the stand-in calls -----------------------------------------------------------
// Arguments are copied when a kernel is launched, and again for each thread.
template <class... A>
struct pf_pack;
template <>
struct pf_pack<> {
  explicit pf_pack(void**) {}
  template <class F, class... B>
  void call(F f, B&... b) const {
    f(b...);
  }
};
template <class H, class... T>
struct pf_pack<H, T...> {
  H head;
  pf_pack<T...> tail;
  explicit pf_pack(void** a) : tail(a + 1) {
    __builtin_memcpy(&head, *a, sizeof head);  // callers need not align what they hand in
  }
  template <class F, class... B>
  void call(F f, B&... b) {
    tail.call(f, b..., head);
  }
};
template <auto F>
struct pf_launcher;
template <class... A, void (*F)(A...)>
struct pf_launcher<F> {
  static void* pack(void** a) { return new pf_pack<A...>(a); }
  static void run(void* p) { static_cast<pf_pack<A...>*>(p)->call(F); }
  static void drop(void* p) { delete static_cast<pf_pack<A...>*>(p); }
};
struct pf_entry {
  void* (*pack)(void** args);
  void (*run)(void* packed);
  void (*drop)(void* packed);
  int most_threads, warp;
  pf_shim_block** shim;
  char *lds_begin, *lds_end;
};
// Appended by the stand-in compiler for every PF_KERNEL(NAME, THREADS) of a text.
#define PF_HOST_ENTRY(NAME, THREADS)                    \
  extern "C" PF_EXPORT pf_entry pf_entry_##NAME;        \
  pf_entry pf_entry_##NAME = {pf_launcher<&NAME>::pack, \
                              pf_launcher<&NAME>::run,  \
                              pf_launcher<&NAME>::drop, \
                              THREADS,                  \
                              PF_WARP,                  \
                              &pf_shim,                 \
                              pf_lds_begin,             \
                              pf_lds_end};

#endif
