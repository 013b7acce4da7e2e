// Numbers of hipBLASLt that we use (blas.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace pyflame::gpu {

struct BlasAlgo {
  uint8_t data[16];
  size_t max_workspace;
};
enum : int {
  kR32F = 0,
  kR64F = 1,
  kR16F = 2,
  kR16BF = 14,
  kR8I = 3,
  kR32I = 10,
  kR8E4M3 = 28,
  kR8E5M2 = 29,
  kCompute32F = 2,
  kComputeTF32 = 6,
  kCompute64F = 7,
  kCompute32I = 9,
  kOpN = 111,
  kOpT = 112,
  kDescTransA = 0,
  kDescTransB = 1,
  kDescEpilogue = 2,
  kDescBias = 3,
  kDescBiasType = 4,
  kDescScaleA = 5,
  kDescScaleB = 6,
  kDescFastSums = -1,    // there are none
  kDescScaleModeA = 31,  // of ROCm 7, as those behind it
  kDescScaleModeB = 32,
  kScaleOuter = 3,
  kLayoutBatchCount = 0,
  kLayoutBatchStride = 1,
  kPrefWorkspace = 1,
  kPrefAlignA = -1,  // there is none
  kEpilogueBias = 4,
};

}  // namespace pyflame::gpu
