// The schema of an operation, parsed from its row of the registry.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common.h"
#include "ops/registry.h"

namespace pyflame::python {

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
  PyObject* py_name = nullptr;       // interned, never freed
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
  std::vector<std::string> result_names;  // of a named tuple
  std::string result;                     // text after the arrow
  bool has(std::string_view param) const;
};

Schema parse_schema(const std::string& text);   // throws std::invalid_argument
std::string without_aliases(std::string text);  // a schema as people read it
const char* type_text(Type, bool optional);     // "tuple of ints", for messages
std::string annotation(const Param&);           // "Optional[Sequence[int]]", for stubs

// Converts one argument. False when it is of another type.
bool convert(const Param&, PyObject*, ops::Value*);

}  // namespace pyflame::python
