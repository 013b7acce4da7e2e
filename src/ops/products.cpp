// Products that are compositions of others: of vectors, Kronecker, bilinear, sums of batches.
#include <algorithm>
#include <limits>
#include <vector>

#include "core/tensor_impl.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/functions.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "ops/rows.h"

namespace pyflame {

namespace {

void check_both(const Tensor& a, const Tensor& b, const char* op) {
  PF_CHECK(a.defined() && b.defined() && a->dtype == b->dtype, DTypeError, op,
           "got tensors of different dtypes; expected both to have the same dtype; convert one ",
           "with .to(dtype)");
}

Tensor inner(const Tensor& a, const Tensor& b) {
  PF_AUTOCAST("inner", Promote, inner, a, b);
  check_both(a, b, "inner");
  if (a->shape.empty() || b->shape.empty()) return mul(a, b);
  PF_CHECK(a->shape.back() == b->shape.back(), ShapeError, "inner", "got ", a->shape, " and ",
           b->shape, "; expected equal last dimensions; transpose or reshape one of them");
  return tensordot(a, b, {-1}, {-1});
}

Tensor vdot(const Tensor& a, const Tensor& b) {
  PF_AUTOCAST("vdot", Promote, vdot, a, b);
  return dot(a.defined() ? conj(a) : a, b);
}

}  // namespace

bool rounds_sum_once(DType type, Scalar beta, Scalar alpha) {
  return itemsize(type) == 2 && is_float(type) && beta.to_double() != 0 &&
         (alpha.to_double() != 1 || beta.to_double() != 1);
}

Tensor scaled_sum(const Tensor& input, const Tensor& product, Scalar beta, Scalar alpha,
                  const char* op) {
  ops::check_defined(input, op);
  beta = ops::factor_for(product->dtype, beta, op, "beta");
  alpha = ops::factor_for(product->dtype, alpha, op, "alpha");
  PF_CHECK(broadcast_shapes(input->shape, product->shape, op) == product->shape, ShapeError, op,
           "got input of shape ", input->shape, " for a product of shape ", product->shape,
           "; expected a shape that broadcasts to it; reshape the input");
  if (rounds_sum_once(product->dtype, beta, alpha)) {
    const Tensor sum = add(mul(ops::widened(input), beta), mul(ops::widened(product), alpha));
    return to(sum, product->dtype);
  }
  Tensor r = alpha.to_double() == 1 ? product : mul(product, alpha);
  if (beta.to_double() == 0) return r;
  return add(beta.to_double() == 1 ? input : mul(input, beta), r);
}

Tensor vecdot(const Tensor& a, const Tensor& b, int64_t dim) {
  PF_AUTOCAST("vecdot", Lower, vecdot, a, b, dim);
  check_both(a, b, "vecdot");
  return sum(mul(conj(a), b), IntList{dim}, false, a->dtype);
}

namespace {

// Each dimension as (a, b): one broadcast product, then a reshape.
Tensor kron(const Tensor& a, const Tensor& b) {
  ops::check_defined(a, "kron");
  ops::check_defined(b, "kron");
  const int n = std::max(a->shape.size(), b->shape.size());
  IntList wide_a, wide_b, shape;
  for (int i = 0; i < n; ++i) {
    const int da = i - (n - a->shape.size()), db = i - (n - b->shape.size());
    const int64_t sa = da < 0 ? 1 : a->shape[da], sb = db < 0 ? 1 : b->shape[db];
    wide_a.insert(wide_a.end(), {sa, 1});
    wide_b.insert(wide_b.end(), {1, sb});
    shape.push_back(ops::checked_size(sa, sb, "kron"));
  }
  return reshape(mul(reshape(a, wide_a), reshape(b, wide_b)), shape);
}

Tensor bilinear(const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& bias) {
  PF_AUTOCAST("bilinear", Promote, bilinear, x, y, weight, bias);
  check_both(x, weight, "bilinear");
  PF_CHECK(weight->shape.size() == 3 && !x->shape.empty() && !y->shape.empty() &&
               x->shape.back() == weight->shape[1] && y->shape.back() == weight->shape[2],
           ShapeError, "bilinear", "got ", x->shape, ", ", y->shape, " and weight ", weight->shape,
           "; expected [..., in1], [..., in2] and [out, in1, in2]; check the features");
  Tensor r = einsum("...i,oij,...j->...o", {x, weight, y});
  return bias.defined() ? add(r, bias) : r;
}

}  // namespace

Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  PF_AUTOCAST("addbmm", Lower, addbmm, input, a, b, beta, alpha);
  PF_CHECK(a->shape.size() == 3 && b->shape.size() == 3, ShapeError, "addbmm", "got ", a->shape,
           " and ", b->shape, "; expected two batches of matrices; use matmul for other shapes");
  return scaled_sum(input, einsum("bik,bkj->ij", {a, b}), beta, alpha, "addbmm");
}

Tensor addr(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  PF_AUTOCAST("addr", LowerElsePromote, addr, input, a, b, beta, alpha);
  const Tensor product = outer(a, b);
  if (input.defined() && input->dtype == DType::Bool && product->dtype == DType::Bool) {
    const auto truth = [](Scalar s) { return Scalar(s.to_double() != 0); };
    return scaled_sum(input, product, truth(beta), truth(alpha), "addr");
  }
  return scaled_sum(input, product, beta, alpha, "addr");
}

namespace {

Tensor trace(const Tensor& t) {
  PF_AUTOCAST("trace", FollowElseRaise, trace, t);
  PF_CHECK(t.defined() && t->shape.size() == 2, ShapeError, "trace", "got shape ",
           t.defined() ? t->shape : Dims{}, "; expected a matrix; take diagonal(...).sum(-1)");
  return sum(diagonal(t, 0, 0, 1));
}

}  // namespace

Tensor matrix_power(const Tensor& t, int64_t n) {
  const int nd = t->shape.size();
  PF_CHECK(nd >= 2 && t->shape[nd - 1] == t->shape[nd - 2], ShapeError, "matrix_power",
           "got shape ", t->shape, "; expected square matrices; check the last two dimensions");
  PF_CHECK(n != INT64_MIN, ValueError, "matrix_power", "got n ", n, "; expected ", INT64_MIN + 1,
           " or more; correct it");
  if (n < 0) return matrix_power(linalg::inverse(t, "matrix_power"), -n);
  if (n == 0) {
    Tensor one = eye(t->shape[nd - 1], {}, t->dtype, t->storage->device);
    const Tensor ones = contiguous(expand(one, t->shape.vec()));
    return is_integral(t->dtype, true) ? ones : ops::without_slope("matrix_power", ones, t);
  }
  if (n == 1) return clone(t);
  Tensor result, square = t;
  for (;; square = matmul(square, square)) {
    if (n & 1) result = result.defined() ? matmul(result, square) : square;
    if ((n >>= 1) == 0) return result;
  }
}

Tensor product_of_all(const TensorList& factors) {
  const size_t n = factors.size();
  if (n == 1) return factors[0];
  TensorList m = factors;
  const bool row = m[0]->shape.size() == 1, column = m[n - 1]->shape.size() == 1;
  if (row) m[0] = unsqueeze(m[0], 0);
  if (column) m[n - 1] = unsqueeze(m[n - 1], 1);
  const auto size = [&](size_t i) {
    return static_cast<double>(i < n ? m[i]->shape[0] : m[n - 1]->shape[1]);
  };
  // The cheapest product of the factors [i, j), and where it is cut: best[i * (n + 1) + j].
  struct Best {
    double cost = 0;
    size_t cut = 0;
  };
  std::vector<Best> best((n + 1) * (n + 1));
  for (size_t length = 2; length <= n; ++length)
    for (size_t i = 0; i + length <= n; ++i) {
      Best& b = best[i * (n + 1) + i + length];
      b.cost = std::numeric_limits<double>::infinity();
      for (size_t cut = i + 1; cut < i + length; ++cut) {
        const double cost = best[i * (n + 1) + cut].cost + best[cut * (n + 1) + i + length].cost +
                            size(i) * size(cut) * size(i + length);
        if (cost < b.cost) b = {cost, cut};
      }
    }
  const auto multiply = [&](const auto& self, size_t i, size_t j) -> Tensor {
    if (j - i == 1) return m[i];
    const size_t cut = best[i * (n + 1) + j].cut;
    return matmul(self(self, i, cut), self(self, cut, j));
  };
  Tensor r = multiply(multiply, 0, n);
  if (column) r = squeeze(r, 1);
  return row ? squeeze(r, 0) : r;
}

Tensor chain_matmul(const TensorList& matrices) {
  PF_AUTOCAST("chain_matmul", Lower, chain_matmul, matrices);
  PF_CHECK(!matrices.empty(), ValueError, "chain_matmul",
           "got no matrices; expected at least one; pass the factors");
  for (const Tensor& m : matrices)
    PF_CHECK(m.defined() && m->shape.size() == 2, ShapeError, "chain_matmul", "got ",
             m.defined() ? m->shape : Dims{}, "; expected matrices; reshape them");
  return matrices.size() == 1 ? clone(matrices[0]) : product_of_all(matrices);
}

Tensor cross(const Tensor& a, const Tensor& b, int64_t dim) {
  PF_AUTOCAST("cross", Promote, cross, a, b, dim);
  check_both(a, b, "cross");
  const int nd = a->shape.size();
  PF_CHECK(b->shape.size() == nd, ShapeError, "cross", "got ", a->shape, " and ", b->shape,
           "; expected as many dimensions; unsqueeze one of them");
  const int from_end = wrap_dim(dim, nd, "cross") - nd;
  auto size = [&](const Tensor& t) { return nd == 0 ? int64_t{0} : t->shape[nd + from_end]; };
  PF_CHECK(size(a) == 3 && size(b) == 3, ShapeError, "cross", "got ", a->shape, " and ", b->shape,
           "; expected three elements along dimension ", dim, "; pass dim");
  // d[i] = a[i] b[i + 1] - a[i + 1] b[i], and the product is d turned by one: one turn less than
  // with every factor in its place.
  auto turn = [&](const Tensor& t) { return roll(t, {-1}, {from_end}); };
  return turn(sub(mul(a, turn(b)), mul(turn(a), b)));
}

namespace ops {
namespace {

// Without dim: along the first dimension of three elements.
Tensor cross_along(const Tensor& a, const Tensor& b, std::optional<int64_t> dim) {
  check_defined(a, "cross");
  check_defined(b, "cross");
  if (dim) return cross(a, b, *dim);
  const auto at = std::find(a->shape.begin(), a->shape.end(), 3);
  PF_CHECK(at != a->shape.end(), ShapeError, "cross", "got ", a->shape, " and ", b->shape,
           "; expected three elements along a dimension; reshape them");
  return cross(a, b, at - a->shape.begin());
}

const Family kComposed("matrix products", [](Family& f) {
  f.op(&inner, {"inner(Tensor input, Tensor other) -> Tensor",
                "Sum of products over the last dimension of both: [..., k] and [..., k]."});
  f.op(&outer, {"ger(Tensor input, Tensor vec2) -> Tensor", "The same as outer."});
  f.op(&vdot, {"vdot(Tensor input, Tensor other) -> Tensor", "The same as dot for real numbers."});
  f.op(&vecdot, {"vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
                 "Sum of products along one dimension; the others broadcast.", kFunction});
  f.op(&kron, {"kron(Tensor input, Tensor other) -> Tensor",
               "Kronecker product: each element of input times all of other, as blocks."});
  f.op(&bilinear,
       {"bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
        "input1 @ weight[o] @ input2 + bias[o] for every output feature o; weight [out_features, "
        "in1_features, in2_features].",
        kFunction | kFunctional});
  f.op(&addbmm, {"addbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar "
                 "alpha=1) -> Tensor",
                 "beta * input + alpha * (sum of the products of two batches of matrices)."});
  f.op(&addr, {"addr(Tensor input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> "
               "Tensor",
               "beta * input + alpha * outer(vec1, vec2)."});
  f.op(&trace, {"trace(Tensor input) -> Tensor", "Sum of the diagonal of a matrix."});
  f.op(&matrix_power,
       {"matrix_power(Tensor input, int n) -> Tensor",
        "Square matrices to a power, by repeated squaring; a negative one is of the inverse."});
  f.op(&chain_matmul, {"chain_matmul(Tensor[] matrices) -> Tensor",
                       "Product of several matrices, in the cheapest order.", kFunction});
  f.op(&cross_along, {"cross(Tensor input, Tensor other, int? dim=None) -> Tensor",
                      "Cross product of vectors of three elements along dim, by default the first "
                      "dimension of that size; linalg.cross takes the last."});
});

}  // namespace
}  // namespace ops
}  // namespace pyflame
