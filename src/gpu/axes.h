// Dimensions of a tensor as row kernels and reductions walk them, and the widest access that a
// layout allows. Layouts of structs are those of kernels/axes.h.
#pragma once

#include <initializer_list>

#include "gpu/kernel.h"

namespace pyflame::gpu {

struct Axes {
  int32_t n = 0, unused = 0;
  int64_t count = 1;
  int64_t size[PF_MAX_DIMS] = {}, stride[PF_MAX_DIMS] = {}, other[PF_MAX_DIMS] = {};

  // Appends a dimension (faster than those before), merged with the last one where that is whole.
  void add(int64_t s, int64_t st, int64_t ot = 0) {
    count *= s;
    if (s == 1) return;
    if (n > 0 && stride[n - 1] == st * s && other[n - 1] == ot * s) {
      size[n - 1] *= s;
      stride[n - 1] = st;
      other[n - 1] = ot;
      return;
    }
    size[n] = s;
    stride[n] = st;
    other[n++] = ot;
  }
  // The stride and the size of the fastest dimension; 0 and 1 when there is none.
  int64_t step() const { return n > 0 ? stride[n - 1] : 0; }
  int64_t run() const { return n > 0 ? size[n - 1] : 1; }
};

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

// A row in the registers of `width` threads (a power of two), each with `vectors` accesses; none
// when it is too long for that.
struct RowShape {
  int64_t width, vectors;
};
inline RowShape row_shape(int64_t vectors, int64_t v, DType t) {
  constexpr int64_t kMost = 512, kFew = 32;  // a group of few threads still fills cache lines
  const int64_t registers = t == DType::Float64 ? 16 : 32;
  int64_t width = power_of_two_from(ceil_div(vectors, 4));
  const int64_t side = power_of_two_from(vectors);
  if (width < kFew) width = side < kFew ? side : kFew;
  if (width > kMost) width = kMost;
  int64_t each = ceil_div(vectors, width);
  if (each > 4) each = power_of_two_from(each);
  return each > 16 || each * v > registers ? RowShape{kMost, 0} : RowShape{width, each};
}
// Threads of a block whose groups are `width` wide.
inline int row_block(int64_t width, const Traits& t) {
  const int64_t least = t.warp > 128 ? t.warp : 128;
  return static_cast<int>(width > least ? width : least);
}

// A row that a block keeps in shared memory: two blocks at a time where it is short enough.
struct KeptRow {
  bool fits;
  int block;
  size_t bytes;
};
inline KeptRow kept_row(int64_t bytes, const Traits& t) {
  const size_t need = static_cast<size_t>(ceil_div(bytes, 16) * 16), fixed = 1024;
  return {need + fixed <= t.max_shared, 2 * (need + fixed) <= t.max_shared ? 512 : 1024, need};
}

}  // namespace pyflame::gpu
