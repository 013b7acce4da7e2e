// Running sums of 64-bit integers, and what is built on them: the places of those elements that a
// mask keeps. In three steps: sums of tiles, their running sums (one block), the elements.
#include "block_scan.h"
#include "select_args.h"
#include "space.h"

enum { BLOCK = 256, TILE = 1024 };

// sums becomes exclusive running sums; *total, when given, the sum of all.
PF_KERNEL(pf_scan_sums, 1024)(pf_i64* sums, pf_i64 n, pf_i64* total) {
  enum { EACH = 4, THREADS = 1024 };  // neighbours of a thread
  pf_i64 carry = 0;
  for (pf_i64 at = 0; at < n; at += THREADS * EACH) {
    const pf_i64 i = at + pf_thread() * EACH;
    pf_i64 v[EACH], all, sum = 0;
    PF_UNROLL for (int k = 0; k < EACH; ++k) {
      v[k] = i + k < n ? sums[i + k] : 0;
      sum += v[k];
    }
    pf_i64 before = carry + pf_block_scan<THREADS, pf_i64>(sum, &all);
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
// A warp looks at STEPS times as many neighbours as it has lanes.
enum { STEPS = 16, WARPS = BLOCK / PF_WARP };
#if PF_WARP == 64
typedef pf_u64 pf_lanes;
#else
typedef pf_u32 pf_lanes;
#endif
// -DMASK=type of the elements that are looked at; operand 0 of the space.
PF_DEVICE bool pf_kept(const pf_space& s, const void* mask, pf_i64 i) {
  pf_i64 at[1];
  pf_offsets<1>(s, static_cast<pf_index>(i), at);
  return pf_get<PF_MASK>(mask, at[0]) != pf_compute<PF_MASK>(0);
}
PF_DEVICE pf_i64 pf_first_looked_at() {
  return (static_cast<pf_i64>(pf_block()) * WARPS + pf_thread() / PF_WARP) * STEPS * PF_WARP;
}
// Which are kept: bit b of lane k's is element first + k * PF_WARP + b.
PF_DEVICE pf_lanes pf_kept_bits(const pf_space& s, const void* mask, pf_i64 first) {
  const pf_u32 lane = pf_lane();
#ifdef PF_DENSE  // bytes that lie together, at a multiple of 16
  if (first + STEPS * PF_WARP <= s.numel) {
    pf_u32 w[STEPS / 4], bits = 0;
    pf_load_words<STEPS, false>(static_cast<const char*>(mask) + first + lane * STEPS, w);
    PF_UNROLL for (int k = 0; k < STEPS / 4; ++k) {
      const pf_u32 some = (((w[k] & 0x7f7f7f7fu) + 0x7f7f7f7fu) | w[k]) >> 7 & 0x01010101u;
      bits |= (some * 0x10204080u >> 28) << 4 * k;  // the lowest bit of each byte, side by side
    }
    enum { PARTS = PF_WARP / STEPS };
    pf_lanes all = 0;
    PF_UNROLL for (int part = 0; part < PARTS; ++part) all |=
        static_cast<pf_lanes>(pf_shuffle_word(bits, (lane * PARTS + part) % PF_WARP))
        << STEPS * part;
    return lane < STEPS ? all : 0;
  }
#endif
  pf_lanes own = 0;
  PF_UNROLL for (pf_u32 k = 0; k < STEPS; ++k) {
    const pf_i64 i = first + k * PF_WARP + lane;
    const pf_lanes all = static_cast<pf_lanes>(pf_ballot(i < s.numel && pf_kept(s, mask, i)));
    if (lane == k) own = all;
  }
  return own;
}
// The sum over all warps of how many bits theirs have, and over those before this one.
PF_DEVICE pf_u32 pf_count_kept(pf_lanes bits, pf_u32* before) {
  PF_SHARED pf_u32 counts[WARPS];
  const pf_u32 warp = pf_thread() / PF_WARP;
  pf_u32 count = pf_count_bits(bits), all = 0;
  PF_UNROLL for (pf_u32 d = PF_WARP / 2; d > 0; d /= 2) count += pf_shuffle_xor(count, d);
  if (pf_lane() == 0) counts[warp] = count;
  pf_barrier();
  *before = 0;
  PF_UNROLL for (pf_u32 w = 0; w < WARPS; ++w) {
    if (w < warp) *before += counts[w];
    all += counts[w];
  }
  return all;
}
PF_KERNEL(pf_mask_sums, BLOCK)(pf_space s, const void* mask, pf_i64* sums) {
  pf_u32 before;
  const pf_u32 all = pf_count_kept(pf_kept_bits(s, mask, pf_first_looked_at()), &before);
  if (pf_thread() == 0) sums[pf_block()] = all;
}
// Calls f(keep, i, place, rank, count) in all lanes of a warp for each step that keeps some:
// whether this lane's element i is kept, where the step's first one goes, this one's number among
// them, and how many they are. In a tile whose first place is known.
template <class F>
PF_DEVICE void pf_each_kept(const pf_space& s, const void* mask, const pf_i64* sums, F f) {
  const pf_i64 first = pf_first_looked_at();
  const pf_u32 lane = pf_lane();
  const pf_lanes bits = pf_kept_bits(s, mask, first);
  pf_u32 before;
  pf_count_kept(bits, &before);
  pf_i64 place = sums[pf_block()] + before;
  for (pf_u64 some = pf_ballot(bits != 0); some != 0; some &= some - 1) {
    const pf_u32 k = pf_count_bits((some & (0 - some)) - 1);
    const pf_lanes step = pf_shuffle(bits, k);
    const pf_u32 count = pf_count_bits(step);
    f(step >> lane & 1, first + k * PF_WARP + lane, place,
      pf_count_bits(step & ((static_cast<pf_lanes>(1) << lane) - 1)), count);
    place += count;
  }
}
// The coordinates of each: out[place][dimension], by way of shared memory, so that what is written
// lies together.
PF_KERNEL(pf_nonzero, BLOCK)
(pf_space s, const void* mask, const pf_i64* sums, pf_shape shape, pf_i64* out, pf_i64 most) {
  PF_SHARED pf_i64 sizes[12];  // an argument indexed by number may be copied for each thread
  PF_SHARED pf_index room[BLOCK * 12];
  if (pf_thread() == 0) {
    PF_UNROLL for (int d = 0; d < 12; ++d) sizes[d] = shape.size[d];
  }
  pf_barrier();
  const pf_u32 ndim = static_cast<pf_u32>(shape.ndim), lane = pf_lane();
  pf_index* const own = room + (pf_thread() - lane) * ndim;
  pf_each_kept(s, mask, sums, [&](bool keep, pf_i64 i, pf_i64 place, pf_u32 rank, pf_u32 count) {
    if (ndim == 1) {
      if (keep && place + rank < most) out[place + rank] = i;
      return;
    }
    if (keep) {
      pf_index rest = static_cast<pf_index>(i), *const to = own + rank * ndim;
      PF_NO_UNROLL for (pf_u32 d = ndim; d-- > 1;) {
        const pf_index size = static_cast<pf_index>(sizes[d]), up = rest / size;
        to[d] = rest - up * size;
        rest = up;
      }
      to[0] = rest;
    }
    pf_warp_barrier();
    for (pf_u32 e = lane; e < count * ndim; e += PF_WARP) {
      const pf_i64 at = place * ndim + e;
      if (at < most * ndim) out[at] = static_cast<pf_i64>(own[e]);
    }
    pf_warp_barrier();
  });
}
// -DBYTES of an element. Operand 1 of the space is the tensor that is read, or written.
#ifdef PF_BYTES
PF_KERNEL(pf_masked_select, BLOCK)
(pf_space s, const void* mask, const pf_i64* sums, void* out, const void* in, pf_i64 most) {
  pf_each_kept(s, mask, sums, [&](bool keep, pf_i64 i, pf_i64 place, pf_u32 rank, pf_u32) {
    if (!keep || place + rank >= most) return;
    pf_i64 at[2];
    pf_offsets<2>(s, static_cast<pf_index>(i), at);
    pf_move<PF_BYTES>(out, place + rank, in, at[1]);
  });
}
PF_KERNEL(pf_masked_scatter, BLOCK)
(pf_space s, const void* mask, const pf_i64* sums, void* out, const void* in, pf_i64 most) {
  pf_each_kept(s, mask, sums, [&](bool keep, pf_i64 i, pf_i64 place, pf_u32 rank, pf_u32) {
    if (!keep || place + rank >= most) return;
    pf_i64 at[2];
    pf_offsets<2>(s, static_cast<pf_index>(i), at);
    pf_move<PF_BYTES>(out, at[1], in, place + rank);
  });
}
#endif
#endif
