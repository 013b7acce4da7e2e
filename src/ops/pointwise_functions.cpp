// The C++ functions over rows of the pointwise table, and what PyTorch's names mean beyond one
// row: alpha, rounding modes, bounds that may be missing, special exponents.
#include <cmath>

#include "core/dispatch.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/functions.h"
#include "ops/record.h"
#include "ops/registry.h"
#include "ops/replaced.h"
#include "ops/rows.h"

namespace pyflame {

namespace op = ops::op;
using ops::call_row;
using ops::call_row_into;
using ops::OpId;

// ---- straight from the table --------------------------------------------------------------------

#define X(NAME)                            \
  Tensor NAME(const Tensor& x) {           \
    return call_row(op::NAME, {x});        \
  }                                        \
  Tensor& NAME##_(Tensor& x) {             \
    return call_row_into(op::NAME, x, {}); \
  }
PF_UNARY_FUNCTIONS(X)
#undef X
#define X(NAME)                     \
  Tensor NAME(const Tensor& x) {    \
    return call_row(op::NAME, {x}); \
  }
PF_TEST_FUNCTIONS(X)
#undef X
// CHECK(x, y, name) looks at a number that is the second operand.
#define BINARY(NAME, CHECK)                       \
  Tensor NAME(const Tensor& x, const Tensor& y) { \
    return call_row(op::NAME, {x, y});            \
  }                                               \
  Tensor NAME(const Tensor& x, Scalar y) {        \
    CHECK(x, y, #NAME);                           \
    return call_row(op::NAME, {x, y});            \
  }                                               \
  Tensor NAME(Scalar x, const Tensor& y) {        \
    return call_row(op::NAME, {x, y});            \
  }                                               \
  Tensor& NAME##_(Tensor& x, const Tensor& y) {   \
    return call_row_into(op::NAME, x, {y});       \
  }                                               \
  Tensor& NAME##_(Tensor& x, Scalar y) {          \
    CHECK(x, y, #NAME "_");                       \
    return call_row_into(op::NAME, x, {y});       \
  }
#define ANY_NUMBER(X, Y, NAME) static_cast<void>(0)
#define X(NAME) BINARY(NAME, ANY_NUMBER)
PF_BINARY_FUNCTIONS(X)
#undef X

// ---- sums and signs -----------------------------------------------------------------------------

// With 1 - mask, ~mask was meant.
void ops::refuse_bools(const Operand& x, const Operand& y, const char* op) {
  for (const Operand* o : {&x, &y})
    PF_CHECK(o->tensor ? (*o->tensor)->dtype != DType::Bool : !o->scalar.is_bool(), DTypeError, op,
             "got a bool; expected numbers; invert a mask with ~ or logical_not(), compare masks "
             "with ^ or logical_xor(), or convert with to()");
}

namespace {

void refuse_bool(const Tensor& x, const char* name, const char* instead) {
  PF_CHECK(x->dtype != DType::Bool, DTypeError, name, "got a bool tensor; expected numbers; use ",
           instead, " for bools");
}

bool is_one(Scalar s) {
  return s.to_double() == 1;
}
// What is added for a factor that is taken away. The least int64 has no negative of its own: sums
// of integers wrap, those of floats must not.
Scalar negative(Scalar s, bool of_floats) {
  if (s.is_float() || (of_floats && (s.is_unsigned() || s.i == INT64_MIN))) return -s.to_double();
  return static_cast<int64_t>(uint64_t{0} - static_cast<uint64_t>(s.i));
}

}  // namespace

Tensor neg(const Tensor& x) {
  refuse_bool(x, "neg", "logical_not");
  return call_row(op::neg, {x});
}
Tensor& neg_(Tensor& x) {
  refuse_bool(x, "neg_", "logical_not_");
  return call_row_into(op::neg, x, {});
}
Tensor bitwise_not(const Tensor& x) {
  return call_row(x->dtype == DType::Bool ? op::logical_not : op::bitwise_not, {x});
}
Tensor& bitwise_not_(Tensor& x) {
  return call_row_into(x->dtype == DType::Bool ? op::logical_not : op::bitwise_not, x, {});
}

static Scalar factor_of(const Tensor& x, const Tensor& y, Scalar alpha, const char* op) {
  return is_integral(x->dtype, true) ? ops::factor_for(y->dtype, alpha, op, "alpha") : alpha;
}

Tensor add(const Tensor& x, const Tensor& y, Scalar alpha) {
  alpha = factor_of(x, y, alpha, "add");
  if (is_one(alpha)) return call_row(op::add, {x, y});
  return call_row(op::add_scaled, {x, y}, {alpha});
}
Tensor add(const Tensor& x, Scalar y) {
  return call_row(op::add, {x, y});
}
Tensor& add_(Tensor& x, const Tensor& y, Scalar alpha) {
  alpha = factor_of(x, y, alpha, "add_");
  if (is_one(alpha)) return call_row_into(op::add, x, {y});
  return call_row_into(op::add_scaled, x, {y}, {alpha});
}
Tensor& add_(Tensor& x, Scalar y) {
  return call_row_into(op::add, x, {y});
}

Tensor sub(const Tensor& x, const Tensor& y, Scalar alpha) {
  ops::refuse_bools(x, y, "sub");
  alpha = factor_of(x, y, alpha, "sub");
  if (is_one(alpha)) return call_row(op::sub, {x, y});
  return call_row(op::add_scaled, {x, y},
                  {negative(alpha, !is_integral(x->dtype, true) || !is_integral(y->dtype, true))});
}
Tensor sub(const Tensor& x, Scalar y) {
  ops::refuse_bools(x, y, "sub");
  return call_row(op::sub, {x, y});
}
Tensor& sub_(Tensor& x, const Tensor& y, Scalar alpha) {
  ops::refuse_bools(x, y, "sub_");
  alpha = factor_of(x, y, alpha, "sub_");
  if (is_one(alpha)) return call_row_into(op::sub, x, {y});
  return call_row_into(op::add_scaled, x, {y}, {negative(alpha, !is_integral(x->dtype, true))});
}
Tensor& sub_(Tensor& x, Scalar y) {
  ops::refuse_bools(x, y, "sub_");
  return call_row_into(op::sub, x, {y});
}
Tensor rsub(const Tensor& x, Scalar s) {
  ops::refuse_bools(x, s, "rsub");
  return call_row(op::sub, {s, x});
}
Tensor rdiv(const Tensor& x, Scalar s) {
  return call_row(op::div, {s, x});
}

// ---- division -----------------------------------------------------------------------------------

namespace {

void refuse_zero(const Tensor& x, Scalar divisor, const char* name) {
  if (is_integral(x->dtype, true) && !divisor.is_float())
    PF_CHECK(divisor.i != 0, ValueError, name,
             "got the divisor 0 for integers; expected another number; convert the tensor to a "
             "float dtype if inf or NaN is wanted");
}

}  // namespace

BINARY(floor_divide, refuse_zero)
BINARY(remainder, refuse_zero)
BINARY(fmod, refuse_zero)
#undef BINARY
#undef ANY_NUMBER

Tensor div(const Tensor& x, const Tensor& y, const std::string& rounding_mode) {
  if (rounding_mode == "none") return div(x, y);
  if (rounding_mode == "floor") return floor_divide(x, y);
  PF_CHECK(rounding_mode == "trunc", ValueError, "div", "got rounding_mode='", rounding_mode,
           "'; expected None, 'trunc' or 'floor'");
  const engine::Operand both[] = {x, y};
  if (is_float(ops::result_type(both))) return trunc(div(x, y));
  return floor_divide(ops::difference(x, fmod(x, y)), y);
}

// ---- powers -------------------------------------------------------------------------------------

Tensor pow(const Tensor& x, const Tensor& y) {
  return call_row(op::pow, {x, y});
}
Tensor pow(Scalar x, const Tensor& y) {
  return call_row(op::pow, {x, y});
}
Tensor& pow_(Tensor& x, const Tensor& y) {
  return call_row_into(op::pow, x, {y});
}

namespace {

// Exponents that have a row of their own; nothing else gives other bits than the row for any.
OpId power_row(const Tensor& x, Scalar e) {
  const double v = e.to_double();
  if (v == 2) return op::square;
  if (v == 3) return op::cube;
  if (!has_gradient(x->dtype)) return op::pow_scalar;
  if (v == 0.5) return op::sqrt;
  if (v == -0.5) return op::rsqrt;
  if (v == -1) return op::reciprocal;
  return op::pow_scalar;
}

// The dtype that a power of `x` is computed in; integers refuse negative integer exponents.
DType power_type(const Tensor& x, Scalar e, const char* name) {
  const engine::Operand both[] = {x, e};
  const DType t = ops::result_type(both);
  if (!has_gradient(t))
    PF_CHECK(e.is_unsigned() || e.i >= 0, ValueError, name, "got the negative exponent ", e.i,
             " for integers; expected 0 or more; convert the tensor to a float dtype first");
  return t;
}

}  // namespace

Tensor pow(const Tensor& x, Scalar e) {
  PF_AUTOCAST("pow", RaiseElseFollow, pow, x, e);
  const Tensor base = to(x, power_type(x, e, "pow"));
  const OpId row = power_row(base, e);
  if (row == op::pow_scalar) return call_row(row, {base}, {e});
  return call_row(row, {base});
}

Tensor& pow_(Tensor& x, Scalar e) {
  if (power_type(x, e, "pow_") != x->dtype) return call_row_into(op::pow, x, {e});
  const OpId row = power_row(x, e);
  if (row == op::pow_scalar) return call_row_into(row, x, {}, {e});
  return call_row_into(row, x, {});
}

// ---- rounding and special values ----------------------------------------------------------------

Tensor round(const Tensor& x, int64_t decimals) {
  if (decimals == 0 || !is_float(x->dtype)) return round(x);
  const double factor = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  const Tensor w = ops::widened(x);  // what is scaled neither overflows nor rounds in 16 bits
  return to(decimals > 0 ? div(round(mul(w, factor)), factor) : mul(round(div(w, factor)), factor),
            x->dtype);
}

namespace {

double largest(DType t) {
  const FloatFormat f = float_format(is_float(t) ? t : DType::Float32);
  return std::ldexp(2 - std::ldexp(1.0, 1 - f.digits), f.highest);
}

}  // namespace

Tensor nan_to_num(const Tensor& x, std::optional<double> nan, std::optional<double> posinf,
                  std::optional<double> neginf) {
  const double most = largest(x->dtype);
  return call_row(op::nan_to_num, {x},
                  {nan.value_or(0.0), posinf.value_or(most), neginf.value_or(-most)});
}

Tensor& nan_to_num_(Tensor& x, std::optional<double> nan, std::optional<double> posinf,
                    std::optional<double> neginf) {
  const double most = largest(x->dtype);
  return call_row_into(op::nan_to_num, x, {},
                       {nan.value_or(0.0), posinf.value_or(most), neginf.value_or(-most)});
}

Tensor isclose(const Tensor& x, const Tensor& y, double rtol, double atol, bool equal_nan) {
  if (is_complex(x) || is_complex(y)) {
    PF_CHECK(rtol >= 0 && atol >= 0, ValueError, "isclose", "got rtol ", rtol, " and atol ", atol,
             "; expected at least 0; pass their magnitudes");
    const Tensor near = le(abs(sub(x, y)), add(mul(abs(y), Scalar(rtol)), Scalar(atol)));
    const Tensor same = logical_or(eq(x, y), logical_and(near, isfinite(y)));
    return equal_nan ? logical_or(same, logical_and(isnan(x), isnan(y))) : same;
  }
  return call_row(op::isclose, {x, y}, {rtol, atol, equal_nan ? 1.0 : 0.0});
}

// ---- activations with attributes ----------------------------------------------------------------

Tensor leaky_relu(const Tensor& x, Scalar slope) {
  return call_row(op::leaky_relu, {x}, {slope});
}
Tensor elu(const Tensor& x, Scalar alpha) {
  return call_row(op::elu, {x}, {alpha});
}
Tensor celu(const Tensor& x, Scalar alpha) {
  return call_row(op::celu, {x}, {alpha});
}
namespace {
OpId gelu_row(const std::string& approximate) {
  PF_CHECK(approximate == "none" || approximate == "tanh", ValueError, "gelu", "got approximate='",
           approximate, "'; expected 'none' or 'tanh'");
  return approximate == "tanh" ? op::gelu_tanh : op::gelu;
}
}  // namespace
Tensor gelu(const Tensor& x, const std::string& approximate) {
  return call_row(gelu_row(approximate), {x});
}
Tensor& gelu_(Tensor& x, const std::string& approximate) {
  return call_row_into(gelu_row(approximate), x, {});
}
Tensor softplus(const Tensor& x, Scalar beta, Scalar threshold) {
  return call_row(op::softplus, {x}, {beta, threshold});
}
Tensor hardtanh(const Tensor& x, Scalar low, Scalar high) {
  return call_row(op::hardtanh, {x}, {low, high});
}
Tensor softshrink(const Tensor& x, Scalar lambd) {
  return call_row(op::softshrink, {x}, {lambd});
}
Tensor hardshrink(const Tensor& x, Scalar lambd) {
  return call_row(op::hardshrink, {x}, {lambd});
}
Tensor threshold(const Tensor& x, Scalar threshold, Scalar value) {
  return call_row(op::threshold, {x}, {threshold, value});
}
Tensor prelu(const Tensor& x, const Tensor& weight) {
  PF_AUTOCAST("prelu", Lower, prelu, x, weight);
  Tensor w = weight;
  if (w->numel == 1) {
    w = reshape(w, {});
  } else {
    const int64_t channels = x->shape.size() > 1 ? x->shape[1] : 1;
    PF_CHECK(w->shape.size() == 1 && w->numel == channels, ShapeError, "prelu", "got ",
             weight->shape, " slopes for an input of shape ", x->shape,
             "; expected one, or one for each of its ", channels, " channels (dimension 1)");
    IntList shape(static_cast<size_t>(x->shape.size()), 1);
    shape[1] = channels;
    w = reshape(w, shape);
  }
  return call_row(op::prelu, {x, w});
}

// ---- three operands -----------------------------------------------------------------------------

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& w) {
  return call_row(op::lerp, {a, b, w});
}
Tensor lerp(const Tensor& a, const Tensor& b, Scalar w) {
  return call_row(op::lerp, {a, b, w});
}
Tensor addcmul(const Tensor& x, const Tensor& y, const Tensor& z, Scalar value) {
  return call_row(op::addcmul, {x, y, z}, {value});
}
Tensor addcdiv(const Tensor& x, const Tensor& y, const Tensor& z, Scalar value) {
  return call_row(op::addcdiv, {x, y, z}, {value});
}

Tensor where(const Tensor& c, const Tensor& x, const Tensor& y) {
  return call_row(op::where, {c, x, y});
}
Tensor where(const Tensor& c, const Tensor& x, Scalar y) {
  return call_row(op::where, {c, x, y});
}
Tensor where(const Tensor& c, Scalar x, const Tensor& y) {
  return call_row(op::where, {c, x, y});
}
Tensor where(const Tensor& c, Scalar x, Scalar y) {
  return call_row(op::where, {c, x, y});
}

static void check_bounds(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high,
                         const char* op) {
  if (!is_float(x->dtype)) return;  // their bounds are checked with the dtype of the result
  if (low) check_range(*low, x->dtype, op, "min");
  if (high) check_range(*high, x->dtype, op, "max");
}
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  PF_CHECK(low || high, ValueError, "clamp", "got neither min nor max; expected at least one");
  check_bounds(x, low, high, "clamp");
  if (!low) return call_row(op::clamp_max, {x}, {*high});
  if (!high) return call_row(op::clamp_min, {x}, {*low});
  return call_row(op::clamp, {x}, {*low, *high});
}
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  PF_CHECK(low.defined() || high.defined(), ValueError, "clamp",
           "got neither min nor max; expected at least one");
  if (!low.defined()) return call_row(op::clamp_max_tensor, {x, high});
  if (!high.defined()) return call_row(op::clamp_min_tensor, {x, low});
  return call_row(op::clamp_tensor, {x, low, high});
}
Tensor& clamp_(Tensor& x, const Tensor& low, const Tensor& high) {
  PF_CHECK(low.defined() || high.defined(), ValueError, "clamp_",
           "got neither min nor max; expected at least one");
  if (!low.defined()) return call_row_into(op::clamp_max_tensor, x, {high});
  if (!high.defined()) return call_row_into(op::clamp_min_tensor, x, {low});
  return call_row_into(op::clamp_tensor, x, {low, high});
}
Tensor& clamp_(Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  PF_CHECK(low || high, ValueError, "clamp_", "got neither min nor max; expected at least one");
  check_bounds(x, low, high, "clamp_");
  if (!low) return call_row_into(op::clamp_max, x, {}, {*high});
  if (!high) return call_row_into(op::clamp_min, x, {}, {*low});
  return call_row_into(op::clamp, x, {}, {*low, *high});
}

namespace {

// A fill value takes the dtype of the tensor: a fraction is cut, as in `fill_`.
Scalar fill_value(const Tensor& x, Scalar v, const char* name) {
  check_range(v, x->dtype, name, "the value");
  if (!is_integral(x->dtype, true)) return v.to_double();
  return x->dtype == DType::Bool ? Scalar(v.to_double() != 0)
         : v.is_float()          ? Scalar(v.to_int())
                                 : v;
}

}  // namespace

Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value) {
  return call_row(op::where, {mask, fill_value(x, value, "masked_fill"), x});
}
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value) {
  PF_CHECK(value->shape.empty(), ShapeError, "masked_fill", "got a value of shape ", value->shape,
           "; expected a number or a 0-d tensor; use where() for more");
  ops::check_fits(x, value, "masked_fill");
  return call_row(op::where, {mask, to(value, x->dtype), x});
}
Tensor& masked_fill_(Tensor& x, const Tensor& mask, Scalar value) {
  return copy_(x, masked_fill(x, mask, fill_value(x, value, "masked_fill_")));
}

namespace {

Tensor ldexp(const Tensor& x, const Tensor& exponent) {
  ops::check_defined(x, "ldexp");
  ops::check_defined(exponent, "ldexp");
  // Integers are exponents of the other's dtype; two floats are promoted.
  const bool follow = is_float(x->dtype) && !is_float(exponent->dtype);
  return mul(x, exp2(follow ? to(exponent, x->dtype) : exponent));
}

Tensor ldexp_(Tensor t, const Tensor& exponent) {
  return ops::replaced(t, "ldexp_", [&](const Tensor& x) {
    return ldexp(autograd::wanted({exponent}) ? clone(x) : x, exponent);  // whose gradient reads it
  });
}

const ops::Family kPowers("math", [](ops::Family& f) {
  f.op(&ldexp, {"ldexp(Tensor input, Tensor other) -> Tensor", "input * 2^other."});
  f.op(&ldexp_, {"ldexp_(Tensor input, Tensor other) -> Tensor", "In-place ldexp."});
});

}  // namespace

}  // namespace pyflame
