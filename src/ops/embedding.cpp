// Rows of a table by their numbers, and bags of them: sums, means and maxima.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "ops/building_blocks.h"
#include "ops/functions.h"
#include "ops/index.h"
#include "ops/registry.h"
#include "ops/rows.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

// The rows of x, or its elements, added up by their numbers below `count`.
Tensor sums_of(const Tensor& x, const Tensor& number, int64_t count) {
  Dims shape = x->shape;
  shape[0] = count;
  TensorList index(static_cast<size_t>(x->shape.size()));
  index[0] = number;
  return ops::index_backward(x, index, shape, INT64_MIN);
}

// How often each of the numbers is among them, in `type`.
Tensor counts_among(const Tensor& index, int64_t rows, DType type) {
  const NoGrad off;
  const Tensor flat = reshape(index, {-1});
  const Tensor once = ops::raw_full(flat->shape, DType::Int64, flat->storage->device, 1);
  const Tensor counts = index_select(sums_of(once, flat, rows), 0, flat);
  return reshape(to(counts, type), index->shape.vec());
}

// `skip`: a row without gradient; INT64_MIN for none.
Tensor embedding_of(const Tensor& index, const Tensor& weight, int64_t skip, bool by_count) {
  Tensor out;
  {
    NoGrad off;
    out = ops::index_read(weight, {index, Tensor()}, "embedding", false);
  }
  if (autograd::wanted({weight}))
    autograd::attach("embedding", {out}, {weight}, {Saved(index)},
                     [skip, by_count, shape = weight->shape](const Context& c) -> Grads {
                       if (!c.grad().defined()) return Grads(1);
                       Tensor g = c.grad();
                       const Tensor index = c.saved(0);
                       if (by_count)
                         g = div(g, unsqueeze(counts_among(index, shape[0], g->dtype), -1));
                       return {ops::index_backward(g, {index, Tensor()}, shape, skip)};
                     });
  return out;
}

// None for no padding row, negative rows from the end.
int64_t padding_row(std::optional<int64_t> padding_idx, const Tensor& weight, const char* op) {
  if (!padding_idx) return INT64_MIN;
  ops::check_defined(weight, op);
  const int64_t rows = weight->shape.empty() ? 0 : weight->shape[0];
  const int64_t pad = *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
  PF_CHECK(pad >= 0 && pad < rows, ValueError, op, "got padding_idx ", *padding_idx, " for shape ",
           weight->shape, "; expected one of its rows; correct it");
  return pad;
}

Tensor checked_index(const Tensor& input, const Tensor& weight, const char* op) {
  ops::check_defined(weight, op);
  Tensor index = ops::as_index(input, op);
  ops::check_same_device(index, weight, op);
  PF_CHECK(weight->shape.size() == 2, ShapeError, op, "got weights of shape ", weight->shape,
           "; expected [number of rows, width]; reshape them");
  ops::check_not_empty(weight, 0, index, op);
  return index;
}

Tensor py_embedding(const Tensor& input, const Tensor& weight, std::optional<int64_t> padding_idx,
                    bool scale_grad_by_freq) {
  const Tensor index = checked_index(input, weight, "embedding");
  return embedding_of(index, weight, padding_row(padding_idx, weight, "embedding"),
                      scale_grad_by_freq);
}

// torch.embedding: the table first, a negative padding_idx for none.
Tensor embedding_old(const Tensor& weight, const Tensor& indices, int64_t padding_idx,
                     bool scale_grad_by_freq, bool sparse) {
  PF_CHECK(!sparse, NotSupportedError, "embedding",
           "got sparse=True; gradients are dense; pass False");
  return py_embedding(indices, weight,
                      padding_idx < 0 ? std::nullopt : std::optional<int64_t>(padding_idx),
                      scale_grad_by_freq);
}

Tensor embedding_renorm_(Tensor weight, const Tensor& indices, double max_norm, double norm_type) {
  const char* op = "embedding_renorm_";
  const NoGrad off;
  const Tensor flat = reshape(checked_index(indices, weight, op), {-1});
  ops::check_floating(weight, op, "weight");
  if (flat->numel == 0) return weight;
  const Tensor rows = index_select(weight, 0, flat);
  const Tensor norms = norm(rows, norm_type, IntList{1}, true);
  const Tensor scale = where(gt(norms, Scalar(max_norm)),
                             rdiv(add(norms, Scalar(1e-7)), Scalar(max_norm)), Scalar(1.0));
  ops::run_scatter(weight, 0, expand(unsqueeze(flat, 1), rows->shape.vec()), mul(rows, scale),
                   ops::kAssign, op);
  return weight;
}

// ---- bags ---------------------------------------------------------------------------------------

// The bag of each of `count` indices, from where the bags begin.
Tensor bags_of(const Tensor& offsets, int64_t count) {
  const Tensor one = ops::raw_full(offsets->shape, DType::Int64, offsets->storage->device, 1);
  return sub(cumsum(slice(sums_of(one, offsets, count + 1), 0, 0, count), 0), Scalar(1));
}

// Bags as rows of the longest: places [bags, longest] of their indices, and which of these there
// are.
struct Rows {
  Tensor place, there;
};
Rows rows_of(const Tensor& offsets, int64_t count) {
  const Device device = offsets->storage->device;
  const int64_t bags = offsets->shape[0];
  const Tensor end = ops::raw_full({1}, DType::Int64, device, count);
  const Tensor ends = bags > 0 ? cat({slice(offsets, 0, 1, bags), end}) : end;
  const Tensor lengths = sub(bags > 0 ? ends : slice(ends, 0, 0, 0), offsets);
  const int64_t longest = bags > 0 ? std::max<int64_t>(max(lengths).item().to_int(), 0) : 0;
  const Tensor step = arange(0, longest, 1, DType::Int64, device);
  const Tensor there = lt(step, unsqueeze(lengths, 1));
  return {where(there, add(unsqueeze(offsets, 1), step), Scalar(0)), there};
}

}  // namespace

Tensor embedding(const Tensor& input, const Tensor& weight, int64_t padding_idx) {
  const Tensor index = checked_index(input, weight, "embedding");
  PF_CHECK(padding_idx < weight->shape[0], ValueError, "embedding", "got padding_idx ", padding_idx,
           " for ", weight->shape[0], " rows; expected less; correct it");
  return embedding_of(index, weight, padding_idx < 0 ? INT64_MIN : padding_idx, false);
}

Tensor embedding_bag(const Tensor& input, const Tensor& weight, const Tensor& given,
                     const std::string& mode, const Tensor& per_sample_weights,
                     bool include_last_offset, std::optional<int64_t> padding_idx,
                     bool scale_grad_by_freq) {
  const char* op = "embedding_bag";
  Tensor index = checked_index(input, weight, op);
  ops::check_floating(weight, op, "weight");
  const bool mean = mode == "mean", most = mode == "max";
  PF_CHECK(mean || most || mode == "sum", ValueError, op, "got mode '", mode,
           "'; expected 'sum', 'mean' or 'max'");
  const int n = index->shape.size();
  PF_CHECK(n == 1 || n == 2, ShapeError, op, "got input of shape ", index->shape,
           "; expected [bags, indices], or all indices and offsets; reshape it");
  PF_CHECK(given.defined() == (n == 1), ValueError, op, "got input of shape ", index->shape,
           given.defined() ? " and offsets" : " and no offsets",
           "; expected offsets for input of one dimension, and only for that");
  const Tensor factors = per_sample_weights;
  if (factors.defined()) {
    PF_CHECK(mode == "sum", NotSupportedError, op, "got per_sample_weights with mode '", mode,
             "'; expected mode 'sum'");
    PF_CHECK(factors->shape == index->shape, ShapeError, op, "got per_sample_weights of shape ",
             factors->shape, " for input of shape ", index->shape, "; expected one shape");
    PF_CHECK(factors->dtype == weight->dtype, DTypeError, op, "got per_sample_weights of dtype ",
             factors->dtype, " for weights of dtype ", weight->dtype, "; expected one dtype");
  }
  const int64_t pad = padding_row(padding_idx, weight, op);
  const auto rows = [&](const Tensor& at) {
    return embedding_of(at, weight, pad, scale_grad_by_freq);
  };
  const auto counts_of = [&](const Tensor& there) { return clamp(there, Scalar(1.0), {}); };
  const DType type = weight->dtype;

  Tensor there;  // which indices count; undefined: all
  if (pad != INT64_MIN) there = ne(index, Scalar(pad));
  Tensor offsets;
  if (n == 1) {
    offsets = ops::as_index(given, op);
    ops::check_same_device(offsets, index, op);
    PF_CHECK(offsets->shape.size() == 1, ShapeError, op, "got offsets of shape ", offsets->shape,
             "; expected one dimension; reshape them");
    if (offsets->storage->device.is_cpu() && offsets->numel > 0) {
      const int64_t first = select(offsets, 0, 0).item().to_int(),
                    last = select(offsets, 0, -1).item().to_int();
      PF_CHECK(first == 0 && last <= index->numel, ValueError, op, "got offsets from ", first,
               " to ", last, " for ", index->numel,
               " indices; expected the first to be 0 and none behind the end");
    }
    if (include_last_offset) {
      PF_CHECK(offsets->numel > 0, ValueError, op,
               "got no offsets with include_last_offset; expected one more than there are bags");
      index = slice(index, 0, 0, select(offsets, 0, -1).item().to_int());
      if (there.defined()) there = slice(there, 0, 0, index->numel);
      offsets = slice(offsets, 0, 0, offsets->numel - 1);
    }
  }
  if (n == 1 && !most) {
    const int64_t bags = offsets->numel;
    const Tensor bag = bags_of(offsets, index->numel);
    Tensor x = rows(index);
    if (factors.defined()) x = mul(x, unsqueeze(slice(factors, 0, 0, index->numel), 1));
    if (there.defined()) x = where(unsqueeze(there, 1), x, Scalar(0.0));
    const Device device = index->storage->device;
    const Tensor sums = sums_of(x, bag, bags);
    if (!mean) return sums;
    const Tensor one =
        there.defined() ? to(there, type) : ops::raw_full({index->numel}, type, device, 1);
    return div(sums, unsqueeze(counts_of(sums_of(one, bag, bags)), 1));
  }
  if (n == 1) {  // the largest: as rows
    const Rows r = rows_of(offsets, index->numel);
    const Tensor flat = reshape(r.place, {-1});
    const auto take = [&](const Tensor& t) {
      return reshape(index_select(t, 0, flat), r.place->shape.vec());
    };
    if (index->numel == 0)
      return add(ops::raw_full({offsets->numel, weight->shape[1]}, type, index->storage->device, 0),
                 Scalar(0.0));
    there = there.defined() ? logical_and(r.there, take(there)) : r.there;
    index = take(index);
  }
  Tensor x = rows(index);  // [bags, longest, width]
  if (factors.defined()) x = mul(x, unsqueeze(factors, 2));
  if (most) {
    if (index->shape[1] == 0)
      return ops::raw_full({index->shape[0], weight->shape[1]}, type, index->storage->device, 0);
    if (!there.defined()) return max(x, 1).first;
    const Tensor value = max(where(unsqueeze(there, 2), x, Scalar(-INFINITY)), 1).first;
    return where(unsqueeze(any(there, IntList{1}), 1), value, Scalar(0.0));
  }
  if (there.defined()) x = where(unsqueeze(there, 2), x, Scalar(0.0));
  const Tensor sums = sum(x, IntList{1});
  if (!mean) return sums;
  if (!there.defined())
    return div(sums, Scalar(static_cast<double>(std::max<int64_t>(index->shape[1], 1))));
  return div(sums, unsqueeze(counts_of(sum(to(there, type), IntList{1})), 1));
}

static const ops::Family kEmbedding("indexing", [](ops::Family& f) {
  using namespace ops;
  f.op(&py_embedding,
       {"embedding(Tensor input, Tensor weight, int? padding_idx=None, bool "
        "scale_grad_by_freq=False) -> Tensor",
        "Rows of a table: weight[input]. The row padding_idx gets no gradient; with "
        "scale_grad_by_freq gradients of a row are divided by how often it is in the input.",
        kFunctional});
  f.op(&embedding_old, {"embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool "
                        "scale_grad_by_freq=False, bool sparse=False) -> Tensor",
                        "The same with the table first.", kFunction});
  f.op(
      &embedding_renorm_,
      {"embedding_renorm_(Tensor input, Tensor indices, float max_norm, float norm_type) -> Tensor",
       "Rows of a table, those in `indices`, scaled in place to at most max_norm.", kFunction,
       false});
  f.op(
      &embedding_bag,
      {"_embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, str mode='mean', Tensor? "
       "per_sample_weights=None, bool include_last_offset=False, int? padding_idx=None, bool "
       "scale_grad_by_freq=False) -> Tensor",
       "Sums, means or maxima of bags of rows.", kSpecial});
});

}  // namespace pyflame
