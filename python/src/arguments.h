// Arguments of a call from Python, by the schema of the operation.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common.h"
#include "table/schema.h"

namespace pyflame::python {

using table::Param;
using table::Type;

struct Signature : table::Schema {
  explicit Signature(const std::string& schema);
  std::vector<PyObject*> names;  // of the parameters: interned, never freed
};

const char* type_text(Type, bool optional);  // "tuple of ints", for messages
std::string annotation(const Param&);        // "Optional[Sequence[int]]", for stubs

// Converts one argument. False when it is of another type.
bool convert(const Param&, PyObject*, ops::Value*);
// A complex number where a tensor is expected, `beside` the arguments; false when it may not be
// one.
bool convert_complex(const Param&, PyObject*, std::span<PyObject* const> beside, ops::Value*);

}  // namespace pyflame::python
