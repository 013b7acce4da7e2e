// Elementary functions over Lanes: the text that GPUs have too (kernels/elementary.h), what it
// stands on for vectors, and what the C library is asked for here. Include after cpu/lanes-inl.h,
// inside a foreach_target translation unit.

#if defined(PYFLAME_CPU_VMATH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PYFLAME_CPU_VMATH_INL
#undef PYFLAME_CPU_VMATH_INL
#else
#define PYFLAME_CPU_VMATH_INL
#endif

#include "cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu {
namespace HWY_NAMESPACE {

using F32 = Lanes<float>;
using F64 = Lanes<double>;

template <class E>
HWY_INLINE Lanes<E> Sqrt(Lanes<E> x) {
  return Lanes<E>(hn::Sqrt(x.v));
}

// ---- vectors as values of the text that GPUs have too -------------------------------------------
using pf_f32 = F32;
using pf_f64 = F64;
template <class T>
using pf_word = Lanes<std::conditional_t<sizeof(typename T::Elem) == 4, int32_t, int64_t>>;
template <class T>
struct pf_float;
template <class E>
struct pf_float<Lanes<E>> : pf_float<E> {};

template <class To, class From>
HWY_INLINE To pf_bits(From x) {
  if constexpr (std::is_arithmetic_v<From>)
    return __builtin_bit_cast(To, x);
  else
    return BitCast<typename To::Elem>(x);
}
template <int kBits, class E>
HWY_INLINE Lanes<E> pf_shift_left(Lanes<E> x) {
  return Lanes<E>(hn::ShiftLeft<kBits>(x.v));
}
template <int kBits, class E>
HWY_INLINE Lanes<E> pf_shift_right(Lanes<E> x) {
  return Lanes<E>(hn::ShiftRight<kBits>(x.v));
}
// c - a * b, rounded once.
template <class E>
HWY_INLINE Lanes<E> pf_fnma(Lanes<E> a, Lanes<E> b, Lanes<E> c) {
  return Lanes<E>(hn::NegMulAdd(a.v, b.v, c.v));
}
// In one instruction each.
template <class E>
HWY_INLINE Lanes<E> pf_at_least(E low, Lanes<E> x) {
  return Lanes<E>(hn::Max(Lanes<E>(low).v, x.v));
}
template <class E>
HWY_INLINE Lanes<E> pf_at_most(E high, Lanes<E> x) {
  return Lanes<E>(hn::Min(Lanes<E>(high).v, x.v));
}
#define PF_NAME(NAME, OF)                       \
  template <class E, class... R>                \
  HWY_INLINE auto NAME(Lanes<E> x, R... rest) { \
    return OF(x, rest...);                      \
  }
PF_NAME(pf_fma, Fma)
PF_NAME(pf_abs, Abs)
PF_NAME(pf_copysign, CopySign)
PF_NAME(pf_sqrt, Sqrt)
PF_NAME(pf_round, Round)
PF_NAME(pf_trunc, Trunc)

#undef PF_HAS_SCALE
#if HWY_TARGET == HWY_AVX3
#define PF_HAS_SCALE
HWY_INLINE F32 pf_scale_by(F32 y, F32 k) {
  return F32(F32::V{_mm512_scalef_ps(y.v.raw, k.v.raw)});
}
HWY_INLINE F64 pf_scale_by(F64 y, F64 k) {
  return F64(F64::V{_mm512_scalef_pd(y.v.raw, k.v.raw)});
}
#endif

#define PF_DEVICE HWY_INLINE
#define PF_METHOD HWY_INLINE
#define PF_SELECT(M, A, B) Select(M, A, B)
#include "../../kernels/elementary.h"
#undef PF_ELEMENTARY_H

// ---- the names of the table ---------------------------------------------------------------------
PF_NAME(Exp, pf_exp)
PF_NAME(Exp2, pf_exp2)
PF_NAME(Expm1, pf_expm1)
PF_NAME(Sigmoid, pf_sigmoid)
PF_NAME(Tanh, pf_tanh)
PF_NAME(Log, pf_log)
PF_NAME(Log2, pf_log2)
PF_NAME(Log1p, pf_log1p)
PF_NAME(IsInf, pf_isinf)
PF_NAME(IsFinite, pf_isfinite)
#undef PF_NAME
HWY_INLINE F32 Log10(F32 x) {
  return pf_log10(x);
}

// A function of doubles applied to floats, rounded once: for those too rare to deserve a float
// version. F is a functor over F64.
template <class F>
HWY_INLINE F32 ViaDouble(F32 x) {
  const F32::D d;
  const F64::D dd;
  const hn::Half<F32::D> dh;
  const F64 lo = F()(F64(hn::PromoteTo(dd, hn::LowerHalf(dh, x.v))));
  const F64 hi = F()(F64(hn::PromoteTo(dd, hn::UpperHalf(dh, x.v))));
  return F32(hn::Combine(d, hn::DemoteTo(dh, hi.v), hn::DemoteTo(dh, lo.v)));
}
template <class F>
HWY_INLINE F32 ViaDouble(F32 x, F32 y) {
  const F32::D d;
  const F64::D dd;
  const hn::Half<F32::D> dh;
  const F64 lo = F()(F64(hn::PromoteTo(dd, hn::LowerHalf(dh, x.v))),
                     F64(hn::PromoteTo(dd, hn::LowerHalf(dh, y.v))));
  const F64 hi = F()(F64(hn::PromoteTo(dd, hn::UpperHalf(dh, x.v))),
                     F64(hn::PromoteTo(dd, hn::UpperHalf(dh, y.v))));
  return F32(hn::Combine(d, hn::DemoteTo(dh, hi.v), hn::DemoteTo(dh, lo.v)));
}
#define PF_VIA_DOUBLE(NAME)                                    \
  struct NAME##Functor {                                       \
    HWY_INLINE F64 operator()(F64 x) { return NAME##Core(x); } \
  };                                                           \
  HWY_INLINE F32 NAME(F32 x) {                                 \
    return ViaDouble<NAME##Functor>(x);                        \
  }
// Lane by lane through the C library: rare functions of doubles.
#define PF_LIBM(NAME, FN)                               \
  struct NAME##Libm {                                   \
    double operator()(double x) const { return FN(x); } \
  };                                                    \
  HWY_INLINE F64 NAME(F64 x) {                          \
    return EachLane<NAME##Libm>(x);                     \
  }

PF_LIBM(Log10, std::log10)

// ---- error functions ---------------------------------------------------------------------------
// One of eight numbers for each lane, by the low bits of `index`. The table holds them twice.
HWY_INLINE F32 Lookup8(const float* table, Lanes<int32_t> index) {
#if HWY_TARGET == HWY_AVX3
  return F32(F32::V{_mm512_permutexvar_ps(index.v.raw, _mm512_load_ps(table))});
#elif HWY_TARGET == HWY_AVX2
  return F32(F32::V{_mm256_permutevar8x32_ps(_mm256_load_ps(table), index.v.raw)});
#else
  return F32(hn::GatherIndex(F32::D(), table, BitAnd(index, Lanes<int32_t>(7)).v));
#endif
}
// Around k * 8 / 15 for k = 0 .. 7: row j holds the coefficients of degree j. At 4 erf is 1.
alignas(64) static constexpr float kErf[7][16] = {
    {0.0f, 0.54929924f, 0.868571997f, 0.9763484f, 0.997447014f, 0.999837577f, 0.99999398f,
     0.999999881f, 0.0f, 0.54929924f, 0.868571997f, 0.9763484f, 0.997447014f, 0.999837577f,
     0.99999398f, 0.999999881f},
    {1.12837923f, 0.849029064f, 0.361680388f, 0.0872288048f, 0.0119104953f, 0.000920769176f,
     4.03058039e-05f, 9.99251938e-07f, 1.12837923f, 0.849029064f, 0.361680388f, 0.0872288048f,
     0.0119104953f, 0.000920769176f, 4.03058039e-05f, 9.99251938e-07f},
    {-1.16484262e-06f, -0.452815294f, -0.385793239f, -0.139566541f, -0.0254090186f, -0.00245531579f,
     -0.000128965476f, -3.72955287e-06f, -1.16484262e-06f, -0.452815294f, -0.385793239f,
     -0.139566541f, -0.0254090186f, -0.00245531579f, -0.000128965476f, -3.72955287e-06f},
    {-0.376075089f, -0.122042805f, 0.153726816f, 0.119820505f, 0.0321753696f, 0.00405513216f,
     0.00026074372f, 8.8627221e-06f, -0.376075089f, -0.122042805f, 0.153726816f, 0.119820505f,
     0.0321753696f, 0.00405513216f, 0.00026074372f, 8.8627221e-06f},
    {-0.000828269054f, 0.183444709f, 0.0466463193f, -0.049307812f, -0.0258532539f, -0.00459228642f,
     -0.000374911004f, -1.53524143e-05f, -0.000828269054f, 0.183444709f, 0.0466463193f,
     -0.049307812f, -0.0258532539f, -0.00459228642f, -0.000374911004f, -1.53524143e-05f},
    {0.118904606f, -0.00157044642f, -0.0644829422f, -0.00511260098f, 0.0121772308f, 0.00376474042f,
     0.000428195199f, 2.26902084e-05f, 0.118904606f, -0.00157044642f, -0.0644829422f,
     -0.00511260098f, 0.0121772308f, 0.00376474042f, 0.000428195199f, 2.26902084e-05f},
    {-0.0206446722f, -0.0474344864f, 0.00997209363f, 0.0153548848f, -0.00171108684f,
     -0.00204899651f, -0.000343994383f, -2.32428629e-05f, -0.0206446722f, -0.0474344864f,
     0.00997209363f, 0.0153548848f, -0.00171108684f, -0.00204899651f, -0.000343994383f,
     -2.32428629e-05f}};
HWY_INLINE F32 Erf(F32 x) {
  const F32 magic(pf_float<float>::magic());
  const F32 a = pf_at_most(3.9999f, Abs(x));
  const F32 shifted = Fma(a, F32(1.875), magic);
  const F32 t = pf_fnma(shifted - magic, F32(8.0 / 15), a);
  const Lanes<int32_t> k = BitCast<int32_t>(shifted);
  F32 y = Lookup8(kErf[6], k);
  for (int j = 5; j >= 0; --j) y = Fma(y, t, Lookup8(kErf[j], k));
  return CopySign(y, x);
}
// The upper tail of the normal distribution, (1 - erf(a / sqrt(2))) / 2, around k * 13/16 for k = 0
// .. 7: where each begins, then a row for each degree. At 7 * 13/16 it is 0.
alignas(64) static constexpr float kTailAt[16] = {0.0f,   0.8125f, 1.625f, 2.4375f, 3.25f,  4.0625f,
                                                  4.875f, 5.6875f, 0.0f,   0.8125f, 1.625f, 2.4375f,
                                                  3.25f,  4.0625f, 4.875f, 5.6875f};
alignas(64) static constexpr float kTail[7][16] = {
    {0.5f, 0.2082524f, 0.0520812832f, 0.00739460299f, 0.000577025057f, 2.42754522e-05f,
     5.44113902e-07f, 0.0f, 0.5f, 0.2082524f, 0.0520812832f, 0.00739460299f, 0.000577025057f,
     2.42754522e-05f, 5.44113902e-07f, 0.0f},
    {-0.398942322f, -0.286786884f, -0.106538452f, -0.0204525534f, -0.00202904036f, -0.000104032712f,
     -2.75715979e-06f, -1.37604559e-06f, -0.398942322f, -0.286786884f, -0.106538452f,
     -0.0204525534f, -0.00202904036f, -0.000104032712f, -2.75715979e-06f, -1.37604559e-06f},
    {1.95435928e-06f, 0.116506241f, 0.0865621939f, 0.0249271318f, 0.00329719181f, 0.00021124506f,
     6.70984309e-06f, -4.33381574e-05f, 1.95435928e-06f, 0.116506241f, 0.0865621939f, 0.0249271318f,
     0.00329719181f, 0.00021124506f, 6.70984309e-06f, -4.33381574e-05f},
    {0.0664593577f, 0.0162545908f, -0.029122727f, -0.0168502722f, -0.00323417457f, -0.000268298754f,
     -1.03870552e-05f, -0.000501176342f, 0.0664593577f, 0.0162545908f, -0.029122727f,
     -0.0168502722f, -0.00323417457f, -0.000268298754f, -1.03870552e-05f, -0.000501176342f},
    {0.000227590834f, -0.0226996467f, -0.00259292335f, 0.00610310119f, 0.00207852735f,
     0.000238594555f, 1.17336849e-05f, -0.00255749212f, 0.000227590834f, -0.0226996467f,
     -0.00259292335f, 0.00610310119f, 0.00207852735f, 0.000238594555f, 1.17336849e-05f,
     -0.00255749212f},
    {-0.0108240917f, 0.0011210537f, 0.00510477973f, -0.000375530537f, -0.000861085253f,
     -0.00015934516f, -1.06842172e-05f, -0.005930115f, -0.0108240917f, 0.0011210537f,
     0.00510477973f, -0.000375530537f, -0.000861085253f, -0.00015934516f, -1.06842172e-05f,
     -0.005930115f},
    {0.00158394896f, 0.00273843016f, -0.00102761737f, -0.000606075453f, 0.000184299541f,
     6.92612666e-05f, 6.18942749e-06f, -0.00509882439f, 0.00158394896f, 0.00273843016f,
     -0.00102761737f, -0.000606075453f, 0.000184299541f, 6.92612666e-05f, 6.18942749e-06f,
     -0.00509882439f}};
// x where it is positive, less |x| times the tail: within 1.5 units in the last place for positive
// x and small ones, and relatively right far into the negative tail, where x (1 + erf) / 2 is not.
HWY_INLINE F32 Gelu(F32 x) {
  const F32 a = pf_at_most(5.6875f, Abs(x));
  const Lanes<int32_t> k = BitCast<int32_t>(Fma(a, F32(16.0 / 13), F32(pf_float<float>::magic())));
  const F32 t = a - Lookup8(kTailAt, k);  // exact
  F32 y = Lookup8(kTail[6], k);
  for (int j = 5; j >= 0; --j) y = Fma(y, t, Lookup8(kTail[j], k));
  return pf_fnma(a, y, pf_at_least(0.0f, x));
}
// exp(x^2) erfc(x) is a polynomial in 3 / (3 + x) for x in [0, 11].
HWY_INLINE F64 ErfcCore(F64 x) {
  const F64 a = pf_at_most(11.0, Abs(x));
  const F64 t = F64(3) / (F64(3) + a);
  const F64 r = pf_poly(t, -1.0785156399342170014e-7, 0.1880700700429581485, 0.1879197909266754504,
                        0.17919060393609499074, 0.14594775155264958549, 0.17670502484346708984,
                        -0.067598767427680144049, 0.42388911789388145421, -0.57100794322425339345,
                        0.67555584982738203861, -0.49562186757554217029, 0.18441747698671992827,
                        -0.027466999963111199825);
  const F64 y = r * Exp(-(a * a));
  return Select(Lt(x, F64(0)), F64(2) - y, y);
}
PF_VIA_DOUBLE(Erfc)
PF_LIBM(Erf, std::erf)
PF_LIBM(Erfc, std::erfc)
HWY_INLINE F64 Gelu(F64 x) {
  const F64 a = pf_at_most(40.0, Abs(x));  // the tail is 0 there, inf times it would be NaN
  return pf_fnma(a, F64(0.5) * Erfc(a * F64(0.70710678118654752440)), pf_at_least(0.0, x));
}

// ---- trigonometry -------------------------------------------------------------------------------

// x = k pi/2 + r; exact to the last bit for |k| < 2^30.
HWY_INLINE F64 ReducePi(F64 x, F64& k) {
  const F64 round(pf_float<double>::magic());
  k = Fma(x, F64(0.63661977236758134308), round) - round;
  const F64 r = pf_fnma(k, F64(0x1.921fb54442d18p+0), x);
  return pf_fnma(k, F64(0x1.1a62633145c07p-54), r);
}
struct SinLibm {
  template <class E>
  E operator()(E x) const {
    return std::sin(x);
  }
};
struct CosLibm {
  template <class E>
  E operator()(E x) const {
    return std::cos(x);
  }
};
template <class F, class E>
HWY_NOINLINE Lanes<E> WhereHuge(Mask<E> huge, Lanes<E> x, Lanes<E> y) {
  return Select(huge, EachLane<F>(x), y);
}
// sin(r) for even quadrants, cos(r) for odd ones, negated in the upper half.
HWY_INLINE F32 Quadrant(F32 r, Lanes<int32_t> k) {
  const F32 z = r * r;
  const F32 s = Fma(
      r * z,
      pf_poly(z, -0.1666665422545141017, 0.0083321314941042544962, -0.00019510838860238015722), r);
  const F32 c = Fma(
      z * z,
      pf_poly(z, 0.041666645655614609802, -0.0013887306167931820899, 0.000024431217663926672613),
      Fma(z, F32(-0.5), F32(1)));
  const Lanes<int32_t> one(1), two(2);
  const Mask<int32_t> odd = Ne(BitAnd(k, one), Lanes<int32_t>(0));
  const F32 y =
      Select(Mask<float>{hn::RebindMask(F32::D(), odd.m)}, c, CopySign(s, r));  // -0 stays
  const Lanes<int32_t> sign(hn::ShiftLeft<30>(BitAnd(k, two).v));
  return BitCast<float>(BitXor(BitCast<int32_t>(y), sign));
}
HWY_INLINE F64 Quadrant(F64 r, Lanes<int64_t> k) {
  const F64 z = r * r;
  const F64 s =
      Fma(r * z,
          pf_poly(z, -0.16666666666666666637, 0.0083333333333333214976, -0.00019841269841253600283,
                  2.75573192134197216e-6, -2.5052104708631912684e-8, 1.605834051979107216e-10,
                  -7.5773924901252371224e-13),
          r);
  const F64 c =
      Fma(z * z,
          pf_poly(z, 0.041666666666666591059, -0.0013888888888872598252, 0.000024801587288491742889,
                  -2.7557314056473211287e-7, 2.0875681865106086391e-9, -1.135744789482826249e-11),
          Fma(z, F64(-0.5), F64(1)));
  const Lanes<int64_t> one(1), two(2);
  const Mask<int64_t> odd = Ne(BitAnd(k, one), Lanes<int64_t>(0));
  const F64 y =
      Select(Mask<double>{hn::RebindMask(F64::D(), odd.m)}, c, CopySign(s, r));  // -0 stays
  const Lanes<int64_t> sign(hn::ShiftLeft<62>(BitAnd(k, two).v));
  return BitCast<double>(BitXor(BitCast<int64_t>(y), sign));
}
// Reduction in double, the polynomial in float.
HWY_INLINE F32 SinShifted(F32 x, int32_t shift) {
  const F32::D d;
  const F64::D dd;
  const hn::Half<F32::D> dh;
  const hn::Half<Lanes<int32_t>::D> dih;
  F64 k0, k1;
  const F64 r0 = ReducePi(F64(hn::PromoteTo(dd, hn::LowerHalf(dh, x.v))), k0);
  const F64 r1 = ReducePi(F64(hn::PromoteTo(dd, hn::UpperHalf(dh, x.v))), k1);
  const F32 r(hn::Combine(d, hn::DemoteTo(dh, r1.v), hn::DemoteTo(dh, r0.v)));
  const Lanes<int32_t> k(
      hn::Combine(Lanes<int32_t>::D(), hn::DemoteTo(dih, k1.v), hn::DemoteTo(dih, k0.v)));
  return Quadrant(r, k + Lanes<int32_t>(shift));
}
HWY_INLINE F64 SinShifted(F64 x, int64_t shift) {
  F64 k;
  const F64 r = ReducePi(x, k);
  return Quadrant(r, BitCast<int64_t>(k + F64(pf_float<double>::magic())) + Lanes<int64_t>(shift));
}
// Too large for ReducePi, though finite.
template <class E>
HWY_INLINE Mask<E> HugeAngle(Lanes<E> x) {
  const Lanes<E> a = Abs(x);
  return And(Ge(a, Lanes<E>(sizeof(E) == 4 ? 0x1p30 : 0x1p26)), IsFinite(a));
}
template <class E>
HWY_INLINE Lanes<E> Sin(Lanes<E> x) {
  const Lanes<E> y = SinShifted(x, 0);
  const Mask<E> huge = HugeAngle(x);
  if (HWY_UNLIKELY(Any(huge))) return WhereHuge<SinLibm>(huge, x, y);
  return y;
}
template <class E>
HWY_INLINE Lanes<E> Cos(Lanes<E> x) {
  const Lanes<E> y = SinShifted(x, 1);
  const Mask<E> huge = HugeAngle(x);
  if (HWY_UNLIKELY(Any(huge))) return WhereHuge<CosLibm>(huge, x, y);
  return y;
}
HWY_INLINE F64 TanCore(F64 x) {
  return Sin(x) / Cos(x);
}
PF_VIA_DOUBLE(Tan)
PF_LIBM(Tan, std::tan)

// atan(x) for |x| <= 1.
HWY_INLINE F64 AtanUnit(F64 x) {
  return x * pf_poly(x * x, 0.99999999999999164, -0.33333333277960268845, 0.1999999619631281727,
                     -0.14285611026803290062, 0.11109639416125672555, -0.090782230938284832115,
                     0.076204238462073052498, -0.063840335519305486751, 0.050812561493209514536,
                     -0.035755456588742459514, 0.020387385296244655756, -0.0085097009524547530327,
                     0.0022556296521487233859, -0.00028084058418941432225);
}
HWY_INLINE F64 Atan2Core(F64 y, F64 x) {
  const F64 ax = Abs(x), ay = Abs(y), zero(0);
  const Mask<double> steep = Gt(ay, ax);
  const F64 small = Select(steep, ax, ay), large = Select(steep, ay, ax);
  F64 q = small / large;
  q = Select(Eq(large, zero), zero, q);
  q = Select(And(IsInf(ax), IsInf(ay)), F64(1), q);
  F64 a = AtanUnit(q);
  a = Select(steep, F64(1.57079632679489661923) - a, a);
  a = Select(Lt(CopySign(F64(1), x), zero), F64(3.14159265358979323846) - a, a);
  a = CopySign(a, y);
  return Select(Or(IsNan(x), IsNan(y)), x + y, a);
}
// pi/2 and pi as sums of two floats.
struct HalfPi {
  static constexpr float kHi = 0x1.921fb6p+0f, kLo = -4.371139e-8f;
};
HWY_INLINE F32 Atan(F32 x) {
  const F32 a = Abs(x), one(1);
  const Mask<float> steep = Gt(a, one);
  const F32 q = Select(steep, one / a, a), z = q * q;
  const F32 y = Fma(q * z,
                    pf_poly(z, -0.3333315272164498, 0.1999377248805962, -0.14211052413601824,
                            0.10665993049961424, -0.07552189279504723, 0.04321156315496119,
                            -0.016367743922554946, 0.0029206460457278363),
                    q);
  return CopySign(Select(steep, F32(HalfPi::kHi) - (y - F32(HalfPi::kLo)), y), x);
}
// asin(s) = s + rest, for s = x up to 1/2; beyond by asin(|x|) = pi/2 - 2 asin(s) with
// s = sqrt((1 - |x|) / 2).
struct AsinParts {
  Mask<float> outer;
  F32 s, rest;
  HWY_INLINE explicit AsinParts(F32 x) {
    const F32 a = Abs(x), half(0.5);
    outer = Gt(a, half);
    const F32 z = Select(outer, (F32(1) - a) * half, x * x);
    s = Select(outer, Sqrt(z), x);
    rest = s * z *
           pf_poly(z, 0.1666675248214557, 0.07495297651437119, 0.045470374063839844,
                   0.024179526352787334, 0.04216628631297331);
  }
};
HWY_INLINE F32 Asin(F32 x) {
  const AsinParts p(x);
  const F32 far = (F32(HalfPi::kHi) - (p.s + p.s)) - (p.rest + p.rest - F32(HalfPi::kLo));
  return CopySign(Select(p.outer, far, p.s + p.rest), x);
}
HWY_INLINE F32 Acos(F32 x) {
  const AsinParts p(x);
  const F32 near = F32(HalfPi::kHi) - (p.s + (p.rest - F32(HalfPi::kLo)));
  const F32 y = p.s + p.rest, twice = y + y;
  const F32 back = F32(2 * HalfPi::kHi) - (twice - F32(2 * HalfPi::kLo));
  return Select(p.outer, Select(Lt(x, F32(0)), back, twice), near);
}
PF_LIBM(Atan, std::atan)
PF_LIBM(Asin, std::asin)
PF_LIBM(Acos, std::acos)
struct Atan2Functor {
  HWY_INLINE F64 operator()(F64 y, F64 x) { return Atan2Core(y, x); }
};
HWY_INLINE F32 Atan2(F32 y, F32 x) {
  return ViaDouble<Atan2Functor>(y, x);
}
struct Atan2Libm {
  double operator()(double y, double x) const { return std::atan2(y, x); }
};
HWY_INLINE F64 Atan2(F64 y, F64 x) {
  return EachLane<Atan2Libm>(y, x);
}

// ---- hyperbolics -------------------------------------------------------------------------------
HWY_INLINE F64 SinhCore(F64 x) {
  const F64 e = Expm1(Abs(x));
  return CopySign(F64(0.5) * (e + e / (e + F64(1))), x);
}
HWY_INLINE F64 CoshCore(F64 x) {
  const F64 e = Exp(Abs(x));
  return F64(0.5) * (e + F64(1) / e);
}
HWY_INLINE F64 AsinhCore(F64 x) {
  const F64 a = Abs(x), z = a * a;
  return CopySign(Log1p(a + z / (F64(1) + Sqrt(z + F64(1)))), x);
}
HWY_INLINE F64 AcoshCore(F64 x) {
  const F64 t = x - F64(1);
  return Log1p(t + Sqrt(t * (x + F64(1))));
}
// A polynomial up to 1/2, above it log((1 + x) / (1 - x)) / 2.
HWY_INLINE F32 Atanh(F32 x) {
  const F32 a = Abs(x), z = x * x, one(1);
  const F32 near = Fma(a * z,
                       pf_poly(z, 0.3333330007154921, 0.20002518267845296, 0.14222762446924628,
                               0.1182372686597986, 0.05135836570895458, 0.17669100509623759),
                       a);
  const F32 far = F32(0.5) * Log((one + a) / (one - a));
  return CopySign(Select(Gt(a, F32(0.5)), far, near), x);
}
// What exceeds the range of float is infinite after rounding, inf / inf must not arise before.
struct SinhFunctor {
  HWY_INLINE F64 operator()(F64 x) { return SinhCore(pf_at_most(100.0, pf_at_least(-100.0, x))); }
};
struct CoshFunctor {
  HWY_INLINE F64 operator()(F64 x) { return CoshCore(pf_at_most(100.0, pf_at_least(-100.0, x))); }
};
struct AsinhFunctor {
  HWY_INLINE F64 operator()(F64 x) { return Select(IsInf(x), x, AsinhCore(x)); }
};
struct AcoshFunctor {
  HWY_INLINE F64 operator()(F64 x) {
    const F64 y = Select(IsInf(x), x, AcoshCore(x));
    return Select(Lt(x, F64(1)), F64(std::numeric_limits<double>::quiet_NaN()), y);
  }
};
HWY_INLINE F32 Sinh(F32 x) {
  return ViaDouble<SinhFunctor>(x);
}
HWY_INLINE F32 Cosh(F32 x) {
  return ViaDouble<CoshFunctor>(x);
}
HWY_INLINE F32 Asinh(F32 x) {
  return ViaDouble<AsinhFunctor>(x);
}
HWY_INLINE F32 Acosh(F32 x) {
  return ViaDouble<AcoshFunctor>(x);
}
PF_LIBM(Sinh, std::sinh)
PF_LIBM(Cosh, std::cosh)
PF_LIBM(Asinh, std::asinh)
PF_LIBM(Acosh, std::acosh)
PF_LIBM(Atanh, std::atanh)

// ---- the gamma function -------------------------------------------------------------------------
// In double. Arguments below 1/2 are reflected to 1 - x, and what is below 8 then is shifted up by
// 8, where the series of Stirling holds.
struct GammaPlace {
  Mask<double> below, small;
  F64 z, shifted, r, angle;
  HWY_INLINE explicit GammaPlace(F64 x)
      : below(Lt(x, F64(0.5))),
        z(Select(below, F64(1) - x, x)),
        angle((x - Round(x)) * F64(3.14159265358979323846)) {  // its sine is exactly 0 at poles
    small = Lt(z, F64(8));
    shifted = Select(small, z + F64(8), z);
    r = F64(1) / shifted;
  }
};
HWY_INLINE F64 LgammaCore(F64 x) {
  const GammaPlace at(x);
  const F64 one(1), inf(std::numeric_limits<double>::infinity());
  F64 product = Select(at.small, at.z, one);
  for (int k = 1; k < 8; ++k) product = product * Select(at.small, at.z + F64(k), one);
  const F64 t = at.r * at.r;
  const F64 series = at.r * pf_poly(t, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188,
                                    -691.0 / 360360, 1.0 / 156);
  const F64 high = Fma(at.shifted - F64(0.5), Log(at.shifted), F64(0.91893853320467274178)) -
                   at.shifted + series;
  // One logarithm of what both the shift and the reflection divide by.
  const F64 sine = Abs(SinShifted(at.angle, 0));
  const F64 up = Select(at.below, F64(3.14159265358979323846) * product, one);
  const F64 rest = Log(up / Select(at.below, sine, product));
  F64 y = rest + Select(at.below, -high, high);
  y = Select(Or(Eq(x, one), Eq(x, F64(2))), F64(0), y);
  return Select(IsInf(x), inf, y);
}
HWY_INLINE F64 DigammaCore(F64 x) {
  const GammaPlace at(x);
  const F64 one(1), zero(0), inf(std::numeric_limits<double>::infinity());
  const F64 base = Select(at.small, at.z, one);
  F64 up = one, down = base;  // the sum of 1 / (z + k) as one fraction
  for (int k = 1; k < 8; ++k) {
    const F64 q = base + F64(k);
    up = Fma(up, q, down);
    down = down * q;
  }
  const F64 t = at.r * at.r;
  const F64 series = t * pf_poly(t, -1.0 / 12, 1.0 / 120, -1.0 / 252, 1.0 / 240, -1.0 / 132,
                                 691.0 / 32760, -1.0 / 12);
  F64 y = Log(at.shifted) - F64(0.5) * at.r + series;
  y = y - Select(at.small, up / down, zero);
  const F64 turn = F64(3.14159265358979323846) * SinShifted(at.angle, 1) / SinShifted(at.angle, 0);
  y = Select(at.below, y - turn, y);
  y = Select(And(Eq(at.angle, zero), Lt(x, zero)), F64(std::numeric_limits<double>::quiet_NaN()),
             y);
  return Select(Eq(x, zero), CopySign(inf, -x), y);
}
HWY_INLINE F64 TrigammaCore(F64 x) {
  const GammaPlace at(x);
  const F64 one(1), zero(0);
  const F64 base = Select(at.small, at.z, one);
  F64 up = one, down = base * base;
  for (int k = 1; k < 8; ++k) {
    const F64 q = base + F64(k), square = q * q;
    up = Fma(up, square, down);
    down = down * square;
  }
  const F64 t = at.r * at.r;
  const F64 series =
      pf_poly(t, 1.0, 1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6);
  const F64 y = Fma(at.r, Fma(F64(0.5), at.r, series), Select(at.small, up / down, zero));
  const F64 turn = F64(3.14159265358979323846) / SinShifted(at.angle, 0);
  return Select(at.below, turn * turn - y, y);
}
PF_VIA_DOUBLE(Lgamma)
PF_VIA_DOUBLE(Digamma)
PF_VIA_DOUBLE(Trigamma)
HWY_INLINE F64 Lgamma(F64 x) {
  return LgammaCore(x);
}
HWY_INLINE F64 Digamma(F64 x) {
  return DigammaCore(x);
}
HWY_INLINE F64 Trigamma(F64 x) {
  return TrigammaCore(x);
}

// ---- powers ------------------------------------------------------------------------------------
struct PowFunctor {
  HWY_INLINE F64 operator()(F64 x, F64 y) {
    const F64 one(1), zero(0);
    const F64 p = Exp(y * Log(Abs(x)));
    const Mask<double> whole = Eq(Trunc(y), y);
    const F64 half = y * F64(0.5);
    const Mask<double> odd = And(whole, Ne(Trunc(half), half));
    const Mask<double> negative = Lt(CopySign(one, x), zero);
    F64 r = Select(And(negative, odd), -p, p);
    const F64 nan(std::numeric_limits<double>::quiet_NaN());
    r = Select(And(And(Lt(x, zero), IsFinite(x)), Not(whole)), nan, r);
    // pow(1, y), pow(x, 0) and pow(-1, inf) are 1, NaN operands included.
    const Mask<double> unit = Or(Or(Eq(x, one), Eq(y, zero)), And(Eq(x, F64(-1)), IsInf(y)));
    return Select(unit, one, r);
  }
};
struct PowLibm {
  double operator()(double x, double y) const { return std::pow(x, y); }
};
// Squares are products, whatever the other lanes hold.
HWY_INLINE F32 Pow(F32 x, F32 y) {
  const Mask<float> square = Eq(y, F32(2));
  const F32 xx = x * x;
  if (All(square)) return xx;
  return Select(square, xx, ViaDouble<PowFunctor>(x, y));
}
HWY_INLINE F64 Pow(F64 x, F64 y) {
  const Mask<double> square = Eq(y, F64(2));
  const F64 xx = x * x;
  if (All(square)) return xx;
  return Select(square, xx, EachLane<PowLibm>(x, y));
}
// Wraps; a negative exponent gives the truncated quotient 1 / x^|y|, and 0 for x = 0.
struct PowIntLane {
  template <class E>
  E operator()(E x, E y) const {
    if (y < 0) return x == 1 ? E{1} : x == -1 ? static_cast<E>(y & 1 ? -1 : 1) : E{0};
    using U = std::make_unsigned_t<E>;
    U r = 1, b = static_cast<U>(x);
    for (U n = static_cast<U>(y); n; n >>= 1) {
      if (n & 1) r *= b;
      b *= b;
    }
    return static_cast<E>(r);
  }
};
HWY_INLINE Lanes<int32_t> Pow(Lanes<int32_t> x, Lanes<int32_t> y) {
  return EachLane<PowIntLane>(x, y);
}
HWY_INLINE Lanes<int64_t> Pow(Lanes<int64_t> x, Lanes<int64_t> y) {
  return EachLane<PowIntLane>(x, y);
}

#undef PF_VIA_DOUBLE
#undef PF_LIBM

}  // namespace HWY_NAMESPACE
}  // namespace pyflame::cpu
HWY_AFTER_NAMESPACE();

#endif
