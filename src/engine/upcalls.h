// What the engine asks of the operations, which define these (ops/gradients.cpp): gradients are
// made, moved, converted and added up by operations, since they may have gradients themselves.
#pragma once

#include "core/tensor_impl.h"

namespace pyflame::operations {

Tensor move(const Tensor&, Device);
Tensor convert(const Tensor&, DType);
Tensor copy(const Tensor&);
Tensor add(const Tensor&, const Tensor&);
void add_into(Tensor& sum, const Tensor&);
Tensor constant(const Dims& shape, DType, Device, int value);
Tensor zeros_like(const Tensor&);
bool has_nan(const Tensor&);
// The sum over the samples of a level of vmap.
Tensor sum_level(const Tensor&, uint32_t id, int64_t size);
Tensor dense(const Tensor& sparse);

}  // namespace pyflame::operations
