// Order statistics, means that leave NaN out, covariances: written in operations.
#include "ops/functions.h"

#include <cmath>

#include "ops/autocast.h"
#include "ops/bins.h"
#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/hidden.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "table/kernels/index.h"

namespace pyflame {
namespace {

using std::optional;

Tensor nan_mask(const Tensor& x) {
  return ne(x, x);
}

// Dimension `d` moved to the end, and back.
Tensor to_last(const Tensor& x, int d) {
  return d == x->shape.size() - 1 ? x : transpose(x, d, -1);
}

Tensor quantile_of(const Tensor& x, const Tensor& q, optional<int64_t> dim, bool keepdim,
                   const std::string& how, bool skip_nan, const char* op) {
  ops::check_floating(x, op);
  ops::check_floating(q, op, "q");
  const DType wide = ops::wide_type(x->dtype);
  PF_CHECK(q->dtype == x->dtype || q->dtype == wide, DTypeError, op, "got q of ", q->dtype, " for ",
           x->dtype, "; expected the same dtype; convert q with .to(dtype)");
  PF_CHECK(q->shape.size() <= 1, ShapeError, op, "got q of shape ", q->shape,
           "; expected a number or one dimension; reshape it");
  const bool known = !ops::hides({q});
  for (double v : known ? q.detach().to_vector<double>() : std::vector<double>())
    PF_CHECK(v >= 0 && v <= 1, ValueError, op, "got q ", v,
             "; expected numbers from 0 to 1; divide percentages by 100");
  const int n = x->shape.size();
  const int d = dim ? wrap_dim(*dim, n, op) : 0;
  const bool lines = dim.has_value() && n > 0;
  const Tensor flat = lines ? to_last(x, d) : reshape(x, {-1});
  const int64_t count = flat->shape.back();
  PF_CHECK(flat->numel > 0, ShapeError, op, "got shape ", x->shape,
           "; expected at least one element in what is ordered; check numel() first");
  const Tensor sorted = sort(flat, -1).first;  // NaN comes last
  Tensor value;
  {
    const Tensor nan = nan_mask(flat).detach();
    Tensor last;  // the highest place, for each line
    if (skip_nan)
      last = clamp(sub(sum(logical_not(nan), IntList{-1}, true), Scalar(1)), Scalar(0), {});
    else
      last = full({1}, Scalar(count - 1), DType::Int64, x->storage->device);
    // Between two elements the result follows q; the places themselves are steps.
    Tensor part, low, high;
    if (how == "linear") {
      part = mul(to(last, wide), to(reshape(q, {-1}), wide));
      part = sub(part, floor(part).detach());
    }
    {
      NoGrad off;
      Tensor rank = mul(to(last, wide), to(reshape(q, {-1}), wide));
      if (how == "lower") rank = floor(rank);
      if (how == "higher") rank = ceil(rank);
      if (how == "nearest") rank = round(rank);
      Dims shape = flat->shape;
      shape[shape.size() - 1] = q->numel;
      rank = contiguous(expand(rank, shape.vec()));
      if (!skip_nan)  // a NaN is the last element, and the result
        rank = where(any(nan, IntList{-1}, true), Scalar(static_cast<double>(count - 1)), rank);
      low = to(floor(rank), DType::Int64);
      high = to(ceil(rank), DType::Int64);
    }
    value = gather(sorted, -1, low);
    if (how == "linear" || how == "midpoint") {
      const Tensor above = gather(sorted, -1, high);
      const Tensor weight =
          how == "midpoint" ? full({}, Scalar(0.5), wide, x->storage->device) : part;
      value = to(lerp(to(value, wide), to(above, wide), weight), x->dtype);
    } else {
      PF_CHECK(how == "lower" || how == "higher" || how == "nearest", ValueError, op,
               "got interpolation '", how,
               "'; expected linear, lower, higher, midpoint or nearest; choose one");
    }
  }
  // [lines..., q] -> [q, lines...]
  if (lines) value = to_last(value, d);  // the quantiles stand in the place of `dim`
  const int at = lines ? d : 0;
  Tensor front = value;
  if (at > 0) {
    IntList order{at};
    for (int i = 0; i < value->shape.size(); ++i)
      if (i != at) order.push_back(i);
    front = permute(value, order);
  }
  if (keepdim) {
    Dims ones = x->shape;
    for (int i = 0; i < n; ++i)
      if (!lines || i == d) ones[i] = 1;
    IntList shape{q->numel};
    shape.insert(shape.end(), ones.begin(), ones.end());
    front = reshape(front, shape);
  }
  return q->shape.empty() ? squeeze(front, 0) : front;
}

Tensor number(double q, const Tensor& x) {
  ops::check_floating(x, "quantile");
  return full({}, Scalar(q), ops::wide_type(x->dtype), x->storage->device);
}

}  // namespace

Tensor quantile(const Tensor& x, const Tensor& q, optional<int64_t> dim, bool keepdim,
                const std::string& interpolation) {
  PF_AUTOCAST("quantile", FollowElseRaise, quantile, x, q, dim, keepdim, interpolation);
  return quantile_of(x, q, dim, keepdim, interpolation, false, "quantile");
}
Tensor quantile(const Tensor& x, double q, optional<int64_t> dim, bool keepdim,
                const std::string& interpolation) {
  return quantile(x, number(q, x), dim, keepdim, interpolation);
}
Tensor nanquantile(const Tensor& x, const Tensor& q, optional<int64_t> dim, bool keepdim,
                   const std::string& interpolation) {
  PF_AUTOCAST("nanquantile", FollowElseRaise, nanquantile, x, q, dim, keepdim, interpolation);
  return quantile_of(x, q, dim, keepdim, interpolation, true, "nanquantile");
}
Tensor nanquantile(const Tensor& x, double q, optional<int64_t> dim, bool keepdim,
                   const std::string& interpolation) {
  return nanquantile(x, number(q, x), dim, keepdim, interpolation);
}

Tensor nanmean(const Tensor& x, const optional<IntList>& dim, bool keepdim, optional<DType> dtype) {
  if (!x.defined() || !is_complex(x)) ops::check_floating(x, "nanmean");
  const Tensor given = dtype ? to(x, *dtype) : x, wide = ops::widened(given);
  const Tensor count = sum(logical_not(nan_mask(x)), dim, keepdim);
  return to(div(nansum(wide, dim, keepdim, {}), to(count, wide->dtype)), given->dtype);
}

std::pair<Tensor, Tensor> nanmedian(const Tensor& x, int64_t dim, bool keepdim) {
  ops::check_arithmetic(x, "nanmedian");
  if (!is_float(x->dtype) || x->shape.empty()) return median(x, dim, keepdim);
  const int d = wrap_dim(dim, x->shape.size(), "nanmedian");
  PF_CHECK(x->shape[d] > 0, IndexError, "nanmedian", "got shape ", x->shape, " and dim ", dim,
           "; expected at least one element along it; check the sizes first");
  const Tensor at = ops::nth_index(x, d, ops::Nth::NanMedian);
  const Tensor v = gather(x, d, at);
  return keepdim ? std::pair{v, at} : std::pair{squeeze(v, d), squeeze(at, d)};
}
Tensor nanmedian(const Tensor& x) {
  return ops::middle_of_all("nanmedian", x, nanmedian);
}

std::pair<Tensor, Tensor> mode(const Tensor& x, int64_t dim, bool keepdim) {
  ops::check_arithmetic(x, "mode");
  if (ops::is_wide_unsigned(x))
    return ops::in_order(x, [&](const Tensor& t) { return mode(t, dim, keepdim); });
  if (x->shape.empty()) return {clone(x), zeros({}, DType::Int64, x->storage->device)};
  const int d = wrap_dim(dim, x->shape.size(), "mode");
  const int64_t n = x->shape[d];
  PF_CHECK(n > 0, IndexError, "mode", "got shape ", x->shape, " and dim ", dim,
           "; expected at least one element along it; check the sizes first");
  Tensor at;
  {
    NoGrad off;
    // Equal values stand together after sorting: the last place of the longest run, the first of
    // equally long ones, is farthest from where its run begins.
    auto [values, order] = sort(x, d);
    IntList along(static_cast<size_t>(x->shape.size()), 1);
    along[static_cast<size_t>(d)] = n;
    const Tensor place = reshape(arange(0, n, 1, DType::Int64, x->storage->device), along);
    Tensor begin = zeros_like(slice(order, d, 0, 1));
    if (n > 1) {
      const Tensor fresh = ne(slice(values, d, 1, n), slice(values, d, 0, n - 1));
      begin = cat({begin, mul(fresh, slice(place, d, 1, n))}, d);
    }
    at = gather(order, d, max(sub(place, cummax(begin, d).first), d, true).second);
  }
  const Tensor v = gather(x, d, at);
  return keepdim ? std::pair{v, at} : std::pair{squeeze(v, d), squeeze(at, d)};
}

std::pair<Tensor, Tensor> aminmax(const Tensor& x, optional<int64_t> dim, bool keepdim) {
  optional<IntList> at;
  if (dim) at = IntList{*dim};
  return {amin(x, at, keepdim), amax(x, at, keepdim)};
}

namespace {

// One weight an observation: how often it was seen (whole numbers), or how much it counts.
void check_weights(const Tensor& w, const char* what, int64_t n, bool whole) {
  const char* op = "cov";
  PF_CHECK(w->shape == Dims{n}, ShapeError, op, "got ", what, " of shape ", w->shape, " for ", n,
           " observations; expected one each; check them");
  PF_CHECK(is_float(w->dtype) != whole && w->dtype != DType::Bool, DTypeError, op, "got ", what,
           " of dtype ", w->dtype, "; expected ", whole ? "integers" : "a floating-point dtype",
           "; ", whole ? "fractions are aweights" : "whole numbers are fweights");
  NoGrad off;
  PF_CHECK(n == 0 || ops::hides({w}) || amin(w).item<double>() >= 0, ValueError, op,
           "got a negative one in ", what, "; expected 0 or more; check them");
}

// In float32 or wider, and the dtype that is to come of it.
std::pair<Tensor, DType> covariance(const Tensor& x, int64_t correction, const Tensor& fweights,
                                    const Tensor& aweights, const char* op) {
  ops::check_defined(x, op);
  if (!is_complex(x)) ops::check_arithmetic(x, op);
  PF_CHECK(x->shape.size() <= 2, ShapeError, op, "got shape ", x->shape,
           "; expected at most two dimensions: variables and observations; reshape it");
  DType out = is_integral(x->dtype, true) ? default_dtype() : x->dtype;
  if (aweights.defined()) out = promote(out, aweights->dtype);
  Tensor t = ops::widened(to(x, out));
  if (t->shape.size() < 2) t = reshape(t, {1, -1});
  const int64_t n = t->shape[1];
  if (fweights.defined()) check_weights(fweights, "fweights", n, true);
  if (aweights.defined()) check_weights(aweights, "aweights", n, false);
  Tensor w;
  for (const Tensor* given : {&fweights, &aweights})
    if (given->defined()) {
      const Tensor one = to(*given, real_type(t->dtype));
      w = w.defined() ? mul(w, one) : one;
    }
  const Scalar c(static_cast<double>(correction));
  const IntList observations{1};
  Tensor d, factor;
  if (!w.defined()) {
    d = ops::centred(t, observations);
    factor = full({}, Scalar(static_cast<double>(n) - static_cast<double>(correction)),
                  real_type(t->dtype), t->storage->device);
  } else {
    const Tensor total = sum(w), near = n > 0 ? sub(t, slice(t.detach(), 1, 0, 1)) : t;
    d = sub(near, div(sum(mul(near, w), observations, true), total));
    factor = aweights.defined()
                 ? sub(total, mul(div(sum(mul(w, to(aweights, w->dtype))), total), c))
                 : sub(total, c);
  }
  const Tensor weighted = w.defined() ? mul(d, w) : d;
  const Tensor r = div(matmul(weighted, conj(transpose(d, 0, 1))), clamp(factor, Scalar(0.0), {}));
  return {x->shape.size() < 2 ? reshape(r, {}) : squeeze(r), out};
}

}  // namespace

Tensor cov(const Tensor& x, int64_t correction, const Tensor& fweights, const Tensor& aweights) {
  const auto [r, dtype] = covariance(x, correction, fweights, aweights, "cov");
  return to(r, dtype);
}

Tensor corrcoef(const Tensor& x) {
  const auto [c, dtype] = covariance(x, 1, {}, {}, "corrcoef");
  if (c->shape.empty()) return to(div(c, c), dtype);
  const Tensor s = sqrt(real(diagonal(c)));
  const Tensor r = div(div(c, unsqueeze(s, 1)), unsqueeze(s, 0));
  const auto within = [](const Tensor& t) { return clamp(t, Scalar(-1.0), Scalar(1.0)); };
  return to(is_complex(r) ? ops::over_parts(r, within) : within(r), dtype);
}

namespace {
// Neighbouring pairs along `d`: the later and the earlier elements.
std::pair<Tensor, Tensor> neighbours(const Tensor& t, int64_t d) {
  PF_CHECK(!t->shape.empty(), ShapeError, "trapezoid",
           "got a tensor of 0 dimensions; expected at least 1; reshape it");
  const int64_t n = t->shape[wrap_dim(d, t->shape.size(), "trapezoid")];
  return {narrow(t, d, n > 0 ? 1 : 0, n > 0 ? n - 1 : 0), narrow(t, d, 0, n > 0 ? n - 1 : 0)};
}
// Sums of two integers may pass their dtype.
Tensor summable(const Tensor& t) {
  return is_integral(t->dtype, true) ? to(t, DType::Float64) : ops::widened(t);
}
void check_summable(const Tensor& t) {
  ops::check_defined(t, "trapezoid");
  if (!is_complex(t)) ops::check_arithmetic(t, "trapezoid");
}
}  // namespace

Tensor trapezoid(const Tensor& given, const Tensor& points, int64_t dim) {
  check_summable(given);
  check_summable(points);
  const Tensor y = summable(given), x = summable(points);
  const int d = wrap_dim(dim, y->shape.size(), "trapezoid");
  Tensor at = x;
  if (x->shape.size() == 1 && !y->shape.empty()) {  // along `dim`, the same for all lines
    IntList shape(static_cast<size_t>(y->shape.size()), 1);
    shape[static_cast<size_t>(d)] = x->numel;
    at = reshape(x, shape);
  }
  const auto [later, earlier] = neighbours(y, d);
  const auto [right, left] = neighbours(at, d - y->shape.size());
  const Tensor areas = mul(sub(right, left), add(later, earlier));
  const DType out = promote(points->dtype, given->dtype);
  return to(div(sum(areas, IntList{d}), Scalar(2.0)),
            is_integral(out, true) ? default_dtype() : out);
}
Tensor trapezoid(const Tensor& y, double dx, int64_t dim) {
  check_summable(y);
  PF_CHECK(!y->shape.empty(), ShapeError, "trapezoid",
           "got a tensor of 0 dimensions; expected at least 1; reshape it");
  const int d = wrap_dim(dim, y->shape.size(), "trapezoid");
  const int64_t n = y->shape[d];
  // The ends count by half, and no sums of pairs are kept. Fewer than two have no area.
  Tensor total = sum(summable(narrow(y, d, n > 1 ? 1 : 0, n > 1 ? n - 2 : 0)), IntList{d});
  if (n > 1) {
    const Tensor ends = add(summable(select(y, d, 0)), summable(select(y, d, n - 1)));
    total = add(total, mul(ends, Scalar(0.5)));
  }
  return to(mul(total, Scalar(dx)), is_integral(y->dtype, true) ? default_dtype() : y->dtype);
}

// ---- rows of the table --------------------------------------------------------------------------

namespace {

// Ends of bins: those that were given, or the least and the largest element where they are equal.
template <class T>
std::pair<T, T> ends_of_bins(const Tensor& x, T low, T high) {
  if (low == high && x->numel > 0) {
    const Tensor least = amin(x), most = amax(x);  // both, then a wait
    low = least.item<T>();
    high = most.item<T>();
  }
  if (low == high) return {low - 1, high + 1};
  return {low, high};
}

// Of integers: the bin of each in whole numbers, exactly.
Tensor places_of_integers(const Tensor& given, int64_t bins, Scalar min, Scalar max) {
  const Tensor x = to(given, DType::Int64);
  const auto [low, high] = ends_of_bins(x, min.to_int(), max.to_int());
  PF_CHECK(low < high, ValueError, "histc", "got the range ", low, " to ", high,
           "; expected the first below the second; pass min and max");
  const Tensor inside = logical_and(ge(x, Scalar(low)), le(x, Scalar(high)));
  const Tensor above = mul(sub(x, Scalar(low)), Scalar(bins));
  const Tensor width = scalar_tensor(Scalar(high - low), DType::Int64, x->storage->device);
  return where(inside, clamp(div(above, width, "trunc"), Scalar(int64_t{0}), Scalar(bins - 1)),
               Scalar(bins));
}

// In this order and in the input's own arithmetic, as PyTorch: values on an edge are rounded into
// a bin, and should come out in the same.
Tensor places_of_floats(const Tensor& given, int64_t bins, Scalar min, Scalar max) {
  const auto [low, high] = ends_of_bins(given, min.to_double(), max.to_double());
  PF_CHECK(std::isfinite(low) && std::isfinite(high) && low < high, ValueError, "histc",
           "got the range ", low, " to ", high,
           "; expected finite ends, the first below the second; pass min and max");
  const Tensor x = ops::widened(given);
  const Tensor inside = logical_and(ge(x, Scalar(low)), le(x, Scalar(high)));
  const Tensor from = scalar_tensor(Scalar(low), x->dtype, x->storage->device);
  const Tensor width = sub(scalar_tensor(Scalar(high), x->dtype, x->storage->device), from);
  const Tensor place = mul(div(sub(x, from), width), Scalar(static_cast<double>(bins)));
  return where(inside, clamp(to(place, DType::Int64), Scalar(int64_t{0}), Scalar(bins - 1)),
               Scalar(bins));
}

// Counts of equal bins from min to max; both ends belong to a bin. NaN and what lies outside are
// left out. With min == max the ends are those of the input.
Tensor histc(const Tensor& t, int64_t bins, Scalar min, Scalar max) {
  ops::check_defined(t, "histc");
  PF_CHECK(bins > 0, ValueError, "histc", "got ", bins, " bins; expected at least 1; correct it");
  const bool whole = is_integral(t->dtype);
  PF_CHECK((whole || is_float(t->dtype)) && !info(t->dtype).storage_only, DTypeError, "histc",
           "got dtype ", t->dtype,
           "; expected a floating-point or integer dtype; convert with .to(pyflame.float32)");
  checked_numel({bins}, "histc");
  const Tensor x = reshape(t.detach(), {-1});
  const Tensor place =
      whole ? places_of_integers(x, bins, min, max) : places_of_floats(x, bins, min, max);
  // What lies outside went to one more.
  Tensor counts = make_tensor({bins + 1}, DType::Int64, x->device());
  if (x->numel > 0)
    engine::call<kernels::Bincount>({counts, place}, {.op = "histc"});
  else
    fill_(counts, 0);
  return to(slice(counts, 0, 0, bins), t->dtype);
}

}  // namespace

std::pair<Tensor, Tensor> sums_in_bins(const Tensor& given, const Tensor& weights,
                                       const Tensor& edges, bool any) {
  const char* op = "_binned_sums";
  const auto floats = [&](const Tensor& t) {
    Tensor x = t.detach();
    return x->dtype == DType::Float32 || x->dtype == DType::Float64 ? x : to(x, DType::Float64);
  };
  ops::check_defined(given, op);
  ops::check_same_device(given, edges, op);
  if (weights.defined()) ops::check_same_device(given, weights, op);
  PF_CHECK(given->shape.size() == 1 && (!weights.defined() || weights->shape == given->shape),
           ShapeError, op, "got values of shape ", given->shape,
           "; expected one dimension, and as many weights; ravel them");
  PF_CHECK(edges->shape.size() == 1 && edges->numel >= 2 && edges->dtype == DType::Float64,
           ShapeError, op, "got edges of shape ", edges->shape, " and dtype ", edges->dtype,
           "; expected float64 ends of one bin and more; correct them");
  Tensor x = floats(given), w = weights.defined() ? floats(weights) : Tensor();
  if (w.defined() && w->dtype != x->dtype) {  // of one dtype: no value changes
    x = to(x, DType::Float64);
    w = to(w, DType::Float64);
  }
  const int64_t bins = edges->numel - 1;
  const Device on = x->storage->device;
  // On GPUs while the bins of some warps fit into shared memory.
  constexpr int64_t kShared = 1024;
  if (ops::on_host(on) ||
      (bins <= kShared && engine::has_kernel(engine::kernel<kernels::BinnedSums>(), on))) {
    Tensor sums = make_tensor({bins}, DType::Float64, on);
    Tensor left_out = make_tensor({1}, DType::Int64, on);
    engine::call<kernels::BinnedSums>({sums, left_out, x, edges, w}, {.any = int64_t{any}},
                                      {.op = op});
    return {sums, left_out};
  }
  const Tensor v = to(x, DType::Float64), low = slice(edges, 0, 0, 1);
  const Tensor high = slice(edges, 0, bins, bins + 1);
  Tensor good = logical_and(ge(v, low), le(v, high));
  const Tensor scale =
      div(scalar_tensor(Scalar(static_cast<double>(bins)), DType::Float64, on), sub(high, low));
  Tensor place = where(good, mul(sub(v, low), scale), Scalar(0.0));
  place = clamp(to(place, DType::Int64), Scalar(int64_t{0}), Scalar(bins - 1));
  // Put right by the edges beside it.
  place = sub(place, to(lt(v, index_select(edges, 0, place)), DType::Int64));
  place = clamp(place, Scalar(int64_t{0}), Scalar(bins - 1));
  place =
      add(place, to(ge(v, index_select(edges, 0, add(place, Scalar(int64_t{1})))), DType::Int64));
  place = clamp(place, Scalar(int64_t{0}), Scalar(bins - 1));
  Tensor amount = w.defined() ? to(w, DType::Float64) : ones_like(to(x, DType::Float64));
  if (!any) good = logical_and(good, logical_and(ge(amount, Scalar(0)), isfinite(amount)));
  place = where(good, place, Scalar(bins));
  Tensor sums = make_tensor({bins + 1}, DType::Float64, on);
  if (x->numel == 0) return {ops::raw_full({bins}, DType::Float64, on, 0), sum(logical_not(good))};
  engine::call<kernels::Bincount>({sums, place, where(good, amount, Scalar(0.0))}, {.op = op});
  return {slice(sums, 0, 0, bins), sum(logical_not(good))};
}

std::pair<Tensor, Tensor> binned_sums(const Tensor& given, const Tensor& weights,
                                      const Tensor& edges) {
  return sums_in_bins(given, weights, edges, false);
}

static const ops::Family kStatistics("statistics", [](ops::Family& f) {
  using namespace ops;
  using Pair = std::pair<Tensor, Tensor>;
  using ByTensor =
      Tensor (*)(const Tensor&, const Tensor&, optional<int64_t>, bool, const std::string&);
  using ByNumber = Tensor (*)(const Tensor&, double, optional<int64_t>, bool, const std::string&);
  const char* kQuantile =
      "Quantiles along `dim`, or of all elements. `q` is a number or a 1-d tensor of the input's "
      "dtype with values from 0 to 1; its dimension comes first in the result. Between two "
      "elements `interpolation` decides: linear, lower, higher, midpoint or nearest. NaN where "
      "there is one.";
  const char* kNanQuantile = "quantile of the elements that are not NaN; NaN where there are none.";
  f.op(static_cast<ByNumber>(&quantile),
       {"quantile(Tensor input, float q, int? dim=None, bool keepdim=False, *, str "
        "interpolation='linear') -> Tensor",
        kQuantile});
  f.op(static_cast<ByTensor>(&quantile),
       {"quantile(Tensor input, Tensor q, int? dim=None, bool keepdim=False, *, str "
        "interpolation='linear') -> Tensor",
        kQuantile});
  f.op(static_cast<ByNumber>(&nanquantile),
       {"nanquantile(Tensor input, float q, int? dim=None, bool keepdim=False, *, str "
        "interpolation='linear') -> Tensor",
        kNanQuantile});
  f.op(static_cast<ByTensor>(&nanquantile),
       {"nanquantile(Tensor input, Tensor q, int? dim=None, bool keepdim=False, *, str "
        "interpolation='linear') -> Tensor",
        kNanQuantile});
  f.op(&nanmean,
       {"nanmean(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> "
        "Tensor",
        "Mean over `dim` (all dimensions by default) of what is not NaN; NaN for nothing."});
  f.op(static_cast<Tensor (*)(const Tensor&)>(&nanmedian),
       {"nanmedian(Tensor input) -> Tensor",
        "The lower median of all elements that are not NaN, 0-d."});
  f.op(static_cast<Pair (*)(const Tensor&, int64_t, bool)>(&nanmedian),
       {"nanmedian(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        "The lower median along `dim` of what is not NaN, and its index."});
  f.op(&mode, {"mode(Tensor input, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor "
               "indices)",
               "The value that occurs most often along `dim` (the smallest of equal ones), and the "
               "index of its last occurrence."});
  f.op(&aminmax, {"aminmax(Tensor input, *, int? dim=None, bool keepdim=False) -> (Tensor min, "
                  "Tensor max)",
                  "amin and amax along `dim`, or of all elements."});
  f.op(&cov, {"cov(Tensor input, *, int correction=1, Tensor? fweights=None, Tensor? "
              "aweights=None) -> Tensor",
              "Covariance matrix of variables (rows) over observations (columns), dividing by n - "
              "correction. fweights counts how often, aweights how much an observation counts."});
  f.op(&corrcoef, {"corrcoef(Tensor input) -> Tensor",
                   "Pearson's correlation of variables (rows) over observations (columns)."});
  for (const char* name : {"trapezoid", "trapz"}) {
    const std::string by_places =
        std::string(name) + "(Tensor y, Tensor x, *, int dim=-1) -> Tensor";
    f.op(
        static_cast<Tensor (*)(const Tensor&, const Tensor&, int64_t)>(&trapezoid),
        {by_places.c_str(), "Integral of y over the places x by the trapezoidal rule.", kFunction});
    const std::string by_step =
        std::string(name) + "(Tensor y, *, float dx=1.0, int dim=-1) -> Tensor";
    f.op(static_cast<Tensor (*)(const Tensor&, double, int64_t)>(&trapezoid),
         {by_step.c_str(), "Integral of y over places dx apart by the trapezoidal rule.",
          kFunction});
  }
  f.op(&histc, {"histc(Tensor input, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
                "Counts of `bins` equal intervals from min to max, the last closed; what lies "
                "outside is left out. With min == max from the smallest to the largest element.",
                kFunction | kMethod, false});
  f.op(&binned_sums,
       {"_binned_sums(Tensor input, Tensor? weights, Tensor edges) -> (Tensor sums, "
        "Tensor left_out)",
        "Sums of the weights [n] (ones) of the values [n] in bins of about equal widths between "
        "float64 edges [bins + 1], the last closed: float64 [bins]; and how many values have no "
        "bin, "
        "or a weight that is negative, NaN or infinite: int64 [1].",
        kFunction, false});
});

}  // namespace pyflame
