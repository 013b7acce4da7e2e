// Running sums over a block.
#ifndef PF_BLOCK_SCAN_H
#define PF_BLOCK_SCAN_H

#include "prelude.h"

// The sum over the threads before this one of THREADS; that over all in `total`. Of whole numbers.
template <int THREADS, class T>
PF_DEVICE T pf_block_scan(T v, T* total) {
  enum { WARPS = THREADS / PF_WARP };
  PF_SHARED T sums[WARPS];
  const pf_u32 lane = pf_lane(), warp = pf_thread() / PF_WARP;
  T sum = v;
  PF_UNROLL for (pf_u32 d = 1; d < PF_WARP; d *= 2) {
    const T x = pf_shuffle_up(sum, d);
    if (lane >= d) sum += x;
  }
  if (lane == PF_WARP - 1) sums[warp] = sum;
  pf_barrier();
  T before = 0, all = 0;
  PF_UNROLL for (pf_u32 w = 0; w < WARPS; ++w) {
    if (w < warp) before += sums[w];
    all += sums[w];
  }
  pf_barrier();
  *total = all;
  return before + sum - v;
}

#endif
