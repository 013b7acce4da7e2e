// layer_norm and rms_norm over the last dimensions.
#include <cmath>

#include "core/dispatch.h"
#include "engine/autograd.h"
#include "engine/engine.h"
#include "engine/recompute.h"
#include "ops/autocast.h"
#include "ops/functions.h"
#include "ops/hidden.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "table/kernels/norm.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

// Elements of one row, after the checks that both norms share.
int64_t row_length(const Tensor& x, const IntList& shape, const Tensor& weight, const Tensor& bias,
                   const char* op) {
  ops::check_floating(x, op);
  const Dims want(shape);
  const int n = want.size(), nx = x->shape.size();
  bool fits = n >= 1 && n <= nx;
  for (int i = 0; fits && i < n; ++i) fits = want[i] == x->shape[nx - n + i];
  PF_CHECK(fits, ShapeError, op, "got input of shape ", x->shape, " and normalized_shape ", want,
           "; expected normalized_shape to be the last dimensions of the input; pass ",
           "x.shape[-k:]");
  for (const Tensor* t : {&weight, &bias}) {
    if (!t->defined()) continue;
    const char* what = t == &weight ? "weight" : "bias";
    ops::check_floating(*t, op, what);
    ops::check_device(x, *t, op);
    PF_CHECK((*t)->shape == want, ShapeError, op, "got ", what, " of shape ", (*t)->shape,
             " and normalized_shape ", want, "; expected equal shapes; reshape the ", what);
  }
  return numel(want);
}

// The gradient written in operations: for second derivatives.
Grads composed(const Tensor& grad, const Tensor& input, const Tensor& weight, bool with_bias,
               int64_t n, double eps, bool rms) {
  const DType wide = ops::wide_type(input->dtype);
  const Tensor x = to(reshape(input, {-1, n}), wide), g = to(reshape(grad, {-1, n}), wide);
  const IntList last{1}, first{0};
  const Tensor centred = rms ? x : ops::centred(x, last);
  const Tensor rstd = rsqrt(add(mean(mul(centred, centred), last, true), Scalar(eps)));
  const Tensor hat = mul(centred, rstd);
  const Tensor h = weight.defined() ? mul(g, to(reshape(weight, {n}), wide)) : g;
  Tensor dx = sub(h, mul(hat, mean(mul(h, hat), last, true)));
  if (!rms) dx = sub(dx, mean(h, last, true));
  dx = mul(dx, rstd);
  Grads r{to(reshape(dx, input->shape.vec()), input->dtype)};
  if (weight.defined())
    r.push_back(to(reshape(sum(mul(g, hat), first), weight->shape.vec()), weight->dtype));
  else
    r.emplace_back();
  if (with_bias) r.push_back(sum(g, first));  // shaped and cast by the caller
  return r;
}

}  // namespace

Tensor layer_norm(const Tensor& input, const IntList& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  PF_AUTOCAST("layer_norm", RaiseElseFollow, layer_norm, input, normalized_shape, weight, bias,
              eps);
  const int64_t n = row_length(input, normalized_shape, weight, bias, "layer_norm");
  const Tensor x = ops::dense(input);
  const Tensor &w = weight, &b = bias;
  const Device device = x->storage->device;
  Tensor y = make_tensor(x->shape, x->dtype, device);
  const Dims rows{n > 0 ? x->numel / n : 0};
  const DType stats = ops::wide_type(x->dtype);
  // The mean is two numbers, as it was summed and what that sum was off by: see cpu/norm.cpp.
  Tensor means = make_tensor(Dims{rows[0], 2}, stats, device);
  Tensor rstds = make_tensor(rows, stats, device);
  if (x->numel > 0)
    engine::call<kernels::LayerNorm>(
        {.y = y, .mean = means, .rstd = rstds, .x = x, .weight = w, .bias = b},
        {.length = n, .eps = eps});
  if (autograd::wanted({x, w, b}))
    autograd::attach(
        "layer_norm", {y}, {x, w, b}, {Saved(x), Saved(w), Saved(means), Saved(rstds)},
        [n, eps, bias_type = b.defined() ? b->dtype : DType::Float32,
         bias_shape = b.defined() ? b->shape : Dims()](const Context& c) -> Grads {
          const Tensor x = c.saved(0), w = c.saved(1), g = c.grad();
          if (n == 0)  // gradients without elements
            return {zeros_like(x), c.needs(1) ? zeros_like(w) : Tensor(),
                    c.needs(2) ? zeros(bias_shape.vec(), bias_type, x->storage->device) : Tensor()};
          if (autograd::wanted({g, x, w}) ||
              (ops::hides({g, x, w}) && (c.needs(1) || c.needs(2)))) {
            Grads r = composed(g, x, w, true, n, eps, false);
            r[2] = c.needs(2) ? to(reshape(r[2], bias_shape.vec()), bias_type) : Tensor();
            return r;
          }
          const Device device = x->storage->device;
          Tensor dx = make_tensor(x->shape, x->dtype, device), dw, db;
          if (c.needs(1)) dw = make_tensor(w->shape, w->dtype, device);
          if (c.needs(2)) db = make_tensor(bias_shape, bias_type, device);
          engine::call<kernels::LayerNormBackward>({.dx = dx,
                                                    .dweight = dw,
                                                    .dbias = db,
                                                    .dy = g,
                                                    .x = x,
                                                    .mean = c.saved(2),
                                                    .rstd = c.saved(3),
                                                    .weight = w},
                                                   {.length = n});
          return {dx, dw, db};
        });
  if (autograd::recomputes() && autograd::requires_grad(y))
    autograd::redo_by(y, [x = Saved(x), w = Saved(w), b = Saved(b), normalized_shape,
                          eps](const autograd::Node& owner) {
      return layer_norm(x.get(owner), normalized_shape, w.get(owner), b.get(owner), eps);
    });
  return y;
}

Tensor rms_norm(const Tensor& input, const IntList& normalized_shape, const Tensor& weight,
                std::optional<double> eps) {
  PF_AUTOCAST("rms_norm", RaiseElseFollow, rms_norm, input, normalized_shape, weight, eps);
  const int64_t n = row_length(input, normalized_shape, weight, {}, "rms_norm");
  const Tensor x = ops::dense(input);
  const Tensor& w = weight;
  // The distance from 1 to the next number of the dtype.
  const double e = eps.value_or(std::ldexp(1.0, 1 - float_format(x->dtype).digits));
  const Device device = x->storage->device;
  Tensor y = make_tensor(x->shape, x->dtype, device);
  Tensor rstds = make_tensor(Dims{n > 0 ? x->numel / n : 0}, ops::wide_type(x->dtype), device);
  if (x->numel > 0)
    engine::call<kernels::RmsNorm>({.y = y, .rstd = rstds, .x = x, .weight = w},
                                   {.length = n, .eps = e});
  if (autograd::wanted({x, w}))
    autograd::attach(
        "rms_norm", {y}, {x, w}, {Saved(x), Saved(w), Saved(rstds)},
        [n, e](const Context& c) -> Grads {
          const Tensor x = c.saved(0), w = c.saved(1), g = c.grad();
          if (n == 0) return {zeros_like(x), c.needs(1) ? zeros_like(w) : Tensor()};
          if (autograd::wanted({g, x, w}) || (ops::hides({g, x, w}) && c.needs(1)))
            return composed(g, x, w, false, n, e, true);
          const Device device = x->storage->device;
          Tensor dx = make_tensor(x->shape, x->dtype, device), dw;
          if (c.needs(1)) dw = make_tensor(w->shape, w->dtype, device);
          engine::call<kernels::RmsNormBackward>(
              {.dx = dx, .dweight = dw, .dy = g, .x = x, .rstd = c.saved(2), .weight = w},
              {.length = n});
          return {dx, dw};
        });
  if (autograd::recomputes() && autograd::requires_grad(y))
    autograd::redo_by(
        y, [x = Saved(x), w = Saved(w), normalized_shape, eps](const autograd::Node& owner) {
          return rms_norm(x.get(owner), normalized_shape, w.get(owner), eps);
        });
  return y;
}

static const ops::Family kNorm("normalization", [](ops::Family& f) {
  using namespace ops;
  f.op(&layer_norm,
       {"layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
        "float eps=1e-5) -> Tensor",
        "(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions, which "
        "`normalized_shape` names; var divides by n. Statistics are float32 or wider. ShapeError "
        "when the shapes do not match.",
        kFunction | kFunctional});
  f.op(&rms_norm,
       {"rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> "
        "Tensor",
        "x / sqrt(mean(x^2) + eps) * weight over the last dimensions, which `normalized_shape` "
        "names; eps is the dtype's epsilon by default. ShapeError when the shapes do not match.",
        kFunction | kFunctional});
});

}  // namespace pyflame
