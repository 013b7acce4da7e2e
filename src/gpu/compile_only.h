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
// Of AMD alone: clang as run-time compiler, where hipRTC is not installed. Throws when there is no
// clang either.
Rtc clang_rtc();

// ---- for compile_only_<vendor>.cpp --------------------------------------------------------------
inline constexpr size_t kAbsentMemory = size_t{1} << 40;
template <class... A>
void do_nothing(int (*&f)(A...)) {
  f = [](A...) { return static_cast<int>(kSuccess); };
}
int make_absent_handle(void** out);
void answer_as_vendor(Runtime&);  // what this vendor's runtime alone has

}  // namespace pyflame::gpu
