// Sorting rows of (key, position) by 8 bits of the key at a time, from the lowest: stable, so equal
// keys keep the order of their positions. Rows of at most SMALL pairs are sorted by a block. Longer
// ones take three kernels for each 8 bits: count the digits of every tile, turn counts into places,
// move. Bits that are the same in all keys of a row take none: the digits of all keys are counted
// first, which also gives where each digit's first key goes. Rows of `n`; tiles of TILE elements
// never cross rows.
#include "block_scan.h"
#include "prelude.h"
#include "radix_args.h"
#include "small_sort.h"

enum { DIGITS = 256, WARPS = BLOCK / PF_WARP, TILE = 2048, PASSES = 8 };

struct pf_radix : pf_radix_args {
  PF_METHOD pf_u32 digit(pf_u64 key, int pass) const {
    return static_cast<pf_u32>(key >> (low + 8 * pass)) & (DIGITS - 1);
  }
  // Whether all keys of the row have the same digit.
  PF_METHOD bool same(pf_i64 row, int pass) const { return !(moves[row] >> (8 * pass) & 1); }
  // One of the two arrays, by a condition: for a place among a kernel's arguments that depends on a
  // number NVIDIA's compiler copies all of them into memory of each thread.
  PF_METHOD pf_u64* keys_in(int i) const { return i ? keys[1] : keys[0]; }
  PF_METHOD pf_i64* at_in(int i) const { return i ? at[1] : at[0]; }
  // Where the row's pairs lie before a pass.
  PF_METHOD int source(pf_i64 row, int pass) const {
    const pf_u64 before = pass < 8 ? (pf_u64(1) << (8 * pass)) - 1 : ~pf_u64(0);
    return pf_count_bits(moves[row] & before) & 1;
  }
};

// Blocks share out the tiles of a row: `parts` of them.
PF_KERNEL(pf_radix_digits, BLOCK)(pf_radix q, pf_i64 parts) {
  PF_SHARED pf_u32 count[PASSES][DIGITS];
  const pf_i64 row = pf_block() / parts, step = parts * BLOCK;
  for (int d = pf_thread(); d < PASSES * DIGITS; d += BLOCK) count[d / DIGITS][d % DIGITS] = 0;
  pf_barrier();
  for (pf_i64 base = pf_block() % parts * BLOCK; base < q.n; base += step) {
    const pf_i64 i = base + pf_thread();
    const bool there = i < q.n;
    const pf_u64 key = there ? q.keys[0][row * q.n + i] : 0;
    const pf_u32 many = pf_count_bits(pf_ballot(there));
    for (int p = 0; p < q.passes; ++p) {
      const pf_u32 digit = q.digit(key, p), first = pf_shuffle_word(digit, 0);
      if (pf_ballot(there && digit != first) == 0) {  // one addition where they would queue up
        if (pf_lane() == 0) pf_atomic_add(&count[p][first], many);
      } else if (there) {
        pf_atomic_add(&count[p][digit], 1u);
      }
    }
  }
  pf_barrier();
  for (int d = pf_thread(); d < q.passes * DIGITS; d += BLOCK) {
    const pf_u32 c = count[d / DIGITS][d % DIGITS];
    if (c) pf_atomic_add(&q.digits[row * q.passes * DIGITS + d], c);
  }
}

// One block for each row: digits become the places of their first keys; which passes move.
PF_KERNEL(pf_radix_plan, BLOCK)(pf_radix q) {
  PF_SHARED pf_u32 alike;
  const pf_i64 row = pf_block();
  const pf_u32 t = pf_thread();
  pf_u64 moves = 0;
  for (int p = 0; p < q.passes; ++p) {
    if (t == 0) alike = 0;
    pf_u32* mine = q.digits + (row * q.passes + p) * DIGITS + t;
    const pf_u32 count = *mine;
    pf_u32 all;
    *mine = pf_block_scan<DIGITS>(count, &all);
    if (count == q.n) alike = 1;
    pf_barrier();
    moves |= static_cast<pf_u64>(alike == 0) << (8 * p);
    pf_barrier();
  }
  if (t == 0) q.moves[row] = moves;
}

PF_KERNEL(pf_radix_count, BLOCK)(pf_radix q, int pass) {
  PF_SHARED pf_u32 count[DIGITS];
  const pf_i64 row = pf_block() / q.tiles, tile = pf_block() % q.tiles, first = tile * TILE;
  if (q.same(row, pass)) return;
  const pf_u64* keys = q.keys_in(q.source(row, pass)) + row * q.n;
  const pf_i64 end = first + TILE < q.n ? first + TILE : q.n;
  for (pf_u32 d = pf_thread(); d < DIGITS; d += BLOCK) count[d] = 0;
  pf_barrier();
  for (pf_i64 i = first + pf_thread(); i < end; i += BLOCK)
    pf_atomic_add(&count[q.digit(keys[i], pass)], 1u);
  pf_barrier();
  for (pf_u32 d = pf_thread(); d < DIGITS; d += BLOCK)
    q.counts[(row * DIGITS + d) * q.tiles + tile] = count[d];
}

// One block for each row and digit: counts become the number of the digit in the tiles before.
PF_KERNEL(pf_radix_scan, BLOCK)(pf_radix q, int pass) {
  if (q.same(pf_block() / DIGITS, pass)) return;
  pf_u32* counts = q.counts + static_cast<pf_i64>(pf_block()) * q.tiles;
  pf_u32 carry = 0, all;
  for (pf_i64 t = pf_thread(); t - pf_thread() < q.tiles; t += BLOCK) {
    const pf_u32 before = pf_block_scan<DIGITS>(t < q.tiles ? counts[t] : 0u, &all);
    if (t < q.tiles) counts[t] = carry + before;
    carry += all;
  }
}
// The same with one block for each row, where the tiles are few.
PF_KERNEL(pf_radix_scan_few, BLOCK)(pf_radix q, int pass) {
  if (q.same(pf_block(), pass)) return;
  pf_u32* counts = q.counts + (static_cast<pf_i64>(pf_block()) * DIGITS + pf_thread()) * q.tiles;
  pf_u32 sum = 0;
  for (pf_i64 t = 0; t < q.tiles; ++t) {
    const pf_u32 c = counts[t];
    counts[t] = sum;
    sum += c;
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

// A tile is put in order in the block's memory first: what goes to neighbours is written together.
PF_KERNEL(pf_radix_move, BLOCK)(pf_radix q, int pass) {
  enum { EACH = TILE / BLOCK };
  PF_SHARED pf_u32 count[WARPS][DIGITS];
  PF_SHARED pf_u32 shift[DIGITS];  // from a digit's place in the tile to that in the row
  PF_SHARED pf_u64 keys[TILE];
  PF_SHARED pf_i64 ats[TILE];
  const pf_i64 row = pf_block() / q.tiles, tile = pf_block() % q.tiles;
  if (q.same(row, pass)) return;
  const int from = q.source(row, pass), to = from ^ 1;
  const pf_u32 lane = pf_lane(), warp = pf_thread() / PF_WARP;
  // Each warp has a run of the tile of its own, and goes through it in order.
  const pf_i64 first = tile * TILE + warp * (TILE / WARPS) + lane;
  pf_u64 key[EACH];
  pf_i64 at[EACH];
  pf_u32 before[EACH], many[EACH];  // lanes with the same digit: lower ones, all
  PF_UNROLL for (int i = 0; i < EACH; ++i) {
    const pf_i64 e = first + i * PF_WARP;
    key[i] = e < q.n ? q.keys_in(from)[row * q.n + e] : 0;
    at[i] = e < q.n ? q.at_in(from)[row * q.n + e] : 0;
  }
  for (pf_u32 d = pf_thread(); d < WARPS * DIGITS; d += BLOCK) count[d / DIGITS][d % DIGITS] = 0;
  pf_barrier();
  PF_UNROLL for (int i = 0; i < EACH; ++i) {
    const bool there = first + i * PF_WARP < q.n;
    const pf_u32 digit = q.digit(key[i], pass);
    const pf_u64 same = pf_same_digit(digit, there);
    before[i] = pf_count_bits(same & ((pf_u64(1) << lane) - 1));
    many[i] = pf_count_bits(same);
    if (there && before[i] == 0) count[warp][digit] += many[i];
    pf_warp_barrier();
  }
  pf_barrier();
  // Places in the tile: smaller digits, then earlier warps.
  const pf_u32 d = pf_thread();
  pf_u32 own = 0, all;
  for (int w = 0; w < WARPS; ++w) own += count[w][d];
  pf_u32 place = pf_block_scan<DIGITS>(own, &all);
  // Places in the row: smaller digits, the digit in earlier tiles.
  shift[d] = q.digits[(row * q.passes + pass) * DIGITS + d] +
             q.counts[(row * DIGITS + d) * q.tiles + tile] - place;
  for (int w = 0; w < WARPS; ++w) {
    const pf_u32 c = count[w][d];
    count[w][d] = place;
    place += c;
  }
  pf_barrier();
  PF_UNROLL for (int i = 0; i < EACH; ++i) {
    const bool there = first + i * PF_WARP < q.n;
    const pf_u32 digit = q.digit(key[i], pass);
    const pf_u32 here = there ? count[warp][digit] + before[i] : 0;
    pf_warp_barrier();
    if (there) {
      if (before[i] == 0) count[warp][digit] += many[i];
      keys[here] = key[i];
      ats[here] = at[i];
    }
    pf_warp_barrier();
  }
  pf_barrier();
  PF_UNROLL for (int i = 0; i < EACH; ++i) {
    const pf_u32 j = pf_thread() + i * BLOCK;
    if (j >= all) continue;
    const pf_i64 out = row * q.n + static_cast<pf_u32>(j + shift[q.digit(keys[j], pass)]);
    q.keys_in(to)[out] = keys[j];
    q.at_in(to)[out] = ats[j];
  }
}

// Rows whose last move did not take them to arrays `wanted` go there.
PF_KERNEL(pf_radix_settle, BLOCK)(pf_radix q, int wanted) {
  const pf_i64 row = pf_block() / q.tiles, first = pf_block() % q.tiles * TILE;
  const int from = q.source(row, q.passes);
  if (from == wanted) return;
  const pf_i64 end = first + TILE < q.n ? first + TILE : q.n;
  for (pf_i64 i = row * q.n + first + pf_thread(); i < row * q.n + end; i += BLOCK) {
    q.keys_in(wanted)[i] = q.keys_in(from)[i];
    q.at_in(wanted)[i] = q.at_in(from)[i];
  }
}

// WIDE: too many bits to keep the position beside them.
template <bool WIDE>
PF_DEVICE void pf_sort_few(const pf_few_pairs& q, const pf_small_row<WIDE>& s) {
  const int bits = q.high - q.low;
  const pf_u64 mask = bits >= 64 ? ~pf_u64(0) : (pf_u64(1) << bits) - 1;
  for (pf_i64 row = pf_block(); row < q.rows; row += pf_blocks()) {
    const pf_i64 first = row * q.n;
    for (int j = static_cast<int>(pf_thread()); j < q.padded; j += BLOCK)
      if (j < q.n)
        s.set(j, q.keys[first + j] >> q.low & mask);
      else
        s.pad(j);
    s.sort(q.padded);
    for (int j = static_cast<int>(pf_thread()); j < q.n; j += BLOCK) {
      const pf_i64 from = first + s.at(j);
      q.keys_out[first + j] = q.keys[from];
      q.at_out[first + j] = q.at[from];
    }
    pf_barrier();
  }
}
PF_KERNEL(pf_sort_pairs, BLOCK)(pf_few_pairs q) {
  PF_SMALL_ROW(row, false);
  pf_sort_few<false>(q, row);
}
PF_KERNEL(pf_sort_wide_pairs, BLOCK)(pf_few_pairs q) {
  PF_SMALL_ROW(row, true);
  pf_sort_few<true>(q, row);
}
