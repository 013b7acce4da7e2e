// The argument of the kernels of softmax.h and softmax_long.h.
#ifndef PF_SOFTMAX_ARGS_H
#define PF_SOFTMAX_ARGS_H
#include "integers.h"

struct pf_softmax {
  const void* x;  // backward: the gradient
  const void* y;  // backward: the result
  void* out;
  pf_i64 rows;
  pf_i64 vectors;  // of one row
  pf_u32 width;    // threads of a row
  pf_u32 unused;
};
static_assert(sizeof(pf_softmax) == 48, "as hosts fill it");

#endif
