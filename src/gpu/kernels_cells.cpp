// Moments and sums of cells (kernels/cells.h).
#include <algorithm>

#include "gpu/axes.h"
#include "gpu/kernel.h"
#include "kernels/cells_args.h"
#include "table/kernels/cells.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int64_t kThreads = 256;  // PF_CELL_THREADS
constexpr int64_t kUnits = 2048;   // blocks that keep a large GPU busy

void run(const KernelArgs& a, pf_cells& r, DType t, bool sums) {
  constexpr auto number = numbers<CellMoments>;
  r.batch = a.i(number.batch);
  r.outer = a.i(number.outer);
  r.cells = a.i(number.cells);
  r.inner = a.i(number.inner);
  const int64_t total = r.batch * r.outer * r.cells * r.inner;
  const auto size = static_cast<int64_t>(itemsize(t));
  const int64_t vector = 16 / size, run = ceil_div(r.inner, vector);
  // Short runs that are no whole vectors are columns, if there are rows enough to add.
  r.runs = r.inner >= 512 || (r.inner >= 8 * vector && r.inner % vector == 0) ||
           (r.inner >= vector && r.outer < 16);
  r.columns = r.runs ? r.cells : r.cells * r.inner;
  const int64_t row = r.runs ? r.inner : r.columns;
  const bool whole = row % vector == 0 && aligned(r.x, 16) && aligned(r.g, 16);
  int64_t blocks;
  if (r.runs) {
    const int64_t vectors = r.outer * run;
    r.width = static_cast<uint32_t>(
        std::clamp<int64_t>(power_of_two_from(ceil_div(vectors, 4)), 1, kThreads));
    const int64_t most = std::max<int64_t>(1, vectors / (4 * kThreads));
    r.chunks = std::clamp<int64_t>(kUnits / (r.batch * r.cells), 1, most);
    r.chunk = ceil_div(vectors, r.chunks);
    r.chunks = ceil_div(vectors, r.chunk);
    r.tiles = 1;
    blocks = ceil_div(r.batch * r.chunks * r.cells, kThreads / r.width);
  } else {
    const int64_t vectors = ceil_div(r.columns, vector);
    constexpr int64_t kBeside = 32;
    r.width = static_cast<uint32_t>(std::min(kBeside, power_of_two_from(vectors)));
    r.tiles = ceil_div(vectors, r.width);
    const int64_t most = std::max<int64_t>(1, r.outer / (8 * kThreads / r.width));
    r.chunks = std::clamp<int64_t>(kUnits / (r.batch * r.tiles), 1, most);
    r.chunk = ceil_div(r.outer, r.chunks);
    r.chunks = ceil_div(r.outer, r.chunk);
    blocks = r.batch * r.chunks * r.tiles;
  }
  const bool finish = r.chunks > 1 || r.columns > r.cells;
  if (finish)
    r.partial = a.workspace(static_cast<size_t>(r.batch * r.chunks * r.columns * 2) *
                            (t == DType::Float64 ? 8 : 4));
  const Defines defines = Defines()
                              .type("PF_T", t)
                              .value("PF_SUMS", sums)
                              .value("PF_V", whole ? vector : 1)
                              .value("PF_PAST", larger_than_caches(total * size));
  a.launch(a.compile("cells.h", defines, r.runs ? "cell_rows" : "cell_columns"), Grid(blocks),
           kThreads, 0, r);
  if (!finish) return;
  const int64_t outs = r.batch * r.cells;
  const int64_t width = std::min<int64_t>(power_of_two_from(outs), 8);
  r.width = static_cast<uint32_t>(width);
  a.launch(a.compile("cells.h", defines, "cell_finish"), Grid(ceil_div(outs, width)), kThreads, 0,
           r);
}

void cell_moments(const KernelArgs& a) {
  constexpr auto at = tensors<CellMoments>;
  pf_cells r{};
  r.x = a.data(at.x);
  r.first = a.data(at.mean);
  r.second = a.data(at.var);
  run(a, r, a.dtype(at.x), false);
}
void cell_sums(const KernelArgs& a) {
  constexpr auto at = tensors<CellSums>;
  pf_cells r{};
  r.x = a.data(at.x);
  r.g = a.data(at.g);
  r.mean = a.data(at.mean);
  r.first = a.data(at.sum);
  r.second = a.data(at.product);
  run(a, r, a.dtype(at.x), true);
}

}  // namespace

PF_GPU_KERNEL(CellMoments::kInfo, cell_moments)
PF_GPU_KERNEL(CellSums::kInfo, cell_sums)

}  // namespace pyflame::gpu
