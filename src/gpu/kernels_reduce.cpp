// Reductions and the search for extremes (kernels/reduce.h, sum.h).
#include <algorithm>

#include "gpu/axes.h"
#include "gpu/kernel.h"

namespace pyflame::gpu {
namespace {

constexpr int kThreads = 256;  // PF_REDUCE_THREADS

// pf_reduce of kernels/reduce.h.
struct Reduce {
  const void* x = nullptr;
  void* out = nullptr;
  void* values = nullptr;
  void* partial = nullptr;
  Axes kept, reduced;
  int64_t chunk = 0, chunks = 1, tiles = 1;
  uint32_t width = 1, unused = 0;
};

// Bit d of `mask`: dimension d of x is reduced. `extra` (may be null) broadcasts over these.
template <class R>
void plan(R& r, const pf_tensor& x, int64_t mask, const pf_tensor* extra) {
  for (int d = 0; d < x.ndim; ++d) {
    if (mask >> d & 1)
      r.reduced.add(x.shape[d], x.strides[d]);
    else
      r.kept.add(x.shape[d], x.strides[d], extra ? extra->strides[d] : 0);
  }
  r.x = x.data;
}

// The widest access along the last axis of `along`; its run must be whole vectors unless `tail`.
int64_t width_along(const Axes& along, const Axes& across, const pf_tensor& x, bool tail) {
  const auto size = static_cast<int64_t>(itemsize(static_cast<DType>(x.dtype)));
  if (along.step() != 1) return 1;
  int64_t v = 16 / size;
  for (; v > 1; v /= 2) {
    bool good = aligned(x.data, v * size) && (tail ? along.run() >= v : along.run() % v == 0);
    for (int d = 0; d + 1 < along.n; ++d) good = good && along.stride[d] % v == 0;
    for (int d = 0; d < across.n; ++d) good = good && across.stride[d] % v == 0;
    if (good) break;
  }
  return v;
}

int64_t magnitude(int64_t v) {
  return v < 0 ? -v : v;
}

// `partial` is the size of what is kept of a chunk.
void run(const KernelArgs& a, Reduce& r, const pf_tensor& x, const char* op, size_t partial) {
  const int64_t outs = r.kept.count, k = r.reduced.count;
  if (outs == 0) return;
  const bool rows = r.kept.n == 0 || r.reduced.n == 0 || k == 0 ||
                    magnitude(r.reduced.step()) < magnitude(r.kept.step());
  int64_t v;
  if (rows) {
    v = k == 0 ? 1 : width_along(r.reduced, r.kept, x, r.reduced.n == 1);
    const int64_t vectors = ceil_div(k, v);
    // Eight lanes make whole cache lines; beyond that each thread takes four vectors.
    const int64_t width =
        std::clamp<int64_t>(std::max(power_of_two_from(ceil_div(vectors, 4)),
                                     std::min<int64_t>(power_of_two_from(vectors), 8)),
                            1, kThreads);
    r.width = static_cast<uint32_t>(width);
    r.tiles = ceil_div(outs, kThreads / width);
    const int64_t step = width * v * 4;
    int64_t chunks = 1;
    if (width == kThreads) {
      chunks = std::clamp<int64_t>(ceil_div(8192, r.tiles), 1, ceil_div(k, 2 * step));
      chunks = std::max(chunks, ceil_div(k, int64_t{1} << 30));  // places in a chunk are 32 bits
    }
    r.chunk = ceil_div(ceil_div(std::max<int64_t>(k, 1), chunks), step) * step;
  } else {
    v = width_along(r.kept, r.reduced, x, false);
    const int64_t vectors = ceil_div(outs, v);
    constexpr int64_t kTile = 32;  // threads side by side: 512 bytes with 16-byte accesses
    int64_t width = std::min(kTile, power_of_two_from(vectors));
    if (k < 4 * kThreads / kTile)  // few rows: fewer threads above each other
      width = std::min(power_of_two_from(vectors), kThreads / power_of_two_from(ceil_div(k, 4)));
    r.width = static_cast<uint32_t>(width);
    r.tiles = ceil_div(vectors, width);
    const int64_t height = kThreads / width;
    int64_t chunks = std::clamp<int64_t>(ceil_div(8192, r.tiles), 1, ceil_div(k, 16 * height));
    chunks = std::max(chunks, ceil_div(k, int64_t{1} << 30));
    r.chunk = ceil_div(k, chunks);
  }
  r.chunks = std::max<int64_t>(1, ceil_div(k, r.chunk));
  const bool dense = r.reduced.n <= 1;
  const Defines defines = Defines()
                              .type("PF_T", static_cast<DType>(x.dtype))
                              .text("PF_OP", op)
                              .value("PF_V", v)
                              .value("PF_DENSE", dense);
  if (r.chunks > 1) r.partial = a.workspace(static_cast<size_t>(r.chunks * outs) * partial);
  const char* entry = rows ? "reduce_rows" : "reduce_columns";
  a.launch(a.compile("reduce.h", defines, entry), Grid(r.tiles * r.chunks), kThreads, 0, r);
  if (r.chunks == 1) return;
  const int64_t width = std::min<int64_t>(power_of_two_from(outs), 32);
  r.width = static_cast<uint32_t>(width);
  a.launch(a.compile("reduce.h", defines, "reduce_finish"), Grid(ceil_div(outs, width)), kThreads,
           0, r);
}

// Tensors: out, x. attrs: mask of reduced dimensions.
template <const char* const& kOp>
void simple(const KernelArgs& a) {
  Reduce r;
  plan(r, a.tensor(1), a.i(0), nullptr);
  r.out = a.data(0);
  run(a, r, a.tensor(1), kOp, 8);
}

// ---- floating-point sums and products (kernels/sum.h) ------------------------------------------

constexpr int64_t kColumnThreads = 512;  // PF_COLUMN_THREADS

// pf_sum of kernels/sum.h.
struct Sum {
  const void* x = nullptr;
  void* out = nullptr;
  const void* mean = nullptr;
  void* partial = nullptr;
  Axes kept, reduced;
  int64_t chunk = 1, chunks = 1, tiles = 1;
  double divisor = 1;
  uint32_t lanes = 1, ways = 1, width = 1, unused = 0;
};

void run_sum(const KernelArgs& a, Sum& r, const char* op) {
  const pf_tensor& x = a.tensor(1);
  const int64_t outs = r.kept.count, k = std::max<int64_t>(r.reduced.count, 1);
  if (outs == 0) return;
  r.out = a.data(0);
  // The order of additions: of k, outs and the dtype alone.
  const auto size = static_cast<int64_t>(itemsize(a.dtype(1)));
  const int64_t vector = 16 / size;
  const int64_t lanes = std::min<int64_t>(32, power_of_two_from(ceil_div(k, vector)));
  const int64_t leaf = lanes * vector;
  const int64_t ways = std::min<int64_t>(8, power_of_two_from(ceil_div(k, leaf)));
  const int64_t round = leaf * ways;
  const int64_t rounds = ceil_div(k, round);
  const int64_t most = std::clamp<int64_t>(ceil_div(int64_t{1} << 20, outs), 1, 8192);
  r.chunk = std::max(ceil_div(rounds, most), rounds <= 4 ? rounds : 2) * round;
  r.chunks = ceil_div(k, r.chunk);
  r.lanes = static_cast<uint32_t>(lanes);
  r.ways = static_cast<uint32_t>(ways);
  // Who takes which: of the layout.
  const bool rows = r.kept.n == 0 || r.reduced.n == 0 || r.reduced.count == 0 ||
                    magnitude(r.reduced.step()) < magnitude(r.kept.step());
  int64_t v, blocks;
  int threads = kThreads;
  if (rows) {
    v = r.reduced.count == 0 ? 1 : width_along(r.reduced, r.kept, x, r.reduced.n == 1);
    if (v != vector) v = 1;
    const int64_t unit = lanes * std::max<int64_t>(1, ways / 4);
    blocks = ceil_div(outs * r.chunks, kThreads / unit);
  } else {
    v = width_along(r.kept, r.reduced, x, false);
    const int64_t vectors = ceil_div(outs, v);
    const int64_t each = ways * v;  // threads that share a vector of columns
    const int64_t width = std::max<int64_t>(
        {std::min(power_of_two_from(vectors), kColumnThreads / each), a.traits().warp / each, 1});
    r.width = static_cast<uint32_t>(width);
    r.tiles = ceil_div(vectors, width);
    blocks = r.tiles * r.chunks;
    threads = static_cast<int>(width * each);
  }
  const Defines defines = Defines()
                              .type("PF_T", a.dtype(1))
                              .text("PF_OP", op)
                              .value("PF_V", v)
                              .value("PF_DENSE", r.reduced.n <= 1);
  // A program before it makes whole pieces of rows that lie one behind the other.
  const bool joins = rows && v == vector && k % vector == 0 && r.reduced.n == 1 &&
                     (r.kept.n == 0 || (r.kept.n == 1 && r.kept.step() == k));
  const auto of_rows = [&] { return a.join("sum.h", defines, "sum_rows", {1, outs, k, v, true}); };
  if (a.asked()) {
    if (joins) of_rows();
    return;
  }
  if (r.chunks > 1)
    r.partial = a.workspace(static_cast<size_t>(r.chunks * outs) * (size == 8 ? 8 : 4));
  if (joins)
    a.launch(of_rows(), Grid(blocks), threads, 0, r);
  else
    a.launch(a.compile("sum.h", defines, rows ? "sum_rows" : "sum_columns"), Grid(blocks), threads,
             0, r);
  if (r.chunks == 1) return;
  const int64_t width = std::min<int64_t>(power_of_two_from(outs), 32);
  r.width = static_cast<uint32_t>(width);
  a.launch(a.compile("sum.h", defines, "sum_finish"), Grid(ceil_div(outs, width)), kThreads, 0, r);
}

// attrs: mask of reduced dimensions, kind (of src/cpu/reduce.cpp), divisor; tensors: out, x, mean
// of differences or none.
void sum(const KernelArgs& a) {
  constexpr const char* kOps[] = {"pf_op_sum", "pf_op_squares", "pf_op_differences", "pf_op_spread",
                                  "pf_op_numbers"};
  const pf_tensor* mean = a.has(2) ? &a.tensor(2) : nullptr;
  Sum r;
  plan(r, a.tensor(1), a.i(0), mean);
  r.mean = mean ? mean->data : nullptr;
  r.divisor = a.f(2);
  run_sum(a, r, kOps[a.i(1)]);
}

void prod(const KernelArgs& a) {
  if (is_float(a.dtype(1))) {
    Sum r;
    plan(r, a.tensor(1), a.i(0), nullptr);
    return run_sum(a, r, "pf_op_product");
  }
  if (a.asked()) return;
  Reduce r;
  plan(r, a.tensor(1), a.i(0), nullptr);
  r.out = a.data(0);
  run(a, r, a.tensor(1), "pf_op_prod_int", 8);
}

// ------------------------------------------------------------------------------------------------

// Tensors: values (or none), indices, x. attrs: the reduced dimension, maximum?
void find_extreme(const KernelArgs& a) {
  const pf_tensor& x = a.tensor(2);
  Reduce r;
  plan(r, x, x.ndim == 0 ? 0 : int64_t{1} << a.i(0), nullptr);
  if (r.reduced.count == 0) return;
  r.values = a.has(0) ? a.data(0) : nullptr;
  r.out = a.data(1);
  run(a, r, x, a.i(1) != 0 ? "pf_op_argmax" : "pf_op_argmin", 16);
}

constexpr const char *kSumInt = "pf_op_sum_int", *kMax = "pf_op_max", *kMin = "pf_op_min",
                     *kAny = "pf_op_any", *kAll = "pf_op_all", *kCount = "pf_op_count";

}  // namespace

PF_GPU_ROW_KERNEL("sum", sum)
PF_GPU_KERNEL("sum_int", simple<kSumInt>)
PF_GPU_ROW_KERNEL("prod", prod)
PF_GPU_KERNEL("amax", simple<kMax>)
PF_GPU_KERNEL("amin", simple<kMin>)
PF_GPU_KERNEL("any", simple<kAny>)
PF_GPU_KERNEL("all", simple<kAll>)
PF_GPU_KERNEL("count_nonzero", simple<kCount>)
PF_GPU_KERNEL("find_extreme", find_extreme)

}  // namespace pyflame::gpu
