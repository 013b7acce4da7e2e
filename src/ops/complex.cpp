#include "ops/complex.h"

#include <cmath>

#include "engine/autograd.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/complex_inverse.h"
#include "ops/hidden.h"
#include "ops/matmul.h"
#include "ops/pointwise.h"
#include "ops/record.h"
#include "ops/registry.h"
#include "ops/replaced.h"
#include "ops/rows.h"

namespace pyflame {

using autograd::Context;
using autograd::Grads;
using engine::Operand;
using engine::OpId;

namespace {

Tensor raw_as_real(const Tensor& z) {
  ops::Geometry g = ops::geometry_of(z);
  for (int d = 0; d < g.strides.size(); ++d) g.strides[d] *= 2;
  g.offset *= 2;
  g.shape.push_back(2);
  g.strides.push_back(1);
  Tensor r = ops::raw_view(z, ops::geometry_of(z));
  ops::scale_steps(r, 2, 1);
  r->dtype = real_type(z->dtype);
  r->shape = g.shape;
  r->strides = g.strides;
  r->offset = g.offset;
  r->numel = z->numel * 2;
  r->contiguous = is_contiguous(g.shape, g.strides);
  return r;
}
Tensor raw_as_complex(const Tensor& t) {
  Dims shape = t->shape, strides = t->strides;
  shape.resize(shape.size() - 1);
  strides.resize(strides.size() - 1);
  for (int d = 0; d < strides.size(); ++d) strides[d] /= 2;
  Tensor r = ops::raw_view(t, ops::geometry_of(t));
  ops::scale_steps(r, 1, 2);
  r->dtype = complex_type(t->dtype);
  r->shape = shape;
  r->strides = strides;
  r->offset = t->offset / 2;
  r->numel = t->numel / 2;
  r->contiguous = is_contiguous(shape, strides);
  return r;
}
bool seen_as_complex(const Tensor& t) {
  bool fits = t->strides.back() == 1 && t->offset % 2 == 0 && ops::steps_divide(t, 2);
  for (int d = 0; d + 1 < t->shape.size(); ++d)
    fits = fits && (t->strides[d] % 2 == 0 || t->shape[d] <= 1);
  return fits;
}
// Differentiable whatever the layout.
Tensor as_complex(const Tensor& t) {
  return view_as_complex(seen_as_complex(t) ? t : contiguous(t));
}

void check_real(const Tensor& t, const char* op, const char* what) {
  ops::check_defined(t, op, what);
  PF_CHECK(t->dtype == DType::Float32 || t->dtype == DType::Float64, DTypeError, op, "got ", what,
           " of dtype ", t->dtype, "; expected float32 or float64; convert with .to(dtype)");
}

}  // namespace

Tensor view_as_real(const Tensor& z) {
  ops::check_defined(z, "view_as_real");
  PF_CHECK(is_complex(z), DTypeError, "view_as_real", "got ", z->dtype,
           "; expected a complex dtype; stack the parts of real numbers");
  return ops::viewed(z, raw_as_real(z), view_as_real, "view_as_real", as_complex);
}

Tensor view_as_complex(const Tensor& t) {
  check_real(t, "view_as_complex", "input");
  PF_CHECK(!t->shape.empty() && t->shape.back() == 2, ShapeError, "view_as_complex", "got shape ",
           t->shape, "; expected a last dimension of 2; stack the parts");
  PF_CHECK(seen_as_complex(t), ShapeError, "view_as_complex", "got strides ", t->strides,
           " from element ", t->offset,
           " on; expected both parts side by side and even strides; call contiguous()");
  return ops::viewed(t, raw_as_complex(t), view_as_complex, "view_as_complex", view_as_real);
}

Tensor real(const Tensor& z) {
  ops::check_defined(z, "real");
  return is_complex(z) ? select(view_as_real(z), -1, 0) : z;
}
Tensor imag(const Tensor& z) {
  ops::check_defined(z, "imag");
  PF_CHECK(is_complex(z), DTypeError, "imag", "got ", z->dtype,
           "; expected a complex dtype; real numbers have no imaginary part");
  return select(view_as_real(z), -1, 1);
}

Tensor complex(const Tensor& re, const Tensor& im) {
  check_real(re, "complex", "real");
  check_real(im, "complex", "imag");
  PF_CHECK(re->dtype == im->dtype, DTypeError, "complex", "got ", re->dtype, " and ", im->dtype,
           "; expected parts of one dtype; convert one with .to(dtype)");
  const Dims shape = broadcast_shapes(re->shape, im->shape, "complex");
  const auto wide = [&](const Tensor& t) { return t->shape == shape ? t : expand(t, shape.vec()); };
  const Tensor r = wide(re), i = wide(im), where = ops::beside(r, {i}, "complex");
  Tensor z = make_tensor(shape, complex_type(re->dtype), where->device());
  const Tensor both = raw_as_real(z);
  {
    NoGrad off;
    Tensor first = select(both, -1, 0), second = select(both, -1, 1);
    copy_(first, r.detach());
    copy_(second, i.detach());
  }
  if (autograd::wanted({r, i}))
    autograd::attach("complex", {z}, {r, i}, {}, [](const Context& c) -> Grads {
      const ops::Parts g = ops::parts(c.grad());
      return {g.re, g.im};
    });
  return z;
}

Tensor polar(const Tensor& size, const Tensor& angle) {
  PF_AUTOCAST("polar", FollowElseRaise, polar, size, angle);
  check_real(size, "polar", "abs");
  check_real(angle, "polar", "angle");
  PF_CHECK(size->dtype == angle->dtype, DTypeError, "polar", "got ", size->dtype, " and ",
           angle->dtype, "; expected one dtype; convert one with .to(dtype)");
  return complex(mul(size, cos(angle)), mul(size, sin(angle)));
}

namespace ops {

void check_fits(const Tensor& into, const Tensor& value, const char* op) {
  PF_CHECK(is_complex(into) || !is_complex(value), DTypeError, op, "got a complex number for ",
           into->dtype, "; expected a real one; take its .real or choose a complex dtype");
}

Parts parts(const Tensor& z) {
  const Tensor both = raw_as_real(z);
  Parts p;
  {
    NoGrad off;
    p = {select(both, -1, 0), select(both, -1, 1)};
  }
  if (autograd::wanted({z}))
    autograd::attach("parts", {p.re, p.im}, {z}, {},
                     [shape = z->shape, type = real_type(z->dtype),
                      device = z->device()](const Context& c) -> Grads {
                       const Tensor &re = c.grads[0], &im = c.grads[1];
                       if (!re.defined() && !im.defined()) return {{}};
                       const Tensor none = zeros(shape.vec(), type, device);
                       return {complex(re.defined() ? re : none, im.defined() ? im : none)};
                     });
  return p;
}

}  // namespace ops

namespace {

using ops::Parts;
using ops::parts;

Tensor times_real(const Tensor& z, const Tensor& r) {
  return as_complex(mul(view_as_real(z), unsqueeze(r, -1)));
}
Tensor times_number(const Tensor& z, double r) {
  return as_complex(mul(view_as_real(z), Scalar(r)));
}
// i z
Tensor turned(const Tensor& z) {
  const Parts p = parts(z);
  return complex(neg(p.im), p.re);
}

// A function without history, and its gradient by the derivative, g conj(f'(z)), or by one over it:
// g / conj(1 / f'(z)), which is infinite, not NaN, where the derivative is.
using Derivative = Tensor (*)(const Tensor& z, const Tensor& y);
enum class By { Slope, Reciprocal };
template <class F>
Tensor holomorphic(const char* name, const Tensor& z, F&& value, Derivative slope,
                   By by = By::Slope) {
  Tensor y;
  {
    NoGrad off;
    y = value(z.detach());
  }
  if (autograd::wanted({z}))
    autograd::attach(name, {y}, {z}, {autograd::Saved(z), autograd::Saved(y, true)},
                     [slope, by](const Context& c) -> Grads {
                       const Tensor factor = conj(slope(c.saved(0), c.saved(1)));
                       return {by == By::Slope ? mul(c.grad(), factor) : div(c.grad(), factor)};
                     });
  return y;
}

Tensor product_of(const Tensor& x, const Tensor& y) {
  Tensor r;
  {
    NoGrad off;
    r = ops::product_of_parts(parts(x), parts(y),
                              [](const Tensor& s, const Tensor& t) { return mul(s, t); });
  }
  if (autograd::wanted({x, y}))
    autograd::attach("mul", {r}, {x, y}, {autograd::Saved(x), autograd::Saved(y)},
                     [](const Context& c) -> Grads {
                       const Tensor x = c.saved(0), y = c.saved(1);
                       Grads g(2);
                       if (c.needs(0)) g[0] = ops::sum_to(mul(c.grad(), conj(y)), x->shape);
                       if (c.needs(1)) g[1] = ops::sum_to(mul(c.grad(), conj(x)), y->shape);
                       return g;
                     });
  return r;
}

Tensor quotient_of(const Tensor& x, const Tensor& y) {
  Tensor r;
  {
    NoGrad off;
    // The divisor over its larger part first, so that its square neither overflows nor vanishes. An
    // infinite divisor has a direction, and so has 0, that of its real part (annex G of C99).
    const Parts a = parts(x), b = parts(y);
    const Tensor size = maximum(abs(b.re), abs(b.im)), none = eq(size, Scalar(0.0));
    const auto over_size = [&, far = isinf(size)](const Tensor& t) {
      return where(far, mul(sign(t), to(isinf(t), t->dtype)), div(t, size));
    };
    const Tensor re = where(none, copysign(ones_like(size), b.re), over_size(b.re));
    const Tensor im = where(none, Scalar(0.0), over_size(b.im));
    const Tensor d = mul(add(square(re), square(im)), size);
    r = complex(div(add(mul(a.re, re), mul(a.im, im)), d),
                div(sub(mul(a.im, re), mul(a.re, im)), d));
  }
  if (autograd::wanted({x, y}))
    autograd::attach("div", {r}, {x, y}, {autograd::Saved(x), autograd::Saved(y)},
                     [](const Context& c) -> Grads {
                       const Tensor x = c.saved(0), y = c.saved(1);
                       const Tensor g = div(c.grad(), conj(y));
                       Grads all(2);
                       if (c.needs(0)) all[0] = ops::sum_to(g, x->shape);
                       if (c.needs(1)) all[1] = ops::sum_to(neg(mul(g, conj(div(x, y)))), y->shape);
                       return all;
                     });
  return r;
}

Tensor absolute(const Tensor& z) {
  Tensor r;
  {
    NoGrad off;
    const Parts p = parts(z);
    r = hypot(p.re, p.im);
  }
  if (autograd::wanted({z}))
    autograd::attach("abs", {r}, {z}, {autograd::Saved(z)}, [](const Context& c) -> Grads {
      return {times_real(sgn(c.saved(0)), c.grad())};
    });
  return r;
}

// size(x) cos(y) and size(x) sin(y) as annex G of C99 has them: what is 0 or infinite at x = 0 or
// infinity stays beside a cosine of which nothing is known, the sine of a real number is 0 whatever
// stands before it, and 0 beside a sine of which nothing is known is 0.
Tensor at_its_ends(const Tensor& x) {
  return logical_or(eq(x, Scalar(0.0)), isinf(x));
}
Tensor times_cosine(const Tensor& size, const Parts& z) {
  const Tensor c = cos(z.im), end = logical_and(at_its_ends(z.re), at_its_ends(size));
  return where(logical_and(isnan(c), end), size, mul(size, c));
}
Tensor times_sine(const Tensor& size, const Parts& z) {
  const Tensor s = sin(z.im), zero = logical_and(at_its_ends(z.re), eq(size, Scalar(0.0)));
  const Tensor real = mul(clamp(size, Scalar(-1.0), Scalar(1.0)), z.im);
  return where(eq(z.im, Scalar(0.0)), where(isnan(size), z.im, real),
               where(logical_and(isnan(s), zero), size, mul(size, s)));
}

Tensor exponential(const Tensor& z) {
  return holomorphic(
      "exp", z,
      [](const Tensor& t) {
        const Parts p = parts(t);
        const Tensor size = exp(p.re);
        return complex(times_cosine(size, p), times_sine(size, p));
      },
      [](const Tensor&, const Tensor& y) { return y; });
}
Tensor exponential_less_one(const Tensor& z) {
  return holomorphic(
      "expm1", z,
      [](const Tensor& t) {
        // expm1(x) cos(y) - 2 sin(y / 2)^2: nothing is lost where both are small.
        const Parts p = parts(t);
        const Tensor half = sin(mul(p.im, Scalar(0.5))), size = expm1(p.re);
        const Tensor re = sub(mul(size, cos(p.im)), mul(square(half), Scalar(2.0)));
        return complex(where(logical_and(isnan(half), isinf(p.re)), size, re),
                       times_sine(exp(p.re), p));
      },
      [](const Tensor&, const Tensor& y) { return add(y, Scalar(1)); });
}
Tensor logarithm(const Tensor& z) {
  return holomorphic(
      "log", z,
      [](const Tensor& t) {
        const Parts p = parts(t);
        return complex(log(hypot(p.re, p.im)), atan2(p.im, p.re));
      },
      [](const Tensor& z, const Tensor&) { return z; }, By::Reciprocal);
}
Tensor root(const Tensor& z) {
  return holomorphic(
      "sqrt", z,
      [](const Tensor& t) {
        const Parts p = ops::root_parts(parts(t));
        return complex(p.re, p.im);
      },
      [](const Tensor&, const Tensor& y) { return times_number(y, 2); }, By::Reciprocal);
}
Tensor one_over(const Tensor& z) {
  return div(ones_like(z), z);
}
// The parts of i z.
Parts around(const Tensor& z) {
  const Parts p = parts(z);
  return {neg(p.im), p.re};
}
Tensor sine(const Tensor& z) {
  return holomorphic(
      "sin", z,
      [](const Tensor& t) {
        const Parts p = around(t);  // -i sinh(i z)
        return complex(times_sine(cosh(p.re), p), neg(times_cosine(sinh(p.re), p)));
      },
      [](const Tensor& z, const Tensor&) { return cos(z); });
}
Tensor cosine(const Tensor& z) {
  return holomorphic(
      "cos", z,
      [](const Tensor& t) {
        const Parts p = around(t);  // cosh(i z)
        return complex(times_cosine(cosh(p.re), p), times_sine(sinh(p.re), p));
      },
      [](const Tensor& z, const Tensor&) { return neg(sin(z)); });
}
Tensor hyperbolic_sine(const Tensor& z) {
  return holomorphic(
      "sinh", z,
      [](const Tensor& t) {
        const Parts p = parts(t);
        return complex(times_cosine(sinh(p.re), p), times_sine(cosh(p.re), p));
      },
      [](const Tensor& z, const Tensor&) { return cosh(z); });
}
Tensor hyperbolic_cosine(const Tensor& z) {
  return holomorphic(
      "cosh", z,
      [](const Tensor& t) {
        const Parts p = parts(t);
        return complex(times_cosine(cosh(p.re), p), times_sine(sinh(p.re), p));
      },
      [](const Tensor& z, const Tensor&) { return sinh(z); });
}
Tensor one_minus_square(const Tensor& y) {
  return sub(ones_like(y), square(y));
}
Tensor hyperbolic_tangent(const Tensor& z) {
  return holomorphic(
      "tanh", z,
      [](const Tensor& t) {
        // Far out the real part is a sign, and cosh would overflow.
        const Parts p = parts(t);
        const Tensor far = gt(abs(p.re), Scalar(40.0));
        const Tensor x = clamp(p.re, Scalar(-40.0), Scalar(40.0)), sh = sinh(x);
        const Tensor c = cos(p.im), d = add(square(sh), square(c));
        const Tensor tail = mul(exp(mul(abs(p.re), Scalar(-2.0))), Scalar(4.0));
        const Tensor im = mul(sin(p.im), c), unknown = logical_and(isnan(im), isfinite(p.re));
        const Tensor side = where(unknown, im, clamp(x, Scalar(-1.0), Scalar(1.0)));
        const Tensor re = where(far, side, div(mul(sh, cosh(x)), d));
        return complex(
            where(eq(p.re, Scalar(0.0)), p.re, re),
            where(eq(p.im, Scalar(0.0)), p.im,
                  where(far,
                        where(isinf(p.re),
                              mul(copysign(ones_like(im), where(isnan(im), Scalar(1.0), im)),
                                  Scalar(0.0)),
                              mul(tail, im)),
                        div(im, d))));
      },
      [](const Tensor&, const Tensor& y) { return one_minus_square(y); });
}
using InverseParts = Parts (*)(const Parts&);
Tensor inverse(const char* name, const Tensor& z, InverseParts f, Derivative slope,
               By by = By::Slope) {
  return holomorphic(
      name, z,
      [f](const Tensor& t) {
        const Parts p = f(parts(t));
        return complex(p.re, p.im);
      },
      slope, by);
}
// -i f(i z)
template <InverseParts F>
Parts quarter_turn(const Parts& z) {
  const Parts p = F({neg(z.im), z.re});
  return {p.im, neg(p.re)};
}
Tensor slope_of_asin(const Tensor& z, const Tensor&) {
  return one_over(root(one_minus_square(z)));
}
Tensor to_power_of(const Tensor& z, int64_t n) {
  Tensor result, power = z;
  for (;; power = mul(power, power)) {
    if (n & 1) result = result.defined() ? mul(result, power) : power;
    if ((n >>= 1) == 0) return result;
  }
}
Tensor power(const Tensor& z, const Tensor& w) {
  // 0 to any power but 0 is 0.
  const Tensor zero = eq(z, Scalar(0.0));
  const Tensor safe = where(zero, ones_like(z), z);
  const Tensor y = exp(mul(w, log(safe)));
  return where(zero, to(eq(w, Scalar(0.0)), y->dtype), y);
}
Tensor power_of_number(const Tensor& z, double n) {
  if (n == 0) return ops::without_slope("pow", ones_like(z), z);
  if (n == 1) return clone(z);
  if (n == 0.5) return root(z);
  if (n == std::trunc(n) && std::abs(n) <= 64) {
    const Tensor y = to_power_of(z, static_cast<int64_t>(std::abs(n)));
    return n < 0 ? one_over(y) : y;
  }
  return power(z, to(scalar_tensor(Scalar(n), real_type(z->dtype), z->device()), z->dtype));
}

bool is_pure(const Operand& o) {  // a real number or tensor
  return !o.tensor || !is_complex(*o.tensor);
}

}  // namespace

Tensor conj(const Tensor& z) {
  ops::check_defined(z, "conj");
  if (!is_complex(z)) return z;
  Tensor r;
  {
    NoGrad off;
    const Parts p = parts(z);
    r = complex(p.re, neg(p.im));
  }
  if (autograd::wanted({z}))
    autograd::attach("conj", {r}, {z}, {},
                     [](const Context& c) -> Grads { return {conj(c.grad())}; });
  return r;
}

Tensor angle(const Tensor& z) {
  ops::check_defined(z, "angle");
  if (!is_complex(z)) {
    const Tensor x = is_float(z->dtype) ? z : to(z, default_dtype());
    Tensor y;
    {
      NoGrad off;
      y = where(isnan(x), x, to(mul(to(lt(x, Scalar(0.0)), x->dtype), Scalar(M_PI)), x->dtype));
    }
    return ops::without_slope("angle", y, x);
  }
  Tensor r;
  {
    NoGrad off;
    const Parts p = parts(z);
    r = atan2(p.im, p.re);
  }
  if (autograd::wanted({z}))
    autograd::attach("angle", {r}, {z}, {autograd::Saved(z)}, [](const Context& c) -> Grads {
      const Tensor z = c.saved(0), size = abs(z), none = eq(size, Scalar(0.0));
      const Tensor safe = where(none, ones_like(size), size);
      return {times_real(turned(sgn(z)), where(none, Scalar(0.0), div(c.grad(), safe)))};
    });
  return r;
}

Tensor sgn(const Tensor& z) {
  ops::check_defined(z, "sgn");
  if (!is_complex(z)) return sign(z);
  const Tensor size = abs(z), none = eq(size, Scalar(0.0));
  const Tensor safe = where(none, ones_like(size), size);
  const Tensor unit = div(view_as_real(z), unsqueeze(safe, -1));
  return as_complex(where(unsqueeze(none, -1), Scalar(0.0), unit));  // of -0, too
}

Tensor adjoint(const Tensor& z) {
  ops::check_defined(z, "adjoint");
  PF_CHECK(z->shape.size() != 1, ShapeError, "adjoint", "got shape ", z->shape,
           "; expected at least 2 dimensions, or none; unsqueeze it first");
  if (z->shape.empty()) return conj(z);
  return conj(transpose(z, -2, -1));
}

namespace ops {

Tensor complex_row(OpId id, std::span<const Operand> operands, std::span<const Scalar> attrs,
                   DType common, const char* name) {
  const DType part = real_type(common);
  Tensor held[4];
  Device device;
  for (const Operand& o : operands)
    if (o.tensor) device = (*o.tensor)->device();
  // Operand i in the common dtype; numbers as tensors without dimensions.
  const auto z = [&](size_t i) -> const Tensor& {
    if (!held[i].defined())
      held[i] =
          operands[i].tensor
              ? to(*operands[i].tensor, common)
              : to(scalar_tensor(Scalar(operands[i].scalar.to_double()), part, device), common);
    return held[i];
  };
  // The same of a real one.
  const auto pure = [&](size_t i) {
    return operands[i].tensor ? to(*operands[i].tensor, part)
                              : scalar_tensor(Scalar(operands[i].scalar.to_double()), part, device);
  };
  const auto both = [&](auto&& f, size_t i, size_t j) {
    return as_complex(f(view_as_real(z(i)), view_as_real(z(j))));
  };
  const auto scaled = [&](const Tensor& t, size_t attr) {
    return times_number(t, attrs[attr].to_double());
  };
  const auto each = [&](auto&& f, auto&& join) {
    const Parts p = parts(z(0));
    return join(f(p.re), f(p.im));
  };
  const auto either = [](const Tensor& x, const Tensor& y) { return logical_or(x, y); };
  switch (id) {
    case op::cast:
      return clone(z(0));
    case op::neg:
      return over_parts(z(0), [](const Tensor& t) { return neg(t); });
    case op::abs:
      return absolute(z(0));
    case op::sign:  // as sgn
      return sgn(z(0));
    case op::square:
      return product_of(z(0), z(0));
    case op::cube:
      return to_power_of(z(0), 3);
    case op::reciprocal:
      return one_over(z(0));
    case op::sqrt:
      return root(z(0));
    case op::rsqrt:
      return one_over(root(z(0)));
    case op::exp:
      return exponential(z(0));
    case op::exp2:
      return exponential(times_number(z(0), M_LN2));
    case op::expm1:
      return exponential_less_one(z(0));
    case op::log:
      return logarithm(z(0));
    case op::log1p:
      return logarithm(add(z(0), Scalar(1)));
    case op::log2:
      return times_number(logarithm(z(0)), 1 / M_LN2);
    case op::log10:
      return times_number(logarithm(z(0)), 1 / M_LN10);
    case op::sin:
      return sine(z(0));
    case op::cos:
      return cosine(z(0));
    case op::tan:  // -i tanh(i z)
      return neg(turned(hyperbolic_tangent(turned(z(0)))));
    case op::sinh:
      return hyperbolic_sine(z(0));
    case op::cosh:
      return hyperbolic_cosine(z(0));
    case op::tanh:
      return hyperbolic_tangent(z(0));
    case op::asin:
      return inverse("asin", z(0), quarter_turn<asinh_parts>, slope_of_asin);
    case op::acos:
      return inverse("acos", z(0), acos_parts,
                     [](const Tensor& z, const Tensor& y) { return neg(slope_of_asin(z, y)); });
    case op::atan:
      return inverse(
          "atan", z(0), quarter_turn<atanh_parts>,
          [](const Tensor& z, const Tensor&) { return add(square(z), Scalar(1)); }, By::Reciprocal);
    case op::asinh:
      return inverse("asinh", z(0), asinh_parts, [](const Tensor& z, const Tensor&) {
        return one_over(root(add(square(z), Scalar(1))));
      });
    case op::acosh:
      return inverse("acosh", z(0), acosh_parts, [](const Tensor& z, const Tensor&) {
        return one_over(mul(root(sub(z, Scalar(1))), root(add(z, Scalar(1)))));
      });
    case op::atanh:
      return inverse(
          "atanh", z(0), atanh_parts,
          [](const Tensor& z, const Tensor&) { return one_minus_square(z); }, By::Reciprocal);
    case op::sigmoid:
      return one_over(add(exponential(neg(z(0))), Scalar(1)));
    case op::silu:
      return div(z(0), add(exponential(neg(z(0))), Scalar(1)));
    case op::sinc: {
      const Tensor x = times_number(z(0), M_PI), zero = eq(x, Scalar(0.0));
      const Tensor safe = where(zero, ones_like(x), x);
      return where(zero, ones_like(x), div(sine(safe), safe));
    }
    case op::softsign:
      return div(z(0), add(absolute(z(0)), Scalar(1.0)));
    case op::tanhshrink:
      return sub(z(0), hyperbolic_tangent(z(0)));
    case op::logaddexp: {  // the one with the greater real part outside of the logarithm
      const Tensor x = z(0), y = z(1), first = ge(parts(x).re, parts(y).re);
      const Tensor most = where(first, x, y), least = where(first, y, x);
      return add(most, logarithm(add(exponential(sub(least, most)), Scalar(1.0))));
    }
    case op::nan_to_num:
      return over_parts(z(0), [&](const Tensor& t) {
        const Operand part(t);
        return call_row(op::nan_to_num, {&part, 1}, attrs);
      });
    case op::isnan:
      return each([](const Tensor& t) { return isnan(t); }, either);
    case op::isinf:
      return each([](const Tensor& t) { return isinf(t); }, either);
    case op::isfinite:
      return each([](const Tensor& t) { return isfinite(t); },
                  [](const Tensor& x, const Tensor& y) { return logical_and(x, y); });
    case op::add:
      return both([](const Tensor& x, const Tensor& y) { return add(x, y); }, 0, 1);
    case op::add_scaled:
      return add(z(0), scaled(z(1), 0));
    case op::sub:
      return both([](const Tensor& x, const Tensor& y) { return sub(x, y); }, 0, 1);
    case op::mul:
      if (is_pure(operands[1])) return times_real(z(0), pure(1));
      if (is_pure(operands[0])) return times_real(z(1), pure(0));
      return product_of(z(0), z(1));
    case op::div:
      if (is_pure(operands[1])) return as_complex(div(view_as_real(z(0)), unsqueeze(pure(1), -1)));
      return quotient_of(z(0), z(1));
    case op::pow_scalar:
      return power_of_number(z(0), attrs[0].to_double());
    case op::pow:
      if (!operands[1].tensor) return power_of_number(z(0), operands[1].scalar.to_double());
      return power(z(0), z(1));
    case op::where: {
      const Tensor mask = operands[0].tensor
                              ? *operands[0].tensor
                              : scalar_tensor(operands[0].scalar, DType::Bool, device);
      return as_complex(where(unsqueeze(mask, -1), view_as_real(z(1)), view_as_real(z(2))));
    }
    case op::lerp:
      return add(z(0), mul(z(2), sub(z(1), z(0))));
    case op::addcmul:
      return add(z(0), scaled(mul(z(1), z(2)), 0));
    case op::addcdiv:
      return add(z(0), scaled(div(z(1), z(2)), 0));
    case op::eq:
    case op::ne: {
      const Parts a = parts(z(0)), b = parts(z(1));
      return id == op::eq ? logical_and(eq(a.re, b.re), eq(a.im, b.im))
                          : logical_or(ne(a.re, b.re), ne(a.im, b.im));
    }
    case op::logical_not:
      return logical_not(to(z(0), DType::Bool));
    case op::logical_and:
      return logical_and(to(z(0), DType::Bool), to(z(1), DType::Bool));
    case op::logical_or:
      return logical_or(to(z(0), DType::Bool), to(z(1), DType::Bool));
    case op::logical_xor:
      return logical_xor(to(z(0), DType::Bool), to(z(1), DType::Bool));
    default:
      PF_FAIL(DTypeError, name, "got ", common,
              "; expected real numbers: there is no such operation of complex ones; take "
              "pf.view_as_real(), .real or .imag");
  }
}

Tensor complex_product(const Tensor& a, const Tensor& b, const Tensor& bias, bool ta, bool tb,
                       const char* op) {
  const auto dense = [](const Parts& p) { return Parts{contiguous(p.re), contiguous(p.im)}; };
  const Tensor r = product_of_parts(
      dense(parts(a)), dense(parts(b)),
      [&](const Tensor& s, const Tensor& t) { return product(s, t, {}, ta, tb, op); });
  return bias.defined() ? add(r, bias) : r;
}

Tensor complex_prod(const Tensor& z, const std::optional<IntList>& dim, bool keepdim) {
  const int n = z->shape.size();
  if (!dim || dim->empty()) {
    const Tensor one = complex_prod(reshape(z, {-1}), IntList{0}, false);
    return keepdim ? reshape(one, IntList(static_cast<size_t>(n), 1)) : one;
  }
  PF_CHECK(dim->size() == 1, NotSupportedError, "prod", "got ", dim->size(),
           " dimensions of complex numbers; expected one; multiply over one after the other");
  const int d = wrap_dim((*dim)[0], n, "prod");
  if (n == 0) return clone(z);
  Tensor t = z;
  if (t->shape[d] == 0) t = add(sum(t, IntList{d}, true), Scalar(1.0));  // keeps the history
  while (t->shape[d] > 1) {  // halves, and what is left over
    const int64_t size = t->shape[d], half = size / 2;
    Tensor r = mul(narrow(t, d, 0, half), narrow(t, d, half, half));
    t = size % 2 ? cat({r, narrow(t, d, size - 1, 1)}, d) : r;
  }
  return keepdim ? t : select(t, d, 0);
}

namespace {

// Copies where PyTorch has lazy views: nothing is ever conjugated or negated later.
Tensor conj_physical(const Tensor& z) {
  return conj(z);
}
Tensor conj_physical_(Tensor z) {
  return replaced(z, "conj_physical_", [](const Tensor& t) { return conj(t); });
}
Tensor isreal(const Tensor& z) {
  check_defined(z, "isreal");
  if (is_complex(z)) return eq(imag(z), Scalar(0.0));
  return ones(z->shape.vec(), DType::Bool, z->device());
}
Tensor resolved(const Tensor& z) {
  check_defined(z, "resolve_conj");
  return z;
}

const Family kComplex("complex numbers", [](Family& f) {
  f.op(&complex,
       {"complex(Tensor real, Tensor imag) -> Tensor",
        "Complex numbers of their parts (float32 or float64, one shape or broadcast).", kFunction});
  f.op(&polar,
       {"polar(Tensor abs, Tensor angle) -> Tensor",
        "Complex numbers of magnitude and angle (radians): abs * exp(i * angle).", kFunction});
  f.op(&view_as_real, {"view_as_real(Tensor input) -> Tensor",
                       "[..., 2] real numbers of [...] complex ones; a view.", kFunction});
  f.op(&view_as_complex,
       {"view_as_complex(Tensor input) -> Tensor",
        "[...] complex numbers of [..., 2] real ones that lie side by side; a view.", kFunction});
  f.op(&real,
       {"real(Tensor input) -> Tensor",
        "The real part, a view; of real numbers the tensor itself. Also `x.real`.", kFunction});
  f.op(&imag,
       {"imag(Tensor input) -> Tensor", "The imaginary part, a view. Also `x.imag`.", kFunction});
  f.op(&conj, {"conj(Tensor input) -> Tensor",
               "The conjugate, a copy; of real numbers the tensor itself."});
  f.op(&conj_physical, {"conj_physical(Tensor input) -> Tensor", "The same as conj."});
  f.op(&conj_physical_,
       {"conj_physical_(Tensor input) -> Tensor", "In-place conj_physical.", kFunction | kMethod});
  f.op(&isreal,
       {"isreal(Tensor input) -> Tensor",
        "Where the imaginary part is 0; everywhere for real numbers.", kFunction | kMethod, false});
  f.op(&resolved, {"resolve_conj(Tensor input) -> Tensor",
                   "The tensor itself: conjugates are never left for later."});
  f.op(&resolved, {"resolve_neg(Tensor input) -> Tensor",
                   "The tensor itself: negatives are never left for later."});
  f.op(&angle, {"angle(Tensor input) -> Tensor",
                "The angle in radians, -pi to pi; of real numbers 0 or pi."});
});

}  // namespace
}  // namespace ops
}  // namespace pyflame
