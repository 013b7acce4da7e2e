// What pf_nonzero is given (select.h): the shape of a mask, before any merging.
#ifndef PF_SELECT_ARGS_H
#define PF_SELECT_ARGS_H
#include "integers.h"

struct pf_shape {
  pf_i64 ndim, size[12];
};
static_assert(sizeof(pf_shape) == 104, "as hosts fill it");

#endif
