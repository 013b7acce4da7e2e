// The calls and numbers of cuFFT and hipFFT that we use. The two agree but for names and what a
// plan is; check_headers_*.cpp compares them with the real headers where those are installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/runtime.h"

namespace pyflame::gpu {

using FftPlan = PF_RT(void*, int);

enum : int {
  kFftC2C = 0x29,
  kFftR2C = 0x2a,
  kFftC2R = 0x2c,
  kFftZ2Z = 0x69,
  kFftD2Z = 0x6a,
  kFftZ2D = 0x6c,
  kFftForward = -1,
  kFftBackward = 1,
};

// Sizes of 64 bits are `long long` for both.
#define PF_FFT_CALLS(X)                                                                       \
  X(Create, (FftPlan*))                                                                       \
  X(Destroy, (FftPlan))                                                                       \
  X(SetAutoAllocation, (FftPlan, int))                                                        \
  X(MakePlanMany64, (FftPlan, int rank, long long* n, long long* in_sizes, long long in_step, \
                     long long in_next, long long* out_sizes, long long out_step,             \
                     long long out_next, int type, long long batch, size_t* workspace))       \
  X(SetStream, (FftPlan, hipStream))                                                          \
  X(SetWorkArea, (FftPlan, void*))                                                            \
  X(ExecC2C, (FftPlan, void* from, void* to, int direction))                                  \
  X(ExecZ2Z, (FftPlan, void* from, void* to, int direction))                                  \
  X(ExecR2C, (FftPlan, void* from, void* to))                                                 \
  X(ExecD2Z, (FftPlan, void* from, void* to))                                                 \
  X(ExecC2R, (FftPlan, void* from, void* to))                                                 \
  X(ExecZ2D, (FftPlan, void* from, void* to))

}  // namespace pyflame::gpu
