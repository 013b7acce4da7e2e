// Copies between two strided places.
#pragma once

#include <cstdint>

#include "pyflame/dtype.h"

namespace pyflame::cpu {

// Strides in elements, of any sign; the places must not overlap.
void copy_elements(DType dtype, int ndim, const int64_t* shape, void* to, const int64_t* to_strides,
                   const void* from, const int64_t* from_strides);

}  // namespace pyflame::cpu
