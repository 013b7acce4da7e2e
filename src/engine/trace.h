// What ran, for pf.explain: kept only while somebody has asked for it. And who is told of kernels
// as they are called, with what they are given.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace pyflame::engine {

class Group;
struct Plan;
struct CapturedLaunch;

namespace detail {
inline std::atomic<int> g_tracing{0};
extern std::atomic<void (*)(const Kernel&, std::span<const Tensor>, std::span<const Tensor>)>
    g_watcher;
}  // namespace detail
inline bool tracing() {
  return detail::g_tracing.load(std::memory_order_relaxed) != 0;
}

// One thing that happened: its kind ("group", "kernel", "copy", "slow", "served") and what is to be
// said of it, by name. Alike ones are counted, not kept again; details are those of the first.
struct TraceEvent {
  std::string kind;
  std::map<std::string, std::string> fields, details;
  int64_t count = 0;
  int64_t bytes = 0;
};

// Events are noted between start and stop, which may be nested; stop gives those since its start.
size_t trace_start();
std::vector<TraceEvent> trace_stop(size_t start);

// About to run: `together` where the kernel and the programs beside it are one launch.
void trace_group(const Group&, Flush why, const Plan&, bool together);
// A captured launch is made again; `where` the program said so.
void trace_replay(const CapturedLaunch&, Device, const std::string& where);
void trace_kernel(const Kernel&, Device, const CallOptions&);
void trace_copy(const char* op, const Dims& shape, Device from, Device to, size_t bytes);

// A slow way of doing something is about to be taken: kept for pf.explain, an error in strict mode.
// `text` says what is slow, and what to do.
void slow_path(const char* op, const std::string& text);
// The same for backends, which raise in their own way: true when strict mode refuses it.
bool note_slow(const char* op, const std::string& text);
// Who computes `op`, where there are several.
void note_served(const char* op, const char* by);

// Told of every call of a kernel, in the calling thread, before it is recorded or run; null:
// nobody. Samples of a vmap are dimensions of the tensors.
using Watcher = void (*)(const Kernel&, std::span<const Tensor> outs, std::span<const Tensor> ins);
void watch_kernels(Watcher);

}  // namespace pyflame::engine
