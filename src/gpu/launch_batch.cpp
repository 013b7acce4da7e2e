#include "gpu/launch_batch.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "gpu/device.h"

namespace pyflame::gpu {

// Chains of kernels, by length: two of each, so that one is free while the other runs.
struct LaunchBatch::Graphs {
  struct Chain {
    void* graph = nullptr;
    void* executable = nullptr;
    void* nodes[kMost] = {};
  };
  struct Pair {
    Chain chains[2];
    int next = 0;
  };
  Pair of_length[kMost + 1];
};

LaunchBatch::LaunchBatch(const Device& device, const Stream& stream)
    : device_(device), stream_(stream), graphs_(std::make_unique<Graphs>()) {}

bool LaunchBatch::available() {
  static const bool yes = [] {
    const char* v = std::getenv("PYFLAME_LAUNCH_BATCHES");
    const Runtime& r = runtime();
    const bool wanted = v && *v ? *v != '0' : !kAmd;
    return wanted && !launch_blocking() && r.GraphCreate && r.GraphAddKernelNode &&
           r.GraphInstantiateWithFlags && r.GraphExecKernelNodeSetParams && r.GraphLaunch;
  }();
  return yes;
}

void LaunchBatch::run(const char*& op) {
  const int n = std::exchange(count_, 0);
  if (n == target_) target_ = std::min(2 * target_, kMost);
  bytes_used_ = 0;
  args_used_ = 0;
  device_.activate();
  // What graphs cost is more than one or two launches do.
  constexpr int kFew = 2;
  if (n <= kFew) {
    for (int i = 0; i < n; ++i) {
      const Entry& e = entries_[i];
      op = e.op;
      device_.launch_now(e.function, stream_, e.grid, e.block, e.shared, args_ + e.first);
    }
    return;
  }
  const Runtime& r = runtime();
  Graphs::Pair& pair = graphs_->of_length[n];
  Graphs::Chain& chain = pair.chains[pair.next ^= 1];
  const bool made = chain.executable != nullptr;
  if (!made) check(r.GraphCreate(&chain.graph, 0), PF_RT("hipGraphCreate", "cuGraphCreate"));
  for (int i = 0; i < n; ++i) {
    const Entry& e = entries_[i];
    op = e.op;
    KernelNode node{};
    node.function = device_.ready(e.function, e.shared);
    node.grid[0] = e.grid.x, node.grid[1] = e.grid.y, node.grid[2] = e.grid.z;
    node.block[0] = e.block.x, node.block[1] = e.block.y, node.block[2] = e.block.z;
    node.shared = static_cast<unsigned>(e.shared);
    node.args = args_ + e.first;
    if (made)
      check(r.GraphExecKernelNodeSetParams(chain.executable, chain.nodes[i], &node),
            PF_RT("hipGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams"));
    else
      check(r.GraphAddKernelNode(&chain.nodes[i], chain.graph, i ? &chain.nodes[i - 1] : nullptr,
                                 i ? 1 : 0, &node),
            PF_RT("hipGraphAddKernelNode", "cuGraphAddKernelNode"));
  }
  if (!made)
    check(r.GraphInstantiateWithFlags(&chain.executable, chain.graph, 0),
          PF_RT("hipGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags"));
  check(r.GraphLaunch(chain.executable, stream_.handle), PF_RT("hipGraphLaunch", "cuGraphLaunch"));
  batch_stats().graphs.fetch_add(1, std::memory_order_relaxed);
  batch_stats().kernels.fetch_add(n, std::memory_order_relaxed);
}

LaunchBatch::~LaunchBatch() = default;

BatchStats& batch_stats() {
  static BatchStats s;
  return s;
}

bool LaunchBatch::add(Function f, Grid grid, Grid block, size_t shared, void** args,
                      const uint32_t* sizes, int nargs, const char* op) {
  size_t bytes = bytes_used_;
  for (int i = 0; i < nargs; ++i) bytes += (sizes[i] + size_t{15}) / 16 * 16;
  if (count_ == kMost || bytes > kBytes || args_used_ + nargs + 1 > kMostArgs) return false;
  entries_[count_++] = {f, grid, block, shared, op, args_used_};
  for (int i = 0; i < nargs; ++i) {
    std::memcpy(bytes_ + bytes_used_, args[i], sizes[i]);
    args_[args_used_++] = bytes_ + bytes_used_;
    bytes_used_ += (sizes[i] + size_t{15}) / 16 * 16;
  }
  args_[args_used_++] = nullptr;
  return true;
}

}  // namespace pyflame::gpu
