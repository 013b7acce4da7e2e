// Decompositions and solvers of one matrix in blocks, whose cut follows from its shape: each block
// is a call of the library on one thread, those that do not wait for each other run at once.
// Matrices lie by columns, as in LAPACK.
#pragma once

#include <algorithm>
#include <complex>
#include <cstdint>
#include <utility>

#include "cpu/lapack.h"
#include "cpu/linalg_tiles.h"
#include "cpu/scratch.h"
#include "cpu/threads.h"

namespace pyflame::cpu {

template <class T>
struct RealPart {
  using type = T;
};
template <class R>
struct RealPart<std::complex<R>> {
  using type = R;
};
template <class T>
using RealOf = typename RealPart<T>::type;
template <class T>
inline constexpr bool kIsComplex = !std::is_same_v<T, RealOf<T>>;

// How wide blocks and slices are. Up to kWhole the library's own blocks do.
inline constexpr int64_t kBlockWidth = 128, kSliceWidth = 128, kWhole = 512;

// From here on LU and systems of real numbers are ours (linalg_tiles.h).
inline constexpr int64_t kLeastTiled = 64;

// C -= op(A) op(B), [m, n] of k terms.
template <class T>
void subtract_product(const Lapack& l, char ta, char tb, int64_t m, int64_t n, int64_t k,
                      const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc) {
  if (m <= 0 || n <= 0 || k <= 0) return;
  l.blas<T>(Routine::gemm, ta, tb, m, n, k, T(-1), a, lda, b, ldb, T(1), c, ldc);
}

// The width of slices to which reflections are applied: each prepares the blocks anew.
inline int64_t reflected_width(int64_t n) {
  return std::max<int64_t>(64, (n + 3) / 4);
}

// fn(begin, end) over slices of [0, n), several at once.
template <class F>
void each_slice(const Lapack& l, int64_t n, int64_t width, F&& fn) {
  const int64_t slices = (n + width - 1) / width;
  parallel_for(slices, 1, [&](int64_t b, int64_t e) {
    Lapack::Alone alone(l);
    for (int64_t s = b; s < e; ++s) fn(s * width, std::min(n, (s + 1) * width));
  });
}

// The Cholesky factor of one triangle, in place; info as potrf's.
template <class T>
int64_t cholesky_one(const Lapack& l, char uplo, int64_t n, T* a, int64_t lda) {
  if (n <= kWhole) {
    Lapack::Alone alone(l);
    return l.operator()<T>(Routine::potrf, uplo, n, a, lda);
  }
  const bool upper = uplo == 'U';
  const char h = kIsComplex<T> ? 'C' : 'T';
  const int64_t width = 2 * kBlockWidth;
  for (int64_t k = 0; k < n; k += width) {
    const int64_t kb = std::min(width, n - k), rest = n - k - kb;
    T* d = a + k + k * lda;
    {
      Lapack::Alone alone(l);
      if (const int64_t info = l.operator()<T>(Routine::potrf, uplo, kb, d, lda))
        return info > 0 ? info + k : info;
    }
    // Beside the block, then all that is left, in tiles of the triangle.
    T* side = upper ? d + kb * lda : d + kb;
    each_slice(l, rest, kSliceWidth, [&](int64_t b, int64_t e) {
      if (upper)
        l.blas<T>(Routine::trsm, 'L', 'U', h, 'N', kb, e - b, T(1), d, lda, side + b * lda, lda);
      else
        l.blas<T>(Routine::trsm, 'R', 'L', h, 'N', e - b, kb, T(1), d, lda, side + b, lda);
    });
    T* left = d + kb + kb * lda;
    const int64_t tiles = (rest + width - 1) / width;
    parallel_for(tiles * (tiles + 1) / 2, 1, [&](int64_t begin, int64_t end) {
      Lapack::Alone alone(l);
      for (int64_t t = begin; t < end; ++t) {
        int64_t i = 0, j = t;  // of the lower triangle of tiles, a row after the other
        while (j > i) j -= ++i;
        const int64_t i0 = i * width, j0 = j * width, ni = std::min(width, rest - i0),
                      nj = std::min(width, rest - j0);
        if (upper)
          subtract_product(l, h, 'N', nj, ni, kb, side + j0 * lda, lda, side + i0 * lda, lda,
                           left + j0 + i0 * lda, lda);
        else
          subtract_product(l, 'N', h, ni, nj, kb, side + i0, lda, side + j0, lda,
                           left + i0 + j0 * lda, lda);
      }
    });
  }
  return 0;
}

template <class T>
void swap_rows(T* a, int64_t lda, int64_t columns, const int32_t* pivots, int64_t from,
               int64_t to) {
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = from; i < to; ++i)
      if (const int64_t p = pivots[i] - 1; p != i) std::swap(a[i + j * lda], a[p + j * lda]);
}

// LU of a panel by the library, pivots in 32 bits.
template <class T>
int64_t lu_panel(const Lapack& l, int64_t m, int64_t n, T* a, int64_t lda, int32_t* pivots) {
  Lapack::Alone alone(l);
  if (!l.wide_integers()) return l.operator()<T>(Routine::getrf, m, n, a, lda, pivots);
  constexpr int64_t kMost = 1024;
  int64_t wide[kMost];
  const int64_t count = std::min(m, n);
  const int64_t info = l.operator()<T>(Routine::getrf, m, n, a, lda, wide);
  for (int64_t i = 0; i < count; ++i) pivots[i] = static_cast<int32_t>(wide[i]);
  return info;
}

template <class T>
int64_t lu_one(const Lapack& l, int64_t m, int64_t n, T* a, int64_t lda, int32_t* pivots) {
  const int64_t count = std::min(m, n);
  if constexpr (!kIsComplex<T>)
    if (count >= kLeastTiled) return lu_tiles(m, n, a, lda, pivots);
  const int64_t width = kBlockWidth;
  if (count <= width) return lu_panel(l, m, n, a, lda, pivots);
  int64_t info = 0;
  for (int64_t k = 0; k < count; k += width) {
    const int64_t kb = std::min(width, count - k);
    T* d = a + k + k * lda;
    const int64_t here = lu_panel(l, m - k, kb, d, lda, pivots + k);
    if (here && !info) info = here > 0 ? here + k : here;
    for (int64_t i = k; i < k + kb; ++i) pivots[i] += static_cast<int32_t>(k);
    // Slices of the columns before and behind the panel.
    const int64_t behind = n - k - kb;
    const int64_t before = (k + kSliceWidth - 1) / kSliceWidth;
    const int64_t slices = before + (behind + kSliceWidth - 1) / kSliceWidth;
    parallel_for(slices, 1, [&](int64_t b, int64_t e) {
      Lapack::Alone alone(l);
      for (int64_t s = b; s < e; ++s) {
        if (s < before) {
          const int64_t j = s * kSliceWidth;
          swap_rows(a + j * lda, lda, std::min(kSliceWidth, k - j), pivots, k, k + kb);
          continue;
        }
        const int64_t j = (s - before) * kSliceWidth, w = std::min(kSliceWidth, behind - j);
        T* slice = a + (k + kb + j) * lda;
        swap_rows(slice, lda, w, pivots, k, k + kb);
        l.blas<T>(Routine::trsm, 'L', 'L', 'N', 'U', kb, w, T(1), d, lda, slice + k, lda);
        subtract_product(l, 'N', 'N', m - k - kb, w, kb, d + kb, lda, slice + k, lda,
                         slice + k + kb, lda);
      }
    });
  }
  return info;
}

// Householder's vectors of a tall or wide matrix, panel by panel. `work`: at least reflect_work().
inline constexpr int64_t kPanel = 64;
inline int64_t reflect_work(int64_t m, int64_t n) {
  return 64 * (std::max(m, n) + kPanel) + 64 * 65;
}

// The columns [from, n) of `c` [m, n] times the reflections of a panel [m, k], or their adjoint.
template <class T>
void reflect(const Lapack& l, char trans, int64_t m, int64_t k, const T* v, int64_t ldv,
             const T* tau, T* c, int64_t n, int64_t ldc) {
  if (n <= 0) return;
  const int64_t width = std::max<int64_t>(kSliceWidth, (n + 3) / 4), work = reflect_work(m, width);
  parallel_with((n + width - 1) / width, 1, static_cast<size_t>(work) * sizeof(T),
                [&](int64_t b, int64_t e, char* memory) {
                  Lapack::Alone alone(l);
                  for (int64_t i = b; i < e; ++i) {
                    const int64_t j = i * width;
                    l.operator()<T>(Routine::ormqr, 'L', trans, m, std::min(width, n - j), k, v,
                                    ldv, tau, c + j * ldc, ldc, reinterpret_cast<T*>(memory), work);
                  }
                });
}

template <class T>
void qr_one(const Lapack& l, int64_t m, int64_t n, T* a, T* tau, T* work) {
  const int64_t count = std::min(m, n);
  const char h = kIsComplex<T> ? 'C' : 'T';
  for (int64_t k = 0; k < count; k += kPanel) {
    const int64_t kb = std::min(kPanel, count - k);
    T* d = a + k + k * m;
    {
      Lapack::Alone alone(l);
      l.operator()<T>(Routine::geqrf, m - k, kb, d, m, tau + k, work, reflect_work(m, n));
    }
    reflect(l, h, m - k, kb, d, m, tau + k, d + kb * m, n - k - kb, m);
  }
}

// The first n columns of the product of k reflections, in place of their vectors.
template <class T>
void q_one(const Lapack& l, int64_t m, int64_t n, int64_t k, T* a, const T* tau, T* work) {
  // From the last panel: columns beyond it are those of the identity, times the panels before.
  for (int64_t j = k; j < n; ++j) {
    std::fill(a + j * m, a + (j + 1) * m, T(0));
    a[j * m + j] = T(1);
  }
  for (int64_t from = k <= 0 ? -1 : (k - 1) / kPanel * kPanel; from >= 0; from -= kPanel) {
    const int64_t kb = std::min(kPanel, k - from);
    T* d = a + from + from * m;
    reflect(l, 'N', m - from, kb, d, m, tau + from, d + kb * m, n - from - kb, m);
    Lapack::Alone alone(l);
    l.operator()<T>(Routine::orgqr, m - from, kb, kb, d, m, tau + from, work, reflect_work(m, n));
    for (int64_t j = from; j < from + kb; ++j) std::fill(a + j * m, a + j * m + from, T(0));
  }
}

// X of X op(M) = B, in place of B [k, n] (by columns), M [n, n] triangular: the product with what
// is known, then the triangle of a block. Slices of B's rows are independent.
template <class T>
void solve_right(const Lapack& l, char uplo, char trans, char unit, int64_t k, int64_t n,
                 const T* m, int64_t ldm, T* b, int64_t ldb) {
  // X op(M): forwards from the first column when op(M) is upper.
  const bool forwards = (uplo == 'U') == (trans == 'N');
  const int64_t width = n <= 64 ? n : 64;
  const auto at = [&](int64_t i, int64_t j) {
    return trans == 'N' ? m + i + j * ldm : m + j + i * ldm;
  };
  each_slice(l, k, kSliceWidth, [&](int64_t r0, int64_t r1) {
    T* x = b + r0;
    const int64_t blocks = n == 0 ? 0 : (n + width - 1) / width;
    for (int64_t step = 0; step < blocks; ++step) {
      const int64_t block = forwards ? step : blocks - 1 - step;
      const int64_t j = block * width, w = std::min(width, n - j);
      const int64_t known = forwards ? 0 : j + w, count = forwards ? j : n - j - w;
      subtract_product(l, 'N', trans, r1 - r0, w, count, x + known * ldb, ldb, at(known, j), ldm,
                       x + j * ldb, ldb);
      l.blas<T>(Routine::trsm, 'R', uplo, trans, unit, r1 - r0, w, T(1), m + j + j * ldm, ldm,
                x + j * ldb, ldb);
    }
  });
}

}  // namespace pyflame::cpu
