// The tiles of matmul_tiles.h on NVIDIA's mma.sync (from Ampere on): ldmatrix reads operands into
// registers, transposing where k is not the unit stride.
#ifndef PF_TILES_MMA_H
#define PF_TILES_MMA_H
static_assert(64 % WARP_M == 0 && 64 % WARP_N == 0, "a warp reads one strip");

struct pf_tile_sums {
  enum { MS = WARP_M / 16, NS = WARP_N / 8 };
  float c[MS][NS][4];
  pf_u32 x[2][MS][4], y[2][NS][2];  // the next step is read while this one is multiplied

  // Where this lane reads its rows of the first matrices of a and b. Further ones are some bits of
  // the chunk's number away (which the permutation leaves an exclusive or), or whole lines.
  int a_at, b_at;

  PF_METHOD void start(int warp_row, int warp_col, int lane) {
    const int next = lane / 8 & 1, half = lane / 16, low = lane % 8 + half * 8, line = lane % 16;
    a_at =
        A_ALONG_K ? pf_place<1>(warp_row + line, half) : pf_place<0>(low, warp_row / CHUNK + next);
    b_at =
        B_ALONG_K ? pf_place<1>(warp_col + low, next) : pf_place<0>(line, warp_col / CHUNK + half);
  }
  // Operands of 16 elements of k, from shared memory to registers.
  template <int SLOT>
  PF_METHOD void read(pf_shared_at stage, int k) {
    PF_UNROLL for (int i = 0; i < MS; ++i) {
      if constexpr (A_ALONG_K)
        pf_load_matrices<0>(stage + ((a_at ^ k * 2) + i * (16 * 128)), x[SLOT][i]);
      else
        pf_load_matrices<1>(stage + ((a_at ^ i * 32) + k * 128), x[SLOT][i]);
    }
    const pf_shared_at tile = stage + A_BYTES;
    PF_UNROLL for (int j = 0; j < NS; j += 2) {
      pf_u32 w[4];
      if constexpr (B_ALONG_K)
        pf_load_matrices<0>(tile + ((b_at ^ k * 2) + j * (8 * 128)), w);
      else
        pf_load_matrices<1>(tile + ((b_at ^ j * 16) + k * 128), w);
      pf_u32(*r)[2] = y[SLOT] + j;
      r[0][0] = w[0], r[0][1] = w[1], r[1][0] = w[2], r[1][1] = w[3];
    }
  }
  template <int SLOT>
  PF_METHOD void multiply() {
    PF_UNROLL for (int i = 0; i < MS; ++i) {
      PF_UNROLL for (int j = 0; j < NS; ++j) {
        const int jj = i & 1 ? NS - 1 - j : j;
        pf_mma(PF_T{}, c[i][jj], x[SLOT][i], y[SLOT][jj]);
      }
    }
  }
  // f(row, column, value, value of the next column), within the warp's part
  template <class F>
  PF_METHOD void each_pair(int lane, F f) const {
    PF_UNROLL for (int i = 0; i < MS; ++i) {
      PF_UNROLL for (int j = 0; j < NS; ++j) {
        f(i * 16 + lane / 4, j * 8 + lane % 4 * 2, c[i][j][0], c[i][j][1]);
        f(i * 16 + lane / 4 + 8, j * 8 + lane % 4 * 2, c[i][j][2], c[i][j][3]);
      }
    }
  }
  PF_METHOD void clear() {
    PF_UNROLL for (int i = 0; i < MS; ++i) {
      PF_UNROLL for (int j = 0; j < NS; ++j) {
        PF_UNROLL for (int v = 0; v < 4; ++v) c[i][j][v] = 0.0f;
      }
    }
  }
};

// Multiplies a tile, from step I on. Meanwhile the stage of the tile before this one is filled
// anew, a part at a step; the last step waits for the next tile and reads its beginning, so that
// the units never stand still.
template <int I>
PF_DEVICE void pf_multiply_tile(pf_tile_sums& sums, pf_pipeline& pipe, pf_ring& ring) {
  constexpr int last = TILE_K / 16 - 1;
  static_assert(last & 1, "each tile begins with the same registers");
  if constexpr (I < last) {
    sums.read<(I + 1) & 1>(ring.stage, (I + 1) * 16);
    pipe.issue<I, last>(ring.free);
  } else {
    pipe.commit();
    pf_copies_wait<STAGES - 2>();
    pf_barrier();
    ring.free = ring.stage;
    ring.stage = ring.after(ring.stage);
    sums.read<0>(ring.stage, 0);
  }
  sums.multiply<I & 1>();
  if constexpr (I < last) pf_multiply_tile<I + 1>(sums, pipe, ring);
}

PF_DEVICE void pf_sum_tiles(pf_tile_sums& sums, char* memory, const pf_matmul_args& q,
                            const pf_matmul_tile& t, int warp_row, int warp_col, int lane) {
  const pf_shared_at stages = pf_shared_address(memory);
  pf_pipeline pipe;
  pipe.start(q, t);
  PF_UNROLL for (int s = 0; s < STAGES - 1; ++s) {
    pipe.issue<0, 1>(stages + s * STAGE_BYTES);
    pipe.commit();
  }
  pf_copies_wait<STAGES - 2>();
  pf_barrier();
  pf_ring ring = {stages, stages, stages + (STAGES - 1) * STAGE_BYTES};
  sums.start(warp_row, warp_col, lane);
  sums.read<0>(stages, 0);
  for (pf_i64 k = 0; k < q.k; k += TILE_K) pf_multiply_tile<0>(sums, pipe, ring);
  pf_copies_wait<0>();
  pf_barrier();
}

#endif
