// Layers for C++: thin classes over the operations, with the names and start values of torch.nn.
//
//   nn::Sequential net(nn::Linear(64, 32), nn::ReLU(), nn::Linear(32, 10));
//   optim::AdamW optimizer(net.parameters(), {.lr = 1e-3});
//   Tensor loss = cross_entropy(net(x), y);
//   optimizer.zero_grad(); loss.backward(); optimizer.step();
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pyflame/registry.h"

namespace pyflame::nn {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Base of layers and models. A model derives from it, makes its parameters and layers in the
// constructor through the add_ functions, and defines forward. Movable, not copyable.
class Module {
 public:
  Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  // Modules with other arguments than one tensor define their own functions beside this one.
  virtual Tensor forward(const Tensor& input) const;
  Tensor operator()(const Tensor& input) const { return forward(input); }

  // Own parameters, then those of the layers, by dotted name. A tied one appears once.
  NamedTensors named_parameters() const;
  std::vector<Tensor> parameters() const;
  // Parameters and buffers under every name they have: what is saved.
  NamedTensors state() const;
  // Copies values in. ValueError lists every key that is missing, unexpected or of another shape.
  void load_state(const NamedTensors& values, bool strict = true);

  void train(bool on = true);  // also of all layers
  void eval() { train(false); }
  bool training() const { return training_; }
  void zero_grad();

 protected:
  Tensor add_parameter(std::string name, Tensor value);  // makes it require grad
  Tensor add_buffer(std::string name, Tensor value);
  template <class M>
  std::shared_ptr<M> add_module(std::string name, M module) {
    return add_module(std::move(name), std::make_shared<M>(std::move(module)));
  }
  template <class M>
  std::shared_ptr<M> add_module(std::string name, std::shared_ptr<M> module) {
    modules_.emplace_back(std::move(name), module);
    return module;
  }
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& layers() const {
    return modules_;
  }

 private:
  void collect(const std::string& prefix, bool buffers, NamedTensors* out) const;

  NamedTensors parameters_, buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> modules_;
  bool training_ = true;
};

// Where and in which dtype a layer makes its parameters.
struct Where {
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

// x @ weight.T + bias: [..., in_features] to [..., out_features].
class Linear : public Module {
 public:
  Linear(int64_t in_features, int64_t out_features, bool bias = true, Where where = {});
  Tensor forward(const Tensor& input) const override;
  Tensor weight, bias;
};

// A table of vectors picked by integers: [...] to [..., embedding_dim].
class Embedding : public Module {
 public:
  Embedding(int64_t num_embeddings, int64_t embedding_dim, int64_t padding_idx = -1,
            Where where = {});
  Tensor forward(const Tensor& input) const override;
  Tensor weight;
  int64_t padding_idx;
};

class LayerNorm : public Module {
 public:
  explicit LayerNorm(IntList normalized_shape, double eps = 1e-5, bool bias = true,
                     Where where = {});
  Tensor forward(const Tensor& input) const override;
  Tensor weight, bias;
  IntList normalized_shape;
  double eps;
};

class RMSNorm : public Module {
 public:
  explicit RMSNorm(IntList normalized_shape, std::optional<double> eps = {}, Where where = {});
  Tensor forward(const Tensor& input) const override;
  Tensor weight;
  IntList normalized_shape;
  std::optional<double> eps;
};

// Zeroes elements with probability p while training, and scales the others.
class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& input) const override;
  double p;
};

class Flatten : public Module {
 public:
  explicit Flatten(int64_t start_dim = 1, int64_t end_dim = -1) : start(start_dim), end(end_dim) {}
  Tensor forward(const Tensor& input) const override;
  int64_t start, end;
};

class ReLU : public Module {
 public:
  Tensor forward(const Tensor& input) const override;
};
class GELU : public Module {
 public:
  explicit GELU(std::string approximate = "none") : approximate(std::move(approximate)) {}
  Tensor forward(const Tensor& input) const override;
  std::string approximate;
};
class SiLU : public Module {
 public:
  Tensor forward(const Tensor& input) const override;
};
class Sigmoid : public Module {
 public:
  Tensor forward(const Tensor& input) const override;
};
class Tanh : public Module {
 public:
  Tensor forward(const Tensor& input) const override;
};
class Softmax : public Module {
 public:
  explicit Softmax(int64_t dim = -1) : dim(dim) {}
  Tensor forward(const Tensor& input) const override;
  int64_t dim;
};

// Runs its modules one after the other.
class Sequential : public Module {
 public:
  Sequential() = default;
  template <class... Modules>
  requires(sizeof...(Modules) > 0 &&
           (std::is_base_of_v<Module, Modules> && ...)) explicit Sequential(Modules... modules) {
    (append(std::move(modules)), ...);
  }
  template <class M>
  void append(M module) {
    add_module(std::to_string(layers().size()), std::move(module));
  }
  Tensor forward(const Tensor& input) const override;
  size_t size() const { return layers().size(); }
};

// Scales gradients down so that their common norm is at most max_norm; the norm from before, 0-d.
Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                       double norm_type = 2);

}  // namespace pyflame::nn
