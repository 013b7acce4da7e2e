#include "gpu/graph_recorder.h"

#include <algorithm>
#include <cstring>

#include "gpu/builder.h"
#include "gpu/host.h"

namespace pyflame::gpu {

GraphRecorder::GraphRecorder(Device& device, pf_stream on)
    : device_(device),
      on_(device.stream(on)),
      on_handle_(on),
      stream_(device, on_, *this),
      graph_(device) {}

GraphRecorder::~GraphRecorder() {
  const Runtime& r = runtime();
  if (capturing_) {
    void* graph = nullptr;
    if (r.StreamEndCapture(stream_.handle, &graph) == kSuccess && graph) r.GraphDestroy(graph);
  }
  // AMD's runtime frees arguments of launches that are under way.
  if (kAmd) r.StreamSynchronize(on_.handle);
  for (const Block& b : blocks_) host()->release(host(), b.block);
  for (const Item& i : items_)
    for (const Upload& u : i.uploads) host()->release(host(), u.memory.block);
}

// ---- memory ------------------------------------------------------------------------------------

GraphRecorder::Block GraphRecorder::take(size_t bytes) const {
  Block b;
  b.bytes = std::max<size_t>(bytes, 1);
  const pf_status status =
      host()->allocate(host(), device_.index, on_handle_, b.bytes, &b.data, &b.block);
  if (status != PF_OK)
    throw Failure(status, "no device memory for " + std::to_string(bytes) + " bytes of a graph");
  return b;
}

// The smallest that is large enough: of those that the item runs behind; a new one where little is
// asked for; or any, which the item then runs behind.
void* GraphRecorder::workspace(size_t bytes) {
  constexpr size_t kLittle = size_t{1} << 20;
  Item& it = item();
  if (graph_.made()) {
    if (work_ == it.works_in.size() || blocks_[it.works_in[work_]].bytes < bytes)
      throw Failure(PF_UNSUPPORTED, "more memory is asked for than there was");
    return blocks_[it.works_in[work_++]].data;
  }
  const size_t none = blocks_.size();
  const auto best = [&](auto&& fits) {
    size_t found = none;
    for (size_t i = 0; i < none; ++i)
      if (blocks_[i].bytes >= bytes && blocks_[i].user != item_ && fits(blocks_[i]) &&
          (found == none || blocks_[i].bytes < blocks_[found].bytes))
        found = i;
    return found;
  };
  size_t at = best([&](const Block& b) { return it.follows[b.user]; });
  if (at == none && bytes > kLittle) {
    at = best([](const Block&) { return true; });
    if (at != none) follow(blocks_[at].user);
  }
  if (at == none) blocks_.push_back(take(bytes));
  blocks_[at].user = item_;
  it.works_in.push_back(at);
  ++work_;
  return blocks_[at].data;
}

void* GraphRecorder::upload(const char* op, const void* from, size_t bytes) {
  std::vector<Upload>& all = item().uploads;
  const auto* p = static_cast<const char*>(from);
  if (upload_ == all.size()) all.push_back({take(bytes), {}});
  Upload& u = all[upload_++];
  if (u.bytes.size() == bytes && std::equal(p, p + bytes, u.bytes.begin())) return u.memory.data;
  if (u.memory.bytes < bytes) {
    const Block larger = take(bytes);
    host()->release(host(), u.memory.block);
    u.memory = larger;
  }
  // In the real stream's order: behind the last run of the graph, in front of the next.
  on_.queue.copy_from_host(op, u.memory.data, from, bytes);
  u.bytes.assign(p, p + bytes);
  return u.memory.data;
}

// The program may write what was copied: each run copies it again, from memory of the device.
void GraphRecorder::copy_from_host(const char* op, void* to, const void* from, size_t bytes) {
  if (!bytes) return;
  const void* kept = upload(op, from, bytes);
  writes({static_cast<const char*>(to), static_cast<const char*>(to) + bytes});
  let_through();
  check(runtime().MemcpyDtoDAsync(to, kept, bytes, stream_.handle),
        PF_RT("hipMemcpyDtoDAsync", "cuMemcpyDtoDAsync"));
}

// A graph that is brought up to date is made anew where it no longer holds what it told.
void GraphRecorder::writes(const Reach& reach) {
  if (!writes_.writes(reach)) throw Failure(PF_UNSUPPORTED, "what is read early is written");
}

// ---- nodes -------------------------------------------------------------------------------------

// The node that comes next; of an item that is recorded again it has to be of the same kind.
size_t GraphRecorder::next(bool captured) {
  if (!graph_.made()) {
    nodes_.emplace_back();
    return node_++;
  }
  if (node_ == item().end || (nodes_[node_].function == nullptr) != captured)
    throw Failure(PF_UNSUPPORTED, "other kernels are launched than there were");
  return node_++;
}

void GraphRecorder::kernel(Function f, Grid grid, Grid block, size_t shared, void** args,
                           const uint32_t* sizes, int nargs) {
  end_capture();
  if (f->module->building()) Builder::get().wait(*f->module);
  size_t bytes = 0;
  for (int i = 0; i < nargs; ++i) bytes += sizes[i];
  thread_local std::vector<char> flat;
  flat.resize(bytes);
  char* to = flat.data();
  for (int i = 0; i < nargs; to += sizes[i++]) std::memcpy(to, args[i], sizes[i]);

  const bool made = graph_.made();
  const size_t at = next(false);
  Node& n = nodes_[at];
  const auto alike = [](Grid a, Grid b) { return a.x == b.x && a.y == b.y && a.z == b.z; };
  if (made && n.function == f && alike(n.grid, grid) && alike(n.block, block) &&
      n.shared == shared && n.args == flat)
    return;
  const KernelLaunch launch{f, grid, block, shared, args};
  if (made)
    graph_.set(at, launch);
  else
    graph_.add(launch, behind_);
  behind_.assign(1, at);
  n.function = f;
  n.grid = grid;
  n.block = block;
  n.shared = shared;
  n.args = flat;
}

void GraphRecorder::let_through() {
  device_.activate();
  if (capturing_) return;
  check(runtime().StreamBeginCapture(stream_.handle, kCaptureRelaxed),
        PF_RT("hipStreamBeginCapture", "cuStreamBeginCapture"));
  capturing_ = true;
}

void GraphRecorder::end_capture() {
  if (!capturing_) return;
  const Runtime& r = runtime();
  capturing_ = false;
  void* graph = nullptr;
  check(r.StreamEndCapture(stream_.handle, &graph),
        PF_RT("hipStreamEndCapture", "cuStreamEndCapture"));
  try {
    place(graph);
  } catch (...) {
    r.GraphDestroy(graph);
    throw;
  }
  r.GraphDestroy(graph);
}

void GraphRecorder::place(void* graph) {
  size_t count = 0;
  check(runtime().GraphGetNodes(graph, nullptr, &count),
        PF_RT("hipGraphGetNodes", "cuGraphGetNodes"));
  if (!count) return;
  const bool made = graph_.made();
  const size_t at = next(true);
  if (made)
    graph_.set_captured(at, graph);
  else
    graph_.add_captured(graph, behind_);
  behind_.assign(1, at);
}

// What the item does from here on is behind all of another.
void GraphRecorder::follow(size_t other) {
  const Item& o = items_[other];
  behind_.insert(behind_.end(), o.ends.begin(), o.ends.end());
  Item& it = item();
  it.follows[other] = true;
  for (size_t i = 0; i < other; ++i) it.follows[i] = it.follows[i] || o.follows[i];
}

void GraphRecorder::begin_item(std::span<const int32_t> behind) {
  end_item();
  item_ = items_.size();
  items_.emplace_back();
  item().first = node_ = nodes_.size();
  item().follows.resize(item_);
  writes_.begin(item_);
  behind_.clear();
  for (int32_t i : behind) follow(static_cast<size_t>(i));
  work_ = upload_ = 0;
  open_ = true;
}

void GraphRecorder::update(size_t i) {
  end_item();
  device_.activate();
  item_ = i;
  writes_.begin(i);
  node_ = item().first;
  work_ = upload_ = 0;
  open_ = true;
}

void GraphRecorder::end_item() {
  if (!open_) return;
  end_capture();
  open_ = false;
  Item& it = item();
  if (graph_.made()) {
    if (node_ != it.end)
      throw Failure(PF_UNSUPPORTED, "fewer kernels are launched than there were");
    return;
  }
  it.end = node_;
  it.ends = behind_;  // its last node; of an item without any what it follows
}

int GraphRecorder::end() {
  end_item();
  if (!graph_.made()) {
    if (!graph_.size()) throw Failure(PF_UNSUPPORTED, "nothing is launched");
    graph_.make();
  }
  return static_cast<int>(graph_.size());
}

void GraphRecorder::launch() {
  on_.queue.finish();
  device_.activate();
  graph_.launch(on_);
}

// ---- what the core calls -----------------------------------------------------------------------

namespace {
GraphRecorder& recorder_of(pf_graph g) {
  return *static_cast<GraphRecorder*>(g);
}
}  // namespace

pf_status graph_begin(pf_device device, pf_stream on, pf_graph* out, pf_stream* recording) {
  return guarded([&] {
    const Runtime& r = runtime();
    if (launch_blocking()) throw Failure(PF_UNSUPPORTED, "launches are to block");
    if (!DriverGraph::available("PYFLAME_DEVICE_GRAPHS", true) || !r.GraphAddChildGraphNode ||
        !r.GraphExecChildGraphNodeSetParams || !r.GraphGetNodes || !r.StreamBeginCapture ||
        !r.StreamEndCapture)
      throw Failure(PF_UNSUPPORTED, "PYFLAME_DEVICE_GRAPHS=0, or the driver is too old for them");
    Device& d = Device::get(device);
    d.activate();
    auto recorder = std::make_unique<GraphRecorder>(d, on);
    *recording = recorder->recording();
    *out = recorder.release();
  });
}
pf_status graph_item(pf_device, pf_graph g, const int32_t* behind, int32_t count) {
  return guarded([&] { recorder_of(g).begin_item({behind, static_cast<size_t>(count)}); });
}
pf_status graph_end(pf_device, pf_graph g, int32_t* nodes) {
  return guarded([&] { *nodes = recorder_of(g).end(); });
}
pf_status graph_update(pf_device, pf_graph g, int32_t item) {
  return guarded([&] { recorder_of(g).update(static_cast<size_t>(item)); });
}
pf_status graph_launch(pf_device device, pf_graph g) {
  return guarded([&] {
    Device::get(device);  // in a forked child there is none
    recorder_of(g).launch();
  });
}
void graph_drop(pf_device device, pf_graph g) {
  guarded([&] {
    Device::get(device).activate();
    delete &recorder_of(g);
  });
}

}  // namespace pyflame::gpu
