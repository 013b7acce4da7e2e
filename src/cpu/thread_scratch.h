// Memory that a thread keeps between calls: packed operands, partial sums, tiles, scores.
#pragma once

#include <cstdlib>
#include <new>

namespace pyflame::cpu {

// A buffer that only grows, until trim() gives a large one back. Make it thread_local, and when a
// thread starts (AtThreadStart).
class ThreadScratch {
 public:
  ThreadScratch() = default;
  ThreadScratch(const ThreadScratch&) = delete;
  ThreadScratch& operator=(const ThreadScratch&) = delete;
  ~ThreadScratch() { std::free(data_); }
  template <class T>
  T* get(size_t count) {
    size_t bytes = (count * sizeof(T) + 4095) / 4096 * 4096;
    if (bytes > size_) {
      std::free(data_);
      size_ = 0;
      data_ = std::aligned_alloc(4096, bytes);
      if (!data_) throw std::bad_alloc();
      size_ = bytes;
    }
    return static_cast<T*>(data_);
  }
  void trim() {
    if (size_ > (size_t{16} << 20)) {
      std::free(data_);
      data_ = nullptr;
      size_ = 0;
    }
  }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace pyflame::cpu
