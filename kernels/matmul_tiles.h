// Matrix products of 16-bit floats on matrix units: c = a b + bias, summed in float in the order
// of k, one rounding.
//   -DPF_T=pf_bf16|pf_f16 -DTILE_M -DTILE_N -DTILE_K of a thread block, -DWARP_M -DWARP_N of a
//   warp, -DSTAGES of the pipeline, -DA_ALONG_K, -DB_ALONG_K: 1 where the dimension k has stride 1
//   in memory, 0 where the other one has. -DPF_MATRIX_UNIT: which instructions; on AMD as in
//   matrix_units.h, on NVIDIA 1 for mma.sync and 2 for wgmma.
// Addresses and strides are multiples of 16 bytes (the launcher looks); sizes are any.
//
// A tile of operands lies in shared memory as lines of 16-byte chunks, permuted. What fills stages
// ahead of their use and multiplies them, pf_sum_tiles, exists for each kind of unit (tiles_*.h);
// the kernel is the same.
#include "matmul_args.h"
#include "matrix_units.h"
#include "mma.h"

enum {
  WARPS_N = TILE_N / WARP_N,
  THREADS = (TILE_M / WARP_M) * WARPS_N * PF_WARP,
  CHUNK = 8,  // elements
  A_BYTES = TILE_M * TILE_K * 2,
  B_BYTES = TILE_N * TILE_K * 2,
  STAGE_BYTES = A_BYTES + B_BYTES,
};

// Where chunk `c` of row `r` lies, rows being `chunks` chunks wide.
PF_DEVICE int pf_chunk(int r, int c, int chunks) {
  return (r * chunks + (chunks >= 8 ? c ^ (r & 7) : c ^ (r >> 1 & 3))) * 16;
}

#ifdef PF_MMA
#include "tiles_copies.h"
#if PF_MATRIX_UNIT == 2
#include "tiles_hopper.h"
#else
#include "tiles_mma.h"
#endif
#else
#include "tiles_units.h"
#endif

PF_KERNEL(pf_matmul_tiles, THREADS)(pf_matmul_args q) {
  char* memory = pf_dynamic_shared();
  const pf_matmul_tile t = pf_matmul_where(q, TILE_M, TILE_N);
  const int lane = static_cast<int>(pf_thread()) % PF_WARP,
            warp = static_cast<int>(pf_thread()) / PF_WARP;
  const int warp_row = warp / WARPS_N * WARP_M, warp_col = warp % WARPS_N * WARP_N;
  pf_tile_sums sums;
  sums.clear();
  pf_sum_tiles(sums, memory, q, t, warp_row, warp_col, lane);
  // The tile of c goes through shared memory, so that whole chunks are written.
  constexpr int chunks = TILE_N / CHUNK;
  const PF_T* bias = static_cast<const PF_T*>(q.bias);
#ifdef PF_MMA
  sums.each_pair(lane, [&](int row, int col, float u, float v) {
    if (bias) {
      float add[2] = {0.0f, 0.0f};
      const pf_i64 n = t.col + warp_col + col;
      if (n < q.n) pf_load<PF_T, 1, false>(bias + n, &add[0]);
      if (n + 1 < q.n) pf_load<PF_T, 1, false>(bias + n + 1, &add[1]);
      u += add[0];
      v += add[1];
    }
    const int at = warp_col + col;
    *reinterpret_cast<pf_u32*>(memory + pf_chunk(warp_row + row, at / CHUNK, chunks) +
                               at % CHUNK * 2) = pf_pairs<PF_T>::of(u, v);
  });
#else
  sums.each(lane, [&](int row, int col, float v) {
    if (bias) {
      float add = 0.0f;
      const pf_i64 n = t.col + warp_col + col;
      if (n < q.n) pf_load<PF_T, 1, false>(bias + n, &add);
      v += add;
    }
    v = pf_dtype<PF_T>::round(v);
    const int at = warp_col + col;
    pf_store<PF_T, 1, false>(memory + pf_chunk(warp_row + row, at / CHUNK, chunks) + at % CHUNK * 2,
                             &v);
  });
#endif
  pf_barrier();
  char* c = static_cast<char*>(q.c) + t.c * 2;
  const bool whole = q.n % CHUNK == 0;
  for (int at = static_cast<int>(pf_thread()); at < TILE_M * chunks; at += THREADS) {
    const int row = at / chunks, col = at % chunks;
    const pf_i64 m = t.row + row, n = t.col + col * CHUNK;
    if (m >= q.m || n >= q.n) continue;
    pf_u32 w[4];
    pf_load_words<16, false>(memory + pf_chunk(row, col, chunks), w);
    if (whole) {
      pf_store_words<16, false>(c + (m * q.n + n) * 2, w);
    } else {
      PF_UNROLL for (int e = 0; e < CHUNK; ++e) {
        const pf_u32 x = w[e / 2] >> (e % 2 * 16);
        if (n + e < q.n) pf_store_words<2, false>(c + (m * q.n + n + e) * 2, &x);
      }
    }
  }
}
