// Sums in bins. The bins of a block of values are calculated by vectors; those beside an edge are
// put right by it, and all are added. Neighbours go to tables of their own, since a sum that waits
// for the one before it in the same bin takes as long as eight others. What a table sees follows
// from the sizes alone.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/histogram.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/kernel.h"
#include "cpu/scratch.h"
#include "hwy/highway.h"
#include "table/kernels/index.h"

#ifndef PF_CPU_HISTOGRAM_BINS
#define PF_CPU_HISTOGRAM_BINS
namespace pyflame::cpu {
namespace {
struct Bins {
  int64_t count;
  double low, high, scale;
  const double* edges;  // [count + 2]: the last bin has the last edge
};
}  // namespace
}  // namespace pyflame::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kBlock = 512;
constexpr double kNear = 1e-6;  // of an edge, in bins: more than a rounding

HWY_INLINE hn::VFromD<hn::ScalableTag<double>> LoadDoubles(const double* p) {
  return hn::LoadU(hn::ScalableTag<double>(), p);
}
HWY_INLINE hn::VFromD<hn::ScalableTag<double>> LoadDoubles(const float* p) {
  const hn::ScalableTag<double> d;
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, decltype(d)>(), p));
}

// The bin of each value: `count` for one that has none, and ~bin where an edge is near, which has
// to be asked. Returns how many have none.
template <class S, class W>
int64_t Place(const Bins& bins, const S* x, const W* weights, int64_t n, int32_t* bin) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<int32_t, decltype(d)> di;
  const auto low = hn::Set(d, bins.low), high = hn::Set(d, bins.high);
  const auto scale = hn::Set(d, bins.scale), zero = hn::Zero(d);
  const auto none = hn::Set(d, static_cast<double>(bins.count));
  const auto last = hn::Set(d, static_cast<double>(bins.count - 1));
  const auto near = hn::Set(d, kNear), far = hn::Set(d, 1 - kNear), minus = hn::Set(d, -1.0);
  const auto most = hn::Set(d, std::numeric_limits<double>::max());
  const auto N = static_cast<int64_t>(hn::Lanes(d));
  int64_t left_out = 0;
  const auto some = [&](const S* from, const W* of, int32_t* to, int64_t m) HWY_ATTR {
    const auto v = LoadDoubles(from);
    auto good = hn::And(hn::Ge(v, low), hn::Le(v, high));
    if (of != nullptr) {
      const auto w = LoadDoubles(of);
      good = hn::And(good, hn::And(hn::Ge(w, zero), hn::Le(w, most)));
    }
    const auto place = hn::Max(hn::Min(hn::Mul(hn::Sub(v, low), scale), last), zero);
    const auto at = hn::Floor(place), part = hn::Sub(place, at);
    const auto ask = hn::Or(hn::Lt(part, near), hn::Gt(part, far));
    const auto marked = hn::IfThenElse(ask, hn::Sub(minus, at), at);
    hn::StoreU(hn::DemoteTo(di, hn::IfThenElse(good, marked, none)), di, to);
    left_out += m - static_cast<int64_t>(hn::CountTrue(d, good));
  };
  int64_t i = 0;
  for (; i + N <= n; i += N) some(x + i, weights == nullptr ? nullptr : weights + i, bin + i, N);
  if (i < n) {
    S rest[HWY_MAX_BYTES / sizeof(S)];
    W rest_weights[HWY_MAX_BYTES / sizeof(W)] = {};
    std::fill_n(rest, N, std::numeric_limits<S>::quiet_NaN());
    std::copy_n(x + i, n - i, rest);
    if (weights != nullptr) std::copy_n(weights + i, n - i, rest_weights);
    some(rest, weights == nullptr ? nullptr : rest_weights, bin + i, n - i);
  }
  return left_out;
}

template <class S, class W, int kTables>
int64_t Add(const Bins& bins, const S* x, const W* weights, int64_t n, double* table) {
  alignas(64) int32_t bin[kBlock + HWY_MAX_BYTES / sizeof(double)];
  const int64_t size = bins.count + 1;
  const double* const edges = bins.edges;
  int64_t left_out = 0;
  for (int64_t from = 0; from < n; from += kBlock) {
    const int64_t m = std::min(kBlock, n - from);
    const S* const v = x + from;
    const W* const w = weights == nullptr ? nullptr : weights + from;
    left_out += Place(bins, v, w, m, bin);
    const auto one = [&](int64_t i, int64_t t) HWY_ATTR {
      int64_t b = bin[i];
      if (b < 0) [[unlikely]] {
        b = ~b;
        const auto value = static_cast<double>(v[i]);
        b -= value < edges[b];
        b += value >= edges[b + 1];
      }
      table[t * size + b] += w == nullptr ? 1.0 : static_cast<double>(w[i]);
    };
    int64_t i = 0;
    for (; i + kTables <= m; i += kTables)
      for (int64_t t = 0; t < kTables; ++t) one(i + t, t);
    for (int64_t t = 0; i < m; ++i, ++t) one(i, t);
  }
  return left_out;
}

}  // namespace

void BinnedSums(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::BinnedSums>;
  const int64_t n = a.tensor(at.x).shape[0], count = a.tensor(at.sums).shape[0];
  const double* from = a.data<double>(at.edges);
  double* const sums = a.data<double>(at.sums);
  const Scratch<double> edges(count + 2);
  std::copy_n(from, count, edges.get());
  edges.get()[count] = std::nextafter(from[count], std::numeric_limits<double>::infinity());
  edges.get()[count + 1] = std::numeric_limits<double>::infinity();
  const Bins bins{.count = count,
                  .low = from[0],
                  .high = from[count],
                  .scale = static_cast<double>(count) / (from[count] - from[0]),
                  .edges = edges.get()};
  const int64_t tables = count <= 512 ? 8 : count <= 2048 ? 4 : 1;
  const int64_t size = tables * (count + 1);
  const int64_t parts = std::clamp<int64_t>(n / std::max<int64_t>(1 << 15, 4 * size), 1, 64);
  const int64_t each = (n + parts - 1) / parts;
  const Scratch<double> table(parts * size);
  const Scratch<int64_t> left_out(parts);
  dispatch_float(a.dtype(at.x), [&]<class S>() {
    dispatch_float(a.has(at.weights) ? a.dtype(at.weights) : a.dtype(at.x), [&]<class W>() {
      if constexpr (sizeof(S) >= 4 && sizeof(W) >= 4) {
        parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
          for (int64_t p = begin; p < end; ++p) {
            double* const t = table.get() + p * size;
            std::fill_n(t, size, 0.0);
            const S* x = a.data<S>(at.x) + p * each;
            const W* w = a.has(at.weights) ? a.data<W>(at.weights) + p * each : nullptr;
            const int64_t m = std::clamp<int64_t>(n - p * each, 0, each);
            left_out.get()[p] = tables == 8   ? Add<S, W, 8>(bins, x, w, m, t)
                                : tables == 4 ? Add<S, W, 4>(bins, x, w, m, t)
                                              : Add<S, W, 1>(bins, x, w, m, t);
          }
        });
      }
    });
  });
  std::fill_n(sums, count, 0.0);
  for (int64_t t = 0; t < parts * tables; ++t)
    for (int64_t b = 0; b < count; ++b) sums[b] += table.get()[t * (count + 1) + b];
  int64_t odd = 0;
  for (int64_t p = 0; p < parts; ++p) odd += left_out.get()[p];
  *a.data<int64_t>(at.left_out) = odd;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
HWY_EXPORT(BinnedSums);
namespace {
void binned_sums(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(BinnedSums)(a);
}
}  // namespace
PF_CPU_KERNEL(kernels::BinnedSums::kInfo, binned_sums)
}  // namespace pyflame::cpu
#endif
