// Gradients of pointwise rows over float.

#include "cpu/simd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise_kernels_grad_f32.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
// After highway.h, since they are per target.
#include "cpu/pointwise_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu {
namespace HWY_NAMESPACE {
const Kernel* GradientsF32() {
  return GradientTable<float>();
}
}  // namespace HWY_NAMESPACE
}  // namespace pyflame::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/kernel_tables.h"
namespace pyflame::cpu {
HWY_EXPORT(GradientsF32);
const Kernel* gradients_f32() {
  return HWY_DYNAMIC_DISPATCH(GradientsF32)();
}
}  // namespace pyflame::cpu
#endif
