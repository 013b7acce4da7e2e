// as_strided: a view that may lie anywhere in a tensor's memory.
#include <algorithm>

#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/functions.h"
#include "ops/hidden.h"

namespace pyflame {

using ops::Geometry;

namespace {

// The place behind the last element.
int64_t end_of(const Geometry& g) {
  int64_t end = g.offset + 1;
  for (int d = 0; d < g.shape.size(); ++d) {
    if (g.shape[d] == 0) return g.offset;
    end += (g.shape[d] - 1) * g.strides[d];
  }
  return end;
}

// The gradient of `base` for that of a view which may lie anywhere in the same memory; one without
// elements may begin outside of it.
Tensor strided_gradient(const Tensor& grad, Geometry view, Geometry base) {
  if (grad->numel == 0 || numel(base.shape) == 0)
    return zeros(base.shape.vec(), grad->dtype, grad->storage->device);
  const int64_t first = std::min(view.offset, base.offset);
  const int64_t size = std::max(end_of(view), end_of(base)) - first;
  view.offset -= first;
  base.offset -= first;
  if (base.offset == 0 && is_contiguous(base.shape, base.strides) && size == end_of(base))
    return ops::scatter_view(grad, base.shape, view);
  const Dims flat{size};
  Tensor memory = ops::scatter_view(grad, flat, view);
  if (may_self_overlap(base.shape,
                       base.strides)) {  // each of those that share an element has a part
    const DType number = is_complex(grad) ? DType::Float32 : grad->dtype;
    const Tensor one = full(base.shape.vec(), 1, number, grad->storage->device);
    memory = div(memory, clamp(ops::scatter_view(one, flat, base), Scalar(1), std::nullopt));
  }
  return contiguous(as_strided(memory, base.shape.vec(), base.strides.vec(), base.offset));
}

}  // namespace

Tensor as_strided(const Tensor& t, const IntList& size, const IntList& stride, int64_t offset) {
  ops::check_defined(t, "as_strided");
  PF_CHECK(size.size() == stride.size(), ShapeError, "as_strided", "got ", size.size(),
           " sizes and ", stride.size(), " strides; expected as many; give one for each dimension");
  Geometry g{Dims(size), Dims(stride), offset};
  const int64_t n = checked_numel(g.shape, "as_strided");
  int64_t last = offset;
  const auto limit =
      static_cast<int64_t>(t->storage->nbytes * 8 / static_cast<size_t>(info(t->dtype).bits));
  for (int d = 0; d < g.shape.size(); ++d) {
    PF_CHECK(g.strides[d] >= 0, ValueError, "as_strided", "got strides ", g.strides,
             "; expected none below 0; use flip to turn a dimension round");
    int64_t reach;
    const bool fits =
        !__builtin_mul_overflow(std::max<int64_t>(g.shape[d] - 1, 0), g.strides[d], &reach) &&
        !__builtin_add_overflow(last, reach, &last);
    PF_CHECK(fits, ValueError, "as_strided", "got size ", g.shape, " and strides ", g.strides,
             "; expected positions within the ", limit, " elements of the storage; check them");
  }
  PF_CHECK(offset >= 0 && (n == 0 || last < limit), ValueError, "as_strided", "got size ", g.shape,
           ", strides ", g.strides, " and offset ", offset, ", which reach element ", last,
           "; expected positions within the ", limit, " elements of the storage; check them");
  const Hidden* hidden = hiding() ? engine::hidden_of(t) : nullptr;
  for (int i = 0; hidden && i < hidden->n; ++i)
    PF_CHECK(
        n == 0 || hidden->dims[i].stride == 0 || last < hidden->dims[i].stride, NotSupportedError,
        "as_strided",
        "the samples of vmap() do not lie one behind the other in memory, so a view by strides "
        "would look at several; call clone() first");
  const auto again = [size, stride, offset](const Tensor& b) {
    return as_strided(b, size, stride, offset);
  };
  const auto back_to = [&g](const Tensor& from) {
    return [g, base = ops::geometry_of(from)](const Tensor& grad) {
      return strided_gradient(grad, g, base);
    };
  };
  Tensor r = ops::viewed(t, ops::raw_view(t, g), again, "as_strided", back_to(t));
  // Of a view: it may reach what that does not, so for writes it is one of the base itself.
  if (auto* m = r->meta; m && m->steps && m->steps->before && m->base->dtype == t->dtype)
    m->steps =
        std::make_shared<autograd::ViewStep>(autograd::ViewStep{nullptr, again, back_to(m->base)});
  return r;
}

}  // namespace pyflame
