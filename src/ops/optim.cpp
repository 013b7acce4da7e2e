// Optimizer steps and gradient clipping over lists of tensors (include/pyflame/optim_ops.h).
#include "pyflame/optim_ops.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/region.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "ops/space.h"
#include "pyflame/random.h"
#include "table/kernels/optim.h"

namespace pyflame {
namespace {

using engine::CallOptions;

bool narrow(const Tensor& t) {
  return t->dtype == DType::Float16 || t->dtype == DType::BFloat16;
}

// Lists of equal lengths, shapes, devices and dtypes. `float32`: also that beside 16 bits.
void check_lists(const TensorList& params, const TensorList& others, const char* op,
                 const char* what, bool float32 = false) {
  PF_CHECK(params.size() == others.size(), ValueError, op, "got ", params.size(),
           " parameters and ", others.size(), " ", what,
           "; expected lists of equal length; pass one for each parameter");
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor &p = params[i], &t = others[i];
    ops::check_floating(p, op, "parameter");
    ops::check_defined(t, op, what);
    PF_CHECK(p->shape == t->shape, ShapeError, op, "got parameter ", i, " of shape ", p->shape,
             " with ", what, " of shape ", t->shape,
             "; expected equal shapes; reshape one of them");
    PF_CHECK(p->dtype == t->dtype || (float32 && narrow(p) && t->dtype == DType::Float32),
             DTypeError, op, "got parameter ", i, " of dtype ", p->dtype, " with ", what,
             " of dtype ", t->dtype, "; expected one dtype", float32 ? " or float32" : "",
             "; convert with .to(dtype)");
    ops::check_device(p, t, op);
  }
}

// Parameters, their gradients, and the 16-bit weights that the parameters are masters of.
void check_step(const TensorList& params, const TensorList& grads,
                const std::optional<TensorList>& weights, bool random, const char* op) {
  for (const Tensor& p : params)
    if (p.defined()) engine::about_to_write(*p->storage);
  PF_CHECK(!weights || !random, ValueError, op,
           "got masters and rounding at random; expected one of them, as masters lose nothing; "
           "leave one out");
  check_lists(weights ? *weights : params, grads, op, "gradient");
  if (weights) check_lists(*weights, params, op, "master", true);
  for (size_t i = 0; weights && i < params.size(); ++i)
    PF_CHECK(narrow((*weights)[i]) && params[i]->dtype == DType::Float32, DTypeError, op,
             "got weight ", i, " of dtype ", (*weights)[i]->dtype, " with a master of dtype ",
             params[i]->dtype, "; expected 16 bits beside float32; convert with .to(dtype)");
  for (size_t i = 0; random && i < params.size(); ++i)
    PF_CHECK(narrow(params[i]), DTypeError, op, "got parameter ", i, " of dtype ", params[i]->dtype,
             " to be rounded at random; expected bfloat16 or float16; convert with .to(dtype)");
}

// A list to be changed in place: what is not contiguous, or not where the first list is, is worked
// on as a copy and written back.
class InPlace {
 public:
  InPlace(const TensorList& list, Device home) : original_(list), work_(list) {
    const DeviceScope scope(home);
    for (Tensor& t : work_) {
      if (!(t->storage->device == home)) t = to(t, home);
      if (!t->contiguous) t = contiguous(t);
    }
  }
  explicit InPlace(const TensorList& list)
      : InPlace(list, list.empty() ? Device{} : list[0]->device()) {}
  const TensorList& tensors() const { return work_; }
  void write_back() {
    for (size_t i = 0; i < work_.size(); ++i) {
      if (original_[i]->storage == work_[i]->storage) continue;
      Tensor to = original_[i];
      copy_(to, work_[i]);
    }
  }

 private:
  TensorList original_, work_;
};

TensorList joined(std::initializer_list<const TensorList*> lists) {
  TensorList r;
  for (const TensorList* l : lists) r.insert(r.end(), l->begin(), l->end());
  return r;
}
TensorList dense_list(const TensorList& list) {
  TensorList r = list;
  for (Tensor& t : r) t = ops::dense(t);
  return r;
}

// Tensors of the same number that lie alike, channels-last, as lines of memory: where each element
// is calculated by itself, its place does not matter. None where there are none. Lists may be
// empty.
using Lists = std::vector<TensorList>;
std::optional<Lists> as_they_lie(const std::vector<const TensorList*>& given) {
  const auto turned = [](const Tensor& p) {
    return !p->contiguous && ops::space_format(p) != MemoryFormat::Contiguous;
  };
  const TensorList& params = *given[0];
  if (std::none_of(params.begin(), params.end(), turned)) return {};
  Lists lists;
  for (const TensorList* l : given) lists.push_back(l ? *l : TensorList());
  bool any = false;
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor p = lists[0][i];
    const auto alike = [&](const TensorList& l) {
      return l.empty() || (l[i]->shape == p->shape && l[i]->strides == p->strides);
    };
    if (!turned(p) || !std::all_of(lists.begin(), lists.end(), alike)) continue;
    any = true;
    for (TensorList& l : lists)
      if (!l.empty()) l[i] = make_view(l[i], Dims{l[i]->numel}, Dims{1}, l[i]->offset);
  }
  return any ? std::optional<Lists>(std::move(lists)) : std::nullopt;
}
TensorList as_they_lie(const TensorList& list) {
  const auto l = as_they_lie(std::vector{&list});
  return l ? (*l)[0] : list;
}

template <class K>
void call_over(const TensorList& outs, const TensorList& ins,
               const typename K::template Numbers<Scalar>& numbers, CallOptions options) {
  const Scalar* first = kernels::members<K::template Numbers>(numbers);
  engine::call(engine::kernel<K>(), outs, ins,
               std::span<const Scalar>(first, kernels::kCount<K::template Numbers>), options);
}

// One call per dtypes and device: kernels take lists of one dtype each.
std::vector<std::vector<size_t>> alike(const TensorList& list, const TensorList& grads,
                                       const TensorList& states) {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i]->numel == 0) continue;
    auto same = [&](const std::vector<size_t>& g) {
      const Tensor& t = list[g[0]];
      return t->dtype == list[i]->dtype && t->storage->device == list[i]->storage->device &&
             grads[g[0]]->dtype == grads[i]->dtype &&
             (states.empty() || states[g[0]]->dtype == states[i]->dtype);
    };
    auto it = std::find_if(groups.begin(), groups.end(), same);
    if (it == groups.end()) it = groups.insert(it, std::vector<size_t>{});
    it->push_back(i);
  }
  return groups;
}
TensorList pick(const TensorList& list, const std::vector<size_t>& which) {
  TensorList r;
  if (list.empty()) return r;
  for (size_t i : which) r.push_back(list[i]);
  return r;
}

// The counters of the generator for a call's tensors; without, where it stands.
RandomState drawn_for(const TensorList& params, bool random) {
  if (!random) return random_state();
  int64_t counters = 0;
  for (const Tensor& t : params) counters += (t->numel + 7) / 8;
  return take_random(4 * counters);
}

}  // namespace

void sgd_step(const TensorList& params, const TensorList& grads, const TensorList& momentum_buffers,
              double lr, double momentum, double dampening, double weight_decay, bool nesterov,
              bool maximize, bool first_step, const std::optional<TensorList>& weights,
              bool random) {
  const char* op = "sgd_step";
  check_step(params, grads, weights, random, op);
  if (momentum != 0) check_lists(params, momentum_buffers, op, "momentum buffer", true);
  NoGrad off;
  if (const auto l =
          random ? std::nullopt
                 : as_they_lie({&params, &grads, momentum != 0 ? &momentum_buffers : nullptr,
                                weights ? &*weights : nullptr}))
    return sgd_step((*l)[0], (*l)[1], (*l)[2], lr, momentum, dampening, weight_decay, nesterov,
                    maximize, first_step, weights ? std::optional((*l)[3]) : weights, random);
  for (const auto& group : alike(params, grads, momentum != 0 ? momentum_buffers : TensorList{})) {
    InPlace p(pick(params, group));
    const Device home = p.tensors()[0]->device();
    InPlace b(momentum != 0 ? pick(momentum_buffers, group) : TensorList{}, home);
    InPlace w(weights ? pick(*weights, group) : TensorList{}, home);
    const RandomState drawn = drawn_for(p.tensors(), random);
    call_over<kernels::Sgd>(joined({&p.tensors(), &b.tensors(), &w.tensors()}),
                            dense_list(pick(grads, group)),
                            {.seed = static_cast<int64_t>(drawn.seed),
                             .offset = static_cast<int64_t>(drawn.offset),
                             .count = static_cast<int64_t>(group.size()),
                             .lr = lr,
                             .momentum = momentum,
                             .dampening = dampening,
                             .weight_decay = weight_decay,
                             .nesterov = nesterov,
                             .maximize = maximize,
                             .first_step = first_step,
                             .weights = weights.has_value(),
                             .random = random},
                            {.inplace = CallOptions::kAllInplace, .op = op});
    p.write_back();
    b.write_back();
    w.write_back();
  }
}

void adamw_step(const TensorList& params, const TensorList& grads, const TensorList& exp_avgs,
                const TensorList& exp_avg_sqs, double lr, double beta1, double beta2, double eps,
                double weight_decay, int64_t step, bool decoupled, bool maximize,
                const std::optional<TensorList>& max_exp_avg_sqs,
                const std::optional<TensorList>& weights, bool random) {
  const char* op = decoupled ? "adamw_step" : "adam_step";
  check_step(params, grads, weights, random, op);
  check_lists(params, exp_avgs, op, "exp_avg", true);
  check_lists(exp_avgs, exp_avg_sqs, op, "exp_avg_sq");
  const bool amsgrad = max_exp_avg_sqs && !max_exp_avg_sqs->empty();
  if (amsgrad) check_lists(exp_avgs, *max_exp_avg_sqs, op, "max_exp_avg_sq");
  PF_CHECK(step >= 1, ValueError, op, "got step=", step,
           "; expected 1 or more, as the corrections divide by 1 - beta^step; raise it first");
  NoGrad off;
  if (const auto l = random ? std::nullopt
                            : as_they_lie({&params, &grads, &exp_avgs, &exp_avg_sqs,
                                           amsgrad ? &*max_exp_avg_sqs : nullptr,
                                           weights ? &*weights : nullptr}))
    return adamw_step((*l)[0], (*l)[1], (*l)[2], (*l)[3], lr, beta1, beta2, eps, weight_decay, step,
                      decoupled, maximize, amsgrad ? std::optional((*l)[4]) : max_exp_avg_sqs,
                      weights ? std::optional((*l)[5]) : weights, random);
  for (const auto& group : alike(params, grads, exp_avgs)) {
    InPlace p(pick(params, group));
    const Device home = p.tensors()[0]->device();
    InPlace w(weights ? pick(*weights, group) : TensorList{}, home);
    const RandomState drawn = drawn_for(p.tensors(), random);
    InPlace m(pick(exp_avgs, group), home), v(pick(exp_avg_sqs, group), home);
    InPlace top(amsgrad ? pick(*max_exp_avg_sqs, group) : TensorList{}, home);
    call_over<kernels::AdamW>(
        joined({&p.tensors(), &m.tensors(), &v.tensors(), &top.tensors(), &w.tensors()}),
        dense_list(pick(grads, group)),
        {.seed = static_cast<int64_t>(drawn.seed),
         .offset = static_cast<int64_t>(drawn.offset),
         .count = static_cast<int64_t>(group.size()),
         .lr = lr,
         .beta1 = beta1,
         .beta2 = beta2,
         .eps = eps,
         .weight_decay = weight_decay,
         .step = step,
         .decoupled = decoupled,
         .maximize = maximize,
         .amsgrad = amsgrad,
         .weights = weights.has_value(),
         .random = random},
        {.inplace = CallOptions::kAllInplace, .op = op});
    p.write_back();
    m.write_back();
    v.write_back();
    top.write_back();
    w.write_back();
  }
}

void optim_step(const std::string& rule, const TensorList& params, const TensorList& grads,
                const TensorList& states, const std::vector<double>& numbers, int64_t decays,
                double decay, bool maximize) {
  const auto* info = std::find_if(std::begin(kernels::kStepRules), std::end(kernels::kStepRules),
                                  [&](const kernels::StepRuleInfo& r) { return rule == r.name; });
  PF_CHECK(info != std::end(kernels::kStepRules), ValueError, "optim_step", "got the rule '", rule,
           "'; expected one of kernels/optim_rules.h, such as 'rmsprop'");
  const char* op = info->name;
  const size_t count = params.size(), arrays = static_cast<size_t>(info->states);
  PF_CHECK(states.size() == count * arrays, ValueError, op, "got ", states.size(), " states of ",
           count, " parameters; expected ", arrays, " of each, one array behind the other");
  PF_CHECK(numbers.size() == static_cast<size_t>(info->numbers), ValueError, op, "got ",
           numbers.size(), " numbers; expected ", info->numbers);
  check_lists(params, grads, op, "gradient");
  std::vector<TensorList> lists;
  for (size_t k = 0; k < arrays; ++k) {
    const auto first = states.begin() + static_cast<std::ptrdiff_t>(k * count);
    lists.emplace_back(first, first + static_cast<std::ptrdiff_t>(count));
    check_lists(params, lists.back(), op, "state");
  }
  NoGrad off;
  std::vector<const TensorList*> all{&params, &grads};
  for (const TensorList& list : lists) all.push_back(&list);
  if (const auto l = as_they_lie(all)) {
    TensorList lines;
    for (size_t k = 0; k < arrays; ++k)
      lines.insert(lines.end(), (*l)[k + 2].begin(), (*l)[k + 2].end());
    return optim_step(rule, (*l)[0], (*l)[1], lines, numbers, decays, decay, maximize);
  }
  Scalar n[kernels::kStepNumbers] = {};
  for (size_t k = 0; k < static_cast<size_t>(kernels::kStepNumbers); ++k)
    n[k] = k < numbers.size() ? numbers[k] : 0.0;
  for (const auto& group : alike(params, grads, {})) {
    std::vector<InPlace> changed;
    changed.emplace_back(pick(params, group));
    const Device home = changed[0].tensors()[0]->device();
    for (const TensorList& list : lists) changed.emplace_back(pick(list, group), home);
    TensorList outs;
    for (const InPlace& list : changed)
      outs.insert(outs.end(), list.tensors().begin(), list.tensors().end());
    call_over<kernels::OptimStep>(
        outs, dense_list(pick(grads, group)),
        {static_cast<int64_t>(group.size()), static_cast<int64_t>(info - kernels::kStepRules),
         decays, decay, maximize, n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]},
        {.inplace = CallOptions::kAllInplace, .op = op});
    for (InPlace& list : changed) list.write_back();
  }
}

Tensor multi_norm(const TensorList& tensors, double norm_type) {
  const char* op = "multi_norm";
  PF_CHECK(norm_type > 0, ValueError, op, "got norm_type=", norm_type,
           "; expected a positive number or inf; pass 2.0 for the Euclidean norm");
  DType type = DType::Float32;
  for (const Tensor& t : tensors) {
    ops::check_floating(t, op);
    ops::check_device(tensors[0], t, op);
    if (t->dtype == DType::Float64) type = DType::Float64;
  }
  if (tensors.empty()) return zeros({}, type);
  NoGrad off;
  Tensor norm = make_tensor({}, type, tensors[0]->storage->device);
  call_over<kernels::MultiNorm>({norm}, dense_list(as_they_lie(tensors)), {.p = norm_type},
                                {.op = op});
  return norm;
}

Tensor clip_grad_norm_(const TensorList& grads, double max_norm, double norm_type) {
  const Tensor norm = multi_norm(grads, norm_type);
  if (grads.empty()) return norm;
  NoGrad off;
  InPlace g(as_they_lie(grads));
  call_over<kernels::MultiClipNorm>(g.tensors(), {norm}, {.most = max_norm},
                                    {.inplace = CallOptions::kAllInplace, .op = "clip_grad_norm_"});
  g.write_back();
  return norm;
}

void clip_grad_value_(const TensorList& grads, double clip_value) {
  for (const Tensor& t : grads) ops::check_floating(t, "clip_grad_value_");
  if (grads.empty()) return;
  NoGrad off;
  InPlace g(as_they_lie(grads));
  call_over<kernels::MultiClipValue>(
      g.tensors(), {}, {.bound = clip_value},
      {.inplace = CallOptions::kAllInplace, .op = "clip_grad_value_"});
  g.write_back();
}

Tensor found_nonfinite(const TensorList& tensors) {
  for (const Tensor& t : tensors) {
    ops::check_floating(t, "found_nonfinite");
    ops::check_device(tensors[0], t, "found_nonfinite");
  }
  if (tensors.empty()) return zeros({}, DType::Bool);
  NoGrad off;
  Tensor found = make_tensor({}, DType::Bool, tensors[0]->storage->device);
  call_over<kernels::MultiNonfinite>({found}, dense_list(as_they_lie(tensors)), {},
                                     {.op = "found_nonfinite"});
  return found;
}

static const ops::Family kOptim("optimizer", [](ops::Family& f) {
  using namespace ops;
  f.op(
      &sgd_step,
      {"_sgd(Tensor[] params, Tensor[] grads, Tensor[] momentum_buffers, float lr, float momentum, "
       "float dampening, float weight_decay, bool nesterov, bool maximize, bool first_step, "
       "Tensor[]? weights=None, bool random=False) -> None",
       "One step of torch.optim.SGD in place.", kSpecial, false});
  f.op(
      &adamw_step,
      {"_adamw(Tensor[] params, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, float lr, "
       "float beta1, float beta2, float eps, float weight_decay, int step, bool decoupled, bool "
       "maximize, Tensor[]? max_exp_avg_sqs=None, Tensor[]? weights=None, bool random=False) -> "
       "None",
       "One step of torch.optim.AdamW (decoupled) or Adam in place.", kSpecial, false});
  f.op(&optim_step, {"_optim_step(str rule, Tensor[] params, Tensor[] grads, Tensor[] states, "
                     "float[] numbers, int "
                     "decays=0, float decay=0.0, bool maximize=False) -> None",
                     "One step of another optimizer of torch.optim in place.", kSpecial, false});
  f.op(&multi_norm, {"_multi_norm(Tensor[] tensors, float norm_type=2.0) -> Tensor",
                     "Norm of all elements of all tensors, 0-d.", kSpecial, false});
  f.op(&clip_grad_norm_,
       {"_clip_grad_norm_(Tensor[] grads, float max_norm, float norm_type=2.0) -> Tensor",
        "Scales in place by min(1, max_norm / (norm + 1e-6)); returns the norm from before.",
        kSpecial, false});
  f.op(&clip_grad_value_, {"_clip_grad_value_(Tensor[] grads, float clip_value) -> None",
                           "Clamps in place to [-clip_value, clip_value].", kSpecial, false});
  f.op(&found_nonfinite, {"_found_nonfinite(Tensor[] tensors) -> Tensor",
                          "Whether any element is NaN or infinite, 0-d bool.", kSpecial, false});
});

}  // namespace pyflame
