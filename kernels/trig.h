// Angles, hyperbolics and powers: the rest of math.h, which includes this.
#ifndef PF_TRIG_H
#define PF_TRIG_H

// ---- reduction by pi/2 -------------------------------------------------------------------------
// x = k pi/2 + r; exact to the last bit for |k| < 2^30.
PF_DEVICE double pf_reduce_pi(double x, double& k) {
  const double round = pf_float<double>::magic();
  k = pf_fma(x, 0.63661977236758134308, round) - round;
  const double r = pf_fma(-k, 0x1.921fb54442d18p+0, x);
  return pf_fma(-k, 0x1.1a62633145c07p-54, r);
}
// 2 / pi as a binary fraction.
PF_TABLE pf_u32 pf_two_over_pi[] = {
    0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu,
    0xdebbc561u, 0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu,
    0xe88235f5u, 0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu,
    0xbdf9283bu, 0x1ff897ffu, 0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u,
    0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u,
    0x1f8d5d08u, 0x56033046u, 0xfc7b6babu, 0xf0cfbc20u};
struct pf_angle {
  double r;
  pf_i64 k;
};
// The same for any finite x from 2^26: the product with those bits of 2 / pi that count modulo 4.
PF_COLD pf_angle pf_reduce_huge(double x) {
  const pf_u64 bits = pf_bits<pf_u64>(x);
  const int e = static_cast<int>(bits >> 52 & 0x7ff) - 1075;
  const pf_u64 m = (bits & 0xfffffffffffffull) | 0x10000000000000ull;
  const int first = e < 2 ? 0 : (e - 2) / 32;
  // p = m * seven words, least significant word first.
  const pf_u64 m0 = m & 0xffffffffull, m1 = m >> 32;
  pf_u32 p[9];
  pf_u64 carry0 = 0, carry1 = 0, before = 0;
  PF_UNROLL for (int i = 0; i < 7; ++i) {
    const pf_u64 w = pf_two_over_pi[first + 6 - i];
    const pf_u64 low = m0 * w + carry0;
    carry0 = low >> 32;
    const pf_u64 sum = (low & 0xffffffffull) + before;  // what m1 gave to this word
    const pf_u64 high = m1 * w + carry1 + (sum >> 32);
    p[i] = static_cast<pf_u32>(sum);
    before = high & 0xffffffffull;
    carry1 = high >> 32;
  }
  const pf_u64 top = carry0 + before;
  p[7] = static_cast<pf_u32>(top);
  p[8] = static_cast<pf_u32>(carry1 + (top >> 32));
  // The binary point is above bit `point`, which lies in word 5, 6 or 7.
  const int point = 32 * (first + 7) - e, word = point >> 5, s = point & 31;
  const auto at = [&](int i) {
    return word == 5 ? p[5 + i] : word == 6 ? p[6 + i] : p[(7 + i) % 9];
  };
  const pf_u64 a = at(1), b = at(0), c = at(-1), d = at(-2), f = at(-3), g = at(-4);
  pf_u64 quadrant = ((a << 32 | b) >> s) & 3;
  pf_u64 high = (b << 32 | c) << (32 - s) | d >> s;
  pf_u64 low = (d << 32 | f) << (32 - s) | g >> s;
  bool negative = false;
  if (high >> 63) {
    ++quadrant;
    negative = true;
    low = ~low + 1;
    high = ~high + (low == 0 ? 1 : 0);
  }
  double scale = 0x1p-64;
  while (high >> 63 == 0 && scale > 0x1p-126) {
    high = high << 1 | low >> 63;
    low <<= 1;
    scale *= 0.5;
  }
  const double y = static_cast<double>(high >> 11) * 2048.0;
  const double rest = static_cast<double>(high & 0x7ff);
  const double pi_hi = 0x1.921fb54442d18p+0, pi_lo = 0x1.1a62633145c07p-54;
  const double product = y * pi_hi;
  const double error = pf_fma(y, pi_hi, -product) + y * pi_lo + rest * pi_hi;
  double r = (product + error) * scale;
  pf_i64 k = static_cast<pf_i64>(quadrant);
  if (negative) r = -r;
  if (bits >> 63) r = -r, k = -k;
  return {r, k};
}

// ---- sine and cosine ---------------------------------------------------------------------------
// sin(r) for even quadrants, cos(r) for odd ones, negated in the upper half.
PF_DEVICE float pf_quadrant(float r, pf_u32 k) {
  const float z = r * r;
  const float s = pf_fma(
      r * z,
      pf_poly(z, -0.1666665422545141017, 0.0083321314941042544962, -0.00019510838860238015722), r);
  const float c = pf_fma(
      z * z,
      pf_poly(z, 0.041666645655614609802, -0.0013887306167931820899, 0.000024431217663926672613),
      pf_fma(z, -0.5f, 1.0f));
  const float y = k & 1u ? c : pf_copysign(s, r);  // -0 stays
  return pf_bits<float>(pf_bits<pf_u32>(y) ^ (k & 2u) << 30);
}
PF_DEVICE double pf_quadrant(double r, pf_u64 k) {
  const double z = r * r;
  const double s =
      pf_fma(r * z,
             pf_poly(z, -0.16666666666666666637, 0.0083333333333333214976,
                     -0.00019841269841253600283, 2.75573192134197216e-6, -2.5052104708631912684e-8,
                     1.605834051979107216e-10, -7.5773924901252371224e-13),
             r);
  const double c = pf_fma(
      z * z,
      pf_poly(z, 0.041666666666666591059, -0.0013888888888872598252, 0.000024801587288491742889,
              -2.7557314056473211287e-7, 2.0875681865106086391e-9, -1.135744789482826249e-11),
      pf_fma(z, -0.5, 1.0));
  const double y = k & 1u ? c : pf_copysign(s, r);  // -0 stays
  return pf_bits<double>(pf_bits<pf_u64>(y) ^ (k & 2u) << 62);
}
PF_DEVICE double pf_sin_shifted(double x, int shift) {
  const double a = pf_abs(x);
  if (a >= 0x1p26 && a < pf_float<double>::infinity()) {
    const pf_angle huge = pf_reduce_huge(x);
    return pf_quadrant(huge.r, static_cast<pf_u64>(huge.k + shift));
  }
  double k;
  const double r = pf_reduce_pi(x, k);
  return pf_quadrant(r,
                     pf_bits<pf_u64>(k + pf_float<double>::magic()) + static_cast<pf_u64>(shift));
}
// Reduction in double, the polynomial in float.
PF_DEVICE float pf_sin_shifted(float x, int shift) {
  const float a = pf_abs(x);
  if (a >= 0x1p30f && a < pf_float<float>::infinity()) {
    const pf_angle huge = pf_reduce_huge(static_cast<double>(x));
    return static_cast<float>(pf_quadrant(huge.r, static_cast<pf_u64>(huge.k + shift)));
  }
  double k;
  const float r = static_cast<float>(pf_reduce_pi(static_cast<double>(x), k));
  return pf_quadrant(r, static_cast<pf_u32>(pf_bits<pf_u64>(k + pf_float<double>::magic())) +
                            static_cast<pf_u32>(shift));
}
template <class T>
PF_DEVICE T pf_sin(T x) {
  return pf_sin_shifted(x, 0);
}
template <class T>
PF_DEVICE T pf_cos(T x) {
  return pf_sin_shifted(x, 1);
}
PF_DEVICE double pf_tan(double x) {
  const double a = pf_abs(x);
  double k, r;
  pf_u64 q;
  if (a >= 0x1p26 && a < pf_float<double>::infinity()) {
    const pf_angle huge = pf_reduce_huge(x);
    r = huge.r;
    q = static_cast<pf_u64>(huge.k);
  } else {
    r = pf_reduce_pi(x, k);
    q = pf_bits<pf_u64>(k + pf_float<double>::magic());
  }
  return pf_quadrant(r, q) / pf_quadrant(r, q + 1);
}
PF_DEVICE float pf_tan(float x) {
  return static_cast<float>(pf_tan(static_cast<double>(x)));
}

// ---- inverse functions -------------------------------------------------------------------------
// atan(x) for |x| <= 1, good for what floats are divided into.
PF_DEVICE double pf_atan_unit(double x) {
  return x * pf_poly(x * x, 0.99999999999999164, -0.33333333277960268845, 0.1999999619631281727,
                     -0.14285611026803290062, 0.11109639416125672555, -0.090782230938284832115,
                     0.076204238462073052498, -0.063840335519305486751, 0.050812561493209514536,
                     -0.035755456588742459514, 0.020387385296244655756, -0.0085097009524547530327,
                     0.0022556296521487233859, -0.00028084058418941432225);
}
// The same, good for doubles: below tan(pi/8) the polynomial, above it by the angle from pi/4.
PF_DEVICE double pf_atan_exact(double x) {
  const bool far = x > 0.41421356237309503;
  const double y = far ? (x - 1.0) / (x + 1.0) : x;
  const double z = y * y;
  const double p = pf_poly(z, -0.33333333333333326, 0.19999999999997015, -0.1428571428532971,
                           0.11111111085322109, -0.09090908059031191, 0.07692281099937744,
                           -0.06666205259976526, 0.05876834004614161, -0.05217312574061591,
                           0.04499500728984032, -0.03338782450121195, 0.015113765096600925);
  const double a = pf_fma(y * z, p, y);
  return far ? 0.78539816339744831 + (a + 3.0616169978683830e-17) : a;
}
struct pf_for_floats {
  static PF_METHOD double atan(double x) { return pf_atan_unit(x); }
};
struct pf_for_doubles {
  static PF_METHOD double atan(double x) { return pf_atan_exact(x); }
};
template <class How>
PF_DEVICE double pf_atan2_by(double y, double x) {
  const double ax = pf_abs(x), ay = pf_abs(y);
  const bool steep = ay > ax;
  const double small = steep ? ax : ay, large = steep ? ay : ax;
  double q = small / large;
  q = large == 0.0 ? 0.0 : q;
  q = pf_isinf(ax) && pf_isinf(ay) ? 1.0 : q;
  double a = How::atan(q);
  a = steep ? 1.57079632679489661923 - a : a;
  a = pf_copysign(1.0, x) < 0.0 ? 3.14159265358979323846 - a : a;
  a = pf_copysign(a, y);
  return x != x || y != y ? x + y : a;
}
PF_DEVICE double pf_atan(double x) {
  const double a = pf_abs(x);
  const bool steep = a > 1.0;
  const double y = pf_atan_exact(steep ? 1.0 / a : a);
  return pf_copysign(steep ? 1.57079632679489661923 - y : y, x);
}
PF_DEVICE double pf_asin(double x) {
  return pf_atan2_by<pf_for_doubles>(x, pf_sqrt((1.0 - x) * (1.0 + x)));
}
PF_DEVICE double pf_acos(double x) {
  return pf_atan2_by<pf_for_doubles>(pf_sqrt((1.0 - x) * (1.0 + x)), x);
}
// pi/2 as a sum of two floats.
struct pf_half_pi {
  static PF_METHOD float hi() { return 0x1.921fb6p+0f; }
  static PF_METHOD float lo() { return -4.371139e-8f; }
};
PF_DEVICE float pf_atan(float x) {
  const float a = pf_abs(x);
  const bool steep = a > 1.0f;
  const float q = steep ? 1.0f / a : a, z = q * q;
  const float y = pf_fma(q * z,
                         pf_poly(z, -0.3333315272164498, 0.1999377248805962, -0.14211052413601824,
                                 0.10665993049961424, -0.07552189279504723, 0.04321156315496119,
                                 -0.016367743922554946, 0.0029206460457278363),
                         q);
  return pf_copysign(steep ? pf_half_pi::hi() - (y - pf_half_pi::lo()) : y, x);
}
// asin(s) = s + rest, for s = x up to 1/2; beyond by asin(|x|) = pi/2 - 2 asin(s) with
// s = sqrt((1 - |x|) / 2).
struct pf_asin_parts {
  bool outer;
  float s, rest;
  explicit PF_METHOD pf_asin_parts(float x) {
    const float a = pf_abs(x);
    outer = a > 0.5f;
    const float z = outer ? (1.0f - a) * 0.5f : x * x;
    s = outer ? pf_sqrt(z) : x;
    rest = s * z *
           pf_poly(z, 0.1666675248214557, 0.07495297651437119, 0.045470374063839844,
                   0.024179526352787334, 0.04216628631297331);
  }
};
PF_DEVICE float pf_asin(float x) {
  const pf_asin_parts p(x);
  const float far = (pf_half_pi::hi() - (p.s + p.s)) - (p.rest + p.rest - pf_half_pi::lo());
  return pf_copysign(p.outer ? far : p.s + p.rest, x);
}
PF_DEVICE float pf_acos(float x) {
  const pf_asin_parts p(x);
  const float near = pf_half_pi::hi() - (p.s + (p.rest - pf_half_pi::lo()));
  const float y = p.s + p.rest, twice = y + y;
  const float back = 2.0f * pf_half_pi::hi() - (twice - 2.0f * pf_half_pi::lo());
  return p.outer ? (x < 0.0f ? back : twice) : near;
}
PF_DEVICE double pf_atan2(double y, double x) {
  return pf_atan2_by<pf_for_doubles>(y, x);
}
PF_DEVICE float pf_atan2(float y, float x) {
  return static_cast<float>(
      pf_atan2_by<pf_for_floats>(static_cast<double>(y), static_cast<double>(x)));
}

// ---- hyperbolics -------------------------------------------------------------------------------
PF_DEVICE double pf_sinh_core(double x) {
  const double e = pf_expm1(pf_abs(x));
  return pf_copysign(0.5 * (e + e / (e + 1.0)), x);
}
PF_DEVICE double pf_cosh_core(double x) {
  const double e = pf_exp(pf_abs(x));
  return 0.5 * (e + 1.0 / e);
}
PF_DEVICE double pf_asinh_core(double x) {
  const double a = pf_abs(x), z = a * a;
  return pf_copysign(pf_log1p(a + z / (1.0 + pf_sqrt(z + 1.0))), x);
}
PF_DEVICE double pf_acosh_core(double x) {
  const double t = x - 1.0;
  return pf_log1p(t + pf_sqrt(t * (x + 1.0)));
}
PF_DEVICE double pf_atanh(double x) {
  const double a = pf_abs(x);
  return pf_copysign(0.5 * pf_log1p((a + a) / (1.0 - a)), x);
}
// A polynomial up to 1/2, above it log((1 + x) / (1 - x)) / 2.
PF_DEVICE float pf_atanh(float x) {
  const float a = pf_abs(x), z = x * x;
  const float near = pf_fma(a * z,
                            pf_poly(z, 0.3333330007154921, 0.20002518267845296, 0.14222762446924628,
                                    0.1182372686597986, 0.05135836570895458, 0.17669100509623759),
                            a);
  const float far = 0.5f * pf_log((1.0f + a) / (1.0f - a));
  return pf_copysign(a > 0.5f ? far : near, x);
}
// What exceeds the range of float is infinite after rounding, inf / inf must not arise before.
PF_DEVICE float pf_sinh(float x) {
  const double wide = x;
  return static_cast<float>(pf_sinh_core(pf_at_most(100.0, pf_at_least(-100.0, wide))));
}
PF_DEVICE float pf_cosh(float x) {
  const double wide = x;
  return static_cast<float>(pf_cosh_core(pf_at_most(100.0, pf_at_least(-100.0, wide))));
}
PF_DEVICE float pf_asinh(float x) {
  const double wide = x;
  return static_cast<float>(pf_isinf(wide) ? wide : pf_asinh_core(wide));
}
PF_DEVICE float pf_acosh(float x) {
  const double wide = x;
  const double y = pf_isinf(wide) ? wide : pf_acosh_core(wide);
  return static_cast<float>(wide < 1.0 ? pf_float<double>::nan() : y);
}
// Of large doubles e^x may overflow before its half does; squares of large ones do.
PF_DEVICE double pf_sinh(double x) {
  const double a = pf_abs(x);
  if (!(a > 40.0)) return pf_sinh_core(x);
  const double h = pf_exp(0.5 * a);
  return pf_copysign(0.5 * h * h, x);
}
PF_DEVICE double pf_cosh(double x) {
  const double a = pf_abs(x);
  if (!(a > 40.0)) return pf_cosh_core(x);
  const double h = pf_exp(0.5 * a);
  return 0.5 * h * h;
}
PF_DEVICE double pf_asinh(double x) {
  const double a = pf_abs(x);
  if (!(a > 0x1p28)) return pf_asinh_core(x);
  return pf_copysign(pf_log(a) + 0x1.62e42fefa39efp-1, x);
}
PF_DEVICE double pf_acosh(double x) {
  const double y = x > 0x1p28 ? pf_log(x) + 0x1.62e42fefa39efp-1 : pf_acosh_core(x);
  return x < 1.0 ? pf_float<double>::nan() : y;
}

// ---- the gamma function -------------------------------------------------------------------------
// In double. Arguments below 1/2 are reflected to 1 - x, and what is below 8 then is shifted up by
// 8, where the series of Stirling holds.
struct pf_gamma_place {
  bool below, small;
  double z, shifted, r, angle;
  explicit PF_METHOD pf_gamma_place(double x) {
    below = x < 0.5;
    z = below ? 1.0 - x : x;
    angle = (x - pf_round(x)) * 3.14159265358979323846;  // its sine is exactly 0 at poles
    small = z < 8.0;
    shifted = small ? z + 8.0 : z;
    r = 1.0 / shifted;
  }
};
PF_DEVICE double pf_lgamma(double x) {
  const pf_gamma_place at(x);
  double product = at.small ? at.z : 1.0;
  PF_UNROLL for (int k = 1; k < 8; ++k) product = product * (at.small ? at.z + k : 1.0);
  const double t = at.r * at.r;
  const double series = at.r * pf_poly(t, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188,
                                       -691.0 / 360360, 1.0 / 156);
  const double high =
      pf_fma(at.shifted - 0.5, pf_log(at.shifted), 0.91893853320467274178) - at.shifted + series;
  // One logarithm of what both the shift and the reflection divide by.
  const double sine = pf_abs(pf_sin_shifted(at.angle, 0));
  const double up = at.below ? 3.14159265358979323846 * product : 1.0;
  const double rest = pf_log(up / (at.below ? sine : product));
  double y = rest + (at.below ? -high : high);
  y = x == 1.0 || x == 2.0 ? 0.0 : y;
  return pf_isinf(x) ? pf_float<double>::infinity() : y;
}
PF_DEVICE double pf_digamma(double x) {
  const pf_gamma_place at(x);
  const double base = at.small ? at.z : 1.0;
  double up = 1.0, down = base;  // the sum of 1 / (z + k) as one fraction
  PF_UNROLL for (int k = 1; k < 8; ++k) {
    const double q = base + k;
    up = pf_fma(up, q, down);
    down = down * q;
  }
  const double t = at.r * at.r;
  const double series = t * pf_poly(t, -1.0 / 12, 1.0 / 120, -1.0 / 252, 1.0 / 240, -1.0 / 132,
                                    691.0 / 32760, -1.0 / 12);
  double y = pf_log(at.shifted) - 0.5 * at.r + series;
  y = y - (at.small ? up / down : 0.0);
  const double turn =
      3.14159265358979323846 * pf_sin_shifted(at.angle, 1) / pf_sin_shifted(at.angle, 0);
  y = at.below ? y - turn : y;
  y = at.angle == 0.0 && x < 0.0 ? pf_float<double>::nan() : y;
  return x == 0.0 ? pf_copysign(pf_float<double>::infinity(), -x) : y;
}
PF_DEVICE double pf_trigamma(double x) {
  const pf_gamma_place at(x);
  const double base = at.small ? at.z : 1.0;
  double up = 1.0, down = base * base;
  PF_UNROLL for (int k = 1; k < 8; ++k) {
    const double q = base + k, square = q * q;
    up = pf_fma(up, square, down);
    down = down * square;
  }
  const double t = at.r * at.r;
  const double series =
      pf_poly(t, 1.0, 1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6);
  const double y = pf_fma(at.r, pf_fma(0.5, at.r, series), at.small ? up / down : 0.0);
  const double turn = 3.14159265358979323846 / pf_sin_shifted(at.angle, 0);
  return at.below ? turn * turn - y : y;
}
#define PF_VIA_DOUBLE(NAME)                                       \
  PF_DEVICE float pf_##NAME(float x) {                            \
    return static_cast<float>(pf_##NAME(static_cast<double>(x))); \
  }
PF_VIA_DOUBLE(lgamma)
PF_VIA_DOUBLE(digamma)
PF_VIA_DOUBLE(trigamma)
#undef PF_VIA_DOUBLE

// ---- powers ------------------------------------------------------------------------------------
// p = |x|^y given: its sign, and the cases that have values of their own.
PF_DEVICE double pf_power_edges(double x, double y, double p) {
  const bool whole = pf_trunc(y) == y;
  const double half = y * 0.5;
  const bool odd = whole && pf_trunc(half) != half;
  const bool negative = pf_copysign(1.0, x) < 0.0;
  double r = negative && odd ? -p : p;
  r = x < 0.0 && pf_isfinite(x) && !whole ? pf_float<double>::nan() : r;
  // pow(1, y), pow(x, 0) and pow(-1, inf) are 1, NaN operands included.
  return x == 1.0 || y == 0.0 || (x == -1.0 && pf_isinf(y)) ? 1.0 : r;
}
// Squares are products.
PF_DEVICE float pf_pow(float x, float y) {
  const double wx = x, wy = y;
  const double p = pf_exp(wy * pf_log(pf_abs(wx)));
  return y == 2.0f ? x * x : static_cast<float>(pf_power_edges(wx, wy, p));
}
// The logarithm as a sum of two doubles, good to about 2^-64, for x positive and finite.
PF_DEVICE double pf_log_twice(double x, double& low) {
  double k;
  const double f = pf_reduce_log(x, k);
  // s = f / (2 + f); log(1 + f) = 2 s + s^3 (2/3 + 2/5 s^2 + ...).
  const double u = f + 2.0, u_low = f - (u - 2.0);
  const double s = f / u, s_low = (pf_fma(-s, u, f) - s * u_low) / u;
  const double z = s * s, z_low = pf_fma(s, s, -z) + 2.0 * (s * s_low);
  const double tail = z * pf_poly(z, 0.4, 0.28571428571429364, 0.22222222221655885,
                                  0.18181818335392802, 0.15384594962518428, 0.13334804693847518,
                                  0.11706236339486488, 0.11723178623919275);
  const double c = 0x1.5555555555555p-1, p = c + tail;
  const double p_low = (tail - (p - c)) + 0x1.5555555555555p-55;
  const double w = z * p, w_low = pf_fma(z, p, -w) + (z * p_low + z_low * p);
  const double t = s * w, t_low = pf_fma(s, w, -t) + (s * w_low + s_low * w);
  // (2 s + t) + k ln2, largest first.
  const double a = 2.0 * s, m = a + t;
  const double m_low = (t - (m - a)) + (2.0 * s_low + t_low);
  const double l = k * 0x1.62e42fefa39efp-1;
  const double l_low = pf_fma(k, 0x1.62e42fefa39efp-1, -l) + k * 0x1.abc9e3b39803fp-56;
  const double h = l + m, back = h - l;
  low = ((l - (h - back)) + (m - back)) + (l_low + m_low);
  return h;
}
PF_DEVICE double pf_pow(double x, double y) {
  const double a = pf_abs(x), inf = pf_float<double>::infinity();
  double low;
  const double high = pf_log_twice(a, low);
  const double e = y * high;
  const double rest = pf_fma(y, high, -e) + y * low;
  const double by_parts = pf_exp(e);
  double p = pf_abs(e) < 745.0 ? pf_fma(by_parts, rest, by_parts) : by_parts;
  if (!(a > 0.0) || !(a < inf) || !(pf_abs(y) < inf)) p = pf_exp(y * pf_log(a));
  return y == 2.0 ? x * x : pf_power_edges(x, y, p);
}

#endif
