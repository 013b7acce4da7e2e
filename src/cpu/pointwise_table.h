// Tables of compiled rows as a translation unit of its own. Who includes this says which:
// PF_TABLES(X) is X(TABLE, FUNCTION, MAKE) for each, the names of what MAKE gives for a target and
// for this machine.

#include "cpu/simd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pointwise_table.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
// After highway.h, since they are per target.
#include "cpu/pointwise_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu {
namespace HWY_NAMESPACE {
#define PF_TABLE(TABLE, FUNCTION, MAKE) \
  const Kernel* TABLE() {               \
    return MAKE();                      \
  }
PF_TABLES(PF_TABLE)
#undef PF_TABLE
}  // namespace HWY_NAMESPACE
}  // namespace pyflame::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/kernel_tables.h"
namespace pyflame::cpu {
#define PF_TABLE(TABLE, FUNCTION, MAKE) PF_CPU_TABLE(FUNCTION, TABLE)
PF_TABLES(PF_TABLE)
#undef PF_TABLE
}  // namespace pyflame::cpu
#endif
