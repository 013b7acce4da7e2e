// Special functions made of operations. They are calculated in float64 and rounded once, so that
// the cancellation in recurrences does not show in narrower types.
#include "pyflame/special.h"

#include <cmath>
#include <limits>

#include "ops/autocast.h"
#include "ops/general.h"
#include "ops/registry.h"
#include "ops/replaced.h"
#include "ops/rows.h"
#include "pyflame/ops.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int kShift = 8;  // recurrences bring arguments to at least this

// c[0] + c[1] t + c[2] t^2 + ...
Tensor polynomial(const Tensor& t, std::initializer_list<double> c) {
  const double* last = c.end() - 1;
  Tensor r = mul(t, Scalar(*last));
  for (const double* p = last - 1; p != c.begin(); --p) r = mul(add(r, Scalar(*p)), t);
  return add(r, Scalar(*c.begin()));
}

// x below 1/2 is reflected to 1 - x; what is small is shifted up.
struct Argument {
  Tensor below, z, small, shifted;
  explicit Argument(const Tensor& x)
      : below(lt(x, Scalar(0.5))),
        z(where(below, rsub(x, Scalar(1.0)), x)),
        small(lt(z, Scalar(double{kShift}))),
        shifted(where(small, add(z, Scalar(double{kShift})), z)) {}
};
// pi times the distance to the nearest integer: its sine is exactly 0 at the poles.
Tensor angle(const Tensor& x) {
  return mul(sub(x, round(x)), Scalar(M_PI));
}

// `value` in float64 without history, rounded to the dtype of x, with the gradient g * slope(x).
template <class Value, class Slope>
Tensor special(const Tensor& given, const char* op, Value value, Slope slope) {
  const Tensor x = ops::as_floating(given, op);
  Tensor y;
  {
    NoGrad off;
    y = to(value(to(x, DType::Float64)), x->dtype);
    if (y.impl() == x.impl()) y = clone(y);
  }
  if (autograd::wanted({x}))
    autograd::attach(op, {y}, {x}, {Saved(x)}, [slope](const Context& c) -> Grads {
      if (!c.grad().defined()) return Grads(1);
      return {mul(c.grad(), slope(c.saved(0)))};
    });
  return y;
}

Tensor trigamma_of(const Tensor& x) {
  const Argument a(x);
  const Tensor r = reciprocal(a.shifted), t = square(r);
  Tensor y =
      mul(r, add(mul(r, Scalar(0.5)), polynomial(t, {1, 1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30,
                                                     5.0 / 66, -691.0 / 2730, 7.0 / 6})));
  const Tensor base = where(a.small, a.z, Scalar(1.0));
  Tensor steps = square(reciprocal(base));
  for (int k = 1; k < kShift; ++k)
    steps = add(steps, square(reciprocal(add(base, Scalar(double(k))))));
  y = add(y, where(a.small, steps, Scalar(0.0)));
  // Not at integers that need no reflection: an infinity there would make the gradient NaN.
  const Tensor s = square(div(Scalar(M_PI), sin(angle(where(a.below, x, Scalar(0.25))))));
  return where(a.below, sub(s, y), y);
}
// Differentiable like any composition.
Tensor trigamma(const Tensor& given) {
  const Tensor x = ops::as_floating(given, "polygamma");
  return to(trigamma_of(to(x, DType::Float64)), x->dtype);
}

Tensor digamma_of(const Tensor& x) {
  const Argument a(x);
  const Tensor r = reciprocal(a.shifted), t = square(r);
  Tensor y = sub(log(a.shifted), mul(r, Scalar(0.5)));
  y = add(y, polynomial(t, {0, -1.0 / 12, 1.0 / 120, -1.0 / 252, 1.0 / 240, -1.0 / 132,
                            691.0 / 32760, -1.0 / 12}));
  const Tensor base = where(a.small, a.z, Scalar(1.0));
  Tensor steps = reciprocal(base);
  for (int k = 1; k < kShift; ++k) steps = add(steps, reciprocal(add(base, Scalar(double(k)))));
  y = sub(y, where(a.small, steps, Scalar(0.0)));
  const Tensor near = angle(x);
  const Tensor pole = eq(near, Scalar(0.0));
  y = where(a.below, sub(y, div(mul(cos(near), Scalar(M_PI)), sin(near))), y);
  y = where(logical_and(pole, lt(x, Scalar(0.0))), Scalar(kNan), y);
  return where(eq(x, Scalar(0.0)), copysign(full_like(x, Scalar(kInf)), neg(x)), y);
}

Tensor lgamma_of(const Tensor& x) {
  const Argument a(x);
  const Tensor base = where(a.small, a.z, Scalar(1.0));
  Tensor product = base;
  for (int k = 1; k < kShift; ++k) product = mul(product, add(base, Scalar(double(k))));
  const Tensor r = reciprocal(a.shifted);
  Tensor y = sub(mul(sub(a.shifted, Scalar(0.5)), log(a.shifted)), a.shifted);
  y = add(y, Scalar(0.91893853320467274178));  // log(2 pi) / 2
  y = add(y, mul(r, polynomial(square(r), {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680,
                                           1.0 / 1188, -691.0 / 360360, 1.0 / 156})));
  y = sub(y, where(a.small, log(product), Scalar(0.0)));
  const Tensor reflected = sub(log(div(Scalar(M_PI), abs(sin(angle(x))))), y);
  y = where(a.below, reflected, y);
  y = where(logical_or(eq(x, Scalar(1.0)), eq(x, Scalar(2.0))), Scalar(0.0), y);
  return where(isinf(x), Scalar(kInf), y);
}

}  // namespace

Tensor lgamma(const Tensor& x) {
  return special(x, "lgamma", lgamma_of, [](const Tensor& t) { return digamma(t); });
}
Tensor digamma(const Tensor& x) {
  return special(x, "digamma", digamma_of, [](const Tensor& t) { return trigamma(t); });
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
  const int64_t terms = kShift + n;
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
  if (n == 1) return trigamma(x);
  return special(
      x, "polygamma", [n](const Tensor& t) { return polygamma_of(t, n); },
      [n](const Tensor& t) { return polygamma(n + 1, t); });
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
  f.op(&polygamma, {"polygamma(int n, Tensor input) -> Tensor",
                    "The n-th derivative of digamma, n of 0 to 170.", kFunction});
  f.op(+[](const Tensor& x, int64_t n) { return polygamma(n, x); },
       {"polygamma(Tensor input, int n) -> Tensor", "The n-th derivative of digamma.", kMethod});
  f.op(&polygamma_, {"polygamma_(Tensor input, int n) -> Tensor", "In-place polygamma.", kMethod});
  f.op(&lgamma_, {"lgamma_(Tensor input) -> Tensor", "In-place lgamma.", kMethod});
  f.op(&digamma_, {"digamma_(Tensor input) -> Tensor", "In-place digamma.", kMethod});
});

}  // namespace
}  // namespace pyflame
