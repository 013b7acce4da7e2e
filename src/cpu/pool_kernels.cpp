// The inner loops of pooling where only the largest elements are wanted.
#include <algorithm>
#include <limits>

#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pool_kernels.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include <hwy/highway.h>

#include "cpu/pool.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Of equals the first, of several NaN the last.
template <class V>
HWY_INLINE V Larger(V best, V v) {
  return hn::IfThenElse(hn::Or(hn::Gt(v, best), hn::IsNaN(v)), v, best);
}
template <class T>
constexpr T kLeast = -std::numeric_limits<T>::infinity();

// NV vectors of channels; of the last one `rest` count when TAIL.
template <class T, int NV, bool TAIL>
HWY_INLINE void Channels(const T* x, const int64_t* at, int64_t taps, size_t rest, T* y) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto mask = hn::FirstN(d, rest);
  V best[NV];
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) best[v] = hn::Set(d, kLeast<T>);
  for (int64_t t = 0; t < taps; ++t)
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      const T* const from = x + at[t] + v * lanes;
      best[v] = Larger(best[v], TAIL ? hn::MaskedLoad(mask, d, from) : hn::LoadU(d, from));
    }
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v)
    if (TAIL)
      hn::BlendedStore(best[v], mask, d, y + v * lanes);
    else
      hn::StoreU(best[v], d, y + v * lanes);
}
template <class T>
void AllChannels(const T* x, const int64_t* at, int64_t taps, int64_t n, T* y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  int64_t c = 0;
  for (; c + 4 * lanes <= n; c += 4 * lanes) Channels<T, 4, false>(x + c, at, taps, 0, y + c);
  for (; c + lanes <= n; c += lanes) Channels<T, 1, false>(x + c, at, taps, 0, y + c);
  if (c < n) Channels<T, 1, true>(x + c, at, taps, static_cast<size_t>(n - c), y + c);
}

template <class T>
bool Pixels(const T* x, const int64_t* at, int64_t rows, int64_t kernel, int64_t stride, int64_t n,
            T* y) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (n < lanes) return false;
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t q = std::min(i, n - lanes);  // the last vector makes some results again
    V best = hn::Set(d, kLeast<T>);
    for (int64_t r = 0; r < rows; ++r) {
      const T* const row = x + at[r] + q * stride;
      if (stride == 1) {
        for (int64_t k = 0; k < kernel; ++k) best = Larger(best, hn::LoadU(d, row + k));
        continue;
      }
      V even, odd;
      int64_t k = 0;
      for (; k + 2 <= kernel; k += 2) {
        hn::LoadInterleaved2(d, row + k, even, odd);
        best = Larger(Larger(best, even), odd);
      }
      if (k < kernel) {  // one element back, for what is behind the last may not be ours
        hn::LoadInterleaved2(d, row + k - 1, even, odd);
        best = Larger(best, odd);
      }
    }
    hn::StoreU(best, d, y + q);
  }
  return true;
}

PoolKernels<float> MakePool32() {
  return {AllChannels<float>, Pixels<float>};
}
PoolKernels<double> MakePool64() {
  return {AllChannels<double>, Pixels<double>};
}

}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {

HWY_EXPORT(MakePool32);
HWY_EXPORT(MakePool64);

template <>
const PoolKernels<float>& pool_kernels() {
  static const PoolKernels<float> k = HWY_DYNAMIC_DISPATCH(MakePool32)();
  return k;
}
template <>
const PoolKernels<double>& pool_kernels() {
  static const PoolKernels<double> k = HWY_DYNAMIC_DISPATCH(MakePool64)();
  return k;
}

}  // namespace pyflame::cpu
#endif  // HWY_ONCE
