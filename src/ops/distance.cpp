// Distances and angles between vectors, written in operations.
#include "ops/autocast.h"
#include "ops/general.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "pyflame/losses.h"

namespace pyflame {

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim, double eps) {
  PF_AUTOCAST("cosine_similarity", Raise, cosine_similarity, x1, x2, dim, eps);
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
  const Tensor x1 = ops::as_floating(first, "pairwise_distance", "x1");
  const Tensor x2 = ops::as_floating(second, "pairwise_distance", "x2");
  const Tensor d = add(sub(ops::widened(x1), ops::widened(x2)), Scalar(eps));
  return to(norm(d, p, IntList{-1}, keepdim), promote(x1->dtype, x2->dtype));
}

Tensor cdist(const Tensor& x1, const Tensor& x2, double p) {
  PF_AUTOCAST("cdist", Raise, cdist, x1, x2, p);
  ops::check_floating(x1, "cdist", "x1");
  ops::check_floating(x2, "cdist", "x2");
  PF_CHECK(x1->shape.size() >= 2 && x2->shape.size() >= 2 && x1->shape.back() == x2->shape.back(),
           ShapeError, "cdist", "got ", x1->shape, " and ", x2->shape,
           "; expected [..., P, M] and [..., R, M]; reshape one of them");
  PF_CHECK(p >= 0, ValueError, "cdist", "got p ", p, "; expected at least 0; pass p=2");
  return norm(sub(unsqueeze(x1, -2), unsqueeze(x2, -3)), p, IntList{-1});
}

Tensor pdist(const Tensor& x, double p) {
  PF_AUTOCAST("pdist", Raise, pdist, x, p);
  ops::check_floating(x, "pdist");
  PF_CHECK(x->shape.size() == 2, ShapeError, "pdist", "got shape ", x->shape,
           "; expected a matrix whose rows are points; reshape it");
  IntList first, second;
  const int64_t n = x->shape[0];
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) {
      first.push_back(i);
      second.push_back(j);
    }
  const auto rows = [&](const IntList& at) {
    return index_select(
        x, 0,
        from_host(at.data(), {static_cast<int64_t>(at.size())}, DType::Int64, x->storage->device));
  };
  return norm(sub(rows(first), rows(second)), p, IntList{-1});
}

Tensor dist(const Tensor& x, const Tensor& y, double p) {
  PF_AUTOCAST("dist", Raise, dist, x, y, p);
  ops::check_defined(x, "dist", "input");
  ops::check_defined(y, "dist", "other");
  const Tensor d =
      sub(ops::widened(x), ops::widened(y));  // a difference may pass the dtype's range
  return to(norm(d, p), promote(x->dtype, y->dtype));
}

Tensor normalize(const Tensor& x, double p, int64_t dim, double eps) {
  ops::check_floating(x, "normalize");
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
