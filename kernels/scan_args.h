// The argument of the kernels of scan.h.
#ifndef PF_SCAN_ARGS_H
#define PF_SCAN_ARGS_H
#include "axes_args.h"

struct pf_scan {
  const void* in;
  void* out;
  void* indices;  // extremes
  void* totals;   // [pieces][lanes]: of the pieces, then what comes before each
  pf_axes lanes;  // stride: in, other: out (indices lie as out)
  pf_i64 length, in_stride, out_stride;
  pf_i64 piece, pieces;  // elements of one, how many
};
static_assert(sizeof(pf_scan) == 376, "as hosts fill it");

#endif
