#include "gpu/graph.h"

#include <algorithm>
#include <cstdlib>

#include "gpu/device.h"

namespace pyflame::gpu {
namespace {

KernelNode node_of(const Device& device, const KernelLaunch& l) {
  KernelNode node{};
  node.function = device.ready(l.function, l.shared);
  node.grid[0] = l.grid.x, node.grid[1] = l.grid.y, node.grid[2] = l.grid.z;
  node.block[0] = l.block.x, node.block[1] = l.block.y, node.block[2] = l.block.z;
  node.shared = static_cast<unsigned>(l.shared);
  node.args = l.args;
  return node;
}

}  // namespace

bool DriverGraph::available(const char* variable, bool otherwise) {
  const char* v = std::getenv(variable);
  const Runtime& r = runtime();
  return (v && *v ? *v != '0' : otherwise) && !launch_blocking() && r.GraphCreate &&
         r.GraphDestroy && r.GraphAddKernelNode && r.GraphInstantiateWithFlags &&
         r.GraphExecDestroy && r.GraphExecKernelNodeSetParams && r.GraphLaunch;
}

DriverGraph::~DriverGraph() {
  const Runtime& r = runtime();
  if (executable_) r.GraphExecDestroy(executable_);
  if (graph_) r.GraphDestroy(graph_);
}

// What a new node is to stand behind.
void DriverGraph::begin(Nodes behind) {
  if (!graph_) check(runtime().GraphCreate(&graph_, 0), PF_RT("hipGraphCreate", "cuGraphCreate"));
  behind_.clear();
  for (size_t i : behind)
    if (std::find(behind_.begin(), behind_.end(), nodes_[i].node) == behind_.end())
      behind_.push_back(nodes_[i].node);
}

// Behind one other kernel alone it may begin early.
void DriverGraph::add(const KernelLaunch& l, Nodes behind) {
  const Runtime& r = runtime();
  const KernelNode what = node_of(device_, l);
  begin(behind);
  const bool early =
      behind_.size() == 1 && nodes_[behind.front()].kernel && l.function->early && early_launches();
  void* node = nullptr;
  check(r.GraphAddKernelNode(&node, graph_, behind_.data(), early ? 0 : behind_.size(), &what),
        PF_RT("hipGraphAddKernelNode", "cuGraphAddKernelNode"));
  nodes_.push_back({node, true, early});
  if (early)
    check(r.add_early_edge(graph_, behind_.front(), node),
          PF_RT("hipGraphAddDependencies", "cuGraphAddDependencies"));
}

void DriverGraph::add_captured(void* graph, Nodes behind) {
  begin(behind);
  void* node = nullptr;
  check(runtime().GraphAddChildGraphNode(&node, graph_, behind_.data(), behind_.size(), graph),
        PF_RT("hipGraphAddChildGraphNode", "cuGraphAddChildGraphNode"));
  nodes_.push_back({node, false, false});
}

void DriverGraph::make() {
  check(runtime().GraphInstantiateWithFlags(&executable_, graph_, 0),
        PF_RT("hipGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags"));
}

void DriverGraph::set(size_t node, const KernelLaunch& l) {
  if (nodes_[node].early && !l.function->early)
    throw Failure(PF_UNSUPPORTED, "a kernel is launched that does not wait by itself");
  const KernelNode what = node_of(device_, l);
  check(runtime().GraphExecKernelNodeSetParams(executable_, nodes_[node].node, &what),
        PF_RT("hipGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams"));
}

void DriverGraph::set_captured(size_t node, void* graph) {
  check(runtime().GraphExecChildGraphNodeSetParams(executable_, nodes_[node].node, graph),
        PF_RT("hipGraphExecChildGraphNodeSetParams", "cuGraphExecChildGraphNodeSetParams"));
}

void DriverGraph::launch(const Stream& stream) const {
  check(runtime().GraphLaunch(executable_, stream.handle),
        PF_RT("hipGraphLaunch", "cuGraphLaunch"));
  graph_stats().graphs.fetch_add(1, std::memory_order_relaxed);
  graph_stats().kernels.fetch_add(static_cast<int64_t>(size()), std::memory_order_relaxed);
}

GraphStats& graph_stats() {
  static GraphStats s;
  return s;
}

}  // namespace pyflame::gpu
