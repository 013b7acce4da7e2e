// Copies between strided tensors of any two dtypes.
#pragma once

#include "pyflame/backend.h"

namespace pyflame::cpu {

// Copies `in` into `out`; sizes of 1 and missing leading dimensions of `in` are broadcast. Casts
// as the operation `to` does; complex to real takes the real part. The two must not overlap.
void convert(const pf_tensor& out, const pf_tensor& in);

}  // namespace pyflame::cpu
