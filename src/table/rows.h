// The pointwise table as data: numbers, rules and texts of its rows. The rows themselves are in
// pointwise.def, what recording needs to know of one beyond its line in row_state.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pyflame::table {

struct Expr;

using OpId = uint16_t;  // a row's number

// Forward rows in file order: op::cast == 0, op::neg, ... , op::kRows.
namespace op {
enum Id : OpId {
#define PF_POINTWISE(NAME, ...) NAME,
#include "table/pointwise.def"
#undef PF_POINTWISE
  kRows
};
}  // namespace op

inline constexpr OpId kNumRows = op::kRows;
inline constexpr OpId kFirstRuntimeRow = 4 * kNumRows;

enum class Rule : uint8_t { Cast, Float, Arith, Keep, IntOnly, Compare, Test, Logic, Select };
// What the native gradient row of a row takes: nothing, (g, x[, y[, z]]) or (g, r).
enum class Grad : uint8_t { NONE, AUTO, FROM_INPUTS, FROM_RESULT };

// A row's number for the gradient of its input i, and back.
constexpr OpId gradient_row(OpId row, int input) {
  return static_cast<OpId>(kNumRows + 3 * row + input);
}
constexpr bool is_gradient_row(OpId id) {
  return id >= kNumRows && id < kFirstRuntimeRow;
}
constexpr OpId forward_of(OpId gradient) {
  return static_cast<OpId>((gradient - kNumRows) / 3);
}
constexpr int input_of(OpId gradient) {
  return (gradient - kNumRows) % 3;
}

struct RowInfo {
  const char* name;
  uint8_t arity;  // operands
  uint8_t nattrs;
  Rule rule;
  Grad grad;
  const char* attrs[4];  // "name=default"
  const char* body;      // as written
  const char* reference;
  const char* doc;  // "family: sentence"
};

namespace detail {
struct RowAttrs {
  const char* text[4] = {};
  uint8_t n = 0;
  constexpr RowAttrs() = default;
  template <class... A>
  constexpr RowAttrs(const char* first, A... rest)
      : text{first, rest...}, n(static_cast<uint8_t>(1 + sizeof...(rest))) {}
};
constexpr RowInfo make_row(const char* name, uint8_t arity, Rule rule, Grad grad, RowAttrs a,
                           const char* body, const char* reference, const char* doc) {
  return {name, arity,     a.n, rule, grad, {a.text[0], a.text[1], a.text[2], a.text[3]},
          body, reference, doc};
}
}  // namespace detail

inline constexpr RowInfo kRowTable[] = {
#define PF_GRAD_NONE Grad::NONE
#define PF_GRAD_AUTO Grad::AUTO
#define PF_GRAD_FROM_INPUTS(...) Grad::FROM_INPUTS
#define PF_GRAD_FROM_RESULT(...) Grad::FROM_RESULT
#define PF_ROW_ATTRS(...) __VA_OPT__(__VA_ARGS__)
#define PF_POINTWISE(NAME, ARITY, RULE, ATTRS, BODY, GRAD, REFERENCE, DOC)                         \
  detail::make_row(#NAME, ARITY, Rule::RULE, PF_GRAD_##GRAD, detail::RowAttrs{PF_ROW_ATTRS ATTRS}, \
                   #BODY, REFERENCE, DOC),
#include "table/pointwise.def"
#undef PF_POINTWISE
#undef PF_ROW_ATTRS
#undef PF_GRAD_NONE
#undef PF_GRAD_AUTO
#undef PF_GRAD_FROM_INPUTS
#undef PF_GRAD_FROM_RESULT
};
static_assert(sizeof(kRowTable) / sizeof(kRowTable[0]) == kNumRows);

// The expression of any row: forward, gradient (operands g, x, y, z or g, r), or made at run
// time. Built at first use, kept for good. expr.h.
const Expr& expression(OpId);
// Operands that a node of this row takes, and its name for errors, whatever kind of row it is.
int operand_count(OpId);
std::string row_name(OpId);

}  // namespace pyflame::table
