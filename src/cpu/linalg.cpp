// Decompositions that end after a known number of steps, and what they solve: LAPACK's, a batch's
// matrices shared out to threads, large ones cut into blocks.
#include "table/kernels/linalg.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cpu/kernel.h"
#include "cpu/linalg.h"
#include "cpu/linalg_blocked.h"
#include "cpu/linalg_tiles.h"
#include "cpu/scratch.h"

namespace pyflame::cpu {
namespace {

using kernels::tensors;

void cholesky(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::Cholesky>;
  const Lapack& l = Lapack::get("linalg.cholesky");
  const Matrices m(a.tensor(at.a));
  const bool upper = a.i(kernels::numbers<kernels::Cholesky>.upper) != 0;
  auto* info = a.data<int32_t>(at.info);
  const int64_t n = m.fast;
  with_type(a.dtype(at.a), [&]<class T>() {
    T* data = a.data<T>(at.a);
    each_matrix(m.count, n * n * n / 3, [&](int64_t i) {
      T* x = data + i * n * n;
      // Memory that is row-major for us is by columns for LAPACK: the other triangle.
      info[i] = static_cast<int32_t>(cholesky_one(l, upper ? 'L' : 'U', n, x, n));
      for (int64_t r = 0; r < n && info[i] == 0; ++r)  // NaN is not positive: libraries differ
        if (x[r * n + r] != x[r * n + r]) info[i] = static_cast<int32_t>(r + 1);
      // Of a matrix that is not positive the factor of the leading minor that is remains: what else
      // libraries leave behind depends on their blocks.
      const int64_t kept = info[i] > 0 ? info[i] - 1 : n;
      for (int64_t r = 0; r < n; ++r) {
        const int64_t begin = upper ? r : 0, end = r < kept ? (upper ? kept : r + 1) : 0;
        std::fill(x + r * n, x + r * n + std::min(begin, end), T(0));
        std::fill(x + r * n + end, x + r * n + n, T(0));
      }
    });
  });
}

void lu_factor(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::LuFactor>;
  const Lapack& l = Lapack::get("linalg.lu_factor");
  const Matrices m(a.tensor(at.a));
  auto *info = a.data<int32_t>(at.info), *pivots = a.data<int32_t>(at.pivots);
  const int64_t rows = m.fast, columns = m.slow, count = std::min(rows, columns);
  with_type(a.dtype(at.a), [&]<class T>() {
    T* data = a.data<T>(at.a);
    each_matrix(m.count, rows * columns * count, [&](int64_t i) {
      info[i] = static_cast<int32_t>(
          lu_one(l, rows, columns, data + i * rows * columns, rows, pivots + i * count));
    });
  });
}

// Rows of a row-major [n, k], exchanged as pivots say, first to last or back.
template <class T>
void swap_rows_of(T* b, int64_t n, int64_t k, const int32_t* pivots, bool back) {
  for (int64_t s = 0; s < n; ++s) {
    const int64_t i = back ? n - 1 - s : s, p = pivots[i] - 1;
    if (p != i) std::swap_ranges(b + i * k, b + i * k + k, b + p * k);
  }
}

// Whether a system is worth panels: of a few right sides the library's products read less.
template <class T>
bool for_tiles(int64_t n, int64_t k) {
  return !kIsComplex<T> && n >= kLeastTiled && k >= 8;
}

void lu_solve(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::LuSolve>;
  const Lapack& l = Lapack::get("linalg.lu_solve");
  const Matrices m(a.tensor(at.b));
  const int64_t n = m.slow, k = m.fast;
  const int64_t mode = a.i(kernels::numbers<kernels::LuSolve>.mode);
  const auto* pivots = a.data<const int32_t>(at.pivots);
  with_type(a.dtype(at.b), [&]<class T>() {
    T* b = a.data<T>(at.b);
    const T* lu = a.data<const T>(at.lu);
    each_matrix(m.count, n * n * k, [&](int64_t i) {
      T* x = b + i * n * k;  // by columns: the transpose of B, [k, n]
      const T* f = lu + i * n * n;
      const int32_t* p = pivots + i * n;
      if constexpr (!kIsComplex<T>)
        if (for_tiles<T>(n, k)) {
          Scratch<int32_t> memory(n);
          int32_t* const places = memory.get();
          std::iota(places, places + n, 0);
          for (int64_t r = 0; r < n; ++r) std::swap(places[r], places[p[r] - 1]);
          if (mode == 0)
            solve_tiles(n, k, x, {{f, 1, n, false, true}, {f, 1, n, true, false}}, places, nullptr);
          else
            solve_tiles(n, k, x, {{f, n, 1, false, false}, {f, n, 1, true, true}}, nullptr, places);
          return;
        }
      if (mode == 0) {  // X' U' L' P' = B'
        swap_rows_of(x, n, k, p, false);
        solve_right(l, 'L', 'T', 'U', k, n, f, n, x, k);
        solve_right(l, 'U', 'T', 'N', k, n, f, n, x, k);
        return;
      }
      // X' P L U = B' (and of the adjoint the same of conjugates)
      auto conjugate = [&] {
        if constexpr (kIsComplex<T>)
          if (mode == 2)
            for (int64_t e = 0; e < n * k; ++e) x[e] = std::conj(x[e]);
      };
      conjugate();
      solve_right(l, 'U', 'N', 'N', k, n, f, n, x, k);
      solve_right(l, 'L', 'N', 'U', k, n, f, n, x, k);
      swap_rows_of(x, n, k, p, true);
      conjugate();
    });
  });
}

void triangular_solve(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::TriangularSolve>;
  constexpr auto number = kernels::numbers<kernels::TriangularSolve>;
  const Lapack& l = Lapack::get("linalg.solve_triangular");
  const Matrices m(a.tensor(at.b));
  const int64_t n = m.slow, k = m.fast;
  const bool upper = a.i(number.upper) != 0, transposed = a.i(number.transposed) != 0;
  const char unit = a.i(number.unit) ? 'U' : 'N';
  with_type(a.dtype(at.b), [&]<class T>() {
    T* b = a.data<T>(at.b);
    const T* f = a.data<const T>(at.a);
    each_matrix(m.count, n * n * k / 2, [&](int64_t i) {
      if constexpr (!kIsComplex<T>)
        if (for_tiles<T>(n, k)) {
          const Triangle<T> t{f + i * n * n, transposed ? 1 : n, transposed ? n : 1, upper,
                              unit == 'U'};
          return solve_tiles(n, k, b + i * n * k, {t}, nullptr, nullptr);
        }
      // X' A' = B'. The memory of a row-major A is A' by columns, that of its transpose A itself.
      const char uplo = upper == transposed ? 'U' : 'L';
      solve_right(l, uplo, transposed ? 'T' : 'N', unit, k, n, f + i * n * n, n, b + i * n * k, k);
    });
  });
}

void geqrf(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::Geqrf>;
  const Lapack& l = Lapack::get("linalg.qr");
  const Matrices m(a.tensor(at.a));
  const int64_t rows = m.fast, columns = m.slow, count = std::min(rows, columns);
  with_type(a.dtype(at.a), [&]<class T>() {
    T *data = a.data<T>(at.a), *tau = a.data<T>(at.tau);
    const size_t work = static_cast<size_t>(reflect_work(rows, columns)) * sizeof(T);
    parallel_with(m.count, matrices_at_once(rows * columns * count), work,
                  [&](int64_t b, int64_t e, char* memory) {
                    for (int64_t i = b; i < e; ++i)
                      qr_one(l, rows, columns, data + i * rows * columns, tau + i * count,
                             reinterpret_cast<T*>(memory));
                  });
  });
}

void orgqr(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::Orgqr>;
  const Lapack& l = Lapack::get("linalg.householder_product");
  const Matrices m(a.tensor(at.a));
  const pf_tensor& t = a.tensor(at.tau);
  const int64_t rows = m.fast, columns = m.slow, k = t.shape[t.ndim - 1];
  with_type(a.dtype(at.a), [&]<class T>() {
    T* data = a.data<T>(at.a);
    const T* tau = a.data<const T>(at.tau);
    const size_t work = static_cast<size_t>(reflect_work(rows, columns)) * sizeof(T);
    parallel_with(m.count, matrices_at_once(rows * columns * k), work,
                  [&](int64_t b, int64_t e, char* memory) {
                    for (int64_t i = b; i < e; ++i)
                      q_one(l, rows, columns, k, data + i * rows * columns, tau + i * k,
                            reinterpret_cast<T*>(memory));
                  });
  });
}

void ormqr(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::Ormqr>;
  constexpr auto number = kernels::numbers<kernels::Ormqr>;
  const Lapack& l = Lapack::get("ormqr");
  const Matrices m(a.tensor(at.c)), v(a.tensor(at.a));
  const pf_tensor& t = a.tensor(at.tau);
  const int64_t rows = m.fast, columns = m.slow, k = t.shape[t.ndim - 1];
  const char side = a.i(number.left) ? 'L' : 'R';
  const int64_t lda = v.fast;
  with_type(a.dtype(at.c), [&]<class T>() {
    T* c = a.data<T>(at.c);
    const T *data = a.data<const T>(at.a), *tau = a.data<const T>(at.tau);
    const char trans = !a.i(number.transpose) ? 'N' : kIsComplex<T> ? 'C' : 'T';
    const int64_t work = asked<T>([&](T* w, int64_t size) {
      l.operator()<T>(Routine::ormqr, side, trans, rows, columns, k, data, lda, tau, c, rows, w,
                      size);
    });
    each_matrix_with<T>(l, m.count, rows * columns * k, work, [&](int64_t i, T* w) {
      l.operator()<T>(Routine::ormqr, side, trans, rows, columns, k, data + i * v.fast * v.slow,
                      lda, tau + i * k, c + i * rows * columns, rows, w, work);
    });
  });
}

void ldl_factor(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::LdlFactor>;
  const Lapack& l = Lapack::get("linalg.ldl_factor");
  const Matrices m(a.tensor(at.a));
  auto *info = a.data<int32_t>(at.info), *pivots = a.data<int32_t>(at.pivots);
  const int64_t n = m.fast;
  const Routine routine =
      a.i(kernels::numbers<kernels::LdlFactor>.hermitian) ? Routine::hetrf : Routine::sytrf;
  with_type(a.dtype(at.a), [&]<class T>() {
    T* data = a.data<T>(at.a);
    const int64_t work = asked<T>(
        [&](T* w, int64_t size) { l.operator()<T>(routine, 'L', n, data, n, pivots, w, size); });
    // The pivots of a library with long integers lie behind the workspace.
    const int64_t more =
        (n * 8 + static_cast<int64_t>(sizeof(T)) - 1) / static_cast<int64_t>(sizeof(T));
    const int64_t copied = copied_elements<T>(n, n);
    each_matrix_with<T>(l, m.count, n * n * n / 3, more + work + copied, [&](int64_t i, T* w) {
      int32_t* p = pivots + i * n;
      T *own = data + i * n * n, *one = own;
      if (copied) {
        one = w + more + work;
        std::copy(own, own + n * n, one);
      }
      auto* wide = reinterpret_cast<int64_t*>(w);
      void* given = l.wide_integers() ? static_cast<void*>(wide) : p;
      info[i] =
          static_cast<int32_t>(l.operator()<T>(routine, 'L', n, one, n, given, w + more, work));
      if (copied) std::copy(one, one + n * n, own);
      if (l.wide_integers())
        for (int64_t k = 0; k < n; ++k) p[k] = static_cast<int32_t>(wide[k]);
    });
  });
}

void ldl_solve(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::LdlSolve>;
  const Lapack& l = Lapack::get("linalg.ldl_solve");
  const Matrices m(a.tensor(at.b));
  const int64_t n = m.fast, k = m.slow;
  const Routine routine =
      a.i(kernels::numbers<kernels::LdlSolve>.hermitian) ? Routine::hetrs : Routine::sytrs;
  const auto* pivots = a.data<const int32_t>(at.pivots);
  with_type(a.dtype(at.b), [&]<class T>() {
    T* b = a.data<T>(at.b);
    const T* ld = a.data<const T>(at.ld);
    const int64_t more =
        (n * 8 + static_cast<int64_t>(sizeof(T)) - 1) / static_cast<int64_t>(sizeof(T));
    each_matrix_with<T>(l, m.count, n * n * k, more, [&](int64_t i, T* w) {
      const int32_t* p = pivots + i * n;
      auto* wide = reinterpret_cast<int64_t*>(w);
      if (l.wide_integers()) std::copy(p, p + n, wide);
      const void* given = l.wide_integers() ? static_cast<const void*>(wide) : p;
      l.operator()<T>(routine, 'L', n, k, ld + i * n * n, n, given, b + i * n * k, n);
    });
  });
}

}  // namespace

PF_CPU_KERNEL(kernels::Cholesky::kInfo, cholesky)
PF_CPU_KERNEL(kernels::LuFactor::kInfo, lu_factor)
PF_CPU_KERNEL(kernels::LuSolve::kInfo, lu_solve)
PF_CPU_KERNEL(kernels::TriangularSolve::kInfo, triangular_solve)
PF_CPU_KERNEL(kernels::Geqrf::kInfo, geqrf)
PF_CPU_KERNEL(kernels::Orgqr::kInfo, orgqr)
PF_CPU_KERNEL(kernels::Ormqr::kInfo, ormqr)
PF_CPU_KERNEL(kernels::LdlFactor::kInfo, ldl_factor)
PF_CPU_KERNEL(kernels::LdlSolve::kInfo, ldl_solve)

}  // namespace pyflame::cpu
