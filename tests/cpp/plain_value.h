// The vocabulary of pointwise rows over a plain double: a reference for dual numbers and symbols.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace pyflame::testing {

struct Plain {
  double v;
  explicit Plain(double x) : v(x) {}
};
struct PlainMask {
  bool v;
};

#define PF_PLAIN1(NAME, EXPR)  \
  inline Plain NAME(Plain a) { \
    const double x = a.v;      \
    return Plain(EXPR);        \
  }
PF_PLAIN1(operator-, -x)
PF_PLAIN1(Sqrt, std::sqrt(x))
PF_PLAIN1(Exp, std::exp(x))
PF_PLAIN1(Expm1, std::expm1(x))
PF_PLAIN1(Exp2, std::exp2(x))
PF_PLAIN1(Log, std::log(x))
PF_PLAIN1(Log1p, std::log1p(x))
PF_PLAIN1(Log2, std::log2(x))
PF_PLAIN1(Log10, std::log10(x))
PF_PLAIN1(Tanh, std::tanh(x))
PF_PLAIN1(Sigmoid, x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)))
PF_PLAIN1(Erf, std::erf(x))
PF_PLAIN1(Erfc, std::erfc(x))
PF_PLAIN1(Sin, std::sin(x))
PF_PLAIN1(Cos, std::cos(x))
PF_PLAIN1(Tan, std::tan(x))
PF_PLAIN1(Asin, std::asin(x))
PF_PLAIN1(Acos, std::acos(x))
PF_PLAIN1(Atan, std::atan(x))
PF_PLAIN1(Sinh, std::sinh(x))
PF_PLAIN1(Cosh, std::cosh(x))
PF_PLAIN1(Asinh, std::asinh(x))
PF_PLAIN1(Acosh, std::acosh(x))
PF_PLAIN1(Atanh, std::atanh(x))
PF_PLAIN1(Lgamma, std::lgamma(x))
PF_PLAIN1(Abs, std::fabs(x))
PF_PLAIN1(Floor, std::floor(x))
PF_PLAIN1(Ceil, std::ceil(x))
PF_PLAIN1(Round, std::nearbyint(x))
PF_PLAIN1(Trunc, std::trunc(x))
PF_PLAIN1(Sign, (x > 0) - (x < 0))
PF_PLAIN1(BitNot, static_cast<double>(~static_cast<int64_t>(x)))
#undef PF_PLAIN1

#define PF_PLAIN2(NAME, EXPR)           \
  inline Plain NAME(Plain a, Plain b) { \
    const double x = a.v, y = b.v;      \
    return Plain(EXPR);                 \
  }
PF_PLAIN2(operator+, x + y)
PF_PLAIN2(operator-, x - y)
PF_PLAIN2(operator*, x* y)
PF_PLAIN2(operator/, x / y)
PF_PLAIN2(Pow, std::pow(x, y))
PF_PLAIN2(Atan2, std::atan2(x, y))
PF_PLAIN2(Fmod, std::fmod(x, y))
PF_PLAIN2(Remainder, x - y * std::floor(x / y))
PF_PLAIN2(FloorDiv, std::floor(x / y))
PF_PLAIN2(Max, x != x || x > y ? x : y)
PF_PLAIN2(Min, x != x || x < y ? x : y)
PF_PLAIN2(CopySign, std::copysign(x, y))
PF_PLAIN2(BitAnd, static_cast<double>(static_cast<int64_t>(x) & static_cast<int64_t>(y)))
PF_PLAIN2(BitOr, static_cast<double>(static_cast<int64_t>(x) | static_cast<int64_t>(y)))
PF_PLAIN2(BitXor, static_cast<double>(static_cast<int64_t>(x) ^ static_cast<int64_t>(y)))
PF_PLAIN2(Shl, static_cast<double>(static_cast<int64_t>(x) << static_cast<int64_t>(y)))
PF_PLAIN2(Shr, static_cast<double>(static_cast<int64_t>(x) >> static_cast<int64_t>(y)))
#undef PF_PLAIN2

inline Plain Fma(Plain a, Plain b, Plain c) {
  return Plain(std::fma(a.v, b.v, c.v));
}

#define PF_PLAIN_CMP(NAME, OP)              \
  inline PlainMask NAME(Plain a, Plain b) { \
    return {a.v OP b.v};                    \
  }
PF_PLAIN_CMP(Lt, <)
PF_PLAIN_CMP(Le, <=)
PF_PLAIN_CMP(Gt, >)
PF_PLAIN_CMP(Ge, >=)
PF_PLAIN_CMP(Eq, ==)
PF_PLAIN_CMP(Ne, !=)
#undef PF_PLAIN_CMP

inline PlainMask And(PlainMask a, PlainMask b) {
  return {a.v && b.v};
}
inline PlainMask Or(PlainMask a, PlainMask b) {
  return {a.v || b.v};
}
inline PlainMask Xor(PlainMask a, PlainMask b) {
  return {a.v != b.v};
}
inline PlainMask Not(PlainMask a) {
  return {!a.v};
}
inline PlainMask IsNan(Plain a) {
  return {std::isnan(a.v)};
}
inline PlainMask IsInf(Plain a) {
  return {std::isinf(a.v)};
}
inline PlainMask IsFinite(Plain a) {
  return {std::isfinite(a.v)};
}
inline Plain Select(PlainMask m, Plain a, Plain b) {
  return m.v ? a : b;
}

#include "table/dual.h"

}  // namespace pyflame::testing
