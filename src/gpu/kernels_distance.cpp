// Launchers of distances between all pairs of rows (kernels/distance.h).
#include <cmath>

#include "gpu/kernel.h"
#include "kernels/distance_args.h"
#include "table/kernels/distance.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int kBlock = 256, kTile = 64;

pf_pair_steps steps_of(const pf_tensor& t, bool triangle) {
  if (triangle) return {0, 0, t.strides[0]};
  return {t.strides[0], t.strides[1], t.strides[2]};
}
template <class Positions>
pf_distances operands(const KernelArgs& a, const Positions& at) {
  const pf_tensor &x1 = a.tensor(at.x1), &x2 = a.tensor(at.x2);
  return {x1.data,     x2.data,     nullptr,     nullptr, nullptr, x1.shape[0],
          x1.shape[1], x2.shape[1], x1.shape[2], {},      {}};
}
constexpr auto kNumber = numbers<Distances>;  // of both
bool triangle(const KernelArgs& a) {
  return a.i(kNumber.triangle) != 0;
}
Function text(const KernelArgs& a, DType t, const char* entry) {
  const double p = a.f(kNumber.p);
  return a.compile("distance.h",
                   Defines()
                       .type("PF_T", t)
                       .value("PF_NORM", std::isinf(p) ? 3 : static_cast<int64_t>(p))
                       .value("PF_TRIANGLE", triangle(a))
                       .text("PF_INDEX", "pf_u64"),
                   entry);
}

void distances(const KernelArgs& a) {
  constexpr auto at = tensors<Distances>;
  pf_distances q = operands(a, at);
  q.out = a.data(at.out);
  q.at_y = steps_of(a.tensor(at.out), triangle(a));
  a.launch(text(a, a.dtype(at.x1), "pf_distances_of"),
           q.batch * ceil_div(q.rows, kTile) * ceil_div(q.n, kTile), kBlock, 0, q);
}
void distances_backward(const KernelArgs& a) {
  constexpr auto at = tensors<DistancesBackward>;
  pf_distances q = operands(a, at);
  q.out = a.data(at.dx);
  q.grad = a.data(at.dout);
  q.y = a.data(at.out);
  q.at_grad = steps_of(a.tensor(at.dout), triangle(a));
  q.at_y = steps_of(a.tensor(at.out), triangle(a));
  a.launch(text(a, a.dtype(at.x1), "pf_distances_slopes"),
           blocks_for(q.batch * q.rows * q.m, kBlock, 1 << 16), kBlock, 0, q);
}

}  // namespace

PF_GPU_KERNEL(Distances::kInfo, distances)
PF_GPU_KERNEL(DistancesBackward::kInfo, distances_backward)

}  // namespace pyflame::gpu
