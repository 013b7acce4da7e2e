// The argument of the kernel of resample.h.
#ifndef PF_RESAMPLE_ARGS_H
#define PF_RESAMPLE_ARGS_H
#include "integers.h"

// Output i takes `count` elements from `start` on, with the weights at i * most.
struct pf_band {
  const pf_i32* start;  // counts follow, then weights
  pf_i64 in, out, most;
};
struct pf_resample {
  const void* x;
  void* y;
  pf_band a, b;
  pf_i64 outer, inner;
  pf_i64 items;  // threads' work: groups of PF_V elements of y
};
static_assert(sizeof(pf_resample) == 104, "as hosts fill it");

#endif
