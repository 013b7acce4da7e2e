// What optimizers share: a walk over lists of tensors of one dtype, in place. Each array is read
// and written once, several accesses of every array at a time.
//
//   -DPF_T=  dtype
#ifndef PF_OPTIM_H
#define PF_OPTIM_H

#include "table.h"

typedef PF_T T;
typedef pf_compute<T> C;
constexpr int FULL = 16 / static_cast<int>(sizeof(T));
constexpr int UNROLL = sizeof(T) < 4 ? 2 : 4;  // registers

#define PF_OPTIM_THREADS 256

// What a kernel does behind pf_next_may_start(): a step's table, parameters and states are on their
// way before the last gradients have been written, where these are steady. A step waits
// (pf_wait_for_earlier) before it takes gradients.
PF_DEVICE void pf_begin_step(const pf_list& l) {
  if (!l.steady) pf_wait_for_earlier();
}
// step(W, U): U accesses of W elements from element i on, `apart` elements apart.
template <class F>
PF_DEVICE void pf_for_stretch(const pf_stretch& s, F step) {
  pf_i64 i = s.begin;
  if (s.tensor.aligned) {
    const pf_i64 apart = static_cast<pf_i64>(pf_threads()) * FULL;
    i += static_cast<pf_i64>(pf_thread()) * FULL;
    for (; i + (UNROLL - 1) * apart + FULL <= s.end; i += UNROLL * apart)
      step.template run<FULL, UNROLL>(i, apart);
    for (; i + FULL <= s.end; i += apart) step.template run<FULL, 1>(i, apart);
    i = s.begin + (s.end - s.begin) / FULL * FULL;
  }
  for (i += pf_thread(); i < s.end; i += pf_threads()) step.template run<1, 1>(i, 0);
  pf_wait_for_earlier();  // whoever had nothing to do
}

template <class From = T, int W, int U>
PF_DEVICE void pf_take(const void* p, pf_i64 i, pf_i64 apart, C (&x)[U][W]) {
  PF_UNROLL for (int u = 0; u < U; ++u) pf_load<From, W, true>(pf_at<From>(p, i + u * apart), x[u]);
}

#endif
