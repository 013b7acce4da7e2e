// Decompositions and what they solve. Every tensor is [batch, ...] without gaps; "by columns" means
// that the last dimension of a matrix's tensor runs down its columns, as LAPACK has it. `info` says
// of each matrix (int32) how it went: 0 well, above 0 as LAPACK says (a pivot of 0, no
// convergence), -1: it holds NaN or an infinity.
#pragma once

#include "table/kernel.h"

namespace pyflame::kernels {

// Row-major, in place: the triangle that is asked for, zeros in the other.
struct Cholesky {
  static constexpr KernelInfo kInfo{"cholesky", Anchor::General, 2, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T a, info;
  };
  template <class T>
  struct Numbers {
    T upper;
  };
};

// By columns, in place; pivots int32, from 1, as LAPACK counts them.
struct LuFactor {
  static constexpr KernelInfo kInfo{"lu_factor", Anchor::General, 3, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T a, pivots, info;
  };
  template <class T>
  using Numbers = None<T>;
};

// X of A X = B, in place of B (row-major), A as LuFactor leaves it. mode 0: A; 1: its transpose;
// 2: its adjoint.
struct LuSolve {
  static constexpr KernelInfo kInfo{"lu_solve", Anchor::General, 1, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T b;
    T lu, pivots;
  };
  template <class T>
  struct Numbers {
    T mode;
  };
};

// X of A X = B, in place of B; both row-major. A is lower or upper triangular; the other triangle
// is not read. `transposed`: the tensor `a` is A's transpose (and `upper` still says what A is).
struct TriangularSolve {
  static constexpr KernelInfo kInfo{"triangular_solve", Anchor::General, 1, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T b;
    T a;
  };
  template <class T>
  struct Numbers {
    T upper, transposed, unit;
  };
};

// Householder vectors below R, by columns, in place.
struct Geqrf {
  static constexpr KernelInfo kInfo{"geqrf", Anchor::General, 2, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T a, tau;
  };
  template <class T>
  using Numbers = None<T>;
};
// The columns of Q, in place of the vectors (by columns).
struct Orgqr {
  static constexpr KernelInfo kInfo{"orgqr", Anchor::General, 1, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T a;
    T tau;
  };
  template <class T>
  using Numbers = None<T>;
};
// C becomes Q C, Q' C, C Q or C Q'; C and the vectors by columns.
struct Ormqr {
  static constexpr KernelInfo kInfo{"ormqr", Anchor::General, 1, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T c;
    T a, tau;
  };
  template <class T>
  struct Numbers {
    T left, transpose;
  };
};

// u, vh by columns (undefined: singular values alone); a is destroyed.
struct Svd {
  static constexpr KernelInfo kInfo{"svd", Anchor::General, 5, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T s, info, a, u{}, vh{};
  };
  template <class T>
  struct Numbers {
    T full;
  };
};

// Eigenvectors by columns in place of a, if `vectors`; else a is destroyed. Of a's triangles one is
// read.
struct Eigh {
  static constexpr KernelInfo kInfo{"eigh", Anchor::General, 3, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T w, info, a;
  };
  template <class T>
  struct Numbers {
    T upper, vectors;
  };
};

// w and v (by columns; undefined: not wanted) are complex; a is destroyed.
struct Eig {
  static constexpr KernelInfo kInfo{"eig", Anchor::General, 4, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T w, info, a, v{};
  };
  template <class T>
  using Numbers = None<T>;
};

// The solution in the first rows of b [batch, columns, max(m, n)], by columns; a is destroyed.
// driver 0: gels, 1: gelsy, 2: gelsd, 3: gelss.
struct Lstsq {
  static constexpr KernelInfo kInfo{"lstsq", Anchor::General, 5, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T b, a, rank, s, info;
  };
  template <class T>
  struct Numbers {
    T driver, rcond;
  };
};

// L D L^T (hermitian: L D L^H) of one triangle, by columns, in place.
struct LdlFactor {
  static constexpr KernelInfo kInfo{"ldl_factor", Anchor::General, 3, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T a, pivots, info;
  };
  template <class T>
  struct Numbers {
    T hermitian;
  };
};
struct LdlSolve {
  static constexpr KernelInfo kInfo{"ldl_solve", Anchor::General, 1, Layout::RowMajor};
  template <class T>
  struct Tensors {
    T b;  // by columns
    T ld, pivots;
  };
  template <class T>
  struct Numbers {
    T hermitian;
  };
};

}  // namespace pyflame::kernels
