// A few rows times the rows of a matrix, such as a linear layer on one token of each text: bound by
// reading the matrix.
#include <algorithm>

#include "gpu/axes.h"
#include "gpu/product_own.h"
#include "gpu/tensor_map.h"
#include "kernels/matmul_stream_args.h"

namespace pyflame::gpu {
namespace {

// It takes some microseconds: less than a driver's call, so it goes with others.
KernelArgs batched(const KernelArgs& args, const Product& p) {
  KernelArgs with = args;
  with.small = args.small || p.n * p.k * static_cast<int64_t>(itemsize(p.dtype)) < int64_t{32}
                                                                                       << 20;
  return with;
}

// One row: kernels/matmul_stream.h, or for large matrices on Hopper matmul_stream_hopper.h.
bool stream(const KernelArgs& args, const Product& p, const RowNorm* norm = nullptr) {
  static constexpr int kMostChunks = 8, kWarps = 8;
  const Traits& t = args.traits();
  if (p.m != 1 || std::max(p.n, p.k) > int64_t{1} << 28) return false;
  const int64_t item = static_cast<int64_t>(itemsize(p.dtype)), chunks = p.k * item / 16,
                each = ceil_div(chunks, t.warp);
  Defines options = Defines().type("PF_T", p.dtype).value("WARPS", kWarps);
  int64_t parts = 1, grid = 0, shared = 0;
  while (parts * kMostChunks < each) parts *= 2;
  const bool by_copies =
      tensor_maps(t) && item == 2 && p.n * p.k >= int64_t{1} << 19 && parts <= kWarps;
  if (by_copies) {
    // Two such kernels share a multiprocessor: one runs, the next fills its ring.
    static constexpr int64_t kRing = 107 << 10, kUnderWay = 13 << 10;
    const int64_t slot = 2 * 128 * ceil_div(chunks, 8 * parts);
    grid = std::min<int64_t>(t.compute_units, ceil_div(p.n, 2));
    const int64_t columns = ceil_div(p.n, grid), units = ceil_div(columns, 2) * parts,
                  slots = std::clamp<int64_t>(std::min(units, kRing / slot), kWarps, 32);
    shared = 128 + columns * parts * 4 + slots * slot;
    options = std::move(options)
                  .value("PARTS", parts)
                  .value("SLOTS", slots)
                  .value("UNDER_WAY", std::clamp<int64_t>(kUnderWay / slot, 1, slots))
                  .value("PF_RESIDENT", norm ? 2 : 3);  // two, and attention
  } else {
    static constexpr int kBlocks = 2;  // of a compute unit
    parts = ceil_div(each, kMostChunks);
    grid = std::min<int64_t>(int64_t{kBlocks} * t.compute_units, ceil_div(p.n, kWarps));
    options = std::move(options).value("PF_RESIDENT", kBlocks);
  }
  options = std::move(options).value("CHUNKS", ceil_div(each, parts));
  const int block = (kWarps + by_copies) * t.warp;
  const pf_matmul_stream_args given{
      arguments(p, 1, 1), static_cast<pf_i32>(parts),
      (p.steady ? PF_STEADY_B : 0) | (norm && norm->steady ? PF_STEADY_NORM : 0)};
  const auto join = [&] {
    return args.join(by_copies ? "matmul_stream_hopper.h" : "matmul_stream.h", options,
                     by_copies ? "pf_matmul_stream_hopper" : "pf_matmul_stream", {-1, 1, p.n, 1});
  };
  const auto bytes = static_cast<size_t>(shared);
  if (!norm) {
    batched(args, p).launch(join(), Grid(grid), block, bytes, given);
    return true;
  }
  const RowShape shape = one_row_shape(chunks, 16 / item, p.dtype);
  if (shape.vectors == 0 || kWarps * t.warp % shape.width != 0) return false;
  options = std::move(options)
                .value("PF_NORM", shape.width)
                .value("PF_VECS", shape.vectors)
                .value("PF_RMS", norm->rms)
                .value("PF_HAS_W", norm->r.weight != nullptr)
                .value("PF_HAS_B", norm->r.bias != nullptr)
                .value("PF_KEPT", norm->kept.data != nullptr);
  pf_norm r = norm->r;
  r.rows = 1;
  r.vectors = chunks;
  r.width = static_cast<uint32_t>(shape.width);
  batched(args, p).launch(join(), Grid(grid), block, bytes, given, r, norm->kept);
  return true;
}

// Whether both operands are lines along k of whole chunks.
bool in_lines(const Product& p) {
  const int item = static_cast<int>(itemsize(p.dtype));
  return p.batches() == 1 && p.out == p.dtype && is_float(p.dtype) && item <= 4 && p.k > 0 &&
         p.k * item % 16 == 0 && p.a_col == 1 && p.b_row == 1 &&
         aligned(p.a, p.m > 1 ? p.a_row : 0, item) && aligned(p.b, p.b_col, item);
}

}  // namespace

bool norm_product(const KernelArgs& args, const Product& p, const RowNorm& norm) {
  const auto whole = [](const void* at) { return aligned(at, 0, 1); };
  return p.m == 1 && in_lines(p) && whole(norm.r.x) && whole(norm.r.weight) && whole(norm.r.bias) &&
         stream(args, p, &norm);
}

bool rows_product(const KernelArgs& args, const Product& p, bool more) {
  // Of more rows several blocks read a column: as many as keep all compute units at it.
  static constexpr int kRows = 8, kColumns = 4, kMost = 64, kOfMore = 4;
  // From there on cuBLASLt is quicker (H200, GPT-2 1558M). On AMD nobody has measured it.
  const int most = args.traits().amd ? kRows : 2;
  const int item = static_cast<int>(itemsize(p.dtype));
  if (p.m > (more ? kMost : most) || !in_lines(p)) return false;
  if (!more && stream(args, p)) return true;
  // Each thread has a few lines of 16 bytes under way.
  int threads = p.k * item >= 2048 ? 256 : 128;
  int rows = 1;
  while (rows < p.m) rows *= 2;
  if (p.m > kRows) {
    const auto lines = ceil_div(p.k * item / 16, args.traits().warp);
    rows = kOfMore;
    threads = static_cast<int>(lines > 2 ? 4 : std::max<int64_t>(lines, 1)) * args.traits().warp;
  }
  const Defines options = Defines()
                              .type("PF_T", p.dtype)
                              .value("ROWS", rows)
                              .value("COLUMNS", kColumns)
                              .value("WARPS", threads / args.traits().warp);
  batched(args, p).launch(args.join("matmul_rows.h", options, "pf_matmul_rows", {-1, p.m, p.n, 1}),
                          Grid(blocks(p, rows, kColumns)), threads, 0, arguments(p, rows, kColumns),
                          pf_i32{p.steady});
  return true;
}

}  // namespace pyflame::gpu
