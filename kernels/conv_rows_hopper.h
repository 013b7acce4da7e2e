// Convolutions of row-major images on Hopper, with stride 1 and 16-bit floats, by products
// weights[outs, channels] x image[channels, pixels] for each tap. The image is an operand as it
// lies in memory: boxes of 64 channels of lines of pixels. The copy unit moves a box by whole
// lines, but not by single pixels (the innermost coordinate is a multiple of 16 bytes); so taps of
// each column have sums of their own, which are moved to where they belong, and added, when all are
// made.
//
//   -DPF_T=          16-bit floats
//   -DPF_HIGH -DPF_WIDE  taps; -DPF_DOWN -DPF_RIGHT from one to the next; -DPF_RUNS of 64 channels
//   -DPF_PIXELS=64|128 that a group of warps makes, -DPF_COLUMNS=128|64|32|16 of a line
//   -DPF_FIRST=      which column a tile's first result sees by the first column of taps: below 0
//                    where that is outside of the image
//   -DPF_STAGES      of the ring
//   -DPF_INVERSE=1:  the last tap is that of the first weight
//
// A block has three groups of four warps: two multiply, and take tiles in turns, so that one writes
// while the other multiplies; a thread of the third copies. Blocks stay, with their weights in
// shared memory.
#ifndef PF_INVERSE
#define PF_INVERSE 0
#endif
#include "around.h"
#include "conv_rows_hopper_args.h"
#include "wgmma_hopper.h"

enum {
  THREADS = 3 * 128,
  TAPS = PF_HIGH * PF_WIDE,
  PANEL_COLUMNS = PF_COLUMNS < 64 ? PF_COLUMNS : 64,
  LINE = 2 * PANEL_COLUMNS,  // bytes of a channel
  PANEL = 64 * LINE,
  LINES = PF_PIXELS / PF_COLUMNS,
  SEEN = LINES + (PF_HIGH - 1) * PF_DOWN,
  BOXES = PF_COLUMNS / PANEL_COLUMNS,  // beside each other
  BOX_BYTES = SEEN * PANEL,
  STAGE_BYTES = BOXES * BOX_BYTES,
  TAP_BYTES = 64 * 128,
  WEIGHT_BYTES = PF_RUNS * TAPS * TAP_BYTES,
};
typedef pf_compute<PF_T> pf_acc;
typedef pf_strip<16, PF_PIXELS> pf_column_sums;

struct pf_row_tile {
  pf_i32 out, x, y, image;
};
PF_DEVICE pf_row_tile pf_row_place(const pf_conv_rows_args& q, pf_u32 id) {
  const pf_u32 outs = static_cast<pf_u32>(q.blocks_outs), wide = static_cast<pf_u32>(q.blocks_x),
               high = static_cast<pf_u32>(q.blocks_y), at = id / outs, above = at / wide,
               image = above / high;
  return {static_cast<pf_i32>(id - at * outs) * 64,
          static_cast<pf_i32>(at - above * wide) * q.columns,
          static_cast<pf_i32>(above - image * high) * LINES, static_cast<pf_i32>(image)};
}

// The ring of boxes from one user's side.
struct pf_box_ring {
  pf_shared_at stages, full;  // full[PF_STAGES], empty[PF_STAGES], weights
  pf_u32 stage, parity;

  PF_METHOD pf_shared_at data() const { return stages + stage * STAGE_BYTES; }
  PF_METHOD pf_shared_at filled() const { return full + stage * 8; }
  PF_METHOD pf_shared_at emptied(pf_u32 s) const { return full + (PF_STAGES + s) * 8; }
  PF_METHOD pf_shared_at weights() const { return full + 2 * PF_STAGES * 8; }
  PF_METHOD void skip(pf_u32 n) {
    stage += n;
    parity ^= stage / PF_STAGES & 1;
    stage %= PF_STAGES;
  }
};

// By one thread: all weights of 64 results, [run][tap][result][channel], and the boxes of its
// tiles.
PF_DEVICE void pf_copy_boxes(const pf_conv_rows_args& q, pf_box_ring ring, pf_shared_at weights) {
  pf_tensor_map_fetch(q.x);
  pf_tensor_map_fetch(q.weight);
  const pf_i32 out = pf_row_place(q, pf_block()).out;
  pf_mbarrier_expect(ring.weights(), WEIGHT_BYTES);
  for (int i = 0; i < PF_RUNS * TAPS; ++i)
    pf_tensor_copy(weights + i * TAP_BYTES, q.weight, ring.weights(), i / TAPS * 64,
                   PF_INVERSE ? TAPS - 1 - i % TAPS : i % TAPS, out);
  for (pf_u32 id = pf_block(); id < static_cast<pf_u32>(q.tiles); id += pf_blocks()) {
    const pf_row_tile t = pf_row_place(q, id);
    for (int run = 0; run < PF_RUNS; ++run, ring.skip(1)) {
      pf_mbarrier_wait(ring.emptied(ring.stage), ring.parity ^ 1);
      pf_mbarrier_expect(ring.filled(), STAGE_BYTES);
      PF_UNROLL for (int b = 0; b < BOXES; ++b)
          pf_tensor_copy(ring.data() + b * BOX_BYTES, q.x, ring.filled(),
                         t.x + q.left + b * PANEL_COLUMNS, run * 64, t.y + q.top, t.image);
    }
  }
}

// Element e of the pair that lane % 4 has of chunk `chunk` of the sums, moved: what is BY columns
// further right in its line.
template <int BY>
PF_DEVICE float pf_moved(const pf_column_sums& s, int row, int chunk, int e, int lane) {
  constexpr int per = PF_COLUMNS / 8, whole = (BY + 800) / 8 - 100, rest = BY - whole * 8;
  // It is of the lane so many further on, or of the chunk after.
  const int further = (e + rest) / 2, from = chunk + whole, end = chunk / per * per + per;
  float v[2];
  PF_UNROLL for (int i = 0; i < 2; ++i) {
    const bool in = from + i >= end - per && from + i < end;
    v[i] = in ? s.c[0][in ? from + i : 0][row * 2 + (e + rest) % 2] : 0.0f;
  }
  const float give = lane % 4 < further ? v[1] : v[0];
  if (further % 4 == 0) return give;
  return pf_shuffle(give, static_cast<pf_u32>(lane - lane % 4 + (lane + further) % 4));
}
template <int COLUMN>
PF_DEVICE void pf_add_columns(const pf_column_sums (&s)[PF_WIDE], int row, int chunk, int lane,
                              float (&v)[2]) {
  if constexpr (COLUMN < PF_WIDE) {
    PF_UNROLL for (int e = 0; e < 2; ++e) v[e] +=
        pf_moved<PF_FIRST + COLUMN * PF_RIGHT>(s[COLUMN], row, chunk, e, lane);
    pf_add_columns<COLUMN + 1>(s, row, chunk, lane, v);
  }
}
// Of a quad's four words each, word number i of each lane to lane i.
PF_DEVICE void pf_turn_quad(int lane, pf_u32 (&w)[4]) {
  const bool two = lane & 2, one = lane & 1;
  PF_UNROLL for (int i = 0; i < 2; ++i) {
    const pf_u32 got = pf_shuffle_word(two ? w[i] : w[i + 2], static_cast<pf_u32>(lane ^ 2));
    w[i] = two ? got : w[i];
    w[i + 2] = two ? w[i + 2] : got;
  }
  PF_UNROLL for (int i = 0; i < 4; i += 2) {
    const pf_u32 got = pf_shuffle_word(one ? w[i] : w[i + 1], static_cast<pf_u32>(lane ^ 1));
    w[i] = one ? got : w[i];
    w[i + 1] = one ? w[i + 1] : got;
  }
}
// Eight neighbours of a line of results, `left` of them there, to memory and to the program behind:
// as many at once as lines begin at.
template <int N>
PF_DEVICE void pf_write_some(char* to, pf_i64 row, pf_i64 col, pf_i32 left,
                             const pf_u32 (&w)[4] PF_EPILOGUE_REF) {
  PF_UNROLL for (int e = 0; e < 8; e += N) {
    if (e >= left) break;
    pf_u32 part[N == 8 ? 4 : N == 4 ? 2 : 1];
    PF_UNROLL for (int i = 0; i < (N + 1) / 2; ++i) part[i] =
        w[e / 2 + i] >> (N == 1 ? e % 2 * 16 : 0);
    if (pf_result_kept) pf_store_words<N * 2, false>(to + e * 2, part);
#ifdef PF_EPILOGUE
    pf_acc value[N];
    PF_UNROLL for (int i = 0; i < N; ++i) value[i] =
        pf_dtype<PF_T>::decode(part[i / 2] >> (i % 2 * 16) & 0xffffu);
    pf_epilogue(epilogue, row, col + e, value);
#endif
  }
}
// A warp's 16 results from `out` on.
PF_DEVICE void pf_write_tile_rows(const pf_conv_rows_args& q, const pf_row_tile& t, pf_i32 out,
                                  int lane, const pf_column_sums (&sums)[PF_WIDE] PF_EPILOGUE_REF) {
  PF_UNROLL for (int h = 0; h < 2; ++h) {
    const pf_i32 m = out + lane / 4 + h * 8;
    pf_acc bias[1] = {pf_acc(0)};
    if (q.bias && m < q.outs)
      pf_load<PF_T, 1, false>(static_cast<const PF_T*>(pf_global(q.bias)) + m, bias);
    const pf_i64 row = static_cast<pf_i64>(t.image) * q.outs + m;
    PF_UNROLL for (int i = 0; i < PF_PIXELS / 32; ++i) {
      pf_u32 w[4];
      PF_UNROLL for (int k = 0; k < 4; ++k) {
        float v[2] = {bias[0], bias[0]};
        pf_add_columns<0>(sums, h, i * 4 + k, lane, v);
        w[k] = pf_pairs<PF_T>::of(v[0], v[1]);
      }
      pf_turn_quad(lane, w);
      const int at = (i * 4 + lane % 4) * 8, x = t.x + at % PF_COLUMNS, y = t.y + at / PF_COLUMNS;
      if (m >= q.outs || y >= q.height || x >= q.width || at % PF_COLUMNS >= q.columns) continue;
      const pf_i64 col = static_cast<pf_i64>(y) * q.width + x;
      char* to = static_cast<char*>(pf_global(q.y)) +
                 (row * (static_cast<pf_i64>(q.height) * q.width) + col) * 2;
      if (q.width % 8 == 0)
        pf_write_some<8>(to, row, col, 8, w PF_EPILOGUE_PASS);
      else
        pf_write_some<1>(to, row, col, q.width - x, w PF_EPILOGUE_PASS);
    }
  }
}

PF_KERNEL(pf_conv_rows, THREADS)(PF_GRID_CONSTANT pf_conv_rows_args q PF_EPILOGUE_ARGS) {
  char* memory = pf_dynamic_shared();
  const int thread = static_cast<int>(pf_thread()), lane = thread % PF_WARP,
            warp = thread / PF_WARP, group = thread / 128;
  const pf_shared_at weights = pf_shared_address(memory);
  pf_box_ring ring;
  ring.stages = weights + WEIGHT_BYTES;
  ring.full = ring.stages + PF_STAGES * STAGE_BYTES;
  ring.stage = ring.parity = 0;
  if (thread == 0) {
    PF_UNROLL for (int s = 0; s < PF_STAGES; ++s) {
      pf_mbarrier_init(ring.filled() + s * 8, 1);
      pf_mbarrier_init(ring.emptied(static_cast<pf_u32>(s)), 4);
    }
    pf_mbarrier_init(ring.weights(), 1);
    pf_mbarriers_made();
  }
  pf_barrier();
  if (group == 2) {
    pf_registers_give<24>();
    if (warp == 8 && lane == 0) pf_copy_boxes(q, ring, weights);
  } else {
    pf_registers_take<240>();
    pf_column_sums sums[PF_WIDE];
    pf_mbarrier_wait(ring.weights(), 0);
    // Whose turn it is to multiply.
    if (group == 1) pf_group_arrive(1, 256);
    pf_u32 turn = 0;
    for (pf_u32 id = pf_block(); id < static_cast<pf_u32>(q.tiles); id += pf_blocks(), turn ^= 1) {
      if (turn != static_cast<pf_u32>(group)) {
        ring.skip(PF_RUNS);
        continue;
      }
      const pf_row_tile t = pf_row_place(q, id);
      pf_group_barrier(1 + group, 256);
      pf_u32 before = 0;
      PF_NO_UNROLL for (int run = 0; run < PF_RUNS; ++run, ring.skip(1)) {
        pf_mbarrier_wait(ring.filled(), ring.parity);
        PF_UNROLL for (int s = 0; s < PF_WIDE; ++s) pf_hold(sums[s]);
        pf_products_begin();
        PF_UNROLL for (int r = 0; r < PF_HIGH; ++r) PF_UNROLL for (int s = 0; s < PF_WIDE; ++s) {
          const pf_panels tap = {weights + (run * TAPS + r * PF_WIDE + s) * TAP_BYTES, 0},
                          box = {ring.data() + r * PF_DOWN * PANEL, BOXES > 1 ? BOX_BYTES : PANEL};
          pf_start_sums<LINE>(sums[s], tap, box, run > 0 || r > 0);
        }
        pf_products_end();
        if (run > 0) {
          pf_products_wait<1>();
          if (lane == 0) pf_mbarrier_arrive(ring.emptied(before));
        }
        before = ring.stage;
      }
      pf_group_arrive(2 - group, 256);
      pf_products_wait<0>();
      PF_UNROLL for (int s = 0; s < PF_WIDE; ++s) pf_hold(sums[s]);
      if (lane == 0) pf_mbarrier_arrive(ring.emptied(before));
      pf_write_tile_rows(q, t, t.out + warp % 4 * 16, lane, sums PF_EPILOGUE_PASS);
    }
  }
}
