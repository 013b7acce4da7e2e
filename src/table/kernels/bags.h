// Sums of rows of a table, one for each bag of their numbers.
//
//   out     [bags, width]
//   weight  [rows, width], dense
//   index   [n], int64
//   ends    [bags], int64: where each bag ends; it begins where the one before does
//   factors [n]: what rows are multiplied by
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

struct BagSums {
  static constexpr KernelInfo kInfo{"bag_sums", Anchor::General, 1, Layout::RowMajor,
                                    Indices::Places};
  template <class T>
  struct Tensors {
    T out, weight, index, ends, factors{};
  };
  template <class T>
  struct Numbers {
    T skip;  // a row that does not count, -1 for none
  };
};

}  // namespace pyflame::kernels
