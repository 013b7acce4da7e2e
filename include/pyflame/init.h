// Start values of parameters. Each fills `tensor` in place, outside autograd, and returns it.
#pragma once

#include <string>

#include "pyflame/tensor.h"

namespace pyflame::init {

Tensor uniform_(const Tensor& tensor, double a = 0, double b = 1);
Tensor normal_(const Tensor& tensor, double mean = 0, double std = 1);
// Normal numbers drawn from the part of the distribution inside [a, b].
Tensor trunc_normal_(const Tensor& tensor, double mean = 0, double std = 1, double a = -2,
                     double b = 2);
Tensor constant_(const Tensor& tensor, Scalar value);
Tensor eye_(const Tensor& tensor);  // 2-d: ones on the diagonal

// Variance by the number of inputs and outputs (dimensions 1 and 0, times the kernel's size).
Tensor xavier_uniform_(const Tensor& tensor, double gain = 1);
Tensor xavier_normal_(const Tensor& tensor, double gain = 1);
// `mode` is fan_in or fan_out; `a` the negative slope of leaky_relu.
Tensor kaiming_uniform_(const Tensor& tensor, double a = 0, const std::string& mode = "fan_in",
                        const std::string& nonlinearity = "leaky_relu");
Tensor kaiming_normal_(const Tensor& tensor, double a = 0, const std::string& mode = "fan_in",
                       const std::string& nonlinearity = "leaky_relu");
// Orthonormal rows (or columns, whichever are fewer) of the tensor seen as a matrix, times gain.
Tensor orthogonal_(const Tensor& tensor, double gain = 1);

// Normal numbers, with a fraction `sparsity` of each column of a matrix set to 0.
Tensor sparse_(const Tensor& tensor, double sparsity, double std = 0.01);
// The identity of a convolution: ones in the middle of the kernels, in each of `groups` groups.
Tensor dirac_(const Tensor& tensor, int64_t groups = 1);

// Recommended gain: 1 for linear and sigmoid, 5/3 for tanh, sqrt(2) for relu, ...
double calculate_gain(const std::string& nonlinearity, double param = 0.01);

// What the layers start with.
void linear_(const Tensor& weight, const Tensor& bias = {});  // uniform in ±1/sqrt(in_features)
void embedding_(const Tensor& weight, int64_t padding_idx = -1);  // normal; that row zero

}  // namespace pyflame::init
