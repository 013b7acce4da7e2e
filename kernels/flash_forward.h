// Scaled dot-product attention on matrix units: softmax(scale q k^T + mask) v. A warp owns rows of
// queries; tiles of keys and values pass by, with a running maximum and sum for each row.
#include "flash.h"

PF_KERNEL(flash_forward, PF_WARPS* PF_WARP)(const pf_attention a) {
  char* memory = pf_strip_memory();
  const float low = -pf_float<float>::infinity();
  const pf_flash_place at(a, a.causal != 0);
  const int lane = at.lane;
  const int own = at.first + at.mine;  // of the warp
  const pf_flash_part part(pf_part_of(a, at.head, at.sequence));
  if (PF_HAS(PF_SEQUENCES) && at.first >= part.rows) return;
  const pf_lines q = pf_lines_of(a, a.q, at.head, part.q0, part.queries, a.depth);
  const pf_lines k = pf_lines_of(a, a.k, at.head, part.k0, part.keys, a.depth);
  const pf_lines v = pf_lines_of(a, a.v, at.head, part.k0, part.keys, a.depth_v);
  const pf_i64 mask = PF_MASK ? pf_head_offset(a, a.mask, at.head) : 0;
  const int begin = part.first_key(at.first), end = part.end_key(at.first, BLOCK);

  pf_own_rows mine;
  pf_fill_other fill_k, fill_v;
  char* stages = memory + pf_own_rows::BYTES;  // each: keys, values
  mine.fetch(memory, q, at.first, at.mine, lane);
  fill_k.fetch(stages, pf_paged(a, part, k, begin), begin);
  fill_v.fetch(stages + TILE_BYTES, pf_paged(a, part, v, begin), begin);

  pf_results o;
  float high[pf_results::ROWS], sum[pf_results::ROWS];  // sum: the lane's part
  o.clear();
  PF_UNROLL for (int r = 0; r < pf_results::ROWS; ++r) {
    high[r] = low;
    sum[r] = 0.0f;
  }
  int stage = 0;
  PF_ONE_BY_ONE for (int j0 = begin; j0 < end; j0 += OTHER) {
    char *tile_k = stages + stage * 2 * TILE_BYTES, *tile_v = tile_k + TILE_BYTES;
    if (PF_FETCH_STAGES == 1 && j0 > begin) pf_barrier();
    fill_k.land(tile_k, nullptr);
    fill_v.land(PF_TURNED_TILES ? nullptr : tile_v, tile_v);
    pf_land();
    pf_barrier();
    if (j0 == begin) mine.ready(lane);
    if (PF_FETCH_STAGES == 2) stage ^= 1;
    if (j0 + OTHER < end) {
      const int next = j0 + OTHER;
      fill_k.fetch(stages + stage * 2 * TILE_BYTES, pf_paged(a, part, k, next), next);
      fill_v.fetch(stages + stage * 2 * TILE_BYTES + TILE_BYTES, pf_paged(a, part, v, next), next);
    }
    if (own >= q.rows || part.apart(own, OWN, j0, OTHER)) continue;  // sees nothing of it

    pf_scores s;
    s.clear();
    pf_add_products(mine, tile_k, pf_paged(a, part, k, j0), j0, lane, s);
    pf_score_strip<true>(a, part, mask, own, j0, lane, s);
    float top[pf_scores::ROWS], less[pf_scores::ROWS];
    PF_UNROLL for (int r = 0; r < pf_scores::ROWS; ++r) top[r] = high[r];
    s.each(lane, [&](int r, int, float& x) PF_INLINE { top[r] = pf_most(top[r], x); });
    PF_UNROLL for (int r = 0; r < pf_scores::ROWS; ++r) {
      top[r] = pf_join_row<pf_highest>(top[r]);
      const float before = high[r];
      high[r] = top[r];
      if (top[r] == low) top[r] = 0.0f;  // nothing is seen so far: 2^-inf is 0
      less[r] = pf_power(before - top[r]);
      sum[r] *= less[r];
    }
    s.each(lane, [&](int r, int, float& x) PF_INLINE {
      x = pf_power(x - top[r]);
      sum[r] += x;
    });
    o.each(lane, [&](int r, int, float& x) PF_INLINE { x *= less[r]; });
    pf_drop<true>(a, part, own, j0, lane, s);
    const pf_weights<OWN, OTHER> p(s, lane, j0);
    pf_add_results(p, tile_v, tile_v, pf_paged(a, part, v, j0), j0, lane, o);
  }

  float inverse[pf_results::ROWS];
  PF_UNROLL for (int r = 0; r < pf_results::ROWS; ++r) {
    sum[r] = pf_join_row<pf_plus>(sum[r]);
    inverse[r] = sum[r] == 0.0f ? 0.0f : 1.0f / sum[r];
    const int row = own + o.row(r, lane);
    const float lse = sum[r] == 0.0f
                          ? high[r]
                          : pf_fma(high[r], static_cast<float>(1 / PF_LOG2E), pf_log(sum[r]));
    if constexpr (PF_HAS(PF_DROPOUT)) inverse[r] *= static_cast<float>(a.keeping);
    // Lanes of the same row write the same.
    if (row < q.rows) {
      static_cast<float*>(a.lse)[pf_lse_at(a, part, row)] = lse;
      if (a.logs) static_cast<float*>(a.logs)[pf_lse_at(a, part, row)] = lse;
    }
  }
  o.each(lane, [&](int r, int, float& x) PF_INLINE { x *= inverse[r]; });
  pf_land();
  pf_barrier();  // the tiles have been used
  pf_put_strip(memory, at.mine, lane, o);
  pf_barrier();
  pf_write_tile<BLOCK, D, THREADS>(
      memory, pf_lines_of(a, a.out, at.head, part.q0, part.queries, a.depth_v), at.first);
}
