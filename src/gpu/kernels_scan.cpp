// Running sums, products and extremes (kernels/scan.h).
#include <algorithm>

#include "gpu/axes.h"
#include "gpu/kernel.h"
#include "kernels/scan_args.h"
#include "table/kernels/scan.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int kThreads = 256, kItems = 8;  // PF_SCAN_THREADS, PF_SCAN_ITEMS

// `accumulator`: bytes of what is kept of a piece.
void run(const KernelArgs& a, const pf_tensor& in, const pf_tensor& out, void* indices, int dim,
         bool back, const char* op, size_t accumulator) {
  if (numel(in) == 0) return;
  const auto item = static_cast<int64_t>(itemsize(static_cast<DType>(in.dtype)));
  pf_scan s{in.data,       out.data,        indices,          nullptr, no_axes(),
            in.shape[dim], in.strides[dim], out.strides[dim], 0,       0};
  for (int d = 0; d < in.ndim; ++d)
    if (d != dim) add_axis(s.lanes, in.shape[d], in.strides[d], out.strides[d]);
  if (back) {
    s.in = static_cast<const char*>(s.in) + (s.length - 1) * s.in_stride * item;
    s.out = static_cast<char*>(s.out) + (s.length - 1) * s.out_stride * item;
    s.in_stride = -s.in_stride;
    s.out_stride = -s.out_stride;
  }
  const int64_t lanes = s.lanes.count;
  // Lanes that lie along memory take a block each, unless they are short.
  const bool rows = s.length > 64 && (s.in_stride == 1 || s.in_stride == -1 || lanes < kThreads);
  const int64_t units = rows ? lanes : ceil_div(lanes, kThreads);
  const int64_t least = rows ? int64_t{4} * kThreads * kItems : 64;
  const int64_t pieces = std::clamp<int64_t>(1024 / units, 1, ceil_div(s.length, least));
  s.piece = ceil_div(ceil_div(s.length, pieces), least) * least;
  s.pieces = ceil_div(s.length, s.piece);
  const char* entry = rows ? "scan_rows" : "scan_columns";
  int threads = kThreads;
  if (rows && s.pieces == 1)
    threads = static_cast<int>(std::clamp<int64_t>(power_of_two_from(ceil_div(s.length, kItems)),
                                                   a.traits().warp, kThreads));
  const auto function = [&](const char* name, int totals) {
    const Defines d = Defines()
                          .type("PF_T", static_cast<DType>(in.dtype))
                          .text("PF_OP", op)
                          .value("PF_TOTALS", totals);
    return a.compile("scan.h", d, name);
  };
  if (s.pieces > 1) {
    s.totals = a.workspace(accumulator * static_cast<size_t>(s.pieces * lanes));
    a.launch(function(entry, 1), Grid(units * s.pieces), threads, 0, s);
    a.launch(function("scan_totals", 1), Grid(lanes), kThreads, 0, s);
  }
  a.launch(function(entry, 0), Grid(units * s.pieces), threads, 0, s);
}

void run(const KernelArgs& a, const char* op) {
  constexpr auto at = tensors<Cumsum>;
  constexpr auto number = numbers<Cumsum>;
  run(a, a.tensor(at.x), a.tensor(at.out), nullptr, static_cast<int>(a.i(number.dim)),
      a.i(number.backwards) != 0, op, 8);
}
void cumsum(const KernelArgs& a) {
  run(a, "pf_scan_sum");
}
void cumprod(const KernelArgs& a) {
  run(a, "pf_scan_product");
}
void logcumsumexp(const KernelArgs& a) {
  run(a, "pf_scan_logsumexp");
}

void cumextreme(const KernelArgs& a) {
  constexpr auto at = tensors<CumExtreme>;
  constexpr auto number = numbers<CumExtreme>;
  run(a, a.tensor(at.x), a.tensor(at.values), a.data(at.indices), static_cast<int>(a.i(number.dim)),
      false, a.i(number.smallest) != 0 ? "pf_scan_min" : "pf_scan_max", 16);
}

}  // namespace

PF_GPU_KERNEL(Cumsum::kInfo, cumsum)
PF_GPU_KERNEL(Cumprod::kInfo, cumprod)
PF_GPU_KERNEL(LogCumsumExp::kInfo, logcumsumexp)
PF_GPU_KERNEL(CumExtreme::kInfo, cumextreme)

}  // namespace pyflame::gpu
