// Matrix products on Hopper, for operands that its copy unit can read: c = a b + bias, with the
// results of matmul_tiles.h.
//   -DPF_T -DPF_OUT -DA_ALONG_K -DB_ALONG_K -DPF_TF32 as there; -DTILE_M, -DTILE_N of a tile,
//   -DTILE_K: a line of 128 bytes; -DSTAGES of the ring; -DBATCHES: batch dimensions of the maps,
//   0, 1 or 3; -DPF_CLUSTER=2: two blocks take neighbouring tiles of a column, and each copies its
//   half of what both read of b to both; -DTURNS=1: the two groups of warps that multiply take
//   tiles in turns, so that one writes while the other multiplies; 0: each has half of the rows of
//   each tile; -DASIDE=1: a group of warps of its own finishes rows of whole chunks, whose bias
//   lies in aligned pairs; -DWHOLE=1: whole tiles of them; -DPF_OTHER=: the dtype of b where both
//   are eight-bit floats, whose sums are scaled, -DPROMOTED=1: and added to float32 after each
//   TILE_K, since the unit's own sums have 14 bits; -DPF_PARTS=3: operands are floats as sums of
//   three numbers of bfloat16 (float_parts.h), the third dimension of their maps, and six of nine
//   products are made, all but those below 2^-26 of the whole; -DPF_GATHERED=1: a is what the
//   windows of a convolution see; 2, of parts: b is, taps and channels are its columns and pixels
//   are k, of which each batch has a share.
//
// A block has three groups of four warps: two multiply, a thread of the third starts copies into
// the ring of stages. A stage is handed over by two barriers in memory, `full` and `empty`. Blocks
// stay: the next tile's operands come while the last one is written.
#ifndef PF_OUT
#define PF_OUT PF_T
#endif
#ifndef PF_GATHERED
#define PF_GATHERED 0
#endif
#if !defined(STORED) || defined(PF_EPILOGUE)
#undef STORED
#define STORED 0
#endif
#ifndef PF_INVERSE
#define PF_INVERSE 0
#endif
#ifndef ASIDE
#define ASIDE 0
#endif
#ifndef WHOLE
#define WHOLE 0
#endif
#ifndef PROMOTED
#define PROMOTED 0
#endif
#ifndef PF_PARTS
#define PF_PARTS 1
#endif
#include "matmul_hopper_args.h"
#include "matmul_where.h"
#if PF_PARTS > 1
#include "float_parts_fit.h"
#endif
#ifdef PF_OTHER
#define PF_SCALED 1
#include "stored.h"
#else
#define PF_SCALED 0
#endif
#include "tma_nvidia.h"
#include "vector.h"

enum {
  SIZE = sizeof(PF_T),
  CHUNK = 16 / SIZE,
  GROUPS = TURNS ? 1 : 2,         // that share a tile
  STRIPS = TILE_M / 64 / GROUPS,  // of 64 rows that a group has
  THREADS = (ASIDE ? 4 : 3) * 128,
  A_BYTES = TILE_M * 128,
  B_BYTES = TILE_N * 128,
  STAGE_BYTES = PF_PARTS * (A_BYTES + B_BYTES),
  // Lines of a copy along k; across, lines are TILE_K and a copy is 128 bytes wide.
  A_BOX = TILE_M < 128 ? TILE_M : 128,
  B_BOX = TILE_N / 2,
  A_COPIES = A_ALONG_K ? TILE_M / A_BOX : TILE_M * SIZE / 128,
  B_COPIES = B_ALONG_K ? 2 : TILE_N * SIZE / 128,
  CLUSTER = PF_CLUSTER_BLOCKS,
};
typedef pf_compute<PF_T> pf_acc;
static_assert((!PROMOTED && PF_PARTS == 1) || STRIPS == 1, "registers for the sums twice");
static_assert(TILE_M % (64 * GROUPS) == 0 && B_COPIES % CLUSTER == 0, "whole copies");

#include "matmul_finish.h"
#include "sums_hopper.h"

#if PF_PARTS > 1
// Sums of so many stages are added to these, and what these then have too much is kept, too
// (Kahan): so errors do not grow with k. They lie in memory, since registers are few: `none` is 0,
// which the compiler does not know.
enum { PF_KEPT_STEPS = 8 };
struct pf_kept_sums {
  float sum[TILE_N / 2], over[TILE_N / 2];

  PF_METHOD void clear(int none) {
    PF_UNROLL for (int i = 0; i < TILE_N / 2; ++i) sum[i + none] = over[i + none] = 0;
  }
  PF_METHOD void take(pf_tile_sums& x, int none) {
    PF_UNROLL for (int i = 0; i < TILE_N / 2; ++i) {
      const float before = sum[i + none], more = x.c[i / 4][i % 4] - over[i + none],
                  after = before + more;
      over[i + none] = after - before - more;
      sum[i + none] = after;
      x.c[i / 4][i % 4] = 0;
    }
  }
  PF_METHOD void get(pf_tile_sums& x, int none) const {
    PF_UNROLL for (int i = 0; i < TILE_N / 2; ++i) x.c[i / 4][i % 4] =
        sum[i + none] + (x.c[i / 4][i % 4] - over[i + none]);
  }
};
#endif

// Of results in shared memory: lines of 128 bytes, 16 twice for each warp.
enum {
  OUT_LINE = 128 / OUT_SIZE,
  OUT_WARP = STORED || OUT_SIZE < 4 ? 2 * 16 * 128 : 0,
  OUT_BYTES = ASIDE ? TILE_M * TILE_N * int(OUT_SIZE) : 8 * OUT_WARP,
};
static_assert(!ASIDE || (!TURNS && !STORED && OUT_SIZE == 2), "rounded results of whole tiles");

// The ring of stages from one user's side.
struct pf_ring {
  pf_shared_at stages, full;  // full[STAGES], empty[STAGES], over[2], ready[2], taken[2]
  pf_u32 stage, parity;

  PF_METHOD pf_shared_at data() const { return stages + stage * STAGE_BYTES; }
  PF_METHOD pf_shared_at filled() const { return full + stage * 8; }
  PF_METHOD pf_shared_at emptied(pf_u32 s) const { return full + (STAGES + s) * 8; }
  // That a group has started to multiply the last stage of its tile.
  PF_METHOD pf_shared_at over(int group) const { return full + (2 * STAGES + group) * 8; }
  // Of a group's results in shared memory (ASIDE): they are there; they are needed no more.
  PF_METHOD pf_shared_at ready(int group) const { return over(2 + group); }
  PF_METHOD pf_shared_at taken(int group) const { return over(4 + group); }
  PF_METHOD void next() {
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
  PF_METHOD void skip(pf_u32 n) {
    stage += n;
    parity ^= stage / STAGES & 1;
    stage %= STAGES;
  }
};

struct pf_hopper_tile {
  pf_matmul_tile t;
  pf_u32 batch;
};
PF_DEVICE pf_hopper_tile pf_hopper_where(const pf_matmul_args& q, pf_u32 id) {
  const pf_u32 tiles_m = (static_cast<pf_u32>(q.tiles_m) + CLUSTER - 1) / CLUSTER,
               tiles_n = static_cast<pf_u32>(q.tiles_n), batch = id / (tiles_m * tiles_n);
  pf_u32 row, col;
  pf_band_place(id - batch * tiles_m * tiles_n, tiles_m, tiles_n, &row, &col);
  pf_hopper_tile r;
  r.batch = batch;
  r.t.row = static_cast<pf_i64>(row * CLUSTER + pf_cluster_rank()) * TILE_M;
  r.t.col = static_cast<pf_i64>(col) * TILE_N;
  r.t.rows = static_cast<pf_i64>(batch) * q.m;
  r.t.c = r.t.rows * q.n;
  return r;
}

// An operand's places in its batch dimensions; where it repeats, its map has one of size 1.
struct pf_hopper_batch {
  pf_i32 at[3];

  PF_METHOD void start(const pf_matmul_args& q, const pf_i64* step, pf_u32 batch) {
    PF_UNROLL for (int d = 0; d < 3; ++d) {
      at[d] = 0;
      if (d >= BATCHES || d >= q.ndim) continue;
      const pf_u32 size = static_cast<pf_u32>(q.size[d]), rest = batch / size;
      if (step[d] != 0) at[d] = static_cast<pf_i32>(batch - rest * size);
      batch = rest;
    }
  }
};
// Starts this block's copies of an operand's tile, which begins at `first`: `copy(to, outer)` each.
template <int ALONG_K, int BOX, int COPIES, class F>
PF_DEVICE void pf_each_copy(pf_shared_at to, pf_i32 first, F copy) {
  constexpr int step = ALONG_K ? BOX : 128 / SIZE, bytes = ALONG_K ? BOX * 128 : TILE_K * 128;
  PF_UNROLL for (int i = 0; i < COPIES; ++i) copy(to + i * bytes, first + i * step);
}
// One to this block, or (SHARED) to all of the cluster.
template <int SHARED, class... Places>
PF_DEVICE void pf_copy_part(pf_shared_at to, const pf_tensor_map& map, pf_shared_at barrier,
                            Places... places) {
  if constexpr (SHARED && CLUSTER > 1)
    pf_tensor_copy_to((1 << CLUSTER) - 1, to, map, barrier, places...);
  else
    pf_tensor_copy(to, map, barrier, places...);
}
template <int SHARED, int ALONG_K>
PF_DEVICE void pf_copy_part(pf_shared_at to, const pf_tensor_map& map, pf_shared_at barrier,
                            pf_i32 k, pf_i32 outer, const pf_hopper_batch& b, pf_i32 part = 0) {
  const pf_i32 x = ALONG_K ? k : outer, y = ALONG_K ? outer : k;
  if constexpr (PF_PARTS > 1)
    pf_copy_part<SHARED>(to, map, barrier, x, y, part);
  else if constexpr (BATCHES == 0)
    pf_copy_part<SHARED>(to, map, barrier, x, y);
  else if constexpr (BATCHES == 1)
    pf_copy_part<SHARED>(to, map, barrier, x, y, b.at[0]);
  else
    pf_copy_part<SHARED>(to, map, barrier, x, y, b.at[0], b.at[1], b.at[2]);
}

// The windows of a tile, and the tap and the channels that come next.
struct pf_hopper_windows {
  pf_i32 x[A_COPIES], y[A_COPIES], picture[A_COPIES];
  pf_i32 run, right, down;

  PF_METHOD void start(const pf_matmul_hopper_args& q, pf_i32 row) {
    PF_UNROLL for (int i = 0; i < A_COPIES; ++i) {
      const pf_u32 at = static_cast<pf_u32>(row + i * A_BOX),
                   wide = static_cast<pf_u32>(q.windows[0]),
                   high = static_cast<pf_u32>(q.windows[1]), line = at / wide, p = line / high;
      x[i] = q.first[0] + static_cast<pf_i32>(at - line * wide) * q.step[0];
      y[i] = q.first[1] + static_cast<pf_i32>(line - p * high) * q.step[1];
      picture[i] = static_cast<pf_i32>(p);
    }
    run = right = down = 0;
  }
  PF_METHOD void next(const pf_matmul_hopper_args& q) {
    if (++run < q.runs) return;
    run = 0;
    if (++right < q.taps[0]) return;
    right = 0;
    ++down;
  }
  static PF_METHOD pf_u16 far(const pf_matmul_hopper_args& q, int d, pf_i32 tap) {
    return static_cast<pf_u16>((PF_INVERSE ? q.taps[d] - 1 - tap : tap) * q.apart[d]);
  }
  PF_METHOD void copy(const pf_matmul_hopper_args& q, pf_shared_at stage, pf_shared_at barrier,
                      pf_shared_at b, pf_i32 col) const {
    PF_UNROLL for (int p = 0; p < PF_PARTS; ++p) {
      PF_UNROLL for (int i = 0; i < A_COPIES; ++i)
          pf_window_copy(stage + p * A_BYTES + i * (A_BOX * 128), q.a, barrier, run * TILE_K, x[i],
                         y[i], picture[i] + p * q.pictures, far(q, 0, right), far(q, 1, down));
      pf_each_copy<1, B_BOX, B_COPIES / CLUSTER>(
          b + p * B_BYTES, col, [&](pf_shared_at to, pf_i32 c) PF_INLINE {
            const pf_i32 tap = down * q.taps[0] + right;
            if constexpr (PF_PARTS > 1)
              pf_copy_part<1>(to, q.b, barrier, run * TILE_K, tap, c, p);
            else
              pf_copy_part<1>(to, q.b, barrier, run * TILE_K, tap, c);
          });
    }
  }
};

#if PF_GATHERED == 2
// The panels of a tile of the gradient by the weight: each is 64 channels of a tap.
struct pf_hopper_taps {
  static_assert(PF_PARTS > 1 && !A_ALONG_K && !B_ALONG_K && CLUSTER == 1, "as it is used");
  pf_i32 channel[B_COPIES];
  pf_u16 right[B_COPIES], down[B_COPIES];

  PF_METHOD void start(const pf_matmul_hopper_args& q, pf_i32 col) {
    PF_UNROLL for (int i = 0; i < B_COPIES; ++i) {
      const pf_i32 at = col + i * 64 < q.product.n ? col + i * 64 : 0,  // no column: any
          channels = q.runs * 64, tap = at / channels, line = tap / q.taps[0];
      channel[i] = at - tap * channels;
      right[i] = static_cast<pf_u16>((tap - line * q.taps[0]) * q.apart[0]);
      down[i] = static_cast<pf_u16>(line * q.apart[1]);
    }
  }
  // Of 64 pixels from the one at `k` on.
  PF_METHOD void copy(const pf_matmul_hopper_args& q, pf_shared_at to, pf_shared_at barrier,
                      pf_i32 k) const {
    const pf_u32 at = static_cast<pf_u32>(k), wide = static_cast<pf_u32>(q.windows[0]),
                 high = static_cast<pf_u32>(q.windows[1]), line = at / wide, picture = line / high;
    const pf_i32 x = q.first[0] + static_cast<pf_i32>(at - line * wide) * q.step[0],
                 y = q.first[1] + static_cast<pf_i32>(line - picture * high) * q.step[1];
    PF_UNROLL for (int p = 0; p < PF_PARTS; ++p) PF_UNROLL for (int i = 0; i < B_COPIES; ++i)
        pf_window_copy(to + (p * B_BYTES + i * (TILE_K * 128)), q.b, barrier, channel[i], x, y,
                       static_cast<pf_i32>(picture) + p * q.pictures, right[i], down[i]);
  }
};
#endif

// The bias of a thread's columns, on its way while the last stages are multiplied.
struct pf_tile_bias {
  pf_vector<PF_OUT, 2> of[TILE_N / 8];

  PF_METHOD void load(const pf_matmul_args& q, pf_i64 col, int lane) {
    if (!q.bias) return;
    const auto* at = static_cast<const PF_OUT*>(pf_global(q.bias)) + col + lane % 4 * 2;
    const pf_i64 left = q.n - col - lane % 4 * 2;
    const bool pairs = reinterpret_cast<pf_u64>(at) % (2 * OUT_SIZE) == 0;
    PF_UNROLL for (int j = 0; j < TILE_N / 8; ++j) {
      if constexpr (ASIDE) {  // behind the end of rows, anything
        of[j].template load<false>(at + (WHOLE || j * 8 < left ? j * 8 : 0));
      } else if (pairs && j * 8 + 1 < left) {
        of[j].template load<false>(at + j * 8);
      } else {
        pf_acc b[2] = {pf_acc(0), pf_acc(0)};
        PF_UNROLL for (int e = 0; e < 2; ++e) {
          pf_acc one[1] = {pf_acc(0)};
          if (j * 8 + e < left) pf_load<PF_OUT, 1, false>(at + j * 8 + e, one);
          b[e] = one[0];
        }
        of[j].set(b);
      }
    }
  }
  PF_METHOD pf_acc get(const pf_matmul_args& q, int j, int e) const {
    return !PF_SCALED && q.bias ? of[j].get(e) : pf_acc(0);
  }
};

#if PF_SCALED
// The sums of eight-bit floats times their scales and with their bias, for which there are no
// registers earlier; of a group's share, which begins at `row`.
PF_DEVICE void pf_scale(pf_tile_sums (&sums)[STRIPS], const pf_matmul_hopper_args& maps, pf_i64 col,
                        pf_i64 row, int lane) {
  const pf_matmul_args& q = maps.product;
  const float *of_a = static_cast<const float*>(pf_global(maps.scale_a)),
              *of_b = static_cast<const float*>(pf_global(maps.scale_b));
  float a[STRIPS][2], b[2] = {of_b[0], of_b[0]};
  PF_UNROLL for (int s = 0; s < STRIPS; ++s) PF_UNROLL for (int h = 0; h < 2; ++h) {
    const pf_i64 m = row + s * 64 + lane / 4 + h * 8;
    a[s][h] = of_a[maps.by_row && m < q.m ? m : 0];
  }
  PF_UNROLL for (int j = 0; j < TILE_N / 8; ++j) {
    const pf_i64 n = col + j * 8 + lane % 4 * 2;
    PF_UNROLL for (int e = 0; e < 2; ++e) if (maps.by_row && n + e < q.n) b[e] = of_b[n + e];
    PF_UNROLL for (int s = 0; s < STRIPS; ++s) PF_UNROLL for (int v = 0; v < 4; ++v) sums[s]
        .c[j][v] = sums[s].c[j][v] * a[s][v / 2] * b[v % 2];
    float add[2] = {0, 0};
    pf_add_bias<PF_OUT>(q, 0, n, add);
    PF_UNROLL for (int s = 0; s < STRIPS; ++s) PF_UNROLL for (int v = 0; v < 4; ++v) sums[s]
        .c[j][v] += add[v % 2];
  }
}
#endif

// A group's share of a tile, finished and written: each warp its 16 rows of each strip, by way of
// `memory`, two times 16 lines of its own in turns; `half`: which ones are next.
PF_DEVICE void pf_write(const pf_tile_sums (&sums)[STRIPS], const pf_tile_bias& bias, char* memory,
                        const pf_matmul_hopper_args& maps, const pf_hopper_tile& tile, pf_i64 row,
                        int lane, int& half PF_EPILOGUE_REF) {
  const pf_matmul_args& q = maps.product;
  const pf_matmul_tile& t = tile.t;
  PF_UNROLL for (int s = 0; s < STRIPS; ++s) {
    const pf_i64 first = row + s * 64;
    if constexpr (OUT_SIZE == 4 && !STORED) {
      PF_UNROLL for (int j = 0; j < TILE_N / 8; ++j) PF_UNROLL for (int h = 0; h < 2; ++h) {
        pf_acc v[2] = {sums[s].c[j][h * 2] + bias.get(q, j, 0),
                       sums[s].c[j][h * 2 + 1] + bias.get(q, j, 1)};
        pf_finish<PF_OUT>(nullptr, q, t, first + lane / 4 + h * 8, t.col + j * 8 + lane % 4 * 2,
                          v PF_EPILOGUE_PASS);
      }
    } else {
      PF_UNROLL for (int from = 0; from < TILE_N; from += OUT_LINE) {
        if (t.col + from >= q.n) break;
        char* lines = memory + half * (16 * 128);
        half ^= 1;
        if constexpr (STORED) {  // what was there before has been read
          if (lane == 0) pf_stores_wait<1>();
          pf_warp_barrier();
        }
        // What the program behind the product reads comes while results are rounded.
        pf_chunk_after after[4];
        if constexpr (!STORED) {
          PF_UNROLL for (int i = 0; i < 4; ++i)
              pf_load_chunk(q, t, first + i * 4 + lane / 8, t.col + from + lane % 8 * OUT_CHUNK,
                            after[i] PF_EPILOGUE_PASS);
        }
        PF_UNROLL for (int j = from / 8; j < (from + OUT_LINE) / 8 && j < TILE_N / 8; ++j) {
          const int c = j * 8 + lane % 4 * 2, byte = (c - from) * OUT_SIZE;
          PF_UNROLL for (int h = 0; h < 2; ++h) {
            const int r = lane / 4 + h * 8;
            pf_acc v[2] = {sums[s].c[j][h * 2] + bias.get(q, j, 0),
                           sums[s].c[j][h * 2 + 1] + bias.get(q, j, 1)};
            pf_finish<PF_OUT, true>(lines + pf_place<1>(r, byte / 16) + byte % 16, q, t, first + r,
                                    t.col + c, v PF_EPILOGUE_PASS);
          }
        }
        if constexpr (STORED) pf_async_fence();
        pf_warp_barrier();
        if constexpr (STORED) {
          if (lane == 0) {
            pf_tensor_store(maps.c, pf_shared_address(lines), static_cast<pf_i32>(t.col) + from,
                            static_cast<pf_i32>(first), static_cast<pf_i32>(tile.batch));
            pf_stores_end();
          }
        } else {
          PF_UNROLL for (int i = 0; i < 4; ++i) {
            const int r = i * 4 + lane / 8, c = lane % 8;
            if (from + c * OUT_CHUNK < TILE_N)
              pf_write_chunk<PF_OUT>(lines + pf_place<1>(r, c), q, t, first + r,
                                     t.col + from + c * OUT_CHUNK, after[i] PF_EPILOGUE_PASS);
          }
        }
      }
    }
  }
}

#if ASIDE
// ---- results beside products --------------------------------------------------------------------
// A group of warps of its own finishes them, while the others multiply the next tile.
enum {
  WIDE_CHUNKS = TILE_N / OUT_CHUNK,
  ROW_CHUNKS = 128 % WIDE_CHUNKS == 0 ? WIDE_CHUNKS : 8,  // that neighbouring threads take
  PASS_ROWS = 128 / ROW_CHUNKS,
  ROW_PASSES = WIDE_CHUNKS / ROW_CHUNKS,
  HALF_PASSES = TILE_M / 2 / PASS_ROWS * ROW_PASSES,
  PASSES = 2 * HALF_PASSES,
  TOGETHER = 2,                          // passes whose arithmetic is mixed
  AHEAD = HALF_PASSES % 3 == 0 ? 3 : 2,  // so often are operands of so many under way
  ROUND = TOGETHER * AHEAD,
  HALF_BYTES = TILE_M / 2 * TILE_N * int(OUT_SIZE),
};
static_assert(HALF_PASSES % ROUND == 0, "whole rounds");

// Of a pass: a thread's row and chunk.
PF_DEVICE int pf_pass_row(int pass, int thread) {
  return pass / ROW_PASSES * PASS_ROWS + thread / ROW_CHUNKS;
}
PF_DEVICE int pf_pass_chunk(int pass, int thread) {
  return pass % ROW_PASSES * ROW_CHUNKS + thread % ROW_CHUNKS;
}
// Where a chunk of a row of half of a tile lies.
PF_DEVICE int pf_result_place(int row, int chunk) {
  return chunk / 8 * (TILE_M / 2 * 128) + pf_place<1>(row, chunk % 8);
}
// A group's sums to its half.
PF_DEVICE void pf_hand_over(const pf_tile_sums& sums, const pf_tile_bias& bias, char* half,
                            const pf_matmul_hopper_args& maps, const pf_hopper_tile& tile, int warp,
                            int lane PF_EPILOGUE_REF) {
  PF_UNROLL for (int j = 0; j < TILE_N / 8; ++j) PF_UNROLL for (int h = 0; h < 2; ++h) {
    const int r = warp * 16 + lane / 4 + h * 8;
    pf_acc v[2] = {sums.c[j][h * 2] + bias.get(maps.product, j, 0),
                   sums.c[j][h * 2 + 1] + bias.get(maps.product, j, 1)};
    pf_finish<PF_OUT, true>(half + pf_result_place(r, j) + lane % 4 * 4, maps.product, tile.t, 0, 0,
                            v PF_EPILOGUE_PASS);
  }
}
// Chunks of the group's threads, a few passes at a time: those of the next few are under way while
// these are calculated with.
PF_DEVICE void pf_load_passes(const pf_matmul_args& q, const pf_hopper_tile& tile, int pass,
                              int thread, pf_chunk_after (&after)[TOGETHER] PF_EPILOGUE_REF) {
  PF_UNROLL for (int i = 0; i < TOGETHER; ++i) {
    const pf_i64 m = tile.t.row + pf_pass_row(pass + i, thread),
                 n = tile.t.col + pf_pass_chunk(pass + i, thread) * OUT_CHUNK;
#if WHOLE && defined(PF_EPILOGUE)
    after[i].load(epilogue, tile.t.rows + m, n);
#else
    pf_load_chunk(q, tile.t, m, n, after[i] PF_EPILOGUE_PASS);
#endif
  }
}
PF_DEVICE void pf_finish_passes(const char* results, const pf_matmul_args& q,
                                const pf_hopper_tile& tile, int pass, int thread,
                                const pf_chunk_after (&after)[TOGETHER] PF_EPILOGUE_REF) {
  const char* from[TOGETHER];
  PF_UNROLL for (int i = 0; i < TOGETHER; ++i) {
    const int r = pf_pass_row(pass + i, thread);
    from[i] = results + r / (TILE_M / 2) * HALF_BYTES +
              pf_result_place(r % (TILE_M / 2), pf_pass_chunk(pass + i, thread));
  }
#if WHOLE && defined(PF_EPILOGUE)
  pf_u32 w[TOGETHER][4];
  PF_UNROLL for (int i = 0; i < TOGETHER; ++i) pf_load_words<16, false>(from[i], w[i]);
  PF_UNROLL for (int i = 0; i < TOGETHER; ++i) {
    const pf_i64 m = tile.t.row + pf_pass_row(pass + i, thread),
                 n = tile.t.col + pf_pass_chunk(pass + i, thread) * OUT_CHUNK;
    if (pf_result_kept)
      pf_store_words<16, false>(
          static_cast<char*>(pf_global(q.c)) + (tile.t.c + m * q.n + n) * OUT_SIZE, w[i]);
    pf_vector<PF_OUT, OUT_CHUNK> words;
    PF_UNROLL for (int k = 0; k < 4; ++k) words.w[k] = w[i][k];
    pf_acc value[OUT_CHUNK];
    PF_UNROLL for (int e = 0; e < OUT_CHUNK; ++e) value[e] = words.get(e);
    after[i].run(epilogue, tile.t.rows + m, n, value);
  }
#else
  PF_UNROLL for (int i = 0; i < TOGETHER; ++i) pf_write_chunk<PF_OUT>(
      from[i], q, tile.t, tile.t.row + pf_pass_row(pass + i, thread),
      tile.t.col + pf_pass_chunk(pass + i, thread) * OUT_CHUNK, after[i] PF_EPILOGUE_PASS);
#endif
}
// The group that finishes: all tiles of this block.
PF_DEVICE void pf_finish_tiles(const pf_matmul_hopper_args& maps, const pf_ring& ring,
                               const char* results, pf_u32 tiles, pf_u32 apart,
                               int thread PF_EPILOGUE_REF) {
  const pf_matmul_args& q = maps.product;
  pf_chunk_after after[AHEAD][TOGETHER];
  pf_u32 id = pf_block() / CLUSTER, parity = 0;
  if (id >= tiles) return;
  pf_hopper_tile tile = pf_hopper_where(q, id);
  PF_UNROLL for (int d = 0; d < AHEAD; ++d)
      pf_load_passes(q, tile, d * TOGETHER, thread, after[d] PF_EPILOGUE_PASS);
  for (;;) {
    id += apart;
    const bool more = id < tiles;
    const pf_hopper_tile next = pf_hopper_where(q, more ? id : 0);
    PF_NO_UNROLL for (int half = 0; half < 2; ++half) {
      pf_mbarrier_wait(ring.ready(half), parity);
      PF_NO_UNROLL for (int from = half * HALF_PASSES; from < (half + 1) * HALF_PASSES;
                        from += ROUND) {
        const bool ends = from + ROUND == PASSES;
        pf_hopper_tile then = tile;
        if (ends) then = next;
        PF_UNROLL for (int d = 0; d < AHEAD; ++d) {
          const int pass = d * TOGETHER;
          pf_chunk_after now[TOGETHER];
          PF_UNROLL for (int i = 0; i < TOGETHER; ++i) now[i] = after[d][i];
          if (!ends || more)
            pf_load_passes(q, then, ends ? pass : from + ROUND + pass, thread,
                           after[d] PF_EPILOGUE_PASS);
          pf_finish_passes(results, q, tile, from + pass, thread, now PF_EPILOGUE_PASS);
        }
      }
      pf_warp_barrier();
      if (thread % PF_WARP == 0) pf_mbarrier_arrive(ring.taken(half));
    }
    if (!more) return;
    tile = next;
    parity ^= 1;
  }
}
#endif

PF_KERNEL(pf_matmul_hopper, THREADS)(PF_GRID_CONSTANT pf_matmul_hopper_args maps PF_EPILOGUE_ARGS) {
  const pf_matmul_args& q = maps.product;
  char* memory = pf_dynamic_shared();
  const int thread = static_cast<int>(pf_thread()), lane = thread % PF_WARP,
            warp = thread / PF_WARP, group = thread / 128;
#if PF_PARTS > 1
  if (!pf_parts_fit(maps.range)) return;
#endif
  pf_ring ring;
  ring.stages = pf_shared_address(memory);
  ring.full = ring.stages + (STAGES * STAGE_BYTES + OUT_BYTES);
  ring.stage = ring.parity = 0;
  if (thread == 0) {
    PF_UNROLL for (int s = 0; s < STAGES; ++s) {
      pf_mbarrier_init(ring.full + s * 8, 1);
      pf_mbarrier_init(ring.emptied(s), GROUPS * 4 * CLUSTER);
    }
    PF_UNROLL for (int g = 0; g < (ASIDE ? 6 : 2); ++g) pf_mbarrier_init(ring.over(g), 4);
    pf_mbarriers_made();
  }
  pf_cluster_barrier();

  const pf_u32 batches = static_cast<pf_u32>(maps.batches),
               tiles = (static_cast<pf_u32>(q.tiles_m) + CLUSTER - 1) / CLUSTER *
                       static_cast<pf_u32>(q.tiles_n) * batches,
               steps = static_cast<pf_u32>(maps.steps), apart = pf_blocks() / CLUSTER;
  if (group == 2) {
    pf_registers_give<ASIDE ? 24 : 40>();
    if (warp == 8 && lane == 0) {
      pf_tensor_map_fetch(maps.a);
      pf_tensor_map_fetch(maps.b);
      // Of b, each block of the cluster copies a part.
      const pf_i32 part = static_cast<pf_i32>(pf_cluster_rank());
      const int b_part = PF_PARTS * A_BYTES + part * (B_BYTES / CLUSTER);
      for (pf_u32 id = pf_block() / CLUSTER; id < tiles; id += apart) {
        const pf_hopper_tile tile = pf_hopper_where(q, id);
        const pf_i32 row = static_cast<pf_i32>(tile.t.row),
                     col = static_cast<pf_i32>(tile.t.col) + part * (TILE_N / CLUSTER);
        pf_hopper_batch a, b;
        pf_i32 share = 0;
#if PF_GATHERED == 2
        pf_hopper_taps taps;
        taps.start(maps, col);
        share = static_cast<pf_i32>(tile.batch) * maps.share;
#elif PF_GATHERED
        pf_hopper_windows windows;
        windows.start(maps, row);
#else
        a.start(q, q.a_step, tile.batch);
        b.start(q, q.b_step, tile.batch);
#endif
        PF_NO_UNROLL for (pf_u32 step = 0; step < steps; ++step, ring.next()) {
          const pf_i32 k = share + static_cast<pf_i32>(step * TILE_K);
          const pf_shared_at filled = ring.filled(), stage = ring.data();
          pf_mbarrier_wait(ring.emptied(ring.stage), ring.parity ^ 1);
          pf_mbarrier_expect(filled, STAGE_BYTES);
#if PF_GATHERED == 1
          windows.copy(maps, stage, filled, stage + b_part, col);
          windows.next(maps);
#elif PF_GATHERED == 2
          PF_UNROLL for (int p = 0; p < PF_PARTS; ++p) pf_each_copy<0, A_BOX, A_COPIES>(
              stage + p * A_BYTES, row, [&](pf_shared_at to, pf_i32 outer) PF_INLINE {
                pf_copy_part<0, 0>(to, maps.a, filled, k, outer, a, p);
              });
          taps.copy(maps, stage + b_part, filled, k);
#else
          PF_UNROLL for (int p = 0; p < PF_PARTS; ++p) {
            pf_each_copy<A_ALONG_K, A_BOX, A_COPIES>(
                stage + p * A_BYTES, row, [&](pf_shared_at to, pf_i32 outer) PF_INLINE {
                  pf_copy_part<0, A_ALONG_K>(to, maps.a, filled, k, outer, a, p);
                });
            pf_each_copy<B_ALONG_K, B_BOX, B_COPIES / CLUSTER>(
                stage + b_part + p * B_BYTES, col, [&](pf_shared_at to, pf_i32 outer) PF_INLINE {
                  pf_copy_part<1, B_ALONG_K>(to, maps.b, filled, k, outer, b, p);
                });
          }
#endif
        }
      }
    }
#if ASIDE
  } else if (group == 3) {
    pf_registers_take<152>();
    pf_finish_tiles(maps, ring, memory + STAGES * STAGE_BYTES, tiles, apart,
                    thread - 3 * 128 PF_EPILOGUE_PASS);
#endif
  } else {
    pf_registers_take<ASIDE ? 168 : 232>();
    // A warp is through with a stage.
    const auto release = [&](pf_u32 stage) PF_INLINE {
      if (lane >= CLUSTER) return;
      if constexpr (CLUSTER == 1)
        pf_mbarrier_arrive(ring.emptied(stage));
      else
        pf_mbarrier_arrive_in(ring.emptied(stage), static_cast<pf_u32>(lane));
    };
    const int first = TURNS ? 0 : group * STRIPS;  // of its strips
    int half = 0;
    pf_u32 turn = 0, round = 0;
    for (pf_u32 id = pf_block() / CLUSTER; id < tiles; id += apart, turn ^= 1) {
      if (TURNS && turn != static_cast<pf_u32>(group)) {
        ring.skip(steps);
        continue;
      }
      // Barriers tell phases apart by their parity: who comes too early would take a stage of the
      // other group's for its own.
      if (TURNS && (round != 0 || group != 0))
        pf_mbarrier_wait(ring.over(group ^ 1), (group != 0 ? round : round - 1) & 1);
      ++round;
      const pf_hopper_tile tile = pf_hopper_where(q, id);
      pf_tile_sums sums[STRIPS];
      PF_UNROLL for (int s = 0; s < STRIPS; ++s) sums[s].clear();
#if PF_PARTS > 1
      pf_kept_sums kept;
      if (steps > PF_KEPT_STEPS) kept.clear(maps.none);
#endif
      pf_u32 last = 0;
      // Left alone, the compiler writes out four steps and an end: half of its time, for a few
      // instructions that are hidden behind the products under way.
      PF_NO_UNROLL for (pf_u32 step = 0; step < steps; ++step, ring.next()) {
        pf_mbarrier_wait(ring.filled(), ring.parity);
#if PROMOTED
        // The other group's products hide that this one waits and adds.
        pf_tile_sums part;
        pf_multiply_start<0>(part, ring.data() + first * (64 * 128), ring.data() + A_BYTES);
        pf_multiply_wait<0>();
        pf_hold(part);
        release(ring.stage);
        sums[0].add(part);
#elif PF_PARTS > 1
        // The other group's products hide that this one waits and adds.
        PF_UNROLL for (int share = 0; share < PF_SHARES; ++share) {
          pf_tile_sums part;
          pf_multiply_parts(part, ring.data() + first * (A_ALONG_K ? 64 * 128 : TILE_K * 128),
                            ring.data() + PF_PARTS * A_BYTES, share);
          pf_multiply_wait<0>();
          pf_hold(part);
          if (share + 1 == PF_SHARES) release(ring.stage);
          sums[0].add(part);
        }
        if (step % PF_KEPT_STEPS == PF_KEPT_STEPS - 1 && step + 1 < steps)
          kept.take(sums[0], maps.none);
#else
        PF_UNROLL for (int s = 0; s < STRIPS; ++s) pf_multiply_start(
            sums[s], ring.data() + (first + s) * (A_ALONG_K ? 64 * 128 : TILE_K * 128),
            ring.data() + A_BYTES);
        pf_multiply_wait<STRIPS>();
        if (step > 0) release(last);
        last = ring.stage;
#endif
      }
      if (TURNS && lane == 0) pf_mbarrier_arrive(ring.over(group));
      pf_tile_bias bias;
      if constexpr (!PF_SCALED) bias.load(q, tile.t.col, lane);
#if PF_PARTS > 1
      if (steps > PF_KEPT_STEPS) kept.get(sums[0], maps.none);
#endif
      if constexpr (!PROMOTED && PF_PARTS == 1) {
        pf_multiply_wait<0>();
        release(last);
      }
#if PF_SCALED
      pf_scale(sums, maps, tile.t.col, tile.t.row + first * 64 + warp % 4 * 16, lane);
#endif
#if ASIDE
      pf_mbarrier_wait(ring.taken(group), turn ^ 1);
      pf_hand_over(sums[0], bias, memory + STAGES * STAGE_BYTES + group * HALF_BYTES, maps, tile,
                   warp % 4, lane PF_EPILOGUE_PASS);
      pf_warp_barrier();
      if (lane == 0) pf_mbarrier_arrive(ring.ready(group));
#else
      pf_write(sums, bias, memory + STAGES * STAGE_BYTES + warp * OUT_WARP, maps, tile,
               tile.t.row + first * 64 + warp % 4 * 16, lane, half PF_EPILOGUE_PASS);
#endif
    }
    if constexpr (STORED) {
      if (lane == 0) pf_stores_wait<0>();
    }
  }
  // Who leaves takes memory along that others of the cluster may still copy to.
  if constexpr (CLUSTER > 1) {
    pf_warp_barrier();
    pf_cluster_barrier();
  }
}
