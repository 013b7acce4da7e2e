// Sums in bins. The bins of a block of values are calculated by vectors; those beside an edge are
// put right by it, and all are added, while later ones come from memory (steps through tables
// at random keep the hardware from fetching ahead). Neighbours go to tables of their own, since a
// sum that waits for the one before it in the same bin takes as long as eight others; the tables
// lie side by side, a bin after the other. What a table sees follows from the sizes alone.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/histogram.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cpu/kernel.h"
#include "cpu/scratch.h"
#include "hwy/cache_control.h"
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

constexpr int64_t kBlock = 256, kAhead = 1024;  // values; a block and the tables share the L1
constexpr int64_t kLanes = static_cast<int64_t>(HWY_LANES(double));  // at most 8
// Places are numbers with 20 bits behind the point, the mantissa of what they are added to. An edge
// is near where it is within one of the last bit, which is more than roundings add up to.
constexpr int kPoint = 20;
constexpr double kAnchor = 1.5 * (int64_t{1} << (52 - kPoint));

HWY_INLINE hn::VFromD<hn::ScalableTag<double>> LoadDoubles(const double* p) {
  return hn::LoadU(hn::ScalableTag<double>(), p);
}
HWY_INLINE hn::VFromD<hn::ScalableTag<double>> LoadDoubles(const float* p) {
  const hn::ScalableTag<double> d;
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, decltype(d)>(), p));
}

// The bin of each value times kTables, `count` for one that has none. Bits of `marks`, a byte for
// each vector, tell which have an edge near that has to be asked. Returns how many have no bin.
template <class S, class W, int64_t kTables>
int64_t Place(const Bins& bins, const S* x, const W* weights, int64_t n, uint32_t* bin,
              uint64_t* marks) {
  const hn::ScalableTag<double> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint32_t, decltype(d)> dn;
  const auto low = hn::Set(d, bins.low), high = hn::Set(d, bins.high);
  const auto scale = hn::Set(d, bins.scale), anchor = hn::Set(d, kAnchor), zero = hn::Zero(d);
  const auto most = hn::Set(d, std::numeric_limits<double>::max());
  const auto none = hn::Set(du, static_cast<uint64_t>(bins.count));
  const auto mantissa = hn::Set(du, (uint64_t{1} << 51) - 1);
  const auto two = hn::Set(du, uint64_t{2});
  const auto part = hn::Set(du, (uint64_t{1} << kPoint) - 4);
  int64_t with = 0;
  const auto some = [&](const S* from, const W* of, uint32_t* to) HWY_ATTR -> uint64_t {
    const auto v = LoadDoubles(from);
    auto good = hn::And(hn::Ge(v, low), hn::Le(v, high));
    if (of != nullptr) {
      const auto w = LoadDoubles(of);
      good = hn::And(good, hn::And(hn::Ge(w, zero), hn::Le(w, most)));
    }
    const auto place = hn::BitCast(du, hn::MulAdd(hn::Sub(v, low), scale, anchor));
    const auto at = hn::ShiftRight<kPoint>(hn::And(place, mantissa));
    // The last edge is that of bin `count`, and edges without a width are anywhere.
    const auto held = hn::IfThenElse(hn::RebindMask(du, good), hn::Min(at, none), none);
    constexpr int kShift = std::countr_zero(static_cast<uint64_t>(kTables));
    hn::StoreU(hn::TruncateTo(dn, hn::ShiftLeft<kShift>(held)), dn, to);
    const auto beside = hn::Eq(hn::And(hn::Add(place, two), part), hn::Zero(du));
    const auto unsure = hn::And(beside, hn::RebindMask(du, good));
    with += static_cast<int64_t>(hn::CountTrue(d, good));
    uint8_t bits[8] = {};
    hn::StoreMaskBits(du, unsure, bits);
    return bits[0];
  };
  for (int64_t i = 0; i < n;) {
    uint64_t word = 0;
    for (int shift = 0; shift < 64 && i < n; shift += 8, i += kLanes) {
      if (i + kLanes <= n) {
        word |= some(x + i, weights == nullptr ? nullptr : weights + i, bin + i) << shift;
        continue;
      }
      S rest[kLanes];
      W rest_weights[kLanes] = {};
      std::fill_n(rest, kLanes, std::numeric_limits<S>::quiet_NaN());
      std::copy_n(x + i, n - i, rest);
      if (weights != nullptr) std::copy_n(weights + i, n - i, rest_weights);
      word |= some(rest, weights == nullptr ? nullptr : rest_weights, bin + i) << shift;
    }
    *marks++ = word;
  }
  return n - with;
}

template <class S, class W, int64_t kTables>
int64_t Add(const Bins& bins, const S* x, const W* weights, int64_t n, double* table,
            double* sums) {
  std::fill_n(table, kTables * (bins.count + 1), 0.0);
  alignas(64) uint32_t bin[kBlock + kLanes];
  constexpr int64_t kWords = (kBlock / kLanes + 7) / 8;
  const double* const edges = bins.edges;
  int64_t left_out = 0;
  for (int64_t from = 0; from < n; from += kBlock) {
    const int64_t m = std::min(kBlock, n - from);
    const S* const v = x + from;
    const W* const w = weights == nullptr ? nullptr : weights + from;
    uint64_t marks[kWords] = {};
    left_out += Place<S, W, kTables>(bins, v, w, m, bin, marks);
    for (int64_t k = 0; k < kWords; ++k)
      for (uint64_t word = marks[k]; word != 0; word &= word - 1) {
        const int bit = std::countr_zero(word);
        const int64_t i = (k * 8 + bit / 8) * kLanes + bit % 8;
        const auto value = static_cast<double>(v[i]);
        int64_t b = std::min<int64_t>(bin[i] / kTables, bins.count - 1);
        b -= value < edges[b];
        b += value >= edges[b + 1];
        bin[i] = static_cast<uint32_t>(b * kTables);
      }
    const auto one = [&](int64_t i, int64_t t) HWY_ATTR {
      table[bin[i] + t] += w == nullptr ? 1.0 : static_cast<double>(w[i]);
    };
    constexpr int64_t kStep = 8;
    int64_t i = 0;
    for (; i + kStep <= m; i += kStep) {
      hwy::Prefetch(v + kAhead + i);
      if (w != nullptr) hwy::Prefetch(w + kAhead + i);
      for (int64_t t = 0; t < kStep; ++t) one(i + t, t % kTables);
    }
    for (int64_t t = 0; i < m; ++i, ++t) one(i, t % kTables);
  }
  for (int64_t b = 0; b < bins.count; ++b) {
    double sum = table[b * kTables];
    for (int64_t t = 1; t < kTables; ++t) sum += table[b * kTables + t];
    sums[b] = sum;
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
  const int64_t tables = count <= 2048 ? 8 : count <= 4096 ? 4 : 1;
  const int64_t size = tables * (count + 1);
  const int64_t parts = std::clamp<int64_t>(n / std::max<int64_t>(1 << 15, 4 * size), 1, 64);
  const int64_t each = (n + parts - 1) / parts;
  const Scratch<double> partial(parts * count);
  const Scratch<int64_t> left_out(parts);
  dispatch_float(a.dtype(at.x), [&]<class S>() {
    dispatch_float(a.has(at.weights) ? a.dtype(at.weights) : a.dtype(at.x), [&]<class W>() {
      if constexpr (sizeof(S) >= 4 && sizeof(W) >= 4) {
        parallel_with(
            parts, 1, static_cast<size_t>(size) * sizeof(double),
            [&](int64_t begin, int64_t end, char* memory) {
              auto* table = reinterpret_cast<double*>(memory);
              for (int64_t p = begin; p < end; ++p) {
                double* const to = partial.get() + p * count;
                const S* x = a.data<S>(at.x) + p * each;
                const W* w = a.has(at.weights) ? a.data<W>(at.weights) + p * each : nullptr;
                const int64_t m = std::clamp<int64_t>(n - p * each, 0, each);
                left_out.get()[p] = tables == 8   ? Add<S, W, 8>(bins, x, w, m, table, to)
                                    : tables == 4 ? Add<S, W, 4>(bins, x, w, m, table, to)
                                                  : Add<S, W, 1>(bins, x, w, m, table, to);
              }
            });
      }
    });
  });
  std::fill_n(sums, count, 0.0);
  for (int64_t p = 0; p < parts; ++p)
    for (int64_t b = 0; b < count; ++b) sums[b] += partial.get()[p * count + b];
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
