// The dtype table. It is open: a new dtype is one row here, and no other file switches over dtypes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>

#include "pyflame/error.h"

namespace pyflame {

enum class Kind : uint8_t { Bool, UInt, Int, Float, Complex };
// clang-format off
//    id          name        bits kind     compute  storage-only safetensors typestr
#define PF_DTYPES(X)                                                                      \
  X(Float32,      "float32",    32, Float,   Float32, false, "F32",     "f4")             \
  X(Float64,      "float64",    64, Float,   Float64, false, "F64",     "f8")             \
  X(Float16,      "float16",    16, Float,   Float32, false, "F16",     "f2")             \
  X(BFloat16,     "bfloat16",   16, Float,   Float32, false, "BF16",    "")               \
  X(Int64,        "int64",      64, Int,     Int64,   false, "I64",     "i8")             \
  X(Int32,        "int32",      32, Int,     Int32,   false, "I32",     "i4")             \
  X(Int16,        "int16",      16, Int,     Int32,   false, "I16",     "i2")             \
  X(Int8,         "int8",        8, Int,     Int32,   false, "I8",      "i1")             \
  X(UInt8,        "uint8",       8, UInt,    Int32,   false, "U8",      "u1")             \
  X(Bool,         "bool",        8, Bool,    Bool,    false, "BOOL",    "b1")             \
  X(UInt16,       "uint16",     16, UInt,    Int32,   true,  "U16",     "u2")             \
  X(UInt32,       "uint32",     32, UInt,    Int64,   true,  "U32",     "u4")             \
  X(UInt64,       "uint64",     64, UInt,    Int64,   true,  "U64",     "u8")             \
  X(Complex64,    "complex64",  64, Complex, Complex64,  true, "C64",   "c8")             \
  X(Complex128,   "complex128",128, Complex, Complex128, true, "C128",  "c16")            \
  X(Float8E4M3,   "float8_e4m3fn", 8, Float, Float32, true,  "F8_E4M3", "")               \
  X(Float8E5M2,   "float8_e5m2",   8, Float, Float32, true,  "F8_E5M2", "")               \
  X(Float8E4M3FNUZ, "float8_e4m3fnuz", 8, Float, Float32, true, "F8_E4M3FNUZ", "")        \
  X(Float8E5M2FNUZ, "float8_e5m2fnuz", 8, Float, Float32, true, "F8_E5M2FNUZ", "")        \
  X(Float8E8M0, "float8_e8m0fnu",  8, Float, Float32, true,  "F8_E8M0", "")               \
  X(Int4,         "int4",        4, Int,     Int32,   true,  "I4",      "")
// clang-format on
enum class DType : uint8_t {
#define X(ID, ...) ID,
  PF_DTYPES(X)
#undef X
};

struct DTypeInfo {
  DType id;
  std::string_view name;
  int bits;
  Kind kind;
  DType compute;      // the type in which a value of this dtype is calculated with
  bool storage_only;  // storage, copy, cast and files work; arithmetic does not
  std::string_view safetensors;
  std::string_view typestr;  // array-interface letters without byte order; empty if NumPy has none
};

inline constexpr DTypeInfo kDTypes[] = {
#define X(ID, NAME, BITS, KIND, COMPUTE, STORAGE_ONLY, ST, TS) \
  {DType::ID, NAME, BITS, Kind::KIND, DType::COMPUTE, STORAGE_ONLY, ST, TS},
    PF_DTYPES(X)
#undef X
};
inline constexpr int kNumDTypes = sizeof(kDTypes) / sizeof(kDTypes[0]);

constexpr const DTypeInfo& info(DType t) {
  return kDTypes[static_cast<int>(t)];
}
constexpr size_t itemsize(DType t) {
  return static_cast<size_t>(info(t).bits + 7) / 8;
}
// Bytes that n elements take; sub-byte dtypes are packed.
constexpr size_t nbytes(DType t, int64_t n) {
  return (static_cast<size_t>(n) * static_cast<size_t>(info(t).bits) + 7) / 8;
}
constexpr std::string_view name(DType t) {
  return info(t).name;
}
constexpr bool is_float(DType t) {
  return info(t).kind == Kind::Float;
}
// Tensors that may require a gradient.
constexpr bool has_gradient(DType t) {
  return info(t).kind == Kind::Float || info(t).kind == Kind::Complex;
}
constexpr bool is_integral(DType t, bool include_bool = false) {
  Kind k = info(t).kind;
  return k == Kind::Int || k == Kind::UInt || (include_bool && k == Kind::Bool);
}
constexpr DType compute_type(DType t) {
  return info(t).compute;
}

// PyTorch's promotion of two dtypes of the same category of operand (both dimensioned). DTypeError
// for uint64 and a signed integer dtype, which no integer dtype holds.
DType promote(DType a, DType b);
DType dtype_from_name(std::string_view name);  // ValueError when unknown
std::ostream& operator<<(std::ostream&, DType);

// The dtype of `pf.tensor(1.5)`, `pf.randn(...)`: float32 unless changed; float dtypes only.
DType default_dtype();
void set_default_dtype(DType);

// A number from outside: a Python scalar, a fill value, a clamp bound. Keeps integers exact.
struct Scalar {
  // UInt: an integer of 2^63 or more, whose bits `i` holds. Smaller ones are Int.
  enum class Tag : uint8_t { Float, Int, Bool, UInt };
  union {
    double f;
    int64_t i;
  };
  Tag tag;

  constexpr Scalar() : i(0), tag(Tag::Int) {}
  constexpr Scalar(double v) : f(v), tag(Tag::Float) {}
  constexpr Scalar(float v) : f(v), tag(Tag::Float) {}
  constexpr Scalar(int64_t v) : i(v), tag(Tag::Int) {}
  constexpr Scalar(int v) : i(v), tag(Tag::Int) {}
  constexpr Scalar(bool v) : i(v), tag(Tag::Bool) {}

  static constexpr Scalar of_unsigned(uint64_t v) {
    Scalar s(static_cast<int64_t>(v));
    if (v >> 63) s.tag = Tag::UInt;
    return s;
  }

  constexpr bool is_float() const { return tag == Tag::Float; }
  constexpr bool is_bool() const { return tag == Tag::Bool; }
  constexpr bool is_unsigned() const { return tag == Tag::UInt; }
  constexpr double to_double() const {
    return is_float()      ? f
           : is_unsigned() ? static_cast<double>(static_cast<uint64_t>(i))
                           : static_cast<double>(i);
  }
  // Truncated; a float beyond int64 gives its smallest, as conversions of tensors do.
  constexpr int64_t to_int() const {
    if (!is_float()) return i;
    return f >= -0x1p63 && f < 0x1p63 ? static_cast<int64_t>(f) : INT64_MIN;
  }
};
// ValueError unless `v` has a place in `t`: an integer or float within the range of the dtype, for
// a float dtype also inf and NaN that it can hold. To unsigned dtypes numbers down to the negative
// of their greatest wrap, as in PyTorch. `what`: "fill_value", "the value", ...
void check_range(Scalar v, DType t, const char* op, const char* what = "the number");
double greatest_finite(DType);  // of a float dtype

// Storage types of the two 16-bit floats; arithmetic on them is done in float32.
struct bfloat16 {
  uint16_t bits;
};
struct float16 {
  uint16_t bits;
};
float to_float(bfloat16);
float to_float(float16);
bfloat16 to_bfloat16(float);  // round to nearest even; NaN stays NaN
float16 to_float16(float);

}  // namespace pyflame
