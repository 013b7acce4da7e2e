// layer_norm and rms_norm over long rows, and the gradient of their input: a block a row. Rows are
// read again from shared memory where they fit into it.
//
//   -DPF_T= -DPF_V= -DPF_W= -DPF_B= -DPF_HAS_W= -DPF_HAS_B= -DPF_RMS= -DPF_PAST=  as in norm.h
//   -DPF_KEEP=0|1     the row stays in shared memory
#include "norm_args.h"
#include "rows.h"

typedef PF_T T;
typedef PF_W W;
typedef PF_B B;
typedef pf_compute<T> C;
constexpr int V = PF_V;
typedef pf_vector<T, V> Vector;

#define PF_LONG_THREADS 1024

PF_KERNEL(norm_long, PF_LONG_THREADS)(const pf_norm r) {
  constexpr int SUMS = PF_RMS ? 1 : 2;
  PF_SHARED C room[PF_MAX_WARPS], room2[PF_MAX_WARPS * SUMS];
  const pf_i64 row = pf_block(), step = pf_threads();
  const char* x = pf_at<T>(r.x, row * r.vectors * V);
  char* kept = pf_dynamic_shared();
  const C count = static_cast<C>(r.vectors * V);
  C mean = C(0), sums[SUMS];  // sums: of squares, of differences
  PF_UNROLL for (int k = 0; k < SUMS; ++k) sums[k] = C(0);
  // The first time from memory, then from where it was kept.
  const auto again = [&](Vector& v, pf_i64 c) PF_INLINE {
    if constexpr (PF_KEEP)
      pf_load_words<Vector::bytes, false>(pf_at<T>(kept, c * V), v.w);
    else
      v.template load<false>(pf_at<T>(x, c * V));
  };
  for (pf_i64 c = pf_thread(); c < r.vectors; c += step) {
    Vector v;
    v.template load<PF_PAST && PF_KEEP>(pf_at<T>(x, c * V));
    if constexpr (PF_KEEP) pf_store_words<Vector::bytes, false>(pf_at<T>(kept, c * V), v.w);
    PF_UNROLL for (int j = 0; j < V; ++j) {
      if constexpr (PF_RMS)
        sums[0] += v.get(j) * v.get(j);
      else
        mean += v.get(j);
    }
  }
  if constexpr (!PF_RMS) {
    mean = pf_group_join<pf_plus>(mean, pf_threads(), room) / count;
    for (pf_i64 c = pf_thread(); c < r.vectors; c += step) {
      Vector v;
      again(v, c);
      PF_UNROLL for (int j = 0; j < V; ++j) {
        const C d = v.get(j) - mean;
        sums[0] += d * d;
        sums[SUMS - 1] += d;
      }
    }
  }
  pf_group_join<pf_plus>(sums, pf_threads(), room2);
  C rest = PF_RMS ? C(0) : sums[SUMS - 1] / count;
  const C rstd = C(1) / pf_sqrt(pf_variance(sums[0] / count, rest) + static_cast<C>(r.eps));
  if constexpr (!PF_RMS) pf_settle_mean(sums[0] / count, mean, rest);
  const C shift = -rest * rstd;
  for (pf_i64 c = pf_thread(); c < r.vectors; c += step) {
    Vector v;
    again(v, c);
    pf_compute<W> w[V];
    pf_compute<B> b[V];
    if constexpr (PF_HAS_W) pf_load<W, V, false>(pf_at<W>(r.weight, c * V), w);
    if constexpr (PF_HAS_B) pf_load<B, V, false>(pf_at<B>(r.bias, c * V), b);
    C o[V];
    PF_UNROLL for (int j = 0; j < V; ++j) {
      o[j] = PF_RMS ? v.get(j) * rstd : pf_fma(v.get(j) - mean, rstd, shift);
      if constexpr (PF_HAS_W) o[j] = o[j] * static_cast<C>(w[j]);
      if constexpr (PF_HAS_B) o[j] = o[j] + static_cast<C>(b[j]);
    }
    pf_put<T, V, PF_PAST>(pf_at<T>(r.y, (row * r.vectors + c) * V), o);
  }
  if (pf_thread() == 0) {
    if constexpr (!PF_RMS) {
      static_cast<C*>(r.mean)[2 * row] = mean;
      static_cast<C*>(r.mean)[2 * row + 1] = rest;
    }
    static_cast<C*>(r.rstd)[row] = rstd;
  }
}
