// The caching allocator: one per device, over the backend's allocate and release.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pyflame/device.h"

namespace pyflame {

struct MemoryStats {
  int64_t allocated = 0, max_allocated = 0;  // bytes in live blocks
  int64_t reserved = 0, max_reserved = 0;    // bytes held from the device
  int64_t allocations = 0;                   // calls
  int64_t cache_hits = 0;                    // of these served without the device
};

// A block of at least `bytes` (aligned to 64). Retries once with the caches released, then raises
// OutOfMemoryError naming `op`, the sizes and the largest live blocks.
void* allocate(Device device, size_t bytes, size_t* capacity, const char* op);
void release(Device device, void* block, size_t capacity) noexcept;

MemoryStats memory_stats(Device device);
void reset_peak_memory_stats(Device device);
void empty_cache(Device device);
// Bytes that can surely still be allocated on the device.
int64_t memory_headroom(Device device);
// A limit below what the device has; 0 restores the default. For tests and shared machines.
void set_memory_limit(Device device, int64_t bytes);

}  // namespace pyflame
