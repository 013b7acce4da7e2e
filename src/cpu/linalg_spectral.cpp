// Singular values and eigenvalues. A matrix becomes bidiagonal or tridiagonal, small vectors are
// found for that by LAPACK's divide and conquer, and the reflections are applied to them in slices
// of columns that threads share. A matrix with NaN or an infinity is refused (info -1) before
// anything iterates over it.
#include "table/kernels/linalg.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "cpu/gemm_own.h"
#include "cpu/kernel.h"
#include "cpu/linalg.h"

namespace pyflame::cpu {
namespace {

using kernels::tensors;

// The largest magnitude of real and imaginary parts; not finite where one is not. As integers
// magnitudes have the same order, NaN above infinity.
template <class T>
RealOf<T> extent_of(const T* x, int64_t n) {
  using R = RealOf<T>;
  using Bits = std::conditional_t<sizeof(R) == 4, int32_t, int64_t>;
  const auto* r = reinterpret_cast<const R*>(x);
  n *= kIsComplex<T> ? 2 : 1;
  Bits most = 0;
  for (int64_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, r + i, sizeof bits);
    most = std::max<Bits>(most, bits & std::numeric_limits<Bits>::max());
  }
  R found;
  std::memcpy(&found, &most, sizeof found);
  return found;
}

// What a matrix of so large elements is multiplied by so that squares of its elements neither
// overflow nor vanish; a power of two.
template <class R>
R scale_for(R extent) {
  const R small = std::ldexp(R(1), std::numeric_limits<R>::min_exponent / 2 + 30);
  if (extent == 0 || (extent >= small && extent <= 1 / small)) return 1;
  return std::ldexp(R(1), -std::ilogb(extent));
}
template <class T>
void scale(T* x, int64_t n, RealOf<T> by) {
  if (by != 1)
    for (int64_t i = 0; i < n; ++i) x[i] *= by;
}

template <class T>
char adjoint() {
  return kIsComplex<T> ? 'C' : 'T';
}

// ---- singular values ----------------------------------------------------------------------------

template <class T>
struct SvdOne {
  using R = RealOf<T>;
  const Lapack& l;
  int64_t m, n;  // m >= n
  bool full, vectors;

  bool tall() const { return m * 5 >= n * 8; }
  // Elements of T: reflections' factors, R, workspace of blocked routines; of R: the rest.
  int64_t rows() const { return tall() ? n : m; }
  // Complex ones lie in front of other memory of ours: OpenBLAS 0.3.21 reads columns behind them.
  int64_t copied() const { return tall() || kIsComplex<T> ? rows() * n : 0; }
  int64_t block_work() const { return 64 * (m + n) + 64 * 65; }
  int64_t floats() const {
    return n + (vectors ? 2 * n * n + 3 * n * n + 8 * n : 8 * n) + 8 * n * 2 + 64;
  }
  int64_t work() const {
    const int64_t per = kIsComplex<T> ? 2 : 1;
    return 3 * n + copied() + block_work() + (floats() + per - 1) / per + 64;
  }

  // Two halves are solved at once, and joined.
  bool halved() const { return vectors && n >= 128; }
  // A column of U before reflections: of the small vectors, or of the identity.
  void begin_column(T* u, int64_t j, const R* u1, const int64_t* order) const {
    T* c = u + j * m;
    std::fill(c, c + m, T(0));
    if (j < n)
      std::copy(u1 + order[j] * n, u1 + order[j] * n + n, c);
    else
      c[j] = T(1);
  }

  int64_t run(T* a, R* s, T* u, T* vh, T* memory) const {
    const R extent = extent_of(a, m * n);
    if (!std::isfinite(extent)) return -1;
    const R by = scale_for(extent);
    scale(a, m * n, by);
    T *tau = memory, *tauq = tau + n, *taup = tauq + n, *next = taup + n;
    T* b = a;
    int64_t info = 0, brows = m;
    T* w = next + copied();
    const int64_t size = block_work();
    R* e = reinterpret_cast<R*>(w + size);
    R *u1 = e + n, *v1 = u1 + (vectors ? n * n : 0), *rest = v1 + (vectors ? n * n : 0);
    const int64_t rest_size = vectors ? 3 * n * n + 8 * n : 8 * n;
    // Integers are 8 bytes: twice as many R as float32 has.
    auto* integers =
        reinterpret_cast<int64_t*>((reinterpret_cast<uintptr_t>(rest + rest_size) + 7) / 8 * 8);
    {
      Lapack::Alone alone(l);
      if (tall()) {
        l.operator()<T>(Routine::geqrf, m, n, a, m, tau, w, size);
        b = next;
        brows = n;
        for (int64_t j = 0; j < n; ++j) {
          std::copy(a + j * m, a + j * m + j + 1, b + j * n);
          std::fill(b + j * n + j + 1, b + j * n + n, T(0));
        }
      } else if (kIsComplex<T>) {
        b = std::copy(a, a + m * n, next) - m * n;
      }
      l.operator()<T>(Routine::gebrd, brows, n, b, brows, s, e, tauq, taup, w, size);
      R none{};
      if (!halved())
        info =
            l.operator()<R>(Routine::bdsdc, 'U', vectors ? 'I' : 'N', n, s, e, vectors ? u1 : &none,
                            n, vectors ? v1 : &none, n, &none, &none, rest, integers);
    }
    int64_t* const order = integers + 7 * n;  // where the vectors of the j-th value stand
    std::iota(order, order + n, 0);
    if (halved()) info = join_halves(s, e, u1, v1, rest, integers, order);
    scale(s, n, 1 / by);
    if (info || !vectors) return info;
    const int64_t columns = full ? m : n;
    if constexpr (!kIsComplex<T>)
      if (n >= kLeastTiled) {
        // V by columns, where the small U was: turned, in order, and back in the end.
        parallel_for(columns + n, 32, [&](int64_t begin, int64_t end) {
          for (int64_t j = begin; j < std::min(end, columns); ++j) begin_column(u, j, u1, order);
          const int64_t from = std::max<int64_t>(begin - columns, 0), more = end - columns - from;
          if (more > 0) micro::turn(v1 + from, n, static_cast<int>(n), more, n, rest + from * n);
        });
        parallel_for(n, 32, [&](int64_t begin, int64_t end) {
          for (int64_t j = begin; j < end; ++j)
            std::copy(rest + order[j] * n, rest + order[j] * n + n, u1 + j * n);
        });
        reflect_tiles(brows, columns, Reflections<T>{n, b, 1, brows, tauq}, u, m);
        if (tall()) reflect_tiles(m, columns, Reflections<T>{n, a, 1, m, tau}, u, m);
        reflect_tiles(n - 1, n, Reflections<T>{n - 1, b + brows, brows, 1, taup}, u1 + 1, n);
        parallel_for(n, 32, [&](int64_t begin, int64_t end) {
          micro::turn(u1 + begin, n, static_cast<int>(n), end - begin, n, vh + begin * n);
        });
        return 0;
      }
    // Slices of the columns of U and of the rows of V', of which there are as many as columns.
    const int64_t width = reflected_width(n);
    const int64_t us = (columns + width - 1) / width, vs = (n + width - 1) / width;
    const int64_t own = 64 * (m + width) + 64 * 65;
    parallel_with(us + vs, 1, static_cast<size_t>(own) * sizeof(T),
                  [&](int64_t begin, int64_t end, char* memory_of_slice) {
                    Lapack::Alone alone(l);
                    T* mine = reinterpret_cast<T*>(memory_of_slice);
                    for (int64_t i = begin; i < end; ++i) {
                      if (i < us) {
                        const int64_t j0 = i * width, j1 = std::min(columns, j0 + width);
                        T* x = u + j0 * m;
                        for (int64_t j = j0; j < j1; ++j) begin_column(u, j, u1, order);
                        l.operator()<T>(Routine::ormbr, 'Q', 'L', 'N', brows, j1 - j0, n, b, brows,
                                        tauq, x, m, mine, own);
                        if (tall())
                          l.operator()<T>(Routine::ormqr, 'L', 'N', m, j1 - j0, n, a, m, tau, x, m,
                                          mine, own);
                      } else {
                        const int64_t r0 = (i - us) * width, r1 = std::min(n, r0 + width);
                        for (int64_t j = 0; j < n; ++j)
                          for (int64_t r = r0; r < r1; ++r) vh[j * n + r] = v1[j * n + order[r]];
                        l.operator()<T>(Routine::ormbr, 'P', 'R', adjoint<T>(), r1 - r0, n, n, b,
                                        brows, taup, vh + r0, n, mine, own);
                      }
                    }
                  });
    return 0;
  }

 private:
  // Values and vectors of the bidiagonal matrix, as bdsdc has them.
  int64_t join_halves(R* d, R* e, R* u, R* v, R* rest, int64_t* ints, int64_t* order) const {
    R size = 0;
    for (int64_t i = 0; i < n; ++i) size = std::max(size, std::abs(d[i]));
    for (int64_t i = 0; i + 1 < n; ++i) size = std::max(size, std::abs(e[i]));
    for (R* x : {u, v}) {
      std::fill(x, x + n * n, R(0));
      for (int64_t i = 0; i < n; ++i) x[i * (n + 1)] = 1;
    }
    if (size == 0) return 0;
    const R least = std::numeric_limits<R>::epsilon() * R(0.45);
    for (int64_t i = 0; i < n; ++i) {
      d[i] /= size;
      if (std::abs(d[i]) < least) d[i] = std::copysign(least, d[i]);
    }
    for (int64_t i = 0; i + 1 < n; ++i) e[i] /= size;
    const int64_t left = (n - 1) / 2, right = n - 1 - left, start = left + 1, leaf = 25;
    int64_t infos[2] = {};
    parallel_for(2, 1, [&](int64_t begin, int64_t end) {
      Lapack::Alone alone(l);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t from = i ? start : 0, h = i ? right : left, wider = 1 - i;
        infos[i] = l.operator()<R>(Routine::lasd0, h, wider, d + from, e + from, u + from * (n + 1),
                                   n, v + from * (n + 1), n, leaf, ints + from * 4,
                                   rest + i * (3 * start * start + 2 * start));
      }
    });
    if (infos[0] || infos[1]) return infos[0] ? infos[0] : infos[1];
    // The order within each half, as integers of the library.
    const bool wide = l.wide_integers();
    auto* shorts = reinterpret_cast<int32_t*>(ints);
    for (const auto& [from, h] : {std::pair(int64_t{0}, left), std::pair(start, right)}) {
      const R* const values = d + from;
      std::iota(order, order + h, 0);
      std::stable_sort(order, order + h,
                       [&](int64_t a, int64_t b) { return values[a] < values[b]; });
      for (int64_t i = 0; i < h; ++i) {
        if (wide)
          ints[from + i] = order[i] + 1;
        else
          shorts[from + i] = static_cast<int32_t>(order[i] + 1);
      }
    }
    Lapack::Alone alone(l);
    const int64_t alone_wider = 0;
    R alpha = d[left], beta = e[left];
    const int64_t info = l.operator()<R>(Routine::lasd1, left, right, alone_wider, d, &alpha, &beta,
                                         u, n, v, n, ints, ints + n, rest);
    std::copy(d, d + n, e);
    for (int64_t j = 0; j < n; ++j) {
      order[j] = (wide ? ints[n - 1 - j] : shorts[n - 1 - j]) - 1;
      d[j] = e[order[j]] * size;
    }
    return info;
  }
};

void svd(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::Svd>;
  const Lapack& l = Lapack::get("linalg.svd");
  const Matrices x(a.tensor(at.a));
  const int64_t m = x.fast, n = x.slow;
  const bool vectors = a.has(at.u), full = a.i(kernels::numbers<kernels::Svd>.full) != 0;
  const int64_t columns = full ? m : n;
  auto* info = a.data<int32_t>(at.info);
  with_type(a.dtype(at.a), [&]<class T>() {
    const SvdOne<T> one{l, m, n, full, vectors};
    parallel_with(
        x.count, matrices_at_once(m * n * n * 4), static_cast<size_t>(one.work()) * sizeof(T),
        [&](int64_t b, int64_t e, char* memory) {
          for (int64_t i = b; i < e; ++i)
            info[i] = static_cast<int32_t>(one.run(
                a.data<T>(at.a) + i * m * n, a.data<RealOf<T>>(at.s) + i * n,
                vectors ? a.data<T>(at.u) + i * m * columns : nullptr,
                vectors ? a.data<T>(at.vh) + i * n * n : nullptr, reinterpret_cast<T*>(memory)));
        });
  });
}

// ---- eigenvalues of symmetric matrices ----------------------------------------------------------

template <class T>
struct EighOne {
  using R = RealOf<T>;
  const Lapack& l;
  int64_t n;
  char uplo;
  bool vectors;

  // Two halves are solved at once, and joined.
  bool halved() const { return vectors && n >= 128; }
  // Of T: reflections' factors, vectors, workspace; of R: off-diagonal, what stedc wants, and of
  // complex matrices the vectors before they are.
  int64_t block_work() const { return std::max<int64_t>(64 * n, 64); }
  int64_t floats() const {
    return 4 + 5 * n + (vectors ? 2 * n * n : 0) + (kIsComplex<T> ? n * n : 0);
  }
  int64_t integers() const { return 12 + 12 * n; }
  int64_t work() const {
    const int64_t bytes = floats() * static_cast<int64_t>(sizeof(R)) + 8 * integers() + 64;
    return n + (vectors ? n * n : 0) + block_work() + bytes / static_cast<int64_t>(sizeof(T)) + 8;
  }

  int64_t run(T* a, R* w, T* memory) const {
    const R extent = extent_of_triangle(a);
    if (!std::isfinite(extent)) return -1;
    const R by = scale_for(extent);
    scale(a, n * n, by);
    T *tau = memory, *z = tau + n, *blocks = z + (vectors ? n * n : 0);
    R* e = reinterpret_cast<R*>(blocks + block_work());
    R *real = e + n, *rest = real + (kIsComplex<T> ? n * n : 0);
    auto* ints =
        reinterpret_cast<int64_t*>((reinterpret_cast<uintptr_t>(e + floats()) + 7) / 8 * 8);
    R* q;  // the small vectors
    if constexpr (kIsComplex<T>)
      q = real;
    else
      q = z;
    // Only the lower triangle is decomposed: of an upper one OpenBLAS 0.3.21 reads columns behind
    // the last (complex64), and its reflections lie otherwise.
    if (uplo == 'U')
      for (int64_t j = 0; j < n; ++j)
        for (int64_t i = 0; i < j; ++i) {
          if constexpr (kIsComplex<T>)
            a[j + i * n] = std::conj(a[i + j * n]);
          else
            a[j + i * n] = a[i + j * n];
        }
    {
      Lapack::Alone alone(l);
      l.operator()<T>(Routine::sytrd, 'L', n, a, n, w, e, tau, blocks, block_work());
    }
    int64_t info;
    if (halved()) {
      info = join_halves(w, e, q, rest, ints);
    } else {
      Lapack::Alone alone(l);
      R none{};
      info = l.operator()<R>(Routine::stedc, vectors ? 'I' : 'N', n, w, e, vectors ? q : &none, n,
                             rest, 1 + 4 * n + (vectors ? n * n : 0), ints, 3 + 5 * n);
      for (int64_t i = 0; i < n; ++i) ints[i] = i;
    }
    if (info || !vectors) {
      scale(w, n, 1 / by);
      return info;
    }
    if constexpr (kIsComplex<T>) std::copy(q, q + n * n, z);
    if constexpr (!kIsComplex<T>)
      if (n >= kLeastTiled) {
        reflect_tiles(n - 1, n, Reflections<T>{n - 1, a + 1, 1, n, tau}, z + 1, n);
        in_order(a, w, e, z, ints, by);
        return 0;
      }
    const int64_t width = reflected_width(n), own = 64 * (n + width) + 64 * 65;
    parallel_with((n + width - 1) / width, 1, static_cast<size_t>(own) * sizeof(T),
                  [&](int64_t begin, int64_t end, char* mine) {
                    Lapack::Alone alone(l);
                    for (int64_t i = begin; i < end; ++i) {
                      const int64_t j = i * width;
                      l.operator()<T>(Routine::ormtr, 'L', 'L', 'N', n, std::min(width, n - j), a,
                                      n, tau, z + j * n, n, reinterpret_cast<T*>(mine), own);
                    }
                  });
    in_order(a, w, e, z, ints, by);
    return 0;
  }

 private:
  // Values and vectors in ascending order.
  void in_order(T* a, R* w, R* e, const T* z, const int64_t* from, R by) const {
    std::copy(w, w + n, e);
    for (int64_t j = 0; j < n; ++j) {
      w[j] = e[from[j]] / by;
      std::copy(z + from[j] * n, z + (from[j] + 1) * n, a + j * n);
    }
  }
  // Cuppen's method, its last step: the matrix without what joins its halves, whose vectors LAPACK
  // then updates for that. Afterwards ints[j] is where the j-th value stands.
  int64_t join_halves(R* d, R* e, R* q, R* rest, int64_t* ints) const {
    R size = 0;
    for (int64_t i = 0; i < n; ++i) size = std::max(size, std::abs(d[i]));
    for (int64_t i = 0; i + 1 < n; ++i) size = std::max(size, std::abs(e[i]));
    if (size == 0) size = 1;
    for (int64_t i = 0; i < n; ++i) d[i] /= size;
    for (int64_t i = 0; i + 1 < n; ++i) e[i] /= size;
    const int64_t cut = n / 2;
    R rho = e[cut - 1];
    d[cut - 1] -= std::abs(rho);
    d[cut] -= std::abs(rho);
    std::fill(q, q + n * n, R(0));
    int64_t infos[2] = {};
    parallel_for(2, 1, [&](int64_t begin, int64_t end) {
      Lapack::Alone alone(l);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t from = i ? cut : 0, h = i ? n - cut : cut;
        infos[i] =
            l.operator()<R>(Routine::stedc, 'I', h, d + from, e + from, q + from * (n + 1), n,
                            rest + i * n * n, 1 + 4 * h + h * h, ints + i * (6 + 6 * n), 3 + 5 * h);
      }
    });
    if (infos[0] || infos[1]) return infos[0] ? infos[0] : infos[1];
    // The order within each half, as integers of the library.
    const bool wide = l.wide_integers();
    auto* shorts = reinterpret_cast<int32_t*>(ints);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t k = i < cut ? i + 1 : i - cut + 1;
      if (wide)
        ints[i] = k;
      else
        shorts[i] = static_cast<int32_t>(k);
    }
    Lapack::Alone alone(l);
    const int64_t info =
        l.operator()<R>(Routine::laed1, n, d, q, n, ints, &rho, cut, rest, ints + 6 + 6 * n);
    for (int64_t i = n - 1; i >= 0 && !wide; --i) ints[i] = shorts[i];
    for (int64_t i = 0; i < n; ++i) --ints[i];
    for (int64_t i = 0; i < n; ++i) d[i] *= size;
    return info;
  }

  R extent_of_triangle(const T* a) const {
    R most = 0;
    for (int64_t j = 0; j < n; ++j) {
      const R here = uplo == 'U' ? extent_of(a + j * n, j + 1) : extent_of(a + j * n + j, n - j);
      if (!std::isfinite(here)) return here;
      most = std::max(most, here);
    }
    return most;
  }
};

void eigh(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::Eigh>;
  constexpr auto number = kernels::numbers<kernels::Eigh>;
  const Lapack& l = Lapack::get("linalg.eigh");
  const Matrices x(a.tensor(at.a));
  const int64_t n = x.fast;
  auto* info = a.data<int32_t>(at.info);
  with_type(a.dtype(at.a), [&]<class T>() {
    const EighOne<T> one{l, n, a.i(number.upper) ? 'U' : 'L', a.i(number.vectors) != 0};
    parallel_with(x.count, matrices_at_once(n * n * n * 4),
                  static_cast<size_t>(one.work()) * sizeof(T),
                  [&](int64_t b, int64_t e, char* memory) {
                    for (int64_t i = b; i < e; ++i)
                      info[i] = static_cast<int32_t>(one.run(a.data<T>(at.a) + i * n * n,
                                                             a.data<RealOf<T>>(at.w) + i * n,
                                                             reinterpret_cast<T*>(memory)));
                  });
  });
}

// ---- eigenvalues of any square matrix -----------------------------------------------------------

void eig(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::Eig>;
  const Lapack& l = Lapack::get("linalg.eig");
  const Matrices x(a.tensor(at.a));
  const int64_t n = x.fast;
  const bool vectors = a.has(at.v);
  auto* info = a.data<int32_t>(at.info);
  with_type(a.dtype(at.a), [&]<class T>() {
    using R = RealOf<T>;
    using C = std::complex<R>;
    T* data = a.data<T>(at.a);
    C *w = a.data<C>(at.w), *v = vectors ? a.data<C>(at.v) : nullptr;
    const char job = vectors ? 'V' : 'N';
    T nothing{};
    R none{};
    const int64_t one = 1;
    int64_t work;
    if constexpr (kIsComplex<T>)
      work = asked<T>([&](T* k, int64_t size) {
        l.operator()<T>(Routine::geev, 'N', job, n, data, n, w, &nothing, one, &nothing, n, k, size,
                        &none);
      });
    else
      work = asked<T>([&](T* k, int64_t size) {
        l.operator()<T>(Routine::geev, 'N', job, n, data, n, &none, &none, &nothing, one, &nothing,
                        n, k, size);
      });
    const int64_t more = 2 * n + (vectors && !kIsComplex<T> ? n * n : 0);
    each_matrix_with<T>(l, x.count, n * n * n * 20, work + more, [&](int64_t i, T* memory) {
      T* m = data + i * n * n;
      C* values = w + i * n;
      if (!std::isfinite(extent_of(m, n * n))) {
        info[i] = -1;
        return;
      }
      C* into = vectors ? v + i * n * n : nullptr;
      if constexpr (kIsComplex<T>) {
        info[i] = static_cast<int32_t>(l.operator()<T>(
            Routine::geev, 'N', job, n, m, n, values, &nothing, one, vectors ? into : &nothing, n,
            memory + more, work, reinterpret_cast<R*>(memory)));
      } else {
        T *re = memory, *im = re + n, *packed = im + n;
        info[i] = static_cast<int32_t>(l.operator()<T>(Routine::geev, 'N', job, n, m, n, re, im,
                                                       &nothing, one, vectors ? packed : &nothing,
                                                       n, memory + more, work));
        for (int64_t j = 0; j < n; ++j) values[j] = C(re[j], im[j]);
        for (int64_t j = 0; vectors && j < n; ++j) {
          // A pair of conjugate values has its vectors' real and imaginary parts side by side.
          const T* column = packed + j * n;
          C* to = into + j * n;
          if (im[j] == 0 || j + 1 == n) {
            for (int64_t r = 0; r < n; ++r) to[r] = C(column[r], 0);
            continue;
          }
          for (int64_t r = 0; r < n; ++r) {
            to[r] = C(column[r], column[n + r]);
            to[n + r] = C(column[r], -column[n + r]);
          }
          ++j;
        }
      }
    });
  });
}

// ---- least squares ------------------------------------------------------------------------------

void lstsq(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::Lstsq>;
  constexpr auto number = kernels::numbers<kernels::Lstsq>;
  const Lapack& l = Lapack::get("linalg.lstsq");
  const Matrices x(a.tensor(at.a)), y(a.tensor(at.b));
  const int64_t m = x.fast, n = x.slow, k = y.slow, ldb = y.fast, count = std::min(m, n);
  const int64_t driver = a.i(number.driver);
  auto *info = a.data<int32_t>(at.info), *rank = a.data<int32_t>(at.rank);
  with_type(a.dtype(at.a), [&]<class T>() {
    using R = RealOf<T>;
    const R rcond = static_cast<R>(a.f(number.rcond));
    T *da = a.data<T>(at.a), *db = a.data<T>(at.b);
    R* ds = a.data<R>(at.s);
    R query_reals = 0;
    int64_t query_ints = 0;
    // One call; `size` -1 asks.
    auto solve = [&](T* p, T* q, R* s, int64_t* found, T* w, int64_t size, R* reals,
                     int64_t* ints) -> int64_t {
      if (driver == 0) return l.operator()<T>(Routine::gels, 'N', m, n, k, p, m, q, ldb, w, size);
      if constexpr (kIsComplex<T>) {
        if (driver == 1)
          return l.operator()<T>(Routine::gelsy, m, n, k, p, m, q, ldb, ints, rcond, found, w, size,
                                 reals);
        if (driver == 2)
          return l.operator()<T>(Routine::gelsd, m, n, k, p, m, q, ldb, s, rcond, found, w, size,
                                 reals, ints);
        return l.operator()<T>(Routine::gelss, m, n, k, p, m, q, ldb, s, rcond, found, w, size,
                               reals);
      } else {
        if (driver == 1)
          return l.operator()<T>(Routine::gelsy, m, n, k, p, m, q, ldb, ints, rcond, found, w,
                                 size);
        if (driver == 2)
          return l.operator()<T>(Routine::gelsd, m, n, k, p, m, q, ldb, s, rcond, found, w, size,
                                 ints);
        return l.operator()<T>(Routine::gelss, m, n, k, p, m, q, ldb, s, rcond, found, w, size);
      }
    };
    int64_t none = 0;
    const int64_t work = asked<T>(
        [&](T* w, int64_t size) { solve(da, db, ds, &none, w, size, &query_reals, &query_ints); });
    // gelsd says how many it wants; the others' are known.
    const int64_t reals =
        std::max<int64_t>(static_cast<int64_t>(query_reals), 5 * count + 2 * n) + 64;
    const int64_t ints = std::max<int64_t>(static_cast<int32_t>(query_ints), n) + 64;
    const int64_t bytes = static_cast<int64_t>(sizeof(R)) * reals + 8 * ints + 64;
    const int64_t more = bytes / static_cast<int64_t>(sizeof(T)) + 1;
    const int64_t copied = copied_elements<T>(m, n), all = work + more + copied;
    each_matrix_with<T>(l, x.count, m * n * count * 4, all, [&](int64_t i, T* memory) {
      auto* ints_here = reinterpret_cast<int64_t*>(memory);
      auto* reals_here = reinterpret_cast<R*>(ints_here + ints);
      T *p = da + i * m * n, *q = db + i * ldb * k;
      if (!std::isfinite(extent_of(p, m * n))) {
        info[i] = -1;
        return;
      }
      if (copied) {
        std::copy(p, p + m * n, memory + more + work);
        p = memory + more + work;
      }
      std::fill(ints_here, ints_here + n, 0);
      int64_t found = 0;
      info[i] = static_cast<int32_t>(
          solve(p, q, ds + i * count, &found, memory + more, work, reals_here, ints_here));
      rank[i] = static_cast<int32_t>(found);
    });
  });
}

}  // namespace

PF_CPU_KERNEL(kernels::Svd::kInfo, svd)
PF_CPU_KERNEL(kernels::Eigh::kInfo, eigh)
PF_CPU_KERNEL(kernels::Eig::kInfo, eig)
PF_CPU_KERNEL(kernels::Lstsq::kInfo, lstsq)

}  // namespace pyflame::cpu
