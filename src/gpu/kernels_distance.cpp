// Launchers of distances between all pairs of rows (kernels/distance.h).
#include <cmath>

#include "gpu/kernel.h"

namespace pyflame::gpu {
namespace {

// pf_distances of kernels/distance.h.
struct PairSteps {
  int64_t batch, row, column;
};
struct Distances {
  const void *x1, *x2, *grad, *y;
  void* out;
  int64_t batch, rows, n, m;
  PairSteps at_grad, at_y;
};
constexpr int kBlock = 256, kTile = 64;

PairSteps steps_of(const pf_tensor& t, bool triangle) {
  if (triangle) return {0, 0, t.strides[0]};
  return {t.strides[0], t.strides[1], t.strides[2]};
}
Distances operands(const KernelArgs& a) {
  const pf_tensor &x1 = a.tensor(1), &x2 = a.tensor(2);
  return {a.data(1),   a.data(2),   nullptr,     nullptr, a.data(0), x1.shape[0],
          x1.shape[1], x2.shape[1], x1.shape[2], {},      {}};
}
Function text(const KernelArgs& a, const char* entry) {
  const double p = a.f(0);
  return a.compile("distance.h",
                   Defines()
                       .type("PF_T", a.dtype(1))
                       .value("PF_NORM", std::isinf(p) ? 3 : static_cast<int64_t>(p))
                       .value("PF_TRIANGLE", a.i(1) != 0)
                       .text("PF_INDEX", "pf_u64"),
                   entry);
}

// Tensors and attributes as in src/cpu/distance.cpp.
void distances(const KernelArgs& a) {
  Distances q = operands(a);
  q.at_y = steps_of(a.tensor(0), a.i(1) != 0);
  a.launch(text(a, "pf_distances_of"), q.batch * ceil_div(q.rows, kTile) * ceil_div(q.n, kTile),
           kBlock, 0, q);
}
void distances_backward(const KernelArgs& a) {
  Distances q = operands(a);
  q.grad = a.data(3);
  q.y = a.data(4);
  q.at_grad = steps_of(a.tensor(3), a.i(1) != 0);
  q.at_y = steps_of(a.tensor(4), a.i(1) != 0);
  a.launch(text(a, "pf_distances_slopes"), blocks_for(q.batch * q.rows * q.m, kBlock, 1 << 16),
           kBlock, 0, q);
}

}  // namespace

PF_GPU_KERNEL("distances", distances)
PF_GPU_KERNEL("distances_backward", distances_backward)

}  // namespace pyflame::gpu
