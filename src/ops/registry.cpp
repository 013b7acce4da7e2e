#include "ops/registry.h"

namespace pyflame::ops {

std::deque<Op>& table() {
  static auto* t = new std::deque<Op>;
  return *t;
}

void add(Op op) {
  table().push_back(std::move(op));
}

const Op& find(std::string_view schema) {
  for (const Op& op : table())
    if (op.schema == schema) return op;
  PF_FAIL(NotSupportedError, schema.substr(0, schema.find('(')), "got the schema '", schema,
          "', which this library has not; expected one of its own; compile with the headers that "
          "were installed with it");
}

namespace detail {

Value boxed(const Tensor& t) {
  return t.defined() ? Value(t) : Value();
}
Value boxed(const TensorList& list) {
  return Value(list);
}
Value boxed(const IntList& list) {
  return Value(list);
}
Value boxed(const std::optional<IntList>& list) {
  return list ? Value(*list) : Value();
}
Value boxed(const std::vector<double>& list) {
  return Value(list);
}
Value boxed(const std::optional<std::vector<double>>& list) {
  return list ? Value(*list) : Value();
}
Value boxed(const std::string& text) {
  return Value(text);
}
Value boxed(const std::optional<std::string>& text) {
  return text ? Value(*text) : Value();
}

}  // namespace detail

Value call(const Op& op, std::vector<Value>& arguments) {
  return op.call(arguments);
}

}  // namespace pyflame::ops
