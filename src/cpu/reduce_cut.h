// How a reduction of a contiguous tensor is cut into pieces (kernel.h), whatever it makes, so that
// several can have the same: whole results, each of a row; blocks of long ones; rows over columns
// of which few threads have a table.
#pragma once

#include <cstdint>

#include "core/kernel_numbers.h"
#include "cpu/kernel.h"
#include "cpu/reduce_plan.h"

namespace pyflame::cpu {

enum class Cut : uint8_t { None, Rows, Blocks, Columns };
// Blocks (of a sum: kernels have their own) are whole in pieces.
struct CutReduction {
  static constexpr int64_t kBlock = 1024, kBlocks = 4 * kBlock, kMostColumns = 4096;
  Cut cut = Cut::None;
  int64_t outs = 1, k = 1;
  Pieces pieces;  // without what the kernel does, and its memory

  // `apart`: elements go into the result without a look at others.
  CutReduction(const pf_tensor& x, int tensor, int out, int64_t dims, bool apart) {
    bool last = true, first = true;  // the dimensions that are reduced
    for (int d = 0; d < x.ndim; ++d) {
      if (x.shape[d] == 1) continue;
      if (dims >> d & 1) {
        first = first && outs == 1;
        k *= x.shape[d];
      } else {
        last = last && k == 1;
        outs *= x.shape[d];
      }
    }
    const int64_t total = outs * k;
    const bool wide = x.dtype == static_cast<uint8_t>(DType::Float64);
    if (total == 0 || !contiguous(x)) return;
    if (last && outs > 1 && k <= kLongestRow * (wide ? kBlock / 2 : kBlock)) {
      cut = Cut::Rows;
      pieces.rows = outs;
      pieces.width = k;
      pieces.per_row[out] = 1;
    } else if (last && apart && (outs == 1 || k % kBlocks == 0)) {
      cut = Cut::Blocks;
      pieces.width = kBlocks;
      pieces.rows = (total + kBlocks - 1) / kBlocks;
      pieces.elements = total;
    } else if (first && apart && outs <= kMostColumns) {
      cut = Cut::Columns;
      pieces.rows = k;
      pieces.width = outs;
      pieces.step = 64;
      pieces.range = kBlock;
    }
    pieces.per_row[tensor] = pieces.width;
  }
};

// Prod, Amax and Amin of integers (reduce_exact.cpp), and several of floats (reduce.cpp).
KernelEntry integer_reduction(SumKind);
void reductions_of_floats(const KernelArgs&);
// The extreme of 64 floats or more that lie side by side, in what they are calculated in, and where
// the first such is, or the first NaN (reduce.cpp).
void find_in_row(DType, bool largest, const void* x, int64_t n, void* best, int64_t* place);

}  // namespace pyflame::cpu
