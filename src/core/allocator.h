// The caching allocator: one per device, over the backend's allocate and release. Public parts:
// pyflame/memory.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/stream.h"
#include "pyflame/dtype.h"
#include "pyflame/memory.h"
#include "pyflame/shape.h"

namespace pyflame {

class Allocator;
struct Segment;

// Who asks for memory, and for what: named when memory runs out.
struct MemoryUse {
  const char* op = nullptr;
  DType dtype = DType::UInt8;
  const Dims* shape = nullptr;
  // Given back when the launch ends. On the CPU what has up to 15 MiB is then kept whole for the
  // next one (until memory is short, and 64 MiB in all): taking it again is a pop from a list.
  bool scratch = false;
};

// A piece of device memory. While a tensor has it nobody but the allocator changes it, except for
// add_user().
struct Block {
  void* data = nullptr;
  size_t size = 0, requested = 0;
  Allocator* owner = nullptr;
  StreamState* stream = nullptr;  // whose later work may use it again; null: the default stream
  Segment* segment = nullptr;
  Block *prev = nullptr, *next = nullptr;  // neighbours in the segment
  Block* next_binned = nullptr;
  enum State : uint8_t { Used, Waiting, Binned, Free } state = Used;
  std::vector<StreamState*> users;  // other streams whose work has used it
  // What it holds, for large ones.
  const char* op = nullptr;
  DType dtype = DType::UInt8;
  Dims shape;
};

// A block of at least `bytes` for work on a stream. Retries once with the caches released, then
// raises OutOfMemoryError naming the operation, the sizes and the largest live blocks.
Block* allocate(Device device, StreamState* stream, size_t bytes, const MemoryUse& use);
void release(Block*) noexcept;
// Notes what a block holds now, when it has got a new owner without having been released.
void relabel(Block&, const MemoryUse& use);
// Work of another stream than the block's own uses it: freed, it waits for that stream.
void add_user(Block&, StreamState* stream);

// Bytes that can surely still be allocated on the device.
int64_t memory_headroom(Device device);

// ---- PYFLAME_ALLOC_CONF: alloc_settings.cpp ----------------------------------------------------
inline constexpr const char* kAllocVariable = "PYFLAME_ALLOC_CONF";
struct AllocSettings {
  size_t max_split = SIZE_MAX;   // larger blocks are not split
  double garbage_threshold = 0;  // part of the limit beyond which unused segments are released
  double fraction = 0;           // of the device's memory; 0: what is free
  int64_t limit = 0;             // bytes; 0: none
  bool split = true;             // false: every block is an allocation of its own
  int caching = -1;              // 0, 1; -1: as the device likes it
};
// Of the text of a variable. ValueError for keys that are unknown, naming those that are not; where
// the variable is one of PyTorch's they are told once and ignored, and its own keys passed over.
AllocSettings parse_alloc_settings(const std::string& text, const char* variable);
// From the environment: the first of PYFLAME_ALLOC_CONF, PYTORCH_HIP_ALLOC_CONF,
// PYTORCH_CUDA_ALLOC_CONF, PYTORCH_ALLOC_CONF that is set.
AllocSettings alloc_settings_of_environment();

}  // namespace pyflame
