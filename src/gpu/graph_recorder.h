// A graph of the device: launches of a captured step that are made again and again.
//
// Who records gives launchers a stream of the recorder's in place of the real one. What they launch
// comes here: kernels of ours as nodes, without asking the driver; what libraries launch, and
// fills and copies, by letting the driver capture that stream for a moment. Small arrays that
// launchers upload are copied once and stay: a replay copies nothing. Memory for their work is the
// graph's.
//
// An item is what one launch of the engine came to. Of one that is recorded again only the nodes
// that differ are set anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/device.h"
#include "gpu/graph.h"

namespace pyflame::gpu {

class GraphRecorder {
 public:
  GraphRecorder(Device&, pf_stream on);
  ~GraphRecorder();
  GraphRecorder(const GraphRecorder&) = delete;
  GraphRecorder& operator=(const GraphRecorder&) = delete;

  Stream* recording() { return &stream_; }
  Stream& target() const { return on_; }

  void end_item();
  int end();  // nodes
  void update(size_t item);
  void launch();

  // ---- what comes to the recording stream ------------------------------------------------------
  void kernel(Function, Grid grid, Grid block, size_t shared, void** args, const uint32_t* sizes,
              int nargs);
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
    size_t first = 0, end = 0;  // nodes
    std::vector<Upload> uploads;
  };

  Block take(size_t bytes);
  void end_capture();
  void place(void* graph);
  size_t next(bool captured);

  Device& device_;
  Stream& on_;
  const pf_stream on_handle_;
  Stream stream_;
  bool capturing_ = false;
  Chain chain_;
  std::vector<Node> nodes_;
  std::vector<Item> items_;
  // Being recorded: its item, the next of its nodes and of its uploads.
  size_t item_ = 0, node_ = 0, upload_ = 0;
  std::vector<Block> free_, used_;  // workspaces; by the item that is recorded
};

}  // namespace pyflame::gpu
