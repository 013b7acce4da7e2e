// The argument of the kernels of pool.h.
#ifndef PF_POOL_ARGS_H
#define PF_POOL_ARGS_H
#include "integers.h"

// Windows of one dimension (src/table/kernels/pool.h).
struct pf_windows {
  pf_i32 in, out, kernel, stride, padding, dilation;
};
struct pf_pool {
  const void* from;  // x, or the gradient of y
  void* to;
  void* index;
  pf_windows d, h, w;
  pf_i64 outer, inner;
  pf_i64 counts_padding, divisor;  // of averages
  pf_i64 items;                    // threads' work: groups of PF_V elements of what is written
};
static_assert(sizeof(pf_pool) == 136, "as hosts fill it");

#endif
