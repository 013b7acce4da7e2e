// The largest elements of windows, and their gradient where places are numbers of taps.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pool_max.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "cpu/convert.h"
#include "cpu/kernel.h"
#include "cpu/pool_last-inl.h"
#include "cpu/pool_small-inl.h"
#include "cpu/strided.h"
#include "cpu/threads.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {

// Numbers of taps are kept beside the elements, in their type.
template <class N>
constexpr int64_t kMostTaps = sizeof(N) == 4 ? int64_t{1} << 24 : int64_t{1} << 53;

// Window by window, where there are more taps.
template <class S>
void Plain(const Windows& w, const S* x, S* y, int64_t* places) {
  using N = PoolOf<S>;
  parallel_for(w.outer * w.outputs() * w.inner, 1, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const int64_t c = o % w.inner, q = o / w.inner % w.out[2];
      const int64_t line = o / w.inner / w.out[2] % w.lines();
      const Windows::Range d = w.of(0, line / w.out[1]), h = w.of(1, line % w.out[1]);
      const Windows::Range r = w.of(2, q);
      const S* const from = x + o / w.inner / w.outputs() * w.inputs() * w.inner + c;
      N best = Largest<N>::outside();
      int64_t which = -1;
      for (int64_t i = 0; i < d.to - d.from; ++i)
        for (int64_t j = 0; j < h.to - h.from; ++j)
          for (int64_t k = 0; k < r.to - r.from; ++k) {
            const int64_t place =
                ((d.begin + i * w.step(0)) * w.in[1] + h.begin + j * w.step(1)) * w.in[2] +
                r.begin + k * w.step(2);
            const N v = OneAs<N>(from[place * w.inner]);
            if (which >= 0 && !Largest<N>::above(v, best)) continue;
            best = v;
            which = place;
          }
      if constexpr (kIsFloatType<S>)
        StoreOne(best, y + o);
      else
        y[o] = static_cast<S>(best);
      places[o] = which;
    }
  });
}

template <class S, bool kTaps>
void Largests(const Windows& w, const S* x, S* y, uint8_t* taps, int64_t* places) {
  using N = PoolOf<S>;
  if constexpr (kTaps)
    if (w.taps() > kMostTaps<N>) return Plain(w, x, y, places);
  if (!places && WithSmall<S>(w, false, [&]<int kKernel, int kPadding>() {
        ForLines(w, SmallForward<S, Largest<N>, kTaps, kKernel>(w, x, y, taps));
      }))
    return;
  if constexpr (kInUse<S>)
    if (!places && AreFew<S>(w))
      return ForLines(w, LastForward<S, Largest<N>, kTaps>(w, x, y, taps));
  const TapPlaces of(w);
  ForLines(w, Forward<S, Largest<N>, kTaps>(w, x, {y, taps, places, &of}));
}

template <class F>
void WithNumber(DType t, F&& fn) {
  if (t != DType::Int64) return WithFloat(t, fn);
  fn.template operator()<int64_t>();
}

}  // namespace

void PoolMax(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolMax>;
  const Windows w(a);
  const bool bytes = a.dtype(at.index) == DType::UInt8;
  WithNumber(a.dtype(at.x), [&]<class S>() {
    Largests<S, true>(w, a.data<S>(at.x), a.data<S>(at.y),
                      bytes ? a.data<uint8_t>(at.index) : nullptr,
                      bytes ? nullptr : a.data<int64_t>(at.index));
  });
}
void PoolMaxValues(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolMaxValues>;
  const Windows w(a);
  WithNumber(a.dtype(at.x), [&]<class S>() {
    Largests<S, false>(w, a.data<S>(at.x), a.data<S>(at.y), nullptr, nullptr);
  });
}
void PoolMaxInput(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolMaxInput>;
  const Windows w(a);
  WithFloat(a.dtype(at.dx), [&]<class S>() {
    const S* const dy = a.data<S>(at.dy);
    const uint8_t* const taps = a.data<uint8_t>(at.index);
    S* const dx = a.data<S>(at.dx);
    if (WithSmall<S>(w, false, [&]<int kKernel, int kPadding>() {
          ForLines(w, SmallBackward<S, true, kKernel, kPadding>(w, dy, taps, dx));
        }))
      return;
    if constexpr (kInUse<S>)
      if (AreFew<S>(w)) return ForLines(w, LastBackward<S>(w, dy, taps, dx));
    ForLines(w, Backward<S, true>(w, dy, taps, dx));
  });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
HWY_EXPORT(PoolMax);
HWY_EXPORT(PoolMaxValues);
HWY_EXPORT(PoolMaxInput);
namespace {
// Integers are compared as int64: for each of them there would be all loops again.
void with_int64(const KernelArgs& a, int y, int x, KernelFn run) {
  const DType t = a.dtype(x);
  if (!is_integral(t) || t == DType::Int64) return run(a);
  pf_tensor all[3];
  std::copy_n(a.tensors, a.ntensors, all);
  const Scratch<int64_t> xs(numel(all[x])), ys(numel(all[y]));
  all[x].data = xs.get();
  all[y].data = ys.get();
  all[x].dtype = all[y].dtype = static_cast<decltype(all[x].dtype)>(DType::Int64);
  convert(all[x], a.tensor(x));
  KernelArgs wide = a;
  wide.tensors = all;
  run(wide);
  convert(a.tensor(y), all[y]);
}
void pool_max(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolMax>;
  with_int64(a, at.y, at.x, [](const KernelArgs& all) {
    PF_DISPATCH_TYPE(PoolMax, all.dtype(at.x))(all);
  });
}
void pool_max_values(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolMaxValues>;
  with_int64(a, at.y, at.x, [](const KernelArgs& all) {
    PF_DISPATCH_TYPE(PoolMaxValues, all.dtype(at.x))(all);
  });
}
void pool_max_input(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolMaxInput>;
  if (a.dtype(at.index) != DType::UInt8) return pool_add_by_places(a);
  PF_DISPATCH_TYPE(PoolMaxInput, a.dtype(at.dx))(a);
}
PF_CPU_KERNEL(kernels::PoolMax::kInfo, pool_max)
PF_CPU_KERNEL(kernels::PoolMaxValues::kInfo, pool_max_values)
PF_CPU_KERNEL(kernels::PoolMaxInput::kInfo, pool_max_input)
}  // namespace
}  // namespace pyflame::cpu
#endif  // HWY_ONCE
