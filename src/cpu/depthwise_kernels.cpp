// The inner loops of convolutions of each channel by itself where channels lie side by side.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/depthwise_kernels.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include <hwy/highway.h>

#include "cpu/conv.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// NV vectors of channels from `c`; of the last one `rest` count when TAIL.
template <class T, int P, int NV, bool TAIL>
HWY_INLINE void SumBlock(const SeenTaps<T>& s, int64_t c, size_t rest) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto mask = hn::FirstN(d, rest);
  const auto load = [&](const T* p, int v) HWY_ATTR {
    return TAIL && v == NV - 1 ? hn::MaskedLoad(mask, d, p + v * lanes)
                               : hn::LoadU(d, p + v * lanes);
  };
  V acc[P][NV];
#pragma GCC unroll 8
  for (int i = 0; i < P; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) acc[i][v] = s.bias ? load(s.bias + c, v) : hn::Zero(d);
  for (int64_t t = 0; t < s.taps; ++t) {
    const T* const w = s.weights + s.which[t] * s.channels + c;
    const T* const x = s.x + s.at[t] + c;
    V wv[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) wv[v] = load(w, v);
#pragma GCC unroll 8
    for (int i = 0; i < P; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v)
        acc[i][v] = hn::MulAdd(wv[v], load(x + i * s.step, v), acc[i][v]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < P; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      T* const to = s.to + i * s.apart + c + v * lanes;
      if (TAIL && v == NV - 1)
        hn::BlendedStore(acc[i][v], mask, d, to);
      else
        hn::StoreU(acc[i][v], d, to);
    }
}
template <class T, int P>
void SumPixels(const SeenTaps<T>& s) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + 2 * lanes <= s.channels; c += 2 * lanes) SumBlock<T, P, 2, false>(s, c, 0);
  for (; c < s.channels; c += lanes)
    SumBlock<T, P, 1, true>(s, c, static_cast<size_t>(std::min(lanes, s.channels - c)));
}

template <class T, int K>
void AddProducts(const TapProducts<T>& s) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < s.channels; c += lanes) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, s.channels - c)));
    // Pixels by turns: one sum waits for itself.
    V even[K], odd[K];
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) even[k] = odd[k] = hn::Zero(d);
    const auto add = [&](V* sums, int64_t q) HWY_ATTR {
      const V g = hn::MaskedLoad(mask, d, s.g + q * s.g_step + c);
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k)
        sums[k] =
            hn::MulAdd(g, hn::MaskedLoad(mask, d, s.x + q * s.x_step + k * s.next + c), sums[k]);
    };
    int64_t q = 0;
    for (; q + 2 <= s.n; q += 2) add(even, q), add(odd, q + 1);
    if (q < s.n) add(even, q);
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) {
      T* const to = s.sums + k * s.channels + c;
      const V sum = hn::Add(hn::MaskedLoad(mask, d, to), hn::Add(even[k], odd[k]));
      hn::BlendedStore(sum, mask, d, to);
    }
  }
}

template <class T>
DepthwiseKernels<T> Make() {
  return {SumPixels<T, 1>,
          SumPixels<T, DepthwiseKernels<T>::kPixels>,
          {AddProducts<T, 1>, AddProducts<T, 2>, AddProducts<T, 3>, AddProducts<T, 4>}};
}
DepthwiseKernels<float> Make32() {
  return Make<float>();
}
DepthwiseKernels<double> Make64() {
  return Make<double>();
}

}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {

HWY_EXPORT(Make32);
HWY_EXPORT(Make64);

template <>
const DepthwiseKernels<float>& depthwise_kernels() {
  static const DepthwiseKernels<float> k = HWY_DYNAMIC_DISPATCH(Make32)();
  return k;
}
template <>
const DepthwiseKernels<double>& depthwise_kernels() {
  static const DepthwiseKernels<double> k = HWY_DYNAMIC_DISPATCH(Make64)();
  return k;
}

}  // namespace pyflame::cpu
#endif  // HWY_ONCE
