// How kernels run over all samples of a vmap at once: by table, from what their descriptors say of
// their tensors and numbers. What stands in none runs once for each sample.
#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/hidden.h"
#include "table/kernels/attention.h"
#include "table/kernels/cells.h"
#include "table/kernels/conv.h"
#include "table/kernels/create.h"
#include "table/kernels/distance.h"
#include "table/kernels/fft.h"
#include "table/kernels/grid_sample.h"
#include "table/kernels/index.h"
#include "table/kernels/linalg.h"
#include "table/kernels/matmul.h"
#include "table/kernels/move.h"
#include "table/kernels/norm.h"
#include "table/kernels/pool.h"
#include "table/kernels/random.h"
#include "table/kernels/reduce.h"
#include "table/kernels/resample.h"
#include "table/kernels/scan.h"
#include "table/kernels/softmax.h"
#include "table/kernels/sort.h"
#include "table/kernels/special.h"
#include "table/rows.h"

namespace pyflame::engine {
namespace {

using kernels::numbers;
using kernels::tensors;
using Tensors = std::vector<Tensor>;
using Numbers = std::vector<Scalar>;

Numbers copy_of(std::span<const Scalar> attrs) {
  return {attrs.begin(), attrs.end()};
}

Tensor copied(const Tensor& t) {
  const Tensor r = make_tensor_at(t->shape, t->dtype, t->device());
  call<kernels::Copy>({r, t}, {.takes = Takes::All});
  return r;
}

// ---- leading dimensions are nothing special -----------------------------------------------------

bool plainly(const HiddenCall& c) {
  c.run(c.show(c.outs), c.show(c.ins), c.attrs);
  return true;
}
// The same for kernels that look at the last dimension: a number has none.
bool by_rows(const HiddenCall& c) {
  return !c.ins[0]->shape.empty() && plainly(c);
}

// A number is a dimension.
template <int At>
bool by_dim(const HiddenCall& c) {
  Numbers n = copy_of(c.attrs);
  n[At] = n[At].to_int() + c.levels.size();
  c.run(c.show(c.outs), c.show(c.ins), n);
  return true;
}

// A number has a bit for each dimension.
template <int At>
bool by_mask(const HiddenCall& c) {
  Numbers n = copy_of(c.attrs);
  n[At] = n[At].to_int() << c.levels.size();
  c.run(c.show(c.outs), c.show(c.ins), n);
  return true;
}

// The kernel broadcasts what is read to the dimensions of the first result.
bool by_broadcast(const HiddenCall& c) {
  Tensors ins;
  for (const Tensor& t : c.ins)
    ins.push_back(t.defined() ? shown(t, c.levels, c.outs[0]->shape.size(), false) : Tensor());
  c.run(c.show(c.outs), ins, c.attrs);
  return true;
}

// ---- dense in an order of its own ---------------------------------------------------------------

// The samples one behind the other, each as it lies.
Tensor outermost(const Tensor& t, const Levels& levels) {
  if (!t.defined()) return t;
  const Tensor s = shown(t, levels, t->shape.size(), true);
  int64_t step = t->numel;
  bool lies = true;
  for (int i = levels.size() - 1; i >= 0; --i) {
    lies &= s->strides[i] == step || levels[i].size == 1;
    step *= levels[i].size;
  }
  if (lies) return s;
  Tensor r = make_tensor_at(s->shape, s->dtype, s->device());
  Dims strides = r->strides;
  for (int i = 0; i < t->shape.size(); ++i) strides[levels.size() + i] = t->strides[i];
  lay_out(*r.impl(), strides);
  call<kernels::Copy>({r, s}, {.takes = Takes::All});
  return r;
}

// A number counts what lies behind each other. Results are dense, for they have grown.
template <int At>
bool by_count(const HiddenCall& c) {
  Tensors ins;
  for (const Tensor& t : c.ins) ins.push_back(outermost(t, c.levels));
  Numbers n = copy_of(c.attrs);
  n[At] = n[At].to_int() * c.levels.samples();
  c.run(c.show(c.outs), ins, n);
  return true;
}

// The samples and the first dimension as one.
Tensor joined(const Tensor& t, const Levels& levels) {
  Tensor s = shown(t, levels, t->shape.size(), true);
  Dims shape = t->shape, strides;
  shape[0] *= levels.samples();
  // What is row-major in each sample must stay so: a kernel may count on it.
  if ((t->contiguous && !s->contiguous) || !view_strides(s->shape, s->strides, shape, &strides)) {
    s = copied(s);
    strides = contiguous_strides(shape);
  }
  return make_view(s, shape, strides, s->offset);
}

// The first dimension of all tensors is one of examples. Results are fresh, so they lie well.
bool by_first(const HiddenCall& c) {
  Tensors outs, ins;
  for (const Tensor& t : c.outs) outs.push_back(joined(t, c.levels));
  for (const Tensor& t : c.ins) ins.push_back(t.defined() ? joined(t, c.levels) : t);
  c.run(outs, ins, c.attrs);
  return true;
}

// Leading dimensions are a batch of matrices without gaps, also of those that are written in place.
bool by_matrices(const HiddenCall& c) {
  const Tensors there = c.show(c.outs);
  Tensors outs;
  for (const Tensor& t : there) outs.push_back(t.defined() && !t->contiguous ? copied(t) : t);
  c.run(outs, c.show(c.ins), c.attrs);
  for (size_t i = 0; i < outs.size(); ++i)
    if (outs[i].defined() && !(outs[i]->storage == there[i]->storage))
      call<kernels::Copy>({there[i], outs[i]}, {.inplace = 1, .takes = Takes::All});
  return true;
}

bool distances(const HiddenCall& c) {
  return c.attrs[numbers<kernels::Distances>.triangle].to_int() == 0 && by_first(c);
}

// Queries, keys, values, the mask and slopes broadcast to the results. What says where sequences
// begin is the same for all samples.
template <class Positions>
bool cut_differently(const HiddenCall& c, const Positions& at, int outputs) {
  for (const int i : {at.starts_q, at.starts_k, at.used_k, at.pages})
    if (is_hidden(c.ins[i - outputs])) return true;
  return false;
}
bool attention(const HiddenCall& c) {
  constexpr auto at = tensors<kernels::Sdpa>;
  constexpr int outputs = kernels::Sdpa::kInfo.outputs;
  if (cut_differently(c, at, outputs)) return false;
  Tensors ins(c.ins.begin(), c.ins.end());
  for (const int i : {at.q, at.k, at.v, at.mask, at.slopes})
    if (Tensor& t = ins[i - outputs]; t.defined())
      t = shown(t, c.levels, c.outs[0]->shape.size(), false);
  c.run(c.show(c.outs), ins, c.attrs);
  return true;
}
bool attention_backward(const HiddenCall& c) {
  constexpr auto at = tensors<kernels::SdpaBackward>;
  constexpr int outputs = kernels::SdpaBackward::kInfo.outputs;
  if (cut_differently(c, at, outputs) || c.outs[at.dmask].defined()) return false;
  Tensors ins(c.ins.begin(), c.ins.end());
  for (const int i : {at.q, at.k, at.v, at.mask, at.slopes})
    if (Tensor& t = ins[i - outputs]; t.defined())
      t = shown(t, c.levels, c.outs[0]->shape.size(), false);
  for (const int i : {at.out, at.lse, at.dout}) {
    Tensor& t = ins[i - outputs];
    t = shown(t, c.levels, t->shape.size(), true);
  }
  Tensor& lse = ins[at.lse - outputs];
  if (!lse->contiguous) lse = copied(lse);
  c.run(c.show(c.outs), ins, c.attrs);
  return true;
}

// ---- products -----------------------------------------------------------------------------------

// All but the last dimension as one, where it lies so.
bool as_matrix(const Tensor& t, Tensor* matrix) {
  const int64_t columns = t->shape.back();
  if (columns == 0) return false;
  const Dims shape{t->numel / columns, columns};
  Dims strides;
  if (!view_strides(t->shape, t->strides, shape, &strides)) return false;
  *matrix = make_view(t, shape, strides, t->offset);
  return true;
}

// What rows calculate in.
DType compute_of(DType t) {
  return is_float(t) && info(t).bits < 32 ? DType::Float32 : t;
}

void plus_into(const Tensor& dst, const Tensor& t) {
  const Operand operands[] = {dst, t};
  pointwise_into(table::op::add, dst, compute_of(dst->dtype), operands);
}
void times_into(const Tensor& dst, const Tensor& t) {
  const Operand operands[] = {dst, t};
  pointwise_into(table::op::mul, dst, compute_of(dst->dtype), operands);
}

bool matmul(const HiddenCall& c) {
  constexpr auto at = tensors<kernels::Matmul>;
  constexpr auto number = numbers<kernels::Matmul>;
  const Tensor &a = c.ins[at.a - 1], &b = c.ins[at.b - 1], &bias = c.ins[at.bias - 1];
  const int rank = std::max({a->shape.size(), b->shape.size(), c.outs[0]->shape.size()});
  const bool adds = is_hidden(bias);  // behind the product, which is rounded before
  Tensor out = shown(c.outs[0], c.levels, rank, true), x = shown(a, c.levels, rank, false),
         y = is_hidden(b) || b->shape.size() > 2 ? shown(b, c.levels, rank, false) : b;
  const Tensor all = out;
  Tensor rows, results;
  if (y->shape.size() == 2 && !c.attrs[number.a_transposed].to_int() && as_matrix(x, &rows) &&
      as_matrix(out, &results) && rows->shape[0] == results->shape[0]) {
    x = rows;
    out = results;
  }
  c.run({out}, {x, y, adds ? Tensor() : bias}, c.attrs);
  if (adds) plus_into(all, shown(bias, c.levels, rank, false));
  return true;
}

// ---- convolutions -------------------------------------------------------------------------------
// Samples that have weights of their own are groups of channels.

Dims front(const Dims& d, int64_t first, int64_t second) {
  Dims r = d;
  r[0] = first;
  r[1] = second;
  return r;
}

// [levels, N, C, space] as [N, levels C, space].
Tensor channels_joined(const Tensor& t, const Levels& levels) {
  const Tensor s = shown(t, levels, t->shape.size(), true);
  const int n = levels.size();
  Dims shape{t->shape[0]}, strides{t->strides[0]};
  for (int i = 0; i < s->shape.size(); ++i) {
    if (i == n) continue;
    shape.push_back(s->shape[i]);
    strides.push_back(s->strides[i]);
  }
  const Tensor r = copied(make_view(s, shape, strides, s->offset));
  const Dims joined = front(t->shape, t->shape[0], t->shape[1] * levels.samples());
  return make_view(r, joined, contiguous_strides(joined), 0);
}

// A result as [N, levels C, space], to be put where it belongs.
struct Apart {
  Tensor whole;
  Apart(const Tensor& like, const Levels& levels)
      : whole(make_tensor_at(front(like->shape, like->shape[0], like->shape[1] * levels.samples()),
                             like->dtype, like->device())) {}
  void put(const Tensor& out, const Levels& levels) const {
    const Tensor to = shown(out, levels, out->shape.size(), true);
    const int n = levels.size();
    Dims strides = contiguous_strides(whole->shape), from;
    int64_t step = out->shape[1] * strides[1];
    from = Dims::filled(to->shape.size(), 0);
    for (int i = n - 1; i >= 0; --i) {
      from[i] = step;
      step *= levels[i].size;
    }
    for (int i = 0; i < out->shape.size(); ++i) from[n + i] = strides[i];
    call<kernels::Copy>({to, make_view(whole, to->shape, from, 0)}, {.takes = Takes::All});
  }
};

template <int Groups>
Numbers grouped(const HiddenCall& c) {
  Numbers n = copy_of(c.attrs);
  n[Groups] = n[Groups].to_int() * c.levels.samples();
  return n;
}
constexpr int kGroups = numbers<kernels::Conv>.groups;

bool conv(const HiddenCall& c) {
  const Tensor &x = c.ins[0], &weight = c.ins[1], &bias = c.ins[2];
  if (!is_hidden(weight) && !is_hidden(bias)) {
    c.run({joined(c.outs[0], c.levels)}, {joined(x, c.levels), weight, bias}, c.attrs);
    return true;
  }
  const Apart y(c.outs[0], c.levels);
  c.run({y.whole},
        {channels_joined(x, c.levels), joined(weight, c.levels),
         bias.defined() ? joined(bias, c.levels) : Tensor()},
        grouped<kGroups>(c));
  y.put(c.outs[0], c.levels);
  return true;
}

bool conv_input(const HiddenCall& c) {
  const Tensor &dy = c.ins[0], &weight = c.ins[1];
  if (!is_hidden(weight)) {
    c.run({joined(c.outs[0], c.levels)}, {joined(dy, c.levels), weight}, c.attrs);
    return true;
  }
  const Apart dx(c.outs[0], c.levels);
  c.run({dx.whole}, {channels_joined(dy, c.levels), joined(weight, c.levels)}, grouped<kGroups>(c));
  dx.put(c.outs[0], c.levels);
  return true;
}

bool conv_weight(const HiddenCall& c) {
  c.run({joined(c.outs[0], c.levels)},
        {channels_joined(c.ins[0], c.levels), channels_joined(c.ins[1], c.levels)},
        grouped<kGroups>(c));
  return true;
}

// ---- norms over rows ----------------------------------------------------------------------------

bool row_norm(const HiddenCall& c) {
  constexpr auto at = tensors<kernels::LayerNorm>;
  Tensor weight = c.ins[at.weight - 3], bias = c.ins[at.bias - 3];
  const bool own = is_hidden(weight) || is_hidden(bias);  // then they come behind
  const Tensors outs = c.show(c.outs);
  c.run(outs,
        {shown(c.ins[0], c.levels, c.ins[0]->shape.size(), true), own ? Tensor() : weight,
         own ? Tensor() : bias},
        c.attrs);
  if (!own) return true;
  const int rank = c.outs[0]->shape.size();
  if (weight.defined()) times_into(outs[0], shown(weight, c.levels, rank, false));
  if (bias.defined()) plus_into(outs[0], shown(bias, c.levels, rank, false));
  return true;
}

// The gradient of x; those of weight and bias are one for each sample, and written in operations.
bool row_norm_backward(const HiddenCall& c) {
  constexpr auto at = tensors<kernels::LayerNormBackward>;
  if (c.outs[1].defined() || c.outs[2].defined()) return false;
  Tensors ins = c.show(c.ins);
  Tensor& weight = ins[at.weight - 3];
  if (is_hidden(c.ins[at.weight - 3])) {
    ins[0] = copied(ins[0]);
    times_into(ins[0], shown(c.ins[at.weight - 3], c.levels, c.ins[0]->shape.size(), false));
    weight = Tensor();
  } else {
    weight = c.ins[at.weight - 3];
  }
  c.run(c.show(c.outs), ins, c.attrs);
  return true;
}

// ---- indexing -----------------------------------------------------------------------------------

// Positions of a level along its dimension, in the shape of the indices.
Tensor positions(const Levels& levels, int at, const Dims& shape, Device device) {
  const Tensor row = make_tensor_at({levels[at].size}, DType::Int64, device);
  call<kernels::Arange>({row}, {.start = int64_t{0}, .step = int64_t{1}});
  Dims strides = Dims::filled(shape.size(), 0);
  strides[at] = 1;
  return make_view(row, shape, strides, 0);
}

// [levels, before, rest] as [before, levels, rest].
Tensor levels_behind(const Tensor& s, int levels, int64_t before) {
  Dims shape = s->shape, strides = s->strides;
  const int b = static_cast<int>(before);
  for (int i = 0; i < b; ++i) {
    shape[i] = s->shape[levels + i];
    strides[i] = s->strides[levels + i];
  }
  for (int i = 0; i < levels; ++i) {
    shape[b + i] = s->shape[i];
    strides[b + i] = s->strides[i];
  }
  return make_view(s, shape, strides, s->offset);
}

// Indices that differ: levels are indexed dimensions, too, each with its positions.
Tensors own_indices(const HiddenCall& c, std::span<const Tensor> given) {
  Dims shape;
  for (const Level& l : c.levels) shape.push_back(l.size);
  for (int64_t n : given[0]->shape) shape.push_back(n);
  Tensors r;
  for (int i = 0; i < c.levels.size(); ++i)
    r.push_back(positions(c.levels, i, shape, given[0]->storage->device));
  for (const Tensor& t : given) r.push_back(shown(t, c.levels, t->shape.size(), true));
  return r;
}

bool any_hidden(std::span<const Tensor> list) {
  return std::any_of(list.begin(), list.end(), [](const Tensor& t) { return is_hidden(t); });
}

bool index(const HiddenCall& c) {
  constexpr auto number = numbers<kernels::Index>;
  const std::span<const Tensor> indices = c.ins.subspan(1);
  const int levels = c.levels.size();
  const int64_t before = c.attrs[number.before].to_int();
  Numbers n = copy_of(c.attrs);
  const Tensor x = shown(c.ins[0], c.levels, c.ins[0]->shape.size(), true);
  const Tensor out = shown(c.outs[0], c.levels, c.outs[0]->shape.size(), true);
  Tensors ins;
  if (!any_hidden(indices)) {
    n[number.before] = before + levels;
    ins = {x};
    ins.insert(ins.end(), indices.begin(), indices.end());
    c.run({out}, ins, n);
    return true;
  }
  if (!is_hidden(c.ins[0]) && before == 0) {  // rows of one table
    ins = c.show(c.ins);
    ins[0] = c.ins[0];
    c.run({out}, ins, n);
    return true;
  }
  n[number.indexed] = n[number.indexed].to_int() + levels;
  ins = own_indices(c, indices);
  ins.insert(ins.begin(), levels_behind(x, levels, before));
  const Tensor to = levels_behind(out, levels, before);
  const Tensor fresh =
      before == 0 ? out : make_tensor_at(to->shape, to->dtype, out->storage->device);
  c.run({fresh}, ins, n);
  if (before) call<kernels::Copy>({to, fresh}, {.takes = Takes::All});
  return true;
}

bool index_put(const HiddenCall& c) {
  constexpr auto number = numbers<kernels::IndexPut>;
  const std::span<const Tensor> indices = c.ins.subspan(1);
  const int levels = c.levels.size();
  const int64_t before = c.attrs[number.before].to_int();
  Numbers n = copy_of(c.attrs);
  const Tensor x = shown(c.outs[0], c.levels, c.outs[0]->shape.size(), true);
  const Tensor values = shown(c.ins[0], c.levels, c.ins[0]->shape.size(), true);
  if (!any_hidden(indices)) {
    n[number.before] = before + levels;
    Tensors ins{values};
    ins.insert(ins.end(), indices.begin(), indices.end());
    c.run({x}, ins, n);
    return true;
  }
  n[number.indexed] = n[number.indexed].to_int() + levels;
  Tensors ins = own_indices(c, indices);
  ins.insert(ins.begin(), levels_behind(values, levels, before));
  c.run({levels_behind(x, levels, before)}, ins, n);
  return true;
}

// The places of a view: the levels' lie in the result as the result does.
bool scatter_view(const HiddenCall& c) {
  const Tensor out = shown(c.outs[0], c.levels, c.outs[0]->shape.size(), true);
  if (!out->contiguous) return false;
  Numbers n = copy_of(c.attrs);
  for (int i = 0; i < c.levels.size(); ++i)
    n.insert(n.begin() + numbers<kernels::ScatterView>.strides + i, Scalar(out->strides[i]));
  c.run({out}, c.show(c.ins), n);
  return true;
}

bool searchsorted(const HiddenCall& c) {
  constexpr auto at = tensors<kernels::Searchsorted>;
  const Tensor &values = c.ins[at.values - 1], &sorted = c.ins[at.sorted - 1];
  Tensors ins = c.show(c.ins);
  if (sorted->shape.size() == 1 && !is_hidden(sorted))
    ins[at.sorted - 1] = sorted;
  else if (sorted->shape.size() != values->shape.size())
    return false;
  Tensor& rows = ins[at.sorted - 1];
  if (!rows->contiguous) rows = copied(rows);
  c.run(c.show(c.outs), ins, c.attrs);
  return true;
}

// ---- the table ----------------------------------------------------------------------------------

using Rule = bool (*)(const HiddenCall&);

template <class K>
std::pair<std::string_view, Rule> row(Rule rule) {
  return {K::kInfo.name, rule};
}

const std::unordered_map<std::string_view, Rule>& rules() {
  using namespace kernels;
  static const auto* table = new std::unordered_map<std::string_view, Rule>{
      row<Softmax>(by_rows), row<LogSoftmax>(by_rows), row<SoftmaxBackward>(by_rows),
      row<LogSoftmaxBackward>(by_rows), row<Triangle>(plainly), row<OneHot>(plainly),
      row<Copy>(by_broadcast), row<Fill>(by_broadcast),
      // Random numbers differ from sample to sample: ops/random.cpp.
      row<Dropout>(plainly), row<Uniform>(plainly), row<Normal>(plainly), row<Exponential>(plainly),
      row<Randint>(plainly), row<FindExtreme>(by_dim<numbers<FindExtreme>.dim>),
      row<Cumsum>(by_dim<numbers<Cumsum>.dim>), row<Cumprod>(by_dim<numbers<Cumsum>.dim>),
      row<LogCumsumExp>(by_dim<numbers<Cumsum>.dim>),
      row<CumExtreme>(by_dim<numbers<CumExtreme>.dim>), row<Sort>(by_dim<numbers<Sort>.dim>),
      row<TopK>(by_dim<numbers<TopK>.dim>), row<NthIndex>(by_dim<numbers<NthIndex>.dim>),
      row<Gather>(by_dim<numbers<Gather>.dim>), row<Scatter>(by_dim<numbers<Scatter>.dim>),
      row<Cat>(by_dim<numbers<Cat>.dim>), row<Roll>(by_dim<numbers<Roll>.dim>),
      row<Sum>(by_mask<numbers<Sum>.dims>), row<SumInt>(by_mask<numbers<SumInt>.dims>),
      row<Prod>(by_mask<numbers<SumInt>.dims>), row<Amax>(by_mask<numbers<SumInt>.dims>),
      row<Amin>(by_mask<numbers<SumInt>.dims>), row<Any>(by_mask<numbers<SumInt>.dims>),
      row<All>(by_mask<numbers<SumInt>.dims>), row<CountNonzero>(by_mask<numbers<SumInt>.dims>),
      row<Flip>(by_mask<numbers<Flip>.dims>),
      row<CellMoments>(by_count<numbers<CellMoments>.batch>),
      row<CellSums>(by_count<numbers<CellMoments>.batch>),
      row<GatedCellSums>(by_count<numbers<CellMoments>.batch>),
      row<PoolMax>(by_count<numbers<PoolMax>.outer>),
      row<PoolMaxValues>(by_count<numbers<PoolMax>.outer>),
      row<PoolMaxInput>(by_count<numbers<PoolMax>.outer>),
      row<PoolMaxPick>(by_count<numbers<PoolMax>.outer>),
      row<PoolAverage>(by_count<numbers<PoolMax>.outer>),
      row<PoolAverageInput>(by_count<numbers<PoolMax>.outer>),
      row<Resample>(by_count<numbers<Resample>.outer>),
      row<GridSample>(by_count<numbers<GridSample>.n>),
      row<GridSampleGrid>(by_count<numbers<GridSample>.n>),
      row<GridSampleInput>(by_count<numbers<GridSample>.n>), row<Fft>(by_mask<numbers<Fft>.dims>),
      row<Rfft>(by_rows), row<Irfft>(by_rows), row<Special>(plainly), row<Cholesky>(by_matrices),
      row<LuFactor>(by_matrices), row<LuSolve>(by_matrices), row<TriangularSolve>(by_matrices),
      row<Geqrf>(by_matrices), row<Orgqr>(by_matrices), row<Ormqr>(by_matrices),
      row<Svd>(by_matrices), row<Eigh>(by_matrices), row<Eig>(by_matrices), row<Lstsq>(by_matrices),
      row<LdlFactor>(by_matrices), row<LdlSolve>(by_matrices), row<Distances>(distances),
      row<DistancesBackward>(distances), row<Matmul>(matmul), row<Conv>(conv),
      row<ConvInput>(conv_input), row<ConvWeight>(conv_weight), row<LayerNorm>(row_norm),
      row<RmsNorm>(row_norm), row<LayerNormBackward>(row_norm_backward),
      row<RmsNormBackward>(row_norm_backward), row<Index>(index), row<IndexPut>(index_put),
      row<ScatterView>(scatter_view), row<Searchsorted>(searchsorted), row<Sdpa>(attention),
      row<SdpaBackward>(attention_backward)};
  return *table;
}

}  // namespace

bool run_by_rule(const HiddenCall& c) {
  if (c.options.run) return false;
  const auto found = rules().find(c.kernel.name);
  return found != rules().end() && found->second(c);
}

}  // namespace pyflame::engine
