// The argument of the kernels of grid_sample.h.
#ifndef PF_GRID_SAMPLE_ARGS_H
#define PF_GRID_SAMPLE_ARGS_H
#include "integers.h"

struct pf_images {
  const void *x, *grid, *dy;
  void* out;  // values, or the gradient of the grid
  pf_i64 n, c, points;
  pf_i64 size[3];           // of space, the fastest dimension first
  pf_i64 cells;             // of one channel
  pf_i64 channels, groups;  // that a thread makes, and so many threads for each place
  pf_i64 channel, step, out_channel, out_step;  // strides of x and of the result
  pf_i32 align, unused;
};
static_assert(sizeof(pf_images) == 144, "as hosts fill it");

#endif
