// Special functions by series, continued fractions and sums that converge for all arguments, in
// rounds whose number has a bound that does not grow with the arguments.
#include "table/kernels/special.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cpu/kernel.h"
#include "cpu/threads.h"

namespace pyflame::cpu {
namespace {

using kernels::SpecialFunction;
using kernels::tensors;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kEps = std::numeric_limits<double>::epsilon();
constexpr double kPi = 3.14159265358979323846, kEuler = 0.57721566490153286061;

// ---- Bessel functions ---------------------------------------------------------------------------

// exp(-|x|) I_order(x), order 0 or 1: by its series, whose terms are all positive, and far out by
// its asymptotic one, of which only the first terms count.
double scaled_i(int order, double x) {
  const double a = std::abs(x);
  if (std::isnan(a)) return x;
  double r;
  if (a <= 30) {
    const double q = a * a / 4;
    double term = order ? a / 2 : 1, sum = term;
    for (int k = 1; term > sum * kEps / 4; ++k) {
      term *= q / (static_cast<double>(k) * (k + order));
      sum += term;
    }
    r = sum * std::exp(-a);
  } else {
    if (std::isinf(a)) return order && x < 0 ? -0.0 : 0.0;
    const double mu = 4.0 * order * order;
    double term = 1, sum = 1;
    for (int k = 1; k < 30; ++k) {
      const double odd = 2 * k - 1;
      term *= -(mu - odd * odd) / (8 * a * k);
      if (std::abs(term) < kEps / 4) break;
      sum += term;
    }
    r = sum / std::sqrt(2 * kPi * a);
  }
  return order && x < 0 ? -r : r;
}
double plain_i(int order, double x) {
  const double a = std::abs(x);
  if (a <= 700) return scaled_i(order, x) * std::exp(a);
  const double half = std::exp(a / 2);  // in two steps: later to infinity
  return scaled_i(order, x) * half * half;
}

// exp(x) K_order(x) for any order: the integral of exp(-x (cosh t - 1)) cosh(order t), whose sum
// over even steps converges as fast as the integrand falls.
double integral_k(double order, double x) {
  const double step = std::min(1.0 / 16, 0.5 / std::sqrt(x));  // finer than the integrand is wide
  double sum = 0.5;
  for (int i = 1;; ++i) {
    const double t = i * step, s = std::sinh(t / 2);
    const double term = std::exp(-2 * x * s * s) * std::cosh(order * t);
    sum += term;
    if (term < sum * kEps / 8 || i > 20000) break;
  }
  return sum * step;
}
double scaled_k(int order, double x) {
  if (std::isnan(x) || x < 0) return kNan;
  if (x == 0) return kInf;
  if (std::isinf(x)) return 0;
  if (x > 1) return integral_k(order, x);
  // -(log(x / 2) + gamma) I plus a series of harmonic numbers
  const double q = x * x / 4, log_half = std::log(x) - M_LN2;  // x / 2 may vanish
  double r;
  if (order == 0) {
    double term = 1, harmonic = 0, sum = -(log_half + kEuler);
    for (int k = 1; term > kEps / 64; ++k) {
      term *= q / (static_cast<double>(k) * k);
      harmonic += 1.0 / k;
      sum += term * (harmonic - log_half - kEuler);
    }
    r = sum;
  } else {
    double term = x / 2, harmonic = 0, sum = 0;
    for (int k = 0; term > x * kEps / 64; ++k) {
      // psi(k + 1) + psi(k + 2)
      sum += term * (log_half - (2 * harmonic + 1.0 / (k + 1) - 2 * kEuler) / 2);
      harmonic += 1.0 / (k + 1);
      term *= q / (static_cast<double>(k + 1) * (k + 2));
    }
    r = 1 / x + sum;
  }
  return r * std::exp(x);
}

double airy(double x) {
  constexpr double kAt0 = 0.35502805388781723926, kSlope = 0.25881940379280679840;
  if (std::isnan(x)) return x;
  if (x > 1) {
    if (x > 1000) return 0;
    const double z = 2.0 / 3 * x * std::sqrt(x);
    return std::sqrt(x / 3) / kPi * integral_k(1.0 / 3, z) * std::exp(-z);
  }
  if (x >= -7.5) {
    const long double c = static_cast<long double>(x) * x * x;
    long double f = 1, g = x, sf = 1, sg = x;
    for (int k = 1; k < 200; ++k) {
      f *= c / (static_cast<long double>(3 * k - 1) * (3 * k));
      g *= c / (static_cast<long double>(3 * k) * (3 * k + 1));
      sf += f;
      sg += g;
      if (std::abs(f) < 1e-22L && std::abs(g) < 1e-22L) break;
    }
    return static_cast<double>(kAt0 * sf - kSlope * sg);
  }
  if (std::isinf(x)) return 0;
  // Far out an oscillation with amplitudes in powers of 1 / z.
  const double a = -x, z = 2.0 / 3 * a * std::sqrt(a);
  double u = 1, even = 1, odd = 0;
  for (int k = 1; k < 30; ++k) {
    const double next =
        u * ((6.0 * k - 5) * (6.0 * k - 3) * (6.0 * k - 1)) / (216.0 * k * (2 * k - 1) * z);
    if (std::abs(next) > std::abs(u) || std::abs(next) < 1e-18) break;
    u = next;
    const double sign = (k / 2) % 2 ? -1 : 1;
    (k % 2 ? odd : even) += sign * u;
  }
  const double angle = z - kPi / 4;
  return (std::cos(angle) * even + std::sin(angle) * odd) /
         (std::sqrt(kPi) * std::sqrt(std::sqrt(a)));
}

// ---- errors and normal distributions ------------------------------------------------------------

// exp(x^2) erfc(x)
double erfcx(double x) {
  if (std::isnan(x)) return x;
  if (x < 5) return std::exp(x * x) * std::erfc(x);
  if (x > 1e8) return 1 / (x * std::sqrt(kPi));
  // The continued fraction x + (1/2) / (x + 1 / (x + (3/2) / ...)), from far enough back.
  double f = x;
  for (int k = 60; k >= 1; --k) f = x + k / 2.0 / f;
  return 1 / (f * std::sqrt(kPi));
}
double log_ndtr(double x) {
  if (x < -1) return std::log(erfcx(-x * M_SQRT1_2) / 2) - x * x / 2;
  return std::log1p(-std::erfc(x * M_SQRT1_2) / 2);
}

// ---- gamma functions ----------------------------------------------------------------------------

double log_gamma(double x) {
  int sign;  // not the global of lgamma: threads
  return ::lgamma_r(x, &sign);
}

// d - log(1 + d), which is d^2 / 2 for small ones: with s = d / (2 + d) it is d s - 2 (atanh(s) -
// s).
double above_log(double d) {
  if (std::abs(d) >= 0.5) return d - std::log1p(d);
  const double s = d / (2 + d), square = s * s;
  double rest = 0;
  for (int k = 41; k >= 3; k -= 2) rest = rest * square + 1.0 / k;
  return d * s - 2 * s * square * rest;
}
// x^a exp(-x) / Gamma(a + 1): where a is large by what x / a differs from 1.
double gamma_term(double a, double x) {
  if (a < 20) return std::exp(a * std::log(x) - x - log_gamma(a + 1));
  const double d = (x - a) / a;
  const double gap = std::abs(d) < 0.5 ? -above_log(d) : std::log(x / a) - d;
  const double b = 1 / (a * a);  // Stirling's series
  const double rest = (1.0 / 12 - b * (1.0 / 360 - b * (1.0 / 1260 - b / 1680))) / a;
  return std::exp(a * gap - rest) / std::sqrt(2 * kPi * a);
}
// Temme's expansion of the share below x, or above it, for large a and x = a (1 + d) near it:
// erfc(-+eta sqrt(a / 2)) / 2 -+ exp(-a eta^2 / 2) / sqrt(2 pi a) * sum of c_k(eta) / a^k, where
// eta^2 / 2 = d - log(1 + d). (Temme 1979; DLMF 8.12.) The c_k are power series of eta.
constexpr double kNear = 0.3, kLarge = 20;
class Temme {
 public:
  Temme() {
    constexpr int kAll = kPowers + 2 * kTerms + 2;
    std::array<double, kAll + 1> alpha{0, 1, 1.0 / 3, 1.0 / 36};
    for (int n = 4; n <= kAll; ++n) {
      double sum = alpha[n - 1];
      for (int j = 2; j < n; ++j) sum -= j * alpha[j] * alpha[n - j + 1];
      alpha[n] = sum / (n + 1);
    }
    std::array<double, kAll> first{-1.0 / 3}, row{};
    for (int n = 1; n + 2 <= kAll; ++n) first[n] = (n + 2) * alpha[n + 2];
    row = first;
    double odd = 1, sign = 1;
    for (int k = 0; k < kTerms; ++k) {
      if (k > 0) {
        odd *= 2 * k + 1;
        sign = -sign;
        const double stirling =
            odd * alpha[2 * k + 1];  // of Gamma's series, times k-th power of -1
        for (int n = 0; n + 2 * k < kAll - 2; ++n)
          row[n] = sign * stirling * first[n] + (n + 2) * row[n + 2];
      }
      std::copy_n(row.begin(), kPowers, c_[k].begin());
    }
  }
  double share(double a, double d, bool above) const {
    const double half = above_log(d), eta = std::copysign(std::sqrt(2 * half), d);
    double sum = 0, power = 1;
    for (const auto& c : c_) {
      double at = 0;
      for (int n = kPowers - 1; n >= 0; --n) at = at * eta + c[n];
      sum += at * power;
      power /= a;
    }
    const double rest = std::exp(-a * half) / std::sqrt(2 * kPi * a) * sum;
    const double root = std::copysign(std::sqrt(a * half), d);
    return above ? std::erfc(root) / 2 + rest : std::erfc(-root) / 2 - rest;
  }

 private:
  static constexpr int kTerms = 12, kPowers = 24;
  std::array<std::array<double, kPowers>, kTerms> c_;
};
// The share of Gamma(a) below x, or above it.
double incomplete(double a, double x, bool above) {
  if (std::isnan(a) || std::isnan(x) || a < 0 || x < 0) return kNan;
  if (a == 0) return x == 0 ? kNan : above ? 0 : 1;
  if (x == 0) return above ? 1 : 0;
  if (std::isinf(a)) return std::isinf(x) ? kNan : above ? 1 : 0;
  if (std::isinf(x)) return above ? 0 : 1;
  // Series and fraction take sqrt(a) rounds where x is near a, and a hundred elsewhere.
  if (a > kLarge && std::abs(x - a) < kNear * a) {
    static const Temme temme;
    return temme.share(a, (x - a) / a, above);
  }
  const double first = gamma_term(a, x);
  double r;
  bool upper = x > a + 1;
  if (!upper) {
    double term = 1, sum = 1;
    for (double k = a + 1; term > sum * kEps / 4; k += 1) {
      term *= x / k;
      sum += term;
    }
    r = first * sum;
  } else {
    // Lentz's evaluation of the continued fraction.
    constexpr double kTiny = 1e-300;
    double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, h = d;
    for (int i = 1; i < 10000; ++i) {
      const double n = -i * (i - a);
      b += 2;
      d = n * d + b;
      if (std::abs(d) < kTiny) d = kTiny;
      c = b + n / c;
      if (std::abs(c) < kTiny) c = kTiny;
      d = 1 / d;
      const double step = d * c;
      h *= step;
      if (std::abs(step - 1) < kEps) break;
    }
    r = first * a * h;
  }
  return upper == above ? r : 1 - r;
}

// Hurwitz' zeta: the sum of (q + k)^-x, its first terms, and Euler's and Maclaurin's of the others.
double zeta(double x, double q) {
  // Bernoulli's numbers B(2j) over (2j)!
  static constexpr double kB[] = {1.0 / 12,           -1.0 / 720,
                                  1.0 / 30240,        -1.0 / 1209600,
                                  1.0 / 47900160,     -691.0 / 1307674368000.,
                                  1.0 / 74724249600., -3617.0 / 10670622842880000.};
  if (std::isnan(x) || std::isnan(q)) return kNan;
  if (x == 1) return kInf;
  if (x < 1) return kNan;
  if (q <= 0) {
    if (q == std::floor(q)) return kInf;
    if (x != std::floor(x)) return kNan;  // a negative number to a broken power
    // Those below 0 are -q, -q - 1, ... down to a broken part, by a power that may turn the sign.
    const double part = -q - std::floor(-q), sign = std::fmod(x, 2) == 0 ? 1 : -1;
    return sign * (zeta(x, part) - zeta(x, 1 - q)) + zeta(x, 1 - part);
  }
  constexpr int kFirst = 12;
  double sum = 0, a = q;
  for (int k = 0; k < kFirst; ++k, a += 1) {
    const double term = std::pow(a, -x);
    sum += term;
    if (a > 1 && term < sum * kEps * 1e-3) return sum;
  }
  const double last = std::pow(a, -x);
  sum += last * a / (x - 1) + last / 2;
  double factor = x * last / a;
  for (int j = 0; j < 8; ++j) {
    const double term = factor * kB[j];
    sum += term;
    if (std::abs(term) < std::abs(sum) * kEps / 8) break;
    factor *= (x + 2 * j + 1) * (x + 2 * j + 2) / (a * a);
  }
  return sum;
}

// ---- orthogonal polynomials ---------------------------------------------------------------------

// p(0), p(1) and p(k + 1) = step(k, p(k), p(k - 1)). Of a degree below 0 it is 0.
template <class Step>
double by_recurrence(double degree, double p0, double p1, Step&& step) {
  if (std::isnan(degree)) return kNan;
  const double n = std::trunc(degree);
  if (n < 0) return 0;
  if (n == 0) return p0;
  if (n > 1e7) return kNan;
  for (double k = 1; k < n; k += 1) {
    const double next = step(k, p1, p0);
    p0 = p1;
    p1 = next;
    if (std::isnan(p1)) break;  // as all that follow
  }
  return p1;
}
double chebyshev(double x, double n, double first) {
  return by_recurrence(n, 1, first, [x](double, double p, double q) { return 2 * x * p - q; });
}

double value(SpecialFunction f, double x, double o) {
  using F = SpecialFunction;
  switch (f) {
    case F::kJ0:
      return ::j0(x);
    case F::kJ1:
      return ::j1(x);
    case F::kY0:
      return x == 0 ? -kInf : x < 0 ? kNan : ::y0(x);
    case F::kY1:
      return x == 0 ? -kInf : x < 0 ? kNan : ::y1(x);
    case F::kI0:
      return plain_i(0, x);
    case F::kI0e:
      return scaled_i(0, x);
    case F::kI1:
      return plain_i(1, x);
    case F::kI1e:
      return scaled_i(1, x);
    case F::kK0:
      return scaled_k(0, x) * std::exp(-x);
    case F::kK0e:
      return scaled_k(0, x);
    case F::kK1:
      return scaled_k(1, x) * std::exp(-x);
    case F::kK1e:
      return scaled_k(1, x);
    case F::kAiry:
      return airy(x);
    case F::kErfcx:
      return erfcx(x);
    case F::kLogNdtr:
      return log_ndtr(x);
    case F::kZeta:
      return zeta(x, o);
    case F::kIgamma:
      return incomplete(x, o, false);
    case F::kIgammac:
      return incomplete(x, o, true);
    case F::kChebyshevT:
      return chebyshev(x, o, x);
    case F::kChebyshevU:
      return chebyshev(x, o, 2 * x);
    case F::kChebyshevV:
      return chebyshev(x, o, 2 * x - 1);
    case F::kChebyshevW:
      return chebyshev(x, o, 2 * x + 1);
    case F::kHermiteH:
      return by_recurrence(o, 1, 2 * x,
                           [x](double k, double p, double q) { return 2 * (x * p - k * q); });
    case F::kHermiteHe:
      return by_recurrence(o, 1, x, [x](double k, double p, double q) { return x * p - k * q; });
    case F::kLaguerre:
      return by_recurrence(o, 1, 1 - x, [x](double k, double p, double q) {
        return ((2 * k + 1 - x) * p - k * q) / (k + 1);
      });
    case F::kLegendre:
      return by_recurrence(o, 1, x, [x](double k, double p, double q) {
        return ((2 * k + 1) * x * p - k * q) / (k + 1);
      });
  }
  return kNan;
}

void special(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::Special>;
  const auto f = static_cast<SpecialFunction>(a.i(kernels::numbers<kernels::Special>.function));
  const int64_t n = numel(a.tensor(at.y));
  dispatch_float(a.dtype(at.y), [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>) {
      const T *x = a.data<const T>(at.x),
              *o = a.has(at.other) ? a.data<const T>(at.other) : nullptr;
      T* y = a.data<T>(at.y);
      parallel_for(n, 256, [&](int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i)
          y[i] = static_cast<T>(
              value(f, static_cast<double>(x[i]), o ? static_cast<double>(o[i]) : 0));
      });
    }
  });
}

}  // namespace

PF_CPU_KERNEL(kernels::Special::kInfo, special)

}  // namespace pyflame::cpu
