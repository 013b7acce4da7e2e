// Numbers of cuBLASLt that we use (blas.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace pyflame::gpu {

struct BlasAlgo {
  uint64_t data[8];
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
  kCompute32F = 68,
  kComputeTF32 = 77,
  kCompute64F = 70,
  kCompute32I = 72,
  kOpN = 0,
  kOpT = 1,
  kDescTransA = 3,
  kDescTransB = 4,
  kDescEpilogue = 7,
  kDescBias = 8,
  kDescBiasType = 26,
  kDescScaleA = 17,
  kDescScaleB = 18,
  kDescFastSums = 25,
  kDescScaleModeA = 31,  // since 12.8, as those behind it
  kDescScaleModeB = 32,
  kScaleOuter = 3,
  kLayoutBatchCount = 5,
  kLayoutBatchStride = 6,
  kPrefWorkspace = 1,
  kPrefAlignA = 5,  // A, B, C, D follow each other
  kEpilogueBias = 4,
};

}  // namespace pyflame::gpu
