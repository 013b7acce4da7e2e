// Switching gradients on and off, and computing them.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "pyflame/tensor.h"

namespace pyflame {

bool grad_enabled();  // of the calling thread
void set_grad_enabled(bool);

class GradMode {  // scope guard
 public:
  explicit GradMode(bool on) : before_(grad_enabled()) { set_grad_enabled(on); }
  ~GradMode() { set_grad_enabled(before_); }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};
struct NoGrad : GradMode {
  NoGrad() : GradMode(false) {}
};
struct EnableGrad : GradMode {
  EnableGrad() : GradMode(true) {}
};

// Accumulates d(tensors)/d(leaf) into the .grad of every leaf. An undefined entry of
// `gradients` means 1 for a scalar.
void backward(std::span<const Tensor> tensors, std::span<const Tensor> gradients = {},
              bool retain_graph = false, bool create_graph = false);

// Returns d(outputs)/d(input) for each input without touching .grad. An input that the
// outputs do not depend on raises unless allow_unused, then its entry is undefined.
std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> grad_outputs = {}, bool retain_graph = false,
                         bool create_graph = false, bool allow_unused = false);

// Anomaly mode: a NaN in a gradient raises and names the operation that made it.
void set_detect_anomaly(bool);
bool detect_anomaly();

}  // namespace pyflame
