// Dimensions of a tensor as row kernels and reductions walk them, and the widest access that a
// layout allows.
#pragma once

#include <initializer_list>

#include "gpu/kernel.h"
#include "kernels/axes_args.h"

namespace pyflame::gpu {

inline pf_axes no_axes() {
  pf_axes a{};
  a.count = 1;
  return a;
}
// Appends a dimension (faster than those before), merged with the last one where that is whole.
inline void add_axis(pf_axes& a, int64_t size, int64_t stride, int64_t other = 0) {
  a.count *= size;
  if (size == 1) return;
  const int last = a.n - 1;
  if (last >= 0 && a.stride[last] == stride * size && a.other[last] == other * size) {
    a.size[last] *= size;
    a.stride[last] = stride;
    a.other[last] = other;
    return;
  }
  a.size[a.n] = size;
  a.stride[a.n] = stride;
  a.other[a.n++] = other;
}
// The stride and the size of the fastest dimension; 0 and 1 when there is none.
inline int64_t step_of(const pf_axes& a) {
  return a.n > 0 ? a.stride[a.n - 1] : 0;
}
inline int64_t run_of(const pf_axes& a) {
  return a.n > 0 ? a.size[a.n - 1] : 1;
}

inline int64_t power_of_two_from(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}
inline bool aligned(const void* p, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(bytes) == 0;
}

// An array that is read or written `vector` elements at a time, 16 bytes at most at once.
struct Accessed {
  const void* data;
  DType dtype;
};
// Elements of one access: 16 bytes of the first array, fewer where the length of rows or an address
// does not divide. A power of two. Arrays that are absent (null) fit always.
inline int64_t vector_width(int64_t row, std::initializer_list<Accessed> arrays) {
  int64_t v = 16 / static_cast<int64_t>(itemsize(arrays.begin()->dtype));
  const auto fits = [&](const Accessed& a) {
    const int64_t bytes = v * static_cast<int64_t>(itemsize(a.dtype));
    return aligned(a.data, bytes < 16 ? bytes : 16);
  };
  for (; v > 1; v /= 2) {
    bool good = row % v == 0;
    for (const Accessed& a : arrays) good = good && fits(a);
    if (good) break;
  }
  return v;
}

// ---- rows ---------------------------------------------------------------------------------------

// Tensors that caches do not keep are read and written past them.
inline bool larger_than_caches(int64_t bytes) {
  return bytes > int64_t{32} << 20;
}

// A row in the registers of `width` threads (a power of two), each with `vectors` accesses, about
// `few`; none when it is too long for that.
struct RowShape {
  int64_t width, vectors;
};
inline RowShape row_shape(int64_t vectors, int64_t v, DType t, int64_t few = 4) {
  constexpr int64_t kMost = 512, kFew = 32;  // a group of few threads still fills cache lines
  const int64_t registers = t == DType::Float64 ? 16 : 32;
  int64_t width = power_of_two_from(ceil_div(vectors, few));
  const int64_t side = power_of_two_from(vectors);
  if (width < kFew) width = side < kFew ? side : kFew;
  if (width > kMost) width = kMost;
  int64_t each = ceil_div(vectors, width);
  if (each > few) each = power_of_two_from(each);
  return each > 16 || each * v > registers ? RowShape{kMost, 0} : RowShape{width, each};
}
// Of one row alone, for which others wait: by as many threads as a product's block has to make it.
inline RowShape one_row_shape(int64_t vectors, int64_t v, DType t) {
  return row_shape(vectors, v, t, std::min<int64_t>(ceil_div(vectors, 256), 4));
}
// PF_WHOLE of kernels/rows.h.
inline bool whole_rows(const RowShape& s, int64_t vectors, int64_t rows, int64_t rows_of_block) {
  return vectors == s.width * s.vectors && rows % rows_of_block == 0;
}
// Threads of a block whose groups are `width` wide.
inline int row_block(int64_t width, const Traits& t) {
  const int64_t least = t.warp > 128 ? t.warp : 128;
  return static_cast<int>(width > least ? width : least);
}

// A row that a block keeps in shared memory: two blocks at a time where it is short enough.
struct KeptRow {
  bool fits, two;
  int block;
  size_t bytes;
};
inline KeptRow kept_row(int64_t bytes, const Traits& t) {
  const size_t need = static_cast<size_t>(ceil_div(bytes, 16) * 16), fixed = 1024;
  const bool two = 2 * (need + fixed) <= t.max_shared;
  return {need + fixed <= t.max_shared, two, two ? 512 : 1024, need};
}

}  // namespace pyflame::gpu
