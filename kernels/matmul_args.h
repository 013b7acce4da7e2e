// What every kernel of matrix products is given.
#ifndef PF_MATMUL_ARGS_H
#define PF_MATMUL_ARGS_H
#include "axes_args.h"

// Strides in elements; c is dense.
struct pf_matmul_args {
  const void* a;
  const void* b;
  const void* bias;  // dense, or null
  void* c;
  pf_i64 m, n, k;
  pf_i64 a_row, a_col, b_row, b_col;
  pf_i64 tiles_m, tiles_n;
  pf_i64 ndim;  // batch dimensions, innermost first
  pf_i64 size[PF_MAX_DIMS], a_step[PF_MAX_DIMS], b_step[PF_MAX_DIMS];
};
static_assert(sizeof(pf_matmul_args) == 400, "as hosts fill it");

#endif
