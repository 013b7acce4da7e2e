// What kernels over several tensors are given of their iteration space (space.h): dimensions merged
// where all operands allow it, the last one fastest. Strides in elements.
#ifndef PF_SPACE_ARGS_H
#define PF_SPACE_ARGS_H
#include "integers.h"

struct pf_space {
  pf_i32 ndim, unused;
  pf_i64 numel;
  pf_i64 shape[12];
  pf_i64 strides[4][12];  // of each operand
};
static_assert(sizeof(pf_space) == 496, "as hosts fill it");

#endif
