#include "engine/capture_graph.h"

#include <cstdlib>
#include <cstring>

#include "core/backends.h"
#include "core/stream.h"
#include "engine/capture_order.h"
#include "pyflame/error.h"

namespace pyflame::engine {
namespace {

constexpr size_t kFew = 2;           // launches, which cost less than a graph
constexpr int kRemade = 16;          // times; then it costs more than it gives
constexpr int64_t kSmall = 1 << 20;  // elements that a launch has on average, at most

int64_t elements(const CapturedLaunch& l) {
  int64_t n = l.before.launch.numel + l.after.launch.numel;
  for (const pf_tensor& t : l.tensors) {
    int64_t of_it = t.data ? 1 : 0;
    for (int d = 0; d < t.ndim; ++d) of_it *= t.shape[d];
    n += of_it;
  }
  return n;
}

std::vector<std::vector<int32_t>> order_for(PartGraph::Launches launches) {
  int64_t work = 0;
  for (const auto& l : launches) work += elements(*l);
  const char* how = std::getenv("PYFLAME_DEVICE_GRAPHS");
  const bool chain = how && std::strcmp(how, "chain") == 0;
  if (!chain && work <= kSmall * static_cast<int64_t>(launches.size())) return order_of(launches);
  std::vector<std::vector<int32_t>> order(launches.size());
  for (size_t i = 1; i < order.size(); ++i) order[i] = {static_cast<int32_t>(i - 1)};
  return order;
}

}  // namespace

bool has_graphs(Device d) {
  const pf_backend* b = backend_of(d);
  return PF_HAS(b, graph_begin) && PF_HAS(b, graph_drop);
}

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

void PartGraph::make(StreamState* on, Launches launches, std::span<uint8_t> changed,
                     const Launch& launch) {
  const pf_backend* b = backend_of(device_);
  must(b->graph_begin(device_.index, handle_of(on), &graph_, &recording_));
  on_ = on;
  StreamState recording{device_, recording_};
  const auto order = order_for(launches);
  for (size_t i = 0; i < launches.size(); ++i) {
    must(b->graph_item(device_.index, graph_, order[i].data(),
                       static_cast<int32_t>(order[i].size())));
    launch(*launches[i], &recording);
    changed[i] = 0;
  }
  must(b->graph_end(device_.index, graph_, &nodes_));
}

void PartGraph::bring_up_to_date(Launches launches, std::span<uint8_t> changed,
                                 const Launch& launch) {
  const pf_backend* b = backend_of(device_);
  StreamState recording{device_, recording_};
  bool any = false;
  for (size_t i = 0; i < launches.size(); ++i) {
    if (!changed[i]) continue;
    must(b->graph_update(device_.index, graph_, static_cast<int32_t>(i)));
    launch(*launches[i], &recording);
    changed[i] = 0;
    any = true;
  }
  if (any) must(b->graph_end(device_.index, graph_, &nodes_));
}

bool PartGraph::run(StreamState* on, Launches launches, std::span<uint8_t> changed,
                    const Launch& launch) {
  if (!why_.empty() || changed.size() <= kFew || !has_graphs(device_)) return false;
  if (runs_ < 1) return ++runs_, false;
  if (graph_ && on_ != on) drop();
  if (graph_ && !attempt([&] { bring_up_to_date(launches, changed, launch); }))
    why_.clear();  // made anew
  if (!graph_) {
    if (made_++ == kRemade) {
      why_ = "its launches, or the stream, are others at many calls";
      return false;
    }
    if (!attempt([&] { make(on, launches, changed, launch); })) return false;
  }
  return attempt([&] { must(backend_of(device_)->graph_launch(device_.index, graph_)); });
}

}  // namespace pyflame::engine
