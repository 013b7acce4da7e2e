// Moments and sums of cells (table/kernels/cells.h) in one pass over memory. A block of elements is
// added as differences from the mean of what came before it in its cell, so that nothing is lost
// however far from 0 the elements are; the first block, a short one, is added twice, to have a
// mean. Blocks are joined with the squares of what their means differ by. Where the elements of a
// cell lie side by side, lanes of vectors share them, and some cells at a time go through memory
// together; else neighbouring cells, or elements of them, are columns. The order in which a cell's
// elements are added follows from the shape alone. The program behind a kernel that gives all that
// is of cells runs over some of them while they are in a cache.
#include "cpu/one_target.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/cells.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cpu/group.h"
#include "cpu/kernel.h"
#include "cpu/rows-inl.h"
#include "cpu/scratch.h"
#include "table/kernels/cells.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {

constexpr auto kNumber = kernels::numbers<kernels::CellMoments>;

// How the work is cut. Lines are what a chunk of a cell is made of: elements side by side, or rows.
struct Cut {
  int64_t batch, outer, cells, inner;
  bool runs;              // elements of a cell side by side, enough for vectors
  int64_t columns;        // partial results of a batch and chunk: cells, or their columns
  int64_t width, tiles;   // of these, for one unit; units beside each other
  int64_t chunk, chunks;  // elements of a cell, or rows
  int64_t elements() const { return runs ? outer * inner : outer; }
  int64_t units() const { return batch * tiles * chunks; }
  int64_t count(int64_t c) const { return std::min(chunk, elements() - c * chunk); }

  explicit Cut(const KernelArgs& a)
      : batch(a.i(kNumber.batch)),
        outer(a.i(kNumber.outer)),
        cells(a.i(kNumber.cells)),
        inner(a.i(kNumber.inner)) {
    constexpr int64_t kRun = 16, kTile = 1024, kWork = 1 << 14, kUnits = 64;
    runs = inner >= kRun;
    columns = runs ? cells : cells * inner;
    width = runs ? std::clamp<int64_t>(2 * kTile / inner, 1, 64) : kTile;
    width = std::min(width, columns);
    tiles = (columns + width - 1) / width;
    const int64_t most = std::max<int64_t>(1, elements() * width / kWork);
    const int64_t want = std::clamp<int64_t>(kUnits / (batch * tiles), 1, most);
    chunk = (elements() + want - 1) / want;
    // Whole lines, or parts of long ones that a block fits into.
    const int64_t unit = !runs ? 8 : outer == 1 ? kBlock : inner;
    chunk = (chunk + unit - 1) / unit * unit;
    chunks = (elements() + chunk - 1) / chunk;
  }
};

// Two sums of so many elements: themselves, and of their squares or products.
struct Two {
  double first = 0, second = 0;
};
// A mean of n elements, and the sum of squares about it, with those of m more: share is m / (n +
// m), spread n m / (n + m).
HWY_INLINE void Join(Two& to, const Two& more, double share, double spread) {
  const double by = more.first - to.first;
  to.first += by * share;
  to.second += more.second + by * by * spread;
}

// What one unit sees.
template <bool kSums, class S>
struct Unit {
  using T = ComputeOf<S>;
  static constexpr int64_t W = Wide<T>::kLanes;
  const Cut& cut;
  const S *x, *g;  // of the batch
  const S* x_end;  // of the tensor: up to here a vector may be read
  const T* mean;   // of the batch, for sums
  int64_t first, width, begin, end;

  bool whole(const S* p) const { return p + W <= x_end; }
  HWY_INLINE Wide<T> near(const S* p, const S* seen, int64_t n) const {
    return whole(seen) ? Load(p) : LoadPart(p, n, T(0));
  }
  HWY_INLINE static void add(const Wide<T>& d, const Wide<T>& v, Wide<T>& a, Wide<T>& b) {
    a = a + (kSums ? v : d);
    b = Fma(kSums ? v : d, d, b);
  }

  // So many vectors, into the second cache.
  template <int kVectors>
  HWY_INLINE static void fetch(const S* p) {
    for (size_t b = 0; b < kVectors * W * sizeof(S); b += 64)
      __builtin_prefetch(reinterpret_cast<const char*>(p) + b, 0, 2);
  }
  // Less than a vector.
  HWY_INLINE void add_part(const S* p, const S* q, int64_t n, const Wide<T>& o, Wide<T>& a,
                           Wide<T>& b) const {
    add(FirstLanes(near(p, p, n) - o, n), kSums ? FirstLanes(near(q, p, n), n) : o, a, b);
  }

  // n elements side by side of each cell to its lanes; what comes `ahead` of them is fetched. Short
  // ones need no loop: kFull vectors and some elements.
  template <int kFull>
  void short_runs(int64_t at, int64_t n, int64_t ahead, const T* shifts, T* lanes) const {
    const int64_t rest = n - kFull * W;
    for (int64_t c = 0; c < width; ++c, at += cut.inner, lanes += 2 * W) {
      const Wide<T> o = Fill(shifts[c]);
      Wide<T> a = Load(lanes), b = Load(lanes + W);
      const S *p = x + at, *q = kSums ? g + at : p;
      for (int v = 0; v < kFull; ++v) {
        fetch<1>(p + v * W + ahead);
        if constexpr (kSums) fetch<1>(q + v * W + ahead);
        add(Load(p + v * W) - o, Load(q + v * W), a, b);
      }
      if (rest > 0) add_part(p + kFull * W, q + kFull * W, rest, o, a, b);
      Store(a, lanes);
      Store(b, lanes + W);
    }
  }
  void run(int64_t at, int64_t n, int64_t ahead, T shift, T* lanes) const {
    const Wide<T> o = Fill(shift);
    Wide<T> a = Load(lanes), b = Load(lanes + W), c = Fill(T(0)), d = c;
    const S *p = x + at, *q = kSums ? g + at : p;
    int64_t i = 0;
    for (; i + 2 * W <= n; i += 2 * W) {
      fetch<2>(p + i + ahead);
      if constexpr (kSums) fetch<2>(q + i + ahead);
      add(Load(p + i) - o, Load(q + i), a, b);
      add(Load(p + i + W) - o, Load(q + i + W), c, d);
    }
    if (i + W <= n) {
      add(Load(p + i) - o, Load(q + i), a, b);
      i += W;
    }
    if (i < n) add_part(p + i, q + i, n - i, o, c, d);
    Store(a + c, lanes);
    Store(b + d, lanes + W);
  }
  void runs(int64_t at, int64_t n, int64_t ahead, const T* shifts, T* lanes) const {
    switch (n / W) {
      case 1:
        return short_runs<1>(at, n, ahead, shifts, lanes);
      case 2:
        return short_runs<2>(at, n, ahead, shifts, lanes);
      case 3:
        return short_runs<3>(at, n, ahead, shifts, lanes);
      case 4:
        return short_runs<4>(at, n, ahead, shifts, lanes);
      default:
        for (int64_t c = 0; c < width; ++c)
          run(at + c * cut.inner, n, ahead, shifts[c], lanes + 2 * W * c);
    }
  }

  static size_t bytes(const Cut& cut, int64_t width) {
    const int64_t padded = (width + W - 1) / W * W;
    return cut.runs ? Parts::bytes<T>((2 * W + 1) * width) : 4 * Parts::bytes<T>(padded);
  }

  void of_runs(char* memory, Two* out) const {
    Parts parts(memory);
    T* const lanes = parts.take<T>(2 * W * width);
    T* const shifts = parts.take<T>(width);
    const int64_t plane = cut.cells * cut.inner;
    std::fill_n(lanes, 2 * W * width, T(0));
    for (int64_t c = 0; c < width; ++c) {
      out[c] = Two();
      if constexpr (kSums) {
        shifts[c] = mean[first + c];
      } else {
        shifts[c] =
            ToCompute(x[begin / cut.inner * plane + (first + c) * cut.inner + begin % cut.inner]);
        out[c].first = shifts[c];
      }
    }
    constexpr int64_t kFirst = 64;
    int64_t done = 0, pending = 0;
    bool settled = kSums;
    for (int64_t k = begin; k < end;) {
      const int64_t o = k / cut.inner, i = k % cut.inner;
      const int64_t n = std::min({cut.inner - i, end - k, done == 0 ? kFirst : kBlock});
      // The next ones may lie in another line, where the processor does not look by itself.
      const int64_t next = std::min(k + n, end - 1);
      const int64_t ahead = next / cut.inner * plane + next % cut.inner - (o * plane + i);
      runs(o * plane + first * cut.inner + i, n, ahead, shifts, lanes);
      k += n;
      pending += n;
      if (pending < (done == 0 ? kFirst : kBlock / 2) && k < end) continue;
      if (!settled) {
        for (int64_t c = 0; c < width; ++c)
          shifts[c] += SumOf(Load(lanes + 2 * W * c)) / static_cast<T>(pending);
        std::fill_n(lanes, 2 * W * width, T(0));
        settled = true;
        k = begin;
        pending = 0;
        continue;
      }
      const auto before = static_cast<double>(done), m = static_cast<double>(pending);
      const double share = m / (before + m), spread = before * m / (before + m);
      for (int64_t c = 0; c < width; ++c) {
        T* const l = lanes + 2 * W * c;
        const double a = SumOf(Load(l)), b = SumOf(Load(l + W));
        std::fill_n(l, 2 * W, T(0));
        if constexpr (kSums) {
          out[c].first += a;
          out[c].second += b;
        } else {
          Join(out[c], {shifts[c] + a / m, b - a * (a / m)}, share, spread);
          shifts[c] = static_cast<T>(out[c].first);
        }
      }
      done += pending;
      pending = 0;
    }
  }

  // kRows rows, each so many elements after the one before.
  template <int kRows>
  HWY_INLINE void rows(int64_t at, int64_t apart, const T* shifts, T* a, T* b) const {
    const auto step = [&](int64_t c, auto load) PF_INLINE {
      const Wide<T> o = Load(shifts + c);
      Wide<T> s = Load(a + c), t = Load(b + c);
      for (int r = 0; r < kRows; ++r) {
        const S* p = x + at + r * apart + c;
        if constexpr (kRows > 1) {
          fetch<1>(p + kRows * apart);
          if constexpr (kSums) fetch<1>(g + (p - x) + kRows * apart);
        }
        const Wide<T> v = load(p, p);
        add(v - o, kSums ? load(g + (p - x), p) : v, s, t);
      }
      Store(s, a + c);
      Store(t, b + c);
    };
    int64_t c = 0;
    for (; c + W <= width; c += W) step(c, [](const S* p, const S*) PF_INLINE { return Load(p); });
    if (c < width)
      step(c, [&](const S* p, const S* seen) PF_INLINE { return near(p, seen, width - c); });
  }

  void of_columns(char* memory, Two* out) const {
    constexpr int64_t kRows = 8, kFirst = kRows, kFold = 128;
    Parts parts(memory);
    const int64_t padded = (width + W - 1) / W * W;
    T* const shifts = parts.take<T>(padded);
    T* const totals = parts.take<T>(padded);  // squares, of sums: products
    T* const a = parts.take<T>(padded);
    T* const b = parts.take<T>(padded);
    std::fill_n(shifts, padded, T(0));
    std::fill_n(totals, padded, T(0));
    for (int64_t c = 0; c < width; ++c) {
      out[c] = Two();
      shifts[c] =
          kSums ? mean[(first + c) / cut.inner] : ToCompute(x[begin * cut.columns + first + c]);
    }
    bool settled = kSums;
    for (int64_t r = begin; r < end;) {
      const int64_t n = std::min(r == begin ? kFirst : kFold, end - r);
      std::fill_n(a, padded, T(0));
      std::fill_n(b, padded, T(0));
      int64_t k = 0;
      for (; k + kRows <= n; k += kRows)
        rows<kRows>((r + k) * cut.columns + first, cut.columns, shifts, a, b);
      for (; k < n; ++k) rows<1>((r + k) * cut.columns + first, cut.columns, shifts, a, b);
      if (!settled) {
        for (int64_t c = 0; c < width; ++c) shifts[c] += a[c] / static_cast<T>(n);
        settled = true;
        continue;
      }
      if constexpr (kSums) {
        for (int64_t c = 0; c < width; ++c) {
          out[c].first += a[c];
          out[c].second += b[c];
        }
      } else {
        // The mean so far is what was subtracted.
        const auto before = static_cast<double>(r - begin), all = before + static_cast<double>(n);
        const Wide<T> inverse = Fill(static_cast<T>(1.0 / static_cast<double>(n)));
        const Wide<T> part = Fill(static_cast<T>(static_cast<double>(n) / all));
        const Wide<T> weight = Fill(static_cast<T>(before * static_cast<double>(n) / all));
        for (int64_t c = 0; c < padded; c += W) {
          const Wide<T> s = Load(a + c), m = s * inverse;
          Store(Fma(m, part, Load(shifts + c)), shifts + c);
          Store(Load(totals + c) + ((Load(b + c) - s * m) + m * m * weight), totals + c);
        }
      }
      r += n;
    }
    if constexpr (!kSums)
      for (int64_t c = 0; c < width; ++c) out[c] = {shifts[c], totals[c]};
  }
};

// One call: sums over units, and what cells make of theirs.
template <bool kSums, class S>
struct Call {
  using T = ComputeOf<S>;
  const Cut cut;
  const S *x, *g;
  const T* mean;

  // Columns [first, first + width) of a batch and chunk.
  void unit(int64_t n, int64_t c, int64_t first, int64_t width, char* memory, Two* out) const {
    const int64_t plane = cut.outer * cut.cells * cut.inner;
    const Unit<kSums, S> unit{.cut = cut,
                              .x = x + n * plane,
                              .g = kSums ? g + n * plane : nullptr,
                              .x_end = x + cut.batch * plane,
                              .mean = kSums ? mean + n * cut.cells : nullptr,
                              .first = first,
                              .width = width,
                              .begin = c * cut.chunk,
                              .end = c * cut.chunk + cut.count(c)};
    cut.runs ? unit.of_runs(memory, out) : unit.of_columns(memory, out);
  }
  int64_t each() const { return cut.columns / cut.cells; }  // columns of a cell
  // The two numbers of neighbouring cells from those of their columns, whose chunks are so far
  // apart.
  void join(const Two* from, int64_t apart, int64_t count, Two* to) const {
    std::fill_n(to, count, Two());
    double n = 0;
    for (int64_t c = 0; c < cut.chunks; ++c, from += apart)
      for (int64_t k = 0; k < each(); ++k) {
        const auto m = static_cast<double>(cut.count(c)), all = n + m;
        const double share = m / all, spread = n * m / all;
        for (int64_t i = 0; i < count; ++i) {
          const Two& more = from[i * each() + k];
          if constexpr (kSums) {
            to[i].first += more.first;
            to[i].second += more.second;
          } else if (n == 0) {
            to[i] = more;
          } else {
            Join(to[i], more, share, spread);
          }
        }
        n = all;
      }
    for (int64_t i = 0; i < (kSums ? 0 : count); ++i) to[i].second /= n;
  }

  // finish(cell, its two numbers) for all of them.
  template <class Finish>
  void whole(const Finish& finish) const {
    const Scratch<Two> partial(cut.batch * cut.chunks * cut.columns);
    const int64_t work = (kSums ? 2 : 1) * cut.chunk * cut.width;
    parallel_with(cut.units(), RowGrain(work), Unit<kSums, S>::bytes(cut, cut.width),
                  [&](int64_t begin, int64_t end, char* memory) {
                    for (int64_t u = begin; u < end; ++u) {
                      // Neighbouring units lie side by side in memory.
                      const int64_t at = u % cut.tiles * cut.width, c = u / cut.tiles % cut.chunks;
                      const int64_t n = u / cut.tiles / cut.chunks;
                      unit(n, c, at, std::min(cut.width, cut.columns - at), memory,
                           partial.get() + (n * cut.chunks + c) * cut.columns + at);
                    }
                  });
    parallel_for(cut.batch * cut.cells, std::max<int64_t>(1, 2048 / (cut.chunks * each())),
                 [&](int64_t begin, int64_t end) {
                   Two sums[64];
                   for (int64_t i = begin, n = 0; i < end; i += n) {
                     const int64_t batch = i / cut.cells, cell = i % cut.cells;
                     n = std::min({int64_t{64}, end - i, cut.cells - cell});
                     join(partial.get() + batch * cut.chunks * cut.columns + cell * each(),
                          cut.columns, n, sums);
                     for (int64_t k = 0; k < n; ++k) finish(i + k, sums[k]);
                   }
                 });
  }

  // So many cells at a time that their elements stay in half of what a piece may touch, and at
  // least one; 0 where they would not: where rows are too large, or such steps apart that they
  // share sets of the cache, or where they are shorter than what memory gives at once.
  int64_t part() const {
    constexpr int64_t kRows = 16;  // of which boxes of a tape are made
    constexpr int64_t kWays = 8, kApart = int64_t{128} << 10;
    constexpr int64_t kItem = sizeof(S), kTensors = kSums ? 2 : 1;
    const auto one = static_cast<double>(kTensors * kItem * cut.elements());
    if (!cut.runs || cut.batch != 1 || one > piece_bytes()) return 0;
    int64_t n = std::max<int64_t>(1, static_cast<int64_t>(piece_bytes() / 2 / one));
    n = std::min(n, cut.cells / (2 * num_threads()));
    if (n > kRows) n = n / kRows * kRows;
    const int64_t row = n * cut.inner * kItem, step = cut.cells * cut.inner * kItem;
    const int64_t room = cut.outer * std::max(row, std::gcd(step, kApart));
    return room * kTensors > kWays * kApart ? 0 : n;
  }
  // The same, and the program behind it over some cells while these are in a cache.
  template <class Finish>
  void run(Behind* behind, const Finish& finish) const {
    if (!behind) return whole(finish);
    const auto& programs = static_cast<const BehindCells&>(*behind);
    const int64_t n = part(), all = cut.elements() * cut.cells;
    if (n == 0) {
      programs.run_before(0, 1, all, all);
      return whole(finish);
    }
    behind->take();
    const size_t sums = Parts::bytes<Two>((cut.chunks + 1) * n);
    parallel_with((cut.cells + n - 1) / n, 1, sums + Unit<kSums, S>::bytes(cut, n),
                  [&](int64_t begin, int64_t end, char* memory) {
                    Two *const joined = reinterpret_cast<Two*>(memory), *const partial = joined + n;
                    for (int64_t p = begin; p < end; ++p) {
                      const int64_t first = p * n, count = std::min(n, cut.cells - first);
                      const int64_t at = first * cut.inner, row = count * cut.inner;
                      const int64_t apart = cut.cells * cut.inner;
                      programs.run_before(at, cut.outer, row, apart);
                      for (int64_t c = 0; c < cut.chunks; ++c)
                        unit(0, c, first, count, memory + sums, partial + c * count);
                      join(partial, count, count, joined);
                      for (int64_t i = 0; i < count; ++i) finish(first + i, joined[i]);
                      programs.run(at, cut.outer, row, apart);
                    }
                  });
  }
};

}  // namespace

void CellMoments(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::CellMoments>;
  dispatch_float(a.dtype(at.x), [&]<class S>() {
    using T = ComputeOf<S>;
    T *const mean = a.data<T>(at.mean), *const var = a.data<T>(at.var);
    Call<false, S>{Cut(a), a.data<S>(at.x), nullptr, nullptr}.whole([&](int64_t i, const Two& two) {
      mean[i] = static_cast<T>(two.first);
      var[i] = static_cast<T>(two.second);
    });
  });
}
void CellSums(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::CellSums>;
  dispatch_float(a.dtype(at.x), [&]<class S>() {
    using T = ComputeOf<S>;
    T *const sum = a.data<T>(at.sum), *const product = a.data<T>(at.product);
    Call<true, S>{Cut(a), a.data<S>(at.x), a.data<S>(at.g), a.data<T>(at.mean)}.whole(
        [&](int64_t i, const Two& two) {
          sum[i] = static_cast<T>(two.first);
          product[i] = static_cast<T>(two.second);
        });
  });
}
void CellScales(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::CellScales>;
  dispatch_float(a.dtype(at.x), [&]<class S>() {
    using T = ComputeOf<S>;
    const auto eps = static_cast<T>(a.f(kernels::numbers<kernels::CellScales>.eps));
    const T* const weight = a.has(at.weight) ? a.data<T>(at.weight) : nullptr;
    T *const mean = a.data<T>(at.mean), *const var = a.data<T>(at.var);
    T *const rstd = a.data<T>(at.rstd), *const scale = a.data<T>(at.scale);
    Call<false, S>{Cut(a), a.data<S>(at.x), nullptr, nullptr}.run(
        a.behind, [&](int64_t i, const Two& two) {
          mean[i] = static_cast<T>(two.first);
          var[i] = static_cast<T>(two.second);
          rstd[i] = T(1) / std::sqrt(var[i] + eps);
          scale[i] = weight ? rstd[i] * weight[i] : rstd[i];
        });
  });
}
void CellSlopes(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::CellSlopes>;
  dispatch_float(a.dtype(at.x), [&]<class S>() {
    using T = ComputeOf<S>;
    const T *const rstd = a.data<T>(at.rstd), *const scale = a.data<T>(at.scale);
    T *const sum = a.data<T>(at.sum), *const product = a.data<T>(at.product);
    T *const shift = a.data<T>(at.shift), *const slope = a.data<T>(at.slope);
    const Call<true, S> call{Cut(a), a.data<S>(at.x), a.data<S>(at.g), a.data<T>(at.mean)};
    const auto share = static_cast<T>(-1.0 / static_cast<double>(call.cut.outer * call.cut.inner));
    call.run(a.behind, [&](int64_t i, const Two& two) {
      sum[i] = static_cast<T>(two.first);
      product[i] = static_cast<T>(two.second) * rstd[i];
      shift[i] = sum[i] * scale[i] * share;
      slope[i] = product[i] * rstd[i] * scale[i] * share;
    });
  });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
PF_CPU_SIMD_KERNEL(CellMoments)
PF_CPU_SIMD_KERNEL(CellSums)
PF_CPU_SIMD_KERNEL(CellScales, RunsBehind{})
PF_CPU_SIMD_KERNEL(CellSlopes, RunsBehind{})
}  // namespace pyflame::cpu
#endif  // HWY_ONCE
