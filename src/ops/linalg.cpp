// What decompositions share: checks, layouts, where they run, and how they say what went wrong.
#include "ops/linalg.h"

#include <algorithm>

#include "core/interrupt.h"
#include "core/values.h"
#include "engine/placement.h"
#include "engine/trace.h"
#include "ops/building_blocks.h"
#include "ops/rows.h"

namespace pyflame::linalg {

void check_matrix(const Tensor& t, const char* op, const char* what) {
  PF_CHECK(t.defined(), ValueError, op, "got no ", what, "; expected a tensor; pass one");
  const DType d = t->dtype;
  PF_CHECK(d == DType::Float32 || d == DType::Float64 || is_complex(t), DTypeError, op, "got ",
           what, " of dtype ", d,
           "; expected float32, float64, complex64 or complex128; convert with .to(dtype)");
  PF_CHECK(t->shape.size() >= 2, ShapeError, op, "got ", what, " of shape ", t->shape,
           "; expected at least two dimensions: a matrix or a batch of them; unsqueeze it");
  const int64_t m = rows(t), n = columns(t);
  PF_CHECK(
      m < (int64_t{1} << 30) && n < (int64_t{1} << 30) && (n == 0 || m < (int64_t{1} << 31) / n),
      NotSupportedError, op, "got ", what, " of shape ", t->shape,
      "; expected matrices of fewer than 2^31 elements; LAPACK counts with 32 bits");
}

void check_square(const Tensor& t, const char* op, const char* what) {
  check_matrix(t, op, what);
  PF_CHECK(rows(t) == columns(t), ShapeError, op, "got ", what, " of shape ", t->shape,
           "; expected square matrices: the last two dimensions equal; check what was passed");
}

void check_same_type(const Tensor& a, const Tensor& b, const char* op) {
  PF_CHECK(a->dtype == b->dtype, DTypeError, op, "got ", a->dtype, " and ", b->dtype,
           "; expected both to have the same dtype; convert one with .to(dtype)");
  ops::check_same_device(a, b, op);
}

Dims batch_of(const Tensor& t) {
  Dims r = t->shape;
  r.resize(r.size() - 2);
  return r;
}
Dims with(Dims shape, std::initializer_list<int64_t> more) {
  for (int64_t m : more) shape.push_back(m);
  return shape;
}

Tensor with_batch(const Tensor& t, const Dims& batch) {
  const Dims shape = with(batch, {rows(t), columns(t)});
  return t->shape == shape ? t : expand(t, shape.vec());
}
std::pair<Tensor, Tensor> one_batch(const Tensor& a, const Tensor& b, const char* op) {
  const Dims batch = broadcast_shapes(batch_of(a), batch_of(b), op);
  return {with_batch(a, batch), with_batch(b, batch)};
}

Tensor transposed(const Tensor& t) {
  return transpose(t, -2, -1);
}
Tensor identity_like(const Tensor& a) {
  const Tensor one = eye(columns(a), {}, real_type(a->dtype), a->device());
  return to(one, a->dtype);
}
Tensor times_column(const Tensor& a, const Tensor& scale) {
  return mul(a, unsqueeze(scale, -2));
}
Tensor times_row(const Tensor& scale, const Tensor& a) {
  return mul(unsqueeze(scale, -1), a);
}
Tensor plus(const Tensor& x, const Tensor& y) {
  return !x.defined() ? y : !y.defined() ? x : add(x, y);
}

Tensor by_columns(const Tensor& t) {
  return ops::raw_clone(transposed(t.detach()));
}

namespace {

using Work = std::function<std::vector<Tensor>(std::vector<Tensor>&)>;

// A GPU takes some hundred microseconds for each, whatever its size.
bool many_small(const Tensor& a) {
  constexpr int64_t kMany = 8, kSmall = 128;
  const int64_t size = rows(a) * columns(a);
  return size > 0 && a->numel / size >= kMany && std::max(rows(a), columns(a)) <= kSmall;
}

std::vector<Tensor> run_where(const engine::Kernel& k, const char* op, std::vector<Tensor> in,
                              const Work& fn, bool each) {
  NoGrad off;
  engine::Target target(op);
  for (const Tensor& t : in)
    if (t.defined()) target.add(*t.impl());
  const Device home = target.device({});
  if (several_devices())
    for (Tensor& t : in)
      if (t.defined() && !(t->storage->device == home)) t = engine::bring(t, home, op);
  const bool able = engine::has_kernel(k, home);
  const bool gpu = home.type == DeviceType::ROCm || home.type == DeviceType::CUDA;
  each = each && gpu && many_small(in[0]);
  const OwnCopies own;  // fn writes over copies that it makes
  if (able && !each) return fn(in);
  engine::slow_path(op, able ? "many small matrices: copied to the host and back"
                             : "no kernel of this device: copied to the host and back");
  const Device host;
  const DeviceScope there(host);
  for (Tensor& t : in)
    if (t.defined()) t = to(t, host);
  std::vector<Tensor> out = fn(in);
  for (Tensor& t : out)
    if (t.defined()) t = to(t, home);
  return out;
}

}  // namespace

std::vector<Tensor> run(const engine::Kernel& k, const char* op, std::vector<Tensor> in,
                        const Work& fn) {
  return run_where(k, op, std::move(in), fn, false);
}
std::vector<Tensor> run_each(const engine::Kernel& k, const char* op, std::vector<Tensor> in,
                             const Work& fn) {
  return run_where(k, op, std::move(in), fn, true);
}

void check_info(const Tensor& info, const char* op,
                const std::function<std::string(int64_t)>& said) {
  const Tensor all = ops::all_samples(info);
  const std::vector<Scalar> values = read_values(all);
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t code = values[i].to_int();
    if (code == 0) continue;
    std::string where;
    if (!all->shape.empty()) {
      // The index of the matrix in its batch.
      int64_t left = static_cast<int64_t>(i);
      for (int d = all->shape.size() - 1; d >= 0; --d) {
        where = std::to_string(left % all->shape[d]) + (where.empty() ? "" : ", ") + where;
        left /= all->shape[d];
      }
      where = " (element " + where + " of the batch)";
    }
    PF_CHECK(code > 0, LinAlgError, op, "got a matrix", where,
             " that holds NaN or an infinity; expected finite numbers; look for where they come "
             "from with pf.isfinite");
    PF_FAIL(LinAlgError, op, "got a matrix", where, " ", said(code));
  }
}

}  // namespace pyflame::linalg
