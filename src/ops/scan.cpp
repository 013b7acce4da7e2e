// Running sums, products, extremes along a dimension.
#include <limits>

#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/hidden.h"
#include "ops/registry.h"
#include "ops/scan.h"
#include "ops/unsigned.h"
#include "table/kernels/scan.h"

namespace pyflame {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

namespace {

using Type = std::optional<DType>;

// The input in the dtype that its sums are made in: integers add up in int64.
Tensor prepared(const Tensor& t, Type dtype, const char* op) {
  ops::check_defined(t, op);
  PF_CHECK(!ops::has_no_arithmetic(t->dtype), DTypeError, op, "got dtype ", t->dtype,
           "; expected a dtype with arithmetic; convert with .to(dtype)");
  return ops::whole(to(t, dtype.value_or(is_integral(t->dtype, true) ? DType::Int64 : t->dtype)));
}

template <class K>
Tensor run_scan(const Tensor& t, int d, bool back) {
  Tensor out = make_tensor(t->shape, t->dtype, t->storage->device);
  if (t->numel > 0) engine::call<K>({.out = out, .x = t}, {.dim = d, .backwards = int64_t{back}});
  return out;
}

Tensor directed_cumsum(const Tensor& t, int d, bool back) {
  Tensor out = run_scan<kernels::Cumsum>(t, d, back);
  if (autograd::wanted({t}))
    autograd::attach("cumsum", {out}, {t}, {}, [d, back](const Context& c) -> Grads {
      return {directed_cumsum(c.grad(), d, !back)};
    });
  return out;
}

Tensor directed_logcumsumexp(const Tensor& t, int d, bool back) {
  Tensor out = run_scan<kernels::LogCumsumExp>(t, d, back);
  if (autograd::wanted({t}))
    autograd::attach("logcumsumexp", {out}, {t}, {Saved(t), Saved(out, true)},
                     [d, back](const Context& c) -> Grads {
                       const Tensor& g = c.grad();
                       // sum over later j of g_j exp(x_i - out_j), in logarithms, both signs of g
                       // apart.
                       Tensor x = c.saved(0), out = c.saved(1);
                       const Scalar low(-std::numeric_limits<double>::infinity());
                       auto part = [&](const Tensor& positive) {
                         Tensor logs =
                             where(gt(positive, Scalar(0)),
                                   log(where(gt(positive, Scalar(0)), positive, Scalar(1.0))), low);
                         Tensor s = where(eq(logs, low), low, sub(logs, out));
                         return exp(add(directed_logcumsumexp(s, d, !back), x));
                       };
                       return {sub(part(g), part(neg(g)))};
                     });
  return out;
}

// log(exp(a) + exp(b)) of complex numbers.
Tensor complex_logaddexp(const Tensor& a, const Tensor& b) {
  const Tensor largest = maximum(real(a), real(b)).detach();
  const Tensor base = where(isfinite(largest), largest, Scalar(0.0));
  return add(log(add(exp(sub(a, base)), exp(sub(b, base)))), base);
}
// Each element takes in what lies 1, 2, 4, ... before it.
Tensor complex_logcumsumexp(Tensor t, int d) {
  const int64_t size = t->shape[d];
  for (int64_t step = 1; step < size; step *= 2) {
    const Tensor sums =
        complex_logaddexp(narrow(t, d, 0, size - step), narrow(t, d, step, size - step));
    t = cat({narrow(t, d, 0, step), sums}, d);
  }
  return size < 2 ? clone(t) : t;
}

// Every scan of a scalar is the scalar itself.
int scan_dim(const Tensor& t, int64_t dim, const char* op) {
  return wrap_dim(dim, t->shape.size(), op);
}

}  // namespace

Tensor cumsum(const Tensor& t, int64_t dim) {
  PF_AUTOCAST("cumsum", RaiseElseFollow, cumsum, t, dim);
  if (t.defined() && is_complex(t)) {
    const int d = scan_dim(t, dim, "cumsum");
    return t->shape.empty() ? clone(t)
                            : ops::over_parts(t, [d](const Tensor& x) { return cumsum(x, d); });
  }
  Tensor x = prepared(t, {}, "cumsum");
  const int d = scan_dim(x, dim, "cumsum");
  return x->shape.empty() ? clone(x) : directed_cumsum(x, d, false);
}

static Tensor cumsum_as(const Tensor& t, int64_t dim, Type dtype) {
  ops::check_defined(t, "cumsum");
  if (is_complex(dtype.value_or(t->dtype))) return cumsum(dtype ? to(t, *dtype) : t, dim);
  const Tensor part = is_complex(t) ? to(t, *dtype) : t;
  const Tensor sums = cumsum(prepared(part, dtype, "cumsum"), dim);
  return dtype ? to(sums, *dtype) : sums;
}

namespace {

Tensor cumprod_of(const Tensor& t, int d);

// The gradient of a running product without division or cases, at the price of n^2 memory: row i
// holds the running products with x_i left out.
Tensor exact_gradient(const Tensor& g, const Tensor& x, int d) {
  const int64_t n = x->shape[d];
  const Tensor last = transpose(x, d, -1), wide = unsqueeze(last, -2);
  const Tensor own = eye(n, {}, DType::Bool, x->storage->device);
  const Tensor products = cumprod_of(where(own, Scalar(1.0), wide), x->shape.size());
  const Tensor terms = mul(triu(products), unsqueeze(transpose(g, d, -1), -2));
  return transpose(sum(terms, IntList{-1}), d, -1);
}

// Of complex numbers: products of 2, 4, 8, ... elements behind each other.
Tensor complex_cumprod(const Tensor& t, int d) {
  const int64_t n = t->shape[d];
  Tensor out = clone(t);
  for (int64_t near = 1; near < n; near *= 2)
    out = cat(
        {narrow(out, d, 0, near), mul(narrow(out, d, near, n - near), narrow(out, d, 0, n - near))},
        d);
  return out;
}

Tensor cumprod_of(const Tensor& t, int d) {
  if (is_complex(t)) return complex_cumprod(t, d);
  Tensor out = run_scan<kernels::Cumprod>(t, d, false);
  if (autograd::wanted({t}))
    autograd::attach(
        "cumprod", {out}, {t}, {Saved(t), Saved(out, true)}, [d](const Context& c) -> Grads {
          const Tensor& g = c.grad();
          Tensor x = c.saved(0), out = c.saved(1);
          // Before the first zero: sum over later j of g_j out_j, divided by x. At it: the same
          // with the zero left out of the products. After it everything is zero.
          Tensor is_zero = eq(x, Scalar(0));
          // The constants below would be wrong for the gradient of this gradient.
          // A GPU is not waited for to learn that there is none, unless it must be.
          const bool second = autograd::wanted({x});
          const bool asked =
              !ops::hides({x}) && (second || x->storage->device.type == DeviceType::CPU);
          const bool zeros = !asked || any(is_zero).item<bool>();
          if (second && zeros) return {exact_gradient(g, x, d)};
          if (!zeros) return {div(directed_cumsum(mul(g, out), d, true), x)};
          Tensor zeros_so_far = directed_cumsum(to(is_zero, DType::Int64), d, false);
          Tensor before = eq(zeros_so_far, Scalar(0));
          Tensor at = logical_and(is_zero, eq(zeros_so_far, Scalar(1)));
          Tensor skipped = cumprod_of(where(at, Scalar(1.0), x), d);
          Tensor front = div(directed_cumsum(mul(g, out), d, true), where(before, x, Scalar(1.0)));
          Tensor here = directed_cumsum(where(before, Scalar(0.0), mul(g, skipped)), d, true);
          return {where(before, front, where(at, here, Scalar(0.0)))};
        });
  return out;
}

Tensor cumprod(const Tensor& t, int64_t dim, Type dtype) {
  PF_AUTOCAST("cumprod", RaiseElseFollow, cumprod, t, dim, dtype);
  const bool in_parts = (t.defined() && is_complex(t)) || (dtype && is_complex(*dtype));
  Tensor x = in_parts ? to(t, dtype.value_or(t->dtype)) : prepared(t, dtype, "cumprod");
  const int d = scan_dim(x, dim, "cumprod");
  const Tensor y = x->shape.empty() ? clone(x) : cumprod_of(x, d);
  return dtype ? ops::from_whole(y, *dtype) : y;
}

Tensor logcumsumexp(const Tensor& t, int64_t dim) {
  ops::check_defined(t, "logcumsumexp");
  if (is_complex(t)) {
    const int d = scan_dim(t, dim, "logcumsumexp");
    return t->shape.empty() ? clone(t) : complex_logcumsumexp(t, d);
  }
  PF_CHECK(is_float(t->dtype) && !info(t->dtype).storage_only, DTypeError, "logcumsumexp",
           "got dtype ", t->dtype,
           "; expected a floating-point dtype; convert with .to(pyflame.float32)");
  const int d = scan_dim(t, dim, "logcumsumexp");
  return t->shape.empty() ? clone(t) : directed_logcumsumexp(t, d, false);
}

std::pair<Tensor, Tensor> cumextreme(const Tensor& t, int64_t dim, bool smallest, const char* op) {
  ops::check_defined(t, op);
  PF_CHECK(!ops::has_no_arithmetic(t->dtype), DTypeError, op, "got dtype ", t->dtype,
           "; expected a dtype with an order; convert with .to(dtype)");
  if (ops::is_wide_unsigned(t))
    return ops::in_order(t, [&](const Tensor& x) { return cumextreme(x, dim, smallest, op); });
  const int d = scan_dim(t, dim, op);
  if (t->shape.empty()) return {clone(t), ops::raw_full({}, DType::Int64, t->storage->device, 0)};
  Tensor values = make_tensor(t->shape, t->dtype, t->storage->device);
  Tensor indices = make_tensor(t->shape, DType::Int64, t->storage->device);
  if (t->numel > 0)
    engine::call<kernels::CumExtreme>({.values = values, .indices = indices, .x = t},
                                      {.dim = d, .smallest = int64_t{smallest}}, {.op = op});
  if (autograd::wanted({t}))
    autograd::attach(op, {values}, {t}, {Saved(indices)},
                     [d, shape = t->shape](const Context& c) -> Grads {
                       return {ops::gather_backward(c.grad(), d, c.saved(0), shape)};
                     });
  return {values, indices};
}

}  // namespace

std::pair<Tensor, Tensor> cummax(const Tensor& t, int64_t dim) {
  return cumextreme(t, dim, false, "cummax");
}
std::pair<Tensor, Tensor> cummin(const Tensor& t, int64_t dim) {
  return cumextreme(t, dim, true, "cummin");
}

namespace {

Tensor diff(const Tensor& input, int64_t n, int64_t dim, const Tensor& prepend,
            const Tensor& append) {
  ops::check_defined(input, "diff");
  PF_CHECK(!input->shape.empty(), ShapeError, "diff",
           "got a tensor of 0 dimensions; expected at least one; unsqueeze it first");
  PF_CHECK(n >= 0, ValueError, "diff", "got n ", n, "; expected at least 0; correct it");
  const int d = wrap_dim(dim, input->shape.size(), "diff");
  if (n == 0) return clone(input);
  TensorList parts;
  if (prepend.defined()) parts.push_back(prepend);
  parts.push_back(input);
  if (append.defined()) parts.push_back(append);
  Tensor t = parts.size() == 1 ? input : cat(parts, d);
  for (int64_t i = 0; i < n && t->shape[d] > 0; ++i) {
    const int64_t size = t->shape[d];
    Tensor later = slice(t, d, 1, size), earlier = slice(t, d, 0, size - 1);
    t = t->dtype == DType::Bool ? ne(later, earlier) : sub(later, earlier);
  }
  return t;
}

}  // namespace

namespace ops {

Tensor cumprod(const Tensor& t, int dim) {
  return cumprod_of(t, dim);
}

namespace {

const Family kScans("scan", [](Family& f) {
  f.op(&cumsum_as, {"cumsum(Tensor input, int dim, *, dtype? dtype=None) -> Tensor",
                    "Running sums along a dimension, in fixed order, accumulated in float64 (or "
                    "int64, which is the result's dtype for integers)."});
  f.op(&pyflame::cumprod, {"cumprod(Tensor input, int dim, *, dtype? dtype=None) -> Tensor",
                           "Running products along a dimension. Gradients are right at zeros."});
  f.op(&logcumsumexp, {"logcumsumexp(Tensor input, int dim) -> Tensor",
                       "log of running sums of exp, without overflow."});
  f.op(&cummax, {"cummax(Tensor input, int dim) -> (Tensor values, Tensor indices)",
                 "The largest so far, and where it is (the last of equals). NaN stays."});
  f.op(&cummin, {"cummin(Tensor input, int dim) -> (Tensor values, Tensor indices)",
                 "The smallest so far, and where it is (the last of equals). NaN stays."});
  f.op(&diff, {"diff(Tensor input, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) "
               "-> Tensor",
               "Differences of neighbours along a dimension, n times."});
});

}  // namespace
}  // namespace ops

}  // namespace pyflame
