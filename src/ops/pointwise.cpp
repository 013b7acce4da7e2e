// The table as text and data, rows made at run time, and the quick entries of operators.
#include "ops/pointwise.h"

#include <algorithm>
#include <charconv>
#include <mutex>

#include "core/lock.h"
#include "ops/functions.h"
#include "ops/pointwise_text.h"
#include "ops/record.h"
#include "table/parse.h"

namespace pyflame::ops {
namespace {

constexpr const char* kRuleNames[] = {"Cast",    "Float", "Arith", "Keep",  "IntOnly",
                                      "Compare", "Test",  "Logic", "Select"};
constexpr const char* kRuleTexts[] = {
    "",
    "Integers and bools become the default float dtype first.",
    "Any number dtype; the result has the promoted dtype of the operands.",
    "Integers and bools are returned as they are.",
    "Integers and bools only.",
    "Any number dtype; the result is bool.",
    "Any number dtype; the result is bool.",
    "Any dtype, compared with 0 first; the result is bool.",
    "Any number dtype; the result has the promoted dtype of the two branches.",
};
const std::string kOperandNames[] = {"x", "y", "z"};

bool is_name(const std::string& s) {
  if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0]))) return false;
  return std::all_of(s.begin(), s.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

std::string formula_of(const table::Expr& e, const PointwiseRow& row) {
  std::vector<std::string> names;
  for (const auto& a : row.attrs) names.push_back(a.first);
  return table::formula(e, kOperandNames, names);
}

struct Runtime {
  Mutex mutex;
  std::vector<PointwiseRow> rows;
};
Runtime& runtime() {
  static auto* r = new Runtime;
  return *r;
}

}  // namespace

std::string number_text(double v) {
  char buf[32];
  auto end = std::to_chars(buf, buf + sizeof(buf), v).ptr;
  std::string s(buf, end);
  if (s.find_first_of(".en") == std::string::npos) s += ".0";
  return s;
}

PointwiseRow describe(OpId id) {
  const RowInfo& info = kRowTable[id];
  PointwiseRow row;
  row.name = info.name;
  const std::string doc = info.doc;
  const size_t colon = doc.find(": ");
  row.family = doc.substr(0, colon);
  row.doc = doc.substr(colon + 2);
  row.reference = info.reference;
  row.rule = kRuleNames[static_cast<int>(info.rule)];
  row.arity = info.arity;
  for (int i = 0; i < info.nattrs; ++i) {
    const std::string text = info.attrs[i];
    const size_t eq = text.find('=');
    double value = 0;
    std::from_chars(text.data() + eq + 1, text.data() + text.size(), value);
    row.attrs.emplace_back(text.substr(0, eq), value);
  }
  row.differentiable = info.grad != Grad::NONE;
  row.formula = formula_of(expression(id), row);
  if (row.family != "internal") row.python = row.name;
  row.inplace = !row.python.empty() && info.rule != Rule::Test && info.rule != Rule::Select;
  return row;
}

table::Function find_row(const std::string& name) {
  for (OpId id = 1; id < kNumRows; ++id) {
    const RowInfo& row = kRowTable[id];
    if (name != row.name) continue;
    if (row.rule != Rule::Float && row.rule != Rule::Arith && row.rule != Rule::Keep &&
        row.rule != Rule::Test && row.rule != Rule::Compare)
      return {};
    table::Function f{&expression(id), row.arity, {}};
    for (const auto& a : describe(id).attrs) f.attrs.push_back(a.second);
    return f;
  }
  return {};
}

std::string documentation(const PointwiseRow& row) {
  std::string s = row.doc;
  if (!row.formula.empty()) s += (s.empty() ? "" : "\n\n") + ("Formula: " + row.formula);
  for (size_t i = 0; i < std::size(kRuleNames); ++i)
    if (row.rule == kRuleNames[i] && *kRuleTexts[i])
      s += std::string(s.empty() ? "" : "\n\n") + kRuleTexts[i];
  if (row.arity > 1) s += " Operands are broadcast.";
  return s;
}

std::vector<PointwiseRow> pointwise_rows() {
  std::vector<PointwiseRow> all;
  for (OpId id = 0; id < kNumRows; ++id) {
    all.push_back(describe(id));
  }
  Runtime& r = runtime();
  std::lock_guard lock(r.mutex);
  all.insert(all.end(), r.rows.begin(), r.rows.end());
  return all;
}

OpId define_pointwise(const std::string& name, const table::Expr& body,
                      const std::vector<std::pair<std::string, double>>& attrs,
                      const std::string& doc) {
  PF_CHECK(is_name(name), ValueError, "ops.define", "got the name '", name,
           "'; expected letters, digits and _; choose another name");
  PF_CHECK(attrs.size() <= 4, ValueError, "ops.define", "got ", attrs.size(),
           " attributes; expected at most 4; write the others as numbers into the expression");
  const int arity = body.num_inputs();
  PF_CHECK(arity >= 1 && arity <= 3, ValueError, "ops.define", "got an expression of ", arity,
           " operands; expected x, y or z to be used; use pf.full() for constants");
  PointwiseRow row;
  row.name = row.python = name;
  row.family = "defined";
  row.doc = doc;
  row.rule = "Float";
  row.arity = arity;
  row.attrs = attrs;
  row.differentiable = !body.root().mask;
  row.runtime = true;
  row.formula = formula_of(body, row);
  const OpId id = runtime_row(body, name, arity, static_cast<int>(attrs.size()), Rule::Float);
  Runtime& r = runtime();
  {
    std::lock_guard lock(r.mutex);
    for (const auto& known : r.rows)
      PF_CHECK(known.name != name, ValueError, "ops.define", "got the name '", name,
               "', which is defined already as ", known.formula, "; choose another name");
    for (OpId k = 0; k < kNumRows; ++k)
      PF_CHECK(name != kRowTable[k].name, ValueError, "ops.define", "got the name '", name,
               "', which is an operation of PyFlame; choose another name");
    r.rows.push_back(row);
  }
  register_runtime_row(id, row);
  return id;
}

OpId define_pointwise(const std::string& name, const std::string& expression,
                      const std::vector<std::pair<std::string, double>>& attrs,
                      const std::string& doc) {
  std::vector<std::string> names;
  for (const auto& a : attrs) {
    PF_CHECK(is_name(a.first) && a.first != "x" && a.first != "y" && a.first != "z", ValueError,
             "ops.define", "got the attribute name '", a.first,
             "'; expected letters, digits and _, and not x, y or z, which are the operands");
    names.push_back(a.first);
  }
  const table::Expr body =
      table::parse(expression, {kOperandNames, kOperandNames + 3}, names, find_row, "ops.define");
  return define_pointwise(name, body, attrs, doc);
}

Tensor unary_fast(OpId id, const Tensor& x) {
  return call_row(id, {x});
}
// A difference that is spelled out has rules of its own (bools).
Tensor binary_fast(OpId id, const Tensor& x, const Tensor& y) {
  if (id == op::sub) return sub(x, y);
  return call_row(id, {x, y});
}
Tensor binary_fast(OpId id, const Tensor& x, Scalar y) {
  if (id == op::sub) return sub(x, y);
  return call_row(id, {x, y});
}
Tensor binary_fast(OpId id, Scalar x, const Tensor& y) {
  if (id == op::sub) return rsub(y, x);
  return call_row(id, {x, y});
}

}  // namespace pyflame::ops
