// cross_entropy of class indices and its gradient (kernels/cross_entropy.h).
#include <algorithm>

#include "gpu/axes.h"
#include "gpu/kernel.h"

namespace pyflame::gpu {
namespace {

// pf_entropy of kernels/cross_entropy.h.
struct Entropy {
  const void* x = nullptr;
  const void* target = nullptr;
  const void* weight = nullptr;
  const void* weight_sum = nullptr;
  const void* gradient = nullptr;
  void* out = nullptr;
  void* stats = nullptr;
  void* total = nullptr;
  void* losses = nullptr;
  int64_t rows = 0, vectors = 0, ignore = 0;
  double smoothing = 0;
  int32_t reduction = 0;
  uint32_t width = 1;
  ErrorArg error{};
};

struct Prepared {
  Entropy r;
  Defines defines;
  int block = 0;
};

// `in`, `target`, `weight`: which tensors these are; `most`: threads of a row. attrs: ignore_index,
// label_smoothing, reduction.
Prepared prepare(const KernelArgs& a, int in, int target, int weight, int64_t most) {
  const pf_tensor& x = a.tensor(in);
  const DType t = a.dtype(in);
  const int64_t rows = x.shape[0], classes = x.shape[1];
  const bool weighted = a.has(weight), smooth = a.f(1) > 0;
  Prepared p;
  Entropy& r = p.r;
  r.x = x.data;
  r.target = a.data(target);
  r.weight = weighted ? a.data(weight) : nullptr;
  r.out = a.data(0);
  r.rows = rows;
  r.ignore = a.i(0);
  r.smoothing = a.f(1);
  r.reduction = static_cast<int32_t>(a.i(2));
  r.error = a.error();
  const int64_t v =
      vector_width(classes, {{x.data, t}, {in == 2 ? r.out : nullptr, t}, {r.weight, t}});
  r.vectors = classes / v;
  const int64_t width =
      std::clamp<int64_t>(std::max(power_of_two_from(ceil_div(r.vectors, 8)),
                                   std::min<int64_t>(power_of_two_from(r.vectors), 8)),
                          1, most);
  r.width = static_cast<uint32_t>(width);
  p.block = row_block(width, a.traits());
  const int64_t bytes = rows * classes * static_cast<int64_t>(itemsize(t));
  p.defines = Defines()
                  .type("PF_T", t)
                  .type("PF_I", a.dtype(target))
                  .value("PF_V", v)
                  .value("PF_HAS_W", weighted)
                  .value("PF_SMOOTH", smooth)
                  .value("PF_PAST", larger_than_caches(bytes));
  if (weighted && smooth) {
    void* sum = a.workspace(sizeof(double));
    r.weight_sum = sum;
    a.launch(a.compile("cross_entropy.h", p.defines, "entropy_weights"), Grid(1), 1024, 0, r.weight,
             sum, classes);
  }
  return p;
}

// Tensors: loss, statistics (N, 2), total weight; logits, target, weight.
void cross_entropy(const KernelArgs& a) {
  Prepared p = prepare(a, 3, 4, 5, 128);  // PF_FORWARD_THREADS
  Entropy& r = p.r;
  r.stats = a.data(1);
  r.total = a.data(2);
  const size_t wide = a.dtype(3) == DType::Float64 ? 8 : 4;
  r.losses = a.workspace(2 * wide * static_cast<size_t>(std::max<int64_t>(r.rows, 1)));
  const auto function = [&](const char* entry) {
    return a.compile("cross_entropy.h", p.defines, entry);
  };
  if (r.rows > 0)
    a.launch(function("entropy_rows"), Grid(ceil_div(r.rows, p.block / static_cast<int>(r.width))),
             p.block, 0, r);
  a.launch(function("entropy_finish"), Grid(1), 1024, 0, r);
}

// Tensors: dlogits; gradient, logits, target, statistics, total weight, weight.
void cross_entropy_backward(const KernelArgs& a) {
  if (numel(a.tensor(2)) == 0) return;
  Prepared p = prepare(a, 2, 3, 6, 512);  // PF_BACKWARD_THREADS
  p.r.gradient = a.data(1);
  p.r.stats = a.data(4);
  p.r.total = a.data(5);
  a.launch(a.compile("cross_entropy.h", p.defines, "entropy_backward"),
           Grid(ceil_div(p.r.rows, p.block / static_cast<int>(p.r.width))), p.block, 0, p.r);
}

}  // namespace

PF_GPU_KERNEL("cross_entropy", cross_entropy)
PF_GPU_KERNEL("cross_entropy_backward", cross_entropy_backward)

}  // namespace pyflame::gpu
