// Layers: parameters, start values, and the operation that each is.
#include "core/tensor_impl.h"
#include "ops/functions.h"
#include "pyflame/init.h"
#include "pyflame/nn.h"

namespace pyflame::nn {

Linear::Linear(int64_t in_features, int64_t out_features, bool with_bias, Where where) {
  weight = add_parameter("weight", empty({out_features, in_features}, where.dtype, where.device));
  if (with_bias) bias = add_parameter("bias", empty({out_features}, where.dtype, where.device));
  init::linear_(weight, bias);
}

Tensor Linear::forward(const Tensor& input) const {
  return linear(input, weight, bias);
}

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim, int64_t padding_idx,
                     Where where)
    : padding_idx(padding_idx) {
  PF_CHECK(padding_idx < num_embeddings, ValueError, "nn.Embedding", "got padding_idx ",
           padding_idx, "; expected a row of the ", num_embeddings, " in the table");
  weight =
      add_parameter("weight", empty({num_embeddings, embedding_dim}, where.dtype, where.device));
  init::embedding_(weight, padding_idx);
}

Tensor Embedding::forward(const Tensor& input) const {
  return embedding(input, weight, padding_idx);
}

LayerNorm::LayerNorm(IntList shape, double eps, bool with_bias, Where where)
    : normalized_shape(std::move(shape)), eps(eps) {
  weight = add_parameter("weight", ones(normalized_shape, where.dtype, where.device));
  if (with_bias) bias = add_parameter("bias", zeros(normalized_shape, where.dtype, where.device));
}

Tensor LayerNorm::forward(const Tensor& input) const {
  return layer_norm(input, normalized_shape, weight, bias, eps);
}

RMSNorm::RMSNorm(IntList shape, std::optional<double> eps, Where where)
    : normalized_shape(std::move(shape)), eps(eps) {
  weight = add_parameter("weight", ones(normalized_shape, where.dtype, where.device));
}

Tensor RMSNorm::forward(const Tensor& input) const {
  return rms_norm(input, normalized_shape, weight, eps);
}

Dropout::Dropout(double p) : p(p) {
  PF_CHECK(p >= 0 && p <= 1, ValueError, "nn.Dropout", "got p ", p,
           "; expected a probability between 0 and 1");
}

Tensor Dropout::forward(const Tensor& input) const {
  return training() && p > 0 ? dropout(input, p, true) : input;
}

Tensor Flatten::forward(const Tensor& input) const {
  return flatten(input, start, end);
}

Tensor ReLU::forward(const Tensor& input) const {
  return relu(input);
}

Tensor GELU::forward(const Tensor& input) const {
  return gelu(input, approximate);
}

Tensor SiLU::forward(const Tensor& input) const {
  return silu(input);
}

Tensor Sigmoid::forward(const Tensor& input) const {
  return sigmoid(input);
}

Tensor Tanh::forward(const Tensor& input) const {
  return tanh(input);
}

Tensor Softmax::forward(const Tensor& input) const {
  return softmax(input, dim);
}

Tensor Sequential::forward(const Tensor& input) const {
  Tensor x = input;
  for (const auto& [name, module] : layers()) x = module->forward(x);
  return x;
}

}  // namespace pyflame::nn
