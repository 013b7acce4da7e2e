// Where operations run, and the copies that bring floating tensors there. docs/devices.md says what
// users see of it.
#pragma once

#include <span>
#include <vector>

#include "engine/engine.h"

namespace pyflame {

namespace engine {

// Takes the operands of an operation and tells where it runs: on the device of those that were
// placed, else on the thread's current one. DeviceError when two are placed apart. A placed CPU
// tensor of 0 dimensions counts as a number, as in PyTorch: it decides only when it is alone.
class Target {
 public:
  explicit Target(const char* op) : op_(op) {}
  void add(const TensorImpl& t) {
    if (t.floating) {
      floating_ = true;
    } else if (is_number(t)) {
      number_ = true;
    } else if (!placed_) {
      placed_ = &t;
    } else if (!(placed_->storage->device == t.storage->device)) {
      refuse(op_, *placed_, t);
    }
  }
  // `otherwise` when there was no operand.
  Device device(Device otherwise) const {
    if (placed_) return placed_->device();
    if (floating_) return get_device();
    return number_ ? Device{} : otherwise;
  }
  // Whether what it makes floats.
  bool floats(Device otherwise) const {
    return !placed_ && (floating_ || (!number_ && otherwise.floating));
  }

  static bool is_number(const TensorImpl& t) {
    return t.shape.empty() && t.storage->device.is_cpu();
  }
  [[noreturn]] static void refuse(const char* op, const TensorImpl& a, const TensorImpl& b);

 private:
  const char* op_;
  const TensorImpl* placed_ = nullptr;
  bool floating_ = false, number_ = false;
};

// The likely case, quickly: all tensors are alike, and where they have to be.
class Together {
 public:
  void add(const TensorImpl& t) {
    if (!first_)
      first_ = &t;
    else
      alike_ &= t.floating == first_->floating && t.storage->device == first_->storage->device;
  }
  bool settled() const {
    return alike_ && (!first_ || !first_->floating || first_->storage->device == get_device());
  }
  // Where they are.
  bool any() const { return first_; }
  Device device() const { return first_->device(); }

 private:
  const TensorImpl* first_ = nullptr;
  bool alike_ = true;
};

// DeviceError when a write to `dst`, which happens where `dst` is, cannot take values from `t`.
void check_source(const TensorImpl& dst, const TensorImpl& t, const char* op);

// The name of a pointwise row for messages; stays.
const char* name_of_row(OpId op);

// Where a pointwise operation runs, and its operands there: `list` in place of `operands`, with
// copies held in `moved`. `device` is what counts when none is a tensor.
Device place_operands(OpId op, std::span<const Operand> operands, Device device, Operand* list,
                      Tensor* moved);
// The same for a kernel. Fresh results are sent where it runs; those with values stay, and it runs
// there. Returns the operands, in `moved` when some are copies.
std::span<const Tensor> place_call(std::span<const Tensor> outs, std::span<const Tensor> ins,
                                   const CallOptions& options, std::vector<Tensor>& moved);

// The thread's current stream on a device (record.cpp).
pf_stream stream_handle(Device d);
// The values of `t` on `d` for `op` to read; without history. Counted, refused in strict mode.
Tensor replica(const Tensor& t, Device d, const char* op);
// `t` itself on `d`. Differentiable; counted and refused likewise.
Tensor bring(const Tensor& t, Device d, const char* op);
// A gradient on the device of the tensor that it belongs to.
inline Tensor bring_home(const Tensor& gradient, Device home) {
  return gradient->storage->device == home ? gradient : bring(gradient, home, "backward");
}

}  // namespace engine
}  // namespace pyflame
