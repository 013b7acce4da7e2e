// In-place forms of general operations: one number everywhere, the result written back, and views
// that replace the tensor they were made of.
#include <algorithm>

#include "core/tensor_impl.h"
#include "engine/autograd.h"
#include "ops/building_blocks.h"
#include "ops/matmul.h"
#include "ops/pointwise.h"
#include "ops/registry.h"
#include "ops/replaced.h"
#include "ops/rows.h"
#include "ops/scan.h"

namespace pyflame {

// ---- one number everywhere ----------------------------------------------------------------------

namespace {

// One number for elements that lie at one place is no contradiction: each is written once, by views
// that have it once.
Tensor& fill_overlapping(Tensor& dst, Scalar value) {
  Dims shape = dst->shape;
  int first = -1;  // the dimension whose steps are the smallest
  for (int d = 0; d < shape.size(); ++d) {
    if (dst->strides[d] == 0) shape[d] = 1;
    if (shape[d] > 1 && (first < 0 || dst->strides[d] < dst->strides[first])) first = d;
  }
  Tensor once = as_strided(dst, shape.vec(), dst->strides.vec(), dst->offset);
  if (!may_self_overlap(once->shape, once->strides)) {
    fill_(once, value);
    return dst;
  }
  for (int64_t i = 0; i < shape[first]; ++i) {
    Tensor part = select(once, first, i);
    fill_(part, value);
  }
  return dst;
}

}  // namespace

Tensor& fill_(Tensor& dst, Scalar value) {
  if (!dst->contiguous && may_self_overlap(dst->shape, dst->strides)) [[unlikely]]
    return fill_overlapping(dst, value);
  autograd::check_inplace(dst, "fill_");
  check_range(value, dst->dtype, "fill_", "the value");
  if (dst->dtype == DType::Bool) value = Scalar(value.to_double() != 0);
  if (dst->dtype == DType::UInt64 && value.is_float())  // kernels would read it as an int64
    value = Scalar::of_unsigned(static_cast<uint64_t>(value.f));
  const engine::Operand operands[] = {value};
  engine::pointwise_into(ops::op::cast, dst, compute_type(dst->dtype), operands);
  if (dst->meta) autograd::rebase(dst, {});
  return dst;
}

Tensor& zero_(Tensor& dst) {
  return fill_(dst, 0);
}

namespace {

// ---- `t` becomes its own view `v` ---------------------------------------------------------------

using Form = std::function<Tensor(const Tensor&)>;

Tensor become(Tensor t, const Tensor& v, const char* op, Form redo, Form undo) {
  if (t.impl() == v.impl()) return t;
  autograd::check_history(t, op);  // no element is written
  autograd::become(t, v, std::move(redo), std::move(undo));
  return t;
}

// Dimensions of size 1 come or go.
Tensor become(const Tensor& t, const Tensor& v, const char* op) {
  const auto to_shape = [](const Tensor& like) {
    return [shape = like->shape](const Tensor& x) { return reshape(x, shape.vec()); };
  };
  return become(t, v, op, to_shape(v), to_shape(t));
}

Tensor squeeze_(Tensor t) {
  ops::check_defined(t, "squeeze_", "input");
  return become(t, squeeze(t), "squeeze_");
}
Tensor squeeze_dims_(Tensor t, const IntList& dims) {
  ops::check_defined(t, "squeeze_", "input");
  const int n = t->shape.size();
  Tensor v = t;
  std::vector<int> at;
  for (int64_t d : dims) at.push_back(wrap_dim(d, n, "squeeze_"));
  std::sort(at.rbegin(), at.rend());
  const auto twice = std::adjacent_find(at.begin(), at.end());
  PF_CHECK(twice == at.end(), ValueError, "squeeze_", "got dimension ", *twice,
           " twice; expected each once; leave one out");
  for (int d : at) v = squeeze(v, d);
  return become(t, v, "squeeze_");
}
Tensor unsqueeze_(Tensor t, int64_t dim) {
  ops::check_defined(t, "unsqueeze_", "input");
  return become(t, unsqueeze(t, dim), "unsqueeze_");
}
Tensor exchange(const Tensor& t, int64_t dim0, int64_t dim1, const char* op) {
  const Form again = [dim0, dim1](const Tensor& x) { return transpose(x, dim0, dim1); };
  return become(t, again(t), op, again, again);
}
Tensor transpose_(Tensor t, int64_t dim0, int64_t dim1) {
  ops::check_defined(t, "transpose_", "input");
  return exchange(t, dim0, dim1, "transpose_");
}
Tensor t_(Tensor t) {
  ops::check_defined(t, "t_", "input");
  PF_CHECK(t->shape.size() <= 2, ShapeError, "t_", "got shape ", t->shape,
           "; expected at most 2 dimensions; use transpose_");
  return t->shape.size() < 2 ? t : exchange(t, 0, 1, "t_");
}

// ---- results written back -----------------------------------------------------------------------

#define PF_PRODUCT_INTO(NAME)                                                             \
  Tensor NAME##_(Tensor t, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) { \
    return ops::replaced(                                                                 \
        t, #NAME "_", [&](const Tensor& x) { return NAME(x, a, b, beta, alpha); },        \
        ops::Old::kIsNotRead);                                                            \
  }
PF_PRODUCT_INTO(addmm)
PF_PRODUCT_INTO(addmv)
PF_PRODUCT_INTO(addr)
PF_PRODUCT_INTO(baddbmm)
PF_PRODUCT_INTO(addbmm)

Tensor cumsum_(Tensor t, int64_t dim, std::optional<DType> dtype) {
  return ops::replaced(
      t, "cumsum_", [&](const Tensor& x) { return cumsum(dtype ? to(x, *dtype) : x, dim); },
      ops::Old::kIsNotRead);
}
Tensor cumprod_(Tensor t, int64_t dim, std::optional<DType> dtype) {
  return ops::replaced(t, "cumprod_", [&](const Tensor& x) {
    const int d = wrap_dim(dim, x->shape.size(), "cumprod_");
    PF_CHECK(!dtype || *dtype == x->dtype, DTypeError, "cumprod_", "got dtype ", *dtype,
             " for a tensor of ", x->dtype, "; expected the same; use cumprod");
    return x->shape.empty() ? clone(x) : ops::cumprod(x, d);
  });
}
// The old values of what is written, where the gradient of an exponent reads them.
Tensor kept(const Tensor& x, const Tensor& exponent) {
  return autograd::wanted({exponent}) ? clone(x) : x;
}
Tensor kept(const Tensor& x, Scalar) {
  return x;
}
template <class Exponent>
Tensor float_power_(Tensor t, const Exponent& exponent) {
  const char* op = "float_power_";
  ops::check_defined(t, op, "input");
  PF_CHECK(t->dtype == DType::Float64 || t->dtype == DType::Complex128, DTypeError, op,
           "got dtype ", t->dtype,
           "; expected float64 or complex128, in which the powers are; use pow_");
  return ops::replaced(t, op, [&](const Tensor& x) { return pow(kept(x, exponent), exponent); });
}

// Elements of the flattened tensor replaced (or added to), in place.
Tensor put_(Tensor t, const Tensor& index, const Tensor& source, bool accumulate) {
  const char* op = "put_";
  ops::check_defined(t, op, "input");
  ops::check_defined(index, op, "index");
  ops::check_defined(source, op, "source");
  PF_CHECK(index->numel == source->numel, ShapeError, op, "got ", index->numel, " indices and ",
           source->numel, " values; expected as many; check them");
  Tensor flat = reshape(t, {-1});
  index_put_(flat, {reshape(index, {-1})}, reshape(source, {-1}), accumulate);
  return t->contiguous ? t : copy_(t, reshape(flat, t->shape.vec()));
}
Tensor put(const Tensor& t, const Tensor& index, const Tensor& source, bool accumulate) {
  ops::check_defined(t, "put", "input");
  ops::check_defined(index, "put", "index");
  ops::check_defined(source, "put", "source");
  const Tensor start = ops::beside(t, {index, source}, "put");
  return put_(clone(start), index, source, accumulate);
}

const ops::Family kInplace("in place", [](ops::Family& f) {
  using namespace ops;
  const auto row = [](const char* schema, const char* doc) { return Row{schema, doc, kMethod}; };
  const auto both = [](const char* schema, const char* doc) {
    return Row{schema, doc, kFunction | kMethod};
  };
  f.op(&squeeze_, row("squeeze_(Tensor input) -> Tensor",
                      "The tensor itself, without its dimensions of size 1."));
  f.op(&squeeze_dims_, row("squeeze_(Tensor input, int[] dim) -> Tensor",
                           "The tensor itself, without the named dimensions of size 1."));
  f.op(&unsqueeze_, row("unsqueeze_(Tensor input, int dim) -> Tensor",
                        "The tensor itself, with a new dimension of size 1 at `dim`."));
  const char* kTranspose = "The tensor itself, with two dimensions exchanged.";
  f.op(&transpose_, row("transpose_(Tensor input, int dim0, int dim1) -> Tensor", kTranspose));
  f.op(&transpose_, row("swapaxes_(Tensor input, int axis0, int axis1) -> Tensor", kTranspose));
  f.op(&transpose_, row("swapdims_(Tensor input, int dim0, int dim1) -> Tensor", kTranspose));
  f.op(&t_, row("t_(Tensor input) -> Tensor", "The matrix itself, transposed."));
  f.op(&addmm_, row("addmm_(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar "
                    "alpha=1) -> Tensor",
                    "In-place addmm."));
  f.op(&addmv_, both("addmv_(Tensor input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar "
                     "alpha=1) -> Tensor",
                     "In-place addmv."));
  f.op(&addr_, row("addr_(Tensor input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar "
                   "alpha=1) -> Tensor",
                   "In-place addr."));
  f.op(&baddbmm_, row("baddbmm_(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, "
                      "Scalar alpha=1) -> Tensor",
                      "In-place baddbmm."));
  f.op(&addbmm_, row("addbmm_(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, "
                     "Scalar alpha=1) -> Tensor",
                     "In-place addbmm."));
  f.op(&cumsum_,
       row("cumsum_(Tensor input, int dim, *, dtype? dtype=None) -> Tensor", "In-place cumsum."));
  f.op(&cumprod_,
       row("cumprod_(Tensor input, int dim, *, dtype? dtype=None) -> Tensor", "In-place cumprod."));
  const char* kPower = "In-place float_power, of float64.";
  f.op(&float_power_<Tensor>, row("float_power_(Tensor input, Tensor exponent) -> Tensor", kPower));
  f.op(&float_power_<Scalar>, row("float_power_(Tensor input, Scalar exponent) -> Tensor", kPower));
  f.op(&put_, row("put_(Tensor input, Tensor index, Tensor source, bool accumulate=False) -> "
                  "Tensor",
                  "In-place put."));
  f.op(&put, {"put(Tensor input, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
              "A copy with elements of the flattened tensor replaced by source, or source added "
              "to them."});
});

}  // namespace
}  // namespace pyflame
