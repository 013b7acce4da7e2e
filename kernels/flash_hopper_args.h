// What attention's kernels on Hopper are given: flash_hopper.h.
#ifndef PF_FLASH_HOPPER_ARGS_H
#define PF_FLASH_HOPPER_ARGS_H
#include "attention_args.h"
#include "tensor_map_args.h"

// Maps of [columns][rows] and three batch dimensions, in boxes of 64 columns; of a dimension that a
// matrix is repeated along there is only the first place. The sums, [2 heads][padded], are lse and
// delta of each head; rows that are not there, or see nothing, have lse = inf.
struct pf_flash_maps {
  pf_tensor_map q, k, v, dout, sums;
  pf_tensor_map to[2];                                                  // the results of a kernel,
  pf_i32 stored;                                                        // if they have maps
  pf_i32 step_q[3], step_k[3], step_v[3], step_dout[3], step_to[2][3];  // 0: repeated
  pf_i32 size[2];
  pf_i32 padded;  // rows of a head in the sums: a multiple of 128
  float* rows;    // the sums
  pf_attention at;
};
static_assert(sizeof(pf_flash_maps) % 128 == 0, "as hosts fill it");

#endif
