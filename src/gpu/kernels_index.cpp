// Launchers of kernels that read and write by index.
#include <algorithm>
#include <numeric>
#include <vector>

#include "gpu/axes.h"
#include "gpu/sorting.h"
#include "kernels/points_args.h"
#include "table/kernels/index.h"
#include "table/kernels/move.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int64_t kFewIndices = 64;          // a look at all of which is less than another launch
constexpr int64_t kLong = 128, kLanes = 8;   // LONG, LANES of kernels/scatter.h
constexpr int64_t kMostPoints = 1 << 27;     // of lanes together: each takes 40 bytes
constexpr int64_t kLanesOfBlocks = 1 << 17;  // with more, a thread each fills the device

Grid grid_for(int64_t n) {
  return blocks_for(n, kBlock, kMostBlocks);
}
int64_t item(const KernelArgs& a, int tensor) {
  return static_cast<int64_t>(itemsize(a.dtype(tensor)));
}
// Dimensions [from, to) of a tensor.
pf_tensor part(const pf_tensor& t, int from, int to) {
  pf_tensor r = t;
  r.ndim = to - from;
  std::copy(t.shape + from, t.shape + to, r.shape);
  std::copy(t.strides + from, t.strides + to, r.strides);
  return r;
}
int bits_of(int64_t largest) {
  int bits = 1;
  while (bits < 64 && largest >> bits) ++bits;
  return bits;
}

// ---- points -------------------------------------------------------------------------------------

// Where every combination of the index tensors points in `self`, in elements.
pf_i64* point_offsets(const KernelArgs& a, const pf_tensor& self, int first_dim, int first_tensor,
                      int count, bool wrap, bool places) {
  const pf_tensor& model = a.tensor(first_tensor);
  pf_indices q{};
  q.count = count;
  q.points = numel(model);
  q.ndim = model.ndim;
  std::copy_n(model.shape, model.ndim, q.shape);
  for (int k = 0; k < count; ++k) {
    const pf_tensor& index = a.tensor(first_tensor + k);
    q.data[k] = index.data;
    std::copy_n(index.strides, index.ndim, q.strides[k]);
    q.size[k] = self.shape[first_dim + k];
    q.step[k] = self.strides[first_dim + k];
  }
  auto* offsets =
      static_cast<pf_i64*>(a.workspace(static_cast<size_t>(std::max<int64_t>(q.points, 1)) * 8));
  if (q.points)
    a.launch(a.compile("points.h", Defines().text("PF_INDEX", "pf_u64"), "pf_points"),
             grid_for(q.points), kBlock, 0, q, offsets, static_cast<int>(wrap),
             static_cast<int>(places), a.error());
  return offsets;
}

// out = x[.. index ..]. `from` has the index's shape and the steps of x, 0 along the dimension that
// is indexed.
template <class K>
void read_along(const KernelArgs& a, const pf_tensor& from, int64_t size, int64_t step) {
  constexpr auto at = tensors<K>;
  const pf_tensor &self = a.tensor(at.x), &ix = a.tensor(at.index);
  const Space s = make_space({&ix, &from});
  const int64_t bytes = item(a, at.x);
  // Four neighbours at a time, where they lie together in the index at multiples of 16 bytes.
  const int last = s.ndim - 1;
  bool together = bytes >= 2 && bytes <= 8 && s.shape[last] % 4 == 0 && s.strides[0][last] == 1 &&
                  aligned(ix.data, 16) && aligned(a.data(at.out), 16);
  for (int d = 0; d < last; ++d) together = together && s.strides[0][d] % 2 == 0;
  const int64_t vec = together ? 4 : 1;
  const Function f = a.compile(
      "index.h",
      Defines().text("PF_INDEX", index_type(s)).value("PF_BYTES", bytes).value("PF_VEC", vec),
      "pf_gather");
  a.launch(f, grid_for(ceil_div(s.numel, vec == 1 ? 4 : 8)), kBlock, 0, s, a.data(at.out), ix.data,
           self.data, size, step, s.strides[1][last], a.error());
}

void gather(const KernelArgs& a) {
  constexpr auto at = tensors<Gather>;
  constexpr auto number = numbers<Gather>;
  const pf_tensor &self = a.tensor(at.x), &ix = a.tensor(at.index);
  const int dim = static_cast<int>(a.i(number.dim));
  if (numel(ix) == 0) return;
  pf_tensor from = ix;
  std::copy_n(self.strides, self.ndim, from.strides);
  from.strides[dim] = 0;
  read_along<Gather>(a, from, self.shape[dim], self.strides[dim]);
}

void index(const KernelArgs& a) {
  constexpr auto at = tensors<Index>;
  constexpr auto number = numbers<Index>;
  const pf_tensor& self = a.tensor(at.x);
  const int before = static_cast<int>(a.i(number.before)),
            count = static_cast<int>(a.i(number.indexed));
  const int64_t points = numel(a.tensor(at.index));
  if (numel(a.tensor(at.out)) == 0) return;
  const pf_tensor& ix = a.tensor(at.index);
  if (self.ndim == 1 && count == 1 && a.i(number.wrap) != 0 &&
      static_cast<DType>(ix.dtype) == DType::Int64) {
    pf_tensor from = ix;
    std::fill_n(from.strides, from.ndim, 0);
    return read_along<Index>(a, from, self.shape[0], self.strides[0]);
  }
  const pf_i64* offsets =
      point_offsets(a, self, before, at.index, count, a.i(number.wrap) != 0, false);
  const pf_tensor head = part(self, 0, before), tail = part(self, before + count, self.ndim);
  const Space b = make_space({&head});
  Space r = make_space({&tail});
  // Rows of neighbours go 16 bytes at a time where every address allows it.
  int64_t bytes = item(a, at.x), per = 1;
  const int last = r.ndim - 1;
  for (int64_t wide = 16 / bytes; wide > 1 && per == 1; wide /= 2) {
    if (r.strides[0][last] != 1 || r.shape[last] % wide != 0) continue;
    bool fits =
        (reinterpret_cast<uintptr_t>(self.data) | reinterpret_cast<uintptr_t>(a.data(at.out))) %
            static_cast<uintptr_t>(wide * bytes) ==
        0;
    for (int d = 0; d < self.ndim; ++d)
      fits = fits && (self.strides[d] % wide == 0 ||
                      (self.strides[d] == 1 && d == self.ndim - 1 && d >= before + count));
    if (fits) per = wide;
  }
  if (per > 1) {
    r.shape[last] /= per;
    r.numel /= per;
    for (int d = 0; d < last; ++d) r.strides[0][d] /= per;
    bytes *= per;
  }
  const bool small = b.small() && r.small() && numel(a.tensor(at.out)) / per <= 2147483647;
  const Function f = a.compile("index.h", Defines().text("PF_INDEX", small ? "pf_u32" : "pf_u64"),
                               "pf_index_read");
  a.launch(f, grid_for(b.numel * points * r.numel), kBlock, 0, b, r, offsets, points, per,
           a.data(at.out), self.data, static_cast<int>(bytes));
}

void one_hot(const KernelArgs& a) {
  constexpr auto at = tensors<OneHot>;
  const pf_tensor &out = a.tensor(at.out), &in = a.tensor(at.index);
  a.fill(out.data, 0, static_cast<size_t>(numel(out)) * 8);
  if (numel(in) == 0) return;
  const Space s = make_space({&in});
  a.launch(a.compile("index.h", Defines().text("PF_INDEX", index_type(s)), "pf_one_hot"),
           grid_for(s.numel), kBlock, 0, s, out.data, in.data, out.shape[out.ndim - 1], a.error());
}

void searchsorted(const KernelArgs& a) {
  constexpr auto at = tensors<Searchsorted>;
  constexpr auto number = numbers<Searchsorted>;
  const pf_tensor &values = a.tensor(at.values), &sorted = a.tensor(at.sorted);
  if (numel(values) == 0) return;
  const int64_t n = sorted.shape[sorted.ndim - 1];
  const bool rows = sorted.ndim > 1;
  const Space s = make_space({&values});
  const Function f = a.compile(
      "index.h", Defines().text("PF_INDEX", index_type(s)).type("PF_T", a.dtype(at.values)),
      "pf_searchsorted");
  a.launch(f, grid_for(s.numel), kBlock, 0, s, a.data(at.out), values.data, sorted.data, n,
           rows ? values.shape[values.ndim - 1] : s.numel, rows ? n : int64_t{0},
           static_cast<int>(a.i(number.right) != 0));
}

// ---- writing ------------------------------------------------------------------------------------

Defines combining(const Space& s, DType t, int64_t mode) {
  if (mode == kAssign) {  // only the size of the elements matters
    static constexpr DType kBySize[] = {DType::UInt8, DType::Int16, DType::Int32, DType::Int64};
    const size_t n = itemsize(t);
    t = kBySize[n == 1 ? 0 : n == 2 ? 1 : n == 4 ? 2 : 3];
  }
  return Defines().text("PF_INDEX", index_type(s)).type("PF_T", t).value("PF_MODE", mode);
}

// Combines what meets of points with keys, in units of `unit` elements, up to `largest`, for all
// lanes (operands: out, src): sorts them by place, or has them claim their places where the last
// stays. `src_step`: from the values of a point to those of the next, or, with `from`, a number
// that divides all of that.
void write_points(const KernelArgs& a, const Space& lanes, DType t, int64_t mode, void* out,
                  const void* src, Pairs& p, int64_t largest, int64_t unit, const pf_i64* from,
                  int64_t src_step) {
  if (lanes.numel == 0) return;
  const auto text = [&](const char* entry) {
    return a.compile("scatter.h", combining(lanes, t, mode), entry);
  };
  const int64_t places = largest + 1;
  if (mode == kAssign && p.n > kSmallRow && p.n < UINT32_MAX &&
      places <= std::max<int64_t>(4 * p.n, 1 << 16)) {
    auto* owners = static_cast<uint32_t*>(a.workspace(static_cast<size_t>(places) * 4));
    a.fill(owners, 0, static_cast<size_t>(places) * 4);
    a.launch(text("pf_scatter_claim"), grid_for(p.n), kBlock, 0, p.keys, p.n, owners);
    a.launch(text("pf_scatter_claimed"), grid_for(lanes.numel * p.n), kBlock, 0, lanes, out,
             pf_sorted_args{src, p.keys, nullptr, from, p.n, src_step, unit}, owners);
    return;
  }
  // Points that are not written have all bits set: one bit above the largest key tells.
  sort_pairs(a, p, 0, std::min(64, bits_of(largest) + 1));
  // Of groups of more than LONG points there is at most one in LONG; a block takes LANES of it.
  const int64_t parts = ceil_div(p.n, kLong) * ceil_div(lanes.numel, kLanes);
  const int64_t more = p.n > kLong ? std::min(parts, kMostBlocks) : 0;
  // Points of a block: eight elements for each of its threads, where no points meet.
  constexpr int64_t kVector = 4;
  const auto step = kVector * static_cast<int64_t>(itemsize(t));
  const bool wide = is_float(t) && step <= 16 && lanes.contiguous(0) && lanes.contiguous(1) &&
                    lanes.numel % kVector == 0 && unit % kVector == 0 && src_step % kVector == 0 &&
                    aligned(out, step) && aligned(src, step);
  const int64_t vector = wide ? kVector : 1;
  const int64_t range = std::clamp<int64_t>(8 * kBlock * vector / lanes.numel, 1, kBlock);
  const int64_t blocks = std::min(ceil_div(p.n, range), kMostBlocks);
  const Defines options = combining(lanes, t, mode).value("PF_V", vector);
  a.launch(a.compile("scatter.h", options, "pf_scatter_sorted"), Grid(more + blocks), kBlock, 0,
           lanes, out, pf_sorted_args{src, p.keys, p.at, from, p.n, src_step, unit}, more,
           static_cast<int>(range));
}

void scatter(const KernelArgs& a) {
  constexpr auto at = tensors<Scatter>;
  constexpr auto number = numbers<Scatter>;
  const pf_tensor &out = a.tensor(at.out), &ix = a.tensor(at.index), &src = a.tensor(at.src);
  const int dim = static_cast<int>(a.i(number.dim));
  if (numel(ix) == 0) return;
  const int64_t length = ix.shape[dim], size = out.shape[dim], skip = a.i(number.skip);
  pf_tensor x = without(ix, dim), o = x, s = x;
  const pf_tensor os = without(out, dim), ss = without(src, dim);
  std::copy_n(os.strides, x.ndim, o.strides);
  std::copy_n(ss.strides, x.ndim, s.strides);
  bool shared = true;  // all lanes have the same indices: index_add, embedding
  for (int d = 0; d < x.ndim; ++d) shared = shared && (x.strides[d] == 0 || x.shape[d] == 1);
  if (shared && length > 16 && (out.strides[dim] > 0 || size == 1)) {
    const Space lanes = make_space({&o, &s});
    if (a.i(number.mode) == kAssign && length <= kFewIndices) {
      a.launch(a.compile("scatter.h", combining(lanes, a.dtype(at.out), kAssign), "pf_scatter_few"),
               grid_for(lanes.numel * length), kBlock, 0, lanes, out.data, ix.data, src.data,
               length, size, out.strides[dim], ix.strides[dim], src.strides[dim], skip, a.error());
      return;
    }
    Pairs p = make_pairs(a, 1, length);
    a.launch(a.compile("points.h", Defines().text("PF_INDEX", "pf_u64"), "pf_index_keys"),
             grid_for(length), kBlock, 0, ix.data, ix.strides[dim], length, size, skip, 1, p.keys,
             p.at, a.error());
    write_points(a, lanes, a.dtype(at.out), a.i(number.mode), out.data, src.data, p, size - 1,
                 out.strides[dim], nullptr, src.strides[dim]);
    return;
  }
  const Space lanes = make_space({&o, &x, &s});
  if (length > 16 && length <= kSmallRow && lanes.numel <= kLanesOfBlocks) {
    a.launch(a.compile("scatter.h", combining(lanes, a.dtype(at.out), a.i(number.mode)),
                       "pf_scatter_rows"),
             std::min<int64_t>(lanes.numel, kMostBlocks), kBlock, 0, lanes, out.data, ix.data,
             src.data, static_cast<int>(length), size, out.strides[dim], ix.strides[dim],
             src.strides[dim], skip, static_cast<int>(power_of_two_from(length)), a.error());
    return;
  }
  // Few long lanes: their points together, if no two elements of the result are one.
  int64_t largest = (size - 1) * out.strides[dim];
  bool forward = out.strides[dim] > 0;
  for (int d = 0; d < o.ndim; ++d) {
    forward = forward && (o.strides[d] > 0 || o.shape[d] == 1);
    largest += (o.shape[d] - 1) * o.strides[d];
  }
  if (length > kSmallRow && lanes.numel <= std::min(kLanesOfBlocks, kMostPoints / length) &&
      forward) {
    const int64_t points = lanes.numel * length;
    Pairs p = make_pairs(a, 1, points);
    auto* from = static_cast<pf_i64*>(a.workspace(static_cast<size_t>(points) * 8));
    a.launch(a.compile("points.h", Defines().text("PF_INDEX", "pf_u64"), "pf_lane_keys"),
             grid_for(points), kBlock, 0, lanes, ix.data, length, size, out.strides[dim],
             ix.strides[dim], src.strides[dim], skip, p.keys, p.at, from, a.error());
    pf_tensor single{};
    write_points(a, make_space({&single, &single}), a.dtype(at.out), a.i(number.mode), out.data,
                 src.data, p, largest, 1, from, 0);
    return;
  }
  a.launch(
      a.compile("scatter.h", combining(lanes, a.dtype(at.out), a.i(number.mode)), "pf_scatter"),
      grid_for(lanes.numel), kBlock, 0, lanes, out.data, ix.data, src.data, length, size,
      out.strides[dim], ix.strides[dim], src.strides[dim], skip, a.error());
}

void index_put(const KernelArgs& a) {
  constexpr auto arg = tensors<IndexPut>;
  constexpr auto number = numbers<IndexPut>;
  const pf_tensor &self = a.tensor(arg.x), &values = a.tensor(arg.values),
                  &model = a.tensor(arg.index);
  const int before = static_cast<int>(a.i(number.before)),
            count = static_cast<int>(a.i(number.indexed));
  const int64_t points = numel(model);
  if (numel(values) == 0) return;
  const pf_i64* to = point_offsets(a, self, before, arg.index, count, true, true);
  // Where each point's values begin.
  auto* from = static_cast<pf_i64*>(a.workspace(static_cast<size_t>(points) * 8));
  const pf_tensor middle = part(values, before, before + model.ndim);
  const Space at = make_space({&middle});
  const Defines wide = Defines().text("PF_INDEX", "pf_u64");
  a.launch(a.compile("points.h", wide, "pf_space_offsets"), grid_for(points), kBlock, 0, at, from);
  Pairs p = make_pairs(a, 1, points);
  pf_tensor o{}, v{};
  int64_t largest = 0, unit = 0;  // of the places that are indexed
  int64_t step = 0;               // what all of `from` are multiples of
  for (int d = 0; d < middle.ndim; ++d) step = std::gcd(step, middle.strides[d]);
  for (int d = 0; d < self.ndim; ++d) {
    if (d >= before && d < before + count) {
      largest += (self.shape[d] - 1) * self.strides[d];
      if (self.shape[d] > 1) unit = std::gcd(unit, self.strides[d]);
      continue;
    }
    const int w = d < before ? d : d - count + model.ndim;
    o.shape[o.ndim] = v.shape[o.ndim] = self.shape[d];
    o.strides[o.ndim] = self.strides[d];
    v.strides[o.ndim] = values.strides[w];
    v.ndim = ++o.ndim;
  }
  unit = std::max<int64_t>(unit, 1);
  a.launch(a.compile("points.h", wide, "pf_point_keys"), grid_for(points), kBlock, 0, to, unit,
           p.keys, p.at, points);
  const Space lanes = make_space({&o, &v});
  write_points(a, lanes, a.dtype(arg.x), a.i(number.accumulate) ? kAdd : kAssign, self.data,
               values.data, p, largest / unit, unit, from, step);
}

// Elements of 16 bytes (they are assigned, never combined) as two of 8, one half after the other.
template <int kWritten, void (*kWrite)(const KernelArgs&)>
void in_halves(const KernelArgs& a) {
  const DType wide = a.dtype(kWritten);
  if (itemsize(wide) <= 8) return kWrite(a);
  for (int64_t half = 0; half < 2; ++half) {
    std::vector<pf_tensor> tensors(a.tensors, a.tensors + a.ntensors);
    for (pf_tensor& t : tensors) {
      if (static_cast<DType>(t.dtype) != wide) continue;
      t.dtype = static_cast<uint8_t>(DType::Int64);
      t.data = static_cast<char*>(t.data) + 8 * half;
      for (int d = 0; d < t.ndim; ++d) t.strides[d] *= 2;
    }
    KernelArgs part = a;
    part.tensors = tensors.data();
    kWrite(part);
  }
}

void bincount(const KernelArgs& a) {
  constexpr auto at = tensors<Bincount>;
  const pf_tensor &out = a.tensor(at.out), &in = a.tensor(at.index);
  const int64_t bins = out.shape[0], n = numel(in);
  a.fill(out.data, 0, static_cast<size_t>(bins) * itemsize(a.dtype(at.out)));
  if (n == 0 || bins == 0) return;
  const Defines wide = Defines().text("PF_INDEX", "pf_u64");
  if (!a.has(at.weights)) {
    constexpr int64_t kFewBins = 2048, kEach = 4096;  // BINS of kernels/count.h
    const bool few = bins <= kFewBins;
    const int64_t most = std::max<int64_t>(4 * a.traits().compute_units, ceil_div(n, 1LL << 31));
    return a.launch(a.compile("count.h", wide, few ? "pf_count_few" : "pf_count_many"),
                    few ? blocks_for(n, kEach, most) : grid_for(n), kBlock, 0, in.data,
                    in.strides[0], n, bins, out.data, a.error());
  }
  Pairs p = make_pairs(a, 1, n);
  a.launch(a.compile("points.h", wide, "pf_index_keys"), grid_for(n), kBlock, 0, in.data,
           in.strides[0], n, bins, INT64_MIN, 0, p.keys, p.at, a.error());
  pf_tensor single{};
  const Space lanes = make_space({&single, &single});
  write_points(a, lanes, a.dtype(at.out), kAdd, out.data, a.data(at.weights), p, bins - 1, 1,
               nullptr, a.tensor(at.weights).strides[0]);
}

void scatter_view(const KernelArgs& a) {
  constexpr auto arg = tensors<ScatterView>;
  constexpr auto number = numbers<ScatterView>;
  const pf_tensor &out = a.tensor(arg.out), &in = a.tensor(arg.x);
  a.fill(out.data, 0, static_cast<size_t>(numel(out)) * itemsize(a.dtype(arg.out)));
  const int64_t n = numel(in);
  if (n == 0) return;
  pf_tensor view = in;
  view.data = static_cast<char*>(out.data) + a.i(number.offset) * item(a, arg.out);
  int64_t largest = a.i(number.offset);
  for (int d = 0; d < in.ndim; ++d) {
    view.strides[d] = a.i(number.strides + d);
    largest += (in.shape[d] - 1) * std::max<int64_t>(view.strides[d], 0);
  }
  if (!a.i(number.overlaps)) return copy_tensor(a, view, in);
  const Space at = make_space({&view}), values = make_space({&in});
  Pairs p = make_pairs(a, 1, n);
  const Defines wide = Defines().text("PF_INDEX", "pf_u64");
  a.launch(a.compile("points.h", wide, "pf_space_keys"), grid_for(n), kBlock, 0, at,
           a.i(number.offset), p.keys, p.at);
  auto* from = static_cast<pf_i64*>(a.workspace(static_cast<size_t>(n) * 8));
  a.launch(a.compile("points.h", wide, "pf_space_offsets"), grid_for(n), kBlock, 0, values, from);
  pf_tensor single{};
  const Space lanes = make_space({&single, &single});
  write_points(a, lanes, a.dtype(arg.out), kAdd, out.data, in.data, p, largest, 1, from, 0);
}

}  // namespace

PF_GPU_KERNEL(Index::kInfo, index)
PF_GPU_KERNEL(Gather::kInfo, gather)
PF_GPU_KERNEL(OneHot::kInfo, one_hot)
PF_GPU_KERNEL(Searchsorted::kInfo, searchsorted)
PF_GPU_KERNEL(Scatter::kInfo, (in_halves<tensors<Scatter>.out, scatter>))
PF_GPU_KERNEL(IndexPut::kInfo, (in_halves<tensors<IndexPut>.x, index_put>))
PF_GPU_KERNEL(Bincount::kInfo, bincount)
PF_GPU_KERNEL(ScatterView::kInfo, scatter_view)

}  // namespace pyflame::gpu
