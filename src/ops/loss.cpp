// Losses. cross_entropy of class indices has kernels of its own; the others are written in
// operations, which the engine fuses.
#include <cmath>

#include "core/backends.h"
#include "engine/autograd_nodes.h"
#include "engine/engine.h"
#include "engine/takeover.h"
#include "ops/autocast.h"
#include "ops/complex.h"
#include "ops/entropy.h"
#include "ops/functions.h"
#include "ops/hidden.h"
#include "ops/index.h"
#include "ops/record.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "table/kernels/loss.h"

namespace pyflame {

namespace ops {
Reduction reduction_from(std::string_view name, const char* op) {
  if (name == "mean") return Reduction::Mean;
  if (name == "sum") return Reduction::Sum;
  if (name == "none") return Reduction::None;
  PF_FAIL(ValueError, op, "got reduction='", name,
          "'; expected 'none', 'mean' or 'sum'; pass one of them");
}
Tensor reduced(const Tensor& loss, Reduction r) {
  return r == Reduction::None ? loss : r == Reduction::Mean ? mean(loss) : sum(loss);
}
void check_pair(const Tensor& input, const Tensor& target, const char* op) {
  check_arithmetic(input, op);
  check_defined(target, op, "target");
  broadcast_shapes(input->shape, target->shape, op);
}
}  // namespace ops

namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;
using ops::check_pair;
using ops::reduced;
using ops::Reduction;

// ---- classes -----------------------------------------------------------------------------------

// Logits as rows (n, classes) and targets as n of them, whatever dimensions were given.
struct Classes {
  Tensor rows, targets, weight;
  Dims shape;  // of the unreduced loss
};

Classes as_rows(const Tensor& input, const Tensor& target, const Tensor& weight, const char* op) {
  ops::check_floating(input, op);
  ops::check_defined(target, op, "target");
  ops::check_device(input, target, op);
  const int n = input->shape.size();
  PF_CHECK(n >= 1, ShapeError, op, "got a 0-d input; expected [C], [N, C] or [N, C, d1, ...]; ",
           "add a dimension of classes");
  PF_CHECK(is_integral(target->dtype), DTypeError, op, "got target of dtype ", target->dtype,
           " and shape ", target->shape, " for input of shape ", input->shape,
           "; expected class indices of an integer dtype; convert with .to(int64)");
  Classes c;
  for (int d = 0; d < n; ++d)
    if (d != (n == 1 ? 0 : 1)) c.shape.push_back(input->shape[d]);
  PF_CHECK(target->shape == c.shape, ShapeError, op, "got input of shape ", input->shape,
           " and target of shape ", target->shape, "; expected target of shape ", c.shape,
           " (the input without its dimension of classes); reshape the target");
  const int64_t classes = input->shape[n == 1 ? 0 : 1];
  c.rows = input;
  if (n == 1) {
    c.rows = unsqueeze(input, 0);
  } else if (n > 2) {
    IntList order{0};
    for (int d = 2; d < n; ++d) order.push_back(d);
    order.push_back(1);
    int64_t count = 1;
    for (int64_t s : c.shape) count *= s;
    c.rows = reshape(permute(input, order), {count, classes});
  }
  c.rows = ops::dense(c.rows);
  c.targets = ops::dense(n == 2 ? target : reshape(target, {c.rows->shape[0]}));
  if (weight.defined()) {
    ops::check_floating(weight, op, "weight");
    ops::check_device(input, weight, op);
    PF_CHECK(weight->shape == Dims{classes}, ShapeError, op, "got weight of shape ", weight->shape,
             " for ", classes, " classes; expected one weight per class; pass a 1-d tensor");
    c.weight = ops::dense(to(weight, input->dtype));
  }
  return c;
}

using ops::entropy_gradient;
using ops::EntropyArgs;

}  // namespace

Tensor ops::entropy_gradient(const Tensor& g, const Tensor& x, const Tensor& targets,
                             const Tensor& total, const Tensor& weight, const EntropyArgs& args) {
  const int64_t n = x->shape[0], classes = x->shape[1];
  const double e = args.smoothing, c = static_cast<double>(classes);
  Tensor fixed, a;  // what does not depend on x and g
  {
    NoGrad off;
    const Tensor valid = ne(targets, Scalar(args.ignore));
    const Tensor safe = where(valid, to(targets, DType::Int64), Scalar(0));
    const Tensor on = reshape(to(valid, x->dtype), {n, 1});
    Tensor wt = on;
    Tensor uniform = mul(on, Scalar(e / c));  // e / C w
    Tensor all = mul(on, Scalar(e));          // e / C sum(w)
    if (weight.defined()) {
      wt = mul(on, reshape(index_select(weight, 0, safe), {n, 1}));
      uniform = mul(uniform, reshape(weight, {1, classes}));
      all = mul(mul(on, Scalar(e / c)), sum(weight));
    }
    const Tensor picked = mul(wt, Scalar(1 - e));
    fixed = add(mul(to(one_hot(safe, classes), x->dtype), picked), uniform);
    a = add(picked, all);
  }
  Tensor s = args.reduction == Reduction::None ? reshape(g, {n, 1}) : g;
  if (args.reduction == Reduction::Mean) s = div(s, to(total, x->dtype));
  return mul(s, sub(mul(softmax(x, -1), a), fixed));
}

namespace {

// What counts of the targets, and which class that is (0 else).
struct Picked {
  Tensor valid, index;
  Picked(const Tensor& targets, int64_t ignore_index) {
    NoGrad off;
    valid = ne(targets, Scalar(ignore_index));
    index = where(valid, to(targets, DType::Int64), Scalar(0));
  }
};

// The loss in operations, for samples of a vmap.
Tensor entropy_composed(const Classes& c, const EntropyArgs& args, DType type) {
  const int64_t n = c.rows->shape[0], classes = c.rows->shape[1];
  const double e = args.smoothing;
  const Tensor logs = log_softmax(to(c.rows, type), -1);
  const auto [valid, index] = Picked(c.targets, args.ignore);
  Tensor row;
  {
    NoGrad off;
    row = arange(0, n, 1, DType::Int64, c.rows->storage->device);
  }
  const Tensor picked =
      ops::index_read(logs, {row, index}, "cross_entropy", false, kernels::Indices::Classes);
  Tensor w = to(valid, type);
  const Tensor weight = c.weight.defined() ? c.weight.detach() : Tensor();
  if (weight.defined()) w = mul(w, to(index_select(weight, 0, index), type));
  // What does not count must not count even where its entry is infinite.
  Tensor loss = where(eq(w, Scalar(0)), Scalar(0.0), mul(picked, mul(w, Scalar(e - 1))));
  if (e > 0) {
    const Tensor all = sum(weight.defined() ? mul(logs, to(weight, type)) : logs, IntList{1});
    loss = sub(loss, where(valid, mul(all, Scalar(e / static_cast<double>(classes))), Scalar(0.0)));
  }
  if (args.reduction == Reduction::None) return reshape(loss, c.shape.vec());
  return args.reduction == Reduction::Sum ? sum(loss) : div(sum(loss), sum(w));
}

// The product that logits came from, if they are its result as it was made and the optimizer does
// not write what it was made of: then nobody waits for them to be made before that.
std::optional<engine::MadeBy> made_by(const autograd::Node& loss) {
  const autograd::Node* n = loss.next[0].node.get();
  const auto is = [&](std::string_view name) { return n && n->name == name; };
  while ((is("view") || is("reshape")) && n->next.size() == 1) n = n->next[0].node.get();
  const auto* product = is("linear") ? dynamic_cast<const autograd::FunctionNode*>(n) : nullptr;
  if (!product || product->released || product->count() != 3) return {};
  const Tensor a = product->saved(0), b = product->saved(1), bias = product->saved(2);
  const auto is_made = [](const Tensor& t) {
    return t.defined() && !(t->requires_grad && !(t->meta && t->meta->grad_fn));
  };
  if (!is_made(a) || !is_made(b) || (bias.defined() && !is_made(bias))) return {};
  return engine::MadeBy{a, b, bias};
}

// `type` of the loss: the input's or, of logits of 16 bits, float32.
Tensor entropy_of_classes(const Tensor& input, const Tensor& target, const Tensor& weight,
                          const EntropyArgs& args, DType type) {
  const Classes c = as_rows(input, target, weight, "cross_entropy");
  const int64_t n = c.rows->shape[0], classes = c.rows->shape[1];
  PF_CHECK(classes > 0 || n == 0, ShapeError, "cross_entropy", "got input of shape ", input->shape,
           "; expected at least one class; check the dimension of classes");
  if (ops::hides({c.rows, c.targets, c.weight})) return entropy_composed(c, args, type);
  const Device device = input->storage->device;
  const DType wide = input->dtype == DType::Float64 ? DType::Float64 : DType::Float32;
  const bool each = args.reduction == Reduction::None;
  Tensor loss = make_tensor(each ? Dims{n} : Dims{}, type, device);
  Tensor stats = make_tensor(Dims{n, 2}, wide, device), total = make_tensor({}, wide, device);
  const kernels::CrossEntropy::Numbers<Scalar> numbers{
      .ignore = Scalar(args.ignore),
      .smoothing = Scalar(args.smoothing),
      .reduction = Scalar(static_cast<int64_t>(args.reduction))};
  // The loss waits for its gradient, and takes what is before it along; a wrong class is told now.
  const Device on = runs_on({c.rows, c.targets});
  kernels::Indices indices = kernels::Indices::Classes;
  if (backend_of(on)->synchronous && c.targets->storage->device == on) {
    engine::call<kernels::CheckClasses>({.target = c.targets},
                                        {.classes = Scalar(classes), .ignore = numbers.ignore},
                                        {.op = "cross_entropy"});
    indices = kernels::Indices::None;
  }
  engine::call<kernels::CrossEntropy>({.loss = loss,
                                       .stats = stats,
                                       .total = total,
                                       .x = c.rows,
                                       .target = c.targets,
                                       .weight = c.weight},
                                      numbers, {.op = "cross_entropy", .indices = indices});
  if (autograd::wanted({c.rows}))
    autograd::attach(
        "cross_entropy", {loss}, {c.rows},
        {Saved(c.rows), Saved(c.targets), Saved(stats), Saved(total), Saved(c.weight)},
        [args, numbers](const Context& ctx) -> Grads {
          const Tensor x = ctx.saved(0), t = ctx.saved(1), total = ctx.saved(3);
          const Tensor w = ctx.saved(4), g = ctx.grad();
          if (autograd::wanted({g, x}) || ops::hides({g}))
            return {to(entropy_gradient(g, to(x, g->dtype), t, total, w, args), x->dtype)};
          Tensor dx = make_tensor(x->shape, x->dtype, x->storage->device);
          std::optional<engine::MadeBy> again = made_by(ctx.node);
          engine::call<kernels::CrossEntropyBackward>({.dx = dx,
                                                       .dloss = g,
                                                       .x = x,
                                                       .target = t,
                                                       .stats = ctx.saved(2),
                                                       .total = total,
                                                       .weight = w},
                                                      numbers);
          engine::may_take_over(dx, x, std::move(again));
          return {dx};
        });
  return each && !(c.shape == loss->shape) ? reshape(loss, c.shape.vec()) : loss;
}

Tensor entropy_of_probabilities(const Tensor& input, const Tensor& target, const Tensor& weight,
                                const EntropyArgs& args) {
  const char* op = "cross_entropy";
  ops::check_device(input, target, op);
  const int n = input->shape.size(), dim = n == 1 ? 0 : 1;
  PF_CHECK(n >= 1, ShapeError, op, "got a 0-d input; expected [C], [N, C] or [N, C, d1, ...]; ",
           "add a dimension of classes");
  const int64_t classes = input->shape[dim];
  Tensor t = target;
  if (args.smoothing > 0)
    t = add(mul(t, Scalar(1 - args.smoothing)),
            Scalar(args.smoothing / static_cast<double>(classes)));
  if (weight.defined()) {
    PF_CHECK(weight->shape == Dims{classes}, ShapeError, op, "got weight of shape ", weight->shape,
             " for ", classes, " classes; expected one weight per class; pass a 1-d tensor");
    Dims s = Dims::filled(n, 1);
    s[dim] = classes;
    t = mul(t, reshape(weight, s.vec()));
  }
  const Tensor loss = neg(sum(mul(log_softmax(input, dim), t), IntList{dim}));
  if (args.reduction == Reduction::None) return loss;
  const Tensor total = sum(loss);
  return args.reduction == Reduction::Sum ? total
                                          : div(total, Scalar(static_cast<double>(loss->numel)));
}

}  // namespace

static Tensor cross_entropy_in(DType type, const Tensor& input, const Tensor& target,
                               const Tensor& weight, int64_t ignore_index,
                               const std::string& reduction, double label_smoothing) {
  const char* op = "cross_entropy";
  const EntropyArgs args{ignore_index, label_smoothing, ops::reduction_from(reduction, op)};
  PF_CHECK(label_smoothing >= 0 && label_smoothing <= 1, ValueError, op,
           "got label_smoothing=", label_smoothing,
           "; expected a number from 0 to 1; pass 0 for none");
  ops::check_floating(input, op);
  ops::check_defined(target, op, "target");
  if (is_float(target->dtype)) {
    PF_CHECK(target->shape == input->shape, ShapeError, op, "got input of shape ", input->shape,
             " and target of dtype ", target->dtype, " and shape ", target->shape,
             "; expected probabilities of the input's shape, or class indices of an integer ",
             "dtype; convert class indices with .to(int64)");
    return entropy_of_probabilities(input, target, weight, args);
  }
  return entropy_of_classes(input, target, weight, args, type);
}

Tensor cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight,
                     int64_t ignore_index, const std::string& reduction, double label_smoothing) {
  if (amp::on() && input.defined() && target.defined() &&
      (input->dtype == DType::Float16 || input->dtype == DType::BFloat16) &&
      !is_float(target->dtype) && !weight.defined()) {
    // The kernels calculate in float32: logits of 16 bits need not be written in it.
    amp::Casting cast(amp::Class::Raise);
    cast.look(input, target);
    if (cast.takes_part(input))
      return cross_entropy_in(DType::Float32, input, target, weight, ignore_index, reduction,
                              label_smoothing);
  }
  PF_AUTOCAST("cross_entropy", Raise, cross_entropy, input, target, weight, ignore_index, reduction,
              label_smoothing);
  return cross_entropy_in(input.defined() ? input->dtype : DType::Float32, input, target, weight,
                          ignore_index, reduction, label_smoothing);
}

namespace {
// In one kernel, where the backend has it.
Tensor nll_by_kernel(const Classes& c, int64_t ignore_index, Reduction r) {
  const int64_t n = c.rows->shape[0];
  const DType type = c.rows->dtype;
  const Device device = c.rows->storage->device;
  Tensor loss = make_tensor(r == Reduction::None ? Dims{n} : Dims{}, type, device);
  Tensor total = make_tensor({}, ops::wide_type(type), device);
  engine::call<kernels::NllLoss>(
      {.loss = loss, .total = total, .x = c.rows, .target = c.targets, .weight = c.weight},
      {.ignore = ignore_index, .reduction = static_cast<int64_t>(r)}, {.op = "nll_loss"});
  if (autograd::wanted({c.rows}))
    autograd::attach(
        "nll_loss", {loss}, {c.rows}, {Saved(c.targets), Saved(total), Saved(c.weight)},
        [ignore_index, r, shape = c.rows->shape, type](const Context& ctx) -> Grads {
          const Tensor weight = ctx.saved(2);
          const Picked picked(ctx.saved(0), ignore_index);
          Tensor g = ctx.grad();
          if (r == Reduction::Mean) g = to(div(ops::widened(g), ctx.saved(1)), type);
          g = neg(g);
          if (weight.defined()) g = mul(g, index_select(weight, 0, picked.index));
          g = where(picked.valid, g, Scalar(0.0));  // also where nothing counts, and g is no number
          const IntList column{shape[0], 1};
          return {scatter(zeros(shape.vec(), type, g->storage->device), 1,
                          reshape(picked.index, column), reshape(g, column))};
        });
  return loss;
}
}  // namespace

Tensor nll_loss(const Tensor& input, const Tensor& target, const Tensor& weight,
                int64_t ignore_index, const std::string& reduction) {
  PF_AUTOCAST("nll_loss", Raise, nll_loss, input, target, weight, ignore_index, reduction);
  const Reduction r = ops::reduction_from(reduction, "nll_loss");
  const Classes c = as_rows(input, target, weight, "nll_loss");
  const int64_t n = c.rows->shape[0];
  if (!ops::hides({c.rows, c.targets, c.weight}) &&
      backend_of(runs_on({c.rows, c.targets}))->kernel_find(kernels::NllLoss::kInfo.name)) {
    const Tensor loss = nll_by_kernel(c, ignore_index, r);
    return r == Reduction::None && !(c.shape == loss->shape) ? reshape(loss, c.shape.vec()) : loss;
  }
  const auto [valid, index] = Picked(c.targets, ignore_index);
  Tensor row;
  {
    NoGrad off;
    row = arange(0, n, 1, DType::Int64, input->storage->device);
  }
  const Tensor picked =
      ops::index_read(c.rows, {row, index}, "nll_loss", false, kernels::Indices::Classes);
  Tensor loss, w;
  // An ignored row must not count even where its entry is infinite.
  if (c.weight.defined() && n > 0) {
    w = mul(to(valid, input->dtype), ops::index_read(c.weight.detach(), {index}, "nll_loss", false,
                                                     kernels::Indices::Classes));
    loss = where(eq(w, Scalar(0)), Scalar(0.0), neg(mul(picked, w)));
  } else {
    loss = where(valid, neg(picked), Scalar(0.0));
  }
  if (r == Reduction::None) return reshape(loss, c.shape.vec());
  if (r == Reduction::Sum) return sum(loss);
  // More rows than 16 bits can count.
  const Tensor count = sum(w.defined() ? ops::widened(w) : to(valid, ops::wide_type(input->dtype)));
  return to(div(sum(ops::widened(loss)), count), input->dtype);
}

// ---- differences --------------------------------------------------------------------------------

namespace {
// A mean divides by the weights.
Tensor weighted(const Tensor& loss, const Tensor& weight, Reduction r) {
  if (!weight.defined()) return reduced(loss, r);
  const Tensor each = mul(loss, weight);
  if (r != Reduction::Mean) return reduced(each, r);
  return div(sum(each), sum(expand(weight, each->shape.vec())));
}
}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, const std::string& reduction,
                const Tensor& weight) {
  PF_AUTOCAST("mse_loss", Raise, mse_loss, input, target, reduction, weight);
  const Reduction r = ops::reduction_from(reduction, "mse_loss");
  check_pair(input, target, "mse_loss");
  return weighted(square(ops::difference(input, target)), weight, r);
}
Tensor mse_loss(const Tensor& input, const Tensor& target, const std::string& reduction) {
  return mse_loss(input, target, reduction, {});
}
Tensor l1_loss(const Tensor& input, const Tensor& target, const std::string& reduction,
               const Tensor& weight) {
  PF_AUTOCAST("l1_loss", Raise, l1_loss, input, target, reduction, weight);
  const Reduction r = ops::reduction_from(reduction, "l1_loss");
  if (!input.defined() || !is_complex(input)) check_pair(input, target, "l1_loss");
  return weighted(abs(ops::difference(input, target)), weight, r);
}
Tensor l1_loss(const Tensor& input, const Tensor& target, const std::string& reduction) {
  return l1_loss(input, target, reduction, {});
}
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const std::string& reduction,
                      double beta) {
  PF_AUTOCAST("smooth_l1_loss", Raise, smooth_l1_loss, input, target, reduction, beta);
  PF_CHECK(beta >= 0, ValueError, "smooth_l1_loss", "got beta=", beta,
           "; expected 0 or more; pass beta=0 for l1_loss");
  if (beta == 0) return l1_loss(input, target, reduction);
  const Reduction r = ops::reduction_from(reduction, "smooth_l1_loss");
  check_pair(input, target, "smooth_l1_loss");
  if (beta == 1) return reduced(ops::call_row(ops::op::huber, {input, target}, {Scalar(1.0)}), r);
  return reduced(ops::call_row(ops::op::smooth_l1, {input, target}, {Scalar(beta)}), r);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, const std::string& reduction,
                  double delta, const Tensor& weight) {
  PF_AUTOCAST("huber_loss", Raise, huber_loss, input, target, reduction, delta, weight);
  PF_CHECK(delta > 0, ValueError, "huber_loss", "got delta=", delta,
           "; expected a positive number; pass delta=1.0");
  const Reduction r = ops::reduction_from(reduction, "huber_loss");
  check_pair(input, target, "huber_loss");
  const Tensor loss = std::isfinite(delta)
                          ? ops::call_row(ops::op::huber, {input, target}, {Scalar(delta)})
                          : mul(square(ops::difference(input, target)), Scalar(0.5));
  return reduced(weight.defined() ? mul(loss, weight) : loss, r);
}

// ---- probabilities ------------------------------------------------------------------------------

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight,
                            const std::string& reduction) {
  PF_AUTOCAST("binary_cross_entropy bce_loss", Raise, binary_cross_entropy, input, target, weight,
              reduction);
  const char* op = "binary_cross_entropy";
  const Reduction r = ops::reduction_from(reduction, op);
  ops::check_floating(input, op);
  ops::check_floating(target, op, "target");
  PF_CHECK(input->shape == target->shape, ShapeError, op, "got input of shape ", input->shape,
           " and target of shape ", target->shape, "; expected equal shapes; reshape one of them");
  const Tensor loss = ops::call_row(ops::op::binary_loss, {input, target});
  return reduced(weight.defined() ? mul(loss, weight) : loss, r);
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const Tensor& weight, const std::string& reduction,
                                        const Tensor& pos_weight) {
  PF_AUTOCAST("binary_cross_entropy_with_logits", Raise, binary_cross_entropy_with_logits, input,
              target, weight, reduction, pos_weight);
  const char* op = "binary_cross_entropy_with_logits";
  const Reduction r = ops::reduction_from(reduction, op);
  ops::check_floating(input, op);
  ops::check_floating(target, op, "target");
  PF_CHECK(input->shape == target->shape, ShapeError, op, "got input of shape ", input->shape,
           " and target of shape ", target->shape, "; expected equal shapes; reshape one of them");
  const Tensor loss = pos_weight.defined()
                          ? ops::call_row(ops::op::logits_loss, {input, target, pos_weight})
                          : ops::call_row(ops::op::logits_loss, {input, target, Scalar(1.0)});
  return reduced(weight.defined() ? mul(loss, weight) : loss, r);
}

Tensor kl_div(const Tensor& input, const Tensor& target, const std::string& reduction,
              bool log_target) {
  PF_AUTOCAST("kl_div", Raise, kl_div, input, target, reduction, log_target);
  const char* op = "kl_div";
  const bool batch = reduction == "batchmean";
  const Reduction r = batch ? Reduction::Sum : ops::reduction_from(reduction, op);
  ops::check_floating(input, op);
  check_pair(input, target, op);
  Tensor loss;
  if (log_target) {
    loss = mul(exp(target), ops::difference(target, input));
  } else {  // 0 log 0 is 0
    const Tensor safe = where(eq(target, Scalar(0)), Scalar(1.0), target);
    loss = addcmul(mul(target, log(safe)), target, input, Scalar(-1.0));
  }
  const Tensor y = reduced(loss, r);
  if (!batch) return y;
  const int64_t n = input->shape.empty() ? 1 : input->shape[0];
  return div(y, Scalar(static_cast<double>(n)));
}

static const ops::Family kLoss("loss", [](ops::Family& f) {
  using namespace ops;
  constexpr unsigned kBoth = kFunction | kFunctional;
  f.op(
      &cross_entropy,
      {"cross_entropy(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, str "
       "reduction='mean', float label_smoothing=0.0) -> Tensor",
       "-log(softmax(input))[target] over classes in dimension 1 of (N, C, d1, ...) or 0 of (C). "
       "`target` holds class indices of any integer dtype, or probabilities of the input's shape. "
       "The mean divides by the weights of the targets that are not ignored. IndexError for a "
       "class out of range.",
       kBoth});
  f.op(
      &nll_loss,
      {"nll_loss(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, str "
       "reduction='mean') -> Tensor",
       "-input[target] over classes in dimension 1, for log-probabilities; shapes and reduction as "
       "in cross_entropy. IndexError for a class out of range.",
       kBoth});
  using Weighted = Tensor (*)(const Tensor&, const Tensor&, const std::string&, const Tensor&);
  f.op(static_cast<Weighted>(&mse_loss),
       {"mse_loss(Tensor input, Tensor target, str reduction='mean', Tensor? weight=None) -> "
        "Tensor",
        "(input - target)^2; `reduction` is 'none', 'mean' or 'sum'. The mean divides by the sum "
        "of the weights where there are any.",
        kBoth});
  f.op(static_cast<Weighted>(&l1_loss),
       {"l1_loss(Tensor input, Tensor target, str reduction='mean', Tensor? weight=None) -> Tensor",
        "|input - target|; `reduction` and `weight` as in mse_loss.", kBoth});
  f.op(&smooth_l1_loss,
       {"smooth_l1_loss(Tensor input, Tensor target, str reduction='mean', float beta=1.0) -> "
        "Tensor",
        "0.5 d^2 / beta where |d| < beta, else |d| - 0.5 beta, with d = input - target.", kBoth});
  f.op(&huber_loss,
       {"huber_loss(Tensor input, Tensor target, str reduction='mean', float delta=1.0, Tensor? "
        "weight=None) -> Tensor",
        "0.5 d^2 where |d| <= delta, else delta (|d| - 0.5 delta), with d = input - target, times "
        "`weight`.",
        kBoth});
  f.op(&binary_cross_entropy,
       {"binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, str "
        "reduction='mean') -> Tensor",
        "-(y log(x) + (1 - y) log(1 - x)) for probabilities x; logarithms are not below -100, so "
        "that 0 and 1 stay finite.",
        kBoth});
  f.op(
      &binary_cross_entropy,
      {"bce_loss(Tensor input, Tensor target, Tensor? weight=None, str reduction='mean') -> Tensor",
       "Another name of binary_cross_entropy.", kFunction});
  f.op(&binary_cross_entropy_with_logits,
       {"binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, str "
        "reduction='mean', Tensor? pos_weight=None) -> Tensor",
        "binary_cross_entropy of sigmoid(input) without overflow; `pos_weight` multiplies the loss "
        "of positive targets.",
        kBoth});
  f.op(
      &kl_div,
      {"kl_div(Tensor input, Tensor target, str reduction='mean', bool log_target=False) -> Tensor",
       "target (log(target) - input) for log-probabilities `input`; 'batchmean' divides the sum by "
       "the first dimension.",
       kBoth});
});

}  // namespace pyflame
