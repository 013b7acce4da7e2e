// Floats as sums of three numbers of bfloat16, which have 8 bits each: high, middle, low. And the
// range of what was seen, for pf_parts_fit().
//   -DPF_V=4: lines begin at multiples of 16 bytes; 1: anywhere
#include "float_parts_args.h"
#include "vector.h"

PF_KERNEL(pf_float_parts_of, 256)(pf_float_parts q) {
  PF_SHARED pf_u32 seen[256 / PF_WARP][PF_RANGE_WORDS];
  const pf_u32 chunks = static_cast<pf_u32>(q.pitch / 4),
               all = static_cast<pf_u32>(q.lines) * chunks, apart = pf_blocks() * 256;
  const pf_i64 plane = q.lines * q.pitch;
  pf_u32 most = 0, least = 0;
  for (pf_u32 i = pf_block() * 256 + pf_thread(); i < all; i += apart) {
    const pf_u32 line = i / chunks;
    const pf_i64 at = static_cast<pf_i64>(i - line * chunks) * 4;
    const float* from = static_cast<const float*>(pf_global(q.from)) + line * q.stride + at;
    float x[4] = {0, 0, 0, 0};
    if (PF_V == 4 && at + 4 <= q.n) {
      pf_vector<float, 4> v;
      v.load<false>(from);
      PF_UNROLL for (int e = 0; e < 4; ++e) x[e] = v.get(e);
    } else {
      PF_UNROLL for (int e = 0; e < 4; ++e) if (at + e < q.n) x[e] = from[e];
    }
    PF_UNROLL for (int e = 0; e < 4; ++e) {
      const pf_u32 bits = pf_bits<pf_u32>(x[e]) & PF_RANGE_TOP;
      most = bits > most ? bits : most;
      const pf_u32 below = bits ? PF_RANGE_TOP - bits : 0;
      least = below > least ? below : least;
    }
    PF_UNROLL for (int part = 0; part < 3; ++part) {
      pf_vector<pf_bf16, 4> v;
      v.set(x);
      pf_store_words<8, false>(
          static_cast<char*>(pf_global(q.to)) + (part * plane + line * q.pitch + at) * 2, v.w);
      PF_UNROLL for (int e = 0; e < 4; ++e) x[e] -= v.get(e);
    }
  }
  PF_UNROLL for (pf_u32 mask = PF_WARP / 2; mask > 0; mask /= 2) {
    const pf_u32 m = pf_shuffle_xor(most, mask), l = pf_shuffle_xor(least, mask);
    most = m > most ? m : most;
    least = l > least ? l : least;
  }
  const pf_u32 warp = pf_thread() / PF_WARP;
  if (pf_lane() == 0) seen[warp][0] = most, seen[warp][1] = least;
  pf_barrier();
  if (pf_thread() < PF_RANGE_WORDS) {
    pf_u32 r = 0;
    for (int w = 0; w < 256 / PF_WARP; ++w) r = seen[w][pf_thread()] > r ? seen[w][pf_thread()] : r;
    pf_atomic_max(q.range + pf_thread(), r);
  }
}
