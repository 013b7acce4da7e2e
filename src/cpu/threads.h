// The thread pool of CPU kernels: OpenMP, or std::thread under ThreadSanitizer.
#pragma once

#include <cstdint>
#include <type_traits>

namespace pyflame::cpu {

namespace detail {
using RangeFn = void (*)(void* context, int64_t begin, int64_t end, int range);
void parallel(int64_t n, int64_t grain, int most, RangeFn fn, void* context);
}  // namespace detail

inline constexpr int kMostThreads = 1024;

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

// The most ranges that a parallel_for of the calling thread has now.
int most_ranges(int64_t n, int64_t grain);

// parallel_for in at most so many ranges, which know their number: fn(begin, end, range). Ranges of
// one number mostly run on one thread.
template <class F>
void parallel_ranges(int64_t n, int64_t grain, int most, F&& fn) {
  if (n <= 0) return;
  if (n <= grain) {
    fn(int64_t{0}, n, 0);
    return;
  }
  using Fn = std::remove_reference_t<F>;
  detail::parallel(
      n, grain, most,
      [](void* context, int64_t begin, int64_t end, int range) {
        (*static_cast<Fn*>(context))(begin, end, range);
      },
      const_cast<void*>(static_cast<const void*>(&fn)));
}

// Runs fn(begin, end) over disjoint ranges that cover [0, n). At most n / grain ranges; one
// range, on the calling thread, when n <= grain, inside another parallel_for, or when another
// thread owns the pool (it lives and has used it within the last second). Results must not depend
// on how [0, n) is cut.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& fn) {
  parallel_ranges(n, grain, kMostThreads,
                  [&fn](int64_t begin, int64_t end, int) { fn(begin, end); });
}

}  // namespace pyflame::cpu
