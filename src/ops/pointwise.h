// Pointwise operations: rows of the table recorded, described and defined.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "pyflame/tensor.h"
#include "table/rows.h"

namespace pyflame::table {
struct Expr;
}

namespace pyflame::ops {

namespace op = table::op;
using table::expression;
using table::forward_of;
using table::Grad;
using table::gradient_row;
using table::input_of;
using table::is_gradient_row;
using table::kFirstRuntimeRow;
using table::kNumRows;
using table::kRowTable;
using table::operand_count;
using table::OpId;
using table::row_name;
using table::RowInfo;
using table::Rule;

// ---- for Python, documentation and tests --------------------------------------------------------

struct PointwiseRow {
  std::string name;       // of the row
  std::string python;     // name of the Python function; empty for internal rows
  std::string family;     // heading of the documentation
  std::string doc;        // one sentence
  std::string formula;    // the body as text: "x * sigmoid(x)"
  std::string reference;  // NumPy/SciPy text over x, y, z, a0..a3, np, sp = scipy.special
  std::string rule;       // "Float", "Arith", ...
  int arity = 0;
  std::vector<std::pair<std::string, double>> attrs;  // names and defaults, in order
  bool differentiable = false;
  bool inplace = false;  // has a method name_
  bool runtime = false;  // made by define_pointwise
};
// The table and the rows defined at run time. pyflame._C._pointwise_rows() gives them as dicts.
std::vector<PointwiseRow> pointwise_rows();

// A row made at run time, with kernel, gradients of any order and an entry in the registry
// (function and method `name`). `expression` is text over x, y, z and the attributes; the highest
// operand used gives the number of operands. ValueError for text that is none.
OpId define_pointwise(const std::string& name, const std::string& expression,
                      const std::vector<std::pair<std::string, double>>& attrs = {},
                      const std::string& doc = "");
// The same from a graph of micro-operations (src/table/sym.h writes them as formulas).
OpId define_pointwise(const std::string& name, const table::Expr& body,
                      const std::vector<std::pair<std::string, double>>& attrs = {},
                      const std::string& doc = "");

// Quick entries for operators: no checks beyond those of the row.
Tensor unary_fast(OpId, const Tensor&);
Tensor binary_fast(OpId, const Tensor&, const Tensor&);
Tensor binary_fast(OpId, const Tensor&, Scalar);
Tensor binary_fast(OpId, Scalar, const Tensor&);

}  // namespace pyflame::ops
