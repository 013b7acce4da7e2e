// Vectors of 64 bytes whatever the machine's width: what row kernels compute with. The order in
// which a sum is taken is written in these, so AVX2 and AVX-512 give the same bits.
// Include between HWY_BEFORE_NAMESPACE() and HWY_AFTER_NAMESPACE() of a foreach_target file.
#if defined(PYFLAME_CPU_WIDE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PYFLAME_CPU_WIDE_INL_H_
#undef PYFLAME_CPU_WIDE_INL_H_
#else
#define PYFLAME_CPU_WIDE_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "pyflame/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Wide {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr int64_t kPart = static_cast<int64_t>(HWY_LANES(T));
  static constexpr int64_t kLanes = 64 / static_cast<int64_t>(sizeof(T));
  static constexpr int kParts = static_cast<int>(kLanes / kPart);
  V v[kParts];
};
template <class T>
struct WideMask {
  hn::Mask<typename Wide<T>::D> m[Wide<T>::kParts];
};

// Written out, not a loop: arrays that a loop indexes do not stay in registers.
#define PF_EACH(...)                     \
  do {                                   \
    {                                    \
      constexpr int p = 0;               \
      __VA_ARGS__                        \
    }                                    \
    if constexpr (Wide<T>::kParts > 1) { \
      constexpr int p = 1;               \
      __VA_ARGS__                        \
    }                                    \
    if constexpr (Wide<T>::kParts > 2) { \
      {                                  \
        constexpr int p = 2;             \
        __VA_ARGS__                      \
      }                                  \
      {                                  \
        constexpr int p = 3;             \
        __VA_ARGS__                      \
      }                                  \
    }                                    \
  } while (0)
// RESULT<T> of vectors or masks, by parts.
#define PF_WIDE(RESULT, DECLARED, ...) \
  template <class T>                   \
  HWY_INLINE RESULT<T> DECLARED {      \
    RESULT<T> r;                       \
    PF_EACH(r.__VA_ARGS__;);           \
    return r;                          \
  }
#define PF_WIDE2(NAME, EXPR) \
  PF_WIDE(Wide, NAME(const Wide<T>& a, const Wide<T>& b), v[p] = hn::EXPR(a.v[p], b.v[p]))
PF_WIDE2(operator+, Add)
PF_WIDE2(operator-, Sub)
PF_WIDE2(operator*, Mul)
PF_WIDE2(operator/, Div)
PF_WIDE2(WMax, Max)  // either operand when one is NaN
PF_WIDE2(WMin, Min)
PF_WIDE(Wide, Fill(T x), v[p] = hn::Set(typename Wide<T>::D(), x))
PF_WIDE(Wide, Fma(const Wide<T>& a, const Wide<T>& b, const Wide<T>& c),
        v[p] = hn::MulAdd(a.v[p], b.v[p], c.v[p]))
PF_WIDE(Wide, WSqrt(const Wide<T>& a), v[p] = hn::Sqrt(a.v[p]))
PF_WIDE(Wide, WAbs(const Wide<T>& a), v[p] = hn::Abs(a.v[p]))
PF_WIDE(WideMask, NotEqual(const Wide<T>& a, const Wide<T>& b),
        m[p] = hn::Not(hn::Eq(a.v[p], b.v[p])))
PF_WIDE(WideMask, GreaterThan(const Wide<T>& a, const Wide<T>& b), m[p] = hn::Gt(a.v[p], b.v[p]))
PF_WIDE(WideMask, operator|(const WideMask<T>& a, const WideMask<T>& b),
        m[p] = hn::Or(a.m[p], b.m[p]))
PF_WIDE(WideMask, IsNaN(const Wide<T>& a), m[p] = hn::IsNaN(a.v[p]))
PF_WIDE(WideMask, Equal(const Wide<T>& a, const Wide<T>& b), m[p] = hn::Eq(a.v[p], b.v[p]))
PF_WIDE(Wide, Choose(const WideMask<T>& m, const Wide<T>& yes, const Wide<T>& no),
        v[p] = hn::IfThenElse(m.m[p], yes.v[p], no.v[p]))
#undef PF_WIDE2
#undef PF_WIDE
template <class T>
HWY_INLINE bool AnyTrue(const WideMask<T>& m) {
  bool any = false;
  PF_EACH(any = any || !hn::AllFalse(typename Wide<T>::D(), m.m[p]););
  return any;
}

// The first n lanes of v, then 0.
template <class T>
HWY_INLINE Wide<T> FirstLanes(const Wide<T>& v, int64_t n) {
  const typename Wide<T>::D d;
  Wide<T> r;
  PF_EACH(const int64_t left = n - p * Wide<T>::kPart;
          const auto mask = hn::FirstN(d, static_cast<size_t>(left > 0 ? left : 0));
          r.v[p] = hn::IfThenElseZero(mask, v.v[p]););
  return r;
}

// Lanes [from, to).
template <class T>
HWY_INLINE WideMask<T> LanesFrom(int64_t from, int64_t to) {
  const typename Wide<T>::D d;
  const auto first = [&](int64_t n)
                         HWY_ATTR { return hn::FirstN(d, static_cast<size_t>(n > 0 ? n : 0)); };
  WideMask<T> r;
  PF_EACH(r.m[p] = hn::AndNot(first(from - p * Wide<T>::kPart), first(to - p * Wide<T>::kPart)););
  return r;
}

// ---- memory ------------------------------------------------------------------------------------

// The type a storage type is calculated with.
template <class S>
using ComputeOf = std::conditional_t<std::is_same_v<S, double>, double, float>;

HWY_INLINE Wide<float> Load(const float* q) {
  using T = float;
  Wide<T> r;
  PF_EACH(r.v[p] = hn::LoadU(Wide<T>::D(), q + p * Wide<T>::kPart););
  return r;
}
HWY_INLINE Wide<double> Load(const double* q) {
  using T = double;
  Wide<T> r;
  PF_EACH(r.v[p] = hn::LoadU(Wide<T>::D(), q + p * Wide<T>::kPart););
  return r;
}
HWY_INLINE Wide<float> Load(const bfloat16* q) {
  using T = float;
  const Wide<T>::D d;
  const hn::RebindToUnsigned<Wide<T>::D> du;
  const hn::Rebind<uint16_t, Wide<T>::D> dh;
  Wide<T> r;
  PF_EACH({
    const auto h = hn::LoadU(dh, reinterpret_cast<const uint16_t*>(q) + p * Wide<T>::kPart);
    r.v[p] = hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, h)));
  });
  return r;
}
HWY_INLINE Wide<float> Load(const float16* q) {
  using T = float;
  const Wide<T>::D d;
  const hn::Rebind<hwy::float16_t, Wide<T>::D> dh;
  Wide<T> r;
  PF_EACH({
    const auto h = hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(q) + p * Wide<T>::kPart);
    r.v[p] = hn::PromoteTo(d, h);
  });
  return r;
}

HWY_INLINE void Store(const Wide<float>& a, float* q) {
  using T = float;
  PF_EACH(hn::StoreU(a.v[p], Wide<T>::D(), q + p * Wide<T>::kPart););
}
HWY_INLINE void Store(const Wide<double>& a, double* q) {
  using T = double;
  PF_EACH(hn::StoreU(a.v[p], Wide<T>::D(), q + p * Wide<T>::kPart););
}
HWY_INLINE void Store(const Wide<float>& a, bfloat16* q) {
  using T = float;
  const Wide<T>::D d;
  const hn::RebindToUnsigned<Wide<T>::D> du;
  const hn::RebindToSigned<Wide<T>::D> di;
  const hn::Rebind<uint16_t, Wide<T>::D> dh;
  PF_EACH({
    const auto bits = hn::BitCast(du, a.v[p]);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    auto top = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu))));
    const auto nan = hn::MaskFromVec(hn::BitCast(du, hn::VecFromMask(d, hn::IsNaN(a.v[p]))));
    top = hn::IfThenElse(nan, hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40u)), top);
    hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, top)), dh,
               reinterpret_cast<uint16_t*>(q) + p * Wide<T>::kPart);
  });
}
HWY_INLINE void Store(const Wide<float>& a, float16* q) {
  using T = float;
  const hn::Rebind<hwy::float16_t, Wide<T>::D> dh;
  PF_EACH(hn::StoreU(hn::DemoteTo(dh, a.v[p]), dh,
                     reinterpret_cast<hwy::float16_t*>(q) + p * Wide<T>::kPart););
}

// Past the caches: only where q is aligned to 64 bytes and nobody reads the result soon.
template <class T>
HWY_INLINE void Stream(const Wide<T>& a, T* q) {
  PF_EACH(hn::Stream(a.v[p], typename Wide<T>::D(), q + p * Wide<T>::kPart););
}
template <class T, class S>
HWY_INLINE void Stream(const Wide<T>& a, S* q) {
  Store(a, q);
}

HWY_INLINE float ToCompute(float x) {
  return x;
}
HWY_INLINE double ToCompute(double x) {
  return x;
}
HWY_INLINE float ToCompute(bfloat16 x) {
  const uint32_t b = static_cast<uint32_t>(x.bits) << 16;
  float f;
  std::memcpy(&f, &b, 4);
  return f;
}
HWY_INLINE float ToCompute(float16 x) {
  const hn::CappedTag<float, 1> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  hwy::float16_t h;
  std::memcpy(&h, &x, 2);
  return hn::GetLane(hn::PromoteTo(d, hn::LoadU(dh, &h)));
}

// The first n < kLanes elements; the rest is `rest`.
template <class S>
HWY_INLINE Wide<ComputeOf<S>> LoadPart(const S* q, int64_t n, ComputeOf<S> rest) {
  using T = ComputeOf<S>;
  if constexpr (std::is_same_v<S, T> && !HWY_MEM_OPS_MIGHT_FAULT) {
    const typename Wide<T>::D d;
    const WideMask<T> there = LanesFrom<T>(0, n);
    Wide<T> r;
    PF_EACH(const auto v = hn::MaskedLoad(there.m[p], d, q + p * Wide<T>::kPart);
            r.v[p] = hn::IfThenElse(there.m[p], v, hn::Set(d, rest)););
    return r;
  }
  alignas(64) T buffer[Wide<T>::kLanes];
  for (int64_t i = 0; i < Wide<T>::kLanes; ++i) buffer[i] = rest;
  for (int64_t i = 0; i < n; ++i) buffer[i] = ToCompute(q[i]);
  return Load(buffer);
}
template <class T, class S>
HWY_INLINE void StorePart(const Wide<T>& a, S* q, int64_t n) {
  alignas(64) S buffer[Wide<T>::kLanes];
  Store(a, buffer);
  for (int64_t i = 0; i < n; ++i) q[i] = buffer[i];
}
template <class S>
HWY_INLINE void StoreOne(ComputeOf<S> x, S* q) {
  if constexpr (std::is_same_v<S, ComputeOf<S>>)
    *q = x;
  else
    StorePart(Fill(x), q, 1);
}

// ---- across lanes: halves, then quarters, ... --------------------------------------------------

// Loops over the rows wait for these at each row's end, so they stay in registers.
template <class D, class F>
HWY_INLINE hn::TFromD<D> OverLanes(D, hn::Vec<D> v, F of) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    return hn::GetLane(v);
  } else {
    const hn::Half<D> h;
    return OverLanes(h, of(hn::LowerHalf(h, v), hn::UpperHalf(h, v)), of);
  }
}
template <class T, class F>
HWY_INLINE T OverLanes(const Wide<T>& a, F of) {
  const typename Wide<T>::D d;
  if constexpr (Wide<T>::kParts == 4)
    return OverLanes(d, of(of(a.v[0], a.v[2]), of(a.v[1], a.v[3])), of);
  else
    return OverLanes(d, Wide<T>::kParts == 1 ? a.v[0] : of(a.v[0], a.v[Wide<T>::kParts - 1]), of);
}
template <class T>
HWY_INLINE T SumOf(const Wide<T>& a) {
  return OverLanes(a, [](auto p, auto q) HWY_ATTR { return hn::Add(p, q); });
}
template <class T>
HWY_INLINE T MaxOf(const Wide<T>& a) {  // ignores or returns NaN
  return OverLanes(a, [](auto p, auto q) HWY_ATTR { return hn::Max(q, p); });
}

// ---- exp ---------------------------------------------------------------------------------------
// exp(x) for x <= 0 (above by a little is fine): x = n ln2 + r, exp(x) = 2^n p(r). The polynomial
// of float was fitted to the relative error (3e-9, 1.5 half units in all); double uses the Taylor
// series to r^13. Results below the smallest normal number are 0; NaN stays NaN.

// poly * 2^n, but 0 where `is_zero`; the low bits of `shifted` are n.
#if HWY_TARGET == HWY_AVX3
HWY_INLINE hn::Vec<Wide<float>::D> ScaledOrZero(hn::Vec<Wide<float>::D> poly,
                                                hn::Vec<Wide<float>::D> n, hn::Vec<Wide<float>::D>,
                                                hn::Mask<Wide<float>::D> is_zero) {
  return {_mm512_maskz_scalef_ps(static_cast<__mmask16>(~is_zero.raw), poly.raw, n.raw)};
}
#endif
template <class V, class M>
HWY_INLINE V ScaledOrZero(V poly, V, V shifted, M is_zero) {
  const hn::DFromV<V> d;
  const hn::RebindToSigned<decltype(d)> di;
  // n to the exponent: the shift throws away all of what was added.
  const auto power =
      hn::ShiftLeft < sizeof(hn::TFromD<decltype(d)>) == 4 ? 23 : 52 > (hn::BitCast(di, shifted));
  return hn::IfThenZeroElse(is_zero, hn::BitCast(d, hn::Add(hn::BitCast(di, poly), power)));
}
template <class T>
HWY_INLINE Wide<T> WExpNeg(const Wide<T>& x) {
  const typename Wide<T>::D d;
  constexpr bool kFloat = std::is_same_v<T, float>;
  const auto low = hn::Set(d, T(kFloat ? -87.3365 : -708.39));
  const auto log2e = hn::Set(d, T(1.44269504088896340736));
  // ln2 in two parts, the first with trailing zeros: n times it is exact.
  const auto ln2_hi = hn::Set(d, T(kFloat ? 0.693145751953125 : 6.93147180369123816490e-01));
  const auto ln2_lo =
      hn::Set(d, T(kFloat ? 1.42860682030941723212e-6 : 1.90821492927058770002e-10));
  // Adding this rounds to an integer and leaves it in the low bits of the mantissa.
  const auto magic = hn::Set(d, T(kFloat ? 12582912.0 : 6755399441055744.0));
  Wide<T> out;
  PF_EACH({
    const auto shifted = hn::MulAdd(x.v[p], log2e, magic);
    const auto n = hn::Sub(shifted, magic);
    const auto r = hn::NegMulAdd(n, ln2_lo, hn::NegMulAdd(n, ln2_hi, x.v[p]));
    auto q = hn::Set(d, T(kFloat ? 0.0013814610429108143 : 1.6059043836821613e-10));
    if constexpr (kFloat) {
      q = hn::MulAdd(q, r, hn::Set(d, T(0.008368710987269878)));
      q = hn::MulAdd(q, r, hn::Set(d, T(0.04166838899254799)));
      q = hn::MulAdd(q, r, hn::Set(d, T(0.1666652113199234)));
      q = hn::MulAdd(q, r, hn::Set(d, T(0.4999999403953552)));
    } else {
      constexpr double kInverseFactorial[11] = {2.08767569878681e-09,
                                                2.505210838544172e-08,
                                                2.7557319223985893e-07,
                                                2.7557319223985893e-06,
                                                2.48015873015873e-05,
                                                1.984126984126984e-04,
                                                1.388888888888889e-03,
                                                8.333333333333333e-03,
                                                4.1666666666666664e-02,
                                                1.6666666666666666e-01,
                                                0.5};
      for (double f : kInverseFactorial) q = hn::MulAdd(q, r, hn::Set(d, T(f)));
    }
    const auto one = hn::Set(d, T(1));
    const auto poly = hn::MulAdd(hn::MulAdd(q, r, one), r, one);
    // Far below the result is anything; of NaN it is NaN.
    out.v[p] = ScaledOrZero(poly, n, shifted, hn::Lt(x.v[p], low));
  });
  return out;
}

#undef PF_EACH

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
