// Some dimensions of a tensor, merged where strides allow, with the strides of up to two tensors.
#ifndef PF_AXES_ARGS_H
#define PF_AXES_ARGS_H
#include "integers.h"

#define PF_MAX_DIMS 12

struct pf_axes {
  pf_i32 n, unused;
  pf_i64 count;
  pf_i64 size[PF_MAX_DIMS], stride[PF_MAX_DIMS], other[PF_MAX_DIMS];
};
static_assert(sizeof(pf_axes) == 304, "as hosts fill it");

#endif
