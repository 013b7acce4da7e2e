// The tiles of matmul_tiles.h on Hopper's wgmma; who copied floats rounds them to tf32 where they
// lie.
#ifndef PF_TILES_HOPPER_H
#define PF_TILES_HOPPER_H
#include "sums_hopper.h"

static_assert(WARP_M == 16 && WARP_N == TILE_N, "warps take 16 rows each");

#if PF_GATHERED == 4
#include "tiles_hopper_windows.h"
#else
PF_DEVICE void pf_sum_tiles(pf_tile_sums& sums, char* memory, const pf_tiles_args& q,
                            const pf_matmul_tile& t, int warp_row, int, int) {
  const pf_shared_at stages = pf_shared_address(memory);
  pf_pipeline pipe;
  pipe.start(q, t, memory);
  const pf_i64 all = pipe.left;
  // Half of the stages are multiplied while the other half is on its way: what a copy wrote must be
  // seen by the unit, and a fence for that waits for all copies on their way, so that those should
  // have had time.
  constexpr int half = STAGES / 2;
  const auto issue = [&](pf_shared_at to) PF_INLINE {
    PF_UNROLL for (int s = 0; s < half; ++s) {
      pipe.issue<0, 1>(to + s * STAGE_BYTES);
      pipe.commit(q);
      pipe.started();
    }
  };
  issue(stages);
  pf_shared_at stage = stages, free = stages + half * STAGE_BYTES;
  // 64 rows of a: 64 lines along k, or one strip.
  const int rows = warp_row / 64 * (A_ALONG_K ? 64 * 128 : TILE_K * 128);
  for (pf_i64 k = 0; k < all; k += half * TILE_K) {
    pf_copies_wait<0>();
    PF_UNROLL for (int s = 0; s < half; ++s) {
      if constexpr (SIZE == 4) pipe.round(stage + s * STAGE_BYTES);
    }
    pf_multiply_ready();
    PF_UNROLL for (int s = 0; s < half; ++s) {
      if (k + s * TILE_K < all)
        pf_multiply_start(sums, stage + (s * STAGE_BYTES + rows),
                          stage + (s * STAGE_BYTES + A_BYTES));
    }
    issue(free);
    const pf_shared_at used = stage;
    stage = free;
    free = used;
    pf_multiply_wait<0>();
  }
  pf_barrier();
}

#endif
#endif
