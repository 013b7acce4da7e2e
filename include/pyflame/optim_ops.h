// Optimizer steps and gradient clipping over lists of tensors: each call reads and writes every
// array once, in parallel over all tensors together. Formulas are torch.optim's. Everything works
// in place, outside autograd, and stays pending like any operation: nothing here synchronises.
//
// From Python these are rows of pyflame._C (kSpecial), with these schemas:
//
//   _sgd(Tensor[] params, Tensor[] grads, Tensor[] momentum_buffers, float lr, float momentum,
//        float dampening, float weight_decay, bool nesterov, bool maximize, bool first_step,
//        Tensor[]? weights=None, bool random=False) -> None
//     momentum_buffers is [] when momentum == 0. With first_step the buffers' old values are
//     ignored and they are set to the gradient (so make them with empty_like or zeros_like).
//
//   _adamw(Tensor[] params, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, float lr,
//          float beta1, float beta2, float eps, float weight_decay, int step, bool decoupled,
//          bool maximize, Tensor[]? max_exp_avg_sqs=None, Tensor[]? weights=None,
//          bool random=False) -> None
//     Adam with decoupled=False, AdamW with decoupled=True. step counts from 1 (already raised
//     for this step). max_exp_avg_sqs given and not empty means amsgrad.
//
//   Of both: states of 16-bit parameters are of their dtype or float32. With `weights`, `params`
//   are float32 masters of those (bfloat16 or float16, as gradients are), which are written too,
//   and a weight that is not its master rounded to the nearest is the master from there on. With
//   `random`, parameters and states in 16 bits are rounded up with the probability of what is cut
//   off, by numbers that the call takes of the generator.
//
//   _optim_step(str rule, Tensor[] params, Tensor[] grads, Tensor[] states, float[] numbers,
//               int decays=0, float decay=0.0, bool maximize=False) -> None
//     Any other optimizer whose step is made element by element, by its rule in
//     kernels/optim_rules.h, which says what its states and numbers are; `states` has one state of
//     all parameters, then the next. decays: 0 no weight decay, 1 decay * parameter is added to the
//     gradient, 2 the parameter is multiplied by decay first.
//
//   _multi_norm(Tensor[] tensors, float norm_type=2.0) -> Tensor
//     0-d norm of all elements together (2, 1, any p > 0, inf); the same bits for any thread count.
//   _clip_grad_norm_(Tensor[] grads, float max_norm, float norm_type=2.0) -> Tensor
//     grads *= min(1, max_norm / (norm + 1e-6)); returns the norm from before, 0-d.
//   _clip_grad_value_(Tensor[] grads, float clip_value) -> None
//   _found_nonfinite(Tensor[] tensors) -> Tensor
//     0-d bool: any NaN or infinity.
//
// Lists must have equal lengths; shape, dtype and device of a parameter, its gradient and its
// state must agree (ShapeError, DTypeError, DeviceError otherwise). Empty lists do nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pyflame/registry.h"

namespace pyflame {

void sgd_step(const TensorList& params, const TensorList& grads, const TensorList& momentum_buffers,
              double lr, double momentum = 0, double dampening = 0, double weight_decay = 0,
              bool nesterov = false, bool maximize = false, bool first_step = false,
              const std::optional<TensorList>& weights = {}, bool random = false);

void adamw_step(const TensorList& params, const TensorList& grads, const TensorList& exp_avgs,
                const TensorList& exp_avg_sqs, double lr, double beta1, double beta2, double eps,
                double weight_decay, int64_t step, bool decoupled = true, bool maximize = false,
                const std::optional<TensorList>& max_exp_avg_sqs = {},
                const std::optional<TensorList>& weights = {}, bool random = false);

void optim_step(const std::string& rule, const TensorList& params, const TensorList& grads,
                const TensorList& states, const std::vector<double>& numbers, int64_t decays = 0,
                double decay = 0, bool maximize = false);

Tensor multi_norm(const TensorList& tensors, double norm_type = 2);
Tensor clip_grad_norm_(const TensorList& grads, double max_norm, double norm_type = 2);
void clip_grad_value_(const TensorList& grads, double clip_value);
Tensor found_nonfinite(const TensorList& tensors);

}  // namespace pyflame
