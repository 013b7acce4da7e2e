// softmax, log_softmax and softmin. The kernels work on the last axis; other axes are moved there.
#include "table/kernels/softmax.h"
#include "engine/autograd.h"
#include "engine/engine.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/functions.h"
#include "ops/registry.h"
#include "ops/rows.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

Tensor backward_last(const Tensor& grad, const Tensor& y, bool log) {
  if (autograd::wanted({grad, y})) {  // a second derivative is asked for
    if (log) return sub(grad, mul(exp(y), sum(grad, IntList{-1}, true)));
    return mul(y, sub(grad, sum(mul(grad, y), IntList{-1}, true)));
  }
  Tensor dx = make_tensor(y->shape, y->dtype, y->storage->device);
  const kernels::SoftmaxBackward::Tensors<Tensor> t{dx, grad, y};
  log ? engine::call<kernels::LogSoftmaxBackward>(t) : engine::call<kernels::SoftmaxBackward>(t);
  return dx;
}

Tensor softmax_last(const Tensor& x, bool log) {
  Tensor y = make_tensor(x->shape, x->dtype, x->storage->device);
  if (y->numel > 0)
    log ? engine::call<kernels::LogSoftmax>({y, x}) : engine::call<kernels::Softmax>({y, x});
  if (autograd::wanted({x}))
    autograd::attach(
        log ? "log_softmax" : "softmax", {y}, {x}, {Saved(y, true)},
        [log](const Context& c) -> Grads { return {backward_last(c.grad(), c.saved(0), log)}; });
  return y;
}

Tensor softmax_any(const Tensor& input, int64_t dim, std::optional<DType> dtype, bool log) {
  PF_AUTOCAST("softmax log_softmax softmin", RaiseElseFollow, softmax_any, input, dim, dtype, log);
  const char* op = log ? "log_softmax" : "softmax";
  ops::check_arithmetic(input, op);
  const Tensor x = dtype ? to(input, *dtype) : input;
  ops::check_floating(x, op);
  const int n = x->shape.size(), d = wrap_dim(dim, n, op);
  if (n == 0 || d == n - 1) return softmax_last(x, log);
  if (d == 1 && ops::channels_lie_last(x))  // side by side: nothing is copied
    return ops::channels_from_end(softmax_last(ops::channels_to_end(x), log));
  return ops::dense(transpose(softmax_last(transpose(x, d, n - 1), log), d, n - 1));
}

// What torch.nn.functional does when no axis is named.
int64_t default_dim(const Tensor& x, std::optional<int64_t> dim) {
  ops::check_defined(x, "softmax", "input");
  if (dim) return *dim;
  const int n = x->shape.size();
  return n == 0 || n == 1 || n == 3 ? 0 : 1;
}

Tensor functional_softmax(const Tensor& x, std::optional<int64_t> dim, std::optional<DType> dtype) {
  return softmax_any(x, default_dim(x, dim), dtype, false);
}
Tensor functional_log_softmax(const Tensor& x, std::optional<int64_t> dim,
                              std::optional<DType> dtype) {
  return softmax_any(x, default_dim(x, dim), dtype, true);
}
Tensor functional_softmin(const Tensor& x, std::optional<int64_t> dim, std::optional<DType> dtype) {
  ops::check_arithmetic(x, "softmin");
  return softmax_any(neg(x), default_dim(x, dim), dtype, false);
}

Tensor glu(const Tensor& x, int64_t dim) {
  ops::check_floating(x, "glu");
  const int d = wrap_dim(dim, x->shape.size(), "glu");
  const int64_t n = x->shape.empty() ? 1 : x->shape[d];
  PF_CHECK(n % 2 == 0, ShapeError, "glu", "got shape ", x->shape, " and dim ", dim,
           "; expected an even size; pad it or choose another dimension");
  return mul(narrow(x, d, 0, n / 2), sigmoid(narrow(x, d, n / 2, n / 2)));
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t dim, std::optional<DType> dtype) {
  return softmax_any(x, dim, dtype, false);
}
Tensor log_softmax(const Tensor& x, int64_t dim, std::optional<DType> dtype) {
  return softmax_any(x, dim, dtype, true);
}

static const ops::Family kSoftmax("softmax", [](ops::Family& f) {
  using namespace ops;
  f.op(&softmax,
       {"softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor",
        "exp(x - max) / sum(exp(x - max)) along `dim`; each slice sums to 1. A slice of -inf only, "
        "or with a NaN, gives NaN. With `dtype` the input is converted first. float16 and bfloat16 "
        "are calculated in float32."});
  f.op(&log_softmax,
       {"log_softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor",
        "x - max - log(sum(exp(x - max))) along `dim`: the logarithm of softmax, finite for inputs "
        "as large as 1e4. With `dtype` the input is converted first."});
  f.op(&functional_softmax,
       {"softmax(Tensor input, int? dim=None, dtype? dtype=None) -> Tensor",
        "As pyflame.softmax. Without `dim`: axis 0 for 0-d, 1-d and 3-d inputs, else axis 1.",
        kFunctional});
  f.op(&functional_log_softmax,
       {"log_softmax(Tensor input, int? dim=None, dtype? dtype=None) -> Tensor",
        "As pyflame.log_softmax. Without `dim`: axis 0 for 0-d, 1-d and 3-d inputs, else axis 1.",
        kFunctional});
  f.op(&functional_softmin, {"softmin(Tensor input, int? dim=None, dtype? dtype=None) -> Tensor",
                             "softmax of -input along `dim`.", kFunctional});
  f.op(&glu, {"glu(Tensor input, int dim=-1) -> Tensor",
              "a * sigmoid(b), with a and b the halves of the input along `dim`.", kFunctional});
});

}  // namespace pyflame
