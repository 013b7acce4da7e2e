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
    case Micro::Sqrt:
      return (T(0.5) / r).id;
    case Micro::Exp:
      return r.id;
    case Micro::Expm1:
      return (r + T(1)).id;
    case Micro::Exp2:
      return (r * T(0.693147180559945309417)).id;
    case Micro::Log:
      return (T(1) / x).id;
    case Micro::Log1p:
      return (T(1) / (x + T(1))).id;
    case Micro::Log2:
      return (T(1.44269504088896340736) / x).id;
    case Micro::Log10:
      return (T(0.43429448190325182765) / x).id;
    case Micro::Tanh:
      return (T(1) - r * r).id;
    case Micro::Sigmoid:
      return ((T(1) - r) * r).id;
    case Micro::Erf:
      return (T(1.12837916709551257390) * Exp(-(x * x))).id;
    case Micro::Erfc:
      return (T(-1.12837916709551257390) * Exp(-(x * x))).id;
    case Micro::Gelu:
      return (T(0.5) * (T(1) + Erf(x * T(0.70710678118654752440))) +
              x * (T(0.39894228040143267794) * Exp(T(-0.5) * (x * x))))
          .id;
    case Micro::Sin:
      return Cos(x).id;
    case Micro::Cos:
      return (-Sin(x)).id;
    case Micro::Tan:
      return (T(1) + r * r).id;
    case Micro::Asin:
      return (T(1) / Sqrt(T(1) - x * x)).id;
    case Micro::Acos:
      return (T(-1) / Sqrt(T(1) - x * x)).id;
    case Micro::Atan:
      return (T(1) / (x * x + T(1))).id;
    case Micro::Sinh:
      return Cosh(x).id;
    case Micro::Cosh:
      return Sinh(x).id;
    case Micro::Asinh:
      return (T(1) / Sqrt(x * x + T(1))).id;
    case Micro::Acosh:
      return (T(1) / Sqrt(x * x - T(1))).id;
    case Micro::Atanh:
      return (T(1) / (T(1) - x * x)).id;
    case Micro::Lgamma:
      return Digamma(x).id;
    case Micro::Digamma:
      return Trigamma(x).id;
    case Micro::Trigamma:
      return tetragamma(x).id;
    case Micro::Abs:
      return Sign(x).id;
    default:
      return -1;  // steps, masks, bits
  }
}

Sym half_at_ties(Sym x, Sym y, SymMask other) {
  return Select(Eq(x, y), T(0.5), Select(other, T(0), T(1)));
}

// Factors of the two operands of a binary operation.
void binary_slopes(Micro op, Sym x, Sym y, Sym r, int* sx, int* sy) {
  switch (op) {
    case Micro::Div:
      *sx = (T(1) / y).id;
      *sy = (-(r / y)).id;
      break;
    case Micro::Pow:
      *sx = Select(Eq(y, T(0)), T(0), y * Pow(x, y - T(1))).id;
      *sy = Select(And(Eq(x, T(0)), Ge(y, T(0))), T(0), r * Log(x)).id;
      break;
    case Micro::Atan2:
      *sx = (y / (x * x + y * y)).id;
      *sy = (-x / (x * x + y * y)).id;
      break;
    case Micro::Fmod:
      *sx = T(1).id;
      *sy = (-Trunc(x / y)).id;
      break;
    case Micro::Remainder:
      *sx = T(1).id;
      *sy = (-FloorDiv(x, y)).id;
      break;
    case Micro::Max:
      *sx = half_at_ties(x, y, Lt(x, y)).id;
      *sy = half_at_ties(x, y, Gt(x, y)).id;
      break;
    case Micro::Min:
      *sx = half_at_ties(x, y, Gt(x, y)).id;
      *sy = half_at_ties(x, y, Lt(x, y)).id;
      break;
    case Micro::CopySign:
      *sx = Select(Eq(x, T(0)), T(0), CopySign(T(1), x) * CopySign(T(1), y)).id;
      *sy = -1;
      break;
    default:
      *sx = *sy = -1;
  }
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
          binary_slopes(n.op, Sym::at(a), Sym::at(b), Sym::at(i), &sx, &sy);
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
