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
  kLayoutBatchCount = 5,
  kLayoutBatchStride = 6,
  kPrefWorkspace = 1,
  kPrefAlignA = 5,  // A, B, C, D follow each other
  kEpilogueBias = 4,
};

}  // namespace pyflame::gpu
