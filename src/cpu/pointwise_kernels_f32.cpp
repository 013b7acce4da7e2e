// Rows of the pointwise table over float.

#include "cpu/simd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise_kernels_f32.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
// After highway.h, since they are per target.
#include "cpu/pointwise_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu {
namespace HWY_NAMESPACE {
const Kernel* RowsF32() {
  return ForwardTable<float>();
}
}  // namespace HWY_NAMESPACE
}  // namespace pyflame::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/kernel_tables.h"
namespace pyflame::cpu {
HWY_EXPORT(RowsF32);
const Kernel* rows_f32() {
  return HWY_DYNAMIC_DISPATCH(RowsF32)();
}
}  // namespace pyflame::cpu
#endif
