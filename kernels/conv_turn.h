// A tensor with its channels side by side, filled up with zeros: [batch][space][channels], of which
// the last are whole chunks of 16 bytes.
//   -DPF_BYTES=2|4  an element's
//   -DCHANNELS=     of a tile: 16, 32 or 64; or one chunk, where there is no more than that
//   -DPIXELS=       of a tile: 256 where its channels are one chunk
//   -DPF_EVEN=1     pixels of an image are at[2] apart
//   -DPF_VECTOR=1   and 1, all lines beginning at whole chunks
#include "conv_turn_args.h"
#include "prelude.h"

enum {
  BLOCK = 256,
  CHUNK = 16 / PF_BYTES,  // elements
  FEW = CHANNELS == CHUNK,
  ALONG = PF_VECTOR ? CHUNK : 1,              // pixels that a thread reads at once
  LINE = (PIXELS + 4 / PF_BYTES) * PF_BYTES,  // bytes of a channel in shared memory
};

// Where a pixel of the image at `image` lies, in elements.
PF_DEVICE pf_i64 pf_pixel_at(const pf_turned& q, pf_i64 image, pf_u32 pixel) {
  if constexpr (PF_EVEN) return image + pixel * q.at[2];
  const pf_u32 wide = static_cast<pf_u32>(q.size[2]), high = static_cast<pf_u32>(q.size[1]),
               line = pixel / wide, plane = line / high;
  return image + plane * q.at[0] + (line - plane * high) * q.at[1] +
         (pixel - line * wide) * q.at[2];
}
PF_DEVICE void pf_add_element(pf_u32 (&w)[4], int i, pf_u32 x) {
  w[i * PF_BYTES / 4] |= x << (i * PF_BYTES % 4 * 8);
}

PF_KERNEL(pf_conv_turn, BLOCK)(pf_turned q) {
  const pf_u32 pixels = static_cast<pf_u32>(q.size[0] * q.size[1] * q.size[2]);
  pf_u32 block = pf_block();
  const auto deal = [&](pf_u32 n) PF_INLINE {
    const pf_u32 rest = block / n, at = block - rest * n;
    block = rest;
    return at;
  };
  const int tiles = static_cast<int>((q.padded + CHANNELS - 1) / CHANNELS);
  const int first_c = FEW ? 0 : static_cast<int>(deal(static_cast<pf_u32>(tiles))) * CHANNELS;
  const pf_u32 first = deal((pixels + PIXELS - 1) / PIXELS) * PIXELS;
  const pf_i64 n = block, image = n * q.batch;
  const char* from = static_cast<const char*>(q.from);
  char* to = static_cast<char*>(q.to) + n * pixels * q.padded * PF_BYTES;
  const int thread = static_cast<int>(pf_thread());
  if constexpr (FEW) {
    const pf_u32 pixel = first + static_cast<pf_u32>(thread);
    if (pixel >= pixels) return;
    const pf_i64 at = pf_pixel_at(q, image, pixel);
    pf_u32 w[4] = {};
    PF_UNROLL for (int c = 0; c < CHUNK; ++c) {
      if (c >= q.channels) continue;
      pf_u32 x;
      pf_load_words<PF_BYTES, false>(from + (at + c * q.channel) * PF_BYTES, &x);
      pf_add_element(w, c, x);
    }
    pf_store_words<16, false>(to + static_cast<pf_i64>(pixel) * 16, w);
    return;
  }
  PF_SHARED pf_u32 room[CHANNELS * LINE / 4];
  char* lines = reinterpret_cast<char*>(room);
  {
    constexpr int lanes = PIXELS / ALONG, step = BLOCK / lanes;
    const int lane = thread % lanes * ALONG;
    const pf_u32 pixel = first + static_cast<pf_u32>(lane);
    const pf_i64 at = pixel < pixels ? pf_pixel_at(q, image, pixel) : 0;
    constexpr int count = CHANNELS / step;
    pf_u32 w[count][4] = {};
    PF_UNROLL for (int k = 0; k < count; ++k) {  // all are on their way before one is waited for
      const pf_i64 c = first_c + thread / lanes + k * step;
      if (pixel < pixels && c < q.channels)
        pf_load_words<ALONG * PF_BYTES, false>(from + (at + c * q.channel) * PF_BYTES, w[k]);
    }
    PF_UNROLL for (int k = 0; k < count; ++k) {
      char* cell = lines + (thread / lanes + k * step) * LINE + lane * PF_BYTES;
      if constexpr (ALONG == 1) {
        pf_store_words<PF_BYTES, false>(cell, w[k]);
      } else {
        PF_UNROLL for (int i = 0; i < 4; ++i) pf_store_words<4, false>(cell + 4 * i, w[k] + i);
      }
    }
  }
  pf_barrier();
  constexpr int chunks = CHANNELS / CHUNK, step = BLOCK / chunks;
  const int c = thread % chunks * CHUNK;
  if (first_c + c >= q.padded) return;
  PF_UNROLL for (int k = 0; k < PIXELS / step; ++k) {
    const int p = thread / chunks + k * step;
    const pf_u32 pixel = first + static_cast<pf_u32>(p);
    if (pixel >= pixels) return;
    pf_u32 w[4] = {};
    PF_UNROLL for (int i = 0; i < CHUNK; ++i) {
      pf_u32 x;
      pf_load_words<PF_BYTES, false>(lines + (c + i) * LINE + p * PF_BYTES, &x);
      pf_add_element(w, i, x);
    }
    pf_store_words<16, false>(to + (pixel * q.padded + first_c + c) * PF_BYTES, w);
  }
}
