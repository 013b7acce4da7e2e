// The table of general operations. One row gives the C++ function its declaration in pyflame/ops.h,
// its Python binding, Tensor method, type stub, documentation page and tests. Pointwise rows
// (pointwise.def) add themselves.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "pyflame/registry.h"

namespace pyflame::ops {

// Schema text, close to Python's own signature syntax:
//   "sum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor"
// Types: Tensor, Tensor[], int, int[], float, float[], bool, Scalar, str, dtype, device; '?' makes
// it optional (None). An `int[]` may be given as one int or a tuple; when it is the last positional
// one it may be spelled as varargs (x.view(2, 3)). A tensor of one element serves as a number.
// "int[] shape|size" takes either keyword; what PyTorch takes everywhere (axis) needs no mention.
// Results: Tensor, Tensor[] (a list), Tensor | Tensor[] (by the arguments), (Tensor values, Tensor
// indices) (a named tuple), None, or a scalar type. Several rows may share a name: the first whose
// arguments fit is called. src/table/schema.h parses them.
struct Op {
  std::string name;
  std::string schema;
  std::string doc;     // shapes, units, errors, source
  std::string family;  // heading in the documentation: "reduction", "indexing", ...
  unsigned where;      // Where flags
  bool differentiable;
  std::function<Value(std::vector<Value>&)> call;  // arguments in schema order
  // Row of the pointwise table that a call with as many tensors as it has operands, and nothing
  // else, records: such a call need not bind arguments.
  int quick = -1;
};

enum Where : unsigned {
  kFunction = 1,    // pyflame.NAME
  kMethod = 2,      // Tensor.NAME, the first argument being self
  kFunctional = 4,  // pyflame.nn.functional.NAME
  kSpecial = 8,     // pyflame._C only
  kOld = 16,        // beside others: a spelling that PyTorch takes with a warning; not documented
};

std::deque<Op>& table();  // in order of registration; rows stay where they are
void add(Op op);

// ---- boxing: from a C++ function to Op::call ---------------------------------------------------
namespace detail {
template <class T>
struct Unbox {
  static T from(Value& v) { return std::move(std::get<T>(v)); }  // an argument is used once
};
template <>
struct Unbox<double> {
  static double from(Value& v) {
    if (auto* s = std::get_if<Scalar>(&v)) return s->to_double();
    if (auto* i = std::get_if<int64_t>(&v)) return static_cast<double>(*i);
    return std::get<double>(v);
  }
};
template <>
struct Unbox<Dims> {
  static Dims from(Value& v) { return Dims(std::get<IntList>(v)); }
};
template <class T>
struct Unbox<std::optional<T>> {
  static std::optional<T> from(Value& v) {
    if (std::holds_alternative<std::monostate>(v)) return std::nullopt;
    return Unbox<T>::from(v);
  }
};
template <>
struct Unbox<Tensor> {  // an optional tensor is an undefined one
  static Tensor from(Value& v) {
    if (std::holds_alternative<std::monostate>(v)) return {};
    return std::move(std::get<Tensor>(v));
  }
};
template <class T>
Value box(T&& v) {
  using U = std::decay_t<T>;
  if constexpr (std::is_same_v<U, Dims>)
    return Value(v.vec());
  else if constexpr (std::is_same_v<U, std::pair<Tensor, Tensor>>)
    return Value(TensorList{v.first, v.second});
  else
    return Value(std::forward<T>(v));
}
// A function and what calls it with arguments out of a list: one type for functions of all types,
// as std::function would have a manager and the name of a type for each.
struct Boxed {
  using Any = void (*)();
  Any fn;
  Value (*with)(Any, std::vector<Value>&);
  Value operator()(std::vector<Value>& v) const { return with(fn, v); }
};
template <class R, class... A, size_t... I>
Boxed boxed(R (*fn)(A...), std::index_sequence<I...>) {
  return {reinterpret_cast<Boxed::Any>(fn), [](Boxed::Any any, std::vector<Value>& v) -> Value {
            const auto own = reinterpret_cast<R (*)(A...)>(any);
            if constexpr (std::is_void_v<R>) {
              own(Unbox<std::decay_t<A>>::from(v[I])...);
              return {};
            } else {
              return box(own(Unbox<std::decay_t<A>>::from(v[I])...));
            }
          }};
}
}  // namespace detail

struct Row {
  const char* schema;
  const char* doc;
  unsigned where = kFunction | kMethod;
  bool differentiable = true;
};

// One family of operations, registered at load time:
//   static const Family kReduce("reduction", [](Family& f) {
//     f.op(&sum, {"sum(Tensor input, ...) -> Tensor", "Sum over ..."});
//   });
class Family {
 public:
  Family(const char* name, void (*fill)(Family&)) : name_(name) { fill(*this); }
  template <class R, class... A>
  void op(R (*fn)(A...), Row row) {
    std::string_view s(row.schema);
    add(Op{std::string(s.substr(0, s.find('('))), row.schema, row.doc, name_, row.where,
           row.differentiable, detail::boxed(fn, std::index_sequence_for<A...>{})});
  }

 private:
  const char* name_;
};

}  // namespace pyflame::ops
