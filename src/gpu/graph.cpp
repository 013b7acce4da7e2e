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

// What a new node is to stand behind: of kernels those apart that it may begin in front of, where
// it is one that waits by itself.
void DriverGraph::begin(Nodes behind, bool early) {
  if (!graph_) check(runtime().GraphCreate(&graph_, 0), PF_RT("hipGraphCreate", "cuGraphCreate"));
  behind_.clear();
  early_.clear();
  for (size_t i : behind) {
    std::vector<void*>& to = early && nodes_[i].kernel ? early_ : behind_;
    if (std::find(to.begin(), to.end(), nodes_[i].node) == to.end()) to.push_back(nodes_[i].node);
  }
}

void DriverGraph::add(const KernelLaunch& l, Nodes behind) {
  const Runtime& r = runtime();
  const KernelNode what = node_of(device_, l);
  begin(behind, l.function->early && early_launches());
  void* node = nullptr;
  check(r.GraphAddKernelNode(&node, graph_, behind_.data(), behind_.size(), &what),
        PF_RT("hipGraphAddKernelNode", "cuGraphAddKernelNode"));
  nodes_.push_back({node, true, !early_.empty()});
  for (void* from : early_)
    check(r.add_early_edge(graph_, from, node),
          PF_RT("hipGraphAddDependencies", "cuGraphAddDependencies"));
}

void DriverGraph::add_captured(void* graph, Nodes behind) {
  begin(behind, false);
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
