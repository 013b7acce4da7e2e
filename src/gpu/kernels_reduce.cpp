// Reductions and the search for extremes (kernels/reduce.h, sum.h, moments.h).
#include <algorithm>

#include "core/kernel_numbers.h"
#include "gpu/axes.h"
#include "gpu/kernel.h"
#include "kernels/reduce_args.h"
#include "table/kernels/reduce.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int kThreads = 256;  // PF_REDUCE_THREADS

// Bit d of `mask`: dimension d of x is reduced. `extra` (may be null) broadcasts over these.
template <class R>
R plan(const pf_tensor& x, int64_t mask, const pf_tensor* extra) {
  R r{};
  r.kept = r.reduced = no_axes();
  for (int d = 0; d < x.ndim; ++d) {
    if (mask >> d & 1)
      add_axis(r.reduced, x.shape[d], x.strides[d]);
    else
      add_axis(r.kept, x.shape[d], x.strides[d], extra ? extra->strides[d] : 0);
  }
  r.x = x.data;
  return r;
}

int64_t size_of(const pf_tensor& x) {
  return static_cast<int64_t>(itemsize(static_cast<DType>(x.dtype)));
}

// The widest access along the last axis of `along`, of up to `most` elements; its run must be whole
// vectors unless `tail`.
int64_t width_along(const pf_axes& along, const pf_axes& across, const pf_tensor& x, int64_t most,
                    bool tail) {
  const int64_t size = size_of(x);
  if (step_of(along) != 1) return 1;
  int64_t v = most;
  for (; v > 1; v /= 2) {
    bool good = aligned(x.data, v * size) && (tail ? run_of(along) >= v : run_of(along) % v == 0);
    for (int d = 0; d + 1 < along.n; ++d) good = good && along.stride[d] % v == 0;
    for (int d = 0; d < across.n; ++d) good = good && across.stride[d] % v == 0;
    if (good) break;
  }
  return v;
}

int64_t magnitude(int64_t v) {
  return v < 0 ? -v : v;
}

// Whether neighbours are added, not results that are neighbours.
bool along_rows(const pf_axes& kept, const pf_axes& reduced) {
  return kept.n == 0 || reduced.n == 0 || reduced.count == 0 ||
         magnitude(step_of(reduced)) < magnitude(step_of(kept));
}

// `partial` is the size of what is kept of a chunk.
void run(const KernelArgs& a, pf_reduce& r, const pf_tensor& x, const char* op, size_t partial) {
  const int64_t outs = r.kept.count, k = r.reduced.count;
  if (outs == 0) return;
  const bool rows = along_rows(r.kept, r.reduced);
  // A program before it reads wider elements, perhaps: more than 8 at once would take registers.
  const bool after_program = a.around && a.around->before.program;
  const int64_t most = std::min<int64_t>(16 / size_of(x), after_program ? 8 : 16);
  int64_t v;
  if (rows) {
    v = k == 0 ? 1 : width_along(r.reduced, r.kept, x, most, r.reduced.n == 1);
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
    v = width_along(r.kept, r.reduced, x, most, false);
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
  // A program before it makes whole pieces of rows that lie one behind the other.
  const bool joins = rows && v > 1 && k % v == 0 && r.reduced.n == 1 &&
                     (r.kept.n == 0 || (r.kept.n == 1 && step_of(r.kept) == k));
  const auto of_rows = [&] {
    return a.join("reduce.h", defines, "reduce_rows",
                  {static_cast<int>(&x - a.tensors), outs, k, v, true});
  };
  if (a.asked()) {
    if (joins) of_rows();
    return;
  }
  if (r.chunks > 1) r.partial = a.workspace(static_cast<size_t>(r.chunks * outs) * partial);
  const Grid grid(r.tiles * r.chunks);
  if (joins)
    a.launch(of_rows(), grid, kThreads, 0, r);
  else
    a.launch(a.compile("reduce.h", defines, rows ? "reduce_rows" : "reduce_columns"), grid,
             kThreads, 0, r);
  if (r.chunks == 1) return;
  const int64_t width = std::min<int64_t>(power_of_two_from(outs), 32);
  r.width = static_cast<uint32_t>(width);
  a.launch(a.compile("reduce.h", defines, "reduce_finish"), Grid(ceil_div(outs, width)), kThreads,
           0, r);
}

void run(const KernelArgs& a, const char* op) {
  constexpr auto at = tensors<SumInt>;
  const pf_tensor& x = a.tensor(at.x);
  auto r = plan<pf_reduce>(x, a.i(numbers<SumInt>.dims), nullptr);
  r.out = a.data(at.out);
  run(a, r, x, op, 8);
}
template <const char* const& kOp>
void simple(const KernelArgs& a) {
  run(a, kOp);
}

// ---- floating-point sums and products (kernels/sum.h) ------------------------------------------

// PF_COLUMN_THREADS: of a block that has all ways of a chunk, of one that shares them
constexpr int64_t kColumnThreads = 512, kPartThreads = 128;

// Into results of dtype `out`, as if x were of dtype `as`. `again`: the operation looks at the
// first element of a reduction for each of the others.
void run_sum(const KernelArgs& a, pf_sum& r, const pf_tensor& x, DType as, DType out,
             const char* op, bool again) {
  const auto t = static_cast<DType>(x.dtype);
  const int64_t outs = r.kept.count, k = std::max<int64_t>(r.reduced.count, 1);
  if (outs == 0) return;
  // The order of additions: of k, outs and the dtype alone.
  const auto size = static_cast<int64_t>(itemsize(as));
  const int64_t vector = 16 / size;
  const int64_t lanes = std::min<int64_t>(32, power_of_two_from(ceil_div(k, vector)));
  const int64_t leaf = lanes * vector;
  const int64_t ways = std::min<int64_t>(8, power_of_two_from(ceil_div(k, leaf)));
  const int64_t round = leaf * ways;
  const int64_t rounds = ceil_div(k, round);
  const int64_t most = std::clamp<int64_t>(ceil_div(int64_t{1} << 20, outs), 1, 8192);
  const int64_t least = rounds <= 4 ? rounds : 2;
  r.chunk = std::max(ceil_div(rounds, most), least) * round;
  r.chunks = ceil_div(k, r.chunk);
  r.lanes = static_cast<uint32_t>(lanes);
  r.ways = static_cast<uint32_t>(ways);
  // Who takes which: of the layout.
  const bool rows = along_rows(r.kept, r.reduced);
  r.tiles = r.width = 1;
  int64_t v, blocks, parts = 1;
  int threads = kThreads;
  if (rows) {
    v = r.reduced.count == 0 ? 1 : width_along(r.reduced, r.kept, x, vector, r.reduced.n == 1);
    if (v != vector) v = 1;
    const int64_t unit = lanes * std::max<int64_t>(1, ways / 4);
    blocks = ceil_div(outs * r.chunks, kThreads / unit);
  } else {
    v = width_along(r.kept, r.reduced, x, vector, false);
    const int64_t vectors = ceil_div(outs, v), lines = power_of_two_from(vectors);
    // Where ways have several leaves, or there is much to read, blocks are small and share the ways
    // of a chunk, side by side first: another launch joins them.
    if (rounds > 1 || larger_than_caches(outs * k * size_of(x)))
      parts = ways / std::min(ways, std::max<int64_t>(1, kPartThreads / v / lines));
    const int64_t each = ways / parts * v;  // threads that share a vector of columns
    const int64_t width =
        std::max<int64_t>({std::min(lines, (parts > 1 ? kPartThreads : kColumnThreads) / each),
                           a.traits().warp / each, 1});
    r.width = static_cast<uint32_t>(width);
    r.tiles = ceil_div(vectors, width);
    blocks = r.tiles * r.chunks * parts;
    threads = static_cast<int>(width * each);
  }
  const Defines defines = Defines()
                              .type("PF_T", t)
                              .value("PF_WIDE", as != t)
                              .type("PF_OUT", out)
                              .text("PF_OP", op)
                              .value("PF_V", v)
                              .value("PF_DENSE", r.reduced.n <= 1)
                              .value("PF_PARTS", parts);
  // A program before it makes whole pieces of rows that lie one behind the other.
  const bool joins = rows && v == vector && k % vector == 0 && r.reduced.n == 1 &&
                     (r.kept.n == 0 || (r.kept.n == 1 && step_of(r.kept) == k));
  const auto of_rows = [&] {
    return a.join("sum.h", defines, "sum_rows",
                  {static_cast<int>(&x - a.tensors), outs, k, v, true, again});
  };
  if (a.asked()) {
    if (joins) of_rows();
    return;
  }
  if (r.chunks * parts > 1)
    r.partial = a.workspace(static_cast<size_t>(r.chunks * parts * outs) * (size == 8 ? 8 : 4));
  if (joins)
    a.launch(of_rows(), Grid(blocks), threads, 0, r);
  else
    a.launch(a.compile("sum.h", defines, rows ? "sum_rows" : "sum_columns"), Grid(blocks), threads,
             0, r);
  if (r.chunks * parts == 1) return;
  const int64_t width = std::min<int64_t>(power_of_two_from(outs), 32);
  r.width = static_cast<uint32_t>(width);
  a.launch(a.compile("sum.h", defines, "sum_finish"), Grid(ceil_div(outs, width)), kThreads, 0, r);
}

void run_sum(const KernelArgs& a, SumKind kind, const pf_tensor& x, const pf_tensor* mean,
             const pf_tensor& out, int64_t dims, double divisor) {
  constexpr const char* kOps[] = {"pf_op_sum", "pf_op_squares", "pf_op_differences", "pf_op_spread",
                                  "pf_op_numbers"};  // by SumKind
  auto r = plan<pf_sum>(x, dims, mean);
  r.out = out.data;
  r.mean = mean ? mean->data : nullptr;
  r.divisor = divisor;
  const bool origin = kind == SumKind::Differences || kind == SumKind::Spread;
  const auto as = static_cast<DType>(mean ? mean->dtype : out.dtype);
  run_sum(a, r, x, as, static_cast<DType>(out.dtype), kOps[static_cast<int>(kind)], origin);
}

void sum(const KernelArgs& a) {
  constexpr auto at = tensors<Sum>;
  constexpr auto number = numbers<Sum>;
  run_sum(a, SumKind{a.i(number.kind)}, a.tensor(at.x),
          a.has(at.mean) ? &a.tensor(at.mean) : nullptr, a.tensor(at.out), a.i(number.dims),
          a.f(number.divisor));
}

constexpr int kMomentThreads = 128;  // PF_MOMENT_THREADS

// Rows that threads keep in registers, where a chunk of every sum is a whole row. Else false.
bool kept_moments(const KernelArgs& a) {
  constexpr auto at = tensors<Moments>;
  constexpr auto number = numbers<Moments>;
  const pf_tensor& x = a.tensor(at.x);
  const auto t = static_cast<DType>(x.dtype);
  auto r = plan<pf_moments>(x, a.i(number.dims), nullptr);
  const int64_t outs = r.kept.count, k = r.reduced.count;
  const int64_t size = size_of(x), vector = 16 / size, vectors = ceil_div(k, vector);
  if (!a.has(at.spread) || outs == 0 || k == 0 || r.reduced.n > 1 ||
      !along_rows(r.kept, r.reduced) || vectors > (size == 2 ? 512 : 1024))
    return false;
  r.total = a.has(at.total) ? a.data(at.total) : nullptr;
  r.differences = a.data(at.differences);
  r.spread = a.data(at.spread);
  r.total_by = a.f(number.total);
  r.differences_by = a.f(number.differences);
  r.spread_by = a.f(number.spread);
  const int64_t lines = power_of_two_from(ceil_div(vectors, 32));
  const int64_t kept = std::min<int64_t>(lines, lines < 16 ? 4 : 8), groups = lines / kept;
  r.lanes = static_cast<uint32_t>(std::min<int64_t>(32, power_of_two_from(vectors)));
  const bool whole = width_along(r.reduced, r.kept, x, vector, false) == vector;
  const int64_t rows = kMomentThreads / (r.lanes * groups);  // of a block
  const Defines defines =
      Defines()
          .type("PF_T", t)
          .value("PF_WIDE", a.dtype(at.differences) != t)
          .type("PF_OUT", a.dtype(at.spread))
          .value("PF_TOTAL", r.total != nullptr)
          .value("PF_KEPT", kept)
          .value("PF_GROUPS", groups)
          .value("PF_V", whole ? vector : 1)
          .value("PF_WHOLE", whole && outs % rows == 0 && vectors == r.lanes * kept * groups);
  const bool joins = whole && (r.kept.n == 0 || (r.kept.n == 1 && step_of(r.kept) == k));
  const auto of_rows = [&] {
    return a.join("moments.h", defines, "moment_rows", {at.x, outs, k, vector, true});
  };
  if (a.asked()) {
    if (joins) of_rows();
    return true;
  }
  const Grid grid(ceil_div(outs, rows));
  if (joins)
    a.launch(of_rows(), grid, kMomentThreads, 0, r);
  else
    a.launch(a.compile("moments.h", defines, "moment_rows"), grid, kMomentThreads, 0, r);
  return true;
}

void moments(const KernelArgs& a) {
  constexpr auto at = tensors<Moments>;
  constexpr auto number = numbers<Moments>;
  if (kept_moments(a)) return;
  KernelArgs alone = a;
  alone.around = nullptr;
  const auto add = [&](const KernelArgs& in, SumKind kind, int out, const pf_tensor* mean,
                       int divisor) {
    run_sum(in, kind, a.tensor(at.x), mean, a.tensor(out), a.i(number.dims), a.f(divisor));
  };
  // What the program before it stores the later sums find in memory.
  const bool joins = a.around && a.around->before.keep && a.has(at.total);
  if (a.has(at.total) && (joins || !a.asked()))
    add(joins ? a : alone, SumKind::Plain, at.total, nullptr, number.total);
  if (a.asked()) return;
  add(alone, SumKind::Differences, at.differences, nullptr, number.differences);
  if (a.has(at.spread))
    add(alone, SumKind::Spread, at.spread, &a.tensor(at.differences), number.spread);
}

void prod(const KernelArgs& a) {
  constexpr auto at = tensors<Prod>;
  if (!is_float(a.dtype(at.x))) {
    run(a, "pf_op_prod_int");
    return;
  }
  auto r = plan<pf_sum>(a.tensor(at.x), a.i(numbers<Prod>.dims), nullptr);
  r.out = a.data(at.out);
  r.divisor = 1;
  run_sum(a, r, a.tensor(at.x), a.dtype(at.x), a.dtype(at.out), "pf_op_product", false);
}

// ------------------------------------------------------------------------------------------------

void find_extreme(const KernelArgs& a) {
  constexpr auto at = tensors<FindExtreme>;
  constexpr auto number = numbers<FindExtreme>;
  const pf_tensor& x = a.tensor(at.x);
  auto r = plan<pf_reduce>(x, x.ndim == 0 ? 0 : int64_t{1} << a.i(number.dim), nullptr);
  if (r.reduced.count == 0) return;
  r.values = a.data(at.values);
  r.out = a.data(at.indices);
  run(a, r, x, a.i(number.largest) != 0 ? "pf_op_argmax" : "pf_op_argmin", 16);
}

constexpr const char *kSumInt = "pf_op_sum_int", *kMax = "pf_op_max", *kMin = "pf_op_min",
                     *kAny = "pf_op_any", *kAll = "pf_op_all", *kCount = "pf_op_count";

}  // namespace

PF_GPU_TOGETHER("sum.h", "sum_columns sum_finish")
PF_GPU_ROW_KERNEL(Sum::kInfo, sum)
PF_GPU_ROW_KERNEL(Moments::kInfo, moments)
PF_GPU_ROW_KERNEL(SumInt::kInfo, simple<kSumInt>)
PF_GPU_ROW_KERNEL(Prod::kInfo, prod)
PF_GPU_ROW_KERNEL(Amax::kInfo, simple<kMax>)
PF_GPU_ROW_KERNEL(Amin::kInfo, simple<kMin>)
PF_GPU_ROW_KERNEL(Any::kInfo, simple<kAny>)
PF_GPU_ROW_KERNEL(All::kInfo, simple<kAll>)
PF_GPU_ROW_KERNEL(CountNonzero::kInfo, simple<kCount>)
PF_GPU_ROW_KERNEL(FindExtreme::kInfo, find_extreme)

}  // namespace pyflame::gpu
