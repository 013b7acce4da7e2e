// The schema of an operation: name, parameters with types and defaults, results. Its syntax is
// described in ops/registry.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pyflame/registry.h"

namespace pyflame::table {

enum class Type : uint8_t {
  Tensor,
  TensorList,
  Int,
  IntList,
  Float,
  FloatList,
  Bool,
  Scalar,
  Str,
  DType,
  Device
};

struct Param {
  std::string name;
  std::vector<std::string> aliases;  // other keywords for it: "input|tensor" in the row
  Type type = Type::Tensor;
  bool optional = false;  // None is allowed
  bool keyword_only = false;
  bool has_default = false;
  ops::Value default_value;
  std::string default_text;
};

struct Schema {
  std::string name;
  std::vector<Param> params;
  int positional = 0;
  std::string result;                     // text after the arrow
  std::vector<Type> results;              // none of them: nothing is given back
  std::vector<std::string> result_names;  // of a named tuple
  bool one_or_list = false;               // "Tensor | Tensor[]": which of them, the arguments say
  bool has(std::string_view param) const;
};

Schema parse_schema(std::string_view text);     // ValueError
std::string without_aliases(std::string text);  // a schema as people read it

}  // namespace pyflame::table
