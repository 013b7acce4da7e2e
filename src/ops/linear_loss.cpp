// cross_entropy of a linear layer, without all of its logits: some rows at a time are multiplied,
// looked at, and overwritten by their gradient, which goes into those of input, weight and bias at
// once. A loss that is one number only scales these later, when its own gradient is known.
#include <algorithm>
#include <bit>
#include <optional>
#include <string>

#include "core/backends.h"
#include "engine/autograd.h"
#include "engine/engine.h"
#include "ops/autocast.h"
#include "ops/entropy.h"
#include "ops/functions.h"
#include "ops/hidden.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "table/kernels/loss.h"
#include "table/kernels/matmul.h"

namespace pyflame {
namespace {

using ops::EntropyArgs;
using ops::Reduction;

constexpr const char* kOp = "linear_cross_entropy";
constexpr auto kClasses = kernels::Indices::Classes;  // are not checked before

// Rows (n, features), the layer's weight and bias in their dtype, targets (n) and the classes'
// weights in the dtype of the loss' kernel.
struct Layer {
  Tensor x, weight, bias, targets, class_weight;
  bool widen;  // the logits are read in float32
  int64_t chunk;
  int64_t rows() const { return x->shape[0]; }
  int64_t classes() const { return weight->shape[0]; }
  Device device() const { return x->storage->device; }
  DType wide() const { return ops::wide_type(x->dtype); }
};

// What is wanted of a pass over the rows, and what it found. Gradients are those of the sum of the
// rows' losses (each times its element of `each`, if there is one), times `scale`.
struct Pass {
  Tensor each;  // (n): the gradient of each row's loss
  bool dx = false, dweight = false, dbias = false;
  double scale = 1;
  struct {
    Tensor loss, total;  // (n) or of each chunk; of each chunk: the weight of what counts
    Tensor dx, dweight, dbias;
  } found;
};

// Enough rows that adding up the weight's gradient, a pass over memory, is little beside its
// product; a power of two, so that equal parts are likely.
int64_t rows_at_once(const Layer& l, std::optional<int64_t> asked) {
  if (asked) return std::min(*asked, std::max<int64_t>(l.rows(), 1));
  const int64_t row = std::max<int64_t>(l.classes(), 1) *
                      static_cast<int64_t>(itemsize(l.widen ? DType::Float32 : l.x->dtype));
  const int64_t most = (runs_on({l.x, l.weight}).is_cpu() ? 128 : 512) << 20;
  const auto fit = std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(most / row, 256)));
  return std::min(static_cast<int64_t>(fit), std::max<int64_t>(l.rows(), 1));
}

void multiply(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias, bool ta,
              bool tb) {
  if (out->numel == 0) return;
  if (a->shape[ta ? 0 : 1] == 0) {  // an empty sum
    if (bias.defined())
      copy_(const_cast<Tensor&>(out), bias);
    else
      zero_(const_cast<Tensor&>(out));
    return;
  }
  engine::call<kernels::Matmul>({.out = out, .a = a, .b = b, .bias = bias},
                                {.a_transposed = int64_t{ta}, .b_transposed = int64_t{tb}},
                                {.op = kOp});
}

void run(const Layer& l, const EntropyArgs& args, Pass& p) {
  const NoGrad off;
  const int64_t n = l.rows(), classes = l.classes(), features = l.x->shape[1];
  const int64_t count = n == 0 ? 0 : (n + l.chunk - 1) / l.chunk;
  const DType type = l.x->dtype, wide = l.wide();
  const Device device = l.device();
  const bool rowwise = args.reduction == Reduction::None;
  const bool gradients = p.dx || p.dweight || p.dbias;
  auto& f = p.found;
  f.loss = make_tensor(Dims{rowwise ? n : count}, wide, device);
  f.total = make_tensor(Dims{count}, wide, device);
  if (p.dx) f.dx = make_tensor(l.x->shape, type, device);
  if (p.dweight && n == 0) f.dweight = zeros({classes, features}, wide, device);
  if (p.dbias && n == 0) f.dbias = zeros({classes}, wide, device);
  const kernels::CrossEntropy::Numbers<Scalar> numbers{
      .ignore = Scalar(args.ignore),
      .smoothing = Scalar(args.smoothing),
      .reduction = Scalar(static_cast<int64_t>(rowwise ? Reduction::None : Reduction::Sum))};
  Tensor scale;
  if (gradients && !p.each.defined()) scale = full({}, Scalar(p.scale), wide, device);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * l.chunk, rows = std::min(l.chunk, n - begin);
    const Tensor x = narrow(l.x, 0, begin, rows), targets = narrow(l.targets, 0, begin, rows);
    Tensor logits = make_tensor(Dims{rows, classes}, type, device);
    multiply(logits, x, l.weight, l.bias, false, true);
    if (l.widen) logits = to(logits, wide);
    const Tensor loss = rowwise ? narrow(f.loss, 0, begin, rows) : select(f.loss, 0, i);
    const Tensor total = select(f.total, 0, i);
    const Tensor stats = make_tensor(Dims{rows, 2}, wide, device);
    const Tensor from = !gradients || !p.each.defined() ? scale : narrow(p.each, 0, begin, rows);
    // The gradient takes the place of the logits.
    if (gradients) {
      engine::call<kernels::CrossEntropyBoth>({.dx = logits,
                                               .loss = loss,
                                               .stats = stats,
                                               .total = total,
                                               .x = logits,
                                               .target = targets,
                                               .weight = l.class_weight,
                                               .dloss = from},
                                              numbers,
                                              {.inplace = 1, .op = kOp, .indices = kClasses});
    } else {
      engine::call<kernels::CrossEntropy>({.loss = loss,
                                           .stats = stats,
                                           .total = total,
                                           .x = logits,
                                           .target = targets,
                                           .weight = l.class_weight},
                                          numbers, {.op = kOp, .indices = kClasses});
      continue;
    }
    if (l.widen) logits = to(logits, type);
    if (p.dx) multiply(narrow(f.dx, 0, begin, rows), logits, l.weight, {}, false, false);
    const auto add_up = [&](Tensor& sum, const Tensor& part) {
      if (i == 0)
        sum = count == 1 ? part : to(part, wide);
      else
        add_(sum, part);
    };
    if (p.dweight) {
      Tensor part = make_tensor(Dims{classes, features}, type, device);
      multiply(part, logits, x, {}, true, false);
      add_up(f.dweight, part);
    }
    if (p.dbias) add_up(f.dbias, sum(logits, IntList{0}, false, wide));
  }
}

// With all logits, in operations that have gradients themselves.
autograd::Grads composed(const Layer& l, const EntropyArgs& args, const Tensor& g,
                         const Tensor& total, const autograd::Context& c) {
  const Tensor logits = linear(l.x, l.weight, l.bias);
  const Tensor d =
      to(ops::entropy_gradient(
             g, to(logits, g->dtype), l.targets, total,
             l.class_weight.defined() ? to(l.class_weight, g->dtype) : l.class_weight, args),
         l.x->dtype);
  autograd::Grads r(3);
  if (c.needs(0)) r[0] = product(d, l.weight, {}, false, false, kOp);
  if (c.needs(1)) r[1] = product(d, l.x, {}, true, false, kOp);
  if (c.needs(2)) r[2] = sum(d, IntList{0});
  return r;
}

// `weight` and `bias` are the layer's own, `l` has them in the dtype of the calculation.
Tensor differentiable(const Layer& l, const Tensor& weight, const Tensor& bias,
                      const EntropyArgs& args, DType type) {
  const bool rowwise = args.reduction == Reduction::None;
  const bool recorded = autograd::wanted({l.x, weight, bias});
  Pass p;
  if (recorded && !rowwise) {
    p.dx = autograd::requires_grad(l.x);
    p.dweight = autograd::requires_grad(weight);
    p.dbias = bias.defined() && autograd::requires_grad(bias);
    // Up to 2^16 rows add up to one element of the weight's gradient: float16 ends there.
    if (l.x->dtype == DType::Float16) p.scale = 0.0625;
  }
  run(l, args, p);
  Tensor loss, total;
  {
    const NoGrad off;
    total = sum(p.found.total);
    loss = rowwise ? p.found.loss : sum(p.found.loss);
    if (args.reduction == Reduction::Mean) loss = div(loss, total);
    loss = to(loss, type);
  }
  if (!recorded) return loss;
  const auto& f = p.found;
  using autograd::Saved;
  autograd::attach(
      kOp, {loss}, {l.x, weight, bias},
      {Saved(l.x), Saved(weight), Saved(bias), Saved(l.targets), Saved(l.class_weight),
       Saved(total), Saved(f.dx), Saved(f.dweight), Saved(f.dbias)},
      [args, rowwise, scale = p.scale, widen = l.widen,
       chunk = l.chunk](const autograd::Context& c) -> autograd::Grads {
        autograd::Grads r(3);
        const Tensor g = ops::widened(c.grad()), x = c.saved(0), w = c.saved(1), b = c.saved(2);
        const Tensor total = c.saved(5);
        const bool again = autograd::wanted({g, x, w, b}) || ops::hides({g});
        if (again || rowwise) {
          const DType t = x->dtype;
          const Layer layer{x,     to(w, t), b.defined() ? to(b, t) : b, c.saved(3), c.saved(4),
                            widen, chunk};
          if (again) {
            r = composed(layer, args, g, total, c);
          } else {
            Pass p;
            p.each = ops::dense(g);
            p.dx = c.needs(0);
            p.dweight = c.needs(1);
            p.dbias = c.needs(2);
            run(layer, args, p);
            r = {p.found.dx, p.found.dweight, p.found.dbias};
          }
        } else {
          // The mean divides; where nothing counts there is nothing to divide.
          Tensor s = g;
          if (args.reduction == Reduction::Mean)
            s = where(eq(total, Scalar(0)), Scalar(0.0), div(g, total));
          if (scale != 1) s = mul(s, Scalar(1 / scale));
          for (int i = 0; i < 3; ++i)
            if (c.needs(static_cast<size_t>(i)))
              r[static_cast<size_t>(i)] = mul(ops::widened(c.saved(6 + static_cast<size_t>(i))), s);
        }
        const DType types[] = {x->dtype, w->dtype, b.defined() ? b->dtype : x->dtype};
        for (size_t i = 0; i < 3; ++i)
          if (r[i].defined()) r[i] = to(r[i], types[i]);
        return r;
      });
  return loss;
}

void check(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& target,
           const Tensor& class_weight, std::optional<int64_t> chunk) {
  ops::check_floating(input, kOp);
  ops::check_floating(weight, kOp, "linear_weight");
  ops::check_defined(target, kOp, "target");
  for (const Tensor& t : {weight, bias, target, class_weight})
    if (t.defined()) ops::check_device(input, t, kOp);
  const int n = input->shape.size();
  PF_CHECK(
      (n == 1 || n == 2) && weight->shape.size() == 2 && input->shape.back() == weight->shape[1],
      ShapeError, kOp, "got input ", input->shape, " and linear_weight ", weight->shape,
      "; expected [in_features] or [N, in_features] and [classes, in_features]; reshape the ",
      "input to two dimensions, and the target to one");
  PF_CHECK(weight->shape[0] > 0 || input->numel == 0, ShapeError, kOp, "got linear_weight ",
           weight->shape, "; expected at least one class; check the first dimension");
  if (bias.defined()) {
    ops::check_floating(bias, kOp, "linear_bias");
    PF_CHECK(bias->shape == Dims{weight->shape[0]}, ShapeError, kOp, "got linear_bias ",
             bias->shape, " for linear_weight ", weight->shape, "; expected [", weight->shape[0],
             "]; one value for each class");
  }
  if (class_weight.defined()) {
    ops::check_floating(class_weight, kOp, "weight");
    PF_CHECK(class_weight->shape == Dims{weight->shape[0]}, ShapeError, kOp, "got weight of shape ",
             class_weight->shape, " for ", weight->shape[0],
             " classes; expected one weight per class; pass a 1-d tensor");
  }
  PF_CHECK(!chunk || *chunk > 0, ValueError, kOp, "got batch_chunk_size=", chunk.value_or(0),
           "; expected a positive number of rows; pass None for as many as fit");
}

Tensor linear_cross_entropy(const Tensor& input, const Tensor& linear_weight, const Tensor& target,
                            const Tensor& linear_bias, const Tensor& weight,
                            const std::string& reduction, std::optional<int64_t> ignore_index,
                            double label_smoothing, std::optional<int64_t> batch_chunk_size) {
  const EntropyArgs args{ignore_index.value_or(-100), label_smoothing,
                         ops::reduction_from(reduction, kOp)};
  PF_CHECK(label_smoothing >= 0 && label_smoothing <= 1, ValueError, kOp,
           "got label_smoothing=", label_smoothing,
           "; expected a number from 0 to 1; pass 0 for none");
  check(input, linear_weight, linear_bias, target, weight, batch_chunk_size);
  PF_CHECK(!ignore_index || !is_float(target->dtype), ValueError, kOp, "got ignore_index ",
           ignore_index.value_or(0), " for class probabilities; expected class indices with it; ",
           "leave it out");
  const bool one = input->shape.size() == 1;
  if (is_float(target->dtype) || ops::hides({input, linear_weight, linear_bias, target, weight}))
    return cross_entropy(linear(input, linear_weight, linear_bias), target, weight, args.ignore,
                         reduction, label_smoothing);
  PF_CHECK(is_integral(target->dtype), DTypeError, kOp, "got target of dtype ", target->dtype,
           "; expected class indices of an integer dtype; convert with .to(int64)");
  PF_CHECK(target->shape == (one ? Dims{} : Dims{input->shape[0]}), ShapeError, kOp, "got input ",
           input->shape, " and target ", target->shape,
           "; expected a class for each row of the input; reshape the target");
  // As linear and cross_entropy by themselves, but that weight and bias get their gradients in
  // their own dtype, without a rounding to the region's.
  Layer l{input, linear_weight, linear_bias, target, weight, false, 0};
  DType type = input->dtype;
  if (amp::on()) {
    amp::Casting cast(amp::Class::Lower);
    cast.look(input, linear_weight, linear_bias, target);
    const bool lower = cast.takes_part(input);
    l.x = cast(input);
    l.weight = cast(linear_weight);
    l.bias = cast(linear_bias);
    if (lower) type = DType::Float32;
    l.widen = lower && weight.defined();
  }
  l.weight = ops::dense(l.weight.detach());
  if (l.bias.defined()) l.bias = ops::dense(l.bias.detach());
  PF_CHECK(l.x->dtype == l.weight->dtype && (!l.bias.defined() || l.bias->dtype == l.x->dtype),
           DTypeError, kOp, "got ", l.x->dtype, " input, ", l.weight->dtype, " linear_weight",
           "; expected input, linear_weight and linear_bias to have the same dtype; convert with ",
           ".to(dtype)");
  const amp::Off off;
  l.x = ops::dense(one ? unsqueeze(l.x, 0) : l.x);
  l.targets = ops::dense(one ? unsqueeze(target, 0) : target);
  if (weight.defined())
    l.class_weight = ops::dense(to(weight, l.widen ? DType::Float32 : l.x->dtype).detach());
  l.chunk = rows_at_once(l, batch_chunk_size);
  const Tensor loss = differentiable(l, linear_weight, linear_bias, args, type);
  return one && args.reduction == Reduction::None ? squeeze(loss, 0) : loss;
}

const ops::Family kLinearLoss("loss", [](ops::Family& f) {
  using namespace ops;
  f.op(&linear_cross_entropy,
       {"linear_cross_entropy(Tensor input, Tensor linear_weight, Tensor target, *, Tensor? "
        "linear_bias=None, Tensor? weight=None, str reduction='mean', int? ignore_index=None, "
        "float label_smoothing=0.0, int? batch_chunk_size=None) -> Tensor",
        "cross_entropy(linear(input, linear_weight, linear_bias), target, ...) without all logits: "
        "`batch_chunk_size` rows at a time (by default as many as take 512 MiB, on the CPU 128), "
        "and for a loss that is one number with the gradients, too. input [N, in_features] or "
        "[in_features], linear_weight [classes, in_features], target [N] or []; class "
        "probabilities as target take all logits. ignore_index is -100 where it is None.",
        kFunctional});
});

}  // namespace
}  // namespace pyflame
