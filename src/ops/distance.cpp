// Distances and angles between vectors, written in operations.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/functions.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "table/kernels/distance.h"

namespace pyflame {

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim, double eps) {
  PF_AUTOCAST("cosine_similarity", RaiseElseFollow, cosine_similarity, x1, x2, dim, eps);
  ops::check_floating(x1, "cosine_similarity", "x1");
  ops::check_floating(x2, "cosine_similarity", "x2");
  const Dims shape = broadcast_shapes(x1->shape, x2->shape, "cosine_similarity");
  const int n = shape.size(), d = wrap_dim(dim, n, "cosine_similarity");
  const IntList at{d};
  // Vectors are those of the broadcast shape: one element may stand for a whole one.
  const auto vectors = [&](const Tensor& x) {
    Dims own = Dims::filled(n, 1);
    for (int i = 0; i < x->shape.size(); ++i) own[n - x->shape.size() + i] = x->shape[i];
    Dims wide = own;
    if (n > 0) wide[d] = shape[d];
    return expand(reshape(ops::widened(x), own.vec()), wide.vec());
  };
  const Tensor a = vectors(x1), b = vectors(x2);
  const auto unit = [&](const Tensor& x) {
    return div(x, clamp(norm(x, 2, at, true), Scalar(eps), {}));
  };
  return to(sum(mul(unit(a), unit(b)), at), promote(x1->dtype, x2->dtype));
}

Tensor pairwise_distance(const Tensor& first, const Tensor& second, double p, double eps,
                         bool keepdim) {
  const auto with_fractions = [](const Tensor& t, const char* what) {
    return t.defined() && is_complex(t) ? t : ops::as_floating(t, "pairwise_distance", what);
  };
  const Tensor x1 = with_fractions(first, "x1"), x2 = with_fractions(second, "x2");
  const Tensor d = add(sub(ops::widened(x1), ops::widened(x2)), Scalar(eps));
  return to(norm(d, p, IntList{-1}, keepdim), real_type(promote(x1->dtype, x2->dtype)));
}

namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

// The norms that have kernels of their own (of float32 and float64); others take the differences as
// a tensor.
bool has_kernel(double p) {
  return p == 0 || p == 1 || p == 2 || p == std::numeric_limits<double>::infinity();
}
Tensor distances(const Tensor& x1, const Tensor& x2, double p, bool triangle) {
  const int64_t batch = x1->shape[0], rows = x1->shape[1], n = x2->shape[1];
  Tensor y = make_tensor(triangle ? Dims{rows * (rows - 1) / 2} : Dims{batch, rows, n}, x1->dtype,
                         x1->storage->device);
  if (y->numel > 0)
    engine::call<kernels::Distances>({.out = y, .x1 = x1, .x2 = x2},
                                     {.p = p, .triangle = int64_t{triangle}});
  return y;
}
// The gradient of x1's rows. `grad` and `y` are transposed where x1 was the second operand.
Tensor distances_backward(const Tensor& x1, const Tensor& x2, const Tensor& grad, const Tensor& y,
                          double p, bool triangle) {
  if (p == 0 || y->numel == 0) return zeros_like(x1);
  Tensor dx = make_tensor(x1->shape, x1->dtype, x1->storage->device);
  if (dx->numel > 0)
    engine::call<kernels::DistancesBackward>(
        {.dx = dx, .x1 = ops::dense(x1), .x2 = ops::dense(x2), .dout = grad, .out = y},
        {.p = p, .triangle = int64_t{triangle}});
  return dx;
}
// The slopes of norms of `diff` along its last dimension, times `grad`, in operations that can be
// differentiated again.
Tensor slopes(const Tensor& diff, const Tensor& grad, const Tensor& y, double p) {
  if (p == 0) return zeros_like(diff);
  const Tensor at = unsqueeze(y, -1);
  Tensor up = p == 2 ? diff : sign(diff);
  if (std::isinf(p)) up = mul(up, to(eq(abs(diff), at), diff->dtype));
  Tensor g = unsqueeze(grad, -1);
  if (p == 2) {  // the inner choice keeps 0 / 0 out of the derivative by g
    const Tensor none = eq(at, Scalar(0));
    g = where(none, Scalar(0.0), div(g, where(none, Scalar(1.0), at)));
  }
  return mul(g, up);
}

// The row numbers of all pairs: (0, 1), (0, 2), ..., (1, 2), ...
std::pair<Tensor, Tensor> pairs_of(const Tensor& x) {
  const int64_t n = x->shape[0];
  const Tensor pairs = ops::triangle_indices(n, n, 1, true, DType::Int64, x->device());
  return {select(pairs, 0, 0), select(pairs, 0, 1)};
}
std::pair<Tensor, Tensor> some_of(const std::pair<Tensor, Tensor>& pairs, int64_t at, int64_t n) {
  return {narrow(pairs.first, 0, at, n), narrow(pairs.second, 0, at, n)};
}
Tensor differences(const Tensor& x, const std::pair<Tensor, Tensor>& pairs) {
  return sub(index_select(x, 0, pairs.first), index_select(x, 0, pairs.second));
}

// x1 [batch, p, m], x2 [batch, r, m].
Tensor distances_between(const Tensor& x1, const Tensor& x2, double p) {
  Tensor y;
  {
    NoGrad off;
    y = distances(x1, x2, p, false);
  }
  if (autograd::wanted({x1, x2}))
    autograd::attach(
        "cdist", {y}, {x1, x2}, {Saved(x1), Saved(x2), Saved(y, true)},
        [p](const Context& c) -> Grads {
          const Tensor x1 = c.saved(0), x2 = c.saved(1), y = c.saved(2), g = c.grad();
          if (autograd::wanted({g, x1, x2})) {  // a second derivative is asked for
            const Tensor each = slopes(sub(unsqueeze(x1, -2), unsqueeze(x2, -3)), g, y, p);
            return {sum(each, IntList{-2}), neg(sum(each, IntList{-3}))};
          }
          Grads out(2);
          if (c.needs(0)) out[0] = distances_backward(x1, x2, g, y, p, false);
          if (c.needs(1))
            out[1] = distances_backward(x2, x1, transpose(g, 1, 2), transpose(y, 1, 2), p, false);
          return out;
        });
  return y;
}

// ---- norms without a kernel: differences as a tensor, of some rows at a time ----

constexpr int64_t kDifferences = 1 << 22;  // elements, while there is more than one row

struct Pieces {
  int64_t batches, rows;  // of x1, at a time
};
Pieces pieces_of(const Tensor& x1, const Tensor& x2) {
  const int64_t batch = x1->shape[0], rows = x1->shape[1];
  const int64_t row = std::max<int64_t>(x2->shape[1] * x2->shape[2], 1);
  if (batch * rows == 0) return {.batches = batch, .rows = rows};
  const int64_t some = std::clamp<int64_t>(kDifferences / row, 1, rows);
  return {.batches = std::clamp<int64_t>(kDifferences / (row * some), 1, batch), .rows = some};
}
Tensor differences_between(const Tensor& x1, const Tensor& x2) {
  return sub(unsqueeze(x1, -2), unsqueeze(x2, -3));
}
Tensor distances_in_pieces(const Tensor& x1, const Tensor& x2, double p) {
  const Pieces each = pieces_of(x1, x2);
  const int64_t batch = x1->shape[0], rows = x1->shape[1];
  if (each.batches >= batch && each.rows >= rows)
    return norm(differences_between(x1, x2), p, IntList{-1});
  Tensor y = make_tensor({batch, rows, x2->shape[1]}, x1->dtype, x1->storage->device);
  {
    NoGrad off;
    for (int64_t b = 0; b < batch; b += each.batches)
      for (int64_t r = 0; r < rows; r += each.rows) {
        const int64_t nb = std::min(each.batches, batch - b), nr = std::min(each.rows, rows - r);
        const Tensor some = narrow(narrow(x1, 0, b, nb), 1, r, nr);
        Tensor place = narrow(narrow(y, 0, b, nb), 1, r, nr);
        copy_(place, norm(differences_between(some, narrow(x2, 0, b, nb)), p, IntList{-1}));
      }
  }
  if (autograd::wanted({x1, x2}))
    autograd::attach(
        "cdist", {y}, {x1, x2}, {Saved(x1), Saved(x2), Saved(y, true)},
        [p, each](const Context& c) -> Grads {
          const Tensor x1 = c.saved(0), x2 = c.saved(1), y = c.saved(2), g = c.grad();
          const int64_t batch = x1->shape[0], rows = x1->shape[1];
          TensorList of_x1, of_x2;
          for (int64_t b = 0; b < batch; b += each.batches) {
            const int64_t nb = std::min(each.batches, batch - b);
            const Tensor others = narrow(x2, 0, b, nb);
            TensorList up;
            Tensor down;
            for (int64_t r = 0; r < rows; r += each.rows) {
              const auto part = [&](const Tensor& t) {
                return narrow(narrow(t, 0, b, nb), 1, r, std::min(each.rows, rows - r));
              };
              const Tensor slope =
                  ops::norm_slopes(part(g), differences_between(part(x1), others), part(y), p);
              if (c.needs(0)) up.push_back(sum(slope, IntList{-2}));
              if (!c.needs(1)) continue;
              const Tensor less = neg(sum(slope, IntList{-3}));
              down = down.defined() ? add(down, less) : less;
            }
            if (c.needs(0)) of_x1.push_back(cat(up, 1));
            if (c.needs(1)) of_x2.push_back(down);
          }
          Grads out(2);
          if (c.needs(0)) out[0] = cat(of_x1, 0);
          if (c.needs(1)) out[1] = cat(of_x2, 0);
          return out;
        });
  return y;
}

// The same of all pairs of rows of x [n, m]; `each` pairs at a time.
Tensor pair_distances_in_pieces(const Tensor& x, double p) {
  const auto pairs = pairs_of(x);
  const int64_t count = pairs.first->numel;
  const int64_t each = std::max<int64_t>(kDifferences / std::max<int64_t>(x->shape[1], 1), 1);
  if (each >= count) return norm(differences(x, pairs), p, IntList{-1});
  Tensor y = make_tensor({count}, x->dtype, x->storage->device);
  {
    NoGrad off;
    for (int64_t at = 0; at < count; at += each) {
      const int64_t n = std::min(each, count - at);
      Tensor place = narrow(y, 0, at, n);
      copy_(place, norm(differences(x, some_of(pairs, at, n)), p, IntList{-1}));
    }
  }
  if (autograd::wanted({x}))
    autograd::attach(
        "pdist", {y}, {x}, {Saved(x), Saved(y, true)}, [p, each](const Context& c) -> Grads {
          const Tensor x = c.saved(0), y = c.saved(1), g = c.grad();
          const auto pairs = pairs_of(x);
          const int64_t count = y->numel;
          Tensor dx = zeros_like(x);
          for (int64_t at = 0; at < count; at += each) {
            const int64_t n = std::min(each, count - at);
            const auto some = some_of(pairs, at, n);
            const Tensor slope =
                ops::norm_slopes(narrow(g, 0, at, n), differences(x, some), narrow(y, 0, at, n), p);
            const auto at_rows = [&](const Tensor& rows) {
              return expand(unsqueeze(rows, 1), slope->shape.vec());
            };
            dx = scatter_add(dx, 0, at_rows(some.first), slope);
            dx = scatter_add(dx, 0, at_rows(some.second), neg(slope));
          }
          return {dx};
        });
  return y;
}

}  // namespace

Tensor cdist(const Tensor& x1, const Tensor& x2, double p) {
  PF_AUTOCAST("cdist", Raise, cdist, x1, x2, p);
  ops::check_floating(x1, "cdist", "x1");
  ops::check_floating(x2, "cdist", "x2");
  PF_CHECK(x1->shape.size() >= 2 && x2->shape.size() >= 2 && x1->shape.back() == x2->shape.back(),
           ShapeError, "cdist", "got ", x1->shape, " and ", x2->shape,
           "; expected [..., P, M] and [..., R, M]; reshape one of them");
  PF_CHECK(p >= 0, ValueError, "cdist", "got p ", p, "; expected at least 0; pass p=2");
  // The gradient looks for the distance among the differences, so both are of the same digits.
  if (const DType t = promote(x1->dtype, x2->dtype); ops::is_narrow(t))
    return to(cdist(ops::widened(x1), ops::widened(x2), p), t);
  ops::check_device(x1, x2, "cdist");
  const auto batch_of = [](const Tensor& t) {
    Dims d = t->shape;
    d.resize(d.size() - 2);
    return d;
  };
  const Dims batch = broadcast_shapes(batch_of(x1), batch_of(x2), "cdist");
  const int64_t m = x1->shape.back(), rows = x1->shape[x1->shape.size() - 2],
                n = x2->shape[x2->shape.size() - 2];
  const DType dtype = promote(x1->dtype, x2->dtype);
  const auto flat = [&](const Tensor& t, int64_t count) {
    IntList size = batch.vec();
    size.insert(size.end(), {count, m});
    return reshape(expand(to(t, dtype), size), {numel(batch), count, m});
  };
  const auto between = has_kernel(p) ? distances_between : distances_in_pieces;
  const Tensor y = between(flat(x1, rows), flat(x2, n), p);
  IntList size = batch.vec();
  size.insert(size.end(), {rows, n});
  return reshape(y, size);
}

Tensor pdist(const Tensor& x, double p) {
  PF_AUTOCAST("pdist", RaiseElseFollow, pdist, x, p);
  ops::check_floating(x, "pdist");
  PF_CHECK(x->shape.size() == 2, ShapeError, "pdist", "got shape ", x->shape,
           "; expected a matrix whose rows are points; reshape it");
  PF_CHECK(p >= 0, ValueError, "pdist", "got p ", p, "; expected at least 0; pass p=2");
  if (ops::is_narrow(x)) return to(pdist(ops::widened(x), p), x->dtype);
  if (!has_kernel(p)) return pair_distances_in_pieces(x, p);
  Tensor y;
  {
    NoGrad off;
    const Tensor points = unsqueeze(x, 0);
    y = distances(points, points, p, true);
  }
  if (autograd::wanted({x}))
    autograd::attach("pdist", {y}, {x}, {Saved(x), Saved(y, true)}, [p](const Context& c) -> Grads {
      const Tensor x = c.saved(0), y = c.saved(1), g = c.grad();
      if (autograd::wanted({g, x})) {
        const auto [first, second] = pairs_of(x);
        const Tensor each = slopes(differences(x, {first, second}), g, y, p);
        const auto at = [&](const Tensor& rows) {
          return expand(unsqueeze(rows, 1), each->shape.vec());
        };
        const Tensor up = scatter_add(zeros_like(x), 0, at(first), each);
        return {scatter_add(up, 0, at(second), neg(each))};
      }
      const Tensor points = unsqueeze(x, 0);
      return {squeeze(distances_backward(points, points, g, y, p, true), 0)};
    });
  return y;
}

Tensor dist(const Tensor& x, const Tensor& y, double p) {
  PF_AUTOCAST("dist", RaiseElseFollow, dist, x, y, p);
  ops::check_defined(x, "dist", "input");
  ops::check_defined(y, "dist", "other");
  // A difference may pass the range of 16 bits.
  const Tensor d = ops::difference(ops::widened(x), ops::widened(y));
  return to(norm(d, p), real_type(promote(x->dtype, y->dtype)));
}

Tensor normalize(const Tensor& x, double p, int64_t dim, double eps) {
  PF_AUTOCAST("normalize", RaiseElseFollow, normalize, x, p, dim, eps);
  ops::check_defined(x, "normalize");
  if (!is_complex(x)) ops::check_floating(x, "normalize");
  const Tensor wide = ops::widened(x);
  return to(div(wide, clamp(norm(wide, p, IntList{dim}, true), Scalar(eps), {})), x->dtype);
}

namespace {

// The modes of PyTorch's argument say how to compute the same numbers.
Tensor cdist_row(const Tensor& x1, const Tensor& x2, double p, std::string) {
  return cdist(x1, x2, p);
}

const ops::Family kDistance("distance", [](ops::Family& f) {
  using namespace ops;
  constexpr unsigned kBoth = kFunction | kFunctional;
  f.op(&cosine_similarity,
       {"cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
        "x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along `dim` of the broadcast shape.", kBoth});
  f.op(&pairwise_distance,
       {"pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) "
        "-> Tensor",
        "The p-norm of x1 - x2 + eps along the last dimension.", kBoth});
  f.op(&cdist_row, {"cdist(Tensor x1, Tensor x2, float p=2.0, str "
                    "compute_mode='use_mm_for_euclid_dist_if_necessary') -> Tensor",
                    "p-norms of all differences between rows of [..., P, M] and [..., R, M]: "
                    "[..., P, R]. compute_mode is accepted: differences are always taken.",
                    kFunction});
  f.op(&pdist, {"pdist(Tensor input, float p=2.0) -> Tensor",
                "p-norms of the differences of all pairs of rows, in the order (0, 1), (0, 2), "
                "..., (1, 2), ...",
                kBoth});
  f.op(&dist, {"dist(Tensor input, Tensor other, float p=2.0) -> Tensor",
               "The p-norm of input - other over all elements, 0-d."});
  f.op(&normalize, {"normalize(Tensor input, float p=2.0, int dim=1, float eps=1e-12) -> Tensor",
                    "input / max(p-norm along `dim`, eps).", kFunctional});
});

}  // namespace
}  // namespace pyflame
