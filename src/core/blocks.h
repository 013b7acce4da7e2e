// How the caching allocator cuts memory: segments, sizes, and lists of free blocks.
#pragma once

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "core/allocator.h"

namespace pyflame {

// Memory taken from the device by one call; its blocks follow each other without gaps.
struct Segment {
  char* base = nullptr;
  size_t size = 0;
  StreamState* stream = nullptr;
  Block* first = nullptr;
  int64_t pool = 0;  // one that somebody made
  int32_t live = 0;  // blocks in use or waiting
  bool small = false;
};

namespace blocks {

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr size_t kSmallSegment = 2 * kMiB;  // of devices whose allocations are dear
constexpr size_t kLargeSegment = 20 * kMiB;
constexpr size_t kSharing = 4 * kMiB;  // larger blocks get segments of their own size
constexpr size_t kPage = 4 * kKiB, kHugePage = 2 * kMiB;
constexpr int kClasses = 128;

inline size_t round_up(size_t n, size_t step) {
  return (n + step - 1) / step * step;
}

// Small sizes are rounded to classes so that freed blocks fit again: steps of 64 bytes, then
// eighths of a power of two.
inline size_t small_size(size_t n, size_t align) {
  if (n <= 1024) {
    n = std::max<size_t>(round_up(n, 64), 64);
  } else {
    n = round_up(n, size_t{1} << (63 - __builtin_clzll(n) - 3));
  }
  return round_up(n, align);
}
inline int class_of(size_t size) {
  if (size <= 1024) return static_cast<int>(size / 64 - 1);
  const int k = 63 - __builtin_clzll(size);
  return 16 + (k - 10) * 8 + static_cast<int>((size - (size_t{1} << k)) >> (k - 3));
}

struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    return a->size != b->size ? a->size < b->size : a->data < b->data;
  }
  using is_transparent = void;
  bool operator()(const Block* a, size_t size) const { return a->size < size; }
  bool operator()(size_t size, const Block* b) const { return size < b->size; }
};

using FreeList = std::set<Block*, BySize>;
// A block owns its place in a list of free ones from the start, so that freeing takes no memory.
struct Listed : Block {
  FreeList::node_type place;
};
inline Block* make_block() {
  auto b = std::make_unique<Listed>();
  FreeList one;
  one.insert(b.get());
  b->place = one.extract(one.begin());
  return b.release();
}
inline void delete_block(Block* b) {
  delete static_cast<Listed*>(b);
}
inline void list(FreeList& free, Block* b) {
  free.insert(std::move(static_cast<Listed*>(b)->place));
}
inline FreeList::iterator unlist(FreeList& free, FreeList::iterator it) {
  auto next = std::next(it);
  Block* b = *it;
  static_cast<Listed*>(b)->place = free.extract(it);
  return next;
}
inline void unlist(FreeList& free, Block* b) {
  unlist(free, free.find(b));
}

// Cuts what is behind the first `size` bytes off, into a list.
inline void split(Block* b, size_t size, size_t align, FreeList& free) {
  if (b->size < size + align) return;
  Block* rest;
  try {
    rest = make_block();
  } catch (const std::bad_alloc&) {
    return;  // it serves as it is
  }
  rest->data = static_cast<char*>(b->data) + size;
  rest->size = b->size - size;
  rest->owner = b->owner;
  rest->stream = b->stream;
  rest->segment = b->segment;
  rest->state = Block::Free;
  rest->prev = b;
  rest->next = b->next;
  if (rest->next) rest->next->prev = rest;
  b->next = rest;
  b->size = size;
  list(free, rest);
}

// Makes a block free, together with its free neighbours.
inline void join(Block* b, FreeList& free) {
  b->state = Block::Free;
  auto absorb = [&](Block* first, Block* second) {
    first->size += second->size;
    first->next = second->next;
    if (first->next) first->next->prev = first;
    delete_block(second);
  };
  if (Block* n = b->next; n && n->state == Block::Free) {
    unlist(free, n);
    absorb(b, n);
  }
  if (Block* p = b->prev; p && p->state == Block::Free) {
    unlist(free, p);
    absorb(p, b);
    b = p;
  }
  list(free, b);
}

// What is free for one stream.
struct Pool {
  std::array<Block*, kClasses> bins{};  // small blocks of one size, not joined
  FreeList small, large;                // joined with their free neighbours
  int64_t binned = 0;
};

inline void join_bins(Pool& p) {
  for (Block*& bin : p.bins)
    while (Block* b = bin) {
      bin = b->next_binned;
      join(b, p.small);
    }
  p.binned = 0;
}

}  // namespace blocks
// The memory of a pool stays until that is dropped, for somebody knows its addresses: neither
// empty_cache() nor a shortage gives it back.
void keep_memory_pool(Device device, int64_t pool);

}  // namespace pyflame
