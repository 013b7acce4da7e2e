// Rows of the pointwise table over double.

#include "cpu/simd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise_kernels_f64.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
// After highway.h, since they are per target.
#include "cpu/pointwise_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu {
namespace HWY_NAMESPACE {
const Kernel* RowsF64() {
  return ForwardTable<double>();
}
}  // namespace HWY_NAMESPACE
}  // namespace pyflame::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/kernel_tables.h"
namespace pyflame::cpu {
HWY_EXPORT(RowsF64);
const Kernel* rows_f64() {
  return HWY_DYNAMIC_DISPATCH(RowsF64)();
}
}  // namespace pyflame::cpu
#endif
