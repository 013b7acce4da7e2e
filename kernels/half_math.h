// Elementary functions for results that are rounded to 16 bits: over the hardware's exp2 and
// reciprocal, good to 1/32 of a unit in the last place before that rounding; what is too small for
// a normal number of the result's type may become 0. Nodes of a 16-bit dtype use them
// (PF_HALF_MATH), whatever they are fused with. Part of math.h.
#ifndef PF_HALF_MATH_H
#define PF_HALF_MATH_H

#define PF_HALF_MATH         \
  using pf_half::pf_exp;     \
  using pf_half::pf_exp2;    \
  using pf_half::pf_sigmoid; \
  using pf_half::pf_tanh;    \
  using pf_half::pf_erf;     \
  using pf_half::pf_gelu;    \
  using pf_half::pf_gelu_slope;

namespace pf_half {

// These two may meet an infinite factor: they must not become 0 too early.
PF_DEVICE float pf_exp2(float x) {
  const bool low = x < -100.0f;
  return pf_exp2_quick(low ? x + 64.0f : x) * (low ? 0x1p-64f : 1.0f);
}
PF_DEVICE float pf_sigmoid(float x) {
  const float y = 1.0f + pf_exp2_quick(x * -1.44269504f);
  const float s = y > 0x1p100f ? 0x1p-64f : 1.0f;
  return pf_inverse_quick(y * s) * s;
}
PF_DEVICE float pf_exp(float x) {
  return pf_exp2(x * 1.44269504f);
}
PF_DEVICE float pf_tanh(float x) {
  const float a = pf_abs(x);
  const float far = pf_fma(-2.0f, pf_inverse_quick(1.0f + pf_exp2_quick(a * 2.88539008f)), 1.0f);
  const float near = pf_fma(a * a * a, -0.333333343f, a);
  return pf_copysign(a < 0.0625f ? near : far, x);
}
// The upper tail of the normal distribution for a >= 0, relatively right: exp(-a^2 / 2) times a
// polynomial in 1 / (1 + P a), fitted by us.
struct pf_normal {
  float tail, power;  // exp(-a^2 / 2)
};
PF_DEVICE pf_normal pf_normal_at(float a) {
  const float t = pf_inverse_quick(pf_fma(a, 0.31f, 1.0f));
  const float p = t * pf_poly(t, 0.123860678, 0.120441552, 0.133428601, 0.0157470813, 0.180448113,
                              -0.0739283437);
  const float power = pf_exp2_quick(a * a * -0.721347520f);
  return {p * power, power};
}
PF_DEVICE float pf_normal_tail(float a) {
  return pf_normal_at(a).tail;
}
PF_DEVICE float pf_gelu(float x) {
  const float a = pf_least(pf_abs(x), 20.0f);  // inf times a tail of 0 would be NaN
  return pf_fma(-a, pf_normal_tail(a), pf_at_least(0.0f, x));
}
PF_DEVICE float pf_gelu_slope(float x) {
  const pf_normal n = pf_normal_at(pf_least(pf_abs(x), 20.0f));
  return pf_fma(x * 0.3989423f, n.power, x < 0.0f ? n.tail : 1.0f - n.tail);
}
PF_DEVICE float pf_erf(float x) {
  const float a = pf_abs(x);
  const float far = pf_fma(-2.0f, pf_normal_tail(a * 1.41421356f), 1.0f);
  const float near = a * pf_poly(a * a, 1.12837917, -0.376126389, 0.112837917);
  return pf_copysign(a < 0.25f ? near : far, x);
}

}  // namespace pf_half

#endif
