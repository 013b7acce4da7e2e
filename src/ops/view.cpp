// Views: other shapes over the same memory. Nothing is recorded and nothing is copied.
#include <algorithm>

#include "core/limits.h"
#include "core/room.h"
#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/hidden.h"
#include "ops/registry.h"
#include "ops/side_by_side.h"

namespace pyflame {

using ops::Geometry;
using ops::packed;
using ops::raw_view;

namespace {

// A view that picks elements: `pick` maps the geometry of any base to that of the view. Its
// gradient is zero wherever nothing was picked.
template <class Pick>
Tensor picking_view(const Tensor& base, const char* name, const Pick& pick) {
  return ops::viewed(
      base, raw_view(base, pick(ops::geometry_of(base))),
      [name, pick](const Tensor& b) { return picking_view(b, name, pick); }, name,
      [pick, shape = base->shape](const Tensor& g) {
        return ops::scatter_view(g, shape, pick(packed(shape)));
      });
}

}  // namespace

Tensor view(const Tensor& t, const IntList& size) {
  ops::check_defined(t, "view");
  Dims shape = infer_shape(Dims(size), t->numel, "view"), strides;
  PF_CHECK(view_strides(t->shape, t->strides, shape, &strides), ShapeError, "view", "got ",
           t->shape, " with strides ", t->strides, " to be seen as ", shape,
           "; expected a shape that its memory order allows; use reshape, which copies if it must");
  return ops::viewed(
      t, make_view(t, shape, strides, t->offset),
      [shape](const Tensor& b) { return view(b, shape.vec()); }, "view",
      [old = t->shape](const Tensor& g) { return reshape(g, old.vec()); });
}

Tensor reshape(const Tensor& t, const IntList& size) {
  ops::check_defined(t, "reshape");
  Dims shape = infer_shape(Dims(size), t->numel, "reshape"), strides;
  if (shape == t->shape) return t;
  if (!view_strides(t->shape, t->strides, shape, &strides)) return view(clone(t), shape.vec());
  return ops::viewed(
      t, make_view(t, shape, strides, t->offset),
      [shape](const Tensor& b) { return reshape(b, shape.vec()); }, "reshape",
      [old = t->shape](const Tensor& g) { return reshape(g, old.vec()); });
}

Tensor permute(const Tensor& t, const IntList& dims) {
  ops::check_defined(t, "permute");
  const int n = t->shape.size();
  PF_CHECK(static_cast<int>(dims.size()) == n, ShapeError, "permute", "got ", dims.size(),
           " dimensions for a tensor of shape ", t->shape, "; expected each of its ", n,
           " dimensions once; list them all");
  Dims shape = t->shape, strides = t->strides, order = shape, inverse = Dims::filled(n, -1);
  for (int i = 0; i < n; ++i) {
    int d = wrap_dim(dims[static_cast<size_t>(i)], n, "permute");
    PF_CHECK(inverse[d] < 0, ValueError, "permute", "got dimension ", d,
             " twice; expected each dimension once; remove the repetition");
    order[i] = d;
    inverse[d] = i;
    shape[i] = t->shape[d];
    strides[i] = t->strides[d];
  }
  return ops::viewed(
      t, make_view(t, shape, strides, t->offset),
      [order](const Tensor& b) { return permute(b, order.vec()); }, "permute",
      [inverse](const Tensor& g) { return permute(g, inverse.vec()); });
}

Tensor transpose(const Tensor& t, int64_t dim0, int64_t dim1) {
  ops::check_defined(t, "transpose");
  const int n = t->shape.size();
  const int a = wrap_dim(dim0, n, "transpose"), b = wrap_dim(dim1, n, "transpose");
  Dims shape = t->shape, strides = t->strides;
  if (a != b) {
    std::swap(shape[a], shape[b]);
    std::swap(strides[a], strides[b]);
  }
  auto again = [a, b](const Tensor& x) { return transpose(x, a, b); };
  return ops::viewed(t, make_view(t, shape, strides, t->offset), again, "transpose", again);
}

namespace {

Tensor squeeze_where(const Tensor& t, uint32_t dims) {
  Dims shape, strides;
  for (int d = 0; d < t->shape.size(); ++d) {
    if (t->shape[d] == 1 && (dims >> d & 1)) continue;
    shape.push_back(t->shape[d]);
    strides.push_back(t->strides[d]);
  }
  return ops::viewed(
      t, make_view(t, shape, strides, t->offset),
      [dims](const Tensor& b) { return squeeze_where(b, dims); }, "squeeze",
      [old = t->shape](const Tensor& g) { return reshape(g, old.vec()); });
}

}  // namespace

Tensor squeeze(const Tensor& t) {
  ops::check_defined(t, "squeeze");
  return squeeze_where(t, ~0u);
}

Tensor squeeze(const Tensor& t, int64_t dim) {
  ops::check_defined(t, "squeeze");
  return squeeze_where(t, 1u << wrap_dim(dim, t->shape.size(), "squeeze"));
}

static Tensor squeeze_dims(const Tensor& t, const IntList& dims) {
  ops::check_defined(t, "squeeze");
  uint32_t mask = 0;
  for (int64_t d : dims) {
    const uint32_t bit = 1u << wrap_dim(d, t->shape.size(), "squeeze");
    PF_CHECK(!(mask & bit), ValueError, "squeeze", "got dimension ", d,
             " twice; expected each once; leave one out");
    mask |= bit;
  }
  return squeeze_where(t, mask);
}

Tensor unsqueeze(const Tensor& t, int64_t dim) {
  ops::check_defined(t, "unsqueeze");
  const int d = wrap_dim(dim, t->shape.size() + 1, "unsqueeze");
  Dims shape = t->shape, strides = t->strides;
  strides.insert(d, d < shape.size() ? shape[d] * strides[d] : 1);
  shape.insert(d, 1);
  return ops::viewed(
      t, make_view(t, shape, strides, t->offset), [d](const Tensor& b) { return unsqueeze(b, d); },
      "unsqueeze", [d](const Tensor& g) { return squeeze(g, d); });
}

Tensor expand(const Tensor& t, const IntList& size) {
  ops::check_defined(t, "expand");
  Dims target(size);
  const int extra = target.size() - t->shape.size();
  PF_CHECK(extra >= 0, ShapeError, "expand", "got size ", target, " for a tensor of shape ",
           t->shape, "; expected at least as many dimensions as it has; give every dimension");
  for (int d = 0; d < target.size(); ++d) {
    if (target[d] == -1 && d >= extra) target[d] = t->shape[d - extra];
    const bool fits = target[d] >= 0 &&
                      (d < extra || t->shape[d - extra] == 1 || t->shape[d - extra] == target[d]);
    PF_CHECK(fits, ShapeError, "expand", "got size ", Dims(size), " for a tensor of shape ",
             t->shape, "; expected dimension ", d,
             " to be its own size, or any where its size is 1; use repeat to copy");
  }
  checked_numel(target, "expand");
  return ops::viewed(
      t, make_view(t, target, broadcast_strides(t->shape, t->strides, target), t->offset),
      [size](const Tensor& b) { return expand(b, size); }, "expand",
      [old = t->shape](const Tensor& g) { return ops::sum_to(g, old); });
}

Tensor flatten(const Tensor& t, int64_t start_dim, int64_t end_dim) {
  ops::check_defined(t, "flatten");
  const int n = t->shape.size();
  const int a = wrap_dim(start_dim, n, "flatten"), b = wrap_dim(end_dim, n, "flatten");
  PF_CHECK(a <= b, ValueError, "flatten", "got start_dim ", start_dim, " and end_dim ", end_dim,
           " for shape ", t->shape, "; expected start_dim not after end_dim; swap them");
  if (n == 0) return reshape(t, {1});
  if (a == b) return t;
  Dims shape;
  int64_t joined = 1;
  for (int d = 0; d < n; ++d) {
    if (d < a || d > b) {
      shape.push_back(t->shape[d]);
    } else {
      joined *= t->shape[d];
      if (d == b) shape.push_back(joined);
    }
  }
  return reshape(t, shape.vec());
}

Tensor select(const Tensor& t, int64_t dim, int64_t index) {
  ops::check_defined(t, "select");
  PF_CHECK(t->shape.size() > 0, IndexError, "select",
           "got a tensor of 0 dimensions; expected at least one to select from; use item() for its "
           "number");
  const int d = wrap_dim(dim, t->shape.size(), "select");
  PF_CHECK(index >= -t->shape[d] && index < t->shape[d], IndexError, "select", "got index ", index,
           " for dimension ", d, " of shape ", t->shape, "; expected ", -t->shape[d],
           " <= index < ", t->shape[d], "; check the bounds");
  if (index < 0) index += t->shape[d];
  return picking_view(t, "select", [d, index](const Geometry& g) {
    Geometry r = g;
    r.offset += index * g.strides[d];
    r.shape.erase(d);
    r.strides.erase(d);
    return r;
  });
}

Tensor slice(const Tensor& t, int64_t dim, int64_t start, int64_t end, int64_t step) {
  ops::check_defined(t, "slice");
  PF_CHECK(t->shape.size() > 0, IndexError, "slice",
           "got a tensor of 0 dimensions; expected at least one to slice; unsqueeze it first");
  PF_CHECK(step > 0, ValueError, "slice", "got step ", step,
           "; expected a step of at least 1; use flip to turn a dimension round");
  const int d = wrap_dim(dim, t->shape.size(), "slice");
  const int64_t n = t->shape[d];
  auto clip = [n](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n); };
  start = clip(start);
  end = std::max(start, clip(end));
  if (start == 0 && end == n && step == 1) {  // still a view of its own
    return ops::viewed(
        t, raw_view(t, ops::geometry_of(t)),
        [d](const Tensor& b) { return slice(b, d, 0, b->shape[d]); }, "slice",
        [](const Tensor& g) { return g; });
  }
  // Written so that a step near 2^63 does not overflow.
  const int64_t count = end > start ? (end - start - 1) / step + 1 : 0;
  return picking_view(t, "slice", [d, start, count, step](const Geometry& g) {
    Geometry r = g;
    if (g.shape[d] > 0 && count > 0) r.offset += start * g.strides[d];
    r.shape[d] = count;
    r.strides[d] = count > 1 ? g.strides[d] * step : g.strides[d];
    return r;
  });
}

Tensor narrow(const Tensor& t, int64_t dim, int64_t start, int64_t length) {
  ops::check_defined(t, "narrow");
  PF_CHECK(t->shape.size() > 0, IndexError, "narrow",
           "got a tensor of 0 dimensions; expected at least one; unsqueeze it first");
  const int d = wrap_dim(dim, t->shape.size(), "narrow");
  const int64_t n = t->shape[d];
  if (start < 0) start += n;
  PF_CHECK(start >= 0 && length >= 0 && start <= n - length, IndexError, "narrow", "got start ",
           start, " and length ", length, " for dimension ", d, " of shape ", t->shape,
           "; expected them to stay within ", n, "; check the bounds");
  return slice(t, d, start, start + length);
}

static Tensor as_strided_here(const Tensor& t, const IntList& size, const IntList& stride,
                              std::optional<int64_t> offset) {
  ops::check_defined(t, "as_strided");
  return as_strided(t, size, stride, offset.value_or(t->offset));
}

static Tensor movedim(const Tensor& t, const IntList& source, const IntList& destination) {
  ops::check_defined(t, "movedim");
  const int n = t->shape.size();
  PF_CHECK(source.size() == destination.size(), ShapeError, "movedim", "got ", source.size(),
           " sources and ", destination.size(), " destinations; expected as many; pair them up");
  if (n == 0) {
    for (int64_t d : source) wrap_dim(d, 0, "movedim");
    for (int64_t d : destination) wrap_dim(d, 0, "movedim");
    return t;
  }
  IntList order(static_cast<size_t>(n), -1);
  std::vector<bool> used(static_cast<size_t>(n), false);
  for (size_t i = 0; i < source.size(); ++i) {
    auto from = static_cast<size_t>(wrap_dim(source[i], n, "movedim"));
    auto to = static_cast<size_t>(wrap_dim(destination[i], n, "movedim"));
    PF_CHECK(!used[from] && order[to] < 0, ValueError, "movedim", "got source ", Dims(source),
             " and destination ", Dims(destination),
             "; expected no dimension twice; remove the repetition");
    used[from] = true;
    order[to] = static_cast<int64_t>(from);
  }
  size_t next = 0;
  for (auto& d : order) {
    if (d >= 0) continue;
    while (used[next]) ++next;
    d = static_cast<int64_t>(next++);
  }
  return permute(t, order);
}

Tensor diagonal(const Tensor& t, int64_t offset, int64_t dim1, int64_t dim2) {
  ops::check_defined(t, "diagonal");
  const int n = t->shape.size();
  const int a = wrap_dim(dim1, n, "diagonal"), b = wrap_dim(dim2, n, "diagonal");
  PF_CHECK(a != b, ValueError, "diagonal", "got dim1 and dim2 both ", a, " for shape ", t->shape,
           "; expected two different dimensions; name another");
  return picking_view(t, "diagonal", [a, b, offset](const Geometry& g) {
    Geometry r = g;
    const int64_t rows = offset < 0 ? g.shape[a] + offset : g.shape[a];
    const int64_t columns = offset > 0 ? g.shape[b] - offset : g.shape[b];
    const int64_t length = std::max<int64_t>(std::min(rows, columns), 0);
    if (length > 0) r.offset += offset >= 0 ? offset * g.strides[b] : -offset * g.strides[a];
    const int64_t step = g.strides[a] + g.strides[b];
    for (int d : {std::max(a, b), std::min(a, b)}) {
      r.shape.erase(d);
      r.strides.erase(d);
    }
    r.shape.push_back(length);
    r.strides.push_back(step);
    return r;
  });
}

static Tensor unfold(const Tensor& t, int64_t dimension, int64_t size, int64_t step) {
  ops::check_defined(t, "unfold");
  const int n = t->shape.size();
  const int d = wrap_dim(dimension, n, "unfold");
  const int64_t length = n == 0 ? 1 : t->shape[d];
  PF_CHECK(size >= 0 && size <= length && step > 0, ValueError, "unfold", "got size ", size,
           " and step ", step, " for dimension ", d, " of shape ", t->shape,
           "; expected 0 <= size <= ", length, " and a positive step; check them");
  if (n == 0) return slice(unsqueeze(t, 0), 0, 0, size);
  return picking_view(t, "unfold", [d, size, step](const Geometry& g) {
    Geometry r = g;
    r.shape[d] = (g.shape[d] - size) / step + 1;
    r.strides[d] = g.strides[d] * step;
    r.shape.push_back(size);
    r.strides.push_back(g.strides[d]);
    return r;
  });
}

// ---- several views of one tensor ----------------------------------------------------------------

namespace {

TensorList every(const autograd::Context& c) {  // gradient, zeros for those that are missing
  TensorList all;
  for (size_t i = 0; i < c.grads.size(); ++i) all.push_back(c.grad(i));
  return all;
}

Tensor joined(const TensorList& pieces, int d) {
  const Tensor whole = ops::seen_as_one(pieces, d);
  return whole.defined() ? whole : cat(pieces, d);
}

// Pieces of the given sizes, one after the other along `d`.
TensorList pieces(const Tensor& t, int d, const IntList& sizes) {
  TensorList out;
  int64_t at = 0;
  for (int64_t s : sizes) {
    out.push_back(slice(t, d, at, at + s));
    at += s;
  }
  // One node for all pieces: their gradients are joined once instead of padded and added.
  if (out.size() > 1 && autograd::wanted({t}))
    autograd::attach(
        "split", out, std::span<const Tensor>(&t, 1), {},
        [d](const autograd::Context& c) -> autograd::Grads { return {joined(every(c), d)}; });
  return out;
}

int split_dim(const Tensor& t, int64_t dim, const char* op) {
  ops::check_defined(t, op);
  PF_CHECK(t->shape.size() > 0, ShapeError, op,
           "got a tensor of 0 dimensions; expected at least one to cut; unsqueeze it first");
  return wrap_dim(dim, t->shape.size(), op);
}

}  // namespace

// Before as many views are made as a size or an argument says, which no memory stands behind.
static void check_pieces(int64_t count, const char* op) {
  constexpr int64_t kMany = 1 << 20;
  constexpr size_t kEach = 256;  // bytes that a view takes
  PF_CHECK(count < int64_t{1} << 31, ValueError, op, "got a call for ", count,
           " tensors; expected fewer than 2^31; take larger pieces");
  PF_CHECK(count < kMany || has_room(static_cast<size_t>(count) * kEach), OutOfMemoryError, op,
           "there is no memory for ", count, " tensors; this process may have ", memory_limits(),
           "; take larger pieces");
}

// What split() and its like give: pieces that are not written where gradients are wanted.
static TensorList several(TensorList out) {
  autograd::note_several(out);
  return out;
}

TensorList split(const Tensor& t, int64_t size, int64_t dim) {
  const int d = split_dim(t, dim, "split");
  const int64_t n = t->shape[d];
  PF_CHECK(size > 0 || (size == 0 && n == 0), ValueError, "split", "got size ", size,
           " for dimension ", d, " of shape ", t->shape,
           "; expected at least 1; give a positive "
           "size of the pieces");
  const int64_t count = n > 0 ? (n - 1) / size + 1 : 0;
  check_pieces(count, "split");
  IntList sizes;
  for (int64_t i = 0; i < count; ++i) sizes.push_back(std::min(size, n - i * size));
  if (sizes.empty()) sizes.push_back(0);
  return several(pieces(t, d, sizes));
}

TensorList split(const Tensor& t, const IntList& sizes, int64_t dim) {
  const int d = split_dim(t, dim, "split");
  int64_t total = 0;
  for (int64_t s : sizes) {
    PF_CHECK(s >= 0, ValueError, "split", "got sizes with ", s,
             "; expected none below 0; correct the list");
    total += s;
  }
  PF_CHECK(total == t->shape[d], ShapeError, "split", "got sizes that add up to ", total,
           " for dimension ", d, " of shape ", t->shape, "; expected ", t->shape[d],
           "; correct the list");
  return several(pieces(t, d, sizes));
}

TensorList chunk(const Tensor& t, int64_t chunks, int64_t dim) {
  const int d = split_dim(t, dim, "chunk");
  PF_CHECK(chunks > 0, ValueError, "chunk", "got ", chunks,
           " chunks; expected at least 1; give a positive number");
  const int64_t n = t->shape[d];
  if (n == 0) {
    check_pieces(chunks, "chunk");
    return several(pieces(t, d, IntList(static_cast<size_t>(chunks), 0)));
  }
  return split(t, (n - 1) / chunks + 1, d);
}

static TensorList tensor_split(const Tensor& t, int64_t sections, int64_t dim) {
  const int d = split_dim(t, dim, "tensor_split");
  PF_CHECK(sections > 0, ValueError, "tensor_split", "got ", sections,
           " sections; expected at least 1; correct the number");
  check_pieces(sections, "tensor_split");
  const int64_t n = t->shape[d];
  IntList sizes;
  for (int64_t i = 0; i < sections; ++i) sizes.push_back(n / sections + (i < n % sections));
  return pieces(t, d, sizes);
}

static TensorList tensor_split_at(const Tensor& t, const IntList& indices, int64_t dim) {
  const int d = split_dim(t, dim, "tensor_split");
  TensorList out;
  int64_t begin = 0;
  for (int64_t i : indices) {
    out.push_back(slice(t, d, begin, i));
    begin = i;
  }
  out.push_back(slice(t, d, begin, t->shape[d]));
  return out;
}

TensorList unbind(const Tensor& t, int64_t dim) {
  const int d = split_dim(t, dim, "unbind");
  check_pieces(t->shape[d], "unbind");
  TensorList out;
  for (int64_t i = 0; i < t->shape[d]; ++i) out.push_back(select(t, d, i));
  if (out.size() > 1 && autograd::wanted({t}))
    autograd::attach("unbind", out, std::span<const Tensor>(&t, 1), {},
                     [d](const autograd::Context& c) -> autograd::Grads {
                       TensorList grads;
                       for (const Tensor& g : every(c)) grads.push_back(unsqueeze(g, d));
                       return {joined(grads, d)};
                     });
  return several(std::move(out));
}

// ---- other names and small combinations ---------------------------------------------------------

static Tensor unflatten(const Tensor& t, int64_t dim, const IntList& sizes) {
  ops::check_defined(t, "unflatten");
  const int d = split_dim(t, dim, "unflatten");
  Dims inner = infer_shape(Dims(sizes), t->shape[d], "unflatten"), shape;
  for (int i = 0; i < t->shape.size(); ++i) {
    if (i != d)
      shape.push_back(t->shape[i]);
    else
      for (int64_t s : inner) shape.push_back(s);
  }
  return reshape(t, shape.vec());
}

static Tensor matrix_t(const Tensor& t) {
  ops::check_defined(t, "t");
  PF_CHECK(t->shape.size() <= 2, ShapeError, "t", "got shape ", t->shape,
           "; expected at most 2 dimensions; use transpose and name the two dimensions");
  return t->shape.size() < 2 ? t : transpose(t, 0, 1);
}

static Tensor reverse_dims(const Tensor& t) {
  IntList order;
  for (int d = t->shape.size() - 1; d >= 0; --d) order.push_back(d);
  return permute(t, order);
}

static Tensor matrix_transpose(const Tensor& t) {
  PF_CHECK(t->shape.size() >= 2, ShapeError, "mT", "got shape ", t->shape,
           "; expected at least 2 dimensions; unsqueeze it first");
  return transpose(t, -2, -1);
}

static Tensor reshape_as(const Tensor& t, const Tensor& other) {
  return reshape(t, other->shape.vec());
}
static Tensor view_as(const Tensor& t, const Tensor& other) {
  return view(t, other->shape.vec());
}
static Tensor expand_as(const Tensor& t, const Tensor& other) {
  return expand(t, other->shape.vec());
}
static Tensor ravel(const Tensor& t) {
  return contiguous(reshape(t, {-1}));
}

static TensorList broadcast_tensors(const TensorList& tensors) {
  Dims shape;
  for (const Tensor& t : tensors) shape = broadcast_shapes(shape, t->shape, "broadcast_tensors");
  TensorList out;
  for (const Tensor& t : tensors) out.push_back(t->shape == shape ? t : expand(t, shape.vec()));
  return out;
}

static Tensor slice_to(const Tensor& t, int64_t dim, std::optional<int64_t> start,
                       std::optional<int64_t> end, int64_t step) {
  return slice(t, dim, start.value_or(0), end.value_or(INT64_MAX), step);
}

// The same bytes read as another dtype.
static Tensor view_dtype(const Tensor& t, DType dtype) {
  ops::check_defined(t, "view");
  const int64_t from = info(t->dtype).bits, to = info(dtype).bits;
  Geometry g = ops::geometry_of(t);
  if (from != to) {
    const int last = g.shape.size() - 1;
    bool fits = last >= 0 && (g.strides[last] == 1 || g.shape[last] <= 1);
    const int64_t ratio = from > to ? from / to : to / from;
    if (fits) g.strides[last] = 1;
    if (fits && from > to) {
      g.shape[last] *= ratio;
      g.offset *= ratio;
      for (int d = 0; d < last; ++d) g.strides[d] *= ratio;
    } else if (fits) {
      fits = g.shape[last] % ratio == 0 && g.offset % ratio == 0;
      g.shape[last] /= ratio;
      g.offset /= ratio;
      for (int d = 0; d < last; ++d) {
        fits = fits && g.strides[d] % ratio == 0;
        g.strides[d] /= ratio;
      }
    }
    fits = fits && (from > to || ops::steps_divide(t, ratio));
    PF_CHECK(fits, ShapeError, "view", "got ", t->dtype, " of shape ", t->shape, " with strides ",
             t->strides, " to be seen as ", dtype,
             "; expected a last dimension without gaps that the sizes divide; call contiguous(), "
             "or convert values with .to(dtype)");
  }
  PF_CHECK(to >= 8 || (g.offset == 0 && is_contiguous(g.shape, g.strides)), NotSupportedError,
           "view", "got memory with strides ", g.strides, " from element ", g.offset,
           " on to be seen as ", dtype,
           ", two elements in a byte; expected contiguous memory from its start; copy it first");
  Tensor r = raw_view(t, ops::geometry_of(t));
  if (from != to)
    ops::scale_steps(r, std::max<int64_t>(from / to, 1), std::max<int64_t>(to / from, 1));
  r->dtype = dtype;
  r->shape = g.shape;
  r->strides = g.strides;
  r->offset = g.offset;
  r->numel = numel(g.shape);
  r->contiguous = is_contiguous(g.shape, g.strides);
  return r;
}

namespace ops {
namespace {

TensorList split_along(const Tensor& t, const ops::Value& by, int d, int least, const char* op) {
  ops::check_defined(t, op);
  PF_CHECK(t->shape.size() >= least, ShapeError, op, "got shape ", t->shape, "; expected at least ",
           least, " dimensions; unsqueeze it first");
  TensorList out;
  int64_t begin = 0;
  const int64_t n = t->shape[d];
  if (const auto* sections = std::get_if<int64_t>(&by)) {
    PF_CHECK(*sections > 0 && n % *sections == 0, ShapeError, op, "got ", *sections,
             " sections for size ", n, "; expected a divisor of it; use tensor_split");
    for (int64_t i = 0; i < *sections; ++i)  // of a size of 0, too
      out.push_back(slice(t, d, i * (n / *sections), (i + 1) * (n / *sections)));
    return out;
  }
  for (int64_t i : std::get<IntList>(by)) {
    out.push_back(slice(t, d, begin, i));
    begin = i;
  }
  out.push_back(slice(t, d, begin, n));
  return out;
}

TensorList hsplit(const Tensor& t, int64_t sections) {
  check_defined(t, "hsplit");
  return split_along(t, Value(sections), t->shape.size() == 1 ? 0 : 1, 1, "hsplit");
}

TensorList hsplit_at(const Tensor& t, const IntList& indices) {
  check_defined(t, "hsplit");
  return split_along(t, Value(indices), t->shape.size() == 1 ? 0 : 1, 1, "hsplit");
}

const Family kViews("views", [](Family& f) {
  f.op(&view, {"view(Tensor input, int[] size|shape) -> Tensor",
               "The same elements in another shape, without a copy. One size may be -1. Raises "
               "ShapeError where the memory order does not allow it; reshape copies then.",
               kMethod});
  f.op(&view_dtype, {"view(Tensor input, dtype dtype) -> Tensor",
                     "The same bytes read as another dtype, without a copy. The last dimension "
                     "shrinks or grows with the size of an element.",
                     kMethod, false});
  f.op(&view_as,
       {"view_as(Tensor input, Tensor other) -> Tensor", "`input.view(other.shape)`.", kMethod});
  f.op(&reshape, {"reshape(Tensor input, int[] shape) -> Tensor",
                  "The same elements in another shape: a view where the memory order allows it, a "
                  "copy otherwise. One size may be -1."});
  f.op(&reshape_as, {"reshape_as(Tensor input, Tensor other) -> Tensor",
                     "`input.reshape(other.shape)`.", kMethod});
  f.op(&permute, {"permute(Tensor input, int[] dims) -> Tensor",
                  "The dimensions in another order; a view. Dimension i of the result is dims[i] "
                  "of the input."});
  f.op(&transpose, {"transpose(Tensor input, int dim0, int dim1) -> Tensor",
                    "Two dimensions exchanged; a view."});
  f.op(&transpose, {"swapaxes(Tensor input, int axis0, int axis1) -> Tensor",
                    "Two dimensions exchanged; a view. The same as transpose."});
  f.op(&transpose, {"swapdims(Tensor input, int dim0, int dim1) -> Tensor",
                    "Two dimensions exchanged; a view. The same as transpose."});
  f.op(&matrix_t,
       {"t(Tensor input) -> Tensor",
        "The transpose of a matrix; vectors and scalars come back as they are. A view."});
  f.op(&reverse_dims,
       {"numpy_T(Tensor input) -> Tensor", "Dimensions in reverse order: `x.T`.", kSpecial});
  f.op(&matrix_transpose, {"matrix_T(Tensor input) -> Tensor",
                           "The last two dimensions exchanged: `x.mT`.", kSpecial});
  f.op(&adjoint,
       {"adjoint(Tensor input) -> Tensor",
        "The last two dimensions exchanged, of complex numbers the conjugate; of real ones "
        "a view."});
  f.op(static_cast<Tensor (*)(const Tensor&)>(&squeeze),
       {"squeeze(Tensor input) -> Tensor", "Without its dimensions of size 1; a view."});
  f.op(&squeeze_dims, {"squeeze(Tensor input, int[] dim) -> Tensor",
                       "Without the named dimensions, where their size is 1; a view."});
  f.op(&unsqueeze, {"unsqueeze(Tensor input, int dim) -> Tensor",
                    "With a new dimension of size 1 at `dim`; a view."});
  f.op(+[](const Tensor& t, const IntList& size, bool) { return expand(t, size); },
       {"expand(Tensor input, int[] size, *, bool implicit=False) -> Tensor",
        "Dimensions of size 1 repeated to `size` without a copy (stride 0); new ones come "
        "first; -1 keeps a size. The result must not be written in place.",
        kMethod});
  f.op(&expand, {"broadcast_to(Tensor input, int[] size) -> Tensor",
                 "The tensor as if it had shape `size`, by the broadcasting rule; a view."});
  f.op(&expand_as, {"expand_as(Tensor input, Tensor other) -> Tensor",
                    "`input.expand(other.shape)`.", kMethod});
  f.op(&broadcast_tensors, {"broadcast_tensors(Tensor[] tensors) -> Tensor[]",
                            "All tensors expanded to their common shape; views.", kFunction});
  f.op(&flatten, {"flatten(Tensor input, int start_dim=0, int end_dim=-1) -> Tensor",
                  "Dimensions start_dim to end_dim joined into one."});
  f.op(&unflatten, {"unflatten(Tensor input, int dim, int[] sizes) -> Tensor",
                    "One dimension cut into several; one size may be -1."});
  f.op(&ravel, {"ravel(Tensor input) -> Tensor", "One dimension with all elements."});
  f.op(&select, {"select(Tensor input, int dim, int index) -> Tensor",
                 "One index of a dimension, which goes away: x[:, i] is select(1, i). A view."});
  f.op(&slice_to, {"slice(Tensor input, int dim=0, int? start=None, int? end=None, int step=1) "
                   "-> Tensor",
                   "A range of a dimension, as Python slices; a view.", kSpecial});
  f.op(&narrow, {"narrow(Tensor input, int dim, int start, int length) -> Tensor",
                 "`length` indices of a dimension from `start` on; a view. IndexError where they "
                 "leave it."});
  f.op(&as_strided_here,
       {"as_strided(Tensor input, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
        "Any geometry over the tensor's storage, checked against its bounds. Gradients need a "
        "contiguous input."});
  f.op(&movedim, {"movedim(Tensor input, int[] source, int[] destination) -> Tensor",
                  "Dimensions moved to new positions, the others keep their order; a view."});
  f.op(&movedim, {"moveaxis(Tensor input, int[] source, int[] destination) -> Tensor",
                  "The same as movedim."});
  f.op(&diagonal,
       {"diagonal(Tensor input, int offset=0, int dim1=0, int dim2=1) -> Tensor",
        "The diagonal of two dimensions as the last dimension; a view. A positive offset "
        "is above the main diagonal."});
  f.op(&unfold, {"unfold(Tensor input, int dimension, int size, int step) -> Tensor",
                 "All windows of `size` along a dimension, `step` apart, as a new last dimension; "
                 "a view.",
                 kMethod});
  f.op(static_cast<TensorList (*)(const Tensor&, int64_t, int64_t)>(&split),
       {"split(Tensor input|tensor, int split_size_or_sections|split_size, int dim=0) -> Tensor[]",
        "Pieces of a size along a dimension; the last may be smaller. Views."});
  f.op(
      static_cast<TensorList (*)(const Tensor&, const IntList&, int64_t)>(&split),
      {"split(Tensor input|tensor, int[] split_size_or_sections|split_size, int dim=0) -> Tensor[]",
       "Pieces of the given sizes along a dimension. Views."});
  f.op(static_cast<TensorList (*)(const Tensor&, const IntList&, int64_t)>(&split),
       {"split_with_sizes(Tensor input, int[] split_sizes, int dim=0) -> Tensor[]",
        "Pieces of the given sizes along a dimension. Views."});
  f.op(&chunk, {"chunk(Tensor input, int chunks, int dim=0) -> Tensor[]",
                "At most `chunks` pieces of equal size, the last may be smaller. Views."});
  f.op(
      +[](const Tensor& t, const Tensor& given, int64_t dim) {
        const std::vector<int64_t> at = as_index(given, "tensor_split").to_vector<int64_t>();
        PF_CHECK(given->shape.size() <= 1, ShapeError, "tensor_split", "got indices of shape ",
                 given->shape, "; expected a 0-d number of pieces or 1-d indices; ravel them");
        return given->shape.empty() ? tensor_split(t, at[0], dim) : tensor_split_at(t, at, dim);
      },
      {"tensor_split(Tensor input, Tensor tensor_indices_or_sections|indices_or_sections, int "
       "dim=0) -> Tensor[]",
       "A 0-d tensor is a number of pieces, a 1-d tensor are indices to cut at. Views."});
  f.op(&tensor_split,
       {"tensor_split(Tensor input, int indices_or_sections|sections, int dim=0) -> Tensor[]",
        "Exactly so many pieces, sizes differing by at most 1. Views."});
  f.op(&tensor_split_at,
       {"tensor_split(Tensor input, int[] indices_or_sections|indices, int dim=0) -> Tensor[]",
        "Pieces cut at the given indices. Views."});
  f.op(&unbind, {"unbind(Tensor input, int dim=0) -> Tensor[]",
                 "One tensor for every index of a dimension, which goes away. Views."});
  f.op(&hsplit, {"hsplit(Tensor input, int sections) -> Tensor[]",
                 "Equal pieces along the second dimension (the first of 1-D tensors). Views."});
  f.op(&hsplit_at, {"hsplit(Tensor input, int[] indices) -> Tensor[]",
                    "Pieces cut at indices of the second dimension. Views."});
  f.op(+[](const Tensor& t, int64_t n) { return split_along(t, Value(n), 0, 2, "vsplit"); },
       {"vsplit(Tensor input, int sections) -> Tensor[]",
        "Equal pieces along the first dimension. Views."});
  f.op(
      +[](const Tensor& t, const IntList& at) { return split_along(t, Value(at), 0, 2, "vsplit"); },
      {"vsplit(Tensor input, int[] indices) -> Tensor[]",
       "Pieces cut at indices of the first dimension. Views."});
  f.op(+[](const Tensor& t, int64_t n) { return split_along(t, Value(n), 2, 3, "dsplit"); },
       {"dsplit(Tensor input, int sections) -> Tensor[]",
        "Equal pieces along the third dimension. Views."});
  f.op(
      +[](const Tensor& t, const IntList& at) { return split_along(t, Value(at), 2, 3, "dsplit"); },
      {"dsplit(Tensor input, int[] indices) -> Tensor[]",
       "Pieces cut at indices of the third dimension. Views."});
});

}  // namespace
}  // namespace ops

}  // namespace pyflame
