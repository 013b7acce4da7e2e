// Rows of a table by their numbers, and bags of them: sums, means and maxima.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/functions.h"
#include "ops/hidden.h"
#include "ops/index.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "ops/sparse.h"
#include "table/kernels/bags.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

using ops::sums_of;

// How often each of the numbers is among them, in `type`.
Tensor counts_among(const Tensor& index, int64_t rows, DType type) {
  const NoGrad off;
  const Tensor flat = reshape(index, {-1});
  const Tensor once = ops::raw_full(flat->shape, DType::Int64, flat->storage->device, 1);
  const Tensor counts = index_select(sums_of(once, flat, rows), 0, flat);
  return reshape(to(counts, type), index->shape.vec());
}

void check_sparse(bool sparse, bool by_count) {
  PF_CHECK(!sparse || !by_count, NotSupportedError, "embedding",
           "got scale_grad_by_freq with sparse=True; expected one of them; pass sparse=False");
}

// The gradient of the table. A sparse one cannot differ from sample to sample of a vmap.
Tensor rows_gradient(const Tensor& g, const Tensor& index, const Dims& shape, int64_t skip,
                     bool sparse) {
  if (sparse && !ops::hides({g, index})) return ops::picked_rows(g, index, shape, skip);
  return ops::index_backward(g, {index, Tensor()}, shape, skip);
}

// `skip`: a row without gradient; INT64_MIN for none. `sparse`: the gradient is.
Tensor embedding_of(const Tensor& index, const Tensor& weight, int64_t skip, bool by_count,
                    bool sparse = false) {
  check_sparse(sparse, by_count);
  Tensor out;
  {
    NoGrad off;
    out = ops::index_read(weight, {index, Tensor()}, "embedding", false);
  }
  if (autograd::wanted({weight}))
    autograd::attach("embedding", {out}, {weight}, {Saved(index)},
                     [skip, by_count, sparse, shape = weight->shape](const Context& c) -> Grads {
                       Tensor g = c.grad();
                       const Tensor index = c.saved(0);
                       if (by_count)
                         g = div(g, unsqueeze(counts_among(index, shape[0], g->dtype), -1));
                       // A table that is a layer's weight, too, has a gradient already.
                       const auto add = [&](const Tensor& sum) {
                         if (sum->dtype != g->dtype || ops::wide_type(g->dtype) != g->dtype ||
                             is_complex(g) || ops::hides({sum, g, index}))
                           return false;
                         ops::add_at_index(sum, g, {index, Tensor()}, skip);
                         return true;
                       };
                       if (!sparse && autograd::add_to_sum(c, 0, g->storage->device, add))
                         return Grads(1);
                       return {rows_gradient(g, index, shape, skip, sparse)};
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
  const Tensor index = checked_index(indices, weight, "embedding");
  const std::optional<int64_t> padding =
      padding_idx < 0 ? std::nullopt : std::optional<int64_t>(padding_idx);
  return embedding_of(index, weight, padding_row(padding, weight, "embedding"), scale_grad_by_freq,
                      sparse);
}

Tensor embedding_renorm_(Tensor weight, const Tensor& indices, double max_norm, double norm_type) {
  const char* op = "embedding_renorm_";
  const NoGrad off;
  const Tensor flat = reshape(checked_index(indices, weight, op), {-1});
  if (!is_complex(weight)) ops::check_floating(weight, op, "weight");
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

// The bag of each of `count` indices, from where the bags end.
Tensor bags_of(const Tensor& ends, int64_t count) {
  const Tensor one = ops::raw_full(ends->shape, DType::Int64, ends->storage->device, 1);
  return cumsum(slice(sums_of(one, ends, count + 1), 0, 0, count), 0);
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

// Sums of the rows `index` of `weight`, times `factors` if there are any, bag by bag.
Tensor bag_sums(const Tensor& index, const Tensor& weight, const Tensor& ends,
                const Tensor& factors, int64_t skip, bool by_count, bool sparse) {
  check_sparse(sparse, by_count);
  const Tensor out =
      make_tensor({ends->numel, weight->shape[1]}, weight->dtype, weight->storage->device);
  if (out->numel > 0)
    engine::call<kernels::BagSums>(
        {.out = out, .weight = weight, .index = index, .ends = ends, .factors = factors},
        {.skip = skip == INT64_MIN ? int64_t{-1} : skip}, {.op = "embedding_bag"});
  if (autograd::wanted({weight, factors})) {
    std::vector<Saved> saved{Saved(index), Saved(ends)};
    if (factors.defined()) {
      saved.emplace_back(factors);
      saved.emplace_back(weight);
    }
    autograd::attach("embedding_bag", {out}, {weight, factors}, std::move(saved),
                     [=, shape = weight->shape, weighted = factors.defined()](const Context& c) {
                       Grads r(2);
                       const Tensor index = c.saved(0);
                       const Tensor bag = bags_of(c.saved(1), index->numel);
                       Tensor g = index_select(contiguous(c.grad()), 0, bag);
                       if (c.needs(1)) {
                         const Tensor rows = embedding_of(index, c.saved(3), skip, by_count);
                         Tensor slope = sum(mul(g, rows), IntList{1});
                         if (skip != INT64_MIN)
                           slope = where(ne(index, Scalar(skip)), slope, Scalar(0.0));
                         r[1] = slope;
                       }
                       if (c.needs(0)) {
                         if (weighted) g = mul(g, unsqueeze(c.saved(2), 1));
                         if (by_count)
                           g = div(g, unsqueeze(counts_among(index, shape[0], g->dtype), 1));
                         r[0] = rows_gradient(g, index, shape, skip, sparse);
                       }
                       return r;
                     });
  }
  return out;
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
                     bool scale_grad_by_freq, bool sparse) {
  const char* op = "embedding_bag";
  PF_CHECK(!sparse || mode != "max", NotSupportedError, op,
           "got sparse=True with mode 'max'; expected mode 'sum' or 'mean'; pass sparse=False");
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
  const Device device = index->storage->device;
  if (!most) {
    const Tensor flat = reshape(index, {-1});
    const int64_t longest = n == 2 ? index->shape[1] : 0;
    const int64_t bags = n == 2 ? index->shape[0] : offsets->numel;
    Tensor ends;
    if (n == 2)
      ends = arange(longest, longest * (bags + 1), std::max<int64_t>(longest, 1), DType::Int64,
                    device);
    else if (bags > 0)
      ends =
          cat({slice(offsets, 0, 1, bags), ops::raw_full({1}, DType::Int64, device, flat->numel)});
    else
      ends = offsets;
    if (n == 2 && longest == 0) ends = ops::raw_full({bags}, DType::Int64, device, 0);
    const Tensor weights =
        factors.defined() ? slice(reshape(factors, {-1}), 0, 0, flat->numel) : Tensor();
    const Tensor sums = bag_sums(flat, weight, ends, weights, pad, scale_grad_by_freq, sparse);
    if (!mean) return sums;
    if (n == 2 && !there.defined())
      return div(sums, Scalar(static_cast<double>(std::max<int64_t>(longest, 1))));
    Tensor counts;
    {
      const NoGrad off;
      const Tensor begins =
          cat({ops::raw_full({std::min<int64_t>(bags, 1)}, DType::Int64, device, 0),
               slice(ends, 0, 0, std::max<int64_t>(bags - 1, 0))});
      counts = sub(ends, begins);
      if (there.defined() && flat->numel > 0) {
        const Tensor padded = to(logical_not(reshape(there, {-1})), DType::Int64);
        counts = sub(counts, sums_of(padded, bags_of(ends, flat->numel), bags));
      }
      counts = to(clamp(counts, Scalar(1), {}), type);
    }
    return div(sums, unsqueeze(counts, 1));
  }
  const auto nothing = [&](int64_t bags) {  // zeros with a history, for empty bags alone
    return add(ops::raw_full({bags, weight->shape[1]}, type, device, 0),
               sum(slice(weight, 0, 0, 0), IntList{0}));
  };
  if (n == 1) {  // the largest: as rows
    const Rows r = rows_of(offsets, index->numel);
    const Tensor flat = reshape(r.place, {-1});
    const auto take = [&](const Tensor& t) {
      return reshape(index_select(t, 0, flat), r.place->shape.vec());
    };
    if (index->numel == 0) return nothing(offsets->numel);
    there = there.defined() ? logical_and(r.there, take(there)) : r.there;
    index = take(index);
  }
  const Tensor x = embedding_of(index, weight, pad, scale_grad_by_freq);  // [bags, longest, width]
  if (index->shape[1] == 0) return nothing(index->shape[0]);
  if (!there.defined()) return max(x, 1).first;
  const Tensor value = max(where(unsqueeze(there, 2), x, Scalar(-INFINITY)), 1).first;
  return where(unsqueeze(any(there, IntList{1}), 1), value, Scalar(0.0));
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
                        "The same with the table first. With sparse its gradient is a sparse "
                        "tensor of the rows that were picked.",
                        kFunction});
  f.op(
      &embedding_renorm_,
      {"embedding_renorm_(Tensor input, Tensor indices, float max_norm, float norm_type) -> Tensor",
       "Rows of a table, those in `indices`, scaled in place to at most max_norm.", kFunction,
       false});
  f.op(&embedding_bag,
       {"embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, str mode='mean', Tensor? "
        "per_sample_weights=None, bool include_last_offset=False, int? padding_idx=None, bool "
        "scale_grad_by_freq=False, bool sparse=False) -> Tensor",
        "Sums, means or maxima of bags of rows.", kSpecial});
});

}  // namespace pyflame
