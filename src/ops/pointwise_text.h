// Rows of the table as text: attributes, documentation.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ops/pointwise.h"

namespace pyflame::ops {

PointwiseRow describe(OpId row);                 // of the table
std::string documentation(const PointwiseRow&);  // sentence, formula, dtypes
std::string number_text(double v);
// "b=1.0, c=2" as names and numbers; ValueError otherwise.
std::vector<std::pair<std::string, double>> parse_attrs(const std::string& text, const char* op);
// Adds the function and method of a row made at run time to the registry.
void register_runtime_row(OpId id, const PointwiseRow& row);

}  // namespace pyflame::ops
