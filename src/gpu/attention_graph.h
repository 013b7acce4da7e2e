// Attention and its gradients as graphs of cuDNN's operations.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/attention_library.h"
#include "gpu/cudnn_graph.h"

namespace pyflame::gpu {

// Tensors of a graph that is run. Those behind the operands are numbers of the host.
struct AttentionGraph {
  enum Id : int64_t {
    kOperand = 1,
    kStats = 20,
    kSums,
    kDqSums,
    kScale,
    kLow,
    kOne,
    kKeys,
    kQueries
  };
  CudnnPlan plan;
  std::vector<int64_t> ids;      // of what is to be given
  size_t sums = 0, dq_sums = 0;  // bytes of float32 beside the plan's workspace
};

// Throws Refused.
void make_attention_graph(AttentionGraph&, void* handle, const AttentionShape&, size_t workspace);

}  // namespace pyflame::gpu
