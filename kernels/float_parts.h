// Floats as sums of three numbers of bfloat16, which have 8 bits each: high, middle, low. And the
// range of what was seen, for pf_parts_fit().
//   -DPF_V=4: lines begin at multiples of 16 bytes; 1: anywhere
//   -DPF_TURN=1: of images, whose channels come side by side
#include "float_parts_args.h"
#include "vector.h"

#ifndef PF_TURN
#define PF_TURN 0
#endif
enum { BLOCK = 256 };

// What a thread has seen, as pf_float_parts' range says.
struct pf_seen_range {
  pf_u32 most = 0, least = 0;

  PF_METHOD void see(float x) {
    const pf_u32 bits = pf_bits<pf_u32>(x) & PF_RANGE_TOP;
    most = bits > most ? bits : most;
    const pf_u32 below = bits ? PF_RANGE_TOP - bits : 0;
    least = below > least ? below : least;
  }
  // All threads of the block, together.
  PF_METHOD void tell(pf_u32 (&seen)[BLOCK / PF_WARP][PF_RANGE_WORDS], pf_u32* range) {
    PF_UNROLL for (pf_u32 mask = PF_WARP / 2; mask > 0; mask /= 2) {
      const pf_u32 m = pf_shuffle_xor(most, mask), l = pf_shuffle_xor(least, mask);
      most = m > most ? m : most;
      least = l > least ? l : least;
    }
    const pf_u32 warp = pf_thread() / PF_WARP;
    if (pf_lane() == 0) seen[warp][0] = most, seen[warp][1] = least;
    pf_barrier();
    if (pf_thread() >= PF_RANGE_WORDS) return;
    pf_u32 r = 0;
    for (int w = 0; w < BLOCK / PF_WARP; ++w)
      r = seen[w][pf_thread()] > r ? seen[w][pf_thread()] : r;
    pf_atomic_max(range + pf_thread(), r);
  }
};
// Four neighbours, to `at` of each plane.
PF_DEVICE void pf_write_parts(float (&x)[4], void* to, pf_i64 plane, pf_i64 at,
                              pf_seen_range& range) {
  PF_UNROLL for (int e = 0; e < 4; ++e) range.see(x[e]);
  PF_UNROLL for (int part = 0; part < 3; ++part) {
    pf_vector<pf_bf16, 4> v;
    v.set(x);
    pf_store_words<8, false>(static_cast<char*>(pf_global(to)) + (part * plane + at) * 2, v.w);
    PF_UNROLL for (int e = 0; e < 4; ++e) x[e] -= v.get(e);
  }
}
// Four neighbours of a line, of which those from n on are zeros.
PF_DEVICE void pf_read_four(float (&x)[4], const float* from, pf_i64 at, pf_i64 n) {
  PF_UNROLL for (int e = 0; e < 4; ++e) x[e] = 0;
  if (PF_V == 4 && at + 4 <= n) {
    pf_vector<float, 4> v;
    v.load<false>(from + at);
    PF_UNROLL for (int e = 0; e < 4; ++e) x[e] = v.get(e);
  } else {
    PF_UNROLL for (int e = 0; e < 4; ++e) if (at + e < n) x[e] = from[at + e];
  }
}

#if PF_TURN
// `lines` channels of n pixels, of each of pf_blocks() / tiles images; a tile is 64 by 64.
PF_KERNEL(pf_float_parts_turned, BLOCK)(pf_float_parts q) {
  enum { SIDE = 64, PITCH = SIDE + 1 };
  PF_SHARED pf_u32 seen[BLOCK / PF_WARP][PF_RANGE_WORDS];
  PF_SHARED float room[SIDE * PITCH];
  const pf_u32 across = static_cast<pf_u32>((q.lines + SIDE - 1) / SIDE),
               along = static_cast<pf_u32>((q.n + SIDE - 1) / SIDE),
               images = pf_blocks() / (across * along), rest = pf_block() / across,
               image = rest / along;
  const pf_i64 channel = static_cast<pf_i64>(pf_block() - rest * across) * SIDE,
               pixel = static_cast<pf_i64>(rest - image * along) * SIDE;
  const float* from =
      static_cast<const float*>(pf_global(q.from)) + (image * q.lines + channel) * q.stride;
  const int thread = static_cast<int>(pf_thread());
  PF_UNROLL for (int k = 0; k < SIDE; k += BLOCK / 16) {
    const int c = k + thread / 16, at = thread % 16 * 4;
    float x[4] = {0, 0, 0, 0};
    if (channel + c < q.lines) pf_read_four(x, from + c * q.stride, pixel + at, q.n);
    PF_UNROLL for (int e = 0; e < 4; ++e) room[c * PITCH + at + e] = x[e];
  }
  pf_barrier();
  const pf_i64 plane = images * q.n * q.pitch;
  pf_seen_range range;
  PF_UNROLL for (int k = 0; k < SIDE; k += BLOCK / 16) {
    const int at = k + thread / 16, c = thread % 16 * 4;
    if (pixel + at >= q.n || channel + c >= q.pitch) continue;
    float x[4];
    PF_UNROLL for (int e = 0; e < 4; ++e) x[e] = room[(c + e) * PITCH + at];
    pf_write_parts(x, q.to, plane, (image * q.n + pixel + at) * q.pitch + channel + c, range);
  }
  range.tell(seen, q.range);
}
#else
PF_KERNEL(pf_float_parts_of, BLOCK)(pf_float_parts q) {
  PF_SHARED pf_u32 seen[BLOCK / PF_WARP][PF_RANGE_WORDS];
  const pf_u32 chunks = static_cast<pf_u32>(q.pitch / 4),
               all = static_cast<pf_u32>(q.lines) * chunks, apart = pf_blocks() * BLOCK;
  pf_seen_range range;
  for (pf_u32 i = pf_block() * BLOCK + pf_thread(); i < all; i += apart) {
    const pf_u32 line = i / chunks;
    const pf_i64 at = static_cast<pf_i64>(i - line * chunks) * 4;
    float x[4];
    pf_read_four(x, static_cast<const float*>(pf_global(q.from)) + line * q.stride, at, q.n);
    pf_write_parts(x, q.to, q.lines * q.pitch, line * q.pitch + at, range);
  }
  range.tell(seen, q.range);
}
#endif
