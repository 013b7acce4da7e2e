// Diagonals read and written, slices put back, matrices made of blocks and of powers.
#include <algorithm>
#include <cmath>

#include "ops/building_blocks.h"
#include "ops/registry.h"
#include "ops/rows.h"

namespace pyflame {

using std::optional;

// The last dimension as a diagonal of the dimensions dim1 and dim2 of the result.
Tensor diag_embed(const Tensor& t, int64_t offset, int64_t dim1, int64_t dim2) {
  ops::check_defined(t, "diag_embed");
  PF_CHECK(!t->shape.empty(), ShapeError, "diag_embed",
           "got a tensor of 0 dimensions; expected at least one; unsqueeze it first");
  const int n = t->shape.size() + 1;
  const int a = wrap_dim(dim1, n, "diag_embed"), b = wrap_dim(dim2, n, "diag_embed");
  PF_CHECK(a != b, ValueError, "diag_embed", "got dim1 and dim2 both ", a,
           "; expected two different dimensions; name another");
  const int64_t side = t->shape.back() + std::abs(offset);
  Dims shape;
  for (int d = 0, from = 0; d < n; ++d) shape.push_back(d == a || d == b ? side : t->shape[from++]);
  // The gradient of diagonal() is this very operation.
  ops::Geometry g = ops::packed(shape);
  const int64_t step = g.strides[a] + g.strides[b];
  g.offset = offset >= 0 ? offset * g.strides[b] : -offset * g.strides[a];
  for (int d : {std::max(a, b), std::min(a, b)}) {
    g.shape.erase(d);
    g.strides.erase(d);
  }
  g.shape.push_back(t->shape.back());
  g.strides.push_back(step);
  return ops::scatter_view(t, shape, g);
}

namespace {

Tensor diag(const Tensor& t, int64_t offset) {
  ops::check_defined(t, "diag");
  PF_CHECK(t->shape.size() == 1 || t->shape.size() == 2, ShapeError, "diag", "got shape ", t->shape,
           "; expected 1 or 2 dimensions; use diagonal or diag_embed");
  return t->shape.size() == 1 ? diag_embed(t, offset, 0, 1) : clone(diagonal(t, offset, 0, 1));
}

Tensor diagflat(const Tensor& t, int64_t offset) {
  ops::check_defined(t, "diagflat");
  return diag_embed(reshape(t, {-1}), offset, 0, 1);
}

Tensor fill_diagonal_(Tensor t, Scalar value, bool wrap) {
  ops::check_defined(t, "fill_diagonal_");
  const int n = t->shape.size();
  bool fits = n >= 2;
  for (int d = 1; n > 2 && fits && d < n; ++d) fits = t->shape[d] == t->shape[0];
  PF_CHECK(fits, ShapeError, "fill_diagonal_", "got shape ", t->shape,
           "; expected a matrix, or equal sizes; use diagonal().fill_()");
  if (n == 2 && wrap) {  // again below each square and a row between
    const int64_t rows = t->shape[0], step = t->shape[1] + 1;
    if (t->contiguous && rows > step) {  // each diagonal goes on where the last one would
      Tensor line = as_strided(t, {(t->numel + step - 1) / step}, {step}, t->offset);
      fill_(line, value);
      return t;
    }
    for (int64_t r = 0; r < rows; r += step) {
      Tensor part = diagonal(slice(t, 0, r, std::min(r + step - 1, rows)), 0, 0, 1);
      fill_(part, value);
    }
    return t;
  }
  Tensor line = t;
  while (line->shape.size() > 1) line = diagonal(line, 0, 0, 1);
  fill_(line, value);
  return t;
}

Tensor select_scatter(const Tensor& t, const Tensor& src, int64_t dim, int64_t index) {
  ops::check_defined(t, "select_scatter");
  Tensor out = clone(ops::beside(t, {src}, "select_scatter")), part = select(out, dim, index);
  PF_CHECK(src.defined() && src->shape == part->shape, ShapeError, "select_scatter",
           "got a source whose shape is not ", part->shape, "; expected that shape; reshape it");
  copy_(part, src);
  return out;
}

Tensor slice_scatter(const Tensor& t, const Tensor& src, int64_t dim, optional<int64_t> start,
                     optional<int64_t> end, int64_t step) {
  ops::check_defined(t, "slice_scatter");
  Tensor out = clone(ops::beside(t, {src}, "slice_scatter"));
  Tensor part = slice(out, dim, start.value_or(0), end.value_or(INT64_MAX), step);
  PF_CHECK(src.defined() && src->shape == part->shape, ShapeError, "slice_scatter",
           "got a source whose shape is not ", part->shape, "; expected that shape; reshape it");
  copy_(part, src);
  return out;
}

Tensor as_strided_scatter(const Tensor& t, const Tensor& src, const IntList& size,
                          const IntList& stride, optional<int64_t> offset) {
  const char* op = "as_strided_scatter";
  ops::check_defined(t, op);
  const Tensor start = ops::beside(t, {src}, op);
  Tensor out;
  if (start->contiguous || may_self_overlap(start->shape, start->strides)) {
    out = clone(contiguous(start));
  } else {  // as it lies: strides and offset are those of its memory
    int64_t reach = 1;
    for (int d = 0; d < start->shape.size(); ++d)
      reach += (start->shape[d] - 1) * start->strides[d];
    out = as_strided(zeros({std::max<int64_t>(reach, 0)}, start->dtype, start->storage->device),
                     start->shape.vec(), start->strides.vec(), 0);
    copy_(out, start);
  }
  const int64_t from = offset ? *offset - t->offset : 0;
  Tensor part = as_strided(out, size, stride, out->offset + from);
  PF_CHECK(src.defined() && src->shape == part->shape, ShapeError, op,
           "got a source whose shape is not ", part->shape, "; expected that shape; reshape it");
  copy_(part, src);
  return out;
}

Tensor filled(const Tensor& t, Scalar value) {
  ops::check_defined(t, "fill");
  Tensor out = clone(t);
  return fill_(out, value);
}
Tensor filled_by(const Tensor& t, const Tensor& value) {
  ops::check_defined(t, "fill");
  ops::check_defined(value, "fill", "value");
  PF_CHECK(value->shape.empty(), ShapeError, "fill", "got a value of shape ", value->shape,
           "; expected a number or a 0-d tensor; use expand() for more");
  Tensor out = clone(t);
  return copy_(out, value);
}

Tensor diagonal_scatter(const Tensor& t, const Tensor& src, int64_t offset, int64_t dim1,
                        int64_t dim2) {
  ops::check_defined(t, "diagonal_scatter");
  Tensor out = clone(ops::beside(t, {src}, "diagonal_scatter"));
  Tensor part = diagonal(out, offset, dim1, dim2);
  PF_CHECK(src.defined() && src->shape == part->shape, ShapeError, "diagonal_scatter",
           "got a source whose shape is not ", part->shape, "; expected that shape; reshape it");
  copy_(part, src);
  return out;
}

Tensor block_diag(const TensorList& tensors) {
  PF_CHECK(!tensors.empty(), ValueError, "block_diag",
           "got no tensors; expected at least one; check the list");
  TensorList rows;
  int64_t width = 0, left = 0;
  TensorList blocks;
  for (const Tensor& t : tensors) {
    ops::check_defined(t, "block_diag");
    PF_CHECK(t->shape.size() <= 2, ShapeError, "block_diag", "got shape ", t->shape,
             "; expected at most 2 dimensions; reshape it");
    blocks.push_back(t->shape.size() == 2 ? t : reshape(t, {1, t->numel}));
    width += blocks.back()->shape[1];
  }
  for (const Tensor& b : blocks) {
    const int64_t w = b->shape[1];
    rows.push_back(pad(b, {left, width - left - w}));
    left += w;
  }
  return cat(rows, 0);
}

Tensor vander(const Tensor& x, optional<int64_t> columns, bool increasing) {
  ops::check_defined(x, "vander");
  PF_CHECK(x->shape.size() == 1, ShapeError, "vander", "got shape ", x->shape,
           "; expected one dimension; ravel it");
  const int64_t n = columns.value_or(x->numel);
  PF_CHECK(n >= 0, ValueError, "vander", "got N ", n, "; expected at least 0; correct it");
  const DType dtype = is_integral(x->dtype, true) ? DType::Int64 : x->dtype;
  checked_numel({x->numel, n}, "vander");
  if (x->numel == 0) return clone(expand(reshape(to(x, dtype), {0, 1}), {0, n}));
  const Tensor exponents = arange(0, n, 1, DType::Int64, x->storage->device);
  const Tensor powers = pow(unsqueeze(to(x, dtype), 1), to(exponents, dtype));
  return increasing ? powers : flip(powers, {1});
}

}  // namespace

namespace ops {
namespace {

const Family kDiagonals("diagonals", [](Family& f) {
  f.op(&diag_embed, {"diag_embed(Tensor input, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
                     "Matrices whose diagonals are the last dimension, zero elsewhere."});
  f.op(&diag, {"diag(Tensor input, int diagonal=0) -> Tensor",
               "The diagonal of a matrix (a copy), or the matrix with this diagonal."});
  f.op(&diagflat, {"diagflat(Tensor input, int offset=0) -> Tensor",
                   "The matrix whose diagonal is the flattened input."});
  f.op(&fill_diagonal_,
       {"fill_diagonal_(Tensor input, Scalar fill_value, bool wrap=False) -> Tensor",
        "Writes one value to the main diagonal; wrap=True goes on below it in tall matrices.",
        kMethod});
  f.op(&select_scatter, {"select_scatter(Tensor input, Tensor src, int dim, int index) -> Tensor",
                         "A copy with `copy.select(dim, index)` replaced by src."});
  f.op(&slice_scatter,
       {"slice_scatter(Tensor input, Tensor src, int dim=0, int? start=None, int? end=None, int "
        "step=1) -> Tensor",
        "A copy with a range of a dimension replaced by src."});
  f.op(&as_strided_scatter,
       {"as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int? "
        "storage_offset=None) -> Tensor",
        "A copy that lies as the tensor does, with `copy.as_strided(size, stride, storage_offset)` "
        "replaced by src; the offset is that in the tensor's memory."});
  const char* kFill = "A tensor of the same shape and dtype with one value everywhere.";
  f.op(&filled, {"fill(Tensor input, Scalar value) -> Tensor", kFill, kFunction});
  f.op(&filled_by, {"fill(Tensor input, Tensor value) -> Tensor", kFill, kFunction});
  f.op(
      &diagonal_scatter,
      {"diagonal_scatter(Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
       "A copy with a diagonal replaced by src."});
  f.op(&block_diag, {"block_diag(Tensor[] tensors) -> Tensor",
                     "A matrix with the given ones along its diagonal.", kFunction});
  f.op(&vander,
       {"vander(Tensor x, int? N=None, bool increasing=False) -> Tensor",
        "Powers of x as columns, from the highest (or from 0, increasing=True).", kFunction});
});

}  // namespace
}  // namespace ops

}  // namespace pyflame
