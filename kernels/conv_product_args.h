// A product of matrices one of whose operands is gathered (conv_gather.h).
#ifndef PF_CONV_PRODUCT_ARGS_H
#define PF_CONV_PRODUCT_ARGS_H
#include "conv_args.h"
#include "matmul_args.h"

struct pf_conv_product : pf_matmul_args {
  pf_conv conv;
};
// The same by tiles_hopper_windows.h: lines of the input, with padding between them.
struct pf_conv_windows : pf_conv_product {
  pf_u32 pitch, high;  // from one line of pixels to the next; lines of pixels of an image
  pf_u32 top, left;    // padding
  pf_u32 images;
  pf_i32 room;             // lines that a tile's windows see at most, whole groups of 8
  pf_i32 rooms;            // 1 or 2
  pf_i32 places, results;  // in shared memory; where the lines are looked up
  pf_i32 unused;
};
static_assert(sizeof(pf_conv_windows) == 848, "as hosts fill it");
static_assert(sizeof(pf_conv_product) == 808, "as hosts fill it");

#endif
