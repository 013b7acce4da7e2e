// Matrix products of the CPU. Two sources behind one interface: oneDNN (2.6 and 3.1), opened at
// the first product, and our own packed kernel.
#pragma once

#include <cstdint>

#include "pyflame/dtype.h"

namespace pyflame::cpu {

// c[b] = a[b] (m x k) times b[b] (k x n), plus bias[n] when given, rounded once.
// Any strides (in elements) for a and b; c has unit column stride. Accumulates in float32
// or wider; integer dtypes wrap.
struct Gemm {
  int64_t batch = 1, m, n, k;
  DType dtype;
  bool wide = false;  // dtype is Int8, that of c and of the bias Int32
  const void* a;
  int64_t a_batch, a_row, a_col;
  const void* b;
  int64_t b_batch, b_row, b_col;
  void* c;
  int64_t c_batch, c_row;
  const void* bias = nullptr;  // unit stride
  bool add = false;            // to c (gemm_own, dtypes that it sums up in: float32 and float64)
};

void gemm(const Gemm&);
enum class GemmSource { Auto, OneDnn, Own };
void set_gemm_source(GemmSource);  // also PYFLAME_GEMM=onednn|own
// "onednn 2.6.3" or "own (why oneDNN was not used)".
const char* gemm_source();

}  // namespace pyflame::cpu
