#include "ops/hidden.h"

#include "engine/upcalls.h"
#include "ops/building_blocks.h"

namespace pyflame {
namespace ops {

Tensor hide(const Tensor& x, int64_t dim, uint32_t level) {
  check_defined(x, "vmap");
  PF_CHECK(!x->storage->sparse, NotSupportedError, "vmap",
           "got a sparse tensor to go over; expected a dense one; call to_dense()");
  const int d = wrap_dim(dim, x->shape.size(), "vmap");
  const Hidden* before = engine::hidden_of(x);
  PF_CHECK(!before || before->n < Hidden::kMost, NotSupportedError, "vmap", "got more than ",
           Hidden::kMost, " nested levels; that many are supported");
  Hidden* h = Hidden::create();
  const Ref<Hidden> hidden = Ref<Hidden>::adopt(h);
  const Hidden::Dim own{level, x->shape[d], x->strides[d]};
  bool placed = false;
  for (int i = 0; before && i < before->n; ++i) {
    if (!placed && before->dims[i].level > level) {
      h->dims[h->n++] = own;
      placed = true;
    }
    h->dims[h->n++] = before->dims[i];
  }
  if (!placed) h->dims[h->n++] = own;
  Dims shape = x->shape, strides = x->strides;
  shape.erase(d);
  strides.erase(d);
  Tensor r = make_view(x, shape, strides, x->offset);
  r->hidden = hidden;
  return viewed(
      x, r, [d, level](const Tensor& b) { return hide(b, d, level); }, "vmap_in",
      [d, l = engine::Level{level, own.size}](const Tensor& g) { return show(g, d, l); });
}

Tensor show(const Tensor& x, int64_t dim, engine::Level level) {
  check_defined(x, "vmap");
  const int d = wrap_dim(dim, x->shape.size() + 1, "vmap");
  const Hidden* before = engine::hidden_of(x);
  Ref<Hidden> rest;
  Hidden::Dim own{level.id, level.size, 0};
  if (before) {
    Hidden* h = Hidden::create();
    rest = Ref<Hidden>::adopt(h);
    for (int i = 0; i < before->n; ++i)
      (before->dims[i].level == level.id ? own : h->dims[h->n++]) = before->dims[i];
    if (h->n == 0) rest = {};
  }
  Dims shape = x->shape, strides = x->strides;
  shape.insert(d, own.size);
  strides.insert(d, own.stride);
  Tensor r = make_view(x, shape, strides, x->offset);
  r->hidden = rest;
  return viewed(
      x, r, [d, level](const Tensor& b) { return show(b, d, level); }, "vmap_out",
      [d, id = level.id](const Tensor& g) { return hide(g, d, id); });
}

void scale_steps(const Tensor& view, int64_t times, int64_t over) {
  const Ref<Hidden> before = view->hidden;
  if (!before) return;
  Hidden* h = Hidden::create();
  view->hidden = Ref<Hidden>::adopt(h);
  for (; h->n < before->n; ++h->n) {
    h->dims[h->n] = before->dims[h->n];
    h->dims[h->n].stride = before->dims[h->n].stride * times / over;
  }
}
bool steps_divide(const Tensor& x, int64_t over) {
  const Hidden* h = hiding() ? engine::hidden_of(x) : nullptr;
  for (int i = 0; h && i < h->n; ++i)
    if (h->dims[i].stride % over != 0) return false;
  return true;
}

Tensor all_samples(const Tensor& x) {
  if (!engine::is_hidden(x)) return x;
  engine::Levels levels;
  levels.add(x);
  return engine::shown(x, levels, x->shape.size(), true);
}

Tensor over_samples(const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
  if (!engine::is_hidden(x)) return f(x);
  engine::Levels levels;
  levels.add(x);
  return engine::hide_front(f(engine::shown(x, levels, x->shape.size(), true)), levels);
}

bool hides(std::initializer_list<Tensor> tensors) {
  if (!hiding()) return false;
  for (const Tensor& t : tensors)
    if (t.defined() && engine::hidden_of(t)) return true;
  return false;
}

}  // namespace ops

Tensor operations::sum_level(const Tensor& t, uint32_t id, int64_t size) {
  return sum(ops::show(t, 0, {id, size}), IntList{0});
}

}  // namespace pyflame
