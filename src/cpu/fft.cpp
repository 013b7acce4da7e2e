// Fourier transforms. A length is taken apart into radices up to 13; others go through a
// convolution of a power of two (Bluestein). Lines of powers of two are transformed one by one,
// others as many at once as a vector has lanes, so dimensions before the last one are read and
// written in whole vectors. Long lines are tables of two shorter lengths, so that caches hold what
// is worked on. All follows from shapes.
#include "cpu/fft.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>

#include "core/lock.h"
#include "cpu/kernel.h"
#include "cpu/scratch.h"
#include "cpu/threads.h"
#include "table/kernels/fft.h"

namespace pyflame::cpu {

int64_t line_scratch(int64_t n) {
  return 4 * n;
}
int64_t lanes_scratch(int64_t n) {
  return 4 * n * kMostLanes;
}

namespace {

using kernels::tensors;

constexpr int64_t kLongLine = 1 << 14;  // from here on a line is a table
constexpr int64_t kSide = 1 << 16;      // a side of a table is shorter
constexpr double kTau = 6.283185307179586476925286766559;

bool is_power(int64_t n) {
  return (n & (n - 1)) == 0;
}

// exp(-2 pi i k / n) by angles up to an eighth of a turn, where sine and cosine are best.
std::complex<double> root_of(int64_t k, int64_t n) {
  k %= n;
  if (8 * k > n && 8 * k <= 7 * n) {
    if (8 * k < 3 * n) {  // around a quarter
      const double a = kTau * (static_cast<double>(4 * k - n) / static_cast<double>(4 * n));
      return {-std::sin(a), -std::cos(a)};
    }
    if (8 * k <= 5 * n) {  // around a half
      const double a = kTau * (static_cast<double>(2 * k - n) / static_cast<double>(2 * n));
      return {-std::cos(a), std::sin(a)};
    }
    const double a = kTau * (static_cast<double>(4 * k - 3 * n) / static_cast<double>(4 * n));
    return {std::sin(a), std::cos(a)};
  }
  const double a = kTau * (static_cast<double>(8 * k > n ? k - n : k) / static_cast<double>(n));
  return {std::cos(a), -std::sin(a)};
}

// Radices of n, or nothing where a prime factor is above 13.
std::vector<int> radices_of(int64_t n) {
  std::vector<int> r;
  for (int f : {13, 11, 7, 5, 3})
    while (n % f == 0) {
      r.push_back(f);
      n /= f;
    }
  if (!is_power(n)) return {};
  while (n >= 8 && n != 16) {
    r.push_back(8);
    n /= 8;
  }
  for (; n >= 4; n /= 4) r.push_back(4);
  if (n == 2) r.push_back(2);
  return r;
}

template <class T>
struct Plan {
  int64_t n;
  bool smooth;
  FftTables<T> tables;  // of a smooth length
  // A table of n1 x n2 in place of a line, both smooth; 0: none.
  int64_t n1 = 0, n2 = 0;
  std::shared_ptr<const Plan> first, second;
  // Roots of a table's length: exp(-2 pi i k / n) is coarse[k / kFine] fine[k % kFine]; near: those
  // of k l for k < n1 and l < kMostLanes, as TableRoots has them.
  static constexpr int64_t kFine = 1024;
  std::vector<std::complex<double>> coarse, fine;
  std::vector<T> near;
  std::complex<double> root(int64_t k) const {
    const std::complex<double>&u = coarse[static_cast<size_t>(k / kFine)],
          &v = fine[static_cast<size_t>(k % kFine)];
    return {u.real() * v.real() - u.imag() * v.imag(), u.real() * v.imag() + u.imag() * v.real()};
  }
  // The convolution in place of another length: of `wide` with the transform of the chirp.
  std::shared_ptr<const Plan> wide;
  std::vector<std::complex<T>> chirp, spectrum;

  explicit Plan(int64_t length);
  size_t bytes() const {
    return (tables.cos.size() * 2 + tables.first.size() * 2 + 2 * chirp.size() +
            2 * spectrum.size() + near.size()) *
               sizeof(T) +
           coarse.size() * sizeof(std::complex<double>);
  }
};

// Plans are kept up to so many bytes; all are forgotten at once.
constexpr size_t kMostKept = size_t{64} << 20;

template <class T>
std::shared_ptr<const Plan<T>> plan_for(int64_t n) {
  static Mutex mutex;
  static auto* kept = new std::map<int64_t, std::shared_ptr<const Plan<T>>>;
  static size_t bytes = 0;
  {
    std::lock_guard lock(mutex);
    if (auto it = kept->find(n); it != kept->end()) return it->second;
  }
  auto made = std::make_shared<const Plan<T>>(n);
  std::lock_guard lock(mutex);
  if (bytes + made->bytes() > kMostKept) {
    kept->clear();
    bytes = 0;
  }
  if (kept->emplace(n, made).second) bytes += made->bytes();
  return made;
}

template <class T>
void line(const Plan<T>& p, const T* x, T* y, FftJob job);

template <class T>
Plan<T>::Plan(int64_t length) : n(length) {
  std::vector<int> r = radices_of(n);
  smooth = n == 1 || !r.empty();
  if (!smooth) {
    int64_t m = kLeastLine;
    while (m < 2 * n - 1) m *= 2;
    wide = plan_for<T>(m);
    chirp.resize(static_cast<size_t>(n));
    spectrum.resize(static_cast<size_t>(m));
    std::vector<std::complex<T>> b(static_cast<size_t>(m));
    for (int64_t k = 0; k < n; ++k) {
      // exp(-pi i k^2 / n); squares as remainders.
      const auto square =
          static_cast<int64_t>(static_cast<__uint128_t>(k) * static_cast<__uint128_t>(k) %
                               static_cast<__uint128_t>(2 * n));
      const std::complex<double> w = root_of(square, 2 * n);
      const auto i = static_cast<size_t>(k);
      chirp[i] = {static_cast<T>(w.real()), static_cast<T>(w.imag())};
      b[i] = std::conj(chirp[i]);
      if (k > 0) b[static_cast<size_t>(m - k)] = b[i];
    }
    line(*wide, reinterpret_cast<const T*>(b.data()), reinterpret_cast<T*>(spectrum.data()),
         {false, 1.0});
    return;
  }
  if (n >= kLongLine) {
    // Two factors, the first as close to the root as the radices allow.
    n1 = 1;
    std::sort(r.begin(), r.end());
    std::vector<int> primes;
    for (int f : r)
      for (int q : {2, 3, 5, 7, 11, 13})
        for (; f % q == 0; f /= q) primes.push_back(q);
    std::sort(primes.rbegin(), primes.rend());
    int64_t a = 1, b = 1;
    for (int q : primes) (a <= b ? a : b) *= q;
    n1 = std::min(a, b);
    n2 = n / n1;
    first = plan_for<T>(n1);
    second = plan_for<T>(n2);
    for (int64_t k = 0; k < n; k += kFine) coarse.push_back(root_of(k, n));
    for (int64_t k = 0; k < kFine; ++k) fine.push_back(root_of(k, n));
    near.resize(static_cast<size_t>(2 * n1 * kMostLanes));
    for (int64_t k = 0; k < n1; ++k)
      for (int64_t l = 0; l < kMostLanes; ++l) {
        const std::complex<double> w = root(k * l % n);
        T* to = near.data() + 2 * k * kMostLanes + l;
        to[0] = static_cast<T>(w.real());
        to[kMostLanes] = static_cast<T>(w.imag());
      }
    if (n >= kSide) return;
  }
  tables.n = n;
  tables.radices = std::move(r);
  for (int64_t k = 0; k < n; ++k) {
    const std::complex<double> w = root_of(k, n);
    tables.cos.push_back(static_cast<T>(w.real()));
    tables.sin.push_back(static_cast<T>(w.imag()));
  }
  if (!is_power(n) || n < kLeastLine) return;
  const int64_t quarter = n / 4;
  for (auto [into, group] :
       {std::pair(&tables.first, int64_t{1}), std::pair(&tables.second, int64_t{4})}) {
    into->resize(static_cast<size_t>(6 * quarter));
    for (int64_t which = 0; which < 3; ++which)
      for (int64_t i = 0; i < quarter; ++i) {
        const int64_t k = i / group * group * (which + 1);
        (*into)[static_cast<size_t>(2 * which * quarter + i)] = tables.cos[static_cast<size_t>(k)];
        (*into)[static_cast<size_t>((2 * which + 1) * quarter + i)] =
            tables.sin[static_cast<size_t>(k)];
      }
  }
}

template <class T>
void lines(const Plan<T>& p, const T* x, int64_t from, T* y, int64_t to, int64_t count, FftJob job,
           T* scratch);
template <class T>
int64_t lines_scratch(const Plan<T>& p) {
  if (p.wide) return 2 * p.wide->n + (p.wide->n1 ? 0 : line_scratch(p.wide->n));
  if (p.n1) return 0;
  return is_power(p.n) && p.n >= kLeastLine ? line_scratch(p.n) : lanes_scratch(p.n);
}

// exp(-2 pi i j k / n) for k < n1 of a table.
template <class T>
void far_roots(const Plan<T>& p, int64_t j, T* re, T* im) {
  constexpr int64_t kStep = 32;
  double step_re[kStep], step_im[kStep];
  for (int64_t l = 0; l < kStep; ++l) {
    const std::complex<double> w = p.root(j * l % p.n);
    step_re[l] = w.real(), step_im[l] = w.imag();
  }
  for (int64_t k = 0; k < p.n1; k += kStep) {
    const std::complex<double> w = p.root(j * k % p.n);
    const double a = w.real(), b = w.imag();
    const int64_t more = std::min(kStep, p.n1 - k);
    for (int64_t l = 0; l < more; ++l) {
      re[k + l] = static_cast<T>(a * step_re[l] - b * step_im[l]);
      im[k + l] = static_cast<T>(a * step_im[l] + b * step_re[l]);
    }
  }
}

// X[k1 + n1 k2] = sum over j2 of w^(j2 k1) (sum over j1 of x[j1 n2 + j2] w1^(j1 k1)) w2^(j2 k2):
// columns times roots, then rows, whose results are columns.
template <class T>
void table(const Plan<T>& p, const T* x, T* y, FftJob job) {
  const int64_t n = p.n, n1 = p.n1, n2 = p.n2;
  Scratch<T> middle_memory(2 * n);
  T* const middle = middle_memory.get();
  parallel_with((n2 + kMostLanes - 1) / kMostLanes, 1,
                static_cast<size_t>(lanes_scratch(n1) + 2 * n1) * sizeof(T),
                [&](int64_t b, int64_t e, char* memory) {
                  T* const own = reinterpret_cast<T*>(memory);
                  T *const re = own + lanes_scratch(n1), *const im = re + n1;
                  for (int64_t i = b; i < e; ++i) {
                    const int64_t j = i * kMostLanes;
                    const Lanes at{n2, 1, std::min(kMostLanes, n2 - j)};
                    far_roots(p, j, re, im);
                    fft_lanes(p.first->tables, x + 2 * j, at, middle + 2 * j, at,
                              {job.inverse, 1.0}, own, {re, im, p.near.data()});
                  }
                });
  parallel_with((n1 + kMostLanes - 1) / kMostLanes, 1,
                static_cast<size_t>(lanes_scratch(n2)) * sizeof(T),
                [&](int64_t b, int64_t e, char* memory) {
                  for (int64_t i = b; i < e; ++i) {
                    const int64_t k = i * kMostLanes, rows = std::min(kMostLanes, n1 - k);
                    fft_lanes(p.second->tables, middle + 2 * k * n2, Lanes{1, n2, rows}, y + 2 * k,
                              Lanes{n1, 1, rows}, job, reinterpret_cast<T*>(memory));
                  }
                });
}

// A length with a large prime factor: exp(-pi i k^2 / n) times the convolution of x times the same
// with its conjugate.
template <class T>
void convolved(const Plan<T>& p, const T* x, T* y, FftJob job, T* scratch) {
  using C = std::complex<T>;
  const int64_t n = p.n, m = p.wide->n;
  auto* a = reinterpret_cast<C*>(scratch);
  T* const own = scratch + 2 * m;
  const auto times = [](C u, C v) {
    return C(u.real() * v.real() - u.imag() * v.imag(), u.real() * v.imag() + u.imag() * v.real());
  };
  const int re = job.inverse ? 1 : 0, im = 1 - re;
  for (int64_t j = 0; j < n; ++j)
    a[j] = times(C(x[2 * j + re], x[2 * j + im]), p.chirp[static_cast<size_t>(j)]);
  std::fill(a + n, a + m, C(0, 0));
  const auto transform = [&](bool inverse) {
    T* data = reinterpret_cast<T*>(a);
    if (p.wide->n1)
      table(*p.wide, data, data, {inverse, 1.0});
    else
      fft_line(p.wide->tables, data, data, {inverse, 1.0}, own);
  };
  transform(false);
  for (int64_t j = 0; j < m; ++j) a[j] = times(a[j], p.spectrum[static_cast<size_t>(j)]);
  transform(true);
  const T scale = static_cast<T>(job.scale / static_cast<double>(m));
  for (int64_t j = 0; j < n; ++j) {
    const C v = times(a[j], p.chirp[static_cast<size_t>(j)]);
    y[2 * j + re] = v.real() * scale;
    y[2 * j + im] = v.imag() * scale;
  }
}

// `count` lines that begin `from` and `to` numbers after one another, on the calling thread.
template <class T>
void lines(const Plan<T>& p, const T* x, int64_t from, T* y, int64_t to, int64_t count, FftJob job,
           T* scratch) {
  if (!p.wide && !p.n1 && !(is_power(p.n) && p.n >= kLeastLine)) {
    fft_lanes(p.tables, x, Lanes{1, from, count}, y, Lanes{1, to, count}, job, scratch);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const T* const a = x + 2 * i * from;
    T* const b = y + 2 * i * to;
    if (p.wide)
      convolved(p, a, b, job, scratch);
    else if (p.n1)
      table(p, a, b, job);
    else
      fft_line(p.tables, a, b, job, scratch);
  }
}

template <class T>
void line(const Plan<T>& p, const T* x, T* y, FftJob job) {
  Scratch<T> scratch(std::max<int64_t>(lines_scratch(p), 1));
  lines(p, x, p.n, y, p.n, 1, job, scratch.get());
}

// All lines of one dimension of [outer, n, inner], from x to y, which may be x.
template <class T>
void dimension(const T* x, T* y, int64_t outer, int64_t n, int64_t inner, FftJob job) {
  const auto plan = plan_for<T>(n);
  const Plan<T>& p = *plan;
  const size_t scratch = static_cast<size_t>(std::max<int64_t>(lines_scratch(p), 1)) * sizeof(T);
  if (inner == 1 && p.n1) {  // each by all threads
    for (int64_t o = 0; o < outer; ++o) table(p, x + 2 * o * n, y + 2 * o * n, job);
    return;
  }
  if (inner == 1) {
    const int64_t group = kMostLanes;
    parallel_with((outer + group - 1) / group, std::max<int64_t>(1, 4096 / (n * group)), scratch,
                  [&](int64_t b, int64_t e, char* memory) {
                    for (int64_t i = b; i < e; ++i) {
                      const int64_t o = i * group;
                      lines(p, x + 2 * o * n, n, y + 2 * o * n, n, std::min(group, outer - o), job,
                            reinterpret_cast<T*>(memory));
                    }
                  });
    return;
  }
  const int64_t blocks = (inner + kMostLanes - 1) / kMostLanes;
  if (!p.wide && !p.n1) {
    parallel_with(
        outer * blocks, std::max<int64_t>(1, 4096 / (n * kMostLanes)),
        static_cast<size_t>(lanes_scratch(n)) * sizeof(T), [&](int64_t b, int64_t e, char* memory) {
          for (int64_t i = b; i < e; ++i) {
            const int64_t o = i / blocks, j = i % blocks * kMostLanes;
            const int64_t at = 2 * (o * n * inner + j);
            const Lanes lanes{inner, 1, std::min(kMostLanes, inner - j)};
            fft_lanes(p.tables, x + at, lanes, y + at, lanes, job, reinterpret_cast<T*>(memory));
          }
        });
    return;
  }
  // Columns of other lengths are copied into lines.
  parallel_with(outer * blocks, 1, scratch + static_cast<size_t>(2 * n * kMostLanes) * sizeof(T),
                [&](int64_t b, int64_t e, char* memory) {
                  T* const copied = reinterpret_cast<T*>(memory);
                  T* const own = copied + 2 * n * kMostLanes;
                  for (int64_t i = b; i < e; ++i) {
                    const int64_t o = i / blocks, j = i % blocks * kMostLanes;
                    const int64_t at = 2 * (o * n * inner + j);
                    const int64_t count = std::min(kMostLanes, inner - j);
                    for (int64_t k = 0; k < n; ++k)
                      for (int64_t l = 0; l < count; ++l)
                        for (int64_t c = 0; c < 2; ++c)
                          copied[2 * (l * n + k) + c] = x[at + 2 * (k * inner + l) + c];
                    lines(p, copied, n, copied, n, count, job, own);
                    for (int64_t k = 0; k < n; ++k)
                      for (int64_t l = 0; l < count; ++l)
                        for (int64_t c = 0; c < 2; ++c)
                          y[at + 2 * (k * inner + l) + c] = copied[2 * (l * n + k) + c];
                  }
                });
}

template <class F>
void with_parts(DType t, F&& fn) {
  if (t == DType::Complex64 || t == DType::Float32)
    fn.template operator()<float>();
  else
    fn.template operator()<double>();
}

void fft(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::Fft>;
  constexpr auto number = kernels::numbers<kernels::Fft>;
  const pf_tensor& t = a.tensor(at.y);
  const int64_t dims = a.i(number.dims);
  with_parts(a.dtype(at.y), [&]<class T>() {
    const T* x = a.data<const T>(at.x);
    T* y = a.data<T>(at.y);
    double scale = a.f(number.scale);
    for (int d = t.ndim - 1; d >= 0; --d) {
      if (!(dims >> d & 1)) continue;
      int64_t outer = 1, inner = 1;
      for (int i = 0; i < d; ++i) outer *= t.shape[i];
      for (int i = d + 1; i < t.ndim; ++i) inner *= t.shape[i];
      dimension(x, y, outer, t.shape[d], inner, {a.i(number.inverse) != 0, scale});
      x = y;
      scale = 1;
    }
  });
}

// The first roots of n. Parts in arrays of their own: as pairs the compiler packs and unpacks them.
template <class T>
struct HalfRoots {
  std::vector<T> re, im;
  HalfRoots(int64_t count, int64_t n) {
    for (int64_t k = 0; k < count; ++k) {
      const std::complex<double> w = root_of(k, n);
      re.push_back(static_cast<T>(w.real()));
      im.push_back(static_cast<T>(w.imag()));
    }
  }
};

// Lines of n real numbers as lines of n / 2 complex ones, whose terms are taken apart.
void rfft(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::Rfft>;
  const pf_tensor& t = a.tensor(at.x);
  const int64_t n = t.shape[t.ndim - 1], half = n / 2, terms = half + 1;
  const int64_t count = numel(t) / n;
  const double scale = a.f(kernels::numbers<kernels::Rfft>.scale);
  with_parts(a.dtype(at.x), [&]<class T>() {
    const T* x = a.data<const T>(at.x);
    T* y = a.data<T>(at.y);
    const bool even = n % 2 == 0;
    const auto plan = plan_for<T>(even ? half : n);
    const Plan<T>& p = *plan;
    const HalfRoots<T> roots(even ? half / 2 + 1 : 0, n);
    const int64_t group = kMostLanes, size = even ? half : n;
    const size_t bytes = static_cast<size_t>(lines_scratch(p) + 4 * group * size + 64) * sizeof(T);
    parallel_with(
        (count + group - 1) / group, std::max<int64_t>(1, 4096 / (n * group)), bytes,
        [&](int64_t b, int64_t e, char* memory) {
          T* const z = reinterpret_cast<T*>(memory);
          T* const in = z + 2 * group * size;
          T* const own = even ? in : in + 2 * group * size;
          for (int64_t i = b; i < e; ++i) {
            const int64_t o = i * group, rows = std::min(group, count - o);
            if (!even) {
              for (int64_t j = 0; j < rows * n; ++j) {
                in[2 * j] = x[o * n + j];
                in[2 * j + 1] = 0;
              }
              lines(p, in, n, z, n, rows, {false, scale}, own);
              for (int64_t r = 0; r < rows; ++r)
                std::copy(z + 2 * r * n, z + 2 * r * n + 2 * terms, y + 2 * (o + r) * terms);
              continue;
            }
            lines(p, x + o * n, half, z, half, rows, {false, scale}, own);
            for (int64_t r = 0; r < rows; ++r) {
              const T* u = z + 2 * r * half;
              T* v = y + 2 * (o + r) * terms;
              v[0] = u[0] + u[1];
              v[1] = 0;
              v[2 * half] = u[0] - u[1];
              v[2 * half + 1] = 0;
              for (int64_t k = 1; k <= half / 2; ++k) {
                const int64_t m = half - k;
                const T ar = u[2 * k], ai = u[2 * k + 1], br = u[2 * m], bi = u[2 * m + 1];
                const T wr = roots.re[static_cast<size_t>(k)],
                        wi = roots.im[static_cast<size_t>(k)];
                // Of the even elements, and of the odd ones times -i w.
                const T er = (ar + br) / 2, ei = (ai - bi) / 2, dr = (ar - br) / 2,
                        di = (ai + bi) / 2;
                const T fr = dr * wi + di * wr, fi = di * wi - dr * wr;
                v[2 * k] = er + fr;
                v[2 * k + 1] = ei + fi;
                v[2 * m] = er - fr;
                v[2 * m + 1] = fi - ei;
              }
            }
          }
        });
  });
}

void irfft(const KernelArgs& a) {
  constexpr auto at = tensors<kernels::Rfft>;
  const pf_tensor& t = a.tensor(at.y);
  const int64_t n = t.shape[t.ndim - 1], half = n / 2, terms = half + 1;
  const int64_t count = numel(t) / n;
  const double scale = a.f(kernels::numbers<kernels::Rfft>.scale);
  with_parts(a.dtype(at.y), [&]<class T>() {
    const T* x = a.data<const T>(at.x);
    T* y = a.data<T>(at.y);
    const bool even = n % 2 == 0;
    const auto plan = plan_for<T>(even ? half : n);
    const Plan<T>& p = *plan;
    const HalfRoots<T> roots(even ? half / 2 + 1 : 0, n);
    const int64_t group = kMostLanes, size = even ? half : n;
    const size_t bytes = static_cast<size_t>(lines_scratch(p) + 4 * group * size + 64) * sizeof(T);
    parallel_with((count + group - 1) / group, std::max<int64_t>(1, 4096 / (n * group)), bytes,
                  [&](int64_t b, int64_t e, char* memory) {
                    T* const z = reinterpret_cast<T*>(memory);
                    T* const out = z + 2 * group * size;
                    T* const own = even ? out : out + 2 * group * size;
                    for (int64_t i = b; i < e; ++i) {
                      const int64_t o = i * group, rows = std::min(group, count - o);
                      for (int64_t r = 0; r < rows; ++r) {
                        const T* u = x + 2 * (o + r) * terms;
                        T* v = z + 2 * r * size;
                        if (!even) {  // the terms that follow are conjugates
                          v[0] = u[0];
                          v[1] = 0;
                          for (int64_t k = 1; k < terms; ++k) {
                            v[2 * k] = v[2 * (n - k)] = u[2 * k];
                            v[2 * k + 1] = u[2 * k + 1];
                            v[2 * (n - k) + 1] = -u[2 * k + 1];
                          }
                          continue;
                        }
                        // Imaginary parts of the first and the last term count as 0.
                        v[0] = u[0] + u[2 * half];
                        v[1] = u[0] - u[2 * half];
                        for (int64_t k = 1; k <= half / 2; ++k) {
                          const int64_t m = half - k;
                          const T ar = u[2 * k], ai = u[2 * k + 1], br = u[2 * m],
                                  bi = u[2 * m + 1];
                          const T wr = roots.re[static_cast<size_t>(k)],
                                  wi = roots.im[static_cast<size_t>(k)];
                          const T er = ar + br, ei = ai - bi, dr = ar - br, di = ai + bi;
                          // i conj(w) times the difference
                          const T gr = dr * wi - di * wr, gi = dr * wr + di * wi;
                          v[2 * m] = er - gr;
                          v[2 * m + 1] = gi - ei;
                          v[2 * k] = er + gr;
                          v[2 * k + 1] = ei + gi;
                        }
                      }
                      if (even) {
                        lines(p, z, half, y + o * n, half, rows, {true, scale}, own);
                        continue;
                      }
                      lines(p, z, n, out, n, rows, {true, scale}, own);
                      for (int64_t j = 0; j < rows * n; ++j) y[o * n + j] = out[2 * j];
                    }
                  });
  });
}

}  // namespace

PF_CPU_KERNEL(kernels::Fft::kInfo, fft)
PF_CPU_KERNEL(kernels::Rfft::kInfo, rfft)
PF_CPU_KERNEL(kernels::Irfft::kInfo, irfft)

}  // namespace pyflame::cpu
