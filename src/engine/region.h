// A part of the tape between tensors that were given and what was made of them: its own gradients.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/autograd.h"

namespace pyflame::autograd {

// Gradients at `inputs` as if the tape began there: nothing behind them runs, and none of their
// hooks. Where another input lies behind one, neither has the other's part. Undefined: none.
std::vector<Tensor> region_gradients(std::span<const Tensor> outputs, std::span<const Edge> inputs,
                                     std::span<const Tensor> gradients, bool retain_graph,
                                     bool create_graph);
// The first of so many record numbers that no node gets by itself: for a tape that is made later in
// the place of what is recorded next.
inline constexpr uint64_t kReserved = uint64_t{1} << 20;
uint64_t reserve_numbers();
// Whether the pass that this thread is in keeps the tape for another one.
bool pass_retains();

}  // namespace pyflame::autograd

namespace pyflame::engine {

// The vmaps that this thread is in, from which it steps out until they are put back (hidden.cpp).
void* set_levels_aside();
void put_levels_back(void* levels);

}  // namespace pyflame::engine
