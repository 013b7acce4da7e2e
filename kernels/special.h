// Error functions, the gamma function and powers over a value type, as elementary.h and trig.h,
// which stand before it; so does pf_erfc of doubles, which the CPU asks the C library for. Besides:
//
//   PF_TABLE                  before an array of constants
//   pf_look_up(row, k)        of eight numbers the one that a word's low bits say
#ifndef PF_SPECIAL_H
#define PF_SPECIAL_H

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
PF_DEVICE pf_f32 pf_erf(pf_f32 x) {
  const pf_f32 magic(pf_float<float>::magic()), a = pf_at_most(3.9999f, pf_abs(x));
  const pf_f32 shifted = pf_fma(a, pf_f32(1.875), magic);
  const pf_f32 t = pf_fnma(shifted - magic, pf_f32(8.0 / 15), a);
  const pf_word<pf_f32> k = pf_bits<pf_word<pf_f32>>(shifted);
  pf_f32 y = pf_look_up(pf_erf_table[6], k);
  PF_UNROLL for (int j = 5; j >= 0; --j) y = pf_fma(y, t, pf_look_up(pf_erf_table[j], k));
  return pf_copysign(y, x);
}
// The upper tail of the normal distribution, (1 - erf(a / sqrt(2))) / 2, around k * 13 / 16 for k =
// 0 .. 7: where each begins, then a row for each degree. At 7 * 13 / 16 it is 0.
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
// x where it is positive, less |x| times the tail: within 1.5 units in the last place for positive
// x and small ones, and relatively right far into the negative tail, where x (1 + erf) / 2 is not.
PF_DEVICE pf_f32 pf_gelu(pf_f32 x) {
  const pf_f32 magic(pf_float<float>::magic()), a = pf_at_most(5.6875f, pf_abs(x));
  const pf_word<pf_f32> k = pf_bits<pf_word<pf_f32>>(pf_fma(a, pf_f32(16.0 / 13), magic));
  const pf_f32 t = a - pf_look_up(pf_tail_at, k);  // exact
  pf_f32 y = pf_look_up(pf_tail_table[6], k);
  PF_UNROLL for (int j = 5; j >= 0; --j) y = pf_fma(y, t, pf_look_up(pf_tail_table[j], k));
  return pf_fnma(a, y, pf_at_least(0.0f, x));
}
PF_DEVICE pf_f64 pf_gelu(pf_f64 x) {
  const pf_f64 a = pf_at_most(40.0, pf_abs(x));  // the tail is 0 there, inf times it would be NaN
  const pf_f64 tail = pf_f64(0.5) * pf_erfc(a * pf_f64(0.70710678118654752440));
  return pf_fnma(a, tail, pf_at_least(0.0, x));
}
// The derivative of that.
template <class F>
PF_DEVICE F pf_gelu_slope_of(F x) {
  const F below = F(0.5) * (F(1.0) + pf_erf(x * F(0.70710678118654752440)));
  return below + x * (F(0.39894228040143267794) * pf_exp(F(-0.5) * (x * x)));
}
PF_DEVICE pf_f32 pf_gelu_slope(pf_f32 x) {
  return pf_gelu_slope_of(x);
}
PF_DEVICE pf_f64 pf_gelu_slope(pf_f64 x) {
  return pf_gelu_slope_of(x);
}
// Of floats: exp(x^2) erfc(x) is a polynomial in 3 / (3 + x) for x in [0, 11].
struct pf_erfc_of {
  PF_METHOD pf_f64 operator()(pf_f64 x) const {
    const pf_f64 a = pf_at_most(11.0, pf_abs(x));
    const pf_f64 t = pf_f64(3) / (pf_f64(3) + a);
    const pf_f64 r =
        pf_poly(t, -1.0785156399342170014e-7, 0.1880700700429581485, 0.1879197909266754504,
                0.17919060393609499074, 0.14594775155264958549, 0.17670502484346708984,
                -0.067598767427680144049, 0.42388911789388145421, -0.57100794322425339345,
                0.67555584982738203861, -0.49562186757554217029, 0.18441747698671992827,
                -0.027466999963111199825);
    const pf_f64 y = r * pf_exp(-(a * a));
    return PF_SELECT(x < pf_f64(0), pf_f64(2) - y, y);
  }
};
PF_DEVICE pf_f32 pf_erfc(pf_f32 x) {
  return pf_via_double<pf_erfc_of>(x);
}

// ---- the gamma function -------------------------------------------------------------------------
// In double. Arguments below 1/2 are reflected to 1 - x, and what is below 8 then is shifted up by
// 8, where the series of Stirling holds.
struct pf_gamma_place {
  pf_mask<pf_f64> below, small;
  pf_f64 z, shifted, r, angle;
  explicit PF_METHOD pf_gamma_place(pf_f64 x) {
    const pf_f64 one(1), eight(8);
    below = x < pf_f64(0.5);
    z = PF_SELECT(below, one - x, x);
    angle = (x - pf_round(x)) * pf_f64(3.14159265358979323846);  // its sine is exactly 0 at poles
    small = z < eight;
    shifted = PF_SELECT(small, z + eight, z);
    r = one / shifted;
  }
};
PF_DEVICE pf_f64 pf_lgamma(pf_f64 x) {
  const pf_gamma_place at(x);
  const pf_f64 one(1);
  pf_f64 product = PF_SELECT(at.small, at.z, one);
  PF_UNROLL for (int k = 1; k < 8; ++k) product =
      product * PF_SELECT(at.small, at.z + pf_f64(k), one);
  const pf_f64 t = at.r * at.r;
  const pf_f64 series = at.r * pf_poly(t, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188,
                                       -691.0 / 360360, 1.0 / 156);
  const pf_f64 high =
      pf_fma(at.shifted - pf_f64(0.5), pf_log(at.shifted), pf_f64(0.91893853320467274178)) -
      at.shifted + series;
  // One logarithm of what both the shift and the reflection divide by.
  const pf_f64 sine = pf_abs(pf_sin_near(at.angle, 0));
  const pf_f64 up = PF_SELECT(at.below, pf_f64(3.14159265358979323846) * product, one);
  // Next to 0 the quotient is no float64: there it is -log |x|.
  const pf_mask<pf_f64> tiny = pf_abs(x) < pf_f64(1e-280);
  const pf_f64 rest = pf_log(PF_SELECT(tiny, pf_abs(x), up / PF_SELECT(at.below, sine, product)));
  pf_f64 y = rest + PF_SELECT(at.below, -high, high);
  y = PF_SELECT(tiny, -rest, y);
  y = PF_SELECT(x == one || x == pf_f64(2), pf_f64(0), y);
  return PF_SELECT(pf_isinf(x), pf_f64(pf_float<double>::infinity()), y);
}
PF_DEVICE pf_f64 pf_digamma(pf_f64 x) {
  const pf_gamma_place at(x);
  const pf_f64 one(1), zero(0);
  const pf_f64 base = PF_SELECT(at.small, at.z, one);
  pf_f64 up = one, down = base;  // the sum of 1 / (z + k) as one fraction
  PF_UNROLL for (int k = 1; k < 8; ++k) {
    const pf_f64 q = base + pf_f64(k);
    up = pf_fma(up, q, down);
    down = down * q;
  }
  const pf_f64 t = at.r * at.r;
  const pf_f64 series = t * pf_poly(t, -1.0 / 12, 1.0 / 120, -1.0 / 252, 1.0 / 240, -1.0 / 132,
                                    691.0 / 32760, -1.0 / 12);
  pf_f64 y = pf_log(at.shifted) - pf_f64(0.5) * at.r + series;
  y = y - PF_SELECT(at.small, up / down, zero);
  const pf_f64 turn =
      pf_f64(3.14159265358979323846) * pf_sin_near(at.angle, 1) / pf_sin_near(at.angle, 0);
  y = PF_SELECT(at.below, y - turn, y);
  y = PF_SELECT(at.angle == zero && x < zero, pf_f64(pf_float<double>::nan()), y);
  return PF_SELECT(x == zero, pf_copysign(pf_f64(pf_float<double>::infinity()), -x), y);
}
PF_DEVICE pf_f64 pf_trigamma(pf_f64 x) {
  const pf_gamma_place at(x);
  const pf_f64 one(1), half(0.5);
  const pf_f64 base = PF_SELECT(at.small, at.z, one);
  pf_f64 up = one, down = base * base;
  PF_UNROLL for (int k = 1; k < 8; ++k) {
    const pf_f64 q = base + pf_f64(k), square = q * q;
    up = pf_fma(up, square, down);
    down = down * square;
  }
  const pf_f64 t = at.r * at.r;
  const pf_f64 series =
      pf_poly(t, 1.0, 1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6);
  const pf_f64 y =
      pf_fma(at.r, pf_fma(half, at.r, series), PF_SELECT(at.small, up / down, pf_f64(0)));
  const pf_f64 turn = pf_f64(3.14159265358979323846) / pf_sin_near(at.angle, 0);
  return PF_SELECT(at.below, turn * turn - y, y);
}
#define PF_VIA_DOUBLE(NAME)                                              \
  struct pf_##NAME##_of {                                                \
    PF_METHOD pf_f64 operator()(pf_f64 x) const { return pf_##NAME(x); } \
  };                                                                     \
  PF_DEVICE pf_f32 pf_##NAME(pf_f32 x) {                                 \
    return pf_via_double<pf_##NAME##_of>(x);                             \
  }
PF_VIA_DOUBLE(lgamma)
PF_VIA_DOUBLE(digamma)
PF_VIA_DOUBLE(trigamma)
#undef PF_VIA_DOUBLE

// ---- powers of floats ---------------------------------------------------------------------------
struct pf_pow_of {
  PF_METHOD pf_f64 operator()(pf_f64 x, pf_f64 y) const {
    return pf_power_edges(x, y, pf_exp(y * pf_log(pf_abs(x))));
  }
};
// Squares are products, whatever stands beside them.
PF_DEVICE pf_f32 pf_pow(pf_f32 x, pf_f32 y) {
  const pf_mask<pf_f32> square = y == pf_f32(2);
  const pf_f32 xx = x * x;
  if (!pf_some(!square)) return xx;
  return PF_SELECT(square, xx, pf_via_double<pf_pow_of>(x, y));
}

#endif
