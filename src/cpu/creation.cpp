// Kernels that make values from a formula of the index.
#include <utility>

#include "cpu/strided.h"
#include "cpu/threads.h"
#include "table/kernels/create.h"

namespace pyflame::cpu {

namespace {

using namespace kernels;

void arange(const KernelArgs& a) {
  constexpr auto at = tensors<Arange>;
  constexpr auto number = numbers<Arange>;
  const pf_tensor& out = a.tensor(at.out);
  dispatch(a.dtype(at.out), [&]<class T>() {
    parallel_for(numel(out), kGrain, [&](int64_t b, int64_t e) {
      T* to = a.data<T>(at.out);
      if constexpr (kIsFloat<T>) {
        for (int64_t i = b; i < e; ++i)
          to[i] = store<T>(a.f(number.start) + static_cast<double>(i) * a.f(number.step));
      } else {
        const auto start = static_cast<uint64_t>(a.i(number.start)),
                   step = static_cast<uint64_t>(a.i(number.step));
        for (int64_t i = b; i < e; ++i)
          to[i] = store<T>(static_cast<int64_t>(start + static_cast<uint64_t>(i) * step));
      }
    });
  });
}

void linspace(const KernelArgs& a) {
  constexpr auto at = tensors<Linspace>;
  constexpr auto number = numbers<Linspace>;
  const pf_tensor& out = a.tensor(at.out);
  const int64_t n = numel(out);
  const double start = a.f(number.start), end = a.f(number.end), base = a.f(number.base);
  const double step = n > 1 ? (end - start) / static_cast<double>(n - 1) : 0;
  dispatch(a.dtype(at.out), [&]<class T>() {
    T* to = a.data<T>(at.out);
    for (int64_t i = 0; i < n; ++i) {
      double v = i < (n + 1) / 2 ? start + step * static_cast<double>(i)
                                 : end - step * static_cast<double>(n - 1 - i);
      to[i] = store<T>(base != 0 ? std::pow(base, v) : v);
    }
  });
}

void eye(const KernelArgs& a) {
  constexpr auto at = tensors<Eye>;
  const pf_tensor& out = a.tensor(at.out);
  const int64_t columns = out.shape[1];
  dispatch(a.dtype(at.out), [&]<class T>() {
    T* to = a.data<T>(at.out);
    std::memset(static_cast<void*>(to), 0, static_cast<size_t>(numel(out)) * sizeof(T));
    for (int64_t i = 0; i < std::min(out.shape[0], columns); ++i) to[i * columns + i] = store<T>(1);
  });
}

// The numbers of TriangleIndices.
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
  constexpr auto at = tensors<TriangleIndices>;
  constexpr auto number = numbers<TriangleIndices>;
  const Triangle q{a.i(number.upper) != 0, a.i(number.columns),  a.i(number.low),
                   a.i(number.slope),      a.i(number.shortest), a.tensor(at.out).shape[1]};
  dispatch(a.dtype(at.out), [&]<class T>() {
    parallel_for(q.n, kGrain, [&](int64_t b, int64_t e) {
      T *rows = a.data<T>(at.out), *columns = rows + q.n;
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

PF_CPU_KERNEL(Arange::kInfo, arange)
PF_CPU_KERNEL(Linspace::kInfo, linspace)
PF_CPU_KERNEL(Eye::kInfo, eye)
PF_CPU_KERNEL(TriangleIndices::kInfo, triangle_indices)

}  // namespace pyflame::cpu
