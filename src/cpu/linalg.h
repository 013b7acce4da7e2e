// What kernels of decompositions share.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>

#include "core/kernel_tensor.h"
#include "cpu/lapack.h"
#include "cpu/linalg_blocked.h"
#include "cpu/scratch.h"
#include "pyflame/backend.h"
#include "pyflame/dtype.h"

namespace pyflame::cpu {

// A batch of matrices without gaps: of a tensor by columns `fast` is the number of rows.
struct Matrices {
  int64_t count = 1, slow, fast;
  explicit Matrices(const pf_tensor& t) : slow(t.shape[t.ndim - 2]), fast(t.shape[t.ndim - 1]) {
    for (int d = 0; d + 2 < t.ndim; ++d) count *= t.shape[d];
  }
};

// fn.operator()<T>() with the type of the matrices.
template <class F>
void with_type(DType t, F&& fn) {
  switch (t) {
    case DType::Float32:
      return fn.template operator()<float>();
    case DType::Float64:
      return fn.template operator()<double>();
    case DType::Complex64:
      return fn.template operator()<std::complex<float>>();
    case DType::Complex128:
      return fn.template operator()<std::complex<double>>();
    default:
      return;  // operations let no other through
  }
}

// fn(i) for each matrix; several at once where one is little work. A lone one has all threads.
inline int64_t matrices_at_once(int64_t cost) {
  return std::max<int64_t>(1, 100000 / std::max<int64_t>(cost, 1));
}
template <class F>
void each_matrix(int64_t count, int64_t cost, F&& fn) {
  parallel_for(count, matrices_at_once(cost), [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) fn(i);
  });
}
// The same with `work` elements of memory, for calls of the library alone: fn(i, memory).
template <class T, class F>
void each_matrix_with(const Lapack& l, int64_t count, int64_t cost, int64_t work, F&& fn) {
  parallel_with(count, matrices_at_once(cost), static_cast<size_t>(work) * sizeof(T),
                [&](int64_t b, int64_t e, char* memory) {
                  Lapack::Alone alone(l);
                  for (int64_t i = b; i < e; ++i) fn(i, reinterpret_cast<T*>(memory));
                });
}

// Elements of a copy of a complex matrix, to lie behind the workspace: loops of OpenBLAS 0.3.21's
// cgemv and zgemv load a column ahead, behind the last one of either too. None of a real matrix.
template <class T>
int64_t copied_elements(int64_t rows, int64_t columns) {
  return kIsComplex<T> ? rows * (columns + 1) : 0;
}

// The size of the workspace that a routine asks for when it is called with one of -1.
template <class T, class F>
int64_t asked(F&& call) {
  T size{};
  call(&size, int64_t{-1});
  // A float32 rounds large sizes to the nearest.
  const double elements = static_cast<double>(std::real(size));
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(elements * (1 + 1e-6))));
}

}  // namespace pyflame::cpu
