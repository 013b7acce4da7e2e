// Running sums of 64-bit integers, and what is built on them: the places of those elements that a
// mask keeps. In three steps: sums of tiles, their running sums (one block), the elements.
#include "block_scan.h"
#include "select_args.h"
#include "space.h"

enum { BLOCK = 256, TILE = 1024 };

// sums becomes exclusive running sums; *total, when given, the sum of all.
PF_KERNEL(pf_scan_sums, BLOCK)(pf_i64* sums, pf_i64 n, pf_i64* total) {
  enum { EACH = 4 };  // neighbours of a thread
  pf_i64 carry = 0;
  for (pf_i64 at = 0; at < n; at += BLOCK * EACH) {
    const pf_i64 i = at + pf_thread() * EACH;
    pf_i64 v[EACH], all, sum = 0;
    PF_UNROLL for (int k = 0; k < EACH; ++k) {
      v[k] = i + k < n ? sums[i + k] : 0;
      sum += v[k];
    }
    pf_i64 before = carry + pf_block_scan<BLOCK, pf_i64>(sum, &all);
    PF_UNROLL for (int k = 0; k < EACH; ++k) {
      if (i + k < n) sums[i + k] = before;
      before += v[k];
    }
    carry += all;
  }
  if (total && pf_thread() == 0) *total = carry;
}

PF_KERNEL(pf_add_one, BLOCK)(pf_i64* value) {
  if (pf_thread() == 0) *value += 1;
}

// Inclusive running sums of values, in place; tile sums from pf_tile_sums and pf_scan_sums.
PF_KERNEL(pf_tile_sums, BLOCK)(const pf_i64* values, pf_i64 n, pf_i64* sums) {
  pf_i64 sum = 0, all;
  const pf_i64 first = static_cast<pf_i64>(pf_block()) * TILE;
  for (pf_i64 i = first + pf_thread(); i < first + TILE && i < n; i += BLOCK) sum += values[i];
  pf_block_scan<BLOCK, pf_i64>(sum, &all);
  if (pf_thread() == 0) sums[pf_block()] = all;
}
PF_KERNEL(pf_tile_scan, BLOCK)(pf_i64* values, pf_i64 n, const pf_i64* sums) {
  pf_i64 carry = sums[pf_block()];
  const pf_i64 first = static_cast<pf_i64>(pf_block()) * TILE;
  for (int k = 0; k < TILE; k += BLOCK) {
    const pf_i64 i = first + k + pf_thread();
    const pf_i64 v = i < n ? values[i] : 0;
    pf_i64 all;
    const pf_i64 before = pf_block_scan<BLOCK, pf_i64>(v, &all);
    if (i < n) values[i] = carry + before + v;
    carry += all;
  }
}

#ifdef PF_MASK
// -DMASK=type of the elements that are looked at; operand 0 of the space.
PF_DEVICE bool pf_kept(const pf_space& s, const void* mask, pf_i64 i) {
  pf_i64 at[1];
  pf_offsets<1>(s, static_cast<pf_index>(i), at);
  return pf_get<PF_MASK>(mask, at[0]) != pf_compute<PF_MASK>(0);
}
#ifdef PF_DENSE
// Elements of a byte that lie together at a multiple of 16: a thread has EACH neighbours.
enum { EACH = 16 };
PF_DEVICE pf_u32 pf_kept_bits(const pf_space& s, const void* mask, pf_i64 first) {
  pf_u32 bits = 0;
  if (first + EACH <= s.numel) {
    pf_u32 w[EACH / 4];
    pf_load_words<EACH, false>(static_cast<const char*>(mask) + first, w);
    PF_UNROLL for (int k = 0; k < EACH; ++k) bits |=
        static_cast<pf_u32>((w[k / 4] >> 8 * (k % 4) & 0xffu) != 0) << k;
  } else {
    for (pf_i64 i = first; i < s.numel; ++i)
      bits |= static_cast<pf_u32>(pf_kept(s, mask, i)) << (i - first);
  }
  return bits;
}
PF_DEVICE pf_i64 pf_first_kept() {
  return (static_cast<pf_i64>(pf_block()) * BLOCK + pf_thread()) * EACH;
}
PF_KERNEL(pf_mask_sums, BLOCK)(pf_space s, const void* mask, pf_i64* sums) {
  pf_i64 all;
  pf_block_scan<BLOCK, pf_i64>(pf_count_bits(pf_kept_bits(s, mask, pf_first_kept())), &all);
  if (pf_thread() == 0) sums[pf_block()] = all;
}
// Calls f(i, place) for every element that is kept, in a tile whose first place is known.
template <class F>
PF_DEVICE void pf_each_kept(const pf_space& s, const void* mask, const pf_i64* sums, F f) {
  const pf_i64 first = pf_first_kept();
  pf_u32 bits = pf_kept_bits(s, mask, first);
  pf_i64 all;
  pf_i64 place = sums[pf_block()] + pf_block_scan<BLOCK, pf_i64>(pf_count_bits(bits), &all);
  for (; bits != 0; bits &= bits - 1) f(first + pf_count_bits((bits & (0u - bits)) - 1u), place++);
}
#else
PF_KERNEL(pf_mask_sums, BLOCK)(pf_space s, const void* mask, pf_i64* sums) {
  pf_i64 sum = 0, all;
  const pf_i64 first = static_cast<pf_i64>(pf_block()) * TILE;
  for (pf_i64 i = first + pf_thread(); i < first + TILE && i < s.numel; i += BLOCK)
    sum += pf_kept(s, mask, i);
  pf_block_scan<BLOCK, pf_i64>(sum, &all);
  if (pf_thread() == 0) sums[pf_block()] = all;
}
template <class F>
PF_DEVICE void pf_each_kept(const pf_space& s, const void* mask, const pf_i64* sums, F f) {
  pf_i64 carry = sums[pf_block()];
  const pf_i64 first = static_cast<pf_i64>(pf_block()) * TILE;
  for (int k = 0; k < TILE; k += BLOCK) {
    const pf_i64 i = first + k + pf_thread();
    const bool kept = i < s.numel && pf_kept(s, mask, i);
    pf_i64 all;
    const pf_i64 before = pf_block_scan<BLOCK, pf_i64>(kept, &all);
    if (kept) f(i, carry + before);
    carry += all;
  }
}
#endif
// The coordinates of each: out[place][dimension].
PF_KERNEL(pf_nonzero, BLOCK)
(pf_space s, const void* mask, const pf_i64* sums, pf_shape shape, pf_i64* out, pf_i64 most) {
  PF_SHARED pf_i64 sizes[12];  // an argument indexed by number may be copied for each thread
  if (pf_thread() == 0) {
    PF_UNROLL for (int d = 0; d < 12; ++d) sizes[d] = shape.size[d];
  }
  pf_barrier();
  const pf_i64 ndim = shape.ndim;
  pf_each_kept(s, mask, sums, [&](pf_i64 i, pf_i64 place) {
    if (place >= most) return;
    for (pf_i64 d = ndim - 1; d >= 0; --d) {
      out[place * ndim + d] = i % sizes[d];
      i /= sizes[d];
    }
  });
}
// -DBYTES of an element. Operand 1 of the space is the tensor that is read, or written.
#ifdef PF_BYTES
PF_KERNEL(pf_masked_select, BLOCK)
(pf_space s, const void* mask, const pf_i64* sums, void* out, const void* in, pf_i64 most) {
  pf_each_kept(s, mask, sums, [&](pf_i64 i, pf_i64 place) {
    pf_i64 at[2];
    pf_offsets<2>(s, static_cast<pf_index>(i), at);
    if (place < most) pf_move<PF_BYTES>(out, place, in, at[1]);
  });
}
PF_KERNEL(pf_masked_scatter, BLOCK)
(pf_space s, const void* mask, const pf_i64* sums, void* out, const void* in, pf_i64 most) {
  pf_each_kept(s, mask, sums, [&](pf_i64 i, pf_i64 place) {
    pf_i64 at[2];
    pf_offsets<2>(s, static_cast<pf_index>(i), at);
    if (place < most) pf_move<PF_BYTES>(out, at[1], in, place);
  });
}
#endif
#endif
