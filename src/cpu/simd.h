// Instruction sets that kernels are compiled for: AVX2 and AVX-512 on x86, the baseline elsewhere.
// Include before hwy/foreach_target.h.
#pragma once

// AES, which Highway counts to AVX2, is used nowhere and not in the build's flags.
#ifndef HWY_DISABLE_PCLMUL_AES
#define HWY_DISABLE_PCLMUL_AES 1
#endif
// Newer releases know finer targets that would only be compiled once more.
#if defined(__x86_64__)
#ifndef HWY_BASELINE_TARGETS
#define HWY_BASELINE_TARGETS HWY_AVX2
#endif
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_AVX3))
#endif
#endif
