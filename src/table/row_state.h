// What recording needs to know of a row beyond its line in the table: which operands its gradient
// reads (only those are saved), and which row computes the gradient of each operand. Made from
// the row's expression at first use; gradients of gradients and rows of pf.ops.define become rows
// of their own with ids from kFirstRuntimeRow.
#pragma once

#include <string>
#include <vector>

#include "table/expr.h"
#include "table/rows.h"

namespace pyflame::table {

// How the gradient of one operand is computed from g, the gradient of the result.
struct GradPlan {
  enum Kind : uint8_t {
    None,    // not differentiable
    Zero,    // zeros
    Pass,    // g
    Negate,  // -g
    Row,     // one node of `row`
    Product  // g times one node of `row`, when g would be a fifth operand
  };
  enum Source : int8_t { kG = -1, kResult = -2, kNumber = -3 };  // else an operand of the forward
  Kind kind = None;
  uint8_t n = 0;
  OpId row = 0;
  int8_t source[4] = {};
};

struct RowState {
  OpId id = 0;
  std::string name;
  uint8_t arity = 0;
  uint8_t nattrs = 0;
  Rule rule = Rule::Float;
  bool runtime = false;
  bool mask_result = false;  // comparisons, tests, logic
  uint8_t masks = 0;         // bit i: operand i is a mask
  uint8_t saves = 0;         // bit i: some gradient reads operand i
  bool saves_result = false;
  bool differentiable = false;
  GradPlan grad[4];
};

const RowState& row_state(OpId id);

// A row for an expression; the same id for an equal expression. ValueError when ids run out.
OpId runtime_row(const Expr& e, const std::string& name, int arity, int nattrs, Rule rule);

}  // namespace pyflame::table
