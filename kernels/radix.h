// Sorting rows of (key, position) by 8 bits of the key at a time, from the lowest: stable, so equal
// keys keep the order of their positions. Three kernels for each 8 bits: count the digits of every
// tile, turn counts into places, move. Rows of `n`; tiles of TILE elements never cross rows.
#include "prelude.h"

enum { BLOCK = 256, DIGITS = 256, WARPS = BLOCK / PF_WARP, TILE = 2048 };

// counts[(row * DIGITS + digit) * tiles + tile]
PF_KERNEL(pf_radix_count, BLOCK)
(const pf_u64* keys, pf_u32* counts, pf_i64 n, pf_i64 tiles, int shift) {
  PF_SHARED pf_u32 count[DIGITS];
  const pf_i64 row = pf_block() / tiles, tile = pf_block() % tiles, first = tile * TILE;
  const pf_i64 end = first + TILE < n ? first + TILE : n;
  for (pf_u32 d = pf_thread(); d < DIGITS; d += BLOCK) count[d] = 0;
  pf_barrier();
  for (pf_i64 i = first + pf_thread(); i < end; i += BLOCK)
    pf_atomic_add(&count[keys[row * n + i] >> shift & (DIGITS - 1)], 1u);
  pf_barrier();
  for (pf_u32 d = pf_thread(); d < DIGITS; d += BLOCK)
    counts[(row * DIGITS + d) * tiles + tile] = count[d];
}

// One block for each row: counts become the places of their first elements.
PF_KERNEL(pf_radix_scan, BLOCK)(pf_u32* counts, pf_i64 tiles) {
  PF_SHARED pf_u32 sums[2][DIGITS];
  pf_u32* mine = counts + (static_cast<pf_i64>(pf_block()) * DIGITS + pf_thread()) * tiles;
  pf_u32 sum = 0;
  for (pf_i64 t = 0; t < tiles; ++t) sum += mine[t];
  sums[0][pf_thread()] = sum;
  pf_barrier();
  int now = 0;
  for (pf_u32 step = 1; step < DIGITS; step *= 2) {
    pf_u32 v = sums[now][pf_thread()];
    if (pf_thread() >= step) v += sums[now][pf_thread() - step];
    sums[now ^ 1][pf_thread()] = v;
    now ^= 1;
    pf_barrier();
  }
  pf_u32 place = sums[now][pf_thread()] - sum;
  for (pf_i64 t = 0; t < tiles; ++t) {
    const pf_u32 c = mine[t];
    mine[t] = place;
    place += c;
  }
}

// The lanes of this warp that hold the same digit; those beyond the end hold none.
PF_DEVICE pf_u64 pf_same_digit(pf_u32 digit, bool there) {
  pf_u64 same = pf_ballot(there);
  PF_UNROLL for (int bit = 0; bit < 8; ++bit) {
    const pf_u64 set = pf_ballot(digit >> bit & 1u);
    same &= digit >> bit & 1u ? set : ~set;
  }
  return same;
}

PF_KERNEL(pf_radix_move, BLOCK)
(const pf_u64* keys, const pf_i64* at, pf_u64* keys_out, pf_i64* at_out, const pf_u32* places,
 pf_i64 n, pf_i64 tiles, int shift) {
  PF_SHARED pf_u32 count[WARPS][DIGITS];
  const pf_i64 row = pf_block() / tiles, tile = pf_block() % tiles;
  const pf_u32 lane = pf_lane(), warp = pf_thread() / PF_WARP;
  // Each warp has a run of the tile of its own, and goes through it in order.
  const pf_i64 first = tile * TILE + warp * (TILE / WARPS) + lane;
  for (pf_u32 d = pf_thread(); d < WARPS * DIGITS; d += BLOCK) count[d / DIGITS][d % DIGITS] = 0;
  pf_barrier();
  for (int i = 0; i < TILE / BLOCK; ++i) {
    const pf_i64 e = first + i * PF_WARP;
    const bool there = e < n;
    const pf_u32 digit =
        there ? static_cast<pf_u32>(keys[row * n + e] >> shift) & (DIGITS - 1) : 0u;
    const pf_u64 same = pf_same_digit(digit, there);
    if (there && pf_count_bits(same & ((pf_u64(1) << lane) - 1)) == 0)
      count[warp][digit] += pf_count_bits(same);
    pf_barrier();
  }
  for (pf_u32 d = pf_thread(); d < DIGITS; d += BLOCK) {
    pf_u32 place = places[(row * DIGITS + d) * tiles + tile];
    for (int w = 0; w < WARPS; ++w) {
      const pf_u32 c = count[w][d];
      count[w][d] = place;
      place += c;
    }
  }
  pf_barrier();
  for (int i = 0; i < TILE / BLOCK; ++i) {
    const pf_i64 e = first + i * PF_WARP;
    const bool there = e < n;
    const pf_u64 key = there ? keys[row * n + e] : 0;
    const pf_u32 digit = static_cast<pf_u32>(key >> shift) & (DIGITS - 1);
    const pf_u64 same = pf_same_digit(digit, there);
    const pf_u32 before = pf_count_bits(same & ((pf_u64(1) << lane) - 1));
    pf_u32 place = 0;
    if (there) place = count[warp][digit] + before;
    pf_barrier();
    if (there) {
      if (before == 0) count[warp][digit] += pf_count_bits(same);
      keys_out[row * n + place] = key;
      at_out[row * n + place] = at[row * n + e];
    }
    pf_barrier();
  }
}
