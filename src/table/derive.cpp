// Symbolic derivatives. -1 stands for a derivative of zero, so that nothing is multiplied by 0.
#include <unordered_map>

#include "table/expr.h"
#include "table/sym.h"

namespace pyflame::table {
namespace {

using T = Sym;

class Scaler {
 public:
  Scaler(Graph& g, int factor) : g_(g), factor_(factor) {}

  int operator()(int d) {
    if (d < 0 || g_.is_const(d, 0)) return -1;
    if (auto it = done_.find(d); it != done_.end()) return it->second;
    return done_[d] = scaled(d);
  }

 private:
  int scaled(int d) {
    if (g_.is_const(d, 1)) return factor_;
    const ExprNode n = g_[d];
    if (n.op == Micro::Neg) return g_.make(Micro::Neg, (*this)(n.in[0]));
    if (n.op == Micro::Div && g_.is_const(n.in[0], 1)) return g_.make(Micro::Div, factor_, n.in[1]);
    if (n.op == Micro::Select) {
      const int a = (*this)(n.in[1]), b = (*this)(n.in[2]);
      if (a < 0 && b < 0) return -1;
      const int zero = g_.constant(0);
      return g_.make(Micro::Select, n.in[0], a < 0 ? zero : a, b < 0 ? zero : b);
    }
    return g_.make(Micro::Mul, factor_, d);
  }
  Graph& g_;
  int factor_;
  std::unordered_map<int, int> done_;
};

int sum(Graph& g, int a, int b) {
  if (a < 0) return b;
  if (b < 0) return a;
  return g.make(Micro::Add, a, b);
}

int negated(Graph& g, int a) {
  return a < 0 ? -1 : g.make(Micro::Neg, a);
}

// The derivative of Trigamma, by the same shift, series and reflection.
Sym tetragamma(Sym x) {
  const SymMask below = Lt(x, T(0.5));
  const Sym z = Select(below, T(1) - x, x);
  const SymMask small = Lt(z, T(8));
  const Sym r = T(1) / Select(small, z + T(8), z), t = r * r;
  Sym series = T(17.5);  // B_2k (2k + 1)
  for (double c : {-691.0 / 210, 5.0 / 6, -0.3, 1.0 / 6, -1.0 / 6, 0.5, 1.0})
    series = series * t + T(c);
  Sym y = -(t * (series + r));
  for (int k = 0; k < 8; ++k) {
    const Sym q = Select(small, z + T(k), T(1));
    y = y - Select(small, T(2) / (q * q * q), T(0));
  }
  const Sym angle = (x - Round(x)) * T(3.14159265358979323846), s = Sin(angle);
  return Select(below, y - T(62.0125533605996) * Cos(angle) / (s * s * s), y);
}

// The factor of a unary operation's operand: x the operand, r the result.
int unary_slope(Micro op, Sym x, Sym r) {
  switch (op) {
    case Micro::Neg:
      return T(-1).id;
#define PF_MICRO(...)
#define PF_MICRO_UNARY(NAME, BY, FN, VALUE, SLOPE, RANGE) \
  case Micro::NAME:                                       \
    return (SLOPE).id;
#define PF_MICRO_STEP(...)
#define PF_MICRO_BINARY(...)
#define PF_MICRO_BINARY_STEP(...)
#include "table/micro.def"
    default:
      return -1;  // steps, masks, bits
  }
}

// Factors of the two operands of a binary operation.
void binary_slopes(Graph& g, Micro op, Sym x, Sym y, Sym r, int* sx, int* sy) {
  const Sym d(1);
  switch (op) {
    case Micro::Div:
      *sx = (T(1) / y).id;
      *sy = (-(r / y)).id;
      break;
#define PF_MICRO(...)
#define PF_MICRO_STEP(...)
#define PF_MICRO_UNARY(...)
#define PF_MICRO_BINARY(NAME, BY, FN, VALUE, DX, DY, RANGE) \
  case Micro::NAME:                                         \
    *sx = (DX).id;                                          \
    *sy = (DY).id;                                          \
    break;
#define PF_MICRO_BINARY_STEP(...)
#include "table/micro.def"
    default:
      *sx = *sy = -1;
  }
  if (g.is_const(*sx, 0)) *sx = -1;
  if (g.is_const(*sy, 0)) *sy = -1;
}

}  // namespace

int scale(Graph& g, int factor, int d) {
  return Scaler(g, factor)(d);
}

int derivative(Graph& g, int root, int input) {
  GraphScope scope(g);
  std::vector<char> wanted(static_cast<size_t>(root) + 1, 0);
  wanted[static_cast<size_t>(root)] = 1;
  for (int i = root; i >= 0; --i)
    if (wanted[static_cast<size_t>(i)])
      for (int k : g[i].in)
        if (k >= 0) wanted[static_cast<size_t>(k)] = 1;

  std::vector<int> d(static_cast<size_t>(root) + 1, -1);
  auto of = [&](int i) { return i < 0 ? -1 : d[static_cast<size_t>(i)]; };
  for (int i = 0; i <= root; ++i) {
    if (!wanted[static_cast<size_t>(i)]) continue;
    const ExprNode n = g[i];
    const int a = n.in[0], b = n.in[1], c = n.in[2];
    int& out = d[static_cast<size_t>(i)];
    if (n.op == Micro::Input) {
      if (n.index == input && !n.mask) out = g.constant(1);
      continue;
    }
    if (n.mask || (of(a) < 0 && of(b) < 0 && of(c) < 0)) continue;
    int sx = -1, sy = -1;
    switch (n.op) {
      case Micro::Add:
        out = sum(g, of(a), of(b));
        break;
      case Micro::Sub:
        out = sum(g, of(a), negated(g, of(b)));
        break;
      case Micro::Mul:
        out = sum(g, scale(g, b, of(a)), scale(g, a, of(b)));
        break;
      case Micro::Fma:
        out = sum(g, sum(g, scale(g, b, of(a)), scale(g, a, of(b))), of(c));
        break;
      case Micro::Select: {
        if (of(b) < 0 && of(c) < 0) break;
        const int zero = g.constant(0);
        out = g.make(Micro::Select, a, of(b) < 0 ? zero : of(b), of(c) < 0 ? zero : of(c));
        break;
      }
      default:
        if (micro_arity(n.op) == 1) {
          if (sx = unary_slope(n.op, Sym::at(a), Sym::at(i)); sx >= 0) out = scale(g, sx, of(a));
        } else {
          binary_slopes(g, n.op, Sym::at(a), Sym::at(b), Sym::at(i), &sx, &sy);
          const int dx = sx < 0 || of(a) < 0 ? -1 : scale(g, sx, of(a));
          const int dy = sy < 0 || of(b) < 0 ? -1 : scale(g, sy, of(b));
          out = sum(g, dx, dy);
        }
    }
  }
  return d[static_cast<size_t>(root)];
}

Expr gradient(const Expr& e, int input) {
  Graph g;
  std::vector<int> inputs(static_cast<size_t>(e.num_inputs()));
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = -1;
  for (const auto& n : e.nodes)
    if (n.op == Micro::Input) inputs[n.index] = g.input(n.index + 1, n.mask);
  const int root = g.insert(e, inputs);
  const int d = scale(g, g.input(0), derivative(g, root, input + 1));
  return g.extract(d < 0 ? g.constant(0) : d);
}

}  // namespace pyflame::table
