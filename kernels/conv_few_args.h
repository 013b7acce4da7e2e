// The arguments of conv_few.h.
#ifndef PF_CONV_FEW_ARGS_H
#define PF_CONV_FEW_ARGS_H
#include "integers.h"

// Strides in elements.
struct pf_few {
  const void *x, *weight, *bias;  // bias: of outs, or null
  void *y, *packed;               // the weights as tiles read them
  pf_i64 x_batch, x_line, x_pixel, x_channel;
  pf_i64 y_batch, y_line, y_pixel, y_channel;
  pf_i64 w_out, w_in, w_line, w_pixel;
  pf_i32 height, width, out_height, out_width, top, left;  // the last two: padding
  pf_i32 outs, tiles_n, tiles_x, tiles_y;
};
static_assert(sizeof(pf_few) == 176, "as hosts fill it");

#endif
