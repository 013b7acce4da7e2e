// A few rows times the rows of a matrix, such as a linear layer on one token of each text: bound by
// reading the matrix.
#include <algorithm>

#include "gpu/product_own.h"
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

// kernels/matmul_stream.h: one row, on NVIDIA's GPUs that copy asynchronously.
bool stream(const KernelArgs& args, const Product& p) {
  // Of two kernels that follow each other a block each has room on a compute unit.
  static constexpr int kWarps = 8, kSlots = 4, kMostChunks = 8;
  const Traits& t = args.traits();
  const int64_t item = static_cast<int64_t>(itemsize(p.dtype)), chunks = p.k * item / 16,
                parts = ceil_div(chunks, int64_t{kMostChunks} * t.warp),
                each = ceil_div(chunks, parts), own = ceil_div(each, t.warp),
                bytes = (parts + int64_t{kWarps} * kSlots) * own * t.warp * 16;
  if (t.amd || !matrix_unit(t) || p.m != 1 || std::max(p.n, p.k) > int64_t{1} << 28 ||
      bytes > static_cast<int64_t>(t.max_shared))
    return false;
  const Defines options = Defines()
                              .type("PF_T", p.dtype)
                              .value("WARPS", kWarps)
                              .value("SLOTS", kSlots)
                              .value("CHUNKS", own)
                              .value("WHOLE", parts == 1)
                              .value("PF_RESIDENT", 1);
  batched(args, p).launch(
      args.join("matmul_stream.h", options, "pf_matmul_stream", {-1, 1, p.n, 1}),
      Grid(std::min<int64_t>(t.compute_units, ceil_div(p.n, kWarps))), kWarps * t.warp,
      static_cast<size_t>(bytes),
      pf_matmul_stream_args{arguments(p, 1, 1), static_cast<pf_i32>(parts),
                            static_cast<pf_i32>(each), p.steady, 0});
  return true;
}

}  // namespace

bool rows_product(const KernelArgs& args, const Product& p, bool more) {
  // Of more rows several blocks read a column: as many as keep all compute units at it.
  static constexpr int kRows = 8, kColumns = 4, kMost = 64, kOfMore = 4;
  // From there on cuBLASLt is quicker (H200, GPT-2 1558M). On AMD nobody has measured it.
  const int most = args.traits().amd ? kRows : 2;
  const int item = static_cast<int>(itemsize(p.dtype));
  if (p.m > (more ? kMost : most) || p.batches() != 1 || p.out != p.dtype || !is_float(p.dtype) ||
      item > 4 || p.k == 0 || p.k * item % 16 != 0 || p.a_col != 1 || p.b_row != 1 ||
      !aligned(p.a, p.m > 1 ? p.a_row : 0, item) || !aligned(p.b, p.b_col, item))
    return false;
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
                          Grid(blocks(p, rows, kColumns)), threads, 0,
                          arguments(p, rows, kColumns));
  return true;
}

}  // namespace pyflame::gpu
