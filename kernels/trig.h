// Angles and hyperbolics over a value type, as elementary.h, which stands before it. What the CPU
// asks the C library for, large angles and doubles, each side has for itself. Besides:
//
//   pf_via_double<F>(x), (x, y)   of floats: what the functor F makes of them as doubles
//   pf_via_double<F>(x, k)        F's k comes as a word, too: an integral double that F sets
//   pf_odd(k)                     where a word is odd, as a mask of its value type
#ifndef PF_TRIG_H
#define PF_TRIG_H

// ---- reduction by pi/2 -------------------------------------------------------------------------
// x = k pi/2 + r; exact to the last bit for |k| < 2^30.
PF_DEVICE pf_f64 pf_reduce_pi(pf_f64 x, pf_f64& k) {
  const pf_f64 round(pf_float<double>::magic());
  k = pf_fma(x, pf_f64(0.63661977236758134308), round) - round;
  const pf_f64 r = pf_fnma(k, pf_f64(0x1.921fb54442d18p+0), x);
  return pf_fnma(k, pf_f64(0x1.1a62633145c07p-54), r);
}
struct pf_reduce_pi_of {
  PF_METHOD pf_f64 operator()(pf_f64 x, pf_f64& k) const { return pf_reduce_pi(x, k); }
};

// ---- sine and cosine ---------------------------------------------------------------------------
// sin(r) for even quadrants, cos(r) for odd ones, negated in the upper half.
PF_DEVICE pf_f32 pf_quadrant(pf_f32 r, pf_word<pf_f32> k) {
  typedef pf_word<pf_f32> B;
  const pf_f32 z = r * r;
  const pf_f32 s = pf_fma(
      r * z,
      pf_poly(z, -0.1666665422545141017, 0.0083321314941042544962, -0.00019510838860238015722), r);
  const pf_f32 c = pf_fma(
      z * z,
      pf_poly(z, 0.041666645655614609802, -0.0013887306167931820899, 0.000024431217663926672613),
      pf_fma(z, pf_f32(-0.5), pf_f32(1)));
  const pf_f32 y = PF_SELECT(pf_odd(k), c, pf_copysign(s, r));  // -0 stays
  return pf_bits<pf_f32>(pf_bits<B>(y) ^ pf_shift_left<30>(k & B(2)));
}
PF_DEVICE pf_f64 pf_quadrant(pf_f64 r, pf_word<pf_f64> k) {
  typedef pf_word<pf_f64> B;
  const pf_f64 z = r * r;
  const pf_f64 s =
      pf_fma(r * z,
             pf_poly(z, -0.16666666666666666637, 0.0083333333333333214976,
                     -0.00019841269841253600283, 2.75573192134197216e-6, -2.5052104708631912684e-8,
                     1.605834051979107216e-10, -7.5773924901252371224e-13),
             r);
  const pf_f64 c = pf_fma(
      z * z,
      pf_poly(z, 0.041666666666666591059, -0.0013888888888872598252, 0.000024801587288491742889,
              -2.7557314056473211287e-7, 2.0875681865106086391e-9, -1.135744789482826249e-11),
      pf_fma(z, pf_f64(-0.5), pf_f64(1)));
  const pf_f64 y = PF_SELECT(pf_odd(k), c, pf_copysign(s, r));  // -0 stays
  return pf_bits<pf_f64>(pf_bits<B>(y) ^ pf_shift_left<62>(k & B(2)));
}
// sin(x + shift pi/2) where pf_reduce_pi is exact. Of floats, it is in double.
PF_DEVICE pf_f32 pf_sin_near(pf_f32 x, int shift) {
  pf_word<pf_f32> k;
  const pf_f32 r = pf_via_double<pf_reduce_pi_of>(x, k);
  return pf_quadrant(r, k + pf_word<pf_f32>(shift));
}
PF_DEVICE pf_f64 pf_sin_near(pf_f64 x, int shift) {
  typedef pf_word<pf_f64> B;
  pf_f64 k;
  const pf_f64 r = pf_reduce_pi(x, k);
  return pf_quadrant(r, pf_bits<B>(k + pf_f64(pf_float<double>::magic())) + B(shift));
}

// ---- inverse functions -------------------------------------------------------------------------
// atan(x) for |x| <= 1, good for what floats are divided into.
PF_DEVICE pf_f64 pf_atan_unit(pf_f64 x) {
  return x * pf_poly(x * x, 0.99999999999999164, -0.33333333277960268845, 0.1999999619631281727,
                     -0.14285611026803290062, 0.11109639416125672555, -0.090782230938284832115,
                     0.076204238462073052498, -0.063840335519305486751, 0.050812561493209514536,
                     -0.035755456588742459514, 0.020387385296244655756, -0.0085097009524547530327,
                     0.0022556296521487233859, -0.00028084058418941432225);
}
struct pf_for_floats {
  static PF_METHOD pf_f64 atan(pf_f64 x) { return pf_atan_unit(x); }
};
template <class How>
PF_DEVICE pf_f64 pf_atan2_by(pf_f64 y, pf_f64 x) {
  const pf_f64 ax = pf_abs(x), ay = pf_abs(y), zero(0);
  const pf_mask<pf_f64> steep = ay > ax;
  const pf_f64 small = PF_SELECT(steep, ax, ay), large = PF_SELECT(steep, ay, ax);
  pf_f64 q = small / large;
  q = PF_SELECT(large == zero, zero, q);
  q = PF_SELECT(pf_isinf(ax) && pf_isinf(ay), pf_f64(1), q);
  pf_f64 a = How::atan(q);
  a = PF_SELECT(steep, pf_f64(1.57079632679489661923) - a, a);
  a = PF_SELECT(pf_copysign(pf_f64(1), x) < zero, pf_f64(3.14159265358979323846) - a, a);
  a = pf_copysign(a, y);
  return PF_SELECT(pf_isnan(x) || pf_isnan(y), x + y, a);
}
struct pf_atan2_of {
  PF_METHOD pf_f64 operator()(pf_f64 y, pf_f64 x) const { return pf_atan2_by<pf_for_floats>(y, x); }
};
PF_DEVICE pf_f32 pf_atan2(pf_f32 y, pf_f32 x) {
  return pf_via_double<pf_atan2_of>(y, x);
}
// pi/2 as a sum of two floats.
struct pf_half_pi {
  static PF_METHOD float hi() { return 0x1.921fb6p+0f; }
  static PF_METHOD float lo() { return -4.371139e-8f; }
};
PF_DEVICE pf_f32 pf_atan(pf_f32 x) {
  const pf_f32 a = pf_abs(x), one(1), hi(pf_half_pi::hi()), lo(pf_half_pi::lo());
  const pf_mask<pf_f32> steep = a > one;
  const pf_f32 q = PF_SELECT(steep, one / a, a), z = q * q;
  const pf_f32 y = pf_fma(q * z,
                          pf_poly(z, -0.3333315272164498, 0.1999377248805962, -0.14211052413601824,
                                  0.10665993049961424, -0.07552189279504723, 0.04321156315496119,
                                  -0.016367743922554946, 0.0029206460457278363),
                          q);
  return pf_copysign(PF_SELECT(steep, hi - (y - lo), y), x);
}
// asin(s) = s + rest, for s = x up to 1/2; beyond by asin(|x|) = pi/2 - 2 asin(s) with
// s = sqrt((1 - |x|) / 2).
struct pf_asin_parts {
  pf_mask<pf_f32> outer;
  pf_f32 s, rest;
  explicit PF_METHOD pf_asin_parts(pf_f32 x) {
    const pf_f32 a = pf_abs(x), half(0.5);
    outer = a > half;
    const pf_f32 z = PF_SELECT(outer, (pf_f32(1) - a) * half, x * x);
    s = PF_SELECT(outer, pf_sqrt(z), x);
    rest = s * z *
           pf_poly(z, 0.1666675248214557, 0.07495297651437119, 0.045470374063839844,
                   0.024179526352787334, 0.04216628631297331);
  }
};
PF_DEVICE pf_f32 pf_asin(pf_f32 x) {
  const pf_asin_parts p(x);
  const pf_f32 hi(pf_half_pi::hi()), lo(pf_half_pi::lo());
  const pf_f32 far = (hi - (p.s + p.s)) - (p.rest + p.rest - lo);
  return pf_copysign(PF_SELECT(p.outer, far, p.s + p.rest), x);
}
PF_DEVICE pf_f32 pf_acos(pf_f32 x) {
  const pf_asin_parts p(x);
  const pf_f32 near = pf_f32(pf_half_pi::hi()) - (p.s + (p.rest - pf_f32(pf_half_pi::lo())));
  const pf_f32 y = p.s + p.rest, twice = y + y;
  const pf_f32 back = pf_f32(2.0f * pf_half_pi::hi()) - (twice - pf_f32(2.0f * pf_half_pi::lo()));
  return PF_SELECT(p.outer, PF_SELECT(x < pf_f32(0), back, twice), near);
}

// ---- hyperbolics -------------------------------------------------------------------------------
PF_DEVICE pf_f64 pf_sinh_core(pf_f64 x) {
  const pf_f64 e = pf_expm1(pf_abs(x));
  return pf_copysign(pf_f64(0.5) * (e + e / (e + pf_f64(1))), x);
}
PF_DEVICE pf_f64 pf_cosh_core(pf_f64 x) {
  const pf_f64 e = pf_exp(pf_abs(x));
  return pf_f64(0.5) * (e + pf_f64(1) / e);
}
PF_DEVICE pf_f64 pf_asinh_core(pf_f64 x) {
  const pf_f64 a = pf_abs(x), z = a * a, one(1);
  return pf_copysign(pf_log1p(a + z / (one + pf_sqrt(z + one))), x);
}
PF_DEVICE pf_f64 pf_acosh_core(pf_f64 x) {
  const pf_f64 one(1), t = x - one;
  return pf_log1p(t + pf_sqrt(t * (x + one)));
}
// Of floats. What exceeds their range is infinite after rounding, inf / inf must not arise before.
struct pf_sinh_of {
  PF_METHOD pf_f64 operator()(pf_f64 x) const {
    return pf_sinh_core(pf_at_most(100.0, pf_at_least(-100.0, x)));
  }
};
struct pf_cosh_of {
  PF_METHOD pf_f64 operator()(pf_f64 x) const {
    return pf_cosh_core(pf_at_most(100.0, pf_at_least(-100.0, x)));
  }
};
struct pf_asinh_of {
  PF_METHOD pf_f64 operator()(pf_f64 x) const {
    return PF_SELECT(pf_isinf(x), x, pf_asinh_core(x));
  }
};
struct pf_acosh_of {
  PF_METHOD pf_f64 operator()(pf_f64 x) const {
    const pf_f64 y = PF_SELECT(pf_isinf(x), x, pf_acosh_core(x));
    return PF_SELECT(x < pf_f64(1), pf_f64(pf_float<double>::nan()), y);
  }
};
PF_DEVICE pf_f32 pf_sinh(pf_f32 x) {
  return pf_via_double<pf_sinh_of>(x);
}
PF_DEVICE pf_f32 pf_cosh(pf_f32 x) {
  return pf_via_double<pf_cosh_of>(x);
}
PF_DEVICE pf_f32 pf_asinh(pf_f32 x) {
  return pf_via_double<pf_asinh_of>(x);
}
PF_DEVICE pf_f32 pf_acosh(pf_f32 x) {
  return pf_via_double<pf_acosh_of>(x);
}
// A polynomial up to 1/2, above it log((1 + x) / (1 - x)) / 2.
PF_DEVICE pf_f32 pf_atanh(pf_f32 x) {
  const pf_f32 a = pf_abs(x), z = x * x, one(1), half(0.5);
  const pf_f32 near =
      pf_fma(a * z,
             pf_poly(z, 0.3333330007154921, 0.20002518267845296, 0.14222762446924628,
                     0.1182372686597986, 0.05135836570895458, 0.17669100509623759),
             a);
  const pf_f32 far = half * pf_log((one + a) / (one - a));
  return pf_copysign(PF_SELECT(a > half, far, near), x);
}

#endif
