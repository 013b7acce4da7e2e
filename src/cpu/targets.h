// Instruction sets that the kernels are compiled for. Include before foreach_target.h.
#pragma once

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_AVX2
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_AVX3))
#endif
