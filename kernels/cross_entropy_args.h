// The argument of the kernels of cross_entropy.h.
#ifndef PF_CROSS_ENTROPY_ARGS_H
#define PF_CROSS_ENTROPY_ARGS_H
#include "error_args.h"

struct pf_entropy {
  const void* x;
  const void* target;
  const void* weight;
  const void* weight_sum;  // one C; null: as many as there are classes
  const void* gradient;
  void* loss;
  void* dx;
  void* stats;   // [rows][2]: maximum, 1 / sum of exp(x - maximum)
  void* total;   // weight of all rows that count
  void* losses;  // [2][rows]: of each row, and its weight
  pf_i64 rows, vectors, ignore;
  double smoothing;
  pf_i32 reduction;  // 0: none, 1: mean, 2: sum
  pf_u32 width;
  pf_error error;
};
static_assert(sizeof(pf_entropy) == 152, "as hosts fill it");

#endif
