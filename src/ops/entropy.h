// What the losses of classes share (loss.cpp, linear_loss.cpp).
#pragma once

#include "ops/rows.h"
#include "pyflame/tensor.h"

namespace pyflame::ops {

struct EntropyArgs {
  int64_t ignore;
  double smoothing;
  Reduction reduction;
};

// The gradient of cross_entropy for rows x (n, classes) in operations, for second derivatives.
//   dx = s (a softmax(x) - (1 - e) w_t onehot - e / C w),  a = (1 - e) w_t + e / C sum(w)
// with s = g / (total weight) for the mean; all zero where the target is ignored.
Tensor entropy_gradient(const Tensor& g, const Tensor& x, const Tensor& targets,
                        const Tensor& total, const Tensor& weight, const EntropyArgs& args);

}  // namespace pyflame::ops
