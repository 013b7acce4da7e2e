// Tensors that move: between devices, and into memory of the host that GPUs read directly.
#include "core/pinned.h"
#include "core/tensor_impl.h"
#include "engine/autograd.h"
#include "engine/engine.h"
#include "ops/functions.h"
#include "pyflame/autograd.h"
#include "pyflame/memory.h"

namespace pyflame {

Tensor placed_alias(const Tensor& t) {
  auto alias = [](const Tensor& base) {
    Tensor r = make_view(base, base->shape, base->strides, base->offset);
    r->floating = false;
    return r;
  };
  return autograd::view(t, alias(t), alias, "to", [](const Tensor& g) { return g; });
}

Tensor to(const Tensor& t, Device device, bool non_blocking) {
  if (t->storage->device == device) {
    if (device.floating || !t->floating) return t;
    // A leaf stays the tensor whose .grad is filled: it is placed itself.
    if (!t->requires_grad || !t.is_leaf()) return placed_alias(t);
    t->floating = false;
    return t;
  }
  const DeviceScope home(t->storage->device);
  Tensor src = contiguous(t);
  Tensor out = make_tensor(src->shape, src->dtype, device.placed());
  // What the host reads is there when the call returns.
  engine::copy_bytes(out, src, non_blocking && !device.is_cpu());
  if (device.floating) out = afloat(std::move(out));
  if (autograd::wanted({t})) {
    const Device home = t->device();
    autograd::attach("to", {out}, {t}, {}, [home](const autograd::Context& c) -> autograd::Grads {
      return {to(c.grad(), home)};
    });
  }
  return out;
}

Tensor pin_memory(const Tensor& t, Device d) {
  PF_CHECK(t->storage->device.is_cpu(), DeviceError, "pin_memory", "got a tensor on ",
           t->storage->device.str(),
           "; only memory of the host can be pinned; copy it with .cpu()");
  if (t->storage->pinned || d.is_cpu()) return t;
  Tensor r = pinned_like(t->shape, t->dtype, d);
  if (!r->storage->pinned) return t;
  NoGrad no_grad;
  engine::copy_bytes(r, contiguous(t));
  return r;
}

}  // namespace pyflame
