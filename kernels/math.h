// The micro-operations of pointwise expressions over float, double, int and 64-bit int. What the
// CPU's vectors have too is text of both (elementary.h), so that both give the same bits; where the
// CPU asks the C library (rare functions of doubles, huge angles) the results agree to a few units
// in the last place.
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
PF_DEVICE bool pf_isnan(T x) {
  return x != x;
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

// ---- values of a thread, for text that vectors of the CPU have too ------------------------------
typedef float pf_f32;
typedef double pf_f64;
template <class T>
struct pf_word_of {
  typedef pf_u32 type;
};
template <>
struct pf_word_of<double> {
  typedef pf_u64 type;
};
template <class T>
using pf_word = typename pf_word_of<T>::type;

// Only what is chosen is computed.
#define PF_SELECT(M, A, B) ((M) ? (A) : (B))
template <class T>
PF_DEVICE T pf_fnma(T a, T b, T c) {
  return pf_fma(-a, b, c);
}
template <int N, class B>
PF_DEVICE B pf_shift_left(B x) {
  return x << N;
}
template <int N>
PF_DEVICE pf_u32 pf_shift_right(pf_u32 x) {
  return static_cast<pf_u32>(static_cast<pf_i32>(x) >> N);
}
template <int N>
PF_DEVICE pf_u64 pf_shift_right(pf_u64 x) {
  return static_cast<pf_u64>(static_cast<pf_i64>(x) >> N);
}

#include "elementary.h"

PF_DEVICE double pf_log10(double x) {
  return pf_log(x) * 0.43429448190325182765;
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
