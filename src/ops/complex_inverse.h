// Values of inverse functions of complex numbers, by their parts.
#pragma once

#include "ops/complex.h"

namespace pyflame::ops {

Parts root_parts(const Parts&);  // of the square root
Parts asinh_parts(const Parts&);
Parts acosh_parts(const Parts&);
Parts acos_parts(const Parts&);
Parts atanh_parts(const Parts&);

}  // namespace pyflame::ops
