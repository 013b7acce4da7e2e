// Losses of margins and of likelihoods, written in operations that the engine fuses.
#include <cmath>

#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/functions.h"
#include "ops/index.h"
#include "ops/record.h"
#include "ops/registry.h"
#include "ops/rows.h"

namespace pyflame {
namespace {

using ops::reduced;

Tensor at_least_0(const Tensor& x) {
  return clamp(x, Scalar(0.0), {});
}
// 1 -> `positive`, -1 -> `negative`, anything else 0.
Tensor by_sign(const Tensor& target, const Tensor& positive, const Tensor& negative) {
  return add(where(eq(target, Scalar(1)), positive, Scalar(0.0)),
             where(eq(target, Scalar(-1)), negative, Scalar(0.0)));
}
// [C], or one class without dimensions, as [1, C].
Tensor as_rows(const Tensor& t) {
  return t->shape.size() == 2 ? t : reshape(t, {1, t->numel});
}

}  // namespace

Tensor poisson_nll_loss(const Tensor& given, const Tensor& target, bool log_input, bool full,
                        double eps, const std::string& reduction) {
  PF_AUTOCAST("poisson_nll_loss", Raise, poisson_nll_loss, given, target, log_input, full, eps,
              reduction);
  const char* op = "poisson_nll_loss";
  const ops::Reduction r = ops::reduction_from(reduction, op);
  const Tensor input = ops::as_floating(given, op);
  ops::check_pair(input, target, op);
  Tensor loss = log_input ? addcmul(exp(input), target, input, Scalar(-1.0))
                          : addcmul(input, target, log(add(input, Scalar(eps))), Scalar(-1.0));
  if (full) {  // Stirling's approximation of log(target!)
    const Tensor t = clamp(to(target, input->dtype), Scalar(1.0), {});
    const Tensor stirling =
        add(sub(mul(t, log(t)), t), mul(log(mul(t, Scalar(2 * M_PI))), Scalar(0.5)));
    loss = add(loss, where(gt(target, Scalar(1)), stirling, Scalar(0.0)));
  }
  return reduced(loss, r);
}

Tensor gaussian_nll_loss(const Tensor& given, const Tensor& target, const Tensor& var, bool full,
                         double eps, const std::string& reduction) {
  const char* op = "gaussian_nll_loss";
  const ops::Reduction r = ops::reduction_from(reduction, op);
  const Tensor input = ops::as_floating(given, op);
  ops::check_floating(var, op, "var");
  ops::check_pair(input, target, op);
  Tensor v = var;
  if (!(v->shape == input->shape)) {
    const int n = input->shape.size();
    if (n > 0 && v->shape == ops::without(input->shape, n - 1)) v = unsqueeze(v, -1);
    PF_CHECK(broadcast_shapes(v->shape, input->shape, op) == input->shape, ShapeError, op,
             "got var of shape ", var->shape, " for input of shape ", input->shape,
             "; expected one that broadcasts to it, or the input's without its last dimension; ",
             "reshape var");
  }
  // At least eps, with the gradient of the variance itself.
  v = add(v, sub(clamp(v.detach(), Scalar(eps), {}), v.detach()));
  const Tensor apart = ops::call_row(ops::op::square_ratio, {input, target, v});
  Tensor loss = mul(add(log(v), apart), Scalar(0.5));
  if (full) loss = add(loss, Scalar(0.5 * std::log(2 * M_PI)));
  return reduced(loss, r);
}

Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin,
                            const std::string& reduction) {
  PF_AUTOCAST("hinge_embedding_loss", Raise, hinge_embedding_loss, input, target, margin,
              reduction);
  const char* op = "hinge_embedding_loss";
  const ops::Reduction r = ops::reduction_from(reduction, op);
  ops::check_pair(input, target, op);
  const Tensor x = ops::as_floating(input, op);
  const Tensor loss = ops::call_row(ops::op::hinge_loss, {x, target.detach()}, {Scalar(margin)});
  return reduced(to(loss, x->dtype), r);
}

Tensor cosine_embedding_loss(const Tensor& first, const Tensor& second, const Tensor& target,
                             double margin, const std::string& reduction) {
  PF_AUTOCAST("cosine_embedding_loss", Raise, cosine_embedding_loss, first, second, target, margin,
              reduction);
  const char* op = "cosine_embedding_loss";
  const ops::Reduction r = ops::reduction_from(reduction, op);
  const Tensor input1 = ops::as_floating(first, op, "input1");
  const Tensor input2 = ops::as_floating(second, op, "input2");
  ops::check_defined(target, op, "target");
  PF_CHECK(!input1->shape.empty() && input1->shape == input2->shape, ShapeError, op, "got ",
           input1->shape, " and ", input2->shape,
           "; expected two inputs of one shape [N, D] or [D]; reshape them");
  const IntList last{-1};
  const double tiny = 1e-12;  // PyTorch's
  const Tensor d1 = add(sum(square(input1), last), Scalar(tiny));
  const Tensor d2 = add(sum(square(input2), last), Scalar(tiny));
  const Tensor cos = div(sum(mul(input1, input2), last), sqrt(mul(d1, d2)));
  return reduced(by_sign(target, rsub(cos, Scalar(1.0)), at_least_0(sub(cos, Scalar(margin)))), r);
}

Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           double margin, const std::string& reduction) {
  PF_AUTOCAST("margin_ranking_loss", Raise, margin_ranking_loss, input1, input2, target, margin,
              reduction);
  const char* op = "margin_ranking_loss";
  const ops::Reduction r = ops::reduction_from(reduction, op);
  ops::check_pair(input1, input2, op);
  ops::check_pair(input1, target, op);
  return reduced(at_least_0(add(mul(ops::difference(input2, input1), target), Scalar(margin))), r);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, double eps, bool swap,
                           const std::string& reduction) {
  PF_AUTOCAST("triplet_margin_loss", Raise, triplet_margin_loss, anchor, positive, negative, margin,
              p, eps, swap, reduction);
  const char* op = "triplet_margin_loss";
  const ops::Reduction r = ops::reduction_from(reduction, op);
  PF_CHECK(margin > 0, ValueError, op, "got margin ", margin,
           "; expected a positive number; pass margin=1.0");
  const Tensor near = pairwise_distance(anchor, positive, p, eps);
  Tensor far = pairwise_distance(anchor, negative, p, eps);
  if (swap) far = minimum(far, pairwise_distance(positive, negative, p, eps));
  return reduced(at_least_0(add(sub(near, far), Scalar(margin))), r);
}

Tensor soft_margin_loss(const Tensor& input, const Tensor& target, const std::string& reduction) {
  PF_AUTOCAST("soft_margin_loss", Raise, soft_margin_loss, input, target, reduction);
  const char* op = "soft_margin_loss";
  const ops::Reduction r = ops::reduction_from(reduction, op);
  ops::check_floating(input, op);
  ops::check_pair(input, target, op);
  return reduced(neg(logsigmoid(mul(target, input))), r);
}

Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target, const Tensor& weight,
                                   const std::string& reduction) {
  PF_AUTOCAST("multilabel_soft_margin_loss", RaiseElseFollow, multilabel_soft_margin_loss, input,
              target, weight, reduction);
  const char* op = "multilabel_soft_margin_loss";
  const ops::Reduction r = ops::reduction_from(reduction, op);
  ops::check_floating(input, op);
  ops::check_pair(input, target, op);
  PF_CHECK(!input->shape.empty(), ShapeError, op,
           "got a 0-d input; expected [C] or [N, C]; add a dimension of classes");
  Tensor loss = ops::call_row(ops::op::logits_loss, {input, target, Scalar(1.0)});
  if (weight.defined()) loss = mul(loss, weight);
  return reduced(mean(loss, IntList{-1}), r);
}

Tensor multi_margin_loss(const Tensor& input, const Tensor& target, int64_t p, double margin,
                         const Tensor& weight, const std::string& reduction) {
  PF_AUTOCAST("multi_margin_loss", Raise, multi_margin_loss, input, target, p, margin, weight,
              reduction);
  const char* op = "multi_margin_loss";
  const ops::Reduction r = ops::reduction_from(reduction, op);
  ops::check_floating(input, op);
  ops::check_defined(target, op, "target");
  PF_CHECK(p == 1 || p == 2, ValueError, op, "got p ", p, "; expected 1 or 2; pass p=1");
  const int n = input->shape.size();
  PF_CHECK(n <= 2, ShapeError, op, "got input of shape ", input->shape,
           "; expected [C] or [N, C], or one class without dimensions; reshape it");
  const Tensor x = as_rows(input);
  const int64_t rows = x->shape[0], classes = x->shape[1];
  PF_CHECK(target->numel == rows && is_integral(target->dtype), ShapeError, op, "got target of ",
           target->dtype, " and shape ", target->shape, "; expected ", rows,
           " class indices; convert or reshape the target");
  const Tensor index = reshape(to(target, DType::Int64), {rows, 1});
  // Not gather, to which -1 is the last class.
  const Tensor row = arange(0, rows, 1, DType::Int64, input->storage->device);
  const Tensor own = ops::index_read(x, {unsqueeze(row, 1), index}, op, false);
  Tensor loss = at_least_0(add(sub(x, own), Scalar(margin)));
  if (p == 2) loss = square(loss);
  if (weight.defined())
    loss = mul(loss, unsqueeze(index_select(weight, 0, reshape(index, {rows})), 1));
  loss = scatter(loss, 1, index, zeros({rows, 1}, loss->dtype, loss->storage->device));
  loss = div(sum(loss, IntList{1}), Scalar(static_cast<double>(classes)));
  if (target->shape.empty()) loss = squeeze(loss, 0);
  return reduced(loss, r);
}

Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target,
                              const std::string& reduction) {
  PF_AUTOCAST("multilabel_margin_loss", Raise, multilabel_margin_loss, input, target, reduction);
  const char* op = "multilabel_margin_loss";
  const ops::Reduction r = ops::reduction_from(reduction, op);
  ops::check_floating(input, op);
  ops::check_defined(target, op, "target");
  const int n = input->shape.size();
  PF_CHECK(n <= 2, ShapeError, op, "got input of shape ", input->shape,
           "; expected [C] or [N, C], or one class without dimensions; reshape it");
  PF_CHECK(target->shape == input->shape && is_integral(target->dtype), ShapeError, op,
           "got target of ", target->dtype, " and shape ", target->shape, " for input of shape ",
           input->shape, "; expected class indices of that shape, -1 behind the last");
  const Tensor x = as_rows(input);
  const Tensor y = to(as_rows(target), DType::Int64);
  const double classes = static_cast<double>(x->shape[1]);
  // A row's targets end before the first that is negative.
  const Tensor listed = eq(cumsum(to(lt(y, Scalar(0)), DType::Int64), 1), Scalar(0));
  const Tensor index = where(listed, y, Scalar(0));
  const Tensor is_target = gt(scatter_add(zeros(x->shape.vec(), DType::Int64, x->storage->device),
                                          1, index, to(listed, DType::Int64)),
                              Scalar(0));
  // [N, targets, classes]
  const Tensor apart = sub(add(unsqueeze(x, 1), Scalar(1.0)), unsqueeze(gather(x, 1, index), 2));
  const Tensor counts = logical_and(unsqueeze(listed, 2), unsqueeze(logical_not(is_target), 1));
  Tensor loss =
      div(sum(where(counts, at_least_0(apart), Scalar(0.0)), IntList{1, 2}), Scalar(classes));
  if (n < 2) loss = squeeze(loss, 0);
  return reduced(loss, r);
}

static const ops::Family kMarginLoss("loss", [](ops::Family& f) {
  using namespace ops;
  f.op(&poisson_nll_loss,
       {"poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, float "
        "eps=1e-08, str reduction='mean') -> Tensor",
        "Negative log-likelihood of counts under a Poisson distribution whose logarithm of the "
        "rate (or the rate itself, log_input=False) is the input. `full` adds Stirling's "
        "approximation of log(target!).",
        kFunctional});
  f.op(&gaussian_nll_loss,
       {"gaussian_nll_loss(Tensor input, Tensor target, Tensor var, bool full=False, float "
        "eps=1e-06, str reduction='mean') -> Tensor",
        "Negative log-likelihood of the target under normal distributions of mean `input` and "
        "variance `var`, which counts as at least eps. `full` adds log(2 pi) / 2.",
        kFunctional});
  f.op(&hinge_embedding_loss,
       {"hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, str "
        "reduction='mean') -> Tensor",
        "input where target is 1, max(0, margin - input) where it is -1.", kFunctional});
  f.op(&cosine_embedding_loss,
       {"cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, str "
        "reduction='mean') -> Tensor",
        "1 - cos where target is 1, max(0, cos - margin) where it is -1; cosines along the last "
        "dimension.",
        kFunctional});
  f.op(&margin_ranking_loss,
       {"margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, str "
        "reduction='mean') -> Tensor",
        "max(0, -target (input1 - input2) + margin).", kFunctional});
  f.op(&triplet_margin_loss,
       {"triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, "
        "float p=2.0, float eps=1e-06, bool swap=False, str reduction='mean') -> Tensor",
        "max(0, d(anchor, positive) - d(anchor, negative) + margin) with d = pairwise_distance; "
        "`swap` takes the smaller distance to the negative.",
        kFunctional});
  f.op(&soft_margin_loss,
       {"soft_margin_loss(Tensor input, Tensor target, str reduction='mean') -> Tensor",
        "log(1 + exp(-target input)) for targets 1 and -1, without overflow.", kFunctional});
  f.op(&multilabel_soft_margin_loss,
       {"multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, str "
        "reduction='mean') -> Tensor",
        "Mean over the last dimension (classes) of -(t log(sigmoid(x)) + (1 - t) "
        "log(sigmoid(-x))).",
        kFunctional});
  f.op(&multi_margin_loss,
       {"multi_margin_loss(Tensor input, Tensor target, int p=1, float margin=1.0, Tensor? "
        "weight=None, str reduction='mean') -> Tensor",
        "Sum over the wrong classes of max(0, margin - x[target] + x)^p, divided by the number of "
        "classes. IndexError for a class out of range.",
        kFunctional});
  f.op(&multilabel_margin_loss,
       {"multilabel_margin_loss(Tensor input, Tensor target, str reduction='mean') -> Tensor",
        "Sum over the classes of a row that are listed in target (up to the first -1) and those "
        "that "
        "are not of max(0, 1 - (x[listed] - x[other])), divided by the number of classes.",
        kFunctional});
});

}  // namespace pyflame
