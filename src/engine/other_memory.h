// Tensors that get other memory, another shape or another dtype than their history knows: by .data,
// by resize_, by an out= without elements.
#pragma once

#include "pyflame/tensor.h"

namespace pyflame::autograd {

// Before `t` gets them. A view is one no longer (`shares`: in its history only, it stays in the
// memory of its base); gradients of the new value that do not fit the old one, and writes through
// views of the old one, are errors from then on.
void leave_memory(const Tensor& t, const Dims& shape, DType dtype, bool shares);

}  // namespace pyflame::autograd
