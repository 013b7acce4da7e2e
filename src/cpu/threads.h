// The thread pool of CPU kernels: OpenMP, or std::thread under ThreadSanitizer.
#pragma once

#include <cstdint>
#include <type_traits>

namespace pyflame::cpu {

namespace detail {
using RangeFn = void (*)(void* context, int64_t begin, int64_t end);
void parallel(int64_t n, int64_t grain, RangeFn fn, void* context);
}  // namespace detail

int num_threads();  // that a parallel_for of the calling thread would use at most
void set_num_threads(int n);

// While it lives, a library with OpenMP regions of its own (oneDNN) has none on this thread: how
// many threads it took would show in its results.
class LibraryAlone {
 public:
  LibraryAlone();
  ~LibraryAlone();
  LibraryAlone(const LibraryAlone&) = delete;
  LibraryAlone& operator=(const LibraryAlone&) = delete;

 private:
  int before_ = 1;
};

// Runs fn(begin, end) over disjoint ranges that cover [0, n). At most n / grain ranges; one
// range, on the calling thread, when n <= grain, inside another parallel_for, or when another
// thread owns the pool (it lives and has used it within the last second). Results must not depend
// on how [0, n) is cut.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& fn) {
  if (n <= 0) return;
  if (n <= grain) {
    fn(int64_t{0}, n);
    return;
  }
  using Fn = std::remove_reference_t<F>;
  detail::parallel(
      n, grain,
      [](void* context, int64_t begin, int64_t end) { (*static_cast<Fn*>(context))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&fn)));
}

}  // namespace pyflame::cpu
