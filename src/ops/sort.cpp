// Sorting and its kin. NaN counts as larger than every number; equals keep their order.

#include "table/kernels/sort.h"
#include "ops/building_blocks.h"
#include "ops/registry.h"
#include "ops/rows.h"

namespace pyflame {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

namespace {

void check_sortable(const Tensor& t, const char* op) {
  ops::check_defined(t, op);
  PF_CHECK(!ops::has_no_arithmetic(t->dtype), DTypeError, op, "got dtype ", t->dtype,
           "; expected a dtype with an order; convert with .to(dtype)");
}

// Values picked from `t` along `d`: their gradient goes back to where they were.
void attach_pick(const char* op, const Tensor& values, const Tensor& indices, const Tensor& t,
                 int d) {
  if (!autograd::wanted({t})) return;
  autograd::attach(op, {values}, {t}, {Saved(indices)},
                   [d, shape = t->shape](const Context& c) -> Grads {
                     return {ops::gather_backward(c.grad(), d, c.saved(0), shape)};
                   });
}

std::pair<Tensor, Tensor> scalar_result(const Tensor& t) {
  return {clone(t), ops::raw_full({}, DType::Int64, t->storage->device, 0)};
}

}  // namespace

std::pair<Tensor, Tensor> sort(const Tensor& t, int64_t dim, bool descending, bool) {
  check_sortable(t, "sort");
  if (ops::is_wide_unsigned(t))
    return ops::in_order(t, [&](const Tensor& x) { return sort(x, dim, descending, true); });
  const int d = wrap_dim(dim, t->shape.size(), "sort");
  if (t->shape.empty()) return scalar_result(t);
  Tensor values = make_tensor(t->shape, t->dtype, t->storage->device);
  Tensor indices = make_tensor(t->shape, DType::Int64, t->storage->device);
  if (t->numel > 0)
    engine::call<kernels::Sort>({values, indices, t}, {.dim = d, .descending = descending});
  attach_pick("sort", values, indices, t, d);
  return {values, indices};
}

Tensor argsort(const Tensor& t, int64_t dim, bool descending) {
  ops::check_defined(t, "argsort");
  return sort(t.detach(), dim, descending, true).second;
}

std::pair<Tensor, Tensor> topk(const Tensor& t, int64_t k, int64_t dim, bool largest, bool) {
  check_sortable(t, "topk");
  if (ops::is_wide_unsigned(t))
    return ops::in_order(t, [&](const Tensor& x) { return topk(x, k, dim, largest, true); });
  const int d = wrap_dim(dim, t->shape.size(), "topk");
  const int64_t n = t->shape.empty() ? 1 : t->shape[d];
  PF_CHECK(k >= 0 && k <= n, ValueError, "topk", "got k ", k, " for dimension ", d, " of shape ",
           t->shape, "; expected 0 <= k <= ", n, "; ask for fewer");
  if (t->shape.empty()) {
    if (k == 1) return scalar_result(t);
    return topk(reshape(t, {1}), k, 0, largest, true);
  }
  Dims shape = t->shape;
  shape[d] = k;
  Tensor values = make_tensor(shape, t->dtype, t->storage->device);
  Tensor indices = make_tensor(shape, DType::Int64, t->storage->device);
  if (values->numel > 0)
    engine::call<kernels::TopK>({values, indices, t}, {.dim = d, .largest = largest});
  attach_pick("topk", values, indices, t, d);
  return {values, indices};
}

Tensor ops::nth_index(const Tensor& t, int dim, Nth which, int64_t number) {
  Dims shape = t->shape;
  shape[dim] = 1;
  Tensor at = make_tensor(shape, DType::Int64, t->storage->device);
  if (at->numel > 0)
    engine::call<kernels::NthIndex>(
        {at, t}, {.dim = dim, .which = static_cast<int64_t>(which), .number = number});
  return at;
}

static std::pair<Tensor, Tensor> kthvalue(const Tensor& t, int64_t k, int64_t dim, bool keepdim) {
  check_sortable(t, "kthvalue");
  if (ops::is_wide_unsigned(t))
    return ops::in_order(t, [&](const Tensor& x) { return kthvalue(x, k, dim, keepdim); });
  const int d = wrap_dim(dim, t->shape.size(), "kthvalue");
  const int64_t n = t->shape.empty() ? 1 : t->shape[d];
  PF_CHECK(n > 0, IndexError, "kthvalue", "got shape ", t->shape, " and dim ", dim,
           "; expected at least one element along it; check the sizes first");
  PF_CHECK(k >= 1 && k <= n, ValueError, "kthvalue", "got k ", k, " for dimension ", d,
           " of shape ", t->shape, "; expected 1 <= k <= ", n, "; correct it");
  if (t->shape.empty()) return scalar_result(t);
  const Tensor at = ops::nth_index(t, d, ops::Nth::Smallest, k - 1);
  const Tensor value = gather(t, d, at);
  if (keepdim) return {value, at};
  return {squeeze(value, d), squeeze(at, d)};
}

static Tensor msort(const Tensor& t) {
  return sort(t, 0, false, true).first;
}

// ---- unique -------------------------------------------------------------------------------------

namespace {

// Values, inverse in the shape of `t`, counts.
TensorList unique_of(const Tensor& t, bool sorted_first) {
  const Device device = t->storage->device;
  Tensor flat = contiguous(reshape(t.detach(), {-1})), order;
  if (sorted_first && flat->numel > 0) std::tie(flat, order) = sort(flat, 0, false, true);
  int64_t count = 0;
  Tensor groups = make_tensor({flat->numel}, DType::Int64, device);
  if (flat->numel > 0) {
    Tensor found = make_tensor({1}, DType::Int64, device);
    engine::call<kernels::GroupEqual>({groups, found, flat});
    count = found.item<int64_t>();
  }
  Tensor values = make_tensor({count}, t->dtype, device);
  Tensor inverse = make_tensor(t->shape, DType::Int64, device);
  Tensor counts = make_tensor({count}, DType::Int64, device);
  if (count > 0) engine::call<kernels::Unique>({values, inverse, counts, flat, order, groups});
  return {values, inverse, counts};
}

// The different slices of a dimension in lexicographic order, or those unlike the one before.
TensorList unique_slices(const Tensor& t, int d, bool sorted_first, const char* op) {
  const int64_t n = t->shape[d], width = n ? t->numel / n : 0;
  const Device device = t->storage->device;
  if (n == 0) {
    Tensor none = make_tensor({0}, DType::Int64, device);
    return {clone(t.detach()), none, none};
  }
  PF_CHECK(width > 0, ValueError, op, "got shape ", t->shape, " and dim ", d,
           "; expected no other size to be 0; leave dim out");
  IntList front{d}, back;
  for (int i = 0; i < t->shape.size(); ++i)
    if (i != d) front.push_back(i);
  for (int i = 0; i < t->shape.size(); ++i) back.push_back(i < d ? i + 1 : i == d ? 0 : i);
  Tensor moved = contiguous(permute(t.detach(), front));
  Tensor rows = reshape(moved, {n, width}), order = arange(0, n, 1, DType::Int64, device);
  for (int64_t c = width - 1; sorted_first && c >= 0;
       --c)  // stable sorts from the last column to the first
    order = index_select(order, 0, argsort(index_select(select(rows, 1, c), 0, order), 0));
  Tensor sorted = index_select(rows, 0, order);
  Tensor first = ops::raw_full({1}, DType::Bool, device, 1);
  if (n > 1)
    first = cat({first, any(ne(slice(sorted, 0, 1, n), slice(sorted, 0, 0, n - 1)), IntList{1})});
  Tensor groups = sub(cumsum(first, 0), Scalar(1));
  Tensor picked = reshape(nonzero(first), {-1});
  Dims shape = moved->shape;
  shape[0] = picked->numel;
  Tensor values = reshape(index_select(sorted, 0, picked), shape.vec());
  Tensor counts = scatter_add(ops::raw_full({picked->numel}, DType::Int64, device, 0), 0, groups,
                              ops::raw_full({n}, DType::Int64, device, 1));
  return {contiguous(permute(values, back)), scatter(zeros_like(order), 0, order, groups), counts};
}

// PyTorch's result depends on what is asked for: a tensor, or a tuple.
ops::Value chosen(const TensorList& all, bool inverse, bool counts) {
  if (!inverse && !counts) return all[0];
  TensorList out{all[0]};
  if (inverse) out.push_back(all[1]);
  if (counts) out.push_back(all[2]);
  return out;
}

ops::Value unique_along(const Tensor& t, bool sorted_first, bool inverse, bool counts,
                        std::optional<int64_t> dim, const char* op) {
  check_sortable(t, op);
  const int n = t->shape.size(), d = wrap_dim(dim.value_or(0), n, op);
  PF_CHECK(!dim || n > 0, IndexError, op, "got dim ", *dim,
           " of a 0-d tensor; it has none; leave dim out");
  const Tensor x = ops::ordered(t);
  TensorList all =
      dim && n > 1 ? unique_slices(x, d, sorted_first, op) : unique_of(x, sorted_first);
  if (ops::is_wide_unsigned(t)) all[0] = ops::from_ordered(all[0], t->dtype);
  return chosen(all, inverse, counts);
}

ops::Value unique(const Tensor& t, bool, bool return_inverse, bool return_counts,
                  std::optional<int64_t> dim) {
  return unique_along(t, true, return_inverse, return_counts, dim, "unique");
}

ops::Value unique_consecutive(const Tensor& t, bool return_inverse, bool return_counts,
                              std::optional<int64_t> dim) {
  return unique_along(t, false, return_inverse, return_counts, dim, "unique_consecutive");
}

}  // namespace

namespace ops {
namespace {

const Family kSorting("sorting", [](Family& f) {
  f.op(&pyflame::sort,
       {"sort(Tensor input, int dim=-1, bool descending=False, bool stable=True) -> (Tensor "
        "values, Tensor indices)",
        "Values in order along a dimension, and where they were. Always stable; NaN counts as the "
        "largest."});
  f.op(+[](const Tensor& t, int64_t dim, bool descending,
           bool) { return argsort(t, dim, descending); },
       {"argsort(Tensor input, int dim=-1, bool descending=False, bool stable=True) -> Tensor",
        "The indices that sort a dimension. Always stable.", kFunction | kMethod, false});
  f.op(&topk, {"topk(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True) -> "
               "(Tensor values, Tensor indices)",
               "The k largest (or smallest) of a dimension, in order; the first of equals."});
  f.op(&kthvalue, {"kthvalue(Tensor input, int k, int dim=-1, bool keepdim=False) -> (Tensor "
                   "values, Tensor indices)",
                   "The k-th smallest of a dimension, counted from 1."});
  f.op(&msort, {"msort(Tensor input) -> Tensor", "Sorted along the first dimension."});
  f.op(&unique, {"unique(Tensor input, bool sorted=True, bool return_inverse=False, bool "
                 "return_counts=False, int? dim=None) -> Tensor | Tensor[]",
                 "The different elements (or the different slices of a dimension), sorted; with "
                 "return_inverse also the place of every "
                 "element among them, with return_counts how often each occurs. Waits for the "
                 "count.",
                 kFunction | kMethod, false});
  f.op(&unique_consecutive,
       {"unique_consecutive(Tensor input, bool return_inverse=False, bool return_counts=False, "
        "int? dim=None) -> Tensor | Tensor[]",
        "Without elements equal to the one before them, in the flattened tensor, or without such "
        "slices of a dimension.",
        kFunction | kMethod, false});
});

}  // namespace
}  // namespace ops

}  // namespace pyflame
