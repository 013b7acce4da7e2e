// Whether products of parts (float_parts.h) have float32's bits: whatever is infinite or NaN, may
// overflow, or has a part or a product below the smallest normal number is for ordinary arithmetic.
#ifndef PF_FLOAT_PARTS_FIT_H
#define PF_FLOAT_PARTS_FIT_H
#include "float_parts_args.h"
#include "prelude.h"

PF_DEVICE bool pf_parts_fit(const pf_u32* range) {
  const volatile pf_u32* r = range;
  const pf_u32 a = r[0] >> 23, b = r[2] >> 23, a_least = (PF_RANGE_TOP - r[1]) >> 23,
               b_least = (PF_RANGE_TOP - r[3]) >> 23;
  // Exponents with 127 added. Products are below 2^97, so that 2^29 of them can be summed.
  return a < 254 && b < 254 && a + b <= 350 && a_least >= 24 && b_least >= 24 &&
         a_least + b_least >= 154;
}

#endif
