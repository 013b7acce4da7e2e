// cross_entropy of class indices and its gradient (kernels/cross_entropy.h).
#include <algorithm>

#include "gpu/axes.h"
#include "gpu/kernel.h"
#include "kernels/cross_entropy_args.h"
#include "table/kernels/loss.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int64_t kRowThreads = 256;  // PF_ROW_THREADS

// Where the tensors of a call are; -1: it has none.
struct Order {
  int stats, total, x, target, weight, loss = -1, dx = -1, dloss = -1;
};

struct Prepared {
  pf_entropy r{};
  Defines defines;
  JoinedRows rows;
  int block = 0;
  size_t kept = 0;  // bytes of shared memory in which entropy_both keeps rows

  bool one_block() const { return r.rows > 0 && kept == 0 && r.rows * r.width <= kRowThreads; }
  void alone(const KernelArgs& a, bool steady) const {
    const auto threads = static_cast<int>(power_of_two_from(r.rows * r.width));
    a.launch(join(a, "entropy_alone"), Grid(1), std::max(block, threads), 0, r, pf_i32{steady});
  }
  // Blocks that keep rows stay, two on a multiprocessor.
  void for_rows(const KernelArgs& a, const char* entry) const {
    if (r.rows == 0) return;
    const Grid grid(kept > 0 ? std::min<int64_t>(r.rows, 2 * a.traits().compute_units)
                             : ceil_div(r.rows, block / static_cast<int>(r.width)));
    a.launch(join(a, entry), grid, block, kept, r);
  }
  void for_all(const KernelArgs& a, const char* entry) const {
    a.launch(a.compile("cross_entropy.h", defines, entry), Grid(1), 1024, 0, r);
  }
  Joined join(const KernelArgs& a, const char* entry) const {
    return a.join("cross_entropy.h", defines, entry, rows);
  }
};

Prepared prepare(const KernelArgs& a, const Order& at) {
  const pf_tensor& x = a.tensor(at.x);
  const DType t = a.dtype(at.x);
  const int64_t rows = x.shape[0], classes = x.shape[1];
  constexpr auto number = numbers<CrossEntropy>;  // of all three
  const bool weighted = a.has(at.weight), smooth = a.f(number.smoothing) > 0;
  const auto data = [&](int i) { return i < 0 ? nullptr : a.data(i); };
  Prepared p;
  pf_entropy& r = p.r;
  r.x = x.data;
  r.target = a.data(at.target);
  r.weight = weighted ? a.data(at.weight) : nullptr;
  r.gradient = data(at.dloss);
  r.loss = data(at.loss);
  r.dx = data(at.dx);
  r.stats = a.data(at.stats);
  r.total = a.data(at.total);
  r.rows = rows;
  r.ignore = a.i(number.ignore);
  r.smoothing = a.f(number.smoothing);
  r.reduction = static_cast<int32_t>(a.i(number.reduction));
  const int64_t v = vector_width(classes, {{x.data, t}, {r.dx, t}, {r.weight, t}});
  r.vectors = classes / v;
  const int64_t width =
      std::clamp<int64_t>(std::max(power_of_two_from(ceil_div(r.vectors, 8)),
                                   std::min<int64_t>(power_of_two_from(r.vectors), 8)),
                          1, kRowThreads);
  r.width = static_cast<uint32_t>(width);
  p.block = row_block(width, a.traits());
  const bool past = larger_than_caches(rows * classes * static_cast<int64_t>(itemsize(t)));
  // The loss looks at the target's logit by itself, and the gradient at the row once more.
  p.rows = {at.x, rows, classes, v, past, at.loss >= 0, at.dx >= 0};
  // Rows so long that those under way together are more than a cache holds, if two of them fit.
  const KeptRow kept = kept_row(a.row_bytes(p.rows), a.traits());
  if (at.loss >= 0 && at.dx >= 0 && width == kRowThreads && kept.two && !a.traits().amd)
    p.kept = kept.bytes;
  p.defines = Defines()
                  .type("PF_T", t)
                  .type("PF_I", a.dtype(at.target))
                  .type("PF_L", a.dtype(at.loss >= 0 ? at.loss : at.dloss))
                  .value("PF_V", v)
                  .value("PF_HAS_W", weighted)
                  .value("PF_SMOOTH", smooth)
                  .value("PF_PAST", past)
                  .value("PF_KEEP", p.kept > 0);
  if (a.asked()) return p;
  r.error = a.error();
  if (at.loss >= 0) {
    const size_t wide = t == DType::Float64 ? 8 : 4;
    r.losses = a.workspace(2 * wide * static_cast<size_t>(std::max<int64_t>(rows, 1)));
  }
  if (weighted && smooth) {
    void* sum = a.workspace(sizeof(double));
    r.weight_sum = sum;
    a.launch(a.compile("cross_entropy.h", p.defines, "entropy_weights"), Grid(1), 1024, 0, r.weight,
             sum, classes);
  }
  return p;
}

void cross_entropy(const KernelArgs& a) {
  constexpr auto at = tensors<CrossEntropy>;
  const Prepared p = prepare(a, {.stats = at.stats,
                                 .total = at.total,
                                 .x = at.x,
                                 .target = at.target,
                                 .weight = at.weight,
                                 .loss = at.loss});
  if (a.asked()) return void(p.join(a, "entropy_rows"));
  p.for_rows(a, "entropy_rows");
  p.for_all(a, "entropy_finish");
}

void cross_entropy_backward(const KernelArgs& a) {
  constexpr auto at = tensors<CrossEntropyBackward>;
  if (numel(a.tensor(at.x)) == 0) return;
  const Prepared p = prepare(a, {.stats = at.stats,
                                 .total = at.total,
                                 .x = at.x,
                                 .target = at.target,
                                 .weight = at.weight,
                                 .dx = at.dx,
                                 .dloss = at.dloss});
  if (a.asked()) return void(p.join(a, "entropy_backward"));
  p.for_rows(a, "entropy_backward");
}

void cross_entropy_both(const KernelArgs& a) {
  constexpr auto at = tensors<CrossEntropyBoth>;
  const Prepared p = prepare(a, {.stats = at.stats,
                                 .total = at.total,
                                 .x = at.x,
                                 .target = at.target,
                                 .weight = at.weight,
                                 .loss = at.loss,
                                 .dx = at.dx,
                                 .dloss = at.dloss});
  if (a.asked()) return void(p.join(a, "entropy_both"));
  if (p.one_block()) return p.alone(a, a.steady(at.target) && a.steady(at.weight));
  if (p.r.reduction == 1) p.for_all(a, "entropy_total");
  p.for_rows(a, "entropy_both");
  p.for_all(a, "entropy_both_finish");
}

}  // namespace

PF_GPU_TOGETHER("cross_entropy.h", "entropy_rows entropy_finish")
PF_GPU_TOGETHER("cross_entropy.h", "entropy_both entropy_total entropy_both_finish")
PF_GPU_ROW_KERNEL(CrossEntropy::kInfo, cross_entropy)
PF_GPU_ROW_KERNEL(CrossEntropyBackward::kInfo, cross_entropy_backward)
PF_GPU_ROW_KERNEL(CrossEntropyBoth::kInfo, cross_entropy_both)

}  // namespace pyflame::gpu
