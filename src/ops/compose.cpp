// Operations made of others: diagonals, products of lists, histograms, slices put back.
#include <algorithm>
#include <cmath>

#include "ops/building_blocks.h"
#include "ops/registry.h"
#include "ops/rows.h"

namespace pyflame {

namespace {

using std::optional;

// ---- diagonals ----------------------------------------------------------------------------------

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

// ---- slices put back ----------------------------------------------------------------------------

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

// ---- lists --------------------------------------------------------------------------------------

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

// The rows of all combinations of one element from each.
Tensor cartesian_prod(const TensorList& tensors) {
  PF_CHECK(!tensors.empty(), ValueError, "cartesian_prod",
           "got no tensors; expected at least one; check the list");
  if (tensors.size() == 1) return tensors[0];
  Dims shape;
  for (const Tensor& t : tensors) {
    PF_CHECK(t.defined() && t->shape.size() == 1, ShapeError, "cartesian_prod",
             "got a tensor that is not 1-D; expected one dimension each; ravel them");
    shape.push_back(t->numel);
  }
  TensorList columns;
  const int n = shape.size();
  for (int d = 0; d < n; ++d) {
    IntList lone(static_cast<size_t>(n), 1);
    lone[static_cast<size_t>(d)] = shape[d];
    columns.push_back(
        reshape(expand(reshape(tensors[static_cast<size_t>(d)], lone), shape.vec()), {-1}));
  }
  return stack(columns, 1);
}

// How many ways there are to choose r of n with replacement, as far as tensors can hold them.
int64_t choices(int64_t n, int64_t r) {
  __extension__ using Wide = __int128;
  if (n == 0) return 0;
  Wide count = 1;
  for (int64_t k = 1; k <= std::min(r, n - 1); ++k) {
    count = count * (Wide{n} + r - k) / k;
    PF_CHECK(count < (Wide{1} << 60), ShapeError, "combinations", "got ", n, " elements and r ", r,
             "; expected fewer than 2^60 combinations; choose a smaller r");
  }
  return static_cast<int64_t>(count);
}

// All rows of r numbers below n that ascend, not strictly, in order; the columns.
TensorList ascending_rows(int64_t n, int64_t r, Device device) {
  static const engine::Kernel search{"searchsorted"};
  if (r == 1) return {arange(0, n, 1, DType::Int64, device)};
  const Tensor pairs = ops::triangle_indices(n, n, 0, true, DType::Int64, device);
  TensorList columns = {select(pairs, 0, 0), select(pairs, 0, 1)};
  for (int64_t k = 2; k < r; ++k) {  // each row is followed by all numbers from its last one on
    const Tensor last = columns.back(), ends = cumsum(add(neg(last), Scalar(n)), 0);
    const Tensor at = arange(0, choices(n, k + 1), 1, DType::Int64, device);
    const Tensor row = make_tensor(at->shape, DType::Int64, device);
    engine::call(search, {row}, {at, ends}, {Scalar(int64_t{1})}, {.op = "combinations"});
    for (Tensor& c : columns) c = index_select(c, 0, row);
    // The last number grows by one for each that stands before it in its group.
    columns.push_back(add(at, index_select(add(neg(ends), Scalar(n)), 0, row)));
  }
  return columns;
}

// The same as [count, r] from the host's memory, where each row is made from the one before.
Tensor ascending_rows_of_host(int64_t n, int64_t r, int64_t count, bool strictly, Device device) {
  IntList pick(static_cast<size_t>(r)), all;
  all.reserve(static_cast<size_t>(count * r));
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t i = 0; i < r; ++i)
      all.push_back(pick[static_cast<size_t>(i)] + (strictly ? i : 0));
    int64_t i = r - 1;
    while (i > 0 && pick[static_cast<size_t>(i)] == n - 1) --i;
    std::fill(pick.begin() + i, pick.end(), pick[static_cast<size_t>(i)] + 1);
  }
  return from_host(all.data(), {count, r}, DType::Int64, device);
}

Tensor combinations(const Tensor& t, int64_t r, bool with_replacement) {
  const char* op = "combinations";
  ops::check_defined(t, op);
  PF_CHECK(t->shape.size() == 1 && r >= 0, ValueError, op, "got shape ", t->shape, " and r ", r,
           "; expected one dimension and r of at least 0; ravel it");
  const Device device = t->device();
  if (r == 0) return make_tensor({0}, t->dtype, device);
  if (r == 2) {
    const int64_t n = t->numel, diagonal = with_replacement ? 0 : 1;
    const Tensor pairs = ops::triangle_indices(n, n, diagonal, true, DType::Int64, device);
    return index(t, {contiguous(transpose(pairs, 0, 1))});
  }
  // Without replacement the k-th of a row is at least k: what is left ascends as with it.
  const int64_t n = with_replacement ? t->numel : std::max<int64_t>(t->numel - r + 1, 0);
  const int64_t count = choices(n, r);
  checked_numel({count, r}, op);
  // A few are copied sooner than many kernels run: as many as the square of r.
  if (t->storage->device.is_cpu() || count * r <= 4096 || r > 16)
    return index(t, {ascending_rows_of_host(n, r, count, !with_replacement, t->storage->device)});
  TensorList columns = ascending_rows(n, r, device);
  for (int64_t k = 1; k < r && !with_replacement; ++k) {
    Tensor& c = columns[static_cast<size_t>(k)];
    c = add(c, Scalar(k));
  }
  return index(t, {stack(columns, 1)});
}

// ---- counting -----------------------------------------------------------------------------------

// Counts of equal bins from min to max; both ends belong to a bin. NaN and what lies outside are
// left out. With min == max the ends are those of the input.
Tensor histc(const Tensor& t, int64_t bins, Scalar min, Scalar max) {
  ops::check_defined(t, "histc");
  PF_CHECK(bins > 0, ValueError, "histc", "got ", bins, " bins; expected at least 1; correct it");
  PF_CHECK(is_float(t->dtype) && !info(t->dtype).storage_only, DTypeError, "histc", "got dtype ",
           t->dtype, "; expected a floating-point dtype; convert with .to(pyflame.float32)");
  checked_numel({bins}, "histc");
  Tensor x = reshape(t.detach(), {-1});
  double low = min.to_double(), high = max.to_double();
  if (low == high && x->numel > 0) {
    const Tensor least = amin(x), most = amax(x);  // both, then a wait
    low = least.item<double>();
    high = most.item<double>();
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  PF_CHECK(std::isfinite(low) && std::isfinite(high) && low < high, ValueError, "histc",
           "got the range ", low, " to ", high,
           "; expected finite ends, the first below the second; pass min and max");
  x = ops::widened(x);
  Tensor inside = logical_and(ge(x, Scalar(low)), le(x, Scalar(high)));
  // In this order and in the input's own arithmetic, as PyTorch: values on an edge are rounded into
  // a bin, and should come out in the same.
  const Tensor from = scalar_tensor(Scalar(low), x->dtype, x->storage->device);
  const Tensor width = sub(scalar_tensor(Scalar(high), x->dtype, x->storage->device), from);
  Tensor place = mul(div(sub(x, from), width), Scalar(static_cast<double>(bins)));
  place = clamp(to(place, DType::Int64), Scalar(int64_t{0}), Scalar(bins - 1));
  // What lies outside goes to one more.
  static const engine::Kernel count{"bincount"};
  Tensor counts = make_tensor({bins + 1}, DType::Int64, x->device());
  place = where(inside, place, Scalar(bins));
  if (x->numel > 0)
    engine::call(count, {counts}, {place}, {}, {.op = "histc", .checks_index = true});
  else
    fill_(counts, 0);
  return to(slice(counts, 0, 0, bins), t->dtype);
}

Tensor isin(const Tensor& elements, const Tensor& test, bool, bool invert) {
  ops::check_defined(elements, "isin");
  ops::check_defined(test, "isin");
  const DType dtype = promote(elements->dtype, test->dtype);
  Tensor x = to(elements.detach(), dtype), values = reshape(to(test.detach(), dtype), {-1});
  Tensor found;
  if (values->numel == 0) {
    found = ops::raw_full(x->shape, DType::Bool, x->storage->device, 0);
  } else {
    Tensor flat = reshape(x, {-1});
    if (values->numel <= 16) {
      const Tensor low = reshape(flat, {-1, 1});
      found = reshape(any(eq(low, reshape(values, {1, -1})), IntList{1}), x->shape.vec());
    } else {
      // Each element beside the first of the sorted values that is not below it.
      static const engine::Kernel search{"searchsorted"};
      if (dtype == DType::Bool) flat = to(flat, DType::UInt8), values = to(values, DType::UInt8);
      const Tensor sorted = contiguous(sort(values).first);
      Tensor at = make_tensor(flat->shape, DType::Int64, flat->storage->device);
      if (flat->numel > 0)
        engine::call(search, {at}, {flat, sorted}, {Scalar(int64_t{0})}, {.op = "isin"});
      const Tensor candidate = index_select(sorted, 0, clamp(at, {}, Scalar(sorted->numel - 1)));
      found = reshape(eq(candidate, flat), x->shape.vec());
    }
  }
  return invert ? logical_not(found) : found;
}

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

// ---- sequences and powers -----------------------------------------------------------------------

// Sequences [length, ...] of different lengths in one tensor [longest, batch, ...].
Tensor pad_sequence(const TensorList& sequences, bool batch_first, Scalar value, std::string side) {
  const char* op = "pad_sequence";
  PF_CHECK(!sequences.empty(), ValueError, op,
           "got no tensors; expected at least one; check the list");
  PF_CHECK(side == "right" || side == "left", ValueError, op, "got padding_side '", side,
           "'; expected 'right' or 'left'; choose one of them");
  int64_t longest = 0;
  for (const Tensor& t : sequences) {
    ops::check_defined(t, op);
    PF_CHECK(!t->shape.empty() && t->shape.size() == sequences[0]->shape.size(), ShapeError, op,
             "got shapes ", sequences[0]->shape, " and ", t->shape,
             "; expected [length, ...] with equal other sizes; reshape them");
    longest = std::max(longest, t->shape[0]);
  }
  TensorList padded;
  for (const Tensor& t : sequences) {
    IntList around(static_cast<size_t>(2 * t->shape.size()), 0);
    around[around.size() - (side == "right" ? 1 : 2)] = longest - t->shape[0];
    padded.push_back(longest == t->shape[0] ? t : pad(t, around, "constant", value));
  }
  return stack(padded, batch_first ? 0 : 1);
}

Tensor vander(const Tensor& x, optional<int64_t> columns, bool increasing) {
  ops::check_defined(x, "vander");
  PF_CHECK(x->shape.size() == 1, ShapeError, "vander", "got shape ", x->shape,
           "; expected one dimension; ravel it");
  const int64_t n = columns.value_or(x->numel);
  PF_CHECK(n >= 0, ValueError, "vander", "got N ", n, "; expected at least 0; correct it");
  const DType dtype = is_float(x->dtype) ? x->dtype : DType::Int64;
  const Tensor exponents = arange(0, n, 1, DType::Int64, x->storage->device);
  const Tensor powers = pow(unsqueeze(to(x, dtype), 1), to(exponents, dtype));
  return increasing ? powers : flip(powers, {1});
}

Tensor ldexp(const Tensor& x, const Tensor& exponent) {
  ops::check_defined(x, "ldexp");
  ops::check_defined(exponent, "ldexp");
  // Integers are exponents of the other's dtype; two floats are promoted.
  const bool follow = is_float(x->dtype) && !is_float(exponent->dtype);
  return mul(x, exp2(follow ? to(exponent, x->dtype) : exponent));
}

// Summed over what broadcasting had repeated.
Tensor sum_to_size(const Tensor& t, const IntList& size) {
  ops::check_defined(t, "sum_to_size");
  const Dims target(size);
  const Dims wide = broadcast_shapes(t->shape, target, "sum_to_size");
  PF_CHECK(wide == t->shape, ShapeError, "sum_to_size", "got size ", target, " for a tensor of ",
           t->shape, "; expected a shape that broadcasts to it; correct it");
  return target.empty() ? sum(t) : autograd::sum_to(t, target);
}

bool is_same_size(const Tensor& a, const Tensor& b) {
  ops::check_defined(a, "is_same_size");
  ops::check_defined(b, "is_same_size");
  return a->shape == b->shape;
}

bool is_nonzero(const Tensor& t) {
  ops::check_defined(t, "is_nonzero");
  PF_CHECK(t->numel == 1, ShapeError, "is_nonzero", "got ", t->numel,
           " elements; expected one; use any() or all()");
  return t.item().to_double() != 0;
}

// ---- dropout of whole channels ------------------------------------------------------------------

Tensor feature_dropout(const Tensor& t, double p, bool training) {
  ops::check_defined(t, "dropout2d");
  PF_CHECK(p >= 0 && p <= 1, ValueError, "dropout2d", "got probability ", p,
           "; expected 0 <= p <= 1; correct it");
  PF_CHECK(t->shape.size() >= 2, ShapeError, "dropout2d", "got shape ", t->shape,
           "; expected [batch, channels, ...]; unsqueeze it first");
  if (!training || p == 0) return t;
  Dims shape = Dims::filled(t->shape.size(), 1);
  shape[0] = t->shape[0];
  shape[1] = t->shape[1];
  return mul(t, dropout(ops::raw_full(shape, t->dtype, t->storage->device, 1), p, true));
}
Tensor feature_dropout_row(Tensor t, double p, bool training, bool inplace) {
  const Tensor r = feature_dropout(t, p, training);
  return inplace && r.impl() != t.impl() ? copy_(t, r) : r;
}

}  // namespace

namespace ops {
namespace {

TensorList hsplit(const Tensor& t, int64_t sections) {
  check_defined(t, "hsplit");
  return split_along(t, Value(sections), t->shape.size() == 1 ? 0 : 1, 1, "hsplit");
}
TensorList hsplit_at(const Tensor& t, const IntList& indices) {
  check_defined(t, "hsplit");
  return split_along(t, Value(indices), t->shape.size() == 1 ? 0 : 1, 1, "hsplit");
}

const Family kCompose("composed", [](Family& f) {
  f.op(&diag, {"diag(Tensor input, int diagonal=0) -> Tensor",
               "The diagonal of a matrix (a copy), or the matrix with this diagonal."});
  f.op(&diag_embed, {"diag_embed(Tensor input, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
                     "Matrices whose diagonals are the last dimension, zero elsewhere."});
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
  f.op(
      &diagonal_scatter,
      {"diagonal_scatter(Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
       "A copy with a diagonal replaced by src."});
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
  f.op(&block_diag, {"block_diag(Tensor[] tensors) -> Tensor",
                     "A matrix with the given ones along its diagonal.", kFunction});
  f.op(&cartesian_prod, {"cartesian_prod(Tensor[] tensors) -> Tensor",
                         "Rows with one element of each 1-D tensor, in all ways.", kFunction});
  f.op(&combinations, {"combinations(Tensor input, int r=2, bool with_replacement=False) -> Tensor",
                       "Rows of r elements, in all ways, in order."});
  f.op(&histc, {"histc(Tensor input, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
                "Counts of `bins` equal intervals from min to max, the last closed; what lies "
                "outside is left out. With min == max from the smallest to the largest element.",
                kFunction | kMethod, false});
  f.op(&isin, {"isin(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool "
               "invert=False) -> Tensor",
               "Whether each element is one of test_elements.", kFunction, false});
  f.op(
      +[](const Tensor& elements, Scalar test, bool unique, bool invert) {
        return isin(elements, number_like(test, elements, "isin"), unique, invert);
      },
      {"isin(Tensor elements, Scalar test_elements|test_element, *, bool assume_unique=False, "
       "bool invert=False) -> Tensor",
       "The same for one number.", kFunction, false});
  f.op(+[](Scalar element, const Tensor& test, bool unique,
           bool invert) { return isin(number_like(element, test, "isin"), test, unique, invert); },
       {"isin(Scalar elements|element, Tensor test_elements, *, bool assume_unique=False, bool "
        "invert=False) -> Tensor",
        "The same for one number.", kFunction, false});
  f.op(&pad_sequence,
       {"pad_sequence(Tensor[] sequences, bool batch_first=False, Scalar padding_value=0.0, str "
        "padding_side='right') -> Tensor",
        "Sequences [length, ...] as one tensor [longest, batch, ...] (or batch first), the shorter "
        "ones filled up with padding_value.",
        kFunctional});
  f.op(&vander,
       {"vander(Tensor x, int? N=None, bool increasing=False) -> Tensor",
        "Powers of x as columns, from the highest (or from 0, increasing=True).", kFunction});
  f.op(&ldexp, {"ldexp(Tensor input, Tensor other) -> Tensor", "input * 2^other."});
  f.op(&sum_to_size, {"sum_to_size(Tensor input, int[] size) -> Tensor",
                      "Summed to a shape that broadcasts to the input's.", kMethod});
  f.op(&is_same_size, {"is_same_size(Tensor input, Tensor other) -> bool",
                       "Whether both have the same shape.", kFunction | kMethod, false});
  f.op(&is_nonzero,
       {"is_nonzero(Tensor input) -> bool",
        "Whether the one element is not 0. ShapeError for more.", kFunction | kMethod, false});
  f.op(&unravel_index,
       {"unravel_index(Tensor indices, int[] shape) -> Tensor[]",
        "Positions in a flattened tensor as one index for each dimension.", kFunction, false});
  for (const char* schema :
       {"dropout1d(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor",
        "dropout2d(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor",
        "dropout3d(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor"})
    f.op(&feature_dropout_row,
         {schema,
          "Whole channels of [batch, channels, ...] set to 0 with probability p, "
          "the others divided by 1 - p.",
          kFunctional});
});

}  // namespace
}  // namespace ops

}  // namespace pyflame
