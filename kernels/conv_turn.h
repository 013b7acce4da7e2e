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

#if PF_VECTOR
// Lines of channels, in chunks that are permuted so that neither those that write nor those that
// read words of several lines meet in a bank.
PF_DEVICE int pf_turn_at(int line, int chunk) {
  return (line * (PIXELS / CHUNK) + (chunk ^ (line / CHUNK % 4 * 2))) * 4;
}
PF_DEVICE void pf_turn_vectors(const pf_turned& q, const char* from, char* to, pf_u32 first,
                               pf_u32 pixels, int first_c, int thread) {
  PF_SHARED pf_u32 room[CHANNELS * PIXELS * PF_BYTES / 4];
  {
    constexpr int lanes = PIXELS / CHUNK, step = BLOCK / lanes, count = CHANNELS / step;
    const int lane = thread % lanes;
    const pf_u32 pixel = first + static_cast<pf_u32>(lane * CHUNK);
    pf_u32 w[count][4] = {};
    PF_UNROLL for (int k = 0; k < count; ++k) {  // all are on their way before one is waited for
      const pf_i64 c = first_c + thread / lanes + k * step;
      if (pixel < pixels && c < q.channels)
        pf_load_words<16, false>(from + (pixel + c * q.channel) * PF_BYTES, w[k]);
    }
    PF_UNROLL for (int k = 0; k < count; ++k)
        pf_store_words<16, false>(room + pf_turn_at(thread / lanes + k * step, lane), w[k]);
  }
  pf_barrier();
  // A thread turns the words of a chunk's channels: of one pixel each, or of two.
  constexpr int pair = 4 / PF_BYTES, chunks = CHANNELS / CHUNK, groups = PIXELS / pair / 8;
  static_assert(chunks * groups % (BLOCK / 8) == 0, "all threads have as much");
  PF_UNROLL for (int k = 0; k < chunks * groups / (BLOCK / 8); ++k) {
    const int item = thread / 8 + k * (BLOCK / 8), c = item % chunks * CHUNK,
              word = item / chunks * 8 + thread % 8;
    const pf_u32 pixel = first + static_cast<pf_u32>(word * pair);
    if (first_c + c >= q.padded || pixel >= pixels) continue;
    pf_u32 x[CHUNK], w[pair][4];
    PF_UNROLL for (int i = 0; i < CHUNK; ++i) x[i] = room[pf_turn_at(c + i, word / 4) + word % 4];
    PF_UNROLL for (int i = 0; i < 4; ++i) {
      if constexpr (pair == 2) {
        w[0][i] = (x[2 * i] & 0xffff) | x[2 * i + 1] << 16;
        w[1][i] = x[2 * i] >> 16 | (x[2 * i + 1] & 0xffff0000u);
      } else {
        w[0][i] = x[i];
      }
    }
    PF_UNROLL for (int i = 0; i < pair; ++i) pf_store_words<16, false>(
        to + ((pixel + static_cast<pf_u32>(i)) * q.padded + first_c + c) * PF_BYTES, w[i]);
  }
}
#endif

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
#if PF_VECTOR
  pf_turn_vectors(q, from + image * PF_BYTES, to, first, pixels, first_c, thread);
#else
  PF_SHARED pf_u32 room[CHANNELS * LINE / 4];
  char* lines = reinterpret_cast<char*>(room);
  {
    constexpr int step = BLOCK / PIXELS, count = CHANNELS / step;
    const int lane = thread % PIXELS;
    const pf_u32 pixel = first + static_cast<pf_u32>(lane);
    const pf_i64 at = pixel < pixels ? pf_pixel_at(q, image, pixel) : 0;
    pf_u32 w[count] = {};
    PF_UNROLL for (int k = 0; k < count; ++k) {  // all are on their way before one is waited for
      const pf_i64 c = first_c + thread / PIXELS + k * step;
      if (pixel < pixels && c < q.channels)
        pf_load_words<PF_BYTES, false>(from + (at + c * q.channel) * PF_BYTES, w + k);
    }
    PF_UNROLL for (int k = 0; k < count; ++k) pf_store_words<PF_BYTES, false>(
        lines + (thread / PIXELS + k * step) * LINE + lane * PF_BYTES, w + k);
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
#endif
}
