#include "ops/sparse.h"

#include <utility>

#include "ops/building_blocks.h"
#include "ops/index.h"
#include "ops/rows.h"
#include "table/kernels/index.h"
#include "table/kernels/sparse.h"

namespace pyflame {
namespace ops {

Tensor sums_of(const Tensor& x, const Tensor& number, int64_t count) {
  Dims shape = x->shape;
  shape[0] = count;
  TensorList index(static_cast<size_t>(x->shape.size()));
  index[0] = number;
  return index_backward(x, index, shape, INT64_MIN);
}

namespace {

template <class Kernel>
bool has(std::initializer_list<Tensor> operands) {
  return engine::has_kernel(engine::kernel<Kernel>(), runs_on(operands));
}
bool on_host(std::initializer_list<Tensor> operands) {
  return ops::on_host(runs_on(operands));
}

// Kernels read them as int64 side by side.
void check_numbers(const Tensor& t, int64_t least, const char* what) {
  PF_CHECK(t->dtype == DType::Int64 && t->shape.size() == 1 && t->numel >= least, ShapeError,
           "sparse", "got ", what, " of shape ", t->shape, " and dtype ", t->dtype,
           "; expected int64 in one dimension, ", least, " or more");
}

}  // namespace

Tensor row_numbers(const Tensor& starts, int64_t count) {
  check_numbers(starts, 1, "starts");
  if (starts->numel < 2 || count == 0)
    return raw_full({count}, DType::Int64, starts->storage->device, 0);
  if (has<kernels::SparseRowNumbers>({starts})) {
    Tensor out = make_tensor({count}, DType::Int64, starts->device());
    engine::call<kernels::SparseRowNumbers>({.out = out, .starts = starts}, {.op = "sparse"});
    return out;
  }
  const Tensor inner = slice(starts, 0, 1, starts->numel - 1);  // where rows but the first begin
  const Tensor one = raw_full(inner->shape, DType::Int64, inner->storage->device, 1);
  return cumsum(slice(sums_of(one, inner, count + 1), 0, 0, count), 0);
}

Tensor coordinates(const SparseParts& parts) {
  const Tensor &starts = parts.rows, &columns = parts.indices;
  if (!starts.defined()) return columns;
  if (starts->numel < 2 || columns->numel == 0 ||
      !has<kernels::SparseRowNumbers>({starts, columns}))
    return stack({row_numbers(starts, columns->numel), columns});
  Tensor out = make_tensor({2, columns->numel}, DType::Int64, columns->device());
  engine::call<kernels::SparseRowNumbers>({.out = out, .starts = starts, .columns = columns},
                                          {.op = "sparse"});
  return out;
}

Tensor dense_of(const Tensor& sparse) {
  const SparseParts& parts = *sparse_parts(sparse);
  const Tensor at = coordinates(parts);
  const auto dims = static_cast<int>(at->shape[0]);
  Tensor number;
  int64_t count = 1;
  for (int d = dims - 1; d >= 0; --d) {
    const Tensor i = select(at, 0, d);
    number = number.defined() ? add(number, mul(i, Scalar(count))) : i;
    count *= sparse->shape[d];
  }
  if (sparse->numel == 0)  // with the history of its values
    return add(raw_full(sparse->shape, sparse->dtype, sparse->device(), 0),
               to(sum(parts.values), sparse->dtype));
  // On the host sums are as quick.
  if (parts.coalesced && !autograd::wanted({parts.values}) && !on_host({number, parts.values}) &&
      has<kernels::SparsePlaces>({number, parts.values})) {
    const Tensor rows = reshape(parts.values, {number->numel, sparse->numel / count});
    Tensor out = make_tensor(sparse->shape, sparse->dtype, sparse->device());
    engine::call<kernels::SparsePlaces>(
        {.out = reshape(out, {count, rows->shape[1]}), .places = number, .values = rows},
        {.op = "to_dense", .takes = engine::Takes::Bytes});
    return out;
  }
  return reshape(sums_of(parts.values, number, count), sparse->shape.vec());
}

Tensor picked_rows(const Tensor& g, const Tensor& index, const Dims& shape, int64_t skip) {
  // Of its own: a gradient that was expanded is many times the same element.
  Tensor values = contiguous(reshape(g, {index->numel, shape[1]}));
  Tensor rows = reshape(index, {index->numel});
  if (skip != INT64_MIN) {
    const Tensor kept = reshape(nonzero(ne(rows, Scalar(skip))), {-1});
    values = index_select(values, 0, kept);
    rows = index_select(rows, 0, kept);
  }
  return make_sparse(shape, {.indices = unsqueeze(rows, 0), .rows = {}, .values = values});
}

namespace {

bool narrow(DType type) {
  return type == DType::Float16 || type == DType::BFloat16;
}
// Where there are kernels for it, else float16 and bfloat16 go by float32 and all else is composed.
template <class Kernel>
bool by_kernel(std::initializer_list<Tensor> operands, DType type) {
  return (type == DType::Float32 || type == DType::Float64 ||
          (narrow(type) && !on_host(operands))) &&
         has<Kernel>(operands);
}

void check_factors(const Tensor& t, const Tensor& dense, int64_t dims, const char* what) {
  PF_CHECK(t->dtype == dense->dtype && t->shape.size() == dims, DTypeError, "sparse", "got ", what,
           " of shape ", t->shape, " and dtype ", t->dtype, "; expected ", dims, " dimensions of ",
           dense->dtype);
}

}  // namespace

Tensor sparse_product(const Tensor& starts, const Tensor& columns, const Tensor& values,
                      const Tensor& order, const Tensor& dense) {
  const NoGrad off;
  const DType type = dense->dtype;
  check_numbers(starts, 1, "starts");
  check_numbers(columns, 0, "columns");
  if (order.defined()) check_numbers(order, columns->numel, "an order");
  if (values.defined()) {
    check_factors(values, dense, 1, "values");
    PF_CHECK(order.defined() || values->numel == columns->numel, ShapeError, "sparse", "got ",
             values->numel, " values and ", columns->numel, " columns; expected as many");
  }
  check_factors(dense, dense, 2, "a dense operand");
  if (narrow(type) && !by_kernel<kernels::SparseRows>({columns, dense}, type)) {
    const Tensor wide = values.defined() ? to(values, DType::Float32) : values;
    return to(sparse_product(starts, columns, wide, order, to(dense, DType::Float32)), type);
  }
  const int64_t rows = starts->numel - 1, width = dense->shape[1];
  if (rows == 0 || width == 0 || columns->numel == 0)
    return raw_full({rows, width}, type, dense->device(), 0);
  if (by_kernel<kernels::SparseRows>({columns, dense}, type)) {
    Tensor out = make_tensor({rows, width}, type, dense->device());
    engine::call<kernels::SparseRows>({.out = out,
                                       .starts = starts,
                                       .columns = columns,
                                       .values = values,
                                       .order = order,
                                       .x = dense},
                                      {.op = "sparse.mm"});
    return out;
  }
  Tensor picked = index_select(dense, 0, columns);
  if (values.defined())
    picked = mul(picked, unsqueeze(order.defined() ? index_select(values, 0, order) : values, 1));
  return sums_of(picked, row_numbers(starts, columns->numel), rows);
}

Tensor sparse_dots(const Tensor& starts, const Tensor& columns, const Tensor& a, const Tensor& b) {
  const NoGrad off;
  const DType type = b->dtype;
  check_numbers(starts, 1, "starts");
  check_numbers(columns, 0, "columns");
  check_factors(b, b, 2, "a dense operand");
  check_factors(a, b, 2, "a dense operand");
  PF_CHECK(a->shape[0] == starts->numel - 1 && a->shape[1] == b->shape[1], ShapeError, "sparse",
           "got operands of shapes ", a->shape, " and ", b->shape, " for ", starts->numel - 1,
           " rows; expected as many rows in the first, and one width");
  if (narrow(type) && !by_kernel<kernels::SparseDots>({columns, b}, type))
    return to(sparse_dots(starts, columns, to(a, DType::Float32), to(b, DType::Float32)), type);
  const int64_t n = columns->numel;
  if (n == 0 || b->shape[1] == 0) return raw_full({n}, type, b->device(), 0);
  if (by_kernel<kernels::SparseDots>({columns, b}, type)) {
    Tensor out = make_tensor({n}, type, b->device());
    engine::call<kernels::SparseDots>(
        {.out = out, .starts = starts, .columns = columns, .a = a, .b = b}, {.op = "sparse.mm"});
    return out;
  }
  const Tensor rows = row_numbers(starts, n);
  return sum(mul(index_select(a, 0, rows), index_select(b, 0, columns)), IntList{1});
}

Tensor row_starts(const Tensor& rows, int64_t count) {
  const NoGrad off;
  // To count is as quick as to search, but where it takes a sort.
  if (on_host({rows})) return sparse_order(rows, count).first;
  check_numbers(rows, 0, "numbers of rows");
  Tensor starts = make_tensor({count + 1}, DType::Int64, rows->device());
  const Tensor each = arange(Scalar(int64_t{0}), Scalar(count + 1), Scalar(int64_t{1}),
                             DType::Int64, rows->device());
  engine::call<kernels::Searchsorted>({starts, each, rows}, {0}, {.op = "sparse"});
  return starts;
}

std::pair<Tensor, Tensor> sparse_order(const Tensor& keys, int64_t count) {
  const NoGrad off;
  const Device device = keys->device();
  check_numbers(keys, 0, "keys");
  PF_CHECK(count >= 0, ValueError, "sparse", "got the count ", count, "; expected 0 or more");
  if (has<kernels::SparseOrder>({keys})) {
    Tensor starts = make_tensor({count + 1}, DType::Int64, device);
    Tensor order = make_tensor(keys->shape, DType::Int64, device);
    engine::call<kernels::SparseOrder>({.starts = starts, .order = order, .keys = keys},
                                       {.op = "sparse"});
    return {starts, order};
  }
  const Tensor one = raw_full(keys->shape, DType::Int64, keys->storage->device, 1);
  const Tensor counts = sums_of(one, add(keys, Scalar(int64_t{1})), count + 1);
  return {cumsum(counts, 0), argsort(keys, 0)};
}

}  // namespace ops

}  // namespace pyflame
