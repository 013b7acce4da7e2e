// Attention's kernels on Hopper (kernels/flash_hopper.h), for 16-bit floats whose rows its copy
// unit reads; the launcher of kernels_attention.cpp asks here first.
#pragma once

#include "gpu/kernel.h"
#include "kernels/attention_args.h"

namespace pyflame::gpu {

// False, and nothing is launched, where these kernels do not serve: other devices and dtypes, more
// than 128 columns, no keys or queries, sequences and pages, a scale that is not above 0. How
// operands lie does not matter: rows that the copy unit cannot read are copied. `mask`, `features`:
// PF_MASK and PF_FEATURES of attention_args.h; `before`: the text of PF_SCORE.
bool attention_on_hopper(const KernelArgs&, const pf_attention&, DType, int64_t mask,
                         int64_t features, int64_t heads, const KernelArgs::Before* before);
// All of dq, dk and dv.
bool attention_backward_on_hopper(const KernelArgs&, const pf_attention&, DType, int64_t mask,
                                  int64_t features, int64_t heads,
                                  const KernelArgs::Before* before);

}  // namespace pyflame::gpu
