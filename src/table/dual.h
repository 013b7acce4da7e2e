// Dual numbers over any value type of the table's vocabulary: a body evaluated over Dual<T> gives
// its value and its derivative. What does not depend on the variable stays a plain T, so that
// nothing is multiplied by a zero (0 * inf would be NaN).
//
// No include guard and no namespace: include it inside the namespace of the value type, for
// Highway within HWY_BEFORE_NAMESPACE. Mask is what comparisons of T return.
//
//   auto f = [](auto x) { return Body(x, T(0.5)); };
//   T slope = DerivativeOf<T>(f(Dual<T>(x)));   // of the variable itself d = 1

#ifndef PF_DUAL_INLINE
#define PF_DUAL_INLINE inline
#endif

template <class T>
struct Dual {
  T v, d;
  PF_DUAL_INLINE explicit Dual(T x) : v(x), d(T(1)) {}
  PF_DUAL_INLINE Dual(T value, T derivative) : v(value), d(derivative) {}
};

template <class A>
struct DualTraits {
  using Base = A;
  static constexpr bool kDual = false;
};
template <class T>
struct DualTraits<Dual<T>> {
  using Base = T;
  static constexpr bool kDual = true;
};

template <class T>
PF_DUAL_INLINE T ValueOf(T x) {
  return x;
}
template <class T>
PF_DUAL_INLINE T ValueOf(Dual<T> x) {
  return x.v;
}
template <class T>
PF_DUAL_INLINE T DerivativeOf(T) {
  return T(0);
}
template <class T>
PF_DUAL_INLINE T DerivativeOf(Dual<T> x) {
  return x.d;
}

template <class A, class B>
concept EitherDual = DualTraits<A>::kDual || DualTraits<B>::kDual;

// r is the result, x the operand; SLOPE is what x's derivative is multiplied with.
#define PF_DUAL_UNARY(NAME, SLOPE)         \
  template <class T>                       \
  PF_DUAL_INLINE Dual<T> NAME(Dual<T> a) { \
    const T x = a.v;                       \
    const T r = NAME(x);                   \
    (void)x, (void)r;                      \
    return Dual<T>(r, a.d * (SLOPE));      \
  }
template <class T>
PF_DUAL_INLINE Dual<T> operator-(Dual<T> a) {
  return Dual<T>(-a.v, -a.d);
}

// Steps: the derivative is 0, so the result is a plain value.
#define PF_DUAL_STEP(NAME)           \
  template <class T>                 \
  PF_DUAL_INLINE T NAME(Dual<T> a) { \
    return NAME(a.v);                \
  }
#define PF_DUAL_BINARY_STEP(NAME)                                \
  template <class A, class B>                                    \
  requires EitherDual<A, B> PF_DUAL_INLINE auto NAME(A a, B b) { \
    return NAME(ValueOf(a), ValueOf(b));                         \
  }

// x, y are the operands, r the result; DX (DY) is x's (y's) derivative `d` times its slope.
#define PF_DUAL_BINARY(NAME, CALL, DX, DY)                        \
  template <class A, class B>                                     \
  requires EitherDual<A, B> PF_DUAL_INLINE auto NAME(A a, B b) {  \
    using T = typename DualTraits<A>::Base;                       \
    const T x = ValueOf(a), y = ValueOf(b);                       \
    const T r = CALL;                                             \
    (void)x, (void)y, (void)r;                                    \
    if constexpr (DualTraits<A>::kDual && DualTraits<B>::kDual) { \
      T d = a.d;                                                  \
      const T dx = DX;                                            \
      d = b.d;                                                    \
      const T dy = DY;                                            \
      return Dual<T>(r, dx + dy);                                 \
    } else if constexpr (DualTraits<A>::kDual) {                  \
      const T d = a.d;                                            \
      return Dual<T>(r, DX);                                      \
    } else {                                                      \
      const T d = b.d;                                            \
      return Dual<T>(r, DY);                                      \
    }                                                             \
  }
PF_DUAL_BINARY(operator+, x + y, d, d)
PF_DUAL_BINARY(operator-, x - y, d, -d)
PF_DUAL_BINARY(operator*, x* y, d* y, d* x)
PF_DUAL_BINARY(operator/, x / y, d / y, -d*(r / y))

#define PF_MICRO(...)
#define PF_MICRO_STEP(NAME, ...) PF_DUAL_STEP(NAME)
#define PF_MICRO_UNARY(NAME, BY, FN, VALUE, SLOPE, RANGE) PF_DUAL_UNARY(NAME, SLOPE)
#define PF_MICRO_BINARY(NAME, BY, FN, VALUE, DX, DY, RANGE) PF_DUAL_BINARY(NAME, NAME(x, y), DX, DY)
#define PF_MICRO_BINARY_STEP(NAME, ...) PF_DUAL_BINARY_STEP(NAME)
#include "table/micro.def"
#undef PF_DUAL_UNARY
#undef PF_DUAL_STEP
#undef PF_DUAL_BINARY
#undef PF_DUAL_BINARY_STEP

template <class A, class B, class C>
requires(EitherDual<A, B> || DualTraits<C>::kDual) PF_DUAL_INLINE auto Fma(A a, B b, C c) {
  using T = typename DualTraits<A>::Base;
  const auto sum = a * b + c;  // the derivative needs no fused rounding
  return Dual<T>(Fma(ValueOf(a), ValueOf(b), ValueOf(c)), sum.d);
}

// The branch that is not taken contributes nothing, NaN or not.
template <class Mask, class A, class B>
requires EitherDual<A, B> PF_DUAL_INLINE auto Select(Mask m, A a, B b) {
  using T = typename DualTraits<A>::Base;
  return Dual<T>(Select(m, ValueOf(a), ValueOf(b)), Select(m, DerivativeOf(a), DerivativeOf(b)));
}

#define PF_DUAL_COMPARE(NAME)                                    \
  template <class A, class B>                                    \
  requires EitherDual<A, B> PF_DUAL_INLINE auto NAME(A a, B b) { \
    return NAME(ValueOf(a), ValueOf(b));                         \
  }
PF_DUAL_COMPARE(Lt)
PF_DUAL_COMPARE(Le)
PF_DUAL_COMPARE(Gt)
PF_DUAL_COMPARE(Ge)
PF_DUAL_COMPARE(Eq)
PF_DUAL_COMPARE(Ne)
#undef PF_DUAL_COMPARE

#define PF_DUAL_TEST(NAME)              \
  template <class T>                    \
  PF_DUAL_INLINE auto NAME(Dual<T> a) { \
    return NAME(a.v);                   \
  }
PF_DUAL_TEST(IsNan)
PF_DUAL_TEST(IsInf)
PF_DUAL_TEST(IsFinite)
#undef PF_DUAL_TEST
