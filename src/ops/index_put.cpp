// Writing by index. What meets in one place is combined in index order.
#include <limits>
#include <map>

#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/index.h"
#include "ops/registry.h"
#include "ops/replaced.h"
#include "ops/rows.h"

namespace pyflame {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

namespace ops {

namespace {

// `values` must have the plan's shape (strides may be 0).
void run_index_put(const Plan& p, const Tensor& values, bool accumulate, const char* op) {
  if (values->numel == 0) return;
  TensorList ins{values};
  ins.insert(ins.end(), p.indices.begin(), p.indices.end());
  const kernels::IndexPut::Numbers<Scalar> numbers{
      .before = p.before,
      .indexed = static_cast<int64_t>(p.indices.size()),
      .accumulate = accumulate};
  engine::call(engine::kernel<kernels::IndexPut>(), std::span<const Tensor>(&p.self, 1), ins,
               kernels::span_of(numbers),
               {.inplace = 1,
                .op = op,
                .takes = accumulate ? engine::Takes::Arithmetic : engine::Takes::Bytes});
}

Tensor spread(const Tensor& t, const Dims& shape) {
  return make_view(t, shape, broadcast_strides(t->shape, t->strides, shape), t->offset);
}

}  // namespace

void add_at_index(const Tensor& sum, const Tensor& g, const TensorList& list, int64_t skip) {
  NoGrad off;
  if (skip == INT64_MIN) {
    run_index_put(plan_index(sum, list, "index"), g, true, "index_backward");
  } else {  // rows of a matrix, one index left out
    Tensor index = reshape(list[0], {-1, 1});
    run_scatter(sum, 0, spread(index, {index->numel, sum->shape[1]}),
                reshape(g, {-1, sum->shape[1]}), kAdd, "embedding_backward", skip);
  }
}

Tensor index_backward(const Tensor& g, const TensorList& list, const Dims& shape, int64_t skip) {
  if (is_complex(g)) {
    TensorList before = list;
    before.emplace_back();
    Dims parts = shape;
    parts.push_back(2);
    return over_parts(g, [&](const Tensor& t) { return index_backward(t, before, parts, skip); });
  }
  const DType sum = wide_type(g->dtype);
  Tensor out = raw_full(shape, sum, g->storage->device, 0);
  {
    NoGrad off;
    add_at_index(out, to(g, sum), list, skip);
    if (sum != g->dtype) out = to(out, g->dtype);
  }
  if (autograd::wanted({g})) {
    std::vector<Saved> saved;
    for (const Tensor& t : list) saved.emplace_back(t);
    autograd::attach("index_backward", {out}, {g}, std::move(saved),
                     [n = list.size(), skip](const Context& c) -> Grads {
                       TensorList list;
                       for (size_t i = 0; i < n; ++i) list.push_back(c.saved(i));
                       Tensor r = index_read(c.grad(), list, "index");
                       if (skip != INT64_MIN)
                         r = masked_fill(r, unsqueeze(eq(list[0], Scalar(skip)), -1), 0);
                       return {r};
                     });
  }
  return out;
}

void run_scatter(const Tensor& out, int dim, const Tensor& index, const Tensor& src,
                 ScatterMode mode, const char* op, int64_t skip) {
  if (index->numel == 0) return;
  Tensor part = make_view(src, index->shape, src->strides, src->offset);
  engine::call<kernels::Scatter>(
      {out, index, part}, {.dim = dim, .mode = int64_t{mode}, .skip = skip},
      {.inplace = 1,
       .op = op,
       .takes = mode == kAssign ? engine::Takes::Bytes : engine::Takes::Arithmetic});
}

Tensor gather_backward(const Tensor& g, int dim, const Tensor& index, const Dims& shape) {
  if (is_complex(g)) {
    IntList both = index->shape.vec();
    both.push_back(2);
    Dims parts = shape;
    parts.push_back(2);
    return over_parts(g, [&](const Tensor& t) {
      return gather_backward(t, dim, contiguous(expand(unsqueeze(index, -1), both)), parts);
    });
  }
  const DType sum = wide_type(g->dtype);
  Tensor out = raw_full(shape, sum, g->storage->device, 0);
  {
    NoGrad off;
    run_scatter(out, dim, index, to(g, sum), kAdd, "gather_backward");
    if (sum != g->dtype) out = to(out, g->dtype);
  }
  if (autograd::wanted({g}))
    autograd::attach(
        "gather_backward", {out}, {g}, {Saved(index)},
        [dim](const Context& c) -> Grads { return {gather(c.grad(), dim, c.saved(0))}; });
  return out;
}

}  // namespace ops

// ---- scatter ------------------------------------------------------------------------------------

namespace {

using ops::ScatterMode;

// A checked scatter: everything with at least one dimension.
struct Scatter {
  Tensor index, src;
  int dim = 0;
};

Scatter check_scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                      const char* op) {
  Scatter s;
  ops::check_defined(self, op);
  s.index = ops::as_index(index, op);
  ops::check_same_device(self, s.index, op);
  ops::check_defined(src, op);
  ops::check_same_device(self, src, op);
  PF_CHECK(src->dtype == self->dtype, DTypeError, op, "got dtypes ", self->dtype, " and ",
           src->dtype, "; expected the same; convert the source with .to(dtype)");
  const int n = self->shape.size();
  const auto as_deep = [n](const Tensor& t) {  // one element may have no dimension, or one
    if (n == 1 && t->shape.empty()) return reshape(t, {1});
    return n == 0 && t->shape.size() == 1 && t->numel == 1 ? reshape(t, {}) : t;
  };
  s.index = as_deep(s.index);
  s.src = as_deep(src);
  s.dim = wrap_dim(dim, n, op);
  if (s.index->numel == 0) return s;  // nothing is written, whatever the sizes
  bool fits = s.index->shape.size() == n && s.src->shape.size() == n;
  for (int d = 0; fits && d < n; ++d)
    fits =
        s.index->shape[d] <= s.src->shape[d] && (d == s.dim || s.index->shape[d] <= self->shape[d]);
  PF_CHECK(fits, ShapeError, op, "got shape ", self->shape, ", index ", s.index->shape,
           " and source ", src->shape,
           "; expected an index no larger than the source, and than "
           "the input except in dimension ",
           s.dim, "; slice or expand them");
  if (n > 0) ops::check_not_empty(self, s.dim, s.index, op);
  return s;
}

// A number as a source: one element seen everywhere.
Tensor number_source(const Tensor& self, const Tensor& index, Scalar value) {
  ops::check_defined(self, "scatter");
  ops::check_defined(index, "scatter");
  return expand(scalar_tensor(value, self->dtype, self->storage->device), index->shape.vec());
}

// Writes into `out`, in a wider type where sums need it.
void scatter_into(const Tensor& out, const Scatter& s, ScatterMode mode, const char* op) {
  NoGrad off;
  if (s.index->numel == 0) return;
  if (out->shape.empty()) {
    Tensor flat = make_view(out, {1}, {1}, out->offset);
    Scatter one{reshape(s.index, {1}), reshape(s.src.detach(), {1}), 0};
    return scatter_into(flat, one, mode, op);
  }
  const DType sum = ops::wide_type(out->dtype);
  if (sum == out->dtype || mode == ops::kAssign || mode == ops::kMax || mode == ops::kMin) {
    ops::run_scatter(out, s.dim, s.index, s.src, mode, op);
    return;
  }
  Tensor wide = to(out, sum);
  ops::run_scatter(wide, s.dim, s.index, to(s.src.detach(), sum), mode, op);
  ops::raw_copy(out, to(wide, out->dtype));
}

// The gradient of a source of which the index reached a part: the rest got none.
Tensor reached(const Tensor& part, const Dims& shape) {
  if (part->shape == shape) return part;
  IntList padding;
  for (int d = shape.size() - 1; d >= 0; --d) {
    padding.push_back(0);
    padding.push_back(shape[d] - part->shape[d]);
  }
  return pad(part, padding, "constant", Scalar(0));
}
// The part of a source that an index of that shape reaches.
Tensor reached_part(const Tensor& src, const Dims& shape) {
  Tensor part = src;
  for (int d = 0; d < shape.size(); ++d)
    if (part->shape[d] != shape[d]) part = slice(part, d, 0, shape[d]);
  return part;
}

// The source's gradient from that of the places it went to.
Tensor source_grad(const Tensor& g, int dim, const Tensor& index, const Dims& shape) {
  if (index->numel == 0) return ops::raw_full(shape, g->dtype, g->storage->device, 0);
  return reached(gather(g, dim, index), shape);
}

Tensor scatter_with(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                    ScatterMode mode, const char* op);

autograd::BackwardFn scatter_backward(const Scatter& s, ScatterMode mode, const char* op) {
  return [dim = s.dim, shape = s.src->shape, mode, op](const Context& c) -> Grads {
    Grads r(3);
    const Tensor& g = c.grad();
    PF_CHECK(mode == ops::kAssign || mode == ops::kAdd, NotSupportedError, op,
             "got a reduction that has no gradient; expected scatter or scatter_add; use those");
    Tensor index = c.saved(0);
    if (c.needs(0))
      r[0] = mode == ops::kAdd
                 ? g
                 : scatter_with(g, dim, index, number_source(g, index, 0), ops::kAssign, "scatter");
    if (c.needs(2)) r[2] = source_grad(g, dim, index, shape);
    return r;
  };
}

// Sums of complex numbers are those of their parts, which one index finds.
Tensor of_both_parts(const Tensor& index) {
  IntList shape = index->shape.vec();
  shape.push_back(2);
  return expand(unsqueeze(index, -1), shape);
}

Tensor scatter_with(const Tensor& given, int64_t dim, const Tensor& index, const Tensor& src,
                    ScatterMode mode, const char* op) {
  Scatter s = check_scatter(given, dim, index, src, op);
  if (is_complex(given) && mode == ops::kAdd) {
    if (given->shape.empty())
      return reshape(scatter_with(reshape(given, {1}), 0, reshape(s.index, {-1}),
                                  reshape(s.src, {-1}), mode, op),
                     {});
    return ops::over_parts(given, [&](const Tensor& t) {
      return scatter_with(t, s.dim, of_both_parts(s.index), view_as_real(s.src), mode, op);
    });
  }
  const Tensor self = ops::beside(given, {s.index, s.src}, op);
  Tensor out = ops::raw_clone(self);
  scatter_into(out, s, mode, op);
  if (autograd::wanted({self, s.src}))
    autograd::attach(op, {out}, {self, s.index, s.src}, {Saved(s.index)},
                     scatter_backward(s, mode, op));
  return out;
}

Tensor scatter_with_(Tensor self, int64_t dim, const Tensor& index, const Tensor& src,
                     ScatterMode mode, const char* op) {
  Scatter s = check_scatter(self, dim, index, src, op);
  if (is_complex(self) && mode == ops::kAdd)
    return copy_(self, scatter_with(self, dim, index, src, mode, op));
  if (s.src->storage == self->storage) s.src = clone(s.src);
  if (s.index->storage == self->storage) s.index = clone(s.index);
  ops::write_inplace(self, op, {self, s.index, s.src}, {Saved(s.index)},
                     scatter_backward(s, mode, op), [&] { scatter_into(self, s, mode, op); });
  return self;
}

ScatterMode mode_of(const std::optional<std::string>& reduce, const char* op) {
  if (!reduce) return ops::kAssign;
  if (*reduce == "add") return ops::kAdd;
  if (*reduce == "multiply") return ops::kMultiply;
  PF_FAIL(ValueError, op, "got reduce '", *reduce,
          "'; expected 'add' or 'multiply'; choose one of them, or use scatter_reduce");
}

}  // namespace

Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  return scatter_with(self, dim, index, src, ops::kAssign, "scatter");
}

Tensor scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  PF_AUTOCAST("scatter_add", Promote, scatter_add, self, dim, index, src);
  return scatter_with(self, dim, index, src, ops::kAdd, "scatter_add");
}

namespace {

using Reduce = std::optional<std::string>;

Tensor scatter_src(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                   const Reduce& reduce) {
  return scatter_with(self, dim, index, src, mode_of(reduce, "scatter"), "scatter");
}
Tensor scatter_value(const Tensor& self, int64_t dim, const Tensor& index, Scalar value,
                     const Reduce& reduce) {
  return scatter_with(self, dim, index, number_source(self, index, value),
                      mode_of(reduce, "scatter"), "scatter");
}
Tensor scatter_src_(Tensor self, int64_t dim, const Tensor& index, const Tensor& src,
                    const Reduce& reduce) {
  return scatter_with_(self, dim, index, src, mode_of(reduce, "scatter_"), "scatter_");
}
Tensor scatter_value_(Tensor self, int64_t dim, const Tensor& index, Scalar value,
                      const Reduce& reduce) {
  return scatter_with_(self, dim, index, number_source(self, index, value),
                       mode_of(reduce, "scatter_"), "scatter_");
}
Tensor scatter_add_(Tensor self, int64_t dim, const Tensor& index, const Tensor& src) {
  return scatter_with_(self, dim, index, src, ops::kAdd, "scatter_add_");
}

// What the touched places begin with when they themselves do not count.
Scalar identity_of(ScatterMode mode, DType t) {
  if (mode == ops::kAdd) return 0;
  if (mode == ops::kMultiply) return 1;
  const bool low = mode == ops::kMax;
  if (is_float(t)) {
    const double inf = std::numeric_limits<double>::infinity();
    return low ? -inf : inf;
  }
  if (t == DType::Bool) return Scalar(!low);
  const int bits = info(t).bits;
  const bool is_signed = info(t).kind == Kind::Int;
  const int64_t most = bits == 64 ? INT64_MAX : (int64_t{1} << (bits - (is_signed ? 1 : 0))) - 1;
  return low ? Scalar(is_signed ? -most - 1 : int64_t{0}) : Scalar(most);
}

// Gradient of a scattered maximum or minimum: shared equally by all that reached the result.
Grads extreme_grad(const Context& c, int dim) {
  Grads r(3);
  Tensor self = c.saved(0), index = c.saved(1), src = c.saved(2), result = c.saved(3);
  const Tensor part = reached_part(src, index->shape);
  const DType dtype = c.grad()->dtype;
  Tensor self_won = to(eq(self, result), dtype);
  Tensor src_won = to(eq(part, gather(result, dim, index)), dtype);
  Tensor winners = clamp(scatter_add(self_won, dim, index, src_won), Scalar(1), {});
  Tensor share = div(c.grad(), winners);
  if (c.needs(0)) r[0] = mul(share, self_won);
  if (c.needs(2)) r[2] = reached(mul(gather(share, dim, index), src_won), src->shape);
  return r;
}

Tensor scatter_reduce(const Tensor& given, int64_t dim, const Tensor& index, const Tensor& src,
                      const std::string& reduce, bool include_self);

// Gradient of a scattered product: the product of all others in the same place. That is the result
// over the element, or, where the element is zero, the product of what is not; of two zeros each
// has the other's value, zero, for the sake of its own derivative.
Grads product_grad(const Context& c, int dim) {
  Grads r(3);
  const Tensor self = c.saved(0), index = c.saved(1), src = c.saved(2), result = c.saved(3);
  const Tensor part = reached_part(src, index->shape);
  const DType dtype = c.grad()->dtype;
  const Tensor self_zero = eq(self, Scalar(0)), src_zero = eq(part, Scalar(0));
  const Tensor zeros = scatter_add(to(self_zero, dtype), dim, index, to(src_zero, dtype));
  const Tensor nonzero = scatter_reduce(masked_fill(self, self_zero, 1), dim, index,
                                        masked_fill(part, src_zero, 1), "prod", true);
  const Tensor sum_of_zeros = scatter_add(where(self_zero, self, Scalar(0.0)), dim, index,
                                          where(src_zero, part, Scalar(0.0)));
  const auto others = [](const Tensor& x, const Tensor& is_zero, const Tensor& all,
                         const Tensor& rest, const Tensor& count, const Tensor& zero) {
    const Tensor of_two = where(eq(count, Scalar(2)), mul(rest, sub(zero, x)), Scalar(0.0));
    return where(is_zero, where(eq(count, Scalar(1)), rest, of_two),
                 div(all, masked_fill(x, is_zero, 1)));
  };
  if (c.needs(0))
    r[0] = mul(c.grad(), others(self, self_zero, result, nonzero, zeros, sum_of_zeros));
  if (c.needs(2)) {
    const auto there = [&](const Tensor& t) { return gather(t, dim, index); };
    r[2] = reached(mul(there(c.grad()), others(part, src_zero, there(result), there(nonzero),
                                               there(zeros), there(sum_of_zeros))),
                   src->shape);
  }
  return r;
}

Tensor scatter_reduce(const Tensor& given, int64_t dim, const Tensor& index, const Tensor& src,
                      const std::string& reduce, bool include_self) {
  static const std::map<std::string, ScatterMode> kModes = {{"sum", ops::kAdd},
                                                            {"mean", ops::kAdd},
                                                            {"prod", ops::kMultiply},
                                                            {"amax", ops::kMax},
                                                            {"amin", ops::kMin}};
  const auto found = kModes.find(reduce);
  PF_CHECK(found != kModes.end(), ValueError, "scatter_reduce", "got reduce '", reduce,
           "'; expected 'sum', 'prod', 'mean', 'amax' or 'amin'; choose one of them");
  const bool empty = index.defined() && index->numel == 0;  // what is added then is nothing
  const ScatterMode mode = empty ? ops::kAdd : found->second;
  const bool mean = reduce == "mean";
  Scatter s = check_scatter(given, dim, index, src, "scatter_reduce");
  const Tensor self = ops::beside(given, {s.index, s.src}, "scatter_reduce");
  Tensor start = self;
  if (!include_self)
    start = scatter_with(self, dim, s.index,
                         number_source(self, s.index, identity_of(mode, self->dtype)), ops::kAssign,
                         "scatter");
  if (mode != ops::kAdd && autograd::wanted({start, s.src}) && s.index->numel > 0) {
    if (self->shape.empty())
      return reshape(scatter_reduce(reshape(self, {1}), 0, reshape(s.index, {1}),
                                    reshape(s.src, {1}), reduce, include_self),
                     {});
    Tensor out = ops::raw_clone(start);
    scatter_into(out, s, mode, "scatter_reduce");
    autograd::attach("scatter_reduce", {out}, {start, s.index, s.src},
                     {Saved(start), Saved(s.index), Saved(s.src), Saved(out, true)},
                     [d = s.dim, mode](const Context& c) -> Grads {
                       return mode == ops::kMultiply ? product_grad(c, d) : extreme_grad(c, d);
                     });
    return out;
  }
  Tensor out = scatter_with(start, dim, s.index, s.src, mode,
                            mode == ops::kAdd ? "scatter_add" : "scatter_reduce");
  if (!mean) return out;
  const Tensor none = ops::raw_full(self->shape, DType::Int64, self->storage->device, include_self);
  const Tensor count = clamp(
      scatter_with(none, dim, s.index, number_source(none, s.index, 1), ops::kAdd, "scatter_add"),
      Scalar(1), {});
  if (!is_integral(self->dtype, true)) return to(div(ops::widened(out), count), self->dtype);
  return to(floor_divide(out, count), self->dtype);
}

Tensor scatter_reduce_(Tensor self, int64_t dim, const Tensor& index, const Tensor& src,
                       const std::string& reduce, bool include_self) {
  // Gradients read the old value.
  const Tensor old = autograd::wanted({self, src}) ? clone(self) : self;
  return copy_(self, scatter_reduce(old, dim, index, src, reduce, include_self));
}

// ---- index_add, index_copy, index_fill ----------------------------------------------------------

// A 1-D index along `dim` as an index for scatter, one element seen by all lanes.
Tensor index_for(const Tensor& self, int64_t dim, const Tensor& given, const Tensor& src,
                 const char* op) {
  ops::check_defined(self, op);
  ops::check_defined(src, op);
  Tensor index = ops::as_index(given, op);
  PF_CHECK(index->shape.size() <= 1, ShapeError, op, "got an index of shape ", index->shape,
           "; expected one dimension; ravel it");
  const int n = self->shape.size(), d = wrap_dim(dim, n, op);
  if (n == 0) return reshape(index, {});
  bool fits = src->shape.size() == n;
  for (int i = 0; fits && i < n; ++i)
    fits = src->shape[i] == (i == d ? index->numel : self->shape[i]);
  PF_CHECK(fits, ShapeError, op, "got shape ", self->shape, ", ", index->numel,
           " indices for dimension ", d, " and a source of shape ", src->shape,
           "; expected the input's sizes, and the number of indices in that dimension; reshape "
           "the source");
  IntList lone(static_cast<size_t>(n), 1);
  lone[static_cast<size_t>(d)] = index->numel;
  return expand(reshape(index, lone), src->shape.vec());
}

Tensor index_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                    std::string reduce, bool include_self) {
  const char* op = "index_reduce";
  PF_CHECK(reduce == "prod" || reduce == "mean" || reduce == "amax" || reduce == "amin", ValueError,
           op, "got reduce '", reduce,
           "'; expected 'prod', 'mean', 'amax' or 'amin'; use index_add for sums");
  const Tensor wide = index_for(self, dim, index, source, op);
  return scatter_reduce(self, dim, wide, source, reduce, include_self);
}
Tensor index_reduce_(Tensor self, int64_t dim, const Tensor& index, const Tensor& source,
                     std::string reduce, bool include_self) {
  return ops::replaced(self, "index_reduce_", [&](const Tensor& t) {
    return index_reduce(t, dim, index, source, reduce, include_self);
  });
}

Tensor scaled(const Tensor& t, Scalar alpha) {
  return alpha.to_double() == 1 ? t : mul(t, alpha);
}

Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                 Scalar alpha) {
  return scatter_with(self, dim, index_for(self, dim, index, source, "index_add"),
                      scaled(source, alpha), ops::kAdd, "index_add");
}
Tensor index_add_(Tensor self, int64_t dim, const Tensor& index, const Tensor& source,
                  Scalar alpha) {
  return scatter_with_(self, dim, index_for(self, dim, index, source, "index_add_"),
                       scaled(source, alpha), ops::kAdd, "index_add_");
}
Tensor index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  return scatter_with(self, dim, index_for(self, dim, index, source, "index_copy"), source,
                      ops::kAssign, "index_copy");
}
Tensor index_copy_(Tensor self, int64_t dim, const Tensor& index, const Tensor& source) {
  return scatter_with_(self, dim, index_for(self, dim, index, source, "index_copy_"), source,
                       ops::kAssign, "index_copy_");
}

// One element seen as the source of all slices that the index names.
Tensor fill_source(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value,
                   const char* op) {
  ops::check_defined(self, op);
  ops::check_defined(index, op);
  PF_CHECK(value->numel == 1, ShapeError, op, "got a value of shape ", value->shape,
           "; expected one element; pass a number");
  ops::check_fits(self, value, op);
  Dims shape = self->shape;
  if (!shape.empty()) shape[wrap_dim(dim, shape.size(), op)] = index->numel;
  return expand(reshape(to(value, self->dtype), {}), shape.vec());
}
// The same as a choice, in which an index that is named twice counts once in the value's gradient.
Tensor fill_chosen(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value,
                   const char* op) {
  const Device device = self->storage->device;
  const int d = self->shape.empty() ? 0 : wrap_dim(dim, self->shape.size(), op);
  Dims shape = Dims::filled(self->shape.size(), 1);
  if (!shape.empty()) shape[d] = self->shape[d];
  const Tensor named = ops::raw_full(shape, DType::Bool, device, Scalar(false));
  const Tensor yes = ops::raw_full({}, DType::Bool, device, Scalar(true));
  const Tensor source = fill_source(named, d, index, yes, op);
  return where(
      scatter_with(named, d, index_for(named, d, index, source, op), source, ops::kAssign, op),
      reshape(to(value, self->dtype), {}), self);
}
Tensor index_fill_tensor(const Tensor& self, int64_t dim, const Tensor& index,
                         const Tensor& value) {
  const char* op = "index_fill";
  const Tensor source = fill_source(self, dim, index, value, op);
  if (autograd::wanted({value})) return fill_chosen(self, dim, index, value, op);
  return scatter_with(self, dim, index_for(self, dim, index, source, op), source, ops::kAssign, op);
}
Tensor index_fill_tensor_(Tensor self, int64_t dim, const Tensor& index, const Tensor& value) {
  const char* op = "index_fill_";
  const Tensor source = fill_source(self, dim, index, value, op);
  if (autograd::wanted({value})) return copy_(self, fill_chosen(self, dim, index, value, op));
  return scatter_with_(self, dim, index_for(self, dim, index, source, op), source, ops::kAssign,
                       op);
}
Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, Scalar value) {
  ops::check_defined(self, "index_fill");
  return index_fill_tensor(self, dim, index,
                           scalar_tensor(value, self->dtype, self->storage->device));
}
Tensor index_fill_(Tensor self, int64_t dim, const Tensor& index, Scalar value) {
  ops::check_defined(self, "index_fill_");
  return index_fill_tensor_(self, dim, index,
                            scalar_tensor(value, self->dtype, self->storage->device));
}

// ---- x[...] = values ----------------------------------------------------------------------------

// x[mask] = number: a where over the whole tensor, so that nothing waits for the mask.
bool put_masked(Tensor& self, const TensorList& indices, const Tensor& values) {
  if (values->numel != 1 || indices.empty() || !indices[0].defined() ||
      indices[0]->dtype != DType::Bool || values->shape.size() > 1 ||
      info(self->dtype).storage_only)
    return false;
  for (size_t i = 1; i < indices.size(); ++i)
    if (indices[i].defined()) return false;
  const Tensor& mask = indices[0];
  const int n = mask->shape.size();
  if (n == 0 || n > self->shape.size()) return false;
  for (int d = 0; d < n; ++d)
    if (mask->shape[d] != self->shape[d]) return false;  // resolve() says what is wrong
  Dims shape = mask->shape;
  shape.resize(self->shape.size(), 1);
  Tensor value = values;
  if (value->storage == self->storage) value = clone(value);
  if (!value->shape.empty()) value = reshape(value, {});
  copy_(self, where(reshape(mask, shape.vec()), to(value, self->dtype), self));
  return true;
}

autograd::BackwardFn put_backward(size_t n, bool accumulate, const Dims& values, DType dtype);

// The write itself: `list` as resolve() gives it, values of any shape that broadcasts.
void put(const Tensor& self, const TensorList& list, const Tensor& values, bool accumulate,
         const char* op) {
  NoGrad off;
  const DType sum = accumulate ? ops::wide_type(self->dtype) : self->dtype;
  Tensor target = sum == self->dtype ? self : to(self.detach(), sum);
  ops::Plan p = ops::plan_index(target, list, op);
  Tensor v = to(values.detach(), sum);
  if (v->storage == self->storage) v = ops::raw_clone(v);
  while (v->shape.size() > p.shape.size() && v->shape[0] == 1) v = squeeze(v, 0);
  bool fits = v->shape.size() <= p.shape.size();
  for (int d = 1; fits && d <= v->shape.size(); ++d) {
    const int64_t s = v->shape[v->shape.size() - d];
    fits = s == 1 || s == p.shape[p.shape.size() - d];
  }
  PF_CHECK(fits, ShapeError, op, "got values of shape ", values->shape,
           " for indexed places of "
           "shape ",
           p.shape, "; expected a shape that broadcasts to it; reshape the values");
  ops::run_index_put(p, ops::spread(v, p.shape), accumulate, op);
  if (sum != self->dtype) ops::raw_copy(self, to(target, self->dtype));
}

Tensor index_put_resolved(const Tensor& self, const TensorList& list, const Tensor& values,
                          bool accumulate) {
  Tensor out = ops::raw_clone(self);
  put(out, list, values, accumulate, "index_put");
  if (autograd::wanted({self, values})) {
    std::vector<Saved> saved;
    for (const Tensor& t : list) saved.emplace_back(t);
    autograd::attach("index_put", {out}, {self, values}, std::move(saved),
                     put_backward(list.size(), accumulate, values->shape, values->dtype));
  }
  return out;
}

autograd::BackwardFn put_backward(size_t n, bool accumulate, const Dims& values, DType dtype) {
  return [n, accumulate, shape = values, dtype](const Context& c) -> Grads {
    Grads r(2);
    const Tensor& g = c.grad();
    TensorList list;
    for (size_t i = 0; i < n; ++i) list.push_back(c.saved(i));
    if (c.needs(0))
      r[0] = accumulate ? g
                        : index_put_resolved(g, list,
                                             scalar_tensor(0, g->dtype, g->storage->device), false);
    if (c.needs(1)) {
      Tensor v = ops::index_read(g, list, "index");
      Dims target = shape;  // leading ones beyond the places' dimensions
      while (target.size() > v->shape.size()) target.erase(0);
      r[1] = to(reshape(ops::sum_to(v, target), shape.vec()), dtype);
    }
    return r;
  };
}

void check_put(const Tensor& self, const Tensor& values, const char* op) {
  ops::check_defined(self, op);
  ops::check_defined(values, op);
  ops::check_same_device(self, values, op);
}

}  // namespace

Tensor& index_put_(Tensor& self, const TensorList& indices, const Tensor& values, bool accumulate) {
  check_put(self, values, "index_put_");
  if (!accumulate && put_masked(self, indices, values)) return self;
  ops::Indices r = ops::resolve(self, indices, "index_put_");
  bool any = false;
  for (Tensor& t : r.list) {
    any = any || t.defined();
    if (t.defined() && t->storage == self->storage) t = clone(t);
  }
  if (!any) {
    Tensor v = to(values, self->dtype);
    return accumulate ? add_(self, v) : copy_(self, v);
  }
  if (is_complex(self) && accumulate) {  // into both parts
    Tensor both = view_as_real(self);
    TensorList list = r.list;
    list.resize(static_cast<size_t>(self->shape.size()));
    index_put_(both, list, view_as_real(to(values, self->dtype)), true);
    return self;
  }
  if (r.self.impl() != self.impl()) {  // a mask of 0 dimensions: write through the view
    index_put_(r.self, r.list, values, accumulate);
    return self;
  }
  std::vector<Saved> saved;
  for (const Tensor& t : r.list) saved.emplace_back(t);
  ops::write_inplace(self, "index_put_", {self, values}, std::move(saved),
                     put_backward(r.list.size(), accumulate, values->shape, values->dtype),
                     [&] { put(self, r.list, values, accumulate, "index_put_"); });
  return self;
}

static Tensor index_put(const Tensor& self, const TensorList& indices, const Tensor& values,
                        bool accumulate) {
  check_put(self, values, "index_put");
  Tensor start = ops::beside(self, {values}, "index_put");
  for (const Tensor& t : indices) start = ops::beside(start, {t}, "index_put");
  Tensor out = clone(start);
  index_put_(out, indices, values, accumulate);
  return out;
}

namespace ops {
namespace {

const Family kScatter("indexing", [](Family& f) {
  f.op(&scatter_src, {"scatter(Tensor input, int dim, Tensor index, Tensor src, *, str? "
                      "reduce=None) -> Tensor",
                      "A copy with out[i][index[i][j]] = src[i][j] (dim=1). reduce: 'add' or "
                      "'multiply' (no gradient). Later indices win."});
  f.op(&scatter_value, {"scatter(Tensor input, int dim, Tensor index, Scalar value, *, str? "
                        "reduce=None) -> Tensor",
                        "The same with one number as source."});
  f.op(&scatter_src_, {"scatter_(Tensor input, int dim, Tensor index, Tensor src, *, str? "
                       "reduce=None) -> Tensor",
                       "In-place scatter.", kMethod});
  f.op(&scatter_value_, {"scatter_(Tensor input, int dim, Tensor index, Scalar value, *, str? "
                         "reduce=None) -> Tensor",
                         "In-place scatter of a number.", kMethod});
  f.op(&scatter_add, {"scatter_add(Tensor input, int dim, Tensor index, Tensor src) -> Tensor",
                      "A copy with src added where the index points, in index order: the same sum "
                      "for any number of threads."});
  f.op(&scatter_add_, {"scatter_add_(Tensor input, int dim, Tensor index, Tensor src) -> Tensor",
                       "In-place scatter_add.", kMethod});
  f.op(&scatter_reduce,
       {"scatter_reduce(Tensor input, int dim, Tensor index, Tensor src, str reduce, *, bool "
        "include_self=True) -> Tensor",
        "Combines src where the index points: 'sum', 'prod', 'mean', 'amax' or 'amin'. Equal "
        "extremes share the gradient."});
  f.op(&scatter_reduce_,
       {"scatter_reduce_(Tensor input, int dim, Tensor index, Tensor src, str reduce, *, bool "
        "include_self=True) -> Tensor",
        "In-place scatter_reduce.", kMethod});
  f.op(&index_reduce,
       {"index_reduce(Tensor input, int dim, Tensor index, Tensor source, str reduce, *, bool "
        "include_self=True) -> Tensor",
        "Combines parts of source along `dim` where the index points: 'prod', 'mean', 'amax' or "
        "'amin'."});
  f.op(&index_reduce_,
       {"index_reduce_(Tensor input, int dim, Tensor index, Tensor source, str reduce, *, bool "
        "include_self=True) -> Tensor",
        "In-place index_reduce.", kMethod});
  f.op(&index_add, {"index_add(Tensor input, int dim, Tensor index, Tensor source, *, Scalar "
                    "alpha=1) -> Tensor",
                    "A copy with alpha * source's slices added at the indices of a dimension."});
  f.op(&index_add_, {"index_add_(Tensor input, int dim, Tensor index, Tensor source, *, Scalar "
                     "alpha=1) -> Tensor",
                     "In-place index_add.", kMethod});
  f.op(&index_copy, {"index_copy(Tensor input, int dim, Tensor index, Tensor source) -> Tensor",
                     "A copy with source's slices at the indices of a dimension."});
  f.op(&index_copy_, {"index_copy_(Tensor input, int dim, Tensor index, Tensor source) -> Tensor",
                      "In-place index_copy.", kMethod});
  f.op(&index_fill_tensor,
       {"index_fill(Tensor input, int dim, Tensor index, Tensor value) -> Tensor",
        "A copy with one value at the indices of a dimension."});
  f.op(&index_fill, {"index_fill(Tensor input, int dim, Tensor index, Scalar value) -> Tensor",
                     "A copy with one value at the indices of a dimension."});
  f.op(&index_fill_tensor_,
       {"index_fill_(Tensor input, int dim, Tensor index, Tensor value) -> Tensor",
        "In-place index_fill.", kMethod});
  f.op(&index_fill_, {"index_fill_(Tensor input, int dim, Tensor index, Scalar value) -> Tensor",
                      "In-place index_fill.", kMethod});
  f.op(&index_put, {"index_put(Tensor input, Tensor[] indices, Tensor values, bool "
                    "accumulate=False) -> Tensor",
                    "A copy with `copy[indices] = values`, or values added with accumulate=True."});
  f.op(
      +[](Tensor t, const TensorList& indices, const Tensor& values, bool accumulate) {
        return index_put_(t, indices, values, accumulate);
      },
      {"index_put_(Tensor input, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor",
       "`x[indices] = values`, or values added with accumulate=True (repeated indices add up, in "
       "index order).",
       kFunction | kMethod});
});

}  // namespace
}  // namespace ops

}  // namespace pyflame
