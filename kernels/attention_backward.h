// Gradients of scaled dot-product attention. With p = exp(score - lse) and
// ds = p (dout v^T - delta) scale: dq = ds k, dk = ds^T q, dv = p^T dout. The scores are computed
// again, by tiles of queries for dq and by tiles of keys for dk and dv.
#include "attention.h"

// delta: a group of 16 threads a row.
PF_KERNEL(sdpa_delta, PF_ATTENTION_THREADS)(const pf_attention a, pf_i64 rows) {
  PF_SHARED C room[PF_MAX_WARPS];
  const pf_u32 t = pf_thread() % 16;
  const pf_i64 row =
      static_cast<pf_i64>(pf_block()) * (PF_ATTENTION_THREADS / 16) + pf_thread() / 16;
  C sum = C(0);
  if (row < rows) {
    const pf_i64 head = pf_quotient(row, a.queries), i = row - head * a.queries;
    const pf_view o = pf_view_of(a, a.out, head, a.queries, a.depth_v);
    const pf_view g = pf_view_of(a, a.dout, head, a.queries, a.depth_v);
    for (pf_i64 j = t; j < a.depth_v; j += 16) sum = pf_fma(o.get(i, j), g.get(i, j), sum);
  }
  sum = pf_group_join<pf_plus>(sum, 16u, room);
  if (t == 0 && row < rows) static_cast<C*>(a.delta)[row] = sum;
}

// p and ds of this thread's scores; those outside of the matrix are 0.
PF_DEVICE void pf_score_gradients(const pf_attention& a, pf_i64 head, pf_i64 mask, pf_i64 i0,
                                  pf_i64 j0, C (&p)[SIDE][SIDE], C (&ds)[SIDE][SIDE]) {
  const int t = static_cast<int>(pf_thread()), tx = t % 16, ty = t / 16;
  PF_UNROLL for (int i = 0; i < SIDE; ++i) {
    const pf_i64 row = i0 + ty * SIDE + i;
    const bool on = row < a.queries;
    const C lse = on ? static_cast<const C*>(a.lse)[head * a.queries + row] : C(0);
    const C delta = on ? static_cast<const C*>(a.delta)[head * a.queries + row] : C(0);
    const bool nothing = lse == -pf_float<C>::infinity();
    PF_UNROLL for (int j = 0; j < SIDE; ++j) {
      const pf_i64 key = j0 + tx + 16 * j;
      const C s = pf_score(a, mask, row, key, p[i][j]);
      const bool outside = !on || key >= a.keys || (a.causal && key > row);
      p[i][j] = nothing || outside ? C(0) : Math::exp(s - lse);
      ds[i][j] = outside ? C(0) : p[i][j] * (ds[i][j] - delta) * static_cast<C>(a.scale);
    }
  }
}
// To shared memory, as it is or transposed.
template <bool TRANSPOSED>
PF_DEVICE void pf_keep(const C (&s)[SIDE][SIDE], C* weights) {
  const int t = static_cast<int>(pf_thread()), tx = t % 16, ty = t / 16;
  pf_barrier();
  PF_UNROLL for (int i = 0; i < SIDE; ++i) PF_UNROLL for (int j = 0; j < SIDE; ++j) {
    const int r = ty * SIDE + i, c = tx + 16 * j;
    weights[TRANSPOSED ? c * (TILE + 1) + r : r * (TILE + 1) + c] = s[i][j];
  }
}

PF_KERNEL(sdpa_dq, PF_ATTENTION_THREADS)(const pf_attention a) {
  PF_SHARED C room[ROOM];
  PF_SHARED C weights[WEIGHTS];
  const pf_block_place at(a);
  const pf_i64 i0 = at.tile * TILE, first = at.chunk * COLUMNS * PF_WIDE;
  const pf_view q = pf_view_of(a, a.q, at.head, a.queries, a.depth);
  const pf_view k = pf_view_of(a, a.k, at.head, a.keys, a.depth);
  const pf_view v = pf_view_of(a, a.v, at.head, a.keys, a.depth_v);
  const pf_view g = pf_view_of(a, a.dout, at.head, a.queries, a.depth_v);
  const pf_i64 mask = PF_MASK ? pf_head_offset(a, a.mask, at.head) : 0;
  const pf_i64 end = a.causal && i0 + TILE < a.keys ? i0 + TILE : a.keys;
  C r[SIDE][RESULTS];
  PF_UNROLL for (int i = 0; i < SIDE; ++i) PF_UNROLL for (int j = 0; j < RESULTS; ++j) r[i][j] =
      C(0);
  for (pf_i64 j0 = 0; j0 < end; j0 += TILE) {
    C p[SIDE][SIDE], ds[SIDE][SIDE];
    pf_product(q, i0, k, j0, room, p);
    pf_product(g, i0, v, j0, room, ds);
    pf_score_gradients(a, at.head, mask, i0, j0, p, ds);
    pf_keep<false>(ds, weights);
    pf_add_product(weights, k, j0, first, room, r);
  }
  pf_store_results(a, a.dq, at.head, i0, a.queries, first, a.depth, r);
}

PF_KERNEL(sdpa_dkv, PF_ATTENTION_THREADS)(const pf_attention a) {
  PF_SHARED C room[ROOM];
  PF_SHARED C weights[WEIGHTS];
  const pf_block_place at(a);
  const pf_i64 j0 = at.tile * TILE, first = at.chunk * COLUMNS * PF_WIDE;
  const pf_view q = pf_view_of(a, a.q, at.head, a.queries, a.depth);
  const pf_view k = pf_view_of(a, a.k, at.head, a.keys, a.depth);
  const pf_view v = pf_view_of(a, a.v, at.head, a.keys, a.depth_v);
  const pf_view g = pf_view_of(a, a.dout, at.head, a.queries, a.depth_v);
  const pf_i64 mask = PF_MASK ? pf_head_offset(a, a.mask, at.head) : 0;
  C dk[SIDE][RESULTS], dv[SIDE][RESULTS];
  PF_UNROLL for (int i = 0; i < SIDE; ++i) PF_UNROLL for (int j = 0; j < RESULTS; ++j) dk[i][j] =
      dv[i][j] = C(0);
  // Queries before the first key of the tile see none of it when causal.
  for (pf_i64 i0 = a.causal ? j0 : 0; i0 < a.queries; i0 += TILE) {
    C p[SIDE][SIDE], ds[SIDE][SIDE];
    pf_product(q, i0, k, j0, room, p);
    pf_product(g, i0, v, j0, room, ds);
    pf_score_gradients(a, at.head, mask, i0, j0, p, ds);
    pf_keep<true>(p, weights);
    pf_add_product(weights, g, i0, first, room, dv);
    pf_keep<true>(ds, weights);
    pf_add_product(weights, q, i0, first, room, dk);
  }
  pf_store_results(a, a.dk, at.head, j0, a.keys, first, a.depth, dk);
  pf_store_results(a, a.dv, at.head, j0, a.keys, first, a.depth_v, dv);
}
