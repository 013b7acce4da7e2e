// A value type that records what is done to it: bodies of the table over Sym give expressions.
//
//   GraphScope scope(graph);
//   Sym x = Sym::at(graph.input(0));
//   Expr e = graph.extract((x * Sigmoid(x)).id);
#pragma once

#include "table/expr.h"

namespace pyflame::table {

namespace detail {
inline thread_local Graph* current_graph = nullptr;
}

class GraphScope {
 public:
  explicit GraphScope(Graph& g) : before_(detail::current_graph) { detail::current_graph = &g; }
  ~GraphScope() { detail::current_graph = before_; }
  GraphScope(const GraphScope&) = delete;
  GraphScope& operator=(const GraphScope&) = delete;

 private:
  Graph* before_;
};

struct Sym {
  int id;
  explicit Sym(double v) : id(detail::current_graph->constant(v)) {}
  static Sym at(int id) { return Sym(id, Tag{}); }

 private:
  struct Tag {};
  Sym(int i, Tag) : id(i) {}
};

struct SymMask {
  int id;
};

#define PF_SYM1(NAME, OP)                                         \
  inline Sym NAME(Sym a) {                                        \
    return Sym::at(detail::current_graph->make(Micro::OP, a.id)); \
  }
#define PF_SYM2(NAME, OP)                                               \
  inline Sym NAME(Sym a, Sym b) {                                       \
    return Sym::at(detail::current_graph->make(Micro::OP, a.id, b.id)); \
  }
#define PF_SYM_COMPARE(NAME)                                       \
  inline SymMask NAME(Sym a, Sym b) {                              \
    return {detail::current_graph->make(Micro::NAME, a.id, b.id)}; \
  }
#define PF_SYM_LOGIC(NAME)                                         \
  inline SymMask NAME(SymMask a, SymMask b) {                      \
    return {detail::current_graph->make(Micro::NAME, a.id, b.id)}; \
  }
#define PF_SYM_TEST(NAME)                                    \
  inline SymMask NAME(Sym a) {                               \
    return {detail::current_graph->make(Micro::NAME, a.id)}; \
  }

PF_SYM1(operator-, Neg)
PF_SYM2(operator+, Add)
PF_SYM2(operator-, Sub)
PF_SYM2(operator*, Mul)
PF_SYM2(operator/, Div)
PF_SYM1(Sqrt, Sqrt)
PF_SYM1(Exp, Exp)
PF_SYM1(Expm1, Expm1)
PF_SYM1(Exp2, Exp2)
PF_SYM1(Log, Log)
PF_SYM1(Log1p, Log1p)
PF_SYM1(Log2, Log2)
PF_SYM1(Log10, Log10)
PF_SYM1(Tanh, Tanh)
PF_SYM1(Sigmoid, Sigmoid)
PF_SYM1(Erf, Erf)
PF_SYM1(Erfc, Erfc)
PF_SYM1(Gelu, Gelu)
PF_SYM1(Sin, Sin)
PF_SYM1(Cos, Cos)
PF_SYM1(Tan, Tan)
PF_SYM1(Asin, Asin)
PF_SYM1(Acos, Acos)
PF_SYM1(Atan, Atan)
PF_SYM1(Sinh, Sinh)
PF_SYM1(Cosh, Cosh)
PF_SYM1(Asinh, Asinh)
PF_SYM1(Acosh, Acosh)
PF_SYM1(Atanh, Atanh)
PF_SYM1(Lgamma, Lgamma)
PF_SYM1(Digamma, Digamma)
PF_SYM1(Trigamma, Trigamma)
PF_SYM1(Abs, Abs)
PF_SYM1(Floor, Floor)
PF_SYM1(Ceil, Ceil)
PF_SYM1(Round, Round)
PF_SYM1(Trunc, Trunc)
PF_SYM1(Sign, Sign)
PF_SYM1(BitNot, BitNot)
PF_SYM2(Pow, Pow)
PF_SYM2(Atan2, Atan2)
PF_SYM2(Fmod, Fmod)
PF_SYM2(Remainder, Remainder)
PF_SYM2(FloorDiv, FloorDiv)
PF_SYM2(Max, Max)
PF_SYM2(Min, Min)
PF_SYM2(CopySign, CopySign)
PF_SYM2(BitAnd, BitAnd)
PF_SYM2(BitOr, BitOr)
PF_SYM2(BitXor, BitXor)
PF_SYM2(Shl, Shl)
PF_SYM2(Shr, Shr)
PF_SYM_COMPARE(Lt)
PF_SYM_COMPARE(Le)
PF_SYM_COMPARE(Gt)
PF_SYM_COMPARE(Ge)
PF_SYM_COMPARE(Eq)
PF_SYM_COMPARE(Ne)
PF_SYM_LOGIC(And)
PF_SYM_LOGIC(Or)
PF_SYM_LOGIC(Xor)
PF_SYM_TEST(IsNan)
PF_SYM_TEST(IsInf)
PF_SYM_TEST(IsFinite)
inline SymMask Not(SymMask a) {
  return {detail::current_graph->make(Micro::Not, a.id)};
}
inline Sym Select(SymMask m, Sym a, Sym b) {
  return Sym::at(detail::current_graph->make(Micro::Select, m.id, a.id, b.id));
}
inline Sym SelectInDouble(SymMask m, Sym a, Sym b) {
  return Select(m, a, b);
}
inline Sym Fma(Sym a, Sym b, Sym c) {
  return Sym::at(detail::current_graph->make(Micro::Fma, a.id, b.id, c.id));
}

#undef PF_SYM1
#undef PF_SYM2
#undef PF_SYM_COMPARE
#undef PF_SYM_LOGIC
#undef PF_SYM_TEST

}  // namespace pyflame::table
