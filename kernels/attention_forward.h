// Scaled dot-product attention: softmax(scale q k^T + mask) v, a tile of queries a block, keys in
// turn with a running maximum and sum. Keeps the logarithm of each row's sum of exponentials.
#include "attention.h"

PF_KERNEL(sdpa, PF_ATTENTION_THREADS)(const pf_attention a) {
  PF_SHARED C room[ROOM];
  PF_SHARED C weights[WEIGHTS];
  const C low = -pf_float<C>::infinity();
  const int t = static_cast<int>(pf_thread_anew()), tx = t % 16, ty = t / 16;
  const pf_block_place at(a);
  const pf_i64 i0 = at.tile * TILE, first = at.chunk * COLUMNS * PF_WIDE;
  const pf_part part = pf_part_of(a, at.head, at.sequence);
  if (PF_HAS(PF_SEQUENCES) && i0 >= part.queries) return;
  const pf_view q = pf_view_of(a, a.q, at.head, part.q0, part.queries, a.depth);
  const pf_view k = pf_keys_of(a, a.k, at.head, part, a.depth);
  const pf_view v = pf_keys_of(a, a.v, at.head, part, a.depth_v);
  const pf_i64 mask = PF_MASK ? pf_head_offset(a, a.mask, at.head) : 0;
  const pf_span seen = pf_keys_seen(part, i0);
  C o[SIDE][RESULTS], high[SIDE], sum[SIDE];
  PF_UNROLL for (int i = 0; i < SIDE; ++i) {
    high[i] = low;
    sum[i] = C(0);
    PF_UNROLL for (int j = 0; j < RESULTS; ++j) o[i][j] = C(0);
  }
  for (pf_i64 j0 = seen.begin; j0 < seen.end; j0 += TILE) {
    C s[SIDE][SIDE];
    pf_product(q, i0, k, j0, room, s);
    PF_UNROLL for (int i = 0; i < SIDE; ++i) {
      C top = high[i];
      PF_UNROLL for (int j = 0; j < SIDE; ++j) {
        s[i][j] = pf_score(a, part, mask, i0 + ty * SIDE + i, j0 + tx + 16 * j, s[i][j]);
        top = pf_most(top, s[i][j]);
      }
      for (pf_u32 m = 1; m < 16; m *= 2) top = pf_most(top, pf_shuffle_xor(top, m));
      const C shift = top == low ? C(0) : top;  // nothing is seen so far: exp(-inf) is 0
      const C less = Math::exp(high[i] - shift);
      C add = C(0);
      PF_UNROLL for (int j = 0; j < SIDE; ++j) {
        s[i][j] = Math::exp(s[i][j] - shift);
        add += s[i][j];
        if (PF_HAS(PF_DROPOUT) && !pf_kept(a, part, i0 + ty * SIDE + i, j0 + tx + 16 * j))
          s[i][j] = C(0);
        weights[(ty * SIDE + i) * (TILE + 1) + tx + 16 * j] = s[i][j];
      }
      for (pf_u32 m = 1; m < 16; m *= 2) add += pf_shuffle_xor(add, m);
      sum[i] = sum[i] * less + add;
      high[i] = top;
      PF_UNROLL for (int j = 0; j < RESULTS; ++j) o[i][j] *= less;
    }
    pf_add_product(weights, v, j0, first, room, o);
    pf_barrier();
  }
  PF_UNROLL for (int i = 0; i < SIDE; ++i) {
    const pf_i64 row = i0 + ty * SIDE + i;
    C inverse = sum[i] == C(0) ? C(0) : C(1) / sum[i];
    if constexpr (PF_HAS(PF_DROPOUT)) inverse *= static_cast<C>(a.keeping);
    PF_UNROLL for (int j = 0; j < RESULTS; ++j) o[i][j] *= inverse;
    if (at.chunk == 0 && tx == 0 && row < part.queries) {
      const C lse = sum[i] == C(0) ? high[i] : high[i] + pf_log(sum[i]);
      static_cast<C*>(a.lse)[pf_lse_at(a, part, row)] = lse;
      if (a.logs) static_cast<C*>(a.logs)[pf_lse_at(a, part, row)] = lse;
    }
  }
  pf_store_results(a, a.out, at.head, part.q0, i0, part.queries, first, a.depth_v, o);
}
