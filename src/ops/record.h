// Recording a row: dtype promotion, broadcasting, devices, autograd. Everything in pointwise
// functions goes through call_row() or call_row_into().
#pragma once

#include <initializer_list>
#include <optional>
#include <span>

#include "engine/engine.h"
#include "ops/pointwise.h"
#include "table/row_state.h"

namespace pyflame::ops {

using table::GradPlan;
using table::row_state;
using table::RowState;
using table::runtime_row;

using engine::Operand;

// The dtype of a number by itself.
DType dtype_of(Scalar s);
// PyTorch's result type of tensors and numbers: dimensioned tensors before 0-d ones before
// numbers, a later category counting only when its kind (bool < int < float) is higher.
DType result_type(std::span<const Operand> operands);
// Whether values of `from` may be written where `to` is asked for: bool, integer, float, complex
// widen in this order.
bool kind_fits(DType from, DType to);

// A fresh result of row `id`. `operands` are in row order; numbers are given as Scalar.
Tensor call_row(OpId id, std::span<const Operand> operands, std::span<const Scalar> attrs = {});
// The same written into `dst`, which is the first operand.
Tensor& call_row_into(OpId id, Tensor& dst, std::span<const Operand> others,
                      std::span<const Scalar> attrs = {});

// What relu's node makes of the gradient of a result, or of anything that is above 0 in the same
// places.
Tensor relu_gradient(const Tensor& g, const Tensor& result);

// DTypeError for a bool beside a minus sign.
void refuse_bools(const Operand& x, const Operand& y, const char* op);

inline Tensor call_row(OpId id, std::initializer_list<Operand> operands,
                       std::initializer_list<Scalar> attrs = {}) {
  return call_row(id, std::span(operands.begin(), operands.size()),
                  std::span(attrs.begin(), attrs.size()));
}
inline Tensor& call_row_into(OpId id, Tensor& dst, std::initializer_list<Operand> others,
                             std::initializer_list<Scalar> attrs = {}) {
  return call_row_into(id, dst, std::span(others.begin(), others.size()),
                       std::span(attrs.begin(), attrs.size()));
}

}  // namespace pyflame::ops

namespace pyflame {

// In-place forms that the registry alone calls (pointwise_functions.cpp).
Tensor& clamp_(Tensor& x, const Tensor& low, const Tensor& high);
Tensor& gelu_(Tensor& x, const std::string& approximate);
Tensor& nan_to_num_(Tensor& x, std::optional<double> nan, std::optional<double> posinf,
                    std::optional<double> neginf);

}  // namespace pyflame
