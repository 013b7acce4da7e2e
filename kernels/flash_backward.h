// Gradients of scaled dot-product attention on matrix units. With p = 2^(score - lse) and
// ds = p (dout v^T - delta): dq = scale ds k, dk = scale ds^T q, dv = p^T dout. The scores are
// computed again, once with queries as the warps' own rows (dq, and delta, which comes first) and
// once with keys (dk, dv), so that every sum has one order.
//
// The gradient of a mask of numbers is a third kernel (flash_mask.h).
//
//   -DPF_GIVES=  what the program makes: 1: dk, 2: dv, 4: dq, and sums of these
#include "flash_gradients.h"

#if PF_GIVES & 4
PF_KERNEL(flash_dq, PF_WARPS* PF_WARP)(const pf_attention a) {
  char* memory = pf_strip_memory();
  const pf_flash_place at(a, a.causal != 0);
  const int lane = at.lane;
  const int own = at.first + at.mine;
  const pf_flash_part part(pf_part_of(a, at.head, at.sequence));
  if (PF_HAS(PF_SEQUENCES) && at.first >= part.rows) return;
  const pf_lines q = pf_lines_of(a, a.q, at.head, part.q0, part.queries, a.depth);
  const pf_lines k = pf_lines_of(a, a.k, at.head, part.k0, part.keys, a.depth);
  const pf_lines v = pf_lines_of(a, a.v, at.head, part.k0, part.keys, a.depth_v);
  const pf_lines g = pf_lines_of(a, a.dout, at.head, part.q0, part.queries, a.depth_v);
  const pf_i64 mask = PF_MASK ? pf_head_offset(a, a.mask, at.head) : 0;
  const int begin = part.first_key(at.first), end = part.end_key(at.first, BLOCK);

  pf_own_rows mine_q, mine_g;
  pf_fill_other fill_k, fill_v;
  char* stages = memory + 2 * pf_own_rows::BYTES;  // each: keys, values, keys turned
  enum { STAGE = (PF_TURNED_TILES ? 3 : 2) * TILE_BYTES };
  mine_q.fetch(memory, q, at.first, at.mine, lane);
  mine_g.fetch(memory + pf_own_rows::BYTES, g, at.first, at.mine, lane);
  fill_k.fetch(stages, k, begin);
  fill_v.fetch(stages + TILE_BYTES, v, begin);

  // delta: 8 columns a lane at a time, D / 8 lanes side by side rounded up to a power of two.
  {
    constexpr int across = D > 128 ? 32 : D > 64 ? 16 : D / 8;
    const pf_lines o = pf_lines_of(a, a.out, at.head, part.q0, part.queries, a.depth_v);
    PF_ONE_BY_ONE for (int i = 0; i < OWN * across / PF_WARP; ++i) {
      const int r = (i * PF_WARP + lane) / across, c = lane % across * 8;
      float d = pf_row_product(o, g, own + r, c);
      PF_UNROLL for (pf_u32 m = 1; m < across; m *= 2) d += pf_shuffle_xor(d, m);
      if (c == 0 && own + r < part.rows)
        static_cast<float*>(a.delta)[pf_lse_at(a, part, own + r)] = d;
    }
  }
  pf_barrier();
  float lse[pf_results::ROWS], delta[pf_results::ROWS];
  PF_UNROLL for (int r = 0; r < pf_results::ROWS; ++r) {
    lse[r] = pf_lse_or_none(a, part, own + pf_results::row(r, lane));
    delta[r] = pf_delta_of(a, part, own + pf_results::row(r, lane));
  }

  pf_results dq;
  dq.clear();
  int stage = 0;
  PF_ONE_BY_ONE for (int j0 = begin; j0 < end; j0 += OTHER) {
    char *tile_k = stages + stage * STAGE, *tile_v = tile_k + TILE_BYTES,
         *turned_k = tile_v + TILE_BYTES;
    if (PF_FETCH_STAGES == 1 && j0 > begin) pf_barrier();
    fill_k.land(tile_k, turned_k);
    fill_v.land(tile_v, nullptr);
    pf_land();
    pf_barrier();
    if (j0 == begin) {
      mine_q.ready(lane);
      mine_g.ready(lane);
    }
    if (PF_FETCH_STAGES == 2) stage ^= 1;
    if (j0 + OTHER < end) {
      fill_k.fetch(stages + stage * STAGE, k, j0 + OTHER);
      fill_v.fetch(stages + stage * STAGE + TILE_BYTES, v, j0 + OTHER);
    }
    if (own >= q.rows || part.apart(own, OWN, j0, OTHER)) continue;

    pf_scores s, ds;
    s.clear();
    ds.clear();
    pf_add_products(mine_q, tile_k, k, j0, lane, s);
    if (PF_FEW_REGISTERS) pf_score_early<true>(a, part, mask, own, j0, lane, s);
    pf_add_products(mine_g, tile_v, v, j0, lane, ds);
    if (!PF_FEW_REGISTERS) pf_score_early<true>(a, part, mask, own, j0, lane, s);
    pf_score_gradients<true, false>(
        a, part, mask, own, j0, lane, s, ds, [&](int r, int) PF_INLINE { return lse[r]; },
        [&](int r, int) PF_INLINE { return delta[r]; });
    const pf_weights<OWN, OTHER> w(ds, lane, j0);
    pf_add_results(w, tile_k, turned_k, k, j0, lane, dq);
  }
  const float scale = static_cast<float>(a.scale);
  dq.each(lane, [&](int, int, float& x) PF_INLINE { x *= scale; });
  pf_land();
  pf_barrier();
  pf_put_strip(memory, at.mine, lane, dq);
  pf_barrier();
  pf_write_tile<BLOCK, D, THREADS>(
      memory, pf_lines_of(a, a.dq, at.head, part.q0, part.queries, a.depth), at.first);
}
#endif

#if PF_GIVES & 3
enum { GIVES_K = PF_GIVES & 1, GIVES_V = PF_GIVES >> 1 & 1 };
PF_KERNEL(flash_dkv, PF_WARPS* PF_WARP)(const pf_attention a) {
  char* memory = pf_strip_memory();
  const pf_flash_place at(a, false);
  const int lane = at.lane, thread = static_cast<int>(pf_thread());
  const int own = at.first + at.mine;
  // Its keys meet the queries of so many heads in turn.
  const int heads = PF_HAS(PF_GROUPS) ? static_cast<int>(a.group) : 1;
  const pf_i64 first_head = at.head * heads;
  pf_flash_part part(pf_part_of(a, first_head, at.sequence));
  if (PF_HAS(PF_SEQUENCES) && at.first >= part.columns) return;
  const pf_lines k = pf_lines_of(a, a.k, first_head, part.k0, part.keys, a.depth);
  const pf_lines v = pf_lines_of(a, a.v, first_head, part.k0, part.keys, a.depth_v);
  const int start = part.first_query(at.first), end = part.end_query(at.first, BLOCK);

  pf_own_rows mine_k, mine_v;
  char* stages = memory + 2 * pf_own_rows::BYTES;
  // Of a stage: queries, dout, both turned, lse and delta.
  enum { TILES = PF_TURNED_TILES ? 4 : 2, STAGE = TILES * TILE_BYTES + OTHER * 8 };
  mine_k.fetch(memory, k, at.first, at.mine, lane);
  if constexpr (GIVES_K) mine_v.fetch(memory + pf_own_rows::BYTES, v, at.first, at.mine, lane);

  pf_results dk, dv;
  if constexpr (GIVES_K) dk.clear();
  if constexpr (GIVES_V) dv.clear();
  PF_ONE_BY_ONE for (int n = 0; n < heads; ++n) {
    const pf_i64 head = first_head + n;
    if (PF_HAS(PF_GROUPS) && n > 0) {
      part = pf_flash_part(pf_part_of(a, head, at.sequence));
      pf_land();
      pf_barrier();  // the tiles of the head before have been used
    }
    const pf_lines q = pf_lines_of(a, a.q, head, part.q0, part.queries, a.depth);
    const pf_lines g = pf_lines_of(a, a.dout, head, part.q0, part.queries, a.depth_v);
    const pf_i64 mask = PF_MASK ? pf_head_offset(a, a.mask, head) : 0;
    pf_fill_other fill_q, fill_g;
    fill_q.fetch(stages, q, start);
    fill_g.fetch(stages + TILE_BYTES, g, start);
    float next_lse = 0.0f, next_delta = 0.0f;
    if (thread < OTHER) {
      next_lse = pf_lse_or_none(a, part, start + thread);
      next_delta = pf_delta_of(a, part, start + thread);
    }
    int stage = 0;
    PF_ONE_BY_ONE for (int i0 = start; i0 < end; i0 += OTHER) {
      char *tile_q = stages + stage * STAGE, *tile_g = tile_q + TILE_BYTES,
           *turned_q = tile_g + TILE_BYTES, *turned_g = turned_q + TILE_BYTES;
      float *lse = reinterpret_cast<float*>(tile_q + TILES * TILE_BYTES), *delta = lse + OTHER;
      if (PF_FETCH_STAGES == 1 && i0 > start) pf_barrier();
      fill_q.land(tile_q, GIVES_K ? turned_q : nullptr);
      fill_g.land(GIVES_K || !PF_TURNED_TILES ? tile_g : nullptr, GIVES_V ? turned_g : nullptr);
      if (thread < OTHER) {
        lse[thread] = next_lse;
        delta[thread] = next_delta;
      }
      pf_land();
      pf_barrier();
      if (i0 == start && n == 0) {
        mine_k.ready(lane);
        if constexpr (GIVES_K) mine_v.ready(lane);
      }
      if (PF_FETCH_STAGES == 2) stage ^= 1;
      if (i0 + OTHER < end) {
        fill_q.fetch(stages + stage * STAGE, q, i0 + OTHER);
        fill_g.fetch(stages + stage * STAGE + TILE_BYTES, g, i0 + OTHER);
        if (thread < OTHER) {
          next_lse = pf_lse_or_none(a, part, i0 + OTHER + thread);
          next_delta = pf_delta_of(a, part, i0 + OTHER + thread);
        }
      }
      if (own >= k.rows || part.apart(i0, OTHER, own, OWN)) continue;

      pf_scores s;
      s.clear();
      pf_add_products(mine_k, tile_q, q, i0, lane, s);
      const auto lse_of = [&](int, int col) PF_INLINE { return lse[col]; };
      if constexpr (GIVES_K) {
        pf_score_early<false>(a, part, mask, own, i0, lane, s);
        pf_scores ds;
        ds.clear();
        pf_add_products(mine_v, tile_g, g, i0, lane, ds);
        pf_score_gradients<false, false>(a, part, mask, own, i0, lane, s, ds, lse_of,
                                         [&](int, int col) PF_INLINE { return delta[col]; });
        if constexpr (GIVES_V) {
          const pf_weights<OWN, OTHER> p(s, lane, i0);
          pf_add_results(p, tile_g, turned_g, g, i0, lane, dv);
        }
        const pf_weights<OWN, OTHER> w(ds, lane, i0);
        pf_add_results(w, tile_q, turned_q, q, i0, lane, dk);
      } else {
        pf_score_strip<false>(a, part, mask, own, i0, lane, s);
        s.each(lane, [&](int r, int col, float& x) PF_INLINE { x = pf_power(x - lse_of(r, col)); });
        if constexpr (PF_HAS(PF_DROPOUT)) {
          pf_drop<false>(a, part, own, i0, lane, s);
          const float keeping = static_cast<float>(a.keeping);
          s.each(lane, [&](int, int, float& x) PF_INLINE { x *= keeping; });
        }
        const pf_weights<OWN, OTHER> p(s, lane, i0);
        pf_add_results(p, tile_g, turned_g, g, i0, lane, dv);
      }
    }
  }
  pf_land();
  pf_barrier();
  if constexpr (GIVES_K) {
    const float scale = static_cast<float>(a.scale);
    dk.each(lane, [&](int, int, float& x) PF_INLINE { x *= scale; });
    pf_put_strip(memory, at.mine, lane, dk);
    pf_barrier();
    pf_write_tile<BLOCK, D, THREADS>(
        memory, pf_lines_of(a, a.dk, first_head, part.k0, part.keys, a.depth), at.first);
    pf_barrier();
  }
  if constexpr (GIVES_V) {
    pf_put_strip(memory, at.mine, lane, dv);
    pf_barrier();
    pf_write_tile<BLOCK, D, THREADS>(
        memory, pf_lines_of(a, a.dv, first_head, part.k0, part.keys, a.depth_v), at.first);
  }
}
#endif
