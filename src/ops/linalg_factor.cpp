// Cholesky, LU, triangular systems and what follows from them: solve, inv, det.
#include <cmath>

#include "core/values.h"
#include "engine/autograd.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/linalg.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "table/kernels/linalg.h"

namespace pyflame {
namespace linalg {

using autograd::Context;
using autograd::Grads;
using engine::Takes;

// ---- Cholesky -----------------------------------------------------------------------------------

namespace {

std::string not_positive(int64_t order) {
  return "whose leading minor of order " + std::to_string(order) +
         " is not positive; expected a symmetric positive-definite matrix; add a small multiple of "
         "the identity, or use linalg.ldl_factor or linalg.eigh";
}

// The lower triangle with half of the diagonal.
Tensor half_triangle(const Tensor& p) {
  return add(tril(p, -1), mul(diag_embed(diagonal(p, 0, -2, -1)), Scalar(0.5)));
}

}  // namespace

std::pair<Tensor, Tensor> cholesky_ex(const Tensor& a, bool upper, bool check, const char* op) {
  check_square(a, op);
  auto out = run(engine::kernel<kernels::Cholesky>(), op, {a}, [&](std::vector<Tensor>& in) {
    Tensor l = ops::raw_clone(in[0]);
    Tensor info = make_tensor(batch_of(a), DType::Int32, l->device());
    if (l->numel == 0)
      zero_(info);
    else
      engine::call<kernels::Cholesky>({.a = l, .info = info}, {.upper = int64_t{upper}},
                                      {.inplace = 1, .op = op, .takes = Takes::Bytes});
    return std::vector<Tensor>{l, info};
  });
  if (check) check_info(out[1], op, not_positive);
  if (autograd::wanted({a}))
    autograd::attach(op, {out[0]}, {a}, {autograd::Saved(out[0], true)},
                     [upper](const Context& c) -> Grads {
                       const Tensor l = upper ? adjoint(c.saved(0)) : c.saved(0);
                       const Tensor g = upper ? adjoint(c.grad()) : c.grad();
                       // L'^-1 (phi(L' g) + its adjoint) L^-1 / 2
                       const Tensor p = half_triangle(matmul(adjoint(l), g));
                       const Tensor s = add(p, adjoint(p));
                       const char* op = "linalg.cholesky";
                       const Tensor left = solve_triangular(adjoint(l), s, true, true, false, op);
                       const Tensor both = solve_triangular(l, left, false, false, false, op);
                       return {mul(both, Scalar(0.5))};
                     });
  return {out[0], out[1]};
}

// ---- LU -----------------------------------------------------------------------------------------

std::vector<Tensor> lu_factor_raw(const Tensor& a, const char* op) {
  check_matrix(a, op);
  return run(engine::kernel<kernels::LuFactor>(), op, {a}, [&](std::vector<Tensor>& in) {
    Tensor lu = by_columns(in[0]);
    const Dims batch = batch_of(a);
    Tensor pivots =
        make_tensor(with(batch, {std::min(rows(a), columns(a))}), DType::Int32, lu->device());
    Tensor info = make_tensor(batch, DType::Int32, lu->device());
    if (lu->numel == 0)
      zero_(info);
    else
      engine::call<kernels::LuFactor>({.a = lu, .pivots = pivots, .info = info}, {},
                                      {.inplace = 1, .op = op, .takes = Takes::Bytes});
    return std::vector<Tensor>{transposed(lu), pivots, info};
  });
}

namespace {

Tensor lu_solve_raw(const Tensor& lu, const Tensor& pivots, const Tensor& b, int64_t mode,
                    const char* op) {
  return run(engine::kernel<kernels::LuSolve>(), op, {lu, pivots, b}, [&](std::vector<Tensor>& in) {
    Tensor x = ops::raw_clone(in[2]);
    if (x->numel > 0)
      engine::call<kernels::LuSolve>({.b = x, .lu = transposed(in[0]), .pivots = contiguous(in[1])},
                                     {.mode = mode},
                                     {.inplace = 1, .op = op, .takes = Takes::Bytes});
    return std::vector<Tensor>{x};
  })[0];
}

std::string singular(int64_t order) {
  return "that is singular: element " + std::to_string(order) +
         " of the diagonal of U is 0; expected an invertible matrix; use linalg.lstsq or "
         "linalg.pinv for others";
}

}  // namespace

Tensor solve_factored(const Tensor& a, const Tensor& lu, const Tensor& pivots, const Tensor& b,
                      bool adjoint_of, const char* op) {
  const int64_t mode = !adjoint_of ? 0 : is_complex(a) ? 2 : 1;
  Tensor x = lu_solve_raw(lu, pivots, b, mode, op);
  if (autograd::wanted({a, b}))
    autograd::attach(
        op, {x}, {a, b},
        {autograd::Saved(a), autograd::Saved(lu), autograd::Saved(pivots),
         autograd::Saved(x, true)},
        [adjoint_of](const Context& c) -> Grads {
          const char* op = "linalg.solve";
          const Tensor gb =
              solve_factored(c.saved(0), c.saved(1), c.saved(2), c.grad(), !adjoint_of, op);
          if (!c.needs(0)) return {{}, gb};
          const Tensor x = c.saved(3);
          return {neg(adjoint_of ? matmul(x, adjoint(gb)) : matmul(gb, adjoint(x))), gb};
        });
  return x;
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left, bool unit,
                        const char* op) {
  if (!left)
    return transposed(solve_triangular(transposed(a), transposed(b), !upper, true, unit, op));
  check_square(a, op);
  check_matrix(b, op, "B");
  check_same_type(a, b, op);
  PF_CHECK(rows(b) == rows(a), ShapeError, op, "got A of shape ", a->shape, " and B of shape ",
           b->shape, "; expected as many rows in both; transpose or pass left");
  const auto [wide_a, wide_b] = one_batch(a, b, op);
  Tensor x =
      run(engine::kernel<kernels::TriangularSolve>(), op, {wide_a, wide_b},
          [&](std::vector<Tensor>& in) {
            Tensor y = ops::raw_clone(in[1]);
            // The transpose of a row-major tensor is read as it lies.
            const Tensor turned = transposed(in[0].detach());
            const bool columns = turned->contiguous && !in[0]->contiguous;
            if (y->numel > 0)
              engine::call<kernels::TriangularSolve>(
                  {.b = y, .a = columns ? turned : in[0].detach()},
                  {.upper = int64_t{upper}, .transposed = int64_t{columns}, .unit = int64_t{unit}},
                  {.inplace = 1, .op = op, .takes = Takes::Bytes});
            return std::vector<Tensor>{y};
          })[0];
  if (autograd::wanted({wide_a, wide_b}))
    autograd::attach(op, {x}, {wide_a, wide_b}, {autograd::Saved(wide_a), autograd::Saved(x, true)},
                     [upper, unit](const Context& c) -> Grads {
                       const Tensor a = c.saved(0), x = c.saved(1);
                       const Tensor gb = solve_triangular(adjoint(a), c.grad(), !upper, true, unit,
                                                          "linalg.solve_triangular");
                       Tensor ga;
                       if (c.needs(0)) {
                         const Tensor full = neg(matmul(gb, adjoint(x)));
                         ga = upper ? triu(full, unit ? 1 : 0) : tril(full, unit ? -1 : 0);
                       }
                       return {ga, gb};
                     });
  return x;
}

namespace {

// A^-1 of its factors.
Tensor inverse_of(const Tensor& a, const std::vector<Tensor>& f, const char* op) {
  Tensor y = lu_solve_raw(f[0], f[1], with_batch(identity_like(a), batch_of(a)), 0, op);
  if (autograd::wanted({a}))
    autograd::attach(op, {y}, {a}, {autograd::Saved(y, true)}, [](const Context& c) -> Grads {
      const Tensor h = adjoint(c.saved(0));
      return {neg(matmul(matmul(h, c.grad()), h))};
    });
  return y;
}

}  // namespace

Tensor inverse(const Tensor& a, const char* op) {
  check_square(a, op);
  const auto [inverted, info] = inverse_ex(a, op);
  check_info(info, op, singular);
  return inverted;
}

namespace {

// ---- solve, inv ---------------------------------------------------------------------------------

// Whether B is a batch of vectors: one dimension, or the shape of A without its last one.
bool is_vector(const Tensor& a, const Tensor& b) {
  if (b->shape.size() == 1) return true;
  Dims shape = a->shape;
  shape.resize(shape.size() - 1);
  return b->shape == shape;
}

TensorList solve_with_info(const Tensor& given, const Tensor& b, bool left, bool check,
                           const char* op) {
  check_square(given, op);
  const Tensor a = b.defined() ? ops::beside(given, {b}, op) : given;
  PF_CHECK(b.defined() && !b->shape.empty(), ShapeError, op,
           "got B without dimensions; expected a vector or matrices; unsqueeze it");
  const bool vector = is_vector(a, b);
  PF_CHECK(left || !vector, ShapeError, op, "got B of shape ", b->shape,
           " and left=False; expected matrices; unsqueeze B");
  const Tensor matrix = vector ? unsqueeze(b, -1) : b;
  check_matrix(matrix, op, "B");
  check_same_type(a, matrix, op);
  PF_CHECK((left ? rows(matrix) : columns(matrix)) == rows(a), ShapeError, op, "got A of shape ",
           a->shape, " and B of shape ", b->shape, "; expected as many ", left ? "rows" : "columns",
           " in both; transpose B");
  const Tensor system = left ? a : transposed(a), right = left ? matrix : transposed(matrix);
  const auto [wide_a, wide_b] = one_batch(system, right, op);
  const auto f = lu_factor_raw(system, op);
  const Dims batch = batch_of(wide_a);
  const Tensor pivots = expand(f[1], with(batch, {f[1]->shape.back()}).vec());
  Tensor x = solve_factored(wide_a, with_batch(f[0], batch), pivots, wide_b, false, op);
  if (check) check_info(f[2], op, singular);  // now: a GPU has its work while the host waits
  if (!left) x = transposed(x);
  return {vector ? squeeze(x, -1) : x, f[2]};
}

}  // namespace

Tensor solve_system(const Tensor& a, const Tensor& b, const char* op) {
  return solve_with_info(a, b, true, true, op)[0];
}
Tensor solve_unchecked(const Tensor& a, const Tensor& b, const char* op) {
  return solve_with_info(a, b, true, false, op)[0];
}
std::pair<Tensor, Tensor> inverse_ex(const Tensor& a, const char* op) {
  check_square(a, op);
  const auto f = lu_factor_raw(a, op);
  return {inverse_of(a, f, op), f[2]};
}

namespace {

Tensor solve(const Tensor& a, const Tensor& b, bool left) {
  PF_AUTOCAST("linalg.solve", FollowElseRaise, solve, a, b, left);
  return solve_with_info(a, b, left, true, "linalg.solve")[0];
}
TensorList solve_ex(const Tensor& a, const Tensor& b, bool left, bool check_errors) {
  return solve_with_info(a, b, left, check_errors, "linalg.solve_ex");
}

Tensor inv(const Tensor& a) {
  PF_AUTOCAST("linalg.inv", FollowElseRaise, inv, a);
  return inverse(a, "linalg.inv");
}
TensorList inv_ex(const Tensor& a, bool check_errors) {
  const char* op = "linalg.inv_ex";
  const auto r = inverse_ex(a, op);
  if (check_errors) check_info(r.second, op, singular);
  return {r.first, r.second};
}

// ---- determinants -------------------------------------------------------------------------------

// 1 or -1: the sign of the permutation that pivots make.
Tensor parity(const Tensor& pivots, DType dtype) {
  const int64_t n = pivots->shape.back();
  const Tensor home = arange(1, n + 1, 1, DType::Int32, pivots->device());
  const Tensor swaps = sum(to(ne(pivots, home), DType::Int64), IntList{-1});
  const Tensor sign = sub(mul(bitwise_and(swaps, Scalar(1)), Scalar(-2)), Scalar(-1));
  return to(sign, dtype);
}

Tensor det(const Tensor& a);

// det(A) A^-1 of any matrix, by singular values; differentiable.
Tensor adjugate(const Tensor& a) {
  const TensorList f = svd(a, true, "linalg.det");
  const Tensor &u = f[0], &s = f[1], &vh = f[2];
  const int64_t n = columns(a);
  const Tensor one = eye(n, {}, s->dtype, s->device());
  const Tensor rest = expand(unsqueeze(s, -2), with(s->shape, {n}).vec());
  const Tensor others =
      prod(add(mul(rest, rsub(one, Scalar(1))), one), IntList{-1});  // but one's own
  const Tensor sign = mul(det(u), det(vh));
  return mul(matmul(times_column(adjoint(vh), to(others, a->dtype)), adjoint(u)),
             unsqueeze(unsqueeze(sign, -1), -1));
}

Tensor det(const Tensor& a) {
  const char* op = "linalg.det";
  check_square(a, op);
  const auto f = lu_factor_raw(a, op);
  const Tensor &lu = f[0], &pivots = f[1];
  Tensor y;
  {
    NoGrad off;
    y = mul(prod(diagonal(lu, 0, -2, -1), IntList{-1}), parity(pivots, a->dtype));
  }
  if (autograd::wanted({a}))
    autograd::attach(
        op, {y}, {a},
        {autograd::Saved(a), autograd::Saved(lu), autograd::Saved(pivots), autograd::Saved(y, true),
         autograd::Saved(f[2])},
        [](const Context& c) -> Grads {
          const Tensor a = c.saved(0);
          const auto over = [](const Tensor& t) { return unsqueeze(unsqueeze(t, -1), -1); };
          // A singular matrix has no inverse, but cofactors.
          if (any(ne(ops::all_samples(c.saved(4)), Scalar(0))).item().to_int())
            return {mul(over(c.grad()), adjoint(adjugate(a)))};
          const Tensor scale = mul(c.grad(), conj(c.saved(3)));
          return {solve_factored(a, c.saved(1), c.saved(2), mul(over(scale), identity_like(a)),
                                 true, "linalg.det")};
        });
  return y;
}

// The sign (or phase) and the logarithm of the magnitude.
TensorList slogdet(const Tensor& a) {
  const char* op = "linalg.slogdet";
  check_square(a, op);
  const auto f = lu_factor_raw(a, op);
  const Tensor &lu = f[0], &pivots = f[1];
  Tensor sign, size;
  {
    NoGrad off;
    const Tensor d = diagonal(lu, 0, -2, -1);
    sign = mul(prod(sgn(d), IntList{-1}), parity(pivots, a->dtype));
    size = sum(log(abs(d)), IntList{-1});
  }
  if (autograd::wanted({a}))
    autograd::attach(
        op, {sign, size}, {a},
        {autograd::Saved(a), autograd::Saved(lu), autograd::Saved(pivots),
         autograd::Saved(sign, true)},
        [](const Context& c) -> Grads {
          const Tensor a = c.saved(0);
          Tensor scale = c.grads[1].defined() ? to(c.grads[1], a->dtype) : Tensor();
          if (is_complex(a) && c.grads[0].defined()) {
            // What turns the phase: i Im(g conj(sign)).
            const Tensor turn = imag(mul(c.grads[0], conj(c.saved(3))));
            scale = plus(scale, complex(zeros_like(turn), turn));
          }
          if (!scale.defined()) return {{}};
          return {solve_factored(a, c.saved(1), c.saved(2),
                                 mul(unsqueeze(unsqueeze(scale, -1), -1), identity_like(a)), true,
                                 "linalg.slogdet")};
        });
  return {sign, size};
}

Tensor logdet(const Tensor& a) {
  const TensorList s = slogdet(a);
  if (is_complex(a)) return add(log(s[0]), to(s[1], a->dtype));
  return where(eq(s[0], Scalar(-1)), Scalar(std::nan("")), s[1]);
}

// ---- LU as results ------------------------------------------------------------------------------

// Pivots as numbers, of which all are rows: libraries do not look.
std::vector<Scalar> checked_pivots(const Tensor& pivots, int64_t m, const char* op) {
  std::vector<Scalar> values = read_values(pivots);
  for (const Scalar& v : values)
    PF_CHECK(v.to_int() >= 1 && v.to_int() <= m, ValueError, op, "got the pivot ", v.to_int(),
             " for ", m, " rows; expected 1 to ", m, "; pass the pivots of lu_factor");
  return values;
}

// Where rows of A stand in L U: A[order[i]] = (L U)[i], [..., m]. Made on the host.
Tensor order_of(const Tensor& pivots, int64_t m) {
  if (ops::hides({pivots}))
    return ops::over_samples(pivots, [m](const Tensor& all) { return order_of(all, m); });
  const std::vector<Scalar> p = checked_pivots(pivots, m, "lu_unpack");
  const int64_t k = pivots->shape.back();
  Dims shape = pivots->shape;
  shape.back() = 1;
  const int64_t batch = checked_numel(shape, "lu");
  shape.back() = m;
  IntList order(static_cast<size_t>(batch * m));
  for (int64_t b = 0; b < batch; ++b) {
    const auto first = order.begin() + b * m;
    for (int64_t i = 0; i < m; ++i) first[i] = i;
    for (int64_t i = 0; i < k; ++i) {
      std::swap(first[i], first[p[static_cast<size_t>(b * k + i)].to_int() - 1]);
    }
  }
  return from_host(order.data(), shape.vec(), DType::Int64, pivots->device());
}
Tensor permutation_of(const Tensor& pivots, int64_t m, DType dtype) {
  return to(transposed(one_hot(order_of(pivots, m), m)), dtype);
}

// The triangles of packed factors; differentiable.
Tensor lower_of(const Tensor& lu) {
  const int64_t m = rows(lu), k = std::min(m, columns(lu));
  return add(tril(narrow(lu, -1, 0, k), -1),
             to(eye(m, k, real_type(lu->dtype), lu->device()), lu->dtype));
}
Tensor upper_of(const Tensor& lu) {
  return triu(narrow(lu, -2, 0, std::min(rows(lu), columns(lu))));
}

// The gradient of A = P L U by the factors' (each may be undefined).
Tensor lu_gradient(const Tensor& lu, const Tensor& p, const Tensor& gl, const Tensor& gu) {
  const char* op = "linalg.lu";
  const Tensor l = lower_of(lu), u = upper_of(lu);
  const int64_t m = rows(lu), n = columns(lu), k = std::min(m, n);
  const Tensor l1 = narrow(l, -2, 0, k), u1 = narrow(u, -1, 0, k);
  Tensor inner_l, inner_u, below, beside;  // what comes of the square part, and the rest of A
  if (gl.defined()) inner_l = matmul(adjoint(l1), narrow(gl, -2, 0, k));
  if (gu.defined()) inner_u = matmul(narrow(gu, -1, 0, k), adjoint(u1));
  if (m > k && gl.defined()) {
    const Tensor g2 = narrow(gl, -2, k, m - k), l2 = narrow(l, -2, k, m - k);
    below = solve_triangular(adjoint(u1), g2, false, false, false, op);
    inner_u = plus(inner_u, neg(matmul(adjoint(l2), g2)));
  }
  if (n > k && gu.defined()) {
    const Tensor g2 = narrow(gu, -1, k, n - k), u2 = narrow(u, -1, k, n - k);
    beside = solve_triangular(adjoint(l1), g2, true, true, true, op);
    inner_l = plus(inner_l, neg(matmul(g2, adjoint(u2))));
  }
  Tensor inner;
  if (inner_l.defined()) inner = tril(inner_l, -1);
  if (inner_u.defined()) inner = plus(inner, triu(inner_u));
  if (!inner.defined()) return {};
  Tensor g = solve_triangular(adjoint(l1), inner, true, true, true, op);
  g = solve_triangular(adjoint(u1), g, false, false, false, op);
  const Dims batch = batch_of(lu);
  const auto none = [&](int64_t r, int64_t c) {
    return zeros(with(batch, {r, c}).vec(), lu->dtype, lu->device());
  };
  if (m > k) g = cat({g, below.defined() ? below : none(m - k, k)}, -2);
  if (n > k) g = cat({g, beside.defined() ? beside : none(k, n - k)}, -1);
  return matmul(p, g);
}

TensorList lu_factors(const Tensor& a, bool pivot, bool check, const char* op) {
  check_matrix(a, op);
  PF_CHECK(pivot, NotSupportedError, op,
           "got pivot=False; expected True: LAPACK always exchanges rows; leave it out");
  auto f = lu_factor_raw(a, op);
  if (check) check_info(f[2], op, singular);
  if (autograd::wanted({a}))
    autograd::attach(
        op, {f[0]}, {a}, {autograd::Saved(f[0], true), autograd::Saved(f[1])},
        [](const Context& c) -> Grads {
          const Tensor& g = c.grad();
          const Tensor lu = c.saved(0);
          const int64_t k = std::min(rows(lu), columns(lu));
          const Tensor p = permutation_of(c.saved(1), rows(lu), lu->dtype);
          return {lu_gradient(lu, p, tril(narrow(g, -1, 0, k), -1), triu(narrow(g, -2, 0, k)))};
        });
  return f;
}

TensorList lu_factor_ex(const Tensor& a, bool pivot, bool check_errors) {
  return lu_factors(a, pivot, check_errors, "linalg.lu_factor_ex");
}
TensorList lu_factor(const Tensor& a, bool pivot) {
  TensorList f = lu_factors(a, pivot, false, "linalg.lu_factor");
  f.pop_back();
  return f;
}
// torch.lu, with or without info.
TensorList lu_packed(const Tensor& a, bool pivot, bool get_infos) {
  TensorList f = lu_factors(a, pivot, false, "lu");
  if (!get_infos) f.pop_back();
  return f;
}

TensorList lu_unpack(const Tensor& lu, const Tensor& pivots, bool unpack_data, bool unpack_pivots) {
  check_matrix(lu, "lu_unpack", "LU_data");
  PF_CHECK(pivots.defined() && pivots->dtype == DType::Int32 && !pivots->shape.empty() &&
               pivots->shape.back() == std::min(rows(lu), columns(lu)),
           ShapeError, "lu_unpack",
           "got pivots that do not belong to LU_data; expected int32 of shape [..., min(m, n)]; "
           "pass both results of lu_factor");
  const Tensor none = zeros({0}, lu->dtype, lu->device());
  return {unpack_pivots ? permutation_of(pivots, rows(lu), lu->dtype) : none,
          unpack_data ? lower_of(lu) : none, unpack_data ? upper_of(lu) : none};
}

TensorList lu(const Tensor& a, bool pivot) {
  const TensorList f = lu_factors(a, pivot, false, "linalg.lu");
  return {permutation_of(f[1], rows(a), a->dtype), lower_of(f[0]), upper_of(f[0])};
}

Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left,
                bool adjoint_of) {
  const char* op = "linalg.lu_solve";
  check_square(lu, op, "LU");
  check_matrix(b, op, "B");
  check_same_type(lu, b, op);
  PF_CHECK(pivots.defined() && pivots->dtype == DType::Int32, DTypeError, op,
           "got pivots that are not int32; expected those of lu_factor; pass its second result");
  PF_CHECK((left ? rows(b) : columns(b)) == rows(lu) && pivots->shape.size() >= 1 &&
               pivots->shape.back() == rows(lu),
           ShapeError, op, "got LU of shape ", lu->shape, ", pivots of shape ", pivots->shape,
           " and B of shape ", b->shape, "; expected sizes that fit; transpose B or pass left");
  checked_pivots(ops::all_samples(pivots), rows(lu), op);
  if (!left)  // X A = B is A' X' = B' of adjoints
    return adjoint(lu_solve(lu, pivots, adjoint(b), true, !adjoint_of));
  const auto [wide_lu, wide_b] = one_batch(lu, b, op);
  const Tensor wide_pivots = expand(pivots, with(batch_of(wide_lu), {pivots->shape.back()}).vec());
  if (!autograd::wanted({lu, b}))
    return lu_solve_raw(wide_lu, wide_pivots, wide_b, !adjoint_of ? 0 : is_complex(lu) ? 2 : 1, op);
  const Tensor p = permutation_of(wide_pivots, rows(lu), lu->dtype);
  const Tensor l = lower_of(wide_lu), u = upper_of(wide_lu);
  if (!adjoint_of) {
    const Tensor y = solve_triangular(l, matmul(transposed(p), wide_b), false, true, true, op);
    return solve_triangular(u, y, true, true, false, op);
  }
  const Tensor y = solve_triangular(adjoint(u), wide_b, false, true, false, op);
  return matmul(p, solve_triangular(adjoint(l), y, true, true, true, op));
}
Tensor lu_solve_old(const Tensor& b, const Tensor& lu, const Tensor& pivots) {
  PF_AUTOCAST("lu_solve", FollowElseRaise, lu_solve_old, b, lu, pivots);
  return lu_solve(lu, pivots, b, true, false);
}

// ---- with triangular factors --------------------------------------------------------------------

Tensor cholesky(const Tensor& a, bool upper) {
  PF_AUTOCAST("linalg.cholesky", FollowElseRaise, cholesky, a, upper);
  return cholesky_ex(a, upper, true, "linalg.cholesky").first;
}
TensorList cholesky_with_info(const Tensor& a, bool upper, bool check_errors) {
  PF_AUTOCAST("linalg.cholesky_ex", FollowElseRaise, cholesky_with_info, a, upper, check_errors);
  const auto r = cholesky_ex(a, upper, check_errors, "linalg.cholesky_ex");
  return {r.first, r.second};
}

Tensor solve_triangular_public(const Tensor& a, const Tensor& b, bool upper, bool left,
                               bool unitriangular) {
  return solve_triangular(a, b, upper, left, unitriangular, "linalg.solve_triangular");
}

// torch.triangular_solve: the solution, and A once more.
TensorList triangular_solve(const Tensor& b, const Tensor& given, bool upper, bool transpose,
                            bool unitriangular) {
  PF_AUTOCAST("triangular_solve", FollowElseRaise, triangular_solve, b, given, upper, transpose,
              unitriangular);
  check_square(given, "triangular_solve");
  const Tensor a = b.defined() ? ops::beside(given, {b}, "triangular_solve") : given;
  const Tensor x = solve_triangular(transpose ? adjoint(a) : a, b, upper != transpose, true,
                                    unitriangular, "triangular_solve");
  return {x, clone(a)};
}

Tensor cholesky_solve(const Tensor& b, const Tensor& l, bool upper) {
  PF_AUTOCAST("cholesky_solve", FollowElseRaise, cholesky_solve, b, l, upper);
  const char* op = "cholesky_solve";
  check_square(l, op, "L");
  const Tensor first = upper ? adjoint(l) : l;
  const Tensor y = solve_triangular(first, b, false, true, false, op);
  return solve_triangular(adjoint(first), y, true, true, false, op);
}

Tensor cholesky_inverse(const Tensor& l, bool upper) {
  PF_AUTOCAST("cholesky_inverse", FollowElseRaise, cholesky_inverse, l, upper);
  check_square(l, "cholesky_inverse", "L");
  return cholesky_solve(with_batch(identity_like(l), batch_of(l)), l, upper);
}

// ---- L D L' -------------------------------------------------------------------------------------

std::string zero_block(int64_t order) {
  return "whose block " + std::to_string(order) +
         " of D is singular; expected an invertible one; use linalg.eigh";
}

TensorList ldl_with_info(const Tensor& a, bool hermitian, bool check, const char* op) {
  check_square(a, op);
  auto out = run(engine::kernel<kernels::LdlFactor>(), op, {a}, [&](std::vector<Tensor>& in) {
    Tensor ld = by_columns(in[0]);
    Tensor pivots = make_tensor(with(batch_of(a), {columns(a)}), DType::Int32, ld->device());
    Tensor info = make_tensor(batch_of(a), DType::Int32, ld->device());
    if (ld->numel == 0)
      zero_(info);
    else
      engine::call<kernels::LdlFactor>({.a = ld, .pivots = pivots, .info = info},
                                       {.hermitian = int64_t{hermitian && is_complex(a)}},
                                       {.inplace = 1, .op = op, .takes = Takes::Bytes});
    return std::vector<Tensor>{tril(transposed(ld)), pivots, info};
  });
  if (check) check_info(out[2], op, zero_block);
  return out;
}
TensorList ldl_factor_ex(const Tensor& a, bool hermitian, bool check_errors) {
  return ldl_with_info(a, hermitian, check_errors, "linalg.ldl_factor_ex");
}
TensorList ldl_factor(const Tensor& a, bool hermitian) {
  TensorList f = ldl_with_info(a, hermitian, true, "linalg.ldl_factor");
  f.pop_back();
  return f;
}
// A pivot is a row, from 1; two of a block are both negative.
void check_ldl_pivots(const Tensor& pivots, int64_t n, const char* op) {
  const std::vector<Scalar> p = read_values(ops::all_samples(pivots));
  for (size_t first = 0; first < p.size(); first += static_cast<size_t>(n)) {
    int64_t negative = 0;  // of a block that is not closed
    for (int64_t i = 0; i < n; ++i) {
      const int64_t v = p[first + static_cast<size_t>(i)].to_int();
      negative = v < 0 ? (negative + 1) % 2 : negative;
      PF_CHECK(
          v != 0 && v >= -n && v <= n && (v < 0 || negative == 0) && (negative == 0 || i + 1 < n),
          ValueError, op, "got the pivot ", v, " at ", i, " for ", n, " rows; expected 1 to ", n,
          ", or two negative ones of a block; pass the pivots of ldl_factor");
    }
  }
}
Tensor ldl_solve(const Tensor& ld, const Tensor& pivots, const Tensor& b, bool hermitian) {
  const char* op = "linalg.ldl_solve";
  check_square(ld, op, "LD");
  check_matrix(b, op, "B");
  check_same_type(ld, b, op);
  PF_CHECK(rows(b) == rows(ld), ShapeError, op, "got LD of shape ", ld->shape, " and B of shape ",
           b->shape, "; expected as many rows in both; transpose B");
  PF_CHECK(pivots.defined() && pivots->dtype == DType::Int32, DTypeError, op,
           "got pivots that are not int32; expected those of ldl_factor; pass its second result");
  PF_CHECK(!pivots->shape.empty() && pivots->shape.back() == columns(ld), ShapeError, op,
           "got LD of shape ", ld->shape, " and pivots of shape ", pivots->shape,
           "; expected one for each row; pass the second result of ldl_factor");
  check_ldl_pivots(pivots, columns(ld), op);
  const auto [wide, right] = one_batch(ld, b, op);
  const Tensor wide_pivots = expand(pivots, with(batch_of(wide), {columns(ld)}).vec());
  return run(engine::kernel<kernels::LdlSolve>(), op, {wide, wide_pivots, right},
             [&](std::vector<Tensor>& in) {
               Tensor x = by_columns(in[2]);
               if (x->numel > 0)
                 engine::call<kernels::LdlSolve>(
                     {.b = x, .ld = transposed(in[0].detach()), .pivots = in[1]},
                     {.hermitian = int64_t{hermitian && is_complex(ld)}},
                     {.inplace = 1, .op = op, .takes = Takes::Bytes});
               return std::vector<Tensor>{transposed(x)};
             })[0];
}

const ops::Family kFactor("linear algebra", [](ops::Family& f) {
  using namespace ops;
  const auto row = [](const char* schema, const char* doc, unsigned where = kSpecial,
                      bool differentiable = true) {
    return Row{schema, doc, where, differentiable};
  };
  constexpr unsigned kBoth = kFunction | kMethod;
  const char* kCholesky =
      "The triangular L of A = L L^H for symmetric (Hermitian) positive-definite A [..., n, n]; "
      "upper=True: U of U^H U, from A's upper triangle. LinAlgError if A is not positive definite.";
  f.op(&cholesky, row("linalg_cholesky(Tensor A, *, bool upper=False) -> Tensor", kCholesky));
  f.op(&cholesky, row("cholesky(Tensor input, bool upper=False) -> Tensor", kCholesky, kBoth));
  f.op(&cholesky_with_info,
       row("linalg_cholesky_ex(Tensor A, *, bool upper=False, bool check_errors=False) -> (Tensor "
           "L, Tensor info)",
           "cholesky without waiting for errors: info (int32) is 0, or the order of the leading "
           "minor that is not positive."));
  f.op(&cholesky_solve,
       row("cholesky_solve(Tensor input, Tensor L|input2, bool upper=False) -> Tensor",
           "X of A X = input, where L is the Cholesky factor of A.", kBoth));
  f.op(&cholesky_inverse, row("cholesky_inverse(Tensor L|input, bool upper=False) -> Tensor",
                              "A^-1, where L is the Cholesky factor of A.", kBoth));
  const char* kInv = "The inverse of square matrices [..., n, n]. LinAlgError for a singular one.";
  f.op(&inv, row("linalg_inv(Tensor A) -> Tensor", kInv));
  f.op(&inv, row("inverse(Tensor input) -> Tensor", kInv, kBoth));
  f.op(&inv_ex,
       row("linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor "
           "info)",
           "inv without waiting for errors: info (int32) is above 0 for singular ones."));
  f.op(&solve, row("linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
                   "X of A X = B (left=False: X A = B), A [..., n, n], B [..., n, k] or vectors "
                   "[..., n]. LinAlgError for a singular A."));
  f.op(&solve_ex, row("linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool "
                      "check_errors=False) -> (Tensor result, Tensor info)",
                      "solve without waiting for errors: info (int32) is above 0 for a singular "
                      "A."));
  f.op(&solve_triangular_public,
       row("linalg_solve_triangular(Tensor input, Tensor B, *, bool upper, bool left=True, bool "
           "unitriangular=False) -> Tensor",
           "X of A X = B for a triangular A [..., n, n], whose other triangle is not read; "
           "unitriangular: its diagonal neither, and counts as 1."));
  f.op(&triangular_solve,
       row("triangular_solve(Tensor input, Tensor A, bool upper=True, bool transpose=False, bool "
           "unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
           "The older form of linalg.solve_triangular.", kBoth));
  const char* kDet = "Determinants of square matrices [..., n, n].";
  f.op(&det, row("linalg_det(Tensor A) -> Tensor", kDet));
  f.op(&det, row("det(Tensor input) -> Tensor", kDet, kBoth));
  const char* kSlogdet =
      "Sign (of complex matrices: phase) and logarithm of the magnitude of determinants.";
  f.op(&slogdet, row("linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", kSlogdet));
  f.op(&slogdet, row("slogdet(Tensor input) -> (Tensor sign, Tensor logabsdet)", kSlogdet, kBoth));
  f.op(&logdet, row("logdet(Tensor input) -> Tensor",
                    "Logarithm of determinants; NaN where one is negative.", kBoth));
  f.op(&lu_factor,
       row("linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
           "L (without its diagonal of ones) and U of A = P L U in one matrix, and the "
           "rows that were exchanged (int32, from 1)."));
  f.op(&lu_factor_ex,
       row("linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor "
           "LU, Tensor pivots, Tensor info)",
           "lu_factor with info (int32): above 0 where U has a 0 on its diagonal."));
  f.op(&lu_packed, row("lu(Tensor input, bool pivot=True, bool get_infos=False) -> Tensor[]",
                       "linalg.lu_factor, with get_infos linalg.lu_factor_ex.", kBoth));
  f.op(&lu, row("linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
                "A = P L U: a permutation, a lower triangle with ones on its diagonal, an upper "
                "one."));
  f.op(&lu_solve, row("linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool "
                      "adjoint=False) -> Tensor",
                      "X of A X = B by the results of lu_factor; adjoint: of A^H X = B."));
  f.op(&lu_solve_old, row("lu_solve(Tensor input, Tensor LU_data, Tensor LU_pivots) -> Tensor",
                          "X of A X = input by the results of lu.", kBoth));
  f.op(&lu_unpack, row("lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool "
                       "unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)",
                       "P, L and U by the results of lu_factor.", kFunction));
  f.op(&ldl_factor,
       row("linalg_ldl_factor(Tensor A, *, bool hermitian=False) -> (Tensor LD, Tensor "
           "pivots)",
           "L and D of A = L D L^T (hermitian: L D L^H) for symmetric A, packed as "
           "LAPACK does; of A's lower triangle.",
           kSpecial, false));
  f.op(&ldl_factor_ex,
       row("linalg_ldl_factor_ex(Tensor A, *, bool hermitian=False, bool check_errors=False) -> "
           "(Tensor LD, Tensor pivots, Tensor info)",
           "ldl_factor with info (int32): above 0 where a block of D is singular.", kSpecial,
           false));
  f.op(&ldl_solve, row("linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool "
                       "hermitian=False) -> Tensor",
                       "X of A X = B by the results of ldl_factor.", kSpecial, false));
});

}  // namespace
}  // namespace linalg
}  // namespace pyflame
