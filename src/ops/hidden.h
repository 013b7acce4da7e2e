// Dimensions that vmap hides, as differentiable operations (engine/hidden.h).
#pragma once

#include <functional>

#include "engine/hidden.h"

namespace pyflame::ops {

// Dimension `dim` of x becomes the samples of a level. A view.
Tensor hide(const Tensor& x, int64_t dim, uint32_t level);
// The samples of a level as dimension `dim`; where x is alike for all, it is seen `size` times. A
// view.
Tensor show(const Tensor& x, int64_t dim, engine::Level level);

// All samples: their levels as leading dimensions, without history. For what the host checks.
Tensor all_samples(const Tensor& x);
// f of all samples at once; f takes leading dimensions as a batch and keeps them.
Tensor over_samples(const Tensor& x, const std::function<Tensor(const Tensor&)>& f);

// Of a view of x as another dtype, of which `over` elements have the size of `times` of x's: steps
// from sample to sample, in its own elements. Whether there are whole ones.
void scale_steps(const Tensor& view, int64_t times, int64_t over);
bool steps_divide(const Tensor& x, int64_t over);

// Whether any of the tensors differs from sample to sample: then fused operations that have no rule
// for it are made of others.
bool hides(std::initializer_list<Tensor> tensors);

}  // namespace pyflame::ops
