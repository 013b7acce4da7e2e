// Division with remainder over a value type, as elementary.h, which stands before it; so does
// pf_fmod of floats, exact as the C library's. And rules of integers, for one number at a time:
// besides, pf_unsigned<E>.
#ifndef PF_DIVISION_H
#define PF_DIVISION_H

template <class T>
PF_DEVICE T pf_remainder_of_floats(T a, T b) {
  const T m = pf_fmod(a, b), zero(0);
  return PF_SELECT(m != zero && (b < zero) != (m < zero), m + b, m);
}
// As Python and PyTorch: consistent with the remainder, not floor(a / b).
template <class T>
PF_DEVICE T pf_floordiv_of_floats(T a, T b) {
  const T m = pf_fmod(a, b), zero(0), one(1), plain = a / b;
  T q = (a - m) / b;
  q = PF_SELECT(m != zero && (b < zero) != (m < zero), q - one, q);
  const T f = pf_floor(q);
  const T near = PF_SELECT(q - f > T(0.5), f + one, f);
  return PF_SELECT(b == zero, plain, PF_SELECT(q == zero, pf_copysign(zero, plain), near));
}

// ---- integers ----------------------------------------------------------------------------------
struct pf_integer_fmod {
  template <class E>
  PF_METHOD E operator()(E a, E b) const {
    return b == 0 || b == -1 ? E(0) : a % b;
  }
};
struct pf_integer_remainder {
  template <class E>
  PF_METHOD E operator()(E a, E b) const {
    const E m = pf_integer_fmod()(a, b);
    return m != 0 && (b < 0) != (m < 0) ? m + b : m;
  }
};
struct pf_integer_floordiv {
  template <class E>
  PF_METHOD E operator()(E a, E b) const {
    if (b == 0) return 0;
    if (b == -1) return static_cast<E>(pf_unsigned<E>(0) - static_cast<pf_unsigned<E>>(a));
    const E q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
  }
};
// A count below 0 or from the width on shifts everything out.
struct pf_integer_shl {
  template <class E>
  PF_METHOD E operator()(E a, E n) const {
    const bool out = n < 0 || n >= E(8 * sizeof(E));
    return out ? E(0) : static_cast<E>(static_cast<pf_unsigned<E>>(a) << n);
  }
};
struct pf_integer_shr {
  template <class E>
  PF_METHOD E operator()(E a, E n) const {
    const bool out = n < 0 || n >= E(8 * sizeof(E));
    return out ? (a < 0 ? E(-1) : E(0)) : a >> n;
  }
};
// A negative exponent gives the truncated quotient, and 0 for 0.
struct pf_integer_pow {
  template <class E>
  PF_METHOD E operator()(E x, E y) const {
    if (y < 0) return x == 1 ? E(1) : x == -1 ? (y & 1 ? E(-1) : E(1)) : E(0);
    pf_unsigned<E> r = 1, b = static_cast<pf_unsigned<E>>(x);
    for (pf_unsigned<E> n = static_cast<pf_unsigned<E>>(y); n; n >>= 1) {
      if (n & 1) r *= b;
      b *= b;
    }
    return static_cast<E>(r);
  }
};

#endif
