// Text to expression, for rows made at run time: "x * sigmoid(b * x)", "where(x > 0, x, b * x)".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "table/expr.h"

namespace pyflame::table {

// A function that the vocabulary itself does not have, such as an operation of the table.
struct Function {
  const Expr* body = nullptr;
  int inputs = 0;
  std::vector<double> attrs;  // defaults; may be given as further arguments
};
using Lookup = std::function<Function(const std::string& name)>;  // body null when unknown

// Python's operators and words (+ - * / // % ** < <= > >= == != and or not, a if c else b),
// numbers, pi, e, inf, nan, the operands and attributes by name, and functions by the lower-case
// names of the vocabulary (where, max, min, exp, ...). ValueError with the position otherwise.
Expr parse(const std::string& text, const std::vector<std::string>& inputs,
           const std::vector<std::string>& attrs, const Lookup& lookup, const char* op);

}  // namespace pyflame::table
