// What the engine asks of operations: see engine/upcalls.h.
#include <algorithm>
#include <utility>

#include "engine/autograd_nodes.h"
#include "engine/upcalls.h"
#include "ops/functions.h"
#include "ops/hidden.h"

namespace pyflame {
namespace operations {

Tensor move(const Tensor& t, Device d) {
  return to(t, d);
}
Tensor convert(const Tensor& t, DType dtype) {
  return to(t, dtype);
}
Tensor copy(const Tensor& t) {
  return clone(t);
}
Tensor add(const Tensor& x, const Tensor& y) {
  return pyflame::add(x, y);
}
void add_into(Tensor& sum, const Tensor& t) {
  add_(sum, t);
}
Tensor constant(const Dims& shape, DType dtype, Device device, int value) {
  return full(shape.vec(), value, dtype, device);
}
Tensor zeros_like(const Tensor& t) {
  return pyflame::zeros_like(t);
}
bool has_nan(const Tensor& t) {
  Tensor all = t;
  while (const Hidden* h = engine::hidden_of(all))
    all = ops::show(all, 0, {h->dims[0].level, h->dims[0].size});
  return any(ne(all, all)).item<bool>();
}

}  // namespace operations

namespace autograd {

Grads CopySlices::apply(const Grads& grads) {
  // The gradient laid out as the base is: a view of it must reach what the view reached.
  Tensor full;
  if (offset_ == 0 && is_contiguous(shape_, strides_)) {
    full = clone(contiguous(grads[0]));
  } else {
    int64_t reach = offset_ + 1;
    for (int i = 0; i < shape_.size(); ++i) reach += (shape_[i] - 1) * strides_[i];
    Tensor memory =
        zeros({std::max<int64_t>(reach, 0)}, grads[0]->dtype, grads[0]->storage->device);
    full = as_strided(memory, shape_.vec(), strides_.vec(), offset_);
    copy_(full, grads[0]);
  }
  Tensor part = replay_view(steps_.get(), full);
  PF_CHECK(part->storage == full->storage, AutogradError, name,
           "the view that was written cannot be made again; write to a clone() of it");
  Grads out(next.size());
  Grads inner;
  if (inner_) inner = inner_->apply({clone(part)});
  if (needs(0)) {
    // The gradient of the base before the write: what was written over had no other influence.
    if (!inner.empty() && inner[0].defined())
      copy_(part, inner[0]);
    else
      zero_(part);
    out[0] = full;
  }
  for (size_t i = 1; i < inner.size() && i < out.size(); ++i) out[i] = inner[i];
  return out;
}

}  // namespace autograd
}  // namespace pyflame
