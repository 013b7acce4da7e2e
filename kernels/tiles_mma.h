// The tiles of matmul_tiles.h on NVIDIA's mma.sync (from Ampere on): ldmatrix reads operands into
// registers, transposing where k is not the unit stride. Floats are rounded to tf32 there.
#ifndef PF_TILES_MMA_H
#define PF_TILES_MMA_H
static_assert(64 % WARP_M == 0 && 64 % WARP_N == 0, "a warp reads one strip");

struct pf_tile_sums {
  enum { MS = WARP_M / 16, NS = WARP_N / 8, STEP = 32 / SIZE };  // elements of k at a time
  pf_acc c[MS][NS][4];
  pf_u32 x[2][MS][4], y[2][NS][2];  // the next step is read while this one is multiplied

  // Where this lane reads its rows of the first matrices of a and b. Further ones are some bits of
  // the chunk's number away (which the permutation leaves an exclusive or), or whole lines.
  int a_at, b_at;

  PF_METHOD void start(int warp_row, int warp_col, int lane) {
    const int next = lane / 8 & 1, half = lane / 16, low = lane % 8 + half * 8, line = lane % 16;
    a_at = A_ALONG_K ? pf_place<1>(warp_row + line, half) : across(warp_row, lane, low, next);
    b_at = B_ALONG_K ? pf_place<1>(warp_col + low, next) : across(warp_col, lane, line, half);
  }
  // Operands across k. ldmatrix transposes 16-bit elements. Floats are read one by one. Of int8 it
  // transposes pairs of neighbours; lines are dealt to its matrices so that two words have four k
  // of two neighbours, which bytes then are sorted into.
  static PF_METHOD int across(int first, int lane, int line, int next) {
    if constexpr (SIZE == 2) return pf_place<0>(line, first / CHUNK + next);
    if constexpr (SIZE == 4)
      return pf_place<0>(lane % 4, (first + lane / 4) / CHUNK) + lane / 4 % CHUNK * 4;
    return pf_place<0>(lane / 16 * 16 + lane % 8 / 2 * 4 + lane / 8 % 2 * 2 + lane % 2,
                       first / CHUNK);
  }
  static PF_METHOD void sort(const pf_u32 (&w)[4], pf_u32 (&even)[2], pf_u32 (&odd)[2]) {
    PF_UNROLL for (int h = 0; h < 2; ++h) {
      even[h] = pf_pick_bytes<0x6420>(w[2 * h], w[2 * h + 1]);
      odd[h] = pf_pick_bytes<0x7531>(w[2 * h], w[2 * h + 1]);
    }
  }
  PF_METHOD void read_a(pf_shared_at stage, int step, int i, pf_u32 (&r)[4]) const {
    if constexpr (A_ALONG_K) {
      pf_load_matrices<0>(stage + ((a_at ^ step * 32) + i * (16 * 128)), r);
    } else if constexpr (SIZE == 2) {
      pf_load_matrices<1>(stage + ((a_at ^ i * 32) + step * (STEP * 128)), r);
    } else if constexpr (SIZE == 4) {
      PF_UNROLL for (int v = 0; v < 4; ++v) r[v] =
          pf_load_shared(stage + ((a_at ^ (i % 2 * 64 + v % 2 * 32)) + i / 2 * (TILE_K * 128) +
                                  (step * STEP + v / 2 * 4) * 128));
    } else {
      pf_u32 w[4], even[2], odd[2];
      pf_load_matrices<1>(stage + ((a_at ^ i * 16) + step * (STEP * 128)), w);
      sort(w, even, odd);
      r[0] = even[0], r[1] = odd[0], r[2] = even[1], r[3] = odd[1];
    }
    if constexpr (SIZE == 4) PF_UNROLL for (int v = 0; v < 4; ++v) r[v] = pf_tf32_bits(r[v]);
  }
  // Of two matrices of b.
  PF_METHOD void read_b(pf_shared_at tile, int step, int j, pf_u32 (&r0)[2],
                        pf_u32 (&r1)[2]) const {
    pf_u32 w[4];
    if constexpr (B_ALONG_K) {
      pf_load_matrices<0>(tile + ((b_at ^ step * 32) + j * (8 * 128)), w);
    } else if constexpr (SIZE == 2) {
      pf_load_matrices<1>(tile + ((b_at ^ j * 16) + step * (STEP * 128)), w);
    } else if constexpr (SIZE == 4) {
      PF_UNROLL for (int v = 0; v < 4; ++v) w[v] =
          pf_load_shared(tile + ((b_at ^ (j + v / 2) % 4 * 32) + j / 4 * (TILE_K * 128) +
                                 (step * STEP + v % 2 * 4) * 128));
    } else {
      pf_load_matrices<1>(tile + ((b_at ^ j * 8) + step * (STEP * 128)), w);
      sort(w, r0, r1);
      return;
    }
    if constexpr (SIZE == 4) PF_UNROLL for (int v = 0; v < 4; ++v) w[v] = pf_tf32_bits(w[v]);
    r0[0] = w[0], r0[1] = w[1], r1[0] = w[2], r1[1] = w[3];
  }
  // Operands of a step, from shared memory to registers.
  template <int SLOT>
  PF_METHOD void read(pf_shared_at stage, int step) {
    PF_UNROLL for (int i = 0; i < MS; ++i) read_a(stage, step, i, x[SLOT][i]);
    PF_UNROLL for (int j = 0; j < NS; j += 2)
        read_b(stage + A_BYTES, step, j, y[SLOT][j], y[SLOT][j + 1]);
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
  // f(row, column, value, value of the next column), within the warp's part. What was sorted lies
  // so that neighbours follow each other.
  template <class F>
  PF_METHOD void each(int lane, F f) const {
    constexpr bool rows = SIZE == 1 && !A_ALONG_K, cols = SIZE == 1 && !B_ALONG_K;
    PF_UNROLL for (int i = 0; i < MS; ++i) {
      PF_UNROLL for (int j = 0; j < NS; ++j) {
        PF_UNROLL for (int h = 0; h < 2; ++h) {
          const int row = i * 16 + (rows ? lane / 4 * 2 + h : lane / 4 + h * 8);
          const int even = j & ~1, odd = j & 1;
          if constexpr (cols)
            f(row, even * 8 + lane % 4 * 4 + odd * 2, c[i][even][2 * h + odd],
              c[i][even + 1][2 * h + odd]);
          else
            f(row, j * 8 + lane % 4 * 2, c[i][j][2 * h], c[i][j][2 * h + 1]);
        }
      }
    }
  }
  PF_METHOD void clear() {
    PF_UNROLL for (int i = 0; i < MS; ++i) {
      PF_UNROLL for (int j = 0; j < NS; ++j) {
        PF_UNROLL for (int v = 0; v < 4; ++v) c[i][j][v] = pf_acc(0);
      }
    }
  }
};

// Multiplies a tile, from step I on. Meanwhile the stage of the tile before this one is filled
// anew, a part at a step; the last step waits for the next tile and reads its beginning, so that
// the units never stand still.
template <int I>
PF_DEVICE void pf_multiply_tile(const pf_tiles_args& q, pf_tile_sums& sums, pf_pipeline& pipe,
                                pf_ring& ring) {
  constexpr int last = TILE_K / pf_tile_sums::STEP - 1;
  static_assert(last & 1, "each tile begins with the same registers");
  if constexpr (I < last) {
    sums.read<(I + 1) & 1>(ring.stage, I + 1);
    pipe.issue<I, last>(ring.free);
  } else {
    pipe.commit(q);
    pf_copies_wait<STAGES - 2>();
    pf_barrier();
    ring.free = ring.stage;
    ring.stage = ring.after(ring.stage);
    sums.read<0>(ring.stage, 0);
  }
  sums.multiply<I & 1>();
  if constexpr (I < last) pf_multiply_tile<I + 1>(q, sums, pipe, ring);
}

PF_DEVICE void pf_sum_tiles(pf_tile_sums& sums, char* memory, const pf_tiles_args& q,
                            const pf_matmul_tile& t, int warp_row, int warp_col, int lane) {
  const pf_shared_at stages = pf_shared_address(memory);
  pf_pipeline pipe;
  pipe.start(q, t, memory);
  const pf_i64 all = pipe.left;
  PF_UNROLL for (int s = 0; s < STAGES - 1; ++s) {
    pipe.issue<0, 1>(stages + s * STAGE_BYTES);
    pipe.commit(q);
    pipe.started();
  }
  pf_copies_wait<STAGES - 2>();
  pf_barrier();
  pf_ring ring = {stages, stages, stages + (STAGES - 1) * STAGE_BYTES};
  sums.start(warp_row, warp_col, lane);
  sums.read<0>(stages, 0);
  for (pf_i64 k = 0; k < all; k += TILE_K) pf_multiply_tile<0>(q, sums, pipe, ring);
  pf_copies_wait<0>();
  pf_barrier();
}

#endif
