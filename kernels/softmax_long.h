// softmax and log_softmax over long rows of contiguous tensors, and their gradients: a block a row.
// Rows are read twice, the second time from shared memory where they fit into it.
//
//   -DPF_T=  dtype    -DPF_V=  elements of one access; divides the length of rows
//   -DPF_LOG=0|1      log_softmax
//   -DPF_PAST=0|1     the tensors are larger than caches
//   -DPF_KEEP=0|1     the row stays in shared memory
#include "rows.h"
#include "softmax_args.h"

typedef PF_T T;
typedef pf_compute<T> C;
constexpr int V = PF_V;
typedef pf_row_math<T> Math;
typedef pf_vector<T, V> Vector;

#define PF_LONG_THREADS 1024

PF_KERNEL(softmax_long, PF_LONG_THREADS)(const pf_softmax r) {
  PF_SHARED C room[2][PF_MAX_WARPS];
  const char* x = pf_at<T>(r.x, static_cast<pf_i64>(pf_block()) * r.vectors * V);
  char* y = pf_at<T>(r.out, static_cast<pf_i64>(pf_block()) * r.vectors * V);
  char* kept = pf_dynamic_shared();
  const pf_i64 step = pf_threads();
  C high[1] = {-pf_float<C>::infinity()}, sum[1] = {C(0)};
  const auto add = [&](const Vector& v) PF_INLINE {
    C top = high[0];
    PF_UNROLL for (int j = 0; j < V; ++j) top = pf_most(top, v.get(j));
    if (top > high[0]) {  // 0 times exp(-inf - top) while nothing was seen
      sum[0] *= Math::exp(high[0] - top);
      high[0] = top;
    }
    // All -inf so far: exp(-inf) is 0, not NaN.
    const C shift = high[0] == -pf_float<C>::infinity() ? C(0) : high[0];
    PF_UNROLL for (int j = 0; j < V; ++j) sum[0] += Math::exp(v.get(j) - shift);
  };
  const auto keep = [&](const Vector& v, pf_i64 c) PF_INLINE {
    if constexpr (PF_KEEP) pf_store_words<Vector::bytes, false>(pf_at<T>(kept, c * V), v.w);
  };
  pf_i64 c = pf_thread();
  for (; c + 3 * step < r.vectors; c += 4 * step) {
    Vector v[4];
    PF_UNROLL for (int u = 0; u < 4; ++u) v[u].template load<PF_PAST && PF_KEEP>(
        pf_at<T>(x, (c + u * step) * V));
    PF_UNROLL for (int u = 0; u < 4; ++u) {
      keep(v[u], c + u * step);
      add(v[u]);
    }
  }
  for (; c < r.vectors; c += step) {
    Vector v;
    v.template load<PF_PAST && PF_KEEP>(pf_at<T>(x, c * V));
    keep(v, c);
    add(v);
  }
  const C own = high[0];
  pf_group_join<pf_highest>(high, pf_threads(), room[0]);
  // A thread that saw only -inf has a sum of 0, or a NaN that must stay.
  sum[0] *= own == -pf_float<C>::infinity() ? C(1) : Math::exp(own - high[0]);
  pf_group_join<pf_plus>(sum, pf_threads(), room[1]);
  const bool nothing = high[0] == -pf_float<C>::infinity();
  const C scale = PF_LOG ? pf_log(sum[0]) : C(1) / sum[0];
  for (c = pf_thread(); c < r.vectors; c += step) {
    Vector v;
    if constexpr (PF_KEEP)
      pf_load_words<Vector::bytes, false>(pf_at<T>(kept, c * V), v.w);
    else
      v.template load<PF_PAST>(pf_at<T>(x, c * V));
    C o[V];
    PF_UNROLL for (int j = 0; j < V; ++j) o[j] = nothing  ? pf_float<C>::nan()
                                                 : PF_LOG ? v.get(j) - high[0] - scale
                                                          : Math::exp(v.get(j) - high[0]) * scale;
    pf_put<T, V, PF_PAST>(pf_at<T>(y, c * V), o);
  }
}

PF_KERNEL(softmax_long_backward, PF_LONG_THREADS)(const pf_softmax r) {
  PF_SHARED C room[PF_MAX_WARPS];
  const pf_i64 first = static_cast<pf_i64>(pf_block()) * r.vectors * V;
  const char *x = pf_at<T>(r.x, first), *y = pf_at<T>(r.y, first);
  char* out = pf_at<T>(r.out, first);
  const pf_i64 step = pf_threads();
  C sum[1] = {C(0)};
  const auto add = [&](const Vector& g, const Vector& p) PF_INLINE {
    PF_UNROLL for (int j = 0; j < V; ++j) sum[0] =
        PF_LOG ? sum[0] + g.get(j) : pf_fma(g.get(j), p.get(j), sum[0]);
  };
  pf_i64 c = pf_thread();
  for (; c + step < r.vectors; c += 2 * step) {
    Vector g[2], p[2];
    PF_UNROLL for (int u = 0; u < 2; ++u) {
      g[u].template load<false>(pf_at<T>(x, (c + u * step) * V));
      p[u].template load<false>(pf_at<T>(y, (c + u * step) * V));
    }
    PF_UNROLL for (int u = 0; u < 2; ++u) add(g[u], p[u]);
  }
  for (; c < r.vectors; c += step) {
    Vector g, p;
    g.template load<false>(pf_at<T>(x, c * V));
    p.template load<false>(pf_at<T>(y, c * V));
    add(g, p);
  }
  pf_group_join<pf_plus>(sum, pf_threads(), room);
  for (c = pf_thread(); c < r.vectors; c += step) {
    Vector g, p;
    g.template load<PF_PAST>(pf_at<T>(x, c * V));
    p.template load<PF_PAST>(pf_at<T>(y, c * V));
    C o[V];
    PF_UNROLL for (int j = 0; j < V; ++j) o[j] =
        PF_LOG ? g.get(j) - Math::exp(p.get(j)) * sum[0] : p.get(j) * (g.get(j) - sum[0]);
    pf_put<T, V, PF_PAST>(pf_at<T>(out, c * V), o);
  }
}
