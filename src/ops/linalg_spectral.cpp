// QR, singular values, eigenvalues, least squares.
#include <cmath>

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
using autograd::Saved;
using engine::Takes;
using std::optional;

namespace {

Tensor diag_of(const Tensor& t) {
  return diagonal(t, 0, -2, -1);
}
Tensor without_diagonal(const Tensor& x) {
  return sub(x, diag_embed(diag_of(x)));
}
Tensor skew(const Tensor& x) {
  return sub(x, adjoint(x));
}
// s[j] - s[i] at [i, j], and `on_diagonal` on the diagonal.
Tensor differences(const Tensor& s, double on_diagonal) {
  const Tensor d = sub(unsqueeze(s, -2), unsqueeze(s, -1));
  return add(d, mul(identity_like(d), Scalar(on_diagonal)));
}
Tensor real_part(const Tensor& t) {
  return is_complex(t) ? real(t) : t;
}
Tensor in_type(const Tensor& t, const Tensor& like) {
  return to(t, like->dtype);
}
Dims batched(const Tensor& t, std::initializer_list<int64_t> more) {
  return with(batch_of(t), more);
}

// ---- QR -----------------------------------------------------------------------------------------

// Vectors and factors by LAPACK: the matrix by columns, tau.
TensorList geqrf_raw(const Tensor& a, const char* op) {
  check_matrix(a, op);
  return run_each(engine::kernel<kernels::Geqrf>(), op, {a}, [&](std::vector<Tensor>& in) {
    Tensor v = by_columns(in[0]);
    Tensor tau = make_tensor(batched(a, {std::min(rows(a), columns(a))}), a->dtype, v->device());
    if (v->numel > 0)
      engine::call<kernels::Geqrf>({.a = v, .tau = tau}, {},
                                   {.inplace = 1, .op = op, .takes = Takes::Bytes});
    return TensorList{transposed(v), tau};
  });
}

// The first `count` columns of the product of the reflections.
Tensor q_raw(const Tensor& v, const Tensor& tau, int64_t count, const char* op) {
  return run_each(engine::kernel<kernels::Orgqr>(), op, {v, tau}, [&](std::vector<Tensor>& in) {
    Tensor q = transposed(in[0].detach());  // [..., columns, m]
    if (count > columns(v)) {
      Tensor wide = zeros(with(batch_of(v), {count, rows(v)}).vec(), v->dtype, q->device());
      Tensor part = narrow(wide, -2, 0, columns(v));
      copy_(part, q);
      q = wide;
    } else {
      q = ops::raw_clone(narrow(q, -2, 0, count));
    }
    if (q->numel > 0) {
      if (in[1]->numel == 0) {  // no reflections: the first columns of the identity
        const Tensor one = to(eye(count, rows(v), real_type(v->dtype), q->device()), v->dtype);
        copy_(q, one);
      } else {
        engine::call<kernels::Orgqr>({.a = q, .tau = in[1]}, {},
                                     {.inplace = 1, .op = op, .takes = Takes::Bytes});
      }
    }
    return TensorList{transposed(q)};
  })[0];
}

Tensor qr_gradient(const Tensor& q, const Tensor& r, const Tensor& gq, const Tensor& gr) {
  const int64_t m = rows(q), k = columns(q), n = columns(r);
  // A = [A1 A2]: Q and R1 are A1's, R2 = Q' A2.
  const Tensor r1 = n > k ? narrow(r, -1, 0, k) : r;
  Tensor hq = gq, hr = gr, beside;
  if (n > k && gr.defined()) {
    const Tensor g2 = narrow(gr, -1, k, n - k), r2 = narrow(r, -1, k, n - k);
    beside = matmul(q, g2);
    hq = plus(hq, matmul(q, matmul(r2, adjoint(g2))));
    hr = narrow(gr, -1, 0, k);
  }
  Tensor inner;  // R gR' - gQ' Q
  if (hr.defined()) inner = matmul(r1, adjoint(hr));
  if (hq.defined()) inner = plus(inner, neg(matmul(adjoint(hq), q)));
  if (!inner.defined()) return {};
  // Its lower triangle, copied to the other one; the diagonal of R is real.
  const Tensor low = tril(inner, -1);
  const Tensor copied =
      add(add(low, adjoint(low)), diag_embed(in_type(real_part(diag_of(inner)), inner)));
  Tensor g = plus(hq, matmul(q, copied));
  g = solve_triangular(adjoint(r1), g, false, false, false, "linalg.qr");
  if (n <= k) return g;
  if (!beside.defined()) {
    const Dims shape = with(batch_of(q), {m, n - k});
    beside = zeros(shape.vec(), q->dtype, q->device());
  }
  return cat({g, beside}, -1);
}

TensorList qr(const Tensor& a, std::string mode) {
  PF_AUTOCAST("linalg.qr", FollowElseRaise, qr, a, mode);
  const char* op = "linalg.qr";
  PF_CHECK(mode == "reduced" || mode == "complete" || mode == "r", ValueError, op, "got mode '",
           mode, "'; expected 'reduced', 'complete' or 'r'; pass one of these");
  const TensorList f = geqrf_raw(a, op);
  const int64_t m = rows(a), n = columns(a), k = std::min(m, n);
  const bool complete = mode == "complete";
  Tensor q, r;
  {
    NoGrad off;
    r = triu(narrow(f[0], -2, 0, k));
    if (complete && m > k) {
      const Dims shape = batched(a, {m - k, n});
      r = cat({r, zeros(shape.vec(), a->dtype, r->device())}, -2);
    }
    q = mode == "r" ? zeros({0}, a->dtype, r->device())
                    : q_raw(narrow(f[0], -1, 0, k), f[1], complete ? m : k, op);
  }
  if (autograd::wanted({a}))
    autograd::attach(op, {q, r}, {a}, {Saved(q, true, 0), Saved(r, true, 1)},
                     [mode, m, k](const Context& c) -> Grads {
                       PF_CHECK(mode != "r" && (mode != "complete" || m == k), AutogradError,
                                "linalg.qr", "got mode '", mode,
                                "', whose gradient is not determined; expected 'reduced'; pass "
                                "that");
                       return {qr_gradient(c.saved(0), c.saved(1), c.grads[0], c.grads[1])};
                     });
  return {q, r};
}
TensorList qr_old(const Tensor& a, bool some) {
  return qr(a, some ? "reduced" : "complete");
}

TensorList geqrf(const Tensor& a) {
  PF_AUTOCAST("geqrf", FollowElseRaise, geqrf, a);
  return geqrf_raw(a, "geqrf");
}

// The reflections one after the other, in operations: where gradients are wanted.
Tensor reflections_of(const Tensor& v, const Tensor& tau, Tensor x, bool transpose) {
  const int64_t k = tau->shape.back(), m = rows(v);
  for (int64_t s = 0; s < k; ++s) {
    const int64_t i = transpose ? s : k - 1 - s;
    Tensor h = tril(narrow(v, -1, i, 1), -i - 1);
    const Tensor unit =
        to(narrow(eye(m, {}, real_type(v->dtype), v->device()), -1, i, 1), v->dtype);
    h = add(h, unit);
    Tensor t = unsqueeze(narrow(tau, -1, i, 1), -1);
    if (transpose) t = conj(t);
    x = sub(x, mul(t, matmul(h, matmul(adjoint(h), x))));
  }
  return x;
}

void check_reflections(const Tensor& v, const Tensor& tau, const char* op) {
  check_matrix(v, op);
  PF_CHECK(tau.defined() && tau->dtype == v->dtype, DTypeError, op,
           "got tau of another dtype than the matrix; expected the same; pass those of geqrf");
  Dims shape = batch_of(v);
  shape.push_back(tau->shape.empty() ? -1 : tau->shape.back());
  PF_CHECK(tau->shape == shape && tau->shape.back() <= columns(v), ShapeError, op,
           "got a matrix of shape ", v->shape, " and tau of shape ", tau->shape,
           "; expected tau of shape [..., k] with k at most ", columns(v), "; pass those of geqrf");
}

Tensor householder_product(const Tensor& v, const Tensor& tau) {
  PF_AUTOCAST("linalg.householder_product", FollowElseRaise, householder_product, v, tau);
  const char* op = "linalg.householder_product";
  check_reflections(v, tau, op);
  PF_CHECK(rows(v) >= columns(v), ShapeError, op, "got shape ", v->shape,
           "; expected at least as many rows as columns; narrow it");
  if (!autograd::wanted({v, tau})) return q_raw(v, tau, columns(v), op);
  const Tensor one = to(eye(rows(v), columns(v), real_type(v->dtype), v->device()), v->dtype);
  const Tensor q = with_batch(one, batch_of(v));
  if (tau->shape.back() > 0) return reflections_of(v, tau, q, false);
  Tensor all = contiguous(q);  // of no reflections: has a gradient, of zeros
  autograd::attach(op, {all}, {v, tau}, {Saved(v), Saved(tau)}, [](const Context& c) -> Grads {
    return {zeros_like(c.saved(0)), zeros_like(c.saved(1))};
  });
  return all;
}

Tensor ormqr(const Tensor& v, const Tensor& tau, const Tensor& other, bool left, bool transpose) {
  PF_AUTOCAST("ormqr", FollowElseRaise, ormqr, v, tau, other, left, transpose);
  const char* op = "ormqr";
  check_reflections(v, tau, op);
  check_matrix(other, op, "other");
  check_same_type(v, other, op);
  PF_CHECK(batch_of(other) == batch_of(v) && (left ? rows(other) : columns(other)) == rows(v),
           ShapeError, op, "got reflections of shape ", v->shape, " and other of shape ",
           other->shape, "; expected sizes that fit; transpose other or pass left");
  PF_CHECK(tau->shape.back() <= rows(v), ShapeError, op, "got ", tau->shape.back(),
           " reflections of ", rows(v), " rows; expected no more of them; narrow tau");
  if (autograd::wanted({v, tau, other})) {
    if (left) return reflections_of(v, tau, other, transpose);
    return adjoint(reflections_of(v, tau, adjoint(other), !transpose));
  }
  return run_each(
      engine::kernel<kernels::Ormqr>(), op, {v, tau, other}, [&](std::vector<Tensor>& in) {
        Tensor c = by_columns(in[2]);
        if (c->numel > 0 && tau->numel > 0)
          engine::call<kernels::Ormqr>({.c = c, .a = transposed(in[0].detach()), .tau = in[1]},
                                       {.left = int64_t{left}, .transpose = int64_t{transpose}},
                                       {.inplace = 1, .op = op, .takes = Takes::Bytes});
        return TensorList{transposed(c)};
      })[0];
}

// ---- singular values ----------------------------------------------------------------------------

std::string no_convergence(int64_t) {
  return "for which the iteration did not converge; expected one that it does for; scale it, or "
         "use "
         "float64";
}

// What GPUs do for many matrices at once: of rectangular ones all columns.
bool tiny(const Tensor& a, bool all) {
  constexpr int64_t kTiny = 32;
  return rows(a) <= kTiny && columns(a) <= kTiny && (all || rows(a) == columns(a));
}

// u, s, vh (of values alone: s) of any matrix, without gradients.
TensorList svd_raw(const Tensor& a, bool vectors, bool full, const char* op) {
  check_matrix(a, op);
  if (rows(a) < columns(a)) {  // the adjoint's: A' = V S U'
    NoGrad off;
    TensorList f = svd_raw(adjoint(a.detach()), vectors, full, op);
    if (!vectors) return f;
    return {adjoint(f[2]), f[1], adjoint(f[0])};
  }
  const int64_t m = rows(a), n = columns(a);
  const auto out = (tiny(a, full || !vectors) ? run : run_each)(
      engine::kernel<kernels::Svd>(), op, {a}, [&](std::vector<Tensor>& in) {
        const Dims batch = batch_of(a);
        Tensor x = by_columns(in[0]);
        const Device d = x->device();
        Tensor s = make_tensor(with(batch, {n}), real_type(a->dtype), d);
        Tensor info = make_tensor(batch, DType::Int32, d), u, vh;
        if (vectors) {
          u = make_tensor(with(batch, {full ? m : n, m}), a->dtype, d);
          vh = make_tensor(with(batch, {n, n}), a->dtype, d);
        }
        if (x->numel > 0)
          engine::call<kernels::Svd>({.s = s, .info = info, .a = x, .u = u, .vh = vh},
                                     {.full = int64_t{full}},
                                     {.inplace = 4, .op = op, .takes = Takes::Bytes});
        else {
          zero_(info);
          if (u.defined() && u->numel > 0)  // no columns at all: any basis
            copy_(u, to(eye(m, {}, real_type(a->dtype), d), a->dtype));
        }
        if (!vectors) return TensorList{s, info};
        return TensorList{transposed(u), s, transposed(vh), info};
      });
  check_info(out.back(), op, no_convergence);
  return TensorList(out.begin(), out.end() - 1);
}

Tensor svd_gradient(const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& gu,
                    const Tensor& gs, const Tensor& gvh) {
  const int64_t m = rows(u), n = columns(vh), k = s->shape.back();
  if (!gu.defined() && !gvh.defined())
    return gs.defined() ? matmul(times_column(u, in_type(gs, u)), vh) : Tensor();
  const Tensor scale = in_type(s, u);
  // (s[j] - s[i]) (s[j] + s[i]), 1 on the diagonal
  const Tensor e = in_type(add(mul(differences(s, 0), add(unsqueeze(s, -2), unsqueeze(s, -1))),
                               identity_like(differences(s, 0))),
                           u);
  Tensor inner, a, b;
  if (gu.defined()) {
    a = skew(matmul(adjoint(u), gu));
    inner = times_column(div(a, e), scale);
  }
  if (gvh.defined()) {
    b = skew(matmul(vh, adjoint(gvh)));
    inner = plus(inner, times_row(scale, div(b, e)));
  }
  if (is_complex(u)) {
    // What turns both vectors of a value: only u's share is told apart.
    const Tensor d = gu.defined() ? div(diag_of(a), mul(scale, Scalar(2.0))) : Tensor();
    const Tensor none = without_diagonal(inner);
    inner = d.defined() ? add(none, diag_embed(d)) : none;
  }
  if (gs.defined()) inner = add(inner, diag_embed(in_type(gs, u)));
  Tensor g = matmul(matmul(u, inner), vh);
  if (gu.defined() && m > k) {
    const Tensor x = div(gu, unsqueeze(scale, -2));
    g = add(g, matmul(sub(x, matmul(u, matmul(adjoint(u), x))), vh));
  }
  if (gvh.defined() && n > k) {
    const Tensor x = div(gvh, unsqueeze(scale, -1));
    g = add(g, matmul(u, sub(x, matmul(matmul(x, adjoint(vh)), vh))));
  }
  return g;
}

}  // namespace

TensorList svd(const Tensor& a, bool full, const char* op) {
  TensorList f = svd_raw(a, true, full, op);
  if (autograd::wanted({a}))
    autograd::attach(
        op, {f[0], f[1], f[2]}, {a},
        {Saved(f[0], true, 0), Saved(f[1], true, 1), Saved(f[2], true, 2)},
        [](const Context& c) -> Grads {
          const Tensor s = c.saved(1);
          const int64_t k = s->shape.back();
          const auto first = [k](const Tensor& t, int64_t dim) {
            return t.defined() ? narrow(t, dim, 0, k) : t;
          };
          return {svd_gradient(first(c.saved(0), -1), s, first(c.saved(2), -2),
                               first(c.grads[0], -1), c.grads[1], first(c.grads[2], -2))};
        });
  return f;
}

Tensor svdvals(const Tensor& a, const char* op) {
  if (autograd::wanted({a})) return svd(a, false, op)[1];
  return svd_raw(a, false, false, op)[0];
}

// ---- eigenvalues --------------------------------------------------------------------------------

namespace {

// w and v (or w alone).
TensorList eigh_raw(const Tensor& a, bool upper, bool vectors, const char* op) {
  check_square(a, op);
  const auto out = (tiny(a, true) ? run : run_each)(
      engine::kernel<kernels::Eigh>(), op, {a}, [&](std::vector<Tensor>& in) {
        Tensor x = by_columns(in[0]);
        Tensor w = make_tensor(batched(a, {columns(a)}), real_type(a->dtype), x->device());
        Tensor info = make_tensor(batch_of(a), DType::Int32, x->device());
        if (x->numel > 0)
          engine::call<kernels::Eigh>({.w = w, .info = info, .a = x},
                                      {.upper = int64_t{upper}, .vectors = int64_t{vectors}},
                                      {.inplace = 4, .op = op, .takes = Takes::Bytes});
        else
          zero_(info);
        return TensorList{w, transposed(x), info};
      });
  check_info(out[2], op, no_convergence);
  return {out[0], out[1]};
}

}  // namespace

std::pair<Tensor, Tensor> eigh(const Tensor& a, bool upper, const char* op) {
  const TensorList f = eigh_raw(a, upper, true, op);
  if (autograd::wanted({a}))
    autograd::attach(op, {f[0], f[1]}, {a}, {Saved(f[0], true, 0), Saved(f[1], true, 1)},
                     [](const Context& c) -> Grads {
                       const Tensor w = c.saved(0), v = c.saved(1);
                       const Tensor &gw = c.grads[0], &gv = c.grads[1];
                       Tensor inner;
                       if (gv.defined()) {
                         const Tensor x = mul(skew(matmul(adjoint(v), gv)), Scalar(0.5));
                         // A vector's own phase is nobody's.
                         const Tensor off = without_diagonal(x);
                         inner = div(off, in_type(differences(w, 1), v));
                       }
                       if (gw.defined()) inner = plus(inner, diag_embed(in_type(gw, v)));
                       if (!inner.defined()) return {{}};
                       return {matmul(matmul(v, inner), adjoint(v))};
                     });
  return {f[0], f[1]};
}

Tensor eigvalsh(const Tensor& a, bool upper, const char* op) {
  if (autograd::wanted({a})) return eigh(a, upper, op).first;
  return eigh_raw(a, upper, false, op)[0];
}

namespace {

TensorList eig_raw(const Tensor& a, bool vectors, const char* op) {
  check_square(a, op);
  const auto out = run(engine::kernel<kernels::Eig>(), op, {a}, [&](std::vector<Tensor>& in) {
    Tensor x = by_columns(in[0]);
    const DType type = complex_type(a->dtype);
    const int64_t n = columns(a);
    Tensor w = make_tensor(batched(a, {n}), type, x->device()), v;
    Tensor info = make_tensor(batch_of(a), DType::Int32, x->device());
    if (vectors) v = make_tensor(batched(a, {n, n}), type, x->device());
    if (x->numel > 0)
      engine::call<kernels::Eig>({.w = w, .info = info, .a = x, .v = v}, {},
                                 {.inplace = 4, .op = op, .takes = Takes::Bytes});
    else
      zero_(info);
    return TensorList{w, vectors ? transposed(v) : Tensor(), info};
  });
  check_info(out[2], op, no_convergence);
  return {out[0], out[1]};
}

TensorList eig(const Tensor& a) {
  PF_AUTOCAST("linalg.eig", FollowElseRaise, eig, a);
  const char* op = "linalg.eig";
  const TensorList f = eig_raw(a, true, op);
  if (autograd::wanted({a}))
    autograd::attach(op, {f[0], f[1]}, {a}, {Saved(f[0], true, 0), Saved(f[1], true, 1)},
                     [type = a->dtype](const Context& c) -> Grads {
                       const Tensor w = c.saved(0), v = c.saved(1), h = adjoint(v);
                       const Tensor &gw = c.grads[0], &gv = c.grads[1];
                       Tensor inner;
                       if (gv.defined()) {
                         // Vectors have length 1: what would change that is taken away.
                         const Tensor x = matmul(h, gv);
                         const Tensor length =
                             times_column(matmul(h, v), in_type(real(diag_of(x)), v));
                         const Tensor e = conj(differences(w, 1));
                         const Tensor off = div(sub(x, length), e);
                         inner = without_diagonal(off);
                       }
                       if (gw.defined()) inner = plus(inner, diag_embed(gw));
                       if (!inner.defined()) return {{}};
                       const Tensor g = solve_system(h, matmul(inner, h), "linalg.eig");
                       return {to(g, type)};
                     });
  return f;
}

Tensor eigvals(const Tensor& a) {
  PF_AUTOCAST("linalg.eigvals", FollowElseRaise, eigvals, a);
  if (autograd::wanted({a})) return eig(a)[0];
  return eig_raw(a, false, "linalg.eigvals")[0];
}

bool upper_from(const std::string& uplo, const char* op) {
  PF_CHECK(uplo == "L" || uplo == "U" || uplo == "l" || uplo == "u", ValueError, op, "got UPLO '",
           uplo, "'; expected 'L' or 'U'; name the triangle that is read");
  return uplo == "U" || uplo == "u";
}
TensorList eigh_public(const Tensor& a, std::string uplo) {
  PF_AUTOCAST("linalg.eigh", FollowElseRaise, eigh_public, a, uplo);
  const auto f = eigh(a, upper_from(uplo, "linalg.eigh"), "linalg.eigh");
  return {f.first, f.second};
}
Tensor eigvalsh_public(const Tensor& a, std::string uplo) {
  PF_AUTOCAST("linalg.eigvalsh", FollowElseRaise, eigvalsh_public, a, uplo);
  return eigvalsh(a, upper_from(uplo, "linalg.eigvalsh"), "linalg.eigvalsh");
}

void check_driver(const optional<std::string>& driver, const char* op) {
  PF_CHECK(!driver, ValueError, op, "got driver '", *driver,
           "'; expected None: LAPACK's divide and conquer is the one there is; leave it out");
}
TensorList svd_public(const Tensor& a, bool full_matrices, optional<std::string> driver) {
  PF_AUTOCAST("linalg.svd", FollowElseRaise, svd_public, a, full_matrices, driver);
  check_driver(driver, "linalg.svd");
  return svd(a, full_matrices, "linalg.svd");
}
Tensor svdvals_public(const Tensor& a, optional<std::string> driver) {
  PF_AUTOCAST("linalg.svdvals", FollowElseRaise, svdvals_public, a, driver);
  check_driver(driver, "linalg.svdvals");
  return svdvals(a, "linalg.svdvals");
}
// torch.svd: V in place of its adjoint.
TensorList svd_old(const Tensor& a, bool some, bool compute_uv) {
  PF_AUTOCAST("svd", FollowElseRaise, svd_old, a, some, compute_uv);
  if (!compute_uv) {
    const Tensor s = svdvals(a, "svd");
    const auto none = [&](int64_t n) {
      return zeros(batched(a, {n, n}).vec(), a->dtype, a->device());
    };
    return {none(rows(a)), s, none(columns(a))};
  }
  const TensorList f = svd(a, !some, "svd");
  return {f[0], f[1], adjoint(f[2])};
}

// ---- least squares ------------------------------------------------------------------------------

TensorList lstsq(const Tensor& a, const Tensor& b, optional<double> rcond,
                 optional<std::string> driver) {
  PF_AUTOCAST("linalg.lstsq", FollowElseRaise, lstsq, a, b, rcond, driver);
  const char* op = "linalg.lstsq";
  check_matrix(a, op);
  PF_CHECK(b.defined() && !b->shape.empty(), ShapeError, op,
           "got B without dimensions; expected a vector or matrices; unsqueeze it");
  Dims lines = a->shape;
  lines.resize(lines.size() - 1);
  const bool vector = b->shape.size() + 1 == a->shape.size() && b->shape == lines;
  const Tensor right = vector ? unsqueeze(b, -1) : b;
  check_matrix(right, op, "B");
  check_same_type(a, right, op);
  PF_CHECK(rows(right) == rows(a), ShapeError, op, "got A of shape ", a->shape, " and B of shape ",
           b->shape, "; expected as many rows in both; transpose B");
  const std::string name = driver.value_or("gelsy");
  const char* const kDrivers[] = {"gels", "gelsy", "gelsd", "gelss"};
  int64_t number = -1;
  for (int64_t i = 0; i < 4; ++i)
    if (name == kDrivers[i]) number = i;
  PF_CHECK(number >= 0, ValueError, op, "got driver '", name,
           "'; expected 'gels', 'gelsy', 'gelsd' or 'gelss'; pass one of these");
  const auto [wide_a, wide_b] = one_batch(a, right, op);
  const Dims batch = batch_of(wide_a);
  const int64_t m = rows(a), n = columns(a), k = columns(right), most = std::max(m, n);
  const double eps = real_type(a->dtype) == DType::Float64 ? 0x1p-52 : 0x1p-23;
  const double limit = rcond.value_or(eps * static_cast<double>(most));
  auto out =
      run(engine::kernel<kernels::Lstsq>(), op, {wide_a, wide_b}, [&](std::vector<Tensor>& in) {
        Tensor x = by_columns(in[0]);
        Tensor y = zeros(with(batch, {k, most}).vec(), a->dtype, x->device());
        Tensor part = narrow(y, -1, 0, m);
        copy_(part, transposed(in[1].detach()));
        Tensor s = make_tensor(with(batch, {std::min(m, n)}), real_type(a->dtype), x->device());
        Tensor rank = zeros(batch.vec(), DType::Int32, x->device());
        Tensor info = zeros(batch.vec(), DType::Int32, x->device());
        if (x->numel > 0 && k > 0)
          engine::call<kernels::Lstsq>(
              {.b = y, .a = x, .rank = rank, .s = s, .info = info},
              {.driver = number, .rcond = limit},
              {.inplace = 1 + 2 + 4 + 16, .op = op, .takes = Takes::Bytes});
        return TensorList{y, rank, s, info};
      });
  check_info(out[3], op, [&](int64_t order) {
    return number == 0 ? "that has not full rank: element " + std::to_string(order) +
                             " of its triangular factor is 0; expected full rank; use driver "
                             "'gelsy' or 'gelsd'"
                       : no_convergence(order);
  });
  const Tensor y = transposed(out[0]);
  Tensor x = narrow(y, -2, 0, n);
  // Sums of squares of what is left over, where A has full rank and more rows than columns.
  Tensor left_over = zeros({0}, real_type(a->dtype), x->device());
  bool residuals = false;
  const bool full = number == 0 || n == 0 || out[1]->numel == 0 ||
                    all(eq(ops::all_samples(out[1]), Scalar(n))).item().to_int();
  if (m > n && full && number != 1) {
    left_over = sum(square(abs(narrow(y, -2, n, m - n))), IntList{-2});
    residuals = true;
  }
  if (autograd::wanted({wide_a, wide_b})) {
    x = contiguous(x);
    autograd::attach(op, {x}, {wide_a, wide_b}, {Saved(wide_a), Saved(wide_b), Saved(x, true)},
                     [](const Context& c) -> Grads {
                       const Tensor& g = c.grad();
                       // By the derivative of the pseudoinverse P: X = P B.
                       const Tensor a = c.saved(0), b = c.saved(1), x = c.saved(2);
                       const Tensor p = pseudoinverse(a), h = adjoint(p), z = matmul(h, g);
                       Tensor ga = neg(matmul(z, adjoint(x)));
                       ga = add(ga, matmul(sub(b, matmul(a, x)), adjoint(matmul(p, z))));
                       ga = add(ga, matmul(matmul(h, x), adjoint(sub(g, matmul(p, matmul(a, g))))));
                       return {ga, z};
                     });
    // At the least sum of squares it does not depend on X, in which they are differentiated no
    // more.
    autograd::attach(op, {left_over}, {wide_a, wide_b}, {Saved(wide_a), Saved(wide_b), Saved(x)},
                     [residuals](const Context& c) -> Grads {
                       const Tensor a = c.saved(0), b = c.saved(1), x = c.saved(2);
                       if (!residuals) return {zeros_like(a), zeros_like(b)};
                       const Tensor r =
                           mul(mul(sub(b, matmul(a, x)), unsqueeze(c.grad(), -2)), Scalar(2.0));
                       return {neg(matmul(r, adjoint(x))), r};
                     });
  }
  const auto as_given = [&](const Tensor& t) { return vector ? squeeze(t, -1) : t; };
  const Tensor none = zeros({0}, DType::Int64, x->device());
  const Tensor no_values = zeros({0}, real_type(a->dtype), x->device());
  return {as_given(x), left_over, number == 0 ? none : to(out[1], DType::Int64),
          number >= 2 ? out[2] : no_values};
}

const ops::Family kSpectral("linear algebra", [](ops::Family& f) {
  using namespace ops;
  const auto row = [](const char* schema, const char* doc, unsigned where = kSpecial) {
    return Row{schema, doc, where};
  };
  constexpr unsigned kBoth = kFunction | kMethod;
  f.op(&qr,
       row("linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
           "Orthonormal columns times an upper triangle: Q [..., m, k] and R [..., k, n] with k "
           "= min(m, n); mode 'complete': Q [..., m, m], R [..., m, n]; 'r': R alone."));
  f.op(&qr_old, row("qr(Tensor input, bool some=True) -> (Tensor Q, Tensor R)",
                    "The older form of linalg.qr: some=False is mode 'complete'.", kBoth));
  f.op(&geqrf, row("geqrf(Tensor input) -> (Tensor a, Tensor tau)",
                   "QR as LAPACK leaves it: R, and below it the vectors of the reflections 1 - tau "
                   "v v^H.",
                   kBoth));
  const char* kHouseholder =
      "The first n columns of the product of reflections that geqrf gives: [..., m, n].";
  f.op(&householder_product,
       row("linalg_householder_product(Tensor input, Tensor tau) -> Tensor", kHouseholder));
  f.op(&householder_product,
       row("orgqr(Tensor input, Tensor tau|input2) -> Tensor", kHouseholder, kBoth));
  f.op(&ormqr,
       row("ormqr(Tensor input, Tensor tau|input2, Tensor other|input3, bool left=True, bool "
           "transpose=False) -> Tensor",
           "Q other (left=False: other Q) with the Q of reflections; transpose: Q^H.", kBoth));
  f.op(&svd_public,
       row("linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor "
           "U, Tensor S, Tensor Vh)",
           "A = U diag(S) Vh, singular values from the largest; full_matrices=False: "
           "only the first min(m, n) columns of U and rows of Vh."));
  f.op(&svdvals_public, row("linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
                            "The singular values, from the largest."));
  f.op(&svd_old,
       row("svd(Tensor input, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor "
           "V)",
           "The older form of linalg.svd: V in place of its adjoint, reduced unless some=False.",
           kBoth));
  f.op(&eigh_public, row("linalg_eigh(Tensor A, str UPLO='L') -> (Tensor eigenvalues, Tensor "
                         "eigenvectors)",
                         "Eigenvalues, ascending, and orthonormal eigenvectors (columns) of a "
                         "symmetric (Hermitian) matrix, of which one triangle is read."));
  f.op(&eigvalsh_public, row("linalg_eigvalsh(Tensor A, str UPLO='L') -> Tensor",
                             "The eigenvalues of a symmetric (Hermitian) matrix, ascending."));
  f.op(&eig,
       row("linalg_eig(Tensor A) -> (Tensor eigenvalues, Tensor eigenvectors)",
           "Eigenvalues and eigenvectors (columns of length 1) of square matrices, complex."));
  f.op(&eigvals, row("linalg_eigvals(Tensor A) -> Tensor",
                     "The eigenvalues of square matrices, complex, in no order."));
  f.op(&lstsq, row("linalg_lstsq(Tensor A, Tensor B, float? rcond=None, *, str? driver=None) -> "
                   "(Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
                   "X of the smallest |A X - B|, and of those the smallest |X|; driver 'gelsy' "
                   "(default), 'gelsd' or 'gelss' for any rank by rcond, 'gels' for full rank."));
});

}  // namespace
}  // namespace linalg
}  // namespace pyflame
