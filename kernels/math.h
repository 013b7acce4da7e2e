// The micro-operations of pointwise expressions over float, double, int and 64-bit int. What the
// CPU's vectors have too is text of both (elementary.h), so that both give the same bits; where the
// CPU asks the C library (rare functions of doubles, huge angles) the results agree to a few units
// in the last place.
#ifndef PF_MATH_H
#define PF_MATH_H

#include "prelude.h"

// ---- IEEE operations ---------------------------------------------------------------------------

// ---- integers: they wrap -----------------------------------------------------------------------
#define PF_INTEGERS(T, U)                                         \
  PF_DEVICE T pf_add(T a, T b) {                                  \
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); \
  }                                                               \
  PF_DEVICE T pf_sub(T a, T b) {                                  \
    return static_cast<T>(static_cast<U>(a) - static_cast<U>(b)); \
  }                                                               \
  PF_DEVICE T pf_mul(T a, T b) {                                  \
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); \
  }                                                               \
  PF_DEVICE T pf_neg(T a) {                                       \
    return static_cast<T>(U(0) - static_cast<U>(a));              \
  }                                                               \
  PF_DEVICE T pf_fma(T a, T b, T c) {                             \
    return pf_add(pf_mul(a, b), c);                               \
  }                                                               \
  PF_DEVICE T pf_abs(T a) {                                       \
    return a < 0 ? pf_neg(a) : a;                                 \
  }                                                               \
  PF_DEVICE T pf_floor(T a) {                                     \
    return a;                                                     \
  }                                                               \
  PF_DEVICE T pf_ceil(T a) {                                      \
    return a;                                                     \
  }                                                               \
  PF_DEVICE T pf_round(T a) {                                     \
    return a;                                                     \
  }                                                               \
  PF_DEVICE T pf_trunc(T a) {                                     \
    return a;                                                     \
  }                                                               \
  PF_DEVICE T pf_max(T a, T b) {                                  \
    return a > b ? a : b;                                         \
  }                                                               \
  PF_DEVICE T pf_min(T a, T b) {                                  \
    return a < b ? a : b;                                         \
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
template <class T>
using pf_mask = bool;

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

// Tests of pf_some are branches here.
PF_DEVICE bool pf_some(bool mask) {
  return mask;
}
template <class B>
PF_DEVICE bool pf_odd(B k) {
  return (k & 1u) != 0;
}

#include "elementary.h"

template <class F>
PF_DEVICE float pf_via_double(float x) {
  return static_cast<float>(F()(static_cast<double>(x)));
}
template <class F>
PF_DEVICE float pf_via_double(float x, float y) {
  return static_cast<float>(F()(static_cast<double>(x), static_cast<double>(y)));
}
template <class F>
PF_DEVICE float pf_via_double(float x, pf_u32& k) {
  double of_double;
  const float r = static_cast<float>(F()(static_cast<double>(x), of_double));
  k = static_cast<pf_u32>(pf_bits<pf_u64>(of_double + pf_float<double>::magic()));
  return r;
}

#include "trig.h"

PF_DEVICE float pf_look_up(const float (&row)[8], pf_u32 k) {
  return row[k & 7u];
}

#include "doubles.h"
#include "special.h"

// ---- division with remainder, rules of integers -------------------------------------------------
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
template <class E>
struct pf_unsigned_of {
  typedef pf_u32 type;
};
template <>
struct pf_unsigned_of<pf_i64> {
  typedef pf_u64 type;
};
template <class E>
using pf_unsigned = typename pf_unsigned_of<E>::type;

#include "division.h"
#define PF_DIVISION(NAME)                          \
  PF_DEVICE float pf_##NAME(float a, float b) {    \
    return pf_##NAME##_of_floats(a, b);            \
  }                                                \
  PF_DEVICE double pf_##NAME(double a, double b) { \
    return pf_##NAME##_of_floats(a, b);            \
  }
PF_DIVISION(remainder)
PF_DIVISION(floordiv)
#undef PF_DIVISION
#define PF_INTEGER_RULE(NAME)                      \
  PF_DEVICE pf_i32 pf_##NAME(pf_i32 a, pf_i32 b) { \
    return pf_integer_##NAME()(a, b);              \
  }                                                \
  PF_DEVICE pf_i64 pf_##NAME(pf_i64 a, pf_i64 b) { \
    return pf_integer_##NAME()(a, b);              \
  }
PF_INTEGER_RULE(fmod)
PF_INTEGER_RULE(remainder)
PF_INTEGER_RULE(floordiv)
PF_INTEGER_RULE(shl)
PF_INTEGER_RULE(shr)
PF_INTEGER_RULE(pow)
#undef PF_INTEGER_RULE

#include "half_math.h"

#endif
