// Reading and writing by index. Indices are int64; wrong ones are reported, clamped by what reads,
// left out by what writes. What meets in one place is combined in the order of the indices. Fresh
// results are contiguous, what is read has any strides.
#pragma once

#include <cstdint>

#include "table/kernel.h"

namespace pyflame::kernels {

// out [before, index shape, after] = x [before, indexed, after] at the places of index tensors.
struct Index {
  static constexpr KernelInfo kInfo{"index", Anchor::General, 1, Layout::Strided, Indices::Places};
  template <class T>
  struct Tensors {
    T out, x;
    T index;  // the first of them, one for each indexed dimension, all of one shape
  };
  template <class T>
  struct Numbers {
    T before, indexed;  // how many dimensions
    T wrap;             // negative indices count from the end
  };
};

// x [before, indexed, after], in place, gets values [before, index shape, after].
struct IndexPut {
  static constexpr KernelInfo kInfo{"index_put", Anchor::General, 1, Layout::Strided,
                                    Indices::Places};
  template <class T>
  struct Tensors {
    T x, values;
    T index;  // as above
  };
  template <class T>
  struct Numbers {
    T before, indexed, accumulate;
  };
};

// out[i][j] = x[i][index[i][j]] along a dimension.
struct Gather {
  static constexpr KernelInfo kInfo{"gather", Anchor::General, 1, Layout::Strided, Indices::Places};
  template <class T>
  struct Tensors {
    T out, x, index;
  };
  template <class T>
  struct Numbers {
    T dim;
  };
};

// How what is written is combined with what is there.
enum ScatterMode : int64_t { kAssign, kAdd, kMultiply, kMax, kMin };

// out[i][index[i][j]], in place, is combined with src[i][j] along a dimension.
struct Scatter {
  static constexpr KernelInfo kInfo{"scatter", Anchor::General, 1, Layout::Strided,
                                    Indices::Places};
  template <class T>
  struct Tensors {
    T out, index, src;  // the last two of one shape
  };
  template <class T>
  struct Numbers {
    T dim, mode;
    T skip;  // an index to leave out, or INT64_MIN
  };
};

// out [..., classes]: int64, 1 where the index points, else 0.
struct OneHot {
  static constexpr KernelInfo kInfo{"one_hot", Anchor::General, 1, Layout::Strided,
                                    Indices::Places};
  template <class T>
  struct Tensors {
    T out, index;
  };
  template <class T>
  using Numbers = None<T>;
};

// out [bins]: how often each index [n] occurs, or the sums of their weights [n], in an order that
// follows from the sizes.
struct Bincount {
  static constexpr KernelInfo kInfo{"bincount", Anchor::General, 1, Layout::Strided,
                                    Indices::Places};
  template <class T>
  struct Tensors {
    T out, index, weights{};
  };
  template <class T>
  using Numbers = None<T>;
};

// sums [bins], float64: of the weights (or ones) of values x [n] in bins between edges [bins + 1],
// of about equal widths; the last edge belongs to the last bin. Values outside, NaN, and weights
// that are negative or no finite numbers are left out, unless `any` of them count; left_out [1],
// int64, says how many.
struct BinnedSums {
  static constexpr KernelInfo kInfo{"binned_sums", Anchor::General, 2, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T sums, left_out, x, edges, weights{};  // weights of x's dtype
  };
  template <class T>
  struct Numbers {
    T any;
  };
};

// How many of the sorted boundaries are below each value, or (right) not above it.
struct Searchsorted {
  static constexpr KernelInfo kInfo{"searchsorted", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out;  // int64
    T values;
    T sorted;  // contiguous; [n], or a row for each row of values
  };
  template <class T>
  struct Numbers {
    T right;
  };
};

// out: int64 [1].
struct CountTrue {
  static constexpr KernelInfo kInfo{"count_true", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out, x;
  };
  template <class T>
  using Numbers = None<T>;
};

// out [count, dimensions of x]: int64, where x is not 0.
struct Nonzero {
  static constexpr KernelInfo kInfo{"nonzero", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out, x;
  };
  template <class T>
  using Numbers = None<T>;
};

// out [count]: what the mask, a bool tensor of x's shape, keeps of x.
struct MaskedSelect {
  static constexpr KernelInfo kInfo{"masked_select", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out, x, mask;
  };
  template <class T>
  using Numbers = None<T>;
};

// True places of out, in place, take the elements of `src`, which is contiguous, in turn.
struct MaskedScatter {
  static constexpr KernelInfo kInfo{"masked_scatter", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out, mask, src;
  };
  template <class T>
  using Numbers = None<T>;
};

}  // namespace pyflame::kernels
