// Rows of elements in all ways.
#include <algorithm>

#include "ops/building_blocks.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "table/kernels/index.h"

namespace pyflame {

namespace {

// The rows of all combinations of one element from each.
Tensor cartesian_prod(const TensorList& tensors) {
  PF_CHECK(!tensors.empty(), ValueError, "cartesian_prod",
           "got no tensors; expected at least one; check the list");
  if (tensors.size() == 1) return tensors[0];
  Dims shape;
  for (const Tensor& t : tensors) {
    PF_CHECK(t.defined() && t->shape.size() == 1, ShapeError, "cartesian_prod",
             "got a tensor that is not 1-D; expected one dimension each; ravel them");
    shape.push_back(t->numel);
  }
  TensorList columns;
  const int n = shape.size();
  for (int d = 0; d < n; ++d) {
    IntList lone(static_cast<size_t>(n), 1);
    lone[static_cast<size_t>(d)] = shape[d];
    columns.push_back(
        reshape(expand(reshape(tensors[static_cast<size_t>(d)], lone), shape.vec()), {-1}));
  }
  return stack(columns, 1);
}

// How many ways there are to choose r of n with replacement, as far as tensors can hold them.
int64_t choices(int64_t n, int64_t r) {
  __extension__ using Wide = __int128;
  if (n == 0) return 0;
  Wide count = 1;
  for (int64_t k = 1; k <= std::min(r, n - 1); ++k) {
    count = count * (Wide{n} + r - k) / k;
    PF_CHECK(count < (Wide{1} << 60), ShapeError, "combinations", "got ", n, " elements and r ", r,
             "; expected fewer than 2^60 combinations; choose a smaller r");
  }
  return static_cast<int64_t>(count);
}

// All rows of r numbers below n that ascend, not strictly, in order; the columns.
TensorList ascending_rows(int64_t n, int64_t r, Device device) {
  if (r == 1) return {arange(0, n, 1, DType::Int64, device)};
  const Tensor pairs = ops::triangle_indices(n, n, 0, true, DType::Int64, device);
  TensorList columns = {select(pairs, 0, 0), select(pairs, 0, 1)};
  for (int64_t k = 2; k < r; ++k) {  // each row is followed by all numbers from its last one on
    const Tensor last = columns.back(), ends = cumsum(add(neg(last), Scalar(n)), 0);
    const Tensor at = arange(0, choices(n, k + 1), 1, DType::Int64, device);
    const Tensor row = make_tensor(at->shape, DType::Int64, device);
    engine::call<kernels::Searchsorted>({row, at, ends}, {.right = true}, {.op = "combinations"});
    for (Tensor& c : columns) c = index_select(c, 0, row);
    // The last number grows by one for each that stands before it in its group.
    columns.push_back(add(at, index_select(add(neg(ends), Scalar(n)), 0, row)));
  }
  return columns;
}

// The same as [count, r] from the host's memory, where each row is made from the one before.
Tensor ascending_rows_of_host(int64_t n, int64_t r, int64_t count, bool strictly, Device device) {
  IntList pick(static_cast<size_t>(r)), all;
  all.reserve(static_cast<size_t>(count * r));
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t i = 0; i < r; ++i)
      all.push_back(pick[static_cast<size_t>(i)] + (strictly ? i : 0));
    int64_t i = r - 1;
    while (i > 0 && pick[static_cast<size_t>(i)] == n - 1) --i;
    std::fill(pick.begin() + i, pick.end(), pick[static_cast<size_t>(i)] + 1);
  }
  return from_host(all.data(), {count, r}, DType::Int64, device);
}

Tensor combinations(const Tensor& t, int64_t r, bool with_replacement) {
  const char* op = "combinations";
  ops::check_defined(t, op);
  PF_CHECK(t->shape.size() == 1 && r >= 0, ValueError, op, "got shape ", t->shape, " and r ", r,
           "; expected one dimension and r of at least 0; ravel it");
  const Device device = t->device();
  if (r == 0) return make_tensor({0}, t->dtype, device);
  if (r == 2) {
    const int64_t n = t->numel, diagonal = with_replacement ? 0 : 1;
    const Tensor pairs = ops::triangle_indices(n, n, diagonal, true, DType::Int64, device);
    return index(t, {contiguous(transpose(pairs, 0, 1))});
  }
  // Without replacement the k-th of a row is at least k: what is left ascends as with it.
  const int64_t n = with_replacement ? t->numel : std::max<int64_t>(t->numel - r + 1, 0);
  const int64_t count = choices(n, r);
  checked_numel({count, r}, op);
  // A few are copied sooner than many kernels run: as many as the square of r.
  if (t->storage->device.is_cpu() || count * r <= 4096 || r > 16)
    return index(t, {ascending_rows_of_host(n, r, count, !with_replacement, t->storage->device)});
  TensorList columns = ascending_rows(n, r, device);
  for (int64_t k = 1; k < r && !with_replacement; ++k) {
    Tensor& c = columns[static_cast<size_t>(k)];
    c = add(c, Scalar(k));
  }
  return index(t, {stack(columns, 1)});
}

}  // namespace

namespace ops {
namespace {

const Family kCombinations("combinations", [](Family& f) {
  f.op(&cartesian_prod, {"cartesian_prod(Tensor[] tensors) -> Tensor",
                         "Rows with one element of each 1-D tensor, in all ways.", kFunction});
  f.op(&combinations, {"combinations(Tensor input, int r=2, bool with_replacement=False) -> Tensor",
                       "Rows of r elements, in all ways, in order."});
});

}  // namespace
}  // namespace ops

}  // namespace pyflame
