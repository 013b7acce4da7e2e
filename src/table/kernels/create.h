// Kernels that make values from a formula of the index. Results are contiguous.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

// start + i * step, the numbers of the output's kind.
struct Arange {
  static constexpr KernelInfo kInfo{"arange", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out;
  };
  template <class T>
  struct Numbers {
    T start, step;
  };
};

// From both ends to the middle, so that the last one is exactly `end`. `base`: 0 for these numbers,
// otherwise base to the power of them.
struct Linspace {
  static constexpr KernelInfo kInfo{"linspace", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out;
  };
  template <class T>
  struct Numbers {
    T start, end, base;
  };
};

// out [rows, columns]: ones on the diagonal.
struct Eye {
  static constexpr KernelInfo kInfo{"eye", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out;
  };
  template <class T>
  using Numbers = None<T>;
};

// out [2, n]: rows and columns of a triangle, row by row. Slanted rows differ by one in length;
// whole ones come before (upper) or after them.
struct TriangleIndices {
  static constexpr KernelInfo kInfo{"triangle_indices", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out;
  };
  template <class T>
  struct Numbers {
    T upper, columns;
    T low, slope;  // the first slanted row, how many there are
    T shortest;    // the length of the shortest of them
  };
};

}  // namespace pyflame::kernels
