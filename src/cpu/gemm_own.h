// Our own matrix product: micro-kernels (gemm_micro.cpp) under a blocking (gemm_own.cpp).
#pragma once

#include <cstdint>
#include <type_traits>

#include "cpu/gemm.h"

namespace pyflame::cpu {

void gemm_own(const Gemm&);  // any dtype with arithmetic

namespace micro {

// One tile of c: rows x cols sums over k, in order of k, one fma each. A tile's values depend on
// nothing else: not on the vector width, the tile's height or whether operands were packed.
// Elements of int32 are pairs of int16, two steps of k; their sums are int32.
template <class T>
struct Tile {
  int64_t k;
  const T* a;
  int64_t a_row, a_col;
  const T* b;  // unit column stride
  int64_t b_row;
  T* c;
  int64_t c_row;
  int cols;         // 1 .. 2 * lanes
  bool accumulate;  // c += sum instead of c = sum
  const T* bias;    // added last, or null
  // Sums over `steps` products, whose operands begin at these distances from a and b.
  const int64_t* a_at = nullptr;
  const int64_t* b_at = nullptr;
  int64_t steps = 1;
  // Of tiles with steps: what will be read later, so many bytes of it a step of k; null: a.
  const char* ahead = nullptr;
  int64_t ahead_bytes = 0;
};

// Rows of X of a triangular system F X = C, in place of C: c minus a b, which is known, then the
// tile's own triangle. Whole vectors of columns; in order of k, one fma each.
template <class T>
struct TriangleTile {
  int64_t k;
  const T *a, *b;     // packed, rows beside one another; nr columns
  const T* triangle;  // rows x rows, packed like a
  T* c;               // nr columns, rows nr apart
  bool unit;          // the diagonal counts as 1
};

template <class T>
struct Kernels {
  static constexpr int kMaxRows = 12;
  using Fn = void(const Tile<T>&);
  using TriangleFn = void(const TriangleTile<T>&);
  int mr, nr, lanes;  // nr = 2 * lanes
  // [rows - 1][0: nr columns; 1: more than lanes; 2: at most lanes]
  Fn* fn[kMaxRows][3];
  Fn* in_steps[kMaxRows][3];           // tiles with steps
  TriangleFn* triangles[kMaxRows][2];  // [rows - 1][0: lower, 1: upper]

  void run(int rows, const Tile<T>& t) const { of(fn, rows, t.cols)(t); }
  void run_in_steps(int rows, const Tile<T>& t) const { of(in_steps, rows, t.cols)(t); }

 private:
  Fn* of(Fn* const (&table)[kMaxRows][3], int rows, int cols) const {
    return table[rows - 1][cols == nr ? 0 : cols > lanes ? 1 : 2];
  }
};
// Tiles of `rows` rows split evenly: no tile of one row beside tiles of twelve.
struct Split {
  int64_t rows, count;
  Split(int64_t n, int64_t most) : rows(n), count((n + most - 1) / most) {}
  int64_t at(int64_t i) const { return rows * i / count; }
};
const Kernels<float>& kernels_f32();
const Kernels<double>& kernels_f64();
const Kernels<int32_t>& kernels_pairs();
template <class T>
const Kernels<T>& kernels() {
  if constexpr (std::is_same_v<T, double>)
    return kernels_f64();
  else if constexpr (std::is_same_v<T, int32_t>)
    return kernels_pairs();
  else
    return kernels_f32();
}

// Source with `rows` panel rows of stride `row` and k of stride `col`, to dst[p * width + i];
// rows beyond `rows` become zero.
void pack(const float* src, int64_t row, int64_t col, int rows, int64_t k, int width, float* dst);
void pack(const double* src, int64_t row, int64_t col, int rows, int64_t k, int width, double* dst);
void pack(const bfloat16* src, int64_t row, int64_t col, int rows, int64_t k, int width,
          float* dst);
void pack(const float16* src, int64_t row, int64_t col, int rows, int64_t k, int width, float* dst);
// Two steps of k to an element; a last one alone is beside a zero.
void pack(const int8_t* src, int64_t row, int64_t col, int rows, int64_t k, int width,
          int32_t* dst);
// The same of rows without gaps, and no padding: dst[p * width + i] = src[i * row + p].
void turn(const float* src, int64_t row, int rows, int64_t k, int64_t width, float* dst);
void turn(const double* src, int64_t row, int rows, int64_t k, int64_t width, double* dst);
// Float32 row to a 16-bit one, rounding to nearest even.
void store(const float* src, int64_t n, bfloat16* dst);
void store(const float* src, int64_t n, float16* dst);

// c[n] = a[k] b[k x n] + bias in blocks of k_block steps; false when b lies in neither way that
// this reads (unit column stride, or unit row stride and a contiguous a).
bool one_row(const float* a, int64_t a_col, const float* b, int64_t b_row, int64_t b_col, int64_t k,
             int64_t k_block, int64_t n, const float* bias, float* c);

}  // namespace micro
}  // namespace pyflame::cpu
