// batch_norm, instance_norm, group_norm and local_response_norm. Statistics, and the sums of the
// gradient, are kernels over the cells of a tensor in either layout (table/kernels/cells.h); the
// rest is pointwise, so that an activation or a residual behind it runs in the same pass.
#include <algorithm>
#include <cmath>

#include "core/backends.h"
#include "engine/autograd.h"
#include "engine/autograd_nodes.h"
#include "engine/engine.h"
#include "engine/hidden.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/functions.h"
#include "ops/record.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "table/kernels/cells.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;
using CellNumbers = kernels::CellMoments::Numbers<Scalar>;

int64_t channels_of(const Tensor& x) {
  return x->shape[1];
}
// Elements of a channel of one example.
int64_t space_of(const Tensor& x) {
  return ops::space_of(x->shape);
}
bool channels_last(const Tensor& x) {
  return lies_as(x->shape, x->strides, channels_last_strides(x->shape));
}
// One of the two layouts.
Tensor packed(const Tensor& x) {
  return channels_last(x) ? x : ops::dense(x);
}
// The same numbers as `x` has places, which lies in one of the two.
Tensor packed_like(const Tensor& g, const Tensor& x) {
  if (x->contiguous ? g->contiguous : channels_last(g)) return g;
  Tensor t = make_tensor(g->shape, g->dtype, g->storage->device);
  lay_out_like(*t.impl(), *x.impl());
  ops::raw_copy(t, g);
  return t;
}

CellNumbers numbers(int64_t batch, int64_t outer, int64_t cells, int64_t inner) {
  return {Scalar(batch), Scalar(outer), Scalar(cells), Scalar(inner)};
}
// A cell for each channel.
CellNumbers by_channel(const Tensor& x) {
  const int64_t n = x->shape[0], c = channels_of(x), s = space_of(x);
  return x->contiguous ? numbers(1, n, c, s) : numbers(1, n * s, c, 1);
}
// A cell for each of so many groups of channels of each example.
CellNumbers by_group(const Tensor& x, int64_t groups) {
  const int64_t n = x->shape[0], s = space_of(x);
  const int64_t each = groups > 0 ? channels_of(x) / groups : 0;
  return x->contiguous ? numbers(1, 1, n * groups, each * s) : numbers(n, s, groups, each);
}

struct Two {
  Tensor first, second;
};
Two fresh_two(const Tensor& x, const Dims& shape) {
  const DType wide = ops::wide_type(x->dtype);
  return {make_tensor(shape, wide, x->storage->device),
          make_tensor(shape, wide, x->storage->device)};
}
// Mean and variance (divided by the count) of cells; `shape` has as many places.
Two moments(const Tensor& x, const Dims& shape, const CellNumbers& cells, const char* op) {
  if (x->numel == 0) {
    const Tensor none = zeros(shape.vec(), ops::wide_type(x->dtype), x->storage->device);
    return {none, none};
  }
  Two r = fresh_two(x, shape);
  engine::call<kernels::CellMoments>({.mean = r.first, .var = r.second, .x = x}, cells, {.op = op});
  return r;
}
// The sums of g, and of g * (x - mean).
Two sums(const Tensor& g, const Tensor& x, const Tensor& mean, const CellNumbers& cells,
         const char* op) {
  Two r = fresh_two(x, mean->shape);
  engine::call<kernels::CellSums>(
      {.sum = r.first, .product = r.second, .g = packed_like(g, x), .x = x, .mean = mean}, cells,
      {.op = op});
  return r;
}

// The same of what passes the relu behind bias + (x - mean) * scale.
Two gated_sums(const Tensor& g, const Tensor& x, const Tensor& mean, const Tensor& scale,
               const Tensor& bias, const CellNumbers& cells, const char* op) {
  Two r = fresh_two(x, mean->shape);
  engine::call<kernels::GatedCellSums>({.sum = r.first,
                                        .product = r.second,
                                        .g = packed_like(g, x),
                                        .x = x,
                                        .mean = mean,
                                        .scale = scale,
                                        .bias = bias},
                                       cells, {.op = op});
  return r;
}
template <class K>
bool has(const Tensor& x) {
  return backend_of(x->storage->device)->kernel_find(K::kInfo.name) != nullptr;
}
bool has_gated_sums(const Tensor& g) {
  return has<kernels::GatedCellSums>(g);
}
// Whether kernels make of statistics all that channels are normalized by.
template <class K, class... T>
bool has_at_once(const Tensor& x, const T&... others) {
  return x->numel > 0 && !engine::among_samples(x, others...) && has<K>(x);
}

// Of [C] or [N, C]: beside the elements of x.
Tensor beside(const Tensor& t, const Tensor& x) {
  IntList shape(static_cast<size_t>(x->shape.size()), 1);
  shape[1] = channels_of(x);
  if (t->numel != shape[1]) shape[0] = x->shape[0];
  return reshape(t, shape);
}
Tensor widened(const Tensor& t, const Tensor& x) {
  return to(t, ops::wide_type(x->dtype));
}

Tensor by_weight(const Tensor& t, const Tensor& weight, const Tensor& x) {
  return weight.defined() ? mul(t, widened(weight, x)) : t;
}

Tensor scale_of(const Tensor& rstd, const Tensor& weight, const Tensor& x) {
  NoGrad off;
  return by_weight(rstd, weight, x);
}

// (x - mean) * scale + bias; the last may be undefined.
Tensor normalized(const Tensor& x, const Tensor& mean, const Tensor& scale, const Tensor& bias) {
  const Tensor centred = sub(widened(x, x), beside(mean, x)), by = beside(scale, x);
  return to(bias.defined() ? addcmul(beside(widened(bias, x), x), centred, by) : mul(centred, by),
            x->dtype);
}
// g * by + (x - mean) * slope + shift
Tensor input_gradient(const Tensor& g, const Tensor& x, const Tensor& mean, const Tensor& by,
                      const Tensor& slope, const Tensor& shift) {
  const Tensor rest =
      addcmul(beside(shift, x), sub(widened(x, x), beside(mean, x)), beside(slope, x));
  return to(addcmul(rest, widened(g, x), beside(by, x)), x->dtype);
}

// ---- checks -------------------------------------------------------------------------------------

void check_input(const Tensor& x, const char* op) {
  ops::check_floating(x, op);
  PF_CHECK(x->shape.size() >= 2, ShapeError, op, "got input of shape ", x->shape,
           "; expected at least 2 dimensions, examples and channels; reshape it");
}
// One number for each channel.
void check_channels(const Tensor& t, const Tensor& x, const char* what, const char* op) {
  if (!t.defined()) return;
  ops::check_floating(t, op, what);
  ops::check_device(x, t, op);
  const Dims expected{channels_of(x)};
  PF_CHECK(t->shape == expected, ShapeError, op, "got ", what, " of shape ", t->shape,
           " for input of shape ", x->shape, "; expected ", expected,
           "; check num_features of the layer, or reshape the ", what);
  PF_CHECK(t->dtype == x->dtype || t->dtype == ops::wide_type(x->dtype), DTypeError, op, "got ",
           what, " of dtype ", t->dtype, " for input of dtype ", x->dtype, "; expected that",
           ops::is_narrow(x) ? " or float32" : "", "; convert with .to(dtype)");
}
void check_parameters(const Tensor& x, const Tensor& weight, const Tensor& bias, const char* op) {
  check_channels(weight, x, "weight", op);
  check_channels(bias, x, "bias", op);
}
void check_eps(double eps, bool statistics, const char* op) {
  PF_CHECK(eps > 0 || (eps == 0 && !statistics), ValueError, op, "got eps ", eps, "; expected ",
           statistics ? "more than 0, as equal values have no variance" : "at least 0",
           "; the usual one is 1e-5");
}
// What has statistics needs two values.
void check_values(int64_t count, const Tensor& x, const char* op, const char* of) {
  PF_CHECK(count != 1, ValueError, op, "got input of shape ", x->shape, ", one value in each ", of,
           "; expected more than 1 for statistics; use a larger batch, or evaluation mode");
}
// Running statistics come together.
void check_running(const Tensor& x, const Tensor& mean, const Tensor& var, const char* op) {
  PF_CHECK(mean.defined() == var.defined(), ValueError, op, "got ",
           mean.defined() ? "running_mean without running_var" : "running_var without running_mean",
           "; expected both or none; pass the other one");
  check_channels(mean, x, "running_mean", op);
  check_channels(var, x, "running_var", op);
}

// ---- what follows from statistics ---------------------------------------------------------------

Tensor inverse_of(const Tensor& var, double eps) {
  return rsqrt(add(var, Scalar(eps)));
}
// running = running * (1 - momentum) + fresh * momentum
void update(Tensor running, const Tensor& fresh, double momentum) {
  const Tensor old = to(running, fresh->dtype);
  copy_(running, add(mul(old, Scalar(1 - momentum)), mul(fresh, Scalar(momentum))));
}
// `var` was divided by n, what runs is by n - 1.
void update_both(const Tensor& running_mean, const Tensor& running_var, const Tensor& mean,
                 const Tensor& var, int64_t n, double momentum) {
  const auto count = static_cast<double>(n);
  update(running_mean, mean, momentum);
  update(running_var, mul(var, Scalar(count / (count - 1))), momentum);
}

IntList all_but_channels(const Tensor& x) {
  IntList dims{0};
  for (int d = 2; d < x->shape.size(); ++d) dims.push_back(d);
  return dims;
}
DType dtype_or(const Tensor& t) {
  return t.defined() ? t->dtype : DType::Float32;
}

// Those of an empty input: no numbers, and sums of none, which have gradients in their turn.
Grads of_nothing(const Tensor& x, const Tensor& grad, const Tensor& weight, bool with_bias,
                 DType bias_type) {
  const Tensor g = widened(grad, x), product = mul(g, widened(x, x));
  const IntList dims = all_but_channels(x);
  Grads r(3);
  r[0] = to(weight.defined() ? mul(product, beside(widened(weight, x), x)) : product, x->dtype);
  if (weight.defined()) r[1] = to(sum(product, dims), weight->dtype);
  if (with_bias) r[2] = to(sum(g, dims), bias_type);
  return r;
}

// The gradients written in operations, for second derivatives. Statistics are those of `groups`
// groups of each example, 0: of channels; fixed ones are given.
Grads composed(const Tensor& input, const Tensor& grad, const Tensor& weight, bool with_bias,
               DType bias_type, int64_t groups, double eps, const Tensor& mean,
               const Tensor& rstd) {
  const Tensor x = widened(input, input), g = widened(grad, input);
  const Tensor w = weight.defined() ? beside(widened(weight, input), input) : Tensor();
  const Tensor h = w.defined() ? mul(g, w) : g;
  const IntList all = all_but_channels(x), last{2};
  Tensor hat, dx;
  if (mean.defined()) {
    hat = mul(sub(x, beside(mean, x)), beside(rstd, x));
    dx = mul(h, beside(rstd, x));
  } else {
    const IntList dims = groups > 0 ? last : all;
    const auto cells = [&](const Tensor& t) {
      return groups > 0 ? reshape(t, {x->shape[0], groups, -1}) : t;
    };
    const Tensor centred = ops::centred(cells(x), dims), d = cells(h);
    const Tensor inverse =
        rsqrt(add(pyflame::mean(mul(centred, centred), dims, true), Scalar(eps)));
    const Tensor unit = mul(centred, inverse);
    dx = sub(sub(d, pyflame::mean(d, dims, true)),
             mul(unit, pyflame::mean(mul(d, unit), dims, true)));
    dx = reshape(mul(dx, inverse), x->shape.vec());
    hat = reshape(unit, x->shape.vec());
  }
  return {to(dx, input->dtype),
          weight.defined() ? to(sum(mul(g, hat), all), weight->dtype) : Tensor(),
          with_bias ? to(sum(g, all), bias_type) : Tensor()};
}

// ---- batch_norm ---------------------------------------------------------------------------------

// `own`: statistics are those of x; else mean and rstd are given. `scale` is rstd times the weight.
Tensor over_channels(const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& scale,
                     const Tensor& weight, const Tensor& bias, bool own, double eps) {
  const char* op = "batch_norm";
  Tensor y;
  {
    NoGrad off;
    y = normalized(x, mean, scale, bias);
  }
  if (!autograd::wanted({x, weight, bias})) return y;
  autograd::attach(
      op, {y}, {x, weight, bias},
      {Saved(x), Saved(weight), Saved(mean), Saved(rstd), Saved(scale), Saved(bias)},
      [own, eps, bias_type = dtype_or(bias), op](const Context& c) -> Grads {
        const Tensor x = c.saved(0), w = c.saved(1), mean = c.saved(2), rstd = c.saved(3);
        const Tensor scale = c.saved(4);
        const bool gated = c.node.gated;
        const Tensor shifts = gated && c.saved(5).defined() ? widened(c.saved(5), x) : Tensor();
        // Of a relu that the gradient has not passed, what it saw is
        // sooner made again than read.
        const auto passed = [&](const Tensor& g) {
          return gated ? ops::relu_gradient(g, normalized(x, mean, scale, shifts)) : g;
        };
        const Tensor g = c.grad();
        if (x->numel == 0) return of_nothing(x, g, w, c.needs(2), bias_type);
        if (autograd::wanted({g, x, w}))
          return composed(x, g, w, c.needs(2), bias_type, 0, eps, own ? Tensor() : mean,
                          own ? Tensor() : rstd);
        Grads r(3);
        if (own || c.needs(1) || c.needs(2)) {
          const Tensor seen = packed(x);
          const CellNumbers cells = by_channel(seen);
          if (own && !gated && has_at_once<kernels::CellSlopes>(x, g, scale)) {
            const Two first = fresh_two(x, mean->shape), more = fresh_two(x, mean->shape);
            engine::call<kernels::CellSlopes>({.sum = first.first,
                                               .product = first.second,
                                               .shift = more.first,
                                               .slope = more.second,
                                               .g = packed_like(g, seen),
                                               .x = seen,
                                               .mean = contiguous(mean),
                                               .rstd = contiguous(rstd),
                                               .scale = contiguous(scale)},
                                              cells, {.op = op});
            if (c.needs(0)) r[0] = input_gradient(g, x, mean, scale, more.second, more.first);
            if (c.needs(1)) r[1] = to(first.second, w->dtype);
            if (c.needs(2)) r[2] = to(first.first, bias_type);
            return r;
          }
          const Two s = gated
                            ? gated_sums(g, seen, contiguous(mean), contiguous(scale),
                                         shifts.defined() ? contiguous(shifts) : shifts, cells, op)
                            : sums(g, seen, contiguous(mean), cells, op);
          // All that is of channels reads the sums: it runs behind them, as one program.
          const Tensor dw = mul(s.second, rstd);
          if (c.needs(1)) r[1] = to(dw, w->dtype);
          if (c.needs(2)) r[2] = to(s.first, bias_type);
          if (own && c.needs(0)) {
            const Scalar share(-1.0 / static_cast<double>(x->numel / channels_of(x)));
            const Tensor shift = mul(mul(s.first, scale), share);
            const Tensor slope = mul(mul(mul(dw, rstd), scale), share);
            r[0] = input_gradient(passed(g), x, mean, scale, slope, shift);
          }
        }
        if (!own && c.needs(0)) r[0] = to(mul(widened(passed(g), x), beside(scale, x)), x->dtype);
        return r;
      });
  autograd::take_gates(y, has_gated_sums);
  return y;
}

// ---- statistics of each example -----------------------------------------------------------------

// [N, groups] as [N, C], one number for each channel.
Tensor each_channel(const Tensor& t, int64_t channels) {
  const int64_t n = t->shape[0], groups = t->shape[1];
  if (groups == channels) return t;
  const Tensor spread = expand(reshape(t, {n, groups, 1}), {n, groups, channels / groups});
  return reshape(spread, {n, channels});
}

// Of `groups` groups of channels of each example; mean and rstd are [N, groups].
Tensor over_groups(const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight,
                   const Tensor& bias, int64_t groups, double eps, const char* op) {
  const int64_t channels = channels_of(x);
  Tensor y;
  {
    NoGrad off;
    y = normalized(x, each_channel(mean, channels),
                   by_weight(each_channel(rstd, channels), weight, x), bias);
  }
  if (!autograd::wanted({x, weight, bias})) return y;
  autograd::attach(
      op, {y}, {x, weight, bias}, {Saved(x), Saved(weight), Saved(mean), Saved(rstd)},
      [groups, eps, bias_type = dtype_or(bias), op](const Context& c) -> Grads {
        const Tensor x = c.saved(0), w = c.saved(1), g = c.grad();
        const int64_t n = x->shape[0], channels = channels_of(x),
                      each = channels / std::max<int64_t>(groups, 1);
        if (x->numel == 0) return of_nothing(x, g, w, c.needs(2), bias_type);
        if (autograd::wanted({g, x, w}))
          return composed(x, g, w, c.needs(2), bias_type, groups, eps, {}, {});
        const Tensor seen = packed(x), rstd = each_channel(c.saved(3), channels);
        const Tensor mean = contiguous(each_channel(c.saved(2), channels));
        const Two s = sums(g, seen, mean, by_group(seen, channels), op);
        const IntList examples{0}, of_group{2};
        Grads r(3);
        if (c.needs(1)) r[1] = to(sum(mul(s.second, rstd), examples), w->dtype);
        if (c.needs(2)) r[2] = to(sum(s.first, examples), bias_type);
        if (!c.needs(0)) return r;
        const auto of_groups = [&](const Tensor& t) {
          const Tensor all = by_weight(t, w, x);
          return groups == channels
                     ? all
                     : each_channel(sum(reshape(all, {n, groups, each}), of_group), channels);
        };
        const Tensor part = mul(rstd, Scalar(-1.0 / static_cast<double>(each * space_of(x))));
        const Tensor shift = mul(part, of_groups(s.first));
        const Tensor slope = mul(mul(part, mul(rstd, rstd)), of_groups(s.second));
        r[0] = input_gradient(g, x, mean, by_weight(rstd, w, x), slope, shift);
        return r;
      });
  return y;
}

// Statistics of groups of each example, and what is normalized by them.
Tensor by_examples(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                   const Tensor& weight, const Tensor& bias, int64_t groups, double momentum,
                   double eps, const char* op) {
  const Tensor x = packed(input);
  Two stats;
  Tensor rstd;
  {
    NoGrad off;
    stats = moments(x, {x->shape[0], groups}, by_group(x, groups), op);
    rstd = inverse_of(stats.second, eps);
    if (running_mean.defined() && x->numel > 0) {
      const IntList examples{0};
      update_both(running_mean, running_var, mean(stats.first, examples),
                  mean(stats.second, examples), x->numel / (x->shape[0] * groups), momentum);
    }
  }
  return over_groups(x, stats.first, rstd, weight, bias, groups, eps, op);
}

}  // namespace

Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, bool training, double momentum,
                  double eps) {
  const char* op = "batch_norm";
  if (input.defined() && input->shape == Dims{0}) {  // nothing, of channels that nobody counts
    ops::check_floating(input, op);
    Tensor y = weight.defined() ? mul(input, sum(weight)) : clone(input);
    return bias.defined() ? add(y, sum(bias)) : y;
  }
  check_input(input, op);
  const int64_t channels = channels_of(input);
  check_running(input, running_mean, running_var, op);
  check_parameters(input, weight, bias, op);
  check_eps(eps, training, op);
  if (!training) {
    PF_CHECK(running_mean.defined(), ValueError, op,
             "got no running statistics; expected them for training=False; pass running_mean and "
             "running_var, or training=True");
    const Tensor mean = widened(running_mean.detach(), input);
    const Tensor rstd = inverse_of(widened(running_var.detach(), input), eps);
    return over_channels(input, mean, rstd, scale_of(rstd, weight, input), weight, bias, false,
                         eps);
  }
  const Tensor x = packed(input);
  const int64_t n = channels > 0 ? x->numel / channels : 0;
  if (n > 0) check_values(n, x, op, "channel");
  Two stats;
  Tensor rstd, scale;
  const auto update_running = [&] {
    NoGrad off;
    if (running_mean.defined() && x->numel > 0)
      update_both(running_mean, running_var, stats.first, stats.second, n, momentum);
  };
  const bool at_once = has_at_once<kernels::CellScales>(x, weight);
  {
    NoGrad off;
    const CellNumbers cells = by_channel(x);
    if (at_once) {
      stats = fresh_two(x, {channels});
      const Two more = fresh_two(x, {channels});
      rstd = more.first;
      scale = more.second;
      engine::call<kernels::CellScales>(
          {.mean = stats.first,
           .var = stats.second,
           .rstd = rstd,
           .scale = scale,
           .x = x,
           .weight = weight.defined() ? contiguous(widened(weight, x)) : weight},
          {cells.batch, cells.outer, cells.cells, cells.inner, Scalar(eps)}, {.op = op});
    } else {
      stats = moments(x, {channels}, cells, op);
      update_running();
      rstd = inverse_of(stats.second, eps);
      scale = by_weight(rstd, weight, x);
    }
  }
  Tensor y = over_channels(x, stats.first, rstd, scale, weight, bias, true, eps);
  if (at_once) update_running();  // behind what can follow the kernel
  return y;
}

Tensor instance_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                     const Tensor& weight, const Tensor& bias, bool use_input_stats,
                     double momentum, double eps) {
  const char* op = "instance_norm";
  check_input(input, op);
  const int64_t channels = channels_of(input);
  check_running(input, running_mean, running_var, op);
  check_parameters(input, weight, bias, op);
  if (!use_input_stats) {
    PF_CHECK(running_mean.defined(), ValueError, op,
             "got no running statistics; expected them for use_input_stats=False; pass "
             "running_mean and running_var");
    return batch_norm(input, running_mean, running_var, weight, bias, false, momentum, eps);
  }
  check_values(space_of(input), input, op, "channel of an example");
  return by_examples(input, running_mean, running_var, weight, bias, channels, momentum, eps, op);
}

Tensor group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  PF_AUTOCAST("group_norm", RaiseElseFollow, group_norm, input, num_groups, weight, bias, eps);
  const char* op = "group_norm";
  check_input(input, op);
  const int64_t channels = channels_of(input);
  PF_CHECK(num_groups > 0 && channels % num_groups == 0, ValueError, op, "got ", channels,
           " channels in ", num_groups, " groups; expected groups that divide them; change one");
  check_parameters(input, weight, bias, op);
  if (input->numel > 0) check_values(input->numel / num_groups, input, op, "group of the batch");
  return by_examples(input, {}, {}, weight, bias, num_groups, 0, eps, op);
}

Tensor local_response_norm(const Tensor& given, int64_t size, double alpha, double beta, double k) {
  PF_AUTOCAST("local_response_norm", RaiseElseFollow, local_response_norm, given, size, alpha, beta,
              k);
  const char* op = "local_response_norm";
  const Tensor input = ops::as_floating(given, op);
  PF_CHECK(input->shape.size() >= 3, ShapeError, op, "got input of shape ", input->shape,
           "; expected at least 3 dimensions: examples, channels and space; reshape it");
  PF_CHECK(size >= 1, ValueError, op, "got size ", size, "; expected at least 1; correct it");
  if (input->numel == 0) return input;
  const Tensor x = ops::widened(input), squares = mul(x, x);
  const int64_t channels = channels_of(x), before = size / 2;
  // What each of the `size` neighbours adds, where there is one.
  Tensor total;
  for (int64_t by = -std::min(before, channels - 1);
       by <= std::min(size - 1 - before, channels - 1); ++by) {
    const int64_t there = channels - std::abs(by);
    Tensor part = by == 0 ? squares : narrow(squares, 1, std::max<int64_t>(by, 0), there);
    if (by != 0) {
      IntList around(static_cast<size_t>(2 * (x->shape.size() - 1)), 0);  // last dimension first
      around[around.size() - 2] = std::max<int64_t>(-by, 0);
      around[around.size() - 1] = std::max<int64_t>(by, 0);
      part = pad(part, around);
    }
    total = total.defined() ? add(total, part) : part;
  }
  const Tensor scale = add(mul(total, Scalar(alpha / static_cast<double>(size))), Scalar(k));
  return to(div(x, pow(scale, Scalar(beta))), input->dtype);
}

static const ops::Family kChannelNorms("channel normalization", [](ops::Family& f) {
  using namespace ops;
  f.op(&batch_norm,
       {"batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, "
        "Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-5) -> Tensor",
        "(x - mean) / sqrt(var + eps) * weight + bias for each channel of input [N, C, ...]. In "
        "training of the batch's own statistics, which also go into the running ones: running * "
        "(1 - momentum) + own * momentum, of the variance divided by n - 1; else of the running "
        "ones. ValueError for one value in a channel. Statistics are float32 or wider. What is "
        "channels-last stays so.",
        kFunctional});
  f.op(&instance_norm,
       {"instance_norm(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? "
        "weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float "
        "eps=1e-5) -> Tensor",
        "batch_norm with statistics for each channel of each example. Running ones take the mean "
        "over the batch.",
        kFunctional});
  f.op(&group_norm,
       {"group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float "
        "eps=1e-5) -> Tensor",
        "(x - mean) / sqrt(var + eps) * weight + bias with statistics for each of `num_groups` "
        "groups of channels of each example; weight and bias have one number for each channel.",
        kFunctional});
  f.op(&local_response_norm,
       {"local_response_norm(Tensor input, int size, float alpha=1e-4, float beta=0.75, float "
        "k=1.0) -> Tensor",
        "x / (k + alpha * m)^beta, m being the mean of the squares of `size` neighbouring "
        "channels, of which those count as 0 that are not there.",
        kFunctional});
});

}  // namespace pyflame
