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

// The place of a new node.
void** DriverGraph::begin(Nodes behind) {
  if (!graph_) check(runtime().GraphCreate(&graph_, 0), PF_RT("hipGraphCreate", "cuGraphCreate"));
  behind_.clear();
  for (size_t i : behind)
    if (std::find(behind_.begin(), behind_.end(), nodes_[i]) == behind_.end())
      behind_.push_back(nodes_[i]);
  return &nodes_.emplace_back(nullptr);
}

void DriverGraph::add(const KernelLaunch& l, Nodes behind) {
  const KernelNode node = node_of(device_, l);
  void** to = begin(behind);
  check(runtime().GraphAddKernelNode(to, graph_, behind_.data(), behind_.size(), &node),
        PF_RT("hipGraphAddKernelNode", "cuGraphAddKernelNode"));
}

void DriverGraph::add_captured(void* graph, Nodes behind) {
  void** to = begin(behind);
  check(runtime().GraphAddChildGraphNode(to, graph_, behind_.data(), behind_.size(), graph),
        PF_RT("hipGraphAddChildGraphNode", "cuGraphAddChildGraphNode"));
}

void DriverGraph::make() {
  check(runtime().GraphInstantiateWithFlags(&executable_, graph_, 0),
        PF_RT("hipGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags"));
}

void DriverGraph::set(size_t node, const KernelLaunch& l) {
  const KernelNode what = node_of(device_, l);
  check(runtime().GraphExecKernelNodeSetParams(executable_, nodes_[node], &what),
        PF_RT("hipGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams"));
}

void DriverGraph::set_captured(size_t node, void* graph) {
  check(runtime().GraphExecChildGraphNodeSetParams(executable_, nodes_[node], graph),
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
