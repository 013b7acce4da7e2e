// Kernels that make values from a formula of the index.
#include <utility>

#include "cpu/strided.h"
#include "cpu/threads.h"

namespace pyflame::cpu {

namespace {

// attrs: start, step, as numbers of the output's kind
void arange(const KernelArgs& a) {
  const pf_tensor& out = a.tensor(0);
  dispatch(a.dtype(0), [&]<class T>() {
    parallel_for(numel(out), kGrain, [&](int64_t b, int64_t e) {
      T* to = a.data<T>(0);
      if constexpr (kIsFloat<T>) {
        for (int64_t i = b; i < e; ++i) to[i] = store<T>(a.f(0) + static_cast<double>(i) * a.f(1));
      } else {
        const auto start = static_cast<uint64_t>(a.i(0)), step = static_cast<uint64_t>(a.i(1));
        for (int64_t i = b; i < e; ++i)
          to[i] = store<T>(static_cast<int64_t>(start + static_cast<uint64_t>(i) * step));
      }
    });
  });
}

// attrs: start, end, base (0: linear, otherwise base to the power of it). From both ends to the
// middle, so that the last one is exactly `end`.
void linspace(const KernelArgs& a) {
  const pf_tensor& out = a.tensor(0);
  const int64_t n = numel(out);
  const double start = a.f(0), end = a.f(1), base = a.f(2);
  const double step = n > 1 ? (end - start) / static_cast<double>(n - 1) : 0;
  dispatch(a.dtype(0), [&]<class T>() {
    T* to = a.data<T>(0);
    for (int64_t i = 0; i < n; ++i) {
      double v = i < (n + 1) / 2 ? start + step * static_cast<double>(i)
                                 : end - step * static_cast<double>(n - 1 - i);
      to[i] = store<T>(base != 0 ? std::pow(base, v) : v);
    }
  });
}

void eye(const KernelArgs& a) {
  const pf_tensor& out = a.tensor(0);
  const int64_t columns = out.shape[1];
  dispatch(a.dtype(0), [&]<class T>() {
    T* to = a.data<T>(0);
    std::memset(static_cast<void*>(to), 0, static_cast<size_t>(numel(out)) * sizeof(T));
    for (int64_t i = 0; i < std::min(out.shape[0], columns); ++i) to[i * columns + i] = store<T>(1);
  });
}

// out [2, n]: rows and columns of a triangle, row by row. attrs: whether it is the upper one, the
// number of columns, the first slanted row, how many there are, the length of the shortest. Slanted
// rows differ by one in length; whole ones come before (upper) or after them.
struct Triangle {
  bool upper;
  int64_t columns, low, slope, shortest, n;

  // How many elements the k shortest rows have.
  int64_t before(int64_t k) const { return k * shortest + k * (k - 1) / 2; }
  // Which of them, from the shortest, has element e.
  int64_t slanted(int64_t e) const {
    int64_t low_k = 0, high_k = slope;
    while (high_k - low_k > 1) {
      const int64_t mid = low_k + (high_k - low_k) / 2;
      (before(mid) <= e ? low_k : high_k) = mid;
    }
    return low_k;
  }
  int64_t length(int64_t row) const {
    if (row < low || row >= low + slope) return columns;
    return shortest + (upper ? low + slope - 1 - row : row - low);
  }
  std::pair<int64_t, int64_t> place(int64_t e) const {
    const int64_t all = before(slope);
    if (upper) {
      if (e < n - all) return {e / columns, e % columns};
      const int64_t k = slanted(n - 1 - e);
      return {low + slope - 1 - k, columns - 1 - (n - 1 - e - before(k))};
    }
    if (e >= all) return {low + slope + (e - all) / columns, (e - all) % columns};
    const int64_t k = slanted(e);
    return {low + k, e - before(k)};
  }
};

void triangle_indices(const KernelArgs& a) {
  const Triangle q{a.i(0) != 0, a.i(1), a.i(2), a.i(3), a.i(4), a.tensor(0).shape[1]};
  dispatch(a.dtype(0), [&]<class T>() {
    parallel_for(q.n, kGrain, [&](int64_t b, int64_t e) {
      T *rows = a.data<T>(0), *columns = rows + q.n;
      auto [row, column] = q.place(b);
      while (b < e) {
        const int64_t end = q.upper ? q.columns : q.length(row);
        const int64_t here = std::min(end - column, e - b);
        for (int64_t i = 0; i < here; ++i) {
          rows[b + i] = store<T>(row);
          columns[b + i] = store<T>(column + i);
        }
        b += here;
        ++row;
        column = q.upper && b < e ? q.columns - q.length(row) : 0;
      }
    });
  });
}

}  // namespace

PF_CPU_KERNEL("arange", arange)
PF_CPU_KERNEL("linspace", linspace)
PF_CPU_KERNEL("eye", eye)
PF_CPU_KERNEL("triangle_indices", triangle_indices)

}  // namespace pyflame::cpu
