// What conv_rows_hopper.h is given.
#ifndef PF_CONV_ROWS_HOPPER_ARGS_H
#define PF_CONV_ROWS_HOPPER_ARGS_H
#include "tensor_map_args.h"

struct pf_conv_rows_args {
  pf_tensor_map x, weight;  // of columns, channels, lines, images; of channels, taps, results
  void* y;
  const void* bias;                    // or null
  pf_i32 images, outs, height, width;  // of y
  pf_i32 top, left;  // what a tile sees of x begins so far from its own first pixel
  pf_i32 columns;    // that a tile makes of a line: whole 8
  pf_i32 blocks_x, blocks_y, blocks_outs, tiles;
  pf_i32 unused[17];
};
static_assert(sizeof(pf_conv_rows_args) == 384, "as hosts fill it");

#endif
