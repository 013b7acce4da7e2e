// A GPU that is not there: PYFLAME_COMPILE_ONLY=gfx942 (sm_90) stands for one of that architecture.
// Programs are chosen and compiled for it as for a real one and launched nowhere; results are
// zeros. So `pyflame cache warm --arch` and `pack` need no GPU: they run ordinary training steps.
#pragma once

#include <string>

#include "gpu/runtime.h"

namespace pyflame::gpu {

// The architecture, or nothing where GPUs are real.
std::string compile_only();
Runtime absent_runtime();
#ifdef PF_GPU_ROCM
// clang as run-time compiler, where hipRTC is not installed. Throws when there is no clang either.
Rtc clang_rtc();
#endif

}  // namespace pyflame::gpu
