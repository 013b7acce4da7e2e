// All that passes from the program before a kernel to it, for the kernel that takes several of its
// results; `before` has the first.
#pragma once

#include "gpu/kernel.h"

namespace pyflame::gpu {

struct FullAround : Around {  // of every call that has programs around it
  int more = 0;
  struct {
    int operand, tensor;
    bool keep;
  } others[3];
  uint32_t tensors() const {  // bits of those that pass
    uint32_t bits = before.program ? 1u << before.tensor : 0;
    for (int i = 0; i < more; ++i) bits |= 1u << others[i].tensor;
    return bits;
  }
};
inline uint32_t tensors_before(const KernelArgs& a) {
  return a.around ? static_cast<const FullAround*>(a.around)->tensors() : 0;
}

// As KernelArgs::join(), where the program before makes exactly these tensors (bits).
Joined join_programs(Device&, FullAround&, const char* file, const Defines&, const char* entry,
                     const JoinedRows&, uint32_t tensors);

}  // namespace pyflame::gpu
