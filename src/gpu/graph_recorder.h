// A graph of the device: launches of a captured step that are made again and again.
//
// Who records gives launchers a stream of the recorder's in place of the real one. What they launch
// comes here: kernels of ours as nodes, without asking the driver; what libraries launch, and
// fills and copies, by letting the driver capture that stream for a moment. Small arrays that
// launchers upload are copied once and stay: a replay copies nothing. Memory for their work is the
// graph's.
//
// An item is what one launch of the engine came to: its nodes run one behind the other, and behind
// those of the items that it is said to follow. Items that need the same memory for their work
// follow each other, too. Of an item that is recorded again only the nodes that differ are set
// anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu/device.h"
#include "gpu/graph.h"
#include "gpu/graph_writes.h"

namespace pyflame::gpu {

class GraphRecorder {
 public:
  GraphRecorder(Device&, pf_stream on);
  ~GraphRecorder();
  GraphRecorder(const GraphRecorder&) = delete;
  GraphRecorder& operator=(const GraphRecorder&) = delete;

  Stream* recording() { return &stream_; }
  Stream& target() const { return on_; }

  void begin_item(std::span<const int32_t> behind);
  void update(size_t item);
  int end();  // nodes
  void launch();

  // ---- what comes to the recording stream ------------------------------------------------------
  void kernel(Function, Grid grid, Grid block, size_t shared, void** args, const uint32_t* sizes,
              int nargs);
  void writes(const Reach&);  // what is launched next
  bool steady(const Reach& reach, bool own) { return writes_.steady(reach, own); }
  // What the driver gets on the stream's handle is captured from here on.
  void let_through();
  void copy_from_host(const char* op, void* to, const void* from, size_t bytes);
  void* workspace(size_t bytes);
  void* upload(const char* op, const void* from, size_t bytes);  // stays as it is

 private:
  struct Block {
    void* data = nullptr;
    void* block = nullptr;  // what the core takes it back by
    size_t bytes = 0;
    size_t user = 0;  // the last item that works in it
  };
  struct Node {
    Function function = nullptr;  // null: captured
    Grid grid = Grid(1), block = Grid(1);
    size_t shared = 0;
    std::vector<char> args;
  };
  struct Upload {
    Block memory;
    std::vector<char> bytes;
  };
  struct Item {
    size_t first = 0, end = 0;     // nodes
    std::vector<size_t> ends;      // nodes that who follows it has to follow
    std::vector<bool> follows;     // items, at once or by way of others
    std::vector<size_t> works_in;  // blocks, in the order in which they were asked for
    std::vector<Upload> uploads;
  };

  Block take(size_t bytes) const;
  Item& item() { return items_[item_]; }
  void follow(size_t item);
  void end_item();
  void end_capture();
  void place(void* graph);
  size_t next(bool captured);

  Device& device_;
  Stream& on_;
  const pf_stream on_handle_;
  Stream stream_;
  bool capturing_ = false;
  DriverGraph graph_;
  std::vector<Node> nodes_;
  std::vector<Item> items_;
  std::vector<Block> blocks_;
  // Being recorded: an item, the next of its nodes, blocks and uploads, and what its next node is
  // to follow.
  bool open_ = false;
  size_t item_ = 0, node_ = 0, work_ = 0, upload_ = 0;
  std::vector<size_t> behind_;
  GraphWrites writes_;
};

}  // namespace pyflame::gpu
