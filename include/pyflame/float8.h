// Products of eight-bit floats with scales. Outside autograd: bytes have no gradient.
#pragma once

#include <optional>

#include "pyflame/registry.h"
#include "pyflame/tensor.h"

namespace pyflame {

// a [m, k] b [k, n] * scale_a * scale_b + bias [n], summed in float32 and rounded once. a has dense
// rows and b dense columns, both float8_e4m3fn or one of them float8_e5m2. Scales are float32: one
// number each, or [m, 1] and [1, n]. out_dtype is bfloat16, float16, float32 or a float8 dtype (by
// default a's), for which the result is multiplied by scale_result (or 1) first. bias has the
// result's dtype. use_fast_accum lets the device keep fewer bits of sums.
// ShapeError, DTypeError or ValueError where something else is given.
Tensor scaled_mm(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                 const Tensor& bias = {}, const Tensor& scale_result = {},
                 std::optional<DType> out_dtype = {}, bool use_fast_accum = false);

// A matrix of float32 or 16-bit floats as float8_e4m3fn or float8_e5m2, scaled so that its largest
// magnitude becomes the largest number, and the inverse of the scale (float32, no dimensions):
// [out, inverse], or [out, turned, inverse] with its dense transpose. The scale is 1 where there is
// no other: for zeros, infinities and NaN. ShapeError, DTypeError.
TensorList to_float8(const Tensor& x, DType dtype, bool turned = false);

}  // namespace pyflame
