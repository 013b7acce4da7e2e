// Exponentials, logarithms and what powers need, as text over a value type: a float or double of a
// GPU's thread, a vector of the CPU (cpu/vmath-inl.h). Right at NaN, infinities, zeros and
// denormals, within about two units in the last place, and the same bits wherever they run, since
// they are made of IEEE operations and explicit fma only. Coefficients are minimax fits of our own.
//
// Such text stands on names that each side defines before it:
//
//   pf_f32, pf_f64          the value types; T(c) makes one of a number
//   pf_mask<T>              what comparisons give, and && || ! take
//   pf_word<T>              integers of T's width, which wrap; pf_bits<To>(x) casts bits
//   + - * / < > <= == !=    and of words + - & ^
//   PF_SELECT(m, a, b)      a where m is true, b elsewhere
//   pf_some(m)              whether m is true anywhere: to leave out what is rarely needed
//   pf_fma(a, b, c), pf_fnma(a, b, c)             a * b + c, c - a * b, rounded once
//   pf_abs, pf_copysign, pf_sqrt, pf_floor, pf_round, pf_trunc, pf_isnan
//   pf_at_least(low, x), pf_at_most(high, x)      limits of numbers; NaN of x stays
//   pf_shift_left<N>, pf_shift_right<N>           of words; the sign comes from the left
//   PF_HAS_SCALE            where a side has an own pf_scale_by
//
// It includes nothing, for the CPU has it within a namespace, once for each instruction set.
#ifndef PF_ELEMENTARY_H
#define PF_ELEMENTARY_H

template <class T>
struct pf_float;
template <>
struct pf_float<float> {
  enum { mantissa = 23, bias = 127 };
  static PF_METHOD float infinity() { return pf_bits<float>(0x7f800000u); }
  static PF_METHOD float nan() { return pf_bits<float>(0x7fc00000u); }
  static PF_METHOD float smallest() { return 0x1p-126f; }  // normal number
  static PF_METHOD float to_normal() { return 0x1p23f; }   // makes a denormal one normal
  static PF_METHOD float magic() { return 12582912.0f; }   // 1.5 * 2^23: adding it rounds
  static PF_METHOD int sqrt_half() { return 0x3f3504f3; }  // its bits
  static PF_METHOD float ln2_hi() { return 0x1.62e43p-1f; }
  static PF_METHOD float ln2_lo() { return -1.904654299957768e-9f; }
  static PF_METHOD float log2e_hi() { return 1.44269502162933349609f; }
  static PF_METHOD float log2e_lo() { return 1.925963033500930e-8f; }
  static PF_METHOD float exp_low() { return -104.0f; }
  static PF_METHOD float exp_high() { return 89.0f; }
  static PF_METHOD float expm1_low() { return -18.0f; }
  static PF_METHOD float exp2_low() { return -151.0f; }
  static PF_METHOD float exp2_high() { return 129.0f; }
};
template <>
struct pf_float<double> {
  enum { mantissa = 52, bias = 1023 };
  static PF_METHOD double infinity() { return pf_bits<double>(0x7ff0000000000000ull); }
  static PF_METHOD double nan() { return pf_bits<double>(0x7ff8000000000000ull); }
  static PF_METHOD double smallest() { return 0x1p-1022; }
  static PF_METHOD double to_normal() { return 0x1p52; }
  static PF_METHOD double magic() { return 6755399441055744.0; }
  static PF_METHOD long long sqrt_half() { return 0x3fe6a09e667f3bcdll; }
  static PF_METHOD double ln2_hi() { return 0x1.62e42fefa39efp-1; }
  static PF_METHOD double ln2_lo() { return 2.3190468138462996e-17; }
  static PF_METHOD double log2e_hi() { return 1.4426950408889634074; }
  static PF_METHOD double log2e_lo() { return 2.0355273740931033e-17; }
  static PF_METHOD double exp_low() { return -746.0; }
  static PF_METHOD double exp_high() { return 710.0; }
  static PF_METHOD double expm1_low() { return -40.0; }
  static PF_METHOD double exp2_low() { return -1076.0; }
  static PF_METHOD double exp2_high() { return 1025.0; }
};

template <class T>
PF_DEVICE pf_mask<T> pf_isinf(T x) {
  return pf_abs(x) == T(pf_float<T>::infinity());
}
template <class T>
PF_DEVICE pf_mask<T> pf_isfinite(T x) {
  return pf_abs(x) < T(pf_float<T>::infinity());
}
// c0 + c1 x + c2 x^2 ...
template <class T>
PF_DEVICE T pf_poly(T, double c0) {
  return T(c0);
}
template <class T, class... R>
PF_DEVICE T pf_poly(T x, double c0, R... rest) {
  return pf_fma(pf_poly(x, rest...), x, T(c0));
}

// ---- exponentials ------------------------------------------------------------------------------
// (e^r - 1 - r) / r^2 for |r| <= ln2 / 2.
PF_DEVICE pf_f32 pf_exp_tail(pf_f32 r) {
  return pf_poly(r, 0.50000000716672141431, 0.1666666581977687122, 0.041666280331137460609,
                 0.0083335037998314970258, 0.0013945752170594447442, 0.00019789246912437644643);
}
PF_DEVICE pf_f64 pf_exp_tail(pf_f64 r) {
  return pf_poly(r, 0.50000000000000000095, 0.16666666666666677525, 0.041666666666666492544,
                 0.0083333333333207377428, 0.001388888888896836879, 0.00019841269888685821999,
                 0.000024801587164709382709, 2.7557241366706082489e-6, 2.7557405982842916513e-7,
                 2.511011068792473983e-8, 2.0875303624205271404e-9);
}
// 2^k from k + magic.
template <class T>
PF_DEVICE T pf_power_of_two(T shifted, int bias = pf_float<T>::bias) {
  typedef pf_word<T> B;
  return pf_bits<T>(pf_shift_left<pf_float<T>::mantissa>(pf_bits<B>(shifted) + B(bias)));
}
// y * 2^k rounded once, for integral k and y in [0.5, 2): gradual underflow included. In two
// steps, since 2^k itself may not be a normal number.
#ifndef PF_HAS_SCALE
template <class T>
PF_DEVICE T pf_scale_by(T y, T k) {
  const T magic(pf_float<T>::magic());
  const T biased = pf_fma(k, T(0.5), magic);
  const T first = biased - magic;
  const T second = (k - first) + magic;
  return y * pf_power_of_two(biased) * pf_power_of_two(second);
}
#endif
// x = k ln2 + r with integral k.
template <class T>
PF_DEVICE T pf_reduce_ln2(T x, T& k) {
  typedef pf_float<T> F;
  k = pf_fma(x, T(1.4426950408889634074), T(F::magic())) - T(F::magic());
  return pf_fnma(k, T(F::ln2_lo()), pf_fnma(k, T(F::ln2_hi()), x));
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
  const T k = (c + T(F::magic())) - T(F::magic());
  const T f = c - k;
  const T r = pf_fma(f, T(F::ln2_hi()), f * T(F::ln2_lo()));
  return pf_scale_by(pf_fma(r * r, pf_exp_tail(r), r) + T(1), k);
}
template <class T>
PF_DEVICE T pf_expm1(T x) {
  typedef pf_float<T> F;
  T k;
  const T r = pf_reduce_ln2(pf_at_most(F::exp_high(), pf_at_least(F::expm1_low(), x)), k);
  const T em = pf_fma(r * r, pf_exp_tail(r), r);
  // 2^(k-1), so that k = 128 does not overflow before it must.
  const T s = pf_power_of_two(k + T(F::magic()), F::bias - 1);
  const T y = pf_fma(s, em, s - T(0.5));
  return pf_copysign(y + y, x);
}
template <class T>
PF_DEVICE T pf_sigmoid(T x) {
  const T e = pf_exp(-pf_abs(x));
  return PF_SELECT(x < T(0), e, T(1)) / (T(1) + e);
}
// (1 - e) / (1 + e) with e = exp(-2|x|) = scale * (1/2 - h).
PF_DEVICE pf_f32 pf_tanh(pf_f32 x) {
  const pf_f32 a = pf_at_most(9.02f, pf_abs(x)), magic(pf_float<float>::magic() + 128.0f);
  const pf_f32 shifted = pf_fnma(a, pf_f32(2.8853900817779268147), magic);
  const pf_f32 r = pf_fma(shifted - magic, pf_f32(0.5 * 0x1.62e43p-1), a);  // half of the remainder
  const pf_f32 p =
      pf_poly(r, 1.0000000111, -0.666661895219, 0.333330374325, -0.133858720882, 0.0446261600416);
  const pf_f32 h = pf_fnma(r * r, p, r);
  const pf_f32 scale = pf_bits<pf_f32>(pf_shift_left<23>(pf_bits<pf_word<pf_f32>>(shifted)));
  const pf_f32 n = pf_fma(scale, h, pf_fnma(scale, pf_f32(0.5), pf_f32(1)));
  const pf_f32 d = pf_fnma(scale, h, pf_fma(scale, pf_f32(0.5), pf_f32(1)));
  return pf_copysign(n / d, x);
}
PF_DEVICE pf_f64 pf_tanh(pf_f64 x) {
  const pf_f64 t = pf_expm1(pf_f64(-2) * pf_abs(x));
  return pf_copysign(t / (t + pf_f64(2)), x);
}

// ---- logarithms --------------------------------------------------------------------------------
// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for x positive and finite; gives f.
template <class T>
PF_DEVICE T pf_reduce_log(T x, T& k) {
  typedef pf_float<T> F;
  typedef pf_word<T> B;
  const pf_mask<T> small = x < T(F::smallest());
  x = PF_SELECT(small, x * T(F::to_normal()), x);
  const B bits = pf_bits<B>(x);
  const B exponent = pf_shift_right<F::mantissa>(bits - B(F::sqrt_half()));
  const T m = pf_bits<T>(bits - pf_shift_left<F::mantissa>(exponent));
  // Exponents are small: as low bits of a large float they convert without an instruction.
  const T magic(F::magic());
  k = pf_bits<T>(exponent + pf_bits<B>(magic)) - magic;
  k = k - PF_SELECT(small, T(static_cast<int>(F::mantissa)), T(0));
  return m - T(1);
}
// log(1 + f) - f.
PF_DEVICE pf_f32 pf_log_tail(pf_f32 f) {
  const pf_f32 p =
      pf_poly(f, 0.33333312541940965313, -0.25000009502139801932, 0.20002123384793021267,
              -0.16668005389044213679, 0.14219454738311235232, -0.12405340841317872692,
              0.11888687445526796531, -0.11677496431083333271, 0.067477173204058992174);
  const pf_f32 f2 = f * f;
  return pf_fma(f2 * f, p, pf_f32(-0.5) * f2);
}
PF_DEVICE pf_f64 pf_log_tail(pf_f64 f) {
  const pf_f64 s = f / (f + pf_f64(2));
  const pf_f64 z = s * s;
  const pf_f64 r =
      z * pf_poly(z, 0.66666666666666660719, 0.40000000000006492649, 0.28571428569006907962,
                  0.22222222658730730597, 0.18181774707679250842, 0.15387132758490652452,
                  0.13249168461310569779, 0.13259987765168253524);
  const pf_f64 half = pf_f64(0.5) * f * f;
  return pf_fma(s, half + r, -half);
}
// log at 0, below, inf and NaN, given what the formula gives elsewhere.
template <class T>
PF_DEVICE T pf_log_edges(T x, T y) {
  typedef pf_float<T> F;
  y = PF_SELECT(x < T(F::infinity()), y, x);  // inf and NaN are their own logarithms
  const T edge = PF_SELECT(x == T(0), T(-F::infinity()), T(F::nan()));
  return PF_SELECT(x <= T(0), edge, y);
}
template <class T>
PF_DEVICE T pf_log(T x) {
  typedef pf_float<T> F;
  T k;
  const T f = pf_reduce_log(x, k);
  const T y = f + pf_fma(k, T(F::ln2_lo()), pf_log_tail(f));
  return pf_log_edges(x, pf_fma(k, T(F::ln2_hi()), y));
}
template <class T>
PF_DEVICE T pf_log2(T x) {
  typedef pf_float<T> F;
  T k;
  const T f = pf_reduce_log(x, k);
  const T tail = pf_log_tail(f), hi(F::log2e_hi()), lo(F::log2e_lo());
  const T y = pf_fma(tail, hi, pf_fma(f, lo, tail * lo));
  return pf_log_edges(x, k + pf_fma(f, hi, y));
}
template <class T>
PF_DEVICE T pf_log1p(T x) {
  const T u = T(1) + x, log = pf_log(u);
  const T y = log + (x - (u - T(1))) / u;
  // u is exact at -1, where the correction is 0 / 0, and useless at inf.
  const pf_mask<T> plain = x > T(-1) && x < T(0x1p60);
  return pf_copysign(PF_SELECT(plain, y, log), x);
}
PF_DEVICE pf_f32 pf_log10(pf_f32 x) {
  pf_f32 k;
  const pf_f32 f = pf_reduce_log(x, k);
  const pf_f32 tail = pf_log_tail(f);
  const pf_f32 hi(0.4342944920063019f), lo(-1.0103050052231683e-8f);
  // k times the first 16 bits of log10(2) is exact.
  const pf_f32 y =
      pf_fma(tail, hi, pf_fma(f, lo, pf_fma(tail, lo, k * pf_f32(4.605038981195214e-6f))));
  return pf_log_edges(x, pf_fma(k, pf_f32(0.301025390625f), pf_fma(f, hi, y)));
}

// ---- powers ------------------------------------------------------------------------------------
// p = |x|^y given: its sign, and the cases that have values of their own.
PF_DEVICE pf_f64 pf_power_edges(pf_f64 x, pf_f64 y, pf_f64 p) {
  const pf_f64 one(1), zero(0), half = y * pf_f64(0.5);
  const pf_mask<pf_f64> whole = pf_trunc(y) == y;
  const pf_mask<pf_f64> odd = whole && pf_trunc(half) != half;
  const pf_mask<pf_f64> negative = pf_copysign(one, x) < zero;
  pf_f64 r = PF_SELECT(negative && odd, -p, p);
  const pf_mask<pf_f64> none = x < zero && pf_isfinite(x) && !whole;
  r = PF_SELECT(none, pf_f64(pf_float<double>::nan()), r);
  // pow(1, y), pow(x, 0) and pow(-1, inf) are 1, NaN operands included.
  return PF_SELECT(x == one || y == zero || (x == -one && pf_isinf(y)), one, r);
}

#endif
