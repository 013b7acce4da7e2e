// Sums of bags of rows (table/kernels/bags.h): a thread takes whole bags, and adds their rows in
// order.
#include "cpu/one_target.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/bags.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include <algorithm>

#include "cpu/kernel.h"
#include "cpu/threads.h"
#include "cpu/wide-inl.h"
#include "table/kernels/bags.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {

constexpr auto kAt = kernels::tensors<kernels::BagSums>;

template <class S, bool kFactors>
void SumsOf(const KernelArgs& a) {
  using T = ComputeOf<S>;
  constexpr int64_t kLanes = Wide<T>::kLanes;
  constexpr int kParts = 4;       // vectors that are added up at a time
  constexpr int64_t kAhead = 12;  // rows that are fetched before they are added
  constexpr int64_t kCacheLine = 64 / static_cast<int64_t>(sizeof(S));
  const int64_t bags = a.tensor(kAt.out).shape[0];
  const int64_t each =
      bags > 0 ? (a.tensor(kAt.index).shape[0] / bags + 1) * a.tensor(kAt.out).shape[1] : 1;
  parallel_for(bags, std::max<int64_t>(1, 16384 / each), [&](int64_t begin, int64_t end) {
    // Here, where they stay in registers: what is stored might change what is captured.
    const int64_t width = a.tensor(kAt.out).shape[1], count = a.tensor(kAt.index).shape[0];
    const auto rows = static_cast<uint64_t>(a.tensor(kAt.weight).shape[0]);
    const int64_t skip = a.i(kernels::numbers<kernels::BagSums>.skip);
    const S* const weight = a.data<S>(kAt.weight);
    const S* const factors = kFactors ? a.data<S>(kAt.factors) : nullptr;
    const auto *const index = a.data<int64_t>(kAt.index), *const ends = a.data<int64_t>(kAt.ends);
    S* const out = a.data<S>(kAt.out);
    const auto row_of = [&a, index, weight, width, rows, skip](int64_t i) -> const S* {
      const int64_t r = index[i];
      if (static_cast<uint64_t>(r) >= rows) [[unlikely]] {
        a.bad_index(r, 0, static_cast<int64_t>(rows));
        return nullptr;
      }
      return r == skip ? nullptr : weight + r * width;
    };
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = std::clamp<int64_t>(b > 0 ? ends[b - 1] : 0, 0, count);
      const int64_t last = std::clamp<int64_t>(ends[b], first, count);
      int64_t c = 0;
      for (; c + kParts * kLanes <= width; c += kParts * kLanes) {
        Wide<T> sum[kParts];
        for (auto& s : sum) s = Fill(T(0));
        for (int64_t i = first; i < last; ++i) {
          if (i + kAhead < count) {  // of the next bags, too
            const auto r = static_cast<uint64_t>(index[i + kAhead]);
            if (r < rows)
              for (int64_t k = 0; k < kParts * kLanes; k += kCacheLine)
                hwy::Prefetch(weight + static_cast<int64_t>(r) * width + c + k);
          }
          const S* row = row_of(i);
          if (!row) continue;
          if constexpr (kFactors) {
            const Wide<T> f = Fill(ToCompute(factors[i]));
            for (int k = 0; k < kParts; ++k) sum[k] = sum[k] + Load(row + c + k * kLanes) * f;
          } else {
            for (int k = 0; k < kParts; ++k) sum[k] = sum[k] + Load(row + c + k * kLanes);
          }
        }
        for (int k = 0; k < kParts; ++k) Store(sum[k], out + b * width + c + k * kLanes);
      }
      for (; c < width; c += kLanes) {
        const int64_t n = std::min(kLanes, width - c);
        Wide<T> sum = Fill(T(0));
        for (int64_t i = first; i < last; ++i) {
          const S* row = row_of(i);
          if (!row) continue;
          const Wide<T> x = n == kLanes ? Load(row + c) : LoadPart(row + c, n, T(0));
          if constexpr (kFactors)
            sum = sum + x * Fill(ToCompute(factors[i]));
          else
            sum = sum + x;
        }
        StorePart(sum, out + b * width + c, n);
      }
    }
  });
}

}  // namespace

void BagSums(const KernelArgs& a) {
  dispatch_float(a.dtype(kAt.out), [&]<class S>() {
    if (a.has(kAt.factors))
      SumsOf<S, true>(a);
    else
      SumsOf<S, false>(a);
  });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
PF_CPU_SIMD_KERNEL(BagSums)
}  // namespace pyflame::cpu
#endif  // HWY_ONCE
