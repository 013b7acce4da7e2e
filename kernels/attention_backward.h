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
    const pf_view o = pf_view_of(a, a.out, head, 0, a.queries, a.depth_v);
    const pf_view g = pf_view_of(a, a.dout, head, 0, a.queries, a.depth_v);
    for (pf_i64 j = t; j < a.depth_v; j += 16) sum = pf_fma(o.get(i, j), g.get(i, j), sum);
  }
  sum = pf_group_join<pf_plus>(sum, 16u, room);
  if (t == 0 && row < rows) static_cast<C*>(a.delta)[row] = sum;
}

// p, as it meets values, and ds of this thread's scores; those outside of the matrix are 0. ds is
// of the products, or of the scores.
template <bool OF_SCORES>
PF_DEVICE void pf_score_gradients(const pf_attention& a, const pf_part& part, pf_i64 mask,
                                  pf_i64 i0, pf_i64 j0, C (&p)[SIDE][SIDE], C (&ds)[SIDE][SIDE]) {
  const int t = static_cast<int>(pf_thread_anew()), tx = t % 16, ty = t / 16;
  PF_UNROLL for (int i = 0; i < SIDE; ++i) {
    const pf_i64 row = i0 + ty * SIDE + i;
    const bool on = row < part.queries;
    const C lse = on ? static_cast<const C*>(a.lse)[pf_lse_at(a, part, row)] : C(0);
    const C delta = on ? static_cast<const C*>(a.delta)[pf_lse_at(a, part, row)] : C(0);
    const bool nothing = lse == -pf_float<C>::infinity();
    PF_UNROLL for (int j = 0; j < SIDE; ++j) {
      const pf_i64 key = j0 + tx + 16 * j;
      C slope = C(1);
      const C s = pf_score(a, part, mask, row, key, p[i][j], &slope);
      const bool outside = !on || key >= part.keys || key - row > part.high ||
                           (PF_HAS(PF_WINDOW) && key - row < part.low);
      p[i][j] = nothing || outside ? C(0) : Math::exp(s - lse);
      const bool kept = !PF_HAS(PF_DROPOUT) || pf_kept(a, part, row, key);
      if constexpr (PF_HAS(PF_DROPOUT))
        ds[i][j] = kept ? ds[i][j] * static_cast<C>(a.keeping) : C(0);
      ds[i][j] = outside ? C(0) : p[i][j] * (ds[i][j] - delta);
      if constexpr (!OF_SCORES) ds[i][j] *= static_cast<C>(a.scale);
      if constexpr (!OF_SCORES && PF_HAS(PF_SOFT_CAP)) ds[i][j] *= slope;
      if constexpr (!OF_SCORES && PF_HAS(PF_SCORE))
        ds[i][j] = p[i][j] == C(0) ? C(0) : ds[i][j] * slope;
      if constexpr (PF_HAS(PF_DROPOUT)) p[i][j] = kept ? p[i][j] * static_cast<C>(a.keeping) : C(0);
    }
  }
}
// To shared memory, as it is or transposed.
template <bool TRANSPOSED>
PF_DEVICE void pf_keep(const C (&s)[SIDE][SIDE], C* weights) {
  const int t = static_cast<int>(pf_thread_anew()), tx = t % 16, ty = t / 16;
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
  const pf_part part = pf_part_of(a, at.head, at.sequence);
  if (PF_HAS(PF_SEQUENCES) && i0 >= part.queries) return;
  const pf_view q = pf_view_of(a, a.q, at.head, part.q0, part.queries, a.depth);
  const pf_view k = pf_view_of(a, a.k, at.head, part.k0, part.keys, a.depth);
  const pf_view v = pf_view_of(a, a.v, at.head, part.k0, part.keys, a.depth_v);
  const pf_view g = pf_view_of(a, a.dout, at.head, part.q0, part.queries, a.depth_v);
  const pf_i64 mask = PF_MASK ? pf_head_offset(a, a.mask, at.head) : 0;
  const pf_span seen = pf_keys_seen(part, i0);
  C r[SIDE][RESULTS];
  PF_UNROLL for (int i = 0; i < SIDE; ++i) PF_UNROLL for (int j = 0; j < RESULTS; ++j) r[i][j] =
      C(0);
  for (pf_i64 j0 = seen.begin; j0 < seen.end; j0 += TILE) {
    C p[SIDE][SIDE], ds[SIDE][SIDE];
    pf_product(q, i0, k, j0, room, p);
    pf_product(g, i0, v, j0, room, ds);
    pf_score_gradients<false>(a, part, mask, i0, j0, p, ds);
    pf_keep<false>(ds, weights);
    pf_add_product(weights, k, j0, first, room, r);
  }
  pf_store_results(a, a.dq, at.head, part.q0, i0, part.queries, first, a.depth, r);
}

PF_KERNEL(sdpa_dkv, PF_ATTENTION_THREADS)(const pf_attention a) {
  PF_SHARED C room[ROOM];
  PF_SHARED C weights[WEIGHTS];
  const pf_block_place at(a);
  const pf_i64 j0 = at.tile * TILE, first = at.chunk * COLUMNS * PF_WIDE;
  // Its keys meet the queries of so many heads in turn.
  const pf_i64 heads = PF_HAS(PF_GROUPS) ? a.group : 1, first_head = at.head * heads;
  pf_part part = pf_part_of(a, first_head, at.sequence);
  if (PF_HAS(PF_SEQUENCES) && j0 >= part.keys) return;
  const pf_view k = pf_view_of(a, a.k, first_head, part.k0, part.keys, a.depth);
  const pf_view v = pf_view_of(a, a.v, first_head, part.k0, part.keys, a.depth_v);
  const pf_span seen = pf_queries_seeing(part, j0);
  C dk[SIDE][RESULTS], dv[SIDE][RESULTS];
  PF_UNROLL for (int i = 0; i < SIDE; ++i) PF_UNROLL for (int j = 0; j < RESULTS; ++j) dk[i][j] =
      dv[i][j] = C(0);
  for (pf_i64 n = 0; n < heads; ++n) {
    const pf_i64 head = first_head + n;
    if (PF_HAS(PF_GROUPS)) part = pf_part_of(a, head, at.sequence);
    const pf_view q = pf_view_of(a, a.q, head, part.q0, part.queries, a.depth);
    const pf_view g = pf_view_of(a, a.dout, head, part.q0, part.queries, a.depth_v);
    const pf_i64 mask = PF_MASK ? pf_head_offset(a, a.mask, head) : 0;
    for (pf_i64 i0 = seen.begin; i0 < seen.end; i0 += TILE) {
      C p[SIDE][SIDE], ds[SIDE][SIDE];
      pf_product(q, i0, k, j0, room, p);
      pf_product(g, i0, v, j0, room, ds);
      pf_score_gradients<false>(a, part, mask, i0, j0, p, ds);
      pf_keep<true>(p, weights);
      pf_add_product(weights, g, i0, first, room, dv);
      pf_keep<true>(ds, weights);
      pf_add_product(weights, q, i0, first, room, dk);
    }
  }
  pf_store_results(a, a.dk, first_head, part.k0, j0, part.keys, first, a.depth, dk);
  pf_store_results(a, a.dv, first_head, part.k0, j0, part.keys, first, a.depth_v, dv);
}

// The gradient of a mask of numbers: a tile of it, or all rows or columns where the mask repeats,
// from the heads that it is added to, in order.
PF_KERNEL(sdpa_dmask, PF_ATTENTION_THREADS)(const pf_attention a, pf_i64 sharing) {
  PF_SHARED C room[ROOM];
  PF_SHARED C weights[WEIGHTS];
  const bool one_row = a.dmask.row == 0, one_column = a.dmask.col == 0;
  const pf_i64 b = pf_block(), rest = pf_quotient(b, a.chunks), owner = pf_quotient(rest, a.tiles);
  const pf_i64 first = (rest - owner * a.tiles) * TILE, column = (b - rest * a.chunks) * TILE;
  C sums[SIDE][SIDE];
  PF_UNROLL for (int i = 0; i < SIDE; ++i) PF_UNROLL for (int j = 0; j < SIDE; ++j) sums[i][j] =
      C(0);
  for (pf_i64 n = 0; n < sharing; ++n) {
    const pf_i64 head = pf_sharing_head(a, owner, n);
    const pf_part part = pf_part_of(a, head, 0);
    const pf_i64 mask = PF_MASK ? pf_head_offset(a, a.mask, head) : 0;
    const pf_view q = pf_view_of(a, a.q, head, 0, a.queries, a.depth);
    const pf_view g = pf_view_of(a, a.dout, head, 0, a.queries, a.depth_v);
    const pf_view k = pf_view_of(a, a.k, head, 0, a.keys, a.depth);
    const pf_view v = pf_view_of(a, a.v, head, 0, a.keys, a.depth_v);
    for (pf_i64 i0 = first; i0 < (one_row ? a.queries : first + 1); i0 += TILE) {
      const pf_span seen = pf_keys_seen(part, i0);
      for (pf_i64 j0 = column; j0 < (one_column ? a.keys : column + 1); j0 += TILE) {
        if (j0 + TILE <= seen.begin || j0 >= seen.end) continue;
        C p[SIDE][SIDE], ds[SIDE][SIDE];
        pf_product(q, i0, k, j0, room, p);
        pf_product(g, i0, v, j0, room, ds);
        pf_score_gradients<true>(a, part, mask, i0, j0, p, ds);
        PF_UNROLL for (int i = 0; i < SIDE; ++i) PF_UNROLL for (int j = 0; j < SIDE; ++j)
            sums[i][j] += ds[i][j];
      }
    }
  }
  pf_keep<false>(sums, weights);
  pf_barrier();
  const int wide = one_column ? 1 : TILE, high = one_row ? 1 : TILE;
  char* to = const_cast<char*>(
      pf_at<T>(a.dmask.data, pf_head_offset(a, a.dmask, pf_sharing_head(a, owner, 0))));
  for (int at = static_cast<int>(pf_thread()); at < wide * high; at += PF_ATTENTION_THREADS) {
    const int r = at / wide, c = at % wide;
    if ((!one_row && first + r >= a.queries) || (!one_column && column + c >= a.keys)) continue;
    C x = C(0);
    for (int i = r; i < (one_row ? TILE : r + 1); ++i)
      for (int j = c; j < (one_column ? TILE : c + 1); ++j) x += weights[i * (TILE + 1) + j];
    pf_put_one<T>(to, (first + r) * a.dmask.row + (column + c) * a.dmask.col, x);
  }
}
