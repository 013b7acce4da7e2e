// Reductions: sums, products, extremes, tests and what is made of them. Dimensions are given to the
// kernels as a mask; their order of summation depends on shape and dtype only.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/autograd.h"
#include "engine/engine.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/functions.h"
#include "ops/linalg.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "ops/scan.h"
#include "table/kernels/reduce.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;
using ops::widened;
using MaybeDims = std::optional<IntList>;

// Which dimensions are reduced, and what comes out.
struct Plan {
  int64_t mask = 0;
  int64_t count = 1;  // elements that go into one result
  Dims kept, ones;    // the result's shape without and with the reduced dimensions
  bool keepdim;
  const Dims& shape() const { return keepdim ? ones : kept; }
};

Plan plan_for(const Tensor& x, const MaybeDims& dim, bool keepdim, const char* op) {
  Plan p;
  p.keepdim = keepdim;
  const int n = x->shape.size();
  if (!dim || dim->empty()) {
    p.mask = (int64_t{1} << n) - 1;
  } else {
    for (int64_t d : *dim) {
      const int64_t bit = int64_t{1} << wrap_dim(d, n, op);
      PF_CHECK(!(p.mask & bit), ValueError, op, "got dimension ", d, " twice in dim for shape ",
               x->shape, "; expected each dimension once; drop the repetition");
      p.mask |= bit;
    }
  }
  for (int d = 0; d < n; ++d) {
    const bool reduce = p.mask >> d & 1;
    if (reduce)
      p.count *= x->shape[d];
    else
      p.kept.push_back(x->shape[d]);
    p.ones.push_back(reduce ? 1 : x->shape[d]);
  }
  return p;
}

void check_not_empty(const Tensor& x, const Plan& p, const char* op) {
  PF_CHECK(p.count > 0 || numel(p.kept) == 0, IndexError, op, "got shape ", x->shape,
           "; expected at least one element in what is reduced, as nothing has no ", op,
           "; check numel() first");
}

// The value of a result (or of its gradient) beside every element of the input.
Tensor spread(const Tensor& g, const Plan& p, const Dims& shape) {
  return expand(p.keepdim ? g : reshape(g, p.ones.vec()), shape.vec());
}

template <class K>
Tensor run(const Tensor& x, const Plan& p, DType out) {
  Tensor y = make_tensor(p.shape(), out, x->storage->device);
  engine::call<K>({.out = y, .x = x}, {.dims = p.mask});
  return y;
}

Tensor sum_of(SumKind kind, const Tensor& x, const Tensor& mean, const Plan& p, double divisor,
              DType out) {
  Tensor y = make_tensor(p.shape(), out, x->storage->device);
  engine::call<kernels::Sum>(
      {.out = y, .x = x, .mean = mean},
      {.dims = p.mask, .kind = static_cast<int64_t>(kind), .divisor = divisor});
  return y;
}
Tensor sum_float(const Tensor& x, const Plan& p, bool average) {
  return sum_of(SumKind::Plain, x, {}, p, average ? static_cast<double>(p.count) : 1.0, x->dtype);
}

enum class Adds { Sum, Mean, Numbers };  // the last without NaN
Tensor add_up(const Tensor& input, const MaybeDims& dim, bool keepdim, std::optional<DType> dtype,
              Adds what, const char* op);

// Both parts at once: dimensions are those before the last, which is theirs.
Tensor add_up_complex(const Tensor& z, const MaybeDims& dim, bool keepdim, Adds what,
                      const char* op) {
  IntList dims;
  const int n = z->shape.size();
  if (dim && !dim->empty()) {
    for (int64_t d : *dim) dims.push_back(n == 0 ? d : wrap_dim(d, n, op));
  } else {
    for (int d = 0; d < n; ++d) dims.push_back(d);
  }
  if (n == 0) return clone(z);
  return ops::over_parts(
      z, [&](const Tensor& t) { return contiguous(add_up(t, dims, keepdim, {}, what, op)); });
}

Tensor add_up(const Tensor& input, const MaybeDims& dim, bool keepdim, std::optional<DType> dtype,
              Adds what, const char* op) {
  const bool average = what == Adds::Mean;
  ops::check_defined(input, op, "input");
  if (is_complex(dtype.value_or(input->dtype)) && what != Adds::Numbers)
    return add_up_complex(dtype ? to(input, *dtype) : input, dim, keepdim, what, op);
  if (!dtype || !is_complex(input)) ops::check_arithmetic(input, op);
  const Tensor x = ops::whole(dtype ? to(input, *dtype) : input);
  if (dtype) ops::check_arithmetic(x, op);
  const Plan p = plan_for(x, dim, keepdim, op);
  if (!is_float(x->dtype)) {
    PF_CHECK(!average, DTypeError, op, "got ", x->dtype,
             "; expected a floating-point dtype; pass dtype=float32 or convert with .to(dtype)");
    const Tensor y = run<kernels::SumInt>(x, p, DType::Int64);
    return dtype ? to(y, *dtype) : y;
  }
  const bool numbers = what == Adds::Numbers;
  Tensor y = numbers ? sum_of(SumKind::Numbers, x, {}, p, 1.0, x->dtype) : sum_float(x, p, average);
  if (!autograd::wanted({x})) return y;
  const auto slope = [p, average, numbers, shape = x->shape](const Context& c) -> Grads {
    Tensor g = c.grad();
    if (average) g = mul(g, Scalar(1.0 / static_cast<double>(p.count)));
    g = spread(g, p, shape);
    if (numbers) g = where(isnan(c.saved(0)), Scalar(0.0), g);
    return {g};
  };
  if (numbers)
    autograd::attach(op, {y}, {x}, {Saved(x)}, slope);
  else
    autograd::attach(op, {y}, {x}, {}, slope);  // nothing is kept, so it may run again
  return y;
}

// 0 where nothing is left over, so that the division gives inf or NaN as it should.
double freedom(const Plan& p, double correction) {
  return std::max(0.0, static_cast<double>(p.count) - correction);
}

// In two passes over differences from the first element of each reduction: see src/cpu/reduce.cpp.
// They are of x as it is, so that its mean may join them (engine/rules.cpp); of 16 bits they are
// made in float32, and rounded at the end where `out` is no wider.
Tensor variance(const Tensor& x, const Plan& p, double correction, DType out) {
  Plan q = p;
  q.keepdim = true;
  const Tensor m = sum_of(SumKind::Differences, x, {}, q, static_cast<double>(p.count),
                          ops::wide_type(x->dtype));
  return sum_of(SumKind::Spread, x, m, p, freedom(p, correction), out);
}

Tensor variance_gradient(const Tensor& grad, const Tensor& x, const Plan& p, double correction) {
  IntList dims;
  for (int d = 0; d < x->shape.size(); ++d)
    if (p.mask >> d & 1) dims.push_back(d);
  const Tensor wide = widened(x), g = to(grad, wide->dtype);
  const Tensor centred = dims.empty() ? mul(wide, Scalar(0.0)) : ops::centred(wide, dims);
  return to(mul(spread(mul(g, Scalar(2.0 / freedom(p, correction))), p, x->shape), centred),
            x->dtype);
}

Tensor var_any(const Tensor& x, const MaybeDims& dim, double correction, bool keepdim, bool root,
               const char* op) {
  if (x.defined() && is_complex(x)) {  // the mean of |z - mean|^2: that of both parts together
    const ops::Parts p = ops::parts(x);
    const Tensor v = add(var_any(p.re, dim, correction, keepdim, false, op),
                         var_any(p.im, dim, correction, keepdim, false, op));
    if (!root) return v;
    const Tensor none = eq(v, Scalar(0.0));  // where the root has no slope
    return where(none, Scalar(0.0), sqrt(where(none, Scalar(1.0), v)));
  }
  ops::check_floating(x, op);
  const Plan p = plan_for(x, dim, keepdim, op);
  Tensor y;
  {
    NoGrad off;
    y = variance(x, p, correction, root ? ops::wide_type(x->dtype) : x->dtype);
    if (root) y = to(sqrt(y), x->dtype);
  }
  if (autograd::wanted({x}))
    autograd::attach(op, {y}, {x}, {Saved(x), Saved(root ? y : Tensor(), true)},
                     [p, correction, root](const Context& c) -> Grads {
                       Tensor g = widened(c.grad());
                       if (root) {
                         const Tensor y = widened(c.saved(1));
                         g = where(eq(y, Scalar(0)), Scalar(0.0), div(g, mul(y, Scalar(2.0))));
                       }
                       return {variance_gradient(g, c.saved(0), p, correction)};
                     });
  return y;
}

// `of_all`: max() and min(), which hand the gradient to NaN too; amax() and amin() have no slope
// there.
Tensor extreme(const Tensor& x, const MaybeDims& dim, bool keepdim, bool largest, const char* op,
               bool of_all = false) {
  ops::check_arithmetic(x, op);
  if (ops::is_wide_unsigned(x))
    return ops::in_order(
        x, [&](const Tensor& t) { return extreme(t, dim, keepdim, largest, op, of_all); });
  const Plan p = plan_for(x, dim, keepdim, op);
  check_not_empty(x, p, op);
  Tensor y = largest ? run<kernels::Amax>(x, p, x->dtype) : run<kernels::Amin>(x, p, x->dtype);
  auto slope = [p, of_all](const Context& c) -> Grads {
    const Tensor x = c.saved(0);
    Tensor hit;  // shared evenly among the elements that equal the result
    {
      NoGrad off;
      Plan q = p;
      q.keepdim = true;
      hit = eq(x, spread(c.saved(1), p, x->shape));
      if (of_all) hit = logical_or(hit, ne(x, x));
      hit = to(hit, x->dtype);
      hit = div(hit, sum_float(hit, q, false));
    }
    return {mul(spread(c.grad(), p, x->shape), hit)};
  };
  if (autograd::wanted({x})) autograd::attach(op, {y}, {x}, {Saved(x), Saved(y, true)}, slope);
  return y;
}

// (values, indices) of the first extreme along one dimension; values on request only.
std::pair<Tensor, Tensor> find(const Tensor& x, int64_t dim, bool keepdim, bool largest,
                               bool with_values, const char* op) {
  ops::check_arithmetic(x, op);
  if (ops::is_wide_unsigned(x))
    return ops::in_order(
        x, [&](const Tensor& t) { return find(t, dim, keepdim, largest, with_values, op); });
  const Plan p = plan_for(x, IntList{dim}, keepdim, op);
  check_not_empty(x, p, op);
  const int d = wrap_dim(dim, x->shape.size(), op);
  Tensor values, indices = make_tensor(p.shape(), DType::Int64, x->storage->device);
  if (with_values) values = make_tensor(p.shape(), x->dtype, x->storage->device);
  engine::call<kernels::FindExtreme>({.values = values, .indices = indices, .x = x},
                                     {.dim = d, .largest = int{largest}});
  if (with_values && autograd::wanted({x}))
    autograd::attach(op, {values}, {x}, {Saved(indices)},
                     [d, keepdim, shape = x->shape](const Context& c) -> Grads {
                       Tensor g = c.grad(), i = c.saved(0);
                       if (shape.empty()) return {g};
                       if (!keepdim) {
                         g = unsqueeze(g, d);
                         i = unsqueeze(i, d);
                       }
                       return {scatter(zeros(shape.vec(), g->dtype, g->storage->device), d, i, g)};
                     });
  return {values, indices};
}

Tensor arg(const Tensor& given, std::optional<int64_t> dim, bool keepdim, bool largest,
           const char* op) {
  ops::check_arithmetic(given, op);
  NoGrad off;
  const Tensor x = ops::ordered(given);
  if (dim) return find(x, *dim, keepdim, largest, false, op).second;
  PF_CHECK(x->numel > 0, IndexError, op, "got shape ", x->shape,
           "; expected at least one element; check numel() first");
  const Tensor i = find(reshape(x, {-1}), 0, false, largest, false, op).second;
  return keepdim ? reshape(i, Dims::filled(x->shape.size(), 1).vec()) : i;
}

template <class K>
Tensor test(const Tensor& x, const MaybeDims& dim, bool keepdim, DType out, const char* op) {
  if (x.defined() && is_complex(x)) return test<K>(to(x, DType::Bool), dim, keepdim, out, op);
  ops::check_arithmetic(x, op);
  return run<K>(x, plan_for(x, dim, keepdim, op), out);
}

// The product of the others beside every element, in operations without division, so that it can be
// differentiated at zeros: what stands before it times what stands after it.
Tensor product_of_others(const Tensor& x, const IntList& dims) {
  const int n = x->shape.size();
  if (x->numel == 0 || dims.empty()) return full(x->shape.vec(), 1, x->dtype, x->storage->device);
  IntList order, back(static_cast<size_t>(n));
  for (int d = 0; d < n; ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  order.insert(order.end(), dims.begin(), dims.end());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = int64_t(i);
  const Tensor moved = permute(x, order);
  int64_t count = 1;
  for (int64_t d : dims) count *= x->shape[static_cast<int>(d)];
  const Tensor rows = reshape(moved, {x->numel / count, count});
  const Tensor one = full({rows->shape[0], 1}, 1, x->dtype, x->storage->device);
  auto before = [&](const Tensor& r) {
    return ops::cumprod(cat({one, narrow(r, 1, 0, count - 1)}, 1), 1);
  };
  const Tensor others = mul(before(rows), flip(before(flip(rows, {1})), {1}));
  return permute(reshape(others, moved->shape.vec()), back);
}

// d prod / dx_i is the product of the others: finite where there are zeros.
Tensor product_gradient(const Tensor& g, const Tensor& x, const Plan& p) {
  Plan q = p;
  q.keepdim = true;
  IntList dims;
  for (int d = 0; d < x->shape.size(); ++d)
    if (p.mask >> d & 1) dims.push_back(d);
  if (autograd::wanted({x})) return mul(spread(g, p, x->shape), product_of_others(x, dims));
  const Tensor zero = eq(x, Scalar(0));
  const Tensor others = where(zero, Scalar(1.0), x);  // zeros left out
  Tensor share;
  {
    NoGrad off;
    const Tensor zeros_here = to(zero, x->dtype);
    const Tensor nz = sum_float(zeros_here, q, false);
    // without zeros everything counts, with one only its place, with more nothing
    share = where(eq(nz, Scalar(0)), Scalar(1.0), mul(zeros_here, to(eq(nz, Scalar(1)), x->dtype)));
  }
  const Tensor whole = dims.empty() ? others : prod(others, dims, true);
  return mul(mul(spread(g, p, x->shape), div(whole, others)), share);
}

// |x / y|^(p - 1) neither overflows nor vanishes where x^(p - 1) and y^(p - 1) would.
Tensor norm_gradient(const Tensor& grad, const Tensor& input, const Tensor& result,
                     const Plan& plan, double p) {
  const Tensor x = widened(input), y = widened(result), g = widened(grad);
  const Tensor none = eq(y, Scalar(0));  // the subgradient there is 0
  Tensor r;
  if (p == 2) {
    // The inner choice keeps 0 / 0 out of the derivative by g.
    const Tensor share = where(none, Scalar(0.0), div(g, where(none, Scalar(1.0), y)));
    r = mul(spread(share, plan, x->shape), x);
  } else {
    const Tensor whole = spread(where(none, Scalar(1.0), y), plan, x->shape);
    const Tensor part = mul(sign(x), pow(abs(div(x, whole)), Scalar(p - 1)));
    // Below 0 one element that is 0 decides, and all slopes are 0.
    const Tensor flat = p < 0 ? spread(none, plan, x->shape) : eq(x, Scalar(0));
    r = mul(spread(g, plan, x->shape), where(flat, Scalar(0.0), part));
  }
  return to(r, input->dtype);
}

}  // namespace

namespace ops {
Tensor norm_slopes(const Tensor& grad, const Tensor& x, const Tensor& y, double p) {
  return norm_gradient(grad, x, y, plan_for(x, IntList{-1}, false, "norm"), p);
}

Tensor centred(const Tensor& x, const IntList& dims) {
  if (x->numel == 0) return x;
  const Tensor near = sub(x, mean(x.detach(), dims, true));
  return sub(near, mean(near, dims, true));
}

Tensor middle_of_all(const char* op, const Tensor& x, Along along) {
  check_arithmetic(x, op);
  Tensor y;
  {
    NoGrad off;
    if (x->numel > 0) {
      y = along(reshape(x, {-1}), 0, false).first;
    } else {  // NaN, or what PyTorch makes of it
      const int64_t least = x->dtype == DType::Int64   ? INT64_MIN
                            : x->dtype == DType::Int32 ? INT32_MIN
                                                       : 0;
      y = full({}, is_float(x->dtype) ? Scalar(NAN) : Scalar(least), x->dtype, x->storage->device);
    }
  }
  if (autograd::wanted({x}))
    autograd::attach(op, {y}, {x}, {Saved(x), Saved(y, true)}, [](const Context& c) -> Grads {
      Tensor part;
      {
        NoGrad off;
        const Tensor x = c.saved(0), y = c.saved(1);
        Tensor hit = eq(x, y);
        if (is_float(x->dtype)) hit = logical_or(hit, logical_and(ne(x, x), ne(y, y)));
        part = to(div(to(hit, DType::Float64), sum(hit)), x->dtype);
      }
      return {mul(part, c.grad())};
    });
  return y;
}

Tensor without_slope(const char* op, const Tensor& y, const Tensor& x) {
  if (autograd::wanted({x}))
    autograd::attach(op, {y}, {x}, {},
                     [shape = x->shape, dtype = x->dtype, device = x->storage->device](
                         const Context&) -> Grads { return {zeros(shape.vec(), dtype, device)}; });
  return y;
}
}  // namespace ops

Tensor ops::whole_sum(const Tensor& x, const IntList& dims) {
  return sum_of(SumKind::Plain, x, {}, plan_for(x, dims, false, "sum"), 1.0, DType::Float32);
}
Tensor sum(const Tensor& x, const MaybeDims& dim, bool keepdim, std::optional<DType> dtype) {
  PF_AUTOCAST("sum", RaiseElseFollow, sum, x, dim, keepdim, dtype);
  return add_up(x, dim, keepdim, dtype, Adds::Sum, "sum");
}
Tensor mean(const Tensor& x, const MaybeDims& dim, bool keepdim, std::optional<DType> dtype) {
  return add_up(x, dim, keepdim, dtype, Adds::Mean, "mean");
}
Tensor nansum(const Tensor& x, const MaybeDims& dim, bool keepdim, std::optional<DType> dtype) {
  // What becomes an integer has no NaN left to be seen; complex sums have no kernel that leaves
  // out.
  const bool cut = x.defined() && is_float(x->dtype) && dtype && !is_float(*dtype);
  if (cut || (x.defined() && is_complex(x)))
    return sum(where(ne(x, x), Scalar(0.0), x), dim, keepdim, dtype);
  return add_up(x, dim, keepdim, dtype, Adds::Numbers, "nansum");
}
Tensor var(const Tensor& x, const MaybeDims& dim, int64_t correction, bool keepdim) {
  return var_any(x, dim, static_cast<double>(correction), keepdim, false, "var");
}
Tensor std(const Tensor& x, const MaybeDims& dim, int64_t correction, bool keepdim) {
  return var_any(x, dim, static_cast<double>(correction), keepdim, true, "std");
}

Tensor prod(const Tensor& x, const MaybeDims& dim, bool keepdim) {
  PF_AUTOCAST("prod", Raise, prod, x, dim, keepdim);
  ops::check_defined(x, "prod", "input");
  if (is_complex(x)) return ops::complex_prod(x, dim, keepdim);
  ops::check_arithmetic(x, "prod");
  if (ops::is_wide_unsigned(x)) return prod(ops::whole(x), dim, keepdim);
  const Plan p = plan_for(x, dim, keepdim, "prod");
  Tensor y = run<kernels::Prod>(x, p, is_float(x->dtype) ? x->dtype : DType::Int64);
  if (autograd::wanted({x}))
    autograd::attach("prod", {y}, {x}, {Saved(x)}, [p](const Context& c) -> Grads {
      return {product_gradient(c.grad(), c.saved(0), p)};
    });
  return y;
}

Tensor amax(const Tensor& x, const MaybeDims& dim, bool keepdim) {
  return extreme(x, dim, keepdim, true, "amax");
}
Tensor amin(const Tensor& x, const MaybeDims& dim, bool keepdim) {
  return extreme(x, dim, keepdim, false, "amin");
}
Tensor max(const Tensor& x) {
  return extreme(x, {}, false, true, "max", true);
}
Tensor min(const Tensor& x) {
  return extreme(x, {}, false, false, "min", true);
}
std::pair<Tensor, Tensor> max(const Tensor& x, int64_t dim, bool keepdim) {
  return find(x, dim, keepdim, true, true, "max");
}
std::pair<Tensor, Tensor> min(const Tensor& x, int64_t dim, bool keepdim) {
  return find(x, dim, keepdim, false, true, "min");
}
Tensor argmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  return arg(x, dim, keepdim, true, "argmax");
}
Tensor argmin(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  return arg(x, dim, keepdim, false, "argmin");
}

Tensor any(const Tensor& x, const MaybeDims& dim, bool keepdim) {
  return test<kernels::Any>(x, dim, keepdim, DType::Bool, "any");
}
Tensor all(const Tensor& x, const MaybeDims& dim, bool keepdim) {
  return test<kernels::All>(x, dim, keepdim, DType::Bool, "all");
}
Tensor count_nonzero(const Tensor& x, const MaybeDims& dim) {
  return test<kernels::CountNonzero>(x, dim, false, DType::Int64, "count_nonzero");
}

Tensor norm(const Tensor& x, double p, const MaybeDims& dim, bool keepdim) {
  PF_AUTOCAST("norm", RaiseElseFollow, norm, x, p, dim, keepdim);
  if (x.defined() && is_complex(x)) return norm(abs(x), p, dim, keepdim);
  ops::check_floating(x, "norm");
  if (p == std::numeric_limits<double>::infinity()) return amax(abs(x), dim, keepdim);
  if (p == -std::numeric_limits<double>::infinity()) return amin(abs(x), dim, keepdim);
  if (p == 0)
    return ops::without_slope("norm", sum(to(ne(x, Scalar(0)), x->dtype), dim, keepdim), x);
  if (p == 1) return sum(abs(x), dim, keepdim);
  const Plan plan = plan_for(x, dim, keepdim, "norm");
  if (p < 0) check_not_empty(x, plan, "norm");
  const bool one = plan.count == 1 && !std::isnan(p);  // whose powers might overflow
  Tensor y;
  {
    NoGrad off;
    const Tensor wide = widened(x);
    y = one      ? sum(abs(wide), dim, keepdim)
        : p == 2 ? sqrt(sum_of(SumKind::Squares, wide, {}, plan, 1.0, wide->dtype))
                 : pow(sum_float(pow(abs(wide), Scalar(p)), plan, false), Scalar(1 / p));
    y = to(y, x->dtype);
  }
  if (autograd::wanted({x}))
    autograd::attach("norm", {y}, {x}, {Saved(x), Saved(y, true)},
                     [plan, p = one ? 2 : p](const Context& c) -> Grads {
                       return {norm_gradient(c.grad(), c.saved(0), c.saved(1), plan, p)};
                     });
  return y;
}

Tensor logsumexp(const Tensor& given, const IntList& dim, bool keepdim) {
  PF_AUTOCAST("logsumexp", RaiseElseFollow, logsumexp, given, dim, keepdim);
  if (given.defined() && is_complex(given)) {  // less the greatest real part, which is no variable
    Tensor m = amax(real(given.detach()), dim, true);
    m = where(isfinite(m), m, Scalar(0.0));
    const Tensor y = log(sum(exp(sub(given, m)), dim, keepdim));
    return add(y, keepdim ? m : reshape(m, y->shape.vec()));
  }
  const Tensor x = ops::as_floating(given, "logsumexp");
  const Plan p = plan_for(x, dim, keepdim, "logsumexp");
  Tensor y;
  if (p.count == 0) {
    y = full(p.shape().vec(), Scalar(-std::numeric_limits<double>::infinity()), x->dtype,
             x->storage->device);
  } else {
    NoGrad off;
    const Tensor wide = widened(x);
    Tensor m = amax(wide, dim, true);
    m = where(eq(abs(m), Scalar(std::numeric_limits<double>::infinity())), Scalar(0.0), m);
    y = add(log(sum(exp(sub(wide, m)), dim, keepdim)), keepdim ? m : reshape(m, p.kept.vec()));
    y = to(y, x->dtype);
  }
  if (autograd::wanted({x}))
    autograd::attach(
        "logsumexp", {y}, {x}, {Saved(x), Saved(y, true)}, [p](const Context& c) -> Grads {
          const Tensor x = c.saved(0), g = widened(c.grad());
          const Tensor share = exp(sub(widened(x), spread(widened(c.saved(1)), p, x->shape)));
          return {to(mul(spread(g, p, x->shape), share), x->dtype)};
        });
  return y;
}

std::pair<Tensor, Tensor> median(const Tensor& x, int64_t dim, bool keepdim) {
  ops::check_arithmetic(x, "median");
  if (ops::is_wide_unsigned(x))
    return ops::in_order(x, [&](const Tensor& t) { return median(t, dim, keepdim); });
  const Plan p = plan_for(x, IntList{dim}, true, "median");
  check_not_empty(x, p, "median");
  if (x->shape.empty()) return {clone(x), zeros({}, DType::Int64, x->storage->device)};
  const int d = wrap_dim(dim, x->shape.size(), "median");
  const Tensor i = ops::nth_index(x, d, ops::Nth::Median);
  const Tensor v = gather(x, d, i);
  return keepdim ? std::pair{v, i} : std::pair{squeeze(v, d), squeeze(i, d)};
}
Tensor median(const Tensor& x) {
  return ops::middle_of_all("median", x, median);
}

// ---- rows of the table --------------------------------------------------------------------------

namespace {

double correction_of(bool unbiased, std::optional<double> correction) {
  return correction.value_or(unbiased ? 1 : 0);
}
Tensor var_row(const Tensor& x, const MaybeDims& dim, bool unbiased, bool keepdim,
               std::optional<double> correction) {
  return var_any(x, dim, correction_of(unbiased, correction), keepdim, false, "var");
}
Tensor std_row(const Tensor& x, const MaybeDims& dim, bool unbiased, bool keepdim,
               std::optional<double> correction) {
  return var_any(x, dim, correction_of(unbiased, correction), keepdim, true, "std");
}
std::pair<Tensor, Tensor> var_mean_row(const Tensor& x, const MaybeDims& dim, bool unbiased,
                                       bool keepdim, std::optional<double> correction) {
  return {var_row(x, dim, unbiased, keepdim, correction), mean(x, dim, keepdim)};
}
std::pair<Tensor, Tensor> std_mean_row(const Tensor& x, const MaybeDims& dim, bool unbiased,
                                       bool keepdim, std::optional<double> correction) {
  return {std_row(x, dim, unbiased, keepdim, correction), mean(x, dim, keepdim)};
}
Tensor prod_row(const Tensor& x, const MaybeDims& dim, bool keepdim, std::optional<DType> dtype) {
  const Tensor y = prod(dtype ? to(x, *dtype) : x, dim, keepdim);
  return dtype ? to(y, *dtype) : y;
}
Tensor norm_row(const Tensor& x, std::optional<double> p, const MaybeDims& dim, bool keepdim,
                std::optional<DType> dtype) {
  return norm(dtype ? to(x, *dtype) : x, p.value_or(2), dim, keepdim);
}
Tensor norm_named(const Tensor& x, std::string p, const MaybeDims& dim, bool keepdim,
                  std::optional<DType> dtype) {
  if (p == "nuc") {
    ops::check_defined(x, "norm");
    PF_CHECK(dim || x->shape.size() == 2, ShapeError, "norm", "got p='nuc' and shape ", x->shape,
             "; expected a matrix; pass dim, two of them");
    return linalg::matrix_norm_named(dtype ? to(x, *dtype) : x, p, dim.value_or(IntList{-2, -1}),
                                     keepdim);
  }
  PF_CHECK(p == "fro", ValueError, "norm", "got p='", p,
           "'; expected 'fro', 'nuc' or a number; pass p=2 for the Euclidean norm");
  return norm_row(x, 2.0, dim, keepdim, dtype);
}

}  // namespace

namespace {

// Summed over what broadcasting had repeated.
Tensor sum_to_size(const Tensor& t, const IntList& size) {
  ops::check_defined(t, "sum_to_size");
  const Dims target(size);
  const Dims wide = broadcast_shapes(t->shape, target, "sum_to_size");
  PF_CHECK(wide == t->shape, ShapeError, "sum_to_size", "got size ", target, " for a tensor of ",
           t->shape, "; expected a shape that broadcasts to it; correct it");
  return target.empty() ? sum(t) : ops::sum_to(t, target);
}

}  // namespace

static const ops::Family kReduce("reduction", [](ops::Family& f) {
  using namespace ops;
  using Pair = std::pair<Tensor, Tensor>;
  f.op(&sum, {"sum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> "
              "Tensor",
              "Sum over `dim` (all dimensions by default). Integers and bools sum to int64; floats "
              "accumulate in float32 or wider, in an order that depends on shape and dtype only. "
              "The sum of nothing is 0."});
  f.op(&nansum, {"nansum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) "
                 "-> Tensor",
                 "Sum over `dim` (all dimensions by default) with NaN counted as 0."});
  f.op(&mean,
       {"mean(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> "
        "Tensor",
        "Mean over `dim` (all dimensions by default). Needs a floating-point dtype. The mean "
        "of nothing is NaN."});
  const char* kSpread =
      " over `dim` (all dimensions by default), dividing by n - correction; `unbiased=False` is "
      "correction=0, and a correction may be a fraction. inf or NaN when n <= correction.";
  static const std::string var_doc = std::string("Variance") + kSpread;
  static const std::string std_doc = std::string("Standard deviation") + kSpread;
  static const std::string var_mean_doc = std::string("Variance and mean") + kSpread;
  static const std::string std_mean_doc = std::string("Standard deviation and mean") + kSpread;
  f.op(&var_row, {"var(Tensor input, int[]? dim=None, bool unbiased=True, bool keepdim=False, *, "
                  "float? correction=None) -> Tensor",
                  var_doc.c_str()});
  f.op(&std_row, {"std(Tensor input, int[]? dim=None, bool unbiased=True, bool keepdim=False, *, "
                  "float? correction=None) -> Tensor",
                  std_doc.c_str()});
  f.op(&var_mean_row,
       {"var_mean(Tensor input, int[]? dim=None, bool unbiased=True, bool keepdim=False, *, float? "
        "correction=None) -> (Tensor, Tensor)",
        var_mean_doc.c_str(), kFunction});
  f.op(&std_mean_row,
       {"std_mean(Tensor input, int[]? dim=None, bool unbiased=True, bool keepdim=False, *, float? "
        "correction=None) -> (Tensor, Tensor)",
        std_mean_doc.c_str(), kFunction});
  // The old short form: all elements.
  f.op(+[](const Tensor& x, bool unbiased) { return var_row(x, {}, unbiased, false, {}); },
       {"var(Tensor input, bool unbiased) -> Tensor", "The variance of all elements."});
  f.op(+[](const Tensor& x, bool unbiased) { return std_row(x, {}, unbiased, false, {}); },
       {"std(Tensor input, bool unbiased) -> Tensor", "The standard deviation of all elements."});
  f.op(+[](const Tensor& x, bool unbiased) { return var_mean_row(x, {}, unbiased, false, {}); },
       {"var_mean(Tensor input, bool unbiased) -> (Tensor, Tensor)",
        "Variance and mean of all elements.", kFunction});
  f.op(+[](const Tensor& x, bool unbiased) { return std_mean_row(x, {}, unbiased, false, {}); },
       {"std_mean(Tensor input, bool unbiased) -> (Tensor, Tensor)",
        "Standard deviation and mean of all elements.", kFunction});
  f.op(&prod_row,
       {"prod(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
        "Product over `dim` (all dimensions by default). Integers give int64. The gradient is "
        "finite where there are zeros. The product of nothing is 1."});
  f.op(&amax,
       {"amax(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor",
        "Maximum over `dim` (all dimensions by default). NaN if there is one. The gradient is "
        "shared evenly among equal maxima. ShapeError when nothing is reduced."});
  f.op(&amin,
       {"amin(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor",
        "Minimum over `dim` (all dimensions by default). NaN if there is one. The gradient is "
        "shared evenly among equal minima. ShapeError when nothing is reduced."});
  f.op(static_cast<Tensor (*)(const Tensor&)>(&max),
       {"max(Tensor input) -> Tensor",
        "The largest element, 0-d; NaN if there is one. The gradient is shared evenly among equal "
        "maxima. ShapeError for an empty tensor."});
  f.op(static_cast<Tensor (*)(const Tensor&)>(&min),
       {"min(Tensor input) -> Tensor",
        "The smallest element, 0-d; NaN if there is one. The gradient is shared evenly among equal "
        "minima. ShapeError for an empty tensor."});
  f.op(static_cast<Pair (*)(const Tensor&, int64_t, bool)>(&max),
       {"max(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        "Largest elements along `dim` and where they are: the first of equal ones, the first NaN "
        "if there is one. The gradient goes to that element."});
  f.op(static_cast<Pair (*)(const Tensor&, int64_t, bool)>(&min),
       {"min(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        "Smallest elements along `dim` and where they are: the first of equal ones, the first NaN "
        "if there is one. The gradient goes to that element."});
  f.op(&argmax, {"argmax(Tensor input, int? dim=None, bool keepdim=False) -> Tensor",
                 "Index of the largest element along `dim`, or in the flattened tensor: the first "
                 "of equal ones, the first NaN if there is one.",
                 kFunction | kMethod, false});
  f.op(&argmin, {"argmin(Tensor input, int? dim=None, bool keepdim=False) -> Tensor",
                 "Index of the smallest element along `dim`, or in the flattened tensor: the first "
                 "of equal ones, the first NaN if there is one.",
                 kFunction | kMethod, false});
  f.op(&any, {"any(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor",
              "Whether any element over `dim` is not 0 (NaN is not 0). False for nothing.",
              kFunction | kMethod, false});
  f.op(&all, {"all(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor",
              "Whether all elements over `dim` are not 0 (NaN is not 0). True for nothing.",
              kFunction | kMethod, false});
  f.op(&count_nonzero,
       {"count_nonzero(Tensor input, int[]? dim=None) -> Tensor",
        "How many elements over `dim` are not 0; int64.", kFunction | kMethod, false});
  f.op(
      &norm_row,
      {"norm(Tensor input, float? p=2, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) "
       "-> Tensor",
       "(sum |x|^p)^(1/p) over `dim` (all dimensions by default); inf and -inf are the largest and "
       "smallest |x|, 0 counts elements that are not 0. The gradient at 0 is 0."});
  f.op(&norm_named,
       {"norm(Tensor input, str p, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> "
        "Tensor",
        "p='fro' is p=2."});
  f.op(&logsumexp, {"logsumexp(Tensor input, int[] dim, bool keepdim=False) -> Tensor",
                    "log(sum(exp(x))) over `dim` without overflow; -inf for nothing."});
  f.op(static_cast<Tensor (*)(const Tensor&)>(&median),
       {"median(Tensor input) -> Tensor",
        "The lower median of all elements, 0-d; NaN if there is one."});
  f.op(static_cast<Pair (*)(const Tensor&, int64_t, bool)>(&median),
       {"median(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        "The lower median along `dim` and its index; the first NaN if there is one."});
  f.op(&sum_to_size, {"sum_to_size(Tensor input, int[] size) -> Tensor",
                      "Summed to a shape that broadcasts to the input's.", kMethod});
});

}  // namespace pyflame
