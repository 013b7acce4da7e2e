// What every kernel of matrix products is given, and which tile a thread block makes.
#ifndef PF_MATMUL_ARGS_H
#define PF_MATMUL_ARGS_H
#include "prelude.h"

// The same layout as MatmulArgs of src/gpu/product_own.cpp. Strides in elements; c is dense.
struct pf_matmul_args {
  const void* a;
  const void* b;
  const void* bias;  // dense, or null
  void* c;
  pf_i64 m, n, k;
  pf_i64 a_row, a_col, b_row, b_col;
  pf_i64 tiles_m, tiles_n;
  pf_i64 ndim;  // batch dimensions, innermost first
  pf_i64 size[12], a_step[12], b_step[12];
};

struct pf_matmul_tile {
  pf_i64 row, col;  // first of the tile
  pf_i64 a, b, c;   // where the matrices of this batch begin
};

// Blocks that run together take tiles that share rows and columns: bands of 8 rows of tiles.
PF_DEVICE pf_matmul_tile pf_matmul_where(const pf_matmul_args& q, int tile_m, int tile_n) {
  pf_i64 id = pf_block();
  const pf_i64 tiles = q.tiles_m * q.tiles_n;
  pf_i64 batch = id / tiles;
  id -= batch * tiles;
  const pf_i64 band = id / (8 * q.tiles_n), first = band * 8;
  const pf_i64 rows = q.tiles_m - first < 8 ? q.tiles_m - first : 8;
  id -= band * 8 * q.tiles_n;
  pf_matmul_tile t;
  t.row = (first + id % rows) * tile_m;
  t.col = id / rows * tile_n;
  t.c = batch * q.m * q.n;
  t.a = t.b = 0;
  for (int d = 0; d < q.ndim; ++d) {
    const pf_i64 i = batch % q.size[d];
    batch /= q.size[d];
    t.a += i * q.a_step[d];
    t.b += i * q.b_step[d];
  }
  return t;
}

#endif
