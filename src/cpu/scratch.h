// Memory that a kernel has while it runs: packed operands, partial sums, tiles, keys. It comes from
// the allocator, so that statistics count it and a limit holds for it; when memory is short what
// kernels gave back is released like what tensors did. Taking a size again is a pop from a list
// under the allocator's lock; threads of a region would wait for each other there, so who launches
// takes it for all of them (parallel_with), and what fails has not begun.
//
// What is small whatever the operands are lies on the stack (LocalScratch).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cpu/threads.h"

namespace pyflame {
struct Block;
}

namespace pyflame::cpu {

// Memory that others hold, handed out in parts that begin at cache lines of their own.
class Parts {
 public:
  explicit Parts(char* at) : at_(at) {}
  template <class T>
  T* take(int64_t count) {
    T* r = reinterpret_cast<T*>(at_);
    at_ += bytes<T>(count);
    return r;
  }
  template <class T>
  static size_t bytes(int64_t count) {
    return (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
  }

 private:
  char* at_;
};

namespace detail {

// From half a page on it begins in the middle of one: tensors begin near the start of one, and a
// load waits for an earlier store with the same twelve low bits of the address.
class ScratchBytes {
 public:
  explicit ScratchBytes(size_t bytes);  // OutOfMemoryError
  ~ScratchBytes();
  ScratchBytes(const ScratchBytes&) = delete;
  ScratchBytes& operator=(const ScratchBytes&) = delete;
  char* data() const { return data_; }

 private:
  Block* block_ = nullptr;
  char* data_ = nullptr;
};

}  // namespace detail

template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count) : memory_(static_cast<size_t>(count) * sizeof(T)) {}
  T* get() const { return reinterpret_cast<T*>(memory_.data()); }

 private:
  detail::ScratchBytes memory_;
};

// On the stack if it is no more than kOwn bytes, whose values nobody sets.
template <size_t kOwn>
class LocalScratch {
 public:
  explicit LocalScratch(size_t bytes) {
    if (bytes > kOwn) more_.emplace(bytes);
  }
  char* data() { return more_ ? more_->data() : own_; }

 private:
  alignas(64) char own_[kOwn];
  std::optional<detail::ScratchBytes> more_;
};

// parallel_for with so many bytes for each range: fn(begin, end, memory).
template <class F>
void parallel_with(int64_t n, int64_t grain, size_t bytes, F&& fn) {
  const int ranges = most_ranges(n, grain);
  const size_t apart = bytes < 2048 ? 128 : 4096;
  bytes = (bytes + apart - 1) / apart * apart;
  detail::ScratchBytes memory(static_cast<size_t>(ranges) * bytes);
  parallel_ranges(n, grain, ranges, [&](int64_t begin, int64_t end, int range) {
    fn(begin, end, memory.data() + static_cast<size_t>(range) * bytes);
  });
}

}  // namespace pyflame::cpu
