// Sums in bins. Vectors find the edge nearest to each value by a product, and what it is says on
// which side of it the value lies: bins are exact, and nothing branches on values. Eight values'
// bins are found while the sums of those 32 before are made, so that arithmetic and memory have
// work at all times, and later values are fetched (steps through tables at random keep the hardware
// from fetching ahead); blocks of kStretches stretches take turns, for more memory is on its way at
// a time. Neighbours go to tables of their own, since a sum that waits for the one before it in the
// same bin takes as long as eight others; the tables lie side by side, a bin after the other, and
// fit into the L1. What a table sees follows from the sizes alone.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/histogram.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cpu/index.h"
#include "cpu/kernel.h"
#include "cpu/scratch.h"
#include "cpu/threads.h"
#include "hwy/highway.h"
#include "table/kernels/index.h"

#ifndef PF_CPU_HISTOGRAM_BINS
#define PF_CPU_HISTOGRAM_BINS
namespace pyflame::cpu {
namespace {
struct Bins {
  int64_t count;
  double low, high, scale;
  bool any;             // negative weights and those that are no finite numbers count, too
  const double* edges;  // [count + 1]; the last one is a little higher, so that it has its bin
  bool even;            // a product tells the nearest edge

  // The last of the bins that begin at or below a value inside.
  int64_t search(double value) const {
    return std::upper_bound(edges, edges + count + 1, value) - edges - 1;
  }
};
constexpr int64_t kFewBins = 1400;  // four tables of them fit into 48 KB

// In how many parts n values are added up that have tables of `size` each.
int64_t parts_of(int64_t n, int64_t size) {
  return std::clamp<int64_t>(n / std::max<int64_t>(1 << 15, 4 * size), 1, 64);
}

}  // namespace
}  // namespace pyflame::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kStep = 8, kBlock = 32, kNear = 128, kFar = 2048;  // values
constexpr int64_t kStretches = 4;
constexpr int64_t kLanes = static_cast<int64_t>(HWY_LANES(double));  // at most kStep
constexpr double kAnchor = 1.5 * (int64_t{1} << 52);  // what is added to it is rounded

HWY_INLINE hn::VFromD<hn::ScalableTag<double>> LoadDoubles(const double* p) {
  return hn::LoadU(hn::ScalableTag<double>(), p);
}
HWY_INLINE hn::VFromD<hn::ScalableTag<double>> LoadDoubles(const float* p) {
  const hn::ScalableTag<double> d;
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, decltype(d)>(), p));
}

// Sums of n values in `sums`; returns how many have no bin. `table` has room for kTables * (count +
// 1): a bin more, for those.
template <class S, int64_t kTables, bool kWeighted>
int64_t Add(const Bins& bins, const S* x, const S* weights, int64_t n, double* HWY_RESTRICT table,
            double* sums) {
  const hn::ScalableTag<double> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint32_t, decltype(d)> dn;
  const auto low = hn::Set(d, bins.low), high = hn::Set(d, bins.high);
  const auto scale = hn::Set(d, bins.scale), anchor = hn::Set(d, kAnchor), zero = hn::Zero(d);
  const auto most = hn::Set(d, std::numeric_limits<double>::max());
  const auto any = hn::RebindMask(d, hn::Ne(hn::Set(du, bins.any ? 1 : 0), hn::Zero(du)));
  const auto none = hn::Set(du, static_cast<uint64_t>(bins.count));
  auto with = hn::Zero(du);
  int64_t found = 0;
  // The bins of kStep values, times kTables.
  const auto place = [&](const S* from, const S* of, uint32_t* to) HWY_ATTR {
    for (int64_t l = 0; l < kStep; l += kLanes) {
      const auto v = LoadDoubles(from + l);
      auto good = hn::And(hn::Ge(v, low), hn::Le(v, high));
      if constexpr (kWeighted) {
        const auto w = LoadDoubles(of + l);
        good = hn::And(good, hn::Or(any, hn::And(hn::Ge(w, zero), hn::Le(w, most))));
      }
      const auto rounded = hn::BitCast(du, hn::MulAdd(hn::Sub(v, low), scale, anchor));
      // Clipped before anything is read by it: of NaN it is some number.
      const auto edge = hn::Min(hn::Sub(rounded, hn::BitCast(du, anchor)), none);
      const auto below = hn::Lt(v, hn::GatherIndex(d, bins.edges, hn::BitCast(di, edge)));
      const auto at = hn::Add(edge, hn::VecFromMask(du, hn::RebindMask(du, below)));
      const auto has = hn::RebindMask(du, good);
      constexpr int kShift = std::countr_zero(static_cast<uint64_t>(kTables));
      const auto held = hn::ShiftLeft<kShift>(hn::IfThenElse(has, at, none));
      hn::StoreU(hn::TruncateTo(dn, held), dn, to + l);
      with = hn::Sub(with, hn::VecFromMask(du, has));
    }
  };
  const auto search = [&](const S* from, const S* of, uint32_t* to) {
    for (int64_t l = 0; l < kStep; ++l) {
      const auto v = static_cast<double>(from[l]);
      bool good = v >= bins.low && v <= bins.high;
      if constexpr (kWeighted)
        good = good && (bins.any || (of[l] >= 0 && of[l] <= std::numeric_limits<S>::max()));
      to[l] = static_cast<uint32_t>((good ? bins.search(v) : bins.count) * kTables);
      found += good;
    }
  };
  const auto sum = [&](const S* of, const uint32_t* bin) HWY_ATTR {
#pragma GCC unroll 8
    for (int64_t t = 0; t < kStep; ++t)
      table[bin[t] + t % kTables] += kWeighted ? static_cast<double>(of[t]) : 1.0;
  };
  // From afar into the L2, of which more may be on their way, and from there.
  const auto fetch = [&](const auto* from) {
    constexpr size_t kSize = sizeof(*from), kLines = (kStep * kSize + 63) / 64;
    for (size_t k = 0; k < kLines; ++k) {
      __builtin_prefetch(from + kFar + k * 64 / kSize, 0, 2);
      __builtin_prefetch(from + kNear + k * 64 / kSize);
    }
  };
  // Blocks, what is left over as one more, and nothing at both ends: so what is done with a step
  // stands here once and is inlined, whatever the compiler thinks of its size.
  const auto all = [&](const auto& find) HWY_ATTR {
    alignas(64) uint32_t bin[2][kBlock];
    S rest[kBlock];
    S rest_weights[kBlock] = {};
    const int64_t blocks = n / kBlock, some = blocks / kStretches, more = blocks % kStretches;
    const int64_t left = n % kBlock, last = blocks + (left > 0);
    const S* now = rest;
    const S* now_of = rest_weights;
    std::fill_n(rest, kBlock, std::numeric_limits<S>::quiet_NaN());
    std::copy_n(x + n - left, left, rest);
    std::fill_n(bin[0], kBlock, static_cast<uint32_t>(bins.count * kTables));
    for (int64_t block = 0; block <= last; ++block) {
      const S* next = rest;
      const S* next_of = rest_weights;
      if (block < blocks) {
        const int64_t s = block % kStretches;
        const int64_t at = (s * some + std::min(s, more) + block / kStretches) * kBlock;
        next = x + at;
        if constexpr (kWeighted) next_of = weights + at;
      } else if (block == last) {
        std::fill_n(rest, kBlock, std::numeric_limits<S>::quiet_NaN());
      } else if constexpr (kWeighted) {
        std::copy_n(weights + n - left, left, rest_weights);
      }
      for (int64_t k = 0; k < kBlock; k += kStep) {
        fetch(now + k);
        if constexpr (kWeighted) fetch(now_of + k);
        find(next + k, next_of + k, bin[(block + 1) % 2] + k);
        sum(now_of + k, bin[block % 2] + k);
      }
      now = next;
      now_of = next_of;
    }
  };
  std::fill_n(table, kTables * (bins.count + 1), 0.0);
  if (bins.even)
    all(place);
  else
    all(search);
  for (int64_t b = 0; b < bins.count; ++b) {
    double total = table[b * kTables];
    for (int64_t t = 1; t < kTables; ++t) total += table[b * kTables + t];
    sums[b] = total;
  }
  return n - found - static_cast<int64_t>(hn::GetLane(hn::SumOfLanes(du, with)));
}

}  // namespace

void BinnedSums(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::BinnedSums>;
  const int64_t n = a.tensor(at.x).shape[0], count = a.tensor(at.sums).shape[0];
  const double* from = a.data<double>(at.edges);
  double* const sums = a.data<double>(at.sums);
  const Scratch<double> edges(count + 1);
  std::copy_n(from, count, edges.get());
  edges.get()[count] = std::nextafter(from[count], std::numeric_limits<double>::infinity());
  Bins bins{.count = count,
            .low = from[0],
            .high = from[count],
            .scale = static_cast<double>(count) / (from[count] - from[0]),
            .any = a.i(kernels::numbers<kernels::BinnedSums>.any) != 0,
            .edges = edges.get(),
            .even = true};
  // False of NaN, which edges without a width are.
  for (int64_t k = 0; k <= count; ++k)
    bins.even &= std::abs((edges.get()[k] - bins.low) * bins.scale - static_cast<double>(k)) < 0.25;
  const int64_t tables = count <= 512 ? 8 : count <= kFewBins ? 4 : count <= 4096 ? 2 : 1;
  const int64_t size = tables * (count + 1), parts = parts_of(n, size);
  const int64_t each = (n + parts - 1) / parts;
  const Scratch<double> partial(parts * count);
  const Scratch<int64_t> left_out(parts);
  dispatch_float(a.dtype(at.x), [&]<class S>() {
    if constexpr (sizeof(S) >= 4) {
      parallel_with(parts, 1, static_cast<size_t>(size) * sizeof(double),
                    [&](int64_t begin, int64_t end, char* memory) {
                      auto* table = reinterpret_cast<double*>(memory);
                      for (int64_t p = begin; p < end; ++p) {
                        double* const to = partial.get() + p * count;
                        const S* x = a.data<S>(at.x) + p * each;
                        const S* w = a.has(at.weights) ? a.data<S>(at.weights) + p * each : nullptr;
                        const int64_t m = std::clamp<int64_t>(n - p * each, 0, each);
                        const auto add = [&]<int64_t kTables>() {
                          return w == nullptr ? Add<S, kTables, false>(bins, x, w, m, table, to)
                                              : Add<S, kTables, true>(bins, x, w, m, table, to);
                        };
                        left_out.get()[p] = tables == 8   ? add.template operator()<8>()
                                            : tables == 4 ? add.template operator()<4>()
                                            : tables == 2 ? add.template operator()<2>()
                                                          : add.template operator()<1>();
                      }
                    });
    }
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
namespace {

// Adds up the elements [begin, end) in `table`, zero before: `tables` of them, a bin after another.
template <class T, int64_t kTables>
void count(const KernelArgs& a, int64_t bins, int64_t begin, int64_t end, T* table) {
  constexpr auto at = kernels::tensors<kernels::Bincount>;
  const int64_t step = a.tensor(at.index).strides[0];
  const int64_t* const index = a.data<int64_t>(at.index);
  const bool weighted = a.has(at.weights);
  const int64_t weight_step = weighted ? a.tensor(at.weights).strides[0] : 0;
  const T* const weights = weighted ? a.data<T>(at.weights) : nullptr;
  const auto all = [&](const auto& weight) {
    int64_t i = begin;
    for (; i + kTables <= end; i += kTables)
#pragma GCC unroll 4
      for (int64_t t = 0; t < kTables; ++t)
        table[checked_index(a, index[(i + t) * step], bins, false) * kTables + t] += weight(i + t);
    for (; i < end; ++i)
      table[checked_index(a, index[i * step], bins, false) * kTables] += weight(i);
  };
  if (weighted)
    all([&](int64_t i) { return weights[i * weight_step]; });
  else
    all([](int64_t) { return T(1); });
}

void bincount(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::Bincount>;
  const int64_t bins = a.tensor(at.out).shape[0], n = a.tensor(at.index).shape[0];
  const int64_t tables = bins <= kFewBins ? 4 : 1, size = tables * bins;
  const int64_t parts = parts_of(n, size), each = (n + parts - 1) / parts;
  const auto add = [&]<class T>() {
    T* const out = a.data<T>(at.out);
    std::fill_n(out, bins, T(0));
    if (parts == 1) return count<T, 1>(a, bins, 0, n, out);
    const Scratch<T> partial(parts * size);
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        T* const table = partial.get() + p * size;
        std::fill_n(table, size, T(0));
        const int64_t from = std::min(n, p * each), until = std::min(n, from + each);
        if (tables == 1)
          count<T, 1>(a, bins, from, until, table);
        else
          count<T, 4>(a, bins, from, until, table);
      }
    });
    parallel_for(bins, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t p = 0; p < parts; ++p)
        for (int64_t b = begin; b < end; ++b)
          for (int64_t t = 0; t < tables; ++t) out[b] += partial.get()[p * size + b * tables + t];
    });
  };
  switch (a.dtype(at.out)) {
    case DType::Int64:
      return add.operator()<int64_t>();
    case DType::Float64:
      return add.operator()<double>();
    default:
      return add.operator()<float>();
  }
}
}  // namespace
PF_CPU_SIMD_KERNEL(BinnedSums)
PF_CPU_KERNEL(kernels::Bincount::kInfo, bincount)
}  // namespace pyflame::cpu
#endif
