// Kernels that move elements, of any strides.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

// `x`, of out's rank or less and with sizes of 1 spread, converted where dtypes differ.
struct Copy {
  static constexpr KernelInfo kInfo{"copy", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out, x;
  };
  template <class T>
  using Numbers = None<T>;
};

// One number everywhere, for dtypes without arithmetic: an integer for integral ones.
struct Fill {
  static constexpr KernelInfo kInfo{"fill", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out;
  };
  template <class T>
  struct Numbers {
    T value;
  };
};

// Tensors one behind the other along a dimension.
struct Cat {
  static constexpr KernelInfo kInfo{"cat", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out;
    T part;  // the first of them; what has no address is empty
  };
  template <class T>
  struct Numbers {
    T dim;
  };
};

// Some dimensions turned round: those with a bit in `dims`.
struct Flip {
  static constexpr KernelInfo kInfo{"flip", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out, x;
  };
  template <class T>
  struct Numbers {
    T dims;
  };
};

// out[(i + shift) mod n] = x[i] along a dimension; shift is in [0, n).
struct Roll {
  static constexpr KernelInfo kInfo{"roll", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out, x;
  };
  template <class T>
  struct Numbers {
    T dim, shift;
  };
};

// Of matrices what lies above a diagonal and on it (upper), or on it and below; zeros elsewhere.
struct Triangle {
  static constexpr KernelInfo kInfo{"triangle", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out, x;  // may be one
  };
  template <class T>
  struct Numbers {
    T diagonal, upper;
  };
};

// Zeros, to which `x` is added where a view of `out`, which is contiguous, lies.
struct ScatterView {
  static constexpr KernelInfo kInfo{"scatter_view", Anchor::General, 1};
  template <class T>
  struct Tensors {
    T out, x;
  };
  template <class T>
  struct Numbers {
    T offset;
    T overlaps;  // several elements of the view may be one of out's
    T strides;   // the first of them, one for each dimension of x
  };
};

}  // namespace pyflame::kernels
