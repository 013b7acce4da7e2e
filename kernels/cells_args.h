// The arguments of the kernels of cells.h.
#ifndef PF_CELLS_ARGS_H
#define PF_CELLS_ARGS_H
#include "integers.h"

struct pf_cells {
  const void *x, *g, *mean;  // the last two of sums
  void *first, *second;      // results
  void* partial;             // of chunks: [batch][chunks][columns] of two numbers
  pf_i64 batch, outer, cells, inner;
  pf_i64 columns;        // what a chunk gives: cells, or columns of them
  pf_i64 chunk, chunks;  // vectors of a cell, or rows
  pf_i64 tiles;          // blocks along what chunks give
  pf_u32 width;          // threads along that; of rows: of one cell
  pf_u32 runs;           // elements of a cell lie side by side
};
static_assert(sizeof(pf_cells) == 120, "as hosts fill it");

#endif
