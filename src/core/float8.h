// The five formats of eight-bit floats (storage only), to and from float32. kernels/stored.h says
// the same for devices.
#pragma once

#include <bit>
#include <cstdint>

namespace pyflame {

struct float8_e4m3fn {
  uint8_t bits;
  static constexpr int kMantissa = 3, kBias = 7;
};
struct float8_e5m2 {
  uint8_t bits;
  static constexpr int kMantissa = 2, kBias = 15;
};
// Without infinities and without -0, whose pattern is the only NaN.
struct float8_e4m3fnuz {
  uint8_t bits;
  static constexpr int kMantissa = 3, kBias = 8;
};
struct float8_e5m2fnuz {
  uint8_t bits;
  static constexpr int kMantissa = 2, kBias = 16;
};
// An exponent alone: 2^-127 to 2^127 and NaN.
struct float8_e8m0fnu {
  uint8_t bits;
};

template <class F>
inline constexpr bool kIsFloat8 = false;
template <>
inline constexpr bool kIsFloat8<float8_e4m3fn> = true;
template <>
inline constexpr bool kIsFloat8<float8_e5m2> = true;
template <>
inline constexpr bool kIsFloat8<float8_e4m3fnuz> = true;
template <>
inline constexpr bool kIsFloat8<float8_e5m2fnuz> = true;
template <>
inline constexpr bool kIsFloat8<float8_e8m0fnu> = true;

template <class F>
requires kIsFloat8<F>
constexpr float to_float(F v) {
  constexpr uint32_t kQuietNan = 0x7fc00000u;
  if constexpr (requires { F::kMantissa; }) {
    constexpr int kM = F::kMantissa;
    constexpr bool kUnsignedZero = F::kBias == 1 << (6 - kM);  // the formats named fnuz
    const uint32_t sign = (v.bits & 0x80u) << 24, a = v.bits & 0x7fu;
    if constexpr (kUnsignedZero) {
      if (v.bits == 0x80) return std::bit_cast<float>(kQuietNan);
    } else if constexpr (kM == 3) {
      if (a == 0x7f) return std::bit_cast<float>(sign | kQuietNan);
    } else {
      if (a > 0x7c) return std::bit_cast<float>(sign | kQuietNan);
      if (a == 0x7c) return std::bit_cast<float>(sign | 0x7f800000u);
    }
    if (a >> kM == 0) {  // a * 2^(1 - bias - mantissa)
      const float step = std::bit_cast<float>(static_cast<uint32_t>(128 - F::kBias - kM) << 23);
      return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(a) * step));
    }
    constexpr uint32_t kShift = 23 - kM;
    return std::bit_cast<float>(sign |
                                ((a << kShift) + (static_cast<uint32_t>(127 - F::kBias) << 23)));
  } else {
    const uint32_t e = v.bits;
    return std::bit_cast<float>(e == 255 ? kQuietNan : e ? e << 23 : 0x00400000u);
  }
}

// Rounded to nearest even. What is too large becomes the greatest number (e4m3fn), infinity (e5m2)
// or NaN (the others), as in PyTorch.
template <class F>
requires kIsFloat8<F>
constexpr F to_float8(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x), a = u & 0x7fffffffu;
  const bool nan = a > 0x7f800000u;
  if constexpr (requires { F::kMantissa; }) {
    constexpr int kM = F::kMantissa;
    constexpr bool kUnsignedZero = F::kBias == 1 << (6 - kM);
    constexpr uint32_t kShift = 23 - kM;
    const uint32_t sign = u >> 24 & 0x80u;
    uint32_t code;
    if (a >= uint32_t{128 + 64} << 23) {  // far beyond all of them; infinity and NaN too
      code = 0xff;
    } else if (a < static_cast<uint32_t>(128 - F::kBias) << 23) {
      // Below the normal numbers: a sum's last bit is the last bit of the result.
      constexpr uint32_t kMagic = static_cast<uint32_t>(128 - F::kBias - kM + 23) << 23;
      code =
          std::bit_cast<uint32_t>(std::bit_cast<float>(a) + std::bit_cast<float>(kMagic)) - kMagic;
    } else {
      const uint32_t odd = a >> kShift & 1u;
      code = (a + ((1u << (kShift - 1)) - 1) + odd) >> kShift;
      code -= static_cast<uint32_t>(127 - F::kBias) << kM;
    }
    if constexpr (kUnsignedZero) {
      if (nan || code > 0x7f) return {0x80};
      return {static_cast<uint8_t>(code ? sign | code : 0)};
    } else if constexpr (kM == 3) {
      if (nan) return {static_cast<uint8_t>(sign | 0x7f)};
      return {static_cast<uint8_t>(sign | (code > 0x7e ? 0x7e : code))};
    } else {
      if (nan) return {static_cast<uint8_t>(sign | 0x7f)};
      return {static_cast<uint8_t>(sign | (code > 0x7c ? 0x7c : code))};
    }
  } else {
    // The sign is dropped. Halfway goes up, except below 2^-126.
    if (a >= 0x7f800000u) return {255};
    const uint32_t e = a >> 23, rest = a & 0x7fffffu;
    return {static_cast<uint8_t>(e + (rest > 0x400000u || (rest == 0x400000u && e > 0)))};
  }
}

}  // namespace pyflame
