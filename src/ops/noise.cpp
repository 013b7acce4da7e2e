// Dropout that keeps mean and variance behind selu, and a leaky relu with random slopes.
#include <cmath>

#include "ops/building_blocks.h"
#include "ops/functions.h"
#include "ops/registry.h"
#include "ops/rows.h"

namespace pyflame {
namespace {

// What selu gives far below 0, times -1.
constexpr double kLowest = 1.7580993408473766;

void check_probability(double p, const char* op) {
  PF_CHECK(p >= 0 && p <= 1, ValueError, op, "got probability ", p,
           "; expected 0 <= p <= 1; correct it");
}

// Ones, and zeros with probability p: for each element, or for each channel of [batch, channels,
// ...].
Tensor kept(const Tensor& x, double p, bool channels, const char* op) {
  Dims shape = x->shape;
  if (channels) {
    PF_CHECK(shape.size() >= 2, ShapeError, op, "got shape ", shape,
             "; expected [batch, channels, ...]; unsqueeze it first");
    for (int d = 2; d < shape.size(); ++d) shape[d] = 1;
  }
  const NoGrad off;
  return to(ge(rand(shape.vec(), DType::Float32, x->storage->device), Scalar(p)), x->dtype);
}

Tensor alpha_dropout_of(const Tensor& x, double p, bool training, bool channels, const char* op) {
  ops::check_defined(x, op);
  check_probability(p, op);
  if (!training || p == 0) return x;
  if (p == 1) return mul(x, Scalar(0));
  ops::check_floating(x, op);
  const Tensor noise = kept(x, p, channels, op);
  const double a = 1 / std::sqrt((kLowest * kLowest * p + 1) * (1 - p));
  // What is dropped becomes -kLowest, then all is brought back to mean 0 and variance 1.
  const Tensor low = add(mul(noise, Scalar(kLowest * a)), Scalar(kLowest * a * (p - 1)));
  return add(mul(x, mul(noise, Scalar(a))), low);
}

Tensor feature_dropout_of(const Tensor& x, double p, bool training, const char* op) {
  ops::check_defined(x, op);
  check_probability(p, op);
  if (!training || p == 0) return x;
  if (p == 1) return mul(x, Scalar(0));
  ops::check_floating(x, op);
  return mul(x, mul(kept(x, p, true, op), Scalar(1 / (1 - p))));
}

Tensor rrelu_of(const Tensor& x, double lower, double upper, bool training) {
  const char* op = "rrelu";
  ops::check_floating(x, op);
  PF_CHECK(std::isfinite(lower) && std::isfinite(upper) && lower <= upper, ValueError, op,
           "got slopes from ", lower, " to ", upper, "; expected finite numbers, the lower first");
  if (!training) return leaky_relu(x, Scalar((lower + upper) / 2));
  Tensor slope;
  {
    const NoGrad off;
    slope = add(mul(rand(x->shape.vec(), x->dtype, x->storage->device), Scalar(upper - lower)),
                Scalar(lower));
  }
  return where(le(x, Scalar(0)), mul(x, slope), x);
}

// A result as it is, or written into its operand.
Tensor put(Tensor x, const Tensor& result, bool inplace) {
  return inplace && result.impl() != x.impl() ? copy_(x, result) : result;
}

static const ops::Family kNoise("random", [](ops::Family& f) {
  using namespace ops;
  f.op(
      +[](const Tensor& x, double p, bool training, bool inplace) {
        return put(x, alpha_dropout_of(x, p, training, false, "alpha_dropout"), inplace);
      },
      {"alpha_dropout(Tensor input, float p=0.5, bool training|train=False, bool inplace=False) -> "
       "Tensor",
       "Elements set to what selu gives far below 0, with probability p; all scaled and shifted so "
       "that "
       "mean 0 and variance 1 stay.",
       kFunction | kFunctional});
  f.op(
      +[](const Tensor& x, double p, bool training, bool inplace) {
        return put(x, alpha_dropout_of(x, p, training, true, "feature_alpha_dropout"), inplace);
      },
      {"feature_alpha_dropout(Tensor input, float p=0.5, bool training|train=False, bool "
       "inplace=False) -> Tensor",
       "alpha_dropout of whole channels of [batch, channels, ...].", kFunction | kFunctional});
  f.op(+[](const Tensor& x, double p,
           bool training) { return feature_dropout_of(x, p, training, "feature_dropout"); },
       {"feature_dropout(Tensor input, float p, bool train) -> Tensor",
        "Dropout of whole channels of [batch, channels, ...].", kFunction});
  f.op(+[](const Tensor& x, double lower, double upper, bool training,
           bool inplace) { return put(x, rrelu_of(x, lower, upper, training), inplace); },
       {"rrelu(Tensor input, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool "
        "training=False, bool inplace=False) -> Tensor",
        "x above 0, below it x times a slope drawn evenly from [lower, upper], or their mean when "
        "not "
        "training.",
        kFunction | kFunctional});
  // In place, as torch has them.
  f.op(
      +[](const Tensor& x, double p, bool train) {
        return put(x, alpha_dropout_of(x, p, train, false, "alpha_dropout_"), true);
      },
      {"alpha_dropout_(Tensor input, float p, bool train) -> Tensor", "alpha_dropout in place.",
       kFunction});
  f.op(
      +[](const Tensor& x, double p, bool train) {
        return put(x, alpha_dropout_of(x, p, train, true, "feature_alpha_dropout_"), true);
      },
      {"feature_alpha_dropout_(Tensor input, float p, bool train) -> Tensor",
       "feature_alpha_dropout in place.", kFunction});
  f.op(
      +[](const Tensor& x, double p, bool train) {
        return put(x, feature_dropout_of(x, p, train, "feature_dropout_"), true);
      },
      {"feature_dropout_(Tensor input, float p, bool train) -> Tensor", "feature_dropout in place.",
       kFunction});
  f.op(+[](const Tensor& x, double p, bool train) { return put(x, dropout(x, p, train), true); },
       {"dropout_(Tensor input, float p, bool train) -> Tensor", "dropout in place.", kFunction});
  f.op(+[](const Tensor& x, double lower, double upper,
           bool training) { return put(x, rrelu_of(x, lower, upper, training), true); },
       {"rrelu_(Tensor input, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool "
        "training=False) -> Tensor",
        "rrelu in place.", kFunction | kFunctional});
});

}  // namespace
}  // namespace pyflame
