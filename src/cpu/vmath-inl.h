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
using pf_mask = Mask<typename T::Elem>;
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
PF_NAME(pf_isnan, IsNan)
PF_NAME(pf_abs, Abs)
PF_NAME(pf_copysign, CopySign)
PF_NAME(pf_sqrt, Sqrt)
PF_NAME(pf_floor, Floor)
PF_NAME(pf_round, Round)
PF_NAME(pf_trunc, Trunc)

// The table holds eight numbers for a vector of four, eight or sixteen.
HWY_INLINE F32 pf_look_up(const float* row, Lanes<int32_t> k) {
#if HWY_TARGET == HWY_AVX3
  return F32(F32::V{_mm512_permutexvar_ps(k.v.raw, _mm512_broadcast_f32x8(_mm256_load_ps(row)))});
#elif HWY_TARGET == HWY_AVX2
  return F32(F32::V{_mm256_permutevar8x32_ps(_mm256_load_ps(row), k.v.raw)});
#else
  return F32(hn::GatherIndex(F32::D(), row, BitAnd(k, Lanes<int32_t>(7)).v));
#endif
}
HWY_INLINE Mask<float> pf_odd(Lanes<int32_t> k) {
  return {hn::RebindMask(F32::D(), Ne(k & Lanes<int32_t>(1), Lanes<int32_t>(0)).m)};
}
HWY_INLINE Mask<double> pf_odd(Lanes<int64_t> k) {
  return {hn::RebindMask(F64::D(), Ne(k & Lanes<int64_t>(1), Lanes<int64_t>(0)).m)};
}
template <class E>
HWY_INLINE bool pf_some(Mask<E> mask) {
  return Any(mask);
}

// Of floats as doubles, rounded once: for functions too rare to deserve a float version.
template <class F>
HWY_INLINE F32 pf_via_double(F32 x) {
  const F32::D d;
  const F64::D dd;
  const hn::Half<F32::D> dh;
  const F64 lo = F()(F64(hn::PromoteTo(dd, hn::LowerHalf(dh, x.v))));
  const F64 hi = F()(F64(hn::PromoteTo(dd, hn::UpperHalf(dh, x.v))));
  return F32(hn::Combine(d, hn::DemoteTo(dh, hi.v), hn::DemoteTo(dh, lo.v)));
}
template <class F>
HWY_INLINE F32 pf_via_double(F32 x, F32 y) {
  const F32::D d;
  const F64::D dd;
  const hn::Half<F32::D> dh;
  const F64 lo = F()(F64(hn::PromoteTo(dd, hn::LowerHalf(dh, x.v))),
                     F64(hn::PromoteTo(dd, hn::LowerHalf(dh, y.v))));
  const F64 hi = F()(F64(hn::PromoteTo(dd, hn::UpperHalf(dh, x.v))),
                     F64(hn::PromoteTo(dd, hn::UpperHalf(dh, y.v))));
  return F32(hn::Combine(d, hn::DemoteTo(dh, hi.v), hn::DemoteTo(dh, lo.v)));
}
template <class F>
HWY_INLINE F32 pf_via_double(F32 x, Lanes<int32_t>& k) {
  const F32::D d;
  const F64::D dd;
  const hn::Half<F32::D> dh;
  const hn::Half<Lanes<int32_t>::D> dih;
  F64 k0, k1;
  const F64 lo = F()(F64(hn::PromoteTo(dd, hn::LowerHalf(dh, x.v))), k0);
  const F64 hi = F()(F64(hn::PromoteTo(dd, hn::UpperHalf(dh, x.v))), k1);
  k = Lanes<int32_t>(
      hn::Combine(Lanes<int32_t>::D(), hn::DemoteTo(dih, k1.v), hn::DemoteTo(dih, k0.v)));
  return F32(hn::Combine(d, hn::DemoteTo(dh, hi.v), hn::DemoteTo(dh, lo.v)));
}

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
#define PF_TABLE alignas(32) static constexpr
#define PF_UNROLL
#define PF_SELECT(M, A, B) Select(M, A, B)
#include "kernels/elementary.h"
#include "kernels/trig.h"

// ---- what the C library is asked for ------------------------------------------------------------
// Lane by lane: rare functions of doubles.
#define PF_LIBM(NAME, FN)                               \
  struct NAME##_libm {                                  \
    double operator()(double x) const { return FN(x); } \
  };                                                    \
  HWY_INLINE F64 NAME(F64 x) {                          \
    return EachLane<NAME##_libm>(x);                    \
  }
PF_LIBM(pf_log10, std::log10)
PF_LIBM(pf_erf, std::erf)
PF_LIBM(pf_erfc, std::erfc)
PF_LIBM(pf_tan, std::tan)
PF_LIBM(pf_atan, std::atan)
PF_LIBM(pf_asin, std::asin)
PF_LIBM(pf_acos, std::acos)
PF_LIBM(pf_sinh, std::sinh)
PF_LIBM(pf_cosh, std::cosh)
PF_LIBM(pf_asinh, std::asinh)
PF_LIBM(pf_acosh, std::acosh)
PF_LIBM(pf_atanh, std::atanh)
#undef PF_LIBM
struct Atan2Libm {
  double operator()(double y, double x) const { return std::atan2(y, x); }
};
HWY_INLINE F64 pf_atan2(F64 y, F64 x) {
  return EachLane<Atan2Libm>(y, x);
}
struct PowLibm {
  double operator()(double x, double y) const { return std::pow(x, y); }
};
HWY_INLINE F64 pf_pow(F64 x, F64 y) {
  const Mask<double> square = Eq(y, F64(2));
  const F64 xx = x * x;
  if (All(square)) return xx;
  return Select(square, xx, EachLane<PowLibm>(x, y));
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
// Too large for pf_reduce_pi, though finite.
template <class E>
HWY_INLINE Mask<E> HugeAngle(Lanes<E> x) {
  const Lanes<E> a = Abs(x);
  return And(Ge(a, Lanes<E>(sizeof(E) == 4 ? 0x1p30 : 0x1p26)), IsFinite(a));
}
template <class E>
HWY_INLINE Lanes<E> pf_sin(Lanes<E> x) {
  const Lanes<E> y = pf_sin_near(x, 0);
  const Mask<E> huge = HugeAngle(x);
  if (HWY_UNLIKELY(Any(huge))) return WhereHuge<SinLibm>(huge, x, y);
  return y;
}
template <class E>
HWY_INLINE Lanes<E> pf_cos(Lanes<E> x) {
  const Lanes<E> y = pf_sin_near(x, 1);
  const Mask<E> huge = HugeAngle(x);
  if (HWY_UNLIKELY(Any(huge))) return WhereHuge<CosLibm>(huge, x, y);
  return y;
}
struct TanOfDoubles {
  HWY_INLINE F64 operator()(F64 x) const { return pf_sin(x) / pf_cos(x); }
};
HWY_INLINE F32 pf_tan(F32 x) {
  return pf_via_double<TanOfDoubles>(x);
}

#include "kernels/special.h"

// ---- division with remainder, integers ----------------------------------------------------------
template <class E>
using pf_unsigned = std::make_unsigned_t<E>;
struct FmodLibm {
  template <class E>
  E operator()(E a, E b) const {
    return std::fmod(a, b);
  }
};
// Exact, as the C library's. While a quotient has fewer bits than a number, what a product with it
// leaves is a number too, and the quotient is at most one too large.
template <class E>
requires std::is_floating_point_v<E> HWY_INLINE Lanes<E> pf_fmod(Lanes<E> a, Lanes<E> b) {
  const Lanes<E> x = Abs(a), y = Abs(b), q = Trunc(x / y), zero(0);
  const Lanes<E> most(static_cast<E>(sizeof(E) == 4 ? 0x1p23 : 0x1p52));
  Lanes<E> r = Fma(-q, y, x);
  r = CopySign(Select(Lt(r, zero), r + y, r), a);
  const Mask<E> right = And(Lt(q, most), Lt(y, Lanes<E>(std::numeric_limits<E>::infinity())));
  if (HWY_LIKELY(All(right))) return r;
  return Select(right, r, EachLane<FmodLibm>(a, b));
}
#include "kernels/division.h"
#define PF_INTEGER_RULE(NAME)                                                            \
  template <class E>                                                                     \
  requires std::is_integral_v<E> HWY_INLINE Lanes<E> pf_##NAME(Lanes<E> a, Lanes<E> b) { \
    return EachLane<pf_integer_##NAME>(a, b);                                            \
  }
PF_INTEGER_RULE(fmod)
PF_INTEGER_RULE(remainder)
PF_INTEGER_RULE(floordiv)
PF_INTEGER_RULE(shl)
PF_INTEGER_RULE(shr)
PF_INTEGER_RULE(pow)
#undef PF_INTEGER_RULE
template <class E>
requires std::is_floating_point_v<E> HWY_INLINE Lanes<E> pf_remainder(Lanes<E> a, Lanes<E> b) {
  return pf_remainder_of_floats(a, b);
}
template <class E>
requires std::is_floating_point_v<E> HWY_INLINE Lanes<E> pf_floordiv(Lanes<E> a, Lanes<E> b) {
  return pf_floordiv_of_floats(a, b);
}

#undef PF_ELEMENTARY_H
#undef PF_TRIG_H
#undef PF_SPECIAL_H
#undef PF_DIVISION_H
#undef PF_DEVICE
#undef PF_METHOD
#undef PF_TABLE
#undef PF_UNROLL
#undef PF_SELECT

// ---- the names of the table ---------------------------------------------------------------------
#define PF_NAME_Own(NAME, OF) PF_NAME(NAME, OF)
#define PF_NAME_Native(NAME, OF)
#define PF_MICRO(...)
#define PF_MICRO_STEP(...)
#define PF_MICRO_UNARY(NAME, BY, FN, ...) PF_NAME_##BY(NAME, FN)
#define PF_MICRO_BINARY(NAME, BY, FN, ...) PF_NAME_##BY(NAME, FN)
#define PF_MICRO_BINARY_STEP(NAME, BY, FN, VALUE) PF_NAME_##BY(NAME, FN)
#include "table/micro.def"
#undef PF_NAME_Own
#undef PF_NAME_Native
PF_NAME(Shl, pf_shl)
PF_NAME(Shr, pf_shr)
PF_NAME(IsInf, pf_isinf)
PF_NAME(IsFinite, pf_isfinite)
#undef PF_NAME

}  // namespace HWY_NAMESPACE
}  // namespace pyflame::cpu
HWY_AFTER_NAMESPACE();

#endif
