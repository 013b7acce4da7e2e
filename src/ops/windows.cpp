// Windows for short-time transforms.
#include <cmath>

#include "ops/registry.h"
#include "ops/rows.h"

namespace pyflame {
namespace {

using Type = std::optional<DType>;
using Dev = std::optional<Device>;

// 0 to n - 1 as fractions of the window's length, of which a periodic one leaves out the end.
struct Places {
  Tensor k;
  double step;  // from one to the next
};
Places places(int64_t n, bool periodic, Type dtype, Dev device, const char* op) {
  PF_CHECK(n >= 0, ValueError, op, "got window_length ", n, "; expected at least 0; correct it");
  const DType t = dtype.value_or(default_dtype());
  PF_CHECK(is_float(t) && !info(t).storage_only, DTypeError, op, "got dtype ", t,
           "; expected a floating-point dtype; choose another");
  const auto length = static_cast<double>(periodic ? n : n - 1);
  return {arange(0, n, 1, ops::is_narrow(t) ? DType::Float32 : t, device),
          length > 0 ? 1 / length : 0};
}
Tensor finished(const Tensor& w, Type dtype, bool grad) {
  Tensor r = to(w, dtype.value_or(default_dtype()));
  if (grad) r.requires_grad_(true);
  return r;
}
Tensor single(const Places& p) {
  return ones_like(p.k);
}

// a - b cos(2 pi x) + c cos(4 pi x)
Tensor cosines(int64_t n, bool periodic, double a, double b, double c, Type dtype, Dev device,
               bool grad, const char* op) {
  const Places p = places(n, periodic, dtype, device, op);
  if (n <= 1) return finished(single(p), dtype, grad);
  const Tensor x = mul(p.k, Scalar(2 * M_PI * p.step));
  Tensor w = add(mul(cos(x), Scalar(-b)), Scalar(a));
  if (c != 0) w = add(w, mul(cos(mul(x, Scalar(2.0))), Scalar(c)));
  return finished(w, dtype, grad);
}

Tensor hann(int64_t n, bool periodic, Type t, Dev d, bool grad) {
  return cosines(n, periodic, 0.5, 0.5, 0, t, d, grad, "hann_window");
}
Tensor hamming(int64_t n, bool periodic, double alpha, double beta, Type t, Dev d, bool grad) {
  return cosines(n, periodic, alpha, beta, 0, t, d, grad, "hamming_window");
}
Tensor blackman(int64_t n, bool periodic, Type t, Dev d, bool grad) {
  return cosines(n, periodic, 0.42, 0.5, 0.08, t, d, grad, "blackman_window");
}
Tensor bartlett(int64_t n, bool periodic, Type t, Dev d, bool grad) {
  const Places p = places(n, periodic, t, d, "bartlett_window");
  if (n <= 1) return finished(single(p), t, grad);
  return finished(rsub(abs(sub(mul(p.k, Scalar(2 * p.step)), Scalar(1.0))), Scalar(1.0)), t, grad);
}
Tensor kaiser(int64_t n, bool periodic, double beta, Type t, Dev d, bool grad) {
  const Places p = places(n, periodic, t, d, "kaiser_window");
  if (n <= 1) return finished(single(p), t, grad);
  const Tensor x = square(sub(mul(p.k, Scalar(2 * p.step)), Scalar(1.0)));
  const Tensor inside = clamp(rsub(x, Scalar(1.0)), Scalar(0.0), std::nullopt);
  const Tensor top = i0(mul(sqrt(inside), Scalar(beta)));
  return finished(div(top, i0(full_like(p.k, Scalar(beta)))), t, grad);
}

#define PF_WINDOW ", *, dtype? dtype=None, device? device=None, bool requires_grad=False) -> Tensor"

const ops::Family kWindows("windows", [](ops::Family& f) {
  using namespace ops;
  f.op(&hann,
       {"hann_window(int window_length, bool periodic=True" PF_WINDOW,
        "(1 - cos(2 pi k / n)) / 2; periodic: one period, else symmetric.", kFunction, false});
  f.op(&hamming, {"hamming_window(int window_length, bool periodic=True, float alpha=0.54, float "
                  "beta=0.46" PF_WINDOW,
                  "alpha - beta cos(2 pi k / n).", kFunction, false});
  f.op(&blackman, {"blackman_window(int window_length, bool periodic=True" PF_WINDOW,
                   "0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n).", kFunction, false});
  f.op(&bartlett, {"bartlett_window(int window_length, bool periodic=True" PF_WINDOW,
                   "A triangle: 1 - |2 k / n - 1|.", kFunction, false});
  f.op(&kaiser, {"kaiser_window(int window_length, bool periodic=True, float beta=12.0" PF_WINDOW,
                 "I0(beta sqrt(1 - (2 k / n - 1)^2)) / I0(beta).", kFunction, false});
});

}  // namespace
}  // namespace pyflame
