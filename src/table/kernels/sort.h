// Sorting and what follows from an order: NaN last, equals in the order of their positions.
// Indices are int64.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

struct Sort {
  static constexpr KernelInfo kInfo{"sort", Anchor::General, 2};
  template <class T>
  struct Tensors {
    T values, indices, x;
  };
  template <class T>
  struct Numbers {
    T dim, descending;
  };
};

// The first k of the sorted elements; k is the size of `values` in that dimension.
struct TopK {
  static constexpr KernelInfo kInfo{"topk", Anchor::General, 2};
  template <class T>
  struct Tensors {
    T values, indices, x;
  };
  template <class T>
  struct Numbers {
    T dim, largest;
  };
};

// out: the position of one element of each row along a dimension, in which its size is 1.
struct NthIndex {
  static constexpr KernelInfo kInfo{"nth", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out, x;
  };
  template <class T>
  struct Numbers {
    T dim;
    T which;   // Nth of core/kernel_numbers.h
    T number;  // of Nth::Smallest
  };
};

// Which group of equal neighbours each element of x [n] is in. A NaN equals nothing.
struct GroupEqual {
  static constexpr KernelInfo kInfo{"group_equal", Anchor::General, 2};
  template <class T>
  struct Tensors {
    T group, count;  // [n], [1]: int64
    T x;
  };
  template <class T>
  using Numbers = None<T>;
};

// The first of each group, the group of each element, and how many a group has. All are contiguous
// and of one dimension.
struct Unique {
  static constexpr KernelInfo kInfo{"unique", Anchor::General, 3};
  template <class T>
  struct Tensors {
    T values, inverse, counts;
    T sorted;
    T order;  // positions before sorting; undefined: they were not sorted
    T group;  // as above
  };
  template <class T>
  using Numbers = None<T>;
};

}  // namespace pyflame::kernels
