// Running sums over a block.
#ifndef PF_BLOCK_SCAN_H
#define PF_BLOCK_SCAN_H

#include "prelude.h"

// The sum over the threads before this one of THREADS; that over all in `total`.
template <int THREADS, class T>
PF_DEVICE T pf_block_scan(T v, T* total) {
  PF_SHARED T sums[2][THREADS];
  const pf_u32 t = pf_thread();
  int now = 0;
  sums[0][t] = v;
  pf_barrier();
  for (pf_u32 step = 1; step < THREADS; step *= 2) {
    T x = sums[now][t];
    if (t >= step) x += sums[now][t - step];
    sums[now ^ 1][t] = x;
    now ^= 1;
    pf_barrier();
  }
  const T inclusive = sums[now][t];
  *total = sums[now][THREADS - 1];
  pf_barrier();
  return inclusive - v;
}

#endif
