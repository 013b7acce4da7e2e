// A product with a banded matrix along each of two dimensions: every element of the result is a
// weighted sum of neighbours, whose weights follow from the rule and the sizes (table/resample.h).
// x is dense, [outer, in_a, in_b, inner] in the order of its memory, y [outer, out_a, out_b,
// inner]; none of the numbers is 0. It is linear, and its transpose is the same with transposed
// weights. Sums go along a, then along b.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

struct Resample {
  static constexpr KernelInfo kInfo{"resample", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T y;
    T x;
  };
  template <class T>
  struct Numbers {
    T outer, in_a, in_b, inner, out_a, out_b;
    T rule_a, rule_b;    // Rule, and what follows of it
    T scale_a, scale_b;  // of places of the result in the input
    T align, transposed;
  };
};

}  // namespace pyflame::kernels
