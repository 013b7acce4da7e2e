// Distances between all pairs of rows, and their gradient, for the norms 0, 1, 2 and inf. The
// differences are never in memory: rows of one operand stand across lanes, 16 floats or 8 doubles,
// and a few rows of the other pass over them. Terms of a sum are added in their order, in chunks of
// 256 whose sums are added in theirs.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/distance.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "cpu/kernel.h"
#include "cpu/rows-inl.h"
#include "cpu/threads.h"
#include "table/kernels/distance.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {

enum Norm { kZero, kOne, kTwo, kInf };
constexpr int64_t kChunk = 256;

template <class F>
void WithNorm(double p, F&& fn) {
  if (p == 0) return fn.template operator()<kZero>();
  if (p == 1) return fn.template operator()<kOne>();
  if (p == 2) return fn.template operator()<kTwo>();
  fn.template operator()<kInf>();
}

// NaN if either is.
template <class T>
HWY_INLINE Wide<T> Larger(const Wide<T>& a, const Wide<T>& b) {
  return Choose(NotEqual(a, a), a, Choose(NotEqual(b, b), b, WMax(a, b)));
}
template <Norm kNorm, class T>
HWY_INLINE Wide<T> Join(const Wide<T>& sum, const Wide<T>& term) {
  if constexpr (kNorm == kInf)
    return Larger(sum, term);
  else
    return sum + term;
}
template <Norm kNorm, class T>
HWY_INLINE Wide<T> Add(const Wide<T>& sum, const Wide<T>& d) {
  if constexpr (kNorm == kZero)
    return sum + Choose(NotEqual(d, Fill(T(0))), Fill(T(1)), Fill(T(0)));
  else if constexpr (kNorm == kOne)
    return sum + WAbs(d);
  else if constexpr (kNorm == kTwo)
    return Fma(d, d, sum);
  else
    return Larger(sum, WAbs(d));
}

// Where the distance of rows i and j stands: a matrix with any strides, or, of a triangle of which
// only j > i is kept, one row of it after the other.
struct Pairs {
  int64_t row_step, step;  // of the matrix
  int64_t triangle;        // rows and columns of it, 0 for a matrix
  HWY_INLINE int64_t at(int64_t i, int64_t j) const {
    if (triangle == 0) return i * row_step + j * step;
    const int64_t low = i < j ? i : j, high = i < j ? j : i;
    return (low * (2 * triangle - low - 1) / 2 + high - low - 1) * step;
  }
};

// kRows rows of x over one panel: sums[r * lanes], continued.
template <Norm kNorm, int kRows, class T>
HWY_INLINE void AddRows(const T* x, int64_t stride, const T* panel, int64_t k, T* sums) {
  constexpr int64_t W = Wide<T>::kLanes;
  Wide<T> a0 = Fill(T(0)), a1 = a0, a2 = a0, a3 = a0;
  for (int64_t c = 0; c < k; ++c) {
    const Wide<T> y = Load(panel + c * W);
    a0 = Add<kNorm>(a0, Fill(x[c]) - y);
    if constexpr (kRows == 4) {
      a1 = Add<kNorm>(a1, Fill(x[stride + c]) - y);
      a2 = Add<kNorm>(a2, Fill(x[2 * stride + c]) - y);
      a3 = Add<kNorm>(a3, Fill(x[3 * stride + c]) - y);
    }
  }
  Store(Join<kNorm>(Load(sums), a0), sums);
  if constexpr (kRows == 4) {
    Store(Join<kNorm>(Load(sums + W), a1), sums + W);
    Store(Join<kNorm>(Load(sums + 2 * W), a2), sums + 2 * W);
    Store(Join<kNorm>(Load(sums + 3 * W), a3), sums + 3 * W);
  }
}

// Distances of the rows [begin, end) of x, each of m elements, from the n rows of y.
template <Norm kNorm, class T>
void DistancesOf(const T* x, const T* y, T* out, const Pairs& to, int64_t begin, int64_t end,
                 int64_t n, int64_t m, char* memory) {
  constexpr int64_t W = Wide<T>::kLanes;
  Parts parts(memory);
  T* const panel = parts.take<T>((m < kChunk ? m : kChunk) * W);
  T* const sums = parts.take<T>((end - begin) * W);
  alignas(64) T row[W];
  for (int64_t j = to.triangle ? begin / W * W : 0; j < n; j += W) {
    const int64_t width = n - j < W ? n - j : W;
    for (int64_t i = 0; i < (end - begin) * W; i += W) Store(Fill(T(0)), sums + i);
    for (int64_t c = 0; c < m; c += kChunk) {
      const int64_t k = m - c < kChunk ? m - c : kChunk;
      for (int64_t w = 0; w < W; ++w) {
        const T* from = y + (j + (w < width ? w : 0)) * m + c;
        for (int64_t q = 0; q < k; ++q) panel[q * W + w] = from[q];
      }
      int64_t i = begin;
      for (; i + 4 <= end; i += 4)
        AddRows<kNorm, 4>(x + i * m + c, m, panel, k, sums + (i - begin) * W);
      for (; i < end; ++i) AddRows<kNorm, 1>(x + i * m + c, m, panel, k, sums + (i - begin) * W);
    }
    for (int64_t i = begin; i < end; ++i) {
      Wide<T> d = Load(sums + (i - begin) * W);
      if constexpr (kNorm == kTwo) d = WSqrt(d);
      if (width == W && to.step == 1 && to.triangle == 0) {
        Store(d, out + to.at(i, j));
        continue;
      }
      Store(d, row);
      const int64_t first = to.triangle && j <= i ? i + 1 - j : 0;
      if (first >= width) continue;
      T* place = out + to.at(i, j + first);
      for (int64_t w = first; w < width; ++w, place += to.step) *place = row[w];
    }
  }
}

template <Norm kNorm, class T>
HWY_INLINE Wide<T> Slope(const Wide<T>& sum, const Wide<T>& diff, T weight, T distance) {
  const Wide<T> w = Fill(weight), zero = Fill(T(0));
  if constexpr (kNorm == kTwo) {
    return Fma(w, diff, sum);
  } else {
    Wide<T> term =
        Choose(GreaterThan(diff, zero), w, Choose(GreaterThan(zero, diff), zero - w, zero * diff));
    if constexpr (kNorm == kInf) term = Choose(NotEqual(WAbs(diff), Fill(distance)), zero, term);
    return sum + term;
  }
}
// kWide vectors of a row of x over k rows of y: sums, continued. Neighbouring rows of y go to
// separate sums, so that one need not wait for the other.
template <Norm kNorm, int kWide, class T>
HWY_INLINE void AddSlopes(const T* x, const T* y, int64_t step, const T* weight, const T* distance,
                          int64_t k, T* sums) {
  constexpr int64_t W = Wide<T>::kLanes, kNext = (kWide - 1) * W;
  const Wide<T> x0 = Load(x), x1 = Load(x + kNext);
  Wide<T> a0 = Fill(T(0)), a1 = a0, b0 = a0, b1 = a0;
  int64_t q = 0;
  for (; q + 2 <= k; q += 2) {
    const T* row = y + q * step;
    a0 = Slope<kNorm>(a0, x0 - Load(row), weight[q], distance[q]);
    b0 = Slope<kNorm>(b0, x0 - Load(row + step), weight[q + 1], distance[q + 1]);
    if constexpr (kWide == 2) {
      a1 = Slope<kNorm>(a1, x1 - Load(row + kNext), weight[q], distance[q]);
      b1 = Slope<kNorm>(b1, x1 - Load(row + step + kNext), weight[q + 1], distance[q + 1]);
    }
  }
  if (q < k) {
    a0 = Slope<kNorm>(a0, x0 - Load(y + q * step), weight[q], distance[q]);
    if constexpr (kWide == 2)
      a1 = Slope<kNorm>(a1, x1 - Load(y + q * step + kNext), weight[q], distance[q]);
  }
  Store(Load(sums) + (a0 + b0), sums);
  if constexpr (kWide == 2) Store(Load(sums + kNext) + (a1 + b1), sums + kNext);
}

constexpr int64_t kTogether = 16;  // rows whose gradient is taken together

// to[r * kChunk + q]: the entry of rows i + r and c + q, 0 where they are one. What lies left of a
// triangle's diagonal stands in the columns above, of which neighbouring rows share cache lines.
template <class T>
void ReadPairs(const T* from, const Pairs& p, int64_t i, int64_t rows, int64_t c, int64_t k,
               T* to) {
  const int64_t left = p.triangle == 0 || i <= c ? 0 : (i - c < k ? i - c : k);
  for (int64_t q = 0; q < left; ++q) {
    const T* at = from + p.at(c + q, i);
    for (int64_t r = 0; r < rows; ++r) to[r * kChunk + q] = at[r * p.step];
  }
  for (int64_t r = 0; r < rows; ++r) {
    T* row = to + r * kChunk;
    int64_t q = left;
    for (; p.triangle && q < k && c + q <= i + r; ++q)
      row[q] = c + q == i + r ? T(0) : from[p.at(i + r, c + q)];
    if (q == k) continue;
    const T* at = from + p.at(i + r, c + q);
    for (; q < k; ++q, at += p.step) row[q] = *at;
  }
}

// The gradient of the rows [i, i + rows) of x, at most kTogether: sum over j of g[i, j] * (the
// slope of the distance at x[i] - y[j]). x: these rows, y: n rows, padded to `padded` elements
// each; sums: `padded` zeros for each row; weight and distance: room for kTogether * kChunk zeros
// each.
template <Norm kNorm, class T>
void SlopesOf(const T* x, const T* y, const T* g, const T* d, const Pairs& gp, const Pairs& dp,
              int64_t i, int64_t rows, int64_t n, int64_t padded, T* sums, T* weight, T* distance) {
  constexpr int64_t W = Wide<T>::kLanes;
  for (int64_t c = 0; c < n; c += kChunk) {
    const int64_t k = n - c < kChunk ? n - c : kChunk;
    ReadPairs(g, gp, i, rows, c, k, weight);
    ReadPairs(d, dp, i, rows, c, k, distance);
    for (int64_t r = 0; r < rows; ++r) {
      T *w = weight + r * kChunk, *far = distance + r * kChunk;
      for (int64_t q = 0; kNorm == kTwo && q < k; q += W) {
        const Wide<T> by = Load(far + q), zero = Fill(T(0));
        Store(Choose(NotEqual(by, zero), Load(w + q) / by, zero), w + q);
      }
      int64_t p = 0;
      T* sum = sums + r * padded;
      const T *row = x + r * padded, *others = y + c * padded;
      for (; p + 2 * W <= padded; p += 2 * W)
        AddSlopes<kNorm, 2>(row + p, others + p, padded, w, far, k, sum + p);
      if (p < padded) AddSlopes<kNorm, 1>(row + p, others + p, padded, w, far, k, sum + p);
    }
  }
}

void Distances(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::Distances>;
  constexpr auto number = kernels::numbers<kernels::Distances>;
  const pf_tensor &out = a.tensor(at.out), &x1 = a.tensor(at.x1), &x2 = a.tensor(at.x2);
  const int64_t batch = x1.shape[0], rows = x1.shape[1], m = x1.shape[2], n = x2.shape[1];
  const bool triangle = a.i(number.triangle) != 0;
  const Pairs to = triangle ? Pairs{0, out.strides[0], rows} : Pairs{n, 1, 0};
  constexpr int64_t kBlock = 64;  // rows that share a panel
  const int64_t blocks = (rows + kBlock - 1) / kBlock;
  const int64_t work = kBlock * n * (m + 8);
  WithNorm(a.f(number.p), [&]<Norm kNorm>() {
    dispatch_wide(a.dtype(at.x1), [&]<class T>() {
      constexpr int64_t W = Wide<T>::kLanes;
      const size_t bytes =
          Parts::bytes<T>((m < kChunk ? m : kChunk) * W) + Parts::bytes<T>(kBlock * W);
      parallel_with(batch * blocks, work > 65536 ? 1 : 65536 / (work > 0 ? work : 1), bytes,
                    [&](int64_t b, int64_t e, char* memory) {
                      for (; b < e; ++b) {
                        const int64_t one = b / blocks, first = b % blocks * kBlock;
                        const int64_t last = first + kBlock < rows ? first + kBlock : rows;
                        DistancesOf<kNorm>(
                            a.data<T>(at.x1) + one * rows * m, a.data<T>(at.x2) + one * n * m,
                            a.data<T>(at.out) + one * rows * n, to, first, last, n, m, memory);
                      }
                    });
    });
  });
}

void DistancesBackward(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::DistancesBackward>;
  constexpr auto number = kernels::numbers<kernels::DistancesBackward>;
  const pf_tensor &x1 = a.tensor(at.x1), &x2 = a.tensor(at.x2);
  const pf_tensor &g = a.tensor(at.dout), &d = a.tensor(at.out);
  const int64_t batch = x1.shape[0], rows = x1.shape[1], m = x1.shape[2], n = x2.shape[1];
  const bool triangle = a.i(number.triangle) != 0;
  const auto pairs = [&](const pf_tensor& t) {
    return triangle ? Pairs{0, t.strides[0], rows} : Pairs{t.strides[1], t.strides[2], 0};
  };
  const Pairs gp = pairs(g), dp = pairs(d);
  WithNorm(a.f(number.p), [&]<Norm kNorm>() {
    dispatch_wide(a.dtype(at.x1), [&]<class T>() {
      constexpr int64_t W = Wide<T>::kLanes;
      const int64_t padded = (m + W - 1) / W * W;
      Scratch<T> y(n * padded);
      for (int64_t b = 0; b < batch; ++b) {
        const auto fill_up = [&](const T* from, T* to) {
          for (int64_t k = 0; k < padded; ++k) to[k] = k < m ? from[k] : T(0);
        };
        for (int64_t j = 0; j < n; ++j)
          fill_up(a.data<T>(at.x2) + (b * n + j) * m, y.get() + j * padded);
        const T* gb = a.data<T>(at.dout) + (triangle ? 0 : b * g.strides[0]);
        const T* db = a.data<T>(at.out) + (triangle ? 0 : b * d.strides[0]);
        const int64_t work = n * (padded + 8);
        constexpr int64_t kPairs = kTogether * kChunk;
        const size_t bytes = 2 * Parts::bytes<T>(kTogether * padded) + Parts::bytes<T>(2 * kPairs);
        parallel_with(rows, work > 65536 ? 1 : 65536 / (work > 0 ? work : 1), bytes,
                      [&](int64_t begin, int64_t end, char* memory) {
                        Parts parts(memory);
                        T* const x = parts.take<T>(kTogether * padded);
                        T* const sums = parts.take<T>(kTogether * padded);
                        T* const pairs = parts.take<T>(2 * kPairs);
                        for (int64_t k = 0; k < 2 * kPairs; k += W) Store(Fill(T(0)), pairs + k);
                        for (int64_t i = begin; i < end; i += kTogether) {
                          const int64_t count = end - i < kTogether ? end - i : kTogether;
                          for (int64_t r = 0; r < count; ++r)
                            fill_up(a.data<T>(at.x1) + (b * rows + i + r) * m, x + r * padded);
                          for (int64_t k = 0; k < count * padded; k += W)
                            Store(Fill(T(0)), sums + k);
                          SlopesOf<kNorm>(x, y.get(), gb, db, gp, dp, i, count, n, padded, sums,
                                          pairs, pairs + kPairs);
                          for (int64_t r = 0; r < count; ++r)
                            std::memcpy(a.data<T>(at.dx) + (b * rows + i + r) * m,
                                        sums + r * padded, static_cast<size_t>(m) * sizeof(T));
                        }
                      });
      }
    });
  });
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
PF_CPU_SIMD_KERNEL(Distances)
PF_CPU_SIMD_KERNEL(DistancesBackward)
}  // namespace pyflame::cpu
#endif  // HWY_ONCE
