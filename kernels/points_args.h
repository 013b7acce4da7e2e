// What kernels over points are given: index tensors (points.h), and what points write (scatter.h).
#ifndef PF_POINTS_ARGS_H
#define PF_POINTS_ARGS_H
#include "integers.h"

// Index tensors of one shape, merged; which sizes they index and with which steps.
struct pf_indices {
  pf_i64 count, points, ndim;
  pf_i64 shape[12];
  const void* data[12];
  pf_i64 strides[12][12];
  pf_i64 size[12], step[12];
};
static_assert(sizeof(pf_indices) == 1560, "as hosts fill it");

// Points sorted by where they write: keys are offsets in units of `unit`, wrong ones ~0 at the end.
// `from`: where the point's values begin, or null: point * src_step.
struct pf_sorted_args {
  const void* src;
  const pf_u64* keys;
  const pf_i64 *point, *from;
  pf_i64 points, src_step, unit;
};
static_assert(sizeof(pf_sorted_args) == 56, "as hosts fill it");

#endif
