// Samples made of random numbers by formulas: counts, and what overwrites a tensor.
//
// No loop waits for values: where a candidate may be refused, so many are made that all are refused
// once in 1e10, and the first that is taken counts. So a sample follows from the generator's state
// alone, on every device. Differences of logarithms of factorials are taken in float64: in float32
// they are off by more than 1 where a million is expected.
#include <cmath>
#include <utility>

#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/functions.h"
#include "ops/hidden.h"
#include "ops/registry.h"
#include "ops/rows.h"

namespace pyflame {
namespace {

// Candidates of transformed rejection, each taken with a probability above 0.86.
constexpr int kCandidates = 16;
constexpr double kFew = 10;  // expected ones below which a count is found by inversion
constexpr double kNaN = NAN;

// Above 0 and below 1.
Tensor open_uniform(const Tensor& like) {
  constexpr double kStep = 0x1p-53;
  return add(mul(rand(like->shape.vec(), DType::Float64, like->storage->device), 1 - 2 * kStep),
             kStep);
}

// The first count that is taken, or `otherwise`: candidate(u, us, v) gives one and whether it is,
// for u uniform around 0, us = 0.5 - |u|, and v uniform up to 1.
template <class Candidate>
Tensor first_taken(const Tensor& like, const Tensor& otherwise, Candidate candidate) {
  Tensor made = otherwise,
         done = ops::raw_full(like->shape, DType::Bool, like->storage->device, false);
  for (int i = 0; i < kCandidates; ++i) {
    const Tensor u = open_uniform(like) - 0.5, v = open_uniform(like);
    const auto [k, taken] = candidate(u, 0.5 - abs(u), v);
    made = where(logical_and(taken, logical_not(done)), k, made);
    done = logical_or(done, taken);
  }
  return made;
}

// Whether all is well with the values, asked where the host need not wait for them; elsewhere what
// is wrong gives NaN.
void check_values(const Tensor& good, const char* op, const char* given, const char* expected) {
  if (good->storage->device.type != DeviceType::CPU || good->numel == 0) return;
  PF_CHECK(all(ops::all_samples(good)).item<bool>(), ValueError, op, "got ", given, "; expected ",
           expected, "; check what computed them");
}

// Counts, as a function of their parameters: differentiable, with zeros.
Tensor counted(const char* op, Tensor made, const Tensor& good, const Tensor& a, const Tensor& b) {
  const Tensor out = to(where(good, made, kNaN), a->dtype);
  if (autograd::wanted({a, b}))
    autograd::attach(op, {out}, {a, b}, {},
                     [](const autograd::Context&) { return autograd::Grads(2); });
  return out;
}

// By inversion where few are expected, else by Hormann's transformed rejection (PTRS, 1993).
Tensor poisson(const Tensor& given) {
  const char* op = "poisson";
  ops::check_floating(given, op);
  Tensor good, made;
  {
    const NoGrad off;
    const Tensor rate = to(given, DType::Float64);
    good = ge(rate, 0.0);
    check_values(good, op, "a rate below 0 or NaN", "rates of at least 0");
    const Tensor few = lt(rate, kFew);
    const Tensor low = where(few, rate, 1.0), uniform = open_uniform(rate);
    Tensor term = exp(neg(low)), total = term;
    Tensor count = ops::raw_full(rate->shape, DType::Float64, rate->storage->device, 0.0);
    for (int k = 1; k < 64; ++k) {  // what lies beyond has 1e-30
      count = add(count, gt(uniform, total));
      term = div(mul(term, low), static_cast<double>(k));
      total = add(total, term);
    }
    const Tensor m = where(few, kFew, rate);
    const Tensor b = sqrt(m) * 2.53 + 0.931;
    const Tensor a = b * 0.02483 - 0.059;
    const Tensor inverse = 1.1328 / (b - 3.4) + 1.1239;
    const Tensor quick = 0.9277 - 3.6224 / (b - 2.0);
    const Tensor log_m = log(m);
    made = first_taken(rate, floor(m), [&](const Tensor& u, const Tensor& us, const Tensor& v) {
      const Tensor k = floor((a * 2.0 / us + b) * u + m + 0.43);
      const Tensor near = le(log(v * inverse / (a / (us * us) + b)),
                             k * log_m - m - lgamma(clamp(k, 0.0, {}) + 1.0));
      const Tensor inside = logical_and(ge(k, 0.0), logical_or(ge(us, 0.013), le(v, us)));
      return std::pair{
          k, logical_or(logical_and(ge(us, 0.07), le(v, quick)), logical_and(inside, near))};
    });
    made = where(few, count, made);
  }
  return counted(op, made, good, given, {});
}

// By inversion where few are expected, else by Hormann's transformed rejection (BTRS, 1993).
Tensor binomial(const Tensor& count, const Tensor& prob) {
  const char* op = "binomial";
  ops::check_floating(count, op, "count");
  ops::check_floating(prob, op, "prob");
  PF_CHECK(count->dtype == prob->dtype, DTypeError, op, "got count of dtype ", count->dtype,
           " and prob of dtype ", prob->dtype, "; expected one dtype; convert one of them");
  Tensor good, made;
  {
    const NoGrad off;
    const IntList shape = broadcast_shapes(count->shape, prob->shape, op).vec();
    const Tensor tries = to(expand(count, shape), DType::Float64);
    const Tensor given = to(expand(prob, shape), DType::Float64);
    good = logical_and(ge(tries, 0.0), logical_and(ge(given, 0.0), le(given, 1.0)));
    check_values(good, op, "a count below 0 or a probability outside 0 to 1",
                 "counts of at least 0, probabilities of 0 to 1");
    const Tensor turned = gt(given, 0.5);
    const Tensor p = where(turned, 1.0 - given, given);
    const Tensor few = lt(tries * p, kFew);
    Tensor n = where(few, tries, 1.0), q = where(few, p, 0.25);
    const Tensor odds = q / (1.0 - q), uniform = open_uniform(tries);
    Tensor term = exp(n * log1p(neg(q))), total = term;
    Tensor found = ops::raw_full(tries->shape, DType::Float64, tries->storage->device, 0.0);
    for (int i = 1; i < 80; ++i) {
      const double k = i;
      found = add(found, logical_and(gt(uniform, total), ge(n, k)));
      term = term * clamp(n - (k - 1), 0.0, {}) / k * odds;
      total = total + term;
    }
    n = where(few, 100.0, tries), q = where(few, 0.25, p);
    const Tensor spread = sqrt(n * q * (1.0 - q));
    const Tensor b = spread * 2.53 + 1.15;
    const Tensor a = b * 0.0248 - 0.0873 + q * 0.01;
    const Tensor middle = n * q + 0.5, quick = 0.92 - 4.2 / b;
    const Tensor alpha = (5.1 / b + 2.83) * spread;
    const Tensor m = floor((n + 1.0) * q);
    const Tensor at_m = lgamma(m + 1.0) + lgamma(n - m + 1.0);
    const Tensor log_odds = log(q / (1.0 - q));
    made = first_taken(tries, m, [&](const Tensor& u, const Tensor& us, const Tensor& v) {
      const Tensor k = floor((a * 2.0 / us + b) * u + middle);
      const Tensor inside = logical_and(ge(k, 0.0), le(k, n));
      const Tensor y = where(inside, k, m);
      const Tensor near = le(log(v * alpha / (a / (us * us) + b)),
                             at_m - lgamma(y + 1.0) - lgamma(n - y + 1.0) + (y - m) * log_odds);
      return std::pair{
          k, logical_and(inside, logical_or(logical_and(ge(us, 0.07), le(v, quick)), near))};
    });
    made = where(few, found, made);
    made = where(turned, tries - made, made);
  }
  return counted(op, made, good, count, prob);
}

// ---- what overwrites a tensor -------------------------------------------------------------------

// Writes make(wide), of a tensor of float64: float32 has too few numbers near 0 and 1.
template <class Make>
Tensor overwritten(Tensor t, const char* op, Make make) {
  autograd::check_inplace(t, op);
  Tensor made;
  {
    const NoGrad off;
    Tensor wide = make_tensor(t->shape, DType::Float64, t->storage->device);
    made = to(make(wide), t->dtype);
  }
  return copy_(t, made);
}

Tensor cauchy_(Tensor t, double median, double sigma) {
  const char* op = "cauchy_";
  ops::check_floating(t, op);
  PF_CHECK(sigma > 0, ValueError, op, "got sigma ", sigma, "; expected more than 0; give a scale");
  return overwritten(
      t, op, [&](Tensor& x) { return tan(mul(uniform_(x, -0.5, 0.5), M_PI)) * sigma + median; });
}

Tensor log_normal_(Tensor t, double mean, double std) {
  const char* op = "log_normal_";
  ops::check_floating(t, op);
  PF_CHECK(std > 0, ValueError, op, "got std ", std,
           "; expected more than 0; give the standard deviation of the logarithms");
  return overwritten(t, op, [&](Tensor& x) { return exp(normal_(x, mean, std)); });
}

// How many tries until the first success: whole parts of an exponential number, and 1 more.
Tensor geometric_(Tensor t, double p) {
  const char* op = "geometric_";
  ops::check_defined(t, op);
  PF_CHECK(t->dtype != DType::Bool && !is_complex(t->dtype), DTypeError, op, "got dtype ", t->dtype,
           "; expected one that holds counts; take int64 or a float");
  PF_CHECK(p > 0 && p < 1, ValueError, op, "got p ", p, "; expected 0 < p < 1; correct it");
  return overwritten(t, op, [&](Tensor& x) {
    return add(floor(div(log1p(neg(uniform_(x, 0, 1))), std::log1p(-p))), 1.0);
  });
}

const ops::Family kSamples("random", [](ops::Family& f) {
  using namespace ops;
  f.op(&poisson, {"poisson(Tensor input) -> Tensor",
                  "Counts of the Poisson distribution whose means are the elements.", kFunction});
  f.op(&binomial, {"binomial(Tensor count, Tensor prob) -> Tensor",
                   "Successes in so many tries, each with that probability.", kFunction});
  f.op(&cauchy_, {"cauchy_(Tensor input, float median=0, float sigma=1) -> Tensor",
                  "Overwrites with numbers of the Cauchy distribution.", kMethod, false});
  f.op(&log_normal_, {"log_normal_(Tensor input, float mean=1, float std=2) -> Tensor",
                      "Overwrites with numbers whose logarithms are normal, of this mean and "
                      "standard deviation.",
                      kMethod, false});
  f.op(&geometric_, {"geometric_(Tensor input, float p) -> Tensor",
                     "Overwrites with how many tries there are until the first success, each "
                     "with probability p.",
                     kMethod, false});
});

}  // namespace
}  // namespace pyflame
