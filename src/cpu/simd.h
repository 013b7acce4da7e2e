// Highway for the kernels of this directory: AVX2 and AVX-512 on x86, the baseline elsewhere.
// Include this instead of hwy/highway.h, once for each target:
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "cpu/myfile.cpp"
//   #include "cpu/simd_foreach.h"  // only where dispatch is wanted
//   #include "cpu/simd.h"
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2)
#endif
// The build's baseline is AVX2 with FMA and F16C but not AES, which nothing here needs.
#ifndef HWY_DISABLE_PCLMUL_AES
#define HWY_DISABLE_PCLMUL_AES 1
#endif
