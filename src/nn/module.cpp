// Module: names, state and modes.
#include <algorithm>
#include <map>
#include <sstream>

#include "core/tensor_impl.h"
#include "ops/functions.h"
#include "pyflame/autograd.h"
#include "pyflame/nn.h"
#include "pyflame/optim_ops.h"

namespace pyflame::nn {

Tensor Module::forward(const Tensor&) const {
  PF_FAIL(NotSupportedError, "nn.Module",
          "got a call with one tensor; expected a module that defines forward(input); call the "
          "function that the module has instead");
}

void Module::collect(const std::string& prefix, bool buffers, NamedTensors* out) const {
  for (const auto& [name, t] : parameters_) out->emplace_back(prefix + name, t);
  if (buffers)
    for (const auto& [name, t] : buffers_) out->emplace_back(prefix + name, t);
  for (const auto& [name, m] : modules_) m->collect(prefix + name + ".", buffers, out);
}

NamedTensors Module::named_parameters() const {
  NamedTensors all, once;
  collect("", false, &all);
  for (auto& [name, t] : all) {
    bool seen = std::any_of(once.begin(), once.end(),
                            [t = t.impl()](const auto& other) { return other.second.impl() == t; });
    if (!seen) once.emplace_back(std::move(name), t);
  }
  return once;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> result;
  for (auto& [name, t] : named_parameters()) result.push_back(t);
  return result;
}

NamedTensors Module::state() const {
  NamedTensors all;
  collect("", true, &all);
  for (auto& [name, t] : all) t = t.detach();
  return all;
}

void Module::load_state(const NamedTensors& values, bool strict) {
  NamedTensors own;
  collect("", true, &own);
  std::map<std::string, Tensor> given(values.begin(), values.end());
  std::ostringstream problems;
  auto report = [&](const auto&... parts) { ((problems << "\n  ") << ... << parts); };
  for (const auto& [name, t] : own) {
    auto it = given.find(name);
    if (it == given.end()) {
      if (strict) report("missing: ", name);
    } else if (!(it->second->shape == t->shape)) {
      report(name, ": got ", it->second->shape, ", expected ", t->shape);
    }
  }
  if (strict)
    for (const auto& [name, t] : given)
      if (std::none_of(own.begin(), own.end(),
                       [&name = name](const auto& o) { return o.first == name; }))
        report("unexpected: ", name);
  PF_CHECK(problems.str().empty(), ValueError, "nn.Module.load_state",
           "the values do not fit:", problems.str(),
           "\n; expected the state of a model of the same structure");
  NoGrad guard;
  for (auto& [name, t] : own)
    if (auto it = given.find(name); it != given.end()) copy_(t, it->second);
}

void Module::train(bool on) {
  training_ = on;
  for (auto& [name, m] : modules_) m->train(on);
}

void Module::zero_grad() {
  for (Tensor& t : parameters()) t.set_grad({});
}

Tensor Module::add_parameter(std::string name, Tensor value) {
  value.requires_grad_();
  parameters_.emplace_back(std::move(name), value);
  return value;
}

Tensor Module::add_buffer(std::string name, Tensor value) {
  buffers_.emplace_back(std::move(name), value);
  return value;
}

Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type) {
  TensorList grads;
  for (const Tensor& t : parameters)
    if (Tensor g = t.grad(); g.defined()) grads.push_back(std::move(g));
  if (grads.empty()) return zeros({});
  return pyflame::clip_grad_norm_(grads, max_norm, norm_type);
}

}  // namespace pyflame::nn
