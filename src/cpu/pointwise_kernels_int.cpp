// Rows of the pointwise table over integers and masks.

#include "cpu/simd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise_kernels_int.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
// After highway.h, since they are per target.
#include "cpu/pointwise_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu {
namespace HWY_NAMESPACE {
const Kernel* RowsI32() {
  return ForwardTable<int32_t>();
}
const Kernel* RowsI64() {
  return ForwardTable<int64_t>();
}
const Kernel* RowsBool() {
  return LogicTable();
}
}  // namespace HWY_NAMESPACE
}  // namespace pyflame::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/kernel_tables.h"
namespace pyflame::cpu {
HWY_EXPORT(RowsI32);
HWY_EXPORT(RowsI64);
HWY_EXPORT(RowsBool);
const Kernel* rows_i32() {
  return HWY_DYNAMIC_DISPATCH(RowsI32)();
}
const Kernel* rows_i64() {
  return HWY_DYNAMIC_DISPATCH(RowsI64)();
}
const Kernel* rows_bool() {
  return HWY_DYNAMIC_DISPATCH(RowsBool)();
}
}  // namespace pyflame::cpu
#endif
