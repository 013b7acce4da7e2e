// The value type of compiled rows: one vector of float, double, int32 or int64 with the table's
// whole vocabulary (CONTRACT of pointwise.def). Functions are found by argument-dependent lookup.
// Elementary functions and division with remainder are in vmath-inl.h. Include inside a
// foreach_target translation unit, after hwy/highway.h.

#if defined(PYFLAME_CPU_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PYFLAME_CPU_LANES_INL
#undef PYFLAME_CPU_LANES_INL
#else
#define PYFLAME_CPU_LANES_INL
#endif

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class E>
struct Lanes {
  using Elem = E;
  using D = hn::ScalableTag<E>;
  using V = hn::Vec<D>;
  V v;
  HWY_INLINE Lanes() {}
  HWY_INLINE explicit Lanes(V x) : v(x) {}
  template <class N>
  requires std::is_arithmetic_v<N> HWY_INLINE explicit Lanes(N c)
      : v(hn::Set(D(), static_cast<E>(c))) {}
};

// What comparisons of Lanes<E> give.
template <class E>
struct Mask {
  using D = hn::ScalableTag<E>;
  hn::Mask<D> m;
};

// Sixteen bools as bytes 0 and 1: the operands of logic rows.
struct ByteMask {
  using D = hn::CappedTag<uint8_t, 16>;
  hn::Vec<D> v;
};

// ---- arithmetic --------------------------------------------------------------------------------
#define PF_LANES(NAME, CALL)                         \
  template <class E>                                 \
  HWY_INLINE Lanes<E> NAME(Lanes<E> a, Lanes<E> b) { \
    return Lanes<E>(hn::CALL(a.v, b.v));             \
  }
PF_LANES(operator+, Add)
PF_LANES(operator-, Sub)
PF_LANES(operator*, Mul)
template <class E>
HWY_INLINE Lanes<E> operator-(Lanes<E> a) {
  if constexpr (std::is_floating_point_v<E>)
    return Lanes<E>(hn::Neg(a.v));
  else
    return Lanes<E>(hn::Sub(hn::Zero(typename Lanes<E>::D()), a.v));
}
// a * b + c, rounded once.
template <class E>
HWY_INLINE Lanes<E> Fma(Lanes<E> a, Lanes<E> b, Lanes<E> c) {
  if constexpr (std::is_floating_point_v<E>)
    return Lanes<E>(hn::MulAdd(a.v, b.v, c.v));
  else
    return a * b + c;
}

// ---- comparisons and masks ---------------------------------------------------------------------
template <class E>
HWY_INLINE Mask<E> Not(Mask<E> a) {
  return {hn::Not(a.m)};
}
#define PF_MASK(NAME, CALL, OF, PART)         \
  template <class E>                          \
  HWY_INLINE Mask<E> NAME(OF<E> a, OF<E> b) { \
    return {hn::CALL(a.PART, b.PART)};        \
  }
PF_MASK(And, And, Mask, m)
PF_MASK(operator&&, And, Mask, m)
PF_MASK(Or, Or, Mask, m)
PF_MASK(operator||, Or, Mask, m)
PF_MASK(Xor, Xor, Mask, m)
PF_MASK(operator!=, Xor, Mask, m)
PF_MASK(Lt, Lt, Lanes, v)
PF_MASK(operator<, Lt, Lanes, v)
PF_MASK(Gt, Gt, Lanes, v)
PF_MASK(operator>, Gt, Lanes, v)
PF_MASK(Eq, Eq, Lanes, v)
PF_MASK(operator==, Eq, Lanes, v)
#undef PF_MASK
template <class E>
HWY_INLINE Mask<E> Ne(Lanes<E> a, Lanes<E> b) {
  // Highway's own Ne is false where an operand is NaN.
  return Not(Eq(a, b));
}
template <class E>
HWY_INLINE Mask<E> Le(Lanes<E> a, Lanes<E> b) {
  if constexpr (std::is_floating_point_v<E>)
    return {hn::Le(a.v, b.v)};
  else
    return Not(Gt(a, b));
}
template <class E>
HWY_INLINE Mask<E> Ge(Lanes<E> a, Lanes<E> b) {
  return Le(b, a);
}
#define PF_MASK_OPERATOR(OPERATOR, NAME)                         \
  template <class E>                                             \
  HWY_INLINE Mask<E> operator OPERATOR(Lanes<E> a, Lanes<E> b) { \
    return NAME(a, b);                                           \
  }
PF_MASK_OPERATOR(!=, Ne)
PF_MASK_OPERATOR(<=, Le)
PF_MASK_OPERATOR(>=, Ge)
#undef PF_MASK_OPERATOR
template <class E>
HWY_INLINE Mask<E> operator!(Mask<E> a) {
  return Not(a);
}
template <class E>
HWY_INLINE Lanes<E> Select(Mask<E> m, Lanes<E> a, Lanes<E> b) {
  return Lanes<E>(hn::IfThenElse(m.m, a.v, b.v));
}
// Where only doubles can come to b.
template <class E>
HWY_INLINE Lanes<E> SelectInDouble(Mask<E> m, Lanes<E> a, Lanes<E> b) {
  if constexpr (sizeof(E) == 8)
    return Select(m, a, b);
  else
    return a;
}
template <class E>
HWY_INLINE Mask<E> Select(Mask<E> m, Mask<E> a, Mask<E> b) {
  return Or(And(m, a), And(Not(m), b));
}
template <class E>
HWY_INLINE bool Any(Mask<E> m) {
  return !hn::AllFalse(typename Mask<E>::D(), m.m);
}
template <class E>
HWY_INLINE bool All(Mask<E> m) {
  return hn::AllTrue(typename Mask<E>::D(), m.m);
}
HWY_INLINE ByteMask And(ByteMask a, ByteMask b) {
  return {hn::And(a.v, b.v)};
}
HWY_INLINE ByteMask Or(ByteMask a, ByteMask b) {
  return {hn::Or(a.v, b.v)};
}
HWY_INLINE ByteMask Xor(ByteMask a, ByteMask b) {
  return {hn::Xor(a.v, b.v)};
}
HWY_INLINE ByteMask Not(ByteMask a) {
  return {hn::Xor(a.v, hn::Set(ByteMask::D(), uint8_t{1}))};
}

template <class E>
HWY_INLINE Mask<E> IsNan(Lanes<E> x) {
  static_assert(std::is_floating_point_v<E>);
  return {hn::IsNaN(x.v)};
}

// ---- signs, extremes, rounding -----------------------------------------------------------------
template <class E>
HWY_INLINE Lanes<E> Abs(Lanes<E> x) {
  return Lanes<E>(hn::Abs(x.v));
}
// NaN of either operand wins. The instruction itself returns its second operand for a NaN.
template <class E>
HWY_INLINE Lanes<E> Max(Lanes<E> a, Lanes<E> b) {
  const Lanes<E> r(hn::Max(a.v, b.v));
  if constexpr (std::is_floating_point_v<E>) return Select(IsNan(a), a, r);
  return r;
}
template <class E>
HWY_INLINE Lanes<E> Min(Lanes<E> a, Lanes<E> b) {
  const Lanes<E> r(hn::Min(a.v, b.v));
  if constexpr (std::is_floating_point_v<E>) return Select(IsNan(a), a, r);
  return r;
}
template <class E>
HWY_INLINE Lanes<E> Sign(Lanes<E> x) {
  const Lanes<E> zero(0);
  return Select(Gt(x, zero), Lanes<E>(1), Select(Lt(x, zero), Lanes<E>(-1), zero));
}
template <class E>
HWY_INLINE Lanes<E> CopySign(Lanes<E> magnitude, Lanes<E> sign) {
  return Lanes<E>(hn::CopySign(magnitude.v, sign.v));
}
#define PF_LANES_ROUNDING(NAME, CALL)          \
  template <class E>                           \
  HWY_INLINE Lanes<E> NAME(Lanes<E> x) {       \
    if constexpr (std::is_floating_point_v<E>) \
      return Lanes<E>(hn::CALL(x.v));          \
    else                                       \
      return x;                                \
  }
PF_LANES_ROUNDING(Floor, Floor)
PF_LANES_ROUNDING(Ceil, Ceil)
PF_LANES_ROUNDING(Round, Round)
PF_LANES_ROUNDING(Trunc, Trunc)
#undef PF_LANES_ROUNDING

// ---- bits --------------------------------------------------------------------------------------
PF_LANES(BitAnd, And)
PF_LANES(BitOr, Or)
PF_LANES(BitXor, Xor)
PF_LANES(operator&, And)
PF_LANES(operator^, Xor)
#undef PF_LANES
template <class E>
HWY_INLINE Lanes<E> BitNot(Lanes<E> a) {
  return Lanes<E>(hn::Not(a.v));
}
template <class To, class From>
HWY_INLINE Lanes<To> BitCast(Lanes<From> a) {
  static_assert(sizeof(To) == sizeof(From));
  return Lanes<To>(hn::BitCast(typename Lanes<To>::D(), a.v));
}

// ---- lane by lane -------------------------------------------------------------------------------

// For what has no vector form. F is a functor over E.
template <class F, class E>
HWY_NOINLINE Lanes<E> EachLane(Lanes<E> x) {
  typename Lanes<E>::D d;
  HWY_ALIGN E t[HWY_MAX_BYTES / sizeof(E)];
  hn::Store(x.v, d, t);
  for (size_t i = 0; i < hn::Lanes(d); ++i) t[i] = F()(t[i]);
  return Lanes<E>(hn::Load(d, t));
}
template <class F, class E>
HWY_NOINLINE Lanes<E> EachLane(Lanes<E> x, Lanes<E> y) {
  typename Lanes<E>::D d;
  HWY_ALIGN E t[HWY_MAX_BYTES / sizeof(E)];
  HWY_ALIGN E u[HWY_MAX_BYTES / sizeof(E)];
  hn::Store(x.v, d, t);
  hn::Store(y.v, d, u);
  for (size_t i = 0; i < hn::Lanes(d); ++i) t[i] = F()(t[i], u[i]);
  return Lanes<E>(hn::Load(d, t));
}

template <class E>
HWY_INLINE Lanes<E> operator/(Lanes<E> a, Lanes<E> b) {
  if constexpr (std::is_floating_point_v<E>)
    return Lanes<E>(hn::Div(a.v, b.v));
  else
    return FloorDiv(a, b);
}

// ---- memory -------------------------------------------------------------------------------------

// Masks are stored as one byte an element, 0 or 1.
template <class E>
HWY_INLINE Lanes<E> LoadLanes(const E* p) {
  return Lanes<E>(hn::LoadU(typename Lanes<E>::D(), p));
}
template <class E>
HWY_INLINE Mask<E> LoadMask(const uint8_t* p) {
  using D = hn::ScalableTag<E>;
  const hn::Rebind<uint8_t, D> d8;
  const hn::Rebind<int32_t, D> d32;
  const auto wide = hn::PromoteTo(d32, hn::LoadU(d8, p));
  if constexpr (sizeof(E) == 4) {
    return {hn::RebindMask(D(), hn::Ne(wide, hn::Zero(d32)))};
  } else {
    const hn::RebindToSigned<D> d64;
    return {hn::RebindMask(D(), hn::Ne(hn::PromoteTo(d64, wide), hn::Zero(d64)))};
  }
}
template <class E>
HWY_INLINE auto MaskBytes(Mask<E> m) {
  using D = hn::ScalableTag<E>;
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint8_t, D> d8;
  const auto ones = hn::IfThenElseZero(hn::RebindMask(du, m.m), hn::Set(du, 1));
  return hn::TruncateTo(d8, ones);
}

}  // namespace HWY_NAMESPACE
}  // namespace pyflame::cpu
HWY_AFTER_NAMESPACE();

#endif
