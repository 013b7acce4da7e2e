// Pinned memory of the host: one pool for each kind of GPU. Public parts: pyflame/memory.h.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/stream.h"
#include "core/tensor_impl.h"

namespace pyflame {

class PinnedPool;

struct PinnedBlock {
  void* data = nullptr;
  size_t size = 0;
  PinnedPool* owner = nullptr;
  std::vector<std::pair<Device, StreamState*>> users;  // streams that copy from or to it
};

// Null where a device has no pinned memory (the CPU).
PinnedBlock* take_pinned(Device, size_t bytes);
void give_pinned(PinnedBlock*) noexcept;
// Freed, it waits for what the stream has been given by then.
void add_pinned_user(PinnedBlock&, Device, StreamState*);

// A fresh tensor of the host in pinned memory for `d`; in usual memory where that has none.
Tensor pinned_like(const Dims& shape, DType dtype, Device d);

}  // namespace pyflame
