// Memory of devices: statistics, budgets, caches, pinned memory of the host. Functions without a
// flush of their own see what has run so far; the Python module flushes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pyflame/device.h"
#include "pyflame/tensor.h"

namespace pyflame {

// A number that goes up and down: its value, its highest value, and the sum of all additions.
struct MemoryCounter {
  int64_t current = 0, peak = 0, allocated = 0;
  int64_t freed() const { return allocated - current; }
  void add(int64_t n) {
    current += n;
    allocated += n;
    if (current > peak) peak = current;
  }
  void remove(int64_t n) { current -= n; }
  void reset_peak() { peak = current; }
};

// PyTorch's words: a segment is memory taken from the device, a block a part of it. Active is what
// is allocated and what was freed while another stream may still use it.
struct PoolStats {
  MemoryCounter allocation, allocated_bytes, requested_bytes;
  MemoryCounter segment, reserved_bytes;
  int64_t active = 0, active_bytes = 0;
  int64_t inactive_split = 0, inactive_split_bytes = 0;  // free parts of segments in use
};

struct MemoryStats {
  int64_t allocated = 0, max_allocated = 0;  // bytes in live blocks
  int64_t reserved = 0, max_reserved = 0;    // bytes held from the device
  int64_t allocations = 0;                   // calls
  int64_t cache_hits = 0;                    // of these served without the device
  int64_t retries = 0, ooms = 0;             // caches released to go on; errors raised
  int64_t device_allocs = 0, device_frees = 0;
  int64_t limit = 0;            // bytes that may be reserved
  PoolStats all, small, large;  // small: blocks of up to 256 KiB, on the CPU 64 KiB
};

MemoryStats memory_stats(Device device);
void reset_peak_memory_stats(Device device);
// Sets the sums of additions and the counts of calls to zero.
void reset_accumulated_memory_stats(Device device);
// Gives memory that no tensor uses back to the device.
void empty_cache(Device device);
// A limit in bytes on what is reserved; 0 restores the default (what is free on the device, or
// PYFLAME_ALLOC_CONF's).
void set_memory_limit(Device device, int64_t bytes);
// The same as a part of the device's memory, from 0 to 1.
void set_memory_fraction(Device device, double fraction);
// PYFLAME_ALLOC_CONF's text, at run time: "max_split_size_mb:128,memory_fraction:0.8".
void set_allocator_settings(const std::string& text);
// A pool of segments of its own: no memory of it is used for tensors made outside of it, nor the
// other way round. Returns its number, from 1.
int64_t make_memory_pool(Device device);
// What the device allocates from here on, in all threads, comes from this pool (0: the common one).
// Returns the number of the one before. What is recorded should be flushed first.
int64_t use_memory_pool(Device device, int64_t pool);
PoolStats memory_pool_stats(Device device, int64_t pool);
// Its memory goes back to the device, what tensors still use when they end.
void drop_memory_pool(Device device, int64_t pool);
// Segments and their blocks as JSON text, in the form of torch.cuda.memory_snapshot().
std::string memory_snapshot(Device device);
// Makes blocks of these sizes ready for the current stream.
void warmup_memory(Device device, const std::vector<int64_t>& sizes);

// ---- memory of the host that a device reads and writes directly --------------------------------

// The values in pinned memory of the host, from which copies with non_blocking = true do not wait.
// The tensor itself when it is there, or when the device is the CPU.
Tensor pin_memory(const Tensor& t, Device device);
bool is_pinned(const Tensor& t);
// Uninitialised bytes (uint8) in pinned memory; in memory of the CPU when the device is the CPU.
Tensor pinned_empty(int64_t bytes, Device device);

struct PinnedStats {
  int64_t allocated = 0;  // bytes in live tensors
  int64_t reserved = 0;   // bytes held, with those ready to be used again
  int64_t acquired = 0;   // calls
  int64_t hits = 0;       // of these served without the driver
};
PinnedStats pinned_stats(Device device);
void warmup_pinned(Device device, const std::vector<int64_t>& sizes);
void clear_pinned(Device device);  // gives what no tensor uses back

}  // namespace pyflame
