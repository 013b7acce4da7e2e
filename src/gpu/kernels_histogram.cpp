// Sums of weights in bins (table/kernels/index.h, BinnedSums). Each warp has a stretch of the
// values and a table of its own in shared memory. Of each step of a warp the lanes with one bin are
// added up in a tree, and the first of them takes the sum to the table. So no sum depends on who
// was first: the stretches follow from the numbers of values, bins and multiprocessors.
//   -DPF_X= -DPF_W=    float or double: of values and weights
//   -DPF_WEIGHTED=0|1  0: every weight is 1
//   -DPF_ANY=0|1       1: negative weights and those that are no finite numbers count, too
#include "kernels/integers.h"

struct pf_binned {
  const void *x, *weights;
  const double* edges;
  double *partial, *sums;        // partial: [blocks][bins]
  pf_i64 *left_partial, *left;   // left out, of each block and of all
  pf_i64 n, bins, each, blocks;  // each: values of a warp
  pf_i64 bits;                   // that tell bins apart
};
static_assert(sizeof(pf_binned) == 96, "as hosts fill it");

#ifdef PF_DEVICE_TEXT
#include "kernels/math.h"
#define PF_INDEX pf_u64
#include "kernels/rows.h"
#include "kernels/space.h"

enum { AHEAD = 2 };  // steps of a warp whose bins are found at once
#if PF_WARP == 64
typedef pf_u64 pf_lanes;
#else
typedef pf_u32 pf_lanes;
#endif

// The bin of a value from low to high, and of any other some number up to `bins`. Bins have about
// equal widths: a product, rounded to whole numbers by what is added to it, tells the nearest edge,
// and that on which side of it the value lies.
PF_DEVICE pf_u32 pf_bin_of(double v, const double* edges, pf_u32 bins, double low, double scale) {
  const double place = pf_fma(v - low, scale, 6755399441055744.0);  // 1.5 * 2^52
  const pf_u32 nearest = static_cast<pf_u32>(pf_bits<pf_u64>(place));
  const pf_u32 edge = nearest < bins ? nearest : bins;
  const pf_u32 bin = edge - (v < edges[edge] ? 1 : 0);
  return bin < bins ? bin : bins - 1;
}

PF_KERNEL(binned_sums, 896)(pf_binned g) {
  PF_SHARED pf_i64 room[PF_MAX_WARPS];
  const pf_u32 bins = static_cast<pf_u32>(g.bins), bits = static_cast<pf_u32>(g.bits);
  const pf_u32 warps = pf_threads() / PF_WARP, warp = pf_thread() / PF_WARP, lane = pf_lane();
  double* edges = reinterpret_cast<double*>(pf_dynamic_shared());
  double* tables = edges + bins + 1;
  for (pf_u32 i = pf_thread(); i <= bins; i += pf_threads()) edges[i] = g.edges[i];
  for (pf_u32 i = pf_thread(); i < bins * warps; i += pf_threads()) tables[i] = 0;
  pf_barrier();
  double* table = tables + warp * bins;
  const double low = edges[0], high = edges[bins], scale = bins / (high - low);
  const pf_i64 begin = (static_cast<pf_i64>(pf_block()) * warps + warp) * g.each;
  const pf_i64 end = begin + g.each < g.n ? begin + g.each : g.n;
  const pf_lanes own = static_cast<pf_lanes>(1) << lane;
  pf_i64 without = 0;
  double v[AHEAD], w[AHEAD];
  const auto read = [&](pf_i64 base) PF_INLINE {
    PF_UNROLL for (int u = 0; u < AHEAD; ++u) {
      const pf_i64 i = base + u * PF_WARP + lane;
      v[u] = i < end ? static_cast<double>(pf_get<PF_X>(g.x, i)) : 0;
      w[u] = PF_WEIGHTED && i < end ? static_cast<double>(pf_get<PF_W>(g.weights, i)) : 1;
    }
  };
  read(begin);
  // Step by step for all lanes of a warp: they exchange.
  PF_NO_UNROLL for (pf_i64 base = begin; base < end; base += AHEAD * PF_WARP) {
    pf_u32 bin[AHEAD];
    double sum[AHEAD];
    bool has[AHEAD], all = true;
    PF_UNROLL for (int u = 0; u < AHEAD; ++u) {
      const bool there = base + u * PF_WARP + lane < end;
      const bool counts = PF_ANY || (w[u] >= 0 && w[u] <= 1.7976931348623157e308);
      has[u] = there && v[u] >= low && v[u] <= high && counts;
      without += there && !has[u];
      bin[u] = pf_bin_of(v[u], edges, bins, low, scale);
      sum[u] = w[u];
    }
    read(base + AHEAD * PF_WARP);
    const pf_u32 one = pf_shuffle(bin[0], 0);
    PF_UNROLL for (int u = 0; u < AHEAD; ++u) all = all && has[u] && bin[u] == one;
    if (pf_all(all)) {
      double total = sum[0];
      PF_UNROLL for (int u = 1; u < AHEAD; ++u) total += sum[u];
      for (pf_u32 d = PF_WARP / 2; d > 0; d /= 2) total += pf_shuffle_xor(total, d);
      if (lane == 0) table[one] += total;
      pf_warp_barrier();
      continue;
    }
    pf_lanes same[AHEAD];
    PF_UNROLL for (int u = 0; u < AHEAD; ++u) same[u] = static_cast<pf_lanes>(pf_ballot(has[u]));
    PF_NO_UNROLL for (pf_u32 b = 0; b < bits; ++b) PF_UNROLL for (int u = 0; u < AHEAD; ++u) {
      const bool is = bin[u] >> b & 1;
      const pf_lanes those = static_cast<pf_lanes>(pf_ballot(is));
      same[u] &= is ? those : ~those;
    }
    PF_UNROLL for (int u = 0; u < AHEAD; ++u) {
      if (!has[u]) same[u] = 0;
      // Every second one of those left is added to the one before it.
      pf_u32 turn = pf_count_bits(same[u] & (own - 1));
      const bool first = has[u] && turn == 0;
      pf_lanes later = same[u] & ~(own | (own - 1));
      while (pf_any(later != 0)) {
        const pf_u32 next = later ? pf_count_bits((later & (0 - later)) - 1) : lane;
        const double other = pf_shuffle(sum[u], next);
        if (later) sum[u] += other;
        later &= static_cast<pf_lanes>(pf_ballot((turn & 1) == 0));
        turn >>= 1;
      }
      if (first) table[bin[u]] += sum[u];
      pf_warp_barrier();
    }
  }
  pf_barrier();
  for (pf_u32 i = pf_thread(); i < bins; i += pf_threads()) {
    double sum = tables[i];
    for (pf_u32 k = 1; k < warps; ++k) sum += tables[k * bins + i];
    g.partial[static_cast<pf_i64>(pf_block()) * bins + i] = sum;
  }
  without = pf_group_join<pf_plus>(without, pf_threads(), room);
  if (pf_thread() == 0) g.left_partial[pf_block()] = without;
}

// Thread (y, x) adds the blocks y, y + 32, ... of a bin; the first block also what was left out.
enum { ACROSS = 8, DOWN = 32 };
PF_KERNEL(binned_finish, 256)(pf_binned g) {
  PF_SHARED double room[ACROSS * DOWN];
  PF_SHARED pf_i64 left[PF_MAX_WARPS];
  const pf_u32 x = pf_thread() % ACROSS, y = pf_thread() / ACROSS;
  const pf_i64 bin = static_cast<pf_i64>(pf_block()) * ACROSS + x;
  double sum = 0;
  if (bin < g.bins)
    for (pf_i64 b = y; b < g.blocks; b += DOWN) sum += g.partial[b * g.bins + bin];
  room[pf_thread()] = sum;
  pf_barrier();
  PF_NO_UNROLL for (pf_u32 d = DOWN / 2; d > 0; d /= 2) {
    if (y < d) room[pf_thread()] += room[pf_thread() + d * ACROSS];
    pf_barrier();
  }
  if (y == 0 && bin < g.bins) g.sums[bin] = room[x];
  if (pf_block() != 0) return;
  pf_i64 without = 0;
  for (pf_i64 b = pf_thread(); b < g.blocks; b += pf_threads()) without += g.left_partial[b];
  without = pf_group_join<pf_plus>(without, pf_threads(), left);
  if (pf_thread() == 0) *g.left = without;
}

#else  // launchers
#include <algorithm>
#include <bit>

#include "gpu/kernel.h"
#include "table/kernels/index.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int64_t kMostThreads = 896, kStep = 2, kAcross = 8;  // AHEAD, ACROSS

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
  g.bits = std::bit_width(static_cast<uint64_t>(g.bins - 1));
  // One block on a multiprocessor; 64 KiB is what all GPUs have.
  const int64_t warp = a.traits().warp, room = static_cast<int64_t>(a.traits().max_shared) - 1024;
  const int64_t warps =
      std::clamp<int64_t>((room / 8 - g.bins - 1) / g.bins, 1, kMostThreads / warp);
  const int64_t step = warp * kStep;
  g.blocks = std::clamp<int64_t>(g.n / (warps * step * 4), 1, a.traits().compute_units);
  g.each = ceil_div(ceil_div(g.n, g.blocks * warps), step) * step;
  g.partial = static_cast<double*>(a.workspace(static_cast<size_t>(g.blocks * g.bins) * 8));
  g.left_partial = static_cast<pf_i64*>(a.workspace(static_cast<size_t>(g.blocks) * 8));
  const Defines defines = Defines()
                              .type("PF_X", a.dtype(at.x))
                              .type("PF_W", a.dtype(g.weights ? at.weights : at.x))
                              .value("PF_WEIGHTED", g.weights != nullptr)
                              .value("PF_ANY", a.i(numbers<BinnedSums>.any) != 0);
  const auto text = [&](const char* entry) {
    return a.compile("kernels_histogram.cpp", defines, entry);
  };
  a.launch(text("binned_sums"), Grid(g.blocks), static_cast<int>(warps * warp),
           static_cast<size_t>((warps + 1) * g.bins + 1) * 8, g);
  a.launch(text("binned_finish"), Grid(ceil_div(g.bins, kAcross)), 256, 0, g);
}

}  // namespace

PF_GPU_KERNEL(BinnedSums::kInfo, binned_sums)

}  // namespace pyflame::gpu
#endif
