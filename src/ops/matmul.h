// What other operations need of the matrix products, beside ops/functions.h.
#pragma once

#include "pyflame/tensor.h"

namespace pyflame {

// a[..., m, k] b[..., k, n] + bias[n] with broadcasting leading dimensions; ta and tb say that the
// last two dimensions of an operand are given the other way round. At least two dimensions, same
// dtype and device (checked by the caller). Differentiable. `op` is a literal.
Tensor product(const Tensor& a, const Tensor& b, const Tensor& bias, bool ta, bool tb,
               const char* op);

Tensor mm(const Tensor&, const Tensor&);
// int8 matrices to int32.
Tensor int_mm(const Tensor&, const Tensor&);
Tensor mv(const Tensor&, const Tensor&);
Tensor dot(const Tensor&, const Tensor&);
Tensor outer(const Tensor&, const Tensor&);
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
             Scalar alpha = 1);
Tensor addmv(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
             Scalar alpha = 1);
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
               Scalar alpha = 1);
Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
              Scalar alpha = 1);
Tensor addr(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
            Scalar alpha = 1);
// Whether a sum so scaled is made in float32 and rounded once, to 16 bits.
bool rounds_sum_once(DType, Scalar beta, Scalar alpha);
// beta * input + alpha * product, of the product's shape.
Tensor scaled_sum(const Tensor& input, const Tensor& product, Scalar beta, Scalar alpha,
                  const char* op);
Tensor vecdot(const Tensor& a, const Tensor& b, int64_t dim);
Tensor cross(const Tensor& a, const Tensor& b, int64_t dim);
Tensor matrix_power(const Tensor& t, int64_t n);
Tensor chain_matmul(const std::vector<Tensor>& matrices);
// Of at least one matrix, in the order of the fewest multiplications; the first and the last may be
// vectors.
Tensor product_of_all(const std::vector<Tensor>& factors);
Tensor tensordot(const Tensor& a, const Tensor& b, const std::vector<int64_t>& dims_a,
                 const std::vector<int64_t>& dims_b);

}  // namespace pyflame
