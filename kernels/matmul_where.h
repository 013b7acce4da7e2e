// Which tile of a matrix product a thread block makes.
#ifndef PF_MATMUL_WHERE_H
#define PF_MATMUL_WHERE_H
#include "around.h"
#include "matmul_args.h"
#include "prelude.h"

struct pf_matmul_tile {
  pf_i64 row, col;  // first of the tile
  pf_i64 a, b, c;   // where the matrices of this batch begin
  pf_i64 rows;      // of c before this batch
};

// The place of tile `id` of a matrix. Blocks that run together take tiles that share rows and
// columns: bands of 8 rows of tiles. In 32 bits: a grid has no more blocks, and divisions of 64
// bits take longer than a small product.
PF_DEVICE void pf_band_place(pf_u32 id, pf_u32 tiles_m, pf_u32 tiles_n, pf_u32* row, pf_u32* col) {
  const pf_u32 band = id / (8 * tiles_n), first = band * 8, at = id - first * tiles_n,
               rows = tiles_m - first < 8 ? tiles_m - first : 8;
  *col = at / rows;
  *row = first + at - *col * rows;
}
PF_DEVICE pf_matmul_tile pf_matmul_where(const pf_matmul_args& q, int tile_m, int tile_n,
                                         pf_u32 block) {
  const pf_u32 tiles_m = static_cast<pf_u32>(q.tiles_m), tiles_n = static_cast<pf_u32>(q.tiles_n);
  const pf_u32 tiles = tiles_m * tiles_n, batch = block / tiles;
  pf_u32 row, col;
  pf_band_place(block - batch * tiles, tiles_m, tiles_n, &row, &col);
  pf_matmul_tile t;
  t.row = static_cast<pf_i64>(row) * tile_m;
  t.col = static_cast<pf_i64>(col) * tile_n;
  t.rows = static_cast<pf_i64>(batch) * q.m;
  t.c = t.rows * q.n;
  t.a = t.b = 0;
  pf_u32 rest = batch;
  for (int d = 0; d < q.ndim; ++d) {
    const pf_u32 size = static_cast<pf_u32>(q.size[d]);
    const pf_i64 i = rest % size;
    rest /= size;
    t.a += i * q.a_step[d];
    t.b += i * q.b_step[d];
  }
  return t;
}
PF_DEVICE pf_matmul_tile pf_matmul_where(const pf_matmul_args& q, int tile_m, int tile_n) {
  return pf_matmul_where(q, tile_m, tile_n, pf_block());
}

#endif
