// What layer_norm and rms_norm find of rows that lie in the registers of a group of threads. A mean
// is two numbers: the sum's, which is rounded, and the mean of the differences from it, which is
// what it was off by. So a row may lie far from 0, and one of its elements far from all others.
//
//   -DPF_RMS=0|1      rms_norm
#ifndef PF_NORM_ROW_H
#define PF_NORM_ROW_H
#include "rows.h"

template <class C, int ROWS>
struct pf_norm_of {
  enum { SUMS = PF_RMS ? ROWS : 2 * ROWS };  // of squares, then of differences
  C mean[ROWS], rest[ROWS], rstd[ROWS], shift[ROWS];

  // Of a group of `width` threads, of which this is number t: vector i of a thread is t + i * width
  // of a row's; beyond the end they are 0. All threads of the block take part.
  template <class T, int V, int VECS>
  PF_METHOD void find(const pf_vector<T, V> (&in)[ROWS][VECS], pf_u32 t, pf_u32 width,
                      pf_i32 vectors, C eps, C* room, C* room2) {
    const C count = static_cast<C>(static_cast<pf_i64>(vectors) * V);
    C sums[SUMS];
    PF_UNROLL for (int k = 0; k < ROWS; ++k) mean[k] = C(0);
    PF_UNROLL for (int k = 0; k < SUMS; ++k) sums[k] = C(0);
#if !PF_RMS
    PF_UNROLL for (int k = 0; k < ROWS; ++k) PF_UNROLL for (int i = 0; i < VECS; ++i)
        PF_UNROLL for (int j = 0; j < V; ++j) mean[k] += in[k][i].get(j);
    pf_group_join<pf_plus>(mean, width, room);
    PF_UNROLL for (int k = 0; k < ROWS; ++k) mean[k] /= count;
#endif
    PF_UNROLL for (int k = 0; k < ROWS; ++k)
        PF_UNROLL for (int i = 0; i < VECS;
                       ++i) if (PF_RMS || pf_has(static_cast<pf_i32>(t + i * width), vectors))
            PF_UNROLL for (int j = 0; j < V; ++j) {
      const C d = in[k][i].get(j) - mean[k];
      sums[k] += d * d;
      if constexpr (!PF_RMS) sums[ROWS + k] += d;
    }
    pf_group_join<pf_plus>(sums, width, room2);
    PF_UNROLL for (int k = 0; k < ROWS; ++k) {
      rest[k] = PF_RMS ? C(0) : sums[SUMS - ROWS + k] / count;
      rstd[k] = C(1) / pf_sqrt(pf_variance(sums[k] / count, rest[k]) + eps);
      if constexpr (!PF_RMS) pf_settle_mean(sums[k] / count, mean[k], rest[k]);
      shift[k] = -rest[k] * rstd[k];
    }
  }
  // An element of row k, normalised.
  PF_METHOD C apply(C x, int k) const {
    return PF_RMS ? x * rstd[k] : pf_fma(x - mean[k], rstd[k], shift[k]);
  }
};

#endif
