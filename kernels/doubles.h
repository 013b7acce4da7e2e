// What the CPU asks the C library for, angles too large for pf_reduce_pi and rare functions of
// doubles, good to a few units in the last place. Part of math.h.
#ifndef PF_DOUBLES_H
#define PF_DOUBLES_H

// ---- large angles ------------------------------------------------------------------------------
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
  // By masks: what a condition chooses among words would be chosen by their address, in memory.
  const pf_u32 is5 = word == 5 ? ~0u : 0u, is6 = word == 6 ? ~0u : 0u, is7 = ~(is5 | is6);
  const auto at = [&](int i) {
    return (p[5 + i] & is5) | (p[6 + i] & is6) | (p[(7 + i) % 9] & is7);
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

PF_DEVICE double pf_sin_shifted(double x, int shift) {
  const double a = pf_abs(x);
  if (a >= 0x1p26 && a < pf_float<double>::infinity()) {
    const pf_angle huge = pf_reduce_huge(x);
    return pf_quadrant(huge.r, static_cast<pf_u64>(huge.k + shift));
  }
  return pf_sin_near(x, shift);
}
PF_DEVICE float pf_sin_shifted(float x, int shift) {
  const float a = pf_abs(x);
  if (a >= 0x1p30f && a < pf_float<float>::infinity()) {
    const pf_angle huge = pf_reduce_huge(static_cast<double>(x));
    return static_cast<float>(pf_quadrant(huge.r, static_cast<pf_u64>(huge.k + shift)));
  }
  return pf_sin_near(x, shift);
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

// ---- logarithm, inverse functions, hyperbolics -------------------------------------------------
PF_DEVICE double pf_log10(double x) {
  return pf_log(x) * 0.43429448190325182765;
}
// atan(x) for |x| <= 1: below tan(pi/8) a polynomial, above it by the angle from pi/4.
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
struct pf_for_doubles {
  static PF_METHOD double atan(double x) { return pf_atan_exact(x); }
};
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
PF_DEVICE double pf_atan2(double y, double x) {
  return pf_atan2_by<pf_for_doubles>(y, x);
}
PF_DEVICE double pf_atanh(double x) {
  const double a = pf_abs(x);
  return pf_copysign(0.5 * pf_log1p((a + a) / (1.0 - a)), x);
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

// ---- error functions ---------------------------------------------------------------------------
// A polynomial near 0; elsewhere (1 + 2x) exp(x^2) erfc(x) is one in (x - 3) / (x + 3).
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

// ---- powers ------------------------------------------------------------------------------------
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
