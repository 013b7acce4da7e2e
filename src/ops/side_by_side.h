// Tensors that lie beside each other in one memory, as queries, keys and values do in the
// projection that they are slices of: gradients made so are the projection's, without being joined
// by copies.
#pragma once

#include <array>
#include <span>

#include "pyflame/tensor.h"

namespace pyflame::ops {

// Fresh tensors of the shapes and strides of `models`, in one memory in which they lie to each
// other as the models do; all undefined unless the models are of one dtype, lie in one memory and
// fill a part of it without gaps.
std::array<Tensor, 3> make_side_by_side(const std::array<Tensor, 3>& models);

// The tensors behind each other along `dim`, as a view; undefined where they do not lie so, where
// gaps would remain, or where a gradient is to flow through.
Tensor seen_as_one(std::span<const Tensor> tensors, int dim);

}  // namespace pyflame::ops
