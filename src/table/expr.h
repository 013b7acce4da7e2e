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

enum class Micro : uint8_t {
#define PF_MICRO(NAME, ...) NAME,
#include "table/micro.def"
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
