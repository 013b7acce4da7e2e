// The gamma function's logarithm and its derivatives.
#include "ops/functions.h"

#include <cmath>
#include <limits>

#include "ops/record.h"
#include "ops/registry.h"
#include "ops/replaced.h"
#include "ops/rows.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

constexpr double kInf = std::numeric_limits<double>::infinity();

// `value` without history, with the gradient g * slope(x).
template <class Value, class Slope>
Tensor special(const Tensor& given, const char* op, Value value, Slope slope) {
  const Tensor x = ops::as_floating(given, op);
  Tensor y;
  {
    NoGrad off;
    y = value(x);
  }
  if (autograd::wanted({x}))
    autograd::attach(op, {y}, {x}, {Saved(x)}, [slope](const Context& c) -> Grads {
      return {mul(c.grad(), slope(c.saved(0)))};
    });
  return y;
}

}  // namespace

Tensor lgamma(const Tensor& x) {
  return special(
      x, "lgamma", [](const Tensor& t) { return ops::call_row(ops::op::lgamma_value, {t}); },
      [](const Tensor& t) { return digamma(t); });
}
Tensor digamma(const Tensor& x) {
  return special(
      x, "digamma", [](const Tensor& t) { return ops::call_row(ops::op::digamma_value, {t}); },
      [](const Tensor& t) { return polygamma(1, t); });
}

namespace {

Tensor whole_power(const Tensor& x, int64_t n) {
  if (n == 1) return x;
  const Tensor half = whole_power(x, n / 2);
  return n % 2 ? mul(mul(half, half), x) : mul(half, half);
}
// factor * r^power in two steps, for neither may overflow or vanish alone.
Tensor scaled_power(const Tensor& r, int64_t power, double factor) {
  const Tensor half = whole_power(r, power / 2);
  return mul(mul(half, Scalar(factor)), power % 2 ? mul(half, r) : half);
}

// factor (z^-(n+1) + (z+1)^-(n+1) + ...), for z of at least 0: some terms, and the rest by Euler
// and Maclaurin.
Tensor power_sum(const Tensor& z, int64_t n, double factor) {
  const int64_t terms = 8 + n;
  Tensor sum = scaled_power(reciprocal(z), n + 1, factor);
  for (int64_t k = 1; k < terms; ++k)
    sum = add(sum, scaled_power(reciprocal(add(z, Scalar(double(k)))), n + 1, factor));
  const Tensor r = reciprocal(add(z, Scalar(double(terms))));
  Tensor rest = add(scaled_power(r, n, factor / double(n)), scaled_power(r, n + 1, factor / 2));
  // B_2j / (2j)!
  static constexpr double kBernoulli[] = {1.0 / 12,
                                          -1.0 / 720,
                                          1.0 / 30240,
                                          -1.0 / 1209600,
                                          1.0 / 47900160,
                                          -691.0 / 1307674368000.0,
                                          1.0 / 74724249600.0,
                                          -3617.0 / 10670622842880000.0};
  auto rising = static_cast<double>(n + 1);  // (n+1) (n+2) ... (n+2j-1)
  for (int j = 1; j <= 8; ++j) {
    rest = add(rest, mul(scaled_power(r, n + 2 * j, factor), Scalar(rising * kBernoulli[j - 1])));
    rising *= static_cast<double>((n + 2 * j) * (n + 2 * j + 1));
  }
  return add(sum, rest);
}

// Below 0 the terms on either side of 0 are sums of their own.
Tensor polygamma_of(const Tensor& x, int64_t n) {
  const double sign = n % 2 ? 1 : -1, factorial = std::tgamma(static_cast<double>(n) + 1);
  const Tensor below = lt(x, Scalar(0.0)), up = sub(x, floor(x));
  const Tensor pole = logical_and(below, eq(up, Scalar(0.0)));
  const auto there = [&](const Tensor& z) {
    return power_sum(where(logical_and(below, logical_not(pole)), z, Scalar(1.0)), n, 1);
  };
  const Tensor near = add(there(up), mul(there(sub(ceil(x), x)), Scalar(sign)));
  const Tensor whole = sub(near, mul(there(rsub(x, Scalar(1.0))), Scalar(sign)));
  Tensor y = where(below, mul(whole, Scalar(factorial)),
                   power_sum(where(below, Scalar(1.0), x), n, factorial));
  return mul(where(pole, Scalar(kInf), y), Scalar(sign));
}

}  // namespace

Tensor polygamma(int64_t n, const Tensor& x) {
  constexpr int64_t kMost = 170;  // the factorial of more is no double
  PF_CHECK(n >= 0 && n <= kMost, ValueError, "polygamma", "got n ", n, "; expected 0 to ", kMost,
           "; choose a lower derivative");
  if (n == 0) return digamma(x);
  const auto slope = [n](const Tensor& t) {
    return n < kMost ? polygamma(n + 1, t) : full_like(t, Scalar(std::nan("")));
  };
  if (n == 1)
    return special(
        x, "polygamma", [](const Tensor& t) { return ops::call_row(ops::op::trigamma_value, {t}); },
        slope);
  // In float64, rounded once: the terms of narrower types would run out of exponents.
  return special(
      x, "polygamma",
      [n](const Tensor& t) { return to(polygamma_of(to(t, DType::Float64), n), t->dtype); }, slope);
}

namespace {

Tensor lgamma_(Tensor x) {
  return ops::replaced(x, "lgamma_", [](const Tensor& t) { return lgamma(t); });
}
Tensor digamma_(Tensor x) {
  return ops::replaced(x, "digamma_", [](const Tensor& t) { return digamma(t); });
}
Tensor polygamma_(Tensor x, int64_t n) {
  return ops::replaced(x, "polygamma_", [n](const Tensor& t) { return polygamma(n, t); });
}

const ops::Family kSpecialFunctions("special functions", [](ops::Family& f) {
  using namespace ops;
  f.op(&lgamma, {"lgamma(Tensor input) -> Tensor",
                 "log |gamma(x)|; inf at 0, -1, -2, ... Integers become floats."});
  f.op(&digamma, {"digamma(Tensor input) -> Tensor",
                  "Derivative of lgamma; an infinity at 0, NaN at -1, -2, ..."});
  f.op(&polygamma,
       {"polygamma(int n, Tensor input) -> Tensor",
        "The n-th derivative of digamma, n of 0 to 170; the last has no gradient (NaN).",
        kFunction});
  f.op(+[](const Tensor& x, int64_t n) { return polygamma(n, x); },
       {"polygamma(Tensor input, int n) -> Tensor", "The n-th derivative of digamma.", kMethod});
  f.op(&polygamma_, {"polygamma_(Tensor input, int n) -> Tensor", "In-place polygamma.", kMethod});
  f.op(&lgamma_, {"lgamma_(Tensor input) -> Tensor", "In-place lgamma.", kMethod});
  f.op(&digamma_, {"digamma_(Tensor input) -> Tensor", "In-place digamma.", kMethod});
});

}  // namespace
}  // namespace pyflame
