#include "pyflame/dtype.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <ostream>
#include <sstream>
#include <string>

namespace pyflame {
namespace {

std::atomic<DType> g_default{DType::Float32};

int rank_of_int(DType t) {
  return info(t).bits;
}

}  // namespace

DType promote(DType a, DType b) {
  if (a == b) return a;
  const Kind ka = info(a).kind, kb = info(b).kind;
  if (ka == Kind::Bool) return b;
  if (kb == Kind::Bool) return a;
  if (ka == Kind::Complex || kb == Kind::Complex) {
    const bool wide = a == DType::Complex128 || b == DType::Complex128 || a == DType::Float64 ||
                      b == DType::Float64;
    return wide ? DType::Complex128 : DType::Complex64;
  }
  if (ka == Kind::Float && kb == Kind::Float) {
    if (info(a).bits != info(b).bits) return info(a).bits > info(b).bits ? a : b;
    return DType::Float32;  // float16 with bfloat16
  }
  if (ka == Kind::Float) return a;
  if (kb == Kind::Float) return b;
  // Two integers. A signed one that is wider holds the unsigned one.
  if (ka != kb && (a == DType::UInt64 || b == DType::UInt64))
    PF_FAIL(DTypeError, "promotion", "got ", a, " and ", b,
            "; no integer dtype holds the values of both; convert one of them with to()");
  if (ka == kb) return rank_of_int(a) > rank_of_int(b) ? a : b;
  const DType s = ka == Kind::Int ? a : b, u = ka == Kind::Int ? b : a;
  if (rank_of_int(s) > rank_of_int(u)) return s;
  switch (rank_of_int(u)) {
    case 8:
      return DType::Int16;
    case 16:
      return DType::Int32;
    default:
      return DType::Int64;
  }
}

DType dtype_from_name(std::string_view n) {
  for (const auto& t : kDTypes)
    if (t.name == n) return t.id;
  struct Alias {
    std::string_view name;
    DType id;
  };
  static constexpr Alias kAliases[] = {
      {"float", DType::Float32}, {"double", DType::Float64}, {"half", DType::Float16},
      {"long", DType::Int64},    {"int", DType::Int32},      {"short", DType::Int16},
  };
  for (const auto& a : kAliases)
    if (a.name == n) return a.id;
  std::string known;
  for (const auto& t : kDTypes) known += (known.empty() ? "" : ", ") + std::string(t.name);
  PF_FAIL(ValueError, "dtype", "got the name '", n, "'; expected one of ", known,
          "; use the full name");
}

std::ostream& operator<<(std::ostream& os, DType t) {
  return os << name(t);
}

DType default_dtype() {
  return g_default.load(std::memory_order_relaxed);
}

void set_default_dtype(DType t) {
  PF_CHECK(is_float(t) && !info(t).storage_only, ValueError, "set_default_dtype", "got ", t,
           "; expected float32, float64, float16 or bfloat16; pass one of these");
  g_default.store(t, std::memory_order_relaxed);
}

namespace {

// The greatest finite number of a float dtype, and whether it has infinities.
struct FloatRange {
  double greatest;
  bool infinite;
};
FloatRange float_range(DType t) {
  switch (t) {
    case DType::Float16:
      return {65504, true};
    case DType::BFloat16:
      return {0x1.fep127, true};
    case DType::Float32:
    case DType::Complex64:
      return {0x1.fffffep127, true};
    case DType::Float8E4M3:
      return {448, false};
    case DType::Float8E5M2:
      return {57344, true};
    case DType::Float8E4M3FNUZ:
      return {240, false};
    case DType::Float8E5M2FNUZ:
      return {57344, false};
    case DType::Float8E8M0:
      return {0x1p127, false};
    default:
      return {std::numeric_limits<double>::max(), true};
  }
}

}  // namespace

double greatest_finite(DType t) {
  return float_range(t).greatest;
}

void check_range(Scalar v, DType t, const char* op, const char* what) {
  if (v.is_bool() || t == DType::Bool) return;
  const double d = v.to_double();
  if (is_float(t) || info(t).kind == Kind::Complex) {
    const FloatRange r = float_range(t);
    const bool good = std::isnan(d) || (std::isinf(d) ? r.infinite : std::fabs(d) <= r.greatest);
    if (good && !(t == DType::Float8E8M0 && d < 0x1p-127)) return;
    if (t == DType::Float8E8M0)
      PF_FAIL(ValueError, op, "got ", d, " as ", what, "; expected one that ", t,
              " holds, 2^-127 to 2^127; scale it");
    PF_FAIL(ValueError, op, "got ", d, " as ", what, "; expected one that ", t, " holds, at most ",
            r.greatest, " in magnitude; choose a wider dtype");
  }
  const bool is_signed = info(t).kind == Kind::Int;
  const int digits = info(t).bits - is_signed;  // of the greatest
  const uint64_t most = ~uint64_t{0} >> (64 - digits);
  bool good;
  if (v.is_float()) {
    const double limit = std::ldexp(1.0, digits);
    good = is_signed ? d >= -limit && (d <= limit - 1 && d < limit)
                     : d >= 0 && d <= limit - 1 && d < limit;
  } else if (v.is_unsigned() || v.i >= 0) {
    good = static_cast<uint64_t>(v.i) <= most;
  } else {
    good = is_signed ? -(v.i + 1) <= static_cast<int64_t>(most)
                     : uint64_t{0} - static_cast<uint64_t>(v.i) <= most;
  }
  if (good) return;
  std::ostringstream given;
  if (v.is_float())
    given << d;
  else if (v.is_unsigned())
    given << static_cast<uint64_t>(v.i);
  else
    given << v.i;
  PF_FAIL(ValueError, op, "got ", given.str(), " as ", what, "; expected one that ", t, " holds, ",
          is_signed ? "-" + std::to_string(most + 1) : std::string("0"), " to ", most,
          "; choose a wider dtype");
}

// ---- 16-bit floats ------------------------------------------------------------------------------

float to_float(bfloat16 v) {
  return std::bit_cast<float>(static_cast<uint32_t>(v.bits) << 16);
}

bfloat16 to_bfloat16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

float to_float(float16 v) {
  const uint32_t sign = static_cast<uint32_t>(v.bits & 0x8000u) << 16;
  const uint32_t exponent = (v.bits >> 10) & 31u, mantissa = v.bits & 0x3ffu;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0));
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

float16 to_float16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return {static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu))};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // >= 65520
  if (magnitude < 0x38800000u) {  // below 2^-14: the sum's last bit is the subnormal's last bit
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    const uint32_t m = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f);
    return {static_cast<uint16_t>(sign | m)};
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return {static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13))};
}

}  // namespace pyflame
