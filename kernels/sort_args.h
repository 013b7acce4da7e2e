// What kernels that sort rows of a tensor are given (sort.h).
#ifndef PF_SORT_ARGS_H
#define PF_SORT_ARGS_H
#include "space_args.h"

// Geometry of rows: where each begins in the input, the values and the indices, and the steps
// along it. `n` elements in, `k` out.
struct pf_sort_rows {
  pf_space rows;
  pf_i64 n, k, in_step, value_step, index_step;
};
static_assert(sizeof(pf_sort_rows) == sizeof(pf_space) + 40, "as hosts fill it");

#endif
