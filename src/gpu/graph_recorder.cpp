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
      chain_(device) {
  items_.emplace_back();
}

GraphRecorder::~GraphRecorder() {
  const Runtime& r = runtime();
  if (capturing_) {
    void* graph = nullptr;
    if (r.StreamEndCapture(stream_.handle, &graph) == kSuccess && graph) r.GraphDestroy(graph);
  }
  // AMD's runtime frees arguments of launches that are under way.
  if (kAmd) r.StreamSynchronize(on_.handle);
  for (const auto* list : {&free_, &used_})
    for (const Block& b : *list) host()->release(host(), b.block);
  for (const Item& i : items_)
    for (const Upload& u : i.uploads) host()->release(host(), u.memory.block);
}

// ---- memory ------------------------------------------------------------------------------------

GraphRecorder::Block GraphRecorder::take(size_t bytes) {
  Block b;
  b.bytes = std::max<size_t>(bytes, 1);
  const pf_status status =
      host()->allocate(host(), device_.index, on_handle_, b.bytes, &b.data, &b.block);
  if (status != PF_OK)
    throw Failure(status, "no device memory for " + std::to_string(bytes) + " bytes of a graph");
  return b;
}

// Items run one after the other: each may have what those before it had.
void* GraphRecorder::workspace(size_t bytes) {
  auto best = free_.end();
  for (auto b = free_.begin(); b != free_.end(); ++b)
    if (b->bytes >= bytes && (best == free_.end() || b->bytes < best->bytes)) best = b;
  if (best == free_.end()) {
    used_.push_back(take(bytes));
  } else {
    used_.push_back(*best);
    free_.erase(best);
  }
  return used_.back().data;
}

void* GraphRecorder::upload(const char* op, const void* from, size_t bytes) {
  std::vector<Upload>& all = items_[item_].uploads;
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
  let_through();
  check(runtime().MemcpyDtoDAsync(to, kept, bytes, stream_.handle),
        PF_RT("hipMemcpyDtoDAsync", "cuMemcpyDtoDAsync"));
}

// ---- nodes -------------------------------------------------------------------------------------

// The node that comes next; of an item that is recorded again it has to be of the same kind.
size_t GraphRecorder::next(bool captured) {
  if (!chain_.made()) {
    nodes_.emplace_back();
    return node_++;
  }
  if (node_ == items_[item_].end || (nodes_[node_].function == nullptr) != captured)
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

  const bool made = chain_.made();
  const size_t at = next(false);
  Node& n = nodes_[at];
  const auto alike = [](Grid a, Grid b) { return a.x == b.x && a.y == b.y && a.z == b.z; };
  if (made && n.function == f && alike(n.grid, grid) && alike(n.block, block) &&
      n.shared == shared && n.args == flat)
    return;
  const KernelLaunch launch{f, grid, block, shared, args};
  if (made)
    chain_.set(at, launch);
  else
    chain_.add(launch);
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
  const bool made = chain_.made();
  const size_t at = next(true);
  if (made)
    chain_.set_captured(at, graph);
  else
    chain_.add_captured(graph);
}

void GraphRecorder::end_item() {
  end_capture();
  if (chain_.made()) {
    if (node_ != items_[item_].end)
      throw Failure(PF_UNSUPPORTED, "fewer kernels are launched than there were");
  } else {
    items_[item_].end = node_;
    items_.emplace_back();
    ++item_;
    items_[item_].first = node_;
    upload_ = 0;
  }
  free_.insert(free_.end(), used_.begin(), used_.end());
  used_.clear();
}

int GraphRecorder::end() {
  if (!chain_.size()) throw Failure(PF_UNSUPPORTED, "nothing is launched");
  chain_.make();
  return static_cast<int>(chain_.size());
}

void GraphRecorder::update(size_t item) {
  device_.activate();
  item_ = item;
  node_ = items_[item].first;
  upload_ = 0;
}

void GraphRecorder::launch() {
  on_.queue.finish();
  device_.activate();
  chain_.launch(on_);
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
    if (!Chain::available("PYFLAME_DEVICE_GRAPHS", true) || !r.GraphAddChildGraphNode ||
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
pf_status graph_item(pf_device, pf_graph g) {
  return guarded([&] { recorder_of(g).end_item(); });
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
