// Rows of the table as text: attributes, documentation.
#pragma once

#include <string>

#include "ops/pointwise.h"
#include "table/parse.h"

namespace pyflame::ops {

PointwiseRow describe(OpId row);                 // of the table
std::string documentation(const PointwiseRow&);  // sentence, formula, dtypes
std::string number_text(double v);
// Adds the function and method of a row made at run time to the registry.
void register_runtime_row(OpId id, const PointwiseRow& row);
// Operations of the table that an expression may call.
table::Function find_row(const std::string& name);

}  // namespace pyflame::ops
