// Expressions: what a pointwise row computes, as a graph of micro-operations. Printed for GPUs
// and documentation, differentiated for gradients, run by the CPU's tape for rows without a
// compiled kernel.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace pyflame::table {

// name, operands, result is a mask, C text ($0 $1 $2 are the operands)
#define PF_MICRO_OPS(X)                          \
  X(Input, 0, false, "")                         \
  X(Attr, 0, false, "")                          \
  X(Const, 0, false, "")                         \
  X(Add, 2, false, "($0 + $1)")                  \
  X(Sub, 2, false, "($0 - $1)")                  \
  X(Mul, 2, false, "($0 * $1)")                  \
  X(Div, 2, false, "($0 / $1)")                  \
  X(Neg, 1, false, "(-$0)")                      \
  X(Fma, 3, false, "pf_fma($0, $1, $2)")         \
  X(Sqrt, 1, false, "pf_sqrt($0)")               \
  X(Exp, 1, false, "pf_exp($0)")                 \
  X(Expm1, 1, false, "pf_expm1($0)")             \
  X(Exp2, 1, false, "pf_exp2($0)")               \
  X(Log, 1, false, "pf_log($0)")                 \
  X(Log1p, 1, false, "pf_log1p($0)")             \
  X(Log2, 1, false, "pf_log2($0)")               \
  X(Log10, 1, false, "pf_log10($0)")             \
  X(Tanh, 1, false, "pf_tanh($0)")               \
  X(Sigmoid, 1, false, "pf_sigmoid($0)")         \
  X(Erf, 1, false, "pf_erf($0)")                 \
  X(Erfc, 1, false, "pf_erfc($0)")               \
  X(Gelu, 1, false, "pf_gelu($0)")               \
  X(Sin, 1, false, "pf_sin($0)")                 \
  X(Cos, 1, false, "pf_cos($0)")                 \
  X(Tan, 1, false, "pf_tan($0)")                 \
  X(Asin, 1, false, "pf_asin($0)")               \
  X(Acos, 1, false, "pf_acos($0)")               \
  X(Atan, 1, false, "pf_atan($0)")               \
  X(Sinh, 1, false, "pf_sinh($0)")               \
  X(Cosh, 1, false, "pf_cosh($0)")               \
  X(Asinh, 1, false, "pf_asinh($0)")             \
  X(Acosh, 1, false, "pf_acosh($0)")             \
  X(Atanh, 1, false, "pf_atanh($0)")             \
  X(Atan2, 2, false, "pf_atan2($0, $1)")         \
  X(Lgamma, 1, false, "pf_lgamma($0)")           \
  X(Digamma, 1, false, "pf_digamma($0)")         \
  X(Trigamma, 1, false, "pf_trigamma($0)")       \
  X(Pow, 2, false, "pf_pow($0, $1)")             \
  X(Abs, 1, false, "pf_abs($0)")                 \
  X(Floor, 1, false, "pf_floor($0)")             \
  X(Ceil, 1, false, "pf_ceil($0)")               \
  X(Round, 1, false, "pf_round($0)")             \
  X(Trunc, 1, false, "pf_trunc($0)")             \
  X(Fmod, 2, false, "pf_fmod($0, $1)")           \
  X(Max, 2, false, "pf_max($0, $1)")             \
  X(Min, 2, false, "pf_min($0, $1)")             \
  X(Sign, 1, false, "pf_sign($0)")               \
  X(CopySign, 2, false, "pf_copysign($0, $1)")   \
  X(BitAnd, 2, false, "($0 & $1)")               \
  X(BitOr, 2, false, "($0 | $1)")                \
  X(BitXor, 2, false, "($0 ^ $1)")               \
  X(BitNot, 1, false, "(~$0)")                   \
  X(Shl, 2, false, "pf_shl($0, $1)")             \
  X(Shr, 2, false, "pf_shr($0, $1)")             \
  X(FloorDiv, 2, false, "pf_floordiv($0, $1)")   \
  X(Remainder, 2, false, "pf_remainder($0, $1)") \
  X(Select, 3, false, "($0 ? $1 : $2)")          \
  X(Lt, 2, true, "($0 < $1)")                    \
  X(Le, 2, true, "($0 <= $1)")                   \
  X(Gt, 2, true, "($0 > $1)")                    \
  X(Ge, 2, true, "($0 >= $1)")                   \
  X(Eq, 2, true, "($0 == $1)")                   \
  X(Ne, 2, true, "($0 != $1)")                   \
  X(And, 2, true, "($0 && $1)")                  \
  X(Or, 2, true, "($0 || $1)")                   \
  X(Xor, 2, true, "($0 != $1)")                  \
  X(Not, 1, true, "(!$0)")                       \
  X(IsNan, 1, true, "pf_isnan($0)")              \
  X(IsInf, 1, true, "pf_isinf($0)")              \
  X(IsFinite, 1, true, "pf_isfinite($0)")

enum class Micro : uint8_t {
#define X(NAME, ...) NAME,
  PF_MICRO_OPS(X)
#undef X
      kCount
};
const char* micro_name(Micro);
int micro_arity(Micro);
bool micro_is_mask(Micro);

struct ExprNode {
  Micro op;
  bool mask = false;             // the value is a mask; true for an Input that arrives as one
  uint8_t index = 0;             // which Input or Attr
  int32_t in[3] = {-1, -1, -1};  // earlier nodes
  double value = 0;              // of a Const
  friend bool operator==(const ExprNode&, const ExprNode&);  // constants by their bits
};

// Nodes in topological order, the root last, numbered depth-first from the root: two equal
// expressions are equal vectors, whatever built them.
struct Expr {
  std::vector<ExprNode> nodes;

  bool uses_input(int i) const;
  bool uses_attr(int i) const;
  int num_inputs() const;  // highest used + 1
  int num_attrs() const;
  const ExprNode& root() const { return nodes.back(); }
  bool is_zero() const {
    return nodes.size() == 1 && root().op == Micro::Const && root().value == 0;
  }
  bool is_input(int i) const {
    return nodes.size() == 1 && root().op == Micro::Input && root().index == i;
  }
  uint64_t hash() const;
  friend bool operator==(const Expr&, const Expr&) = default;
};

// Where expressions are built: equal nodes are one node, constants are folded, identities that
// hold for every value (NaN and inf too) are applied.
class Graph {
 public:
  int input(int i, bool mask = false);
  int attr(int i);
  int constant(double v);
  int make(Micro op, int a = -1, int b = -1, int c = -1);
  const ExprNode& operator[](int i) const { return nodes_[static_cast<size_t>(i)]; }
  bool is_const(int i, double v) const;
  // Copies `e` into this graph with its inputs (and attributes, where given) replaced by nodes.
  int insert(const Expr& e, std::span<const int> inputs, std::span<const int> attrs = {});
  Expr extract(int root) const;

 private:
  int add(const ExprNode& n);
  std::vector<ExprNode> nodes_;
  std::unordered_map<uint64_t, std::vector<int>> index_;
};

// d(root)/d(input i), and the same multiplied by `g`, which is carried into the branches of
// selects: a branch with derivative 0 gives 0 even where g is inf. -1 stands for zero.
int derivative(Graph&, int root, int input);
int scale(Graph&, int g, int d);
// The gradient row of `e` for its input i: operands (g, inputs of e...).
Expr gradient(const Expr& e, int input);

// In double, masks as 0 and 1. For tests and constant folding.
double evaluate(const Expr&, std::span<const double> inputs, std::span<const double> attrs = {});

// One formula, for people: "x * sigmoid(b * x)".
std::string formula(const Expr&, std::span<const std::string> inputs,
                    std::span<const std::string> attrs = {});
// Statements of a C-like language, one per shared value: "const float t0 = ...;", the result in
// `result`. Inputs and attributes are given as text.
std::string c_statements(const Expr&, const std::string& type, const std::string& result,
                         std::span<const std::string> inputs,
                         std::span<const std::string> attrs = {});

}  // namespace pyflame::table
