// The argument of the kernel of bags.h.
#ifndef PF_BAGS_ARGS_H
#define PF_BAGS_ARGS_H
#include "error_args.h"
#include "integers.h"

struct pf_bags {
  void* out;
  const void *weight, *factors;  // the latter or null
  const pf_i64 *index, *ends;
  pf_i64 bags, width, rows, count, skip;
  pf_error error;
};
static_assert(sizeof(pf_bags) == 112, "as hosts fill it");

#endif
