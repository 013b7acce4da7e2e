// Names of what the CPU's kernels keep of tensors (core/kept.h): which form, and of what it is.
#pragma once

#include <cstdint>

#include "core/kept.h"

namespace pyflame::cpu {

enum KeptKind : int64_t { kFlatForm, kTapsForm, kTapsInputForm, kRecurrentForm };
inline int64_t address(const void* p) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(p));
}

}  // namespace pyflame::cpu
