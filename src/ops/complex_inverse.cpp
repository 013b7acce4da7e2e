// Inverse trigonometric and hyperbolic functions of complex numbers, by W. Kahan's formulas:
// products of square roots, which keep the signs of zeros on branch cuts and lose no digits near 1,
// and logarithms where a square would overflow. Infinities and NaN give what annex G of C99 says.
#include "ops/complex_inverse.h"

#include <cmath>
#include <limits>

#include "ops/functions.h"

namespace pyflame::ops {

namespace {

// Beyond it a square root of a sum of squares is taken of halves.
double large(const Tensor& re) {
  return (re->dtype == DType::Float64 ? std::numeric_limits<double>::max()
                                      : std::numeric_limits<float>::max()) /
         4;
}
Tensor beyond(const Parts& z, double limit) {
  return logical_or(gt(abs(z.re), Scalar(limit)), gt(abs(z.im), Scalar(limit)));
}
// log |2 z| without overflow.
Tensor log_of_twice(const Parts& z) {
  const Tensor half = hypot(mul(z.re, Scalar(0.5)), mul(z.im, Scalar(0.5)));
  return add(log(half), Scalar(2 * M_LN2));
}
Tensor twice(const Tensor& x) {
  return mul(x, Scalar(2.0));
}

}  // namespace

Parts root_parts(const Parts& z) {
  // The larger part first, the other by a quotient that loses nothing.
  const Tensor x = mul(abs(z.re), Scalar(0.5)), y = mul(abs(z.im), Scalar(0.5));
  const Tensor large = sqrt(add(x, hypot(x, y)));
  const Tensor small = where(eq(large, Scalar(0.0)), Scalar(0.0), div(y, large));
  const Tensor right = ge(z.re, Scalar(0.0)), vast = isinf(z.im);
  const Tensor re = where(right, large, small), im = where(right, small, large);
  return {where(vast, y, re), copysign(where(vast, y, im), z.im)};
}

Parts asinh_parts(const Parts& z) {
  const Tensor far = beyond(z, large(z.re)), one = add(neg(z.im), Scalar(1.0));
  const Parts a = root_parts({add(z.im, Scalar(1.0)), neg(z.re)}), b = root_parts({one, z.re});
  const Tensor re = asinh(sub(mul(a.re, b.im), mul(b.re, a.im)));
  const Tensor im = atan2(z.im, sub(mul(a.re, b.re), mul(a.im, b.im)));
  const Tensor lost = logical_and(isnan(z.re), eq(z.im, Scalar(0.0)));
  return {where(far, copysign(log_of_twice(z), z.re), re),
          where(lost, z.im, where(far, atan2(z.im, abs(z.re)), im))};
}

Parts acos_parts(const Parts& z) {
  const Tensor far = beyond(z, large(z.re));
  const Parts a = root_parts({add(neg(z.re), Scalar(1.0)), neg(z.im)}),
              b = root_parts({add(z.re, Scalar(1.0)), z.im});
  const Tensor re = twice(atan2(a.re, b.re));
  const Tensor im = asinh(sub(mul(b.re, a.im), mul(b.im, a.re)));
  const Tensor axis = logical_and(eq(z.re, Scalar(0.0)), isnan(z.im));
  return {where(axis, Scalar(M_PI / 2), where(far, atan2(abs(z.im), z.re), re)),
          where(far, neg(copysign(log_of_twice(z), z.im)), im)};
}

Parts acosh_parts(const Parts& z) {
  const Tensor far = beyond(z, large(z.re));
  const Parts a = root_parts({sub(z.re, Scalar(1.0)), z.im}),
              b = root_parts({add(z.re, Scalar(1.0)), z.im});
  const Tensor re = asinh(add(mul(a.re, b.re), mul(a.im, b.im)));
  const Tensor im = twice(atan2(a.im, b.re));
  const Tensor axis = logical_and(eq(z.re, Scalar(0.0)), isnan(z.im));
  return {where(far, log_of_twice(z), re),
          where(axis, Scalar(M_PI / 2), where(far, atan2(z.im, z.re), im))};
}

Parts atanh_parts(const Parts& z) {
  // Of the right half plane, and odd.
  const Tensor x = abs(z.re), y = copysign(ones_like(z.re), z.re);
  const Tensor im = mul(z.im, y), size = abs(im);
  const bool wide = z.re->dtype == DType::Float64;
  const double most = std::sqrt(large(z.re));
  const double least = std::sqrt(wide ? std::numeric_limits<double>::min()
                                      : static_cast<double>(std::numeric_limits<float>::min()));
  const Tensor far = beyond({x, size}, most);
  const Tensor half = hypot(mul(x, Scalar(0.5)), mul(size, Scalar(0.5)));
  const Tensor outside =
      where(isinf(half), Scalar(0.0), div(div(mul(x, Scalar(0.25)), half), half));
  const Tensor rest = add(neg(x), Scalar(1.0));
  const Tensor inside =
      mul(log1p(div(mul(x, Scalar(4.0)), add(square(rest), square(size)))), Scalar(0.25));
  const Tensor pole = logical_and(eq(x, Scalar(1.0)), lt(size, Scalar(least)));
  const Tensor near = mul(add(neg(log(size)), Scalar(M_LN2)), Scalar(0.5));
  const Tensor re = where(eq(x, Scalar(0.0)), x, where(far, outside, where(pole, near, inside)));
  const Tensor turn = atan2(twice(im), sub(mul(rest, add(x, Scalar(1.0))), square(size)));
  const Tensor lost = logical_or(isnan(im), logical_and(isnan(x), isfinite(im)));
  const Tensor angle =
      where(lost, Scalar(NAN),
            where(far, mul(copysign(ones_like(im), im), Scalar(M_PI / 2)), mul(turn, Scalar(0.5))));
  return {mul(re, y), mul(angle, y)};
}

}  // namespace pyflame::ops
