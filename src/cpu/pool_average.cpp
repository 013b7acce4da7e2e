// Averages of windows, and their gradient.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pool_average.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "cpu/kernel.h"
#include "cpu/pool_back-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {

void PoolAverage(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolAverage>;
  const Windows w(a);
  dispatch_float(a.dtype(at.x), [&]<class S>() {
    const Forward<S, Total<PoolOf<S>>, false> forward(w, a.data<S>(at.x));
    S* const y = a.data<S>(at.y);
    ForLines(forward, w.outer * w.inputs() * w.inner, w.outer * w.outputs() * w.inner,
             [&](int64_t begin, int64_t end, char* own, bool stream) {
               forward.run(begin, end, own, {y, nullptr, nullptr, nullptr}, stream);
             });
  });
}
void PoolAverageInput(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolAverageInput>;
  const Windows w(a);
  dispatch_float(a.dtype(at.dy), [&]<class S>() {
    const Backward<S, false> backward(w, a.data<S>(at.dy), nullptr);
    S* const dx = a.data<S>(at.dx);
    ForLines(backward, w.outer * w.outputs() * w.inner, w.outer * w.inputs() * w.inner,
             [&](int64_t begin, int64_t end, char* own, bool stream) {
               backward.run(begin, end, own, dx, stream);
             });
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
  HWY_DYNAMIC_DISPATCH(PoolAverage)(a);
}
void pool_average_input(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(PoolAverageInput)(a);
}
PF_CPU_KERNEL(kernels::PoolAverage::kInfo, pool_average)
PF_CPU_KERNEL(kernels::PoolAverageInput::kInfo, pool_average_input)
}  // namespace
}  // namespace pyflame::cpu
#endif  // HWY_ONCE
