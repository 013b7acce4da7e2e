// Operators, and what C++ has beside the operations of the registry.
#pragma once

#include "pyflame/registry.h"

namespace pyflame {

Tensor operator+(const Tensor&, const Tensor&);
Tensor operator+(const Tensor&, Scalar);
Tensor operator+(Scalar, const Tensor&);
Tensor operator-(const Tensor&, const Tensor&);
Tensor operator-(const Tensor&, Scalar);
Tensor operator-(Scalar, const Tensor&);
Tensor operator*(const Tensor&, const Tensor&);
Tensor operator*(const Tensor&, Scalar);
Tensor operator*(Scalar, const Tensor&);
Tensor operator/(const Tensor&, const Tensor&);
Tensor operator/(const Tensor&, Scalar);
Tensor operator/(Scalar, const Tensor&);
Tensor operator-(const Tensor&);

Tensor from_host(const void* data, const IntList& size, DType, Device = {});  // copies
Tensor to(const Tensor&, DType);  // differentiable cast; the tensor itself when it has the dtype
// Differentiable copy; the tensor itself when it is there. From pinned memory (pyflame/memory.h)
// and with non_blocking the call does not wait: leave the source as it is until the stream has come
// there. Copies to the CPU always wait.
Tensor to(const Tensor&, Device, bool non_blocking = false);
// The tensor itself where it lies so already.
Tensor contiguous(const Tensor&, MemoryFormat);
Tensor clone(const Tensor&, MemoryFormat);
Tensor squeeze(const Tensor&, int64_t dim);
// Zeros where the memory of a floating tensor is: for what is updated in place beside it.
Tensor zeros_beside(const Tensor&);

}  // namespace pyflame
