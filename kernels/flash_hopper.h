// What attention's kernels on Hopper share. PF_WARPS warps multiply by wgmma, in groups of four
// that own 64 rows each; one thread more copies the tiles that they meet by tensor maps into a ring
// of stages, whose barriers in memory say which are full and which are empty again.
//
//   -DPF_T, -DPF_FEATURES, -DPF_MASK, -DPF_D=64|128, -DPF_OTHER=64|128, -DPF_WARPS=4|8, -DPF_HELD=0
//   as flash.h says, -DPF_OWN=16; and -DPF_STAGES=   of the ring -DPF_RESIDENT= blocks that share a
//   multiprocessor: its registers are for all of them
//                  (prelude_nvidia.h)
//   -DPF_ALONE=1:  who copies is a warp; 0: a group of four, which gives its registers to others
#ifndef PF_FLASH_HOPPER_H
#define PF_FLASH_HOPPER_H
#include "flash.h"
#include "flash_hopper_args.h"
#include "wgmma_hopper.h"

static_assert(PF_OWN == 16 && PF_WARPS % 4 == 0 && D % 64 == 0, "as wgmma has it");
static_assert((PF_FEATURES & (PF_SEQUENCES | PF_PAGES)) == 0, "these have no text here");
enum {
  GROUPS = PF_WARPS / 4,
  OWN_BYTES = BLOCK * D * 2,
  ALL_THREADS = THREADS + (PF_ALONE ? PF_WARP : 4 * PF_WARP),
  // Every score is looked at by itself; else only those of tiles that are not seen as a whole.
  EACH_SCORE = PF_MASK != 0 || PF_HAS(PF_SLOPES | PF_SOFT_CAP | PF_SCORE),
  // Gradients need the slope of a score: both products of a step are waited for.
  SLOPED = PF_HAS(PF_SOFT_CAP | PF_SCORE),
};

// Scores that are not seen become -inf, unscaled: rows of the strip are queries from `own` on and
// columns keys from `other` on, or the other way. What is not there matters for keys only, and
// there as columns: rows that are not there are not stored, and queries have lse = inf.
template <bool OWN_QUERIES>
PF_DEVICE void pf_hide(const pf_flash_part& part, int own, int other, int lane, pf_scores& s) {
  const float low = -pf_float<float>::infinity();
  int first[2], last[2];
  PF_UNROLL for (int r = 0; r < 2; ++r) {
    const int row = own + s.row(r, lane);
    first[r] = (OWN_QUERIES ? row + part.from : row - part.to) - other;
    last[r] = (OWN_QUERIES ? row + part.to : row - part.from) - other;
    const int there = part.columns - 1 - other;
    if (OWN_QUERIES && last[r] > there) last[r] = there;
  }
  s.each(lane, [&](int r, int col, float& x) PF_INLINE {
    if constexpr (OWN_QUERIES || PF_HAS(PF_WINDOW)) x = col > last[r] ? low : x;
    if constexpr (!OWN_QUERIES || PF_HAS(PF_WINDOW)) x = col < first[r] ? low : x;
  });
}
// Which steps, tiles of OTHER, a block takes, and which of them the 64 rows of a group from `first`
// on see as a whole: from `whole` on and before `not_whole`.
struct pf_flash_steps {
  int begin, end, whole, not_whole;
};
PF_DEVICE int pf_step_behind(int i) {  // the first that begins at i or later
  return i > 0 ? (i + (OTHER - 1)) / OTHER : 0;
}
PF_DEVICE pf_flash_steps pf_steps_of_queries(const pf_flash_part& part, int block, int first) {
  const int begin = part.first_key(block) / OTHER, end = pf_step_behind(part.end_key(block, BLOCK)),
            seen = first + part.to < part.columns - 1 ? first + part.to + 1 : part.columns;
  const int whole = PF_HAS(PF_WINDOW) ? pf_step_behind(first + 63 + part.from) : 0;
  // One at least: then its scores are all hidden.
  return {begin, end > begin ? end : begin + 1, EACH_SCORE ? end : whole,
          seen > 0 ? seen / OTHER : 0};
}
PF_DEVICE pf_flash_steps pf_steps_of_keys(const pf_flash_part& part, int block, int first) {
  const int begin = part.first_query(block) / OTHER,
            end = pf_step_behind(part.end_query(block, BLOCK)),
            seen = first - part.from + 1;  // with a window
  return {begin, end, EACH_SCORE ? end : pf_step_behind(first + 63 - part.to),
          !PF_HAS(PF_WINDOW) ? end
          : seen > 0         ? seen / OTHER
                             : 0};
}
// A head by batch dimensions, and its place in a map.
struct pf_head_index {
  pf_i32 x, y, z;
  PF_METHOD pf_head_index(const pf_flash_maps& m, pf_i64 head) {
    const pf_u32 h = static_cast<pf_u32>(head), s0 = static_cast<pf_u32>(m.size[0]),
                 s1 = static_cast<pf_u32>(m.size[1]), above = h / s0, top = above / s1;
    x = static_cast<pf_i32>(h - above * s0);
    y = static_cast<pf_i32>(above - top * s1);
    z = static_cast<pf_i32>(top);
  }
  PF_METHOD pf_head_index(pf_i32 x_, pf_i32 y_, pf_i32 z_) : x(x_), y(y_), z(z_) {}
  PF_METHOD pf_head_index in(const pf_i32 (&step)[3]) const {
    return {x * step[0], y * step[1], z * step[2]};
  }
};
// Lines from `row` on to a tile, whose panels lie one behind the other; as many as a box has.
template <int ROWS>
PF_DEVICE void pf_copy_panels(pf_shared_at to, const pf_tensor_map& map, pf_shared_at barrier,
                              int row, const pf_head_index& at) {
  PF_UNROLL for (int p = 0; p < D / 64; ++p)
      pf_tensor_copy(to + p * ROWS * 128, map, barrier, p * 64, row, at.x, at.y, at.z);
}
// The block's own rows: a tile for each group.
PF_DEVICE void pf_copy_own(pf_shared_at to, const pf_tensor_map& map, pf_shared_at barrier, int row,
                           const pf_head_index& at) {
  PF_UNROLL for (int g = 0; g < GROUPS; ++g)
      pf_copy_panels<64>(to + g * 64 * D * 2, map, barrier, row + g * 64, at);
}
PF_DEVICE pf_panels pf_own_panels(pf_shared_at own, int group) {
  return {own + group * 64 * D * 2, 64 * 128};
}

// The ring: PF_STAGES of two tiles each, x and y, with barriers of their own.
struct pf_flash_ring {
  pf_shared_at tiles, barriers;
  pf_u32 stage, parity;

  enum { BYTES = PF_STAGES * 2 * TILE_BYTES, BARRIERS = PF_STAGES * 4 };
  PF_METHOD pf_shared_at full(int y) const { return barriers + (stage * 4 + y) * 8; }
  PF_METHOD pf_shared_at empty(int y) const { return barriers + (stage * 4 + 2 + y) * 8; }
  PF_METHOD pf_shared_at tile(int y) const { return tiles + (stage * 2 + y) * TILE_BYTES; }
  PF_METHOD pf_panels panels(int y) const { return {tile(y), OTHER * 128}; }
  PF_METHOD void next() {
    if (++stage == PF_STAGES) {
      stage = 0;
      parity ^= 1;
    }
  }
  PF_METHOD void wait(int y) const { pf_mbarrier_wait(full(y), parity); }
  // By a lane of each warp, once its products with the tile are through.
  PF_METHOD void release(int y) const { release(y, stage); }
  PF_METHOD void release(int y, pf_u32 of) const {
    if (pf_lane() == 0) pf_mbarrier_arrive(barriers + (of * 4 + 2 + y) * 8);
  }
  // By who copies: the tile is empty, and so many bytes are to come.
  PF_METHOD pf_shared_at fill(int y, pf_u32 bytes) const {
    pf_mbarrier_wait(empty(y), parity ^ 1);
    pf_mbarrier_expect(full(y), bytes);
    return full(y);
  }
};
PF_DEVICE pf_flash_ring pf_make_ring(pf_shared_at tiles, pf_shared_at barriers) {
  return {tiles, barriers, 0, 0};
}
// By the whole block: the barrier of the own tiles, and those of the ring behind it.
PF_DEVICE void pf_make_barriers(pf_shared_at own, pf_shared_at ring) {
  if (pf_thread() == 0) {
    pf_mbarrier_init(own, 1);
    for (pf_u32 i = 0; i < pf_flash_ring::BARRIERS; ++i)
      pf_mbarrier_init(ring + i * 8, i % 4 < 2 ? 1 : PF_WARPS);
    pf_mbarriers_made();
  }
  pf_barrier();
}
// Whether this thread multiplies, or else is of those that copy.
PF_DEVICE bool pf_multiplies() {
  const bool yes = pf_thread() < THREADS;
  if constexpr (!PF_ALONE) {
    if (yes)
      pf_registers_take<240>();
    else
      pf_registers_give<24>();
  }
  return yes;
}
PF_DEVICE bool pf_copies() {
  return pf_thread() == THREADS;
}

// Results of a group, rounded, to its rows of a matrix, by way of its own tile, which it is through
// with: result number `which` of the kernel.
PF_DEVICE void pf_write_group(const pf_flash_maps& m, int which, const pf_matrix& to, pf_i64 head,
                              pf_i64 rows, pf_i64 cols, char* tiles, int first, pf_results& r) {
  const int group = static_cast<int>(pf_thread()) / (4 * PF_WARP),
            row = static_cast<int>(pf_thread()) / PF_WARP % 4 * 16,
            lane = static_cast<int>(pf_lane());
  char* tile = tiles + group * 64 * D * 2;
  if (m.stored) {  // panels
    PF_UNROLL for (int j = 0; j < D / 8; ++j) PF_UNROLL for (int h = 0; h < 2; ++h) {
      const int at = row + lane / 4 + 8 * h;
      const pf_u32 w = pf_pairs<PF_T>::of(r.c[0][j][2 * h], r.c[0][j][2 * h + 1]);
      pf_store_words<4, false>(
          tile + j / 8 * 64 * 128 + at * 128 + ((j ^ at) & 7) * 16 + lane % 4 * 4, &w);
    }
    pf_async_fence();
    pf_group_barrier(1 + GROUPS + group, 4 * PF_WARP);
    if (pf_thread() % (4 * PF_WARP) != 0) return;
    const pf_head_index at = pf_head_index(m, head).in(m.step_to[which]);
    PF_UNROLL for (int p = 0; p < D / 64; ++p) {
      pf_tensor_store(m.to[which], pf_shared_address(tile) + p * 64 * 128, p * 64,
                      first + group * 64, at.x, at.y, at.z);
      pf_stores_end();
    }
    pf_stores_wait<0>();
    return;
  }
  pf_put_strip(tile, row, lane, r);
  pf_group_barrier(1 + GROUPS + group, 4 * PF_WARP);
  pf_write_tile<64, D, 4 * PF_WARP>(tile, pf_lines_of(m.at, to, head, 0, rows, cols),
                                    first + group * 64);
}

#endif
