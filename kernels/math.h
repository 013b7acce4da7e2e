// The micro-operations of pointwise expressions over float, double, int and 64-bit int: the
// algorithms, coefficients and order of operations of the CPU's vectors (cpu/lanes-inl.h and
// cpu/vmath-inl.h), so that both give the same bits; where the CPU asks the C library (rare
// functions of doubles, huge angles) the results agree to a few units in the last place.
#ifndef PF_MATH_H
#define PF_MATH_H

#include "prelude.h"

// ---- IEEE operations ---------------------------------------------------------------------------
#if defined(PF_NVIDIA)
PF_DEVICE float pf_fma(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
PF_DEVICE double pf_fma(double a, double b, double c) {
  return __fma_rn(a, b, c);
}
#else
PF_DEVICE float pf_fma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
PF_DEVICE double pf_fma(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}
#endif
#if defined(PF_NVIDIA)
#define PF_UNARY(NAME, F, D)        \
  PF_DEVICE float NAME(float x) {   \
    return F(x);                    \
  }                                 \
  PF_DEVICE double NAME(double x) { \
    return D(x);                    \
  }
PF_UNARY(pf_sqrt, sqrtf, sqrt)
PF_UNARY(pf_abs, fabsf, fabs)
PF_UNARY(pf_floor, floorf, floor)
PF_UNARY(pf_ceil, ceilf, ceil)
PF_UNARY(pf_round, rintf, rint)
PF_UNARY(pf_trunc, truncf, trunc)
#undef PF_UNARY
PF_DEVICE float pf_copysign(float x, float y) {
  return copysignf(x, y);
}
PF_DEVICE double pf_copysign(double x, double y) {
  return copysign(x, y);
}
#else
#define PF_UNARY(NAME, BUILTIN)     \
  PF_DEVICE float NAME(float x) {   \
    return BUILTIN##f(x);           \
  }                                 \
  PF_DEVICE double NAME(double x) { \
    return BUILTIN(x);              \
  }
PF_UNARY(pf_sqrt, __builtin_sqrt)
PF_UNARY(pf_abs, __builtin_fabs)
PF_UNARY(pf_floor, __builtin_floor)
PF_UNARY(pf_ceil, __builtin_ceil)
PF_UNARY(pf_round, __builtin_rint)
PF_UNARY(pf_trunc, __builtin_trunc)
#undef PF_UNARY
PF_DEVICE float pf_copysign(float x, float y) {
  return __builtin_copysignf(x, y);
}
PF_DEVICE double pf_copysign(double x, double y) {
  return __builtin_copysign(x, y);
}
#endif

// ---- integers: they wrap -----------------------------------------------------------------------
#define PF_INTEGERS(T, U)                                                                  \
  PF_DEVICE T pf_add(T a, T b) {                                                           \
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));                          \
  }                                                                                        \
  PF_DEVICE T pf_sub(T a, T b) {                                                           \
    return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));                          \
  }                                                                                        \
  PF_DEVICE T pf_mul(T a, T b) {                                                           \
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));                          \
  }                                                                                        \
  PF_DEVICE T pf_neg(T a) {                                                                \
    return static_cast<T>(U(0) - static_cast<U>(a));                                       \
  }                                                                                        \
  PF_DEVICE T pf_fma(T a, T b, T c) {                                                      \
    return pf_add(pf_mul(a, b), c);                                                        \
  }                                                                                        \
  PF_DEVICE T pf_abs(T a) {                                                                \
    return a < 0 ? pf_neg(a) : a;                                                          \
  }                                                                                        \
  PF_DEVICE T pf_floor(T a) {                                                              \
    return a;                                                                              \
  }                                                                                        \
  PF_DEVICE T pf_ceil(T a) {                                                               \
    return a;                                                                              \
  }                                                                                        \
  PF_DEVICE T pf_round(T a) {                                                              \
    return a;                                                                              \
  }                                                                                        \
  PF_DEVICE T pf_trunc(T a) {                                                              \
    return a;                                                                              \
  }                                                                                        \
  PF_DEVICE T pf_max(T a, T b) {                                                           \
    return a > b ? a : b;                                                                  \
  }                                                                                        \
  PF_DEVICE T pf_min(T a, T b) {                                                           \
    return a < b ? a : b;                                                                  \
  }                                                                                        \
  PF_DEVICE T pf_fmod(T a, T b) {                                                          \
    return b == 0 || b == -1 ? T(0) : a % b;                                               \
  }                                                                                        \
  PF_DEVICE T pf_remainder(T a, T b) {                                                     \
    const T m = pf_fmod(a, b);                                                             \
    return m != 0 && (b < 0) != (m < 0) ? m + b : m;                                       \
  }                                                                                        \
  PF_DEVICE T pf_floordiv(T a, T b) {                                                      \
    if (b == 0) return 0;                                                                  \
    if (b == -1) return pf_neg(a);                                                         \
    const T q = a / b;                                                                     \
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;                                   \
  }                                                                                        \
  /* A count below 0 or from the width on shifts everything out. */                        \
  PF_DEVICE T pf_shl(T a, T n) {                                                           \
    return n < 0 || n >= T(8 * sizeof(T)) ? T(0) : static_cast<T>(static_cast<U>(a) << n); \
  }                                                                                        \
  PF_DEVICE T pf_shr(T a, T n) {                                                           \
    return n < 0 || n >= T(8 * sizeof(T)) ? (a < 0 ? T(-1) : T(0)) : a >> n;               \
  }                                                                                        \
  /* A negative exponent gives the truncated quotient, and 0 for 0. */                     \
  PF_DEVICE T pf_pow(T x, T y) {                                                           \
    if (y < 0) return x == 1 ? T(1) : x == -1 ? (y & 1 ? T(-1) : T(1)) : T(0);             \
    U r = 1, b = static_cast<U>(x);                                                        \
    for (U n = static_cast<U>(y); n; n >>= 1) {                                            \
      if (n & 1) r *= b;                                                                   \
      b *= b;                                                                              \
    }                                                                                      \
    return static_cast<T>(r);                                                              \
  }
PF_INTEGERS(pf_i32, pf_u32)
PF_INTEGERS(pf_i64, pf_u64)
#undef PF_INTEGERS

template <class T>
PF_DEVICE T pf_sign(T x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0);
}

// ---- floats: tests, extremes -------------------------------------------------------------------
template <class T>
struct pf_float;
template <>
struct pf_float<float> {
  typedef pf_i32 Int;
  typedef pf_u32 Bits;
  enum { mantissa = 23, bias = 127 };
  static PF_METHOD float infinity() { return pf_bits<float>(0x7f800000u); }
  static PF_METHOD float nan() { return pf_bits<float>(0x7fc00000u); }
  static PF_METHOD float smallest() { return 0x1p-126f; }  // normal number
  static PF_METHOD float magic() { return 12582912.0f; }   // 1.5 * 2^23: adding it rounds
  static PF_METHOD float ln2_hi() { return 0x1.62e43p-1f; }
  static PF_METHOD float ln2_lo() { return -1.904654299957768e-9f; }
  static PF_METHOD float exp_low() { return -104.0f; }
  static PF_METHOD float exp_high() { return 89.0f; }
  static PF_METHOD float expm1_low() { return -18.0f; }
  static PF_METHOD float exp2_low() { return -151.0f; }
  static PF_METHOD float exp2_high() { return 129.0f; }
};
template <>
struct pf_float<double> {
  typedef pf_i64 Int;
  typedef pf_u64 Bits;
  enum { mantissa = 52, bias = 1023 };
  static PF_METHOD double infinity() { return pf_bits<double>(0x7ff0000000000000ull); }
  static PF_METHOD double nan() { return pf_bits<double>(0x7ff8000000000000ull); }
  static PF_METHOD double smallest() { return 0x1p-1022; }
  static PF_METHOD double magic() { return 6755399441055744.0; }
  static PF_METHOD double ln2_hi() { return 0x1.62e42fefa39efp-1; }
  static PF_METHOD double ln2_lo() { return 2.3190468138462996e-17; }
  static PF_METHOD double exp_low() { return -746.0; }
  static PF_METHOD double exp_high() { return 710.0; }
  static PF_METHOD double expm1_low() { return -40.0; }
  static PF_METHOD double exp2_low() { return -1076.0; }
  static PF_METHOD double exp2_high() { return 1025.0; }
};

template <class T>
PF_DEVICE bool pf_isnan(T x) {
  return x != x;
}
template <class T>
PF_DEVICE bool pf_isinf(T x) {
  return pf_abs(x) == pf_float<T>::infinity();
}
template <class T>
PF_DEVICE bool pf_isfinite(T x) {
  return pf_abs(x) < pf_float<T>::infinity();
}
// NaN of either operand wins; of equal zeros the second.
#define PF_EXTREMES(T)              \
  PF_DEVICE T pf_max(T a, T b) {    \
    return a != a || a > b ? a : b; \
  }                                 \
  PF_DEVICE T pf_min(T a, T b) {    \
    return a != a || a < b ? a : b; \
  }
PF_EXTREMES(float)
PF_EXTREMES(double)
#undef PF_EXTREMES
// Limits for ranges of arguments: NaN of x stays.
template <class T>
PF_DEVICE T pf_at_least(T low, T x) {
  return low > x ? low : x;
}
template <class T>
PF_DEVICE T pf_at_most(T high, T x) {
  return high < x ? high : x;
}

// c0 + c1 x + c2 x^2 ...
template <class T>
PF_DEVICE T pf_poly(T, double c0) {
  return static_cast<T>(c0);
}
template <class T, class... R>
PF_DEVICE T pf_poly(T x, double c0, R... rest) {
  return pf_fma(pf_poly(x, rest...), x, static_cast<T>(c0));
}

// ---- exponentials ------------------------------------------------------------------------------
// (e^r - 1 - r) / r^2 for |r| <= ln2 / 2.
PF_DEVICE float pf_exp_tail(float r) {
  return pf_poly(r, 0.50000000716672141431, 0.1666666581977687122, 0.041666280331137460609,
                 0.0083335037998314970258, 0.0013945752170594447442, 0.00019789246912437644643);
}
PF_DEVICE double pf_exp_tail(double r) {
  return pf_poly(r, 0.50000000000000000095, 0.16666666666666677525, 0.041666666666666492544,
                 0.0083333333333207377428, 0.001388888888896836879, 0.00019841269888685821999,
                 0.000024801587164709382709, 2.7557241366706082489e-6, 2.7557405982842916513e-7,
                 2.511011068792473983e-8, 2.0875303624205271404e-9);
}
// 2^k from k + magic.
template <class T>
PF_DEVICE T pf_power_of_two(T shifted, int bias = pf_float<T>::bias) {
  typedef pf_float<T> F;
  typedef typename F::Bits B;
  return pf_bits<T>((pf_bits<B>(shifted) + static_cast<B>(bias)) << F::mantissa);
}
// y * 2^k rounded once, for integral k and y in [0.5, 2): gradual underflow included. In two
// steps, since 2^k itself may not be a normal number.
template <class T>
PF_DEVICE T pf_scale_by(T y, T k) {
  const T magic = pf_float<T>::magic();
  const T biased = pf_fma(k, T(0.5), magic);
  const T first = biased - magic;
  const T second = (k - first) + magic;
  return y * pf_power_of_two(biased) * pf_power_of_two(second);
}
// x = k ln2 + r with integral k.
template <class T>
PF_DEVICE T pf_reduce_ln2(T x, T& k) {
  typedef pf_float<T> F;
  k = pf_fma(x, static_cast<T>(1.4426950408889634074), F::magic()) - F::magic();
  return pf_fma(-k, F::ln2_lo(), pf_fma(-k, F::ln2_hi(), x));
}
template <class T>
PF_DEVICE T pf_exp(T x) {
  typedef pf_float<T> F;
  T k;
  const T r = pf_reduce_ln2(pf_at_most(F::exp_high(), pf_at_least(F::exp_low(), x)), k);
  return pf_scale_by(pf_fma(r * r, pf_exp_tail(r), r) + T(1), k);
}
template <class T>
PF_DEVICE T pf_exp2(T x) {
  typedef pf_float<T> F;
  const T c = pf_at_most(F::exp2_high(), pf_at_least(F::exp2_low(), x));
  const T k = (c + F::magic()) - F::magic();
  const T f = c - k;
  const T r = pf_fma(f, F::ln2_hi(), f * F::ln2_lo());
  return pf_scale_by(pf_fma(r * r, pf_exp_tail(r), r) + T(1), k);
}
template <class T>
PF_DEVICE T pf_expm1(T x) {
  typedef pf_float<T> F;
  T k;
  const T r = pf_reduce_ln2(pf_at_most(F::exp_high(), pf_at_least(F::expm1_low(), x)), k);
  const T em = pf_fma(r * r, pf_exp_tail(r), r);
  // 2^(k-1), so that k = 128 does not overflow before it must.
  const T s = pf_power_of_two(k + F::magic(), F::bias - 1);
  const T y = pf_fma(s, em, s - T(0.5));
  return pf_copysign(y + y, x);
}
template <class T>
PF_DEVICE T pf_sigmoid(T x) {
  const T e = pf_exp(-pf_abs(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}
// (1 - e) / (1 + e) with e = exp(-2|x|) = scale * (1/2 - h).
PF_DEVICE float pf_tanh(float x) {
  const float a = pf_at_most(9.02f, pf_abs(x)), magic = pf_float<float>::magic() + 128.0f;
  const float shifted = pf_fma(-a, static_cast<float>(2.8853900817779268147), magic);
  // Half of the remainder.
  const float r = pf_fma(shifted - magic, static_cast<float>(0.5 * 0x1.62e43p-1), a);
  const float p =
      pf_poly(r, 1.0000000111, -0.666661895219, 0.333330374325, -0.133858720882, 0.0446261600416);
  const float h = pf_fma(-(r * r), p, r);
  const float scale = pf_bits<float>(pf_bits<pf_u32>(shifted) << 23);
  const float n = pf_fma(scale, h, pf_fma(-scale, 0.5f, 1.0f));
  const float d = pf_fma(-scale, h, pf_fma(scale, 0.5f, 1.0f));
  return pf_copysign(n / d, x);
}
PF_DEVICE double pf_tanh(double x) {
  const double t = pf_expm1(-2.0 * pf_abs(x));
  return pf_copysign(t / (t + 2.0), x);
}

// ---- logarithms --------------------------------------------------------------------------------
// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for x positive and finite; gives f.
template <class T>
PF_DEVICE T pf_reduce_log(T x, T& k) {
  typedef pf_float<T> F;
  typedef typename F::Int I;
  typedef typename F::Bits B;
  constexpr bool single = sizeof(T) == 4;
  const bool small = x < F::smallest();
  x = small ? x * static_cast<T>(single ? 0x1p23 : 0x1p52) : x;
  const B bits = pf_bits<B>(x);
  const B above = bits - static_cast<B>(single ? 0x3f3504f3ull : 0x3fe6a09e667f3bcdull);
  const B exponent = static_cast<B>(static_cast<I>(above) >> F::mantissa);
  const T m = pf_bits<T>(bits - (exponent << F::mantissa));
  // Exponents are small: as low bits of a large float they convert without an instruction.
  k = pf_bits<T>(exponent + pf_bits<B>(F::magic())) - F::magic();
  k = k - (small ? static_cast<T>(static_cast<int>(F::mantissa)) : T(0));
  return m - T(1);
}
// log(1 + f) - f.
PF_DEVICE float pf_log_tail(float f) {
  const float p =
      pf_poly(f, 0.33333312541940965313, -0.25000009502139801932, 0.20002123384793021267,
              -0.16668005389044213679, 0.14219454738311235232, -0.12405340841317872692,
              0.11888687445526796531, -0.11677496431083333271, 0.067477173204058992174);
  const float f2 = f * f;
  return pf_fma(f2 * f, p, -0.5f * f2);
}
PF_DEVICE double pf_log_tail(double f) {
  const double s = f / (f + 2.0);
  const double z = s * s;
  const double r =
      z * pf_poly(z, 0.66666666666666660719, 0.40000000000006492649, 0.28571428569006907962,
                  0.22222222658730730597, 0.18181774707679250842, 0.15387132758490652452,
                  0.13249168461310569779, 0.13259987765168253524);
  const double half = 0.5 * f * f;
  return pf_fma(s, half + r, -half);
}
// log at 0, below, inf and NaN, given what the formula gives elsewhere.
template <class T>
PF_DEVICE T pf_log_edges(T x, T y) {
  const T inf = pf_float<T>::infinity();
  y = x < inf ? y : x;  // inf and NaN are their own logarithms
  const T edge = x == T(0) ? -inf : pf_float<T>::nan();
  return x <= T(0) ? edge : y;
}
template <class T>
PF_DEVICE T pf_log(T x) {
  typedef pf_float<T> F;
  T k;
  const T f = pf_reduce_log(x, k);
  const T y = f + pf_fma(k, F::ln2_lo(), pf_log_tail(f));
  return pf_log_edges(x, pf_fma(k, F::ln2_hi(), y));
}
template <class T>
PF_DEVICE T pf_log2(T x) {
  T k;
  const T f = pf_reduce_log(x, k);
  const T tail = pf_log_tail(f);
  constexpr bool single = sizeof(T) == 4;
  const T hi = static_cast<T>(single ? 1.44269502162933349609 : 1.4426950408889634074);
  const T lo = static_cast<T>(single ? 1.925963033500930e-8 : 2.0355273740931033e-17);
  const T y = pf_fma(tail, hi, pf_fma(f, lo, tail * lo));
  return pf_log_edges(x, k + pf_fma(f, hi, y));
}
template <class T>
PF_DEVICE T pf_log1p(T x) {
  const T u = T(1) + x;
  const T y = pf_log(u) + (x - (u - T(1))) / u;
  // u is exact at -1, where the correction is 0 / 0, and useless at inf.
  const bool plain = x > T(-1) && x < static_cast<T>(0x1p60);
  return pf_copysign(plain ? y : pf_log(u), x);
}
PF_DEVICE double pf_log10(double x) {
  return pf_log(x) * 0.43429448190325182765;
}
PF_DEVICE float pf_log10(float x) {
  float k;
  const float f = pf_reduce_log(x, k);
  const float tail = pf_log_tail(f);
  const float hi = 0.4342944920063019f, lo = -1.0103050052231683e-8f;
  // k times the first 16 bits of log10(2) is exact.
  const float y = pf_fma(tail, hi, pf_fma(f, lo, pf_fma(tail, lo, k * 4.605038981195214e-6f)));
  return pf_log_edges(x, pf_fma(k, 0.301025390625f, pf_fma(f, hi, y)));
}

// ---- error functions ---------------------------------------------------------------------------
// Around k * 8 / 15 for k = 0 .. 7: row j holds the coefficients of degree j. At 4 erf is 1.
PF_TABLE float pf_erf_table[7][8] = {
    {0.0f, 0.54929924f, 0.868571997f, 0.9763484f, 0.997447014f, 0.999837577f, 0.99999398f,
     0.999999881f},
    {1.12837923f, 0.849029064f, 0.361680388f, 0.0872288048f, 0.0119104953f, 0.000920769176f,
     4.03058039e-05f, 9.99251938e-07f},
    {-1.16484262e-06f, -0.452815294f, -0.385793239f, -0.139566541f, -0.0254090186f, -0.00245531579f,
     -0.000128965476f, -3.72955287e-06f},
    {-0.376075089f, -0.122042805f, 0.153726816f, 0.119820505f, 0.0321753696f, 0.00405513216f,
     0.00026074372f, 8.8627221e-06f},
    {-0.000828269054f, 0.183444709f, 0.0466463193f, -0.049307812f, -0.0258532539f, -0.00459228642f,
     -0.000374911004f, -1.53524143e-05f},
    {0.118904606f, -0.00157044642f, -0.0644829422f, -0.00511260098f, 0.0121772308f, 0.00376474042f,
     0.000428195199f, 2.26902084e-05f},
    {-0.0206446722f, -0.0474344864f, 0.00997209363f, 0.0153548848f, -0.00171108684f,
     -0.00204899651f, -0.000343994383f, -2.32428629e-05f}};
PF_DEVICE float pf_erf(float x) {
  const float magic = pf_float<float>::magic();
  const float a = pf_at_most(3.9999f, pf_abs(x));
  const float shifted = pf_fma(a, 1.875f, magic);
  const float t = pf_fma(-(shifted - magic), static_cast<float>(8.0 / 15), a);
  const pf_u32 k = pf_bits<pf_u32>(shifted) & 7u;
  float y = pf_erf_table[6][k];
  PF_UNROLL for (int j = 5; j >= 0; --j) y = pf_fma(y, t, pf_erf_table[j][k]);
  return pf_copysign(y, x);
}
// The upper tail of the normal distribution around k * 13 / 16 for k = 0 .. 7: where each begins,
// then a row for each degree. At 7 * 13 / 16 it is 0.
PF_TABLE float pf_tail_at[8] = {0.0f, 0.8125f, 1.625f, 2.4375f, 3.25f, 4.0625f, 4.875f, 5.6875f};
PF_TABLE float pf_tail_table[7][8] = {
    {0.5f, 0.2082524f, 0.0520812832f, 0.00739460299f, 0.000577025057f, 2.42754522e-05f,
     5.44113902e-07f, 0.0f},
    {-0.398942322f, -0.286786884f, -0.106538452f, -0.0204525534f, -0.00202904036f, -0.000104032712f,
     -2.75715979e-06f, -1.37604559e-06f},
    {1.95435928e-06f, 0.116506241f, 0.0865621939f, 0.0249271318f, 0.00329719181f, 0.00021124506f,
     6.70984309e-06f, -4.33381574e-05f},
    {0.0664593577f, 0.0162545908f, -0.029122727f, -0.0168502722f, -0.00323417457f, -0.000268298754f,
     -1.03870552e-05f, -0.000501176342f},
    {0.000227590834f, -0.0226996467f, -0.00259292335f, 0.00610310119f, 0.00207852735f,
     0.000238594555f, 1.17336849e-05f, -0.00255749212f},
    {-0.0108240917f, 0.0011210537f, 0.00510477973f, -0.000375530537f, -0.000861085253f,
     -0.00015934516f, -1.06842172e-05f, -0.005930115f},
    {0.00158394896f, 0.00273843016f, -0.00102761737f, -0.000606075453f, 0.000184299541f,
     6.92612666e-05f, 6.18942749e-06f, -0.00509882439f}};
PF_DEVICE float pf_gelu(float x) {
  const float a = pf_at_most(5.6875f, pf_abs(x));
  const pf_u32 k =
      pf_bits<pf_u32>(pf_fma(a, static_cast<float>(16.0 / 13), pf_float<float>::magic())) & 7u;
  const float t = a - pf_tail_at[k];  // exact
  float y = pf_tail_table[6][k];
  PF_UNROLL for (int j = 5; j >= 0; --j) y = pf_fma(y, t, pf_tail_table[j][k]);
  return pf_fma(-a, y, pf_at_least(0.0f, x));
}
// exp(x^2) erfc(x) is a polynomial in 3 / (3 + x) for x in [0, 11]; for floats.
PF_DEVICE float pf_erfc(float single) {
  const double x = single;
  const double a = pf_at_most(11.0, pf_abs(x));
  const double t = 3.0 / (3.0 + a);
  const double r = pf_poly(t, -1.0785156399342170014e-7, 0.1880700700429581485,
                           0.1879197909266754504, 0.17919060393609499074, 0.14594775155264958549,
                           0.17670502484346708984, -0.067598767427680144049, 0.42388911789388145421,
                           -0.57100794322425339345, 0.67555584982738203861, -0.49562186757554217029,
                           0.18441747698671992827, -0.027466999963111199825);
  const double y = r * pf_exp(-(a * a));
  return static_cast<float>(x < 0.0 ? 2.0 - y : y);
}
// Doubles: a polynomial near 0; elsewhere (1 + 2x) exp(x^2) erfc(x) is one in (x - 3) / (x + 3).
PF_DEVICE double pf_erfc_far(double a) {  // a >= 1
  const double c = pf_at_most(28.0, a);
  const double t = (c - 3.0) / (c + 3.0);
  const double r = pf_poly(t, 1.2530080582697296, -0.13562110612458117, -0.047562294353452654,
                           0.12964515870276044, -0.1192736634151409, 0.06830802734396259,
                           -0.02377051492435829, 0.0025293918186733997, 0.0018886904568381413,
                           -0.000779832356086219, -0.00010516073212608877, 0.0001251005571394669,
                           4.95454423749687e-06, -2.0109725666772027e-05, -7.456576892717453e-07,
                           3.510650676240504e-06, 3.670265536980434e-07, -6.986481785604191e-07,
                           -1.0242242099677297e-07, 1.6807395466105915e-07, -3.198341362086031e-08);
  const double square = c * c, rest = pf_fma(c, c, -square);
  const double e = pf_exp(-square);
  return (e - e * rest) * r / pf_fma(2.0, c, 1.0);
}
PF_DEVICE double pf_erf_near(double x) {  // |x| < 1
  return x * pf_poly(x * x, 1.1283791670955126, -0.37612638903183754, 0.1128379167095512,
                     -0.02686617064512984, 0.0052239776254232985, -0.000854832702193483,
                     0.00012055332902888736, -1.4925647567519332e-05, 1.6462045441468418e-06,
                     -1.6364642158167616e-07, 1.4792401209404813e-08, -1.216456005728345e-09,
                     8.709045129053106e-11, -4.230945824295338e-12);
}
PF_DEVICE double pf_erf(double x) {
  const double a = pf_abs(x);
  if (a < 1.0) return pf_erf_near(x);
  return a != a ? x : pf_copysign(1.0 - pf_erfc_far(a), x);
}
PF_DEVICE double pf_erfc(double x) {
  const double a = pf_abs(x);
  if (x < 0.5 && a < 1.0) return 1.0 - pf_erf_near(x);
  if (a < 1.0) return 0.5 + (0.5 - pf_erf_near(x));
  if (a != a) return x;
  const double y = pf_erfc_far(a);
  return x < 0.0 ? 2.0 - y : y;
}

PF_DEVICE double pf_gelu(double x) {
  const double a = pf_at_most(40.0, pf_abs(x));  // the tail is 0 there, inf times it would be NaN
  return pf_fma(-a, 0.5 * pf_erfc(a * 0.70710678118654752440), pf_at_least(0.0, x));
}

// ---- division with remainder -------------------------------------------------------------------
// Exact, as the C library's: each step takes away a multiple of b, scaled by a power of two, whose
// product with the quotient is exact.
template <class T>
PF_DEVICE T pf_fmod(T a, T b) {
  const T m = pf_abs(b);
  T r = pf_abs(a);
  if (!(m > T(0)) || !(r < pf_float<T>::infinity())) return pf_float<T>::nan();
  constexpr bool single = sizeof(T) == 4;
  const T most = static_cast<T>(single ? 0x1p22 : 0x1p51);
  while (r >= m) {
    T step = m;
    T q = r / step;
    while (q >= most) {
      step *= static_cast<T>(single ? 0x1p20 : 0x1p50);
      q = r / step;
    }
    // The quotient may be rounded up to a whole number, never down past one.
    r = pf_fma(-pf_trunc(q), step, r);
    r = r < T(0) ? r + step : r;
  }
  return pf_copysign(r, a);
}
template <class T>
PF_DEVICE T pf_remainder_float(T a, T b) {
  const T m = pf_fmod(a, b);
  return m != T(0) && (b < T(0)) != (m < T(0)) ? m + b : m;
}
// As Python and PyTorch: consistent with the remainder, not floor(a / b).
template <class T>
PF_DEVICE T pf_floordiv_float(T a, T b) {
  if (b == T(0)) return a / b;
  const T m = pf_fmod(a, b);
  T q = (a - m) / b;
  if (m != T(0) && (b < T(0)) != (m < T(0))) q -= T(1);
  if (q == T(0)) return pf_copysign(T(0), a / b);
  const T f = pf_floor(q);
  return q - f > T(0.5) ? f + T(1) : f;
}
PF_DEVICE float pf_remainder(float a, float b) {
  return pf_remainder_float(a, b);
}
PF_DEVICE double pf_remainder(double a, double b) {
  return pf_remainder_float(a, b);
}
PF_DEVICE float pf_floordiv(float a, float b) {
  return pf_floordiv_float(a, b);
}
PF_DEVICE double pf_floordiv(double a, double b) {
  return pf_floordiv_float(a, b);
}

#include "half_math.h"
#include "trig.h"

#endif
