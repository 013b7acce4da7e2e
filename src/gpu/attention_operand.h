// Matrices of attention for who needs their rows at multiples of 16 bytes.
#pragma once

#include "gpu/kernel.h"
#include "kernels/attention_args.h"

namespace pyflame::gpu {

struct AttentionOperand {
  pf_matrix* x;
  int64_t rows, cols;
};

// Columns side by side, everything at multiples of 16 bytes, no step backwards (16-bit floats).
bool lies_well(const pf_attention&, const AttentionOperand&);
// x becomes memory of a workspace where it lies well, with all batch dimensions.
void lay_well(const KernelArgs&, const pf_attention&, DType, const AttentionOperand&);
// The same, and what x had is copied there.
void copy_well(const KernelArgs&, const pf_attention&, DType, const AttentionOperand&);
// From one place of a result to another.
void copy_result(const KernelArgs&, const pf_attention&, DType, const AttentionOperand& to,
                 const pf_matrix& from);

}  // namespace pyflame::gpu
