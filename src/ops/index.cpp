// Reading by index.
#include "ops/index.h"

#include <algorithm>

#include "ops/complex.h"
#include "ops/registry.h"
#include "ops/unsigned.h"

namespace pyflame {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

namespace ops {

int64_t count_true(const Tensor& t, const char* op) {
  if (t->numel == 0) return 0;
  Tensor count = make_tensor({1}, DType::Int64, t->storage->device);
  engine::call<kernels::CountTrue>({count, t}, {.op = op});
  return count.item<int64_t>();
}

void check_not_empty(const Tensor& self, int dim, const Tensor& index, const char* op) {
  PF_CHECK(index->numel == 0 || self->shape[dim] > 0, IndexError, op, "got ", index->numel,
           " indices into dimension ", dim, " of shape ", self->shape,
           ", which is empty; expected none; check the shapes");
}

Indices resolve(const Tensor& self, const TensorList& indices, const char* op) {
  Indices r{self, {}};
  int dim = 0;
  for (const Tensor& given : indices) {
    if (!given.defined()) {
      ++dim;
      r.list.emplace_back();
      continue;
    }
    check_same_device(self, given, op);
    if (given->dtype != DType::Bool && given->dtype != DType::UInt8) {
      r.list.push_back(as_index(given, op));
      ++dim;
      continue;
    }
    Tensor mask = given;
    if (mask->shape.empty()) {  // picks all or nothing, along a dimension of its own
      r.self = unsqueeze(r.self, dim);
      mask = reshape(mask, {1});
    }
    const int n = mask->shape.size();
    bool fits = dim + n <= r.self->shape.size();
    for (int d = 0; fits && d < n; ++d) fits = mask->shape[d] == r.self->shape[dim + d];
    PF_CHECK(fits, IndexError, op, "got a mask of shape ", given->shape, " at dimension ", dim,
             " of shape ", self->shape, "; expected the sizes to agree; check the mask");
    Tensor where = nonzero(mask);
    for (int d = 0; d < n; ++d) r.list.push_back(select(where, 1, d));
    dim += n;
  }
  const int have = static_cast<int>(r.list.size());
  PF_CHECK(have <= r.self->shape.size(), IndexError, op, "got ", have, " indices for shape ",
           self->shape, "; expected at most ", r.self->shape.size(), "; remove some");
  r.list.resize(static_cast<size_t>(r.self->shape.size()));
  return r;
}

Plan plan_index(const Tensor& self, const TensorList& list, const char* op) {
  Plan p;
  Dims common;
  int first = -1, last = -1, count = 0;
  const int n = self->shape.size();
  for (int d = 0; d < n; ++d) {
    const Tensor& t = list[static_cast<size_t>(d)];
    if (!t.defined()) continue;
    common = broadcast_shapes(common, t->shape, op);
    if (first < 0) first = d;
    last = d;
    ++count;
  }
  // Adjacent index tensors put their dimensions where they stand, others in front.
  const bool adjacent = last - first + 1 == count;
  p.before = adjacent ? first : 0;
  Geometry g{{}, {}, self->offset};
  auto take = [&](int d) {
    g.shape.push_back(self->shape[d]);
    g.strides.push_back(self->strides[d]);
  };
  for (int d = 0; d < p.before; ++d) take(d);
  for (int d = 0; d < n; ++d)
    if (list[static_cast<size_t>(d)].defined()) take(d);
  for (int d = p.before; d < n; ++d)
    if (!list[static_cast<size_t>(d)].defined()) take(d);
  for (int d = 0; d < p.before; ++d) p.shape.push_back(g.shape[d]);
  for (int64_t s : common) p.shape.push_back(s);
  for (int d = p.before + count; d < n; ++d) p.shape.push_back(g.shape[d]);
  checked_numel(p.shape, op);
  p.self = raw_view(self, g);
  for (int d = 0; d < n; ++d) {
    const Tensor& t = list[static_cast<size_t>(d)];
    if (!t.defined()) continue;
    PF_CHECK(self->shape[d] > 0 || numel(common) == 0, IndexError, op, "got ", numel(common),
             " indices into dimension ", d, " of shape ", self->shape,
             ", which is empty; expected none; check the shapes");
    p.indices.push_back(
        make_view(t, common, broadcast_strides(t->shape, t->strides, common), t->offset));
  }
  return p;
}

// No elements, and a gradient of zeros.
Tensor nothing_of(const Tensor& self, const Dims& shape) {
  Tensor out = make_tensor(shape, self->dtype, self->storage->device);
  if (autograd::wanted({self}))
    autograd::attach("gather", {out}, {self}, {}, [like = self->shape](const Context& c) -> Grads {
      const Tensor& g = c.grad();
      return {raw_full(like, g->dtype, g->storage->device, 0)};
    });
  return out;
}

Tensor index_read(const Tensor& self, const TensorList& list, const char* op, bool wrap,
                  kernels::Indices what) {
  Plan p = plan_index(self, list, op);
  Tensor out = make_tensor(p.shape, self->dtype, self->storage->device);
  if (out->numel > 0) {
    TensorList ins{p.self};
    ins.insert(ins.end(), p.indices.begin(), p.indices.end());
    const kernels::Index::Numbers<Scalar> numbers{
        .before = p.before, .indexed = static_cast<int64_t>(p.indices.size()), .wrap = wrap};
    engine::call(engine::kernel<kernels::Index>(), std::span<const Tensor>(&out, 1), ins,
                 kernels::span_of(numbers),
                 {.op = op, .indices = what, .takes = engine::Takes::Bytes});
  }
  if (autograd::wanted({self})) {
    std::vector<Saved> saved;
    for (const Tensor& t : list) saved.emplace_back(t);
    autograd::attach(op, {out}, {self}, std::move(saved),
                     [shape = self->shape, n = list.size()](const Context& c) -> Grads {
                       TensorList list;
                       for (size_t i = 0; i < n; ++i) list.push_back(c.saved(i));
                       return {index_backward(c.grad(), list, shape, INT64_MIN)};
                     });
  }
  return out;
}

}  // namespace ops

Tensor index(const Tensor& self, const TensorList& indices) {
  ops::check_defined(self, "index");
  // One mask over everything needs no index tensors.
  if (indices.size() == 1 && indices[0].defined() && indices[0]->dtype == DType::Bool &&
      indices[0]->shape == self->shape && !self->shape.empty()) {
    ops::check_same_device(self, indices[0], "index");
    return masked_select(self, indices[0]);
  }
  ops::Indices r = ops::resolve(self, indices, "index");
  bool any = false;
  for (const Tensor& t : r.list) any = any || t.defined();
  if (!any)
    return autograd::view(
        r.self, ops::raw_view(r.self, ops::geometry_of(r.self)),
        [](const Tensor& b) { return view(b, b->shape.vec()); }, "alias",
        [](const Tensor& g) { return g; });
  return ops::index_read(r.self, r.list, "index");
}

namespace {

// The list of indices that means one index tensor at one dimension.
TensorList only(int ndim, int dim, const Tensor& index) {
  TensorList list(static_cast<size_t>(ndim));
  list[static_cast<size_t>(dim)] = index;
  return list;
}

}  // namespace

Tensor index_select(const Tensor& self, int64_t dim, const Tensor& given) {
  ops::check_defined(self, "index_select");
  Tensor index = ops::as_index(given, "index_select");
  ops::check_same_device(self, index, "index_select");
  PF_CHECK(index->shape.size() <= 1, ShapeError, "index_select", "got an index of shape ",
           index->shape, "; expected one dimension; ravel it, or use indexing");
  if (self->shape.empty()) return reshape(index_select(reshape(self, {1}), 0, given), {});
  if (index->shape.empty()) index = reshape(index, {1});
  const int d = wrap_dim(dim, self->shape.size(), "index_select");
  return ops::index_read(self, only(self->shape.size(), d, index), "index_select");
}

// ---- gather -------------------------------------------------------------------------------------

Tensor gather(const Tensor& self, int64_t dim, const Tensor& given) {
  ops::check_defined(self, "gather");
  Tensor index = ops::as_index(given, "gather");
  ops::check_same_device(self, index, "gather");
  if (index->numel == 0) {  // nothing is read, whatever the other sizes
    wrap_dim(dim, self->shape.size(), "gather");
    return ops::nothing_of(self, index->shape);
  }
  if (self->shape.empty() || index->shape.empty()) {
    PF_CHECK(self->shape.size() <= 1 && index->shape.size() <= 1, ShapeError, "gather",
             "got shapes ", self->shape, " and index ", index->shape,
             "; expected as many dimensions; unsqueeze one of them");
    Tensor r = gather(reshape(self, {self->numel}), dim, reshape(index, {index->numel}));
    return index->shape.empty() ? reshape(r, {}) : r;
  }
  const int n = self->shape.size(), d = wrap_dim(dim, n, "gather");
  bool fits = index->shape.size() == n;
  for (int i = 0; fits && i < n; ++i) fits = i == d || index->shape[i] <= self->shape[i];
  PF_CHECK(fits, ShapeError, "gather", "got shape ", self->shape, " and index ", index->shape,
           "; expected an index no larger than the input except in dimension ", d,
           "; expand or slice it");
  ops::check_not_empty(self, d, index, "gather");
  Tensor out = make_tensor(index->shape, self->dtype, self->storage->device);
  if (out->numel > 0)
    engine::call<kernels::Gather>({out, self, index}, {.dim = d}, {.takes = engine::Takes::Bytes});
  if (autograd::wanted({self}))
    autograd::attach("gather", {out}, {self}, {Saved(index)},
                     [d, shape = self->shape](const Context& c) -> Grads {
                       return {ops::gather_backward(c.grad(), d, c.saved(0), shape)};
                     });
  return out;
}

static Tensor take(const Tensor& self, const Tensor& index) {
  ops::check_defined(self, "take");
  return ops::index_read(reshape(self, {-1}), {ops::as_index(index, "take")}, "take");
}

static Tensor take_along_dim(const Tensor& self, const Tensor& indices,
                             std::optional<int64_t> dim) {
  ops::check_defined(self, "take_along_dim");
  ops::check_defined(indices, "take_along_dim");
  if (!dim) return gather(reshape(self, {-1}), 0, reshape(indices, {-1}));
  const int n = self->shape.size(), d = wrap_dim(*dim, n, "take_along_dim");
  PF_CHECK(indices->shape.size() == n, ShapeError, "take_along_dim", "got shapes ", self->shape,
           " and ", indices->shape, "; expected as many dimensions; unsqueeze one of them");
  Dims a = self->shape, b = indices->shape;
  a[d] = b[d] = 1;
  Dims common = broadcast_shapes(a, b, "take_along_dim");
  a = b = common;
  a[d] = self->shape[d];
  b[d] = indices->shape[d];
  return gather(expand(self, a.vec()), d, expand(indices, b.vec()));
}

// ---- masks --------------------------------------------------------------------------------------

Tensor nonzero(const Tensor& t) {
  ops::check_defined(t, "nonzero");
  if (is_complex(t) || ops::is_wide_unsigned(t)) return nonzero(to(t, DType::Bool));
  Tensor out = make_tensor({ops::count_true(t, "nonzero"), t->shape.size()}, DType::Int64,
                           t->storage->device);
  if (out->numel > 0) engine::call<kernels::Nonzero>({out, t});
  return out;
}

static TensorList nonzero_tuple(const Tensor& t) {
  ops::check_defined(t, "nonzero");
  Tensor found = nonzero(t->shape.empty() ? reshape(t, {1}) : t);
  TensorList out;
  for (int64_t d = 0; d < found->shape[1]; ++d) out.push_back(contiguous(select(found, 1, d)));
  return out;
}

static Tensor argwhere(const Tensor& t) {
  return nonzero(t);
}

static Tensor masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source);

Tensor masked_select(const Tensor& self, const Tensor& mask) {
  ops::check_defined(self, "masked_select");
  ops::check_defined(mask, "masked_select");
  ops::check_same_device(self, mask, "masked_select");
  PF_CHECK(mask->dtype == DType::Bool, DTypeError, "masked_select", "got a mask of dtype ",
           mask->dtype, "; expected bool; compare it with something first");
  const IntList shape = broadcast_shapes(self->shape, mask->shape, "masked_select").vec();
  if (!(self->shape == Dims(shape)) || !(mask->shape == Dims(shape)))
    return masked_select(expand(self, shape), expand(mask, shape));
  Tensor out =
      make_tensor({ops::count_true(mask, "masked_select")}, self->dtype, self->storage->device);
  if (out->numel > 0)
    engine::call<kernels::MaskedSelect>({out, self, mask}, {.takes = engine::Takes::Bytes});
  if (autograd::wanted({self}))
    autograd::attach("masked_select", {out}, {self}, {Saved(mask)}, [](const Context& c) -> Grads {
      Tensor mask = c.saved(0);
      return {masked_scatter(ops::raw_full(mask->shape, c.grad()->dtype, mask->storage->device, 0),
                             mask, c.grad())};
    });
  return out;
}

namespace {

// The first elements of `t`, flattened, in `shape`; zeros where there are too few.
Tensor fit(const Tensor& t, const Dims& shape) {
  const int64_t n = numel(shape);
  Tensor flat = reshape(t, {-1});
  if (flat->numel < n)
    flat = cat({flat, ops::raw_full({n - flat->numel}, t->dtype, t->storage->device, 0)});
  return reshape(flat->numel > n ? slice(flat, 0, 0, n) : flat, shape.vec());
}

void run_masked_scatter(const Tensor& out, const Tensor& mask, const Tensor& source) {
  if (mask->numel == 0) return;
  if (source->numel < mask->numel) {  // otherwise there is enough: nothing to wait for
    const int64_t need = ops::count_true(mask, "masked_scatter");
    PF_CHECK(source->numel >= need, ShapeError, "masked_scatter", "got ", source->numel,
             " source elements for ", need, " true places; expected at least as many; pass more");
    if (need == 0) return;
  }
  Tensor from = contiguous(source.detach());
  if (from->storage == out->storage) from = ops::raw_clone(from);
  engine::call<kernels::MaskedScatter>({out, mask, from},
                                       {.inplace = 1, .takes = engine::Takes::Bytes});
}

void check_masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source) {
  ops::check_defined(self, "masked_scatter");
  ops::check_defined(mask, "masked_scatter");
  ops::check_defined(source, "masked_scatter");
  ops::check_same_device(self, mask, "masked_scatter");
  ops::check_same_device(self, source, "masked_scatter");
  PF_CHECK(mask->dtype == DType::Bool && source->dtype == self->dtype, DTypeError, "masked_scatter",
           "got dtypes ", self->dtype, ", ", mask->dtype, " and ", source->dtype,
           "; expected a bool mask and a source of the input's dtype; convert them");
}

Grads masked_scatter_grad(const Context& c, const Dims& source) {
  Tensor mask = c.saved(0);
  Grads r(3);
  if (c.needs(0)) r[0] = masked_fill(c.grad(), mask, 0);
  if (c.needs(2)) r[2] = fit(masked_select(c.grad(), mask), source);
  return r;
}

}  // namespace

static Tensor masked_scatter(const Tensor& given, const Tensor& mask, const Tensor& source) {
  check_masked_scatter(given, mask, source);
  const Tensor self = ops::beside(given, {mask, source}, "masked_scatter");
  const IntList shape = broadcast_shapes(self->shape, mask->shape, "masked_scatter").vec();
  if (!(self->shape == Dims(shape)) || !(mask->shape == Dims(shape)))
    return masked_scatter(expand(self, shape), expand(mask, shape), source);
  Tensor out = ops::raw_clone(self);
  run_masked_scatter(out, mask, source);
  if (autograd::wanted({self, source}))
    autograd::attach(
        "masked_scatter", {out}, {self, mask, source}, {Saved(mask)},
        [s = source->shape](const Context& c) -> Grads { return masked_scatter_grad(c, s); });
  return out;
}

static Tensor masked_scatter_(Tensor self, const Tensor& given, const Tensor& source) {
  check_masked_scatter(self, given, source);
  Tensor mask = expand(given, self->shape.vec());
  if (mask->storage == self->storage) mask = ops::raw_clone(mask);
  ops::write_inplace(
      self, "masked_scatter_", {self, mask, source}, {Saved(mask)},
      [s = source->shape](const Context& c) -> Grads { return masked_scatter_grad(c, s); },
      [&] { run_masked_scatter(self, mask, source); });
  return self;
}

// ---- counting and searching ---------------------------------------------------------------------

Tensor one_hot(const Tensor& t, int64_t num_classes) {
  Tensor index = ops::as_index(t, "one_hot");
  if (num_classes < 0) {
    PF_CHECK(index->numel > 0, ValueError, "one_hot",
             "got an empty tensor and no num_classes; expected one of them; pass num_classes");
    num_classes = amax(index).item<int64_t>() + 1;
  }
  PF_CHECK(num_classes > 0 || index->numel == 0, ValueError, "one_hot", "got num_classes ",
           num_classes, "; expected at least 1; correct it");
  Dims shape = index->shape;
  shape.push_back(num_classes);
  checked_numel(shape, "one_hot");
  Tensor out = make_tensor(shape, DType::Int64, index->storage->device);
  if (out->numel > 0) engine::call<kernels::OneHot>({out, index});
  return out;
}

static Tensor bincount(const Tensor& t, const Tensor& weights, int64_t minlength) {
  Tensor index = ops::as_index(t, "bincount");
  PF_CHECK(index->shape.size() == 1, ShapeError, "bincount", "got shape ", index->shape,
           "; expected one dimension; ravel it");
  PF_CHECK(minlength >= 0, ValueError, "bincount", "got minlength ", minlength,
           "; expected at least 0; correct it");
  Tensor w = weights.defined() ? weights.detach() : weights;
  if (w.defined()) {
    ops::check_same_device(index, w, "bincount");
    PF_CHECK(w->shape == index->shape, ShapeError, "bincount", "got shape ", index->shape,
             " and weights of shape ", w->shape, "; expected the same; check them");
    if (w->dtype != DType::Float32) w = to(w, DType::Float64);
  }
  int64_t bins = minlength;
  if (index->numel > 0) {
    const Tensor low = amin(index), high = amax(index);  // both, then a wait
    const int64_t least = low.item<int64_t>(), most = high.item<int64_t>();
    PF_CHECK(least >= 0, ValueError, "bincount", "got the value ", least,
             "; expected none below 0; correct the input");
    PF_CHECK(most < int64_t{1} << 61, ShapeError, "bincount", "got the value ", most,
             "; expected one that so many bins can be made for; correct the input");
    bins = std::max(bins, most + 1);
  }
  Tensor out = make_tensor({bins}, w.defined() ? w->dtype : DType::Int64, index->storage->device);
  if (index->numel == 0) return ops::raw_full({bins}, out->dtype, out->storage->device, 0);
  engine::call<kernels::Bincount>({out, index, w});
  return out;
}

static Tensor searchsorted(const Tensor& given, const Tensor& values, bool out_int32, bool right,
                           const std::optional<std::string>& side, const Tensor& sorter) {
  ops::check_defined(given, "searchsorted");
  Tensor sorted = given;
  if (sorter.defined()) {
    PF_CHECK(sorter->dtype == DType::Int64 && sorter->shape == given->shape, ShapeError,
             "searchsorted", "got a sorter of dtype ", sorter->dtype, " and shape ", sorter->shape,
             " for a sequence of shape ", given->shape,
             "; expected int64 and the shape of the sequence; pass its argsort()");
    sorted = gather(given.detach(), -1, sorter);
  }
  ops::check_defined(values, "searchsorted");
  ops::check_same_device(sorted, values, "searchsorted");
  if (side) {
    PF_CHECK(*side == "left" || *side == "right", ValueError, "searchsorted", "got side '", *side,
             "'; expected 'left' or 'right'; choose one of them");
    PF_CHECK(!right || *side == "right", ValueError, "searchsorted",
             "got side 'left' and right=True; expected one of them; leave right out");
    right = *side == "right";
  }
  bool fits = sorted->shape.size() >= 1;
  if (fits && sorted->shape.size() > 1) {
    fits = sorted->shape.size() == values->shape.size();
    for (int d = 0; fits && d + 1 < sorted->shape.size(); ++d)
      fits = sorted->shape[d] == values->shape[d];
  }
  PF_CHECK(fits, ShapeError, "searchsorted", "got a sorted sequence of shape ", sorted->shape,
           " and values of shape ", values->shape,
           "; expected one sequence, or one for each row of values; reshape them");
  const DType dtype = promote(sorted->dtype, values->dtype);
  const Tensor s = contiguous(ops::ordered(to(sorted.detach(), dtype)));
  const Tensor v = ops::ordered(to(values.detach(), dtype));
  Tensor out = make_tensor(v->shape, DType::Int64, v->storage->device);
  if (s->shape.back() == 0) return to(zeros_like(out), out_int32 ? DType::Int32 : DType::Int64);
  if (out->numel > 0) engine::call<kernels::Searchsorted>({out, v, s}, {.right = right});
  return out_int32 ? to(out, DType::Int32) : out;
}

static Tensor searchsorted_number(const Tensor& sorted, Scalar value, bool out_int32, bool right,
                                  const std::optional<std::string>& side, const Tensor& sorter) {
  return searchsorted(sorted, ops::number_like(value, sorted, "searchsorted"), out_int32, right,
                      side, sorter);
}

static Tensor bucketize(const Tensor& values, const Tensor& boundaries, bool out_int32,
                        bool right) {
  ops::check_defined(boundaries, "bucketize");
  PF_CHECK(boundaries->shape.size() == 1, ShapeError, "bucketize", "got boundaries of shape ",
           boundaries->shape, "; expected one dimension; ravel them");
  return searchsorted(boundaries, values, out_int32, right, {}, {});
}

static Tensor bucketize_number(Scalar value, const Tensor& boundaries, bool out_int32, bool right) {
  ops::check_defined(boundaries, "bucketize");
  return searchsorted_number(boundaries, value, out_int32, right, {}, {});
}

namespace ops {
namespace {

TensorList unravel_index(const Tensor& indices, const IntList& shape) {
  Tensor rest = ops::as_index(indices, "unravel_index");
  TensorList out(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    PF_CHECK(shape[d] > 0, ValueError, "unravel_index", "got shape ", Dims(shape),
             "; expected sizes of at least 1; correct it");
    const Scalar n(shape[d]);
    // The quotient of float64 may have been rounded up to the next integer.
    Tensor whole = to(div(to(rest, DType::Float64), n), DType::Int64);
    whole = sub(whole, to(gt(mul(whole, n), rest), DType::Int64));
    out[d] = sub(rest, mul(whole, n));
    rest = whole;
  }
  return out;
}

const Family kIndexing("indexing", [](Family& f) {
  f.op(&pyflame::index, {"index(Tensor input, Tensor[] indices) -> Tensor",
                         "What `x[indices]` reads: integer tensors broadcast together, masks stand "
                         "for their nonzero, None for a full slice.",
                         kSpecial});
  f.op(&index_select, {"index_select(Tensor input, int dim, Tensor index) -> Tensor",
                       "The slices of a dimension that a 1-D integer tensor names."});
  f.op(
      +[](const Tensor& t, int64_t dim, const Tensor& index, bool sparse) {
        PF_CHECK(!sparse, NotSupportedError, "gather",
                 "got sparse_grad=True; gradients are dense; leave it out");
        return gather(t, dim, index);
      },
      {"gather(Tensor input, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
       "out[i][j] = input[i][index[i][j]] (dim=1): one element for each index. Gradients of "
       "repeated indices add up in index order. An empty index may have any shape."});
  f.op(&take, {"take(Tensor input, Tensor index) -> Tensor",
               "Elements of the flattened input, in the shape of the index."});
  f.op(&take_along_dim, {"take_along_dim(Tensor input, Tensor indices, int? dim=None) -> Tensor",
                         "gather with the other dimensions broadcast; over the flattened input "
                         "without dim."});
  f.op(
      +[](const Tensor& t, bool as_tuple) -> Value {
        if (as_tuple) return nonzero_tuple(t);
        return nonzero(t);
      },
      {"nonzero(Tensor input, *, bool as_tuple=False) -> Tensor | Tensor[]",
       "Indices of the elements that are not zero, [count, dimensions], int64; or one index "
       "tensor for each dimension, as indexing takes them. Waits for the count.",
       kFunction | kMethod, false});
  f.op(&nonzero_tuple, {"where(Tensor condition) -> Tensor[]",
                        "`nonzero(condition, as_tuple=True)`.", kFunction, false});
  f.op(&argwhere,
       {"argwhere(Tensor input) -> Tensor", "The same as nonzero.", kFunction | kMethod, false});
  f.op(&masked_select, {"masked_select(Tensor input, Tensor mask) -> Tensor",
                        "The elements where a mask is true, one dimension. Waits for the count."});
  f.op(&masked_scatter, {"masked_scatter(Tensor input, Tensor mask, Tensor source) -> Tensor",
                         "A copy whose places where the mask is true take the elements of `source` "
                         "in turn."});
  f.op(&masked_scatter_, {"masked_scatter_(Tensor input, Tensor mask, Tensor source) -> Tensor",
                          "In-place masked_scatter.", kMethod});
  f.op(&one_hot, {"one_hot(Tensor input|tensor, int num_classes=-1) -> Tensor",
                  "1 at the index and 0 elsewhere, in a new last dimension; int64. Without "
                  "num_classes the largest index plus 1, for which it waits.",
                  kFunctional, false});
  f.op(&bincount,
       {"bincount(Tensor input, Tensor? weights=None, int minlength=0) -> Tensor",
        "How often each number occurs, or the sum of its weights.", kFunction | kMethod, false});
  f.op(&searchsorted,
       {"searchsorted(Tensor sorted_sequence, Tensor input, *, bool out_int32=False, bool "
        "right=False, str? side=None, Tensor? sorter=None) -> Tensor",
        "Where each value would be inserted to keep the sequence sorted: the first place (left), "
        "or after its equals (right). `sorter` (its argsort) stands for sorting the sequence.",
        kFunction, false});
  f.op(&searchsorted_number,
       {"searchsorted(Tensor sorted_sequence, Scalar input, *, bool out_int32=False, bool "
        "right=False, str? side=None, Tensor? sorter=None) -> Tensor",
        "The same for one number.", kFunction, false});
  f.op(&bucketize,
       {"bucketize(Tensor input, Tensor boundaries, *, bool out_int32=False, bool "
        "right=False) -> Tensor",
        "The interval of sorted boundaries that each value lies in.", kFunction, false});
  f.op(&bucketize_number,
       {"bucketize(Scalar input, Tensor boundaries, *, bool out_int32=False, bool "
        "right=False) -> Tensor",
        "The same for one number.", kFunction, false});
  f.op(&unravel_index,
       {"unravel_index(Tensor indices, int[] shape) -> Tensor[]",
        "Positions in a flattened tensor as one index for each dimension.", kFunction, false});
});

}  // namespace
}  // namespace ops

}  // namespace pyflame
