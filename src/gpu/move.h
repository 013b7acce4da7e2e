// Copies between tensors on a GPU, for launchers that need one.
#pragma once

#include "gpu/kernel.h"

namespace pyflame::gpu {

// `in` (of out's rank or less, sizes of 1 spread) into `out`, converted where dtypes differ.
void copy_tensor(const KernelArgs& a, const pf_tensor& out, const pf_tensor& in);

inline const char* index_type(const Space& s) {
  return s.small() ? "pf_u32" : "pf_u64";
}

}  // namespace pyflame::gpu
