// Which launches of a capture wait for which: what may run beside each other.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/capture_launch.h"

namespace pyflame::engine {

// For each launch those before it that it has to run behind, in ascending order and without those
// that others of them run behind already: by the memory that they read and write, wherever that
// lies now. Tensors that move later do so as a whole, and never onto each other.
std::vector<std::vector<int32_t>> order_of(std::span<const std::unique_ptr<CapturedLaunch>>);

}  // namespace pyflame::engine
