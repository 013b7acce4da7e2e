// A product as calls of a library, each on one thread. What a library computes depends on how many
// threads it has (oneDNN then cuts k, takes other kernels, other blocks), so it never has two: the
// product is cut here, by its shape alone, and the cells go to the pool.
#pragma once

#include "cpu/gemm.h"

namespace pyflame::cpu {

struct Cells {
  int64_t batch = 1, rows = 1, cols = 1;  // how many along each
  int64_t parts = 1;                      // of k: of few results from many terms

  explicit Cells(const Gemm&);
  int64_t count() const { return batch * rows * cols * parts; }
  // The i-th; with parts > 1 it writes to sums[part][m][n], without bias.
  Gemm at(const Gemm&, int64_t i, float* sums) const;
};

// False when the library cannot do it, or not now (then nothing of use was written).
bool gemm_in_cells(const Gemm&);

}  // namespace pyflame::cpu
