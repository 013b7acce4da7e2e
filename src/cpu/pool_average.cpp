// Averages of windows, and their gradient.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pool_average.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "cpu/kernel.h"
#include "cpu/pool_last-inl.h"
#include "cpu/pool_small-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
void PoolAverage(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolAverage>;
  const Windows w(a);
  WithFloat(a.dtype(at.x), [&]<class S>() {
    using Rule = Total<PoolOf<S>>;
    const S* const x = a.data<S>(at.x);
    S* const y = a.data<S>(at.y);
    if (WithSmall<S>(w, true, [&]<int kKernel, int kPadding>() {
          ForLines(w, SmallForward<S, Rule, false, kKernel>(w, x, y, nullptr));
        }))
      return;
    if constexpr (kInUse<S>)
      if (AreFew<S>(w)) return ForLines(w, LastForward<S, Rule, false>(w, x, y, nullptr));
    ForLines(w, Forward<S, Rule, false>(w, x, {y, nullptr, nullptr, nullptr}));
  });
}
void PoolAverageInput(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolAverageInput>;
  const Windows w(a);
  WithFloat(a.dtype(at.dy), [&]<class S>() {
    const S* const dy = a.data<S>(at.dy);
    S* const dx = a.data<S>(at.dx);
    if (!WithSmall<S>(w, true, [&]<int kKernel, int kPadding>() {
          ForLines(w, SmallBackward<S, false, kKernel, kPadding>(w, dy, nullptr, dx));
        }))
      ForLines(w, Backward<S, false>(w, dy, nullptr, dx));
  });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
HWY_EXPORT(PoolAverage);
HWY_EXPORT(PoolAverageInput);
namespace {
void pool_average(const KernelArgs& a) {
  PF_DISPATCH_TYPE(PoolAverage, a.dtype(kernels::tensors<kernels::PoolAverage>.x))(a);
}
void pool_average_input(const KernelArgs& a) {
  PF_DISPATCH_TYPE(PoolAverageInput, a.dtype(kernels::tensors<kernels::PoolAverageInput>.dy))(a);
}
PF_CPU_KERNEL(kernels::PoolAverage::kInfo, pool_average)
PF_CPU_KERNEL(kernels::PoolAverageInput::kInfo, pool_average_input)
}  // namespace
}  // namespace pyflame::cpu
#endif  // HWY_ONCE
