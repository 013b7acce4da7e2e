// Products of a sparse matrix by rows: the elements of row i are those from starts[i] to starts[i +
// 1].
#pragma once

#include <cstdint>

#include "table/kernel.h"

namespace pyflame::kernels {

// out [rows, width]: row i is the sum of values[k] * x[columns[k]] over its elements k, in their
// order.
struct SparseRows {
  static constexpr KernelInfo kInfo{"sparse_rows", Anchor::General, 1, Layout::RowMajor,
                                    Indices::Places};
  template <class T>
  struct Tensors {
    T out;
    T starts, columns;    // int64 [rows + 1], [n]
    T values{}, order{};  // values[order[k]] in place of values[k]; undefined: 1
    T x;                  // [columns, width]
  };
  template <class T>
  using Numbers = None<T>;
};

// out [n]: of element k in row i the sum of a[i] * b[columns[k]].
struct SparseDots {
  static constexpr KernelInfo kInfo{"sparse_dots", Anchor::General, 1, Layout::RowMajor,
                                    Indices::Places};
  template <class T>
  struct Tensors {
    T out, starts, columns, a, b;
  };
  template <class T>
  using Numbers = None<T>;
};

// Sorts whole numbers below a count by counting: where each begins, [count + 1], and which is
// where; equal ones stay in order.
struct SparseOrder {
  static constexpr KernelInfo kInfo{"sparse_order", Anchor::General, 2, Layout::RowMajor,
                                    Indices::Places};
  template <class T>
  struct Tensors {
    T starts, order, keys;
  };
  template <class T>
  using Numbers = None<T>;
};

// The row of each of n elements, from where rows begin, [rows + 1]; of columns [n], if they are
// given, a copy behind it: out is [n], or [2, n].
struct SparseRowNumbers {
  static constexpr KernelInfo kInfo{"sparse_row_numbers", Anchor::General, 1, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T out, starts;
    T columns{};
  };
  template <class T>
  using Numbers = None<T>;
};

// out [count, width] is 0 but for rows, values [n, width], at places [n] that are all different.
struct SparsePlaces {
  static constexpr KernelInfo kInfo{"sparse_places", Anchor::General, 1, Layout::RowMajor,
                                    Indices::Places};
  template <class T>
  struct Tensors {
    T out, places, values;
  };
  template <class T>
  using Numbers = None<T>;
};

}  // namespace pyflame::kernels
