// Optimizers for C++. A step is one multi-tensor operation a group; formulas are torch.optim's.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "pyflame/tensor.h"

namespace pyflame::optim {

struct Group {
  std::vector<Tensor> params;
  double lr = 1e-3;
  double weight_decay = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  void zero_grad();
  virtual void step() = 0;  // parameters without a gradient are left as they are
  std::vector<Group>& groups() { return groups_; }
  void set_lr(double lr);  // of every group

 protected:
  explicit Optimizer(std::vector<Group> groups);
  std::vector<Group> groups_;
};

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
};

class SGD : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> params, SGDOptions options = {});
  // Groups have rates and decays of their own; `options` gives the rest.
  SGD(std::vector<Group> groups, SGDOptions options);
  void step() override;

 private:
  SGDOptions options_;
  std::vector<std::vector<Tensor>> buffers_;  // by group and parameter, undefined until needed
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
};

class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> params, AdamOptions options = {});
  Adam(std::vector<Group> groups, AdamOptions options);
  void step() override;

 protected:
  bool decoupled_ = false;

 private:
  struct State {
    int64_t step = 0;
    Tensor exp_avg, exp_avg_sq, max_exp_avg_sq;
  };
  AdamOptions options_;
  std::vector<std::vector<State>> state_;
};

// Adam with decoupled weight decay: p *= 1 - lr * weight_decay before the step.
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> params, AdamOptions options = {.weight_decay = 1e-2})
      : Adam(std::move(params), options) {
    decoupled_ = true;
  }
  AdamW(std::vector<Group> groups, AdamOptions options) : Adam(std::move(groups), options) {
    decoupled_ = true;
  }
};

// Learning rate of step `step` (from 0): linear warm-up to lr, then half a cosine to min_lr.
double warmup_cosine(int64_t step, int64_t warmup, int64_t total, double lr, double min_lr = 0);

}  // namespace pyflame::optim
