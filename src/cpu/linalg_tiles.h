// LU, triangular systems and reflections of real matrices on the tiles of our own product. What is
// computed follows from shapes and the instruction set: not from how many threads there are.
#pragma once

#include <cstdint>
#include <vector>

namespace pyflame::cpu {

// LU with row exchanges of [m, n] by columns, in place; pivots from 1 and info as getrf's. NaN
// counts as larger than any number.
int64_t lu_tiles(int64_t m, int64_t n, float* a, int64_t lda, int32_t* pivots);
int64_t lu_tiles(int64_t m, int64_t n, double* a, int64_t lda, int32_t* pivots);

// Element (i, p) of a triangle is f[i * row + p * column].
template <class T>
struct Triangle {
  const T* f;
  int64_t row, column;
  bool upper, unit;
};
// X of T2 T1 X' = B, both row-major [n, k], X in place of B: the first triangle is solved first.
// Row i of what is solved is row from[i] of B, row i of its solution row to[i] of X (null: i).
void solve_tiles(int64_t n, int64_t k, float* b, const std::vector<Triangle<float>>&,
                 const int32_t* from, const int32_t* to);
void solve_tiles(int64_t n, int64_t k, double* b, const std::vector<Triangle<double>>&,
                 const int32_t* from, const int32_t* to);

// Hj = I - tau[j] v v' for j < k: v's element i is a[i * row + j * column], of i = j 1 and before
// 0. One of the two strides is 1.
template <class T>
struct Reflections {
  int64_t k;
  const T* a;
  int64_t row, column;
  const T* tau;
};
// C [m, n] := H1 H2 ... Hk C, by columns; k <= m.
void reflect_tiles(int64_t m, int64_t n, const Reflections<float>&, float* c, int64_t ldc);
void reflect_tiles(int64_t m, int64_t n, const Reflections<double>&, double* c, int64_t ldc);

}  // namespace pyflame::cpu
