// The operand of matmul_tiles.h that a convolution gathers: -DPF_GATHERED=1, operand a, along k,
// which counts the channels of one tap after the other. Its lines are pixels. A chunk of a line
// belongs to one tap: a thread, whose chunks are those of the same k, keeps the place of each of
// its lines and which taps are inside, and a distance for them all. Places are in chunks; there are
// at most 32 taps, and channels and strides are whole chunks (the launcher looks).
#ifndef PF_CONV_GATHER_H
#define PF_CONV_GATHER_H
#define PF_INDEX pf_u32
#define PF_LAST 1
#include "conv_places.h"
#ifndef PF_MANY_TAPS
#define PF_MANY_TAPS 0
#endif
template <int MANY>
struct pf_mask_of {
  typedef pf_u32 type;
};
template <>
struct pf_mask_of<1> {
  typedef pf_u64 type;
};
typedef pf_mask_of<PF_MANY_TAPS>::type pf_taps_mask;

// Which taps of a pixel are inside of the tensor, one bit each.
PF_DEVICE pf_taps_mask pf_taps_inside(const pf_conv& q, const pf_spot& s) {
  pf_taps_mask in[3] = {0, 0, 0}, all = 0;
  PF_UNROLL for (int d = 0; d < 3; ++d) {
    PF_NO_UNROLL for (pf_i32 i = 0; i < static_cast<pf_i32>(q.taps[d]); ++i) {
      const pf_i32 far = i * static_cast<pf_i32>(q.dilation[d]);
      pf_i32 c = s.c[d] + (PF_INVERSE == 0 ? far : -far);
      bool meet = true;
      if constexpr (PF_INVERSE == 2) {
        const pf_i32 stride = static_cast<pf_i32>(q.stride[d]);
        c = s.c[d] - far / stride;
        meet = far % stride == s.r[d];
      }
      if (meet && static_cast<pf_u32>(c) < static_cast<pf_u32>(q.size[d]))
        in[d] |= static_cast<pf_taps_mask>(1) << i;
    }
  }
  pf_u32 at = 0;
  PF_NO_UNROLL for (pf_i32 i = 0; i < static_cast<pf_i32>(q.taps[0]); ++i) {
    PF_NO_UNROLL for (pf_i32 j = 0; j < static_cast<pf_i32>(q.taps[1]); ++j) {
      if (in[0] >> i & in[1] >> j & 1) all |= in[2] << at;
      at += static_cast<pf_u32>(q.taps[2]);
    }
  }
  return all;
}

// COUNT lines, APART from each other.
template <int COUNT, int APART>
struct pf_gather {
  pf_i32 line[COUNT], distance;
  pf_taps_mask inside[COUNT], tap;  // one bit each
  pf_i32 channel, t[3];

  // From pixel `m` of those before `end` and element `k` of the first tile on.
  PF_METHOD void start(const pf_conv& q, pf_i64 m, pf_i64 end, int k) {
    PF_UNROLL for (int i = 0; i < COUNT; ++i) {
      line[i] = 0;
      inside[i] = 0;
      if (m + i * APART >= end) continue;
      const pf_spot s = pf_pixel(q, static_cast<pf_u32>(m) + i * APART);
      line[i] = static_cast<pf_i32>(s.gathered / CHUNK);
      inside[i] = pf_taps_inside(q, s);
    }
    channel = k;
    tap = 1;
    t[0] = t[1] = t[2] = 0;
    turn(q);
  }
  // The tap that the channel is of, once it is beyond the last one of a tap.
  PF_METHOD void turn(const pf_conv& q) {
    const pf_i32 channels = static_cast<pf_i32>(q.channels);
    while (channel >= channels) {
      channel -= channels;
      tap <<= 1;
      if (++t[2] == q.taps[2]) {
        t[2] = 0;
        if (++t[1] == q.taps[1]) {
          t[1] = 0;
          ++t[0];
        }
      }
    }
    pf_i64 far = 0;
    PF_UNROLL for (int d = 0; d < 3; ++d) {
      const pf_i32 by = t[d] * static_cast<pf_i32>(q.dilation[d]);
      far += (PF_INVERSE == 0   ? by
              : PF_INVERSE == 1 ? -by
                                : -(by / static_cast<pf_i32>(q.stride[d]))) *
             q.at[d];
    }
    distance = static_cast<pf_i32>(far / CHUNK);
  }
  PF_METHOD void next(const pf_conv& q) {
    channel += TILE_K;
    if (channel >= q.channels) turn(q);
  }
  PF_METHOD bool has(int i) const { return (inside[i] & tap) != 0; }
  PF_METHOD pf_i64 at(int i) const {  // in bytes
    return static_cast<pf_i64>(line[i] + distance + channel / CHUNK) * 16;
  }
};

// -DPF_GATHERED=2: operand b, across k, which counts pixels; of the gradient by the weight. Threads
// keep a table of the pixels of a tile: it is made one tile ahead, while the last one is in use.
struct pf_gather_line {
  pf_i32 place;  // in chunks
  pf_taps_mask inside;
};
struct pf_gather_table {
  pf_gather_line* lines;  // two tiles
  pf_i64 k, end;          // of the tile that comes next
  int turn;

  PF_METHOD void make(const pf_conv& q) {
    turn ^= 1;
    for (int i = static_cast<int>(pf_thread()); i < TILE_K; i += THREADS) {
      pf_gather_line line = {0, 0};
      if (k + i < end) {
        const pf_spot s = pf_pixel(q, static_cast<pf_u32>(k + i));
        line.place = static_cast<pf_i32>(s.gathered / CHUNK);
        line.inside = pf_taps_inside(q, s);
      }
      lines[turn * TILE_K + i] = line;
    }
    k += TILE_K;
  }
  PF_METHOD const pf_gather_line& line(int i) const { return lines[turn * TILE_K + i]; }
};
// Pixels before those of the image that a tile of the result belongs to.
PF_DEVICE pf_i64 pf_gather_image(const pf_conv_product& q, const pf_matmul_tile& t) {
  return static_cast<pf_i64>(static_cast<pf_u32>(t.rows) / static_cast<pf_u32>(q.m)) * q.n;
}
// The share of k that a tile of the result has; shares are the batches of the product.
PF_DEVICE pf_gather_table pf_gather_share(const pf_conv_product& q, const pf_matmul_tile& t,
                                          char* memory) {
  const pf_i64 begin = static_cast<pf_u32>(t.rows) / static_cast<pf_u32>(q.m) * q.conv.share;
  const pf_i64 end = begin + q.conv.share;
  return {reinterpret_cast<pf_gather_line*>(memory), begin, end < q.conv.k ? end : q.conv.k, 1};
}
// The tap and the channel of column `n`, which chunks of a thread have in common.
struct pf_gather_column {
  pf_taps_mask tap;  // its bit; none outside of the matrix
  pf_i64 at;         // in bytes

  PF_METHOD void start(const pf_conv& q, pf_i64 n) {
    tap = 0;
    at = 0;
    if (n >= q.m) return;
    const pf_u32 channels = static_cast<pf_u32>(q.channels), c = static_cast<pf_u32>(n),
                 t = c / channels;
    tap = static_cast<pf_taps_mask>(1) << t;
    at = (pf_tap_of(q, t).gathered + (c - t * channels)) * SIZE;
  }
  PF_METHOD bool has(const pf_gather_line& line) const { return (line.inside & tap) != 0; }
  PF_METHOD pf_i64 of(const pf_gather_line& line) const {
    return static_cast<pf_i64>(line.place) * 16 + at;
  }
};

#endif
