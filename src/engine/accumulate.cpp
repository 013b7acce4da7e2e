// The end of every path: gradients that are added to a leaf's .grad.
#include <algorithm>
#include <mutex>
#include <vector>

#include "core/sparse.h"
#include "engine/autograd_nodes.h"
#include "engine/capture.h"
#include "engine/group.h"
#include "engine/hidden.h"
#include "engine/placement.h"
#include "engine/upcalls.h"

namespace pyflame::autograd {

bool meets_itself(const TensorImpl& t) {
  constexpr int64_t kMost = 1 << 20;
  if (t.numel > kMost) return true;
  std::vector<int64_t> places{0};
  for (int d = 0; d < t.shape.size(); ++d) {
    const size_t before = places.size();
    for (int64_t i = 1; i < t.shape[d]; ++i)
      for (size_t k = 0; k < before; ++k) places.push_back(places[k] + i * t.strides[d]);
  }
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) != places.end();
}

// The leaf may go away while a graph still points at it: its gradient is then nobody's.
Tensor Accumulate::leaf() {
  while (lock_.test_and_set(std::memory_order_acquire)) {
  }
  Tensor t;
  if (leaf_) {
    uint32_t n = leaf_->refs.load(std::memory_order_relaxed);
    while (n && !leaf_->refs.compare_exchange_weak(n, n + 1, std::memory_order_acq_rel)) {
    }
    if (n) t = Tensor::adopt(leaf_);
  }
  lock_.clear(std::memory_order_release);
  return t;
}
void Accumulate::forget() noexcept {
  while (lock_.test_and_set(std::memory_order_acquire)) {
  }
  leaf_ = nullptr;
  lock_.clear(std::memory_order_release);
}

namespace {
// Several backward passes may end at one leaf at once. One lock for many leaves: a fork takes them
// all.
Mutex& adding_to(const void* leaf) {
  static auto* mutexes = new Mutex[64];
  return mutexes[reinterpret_cast<uintptr_t>(leaf) / alignof(std::max_align_t) % 64];
}

Accumulate::Sum sum_of(const Tensor& leaf, Device device) {
  using Sum = Accumulate::Sum;
  if (!leaf.defined()) return Sum::Other;
  const Tensor& g = meta_of(leaf).grad;
  if (!g.defined()) return Sum::None;
  // Python may have it, as a captured step does: it sees the sum in either case.
  const bool alone = g->refs.load() <= 1 + (g->wrapper != nullptr);
  const bool ours = !sparse_parts(g) && alone && g->storage->handles.load() == 1 &&
                    g->storage->device == device && leaf->storage->device == device &&
                    !g->storage->foreign && !g->storage->readonly && !overlaps_itself(*g.impl());
  return ours ? Sum::Ours : Sum::Other;
}
}  // namespace

Accumulate::Sum Accumulate::sum(Device device) {
  const Tensor t = leaf();
  std::lock_guard lock(adding_to(this));
  return sum_of(t, device);
}
bool Accumulate::add_by(Device device, const std::function<bool(const Tensor&)>& add) {
  const Tensor t = leaf();
  engine::GilScope gil;  // see apply()
  std::lock_guard lock(adding_to(this));
  if (sum_of(t, device) != Sum::Ours) return false;
  if (engine::Capture* c = engine::capturing()) [[unlikely]]
    c->note_leaf(t, true);
  return add(meta_of(t).grad.detach());
}

Grads Accumulate::apply(const Grads& grads) {
  Tensor t = leaf();
  if (!t.defined() || !grads[0].defined()) return {};
  PF_CHECK(!hiding() || !engine::is_hidden(grads[0]) || engine::is_hidden(t), AutogradError,
           "backward",
           "a gradient that differs from sample to sample of vmap() would be added to the .grad of "
           "a tensor that is the same for all; use pyflame.func.grad() inside of vmap(), and not "
           "backward()");
  Tensor g = engine::bring_home(grads[0], t->device());
  const DeviceScope at(t->storage->device);
  // The GIL may go while the sum runs, and comes back when the lock is gone.
  engine::GilScope gil;
  std::lock_guard lock(adding_to(this));
  Meta& m = meta_of(t);
  if (engine::Capture* c = engine::capturing()) [[unlikely]]
    c->note_leaf(t, m.grad.defined());
  PF_CHECK(g->shape == t->shape, ShapeError, "backward", "a gradient of shape ", g->shape,
           " arrived for a tensor of shape ", t->shape,
           "; expected that shape. Either the backward of a custom function returned another one, "
           "or the tensor's own was changed after it was used, by .data or by an operation like "
           "unsqueeze_ under no_grad(); change it before it is used");
  if (g->dtype != t->dtype) g = operations::convert(g, t->dtype);
  if (m.grad.defined() ? sparse_parts(m.grad) : sparse_parts(g)) [[unlikely]] {
    if (m.grad.defined()) {
      m.grad = operations::add(m.grad, g);
    } else {  // as below
      const bool ours = g->refs.load() <= 2 && g->storage->handles.load() == 1 &&
                        sparse_parts(g)->values->storage->handles.load() == 1;
      m.grad = ours ? g : operations::copy(g);
    }
  } else if (!m.grad.defined()) {
    // The gradient is kept as it is when nobody else can reach it, row-major or as its leaf lies.
    const bool lies = g->contiguous || (g->strides == t->strides && !overlaps_itself(*g.impl()));
    bool ours =
        g->refs.load() <= 2 && g->storage->handles.load() == 1 && lies && !g->storage->foreign;
    if (grad_enabled())
      m.grad = ours ? g : operations::copy(g);
    else
      m.grad = ours ? g.detach() : operations::copy(g.detach());
  } else if (grad_enabled()) {
    m.grad = operations::add(m.grad, g);
  } else {
    Tensor sum = m.grad.detach();
    if (m.grad->storage->readonly || overlaps_itself(*m.grad.impl()))
      m.grad = operations::add(sum, g);
    else
      operations::add_into(sum, g);
  }
  return {};
}

}  // namespace pyflame::autograd
