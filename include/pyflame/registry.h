// Operations found by their schema and called with values of any type. The functions of ops.h that
// the library has under no such C++ signature call them here; so can programs that choose an
// operation when they run.
//
//   const ops::Op& clamp = ops::find("clamp(Tensor input, Scalar? min=None, Scalar? max=None) -> "
//                                    "Tensor");
//   std::vector<ops::Value> arguments{x, Scalar(0), ops::Value()};  // all of them, in order
//   Tensor y = std::get<Tensor>(ops::call(clamp, arguments));
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "pyflame/tensor.h"

namespace pyflame {

using IntList = std::vector<int64_t>;
using TensorList = std::vector<Tensor>;

namespace ops {

// An argument or result. monostate is None: what is optional and was left out.
using Value = std::variant<std::monostate, bool, int64_t, double, Scalar, Tensor, IntList,
                           TensorList, std::vector<double>, DType, Device, std::string>;

struct Op;  // src/ops/registry.h

// NotSupportedError when the library has no such operation: headers of another release.
const Op& find(std::string_view schema);
// The values are used up.
Value call(const Op& op, std::vector<Value>& arguments);

// ---- for the printed functions ------------------------------------------------------------------
namespace detail {

Value boxed(const Tensor&);  // an undefined one is None
Value boxed(const TensorList&);
Value boxed(const IntList&);
Value boxed(const std::optional<IntList>&);
Value boxed(const std::vector<double>&);
Value boxed(const std::optional<std::vector<double>>&);
Value boxed(const std::string&);
Value boxed(const std::optional<std::string>&);
template <class T>
requires std::is_trivially_copyable_v<T> Value boxed(const T& v) {
  return Value(v);
}
template <class T>
requires std::is_trivially_copyable_v<T> Value boxed(const std::optional<T>& v) {
  return v ? Value(*v) : Value();
}
inline Value boxed(std::monostate) {
  return {};
}

// Result R of a call. An operation that gives a tensor or several gives a list here.
template <class R, class... A>
R call_as(const Op& op, const A&... arguments) {
  std::vector<Value> values;
  values.reserve(sizeof...(A));
  (values.push_back(boxed(arguments)), ...);
  Value result = call(op, values);
  if constexpr (std::is_same_v<R, std::pair<Tensor, Tensor>>) {
    TensorList& both = std::get<TensorList>(result);
    return {std::move(both[0]), std::move(both[1])};
  } else if constexpr (std::is_same_v<R, TensorList>) {
    if (Tensor* one = std::get_if<Tensor>(&result)) return {std::move(*one)};
    return std::get<TensorList>(std::move(result));
  } else if constexpr (!std::is_void_v<R>) {
    return std::get<R>(std::move(result));
  }
}

}  // namespace detail
}  // namespace ops
}  // namespace pyflame
