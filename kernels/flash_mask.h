// The gradient of a mask of numbers, of attention on matrix units: a block has a tile of it, or all
// rows or columns where the mask repeats, and goes through the heads that it is added to, in order.
#include "flash_gradients.h"

PF_KERNEL(flash_dmask, PF_WARPS* PF_WARP)(const pf_attention a, pf_i64 sharing) {
  char* memory = pf_dynamic_shared();
  const bool one_row = a.dmask.row == 0, one_column = a.dmask.col == 0;
  const int rows = static_cast<int>(a.queries), columns = static_cast<int>(a.keys);
  const pf_i64 b = pf_block(), rest = pf_quotient(b, a.chunks), owner = pf_quotient(rest, a.tiles);
  const int first = static_cast<int>(rest - owner * a.tiles) * BLOCK,
            column = static_cast<int>(b - rest * a.chunks) * OTHER;
  const int thread = static_cast<int>(pf_thread()), lane = thread % PF_WARP,
            mine = thread / PF_WARP * OWN;
  const int end = one_row ? rows : first + 1, last = one_column ? columns : column + 1;
  pf_scores sums;
  sums.clear();
  for (pf_i64 n = 0; n < sharing; ++n) {
    const pf_i64 head = pf_sharing_head(a, owner, n);
    const pf_flash_part part(pf_part_of(a, head, 0));
    const pf_i64 mask = PF_MASK ? pf_head_offset(a, a.mask, head) : 0;
    const pf_lines q = pf_lines_of(a, a.q, head, 0, rows, a.depth);
    const pf_lines g = pf_lines_of(a, a.dout, head, 0, rows, a.depth_v);
    const pf_lines k = pf_lines_of(a, a.k, head, 0, columns, a.depth);
    const pf_lines v = pf_lines_of(a, a.v, head, 0, columns, a.depth_v);
    for (int i0 = first; i0 < end; i0 += BLOCK) {
      const int own = i0 + mine;
      float lse[pf_scores::ROWS], delta[pf_scores::ROWS];
      PF_UNROLL for (int r = 0; r < pf_scores::ROWS; ++r) {
        lse[r] = pf_lse_or_none(a, part, own + pf_scores::row(r, lane));
        delta[r] = pf_delta_of(a, part, own + pf_scores::row(r, lane));
      }
      for (int j0 = column; j0 < last; j0 += OTHER) {
        if (part.apart(i0, BLOCK, j0, OTHER)) continue;
        pf_own_rows mine_q, mine_g;
        pf_fill_other fill_k, fill_v;
        char *at_g = memory + pf_own_rows::BYTES, *tile_k = at_g + pf_own_rows::BYTES,
             *tile_v = tile_k + TILE_BYTES;
        pf_barrier();  // what was there has been used
        mine_q.fetch(memory, q, i0, mine, lane);
        mine_g.fetch(at_g, g, i0, mine, lane);
        fill_k.fetch(tile_k, k, j0);
        fill_v.fetch(tile_v, v, j0);
        fill_k.land(tile_k, nullptr);
        fill_v.land(tile_v, nullptr);
        pf_land();
        pf_barrier();
        mine_q.ready(lane);
        mine_g.ready(lane);
        pf_scores s, ds;
        s.clear();
        ds.clear();
        pf_add_products(mine_q, tile_k, k, j0, lane, s);
        pf_add_products(mine_g, tile_v, v, j0, lane, ds);
        pf_score_early<true>(a, part, mask, own, j0, lane, s);
        pf_score_gradients<true, true>(
            a, part, mask, own, j0, lane, s, ds, [&](int r, int) PF_INLINE { return lse[r]; },
            [&](int r, int) PF_INLINE { return delta[r]; });
        sums.each_with(lane, ds, [&](int, int, float& x, float& y) PF_INLINE { x += y; });
      }
    }
  }
  // The sums of all lanes side by side, and those of a row or a column in order.
  float* all = reinterpret_cast<float*>(memory);
  pf_barrier();
  sums.each(lane, [&](int r, int col, float& x)
                      PF_INLINE { all[(mine + sums.row(r, lane)) * (OTHER + 1) + col] = x; });
  pf_barrier();
  const int wide = one_column ? 1 : OTHER, high = one_row ? 1 : BLOCK;
  const pf_i64 head = pf_sharing_head(a, owner, 0);
  char* to = static_cast<char*>(a.dmask.data) + pf_head_offset(a, a.dmask, head) * 2;
  for (int at = thread; at < wide * high; at += THREADS) {
    const int r = at / wide, c = at % wide;
    if ((!one_row && first + r >= rows) || (!one_column && column + c >= columns)) continue;
    float x = 0.0f;
    for (int i = r; i < (one_row ? BLOCK : r + 1); ++i)
      for (int j = c; j < (one_column ? OTHER : c + 1); ++j) x += all[i * (OTHER + 1) + j];
    pf_put_one<PF_T>(to, (first + r) * a.dmask.row + (column + c) * a.dmask.col, x);
  }
}
