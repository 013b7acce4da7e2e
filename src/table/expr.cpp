#include "table/expr.h"

#include <bit>
#include <cmath>
#include <limits>

namespace pyflame::table {
namespace {

struct MicroInfo {
  const char* name;
  int arity;
  bool mask;
};
constexpr MicroInfo kMicro[] = {
#define PF_MICRO(NAME, ARITY, MASK, ...) {#NAME, ARITY, MASK},
#include "table/micro.def"
};

uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
  h *= 0xbf58476d1ce4e5b9ULL;
  return h ^ (h >> 29);
}

uint64_t hash_node(const ExprNode& n) {
  uint64_t h = mix(static_cast<uint64_t>(n.op) * 512 + n.mask * 256u + n.index,
                   std::bit_cast<uint64_t>(n.value));
  for (int i : n.in) h = mix(h, static_cast<uint64_t>(static_cast<int64_t>(i)));
  return h;
}

double sigmoid(double x) {
  if (x < 0) {
    const double e = std::exp(x);
    return e / (1 + e);
  }
  return 1 / (1 + std::exp(-x));
}

// psi and its derivative, by their recurrences and series.
double digamma(double x) {
  if (x < 0.5) {
    if (x == 0) return std::copysign(HUGE_VAL, -x);
    const double angle = M_PI * (x - std::nearbyint(x));
    return angle == 0 ? NAN : digamma(1 - x) - M_PI / std::tan(angle);
  }
  double y = 0;
  for (; x < 20; ++x) y -= 1 / x;
  const double t = 1 / (x * x);
  return y + std::log(x) - 0.5 / x - t * (1.0 / 12 - t * (1.0 / 120 - t * (1.0 / 252 - t / 240)));
}
double trigamma(double x) {
  if (x < 0.5) {
    const double turn = M_PI / std::sin(M_PI * (x - std::nearbyint(x)));
    return turn * turn - trigamma(1 - x);
  }
  double y = 0;
  for (; x < 20; ++x) y += 1 / (x * x);
  const double r = 1 / x, t = r * r;
  return y + r * (1 + 0.5 * r + t * (1.0 / 6 - t * (1.0 / 30 - t * (1.0 / 42 - t / 30))));
}

int64_t as_int(double x) {
  return static_cast<int64_t>(x);
}

double gelu(double x) {
  const double a = std::fmin(40, std::fabs(x));
  return std::isnan(x) ? x : std::fmax(x, 0) - a * (0.5 * std::erfc(a * M_SQRT1_2));
}
double gelu_slope(double x) {
  return 0.5 * std::erfc(-x * M_SQRT1_2) + x * (0.39894228040143267794 * std::exp(-0.5 * x * x));
}
double log_gamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}
double remainder_down(double x, double y) {
  const double m = std::fmod(x, y);
  return m != 0 && (m < 0) != (y < 0) ? m + y : m;
}

double apply(Micro op, double x, double y, double z) {
  switch (op) {
#define PF_MICRO(NAME, ARITY, MASK, TEXT, VALUE) \
  case Micro::NAME:                              \
    return VALUE;
#include "table/micro.def"
    case Micro::kCount:
      break;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

const char* micro_name(Micro m) {
  return kMicro[static_cast<int>(m)].name;
}
int micro_arity(Micro m) {
  return kMicro[static_cast<int>(m)].arity;
}
bool micro_is_mask(Micro m) {
  return kMicro[static_cast<int>(m)].mask;
}

bool operator==(const ExprNode& a, const ExprNode& b) {
  return a.op == b.op && a.mask == b.mask && a.index == b.index && a.in[0] == b.in[0] &&
         a.in[1] == b.in[1] && a.in[2] == b.in[2] &&
         std::bit_cast<uint64_t>(a.value) == std::bit_cast<uint64_t>(b.value);
}

// ---- Expr ---------------------------------------------------------------------------------------

bool Expr::uses_input(int i) const {
  for (const auto& n : nodes)
    if (n.op == Micro::Input && n.index == i) return true;
  return false;
}

bool Expr::uses_attr(int i) const {
  for (const auto& n : nodes)
    if (n.op == Micro::Attr && n.index == i) return true;
  return false;
}

int Expr::num_inputs() const {
  int n = 0;
  for (const auto& e : nodes)
    if (e.op == Micro::Input && e.index >= n) n = e.index + 1;
  return n;
}

int Expr::num_attrs() const {
  int n = 0;
  for (const auto& e : nodes)
    if (e.op == Micro::Attr && e.index >= n) n = e.index + 1;
  return n;
}

uint64_t Expr::hash() const {
  uint64_t h = nodes.size();
  for (const auto& n : nodes) h = mix(h, hash_node(n));
  return h;
}

// ---- Graph --------------------------------------------------------------------------------------

int Graph::add(const ExprNode& n) {
  auto& bucket = index_[hash_node(n)];
  for (int i : bucket)
    if (nodes_[static_cast<size_t>(i)] == n) return i;
  bucket.push_back(static_cast<int>(nodes_.size()));
  nodes_.push_back(n);
  return bucket.back();
}

int Graph::input(int i, bool mask) {
  ExprNode n{Micro::Input};
  n.mask = mask;
  n.index = static_cast<uint8_t>(i);
  return add(n);
}

int Graph::attr(int i) {
  ExprNode n{Micro::Attr};
  n.index = static_cast<uint8_t>(i);
  return add(n);
}

int Graph::constant(double v) {
  ExprNode n{Micro::Const};
  n.value = v;
  return add(n);
}

bool Graph::is_const(int i, double v) const {
  return i >= 0 && (*this)[i].op == Micro::Const && (*this)[i].value == v;
}

int Graph::make(Micro op, int a, int b, int c) {
  const int in[3] = {a, b, c};
  const int arity = micro_arity(op);
  bool all_const = arity > 0;
  for (int i = 0; i < arity; ++i) all_const &= (*this)[in[i]].op == Micro::Const;
  auto value = [&](int i) { return i >= 0 ? (*this)[i].value : 0.0; };
  if (all_const) {
    ExprNode n{Micro::Const};
    n.mask = micro_is_mask(op);
    n.value = apply(op, value(a), value(b), value(c));
    return add(n);
  }
  // Identities that keep NaN, inf and the sign of zero.
  switch (op) {
    case Micro::Mul:
      if (is_const(b, 1)) return a;
      if (is_const(a, 1)) return b;
      if (is_const(b, -1)) return make(Micro::Neg, a);
      if (is_const(a, -1)) return make(Micro::Neg, b);
      break;
    case Micro::Div:
      if (is_const(b, 1)) return a;
      break;
    case Micro::Sub:
      if (is_const(b, 0) && !std::signbit(value(b))) return a;
      break;
    case Micro::Neg:
      if ((*this)[a].op == Micro::Neg) return (*this)[a].in[0];
      break;
    case Micro::Not:
      if ((*this)[a].op == Micro::Not) return (*this)[a].in[0];
      break;
    case Micro::Select:
      if (b == c) return b;
      if ((*this)[a].op == Micro::Const) return value(a) != 0 ? b : c;
      break;
    case Micro::And:
      if (a == b) return a;
      if ((*this)[a].op == Micro::Const) return value(a) != 0 ? b : a;
      if ((*this)[b].op == Micro::Const) return value(b) != 0 ? a : b;
      break;
    case Micro::Or:
      if (a == b) return a;
      if ((*this)[a].op == Micro::Const) return value(a) != 0 ? a : b;
      if ((*this)[b].op == Micro::Const) return value(b) != 0 ? b : a;
      break;
    default:
      break;
  }
  ExprNode n{op};
  n.mask = micro_is_mask(op);
  for (int i = 0; i < arity; ++i) n.in[i] = in[i];
  return add(n);
}

int Graph::insert(const Expr& e, std::span<const int> inputs, std::span<const int> attrs) {
  std::vector<int> at(e.nodes.size());
  for (size_t i = 0; i < e.nodes.size(); ++i) {
    const ExprNode& n = e.nodes[i];
    auto in = [&](int k) { return n.in[k] < 0 ? -1 : at[static_cast<size_t>(n.in[k])]; };
    if (n.op == Micro::Input)
      at[i] = inputs[n.index];
    else if (n.op == Micro::Attr && !attrs.empty())
      at[i] = attrs[n.index];
    else if (micro_arity(n.op) == 0)
      at[i] = add(n);
    else
      at[i] = make(n.op, in(0), in(1), in(2));
  }
  return at.back();
}

Expr Graph::extract(int root) const {
  Expr e;
  std::vector<int> number(nodes_.size(), -1);
  std::vector<int> stack{root};
  while (!stack.empty()) {
    const int i = stack.back();
    if (number[static_cast<size_t>(i)] >= 0) {
      stack.pop_back();
      continue;
    }
    const ExprNode& n = (*this)[i];
    bool ready = true;
    for (int k = 2; k >= 0; --k)  // the first operand ends on top
      if (n.in[k] >= 0 && number[static_cast<size_t>(n.in[k])] < 0) {
        stack.push_back(n.in[k]);
        ready = false;
      }
    if (!ready) continue;
    stack.pop_back();
    ExprNode copy = n;
    for (int& k : copy.in)
      if (k >= 0) k = number[static_cast<size_t>(k)];
    number[static_cast<size_t>(i)] = static_cast<int>(e.nodes.size());
    e.nodes.push_back(copy);
  }
  return e;
}

double evaluate(const Expr& e, std::span<const double> inputs, std::span<const double> attrs) {
  std::vector<double> v(e.nodes.size());
  for (size_t i = 0; i < e.nodes.size(); ++i) {
    const ExprNode& n = e.nodes[i];
    auto in = [&](int k) { return n.in[k] < 0 ? 0.0 : v[static_cast<size_t>(n.in[k])]; };
    switch (n.op) {
      case Micro::Input:
        v[i] = inputs[n.index];
        break;
      case Micro::Attr:
        v[i] = attrs[n.index];
        break;
      case Micro::Const:
        v[i] = n.value;
        break;
      default:
        v[i] = apply(n.op, in(0), in(1), in(2));
    }
  }
  return v.back();
}

}  // namespace pyflame::table
