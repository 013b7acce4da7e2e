// What the row operations (softmax, norms, losses, reductions, optimizers) share.
#pragma once

#include <string>
#include <string_view>

#include "core/kernel_numbers.h"
#include "core/tensor_impl.h"
#include "engine/autograd.h"
#include "engine/engine.h"
#include "ops/functions.h"
#include "ops/unsigned.h"

namespace pyflame::ops {

using pyflame::Nth;
using pyflame::Reduction;

void check_same_device(const Tensor& a, const Tensor& b, const char* op);  // building_blocks.cpp
inline void check_defined(const Tensor& t, const char* op, const char* what) {
  PF_CHECK(t.defined(), ValueError, op, "got no ", what, "; expected a tensor; pass one");
}
inline void check_arithmetic(const Tensor& t, const char* op) {
  check_defined(t, op, "input");
  PF_CHECK(!has_no_arithmetic(t->dtype), DTypeError, op, "got ", t->dtype,
           "; expected a dtype with arithmetic; convert with .to(dtype)");
}
inline void check_floating(const Tensor& t, const char* op, const char* what = "input") {
  check_defined(t, op, what);
  PF_CHECK(is_float(t->dtype) && !info(t->dtype).storage_only, DTypeError, op, "got ", what,
           " of dtype ", t->dtype, "; expected a floating-point dtype; convert with .to(dtype)");
}
// Integers and bools as the default float dtype.
inline Tensor as_floating(const Tensor& t, const char* op, const char* what = "input") {
  check_defined(t, op, what);
  check_arithmetic(t, op);
  return is_float(t->dtype) ? t : to(t, default_dtype());
}
inline void check_device(const Tensor& a, const Tensor& b, const char* op) {
  check_same_device(a, b, op);
}
inline Tensor dense(const Tensor& t) {
  return t->contiguous ? t : contiguous(t);
}

// Sixteen-bit numbers are too coarse to calculate with: what takes several steps takes them in
// float32, and rounds once at the end.
inline bool is_narrow(DType t) {
  return info(t).kind == Kind::Float && info(t).bits < 32;
}
inline bool is_narrow(const Tensor& t) {
  return is_narrow(t->dtype);
}
inline DType wide_type(DType t) {
  return is_narrow(t) ? DType::Float32 : t;
}
inline Tensor widened(const Tensor& t) {
  return to(t, wide_type(t->dtype));
}
// x - y inside of a formula, where bools are 0 and 1; sub() refuses them, for a difference of masks
// that is spelled out is a mistake.
Tensor difference(const engine::Operand& x, const engine::Operand& y);  // record.cpp
// x - mean(x) over some dimensions, exact however far from 0 the elements are: what the mean was
// off by is the mean of the differences from it.
Tensor centred(const Tensor& x, const IntList& dims);  // reduce.cpp
// The gradient of y = norm(x, p, -1), for p other than 0, 1 and infinity.
Tensor norm_slopes(const Tensor& grad, const Tensor& x, const Tensor& y, double p);  // reduce.cpp

// The median of all elements, by that along a dimension: the gradient goes to all that equal it, in
// equal parts.
using Along = std::pair<Tensor, Tensor> (*)(const Tensor& x, int64_t dim, bool keepdim);
Tensor middle_of_all(const char* op, const Tensor& x, Along);  // reduce.cpp
// `y` is made of steps of x: differentiable, with zeros.
Tensor without_slope(const char* op, const Tensor& y, const Tensor& x);

// The position along `dim` of the element with `number` smaller ones before it, or of a median
// (the lower one; Median: the first NaN if there is one). Size 1 along `dim`.  sort.cpp
Tensor nth_index(const Tensor&, int dim, Nth, int64_t number = 0);

Reduction reduction_from(std::string_view name, const char* op);
Tensor reduced(const Tensor& loss, Reduction);
// Checks an input and a target that broadcast.
void check_pair(const Tensor& input, const Tensor& target, const char* op);

}  // namespace pyflame::ops
