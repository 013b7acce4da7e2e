// What matmul_hopper.h is given.
#ifndef PF_MATMUL_HOPPER_ARGS_H
#define PF_MATMUL_HOPPER_ARGS_H
#include "matmul_args.h"
#include "tensor_map_args.h"

struct pf_matmul_hopper_args {
  pf_tensor_map a, b, c;   // c: of columns, rows, batches, where the copy unit writes it
  pf_matmul_args product;  // tiles of one block
  pf_i32 batches, steps;   // of the product; of k
  // Of a convolution, of x and y: windows of a picture, where the first one begins, from one to the
  // next; taps, and from one to the next.
  pf_i32 windows[2], first[2], step[2], taps[2], apart[2];
  pf_i32 runs;  // of channels, of one tap
  // Of eight-bit floats: one number each, or one for each row and each column.
  pf_i32 by_row;
  const float *scale_a, *scale_b;
  const pf_u32* range;  // of operands in parts (float_parts.h)
  pf_i32 none, pictures;
  pf_i32 share;      // of k, that a batch of a gradient by the weight has
  pf_i32 unused[3];  // 0
};
static_assert(sizeof(pf_matmul_hopper_args) == 896, "as hosts fill it");

#endif
