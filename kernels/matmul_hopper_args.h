// What matmul_hopper.h is given.
#ifndef PF_MATMUL_HOPPER_ARGS_H
#define PF_MATMUL_HOPPER_ARGS_H
#include "matmul_args.h"
#include "tensor_map_args.h"

struct pf_matmul_hopper_args {
  pf_tensor_map a, b;
  pf_matmul_args product;  // tiles of one block
  pf_i64 batches;
};
static_assert(sizeof(pf_matmul_hopper_args) == 768, "as hosts fill it");

#endif
