// What is composed of decompositions: pseudoinverses, ranks, condition numbers, exponentials.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/autograd.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "ops/rows.h"

namespace pyflame {
namespace linalg {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;
using std::optional;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// What singular values are compared with: the larger of atol and rtol times the largest.
struct Tolerance {
  Tensor atol, rtol;  // without dimensions, or of the batch; may be undefined
};
Tensor limit_of(const Tolerance& t, const Tensor& largest, const Tensor& a) {
  const double eps = real_type(a->dtype) == DType::Float64 ? 0x1p-52 : 0x1p-23;
  const double usual = eps * static_cast<double>(std::max(rows(a), columns(a)));
  Tensor limit;
  if (t.rtol.defined()) {
    limit = mul(largest, to(t.rtol, largest->dtype));
  } else {
    // Without rtol it is the usual one, and 0 where an atol above 0 says enough.
    limit = mul(largest, Scalar(usual));
    if (t.atol.defined()) limit = where(gt(t.atol, Scalar(0.0)), Scalar(0.0), limit);
  }
  return t.atol.defined() ? maximum(limit, to(t.atol, largest->dtype)) : limit;
}
Tolerance of_numbers(optional<double> atol, optional<double> rtol) {
  Tolerance t;
  if (atol) t.atol = scalar_tensor(Scalar(*atol), DType::Float64);
  if (rtol) t.rtol = scalar_tensor(Scalar(*rtol), DType::Float64);
  return t;
}

Tensor largest_of(const Tensor& s) {
  if (s->shape.back() > 0) return amax(s, IntList{-1}, true);
  Dims shape = s->shape;
  shape.back() = 1;
  return zeros(shape.vec(), s->dtype, s->device());
}
Tolerance with_last(const Tolerance& t) {
  const auto wide = [](const Tensor& x) {
    return x.defined() && !x->shape.empty() ? unsqueeze(x, -1) : x;
  };
  return {wide(t.atol), wide(t.rtol)};
}

// Singular values, or magnitudes of a symmetric matrix's eigenvalues.
Tensor spectrum(const Tensor& a, bool hermitian, const char* op) {
  return hermitian ? abs(eigvalsh(a, false, op)) : svdvals(a, op);
}

Tensor pinv_of(const Tensor& a, const Tolerance& tolerance, bool hermitian, const char* op) {
  if (hermitian)
    check_square(a, op);
  else
    check_matrix(a, op);
  Tensor p;
  if (a->numel == 0) {
    const Dims shape = with(batch_of(a), {columns(a), rows(a)});
    p = zeros(shape.vec(), a->dtype, a->device());
  } else {
    NoGrad off;
    const Tensor x = a.detach();
    Tensor u, s, h;
    if (hermitian) {
      const auto f = eigh(x, false, op);
      u = f.second;
      s = f.first;
      h = adjoint(u);
    } else {
      const auto f = svd(x, false, op);
      u = f[0];
      s = f[1];
      h = f[2];
    }
    const Tensor size = abs(s);
    const Tensor keep = gt(size, limit_of(with_last(tolerance), largest_of(size), a));
    const Tensor inverse = where(keep, reciprocal(where(keep, s, Scalar(1.0))), Scalar(0.0));
    p = matmul(times_column(adjoint(h), to(inverse, a->dtype)), adjoint(u));
  }
  if (autograd::wanted({a}))
    autograd::attach(op, {p}, {a}, {Saved(a), Saved(p, true)}, [](const Context& c) -> Grads {
      const Tensor& g = c.grad();
      const Tensor a = c.saved(0), p = c.saved(1), ph = adjoint(p), gh = adjoint(g);
      Tensor ga = neg(matmul(matmul(ph, g), ph));
      const Tensor x = matmul(matmul(gh, p), ph), y = matmul(matmul(ph, p), gh);
      ga = add(ga, sub(x, matmul(a, matmul(p, x))));
      // Tolerances may have had a batch of their own.
      return {ops::sum_to(add(ga, sub(y, matmul(matmul(y, p), a))), a->shape)};
    });
  return p;
}

}  // namespace

Tensor pseudoinverse(const Tensor& a) {
  return pinv_of(a, {}, false, "linalg.pinv");
}

namespace {

Tensor pinv(const Tensor& a, optional<double> atol, optional<double> rtol, bool hermitian) {
  return pinv_of(a, of_numbers(atol, rtol), hermitian, "linalg.pinv");
}
Tensor pinv_tensors(const Tensor& a, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  return pinv_of(a, {atol, rtol}, hermitian, "linalg.pinv");
}
Tensor pinv_old(const Tensor& a, double rcond, bool hermitian) {
  return pinv_of(a, of_numbers({}, rcond), hermitian, "linalg.pinv");
}
Tensor pinv_old_tensor(const Tensor& a, const Tensor& rcond, bool hermitian) {
  return pinv_of(a, {{}, rcond}, hermitian, "linalg.pinv");
}
Tensor pinverse(const Tensor& a, double rcond) {
  PF_AUTOCAST("pinverse", FollowElseRaise, pinverse, a, rcond);
  return pinv_of(a, of_numbers({}, rcond), false, "pinverse");
}

Tensor rank_of(const Tensor& a, const Tolerance& tolerance, bool hermitian) {
  PF_AUTOCAST("linalg.matrix_rank", FollowElseRaise, rank_of, a, tolerance, hermitian);
  const char* op = "linalg.matrix_rank";
  NoGrad off;
  if (hermitian)
    check_square(a, op);
  else
    check_matrix(a, op);
  const Tensor s = spectrum(a.detach(), hermitian, op);
  const Tensor limit = limit_of(with_last(tolerance), largest_of(s), a);
  return sum(to(gt(s, limit), DType::Int64), IntList{-1});
}
Tensor matrix_rank(const Tensor& a, optional<double> atol, optional<double> rtol, bool hermitian) {
  return rank_of(a, of_numbers(atol, rtol), hermitian);
}
Tensor matrix_rank_tensors(const Tensor& a, const Tensor& atol, const Tensor& rtol,
                           bool hermitian) {
  return rank_of(a, {atol, rtol}, hermitian);
}
Tensor matrix_rank_old(const Tensor& a, double tol, bool hermitian) {
  return rank_of(a, of_numbers(tol, 0.0), hermitian);
}
Tensor matrix_rank_old_tensor(const Tensor& a, const Tensor& tol, bool hermitian) {
  return rank_of(a, {tol, zeros_like(tol)}, hermitian);
}

Tensor condition(const Tensor& a, optional<double> p) {
  PF_AUTOCAST("linalg.cond", FollowElseRaise, condition, a, p);
  const char* op = "linalg.cond";
  if (!p || std::abs(*p) == 2) {
    check_matrix(a, op);
    const Tensor s = svdvals(a, op);
    const int64_t k = s->shape.back();
    if (k == 0) {
      const Dims shape = batch_of(a);
      return zeros(shape.vec(), s->dtype, s->device());
    }
    const Tensor first = select(s, -1, 0), last = select(s, -1, k - 1);
    return p && *p < 0 ? div(last, first) : div(first, last);
  }
  check_square(a, op);
  const auto f = inverse_ex(a, op);
  const Tensor both = mul(matrix_norm_of(a, *p), matrix_norm_of(f.first, *p));
  return where(gt(f.second, Scalar(0)), Scalar(kInf), both);
}
Tensor condition_named(const Tensor& a, std::string p) {
  PF_AUTOCAST("linalg.cond", FollowElseRaise, condition_named, a, p);
  const char* op = "linalg.cond";
  check_square(a, op);
  const auto f = inverse_ex(a, op);
  const Tensor singular = gt(f.second, Scalar(0));
  const Tensor safe = where(unsqueeze(unsqueeze(singular, -1), -1), zeros_like(f.first), f.first);
  const Tensor both = mul(matrix_norm_named(a, p), matrix_norm_named(safe, p));
  return where(singular, Scalar(kInf), both);
}

// ---- exponentials -------------------------------------------------------------------------------

// By a quotient of polynomials of order 13 of A / 2^s, squared s times (Higham 2005). Each matrix
// has its own s; those that have fewer squarings than the last are left as they are.
Tensor exponential_of(const Tensor& a) {
  static constexpr double kB[] = {64764752532480000.,
                                  32382376266240000.,
                                  7771770303897600.,
                                  1187353796428800.,
                                  129060195264000.,
                                  10559470521600.,
                                  670442572800.,
                                  33522128640.,
                                  1323241920.,
                                  40840800.,
                                  960960.,
                                  16380.,
                                  182.,
                                  1.};
  const bool narrow_type = real_type(a->dtype) == DType::Float32;
  const double theta = narrow_type ? 3.0 : 5.371920351148152;
  const Tensor size = amax(sum(abs(a), IntList{-2}), IntList{-1});
  // ceil(log2(|A| / theta)), at least 0. What is not finite is not squared: it is NaN already.
  Tensor times = clamp(ceil(log2(div(size, Scalar(theta)))), Scalar(0.0), Scalar(1100.0));
  times = where(isfinite(times), times, Scalar(0.0));
  const int64_t most = times->numel ? amax(ops::all_samples(times)).item().to_int() : 0;
  const auto over = [](const Tensor& t) { return unsqueeze(unsqueeze(t, -1), -1); };
  const Tensor x = mul(a, over(exp2(neg(times))));
  const Tensor one = identity_like(a);
  const auto c = [](int i) { return Scalar(kB[i]); };
  const Tensor x2 = matmul(x, x), x4 = matmul(x2, x2), x6 = matmul(x4, x2);
  const auto three = [&](int i, int j, int k) {
    return add(add(mul(x6, c(i)), mul(x4, c(j))), mul(x2, c(k)));
  };
  const Tensor odd =
      matmul(x, add(matmul(x6, three(13, 11, 9)), add(three(7, 5, 3), mul(one, c(1)))));
  const Tensor even = add(matmul(x6, three(12, 10, 8)), add(three(6, 4, 2), mul(one, c(0))));
  // NaN has no pivots to speak of: the system is solved without asking.
  Tensor r = solve_unchecked(sub(even, odd), add(even, odd), "matrix_exp");
  for (int64_t i = 0; i < most; ++i) {
    const Tensor again = gt(times, Scalar(static_cast<double>(i)));
    r = where(over(again), matmul(r, r), r);
  }
  return r;
}

Tensor matrix_exp(const Tensor& a) {
  const char* op = "matrix_exp";
  if (a.defined() && ops::is_narrow(a)) return to(matrix_exp(ops::widened(a)), a->dtype);
  check_square(a, op);
  if (a->numel == 0) return clone(a);
  Tensor y;
  {
    NoGrad off;
    y = exponential_of(a.detach());
  }
  if (autograd::wanted({a}))
    autograd::attach(op, {y}, {a}, {Saved(a)}, [](const Context& c) -> Grads {
      // exp([A' G; 0 A']) has the gradient above its diagonal.
      const Tensor h = adjoint(c.saved(0));
      const int64_t n = rows(h);
      const Tensor upper = cat({h, c.grad()}, -1), lower = cat({zeros_like(h), h}, -1);
      const Tensor e = matrix_exp(cat({upper, lower}, -2));
      return {narrow(narrow(e, -2, 0, n), -1, n, n)};
    });
  return y;
}

// ---- tensors seen as matrices -------------------------------------------------------------------

int64_t size_of(const Dims& shape, int from, int to) {
  int64_t n = 1;
  for (int d = from; d < to; ++d) n *= shape[d];
  return n;
}

Tensor tensorinv(const Tensor& a, int64_t ind) {
  const char* op = "linalg.tensorinv";
  ops::check_defined(a, op);
  const int n = a->shape.size();
  PF_CHECK(ind > 0, ValueError, op, "got ind ", ind,
           "; expected at least 1; name how many "
           "dimensions the result's last ones are");
  const int k = static_cast<int>(std::min<int64_t>(ind, n));
  const int64_t first = size_of(a->shape, 0, k), second = size_of(a->shape, k, n);
  PF_CHECK(first == second, ShapeError, op, "got shape ", a->shape, " and ind ", ind,
           "; expected as many elements in the first ", ind,
           " dimensions as in the others: ", first, " and ", second, "; pass another ind");
  IntList shape;
  for (int d = k; d < n; ++d) shape.push_back(a->shape[d]);
  for (int d = 0; d < k; ++d) shape.push_back(a->shape[d]);
  return reshape(inverse(reshape(a, {first, second}), op), shape);
}

Tensor tensorsolve(const Tensor& a, const Tensor& b, const optional<IntList>& dims) {
  const char* op = "linalg.tensorsolve";
  ops::check_defined(a, op);
  ops::check_defined(b, op);
  const int n = a->shape.size();
  Tensor moved = a;
  if (dims) {  // these go to the end
    IntList order, last;
    for (int64_t d : *dims) last.push_back(wrap_dim(d, n, op));
    for (int d = 0; d < n; ++d)
      if (std::find(last.begin(), last.end(), d) == last.end()) order.push_back(d);
    order.insert(order.end(), last.begin(), last.end());
    moved = permute(a, order);
  }
  const int k = b->shape.size();
  PF_CHECK(k <= n, ShapeError, op, "got A of shape ", a->shape, " and B of shape ", b->shape,
           "; expected no more dimensions of B than of A; exchange them");
  const int64_t other = size_of(moved->shape, k, n);
  PF_CHECK(
      other == b->numel && size_of(moved->shape, 0, k) == b->numel, ShapeError, op,
      "got A of shape ", moved->shape, " and B of shape ", b->shape,
      "; expected as many elements in A's first dimensions, in the others and in B; pass dims");
  IntList shape;
  for (int d = k; d < n; ++d) shape.push_back(moved->shape[d]);
  const Tensor x = solve_system(reshape(moved, {b->numel, other}), reshape(b, {b->numel, 1}), op);
  return reshape(x, shape);
}

// Powers from 0 as the last dimension; of a batch.
Tensor vander(const Tensor& x, optional<int64_t> columns_wanted) {
  const char* op = "linalg.vander";
  ops::check_defined(x, op);
  if (x->shape.empty()) return vander(unsqueeze(x, 0), columns_wanted);
  const int64_t n = columns_wanted.value_or(x->shape.back());
  PF_CHECK(n >= 2, ValueError, op, "got N ", n, "; expected at least 2; correct it");
  const Tensor t = is_integral(x->dtype, true) ? to(x, DType::Int64) : x;
  Dims shape = t->shape;
  shape.push_back(n);
  checked_numel(shape, op);
  if (t->numel == 0) return clone(expand(unsqueeze(t, -1), shape.vec()));
  // Before so many powers are made: whether there is memory for the result.
  if (n > 1024) ops::raw_full(shape, t->dtype, t->storage->device, 0);
  TensorList powers{ones_like(t)};
  for (int64_t i = 1; i < n; ++i) powers.push_back(mul(powers.back(), t));
  return stack(powers, -1);
}

const ops::Family kComposed("linear algebra", [](ops::Family& f) {
  using namespace ops;
  const auto row = [](const char* schema, const char* doc, unsigned where = kSpecial,
                      bool differentiable = true) {
    return Row{schema, doc, where, differentiable};
  };
  constexpr unsigned kBoth = kFunction | kMethod;
  const char* kPinv =
      "The pseudoinverse [..., n, m]; singular values up to max(atol, rtol * the largest) count as "
      "0. hermitian: by eigenvalues.";
  f.op(&pinv, row("linalg_pinv(Tensor A, *, float? atol=None, float? rtol=None, bool "
                  "hermitian=False) -> Tensor",
                  kPinv));
  f.op(&pinv_tensors, row("linalg_pinv(Tensor A, *, Tensor? atol=None, Tensor? rtol=None, bool "
                          "hermitian=False) -> Tensor",
                          kPinv));
  f.op(&pinv_old, row("linalg_pinv(Tensor A, float rcond, bool hermitian=False) -> Tensor", kPinv));
  f.op(&pinv_old_tensor,
       row("linalg_pinv(Tensor A, Tensor rcond, bool hermitian=False) -> Tensor", kPinv));
  f.op(&pinverse, row("pinverse(Tensor input, float rcond=1e-15) -> Tensor",
                      "The older form of linalg.pinv.", kBoth));
  const char* kRank =
      "How many singular values are above max(atol, rtol * the largest); int64. hermitian: of "
      "eigenvalues.";
  f.op(&matrix_rank, row("linalg_matrix_rank(Tensor A, *, float? atol=None, float? rtol=None, bool "
                         "hermitian=False) -> Tensor",
                         kRank, kSpecial, false));
  f.op(&matrix_rank_tensors, row("linalg_matrix_rank(Tensor A, *, Tensor? atol=None, Tensor? "
                                 "rtol=None, bool hermitian=False) -> Tensor",
                                 kRank, kSpecial, false));
  f.op(&matrix_rank_old, row("linalg_matrix_rank(Tensor A, float tol, bool hermitian=False) -> "
                             "Tensor",
                             kRank, kSpecial, false));
  f.op(&matrix_rank_old_tensor,
       row("linalg_matrix_rank(Tensor A, Tensor tol, bool hermitian=False) -> Tensor", kRank,
           kSpecial, false));
  const char* kCond =
      "How far a system can carry errors: of p None, 2 and -2 the quotient of the extreme singular "
      "values, else norm(A, p) * norm(inv(A), p), infinite for a singular A.";
  f.op(&condition, row("linalg_cond(Tensor A, float? p=None) -> Tensor", kCond));
  f.op(&condition_named, row("linalg_cond(Tensor A, str p) -> Tensor", kCond));
  const char* kExp = "The matrix exponential sum A^k / k! of square matrices [..., n, n].";
  f.op(&matrix_exp, row("linalg_matrix_exp(Tensor A) -> Tensor", kExp));
  f.op(&matrix_exp, row("matrix_exp(Tensor input) -> Tensor", kExp, kBoth));
  f.op(&tensorinv, row("linalg_tensorinv(Tensor A, int ind=2) -> Tensor",
                       "The inverse for tensordot over the first `ind` dimensions."));
  f.op(&tensorsolve, row("linalg_tensorsolve(Tensor A, Tensor B|other, int[]? dims=None) -> Tensor",
                         "X of tensordot(A, X, X.ndim) = B; dims of A go to its end first."));
  f.op(&vander, row("linalg_vander(Tensor x, *, int? N=None) -> Tensor",
                    "Powers of x from 0 on as a new last dimension of size N."));
});

}  // namespace
}  // namespace linalg
}  // namespace pyflame
