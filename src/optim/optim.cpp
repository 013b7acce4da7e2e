// Optimizers: state by parameter, gathered into lists for the multi-tensor operations.
#include "pyflame/optim.h"

#include <cmath>
#include <map>

#include "core/tensor_impl.h"
#include "ops/registry.h"
#include "pyflame/autograd.h"
#include "pyflame/operators.h"
#include "pyflame/optim_ops.h"

namespace pyflame::optim {

Optimizer::Optimizer(std::vector<Group> groups) : groups_(std::move(groups)) {
  size_t count = 0;
  for (const Group& g : groups_) {
    PF_CHECK(g.lr >= 0 && g.weight_decay >= 0, ValueError, "optim", "got learning rate ", g.lr,
             " and weight decay ", g.weight_decay, "; expected numbers of at least 0");
    count += g.params.size();
  }
  PF_CHECK(count > 0, ValueError, "optim",
           "got no parameters; expected at least one; check that the model has parameters");
}

void Optimizer::zero_grad() {
  for (Group& g : groups_)
    for (Tensor& p : g.params) p.set_grad({});
}

void Optimizer::set_lr(double lr) {
  for (Group& g : groups_) g.lr = lr;
}

SGD::SGD(std::vector<Tensor> params, SGDOptions options)
    : SGD(std::vector<Group>{{std::move(params), options.lr, options.weight_decay}}, options) {}

SGD::SGD(std::vector<Group> groups, SGDOptions options)
    : Optimizer(std::move(groups)), options_(options) {
  PF_CHECK(!options.nesterov || (options.momentum > 0 && options.dampening == 0), ValueError,
           "optim.SGD", "got nesterov with momentum ", options.momentum, " and dampening ",
           options.dampening, "; expected a momentum and no dampening");
  for (const Group& g : groups_) buffers_.emplace_back(g.params.size());
}

void SGD::step() {
  const bool momentum = options_.momentum != 0;
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& g = groups_[i];
    // A parameter whose first gradient comes later has no buffer yet: two calls at most.
    for (bool first : {false, true}) {
      TensorList params, grads, buffers;
      for (size_t j = 0; j < g.params.size(); ++j) {
        Tensor grad = g.params[j].grad();
        if (!grad.defined()) continue;
        Tensor& buffer = buffers_[i][j];
        if ((momentum && !buffer.defined()) != first) continue;
        if (first) buffer = zeros_beside(g.params[j].detach());
        params.push_back(g.params[j]);
        grads.push_back(std::move(grad));
        if (momentum) buffers.push_back(buffer);
      }
      if (!params.empty())
        sgd_step(params, grads, buffers, g.lr, options_.momentum, options_.dampening,
                 g.weight_decay, options_.nesterov, options_.maximize, first);
      if (!momentum) break;
    }
  }
}

Adam::Adam(std::vector<Tensor> params, AdamOptions options)
    : Adam(std::vector<Group>{{std::move(params), options.lr, options.weight_decay}}, options) {}

Adam::Adam(std::vector<Group> groups, AdamOptions options)
    : Optimizer(std::move(groups)), options_(options) {
  PF_CHECK(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1 &&
               options.eps >= 0,
           ValueError, "optim.Adam", "got betas ", options.beta1, " and ", options.beta2,
           " and eps ", options.eps, "; expected betas in [0, 1) and eps of at least 0");
  for (const Group& g : groups_) state_.emplace_back(g.params.size());
}

void Adam::step() {
  struct Lists {
    TensorList params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs;
  };
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& g = groups_[i];
    std::map<int64_t, Lists> by_step;  // parameters without gradients for a while lag behind
    for (size_t j = 0; j < g.params.size(); ++j) {
      Tensor grad = g.params[j].grad();
      if (!grad.defined()) continue;
      State& s = state_[i][j];
      if (!s.exp_avg.defined()) {
        Tensor like = g.params[j].detach();
        s.exp_avg = zeros_beside(like);
        s.exp_avg_sq = zeros_beside(like);
        if (options_.amsgrad) s.max_exp_avg_sq = zeros_beside(like);
      }
      Lists& l = by_step[++s.step];
      l.params.push_back(g.params[j]);
      l.grads.push_back(std::move(grad));
      l.exp_avgs.push_back(s.exp_avg);
      l.exp_avg_sqs.push_back(s.exp_avg_sq);
      if (options_.amsgrad) l.max_exp_avg_sqs.push_back(s.max_exp_avg_sq);
    }
    for (auto& [step, l] : by_step)
      adamw_step(l.params, l.grads, l.exp_avgs, l.exp_avg_sqs, g.lr, options_.beta1, options_.beta2,
                 options_.eps, g.weight_decay, step, decoupled_, options_.maximize,
                 l.max_exp_avg_sqs);
  }
}

double warmup_cosine(int64_t step, int64_t warmup, int64_t total, double lr, double min_lr) {
  if (step < warmup) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (step >= total) return min_lr;
  double share = static_cast<double>(step - warmup) / static_cast<double>(total - warmup);
  return min_lr + (lr - min_lr) * 0.5 * (1 + std::cos(M_PI * share));
}

namespace {

const ops::Family kSchedules("schedule", [](ops::Family& f) {
  f.op(&warmup_cosine,
       {"_warmup_cosine(int step, int warmup, int total, float lr, "
        "float min_lr=0.0) -> float",
        "Learning rate of a step: linear warm-up, then half a cosine.", ops::kSpecial, false});
});

}  // namespace

}  // namespace pyflame::optim
