// Softmax rows of attention, compiled once per instruction set; the results do not depend on it.
#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_AVX2
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_AVX3))
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention_rows.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "cpu/attention_rows.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::attention::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr int kParts = 16 / kLanes;

// exp(x) for x <= 0 (or NaN): 2^n e^r with r from a two-part ln 2; below 2^-126 it is zero.
HWY_INLINE V Exp(V x) {
  const D d;
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  V p = hn::Set(d, 0.0013933732f);
  p = hn::MulAdd(p, r, hn::Set(d, 0.008363236f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.041666463f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.16666576f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(hn::Mul(p, r), r, hn::Add(r, hn::Set(d, 1.0f)));
  const hn::RebindToSigned<D> di;
  const auto bits = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  p = hn::Mul(p, hn::BitCast(d, bits));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3f)), p);
}

// Sum of sixteen lanes by halves: (i, i + 8), (i, i + 4), (i, i + 2), (0, 1).
HWY_INLINE float SumLanes(const V* parts) {
  const D d;
  const hn::CappedTag<float, 4> d4;
  alignas(64) float all[16], four[4];
  for (int h = 0; h < kParts; ++h) hn::Store(parts[h], d, all + h * kLanes);
  const auto low = hn::Add(hn::Load(d4, all), hn::Load(d4, all + 8));
  const auto high = hn::Add(hn::Load(d4, all + 4), hn::Load(d4, all + 12));
  hn::Store(hn::Add(low, high), d4, four);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

void SoftmaxRow(float* s, int64_t n, float scale, float* sum_out, float* max_out) {
  const D d;
  const float inf = std::numeric_limits<float>::infinity();
  const int64_t end = (n + 15) / 16 * 16;
  const V k = hn::Set(d, scale);
  // The padding must lose against every value, whatever the sign of the scale.
  for (int64_t j = n; j < end; ++j) s[j] = scale < 0 ? inf : -inf;
  V top = hn::Set(d, -inf);
  for (int64_t j = 0; j < end; j += kLanes) top = hn::Max(hn::Mul(hn::LoadU(d, s + j), k), top);
  const float m = hn::GetLane(hn::MaxOfLanes(d, top));
  // With nothing to subtract, exp(-inf) is the zero that a fully masked row gets.
  const V shift = hn::Set(d, m == -inf ? 0.0f : m);
  V sums[kParts];
  for (int h = 0; h < kParts; ++h) sums[h] = hn::Zero(d);
  for (int64_t j = 0; j < end; j += 16)
    for (int h = 0; h < kParts; ++h) {
      float* at = s + j + h * kLanes;
      const V e = Exp(hn::Sub(hn::Mul(hn::LoadU(d, at), k), shift));
      hn::StoreU(e, d, at);
      sums[h] = hn::Add(sums[h], e);
    }
  *sum_out = SumLanes(sums);
  *max_out = m;
}

void ProbabilityRow(float* s, int64_t n, float scale, float lse) {
  const D d;
  const float inf = std::numeric_limits<float>::infinity();
  const V k = hn::Set(d, scale), shift = hn::Set(d, lse);
  if (lse == -inf) {
    for (int64_t j = 0; j < n; ++j) s[j] = 0;
    return;
  }
  for (int64_t j = 0; j < n; j += kLanes) {
    // Rounding may leave a score a little above the log of its row's sum.
    const V x = hn::Sub(hn::Mul(hn::LoadU(d, s + j), k), shift);
    hn::StoreU(Exp(x), d, s + j);
  }
}

// From e^-2|x|, and near 0, where that cancels, by its series.
HWY_INLINE V Tanh(V x) {
  const D d;
  const V a = hn::Abs(x), one = hn::Set(d, 1.0f), e = Exp(hn::Mul(a, hn::Set(d, -2.0f)));
  const V far = hn::Div(hn::Sub(one, e), hn::Add(one, e)), b = hn::Mul(a, a);
  V near = hn::MulAdd(b, hn::Set(d, -17.0f / 315), hn::Set(d, 2.0f / 15));
  near = hn::MulAdd(near, b, hn::Set(d, -1.0f / 3));
  near = hn::MulAdd(hn::Mul(near, b), a, a);
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.125f)), near, far), x);
}

void CapRow(float* s, int64_t n, float inner, float cap, float* slope) {
  const D d;
  const V k = hn::Set(d, inner), c = hn::Set(d, cap), one = hn::Set(d, 1.0f);
  for (int64_t j = 0; j < n; j += kLanes) {
    const V t = Tanh(hn::Mul(hn::LoadU(d, s + j), k));
    hn::StoreU(hn::Mul(t, c), d, s + j);
    if (slope) hn::StoreU(hn::NegMulAdd(t, t, one), d, slope + j);
  }
}

float Dot(const float* x, const float* y, int64_t n) {
  const D d;
  V sums[kParts];
  for (int h = 0; h < kParts; ++h) sums[h] = hn::Zero(d);
  int64_t j = 0;
  for (; j + 16 <= n; j += 16)
    for (int h = 0; h < kParts; ++h)
      sums[h] =
          hn::MulAdd(hn::LoadU(d, x + j + h * kLanes), hn::LoadU(d, y + j + h * kLanes), sums[h]);
  float rest = 0;
  for (; j < n; ++j) rest = std::fma(x[j], y[j], rest);
  return SumLanes(sums) + rest;
}

}  // namespace pyflame::cpu::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu::attention {

HWY_EXPORT(SoftmaxRow);
HWY_EXPORT(ProbabilityRow);
HWY_EXPORT(CapRow);
HWY_EXPORT(Dot);

RowSum<float> softmax_row(float* s, int64_t n, float scale) {
  RowSum<float> r;
  HWY_DYNAMIC_DISPATCH(SoftmaxRow)(s, n, scale, &r.sum, &r.max);
  return r;
}
void probability_row(float* s, int64_t n, float scale, float lse) {
  HWY_DYNAMIC_DISPATCH(ProbabilityRow)(s, n, scale, lse);
}

void cap_row(float* s, int64_t n, float inner, float cap, float* slope) {
  HWY_DYNAMIC_DISPATCH(CapRow)(s, n, inner, cap, slope);
}

float dot(const float* x, const float* y, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(Dot)(x, y, n);
}

// float64 serves gradient checks: clear rather than fast.
RowSum<double> softmax_row(double* s, int64_t n, double scale) {
  RowSum<double> r{0, -std::numeric_limits<double>::infinity()};
  for (int64_t j = 0; j < n; ++j) r.max = std::fmax(r.max, s[j] * scale);
  const double shift = std::isinf(r.max) && r.max < 0 ? 0 : r.max;
  for (int64_t j = 0; j < n; ++j) r.sum += s[j] = std::exp(s[j] * scale - shift);
  return r;
}
void probability_row(double* s, int64_t n, double scale, double lse) {
  const bool masked = std::isinf(lse) && lse < 0;
  for (int64_t j = 0; j < n; ++j) s[j] = masked ? 0 : std::exp(s[j] * scale - lse);
}
void cap_row(double* s, int64_t n, double inner, double cap, double* slope) {
  for (int64_t j = 0; j < n; ++j) {
    const double t = std::tanh(s[j] * inner);
    s[j] = cap * t;
    if (slope) slope[j] = 1 - t * t;
  }
}
double dot(const double* x, const double* y, int64_t n) {
  double sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += x[j] * y[j];
  return sum;
}

}  // namespace pyflame::cpu::attention
#endif
