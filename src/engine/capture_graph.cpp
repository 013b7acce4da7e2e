#include "engine/capture_graph.h"

#include "core/backends.h"
#include "core/stream.h"
#include "pyflame/error.h"

namespace pyflame::engine {
namespace {

constexpr size_t kFew = 2;   // launches, which cost less than a graph
constexpr int kRemade = 16;  // times; then it costs more than it gives

bool has_graphs(Device d) {
  const pf_backend* b = backend_of(d);
  return PF_HAS(b, graph_begin) && PF_HAS(b, graph_drop);
}

}  // namespace

void PartGraph::must(pf_status status) const {
  if (status != PF_OK) raise_status(backend_of(device_), status, "captured step");
}

void PartGraph::drop() noexcept {
  if (!graph_) return;
  if (const pf_backend* b = backend_if_loaded(device_.type)) b->graph_drop(device_.index, graph_);
  graph_ = nullptr;
}

// False, without a graph, where that fails; a device that is gone is gone for the caller, too.
template <class F>
bool PartGraph::attempt(F&& f) {
  try {
    f();
    return true;
  } catch (const DeviceError&) {
    drop();
    throw;
  } catch (const std::exception& e) {
    drop();
    why_ = e.what();
    return false;
  }
}

void PartGraph::make(StreamState* on, std::span<uint8_t> changed, const Launch& launch) {
  const pf_backend* b = backend_of(device_);
  must(b->graph_begin(device_.index, handle_of(on), &graph_, &recording_));
  on_ = on;
  StreamState recording{device_, recording_};
  for (size_t i = 0; i < changed.size(); ++i) {
    launch(i, &recording);
    must(b->graph_item(device_.index, graph_));
    changed[i] = 0;
  }
  must(b->graph_end(device_.index, graph_, &nodes_));
}

void PartGraph::bring_up_to_date(std::span<uint8_t> changed, const Launch& launch) {
  const pf_backend* b = backend_of(device_);
  StreamState recording{device_, recording_};
  for (size_t i = 0; i < changed.size(); ++i) {
    if (!changed[i]) continue;
    must(b->graph_update(device_.index, graph_, static_cast<int32_t>(i)));
    launch(i, &recording);
    must(b->graph_item(device_.index, graph_));
    changed[i] = 0;
  }
}

bool PartGraph::run(StreamState* on, std::span<uint8_t> changed, const Launch& launch) {
  if (!why_.empty() || changed.size() <= kFew || !has_graphs(device_)) return false;
  if (runs_ < 1) return ++runs_, false;
  if (graph_ && on_ != on) drop();
  if (graph_ && !attempt([&] { bring_up_to_date(changed, launch); })) why_.clear();  // made anew
  if (!graph_) {
    if (made_++ == kRemade) {
      why_ = "its launches, or the stream, are others at many calls";
      return false;
    }
    if (!attempt([&] { make(on, changed, launch); })) return false;
  }
  return attempt([&] { must(backend_of(device_)->graph_launch(device_.index, graph_)); });
}

}  // namespace pyflame::engine
