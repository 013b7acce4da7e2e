// The operand of matmul_tiles.h that a convolution gathers: -DPF_GATHERED=1, operand a, along k,
// which counts the channels of one tap after the other. Its lines are pixels. A chunk of a line
// belongs to one tap: a thread, whose chunks are those of the same k, keeps the place of each of
// its lines and which taps are inside, and where the tap at hand begins. Threads make lines and
// taps together, once for a block. Places are in chunks; there are at most 64 taps, and channels
// and strides are whole chunks (the launcher looks).
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

PF_DEVICE pf_taps_mask pf_first_bits(pf_i32 n) {
  constexpr pf_i32 most = sizeof(pf_taps_mask) * 8;
  return n >= most ? ~static_cast<pf_taps_mask>(0)
         : n > 0   ? (static_cast<pf_taps_mask>(1) << n) - 1
                   : 0;
}
// Which taps of one dimension are inside for a pixel there, one bit each.
PF_DEVICE pf_taps_mask pf_inside_of(const pf_conv& q, const pf_spot& s, int d) {
  const pf_i32 taps = static_cast<pf_i32>(q.taps[d]), dilation = static_cast<pf_i32>(q.dilation[d]),
               size = static_cast<pf_i32>(q.size[d]), at = s.c[d];
  if (PF_INVERSE == 0 && dilation == 1)
    return pf_first_bits(taps < size - at ? taps : size - at) & ~pf_first_bits(-at);
  if (PF_INVERSE == 1 && dilation == 1)
    return pf_first_bits(taps < at + 1 ? taps : at + 1) & ~pf_first_bits(at + 1 - size);
  pf_taps_mask in = 0;
  PF_NO_UNROLL for (pf_i32 i = 0; i < taps; ++i) {
    const pf_i32 far = i * dilation;
    pf_i32 c = at + (PF_INVERSE == 0 ? far : -far);
    bool meet = true;
    if constexpr (PF_INVERSE == 2) {
      const pf_i32 stride = static_cast<pf_i32>(q.stride[d]);
      c = at - far / stride;
      meet = far % stride == s.r[d];
    }
    if (meet && static_cast<pf_u32>(c) < static_cast<pf_u32>(size))
      in |= static_cast<pf_taps_mask>(1) << i;
  }
  return in;
}
PF_DEVICE pf_taps_mask pf_taps_inside(const pf_conv& q, const pf_spot& s) {
  const pf_taps_mask deep = pf_inside_of(q, s, 0), high = pf_inside_of(q, s, 1),
                     wide = pf_inside_of(q, s, 2);
  pf_taps_mask all = 0;
  pf_u32 at = 0;
  PF_NO_UNROLL for (pf_i32 i = 0; i < static_cast<pf_i32>(q.taps[0]); ++i) {
    PF_NO_UNROLL for (pf_i32 j = 0; j < static_cast<pf_i32>(q.taps[1]); ++j) {
      if (deep >> i & high >> j & 1) all |= wide << at;
      at += static_cast<pf_u32>(q.taps[2]);
    }
  }
  return all;
}

struct pf_gather_line {
  pf_i32 place;  // in chunks
  pf_taps_mask inside;
};
// Of pixel `m`; of none from `end` on.
PF_DEVICE pf_gather_line pf_gather_line_of(const pf_conv& q, pf_i64 m, pf_i64 end) {
  pf_gather_line line = {0, 0};
  if (m < end) {
    const pf_spot s = pf_pixel(q, static_cast<pf_u32>(m));
    line.place = static_cast<pf_i32>(s.gathered / CHUNK);
    line.inside = pf_taps_inside(q, s);
  }
  return line;
}

// COUNT lines, APART from each other.
template <int COUNT, int APART>
struct pf_gather {
  enum { MOST_TAPS = 64 };
  pf_gather_line line[COUNT];
  const pf_i32* far;  // of each tap
  const char* from;   // where the tap and the channel of a pixel at place 0 would be
  pf_taps_mask tap;   // its bit
  pf_i32 channel, t;

  // Line `first_line` of OUTER, which are the pixels from `first` on, before `end`, and element `k`
  // of the first tile on.
  template <int OUTER>
  PF_METHOD void start(const pf_conv& q, char* memory, pf_i64 first, pf_i64 end, int first_line,
                       int k) {
    auto* lines = reinterpret_cast<pf_gather_line*>(memory);
    auto* taps = reinterpret_cast<pf_i32*>(memory + OUTER * sizeof(pf_gather_line));
    for (int i = static_cast<int>(pf_thread()); i < OUTER; i += THREADS)
      lines[i] = pf_gather_line_of(q, first + i, end);
    for (int i = static_cast<int>(pf_thread()); i < static_cast<int>(pf_taps(q)); i += THREADS)
      taps[i] = static_cast<pf_i32>(pf_tap_of(q, static_cast<pf_u32>(i)).gathered / CHUNK);
    pf_barrier();
    PF_UNROLL for (int i = 0; i < COUNT; ++i) line[i] = lines[first_line + i * APART];
    far = taps;
    channel = k;
    tap = 1;
    t = 0;
    turn(q);
  }
  // The tap that the channel is of, once it is beyond the last one of a tap.
  PF_METHOD void turn(const pf_conv& q) {
    const pf_i32 channels = static_cast<pf_i32>(q.channels);
    while (channel >= channels) {
      channel -= channels;
      tap <<= 1;  // none behind the last one
      ++t;
    }
    from = static_cast<const char*>(q.gathered) +
           static_cast<pf_i64>(far[t % MOST_TAPS] + channel / CHUNK) * 16;
  }
  PF_METHOD void next(const pf_conv& q) {
    channel += TILE_K;
    if (channel >= q.channels)
      turn(q);
    else
      from += TILE_K / CHUNK * 16;
  }
  PF_METHOD bool has(int i) const { return (line[i].inside & tap) != 0; }
  PF_METHOD const char* at(int i) const { return from + static_cast<pf_i64>(line[i].place) * 16; }
};

// -DPF_GATHERED=2: operand b, across k, which counts pixels; of the gradient by the weight. Threads
// keep a table of the pixels of a tile: it is made one tile ahead, while the last one is in use.
struct pf_gather_table {
  pf_gather_line* lines;  // two tiles
  pf_i64 k, end;          // of the tile that comes next
  int turn;

  PF_METHOD void make(const pf_conv& q) {
    turn ^= 1;
    for (int i = static_cast<int>(pf_thread()); i < TILE_K; i += THREADS)
      lines[turn * TILE_K + i] = pf_gather_line_of(q, k + i, end);
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
