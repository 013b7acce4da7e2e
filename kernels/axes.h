// Where elements of some dimensions of a tensor lie.
#ifndef PF_AXES_H
#define PF_AXES_H

#include "axes_args.h"
#include "prelude.h"

// Where element i of the axes lies in the first tensor, and in the second.
PF_DEVICE pf_i64 pf_offset(const pf_axes& a, pf_i64 i) {
  if (a.n == 0) return 0;
  pf_i64 at = 0;
  PF_NO_UNROLL for (int d = a.n - 1; d > 0; --d) {
    const pf_i64 q = pf_quotient(i, a.size[d]);
    at += (i - q * a.size[d]) * a.stride[d];
    i = q;
  }
  return at + i * a.stride[0];
}
PF_DEVICE pf_i64 pf_other_offset(const pf_axes& a, pf_i64 i) {
  if (a.n == 0) return 0;
  pf_i64 at = 0;
  PF_NO_UNROLL for (int d = a.n - 1; d > 0; --d) {
    const pf_i64 q = pf_quotient(i, a.size[d]);
    at += (i - q * a.size[d]) * a.other[d];
    i = q;
  }
  return at + i * a.other[0];
}

#endif
