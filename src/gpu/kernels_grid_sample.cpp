// Values of images at places of a grid, and the gradients of grid and images
// (table/kernels/grid_sample.h). A thread makes some channels of one place, the gradient of one
// place, or some channels of the gradient of one cell: what places give to cells is sorted by cell,
// so that each is a sum in the order of the places, as on the CPU.
//   -DPF_T=      dtype
//   -DPF_DIMS=   2 or 3
//   -DPF_MODE= -DPF_PADDING=   as grid_place.h numbers them
//   -DPF_BESIDE=1   channels lie side by side: threads do, too
//   -DPF_EACH=   channels of a thread in the gradient of images; beside each other they are one
//                access, and divide what there is
#include "kernels/integers.h"

struct pf_images {
  const void *x, *grid, *dy;
  void* out;  // values, or the gradient of the grid
  pf_i64 n, c, points;
  pf_i64 size[3];           // of space, the fastest dimension first
  pf_i64 cells;             // of one channel
  pf_i64 channels, groups;  // that a thread makes, and so many threads for each place
  pf_i64 channel, step, out_channel, out_step;  // strides of x and of the result
  pf_i32 align, unused;
};
static_assert(sizeof(pf_images) == 144, "as hosts fill it");
// What places give to the cells of some images: each entry is a tap of a place.
struct pf_given {
  pf_images m;
  pf_u64* keys;    // the cell, counted through these images; behind all of them: nothing is there
  pf_i64* at;      // which entry
  void* weights;   // of entries, as numbers of the place are calculated
  pf_i64* starts;  // of cells among the sorted entries, and the end
  pf_i64 first, images, entries;
};
static_assert(sizeof(pf_given) == 200, "as hosts fill it");

#ifdef PF_DEVICE_TEXT
#include "kernels/math.h"
#include "kernels/space.h"

typedef PF_T T;
typedef pf_compute<T> C;
#include "kernels/grid_place.h"

enum { TAPS = PF_MODE == pf_grid_linear ? 2 : PF_MODE == pf_grid_nearest ? 1 : 4 };

PF_DEVICE void pf_places(const pf_images& m, pf_index place, pf_place<C> (&p)[PF_DIMS]) {
  PF_UNROLL for (int d = 0; d < PF_DIMS; ++d)
      pf_grid_place<C>(pf_get<T>(pf_global(m.grid), static_cast<pf_i64>(place) * PF_DIMS + d),
                       m.size[d], PF_MODE, PF_PADDING, m.align != 0, p[d]);
}
// For every tap that is there, the last dimension slowest: fn(k, cell, place of the tap in each).
template <class F>
PF_DEVICE void pf_each_tap(const pf_images& m, const pf_place<C> (&p)[PF_DIMS], F&& fn) {
  PF_UNROLL for (int z = 0; z < (PF_DIMS == 3 ? TAPS : 1); ++z) {
    const pf_i64 plane = PF_DIMS == 3 ? p[PF_DIMS - 1].at[z] : 0;
    PF_UNROLL for (int y = 0; y < TAPS; ++y) PF_UNROLL for (int x = 0; x < TAPS; ++x) {
      if (plane < 0 || p[1].at[y] < 0 || p[0].at[x] < 0) continue;
      fn((plane * m.size[1] + p[1].at[y]) * m.size[0] + p[0].at[x], x, y, z);
    }
  }
}
PF_DEVICE C pf_weight(const pf_place<C> (&p)[PF_DIMS], int x, int y, int z) {
  C w(1);
  if constexpr (PF_DIMS == 3) w = p[PF_DIMS - 1].weight[z];
  w = w * p[1].weight[y];
  return w * p[0].weight[x];
}

PF_KERNEL(grid_sample, 256)(pf_images m) {
  const pf_u64 all = static_cast<pf_u64>(m.n * m.points * m.groups);
  for (pf_u64 e = pf_first_item(); e < all; e += pf_item_step()) {
    const pf_index item = static_cast<pf_index>(e);
    const pf_index points = static_cast<pf_index>(m.points);
    const pf_index groups = static_cast<pf_index>(m.groups);
    // Neighbours are places of one image, or channels of one place.
    const pf_index rest = PF_BESIDE ? item / groups : item / points;
    const pf_index group = PF_BESIDE ? item - rest * groups : rest % groups;
    const pf_index image = PF_BESIDE ? rest / points : rest / groups;
    const pf_index point = PF_BESIDE ? rest - image * points : item - rest * points;
    pf_place<C> p[PF_DIMS];
    pf_places(m, image * points + point, p);
    const pf_i64 first = static_cast<pf_i64>(group) * m.channels;
    const pf_i64 end = first + m.channels < m.c ? first + m.channels : m.c;
    const pf_i64 from = static_cast<pf_i64>(image) * m.c * m.cells;
    const pf_i64 to =
        static_cast<pf_i64>(image) * m.c * m.points + static_cast<pf_i64>(point) * m.out_step;
    PF_NO_UNROLL for (pf_i64 c = first; c < end; ++c) {
      C sum(0);
      pf_each_tap(m, p, [&](pf_i64 cell, int x, int y, int z) PF_INLINE {
        sum = pf_fma(pf_weight(p, x, y, z),
                     pf_get<T>(pf_global(m.x), from + c * m.channel + cell * m.step), sum);
      });
      pf_put<T>(pf_global(m.out), to + c * m.out_channel, sum);
    }
  }
}

PF_KERNEL(grid_sample_grid, 256)(pf_images m) {
  const pf_u64 all = static_cast<pf_u64>(m.n * m.points);
  for (pf_u64 e = pf_first_item(); e < all; e += pf_item_step()) {
    const pf_index place = static_cast<pf_index>(e), points = static_cast<pf_index>(m.points);
    const pf_index image = place / points, point = place - image * points;
    pf_place<C> p[PF_DIMS];
    pf_places(m, place, p);
    const pf_i64 from = static_cast<pf_i64>(image) * m.c * m.cells;
    const pf_i64 at =
        static_cast<pf_i64>(image) * m.c * m.points + static_cast<pf_i64>(point) * m.out_step;
    C sums[PF_DIMS];
    PF_UNROLL for (int d = 0; d < PF_DIMS; ++d) sums[d] = C(0);
    PF_NO_UNROLL for (pf_i64 c = 0; c < m.c; ++c) {
      const C g = pf_get<T>(pf_global(m.dy), at + c * m.out_channel);
      pf_each_tap(m, p, [&](pf_i64 cell, int x, int y, int z) PF_INLINE {
        const C v = g * pf_get<T>(pf_global(m.x), from + c * m.channel + cell * m.step);
        C deep(1), deep_slope(0);
        if constexpr (PF_DIMS == 3) {
          deep = p[PF_DIMS - 1].weight[z];
          deep_slope = p[PF_DIMS - 1].slope[z];
        }
        sums[0] = pf_fma(v, p[0].slope[x] * p[1].weight[y] * deep, sums[0]);
        sums[1] = pf_fma(v, p[0].weight[x] * p[1].slope[y] * deep, sums[1]);
        if constexpr (PF_DIMS == 3)
          sums[PF_DIMS - 1] =
              pf_fma(v, p[0].weight[x] * p[1].weight[y] * deep_slope, sums[PF_DIMS - 1]);
      });
    }
    PF_UNROLL for (int d = 0; d < PF_DIMS; ++d)
        pf_put<T>(pf_global(m.out), static_cast<pf_i64>(place) * PF_DIMS + d, sums[d]);
  }
}

#ifdef PF_EACH
enum { ALL_TAPS = PF_DIMS == 3 ? TAPS * TAPS * TAPS : TAPS * TAPS };

PF_KERNEL(grid_sample_entries, 256)(pf_given g) {
  const pf_images& m = g.m;
  const pf_u64 all = static_cast<pf_u64>(g.images * m.points);
  for (pf_u64 e = pf_first_item(); e < all; e += pf_item_step()) {
    const pf_index item = static_cast<pf_index>(e), points = static_cast<pf_index>(m.points);
    const pf_i64 image = static_cast<pf_i64>(item / points);
    pf_place<C> p[PF_DIMS];
    pf_places(m, static_cast<pf_index>(g.first) * points + item, p);
    const pf_i64 base = static_cast<pf_i64>(e) * ALL_TAPS;
    PF_UNROLL for (int k = 0; k < ALL_TAPS; ++k) {
      pf_global(g.keys)[base + k] = static_cast<pf_u64>(g.images * m.cells);
      pf_global(g.at)[base + k] = base + k;
    }
    pf_each_tap(m, p, [&](pf_i64 cell, int x, int y, int z) PF_INLINE {
      const pf_i64 k = base + (z * TAPS + y) * TAPS + x;
      pf_global(g.keys)[k] = static_cast<pf_u64>(image * m.cells + cell);
      pf_put<C>(pf_global(g.weights), k, pf_weight(p, x, y, z));
    });
  }
}
PF_KERNEL(grid_sample_starts, 256)(pf_given g) {
  const pf_i64 cells = g.images * g.m.cells;
  for (pf_u64 e = pf_first_item(); e <= static_cast<pf_u64>(g.entries); e += pf_item_step()) {
    const pf_i64 i = static_cast<pf_i64>(e);
    const pf_i64 before = i == 0 ? -1 : static_cast<pf_i64>(g.keys[i - 1]);
    const pf_i64 here = i == g.entries ? cells : static_cast<pf_i64>(g.keys[i]);
    PF_NO_UNROLL for (pf_i64 k = before + 1; k <= here; ++k) g.starts[k] = i;
  }
}
PF_KERNEL(grid_sample_input, 256)(pf_given g) {
  const pf_images& m = g.m;
  const pf_u64 all = static_cast<pf_u64>(g.images * m.cells * m.groups);
  const pf_index cells = static_cast<pf_index>(m.cells), groups = static_cast<pf_index>(m.groups);
  for (pf_u64 e = pf_first_item(); e < all; e += pf_item_step()) {
    const pf_index item = static_cast<pf_index>(e);
    // Neighbours are cells of one image, or channels of one cell.
    const pf_index rest = PF_BESIDE ? item / groups : item / cells;
    const pf_index group = PF_BESIDE ? item - rest * groups : rest % groups;
    const pf_index image = PF_BESIDE ? rest / cells : rest / groups;
    const pf_index cell = PF_BESIDE ? rest - image * cells : item - rest * cells;
    const pf_i64 channel = static_cast<pf_i64>(group) * PF_EACH;
    const pf_i64 n = g.first + static_cast<pf_i64>(image);
    const pf_i64 from = n * m.c * m.points + channel * m.out_channel;
    const pf_i64 to = n * m.c * m.cells + channel * m.channel + static_cast<pf_i64>(cell) * m.step;
    C sum[PF_EACH];
    PF_UNROLL for (int c = 0; c < PF_EACH; ++c) sum[c] = C(0);
    const pf_i64 key = static_cast<pf_i64>(image) * m.cells + static_cast<pf_i64>(cell);
    const pf_i64 end = g.starts[key + 1];
    PF_NO_UNROLL for (pf_i64 i = g.starts[key]; i < end; ++i) {
      const pf_i64 entry = g.at[i];
      const C w = static_cast<const C*>(g.weights)[entry];
      const pf_i64 point = entry / ALL_TAPS - static_cast<pf_i64>(image) * m.points;
      C v[PF_EACH];
      if constexpr (PF_BESIDE) {
        pf_load<T, PF_EACH, false>(static_cast<const T*>(m.dy) + from + point * m.out_step, v);
      } else {
        PF_UNROLL for (int c = 0; c < PF_EACH; ++c) v[c] =
            channel + c < m.c ? pf_get<T>(pf_global(m.dy), from + point + c * m.out_channel) : C(0);
      }
      PF_UNROLL for (int c = 0; c < PF_EACH; ++c) sum[c] = pf_fma(w, v[c], sum[c]);
    }
    if constexpr (PF_BESIDE)
      pf_store<C, PF_EACH, false>(static_cast<C*>(m.out) + to, sum);
    else
      PF_UNROLL for (int c = 0; c < PF_EACH; ++c) if (channel + c < m.c)
          pf_put<C>(pf_global(m.out), to + c * m.channel, sum[c]);
  }
}
#endif

#else  // launchers
#include <algorithm>

#include "gpu/axes.h"
#include "gpu/host.h"
#include "gpu/kernel.h"
#include "gpu/sorting.h"
#include "table/kernels/grid_sample.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr auto kNumber = numbers<GridSample>;

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
  return a.compile("kernels_grid_sample.cpp",
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

// Some images at a time, so that their entries take a bounded memory.
void grid_sample_input(const KernelArgs& a) {
  constexpr auto at = tensors<GridSampleInput>;
  constexpr int64_t kEntries = int64_t{1} << 24;
  const DType t = a.dtype(at.dy);
  const bool wide = t == DType::Float64;
  pf_given g{};
  g.m = images(a);
  g.m.grid = a.data(at.grid);
  g.m.dy = a.data(at.dy);
  g.m.out = a.data(at.dx);
  const int64_t mode = a.i(kNumber.mode), side = mode == 0 ? 2 : mode == 1 ? 1 : 4;
  int64_t taps = 1;
  for (int64_t d = 0; d < a.i(kNumber.dims); ++d) taps *= side;
  const bool beside = a.i(kNumber.beside) != 0;
  int64_t each = beside ? 16 / static_cast<int64_t>(itemsize(t)) : 8;
  while (beside && each > 1 && (g.m.c % each != 0 || !aligned(g.m.dy, 16) || !aligned(g.m.out, 16)))
    each /= 2;
  g.m.groups = ceil_div(g.m.c, each);
  const int64_t of_image = g.m.points * taps;
  const int64_t at_once = std::clamp<int64_t>(kEntries / of_image, 1, g.m.n);
  const int64_t most =
      std::max<int64_t>({at_once * of_image, at_once * g.m.cells * g.m.groups, g.m.n * g.m.points});
  const Defines defines = Defines()
                              .type("PF_T", t)
                              .value("PF_DIMS", a.i(kNumber.dims))
                              .value("PF_MODE", mode)
                              .value("PF_PADDING", a.i(kNumber.padding))
                              .value("PF_BESIDE", beside)
                              .value("PF_EACH", each)
                              .text("PF_INDEX", most < (int64_t{1} << 31) ? "pf_u32" : "pf_u64");
  const auto run = [&](const char* entry, int64_t items) {
    a.launch(a.compile("kernels_grid_sample.cpp", defines, entry), blocks_for(items, kBlock),
             kBlock, 0, g);
  };
  g.weights = a.workspace(static_cast<size_t>(at_once * of_image * (wide ? 8 : 4)));
  g.starts = static_cast<pf_i64*>(a.workspace(static_cast<size_t>(at_once * g.m.cells + 1) * 8));
  for (g.first = 0; g.first < g.m.n; g.first += at_once) {
    const ScratchScope own;
    g.images = std::min<int64_t>(at_once, g.m.n - g.first);
    g.entries = g.images * of_image;
    Pairs pairs = make_pairs(a, 1, g.entries);
    g.keys = pairs.keys, g.at = pairs.at;
    run("grid_sample_entries", g.images * g.m.points);
    int bits = 1;
    while (g.images * g.m.cells >> bits != 0) ++bits;
    sort_pairs(a, pairs, 0, bits);
    g.keys = pairs.keys, g.at = pairs.at;
    run("grid_sample_starts", g.entries + 1);
    run("grid_sample_input", g.images * g.m.cells * g.m.groups);
  }
}

}  // namespace

PF_GPU_KERNEL(GridSampleInput::kInfo, grid_sample_input)
PF_GPU_KERNEL(GridSample::kInfo, grid_sample)
PF_GPU_KERNEL(GridSampleGrid::kInfo, grid_sample_grid)

}  // namespace pyflame::gpu
#endif
