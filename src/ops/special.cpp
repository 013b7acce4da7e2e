// Special functions beyond the table's: Bessel's, Airy's, incomplete gamma functions, zeta, the
// normal distribution, orthogonal polynomials. Values come from one kernel in float64, gradients
// from the functions themselves.
#include <cmath>
#include <limits>

#include "engine/autograd.h"
#include "ops/building_blocks.h"
#include "ops/linalg.h"
#include "ops/record.h"
#include "ops/registry.h"
#include "ops/replaced.h"
#include "ops/rows.h"
#include "table/kernels/special.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;
using kernels::SpecialFunction;

constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor raw(SpecialFunction f, const Tensor& x, const Tensor& other, const char* op) {
  const Tensor wide = ops::widened(x);
  const Tensor beside = other.defined() ? ops::widened(other) : Tensor();
  const Tensor y =
      linalg::run(engine::kernel<kernels::Special>(), op, {wide, beside}, [&](TensorList& in) {
        Tensor out = make_tensor(wide->shape, wide->dtype, in[0]->device());
        if (out->numel > 0)
          engine::call<kernels::Special>(
              {.y = out, .x = in[0].detach(), .other = in[1].defined() ? in[1].detach() : Tensor()},
              {.function = static_cast<int64_t>(f)}, {.op = op});
        return TensorList{out};
      })[0];
  NoGrad off;
  return to(y, x->dtype);
}

// f(x), whose derivative is slope(x).
using Slope = Tensor (*)(const Tensor&);
Tensor function(SpecialFunction f, const char* op, const Tensor& given, Slope slope) {
  const Tensor x = ops::as_floating(given, op);
  Tensor y = raw(f, x, {}, op);
  if (autograd::wanted({x}))
    autograd::attach(op, {y}, {x}, {Saved(x)}, [slope, op](const Context& c) -> Grads {
      PF_CHECK(slope, NotSupportedError, op,
               "there is no derivative of this function; expected an input without gradient; "
               "detach it");
      return {mul(c.grad(), slope(c.saved(0)))};
    });
  return y;
}

// y(x) / x of J1 (sign -1), I1 (1) and exp(-|x|) I1 (scaled): near 0 by their series, whose slopes
// neither cancel nor divide by 0.
Tensor over(const Tensor& y, const Tensor& x, double sign, bool scaled = false) {
  const Tensor near = lt(abs(x), Scalar(0.02));
  const Tensor small = where(near, x, Scalar(0.0));
  const Tensor square = mul(mul(small, small), Scalar(sign / 4));
  Tensor series = add(mul(square, Scalar(1.0 / 72)), Scalar(1.0 / 6));
  series = add(mul(series, square), Scalar(1.0));
  series = add(mul(series, mul(square, Scalar(0.25))), Scalar(0.5));
  if (scaled) series = mul(series, exp(neg(abs(small))));
  return where(near, series, div(y, where(near, Scalar(1.0), x)));
}

#define PF_FUNCTION(NAME, FUNCTION, SLOPE)                       \
  Tensor NAME(const Tensor& x) {                                 \
    return function(SpecialFunction::FUNCTION, #NAME, x, SLOPE); \
  }
#define PF_SLOPE(NAME, EXPRESSION) \
  Tensor NAME(const Tensor& x) {   \
    return EXPRESSION;             \
  }

Tensor bessel_j0(const Tensor& x);
Tensor bessel_y0(const Tensor& x);
Tensor i0e(const Tensor& x);
Tensor bessel_k0(const Tensor& x);
Tensor bessel_k0e(const Tensor& x);
Tensor bessel_j1(const Tensor& x);
Tensor bessel_y1(const Tensor& x);
Tensor i1(const Tensor& x);
Tensor i1e(const Tensor& x);
Tensor bessel_k1(const Tensor& x);
Tensor bessel_k1e(const Tensor& x);

PF_SLOPE(slope_j0, neg(bessel_j1(x)))
PF_SLOPE(slope_j1, sub(bessel_j0(x), over(bessel_j1(x), x, -1)))
PF_SLOPE(slope_y0, neg(bessel_y1(x)))
PF_SLOPE(slope_y1, sub(bessel_y0(x), div(bessel_y1(x), x)))
PF_SLOPE(slope_i0, i1(x))
PF_SLOPE(slope_i1, sub(i0(x), over(i1(x), x, 1)))
PF_SLOPE(slope_i0e, sub(i1e(x), mul(sign(x), i0e(x))))
PF_SLOPE(slope_i1e, sub(sub(i0e(x), over(i1e(x), x, 1, true)), mul(sign(x), i1e(x))))
PF_SLOPE(slope_k0, neg(bessel_k1(x)))
PF_SLOPE(slope_k1, neg(add(bessel_k0(x), div(bessel_k1(x), x))))
PF_SLOPE(slope_k0e, sub(bessel_k0e(x), bessel_k1e(x)))
PF_SLOPE(slope_k1e, sub(sub(bessel_k1e(x), bessel_k0e(x)), div(bessel_k1e(x), x)))
PF_FUNCTION(bessel_j0, kJ0, slope_j0)
PF_FUNCTION(bessel_j1, kJ1, slope_j1)
PF_FUNCTION(bessel_y0, kY0, slope_y0)
PF_FUNCTION(bessel_y1, kY1, slope_y1)
}  // namespace
PF_FUNCTION(i0, kI0, slope_i0)
namespace {
PF_FUNCTION(i0e, kI0e, slope_i0e)
PF_FUNCTION(i1, kI1, slope_i1)
PF_FUNCTION(i1e, kI1e, slope_i1e)
PF_FUNCTION(bessel_k0, kK0, slope_k0)
PF_FUNCTION(bessel_k0e, kK0e, slope_k0e)
PF_FUNCTION(bessel_k1, kK1, slope_k1)
PF_FUNCTION(bessel_k1e, kK1e, slope_k1e)
PF_FUNCTION(airy_ai, kAiry, nullptr)

Tensor erfcx(const Tensor& x);
// 2 x erfcx(x) - 2 / sqrt(pi), which cancels far above 0: there by its series in 1 / x.
Tensor slope_erfcx(const Tensor& x) {
  const Tensor far = gt(x, Scalar(x->dtype == DType::Float64 ? 50.0 : 10.0));
  const Tensor near = where(far, Scalar(0.0), x);
  const Tensor t = square(reciprocal(where(far, x, Scalar(INFINITY))));
  Tensor series = add(mul(t, Scalar(59.0625)), Scalar(-13.125));
  for (const double k : {3.75, -1.5, 1.0}) series = add(mul(series, t), Scalar(k));
  return where(far, mul(mul(series, t), Scalar(-0.56418958354775628695)),
               sub(mul(mul(near, Scalar(2.0)), erfcx(near)), Scalar(1.12837916709551257390)));
}
PF_FUNCTION(erfcx, kErfcx, slope_erfcx)
// The density over ndtr, sqrt(2 / pi) / erfcx(-x / sqrt 2); where ndtr is 1 the density, and far
// below 0 a series in z = -1 / x: its slope is finite where the two that it divides are not.
Tensor slope_log_ndtr(const Tensor& x) {
  const Tensor above = gt(x, Scalar(8.5)), below = lt(x, Scalar(-50.0));
  const Tensor high = clamp(where(above, x, Scalar(8.5)), {}, Scalar(200.0));
  const Tensor z = neg(reciprocal(where(below, x, Scalar(-50.0))));
  const Tensor t = mul(z, z);
  Tensor series = add(mul(t, Scalar(-74.0)), Scalar(10.0));
  for (const double k : {-2.0, 1.0}) series = add(mul(series, t), Scalar(k));
  const Tensor near = where(logical_or(above, below), Scalar(0.0), x);
  const Tensor ratio = rdiv(erfcx(mul(near, Scalar(-M_SQRT1_2))), Scalar(0.79788456080286535588));
  const Tensor density =
      mul(exp(mul(mul(high, high), Scalar(-0.5))), Scalar(0.39894228040143267794));
  return where(above, density, where(below, sub(mul(series, z), x), ratio));
}
PF_FUNCTION(log_ndtr, kLogNdtr, slope_log_ndtr)

Tensor ndtr(const Tensor& given) {
  const Tensor x = ops::as_floating(given, "ndtr");
  return mul(erfc(mul(x, Scalar(-M_SQRT1_2))), Scalar(0.5));
}
Tensor ndtri(const Tensor& x) {
  return ops::call_row(ops::op::ndtri, {x});
}
Tensor entr(const Tensor& given) {
  const Tensor x = ops::as_floating(given, "entr");
  Tensor y;
  {
    NoGrad off;
    y = where(lt(x, Scalar(0.0)), Scalar(-kInf), rsub(xlogy(x, x), Scalar(0.0)));
  }
  if (autograd::wanted({x}))
    autograd::attach("entr", {y}, {x}, {Saved(x)}, [](const Context& c) -> Grads {
      // -1 - log(x), at -0 as at 0
      return {mul(c.grad(), rsub(log(add(c.saved(0), Scalar(0.0))), Scalar(-1.0)))};
    });
  return y;
}
Tensor spherical_bessel_j0(const Tensor& x) {
  return sinc(mul(ops::as_floating(x, "spherical_bessel_j0"), Scalar(M_1_PI)));
}

Tensor multigammaln(const Tensor& given, int64_t p) {
  const char* op = "mvlgamma";
  const Tensor x = ops::as_floating(given, op);
  PF_CHECK(p >= 1 && p <= 10000, ValueError, op, "got p ", p, "; expected 1 to 10000; correct it");
  Tensor y = lgamma(x);
  for (int64_t j = 1; j < p; ++j) y = add(y, lgamma(sub(x, Scalar(static_cast<double>(j) / 2))));
  const auto pairs = static_cast<double>(p * (p - 1));
  return add(y, Scalar(pairs / 4 * std::log(M_PI)));
}

// ---- of two arguments ---------------------------------------------------------------------------

// Both as floats of one dtype and shape.
std::pair<Tensor, Tensor> both(const Tensor& x, const Tensor& y, const char* op) {
  ops::check_defined(x, op, "input");
  ops::check_defined(y, op, "other");
  const engine::Operand operands[] = {x, y};
  DType t = ops::result_type(operands);
  PF_CHECK(!info(t).storage_only, DTypeError, op, "got ", t,
           "; expected real numbers; convert with .to(dtype)");
  if (!is_float(t)) t = default_dtype();
  const Dims shape = broadcast_shapes(x->shape, y->shape, op);
  const auto wide = [&](const Tensor& a) {
    const Tensor b = to(a, t);
    return b->shape == shape ? b : expand(b, shape.vec());
  };
  return {wide(x), wide(y)};
}

// The gradient goes to the second argument alone.
using Slope2 = Tensor (*)(const Tensor& x, const Tensor& y);
Tensor function2(SpecialFunction f, const char* op, const Tensor& first, const Tensor& second,
                 Slope2 slope) {
  const auto [x, y] = both(first, second, op);
  Tensor r = raw(f, x, y, op);
  if (autograd::wanted({x, y}))
    autograd::attach(op, {r}, {x, y}, {Saved(x), Saved(y)}, [slope, op](const Context& c) -> Grads {
      PF_CHECK(slope && !c.needs(0), NotSupportedError, op, "there is no derivative by ",
               slope ? "the first argument" : "these arguments",
               "; expected one without gradient; detach it");
      return {{}, mul(c.grad(), slope(c.saved(0), c.saved(1)))};
    });
  return r;
}

Tensor zeta(const Tensor& x, const Tensor& q) {
  return function2(SpecialFunction::kZeta, "zeta", x, q, [](const Tensor& x, const Tensor& q) {
    return neg(mul(x, zeta(add(x, Scalar(1.0)), q)));
  });
}
// x^(a - 1) exp(-x) / Gamma(a)
Tensor gamma_density(const Tensor& a, const Tensor& x) {
  return exp(sub(sub(xlogy(sub(a, Scalar(1.0)), x), x), lgamma(a)));
}
Tensor igamma(const Tensor& a, const Tensor& x) {
  return function2(SpecialFunction::kIgamma, "igamma", a, x, gamma_density);
}
Tensor igammac(const Tensor& a, const Tensor& x) {
  return function2(SpecialFunction::kIgammac, "igammac", a, x,
                   [](const Tensor& a, const Tensor& x) { return neg(gamma_density(a, x)); });
}
Tensor xlog1py(const Tensor& first, const Tensor& second) {
  const auto [x, y] = both(first, second, "xlog1py");
  // 0 times an infinity; elsewhere the product is 0 by itself and has the slope log1p(y).
  const Tensor nothing =
      logical_and(eq(x, Scalar(0.0)), logical_or(le(y, Scalar(-1.0)), eq(y, Scalar(kInf))));
  return where(nothing, Scalar(0.0), mul(x, log1p(where(nothing, Scalar(0.0), y))));
}

template <SpecialFunction F, bool SHIFTED = false>
Tensor polynomial(const Tensor& x, const Tensor& n) {
  const char* op = "orthogonal polynomial";
  if (!SHIFTED) return function2(F, op, x, n, nullptr);
  const auto [y, degree] = both(x, n, op);
  return function2(F, op, sub(mul(y, Scalar(2.0)), Scalar(1.0)), degree, nullptr);
}

// Forms with a number on either side.
using Two = Tensor (*)(const Tensor&, const Tensor&);
template <Two F>
Tensor number_behind(const Tensor& x, Scalar y) {
  return F(x, ops::number_like(y, x, "special"));
}
template <Two F>
Tensor number_before(Scalar x, const Tensor& y) {
  return F(ops::number_like(x, y, "special"), y);
}

template <Slope F>
Tensor in_place(Tensor x) {
  return ops::replaced(
      x, "special", [](const Tensor& t) { return F(t); }, ops::Old::kIsRead);
}
template <Two F>
Tensor in_place2(Tensor x, const Tensor& other) {
  return ops::replaced(x, "special", [&other](const Tensor& t) {
    return F(autograd::wanted({other}) ? clone(t) : t, other);
  });
}

template <Two F>
void add_two(ops::Family& f, const std::string& name, const char* doc, bool differentiable) {
  const auto row = [&](const std::string& arguments) {
    return name + "(" + arguments + ") -> Tensor";
  };
  const std::string a = row("Tensor input, Tensor other"), b = row("Tensor input, Scalar other"),
                    c = row("Scalar input, Tensor other");
  f.op(F, {a.c_str(), doc, ops::kSpecial, differentiable});
  f.op(&number_behind<F>, {b.c_str(), doc, ops::kSpecial, differentiable});
  f.op(&number_before<F>, {c.c_str(), doc, ops::kSpecial, differentiable});
}
template <SpecialFunction F>
void add_polynomial(ops::Family& f, const std::string& name, const char* doc) {
  const auto add_form = [&]<bool SHIFTED>(const std::string& full) {
    constexpr Two kFunction = &polynomial<F, SHIFTED>;
    const std::string a = full + "(Tensor input, Tensor n) -> Tensor",
                      b = full + "(Tensor input, Scalar n) -> Tensor",
                      c = full + "(Scalar input, Tensor n) -> Tensor";
    f.op(kFunction, {a.c_str(), doc, ops::kSpecial, false});
    f.op(&number_behind<kFunction>, {b.c_str(), doc, ops::kSpecial, false});
    f.op(&number_before<kFunction>, {c.c_str(), doc, ops::kSpecial, false});
  };
  add_form.template operator()<false>("special_" + name);
  if (name.starts_with("chebyshev")) add_form.template operator()<true>("special_shifted_" + name);
}

const ops::Family kSpecial("special functions", [](ops::Family& f) {
  using namespace ops;
  const auto one = [&](Slope fn, const char* name, const char* doc, bool differentiable = true) {
    const std::string schema = std::string("special_") + name + "(Tensor input) -> Tensor";
    f.op(fn, {schema.c_str(), doc, ops::kSpecial, differentiable});
  };
  one(&bessel_j0, "bessel_j0", "Bessel function of the first kind, of order 0.");
  one(&bessel_j1, "bessel_j1", "Bessel function of the first kind, of order 1.");
  one(&bessel_y0, "bessel_y0", "Bessel function of the second kind, of order 0; -inf at 0.");
  one(&bessel_y1, "bessel_y1", "Bessel function of the second kind, of order 1; -inf at 0.");
  one(&i0, "modified_bessel_i0", "Modified Bessel function of the first kind, of order 0.");
  one(&i1, "modified_bessel_i1", "Modified Bessel function of the first kind, of order 1.");
  one(&bessel_k0, "modified_bessel_k0", "Modified Bessel function of the second kind, of order 0.");
  one(&bessel_k1, "modified_bessel_k1", "Modified Bessel function of the second kind, of order 1.");
  one(&bessel_k0e, "scaled_modified_bessel_k0", "exp(x) times modified_bessel_k0.");
  one(&bessel_k1e, "scaled_modified_bessel_k1", "exp(x) times modified_bessel_k1.");
  one(&i0e, "i0e", "exp(-|x|) times i0.");
  one(&i1, "i1", "Modified Bessel function of the first kind, of order 1.");
  one(&i1e, "i1e", "exp(-|x|) times i1.");
  one(&spherical_bessel_j0, "spherical_bessel_j0", "sin(x) / x, 1 at 0.");
  one(&airy_ai, "airy_ai", "Airy's function Ai.", false);
  one(&erfcx, "erfcx", "exp(x^2) erfc(x), without overflow for large x.");
  one(&ndtr, "ndtr", "The share of the standard normal distribution below x.");
  one(&ndtri, "ndtri", "The quantile of the standard normal distribution.");
  one(&log_ndtr, "log_ndtr", "log ndtr(x), exact far below 0.");
  one(&entr, "entr", "-x log(x), 0 at 0 and -inf below.");
  const char* kI0 = "Modified Bessel function of the first kind, of order 0.";
  f.op(&i0, {"i0(Tensor input) -> Tensor", kI0});
  f.op(&in_place<&i0>, {"i0_(Tensor input) -> Tensor", "In-place i0.", kFunction | kMethod});
  const char* kLower =
      "The regularized lower incomplete gamma function: the share of Gamma(input) below other. The "
      "gradient is that of `other` alone.";
  const char* kUpper =
      "The regularized upper incomplete gamma function, 1 - igamma. The gradient is that of "
      "`other` "
      "alone.";
  f.op(&igamma, {"igamma(Tensor input, Tensor other) -> Tensor", kLower});
  f.op(&igammac, {"igammac(Tensor input, Tensor other) -> Tensor", kUpper});
  f.op(&in_place2<&igamma>,
       {"igamma_(Tensor input, Tensor other) -> Tensor", "In-place igamma.", kMethod});
  f.op(&in_place2<&igammac>,
       {"igammac_(Tensor input, Tensor other) -> Tensor", "In-place igammac.", kMethod});
  const char* kMulti =
      "log of the multivariate gamma function of dimension p: p (p - 1) / 4 log(pi) + the sum of "
      "lgamma(x - j / 2), j below p.";
  f.op(&multigammaln, {"mvlgamma(Tensor input, int p) -> Tensor", kMulti});
  f.op(
      +[](Tensor x, int64_t p) {
        return replaced(x, "mvlgamma_", [p](const Tensor& t) { return multigammaln(t, p); });
      },
      {"mvlgamma_(Tensor input, int p) -> Tensor", "In-place mvlgamma.", kMethod});
  add_two<&zeta>(
      f, "special_zeta",
      "Hurwitz' zeta function: the sum of (other + k)^-input over k from 0. The gradient "
      "is that of `other` alone.",
      true);
  add_two<&xlog1py>(f, "special_xlog1py", "input * log1p(other), 0 where input is 0.", true);
  add_polynomial<SpecialFunction::kChebyshevT>(
      f, "chebyshev_polynomial_t", "Chebyshev polynomial of the first kind, of degree n.");
  add_polynomial<SpecialFunction::kChebyshevU>(
      f, "chebyshev_polynomial_u", "Chebyshev polynomial of the second kind, of degree n.");
  add_polynomial<SpecialFunction::kChebyshevV>(
      f, "chebyshev_polynomial_v", "Chebyshev polynomial of the third kind, of degree n.");
  add_polynomial<SpecialFunction::kChebyshevW>(
      f, "chebyshev_polynomial_w", "Chebyshev polynomial of the fourth kind, of degree n.");
  add_polynomial<SpecialFunction::kHermiteH>(f, "hermite_polynomial_h",
                                             "Hermite polynomial (physicists'), of degree n.");
  add_polynomial<SpecialFunction::kHermiteHe>(f, "hermite_polynomial_he",
                                              "Hermite polynomial (probabilists'), of degree n.");
  add_polynomial<SpecialFunction::kLaguerre>(f, "laguerre_polynomial_l",
                                             "Laguerre polynomial of degree n.");
  add_polynomial<SpecialFunction::kLegendre>(f, "legendre_polynomial_p",
                                             "Legendre polynomial of degree n.");
});

}  // namespace
}  // namespace pyflame
