// Graphs of the driver: launches that go to it as one call.
//
// A driver takes 2 to 4 microseconds for a launch; one of a graph takes 0.4, and begins sooner
// behind the one before. A graph is made once; then functions, grids and arguments are set anew
// where they differ. launch_batch.h makes them of small launches that happen to follow each other,
// graph_recorder.h of those of captured steps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/kernel.h"

namespace pyflame::gpu {

class Stream;

struct GraphStats {
  std::atomic<int64_t> graphs{0}, kernels{0};  // launched; in them
};
GraphStats& graph_stats();

// A launch of a kernel of ours.
struct KernelLaunch {
  Function function;
  Grid grid = Grid(1), block = Grid(1);
  size_t shared = 0;
  void** args = nullptr;
};

// Every call throws Failure; then the graph is of no use any more.
class DriverGraph {
 public:
  // Whether the driver has such a thing, and neither the variable ("0") nor launches that block
  // forbid it.
  static bool available(const char* variable, bool otherwise);

  explicit DriverGraph(const Device& device) : device_(device) {}
  ~DriverGraph();
  DriverGraph(const DriverGraph&) = delete;
  DriverGraph& operator=(const DriverGraph&) = delete;

  size_t size() const { return nodes_.size(); }
  bool made() const { return executable_ != nullptr; }

  // Until it is made: behind these nodes. The number of the new one is size() before.
  using Nodes = std::span<const size_t>;
  void add(const KernelLaunch&, Nodes behind);
  void add_captured(void* graph, Nodes behind);  // what a stream captured, which is copied
  void make();
  // From then on: of the launches that come.
  void set(size_t node, const KernelLaunch&);
  void set_captured(size_t node, void* graph);
  void launch(const Stream&) const;

 private:
  void begin(Nodes behind, bool early);
  const Device& device_;
  void *graph_ = nullptr, *executable_ = nullptr;
  struct Node {
    void* node;
    bool kernel;  // and not captured
    bool early;   // the kernel may begin before those in front of it have ended
  };
  std::vector<Node> nodes_;
  std::vector<void*> behind_, early_;  // of the node that is being added
};

}  // namespace pyflame::gpu
