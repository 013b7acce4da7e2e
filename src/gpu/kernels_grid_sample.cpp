// Launchers of images at places of a grid (kernels/grid_sample.h). The gradient of the image is
// written in operations (ops/grid_sample.cpp).
#include "gpu/kernel.h"
#include "kernels/grid_sample_args.h"
#include "table/kernels/grid_sample.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr auto kNumber = numbers<GridSample>;
constexpr int kBlock = 256;

pf_images images(const KernelArgs& a) {
  pf_images m{};
  m.n = a.i(kNumber.n);
  m.c = a.i(kNumber.c);
  m.points = a.i(kNumber.points);
  m.size[0] = a.i(kNumber.in_w);
  m.size[1] = a.i(kNumber.in_h);
  m.size[2] = a.i(kNumber.in_d);
  m.cells = m.size[0] * m.size[1] * m.size[2];
  const bool beside = a.i(kNumber.beside) != 0;
  m.channel = beside ? 1 : m.cells;
  m.step = beside ? m.c : 1;
  m.out_channel = beside ? 1 : m.points;
  m.out_step = beside ? m.c : 1;
  m.align = a.i(kNumber.align) != 0;
  return m;
}
Function text(const KernelArgs& a, const pf_images& m, DType t, const char* entry) {
  const bool small = m.n * m.points * (m.c > 3 ? m.c : 3) < (int64_t{1} << 31);
  return a.compile("grid_sample.h",
                   Defines()
                       .type("PF_T", t)
                       .value("PF_DIMS", a.i(kNumber.dims))
                       .value("PF_MODE", a.i(kNumber.mode))
                       .value("PF_PADDING", a.i(kNumber.padding))
                       .value("PF_BESIDE", a.i(kNumber.beside))
                       .text("PF_INDEX", small ? "pf_u32" : "pf_u64"),
                   entry);
}

void grid_sample(const KernelArgs& a) {
  constexpr auto at = tensors<GridSample>;
  pf_images m = images(a);
  m.x = a.data(at.x);
  m.grid = a.data(at.grid);
  m.out = a.data(at.y);
  constexpr int64_t kChannels = 8;  // for which a place is looked up once
  m.channels = a.i(kNumber.beside) != 0 ? 1 : kChannels;
  m.groups = ceil_div(m.c, m.channels);
  a.launch(text(a, m, a.dtype(at.x), "grid_sample"), blocks_for(m.n * m.points * m.groups, kBlock),
           kBlock, 0, m);
}
void grid_sample_grid(const KernelArgs& a) {
  constexpr auto at = tensors<GridSampleGrid>;
  pf_images m = images(a);
  m.x = a.data(at.x);
  m.grid = a.data(at.grid);
  m.dy = a.data(at.dy);
  m.out = a.data(at.dgrid);
  a.launch(text(a, m, a.dtype(at.x), "grid_sample_grid"), blocks_for(m.n * m.points, kBlock),
           kBlock, 0, m);
}

}  // namespace

PF_GPU_KERNEL(GridSample::kInfo, grid_sample)
PF_GPU_KERNEL(GridSampleGrid::kInfo, grid_sample_grid)

}  // namespace pyflame::gpu
