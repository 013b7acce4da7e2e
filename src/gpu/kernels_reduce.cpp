// Reductions and the search for extremes (kernels/reduce.h, sum.h, moments.h).
#include <algorithm>

#include "core/kernel_numbers.h"
#include "gpu/around.h"
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

// Operations, and which of some tensors that lie alike each is of.
struct Sums {
  const char* ops[kMostReductions] = {};
  int n = 1, tensors = 1;
  int64_t from = 0;  // two bits for each
  const pf_tensor* x[kMostReductions] = {};
  bool again = false;  // the operation looks at the first element for each of the others
};

// Into results of dtype `out`, as if tensors were of dtype `as`.
void run_sum(const KernelArgs& a, pf_sum& r, const Sums& s, DType as, DType out) {
  const pf_tensor& x = *s.x[0];
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
  // Those in memory are found from one of them. What a program before the kernel makes has none,
  // or is stored by it.
  const auto first = static_cast<int>(&x - a.tensors);
  uint32_t made = tensors_before(a) >> first;
  if (made >> s.tensors) made = 0;  // a mean: not for this kernel
  const pf_tensor* base = &x;
  for (int i = s.tensors; i-- > 0;)
    if (!(made >> i & 1)) base = s.x[i];
  r.x = base->data;
  const auto width_of = [&](const pf_axes& along, const pf_axes& across, int64_t most, bool tail) {
    for (int i = 0; i < s.tensors; ++i) most = width_along(along, across, *s.x[i], most, tail);
    return most;
  };
  for (int i = 0; i < s.tensors; ++i)
    r.apart[i] = static_cast<const char*>(s.x[i]->data) - static_cast<const char*>(r.x);
  // Who takes which: of the layout.
  const bool rows = along_rows(r.kept, r.reduced);
  r.tiles = r.width = 1;
  int64_t v, blocks, parts = 1;
  int threads = kThreads;
  if (rows) {
    v = r.reduced.count == 0 ? 1 : width_of(r.reduced, r.kept, vector, r.reduced.n == 1);
    if (v != vector) v = 1;
    const int64_t unit = lanes * std::max<int64_t>(1, ways / 4);
    blocks = ceil_div(outs * r.chunks, kThreads / unit);
  } else {
    // What a thread has of its columns fills its registers, as does what they are made of.
    const int64_t most = std::min<int64_t>(vector, 8) / power_of_two_from(made ? 2 * s.n : s.n);
    v = width_of(r.kept, r.reduced, std::max<int64_t>(1, most), false);
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
  // By bits of tensors.
  constexpr const char* kInto[] = {
      "",          "x[0]",           "x[1]",           "x[0],x[1]",
      "x[2]",      "x[0],x[2]",      "x[1],x[2]",      "x[0],x[1],x[2]",
      "x[3]",      "x[0],x[3]",      "x[1],x[3]",      "x[0],x[1],x[3]",
      "x[2],x[3]", "x[0],x[2],x[3]", "x[1],x[2],x[3]", "x[0],x[1],x[2],x[3]"};
  const auto options = [&](uint32_t before) {
    constexpr const char* kNames[] = {"PF_OP", "PF_OP1", "PF_OP2", "PF_OP3"};
    Defines d = Defines()
                    .type("PF_T", t)
                    .value("PF_WIDE", as != t)
                    .type("PF_OUT", out)
                    .value("PF_V", v)
                    .value("PF_DENSE", r.reduced.n <= 1)
                    .value("PF_PARTS", parts)
                    .value("PF_OPS", s.n)
                    .value("PF_XS", s.tensors)
                    .value("PF_FROM", s.from)
                    .value("PF_MADE", before);
    for (int i = 0; i < s.n; ++i) d = std::move(d).text(kNames[i], s.ops[i]);
    if (before) d = std::move(d).text("PF_INTO", kInto[before]);
    return d;
  };
  const Defines defines = options(0);
  // A program before it makes whole pieces of rows, or rows of columns, that lie one behind the
  // other.
  const auto dense = [](const pf_axes& lines, const pf_axes& along, int64_t length) {
    return along.n == 1 && step_of(along) == 1 && length > 1 &&
           (lines.n == 0 || (lines.n == 1 && step_of(lines) == length));
  };
  const bool joins = rows ? v == vector && k % vector == 0 && dense(r.kept, r.reduced, k)
                          : !s.again && outs % v == 0 && dense(r.reduced, r.kept, outs);
  const char* const entry = rows ? "sum_rows" : "sum_columns";
  const auto with_program = [&] {
    const JoinedRows joined{first, rows ? outs : k, rows ? k : outs, v, true, s.again};
    if (!a.around) return Joined{a.compile("sum.h", defines, entry)};
    return join_programs(a.device, static_cast<FullAround&>(*a.around), "sum.h", options(made),
                         entry, joined, made << first);
  };
  if (a.asked()) {
    if (joins) with_program();
    return;
  }
  if (r.chunks * parts > 1)
    r.partial =
        a.workspace(static_cast<size_t>(r.chunks * parts * outs * s.n) * (size == 8 ? 8 : 4));
  if (joins)
    a.launch(with_program(), Grid(blocks), threads, 0, r);
  else
    a.launch(a.compile("sum.h", defines, entry), Grid(blocks), threads, 0, r);
  if (r.chunks * parts == 1) return;
  const int64_t width = std::min<int64_t>(power_of_two_from(outs), 32);
  r.width = static_cast<uint32_t>(width);
  a.launch(a.compile("sum.h", defines, "sum_finish"), Grid(ceil_div(outs, width)), kThreads, 0, r);
}

// What the text calls a SumKind.
constexpr const char* kSumOps[] = {"pf_op_sum",     "pf_op_squares", "pf_op_differences",
                                   "pf_op_spread",  "pf_op_numbers", "pf_op_product",
                                   "pf_op_largest", "pf_op_smallest"};

void run_sum(const KernelArgs& a, SumKind kind, const pf_tensor& x, const pf_tensor* mean,
             const pf_tensor& out, int64_t dims, double divisor) {
  auto r = plan<pf_sum>(x, dims, mean);
  r.out[0] = out.data;
  r.mean = mean ? mean->data : nullptr;
  r.divisor[0] = divisor;
  const bool origin = kind == SumKind::Differences || kind == SumKind::Spread;
  const auto as = static_cast<DType>(kind == SumKind::Plain ? x.dtype
                                     : mean                 ? mean->dtype
                                                            : out.dtype);
  const Sums s{{kSumOps[static_cast<int>(kind)]}, 1, 1, 0, {&x}, origin};
  run_sum(a, r, s, as, static_cast<DType>(out.dtype));
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

// One that others may join.
template <SumKind kKind>
void alone(const KernelArgs& a) {
  constexpr auto at = tensors<SumInt>;
  run_sum(a, kKind, a.tensor(at.x), nullptr, a.tensor(at.out), a.i(numbers<SumInt>.dims), 1);
}
void prod(const KernelArgs& a) {
  is_float(a.dtype(tensors<Prod>.x)) ? alone<kProduct>(a) : run(a, "pf_op_prod_int");
}
void amax(const KernelArgs& a) {
  a.dtype(tensors<Amax>.x) != DType::Bool ? alone<kLargest>(a) : run(a, "pf_op_any");
}
void amin(const KernelArgs& a) {
  a.dtype(tensors<Amin>.x) != DType::Bool ? alone<kSmallest>(a) : run(a, "pf_op_all");
}

void reductions(const KernelArgs& a) {
  constexpr auto at = tensors<Reductions>;
  constexpr auto number = numbers<Reductions>;
  auto r = plan<pf_sum>(a.tensor(at.x), a.i(number.dims), nullptr);
  Sums s;
  for (s.tensors = 0; s.tensors < kMostReductions && a.has(at.x + s.tensors); ++s.tensors)
    s.x[s.tensors] = &a.tensor(at.x + s.tensors);
  for (s.n = 0; s.n < kMostReductions && a.has(at.a + s.n); ++s.n) {
    const int64_t what = a.i(number.a + s.n);
    s.ops[s.n] = kSumOps[static_cast<int>(what_of(what))];
    s.from |= int64_t{tensor_of(what)} << 2 * s.n;
    r.out[s.n] = a.data(at.a + s.n);
    r.divisor[s.n] = a.f(number.a_by + s.n);
  }
  run_sum(a, r, s, a.dtype(at.x), a.dtype(at.a));
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

constexpr const char *kSumInt = "pf_op_sum_int", *kAny = "pf_op_any", *kAll = "pf_op_all",
                     *kCount = "pf_op_count";

}  // namespace

PF_GPU_TOGETHER("sum.h", "sum_columns sum_finish")
PF_GPU_ROW_KERNEL(Sum::kInfo, sum)
PF_GPU_ROW_KERNEL(Moments::kInfo, moments)
PF_GPU_ROW_KERNEL(SumInt::kInfo, simple<kSumInt>)
PF_GPU_ROW_KERNEL(Prod::kInfo, prod)
PF_GPU_ROW_KERNEL(Amax::kInfo, amax)
PF_GPU_ROW_KERNEL(Amin::kInfo, amin)
PF_GPU_ROW_KERNEL(Reductions::kInfo, reductions)
PF_GPU_ROW_KERNEL(Any::kInfo, simple<kAny>)
PF_GPU_ROW_KERNEL(All::kInfo, simple<kAll>)
PF_GPU_ROW_KERNEL(CountNonzero::kInfo, simple<kCount>)
PF_GPU_ROW_KERNEL(FindExtreme::kInfo, find_extreme)

}  // namespace pyflame::gpu
