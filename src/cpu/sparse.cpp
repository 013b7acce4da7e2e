// A sparse matrix, by rows, times a dense one: rows of the dense one are fetched ahead, and sums
// stay in registers. An element is summed in the order of its row, a dot product over lanes of a
// fixed number, so no bit follows from threads or the width of vectors.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/sparse.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/dispatch.h"
#include "cpu/kernel.h"
#include "cpu/scratch.h"
#include "cpu/threads.h"
#include "hwy/highway.h"
#include "table/kernels/sparse.h"

#ifndef PF_CPU_SPARSE_ROWS
#define PF_CPU_SPARSE_ROWS
namespace pyflame::cpu {
namespace {

// The rows of a matrix, in parts of about as many elements each. What starts say is not trusted.
struct Rows {
  const int64_t* starts;
  int64_t rows, elements;

  int64_t begin(int64_t row) const { return std::clamp<int64_t>(starts[row], 0, elements); }
  int64_t end(int64_t row) const {
    return std::clamp<int64_t>(starts[row + 1], begin(row), elements);
  }

  template <class F>
  void each_part(int64_t width, F&& fn) const {
    if (rows == 0) return;
    constexpr int64_t kWork = 1 << 15;
    const int64_t work = (elements + rows) * std::max<int64_t>(width, 1);
    const int64_t parts = std::clamp<int64_t>(work / kWork, 1, std::min<int64_t>(128, rows));
    const Scratch<int64_t> first(parts + 1);
    for (int64_t p = 0, row = 0; p < parts; ++p) {
      first.get()[p] = row;
      const int64_t until = elements * (p + 1) / parts;
      const int64_t* const at = std::lower_bound(starts + row, starts + rows, until);
      // Rows without elements count, too.
      row = std::max(row, std::min<int64_t>(at - starts, rows));
    }
    first.get()[parts] = rows;
    parallel_for(parts, 1, [&](int64_t b, int64_t e) {
      for (int64_t p = b; p < e; ++p) fn(first.get()[p], first.get()[p + 1]);
    });
  }
};

Rows rows_of(const pf_tensor& starts, const pf_tensor& columns) {
  return {static_cast<const int64_t*>(starts.data), starts.shape[0] - 1, columns.shape[0]};
}

}  // namespace
}  // namespace pyflame::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kAhead = 8;  // elements

template <class T>
struct Matrix {
  const T* x;
  int64_t rows, width;

  HWY_INLINE void fetch(int64_t row) const {
    if (static_cast<uint64_t>(row) >= static_cast<uint64_t>(rows)) return;
    const char* const p = reinterpret_cast<const char*>(x + row * width);
    const int64_t bytes = std::min<int64_t>(width * static_cast<int64_t>(sizeof(T)), 512);
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i);
  }
};

template <class T>
struct Elements {
  const KernelArgs& args;
  const int64_t *columns, *order;
  const T* values;
  int64_t count;  // of values

  // The factor of element k, and the row of x that it multiplies; false for a wrong index.
  HWY_INLINE bool at(int64_t k, const Matrix<T>& x, T* factor, const T** row) const {
    const int64_t c = columns[k];
    if (static_cast<uint64_t>(c) >= static_cast<uint64_t>(x.rows)) [[unlikely]] {
      args.bad_index(c, 0, x.rows);
      return false;
    }
    int64_t v = k;
    if (order != nullptr) {
      v = order[k];
      if (static_cast<uint64_t>(v) >= static_cast<uint64_t>(count)) [[unlikely]] {
        args.bad_index(v, 0, count);
        return false;
      }
    }
    *factor = values == nullptr ? T(1) : values[v];
    *row = x.x + c * x.width;
    return true;
  }
};

template <class T>
void Sum(const Rows& rows, const Elements<T>& e, const Matrix<T>& x, T* out, int64_t first,
         int64_t last) {
  const hn::ScalableTag<T> d;
  const auto N = static_cast<int64_t>(hn::Lanes(d));
  const int64_t width = x.width;
  for (int64_t i = first; i < last; ++i) {
    const int64_t begin = rows.begin(i), end = rows.end(i);
    T* const to = out + i * width;
    T f;
    const T* row;
    int64_t l = 0;
    for (; l + 4 * N <= width; l += 4 * N) {
      auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
      for (int64_t k = begin; k < end; ++k) {
        if (l == 0 && k + kAhead < rows.elements) x.fetch(e.columns[k + kAhead]);
        if (!e.at(k, x, &f, &row)) continue;
        const auto v = hn::Set(d, f);
        const T* const p = row + l;
        s0 = hn::Add(s0, hn::Mul(v, hn::LoadU(d, p)));
        s1 = hn::Add(s1, hn::Mul(v, hn::LoadU(d, p + N)));
        s2 = hn::Add(s2, hn::Mul(v, hn::LoadU(d, p + 2 * N)));
        s3 = hn::Add(s3, hn::Mul(v, hn::LoadU(d, p + 3 * N)));
      }
      hn::StoreU(s0, d, to + l);
      hn::StoreU(s1, d, to + l + N);
      hn::StoreU(s2, d, to + l + 2 * N);
      hn::StoreU(s3, d, to + l + 3 * N);
    }
    for (; l + N <= width; l += N) {
      auto s = hn::Zero(d);
      for (int64_t k = begin; k < end; ++k)
        if (e.at(k, x, &f, &row)) s = hn::Add(s, hn::Mul(hn::Set(d, f), hn::LoadU(d, row + l)));
      hn::StoreU(s, d, to + l);
    }
    if (l == width) continue;
    std::fill(to + l, to + width, T(0));
    for (int64_t k = begin; k < end; ++k)
      if (e.at(k, x, &f, &row))
        for (int64_t j = l; j < width; ++j) to[j] += f * row[j];
  }
}

template <class T>
T Dot(const T* a, const T* b, int64_t n) {
  const hn::FixedTag<T, 32 / sizeof(T)> d;  // the same lanes whatever the machine has
  constexpr int64_t N = 32 / sizeof(T);
  auto s0 = hn::Zero(d), s1 = s0;
  int64_t i = 0;
  for (; i + 2 * N <= n; i += 2 * N) {
    s0 = hn::Add(s0, hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i)));
    s1 = hn::Add(s1, hn::Mul(hn::LoadU(d, a + i + N), hn::LoadU(d, b + i + N)));
  }
  T lanes[N];
  hn::StoreU(hn::Add(s0, s1), d, lanes);
  for (int64_t step = N / 2; step > 0; step /= 2)
    for (int64_t l = 0; l < step; ++l) lanes[l] += lanes[l + step];
  T rest = 0;
  for (; i < n; ++i) rest += a[i] * b[i];
  return lanes[0] + rest;
}

template <class T>
void Dots(const Rows& rows, const Elements<T>& e, const T* a, const Matrix<T>& b, T* out,
          int64_t first, int64_t last) {
  T f;
  const T* row;
  for (int64_t i = first; i < last; ++i)
    for (int64_t k = rows.begin(i); k < rows.end(i); ++k) {
      if (k + kAhead < rows.elements) b.fetch(e.columns[k + kAhead]);
      out[k] = e.at(k, b, &f, &row) ? Dot(a + i * b.width, row, b.width) : T(0);
    }
}

}  // namespace

void SparseRows(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::SparseRows>;
  const Rows rows = rows_of(a.tensor(at.starts), a.tensor(at.columns));
  const pf_tensor& x = a.tensor(at.x);
  dispatch_wide(a.dtype(at.x), [&]<class T>() {
    const Matrix<T> matrix{a.data<T>(at.x), x.shape[0], x.shape[1]};
    const Elements<T> elements{a, a.data<int64_t>(at.columns),
                               a.has(at.order) ? a.data<int64_t>(at.order) : nullptr,
                               a.has(at.values) ? a.data<T>(at.values) : nullptr,
                               a.has(at.values) ? a.tensor(at.values).shape[0] : rows.elements};
    rows.each_part(matrix.width, [&](int64_t first, int64_t last) {
      Sum<T>(rows, elements, matrix, a.data<T>(at.out), first, last);
    });
  });
}

void SparseDots(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::SparseDots>;
  const Rows rows = rows_of(a.tensor(at.starts), a.tensor(at.columns));
  const pf_tensor& b = a.tensor(at.b);
  dispatch_wide(a.dtype(at.b), [&]<class T>() {
    const Matrix<T> matrix{a.data<T>(at.b), b.shape[0], b.shape[1]};
    const Elements<T> elements{a, a.data<int64_t>(at.columns), nullptr, nullptr, rows.elements};
    std::fill_n(a.data<T>(at.out), rows.elements, T(0));  // what starts leave out
    rows.each_part(matrix.width, [&](int64_t first, int64_t last) {
      Dots<T>(rows, elements, a.data<T>(at.a), matrix, a.data<T>(at.out), first, last);
    });
  });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
namespace {
void sparse_order(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::SparseOrder>;
  const int64_t n = a.tensor(at.keys).shape[0], count = a.tensor(at.starts).shape[0] - 1;
  const int64_t* const keys = a.data<int64_t>(at.keys);
  int64_t *const starts = a.data<int64_t>(at.starts), *const order = a.data<int64_t>(at.order);
  std::fill_n(starts, count + 1, 0);
  bool wrong = false;
  for (int64_t i = 0; i < n; ++i) {
    if (static_cast<uint64_t>(keys[i]) >= static_cast<uint64_t>(count)) [[unlikely]] {
      a.bad_index(keys[i], 0, count);
      wrong = true;
    } else {
      ++starts[keys[i]];
    }
  }
  if (wrong) {
    std::fill_n(starts, count + 1, 0);
    std::fill_n(order, n, 0);
    return;
  }
  for (int64_t k = 0, sum = 0; k <= count; ++k) sum += std::exchange(starts[k], sum);
  for (int64_t i = 0; i < n; ++i) order[starts[keys[i]]++] = i;
  for (int64_t k = count; k > 0; --k) starts[k] = starts[k - 1];
  starts[0] = 0;
}

void sparse_row_numbers(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::SparseRowNumbers>;
  const pf_tensor& out = a.tensor(at.out);
  const int64_t rows = a.tensor(at.starts).shape[0] - 1, n = out.shape[out.ndim - 1];
  const int64_t* const starts = a.data<int64_t>(at.starts);
  parallel_for(n, 1 << 15, [&](int64_t begin, int64_t end) {
    if (a.has(at.columns))
      std::copy_n(a.data<int64_t>(at.columns) + begin, end - begin,
                  a.data<int64_t>(at.out) + n + begin);
    int64_t row =
        std::upper_bound(starts + 1, starts + std::max<int64_t>(rows, 1), begin) - (starts + 1);
    for (int64_t k = begin; k < end; ++k) {
      while (row + 1 < rows && starts[row + 1] <= k) ++row;
      a.data<int64_t>(at.out)[k] = row;
    }
  });
}
void sparse_places(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::SparsePlaces>;
  const pf_tensor &out = a.tensor(at.out), &values = a.tensor(at.values);
  const int64_t count = out.shape[0], n = values.shape[0];
  const size_t row = static_cast<size_t>(values.shape[1]) * itemsize(a.dtype(at.values));
  const int64_t grain = 1 + (1 << 16) / static_cast<int64_t>(row + 1);
  auto* const to = static_cast<char*>(out.data);
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    std::memset(to + static_cast<size_t>(begin) * row, 0, static_cast<size_t>(end - begin) * row);
  });
  const int64_t* const places = a.data<int64_t>(at.places);
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      if (static_cast<uint64_t>(places[k]) >= static_cast<uint64_t>(count))
        a.bad_index(places[k], 0, count);
      else
        std::memcpy(to + static_cast<size_t>(places[k]) * row,
                    static_cast<const char*>(values.data) + static_cast<size_t>(k) * row, row);
    }
  });
}
}  // namespace
PF_CPU_SIMD_KERNEL(SparseRows)
PF_CPU_SIMD_KERNEL(SparseDots)
PF_CPU_KERNEL(kernels::SparseOrder::kInfo, sparse_order)
PF_CPU_KERNEL(kernels::SparseRowNumbers::kInfo, sparse_row_numbers)
PF_CPU_KERNEL(kernels::SparsePlaces::kInfo, sparse_places)
}  // namespace pyflame::cpu
#endif
