#include "ops/side_by_side.h"

#include <algorithm>
#include <vector>

#include "core/tensor_impl.h"
#include "engine/autograd.h"
#include "engine/hidden.h"

namespace pyflame::ops {
namespace {

struct Step {
  int64_t stride, size;
  bool operator==(const Step&) const = default;
};

// Dimensions by stride, the smallest first, without those of one place.
std::vector<Step> steps_of(const Dims& shape, const Dims& strides) {
  std::vector<Step> r;
  for (int i = 0; i < shape.size(); ++i)
    if (shape[i] != 1) r.push_back({strides[i], shape[i]});
  std::sort(r.begin(), r.end(), [](const Step& a, const Step& b) { return a.stride < b.stride; });
  return r;
}

// Whether the steps lead through memory without gaps, each place once, from `run` elements on.
bool without_gaps(std::span<const Step> steps, int64_t run) {
  for (const Step& s : steps) {
    if (s.stride != run) return false;
    run *= s.size;
  }
  return true;
}

}  // namespace

std::array<Tensor, 3> make_side_by_side(const std::array<Tensor, 3>& models) {
  if (engine::among_samples(models[0], models[1], models[2])) return {};
  std::array<int, 3> order{0, 1, 2};
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return models[a]->offset < models[b]->offset; });
  const Tensor& first = models[order[0]];
  int64_t run = 0, total = 0;  // a run: what lies together of the three, before the same again
  std::vector<Step> outer;
  for (const int i : order) {
    const Tensor& m = models[i];
    if (!(m->storage == first->storage) || m->dtype != first->dtype || m->numel == 0 ||
        m->offset != first->offset + run)
      return {};
    std::vector<Step> steps = steps_of(m->shape, m->strides);
    int64_t own = 1;
    auto at = steps.begin();
    for (; at != steps.end() && at->stride == own; ++at) own *= at->size;
    steps.erase(steps.begin(), at);
    if (i != order[0] && steps != outer) return {};
    outer = std::move(steps);
    run += own;
    total += m->numel;
  }
  if (!without_gaps(outer, run)) return {};
  const Tensor whole = make_tensor({total}, first->dtype, first->storage->device);
  std::array<Tensor, 3> r;
  for (size_t i = 0; i < 3; ++i)
    r[i] =
        make_view(whole, models[i]->shape, models[i]->strides, models[i]->offset - first->offset);
  return r;
}

Tensor seen_as_one(std::span<const Tensor> tensors, int dim) {
  if (tensors.size() < 2 || std::any_of(tensors.begin(), tensors.end(),
                                        [](const Tensor& t) { return engine::among_samples(t); }))
    return {};
  const Tensor& first = tensors[0];
  if (!first.defined() || first->shape[dim] == 0) return {};
  int64_t stride = first->strides[dim], length = 0;
  if (first->shape[dim] == 1 && tensors[1].defined()) stride = tensors[1]->offset - first->offset;
  for (const Tensor& t : tensors) {
    if (!t.defined() || !(t->storage == first->storage) || t->dtype != first->dtype ||
        t->shape.size() != first->shape.size() || t->offset != first->offset + length * stride ||
        (t->shape[dim] != 1 && t->strides[dim] != stride) || autograd::wanted({t}))
      return {};
    for (int i = 0; i < t->shape.size(); ++i)
      if (i != dim && (t->shape[i] != first->shape[i] ||
                       (t->shape[i] != 1 && t->strides[i] != first->strides[i])))
        return {};
    length += t->shape[dim];
  }
  Dims shape = first->shape, strides = first->strides;
  shape[dim] = length;
  strides[dim] = stride;
  if (!without_gaps(steps_of(shape, strides), 1)) return {};
  return make_view(first, shape, strides, first->offset);
}

}  // namespace pyflame::ops
