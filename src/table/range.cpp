#include "table/range.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace pyflame::table {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLargest = 65504;  // of float16

struct Range {
  double lo = -kInf, hi = kInf;
  bool fixed() const { return lo == hi; }
  bool holds(double v) const { return lo <= v && v <= hi; }
};
Range hull(Range a, Range b) {
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
}
Range cut(Range a, Range b) {
  const Range r{std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
  return r.lo <= r.hi ? r : a;
}
// 0 * inf and inf - inf tell nothing.
Range range(double lo, double hi) {
  return {std::isnan(lo) ? -kInf : lo, std::isnan(hi) ? kInf : hi};
}

using Known = std::map<int, Range>;

class Analysis {
 public:
  Analysis(const Expr& e, std::span<const double> attrs) : e_(e), attrs_(attrs) {}
  bool run() {
    Known known;
    of(static_cast<int>(e_.nodes.size()) - 1, known);
    return leaves_;
  }

 private:
  Range of(int at, Known& known) {
    if (auto it = known.find(at); it != known.end()) return it->second;
    const Range r = compute(e_.nodes[static_cast<size_t>(at)], known);
    known.emplace(at, r);
    return r;
  }

  // What `known` becomes where condition `at` is `holds`: only what was limited stays known.
  Known branch(int at, bool holds, const Known& limits, Known& known) {
    Known r = limits;
    const ExprNode& c = e_.nodes[static_cast<size_t>(at)];
    int low = c.in[0], high = c.in[1];  // low <= high
    if (c.op == Micro::Gt || c.op == Micro::Ge)
      std::swap(low, high);
    else if (c.op != Micro::Lt && c.op != Micro::Le)
      return r;
    if (!holds) std::swap(low, high);
    const Range l = of(low, known), h = of(high, known);
    r[low] = cut(l, {-kInf, h.hi});
    r[high] = cut(h, {l.lo, kInf});
    return r;
  }

  Range compute(const ExprNode& n, Known& known) {
    if (n.op == Micro::Select) {
      const Known outer = limits_;
      Known yes = branch(n.in[0], true, outer, known), no = branch(n.in[0], false, outer, known);
      limits_ = yes;
      const Range a = of(n.in[1], yes);
      limits_ = no;
      const Range b = of(n.in[2], no);
      limits_ = outer;
      return hull(a, b);
    }
    Range x, y;
    if (n.in[0] >= 0) x = of(n.in[0], known);
    if (n.in[1] >= 0) y = of(n.in[1], known);
    if (n.in[2] >= 0) of(n.in[2], known);
    switch (n.op) {
      case Micro::Const:
        return {n.value, n.value};
      case Micro::Attr:
        if (n.index < attrs_.size()) return {attrs_[n.index], attrs_[n.index]};
        return {};
      case Micro::Add:
        return range(x.lo + y.lo, x.hi + y.hi);
      case Micro::Sub:
        return range(x.lo - y.hi, x.hi - y.lo);
      case Micro::Neg:
        return {-x.hi, -x.lo};
      case Micro::Mul:
        if (n.in[0] == n.in[1]) return {0, kInf};
        return product(x, y);
      case Micro::Div:
        if (x.fixed() && y.holds(0)) leaves_ = true;
        return y.fixed() && y.lo != 0 ? product(x, {1 / y.lo, 1 / y.lo}) : Range{};
#define PF_MICRO(...)
#define PF_MICRO_STEP(...)
#define PF_MICRO_UNARY(NAME, BY, FN, VALUE, SLOPE, RANGE) \
  case Micro::NAME:                                       \
    return RANGE;
#define PF_MICRO_BINARY(NAME, BY, FN, VALUE, DX, DY, RANGE) \
  case Micro::NAME:                                         \
    return RANGE;
#define PF_MICRO_BINARY_STEP(...)
#include "table/micro.def"
      default:
        return {};
    }
  }

  static Range product(Range x, Range y) {
    const double c[] = {x.lo * y.lo, x.lo * y.hi, x.hi * y.lo, x.hi * y.hi};
    for (double v : c)
      if (std::isnan(v)) return {};
    return {*std::min_element(c, c + 4), *std::max_element(c, c + 4)};
  }
  static Range any() {
    return {};
  }
  static Range of_abs(Range x) {
    return {x.holds(0) ? 0 : std::min(std::fabs(x.lo), std::fabs(x.hi)),
            std::max(std::fabs(x.lo), std::fabs(x.hi))};
  }
  Range of_log1p(Range x) {
    leaves_ |= x.lo <= -1;
    return x.lo > -1 ? Range{std::log1p(x.lo), std::log1p(x.hi)} : Range{};
  }
  Range leaves(bool where) {
    leaves_ |= where;
    return {};
  }
  Range grows(double lo, double hi) {
    leaves_ |= lo < -kLargest || hi > kLargest;
    return {lo, hi};
  }

  const Expr& e_;
  std::span<const double> attrs_;
  Known limits_;  // of the branches around
  bool leaves_ = false;
};

}  // namespace

bool leaves_range(const Expr& e, std::span<const double> attrs) {
  return Analysis(e, attrs).run();
}

}  // namespace pyflame::table
