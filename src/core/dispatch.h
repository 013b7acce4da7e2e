// The C++ types behind the dtype table, and calls by dtype: the only switches over dtypes.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

#include "core/float8.h"
#include "pyflame/dtype.h"

namespace pyflame {

// A stored bool. Memory of others, and of uint8 tensors seen as bool, holds any byte: what is not 0
// is true. (To read such a byte as C++'s bool is undefined.)
struct bool8 {
  uint8_t byte;
  bool8() = default;
  constexpr bool8(bool v) : byte(v) {}
  constexpr operator bool() const { return byte != 0; }
};

// clang-format off
#define PF_ARITHMETIC_TYPES(X) \
  X(Float32, float) X(Float64, double) X(Float16, float16) X(BFloat16, bfloat16) \
  X(Int64, int64_t) X(Int32, int32_t) X(Int16, int16_t) X(Int8, int8_t) \
  X(UInt8, uint8_t) X(Bool, bool8)
#define PF_STORAGE_ONLY_TYPES(X) \
  X(UInt16, uint16_t) X(UInt32, uint32_t) X(UInt64, uint64_t) \
  X(Complex64, std::complex<float>) X(Complex128, std::complex<double>) \
  X(Float8E4M3, float8_e4m3fn) X(Float8E5M2, float8_e5m2) \
  X(Float8E4M3FNUZ, float8_e4m3fnuz) X(Float8E5M2FNUZ, float8_e5m2fnuz) \
  X(Float8E8M0, float8_e8m0fnu)
// clang-format on
#define X(ID, T) \
  static_assert(sizeof(T) * 8 == info(DType::ID).bits && !info(DType::ID).storage_only, #ID);
PF_ARITHMETIC_TYPES(X)
#undef X
#define X(ID, T) \
  static_assert(sizeof(T) * 8 == info(DType::ID).bits && info(DType::ID).storage_only, #ID);
PF_STORAGE_ONLY_TYPES(X)
#undef X

template <class S>
inline constexpr bool kIsHalf = std::is_same_v<S, float16> || std::is_same_v<S, bfloat16>;
template <class S>
inline constexpr bool kIsFloatType = std::is_floating_point_v<S> || kIsHalf<S>;

// What a stored value is calculated in; 16-bit floats widen to float.
template <class S>
using ComputeType =
    std::conditional_t<kIsHalf<S>, float, std::conditional_t<std::is_same_v<S, bool8>, bool, S>>;

#define PF_DISPATCH_CASE(ID, T)  \
  case DType::ID:                \
    fn.template operator()<T>(); \
    return true;

// Calls fn.operator()<S>() with the storage type of an arithmetic dtype; false for the others.
// The lambda may be compiled for another target than this (inside Highway's namespaces).
template <class F>
bool dispatch(DType t, F&& fn) {
  switch (t) {
    PF_ARITHMETIC_TYPES(PF_DISPATCH_CASE)
    default:
      return false;
  }
}
// The same for float64, float32, float16 and bfloat16 only.
template <class F>
bool dispatch_float(DType t, F&& fn) {
  return is_float(t) && dispatch(t, [&fn]<class S>() {
           if constexpr (kIsFloatType<S>) fn.template operator()<S>();
         });
}
// The same for float64 and float32 only.
template <class F>
bool dispatch_wide(DType t, F&& fn) {
  return (t == DType::Float64 || t == DType::Float32) && dispatch(t, [&fn]<class S>() {
           if constexpr (std::is_floating_point_v<S>) fn.template operator()<S>();
         });
}
// The same for int64, int32, int16, int8 and uint8 only.
template <class F>
bool dispatch_integer(DType t, F&& fn) {
  return is_integral(t) && dispatch(t, [&fn]<class S>() {
           if constexpr (!kIsFloatType<S> && !std::is_same_v<S, bool8>) fn.template operator()<S>();
         });
}
// The same for every dtype whose elements are whole bytes.
template <class F>
bool dispatch_stored(DType t, F&& fn) {
  switch (t) {
    PF_ARITHMETIC_TYPES(PF_DISPATCH_CASE)
    PF_STORAGE_ONLY_TYPES(PF_DISPATCH_CASE)
    default:
      return false;
  }
}
#undef PF_DISPATCH_CASE

// Digits of a float dtype (with the leading one) and the exponents of its normal numbers.
struct FloatFormat {
  int digits, lowest, highest;
};
constexpr FloatFormat float_format(DType t) {
  constexpr struct {
    DType id;
    FloatFormat format;
  } kFormats[] = {
      {DType::Float64, {53, -1022, 1023}},
      {DType::Float32, {24, -126, 127}},
      {DType::Float16, {11, -14, 15}},
      {DType::BFloat16, {8, -126, 127}},
  };
  for (const auto& row : kFormats)
    if (row.id == t) return row.format;
  return {};
}

}  // namespace pyflame
