// What the allocator says about a device's memory.
#pragma once

#include <map>
#include <string>

#include "core/blocks.h"

namespace pyflame::blocks {

constexpr size_t kLabelled = 64 * kKiB;  // blocks this large are listed when memory runs out

using Segments = std::map<void*, Segment*>;  // by where they begin

std::string megabytes(int64_t bytes);
// The five largest blocks in use, and what they hold.
std::string largest(const Segments&);
// All segments and their blocks as JSON, in the words of PyTorch's memory snapshots.
std::string snapshot(Device, const Segments&);

}  // namespace pyflame::blocks
