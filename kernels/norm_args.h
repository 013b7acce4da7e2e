// The arguments of the kernels of norm.h, norm_long.h and norm_backward.h.
#ifndef PF_NORM_ARGS_H
#define PF_NORM_ARGS_H
#include "integers.h"

struct pf_norm {
  const void* x;
  const void* weight;
  const void* bias;
  void* y;
  void* mean;  // of each row, two numbers; none for rms_norm
  void* rstd;
  pf_i64 rows, vectors;
  double eps;
  pf_u32 width, unused;
};
static_assert(sizeof(pf_norm) == 80, "as hosts fill it");

struct pf_norm_backward {
  const void* g;
  const void* x;
  const void* mean;
  const void* rstd;
  const void* weight;
  void* dx;
  void* partial;  // [stretches][dw, db][columns]
  pf_i64 rows, vectors;
  pf_i64 stretch;  // rows of one block
  pf_u32 width;    // threads of a row: whole warps
  pf_u32 unused;
};
static_assert(sizeof(pf_norm_backward) == 88, "as hosts fill it");

#endif
