// Decompositions as other operations call them, and what their sources share. Square matrices are
// [..., n, n]; all dimensions before are a batch. float32, float64 and the complex dtypes.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/tensor_impl.h"
#include "engine/engine.h"
#include "ops/complex.h"
#include "ops/functions.h"
#include "ops/hidden.h"

namespace pyflame {

namespace linalg {

// Checked, for messages under the name `op`.
void check_matrix(const Tensor& t, const char* op, const char* what = "A");
void check_square(const Tensor& t, const char* op, const char* what = "A");
void check_same_type(const Tensor& a, const Tensor& b, const char* op);

inline int64_t rows(const Tensor& t) {
  return t->shape[t->shape.size() - 2];
}
inline int64_t columns(const Tensor& t) {
  return t->shape.back();
}
Dims batch_of(const Tensor& t);  // the shape without the last two dimensions
Dims with(Dims shape, std::initializer_list<int64_t> more);
// Both with the batch that they broadcast to.
std::pair<Tensor, Tensor> one_batch(const Tensor& a, const Tensor& b, const char* op);
// The tensor with the batch `batch`; itself if it has it.
Tensor with_batch(const Tensor& t, const Dims& batch);
Tensor transposed(const Tensor& t);     // the last two dimensions, a view
Tensor identity_like(const Tensor& a);  // n x n of dtype and device, without a batch
Tensor times_column(const Tensor& a, const Tensor& scale);  // columns times scale[..., n]
Tensor times_row(const Tensor& scale, const Tensor& a);     // rows times scale[..., m]
// x + y, where either may be undefined.
Tensor plus(const Tensor& x, const Tensor& y);

// A copy without history whose memory runs down the columns: [..., n, m] for a matrix [..., m, n].
Tensor by_columns(const Tensor& t);

// Runs fn over `in` on the device where the first lies, or, where its backend has no kernel `k`, on
// the host with copies. Nothing of it is recorded by autograd.
std::vector<Tensor> run(const engine::Kernel& k, const char* op, std::vector<Tensor> in,
                        const std::function<std::vector<Tensor>(std::vector<Tensor>&)>& fn);
// The same of what GPUs do for one matrix after the other: many small ones are the host's.
std::vector<Tensor> run_each(const engine::Kernel& k, const char* op, std::vector<Tensor> in,
                             const std::function<std::vector<Tensor>(std::vector<Tensor>&)>& fn);

// LinAlgError for the first matrix whose info is not 0: `said` is told its info, and -1 is said by
// this function itself.
void check_info(const Tensor& info, const char* op,
                const std::function<std::string(int64_t)>& said);

// L L' = A of the lower triangle (upper: U' U of the upper one), and info.
std::pair<Tensor, Tensor> cholesky_ex(const Tensor& a, bool upper, bool check, const char* op);
// LU by columns (a view whose rows are strided), pivots, info.
std::vector<Tensor> lu_factor_raw(const Tensor& a, const char* op);
// X of A X = B (adjoint: A' X = B) with A's factors, which know nothing of gradients themselves.
Tensor solve_factored(const Tensor& a, const Tensor& lu, const Tensor& pivots, const Tensor& b,
                      bool adjoint, const char* op);
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left, bool unit,
                        const char* op);
Tensor inverse(const Tensor& a, const char* op);
Tensor solve_system(const Tensor& a, const Tensor& b, const char* op);  // matrices; differentiable
Tensor solve_unchecked(const Tensor& a, const Tensor& b, const char* op);
Tensor pseudoinverse(const Tensor& a);
std::pair<Tensor, Tensor> inverse_ex(const Tensor& a, const char* op);  // and info
Tensor matrix_norm_of(const Tensor& a, double ord);  // of the last two dimensions
Tensor matrix_norm_named(const Tensor& a, const std::string& ord, const IntList& dim = {-2, -1},
                         bool keepdim = false);
std::vector<Tensor> svd(const Tensor& a, bool full, const char* op);  // u, s, vh
Tensor svdvals(const Tensor& a, const char* op);
std::pair<Tensor, Tensor> eigh(const Tensor& a, bool upper, const char* op);
Tensor eigvalsh(const Tensor& a, bool upper, const char* op);

}  // namespace linalg
}  // namespace pyflame
