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
PF_SYM1(BitNot, BitNot)
PF_SYM2(BitAnd, BitAnd)
PF_SYM2(BitOr, BitOr)
PF_SYM2(BitXor, BitXor)
PF_SYM2(Shl, Shl)
PF_SYM2(Shr, Shr)
#define PF_MICRO(...)
#define PF_MICRO_STEP(NAME, ...) PF_SYM1(NAME, NAME)
#define PF_MICRO_UNARY(NAME, ...) PF_SYM1(NAME, NAME)
#define PF_MICRO_BINARY(NAME, ...) PF_SYM2(NAME, NAME)
#define PF_MICRO_BINARY_STEP(NAME, ...) PF_SYM2(NAME, NAME)
#include "table/micro.def"
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
