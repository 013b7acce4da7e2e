// Attention through the vendor's library, beside our own kernels (kernels_attention.cpp, which
// chooses).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "gpu/kernel.h"
#include "kernels/attention_args.h"

namespace pyflame::gpu {

// What attention is to a library, without addresses: the key of what was prepared for it.
// Everything is [batch, heads, rows, columns]; k and v may have fewer heads, which divide those of
// q.
struct AttentionShape {
  enum { kQ, kK, kV, kOut, kDout, kDq, kDk, kDv, kOperands };
  int64_t batch, heads, heads_k, queries, keys, depth, depth_v;
  int64_t step[kOperands][3];  // of batch, head and row; columns lie side by side
  int32_t dtype;
  int32_t causal;    // 0, 1 from the first query and key on, 2 up to the last ones
  int32_t backward;  // whose sums have another order in every run
  int32_t proposal;  // of what the library lists: the first unless somebody measured (tuning.h)
};
struct AttentionWork {
  AttentionShape shape;
  void* data[AttentionShape::kOperands];  // at multiples of 16 bytes
  void* lse;                              // float32 [batch, heads, queries]: natural logarithms
  float scale;
};

// ---- attention_cudnn.cpp, attention_library_rocm.cpp --------------------------------------------
// False when the library, which is usable, does not take it or fails, and then `why` says so.
bool library_attention(const KernelArgs&, const AttentionWork&, std::string& why);
bool attention_library_usable();
// "cuDNN (path)", or why there is none.
const char* attention_library();
// "cuDNN 91200", or "none".
std::string attention_library_version();

// ---- attention_library.cpp ----------------------------------------------------------------------
// How a call may be served, as the operation says (table/kernels/attention.h).
struct AttentionWish {
  bool library;  // where it can, whatever the table says
  bool own;      // never by the library
  bool repeats;  // the same bits in every run
};
// As the table, somebody's measurement or the wish says. False where our own kernels are to do it
// (pf.explain is told why if the library was meant): the forward pass, or all of dq, dk and dv.
// `own` runs our own kernels, for measuring; true where a measurement chose them.
bool attention_by_library(const KernelArgs&, const pf_attention&, DType, int64_t mask,
                          int64_t features, bool backward, const AttentionWish&,
                          const std::function<void()>& own);

}  // namespace pyflame::gpu
