// Differences and sums along lines, histograms, floats taken apart.
#include <algorithm>
#include <cmath>

#include "core/dispatch.h"
#include "engine/autograd.h"
#include "engine/other_memory.h"
#include "ops/autocast.h"
#include "ops/bins.h"
#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/hidden.h"
#include "ops/registry.h"
#include "ops/replaced.h"
#include "ops/rows.h"
#include "table/kernels/index.h"

namespace pyflame {

using std::optional;

namespace {

using autograd::Context;
using autograd::Grads;

// ---- differences and sums -----------------------------------------------------------------------

// The derivative along one dimension: of the parabola through each element and its neighbours, at
// the ends of order 1 or 2. `spaces` [n - 1] between neighbours, or undefined: `step` everywhere.
Tensor derivative(const Tensor& y, int d, const Tensor& spaces, double step, int64_t order,
                  const char* op) {
  const int64_t n = y->shape[d];
  PF_CHECK(n > order, ShapeError, op, "got ", n, " elements along dimension ", d,
           "; expected at least ", order + 1, " for edge_order ", order, "; pass dim");
  const auto at = [&](int64_t from, int64_t count) { return narrow(y, d, from, count); };
  const auto line = [&](const Tensor& t) {
    IntList shape(static_cast<size_t>(y->shape.size()), 1);
    shape[static_cast<size_t>(d)] = t->numel;
    return reshape(t, shape);
  };
  Tensor inner, first, last;
  if (!spaces.defined()) {
    const auto by = [](const Tensor& t, double h) { return div(t, Scalar(h)); };
    if (n > 2) inner = by(sub(at(2, n - 2), at(0, n - 2)), 2 * step);
    if (order == 1) {
      first = by(sub(at(1, 1), at(0, 1)), step);
      last = by(sub(at(n - 1, 1), at(n - 2, 1)), step);
    } else {
      const auto end = [&](int64_t i, int64_t j, int64_t k) {
        return add(add(mul(at(i, 1), Scalar(-1.5)), mul(at(j, 1), Scalar(2.0))),
                   mul(at(k, 1), Scalar(-0.5)));
      };
      first = by(end(0, 1, 2), step);
      last = by(end(n - 1, n - 2, n - 3), -step);
    }
  } else {
    // Through three points with spaces a and b between them.
    const auto slopes = [&](int64_t from, int64_t count) {
      const Tensor a = line(narrow(spaces, 0, from, count)),
                   b = line(narrow(spaces, 0, from + 1, count));
      return std::pair(a, b);
    };
    if (n > 2) {
      const auto [a, b] = slopes(0, n - 2);
      const Tensor left = div(sub(at(1, n - 2), at(0, n - 2)), a),
                   right = div(sub(at(2, n - 2), at(1, n - 2)), b);
      inner = div(add(mul(left, b), mul(right, a)), add(a, b));
    }
    const auto step_at = [&](int64_t i) { return line(narrow(spaces, 0, i, 1)); };
    first = div(sub(at(1, 1), at(0, 1)), step_at(0));
    last = div(sub(at(n - 1, 1), at(n - 2, 1)), step_at(n - 2));
    if (order == 2) {
      const Tensor a = step_at(0), b = step_at(1), c = step_at(n - 3), e = step_at(n - 2);
      const Tensor second = div(sub(at(2, 1), at(1, 1)), b),
                   before = div(sub(at(n - 2, 1), at(n - 3, 1)), c);
      first = sub(first, div(mul(sub(second, first), a), add(a, b)));
      last = add(last, div(mul(sub(last, before), e), add(c, e)));
    }
  }
  return inner.defined() ? cat({first, inner, last}, d) : cat({first, last}, d);
}

void check_has_dimensions(const Tensor& t, const char* op) {
  PF_CHECK(!t->shape.empty(), ShapeError, op,
           "got a tensor of 0 dimensions; expected at least 1; reshape it");
}
Tensor in_floats(const Tensor& t, const char* op) {
  ops::check_defined(t, op);
  return is_complex(t) || is_float(t->dtype) ? t : to(t, default_dtype());
}
std::vector<int> all_or(const Tensor& t, const optional<IntList>& dim, const char* op) {
  std::vector<int> dims;
  const int n = t->shape.size();
  if (dim && !dim->empty()) check_has_dimensions(t, op);
  if (dim)
    for (int64_t d : *dim) {
      dims.push_back(wrap_dim(d, n, op));
      PF_CHECK(std::count(dims.begin(), dims.end(), dims.back()) == 1, ValueError, op,
               "got dimension ", d, " twice; expected each once; leave one out");
    }
  else
    for (int d = 0; d < n; ++d) dims.push_back(d);
  return dims;
}
void check_order(int64_t order, const char* op) {
  PF_CHECK(order == 1 || order == 2, ValueError, op, "got edge_order ", order,
           "; expected 1 or 2; pass one of them");
}

TensorList gradient(const Tensor& input, const std::vector<double>& spacing,
                    const optional<IntList>& dim, int64_t edge_order) {
  const char* op = "gradient";
  const Tensor t = in_floats(input, op);
  check_order(edge_order, op);
  const std::vector<int> dims = all_or(t, dim, op);
  PF_CHECK(spacing.size() == 1 || spacing.size() == dims.size(), ValueError, op, "got ",
           spacing.size(), " spacings for ", dims.size(),
           " dimensions; expected one, or one for each; pass spacing");
  TensorList out;
  for (size_t i = 0; i < dims.size(); ++i)
    out.push_back(derivative(t, dims[i], {}, spacing[spacing.size() == 1 ? 0 : i], edge_order, op));
  return out;
}
TensorList gradient_at(const Tensor& input, const TensorList& spacing, const optional<IntList>& dim,
                       int64_t edge_order) {
  const char* op = "gradient";
  const Tensor t = in_floats(input, op);
  check_order(edge_order, op);
  const std::vector<int> dims = all_or(t, dim, op);
  PF_CHECK(spacing.size() == dims.size(), ValueError, op, "got ", spacing.size(),
           " tensors of coordinates for ", dims.size(),
           " dimensions; expected one for each; pass dim");
  TensorList out;
  for (size_t i = 0; i < dims.size(); ++i) {
    const Tensor x = in_floats(spacing[i], op);
    const int64_t n = t->shape[dims[i]];
    ops::check_device(t, x, op);
    PF_CHECK(x->shape.size() == 1 && x->shape[0] == n, ShapeError, op, "got coordinates of shape ",
             x->shape, " for ", n, " elements; expected [", n, "]; pass one for each element");
    const Tensor wide = to(x, t->dtype);
    out.push_back(derivative(
        t, dims[i], n < 2 ? wide : sub(narrow(wide, 0, 1, n - 1), narrow(wide, 0, 0, n - 1)), 1,
        edge_order, op));
  }
  return out;
}

// Sums of the areas so far.
Tensor cumulative(const Tensor& y, const Tensor& steps, double dx, int d) {
  const int64_t n = y->shape[d];
  if (n < 2) return narrow(y, d, 0, 0);
  Tensor areas = mul(add(narrow(y, d, 1, n - 1), narrow(y, d, 0, n - 1)), Scalar(0.5));
  areas = steps.defined() ? mul(areas, steps) : mul(areas, Scalar(dx));
  return cumsum(areas, d);
}
Tensor cumulative_trapezoid(const Tensor& given, double dx, int64_t dim) {
  const char* op = "cumulative_trapezoid";
  const Tensor y = in_floats(given, op);
  check_has_dimensions(y, op);
  return cumulative(y, {}, dx, wrap_dim(dim, y->shape.size(), op));
}
Tensor cumulative_trapezoid_at(const Tensor& given, const Tensor& points, int64_t dim) {
  const char* op = "cumulative_trapezoid";
  const Tensor y = in_floats(given, op), x = in_floats(points, op);
  check_has_dimensions(y, op);
  const int d = wrap_dim(dim, y->shape.size(), op);
  Tensor at = x;
  if (x->shape.size() == 1) {
    IntList shape(static_cast<size_t>(y->shape.size()), 1);
    shape[static_cast<size_t>(d)] = x->numel;
    at = reshape(x, shape);
  }
  const int from_end = d - y->shape.size();
  const int64_t n = at->shape.size() >= -from_end ? at->shape[at->shape.size() + from_end] : 0;
  PF_CHECK(n == y->shape[d], ShapeError, op, "got ", y->shape, " and coordinates of shape ",
           points->shape, "; expected as many along dimension ", d, "; reshape x");
  if (n < 2) return narrow(y, d, 0, 0);
  return cumulative(y, sub(narrow(at, from_end, 1, n - 1), narrow(at, from_end, 0, n - 1)), 1, d);
}

Tensor renorm(const Tensor& x, Scalar p, int64_t dim, Scalar maxnorm) {
  PF_AUTOCAST("renorm", RaiseElseFollow, renorm, x, p, dim, maxnorm);
  const char* op = "renorm";
  ops::check_defined(x, op);
  if (!is_complex(x)) ops::check_floating(x, op);
  PF_CHECK(p.to_double() > 0 && maxnorm.to_double() >= 0, ValueError, op, "got p ", p.to_double(),
           " and maxnorm ", maxnorm.to_double(),
           "; expected p above 0 and maxnorm at least 0; correct them");
  const int n = x->shape.size();
  PF_CHECK(n >= 2, ShapeError, op, "got shape ", x->shape,
           "; expected at least two dimensions; unsqueeze it");
  const int d = wrap_dim(dim, n, op);
  IntList others;
  for (int i = 0; i < n; ++i)
    if (i != d) others.push_back(i);
  const Tensor size = norm(ops::widened(x), p.to_double(), others, true);
  const Tensor limit = div(Scalar(maxnorm.to_double()), add(size, Scalar(1e-7)));
  const Tensor factor = where(gt(size, Scalar(maxnorm.to_double())), limit, Scalar(1.0));
  return mul(x, to(factor, real_type(x->dtype)));
}
Tensor renorm_(Tensor x, Scalar p, int64_t dim, Scalar maxnorm) {
  return ops::replaced(x, "renorm_", [&](const Tensor& t) { return renorm(t, p, dim, maxnorm); });
}

// ---- floats by their bits -----------------------------------------------------------------------

// The bytes of a contiguous tensor as another dtype of the same size, without history.
Tensor seen_as(const Tensor& t, DType dtype) {
  const Tensor dense = contiguous(t.detach());
  Tensor r = ops::raw_view(dense, ops::geometry_of(dense));
  r->dtype = dtype;
  return r;
}
DType bits_of(DType t, const char* op) {
  PF_CHECK(is_float(t) && !info(t).storage_only, DTypeError, op, "got ", t,
           "; expected a floating-point dtype; convert with .to(dtype)");
  return info(t).bits == 16 ? DType::Int16 : info(t).bits == 32 ? DType::Int32 : DType::Int64;
}

Tensor nextafter(const Tensor& x, const Tensor& y) {
  const char* op = "nextafter";
  ops::check_defined(x, op);
  ops::check_defined(y, op);
  const DType t = promote(x->dtype, y->dtype);
  const DType bits = bits_of(t, op);
  const Dims shape = broadcast_shapes(x->shape, y->shape, op);
  const Tensor a = expand(to(x, t), shape.vec()), b = expand(to(y, t), shape.vec());
  Tensor r;
  {
    NoGrad off;
    // As integers floats of one sign are in order. From 0 the first step is the least number.
    const Tensor up = gt(b, a), zero = eq(a, Scalar(0.0)), away = eq(up, gt(a, Scalar(0.0)));
    const Tensor n = seen_as(a, bits);
    const auto either = [&](const Tensor& mask, Scalar yes, Scalar no, DType dtype) {
      return where(mask, scalar_tensor(yes, dtype, n->device()),
                   scalar_tensor(no, dtype, n->device()));
    };
    const Tensor moved = seen_as(add(n, either(away, Scalar(1), Scalar(-1), bits)), t);
    const FloatFormat f = float_format(t);
    const double least = std::ldexp(1.0, f.lowest - f.digits + 1);
    const Tensor small = either(up, Scalar(least), Scalar(-least), t);
    r = where(eq(a, b), b, where(zero, small, moved));
    r = where(logical_or(isnan(a), isnan(b)), add(a, b), r);
  }
  if (autograd::wanted({a, b})) {
    NoGrad off;
    // Not the operands: nextafter_ writes to one of them.
    autograd::attach(op, {r}, {a, b}, {autograd::Saved(ne(a, b))}, [](const Context& c) -> Grads {
      const Tensor zero = zeros_like(c.grad());
      return {where(c.saved(0), c.grad(), zero), zero};
    });
  }
  return r;
}
Tensor nextafter_(Tensor x, const Tensor& y) {
  return ops::replaced(x, "nextafter_", [&](const Tensor& t) { return nextafter(t, y); });
}

TensorList frexp(const Tensor& x) {
  const char* op = "frexp";
  ops::check_floating(x, op);
  const Tensor wide = ops::widened(x);
  const DType bits = bits_of(wide->dtype, op);
  const bool narrow_type = bits == DType::Int32;
  const int64_t digits = narrow_type ? 23 : 52, mask = narrow_type ? 0xff : 0x7ff,
                bias = narrow_type ? 126 : 1022;
  Tensor mantissa, exponent;
  {
    NoGrad off;
    // Numbers below the normal ones first times a power of two.
    const Tensor v = wide.detach();
    const Tensor tiny = lt(abs(v), Scalar(narrow_type ? 0x1p-126 : 0x1p-1022));
    const Tensor scaled = where(tiny, mul(v, Scalar(narrow_type ? 0x1p24 : 0x1p53)), v);
    const Tensor n = seen_as(scaled, bits);
    const Tensor e = bitwise_and(bitwise_right_shift(n, Scalar(digits)), Scalar(mask));
    const Tensor plain = logical_and(isfinite(v), ne(v, Scalar(0.0)));
    const Tensor half =
        bitwise_or(bitwise_and(n, Scalar(~(mask << digits))), Scalar(bias << digits));
    mantissa = to(where(plain, seen_as(half, wide->dtype), v), x->dtype);
    const Tensor shift =
        where(tiny, scalar_tensor(Scalar(narrow_type ? 24 : 53), bits, n->device()),
              scalar_tensor(Scalar(0), bits, n->device()));
    exponent = to(where(plain, sub(sub(e, Scalar(bias)), shift), Scalar(0)), DType::Int32);
  }
  if (autograd::wanted({x}))
    autograd::attach(op, {mantissa}, {x}, {autograd::Saved(exponent)},
                     [](const Context& c) -> Grads {
                       const Tensor e = to(c.saved(0), c.grad()->dtype);
                       return {mul(c.grad(), exp2(neg(e)))};
                     });
  return {mantissa, exponent};
}

// ---- histograms ---------------------------------------------------------------------------------

// The bin of each value by its edges [bins + 1], and whether it has one; the last one has both
// ends.
std::pair<Tensor, Tensor> bins_of(const Tensor& x, const Tensor& edges, const char* op) {
  const int64_t bins = edges->numel - 1;
  const Tensor at = make_tensor(x->shape, DType::Int64, x->device());
  if (x->numel > 0)
    engine::call<kernels::Searchsorted>({at, contiguous(x), edges}, {.right = true}, {.op = op});
  const Tensor low = select(edges, 0, 0), high = select(edges, 0, bins);
  const Tensor inside = logical_and(ge(x, low), le(x, high));
  return {clamp(sub(at, Scalar(1)), Scalar(0), Scalar(bins - 1)), inside};
}

// Ends of all values, or those that are given.
std::pair<double, double> ends_of(const Tensor& x, const std::vector<double>& range, size_t at,
                                  const char* op) {
  double low = 0, high = 1;
  if (!range.empty()) {
    low = range[2 * at];
    high = range[2 * at + 1];
  } else if (x->numel > 0) {
    const Tensor least = amin(x), most = amax(x);
    low = least.item<double>();
    high = most.item<double>();
  }
  PF_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high, ValueError, op,
           "got the range ", low, " to ", high,
           "; expected finite ends, the first no larger than the second; pass range");
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  return {low, high};
}

struct Histogram {
  Tensor counts;
  TensorList edges;
};
// `even`: a product tells which of the edges is nearest.
Histogram count_in(const Tensor& given, TensorList edges, bool even, const Tensor& weight,
                   bool density, const char* op) {
  // One row for each point.
  const int64_t dims = given->shape.back(), points = given->numel / std::max<int64_t>(dims, 1);
  const Tensor x = reshape(given, {points, dims});
  Tensor w;
  if (weight.defined()) {
    PF_CHECK(weight->dtype == given->dtype && weight->numel == points, ShapeError, op,
             "got weights ", weight->dtype, " of shape ", weight->shape,
             "; expected one of the input's dtype for each point; reshape them");
    w = reshape(weight.detach(), {points});
  }
  IntList shape;
  int64_t total = 1;
  for (const Tensor& e : edges) {
    shape.push_back(e->numel - 1);
    total = ops::checked_size(total, e->numel - 1, op);
  }
  Tensor h;
  if (even && dims == 1 && points > 0) {
    h = sums_in_bins(reshape(x, {points}), w, to(edges[0], DType::Float64), true).first;
    h = to(h, x->dtype);
  } else {
    Tensor place = zeros({points}, DType::Int64, given->device()), all_inside;
    for (int64_t d = 0; d < dims; ++d) {
      const Tensor& e = edges[static_cast<size_t>(d)];
      const auto [bin, inside] = bins_of(contiguous(select(x, 1, d)), e, op);
      place = add(mul(place, Scalar(e->numel - 1)), bin);
      all_inside = all_inside.defined() ? logical_and(all_inside, inside) : inside;
    }
    // What lies outside goes to one more.
    if (all_inside.defined()) place = where(all_inside, place, Scalar(total));
    Tensor sums = zeros({total + 1}, w.defined() ? w->dtype : DType::Int64, given->device());
    if (points > 0) engine::call<kernels::Bincount>({sums, place, w}, {.op = op});
    h = to(slice(sums, 0, 0, total), given->dtype);
  }
  h = reshape(h, shape);
  if (density) {
    h = div(h, sum(h));
    for (int64_t d = 0; d < dims; ++d) {
      const Tensor& e = edges[static_cast<size_t>(d)];
      IntList lone(static_cast<size_t>(dims), 1);
      lone[static_cast<size_t>(d)] = e->numel - 1;
      h = div(h, reshape(sub(narrow(e, 0, 1, e->numel - 1), narrow(e, 0, 0, e->numel - 1)), lone));
    }
  }
  return {h, edges};
}

Tensor checked_points(const Tensor& t, const char* op) {
  ops::check_defined(t, op);
  PF_CHECK(t->dtype == DType::Float32 || t->dtype == DType::Float64, DTypeError, op, "got ",
           t->dtype, "; expected float32 or float64; convert with .to(dtype)");
  return t.detach();
}
// `even` is made false on GPUs where edges may be rounded by a quarter of a bin; the host's kernel
// looks at them.
Tensor even_edges(const Tensor& x, int64_t bins, const std::vector<double>& range, size_t at,
                  bool& even, const char* op) {
  PF_CHECK(bins > 0, ValueError, op, "got ", bins, " bins; expected at least 1; correct it");
  const auto [low, high] = ends_of(x, range, at, op);
  const bool wide = x->dtype == DType::Float64;
  const double most = std::max({std::abs(low), std::abs(high), wide ? 0x1p-1022 : 0x1p-126});
  const double rounded = most * 4 * (wide ? 0x1p-52 : 0x1p-23);
  even = even &&
         (ops::on_host(x->storage->device) || 4 * rounded * static_cast<double>(bins) < high - low);
  return linspace(Scalar(low), Scalar(high), bins + 1, x->dtype, x->device());
}
Tensor checked_edges(const Tensor& e, const Tensor& x, const char* op) {
  PF_CHECK(e.defined() && e->shape.size() == 1 && e->numel >= 2 && e->dtype == x->dtype, ShapeError,
           op,
           "got edges that are not one line of at least two of the input's dtype; expected the "
           "ends of all bins, ascending; pass those");
  return clone(e.detach());
}
void check_range_size(const std::vector<double>& range, size_t dims, const char* op) {
  PF_CHECK(range.empty() || range.size() == 2 * dims, ValueError, op, "got ", range.size(),
           " numbers as range; expected two for each dimension, ", 2 * dims, "; correct it");
}

TensorList histogram(const Tensor& given, int64_t bins,
                     const optional<std::vector<double>>& range_or, const Tensor& weight,
                     bool density) {
  const char* op = "histogram";
  const std::vector<double> range = range_or.value_or(std::vector<double>{});
  check_range_size(range, 1, op);
  const Tensor x = ops::beside(reshape(checked_points(given, op), {-1, 1}), {weight}, op);
  bool even = true;
  const Tensor edges = even_edges(x, bins, range, 0, even, op);
  const Histogram h = count_in(x, {edges}, even, weight, density, op);
  return {h.counts, h.edges[0]};
}
TensorList histogram_edges(const Tensor& given, const Tensor& bins, const Tensor& weight,
                           bool density) {
  const char* op = "histogram";
  const Tensor x = ops::beside(reshape(checked_points(given, op), {-1, 1}), {bins, weight}, op);
  const Histogram h = count_in(x, {checked_edges(bins, x, op)}, false, weight, density, op);
  return {h.counts, h.edges[0]};
}

Tensor checked_rows(const Tensor& given, const char* op) {
  const Tensor x = checked_points(given, op);
  PF_CHECK(x->shape.size() >= 2 && x->shape.back() >= 1, ShapeError, op, "got shape ", x->shape,
           "; expected points in rows, [..., dimensions]; unsqueeze it");
  return x;
}
// Counts, then edges.
TensorList histogramdd(const Tensor& given, const IntList& bins,
                       const optional<std::vector<double>>& range_or, const Tensor& weight,
                       bool density) {
  const char* op = "histogramdd";
  const Tensor x = ops::beside(checked_rows(given, op), {weight}, op);
  const std::vector<double> range = range_or.value_or(std::vector<double>{});
  const auto dims = static_cast<size_t>(x->shape.back());
  check_range_size(range, dims, op);
  PF_CHECK(bins.size() == 1 || bins.size() == dims, ValueError, op, "got ", bins.size(),
           " numbers of bins for ", dims, " dimensions; expected one, or one for each; pass bins");
  TensorList edges;
  bool even = true;
  for (size_t d = 0; d < dims; ++d)
    edges.push_back(even_edges(select(x, -1, static_cast<int64_t>(d)),
                               bins[bins.size() == 1 ? 0 : d], range, d, even, op));
  Histogram h = count_in(x, edges, even, weight, density, op);
  h.edges.insert(h.edges.begin(), h.counts);
  return h.edges;
}
TensorList histogramdd_edges(const Tensor& given, const TensorList& bins, const Tensor& weight,
                             bool density) {
  const char* op = "histogramdd";
  const Tensor x = checked_rows(given, op);
  PF_CHECK(static_cast<int64_t>(bins.size()) == x->shape.back(), ValueError, op, "got ",
           bins.size(), " tensors of edges for ", x->shape.back(),
           " dimensions; expected one for each; pass bins");
  TensorList edges;
  for (const Tensor& e : bins) edges.push_back(checked_edges(e, x, op));
  Histogram h = count_in(x, edges, false, weight, density, op);
  h.edges.insert(h.edges.begin(), h.counts);
  return h.edges;
}

// ---- sizes --------------------------------------------------------------------------------------

// The same memory, as far as it reaches, in other sizes.
Tensor resize_(Tensor t, const IntList& size) {
  const char* op = "resize_";
  ops::check_defined(t, op);
  PF_CHECK(!autograd::requires_grad(t), AutogradError, op,
           "got a tensor that requires grad; expected one without history; detach it, or use "
           "reshape");
  const Dims shape(size);
  const int64_t n = checked_numel(shape, op);
  if (shape == t->shape) return t;
  PF_CHECK(!engine::is_hidden(t), NotSupportedError, op,
           "got a tensor that differs from sample to sample of vmap(); use reshape, or pad");
  PF_CHECK(info(t->dtype).bits >= 8, NotSupportedError, op, "got ", t->dtype,
           "; expected elements of whole bytes; make a new tensor");
  const Tensor flat = ops::raw_view(
      t, {Dims{t->storage->nbytes
                   ? static_cast<int64_t>(t->storage->nbytes / itemsize(t->dtype)) - t->offset
                   : 0},
          Dims{1}, t->offset});
  autograd::leave_memory(t, shape, t->dtype, n <= flat->numel);
  if (n > flat->numel) {  // new memory, that begins as the old
    Tensor fresh = make_tensor_at(shape, t->dtype, t->storage->device);
    if (flat->numel > 0) {
      const Tensor first = ops::raw_view(fresh, {Dims{flat->numel}, Dims{1}, 0});
      ops::raw_copy(first, flat);
    }
    t->storage = StorageHandle::share(fresh->storage.get());
    t->offset = 0;
  }
  t->shape = shape;
  t->strides = contiguous_strides(shape);
  t->numel = n;
  t->contiguous = true;
  return t;
}
Tensor resize_as_(Tensor t, const Tensor& other) {
  ops::check_defined(other, "resize_as_");
  return resize_(t, other->shape.vec());
}

const ops::Family kNumeric("differences and histograms", [](ops::Family& f) {
  using namespace ops;
  const char* kGradient =
      "Derivatives along all dimensions, or `dim`, one tensor each: central differences inside, "
      "one-sided ones of edge_order 1 or 2 at the ends. spacing: between elements (one number, or "
      "one for each dimension), or tensors of coordinates.";
  f.op(&gradient, {"gradient(Tensor input, *, float[] spacing=[1.0], int[]? dim=None, int "
                   "edge_order=1) -> Tensor[]",
                   kGradient, kSpecial});
  f.op(&gradient_at, {"gradient_at(Tensor input, *, Tensor[] spacing, int[]? dim=None, int "
                      "edge_order=1) -> Tensor[]",
                      kGradient, kSpecial});
  const char* kAreas =
      "Areas below the line through the elements, up to each of them but the first.";
  f.op(&cumulative_trapezoid,
       {"cumulative_trapezoid(Tensor y, *, float dx=1, int dim=-1) -> Tensor", kAreas, kFunction});
  f.op(&cumulative_trapezoid_at,
       {"cumulative_trapezoid(Tensor y, Tensor x, *, int dim=-1) -> Tensor", kAreas, kFunction});
  f.op(&renorm, {"renorm(Tensor input, Scalar p, int dim, Scalar maxnorm) -> Tensor",
                 "Parts along `dim` whose p-norm is above maxnorm, scaled down to it."});
  f.op(&renorm_, {"renorm_(Tensor input, Scalar p, int dim, Scalar maxnorm) -> Tensor",
                  "In-place renorm.", kMethod});
  f.op(&nextafter, {"nextafter(Tensor input, Tensor other) -> Tensor",
                    "The next number of the dtype in the direction of other."});
  f.op(&nextafter_,
       {"nextafter_(Tensor input, Tensor other) -> Tensor", "In-place nextafter.", kMethod});
  f.op(&frexp, {"frexp(Tensor input) -> (Tensor mantissa, Tensor exponent)",
                "input = mantissa * 2^exponent, mantissas of 0.5 up to 1 (int32 exponents)."});
  const char* kHistogram =
      "Weights of the values in each bin, and the edges: `bins` equal ones over range (by default "
      "of "
      "all values), or between given edges. density: as a density, whose integral is 1.";
  f.op(&histogram, {"histogram(Tensor input, int bins=100, *, float[]? range=None, Tensor? "
                    "weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
                    kHistogram, kFunction | kMethod, false});
  f.op(&histogram_edges, {"histogram(Tensor input, Tensor bins, *, Tensor? weight=None, bool "
                          "density=False) -> (Tensor hist, Tensor bin_edges)",
                          kHistogram, kFunction | kMethod, false});
  f.op(&histogramdd, {"histogramdd(Tensor input, int[] bins, *, float[]? range=None, Tensor? "
                      "weight=None, bool density=False) -> Tensor[]",
                      kHistogram, kSpecial, false});
  f.op(&histogramdd_edges,
       {"histogramdd_at(Tensor input, Tensor[] bins, *, Tensor? weight=None, bool "
        "density=False) -> Tensor[]",
        kHistogram, kSpecial, false});
  f.op(&resize_, {"resize_(Tensor input, int[] size) -> Tensor",
                  "Other sizes over the same memory, in place; new elements have any value.",
                  kMethod, false});
  f.op(&resize_as_, {"resize_as_(Tensor input, Tensor the_template) -> Tensor",
                     "The sizes of another tensor, in place.", kFunction | kMethod, false});
});

}  // namespace
}  // namespace pyflame
