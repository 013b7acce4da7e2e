// uint16, uint32 and uint64. There are no kernels of them: what is calculated with them is done in
// the signed dtype that they are computed in, which holds the values of the first two, and of
// uint64 the bits. Sums and products of bits are right as they are; where order counts, 2^63 is
// taken from uint64 first.
#pragma once

#include <span>
#include <utility>

#include "core/tensor_impl.h"
#include "engine/engine.h"
#include "ops/functions.h"

namespace pyflame::ops {

constexpr bool is_wide_unsigned(DType t) {
  return info(t).kind == Kind::UInt && info(t).storage_only;
}
inline bool is_wide_unsigned(const Tensor& t) {
  return is_wide_unsigned(t->dtype);
}
// What neither has arithmetic nor is calculated with as a signed dtype.
constexpr bool has_no_arithmetic(DType t) {
  return info(t).storage_only && !is_wide_unsigned(t);
}

// The elements in int32 or int64, those of uint64 as bits; other tensors as they are.
Tensor whole(const Tensor&);
// The same in their order.
Tensor ordered(const Tensor&);
// Back, modulo what `type` holds.
Tensor from_whole(const Tensor&, DType type);
Tensor from_ordered(const Tensor&, DType type);

// What `f` picks among the elements of t by their order, alone or with indices.
template <class F>
auto in_order(const Tensor& t, F&& f) {
  auto r = f(ordered(t));
  if constexpr (std::is_same_v<decltype(r), Tensor>)
    return from_ordered(r, t->dtype);
  else
    return decltype(r){from_ordered(r.first, t->dtype), std::move(r.second)};
}

// A row of the pointwise table over tensors of `type` (or masks) and numbers. DTypeError for a row
// that uint64 has not.
Tensor unsigned_row(engine::OpId id, std::span<const engine::Operand> operands,
                    std::span<const Scalar> attrs, DType type, const char* name);

}  // namespace pyflame::ops
