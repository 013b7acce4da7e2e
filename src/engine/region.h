// A part of the tape between tensors that were given and what was made of them: its own gradients.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/autograd.h"

namespace pyflame::autograd {

// Gradients at `inputs` as if the tape began there: nothing behind them runs, and none of their
// hooks. Where another input lies behind one, neither has the other's part. Undefined: none, or
// the pass that this thread is in does not ask for it.
std::vector<Tensor> region_gradients(std::span<const Tensor> outputs, std::span<const Edge> inputs,
                                     std::span<const Tensor> gradients);
// Whether somebody is to hear of a leaf's gradient.
bool has_hooks(const Tensor& leaf);
// The first of so many record numbers that no node gets by itself: for a tape that is made later in
// the place of what is recorded next.
inline constexpr uint64_t kReserved = uint64_t{1} << 20;
uint64_t reserve_numbers();
// The node that has made `t`, for who launches something else because of it. Null where a capture
// is made and has not recorded it: another call's argument will have another history.
const Node* maker(const Tensor& t);
// From within a node's gradient: the pass goes on with these, as if they had come to the outputs.
// The node has been recorded behind them.
void go_on(std::span<const Tensor> outputs, std::span<const Tensor> gradients);
// Whether the pass that this thread is in does not keep the tape for another one, and none of vmap
// looks on.
bool pass_is_plain();
// Of which edges it asks for what comes there.
std::vector<bool> pass_asks(std::span<const Edge> edges);

}  // namespace pyflame::autograd

namespace pyflame::engine {

class Capture;

// Calls `told` before a tensor is written in place that a replay of a capture has read, as long as
// the tape of that call may be asked for: Python can make it while all is as it was.
class Watch {
 public:
  Watch(std::shared_ptr<const Capture> capture, std::function<void()> told)
      : capture_(std::move(capture)), told_(std::move(told)) {}
  ~Watch() { end(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  void begin(std::span<const Tensor> inputs);  // of the replay
  void end() noexcept;
  static void about_to_write(const Storage&);

 private:
  std::shared_ptr<const Capture> capture_;
  std::function<void()> told_;
  std::vector<const Storage*> inputs_;
};
inline std::atomic<int> g_watches{0};
inline void about_to_write(const Storage& s) {
  if (g_watches.load(std::memory_order_relaxed)) [[unlikely]]
    Watch::about_to_write(s);
}

// The vmaps that this thread is in, from which it steps out until they are put back (hidden.cpp).
void* set_levels_aside();
void put_levels_back(void* levels);

}  // namespace pyflame::engine
