// A stand-in for hipSOLVER and what hipBLAS adds to it: textbook algorithms in double over matrices
// by columns. Workspaces are overwritten, so that one which is too small or not there shows; so is
// the triangle that nobody may read, which has to be as it was.
#include <algorithm>
#include <cmath>
#include <complex>
#include <type_traits>
#include <vector>

#include "faults.h"
#include "numbers.h"

namespace {
using Z = std::complex<double>;
struct Handle {
  void* stream = nullptr;
};
enum : int { kSuccess = 0, kInvalid = 3, kInternal = 6 };
enum : int { kUpper = 121, kLower = 122, kPlain = 111, kTransposed = 112, kAdjoint = 113 };
constexpr int kWork = 37;  // elements that each routine asks for

template <class T>
Z wide(T v) {
  if constexpr (std::is_floating_point_v<T>)
    return {static_cast<double>(v), 0};
  else
    return {static_cast<double>(v.real()), static_cast<double>(v.imag())};
}
template <class T>
T narrow(Z v) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(v.real());
  else
    return {static_cast<typename T::value_type>(v.real()),
            static_cast<typename T::value_type>(v.imag())};
}
// A matrix of the caller's in double, by columns.
struct Matrix {
  int m, n;
  std::vector<Z> at;
  Matrix(int rows, int columns)
      : m(rows), n(columns), at(static_cast<size_t>(rows) * static_cast<size_t>(columns)) {}
  Z& operator()(int i, int j) {
    return at[static_cast<size_t>(j) * static_cast<size_t>(m) + static_cast<size_t>(i)];
  }
};
template <class T>
Matrix read(const void* p, int m, int n, int ld) {
  Matrix r(m, n);
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) r(i, j) = wide(static_cast<const T*>(p)[int64_t{j} * ld + i]);
  return r;
}
template <class T>
void write(Matrix& a, void* p, int ld) {
  for (int j = 0; j < a.n; ++j)
    for (int i = 0; i < a.m; ++i) static_cast<T*>(p)[int64_t{j} * ld + i] = narrow<T>(a(i, j));
}
int started(void* handle) {
  return failing() ? kInternal : wait_for(static_cast<Handle*>(handle)->stream);
}
template <class T>
int size_of_work(int* elements) {
  return failing() ? kInternal : (*elements = kWork, kSuccess);
}
template <class T>
bool spoilt(void* work, int elements) {
  if (!work || elements < kWork) return false;
  std::memset(work, 0xff, sizeof(T) * kWork);
  return true;
}

template <class T>
int cholesky(int uplo, int n, void* p, int ld) {
  Matrix a = read<T>(p, n, n, ld);
  const bool upper = uplo == kUpper;
  const auto l = [&](int i, int j) -> Z { return upper ? std::conj(a(j, i)) : a(i, j); };
  const auto set = [&](int i, int j, Z v) {
    (upper ? a(j, i) : a(i, j)) = upper ? std::conj(v) : v;
  };
  int info = 0;
  for (int j = 0; j < n && !info; ++j) {
    double d = l(j, j).real();
    for (int k = 0; k < j; ++k) d -= std::norm(l(j, k));
    if (!(d > 0)) {
      info = j + 1;
      break;
    }
    const double root = std::sqrt(d);
    set(j, j, root);
    for (int i = j + 1; i < n; ++i) {
      Z v = l(i, j);
      for (int k = 0; k < j; ++k) v -= l(i, k) * std::conj(l(j, k));
      set(i, j, v / root);
    }
  }
  write<T>(a, p, ld);
  return info;
}
template <class T>
int lu(int m, int n, void* p, int ld, int* pivots) {
  Matrix a = read<T>(p, m, n, ld);
  int info = 0;
  for (int k = 0; k < std::min(m, n); ++k) {
    int best = k;
    const auto size = [](Z v) { return std::abs(v.real()) + std::abs(v.imag()); };
    for (int i = k + 1; i < m; ++i)
      if (size(a(i, k)) > size(a(best, k))) best = i;
    pivots[k] = size(a(best, k)) >= 0 ? best + 1 : 0;  // nobody has promised what NaN gives
    if (pivots[k] == 0) {
      info = k + 1;
      continue;
    }
    if (a(best, k) == Z(0)) {
      if (!info) info = k + 1;
      continue;
    }
    for (int j = 0; j < n && best != k; ++j) std::swap(a(k, j), a(best, j));
    for (int i = k + 1; i < m; ++i) {
      a(i, k) /= a(k, k);
      for (int j = k + 1; j < n; ++j) a(i, j) -= a(i, k) * a(k, j);
    }
  }
  write<T>(a, p, ld);
  return info;
}
Z of(Z v, int op) {
  return op == kAdjoint ? std::conj(v) : v;
}
// H = 1 - tau v v', v[0] = 1, that takes x to a multiple of the first axis.
template <class T>
void reflect(int m, int n, void* p, int ld, void* taus) {
  Matrix a = read<T>(p, m, n, ld);
  for (int k = 0; k < std::min(m, n); ++k) {
    double rest = 0;
    for (int i = k + 1; i < m; ++i) rest += std::norm(a(i, k));
    Z tau = 0;
    const Z alpha = a(k, k);
    if (rest > 0 || alpha.imag() != 0) {
      const double length = std::sqrt(std::norm(alpha) + rest);
      const double beta = alpha.real() > 0 ? -length : length;
      tau = (beta - alpha) / beta;
      for (int i = k + 1; i < m; ++i) a(i, k) /= alpha - beta;
      a(k, k) = beta;
      for (int j = k + 1; j < n; ++j) {
        Z sum = a(k, j);
        for (int i = k + 1; i < m; ++i) sum += std::conj(a(i, k)) * a(i, j);
        sum *= std::conj(tau);
        a(k, j) -= sum;
        for (int i = k + 1; i < m; ++i) a(i, j) -= a(i, k) * sum;
      }
    }
    static_cast<T*>(taus)[k] = narrow<T>(tau);
  }
  write<T>(a, p, ld);
}
// c = H c for the k-th vector of a (adjoint: H' c).
template <class T>
void apply(Matrix& a, const void* taus, int k, bool adjoint, Matrix& c) {
  Z tau = wide(static_cast<const T*>(taus)[k]);
  if (adjoint) tau = std::conj(tau);
  for (int j = 0; j < c.n; ++j) {
    Z sum = c(k, j);
    for (int i = k + 1; i < a.m; ++i) sum += std::conj(a(i, k)) * c(i, j);
    sum *= tau;
    c(k, j) -= sum;
    for (int i = k + 1; i < a.m; ++i) c(i, j) -= a(i, k) * sum;
  }
}
template <class T>
void columns_of_q(int m, int n, int k, void* p, int ld, const void* taus) {
  Matrix a = read<T>(p, m, n, ld), q(m, n);
  for (int j = 0; j < n; ++j) q(j, j) = 1;
  for (int i = k - 1; i >= 0; --i) apply<T>(a, taus, i, false, q);
  write<T>(q, p, ld);
}
Matrix adjoint_of(Matrix& a) {
  Matrix r(a.n, a.m);
  for (int i = 0; i < a.m; ++i)
    for (int j = 0; j < a.n; ++j) r(j, i) = std::conj(a(i, j));
  return r;
}
template <class T>
void times_q(bool left, int op, int m, int n, int k, const void* p, int lda, const void* taus,
             void* q, int ldc) {
  Matrix a = read<T>(p, left ? m : n, k, lda), c = read<T>(q, m, n, ldc);
  const bool adjoint = op != kPlain;
  // C Q is the adjoint of Q' C'.
  Matrix d = left ? c : adjoint_of(c);
  const bool back = left ? adjoint : !adjoint;
  for (int i = 0; i < k; ++i) {
    const int at = back ? i : k - 1 - i;
    apply<T>(a, taus, at, back, d);
  }
  c = left ? d : adjoint_of(d);
  write<T>(c, q, ldc);
}
// Jacobi's rotations: columns i and j of a (and of v) become orthogonal.
bool rotate(Matrix& a, Matrix& v, int i, int j) {
  double x = 0, y = 0;
  Z dot = 0;
  for (int r = 0; r < a.m; ++r) {
    x += std::norm(a(r, i));
    y += std::norm(a(r, j));
    dot += std::conj(a(r, i)) * a(r, j);
  }
  const double size = std::abs(dot);
  if (size <= 1e-15 * std::sqrt(x * y) || size == 0) return false;
  const Z phase = dot / size;
  const double zeta = (y - x) / (2 * size);
  const double t = (zeta >= 0 ? 1 : -1) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
  const double c = 1 / std::sqrt(1 + t * t), s = c * t;
  for (Matrix* m : {&a, &v})
    for (int r = 0; r < m->m; ++r) {
      const Z p = (*m)(r, i), q = (*m)(r, j) * std::conj(phase);
      (*m)(r, i) = c * p - s * q;
      (*m)(r, j) = s * p + c * q;
    }
  return true;
}
// a becomes U S; its columns are in the order of their lengths. False: no convergence.
bool orthogonal(Matrix& a, Matrix& v, std::vector<double>& s) {
  for (int i = 0; i < a.n; ++i) v(i, i) = 1;
  bool moved = true;
  for (int sweep = 0; moved && sweep < 60; ++sweep) {
    moved = false;
    for (int i = 0; i < a.n; ++i)
      for (int j = i + 1; j < a.n; ++j) moved = rotate(a, v, i, j) || moved;
  }
  for (int j = 0; j < a.n; ++j) {
    double sum = 0;
    for (int i = 0; i < a.m; ++i) sum += std::norm(a(i, j));
    s.push_back(std::sqrt(sum));
  }
  for (int j = 0; j < a.n; ++j) {
    const int most = static_cast<int>(std::max_element(s.begin() + j, s.end()) - s.begin());
    std::swap(s[static_cast<size_t>(j)], s[static_cast<size_t>(most)]);
    for (int i = 0; i < a.m && most != j; ++i) std::swap(a(i, j), a(i, most));
    for (int i = 0; i < v.m && most != j; ++i) std::swap(v(i, j), v(i, most));
  }
  return !moved;
}
// Columns `from` on become a basis of what is orthogonal to those before.
void complete(Matrix& u, int from) {
  for (int j = from, axis = 0; j < u.n && axis < u.m; ++axis) {
    for (int i = 0; i < u.m; ++i) u(i, j) = i == axis;
    for (int again = 0; again < 2; ++again)
      for (int k = 0; k < j; ++k) {
        Z dot = 0;
        for (int i = 0; i < u.m; ++i) dot += std::conj(u(i, k)) * u(i, j);
        for (int i = 0; i < u.m; ++i) u(i, j) -= dot * u(i, k);
      }
    double size = 0;
    for (int i = 0; i < u.m; ++i) size += std::norm(u(i, j));
    if (size < 1e-6) continue;
    for (int i = 0; i < u.m; ++i) u(i, j) /= std::sqrt(size);
    ++j;
  }
}
template <class T, class R>
int singular(bool vectors, bool few, int m, int n, void* p, int ld, void* s_at, void* u_at, int ldu,
             void* v_at, int ldv) {
  Matrix a = read<T>(p, m, n, ld), v(n, n);
  std::vector<double> s;
  const bool good = orthogonal(a, v, s);
  for (int j = 0; j < n; ++j) static_cast<R*>(s_at)[j] = static_cast<R>(s[static_cast<size_t>(j)]);
  if (vectors) {
    Matrix u(m, few ? n : m);
    int rank = 0;
    for (; rank < n && s[static_cast<size_t>(rank)] > 1e-12 * s[0]; ++rank)
      for (int i = 0; i < m; ++i) u(i, rank) = a(i, rank) / s[static_cast<size_t>(rank)];
    complete(u, rank);
    write<T>(u, u_at, ldu);
    write<T>(v, v_at, ldv);
  }
  return good ? 0 : n + 1;
}
template <class T, class R>
int eigen(bool vectors, int uplo, int n, void* p, int ld, void* w) {
  Matrix a = read<T>(p, n, n, ld);
  // The triangle that is asked for, and the other from it. By a shift all values become positive:
  // then they are the singular ones.
  double shift = 0;
  for (int j = 0; j < n; ++j) {
    a(j, j) = a(j, j).real();
    for (int i = 0; i < j; ++i)
      (uplo == kUpper ? a(j, i) : a(i, j)) = std::conj(uplo == kUpper ? a(i, j) : a(j, i));
  }
  for (int j = 0; j < n; ++j) {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += std::abs(a(i, j));
    shift = std::max(shift, sum);
  }
  for (int j = 0; j < n; ++j) a(j, j) += 2 * shift;
  Matrix v(n, n);
  std::vector<double> s;
  const bool good = orthogonal(a, v, s);
  Matrix turned(n, n);
  for (int j = 0; j < n; ++j) {
    static_cast<R*>(w)[j] = static_cast<R>(s[static_cast<size_t>(n - 1 - j)] - 2 * shift);
    for (int i = 0; i < n; ++i) turned(i, j) = v(i, n - 1 - j);
  }
  if (vectors) write<T>(turned, p, ld);
  return good ? 0 : 1;
}
// X op(A) = alpha B, the only side that is asked for.
template <class T>
int solve_right(int side, int uplo, int op, int unit, int m, int n, const void* alpha,
                const void* p, int lda, void* q, int ldb) {
  if (side != 142) return kInvalid;
  Matrix a = read<T>(p, n, n, lda), b = read<T>(q, m, n, ldb);
  const Z by = wide(*static_cast<const T*>(alpha));
  const auto f = [&](int i, int j) -> Z {
    const int r = op == kPlain ? i : j, c = op == kPlain ? j : i;
    if (uplo == kUpper ? r > c : r < c) return 0;
    if (r == c && unit == 132) return 1;
    return of(a(r, c), op);
  };
  const bool upper = (uplo == kUpper) == (op == kPlain);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) b(i, j) *= by;
    for (int step = 0; step < n; ++step) {
      const int j = upper ? step : n - 1 - step;
      for (int k = upper ? 0 : j + 1; k < (upper ? j : n); ++k) b(i, j) -= b(i, k) * f(k, j);
      b(i, j) /= f(j, j);
    }
  }
  write<T>(b, q, ldb);
  return kSuccess;
}
}  // namespace

#define CALL extern "C" __attribute__((visibility("default"))) int
#define FOR_ALL(X)                                     \
  X(S, float, float, orgqr, ormqr, syev)               \
  X(D, double, double, orgqr, ormqr, syev)             \
  X(C, std::complex<float>, float, ungqr, unmqr, heev) \
  X(Z, std::complex<double>, double, ungqr, unmqr, heev)

CALL hipsolverDnCreate(void** out) {
  return failing() ? kInternal : (*out = new Handle, kSuccess);
}
CALL hipsolverDnSetStream(void* handle, void* stream) {
  return failing() ? kInternal : (static_cast<Handle*>(handle)->stream = stream, kSuccess);
}
CALL hipsolverDnCreateSyevjInfo(void** out) {
  return failing() ? kInternal : (*out = new Handle, kSuccess);
}
CALL hipsolverDnCreateGesvdjInfo(void** out) {
  return failing() ? kInternal : (*out = new Handle, kSuccess);
}
CALL hipblasCreate(void** out) {
  return failing() ? kInternal : (*out = new Handle, kSuccess);
}
CALL hipblasSetStream(void* handle, void* stream) {
  return failing() ? kInternal : (static_cast<Handle*>(handle)->stream = stream, kSuccess);
}

// NOLINTBEGIN(bugprone-macro-parentheses)
#define X(P, T, R, ORGQR, ORMQR, SYEV)                                                             \
  CALL hipsolverDn##P##potrf_bufferSize(void*, int, int, void*, int, int* e) {                     \
    return size_of_work<T>(e);                                                                     \
  }                                                                                                \
  CALL hipsolverDn##P##potrf(void* h, int uplo, int n, void* a, int lda, void* w, int e,           \
                             int* info) {                                                          \
    if (int error = started(h)) return error;                                                      \
    return spoilt<T>(w, e) ? (*info = cholesky<T>(uplo, n, a, lda), kSuccess) : kInvalid;          \
  }                                                                                                \
  CALL hipsolverDn##P##potrfBatched(void* h, int uplo, int n, void** a, int lda, int* info,        \
                                    int batch) {                                                   \
    if (int error = started(h)) return error;                                                      \
    for (int i = 0; i < batch; ++i) info[i] = cholesky<T>(uplo, n, a[i], lda);                     \
    return kSuccess;                                                                               \
  }                                                                                                \
  CALL hipsolverDn##P##getrf_bufferSize(void*, int, int, void*, int, int* e) {                     \
    return size_of_work<T>(e);                                                                     \
  }                                                                                                \
  CALL hipsolverDn##P##getrf(void* h, int m, int n, void* a, int lda, void* w, int* pivots,        \
                             int* info) {                                                          \
    if (int error = started(h)) return error;                                                      \
    return spoilt<T>(w, kWork) ? (*info = lu<T>(m, n, a, lda, pivots), kSuccess) : kInvalid;       \
  }                                                                                                \
  CALL hipsolverDn##P##geqrf_bufferSize(void*, int, int, void*, int, int* e) {                     \
    return size_of_work<T>(e);                                                                     \
  }                                                                                                \
  CALL hipsolverDn##P##geqrf(void* h, int m, int n, void* a, int lda, void* tau, void* w, int e,   \
                             int* info) {                                                          \
    if (int error = started(h)) return error;                                                      \
    if (!spoilt<T>(w, e)) return kInvalid;                                                         \
    reflect<T>(m, n, a, lda, tau);                                                                 \
    return *info = 0, kSuccess;                                                                    \
  }                                                                                                \
  CALL hipsolverDn##P##ORGQR##_bufferSize(void*, int, int, int, const void*, int, const void*,     \
                                          int* e) {                                                \
    return size_of_work<T>(e);                                                                     \
  }                                                                                                \
  CALL hipsolverDn##P##ORGQR(void* h, int m, int n, int k, void* a, int lda, const void* tau,      \
                             void* w, int e, int* info) {                                          \
    if (int error = started(h)) return error;                                                      \
    if (!spoilt<T>(w, e) || k > n || n > m) return kInvalid;                                       \
    columns_of_q<T>(m, n, k, a, lda, tau);                                                         \
    return *info = 0, kSuccess;                                                                    \
  }                                                                                                \
  CALL hipsolverDn##P##ORMQR##_bufferSize(void*, int, int, int, int, int, const void*, int,        \
                                          const void*, const void*, int, int* e) {                 \
    return size_of_work<T>(e);                                                                     \
  }                                                                                                \
  CALL hipsolverDn##P##ORMQR(void* h, int side, int op, int m, int n, int k, const void* a,        \
                             int lda, const void* tau, void* c, int ldc, void* w, int e,           \
                             int* info) {                                                          \
    if (int error = started(h)) return error;                                                      \
    if (!spoilt<T>(w, e)) return kInvalid;                                                         \
    times_q<T>(side == 141, op, m, n, k, a, lda, tau, c, ldc);                                     \
    return *info = 0, kSuccess;                                                                    \
  }                                                                                                \
  CALL hipsolverDn##P##SYEV##d_bufferSize(void*, int, int, int, const void*, int, const void*,     \
                                          int* e) {                                                \
    return size_of_work<T>(e);                                                                     \
  }                                                                                                \
  CALL hipsolverDn##P##SYEV##d(void* h, int job, int uplo, int n, void* a, int lda, void* w,       \
                               void* work, int e, int* info) {                                     \
    if (int error = started(h)) return error;                                                      \
    if (!spoilt<T>(work, e)) return kInvalid;                                                      \
    return *info = eigen<T, R>(job == 202, uplo, n, a, lda, w), kSuccess;                          \
  }                                                                                                \
  CALL hipsolverDn##P##gesvdj_bufferSize(void*, int, int, int, int, const void*, int, const void*, \
                                         const void*, int, const void*, int, int* e, void*) {      \
    return size_of_work<T>(e);                                                                     \
  }                                                                                                \
  CALL hipsolverDn##P##gesvdj(void* h, int job, int few, int m, int n, void* a, int lda, void* s,  \
                              void* u, int ldu, void* v, int ldv, void* w, int e, int* info,       \
                              void* how) {                                                         \
    if (int error = started(h)) return error;                                                      \
    if (!spoilt<T>(w, e) || !how || (job != 202 && m != n)) return kInvalid;                       \
    return *info = singular<T, R>(job == 202, few, m, n, a, lda, s, u, ldu, v, ldv), kSuccess;     \
  }                                                                                                \
  CALL hipsolverDn##P##SYEV##jBatched_bufferSize(void*, int, int, int, const void*, int,           \
                                                 const void*, int* e, void*, int) {                \
    return size_of_work<T>(e);                                                                     \
  }                                                                                                \
  CALL hipsolverDn##P##SYEV##jBatched(void* h, int job, int uplo, int n, void* a, int lda,         \
                                      void* w, void* work, int e, int* info, void* how,            \
                                      int batch) {                                                 \
    if (int error = started(h)) return error;                                                      \
    if (!spoilt<T>(work, e) || !how || n > 32) return kInvalid;                                    \
    for (int i = 0; i < batch; ++i)                                                                \
      info[i] = eigen<T, R>(job == 202, uplo, n, static_cast<T*>(a) + int64_t{i} * n * lda, lda,   \
                            static_cast<R*>(w) + int64_t{i} * n);                                  \
    return kSuccess;                                                                               \
  }                                                                                                \
  CALL hipsolverDn##P##gesvdjBatched_bufferSize(void*, int, int, int, const void*, int,            \
                                                const void*, const void*, int, const void*, int,   \
                                                int* e, void*, int) {                              \
    return size_of_work<T>(e);                                                                     \
  }                                                                                                \
  CALL hipsolverDn##P##gesvdjBatched(void* h, int job, int m, int n, void* a, int lda, void* s,    \
                                     void* u, int ldu, void* v, int ldv, void* w, int e,           \
                                     int* info, void* how, int batch) {                            \
    if (int error = started(h)) return error;                                                      \
    if (!spoilt<T>(w, e) || !how || m > 32 || n > 32 || (job != 202 && m != n)) return kInvalid;   \
    for (int64_t i = 0; i < batch; ++i)                                                            \
      info[i] = singular<T, R>(job == 202, false, m, n, static_cast<T*>(a) + i * n * lda, lda,     \
                               static_cast<R*>(s) + i * n, static_cast<T*>(u) + i * m * ldu, ldu,  \
                               static_cast<T*>(v) + i * n * ldv, ldv);                             \
    return kSuccess;                                                                               \
  }                                                                                                \
  CALL hipblas##P##trsm(void* h, int side, int uplo, int op, int unit, int m, int n,               \
                        const void* alpha, const void* a, int lda, void* b, int ldb) {             \
    if (int error = started(h)) return error;                                                      \
    return solve_right<T>(side, uplo, op, unit, m, n, alpha, a, lda, b, ldb);                      \
  }                                                                                                \
  CALL hipblas##P##trsmBatched(void* h, int side, int uplo, int op, int unit, int m, int n,        \
                               const void* alpha, void** a, int lda, void** b, int ldb,            \
                               int batch) {                                                        \
    if (int error = started(h)) return error;                                                      \
    for (int i = 0; i < batch; ++i)                                                                \
      if (int error = solve_right<T>(side, uplo, op, unit, m, n, alpha, a[i], lda, b[i], ldb))     \
        return error;                                                                              \
    return kSuccess;                                                                               \
  }                                                                                                \
  CALL hipblas##P##getrfBatched(void* h, int n, void** a, int lda, int* pivots, int* info,         \
                                int batch) {                                                       \
    if (int error = started(h)) return error;                                                      \
    for (int i = 0; i < batch; ++i) info[i] = lu<T>(n, n, a[i], lda, pivots + i * n);              \
    return kSuccess;                                                                               \
  }
FOR_ALL(X)
#undef X
// NOLINTEND(bugprone-macro-parentheses)
