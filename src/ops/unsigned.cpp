#include "ops/unsigned.h"

#include <algorithm>

#include "ops/building_blocks.h"
#include "ops/record.h"

namespace pyflame::ops {
namespace {

// The same bytes in a dtype as wide.
Tensor seen_as(const Tensor& t, DType type) {
  Tensor r = raw_view(t, geometry_of(t));
  r->dtype = type;
  return r;
}
DType signed_type(DType t) {
  return t == DType::UInt16 ? DType::Int16 : t == DType::UInt32 ? DType::Int32 : DType::Int64;
}

// How a row of uint64 is calculated.
enum class How : uint8_t { Bits, Order, Own, Not };
constexpr OpId kBits[] = {op::neg,         op::square,     op::cube,        op::add,
                          op::add_scaled,  op::sub,        op::mul,         op::addcmul,
                          op::where,       op::eq,         op::ne,          op::bitwise_not,
                          op::bitwise_and, op::bitwise_or, op::bitwise_xor, op::bitwise_left_shift};
constexpr OpId kOrder[] = {op::lt,
                           op::le,
                           op::gt,
                           op::ge,
                           op::maximum,
                           op::minimum,
                           op::fmax,
                           op::fmin,
                           op::clamp,
                           op::clamp_min,
                           op::clamp_max,
                           op::clamp_tensor,
                           op::clamp_min_tensor,
                           op::clamp_max_tensor};
constexpr OpId kOwn[] = {op::abs,  op::relu, op::sign,       op::floor_divide,       op::remainder,
                         op::fmod, op::pow,  op::pow_scalar, op::bitwise_right_shift};
How how(OpId id) {
  const auto among = [&](const auto& list) {
    return std::ranges::find(list, id) != std::end(list);
  };
  return among(kBits) ? How::Bits : among(kOrder) ? How::Order : among(kOwn) ? How::Own : How::Not;
}

const Scalar kLeast(INT64_MIN), kMost(INT64_MAX);

Tensor shifted_right(const Tensor& x, const Tensor& n) {  // zeros come in
  const Tensor by_one = bitwise_and(bitwise_right_shift(x, Scalar(1)), kMost);
  const Tensor far = bitwise_or(lt(n, Scalar(0)), gt(n, Scalar(63)));
  const Tensor shifted = bitwise_right_shift(by_one, sub(n, Scalar(1)));
  return where(eq(n, Scalar(0)), x, where(far, Scalar(0), shifted));
}

// 0 of a divisor that is 0, as of the other integers.
Tensor quotient(const Tensor& x, const Tensor& y) {
  const Tensor half = bitwise_and(bitwise_right_shift(x, Scalar(1)), kMost);
  const Tensor q = mul(floor_divide(half, y), Scalar(2));  // at most one too small
  const auto below = [](const Tensor& a, const Tensor& b) {
    return lt(bitwise_xor(a, kLeast), bitwise_xor(b, kLeast));
  };
  const Tensor rest = where(lt(y, Scalar(0)), x, sub(x, mul(q, y)));
  const Tensor one = where(below(rest, y), Scalar(0), Scalar(1));
  return where(eq(y, Scalar(0)), Scalar(0), where(lt(y, Scalar(0)), one, add(q, one)));
}

// The powers of an odd number come again after 2^62 at the latest, those of an even one are 0 from
// the 64th on: so the exponent's highest bit counts for the even ones alone.
Tensor power(const Tensor& x, const Tensor& n) {
  const Tensor even = eq(bitwise_and(x, Scalar(1)), Scalar(0));
  return where(bitwise_and(even, lt(n, Scalar(0))), Scalar(0), pow(x, bitwise_and(n, kMost)));
}

Tensor own(OpId id, const Tensor& x, const Tensor& y) {
  switch (id) {
    case op::sign:
      return to(ne(x, Scalar(0)), DType::Int64);
    case op::floor_divide:
      return quotient(x, y);
    case op::remainder:
    case op::fmod:
      return where(eq(y, Scalar(0)), Scalar(0), sub(x, mul(quotient(x, y), y)));
    case op::pow:
    case op::pow_scalar:
      return power(x, y);
    case op::bitwise_right_shift:
      return shifted_right(x, y);
    default:
      return clone(x);  // abs, relu
  }
}

}  // namespace

Tensor whole(const Tensor& t) {
  if (!is_wide_unsigned(t)) return t;
  const Tensor bits = seen_as(t, signed_type(t->dtype));
  if (t->dtype == DType::UInt64) return bits;
  return bitwise_and(to(bits, compute_type(t->dtype)),
                     Scalar((int64_t{1} << info(t->dtype).bits) - 1));
}

Tensor ordered(const Tensor& t) {
  const Tensor w = whole(t);
  return t->dtype == DType::UInt64 ? bitwise_xor(w, kLeast) : w;
}

Tensor from_whole(const Tensor& t, DType type) {
  return is_wide_unsigned(type) ? seen_as(to(t, signed_type(type)), type) : to(t, type);
}

Tensor from_ordered(const Tensor& t, DType type) {
  return from_whole(type == DType::UInt64 ? bitwise_xor(t, kLeast) : t, type);
}

Tensor unsigned_row(OpId id, std::span<const Operand> operands, std::span<const Scalar> attrs,
                    DType type, const char* name) {
  const How mode = type == DType::UInt64 ? how(id) : How::Bits;
  PF_CHECK(mode != How::Not, DTypeError, name,
           "got uint64; expected a dtype in which it is calculated; convert with .to(dtype)");
  const auto number = [&](Scalar s) {
    if (type != DType::UInt64 || s.is_float()) return s;
    return Scalar(mode == How::Order ? s.i ^ INT64_MIN : s.i);
  };
  Tensor held[4];
  Operand all[4] = {Scalar(), Scalar(), Scalar(), Scalar()};
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].tensor) {
      all[i] = number(operands[i].scalar);
      continue;
    }
    const Tensor& t = *operands[i].tensor;
    held[i] = mode == How::Order ? ordered(t) : whole(t);
    all[i] = Operand(held[i]);
  }
  Tensor r;
  if (mode == How::Own) {
    const Tensor& like = held[0].defined() ? held[0] : held[1];
    const auto tensor = [&](size_t i) {
      if (held[i].defined() || i >= operands.size() + attrs.size()) return held[i];
      const Scalar s = i < operands.size() ? all[i].scalar : attrs[i - operands.size()];
      return raw_full({}, DType::Int64, like->device(), Scalar(s.to_int()));
    };
    r = own(id, tensor(0), tensor(1));
  } else {
    Scalar numbers[4];
    // A lowest bound below 0 is no bound.
    std::transform(attrs.begin(), attrs.end(), numbers, [&](Scalar s) {
      return number(mode == How::Order && !s.is_unsigned() && s.i < 0 ? Scalar(0) : s);
    });
    r = call_row(id, {all, operands.size()}, {numbers, attrs.size()});
  }
  if (r->dtype == DType::Bool) return r;
  return mode == How::Order ? from_ordered(r, type) : from_whole(r, type);
}

}  // namespace pyflame::ops
