// Launchers of pooling (kernels/pool.h; for small windows kernels/pool_small.h and pool_lines.h).
#include "gpu/axes.h"
#include "gpu/kernel.h"
#include "kernels/pool_args.h"
#include "table/kernels/pool.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr auto kNumber = numbers<PoolMax>;

pf_windows windows(const KernelArgs& a, int d) {
  const auto of = [&](int first) { return static_cast<pf_i32>(a.i(first + d)); };
  return {of(kNumber.in_d),     of(kNumber.out_d),     of(kNumber.kernel_d),
          of(kNumber.stride_d), of(kNumber.padding_d), of(kNumber.dilation_d)};
}
// Small windows over pictures, the largest of which is wanted: true when it was launched.
bool small_windows(const KernelArgs& a, pf_pool p, DType t, DType kind, bool keep, bool back) {
  const pf_windows &h = p.h, &w = p.w;
  const auto alike = [](const pf_windows& x, const pf_windows& y) {
    return x.kernel == y.kernel && x.stride == y.stride && x.padding == y.padding;
  };
  const bool flat = p.d.in == 1 && p.d.out == 1 && p.d.kernel == 1 && p.d.padding == 0;
  const auto size = static_cast<int64_t>(itemsize(t));
  if (!flat || !alike(h, w) || h.dilation != 1 || w.dilation != 1 || !is_float(t) || size > 4 ||
      kind != DType::UInt8 || (w.kernel != 2 && w.kernel != 3) || w.stride > 2 || w.padding > 1 ||
      w.kernel - 1 - w.padding > w.stride || !aligned(p.from, 16) || !aligned(p.to, 16) ||
      !aligned(p.index, 16))
    return false;
  const int64_t inputs = p.outer * h.in * w.in * p.inner,
                results = p.outer * h.out * w.out * p.inner;
  const bool lines = p.inner == 1;
  const int64_t vector = 16 / size / (lines ? w.stride : 1);
  if (lines ? w.in % (vector * w.stride) != 0 || w.out % vector != 0 : p.inner % vector != 0)
    return false;
  const int64_t across = back ? ceil_div(w.in, w.stride) : w.out,
                each = lines ? across / vector : across * (p.inner / vector);
  // Below each other for a thread: STRIP and BACK_STRIP of pool_lines.h, PF_STRIP of pool_small.h,
  // while there are threads enough for the GPU.
  constexpr int64_t kStrip = 14;
  const int64_t line_strip = back ? 2 : 4;
  const int64_t units = a.traits().compute_units, threads = units * 1024;
  // Without taps an H100 (39 bits of memory for each multiprocessor) is 9% slower so, and an H200
  // (47 bits) 17% quicker: there the way from the second cache is the narrow one.
  const bool quick_memory = a.traits().memory_bits > 42 * units;
  const bool strips = !lines && (keep || quick_memory) && !back &&
                      p.outer * ceil_div(h.out, kStrip) * each >= threads;
  const int64_t rows = lines ? line_strip : strips ? kStrip : 1;
  const int64_t down = ceil_div(back ? ceil_div(h.in, h.stride) : h.out, rows);
  p.items = p.outer * down * each;
  const Defines defines =
      Defines()
          .type("PF_T", t)
          .value("PF_K", w.kernel)
          .value("PF_S", w.stride)
          .value("PF_P", w.padding)
          .value("PF_STRIP", strips ? kStrip : 1)
          .value("PF_V", vector)
          .value("PF_KEEP", keep)
          .text("PF_INDEX", std::max(inputs, results) < (int64_t{1} << 31) ? "pf_u32" : "pf_u64");
  const char* entry = lines    ? (back ? "pool_lines_input" : "pool_lines")
                      : back   ? "pool_small_input"
                      : strips ? "pool_strips"
                               : "pool_small";
  a.launch(a.compile(lines ? "pool_lines.h" : "pool_small.h", defines, entry),
           blocks_for(p.items, kBlock), kBlock, 0, p);
  return true;
}
// `back`: elements of x are written, not those of y.
// `largest`: there are kernels for small windows.
void run(const KernelArgs& a, const char* entry, int to, int from, int index, bool back = false,
         bool largest = false) {
  pf_pool p{a.data(from),
            a.data(to),
            index < 0 ? nullptr : a.data(index),
            windows(a, 0),
            windows(a, 1),
            windows(a, 2),
            a.i(kNumber.outer),
            a.i(kNumber.inner),
            a.i(kNumber.counts_padding),
            a.i(kNumber.divisor),
            0};
  const auto space = [&](bool in) {
    return in ? int64_t{p.d.in} * p.h.in * p.w.in : int64_t{p.d.out} * p.h.out * p.w.out;
  };
  const DType t = a.dtype(from), kind = index < 0 ? DType::UInt8 : a.dtype(index);
  if (largest && a.i(kNumber.adaptive) == 0 && small_windows(a, p, t, kind, index >= 0, back))
    return;
  const auto size = static_cast<int64_t>(itemsize(t));
  const int64_t inputs = p.outer * space(true) * p.inner,
                results = p.outer * space(false) * p.inner;
  // Eight bytes an index: their vectors are short.
  int64_t vector = kind == DType::Int64 ? 2 : 16 / size;
  while (vector > 1 && (p.inner % vector != 0 || !aligned(p.from, vector * size) ||
                        !aligned(p.to, vector * size) || !aligned(p.index, 16)))
    vector /= 2;
  p.items = (back ? inputs : results) / vector;
  const Defines defines =
      Defines()
          .type("PF_T", t)
          .type("PF_I", kind)
          .value("PF_V", vector)
          .value("PF_ADAPTIVE", a.i(kNumber.adaptive) != 0)
          .text("PF_INDEX", std::max(inputs, results) < (int64_t{1} << 31) ? "pf_u32" : "pf_u64");
  a.launch(a.compile("pool.h", defines, entry), blocks_for(p.items, kBlock), kBlock, 0, p);
}

void pool_max(const KernelArgs& a) {
  constexpr auto at = tensors<PoolMax>;
  run(a, "pool_max", at.y, at.x, at.index, false, true);
}
void pool_max_values(const KernelArgs& a) {
  constexpr auto at = tensors<PoolMaxValues>;
  run(a, "pool_max_values", at.y, at.x, -1, false, true);
}
void pool_max_input(const KernelArgs& a) {
  constexpr auto at = tensors<PoolMaxInput>;
  run(a, "pool_max_input", at.dx, at.dy, at.index, true, true);
}
void pool_max_pick(const KernelArgs& a) {
  constexpr auto at = tensors<PoolMaxPick>;
  run(a, "pool_max_pick", at.y, at.x, at.index);
}

void pool_average(const KernelArgs& a) {
  constexpr auto at = tensors<PoolAverage>;
  run(a, "pool_average", at.y, at.x, -1);
}
void pool_average_input(const KernelArgs& a) {
  constexpr auto at = tensors<PoolAverageInput>;
  run(a, "pool_average_input", at.dx, at.dy, -1, true);
}

}  // namespace

PF_GPU_KERNEL(PoolMax::kInfo, pool_max)
PF_GPU_KERNEL(PoolMaxValues::kInfo, pool_max_values)
PF_GPU_KERNEL(PoolMaxInput::kInfo, pool_max_input)
PF_GPU_KERNEL(PoolMaxPick::kInfo, pool_max_pick)
PF_GPU_KERNEL(PoolAverage::kInfo, pool_average)
PF_GPU_KERNEL(PoolAverageInput::kInfo, pool_average_input)

}  // namespace pyflame::gpu
