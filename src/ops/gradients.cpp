// What the engine asks of operations: see engine/upcalls.h.
#include <algorithm>
#include <utility>

#include "engine/autograd_nodes.h"
#include "engine/upcalls.h"
#include "ops/functions.h"
#include "ops/hidden.h"
#include "ops/index.h"
#include "ops/sparse.h"

namespace pyflame {
namespace operations {

namespace {

// A sparse tensor whose parts are made by `fn` of those of another one.
template <class F>
Tensor with_parts(const Tensor& sparse, F&& fn) {
  SparseParts parts = *sparse_parts(sparse);
  parts.indices = fn(parts.indices);
  if (parts.rows.defined()) parts.rows = fn(parts.rows);
  parts.values = fn(parts.values);
  return make_sparse(sparse->shape, std::move(parts));
}

}  // namespace

Tensor move(const Tensor& t, Device d) {
  if (!sparse_parts(t)) return to(t, d);
  return with_parts(t, [&](const Tensor& part) { return to(part, d); });
}
Tensor convert(const Tensor& t, DType dtype) {
  if (!sparse_parts(t)) return to(t, dtype);
  SparseParts parts = *sparse_parts(t);
  parts.values = to(parts.values, dtype);
  return make_sparse(t->shape, std::move(parts));
}
Tensor copy(const Tensor& t) {
  if (!sparse_parts(t)) return clone(t);
  return with_parts(t, [](const Tensor& part) { return clone(part); });
}
Tensor dense(const Tensor& sparse) {
  return ops::dense_of(sparse);
}
Tensor add(const Tensor& x, const Tensor& y) {
  const SparseParts *a = sparse_parts(x), *b = sparse_parts(y);
  if (!a && !b) return pyflame::add(x, y);
  if (!a || !b || a->values->shape.size() != b->values->shape.size())
    return pyflame::add(a ? dense(x) : x, b ? dense(y) : y);
  // Coordinates side by side: what is there twice is added when somebody asks for it.
  const Tensor more = ops::coordinates(*b);
  return make_sparse(x->shape, {.indices = cat({ops::coordinates(*a), more}, 1),
                                .rows = {},
                                .values = cat({a->values, b->values}, 0)});
}
void add_into(Tensor& sum, const Tensor& t) {
  const SparseParts* parts = sparse_parts(t);
  if (!parts) {
    add_(sum, t);
  } else if (parts->indices->shape.size() == 2 && parts->indices->shape[0] == 1 &&
             parts->values->numel > 0) {
    Tensor index = select(parts->indices, 0, 0);
    for (int d = 1; d < sum->shape.size(); ++d) index = unsqueeze(index, d);
    ops::run_scatter(sum, 0, expand(index, parts->values->shape.vec()), parts->values, ops::kAdd,
                     "backward");
  } else {
    add_(sum, dense(t));
  }
}
Tensor constant(const Dims& shape, DType dtype, Device device, int value) {
  return full(shape.vec(), value, dtype, device);
}
Tensor zeros_like(const Tensor& t) {
  return pyflame::zeros_like(t);
}
bool has_nan(const Tensor& t) {
  Tensor all = sparse_parts(t) ? sparse_parts(t)->values : t;
  while (const Hidden* h = engine::hidden_of(all))
    all = ops::show(all, 0, {h->dims[0].level, h->dims[0].size});
  return any(ne(all, all)).item<bool>();
}

}  // namespace operations

namespace autograd {

namespace {

// While `writer` is applied as a part of `whole`.
struct Writing {
  Writing(CopySlices& whole, const Node& writer) : whole(whole), writer(writer) {}
  Writing(const Writing&) = delete;
  ~Writing() { now = before; }

  CopySlices& whole;
  const Node& writer;
  Writing* const before = std::exchange(now, this);
  static thread_local Writing* now;
};
thread_local Writing* Writing::now = nullptr;

}  // namespace

Ref<Node> CopySlices::history_of(const Node& writer) {
  if (!Writing::now || &writer != &Writing::now->writer)
    return Ref<Node>::share(const_cast<Node*>(&writer));
  auto part = Ref<Node>::adopt(new FunctionNode("view", {}, [](const Context& c) -> Grads {
    const auto& whole = static_cast<const CopySlices&>(*c.node.next[0].node);
    Tensor full = whole.zeros(c.grad()->storage->device);
    Tensor written = replay_view(whole.steps_.get(), full);
    copy_(written, c.grad());
    return {full};
  }));
  part->home = writer.home;
  if (writer.extras) part->extra().levels = writer.extras->levels;
  part->next.push_back({Ref<Node>::share(static_cast<Node*>(&Writing::now->whole)), 0});
  return part;
}

Tensor CopySlices::zeros(Device device) const {
  int64_t reach = offset_ + 1;
  for (int i = 0; i < shape_.size(); ++i) reach += (shape_[i] - 1) * strides_[i];
  const Tensor memory = pyflame::zeros({std::max<int64_t>(reach, 0)}, dtype_, device);
  return as_strided(memory, shape_.vec(), strides_.vec(), offset_);
}

Grads CopySlices::apply(const Grads& grads) {
  // The gradient laid out as the base is: a view of it must reach what the view reached.
  Tensor full;
  if (offset_ == 0 && is_contiguous(shape_, strides_)) {
    full = clone(contiguous(grads[0]));
  } else {
    full = zeros(grads[0]->storage->device);
    copy_(full, grads[0]);
  }
  Tensor part = replay_view(steps_.get(), full);
  PF_CHECK(part->storage == full->storage, AutogradError, name,
           "the view that was written cannot be made again; write to a clone() of it");
  Grads out(next.size());
  Grads inner;
  if (inner_) {
    const Writing writing(*this, *inner_);
    inner = inner_->apply({clone(part)});
  }
  if (needs(0)) {
    // The gradient of the base before the write: what was written over had no other influence.
    if (!inner.empty() && inner[0].defined())
      copy_(part, inner[0]);
    else
      zero_(part);
    out[0] = full;
  }
  for (size_t i = 1; i < inner.size() && i < out.size(); ++i) out[i] = inner[i];
  return out;
}

}  // namespace autograd
}  // namespace pyflame
