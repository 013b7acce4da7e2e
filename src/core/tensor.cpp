#include "core/tensor_impl.h"
#include "pyflame/error.h"

namespace pyflame {

const Dims& Tensor::shape() const {
  return p_->shape;
}
const Dims& Tensor::strides() const {
  return p_->strides;
}
int64_t Tensor::storage_offset() const {
  return p_->offset;
}
DType Tensor::dtype() const {
  return p_->dtype;
}
Device Tensor::device() const {
  return p_->device();
}
int Tensor::dim() const {
  return p_->shape.size();
}
int64_t Tensor::numel() const {
  return p_->numel;
}
bool Tensor::is_contiguous() const {
  return p_->contiguous;
}
int64_t Tensor::size(int64_t d) const {
  PF_CHECK(dim() > 0, IndexError, "size", "a 0-d tensor has no dimensions");
  return p_->shape[wrap_dim(d, dim(), "size")];
}

}  // namespace pyflame
