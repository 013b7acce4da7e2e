// Graphs, and what streams capture: kernels and other work, at each launch in another order that
// their edges allow. Arguments of kernels are read when they are set.
#include <algorithm>
#include <random>

#define PF_GPU_CUDA 1
#include "gpu/runtime.h"
#include "machine.h"

using namespace standin;
using namespace pyflame::gpu;

namespace {

// A kernel, or all that a stream captured.
struct Node {
  std::vector<Work> work;
  std::vector<size_t> behind = {};
  std::function<Work(bool early)> kernel = nullptr;
  bool early = false;
};
struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
};
struct Executable {
  std::vector<const Node*> keys;
  std::vector<Node> nodes;
  Node* find(const void* key) {
    for (size_t i = 0; i < keys.size(); ++i)
      if (keys[i] == key) return &nodes[i];
    return nullptr;
  }
};

int set_node(Node& n, const CudaKernelNode& k) {
  auto* f = static_cast<Function*>(k.function);
  const Extent grid{k.grid[0], k.grid[1], k.grid[2]}, block{k.block[0], k.block[1], k.block[2]};
  if (int e = check_launch(*f, grid, block, k.shared)) return e;
  const auto launch = std::make_shared<Launch>(f, k.args);
  n.kernel = [=, device = current_device(), shared = k.shared](bool early) {
    return Work{job_of(device, launch, grid, block, shared, early), f};
  };
  n.work = {n.kernel(n.early)};
  return kOk;
}
CudaKernelNode from_hip(const HipKernelNode& n) {
  CudaKernelNode r{n.function, {}, {}, n.shared, n.args, n.extra};
  std::copy(n.grid, n.grid + 3, r.grid);
  std::copy(n.block, n.block + 3, r.block);
  return r;
}
int append(void** node, void* graph, void* const* after, size_t count, Node what) {
  auto& nodes = static_cast<Graph*>(graph)->nodes;
  for (size_t i = 0; i < count; ++i) {
    const auto at = std::find_if(nodes.begin(), nodes.end(),
                                 [&](const auto& n) { return n.get() == after[i]; });
    const auto number = static_cast<size_t>(at - nodes.begin());
    auto& behind = what.behind;
    if (at == nodes.end() || std::find(behind.begin(), behind.end(), number) != behind.end())
      return kInvalidValue;  // no node of it, or twice
    behind.push_back(number);
  }
  nodes.push_back(std::make_unique<Node>(std::move(what)));
  return *node = nodes.back().get(), kOk;
}
Node child_of(const void* graph) {
  Node all;
  for (const auto& n : static_cast<const Graph*>(graph)->nodes)
    all.work.insert(all.work.end(), n->work.begin(), n->work.end());
  return all;
}

}  // namespace

CALL cuGraphCreate(void** graph, unsigned) {
  FAULT("cuGraphCreate");
  return *graph = new Graph, kOk;
}
CALL cuGraphDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return kOk;
}
CALL cuGraphGetNodes(void* graph, void** nodes, size_t* count) {
  FAULT("cuGraphGetNodes");
  if (nodes) return kInvalidValue;
  return *count = static_cast<Graph*>(graph)->nodes.size(), kOk;
}
CALL cuGraphAddKernelNode(void** node, void* graph, void* const* after, size_t count,
                          const CudaKernelNode* what) {
  FAULT("cuGraphAddKernelNode");
  Node n;
  if (int e = set_node(n, *what)) return e;
  return append(node, graph, after, count, std::move(n));
}
CALL cuGraphAddChildGraphNode(void** node, void* graph, void* const* after, size_t count,
                              void* child) {
  FAULT("cuGraphAddChildGraphNode");
  return append(node, graph, after, count, child_of(child));
}
// Of two kernels, of which the second begins early.
CALL cuGraphAddDependencies_v2(void* graph, void* const* from, void* const* to,
                               const EdgeData* edge, size_t count) {
  FAULT("cuGraphAddDependencies_v2");
  auto& nodes = static_cast<Graph*>(graph)->nodes;
  const auto at =
      std::find_if(nodes.begin(), nodes.end(), [&](const auto& n) { return n.get() == *from; });
  if (count != 1 || at == nodes.end() || *to != nodes.back().get() || *to == *from ||
      edge->type != kEdgeProgrammatic || edge->from_port != kPortProgrammatic)
    return kInvalidValue;
  Node& n = *nodes.back();
  if (!n.kernel || !(*at)->kernel) return kInvalidValue;
  n.behind.push_back(static_cast<size_t>(at - nodes.begin()));
  n.early = true;
  n.work = {n.kernel(true)};
  return kOk;
}
CALL cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  FAULT("cuGraphInstantiateWithFlags");
  auto e = std::make_unique<Executable>();
  for (const auto& n : static_cast<Graph*>(graph)->nodes) {
    e->keys.push_back(n.get());
    e->nodes.push_back(*n);
  }
  return *executable = e.release(), kOk;
}
// Launches that are under way have copies.
CALL cuGraphExecDestroy(void* executable) {
  delete static_cast<Executable*>(executable);
  return kOk;
}
CALL cuGraphExecKernelNodeSetParams(void* executable, void* node, const CudaKernelNode* what) {
  FAULT("cuGraphExecKernelNodeSetParams");
  Node* n = static_cast<Executable*>(executable)->find(node);
  return n ? set_node(*n, *what) : static_cast<int>(kInvalidValue);
}
CALL cuGraphExecChildGraphNodeSetParams(void* executable, void* node, void* child) {
  FAULT("cuGraphExecChildGraphNodeSetParams");
  Node* n = static_cast<Executable*>(executable)->find(node);
  if (!n) return kInvalidValue;
  Node other = child_of(child);
  other.behind = n->behind;
  const bool alike = std::equal(
      n->work.begin(), n->work.end(), other.work.begin(), other.work.end(),
      [](const Work& a, const Work& b) { return (a.kernel == nullptr) == (b.kernel == nullptr); });
  if (!alike) return kUpdateFailure;
  return *n = std::move(other), kOk;
}
CALL cuGraphLaunch(void* executable, void* stream) {
  FAULT("cuGraphLaunch");
  if (int e = lost_on(stream)) return e;
  static std::mutex mutex;
  static std::mt19937 random(5);
  std::lock_guard lock(mutex);
  const auto& nodes = static_cast<Executable*>(executable)->nodes;
  std::vector<bool> done(nodes.size());
  for (size_t left = nodes.size(); left; --left) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < nodes.size(); ++i)
      if (!done[i] && std::all_of(nodes[i].behind.begin(), nodes[i].behind.end(),
                                  [&](size_t j) { return done[j]; }))
        ready.push_back(i);
    const size_t next = ready[random() % ready.size()];
    done[next] = true;
    for (const Work& w : nodes[next].work) of(stream)->push(w);
  }
  return kOk;
}
CALL cuStreamBeginCapture_v2(void* stream, int mode) {
  FAULT("cuStreamBeginCapture");
  if (mode < 0 || mode > kCaptureRelaxed || of(stream)->captures()) return kInvalidValue;
  return of(stream)->begin_capture() ? kOk : kCaptureUnsupported;
}
CALL cuStreamEndCapture(void* stream, void** graph) {
  *graph = nullptr;
  if (!of(stream)->captures()) return kInvalidValue;
  const auto work = of(stream)->end_capture();
  FAULT("cuStreamEndCapture");
  if (!work) return kCaptureInvalidated;
  auto g = std::make_unique<Graph>();
  for (Work& w : *work) {
    g->nodes.push_back(std::make_unique<Node>());
    g->nodes.back()->work.push_back(std::move(w));
  }
  return *graph = g.release(), kOk;
}

// ---- AMD's names -------------------------------------------------------------------------------

CALL hipGraphCreate(void** graph, unsigned flags) {
  return cuGraphCreate(graph, flags);
}
CALL hipGraphDestroy(void* graph) {
  return cuGraphDestroy(graph);
}
CALL hipGraphGetNodes(void* graph, void** nodes, size_t* count) {
  return cuGraphGetNodes(graph, nodes, count);
}
CALL hipGraphAddKernelNode(void** node, void* graph, void* const* after, size_t count,
                           const HipKernelNode* what) {
  const CudaKernelNode same = from_hip(*what);
  return cuGraphAddKernelNode(node, graph, after, count, &same);
}
CALL hipGraphAddChildGraphNode(void** node, void* graph, void* const* after, size_t count,
                               void* child) {
  return cuGraphAddChildGraphNode(node, graph, after, count, child);
}
CALL hipGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long flags) {
  return cuGraphInstantiateWithFlags(executable, graph, flags);
}
CALL hipGraphExecDestroy(void* executable) {
  return cuGraphExecDestroy(executable);
}
CALL hipGraphExecKernelNodeSetParams(void* executable, void* node, const HipKernelNode* what) {
  const CudaKernelNode same = from_hip(*what);
  return cuGraphExecKernelNodeSetParams(executable, node, &same);
}
CALL hipGraphExecChildGraphNodeSetParams(void* executable, void* node, void* child) {
  return cuGraphExecChildGraphNodeSetParams(executable, node, child);
}
CALL hipGraphLaunch(void* executable, void* stream) {
  return cuGraphLaunch(executable, stream);
}
CALL hipStreamBeginCapture(void* stream, int mode) {
  return cuStreamBeginCapture_v2(stream, mode);
}
CALL hipStreamEndCapture(void* stream, void** graph) {
  return cuStreamEndCapture(stream, graph);
}

// ---- for stand-ins of libraries ----------------------------------------------------------------

// Takes over work of the host where the stream captures; 0 where it does not.
CALL standin_captured(void* stream, std::function<void()>* job) {
  if (!of(stream)->captures()) return 0;
  of(stream)->push(std::move(*job));
  delete job;
  return 1;
}
