// What the running operations offer to others.
#pragma once

#include "pyflame/tensor.h"

namespace pyflame::ops {

// Running products along a dimension of a tensor that has dimensions. Differentiable at zeros.
Tensor cumprod(const Tensor&, int dim);

}  // namespace pyflame::ops
