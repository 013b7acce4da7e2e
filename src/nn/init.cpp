// Start values: the one place that has these formulas; Python's nn.init calls them.
#include "pyflame/init.h"

#include <cmath>
#include <utility>
#include <vector>

#include "core/tensor_impl.h"
#include "ops/functions.h"
#include "ops/record.h"
#include "ops/registry.h"
#include "pyflame/autograd.h"

namespace pyflame::init {

namespace {

// Inputs and outputs of one unit: dimensions 1 and 0, each times the size of the kernel.
std::pair<double, double> fans(const Tensor& t, const char* op) {
  PF_CHECK(t->shape.size() >= 2, ShapeError, op, "got a tensor of ", t->shape,
           "; expected at least 2 dimensions to count inputs and outputs; use normal_ or "
           "uniform_ for vectors");
  double kernel = 1;
  for (int i = 2; i < t->shape.size(); ++i) kernel *= static_cast<double>(t->shape[i]);
  return {static_cast<double>(t->shape[1]) * kernel, static_cast<double>(t->shape[0]) * kernel};
}

double kaiming_std(const Tensor& t, double a, const std::string& mode,
                   const std::string& nonlinearity, const char* op) {
  auto [in, out] = fans(t, op);
  PF_CHECK(mode == "fan_in" || mode == "fan_out", ValueError, op, "got mode '", mode,
           "'; expected fan_in or fan_out");
  return calculate_gain(nonlinearity, a) / std::sqrt(mode == "fan_in" ? in : out);
}

Tensor fill_uniform(const Tensor& t, double a, double b) {
  NoGrad guard;
  Tensor self = t;
  if (t->numel) pyflame::uniform_(self, a, b);
  return self;
}

Tensor fill_normal(const Tensor& t, double mean, double std) {
  NoGrad guard;
  Tensor self = t;
  if (t->numel) pyflame::normal_(self, mean, std);
  return self;
}

Tensor fill_from_host(const Tensor& t, const std::vector<double>& values) {
  NoGrad guard;
  Tensor self = t;
  copy_(self, from_host(values.data(), t->shape.vec(), DType::Float64, t->storage->device));
  return self;
}

std::vector<double> normal_on_host(int64_t n) {
  NoGrad guard;
  return randn({n}, DType::Float64, Device{}).to_vector<double>();
}

double normal_cdf(double x) {
  return 0.5 * std::erfc(-x * M_SQRT1_2);
}

}  // namespace

Tensor uniform_(const Tensor& tensor, double a, double b) {
  return fill_uniform(tensor, a, b);
}

Tensor normal_(const Tensor& tensor, double mean, double std) {
  return fill_normal(tensor, mean, std);
}

Tensor trunc_normal_(const Tensor& tensor, double mean, double std, double a, double b) {
  PF_CHECK(std >= 0 && a <= b, ValueError, "nn.init.trunc_normal_", "got std ", std, " and bounds ",
           a, " and ", b, "; expected std >= 0 and a <= b");
  if (std == 0) return constant_(tensor, std::min(std::max(mean, a), b));
  double lo = (a - mean) / std, hi = (b - mean) / std;
  // Work in the tail that is not cut to 0 or 1 by rounding.
  bool flip = lo > 0;
  if (flip) std::swap(lo, hi), lo = -lo, hi = -hi;
  double p_lo = normal_cdf(lo), p_hi = normal_cdf(hi);
  NoGrad guard;
  Tensor self = tensor;
  const Tensor u = rand(tensor->shape.vec(), DType::Float64, tensor->device());
  Tensor x = ops::call_row(table::op::ndtri, {add(mul(u, Scalar(p_hi - p_lo)), Scalar(p_lo))});
  x = mul(clamp(x, Scalar(lo), Scalar(hi)), Scalar(flip ? -std : std));
  copy_(self, clamp(add(x, Scalar(mean)), Scalar(a), Scalar(b)));
  return self;
}

Tensor constant_(const Tensor& tensor, Scalar value) {
  NoGrad guard;
  Tensor self = tensor;
  fill_(self, value);
  return self;
}

Tensor eye_(const Tensor& tensor) {
  PF_CHECK(tensor->shape.size() == 2, ShapeError, "nn.init.eye_", "got a tensor of ", tensor->shape,
           "; expected 2 dimensions");
  NoGrad guard;
  Tensor self = tensor;
  copy_(self, eye(tensor->shape[0], tensor->shape[1], tensor->dtype, tensor->storage->device));
  return self;
}

Tensor xavier_uniform_(const Tensor& tensor, double gain) {
  auto [in, out] = fans(tensor, "nn.init.xavier_uniform_");
  double bound = gain * std::sqrt(6.0 / (in + out));
  return fill_uniform(tensor, -bound, bound);
}

Tensor xavier_normal_(const Tensor& tensor, double gain) {
  auto [in, out] = fans(tensor, "nn.init.xavier_normal_");
  return fill_normal(tensor, 0, gain * std::sqrt(2.0 / (in + out)));
}

Tensor kaiming_uniform_(const Tensor& tensor, double a, const std::string& mode,
                        const std::string& nonlinearity) {
  double std = kaiming_std(tensor, a, mode, nonlinearity, "nn.init.kaiming_uniform_");
  return fill_uniform(tensor, -std::sqrt(3.0) * std, std::sqrt(3.0) * std);
}

Tensor kaiming_normal_(const Tensor& tensor, double a, const std::string& mode,
                       const std::string& nonlinearity) {
  return fill_normal(tensor, 0,
                     kaiming_std(tensor, a, mode, nonlinearity, "nn.init.kaiming_normal_"));
}

Tensor orthogonal_(const Tensor& tensor, double gain) {
  PF_CHECK(tensor->shape.size() >= 2, ShapeError, "nn.init.orthogonal_", "got a tensor of ",
           tensor->shape, "; expected at least 2 dimensions");
  if (tensor->numel == 0) return tensor;
  const auto rows = static_cast<size_t>(tensor->shape[0]);
  const auto columns = static_cast<size_t>(tensor->numel) / rows;
  const size_t n = std::min(rows, columns), length = std::max(rows, columns);
  // n random vectors, each made orthogonal to those before it; twice, against rounding.
  std::vector<double> q = normal_on_host(tensor->numel);
  for (size_t i = 0; i < n; ++i) {
    double* v = &q[i * length];
    for (int pass = 0; pass < 2; ++pass)
      for (size_t j = 0; j < i; ++j) {
        const double* u = &q[j * length];
        double dot = 0;
        for (size_t k = 0; k < length; ++k) dot += u[k] * v[k];
        for (size_t k = 0; k < length; ++k) v[k] -= dot * u[k];
      }
    double norm = 0;
    for (size_t k = 0; k < length; ++k) norm += v[k] * v[k];
    norm = std::sqrt(norm);
    for (size_t k = 0; k < length; ++k) v[k] /= norm;
  }
  std::vector<double> values(q.size());
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c)
      values[r * columns + c] = gain * (rows <= columns ? q[r * length + c] : q[c * length + r]);
  return fill_from_host(tensor, values);
}

Tensor sparse_(const Tensor& tensor, double sparsity, double std) {
  PF_CHECK(tensor->shape.size() == 2, ShapeError, "nn.init.sparse_", "got a tensor of ",
           tensor->shape, "; expected 2 dimensions; reshape it");
  PF_CHECK(sparsity >= 0 && sparsity <= 1, ValueError, "nn.init.sparse_", "got sparsity ", sparsity,
           "; expected a fraction from 0 to 1");
  NoGrad guard;
  Tensor self = fill_normal(tensor, 0, std);
  const int64_t rows = tensor->shape[0];
  const auto zeros = static_cast<int64_t>(std::ceil(sparsity * static_cast<double>(rows)));
  const Tensor numbers = rand(tensor->shape.vec(), {}, tensor->storage->device);
  const Tensor rank = argsort(argsort(numbers, 0), 0);
  masked_fill_(self, lt(rank, Scalar(zeros)), Scalar(0));
  return self;
}

Tensor dirac_(const Tensor& tensor, int64_t groups) {
  const int n = tensor->shape.size();
  PF_CHECK(n >= 3 && n <= 5, ShapeError, "nn.init.dirac_", "got a tensor of ", tensor->shape,
           "; expected 3, 4 or 5 dimensions");
  const int64_t out = tensor->shape[0], in = tensor->shape[1];
  PF_CHECK(groups > 0 && out % groups == 0, ValueError, "nn.init.dirac_", "got ", groups,
           " groups for ", out, " output channels; expected a divisor");
  std::vector<double> values(static_cast<size_t>(tensor->numel));
  int64_t kernel = 1, middle = 0;
  for (int d = 2; d < n; ++d) {
    kernel *= tensor->shape[d];
    middle = middle * tensor->shape[d] + tensor->shape[d] / 2;
  }
  for (int64_t g = 0; tensor->numel > 0 && g < groups; ++g)
    for (int64_t i = 0; i < std::min(out / groups, in); ++i)
      values[static_cast<size_t>(((g * (out / groups) + i) * in + i) * kernel + middle)] = 1;
  return fill_from_host(tensor, values);
}

double calculate_gain(const std::string& nonlinearity, double param) {
  for (const char* plain : {"linear", "identity", "sigmoid", "conv1d", "conv2d", "conv3d",
                            "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"})
    if (nonlinearity == plain) return 1;
  if (nonlinearity == "tanh") return 5.0 / 3;
  if (nonlinearity == "relu") return std::sqrt(2.0);
  if (nonlinearity == "leaky_relu") return std::sqrt(2.0 / (1 + param * param));
  if (nonlinearity == "selu") return 0.75;
  PF_FAIL(ValueError, "nn.init.calculate_gain", "got nonlinearity '", nonlinearity,
          "'; expected linear, sigmoid, tanh, relu, leaky_relu or selu; use 'linear' for a gain "
          "of 1");
}

void linear_(const Tensor& weight, const Tensor& bias) {
  auto [in, out] = fans(weight, "nn.Linear");
  double bound = in > 0 ? 1 / std::sqrt(in) : 0;
  fill_uniform(weight, -bound, bound);
  if (bias.defined()) fill_uniform(bias, -bound, bound);
}

void embedding_(const Tensor& weight, int64_t padding_idx) {
  fill_normal(weight, 0, 1);
  if (padding_idx < 0) return;
  NoGrad guard;
  Tensor row = select(weight, 0, padding_idx);
  zero_(row);
}

namespace {

Tensor py_constant(const Tensor& t, Scalar value) {
  return constant_(t, value);
}

const ops::Family kInit("initialisation", [](ops::Family& f) {
  using ops::kSpecial;
  auto row = [](const char* schema, const char* doc) {
    return ops::Row{schema, doc, kSpecial, false};
  };
  f.op(&init::uniform_, row("_init_uniform_(Tensor tensor, float a=0.0, float b=1.0) -> Tensor",
                            "Uniform numbers in [a, b)."));
  f.op(&init::normal_, row("_init_normal_(Tensor tensor, float mean=0.0, float std=1.0) -> Tensor",
                           "Normal numbers."));
  f.op(&trunc_normal_, row("_init_trunc_normal_(Tensor tensor, float mean=0.0, float std=1.0, "
                           "float a=-2.0, float b=2.0) -> Tensor",
                           "Normal numbers from the part of the distribution inside [a, b]."));
  f.op(&py_constant,
       row("_init_constant_(Tensor tensor, Scalar value) -> Tensor", "One value everywhere."));
  f.op(&eye_, row("_init_eye_(Tensor tensor) -> Tensor", "The identity matrix."));
  f.op(&xavier_uniform_, row("_init_xavier_uniform_(Tensor tensor, float gain=1.0) -> Tensor",
                             "Uniform, variance by inputs and outputs."));
  f.op(&xavier_normal_, row("_init_xavier_normal_(Tensor tensor, float gain=1.0) -> Tensor",
                            "Normal, variance by inputs and outputs."));
  f.op(&kaiming_uniform_,
       row("_init_kaiming_uniform_(Tensor tensor, float a=0.0, str mode='fan_in', "
           "str nonlinearity='leaky_relu') -> Tensor",
           "Uniform, variance by inputs or outputs."));
  f.op(&kaiming_normal_, row("_init_kaiming_normal_(Tensor tensor, float a=0.0, str mode='fan_in', "
                             "str nonlinearity='leaky_relu') -> Tensor",
                             "Normal, variance by inputs or outputs."));
  f.op(&orthogonal_, row("_init_orthogonal_(Tensor tensor, float gain=1.0) -> Tensor",
                         "Orthonormal rows or columns."));
  f.op(&sparse_, row("_init_sparse_(Tensor tensor, float sparsity, float std=0.01) -> Tensor",
                     "Normal numbers with zeros in each column."));
  f.op(&dirac_, row("_init_dirac_(Tensor tensor, int groups=1) -> Tensor",
                    "The identity of a convolution."));
  f.op(&calculate_gain, row("_init_calculate_gain(str nonlinearity, float param=0.01) -> float",
                            "Recommended gain of a nonlinearity."));
  f.op(&linear_, row("_init_linear_(Tensor weight, Tensor? bias=None) -> None",
                     "Start values of nn.Linear and of convolutions."));
  f.op(&embedding_, row("_init_embedding_(Tensor weight, int padding_idx=-1) -> None",
                        "Start values of nn.Embedding."));
});

}  // namespace

}  // namespace pyflame::init
