// What row kernels have beside their tensors on each thread: said to who cuts their calls into
// pieces, and used by the kernels.
#pragma once

#include "cpu/scratch.h"
#include "pyflame/dtype.h"

namespace pyflame::cpu {

// The loops over a row go in stretches of 64 elements.
inline int64_t whole_stretches(int64_t n) {
  return (n + 63) / 64 * 64;
}

namespace detail {
inline int64_t wide_bytes_of(DType t, int64_t n) {
  return n * (t == DType::Float64 ? 8 : 4);
}
}  // namespace detail

// Exponentials of two rows.
inline size_t softmax_scratch(DType t, int64_t n) {
  return Parts::bytes<char>(detail::wide_bytes_of(t, 2 * whole_stretches(n)));
}
// Weight or bias in the compute type.
inline size_t affine_scratch(DType t, int64_t n) {
  return Parts::bytes<char>(detail::wide_bytes_of(t, whole_stretches(n)));
}

// fn(begin, end, memory) over rows with so many bytes for each range: `own`, which a piece has,
// where one thread runs them all.
template <class F>
void for_rows(char* own, int64_t rows, int64_t grain, size_t bytes, F&& fn) {
  if (own && most_ranges(rows, grain) == 1) return fn(int64_t{0}, rows, own);
  parallel_with(rows, grain, bytes, fn);
}

}  // namespace pyflame::cpu
