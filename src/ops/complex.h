// Complex numbers. Their arithmetic is that of their parts, which are strided views: a complex
// tensor is a real one with a last dimension of two (view_as_real), so there are no kernels of
// complex numbers, and what holds of real ones (fusion, devices, derivatives of any order) holds of
// them. Gradients are as PyTorch has them: dL/dRe + i dL/dIm.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "core/tensor_impl.h"
#include "engine/engine.h"
#include "ops/functions.h"

namespace pyflame {

constexpr bool is_complex(DType t) {
  return info(t).kind == Kind::Complex;
}
inline bool is_complex(const Tensor& t) {
  return is_complex(t->dtype);
}
// Of the parts of complex numbers, and the complex dtype of such parts.
constexpr DType real_type(DType t) {
  return t == DType::Complex64 ? DType::Float32 : t == DType::Complex128 ? DType::Float64 : t;
}
constexpr DType complex_type(DType t) {
  return t == DType::Float64 || t == DType::Complex128 ? DType::Complex128 : DType::Complex64;
}

// Views: [..., 2] of a complex tensor, and back.
Tensor view_as_real(const Tensor&);
Tensor view_as_complex(const Tensor&);
Tensor real(const Tensor&);  // views; of real numbers: the tensor itself
Tensor imag(const Tensor&);
Tensor complex(const Tensor& real, const Tensor& imag);
Tensor polar(const Tensor& abs, const Tensor& angle);
Tensor conj(const Tensor&);  // of real numbers: the tensor itself
Tensor angle(const Tensor&);
Tensor sgn(const Tensor&);      // z / |z|, 0 of 0; of real numbers the sign
Tensor adjoint(const Tensor&);  // conj of the last two dimensions exchanged

namespace ops {

struct Parts {
  Tensor re, im;
};
// DTypeError where a complex value would be written into a real tensor.
void check_fits(const Tensor& into, const Tensor& value, const char* op);
Parts parts(const Tensor&);  // of a complex tensor; differentiable, for reading alone
// The operation of real tensors over view_as_real, in a form that leaves its last dimension alone.
template <class F>
Tensor over_parts(const Tensor& z, F&& f) {
  return view_as_complex(f(view_as_real(z)));
}

// A product f of real tensors, linear in both, of complex ones: four of their parts.
template <class F>
Tensor product_of_parts(const Parts& x, const Parts& y, F&& f) {
  return complex(sub(f(x.re, y.re), f(x.im, y.im)), add(f(x.re, y.im), f(x.im, y.re)));
}

// A row of the pointwise table with an operand of a complex dtype; `common` is that of the
// operands. DTypeError where there is no such operation of complex numbers.
Tensor complex_row(engine::OpId id, std::span<const engine::Operand> operands,
                   std::span<const Scalar> attrs, DType common, const char* name);

// a b + bias, as product() (ops/matmul.h), of complex matrices.
Tensor complex_product(const Tensor& a, const Tensor& b, const Tensor& bias, bool ta, bool tb,
                       const char* op);
// The product over one dimension.
Tensor complex_prod(const Tensor& z, const std::optional<IntList>& dim, bool keepdim);

}  // namespace ops
}  // namespace pyflame
