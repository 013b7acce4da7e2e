// Matrix products on matrix units: c = a b + bias. Sums of 16-bit floats and of float32 are float,
// in the order of k within a unit's step, and are rounded once; those of int8 are int32 and wrap.
//   -DPF_T=pf_bf16|pf_f16|float|pf_i8, -DPF_OUT= of c and the bias where it is another type
//   -DTILE_M -DTILE_N -DTILE_K of a thread block, -DWARP_M -DWARP_N of a warp, -DSTAGES of the
//   pipeline, -DA_ALONG_K, -DB_ALONG_K: 1 where the dimension k has stride 1 in memory, 0 where the
//   other one has. -DPF_MATRIX_UNIT: which instructions; on AMD as in matrix_units.h, on NVIDIA 1
//   for mma.sync and 2 for wgmma. -DPF_TF32=1: float operands are rounded to 10 bits of fraction;
//   NVIDIA's units take no others.
// Addresses and strides are multiples of 16 bytes (the launcher looks); sizes are any.
//
// A tile of operands lies in shared memory as lines of 16-byte chunks, permuted. What fills stages
// ahead of their use and multiplies them, pf_sum_tiles, exists for each kind of unit (tiles_*.h);
// the kernel is the same.
#ifndef PF_OUT
#define PF_OUT PF_T
#endif
#ifndef PF_TF32
#define PF_TF32 0
#endif
#include "matmul_where.h"
#include "mma.h"
#ifndef PF_MMA
#include "matrix_units.h"
#endif

enum {
  WARPS_N = TILE_N / WARP_N,
  THREADS = (TILE_M / WARP_M) * WARPS_N * PF_WARP,
  SIZE = sizeof(PF_T),
  PER = 4 / SIZE,     // elements of a word
  CHUNK = 16 / SIZE,  // elements
  A_BYTES = TILE_M * TILE_K * SIZE,
  B_BYTES = TILE_N * TILE_K * SIZE,
  STAGE_BYTES = A_BYTES + B_BYTES,
};
typedef pf_compute<PF_T> pf_acc;

// Where chunk `c` of row `r` lies, rows being `chunks` chunks wide. Neighbours differ in their
// banks, and so do rows 16 apart, which threads write at once where operands lie across k.
PF_DEVICE int pf_chunk(int r, int c, int chunks) {
  return (r * chunks + (chunks >= 8 ? c ^ (r & 7) : c ^ ((r >> 1 ^ r >> 4) & 3))) * 16;
}

// -DPF_GATHERED=1, 2, 3, 4: operand a, or b, is what a convolution sees; 3: the bias is that of
// rows; 4: as tiles_hopper_windows.h has it.
#ifndef PF_GATHERED
#define PF_GATHERED 0
#endif
#if PF_GATHERED
#include "conv_product_args.h"

#include "conv_gather.h"
#if PF_GATHERED == 4
typedef pf_conv_windows pf_tiles_args;
#else
typedef pf_conv_product pf_tiles_args;
#endif
#else
typedef pf_matmul_args pf_tiles_args;
#endif

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

#include "matmul_finish.h"

enum { OUT_CHUNKS = TILE_N / OUT_CHUNK };
// Takes the sums of a warp, one or two neighbours at a time. (No lambda: NVRTC 13.0 takes those
// whose arguments are of any type for functions of the host.)
struct pf_finisher {
  char* memory;
  const pf_matmul_args& q;
  const pf_matmul_tile& t;
  int warp_row, warp_col;
#ifdef PF_EPILOGUE
  const pf_args& epilogue;
#endif
  template <class... V>
  PF_METHOD void operator()(int r, int c, V... values) const {
    pf_acc v[] = {values...};
    const int row = warp_row + r, col = warp_col + c;
    char* at = nullptr;
    if constexpr (OUT_SIZE < 4)
      at = memory + pf_chunk(row, col / OUT_CHUNK, OUT_CHUNKS) + col % OUT_CHUNK * OUT_SIZE;
    pf_add_bias<PF_OUT>(q, t.row + row, t.col + col, v);
    pf_finish<PF_OUT>(at, q, t, t.row + row, t.col + col, v PF_EPILOGUE_PASS);
  }
};
// The results of a tile, finished and written.
PF_DEVICE void pf_write(const pf_tile_sums& sums, char* memory, const pf_matmul_args& q,
                        const pf_matmul_tile& t, int warp_row, int warp_col,
                        int lane PF_EPILOGUE_REF) {
  sums.each(lane, pf_finisher{memory, q, t, warp_row, warp_col PF_EPILOGUE_PASS});
  if constexpr (OUT_SIZE < 4) {
    pf_barrier();
    for (int at = static_cast<int>(pf_thread()); at < TILE_M * OUT_CHUNKS; at += THREADS) {
      const int row = at / OUT_CHUNKS, col = at % OUT_CHUNKS;
      const pf_i64 m = t.row + row, n = t.col + col * OUT_CHUNK;
      pf_chunk_after after;
      pf_load_chunk(q, t, m, n, after PF_EPILOGUE_PASS);
      pf_write_chunk<PF_OUT>(memory + pf_chunk(row, col, OUT_CHUNKS), q, t, m, n,
                             after PF_EPILOGUE_PASS);
    }
  }
}

PF_KERNEL(pf_matmul_tiles, THREADS)(pf_tiles_args q PF_EPILOGUE_ARGS) {
  char* memory = pf_dynamic_shared();
  pf_matmul_tile t = pf_matmul_where(q, TILE_M, TILE_N);
  const int lane = static_cast<int>(pf_thread()) % PF_WARP,
            warp = static_cast<int>(pf_thread()) / PF_WARP;
  const int warp_row = warp / WARPS_N * WARP_M, warp_col = warp % WARPS_N * WARP_N;
  pf_tile_sums sums;
#if PF_GATHERED == 4
  pf_windows windows(q, memory);
  windows.start(t);
  const pf_u32 tiles = static_cast<pf_u32>(q.tiles_m * q.tiles_n);
  for (pf_u32 block = pf_block();;) {
    block += pf_blocks();
    const bool more = PF_SEVERAL && block < tiles;
    const pf_matmul_tile next = pf_matmul_where(q, TILE_M, TILE_N, more ? block : 0);
    sums.clear();
    windows.sum(sums, t, more, next, warp_row, lane);
    if (!PF_SEVERAL) pf_barrier();
    pf_write(sums, memory + q.results, q, t, warp_row, warp_col, lane PF_EPILOGUE_PASS);
    if (!more) return;
    t = next;
  }
#else
  sums.clear();
  pf_sum_tiles(sums, memory, q, t, warp_row, warp_col, lane);
  pf_write(sums, memory, q, t, warp_row, warp_col, lane PF_EPILOGUE_PASS);
#endif
}
