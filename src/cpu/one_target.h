// In place of targets.h, where wider vectors make nothing faster, since memory or divisions are
// what is waited for: they would be as much code again. Include before foreach_target.h.
#pragma once

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_AVX2
#define HWY_DISABLED_TARGETS (~HWY_AVX2)
#endif
