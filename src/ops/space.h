// Tensors with dimensions of space: how they lie, and results that lie as they do.
#pragma once

#include "core/tensor_impl.h"
#include "ops/functions.h"

namespace pyflame::ops {

// What is channels-last stays so; anything else becomes row-major.
inline MemoryFormat space_format(const Tensor& x) {
  if (!x->contiguous)
    for (const MemoryFormat f : {MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d})
      if (lies_in(f, x->shape, x->strides)) return f;
  return MemoryFormat::Contiguous;
}
inline Tensor fresh_in(const Dims& shape, DType dtype, Device device, MemoryFormat format) {
  Tensor t = make_tensor(shape, dtype, device);
  if (format != MemoryFormat::Contiguous) lay_out(*t.impl(), strides_in(format, shape, "space"));
  return t;
}

}  // namespace pyflame::ops
