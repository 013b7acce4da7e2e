// Launchers of kernels that read and write by index.
#include <algorithm>
#include <numeric>
#include <vector>

#include "gpu/axes.h"
#include "gpu/sorting.h"

namespace pyflame::gpu {
namespace {

constexpr int kBlock = 256;
constexpr int64_t kMostBlocks = 1 << 16;
constexpr int64_t kLong = 128, kLanes = 8;   // LONG, LANES of kernels/scatter.h
constexpr int64_t kMostPoints = 1 << 27;     // of lanes together: each takes 40 bytes
constexpr int64_t kLanesOfBlocks = 1 << 17;  // with more, a thread each fills the device
enum Mode : int64_t { kAssign, kAdd };

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

// pf_indices of kernels/index.h.
struct Indices {
  int64_t count, points, ndim;
  int64_t shape[PF_MAX_DIMS];
  const void* data[PF_MAX_DIMS];
  int64_t strides[PF_MAX_DIMS][PF_MAX_DIMS];
  int64_t size[PF_MAX_DIMS], step[PF_MAX_DIMS];
};

// Where every combination of the index tensors points in `self`, in elements.
int64_t* point_offsets(const KernelArgs& a, const pf_tensor& self, int first_dim, int first_tensor,
                       int count, bool wrap, bool places) {
  const pf_tensor& model = a.tensor(first_tensor);
  Indices q{};
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
      static_cast<int64_t*>(a.workspace(static_cast<size_t>(std::max<int64_t>(q.points, 1)) * 8));
  if (q.points)
    a.launch(a.compile("points.h", Defines().text("PF_INDEX", "pf_u64"), "pf_points"),
             grid_for(q.points), kBlock, 0, q, offsets, static_cast<int>(wrap),
             static_cast<int>(places), a.error());
  return offsets;
}

// out = self[.. index ..]: out and the tensors of self and index are 0, 1 and 2 of the call. `from`
// has the index's shape and the steps of self, 0 along the dimension that is indexed.
void read_along(const KernelArgs& a, const pf_tensor& from, int64_t size, int64_t step) {
  const pf_tensor &self = a.tensor(1), &ix = a.tensor(2);
  const Space s = make_space({&ix, &from});
  const int64_t bytes = item(a, 1);
  // Four neighbours at a time, where they lie together in the index at multiples of 16 bytes.
  const int last = s.ndim - 1;
  bool together = bytes >= 2 && bytes <= 8 && s.shape[last] % 4 == 0 && s.strides[0][last] == 1 &&
                  aligned(ix.data, 16) && aligned(a.data(0), 16);
  for (int d = 0; d < last; ++d) together = together && s.strides[0][d] % 2 == 0;
  const int64_t vec = together ? 4 : 1;
  const Function f = a.compile(
      "index.h",
      Defines().text("PF_INDEX", index_type(s)).value("PF_BYTES", bytes).value("PF_VEC", vec),
      "pf_gather");
  a.launch(f, grid_for(ceil_div(s.numel, vec == 1 ? 4 : 8)), kBlock, 0, s, a.data(0), ix.data,
           self.data, size, step, s.strides[1][last], a.error());
}

// out[i][j] = self[i][index[i][j]] along one dimension. attrs: dim
void gather(const KernelArgs& a) {
  const pf_tensor &self = a.tensor(1), &ix = a.tensor(2);
  const int dim = static_cast<int>(a.i(0));
  if (numel(ix) == 0) return;
  pf_tensor from = ix;
  std::copy_n(self.strides, self.ndim, from.strides);
  from.strides[dim] = 0;
  read_along(a, from, self.shape[dim], self.strides[dim]);
}

// out [before, index shape, after]; self [before, indexed, after]; the index tensors.
// attrs: number of dimensions before, number of indexed ones, whether negative indices wrap.
void index(const KernelArgs& a) {
  const pf_tensor& self = a.tensor(1);
  const int before = static_cast<int>(a.i(0)), count = static_cast<int>(a.i(1));
  const int64_t points = numel(a.tensor(2));
  if (numel(a.tensor(0)) == 0) return;
  const pf_tensor& ix = a.tensor(2);
  if (self.ndim == 1 && count == 1 && a.i(2) != 0 && static_cast<DType>(ix.dtype) == DType::Int64) {
    pf_tensor from = ix;
    std::fill_n(from.strides, from.ndim, 0);
    return read_along(a, from, self.shape[0], self.strides[0]);
  }
  const int64_t* offsets = point_offsets(a, self, before, 2, count, a.i(2) != 0, false);
  const pf_tensor head = part(self, 0, before), tail = part(self, before + count, self.ndim);
  const Space b = make_space({&head});
  Space r = make_space({&tail});
  // Rows of neighbours go 16 bytes at a time where every address allows it.
  int64_t bytes = item(a, 1), per = 1;
  const int last = r.ndim - 1;
  for (int64_t wide = 16 / bytes; wide > 1 && per == 1; wide /= 2) {
    if (r.strides[0][last] != 1 || r.shape[last] % wide != 0) continue;
    bool fits = (reinterpret_cast<uintptr_t>(self.data) | reinterpret_cast<uintptr_t>(a.data(0))) %
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
  const bool small = b.small() && r.small() && numel(a.tensor(0)) / per <= 2147483647;
  const Function f = a.compile("index.h", Defines().text("PF_INDEX", small ? "pf_u32" : "pf_u64"),
                               "pf_index_read");
  a.launch(f, grid_for(b.numel * points * r.numel), kBlock, 0, b, r, offsets, points, per,
           a.data(0), self.data, static_cast<int>(bytes));
}

void one_hot(const KernelArgs& a) {
  const pf_tensor &out = a.tensor(0), &in = a.tensor(1);
  a.fill(out.data, 0, static_cast<size_t>(numel(out)) * 8);
  if (numel(in) == 0) return;
  const Space s = make_space({&in});
  a.launch(a.compile("index.h", Defines().text("PF_INDEX", index_type(s)), "pf_one_hot"),
           grid_for(s.numel), kBlock, 0, s, out.data, in.data, out.shape[out.ndim - 1], a.error());
}

// out int64, values, sorted boundaries [..., n] (contiguous). attrs: right
void searchsorted(const KernelArgs& a) {
  const pf_tensor &values = a.tensor(1), &sorted = a.tensor(2);
  if (numel(values) == 0) return;
  const int64_t n = sorted.shape[sorted.ndim - 1];
  const bool rows = sorted.ndim > 1;
  const Space s = make_space({&values});
  const Function f =
      a.compile("index.h", Defines().text("PF_INDEX", index_type(s)).type("PF_T", a.dtype(1)),
                "pf_searchsorted");
  a.launch(f, grid_for(s.numel), kBlock, 0, s, a.data(0), values.data, sorted.data, n,
           rows ? values.shape[values.ndim - 1] : s.numel, rows ? n : int64_t{0},
           static_cast<int>(a.i(0) != 0));
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

struct Points {  // pf_sorted of kernels/scatter.h
  const void* src;
  const uint64_t* keys;
  const int64_t *point, *from;
  int64_t points, src_step, unit;
};

// Combines what meets of points with keys, in units of `unit` elements, up to `largest`, for all
// lanes (operands: out, src): sorts them by place, or has them claim their places where the last
// stays.
void write_points(const KernelArgs& a, const Space& lanes, DType t, int64_t mode, void* out,
                  const void* src, Pairs& p, int64_t largest, int64_t unit, const int64_t* from,
                  int64_t src_step) {
  const Grid all = grid_for(lanes.numel * p.n);
  const auto text = [&](const char* entry) {
    return a.compile("scatter.h", combining(lanes, t, mode), entry);
  };
  const int64_t places = largest + 1;
  if (mode == kAssign && p.n > kSmallRow && p.n < UINT32_MAX &&
      places <= std::max<int64_t>(4 * p.n, 1 << 16)) {
    auto* owners = static_cast<uint32_t*>(a.workspace(static_cast<size_t>(places) * 4));
    a.fill(owners, 0, static_cast<size_t>(places) * 4);
    a.launch(text("pf_scatter_claim"), grid_for(p.n), kBlock, 0, p.keys, p.n, owners);
    a.launch(text("pf_scatter_claimed"), all, kBlock, 0, lanes, out,
             Points{src, p.keys, nullptr, from, p.n, src_step, unit}, owners);
    return;
  }
  // Points that are not written have all bits set: one bit above the largest key tells.
  sort_pairs(a, p, 0, std::min(64, bits_of(largest) + 1));
  // Of groups of more than LONG points there is at most one in LONG; a block takes LANES of it.
  const int64_t parts = ceil_div(p.n, kLong) * ceil_div(lanes.numel, kLanes);
  const Grid more = p.n > kLong ? blocks_for(parts, 1, kMostBlocks) : Grid(0);
  a.launch(text("pf_scatter_sorted"), Grid(all.x + more.x), kBlock, 0, lanes, out,
           Points{src, p.keys, p.at, from, p.n, src_step, unit}, int64_t{all.x});
}

// out (in place), index, src, the last two of one shape. attrs: dim, mode, an index to leave out.
void scatter(const KernelArgs& a) {
  const pf_tensor &out = a.tensor(0), &ix = a.tensor(1), &src = a.tensor(2);
  const int dim = static_cast<int>(a.i(0));
  if (numel(ix) == 0) return;
  const int64_t length = ix.shape[dim], size = out.shape[dim], skip = a.i(2);
  pf_tensor x = without(ix, dim), o = x, s = x;
  const pf_tensor os = without(out, dim), ss = without(src, dim);
  std::copy_n(os.strides, x.ndim, o.strides);
  std::copy_n(ss.strides, x.ndim, s.strides);
  bool shared = true;  // all lanes have the same indices: index_add, embedding
  for (int d = 0; d < x.ndim; ++d) shared = shared && (x.strides[d] == 0 || x.shape[d] == 1);
  if (shared && length > 16 && (out.strides[dim] > 0 || size == 1)) {
    const Space lanes = make_space({&o, &s});
    Pairs p = make_pairs(a, 1, length);
    a.launch(a.compile("points.h", Defines().text("PF_INDEX", "pf_u64"), "pf_index_keys"),
             grid_for(length), kBlock, 0, ix.data, ix.strides[dim], length, size, skip, 1, p.keys,
             p.at, a.error());
    write_points(a, lanes, a.dtype(0), a.i(1), out.data, src.data, p, size - 1, out.strides[dim],
                 nullptr, src.strides[dim]);
    return;
  }
  const Space lanes = make_space({&o, &x, &s});
  if (length > 16 && length <= kSmallRow && lanes.numel <= kLanesOfBlocks) {
    a.launch(a.compile("scatter.h", combining(lanes, a.dtype(0), a.i(1)), "pf_scatter_rows"),
             std::min(lanes.numel, kMostBlocks), kBlock, 0, lanes, out.data, ix.data, src.data,
             static_cast<int>(length), size, out.strides[dim], ix.strides[dim], src.strides[dim],
             skip, static_cast<int>(power_of_two_from(length)), a.error());
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
    auto* from = static_cast<int64_t*>(a.workspace(static_cast<size_t>(points) * 8));
    a.launch(a.compile("points.h", Defines().text("PF_INDEX", "pf_u64"), "pf_lane_keys"),
             grid_for(points), kBlock, 0, lanes, ix.data, length, size, out.strides[dim],
             ix.strides[dim], src.strides[dim], skip, p.keys, p.at, from, a.error());
    pf_tensor single{};
    write_points(a, make_space({&single, &single}), a.dtype(0), a.i(1), out.data, src.data, p,
                 largest, 1, from, 0);
    return;
  }
  a.launch(a.compile("scatter.h", combining(lanes, a.dtype(0), a.i(1)), "pf_scatter"),
           grid_for(lanes.numel), kBlock, 0, lanes, out.data, ix.data, src.data, length, size,
           out.strides[dim], ix.strides[dim], src.strides[dim], skip, a.error());
}

// self [before, indexed, after] in place; values [before, index shape, after]; the index tensors.
// attrs: number of dimensions before, number of indexed ones, accumulate.
void index_put(const KernelArgs& a) {
  const pf_tensor &self = a.tensor(0), &values = a.tensor(1), &model = a.tensor(2);
  const int before = static_cast<int>(a.i(0)), count = static_cast<int>(a.i(1));
  const int64_t points = numel(model);
  if (numel(values) == 0) return;
  const int64_t* to = point_offsets(a, self, before, 2, count, true, true);
  // Where each point's values begin.
  auto* from = static_cast<int64_t*>(a.workspace(static_cast<size_t>(points) * 8));
  const pf_tensor middle = part(values, before, before + model.ndim);
  const Space at = make_space({&middle});
  const Defines wide = Defines().text("PF_INDEX", "pf_u64");
  a.launch(a.compile("points.h", wide, "pf_space_offsets"), grid_for(points), kBlock, 0, at, from);
  Pairs p = make_pairs(a, 1, points);
  pf_tensor o{}, v{};
  int64_t largest = 0, unit = 0;  // of the places that are indexed
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
  write_points(a, lanes, a.dtype(0), a.i(2) ? kAdd : kAssign, self.data, values.data, p,
               largest / unit, unit, from, 0);
}

// Elements of 16 bytes (they are assigned, never combined) as two of 8, one half after the other.
template <void (*kWrite)(const KernelArgs&)>
void in_halves(const KernelArgs& a) {
  if (itemsize(a.dtype(0)) <= 8) return kWrite(a);
  const DType wide = a.dtype(0);
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

// out [bins], index, weights or none. Sums run in index order.
void bincount(const KernelArgs& a) {
  const pf_tensor &out = a.tensor(0), &in = a.tensor(1);
  const int64_t bins = out.shape[0], n = numel(in);
  a.fill(out.data, 0, static_cast<size_t>(bins) * itemsize(a.dtype(0)));
  if (n == 0 || bins == 0) return;
  const Defines wide = Defines().text("PF_INDEX", "pf_u64");
  if (!a.has(2)) {
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
  write_points(a, lanes, a.dtype(0), kAdd, out.data, a.data(2), p, bins - 1, 1, nullptr,
               a.tensor(2).strides[0]);
}

// out = 0, then out's view gets in. attrs: offset, whether the view overlaps itself, strides.
void scatter_view(const KernelArgs& a) {
  const pf_tensor &out = a.tensor(0), &in = a.tensor(1);
  a.fill(out.data, 0, static_cast<size_t>(numel(out)) * itemsize(a.dtype(0)));
  const int64_t n = numel(in);
  if (n == 0) return;
  pf_tensor view = in;
  view.data = static_cast<char*>(out.data) + a.i(0) * item(a, 0);
  int64_t largest = a.i(0);
  for (int d = 0; d < in.ndim; ++d) {
    view.strides[d] = a.i(2 + d);
    largest += (in.shape[d] - 1) * std::max<int64_t>(view.strides[d], 0);
  }
  if (!a.i(1)) return copy_tensor(a, view, in);
  const Space at = make_space({&view}), values = make_space({&in});
  Pairs p = make_pairs(a, 1, n);
  const Defines wide = Defines().text("PF_INDEX", "pf_u64");
  a.launch(a.compile("points.h", wide, "pf_space_keys"), grid_for(n), kBlock, 0, at, a.i(0), p.keys,
           p.at);
  auto* from = static_cast<int64_t*>(a.workspace(static_cast<size_t>(n) * 8));
  a.launch(a.compile("points.h", wide, "pf_space_offsets"), grid_for(n), kBlock, 0, values, from);
  pf_tensor single{};
  const Space lanes = make_space({&single, &single});
  write_points(a, lanes, a.dtype(0), kAdd, out.data, in.data, p, largest, 1, from, 0);
}

}  // namespace

PF_GPU_KERNEL("index", index)
PF_GPU_KERNEL("gather", gather)
PF_GPU_KERNEL("one_hot", one_hot)
PF_GPU_KERNEL("searchsorted", searchsorted)
PF_GPU_KERNEL("scatter", in_halves<scatter>)
PF_GPU_KERNEL("index_put", in_halves<index_put>)
PF_GPU_KERNEL("bincount", bincount)
PF_GPU_KERNEL("scatter_view", scatter_view)

}  // namespace pyflame::gpu
