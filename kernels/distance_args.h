// The argument of the kernels of distance.h.
#ifndef PF_DISTANCE_ARGS_H
#define PF_DISTANCE_ARGS_H
#include "integers.h"

// Strides of the batch, the rows and the columns of a matrix of pairs.
struct pf_pair_steps {
  pf_i64 batch, row, column;
};
struct pf_distances {
  const void *x1, *x2;  // [batch, rows, m], [batch, n, m], contiguous
  const void *grad, *y;
  void* out;  // distances, contiguous; or the gradient of x1
  pf_i64 batch, rows, n, m;
  pf_pair_steps at_grad, at_y;
};
static_assert(sizeof(pf_distances) == 120, "as hosts fill it");

#endif
