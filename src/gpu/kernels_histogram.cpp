// Sums of weights in bins (table/kernels/index.h, BinnedSums). Each warp has a stretch of the
// values and a table of its own in shared memory: neighbours of one bin are added in a tree, and
// what is left of a bin in one step of the warp goes to the table in the order of the lanes. So no
// sum depends on who was first: the stretches follow from the numbers of values and bins.
//   -DPF_X= -DPF_W=    float or double: of values and weights
//   -DPF_WEIGHTED=0|1  0: every weight is 1
#include "kernels/integers.h"

struct pf_binned {
  const void *x, *weights;
  const double* edges;
  double *partial, *sums;        // partial: [blocks][bins]
  pf_i64 *left_partial, *left;   // left out, of each block and of all
  pf_i64 n, bins, each, blocks;  // each: values of a warp
};
static_assert(sizeof(pf_binned) == 88, "as hosts fill it");

#ifdef PF_DEVICE_TEXT
#include "kernels/math.h"
#define PF_INDEX pf_u64
#include "kernels/rows.h"
#include "kernels/space.h"

enum { AHEAD = 4 };  // steps of a warp that are read at once

// The bin of a value, -1: none. Bins have about equal widths: what is found by division is put
// right by the edges beside it.
PF_DEVICE pf_i32 pf_bin_of(double v, const double* edges, pf_i32 bins, double low, double high,
                           double scale) {
  if (!(v >= low && v <= high)) return -1;
  const double place = (v - low) * scale;
  pf_i32 b = place >= 0 && place < bins ? static_cast<pf_i32>(place) : place >= bins ? bins - 1 : 0;
  if (v < edges[b] && b > 0) --b;
  if (v >= edges[b + 1] && b < bins - 1) ++b;
  return b;
}

PF_KERNEL(binned_sums, 1024)(pf_binned g) {
  PF_SHARED pf_i64 room[PF_MAX_WARPS];
  const pf_i32 bins = static_cast<pf_i32>(g.bins);
  const pf_u32 warps = pf_threads() / PF_WARP, warp = pf_thread() / PF_WARP, lane = pf_lane();
  double* edges = reinterpret_cast<double*>(pf_dynamic_shared());
  double* tables = edges + bins + 1;
  pf_u32* claims = reinterpret_cast<pf_u32*>(tables + static_cast<pf_i64>(warps) * bins);
  for (pf_i32 i = static_cast<pf_i32>(pf_thread()); i <= bins;
       i += static_cast<pf_i32>(pf_threads()))
    edges[i] = g.edges[i];
  for (pf_i32 i = static_cast<pf_i32>(pf_thread()); i < bins * static_cast<pf_i32>(warps);
       i += static_cast<pf_i32>(pf_threads())) {
    tables[i] = 0;
    claims[i] = PF_WARP;
  }
  pf_barrier();
  double* table = tables + static_cast<pf_i64>(warp) * bins;
  pf_u32* claim = claims + static_cast<pf_i64>(warp) * bins;
  const double low = edges[0], high = edges[bins], scale = bins / (high - low);
  const pf_i64 begin = (static_cast<pf_i64>(pf_block()) * warps + warp) * g.each;
  const pf_i64 end = begin + g.each < g.n ? begin + g.each : g.n;
  pf_i64 without = 0;
  // Step by step for all lanes of a warp: they exchange.
  PF_NO_UNROLL for (pf_i64 base = begin; base < end; base += AHEAD * PF_WARP) {
    double v[AHEAD], w[AHEAD];
    PF_UNROLL for (int u = 0; u < AHEAD; ++u) {
      const pf_i64 i = base + u * PF_WARP + lane;
      v[u] = i < end ? static_cast<double>(pf_get<PF_X>(g.x, i)) : 0;
      w[u] = PF_WEIGHTED && i < end ? static_cast<double>(pf_get<PF_W>(g.weights, i)) : 1;
    }
    PF_UNROLL for (int u = 0; u < AHEAD; ++u) {
      const double x = v[u];
      double sum = w[u];
      const bool there = base + u * PF_WARP + lane < end;
      const bool finite = sum >= 0 && sum <= 1.7976931348623157e308;
      const pf_i32 bin = there && finite ? pf_bin_of(x, edges, bins, low, high, scale) : -1;
      without += there && bin < 0;
      const pf_i32 before = pf_shuffle_up(bin, 1), behind = pf_shuffle_down(bin, 1);
      const bool head = lane == 0 || before != bin;
      const bool tail = lane == PF_WARP - 1 || behind != bin;
      if (pf_any(!head)) {
        pf_u32 start = head ? lane : 0;
        for (pf_u32 d = 1; d < PF_WARP; d *= 2) {
          const pf_u32 other = pf_shuffle_up(start, d);
          start = other > start ? other : start;
        }
        for (pf_u32 d = 1; d < PF_WARP; d *= 2) {
          const double other = pf_shuffle_up(sum, d);
          if (lane >= start + d) sum = other + sum;
        }
      }
      bool left = tail && bin >= 0;
      while (pf_any(left)) {
        if (left) pf_atomic_min(claim + bin, lane);
        pf_warp_barrier();
        const bool first = left && claim[bin] == lane;
        pf_warp_barrier();
        if (first) {
          table[bin] += sum;
          claim[bin] = PF_WARP;
          left = false;
        }
        pf_warp_barrier();
      }
    }
  }
  pf_barrier();
  for (pf_i32 i = static_cast<pf_i32>(pf_thread()); i < bins;
       i += static_cast<pf_i32>(pf_threads())) {
    double sum = tables[i];
    for (pf_u32 k = 1; k < warps; ++k) sum += tables[static_cast<pf_i64>(k) * bins + i];
    g.partial[pf_block() * g.bins + i] = sum;
  }
  without = pf_group_join<pf_plus>(without, pf_threads(), room);
  if (pf_thread() == 0) g.left_partial[pf_block()] = without;
}

// Thread (y, x) adds the blocks y, y + 8, ... of a bin.
PF_KERNEL(binned_finish, 256)(pf_binned g) {
  PF_SHARED double room[256];
  const pf_u32 x = pf_thread() % 32, y = pf_thread() / 32;
  const pf_i64 bin = static_cast<pf_i64>(pf_block()) * 32 + x;
  double sum = 0;
  if (bin < g.bins)
    for (pf_i64 b = y; b < g.blocks; b += 8) sum += g.partial[b * g.bins + bin];
  room[pf_thread()] = sum;
  pf_barrier();
  if (y == 0 && bin < g.bins) {
    for (pf_u32 k = 1; k < 8; ++k) sum += room[k * 32 + x];
    g.sums[bin] = sum;
  }
  if (pf_block() == 0 && pf_thread() == 0) {
    pf_i64 left = 0;
    for (pf_i64 b = 0; b < g.blocks; ++b) left += g.left_partial[b];
    *g.left = left;
  }
}

#else  // launchers
#include <algorithm>

#include "gpu/kernel.h"
#include "table/kernels/index.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

void binned_sums(const KernelArgs& a) {
  constexpr auto at = tensors<BinnedSums>;
  pf_binned g{};
  g.n = a.tensor(at.x).shape[0];
  g.bins = a.tensor(at.sums).shape[0];
  g.x = a.data(at.x);
  g.weights = a.has(at.weights) ? a.data(at.weights) : nullptr;
  g.edges = static_cast<const double*>(a.data(at.edges));
  g.sums = static_cast<double*>(a.data(at.sums));
  g.left = static_cast<pf_i64*>(a.data(at.left_out));
  // Two blocks at once in 227 KiB; 64 KiB is what all GPUs have.
  const auto bytes = [&](int64_t warps) {
    return static_cast<size_t>((g.bins + 1) * 8 + warps * g.bins * 12);
  };
  const size_t room = std::min<size_t>(a.traits().max_shared - 1024, 112 << 10);
  int64_t warps = 16;
  while (warps > 1 && (bytes(warps) > room || warps * a.traits().warp > 1024)) warps /= 2;
  constexpr int64_t kBlocks = 264, kStep = 4;  // AHEAD
  const int64_t step = a.traits().warp * kStep;
  g.blocks = std::clamp<int64_t>(g.n / (warps * step * 4), 1, kBlocks);
  g.each = ceil_div(ceil_div(g.n, g.blocks * warps), step) * step;
  g.partial = static_cast<double*>(a.workspace(static_cast<size_t>(g.blocks * g.bins) * 8));
  g.left_partial = static_cast<pf_i64*>(a.workspace(static_cast<size_t>(g.blocks) * 8));
  const Defines defines = Defines()
                              .type("PF_X", a.dtype(at.x))
                              .type("PF_W", a.dtype(g.weights ? at.weights : at.x))
                              .value("PF_WEIGHTED", g.weights != nullptr);
  const auto text = [&](const char* entry) {
    return a.compile("kernels_histogram.cpp", defines, entry);
  };
  a.launch(text("binned_sums"), Grid(g.blocks), static_cast<int>(warps * a.traits().warp),
           bytes(warps), g);
  a.launch(text("binned_finish"), Grid(ceil_div(g.bins, 32)), 256, 0, g);
}

}  // namespace

PF_GPU_KERNEL(BinnedSums::kInfo, binned_sums)

}  // namespace pyflame::gpu
#endif
