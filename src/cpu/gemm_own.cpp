// The own matrix product: blocks for the caches, tiles for the registers. Every element of c is
// a sum over blocks of kK steps of k, each summed in order; nothing else enters its value, so it
// does not change with threads, row blocks or packing.
#include "cpu/gemm_own.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/interrupt.h"
#include "cpu/kernel.h"
#include "cpu/scratch.h"
#include "cpu/stack.h"
#include "cpu/threads.h"

namespace pyflame::cpu {
namespace {

constexpr int64_t kK = 256;   // steps of k in one block: a panel of b is then 32 KB
constexpr int64_t kM = 192;   // rows of a packed block of a: 192 KB of float32
constexpr int64_t kN = 1024;  // columns of a packed block of b: 1 MB of float32

// How blocks of at most rows x columns of one batch item are computed on one thread: operands of
// type S, sums of T, results and bias of C.
template <class S, class T, class C>
struct Blocking {
  static constexpr bool kSame = std::is_same_v<S, T>, kSums = std::is_same_v<C, T>;
  static constexpr int64_t kSteps = std::is_same_v<S, int8_t> ? 2 : 1;  // of k in a panel's element
  bool direct_a, direct_b;                                              // not packed
  size_t bytes_a = 0, bytes_b = 0, bytes_c = 0, bytes_bias = 0;  // of its packed operands and sums

  Blocking(const Gemm& g, int64_t rows, int64_t columns) {
    const micro::Kernels<T>& kern = micro::kernels<T>();
    const int64_t k = std::min(g.k, kK), steps = (k + kSteps - 1) / kSteps;
    const bool little = rows * columns * k <= 48 * 48 * 48;
    direct_b = kSame && g.b_col == 1 && (rows <= 2 * kern.mr || little);
    direct_a = kSame && (columns <= 2 * kern.nr || little);
    const int64_t nb = std::min(kN, columns), nr = kern.nr;
    if (!direct_a) bytes_a = Parts::bytes<T>(std::min(kM, rows) * steps);
    if (!direct_b) bytes_b = Parts::bytes<T>((nb + nr - 1) / nr * nr * steps);
    if (!kSums) bytes_c = Parts::bytes<T>(rows * nb);
    if (!kSums && g.bias) bytes_bias = Parts::bytes<T>(columns);
  }
  size_t bytes() const { return bytes_a + bytes_b + bytes_c + bytes_bias; }

  void run(const Gemm& g, const S* a, const S* b, C* c, int64_t m0, int64_t m1, int64_t n0,
           int64_t n1, char* memory) const;
};

// c[rows m0..m1, columns n0..n1], on the calling thread.
template <class S, class T, class C>
void Blocking<S, T, C>::run(const Gemm& g, const S* a, const S* b, C* c, int64_t m0, int64_t m1,
                            int64_t n0, int64_t n1, char* memory) const {
  const micro::Kernels<T>& kern = micro::kernels<T>();
  const int mr = kern.mr, nr = kern.nr;
  const int64_t mb = m1 - m0;
  const auto take = [&memory](size_t bytes) {
    return reinterpret_cast<T*>(std::exchange(memory, memory + bytes));
  };
  T *const packed_a = take(bytes_a), *const packed_b = take(bytes_b), *const sums = take(bytes_c);
  const C* bias = static_cast<const C*>(g.bias);
  if constexpr (std::is_same_v<S, float>)
    if (g.m == 1 && !g.add && g.k * g.n > 4096 &&
        micro::one_row(a + m0 * g.a_row, g.k == 1 ? 1 : g.a_col, b + n0 * g.b_col, g.b_row, g.b_col,
                       g.k, kK, n1 - n0, bias ? bias + n0 : nullptr, c + m0 * g.c_row + n0))
      return;

  const T* wide_bias = nullptr;
  if (bias) {
    if constexpr (kSums) {
      wide_bias = bias + n0;
    } else {
      T* wide = take(bytes_bias);
      micro::pack(bias + n0, 0, 1, 1, n1 - n0, 1, wide);
      wide_bias = wide;
    }
  }

  for (int64_t j0 = n0; j0 < n1; j0 += kN) {
    const int64_t nb = std::min(kN, n1 - j0);
    const int64_t panels = (nb + nr - 1) / nr;
    T* out;
    int64_t out_row;
    if constexpr (kSums) {
      out = c + m0 * g.c_row + j0;
      out_row = g.c_row;
    } else {
      out = sums;
      out_row = nb;
    }
    for (int64_t p0 = 0; p0 < g.k || p0 == 0; p0 += kK) {
      const int64_t kb = std::min(kK, g.k - p0);
      const bool last = p0 + kb >= g.k;
      const int64_t steps = (kb + kSteps - 1) / kSteps;
      if (!direct_b) {
        for (int64_t j = 0; j < panels; ++j)
          micro::pack(b + p0 * g.b_row + (j0 + j * nr) * g.b_col, g.b_col, g.b_row,
                      static_cast<int>(std::min<int64_t>(nr, nb - j * nr)), kb, nr,
                      packed_b + j * nr * steps);
      }
      micro::Split blocks(mb, kM);
      for (int64_t ib = 0; ib < blocks.count; ++ib) {
        if (ib > 0 || p0 > 0 || j0 > n0) stop_if_asked();  // each is a millisecond's work at most
        const int64_t i0 = blocks.at(ib), rows = blocks.at(ib + 1) - i0;
        micro::Split tiles(rows, mr);
        if (!direct_a) {
          for (int64_t i = 0; i < tiles.count; ++i) {
            int64_t r = tiles.at(i), h = tiles.at(i + 1) - r;
            micro::pack(a + (m0 + i0 + r) * g.a_row + p0 * g.a_col, g.a_row, g.a_col,
                        static_cast<int>(h), kb, static_cast<int>(h), packed_a + r * steps);
          }
        }
        for (int64_t j = 0; j < panels; ++j) {
          micro::Tile<T> t;
          t.k = steps;
          t.cols = static_cast<int>(std::min<int64_t>(nr, nb - j * nr));
          t.c_row = out_row;
          t.accumulate = p0 > 0 || g.add;
          t.bias = last && wide_bias ? wide_bias + (j0 - n0) + j * nr : nullptr;
          if constexpr (kSame) {
            if (direct_b) {
              t.b = b + p0 * g.b_row + j0 + j * nr;
              t.b_row = g.b_row;
            }
          }
          if (!direct_b) {
            t.b = packed_b + j * nr * steps;
            t.b_row = nr;
          }
          for (int64_t i = 0; i < tiles.count; ++i) {
            const int64_t r = tiles.at(i), h = tiles.at(i + 1) - r;
            if constexpr (kSame) {
              if (direct_a) {
                t.a = a + (m0 + i0 + r) * g.a_row + p0 * g.a_col;
                t.a_row = g.a_row;
                t.a_col = g.a_col;
              }
            }
            if (!direct_a) {
              t.a = packed_a + r * steps;
              t.a_row = 1;
              t.a_col = h;
            }
            t.c = out + (i0 + r) * out_row + j * nr;
            kern.run(static_cast<int>(h), t);
          }
        }
      }
    }
    if constexpr (!kSums)
      for (int64_t i = 0; i < mb; ++i)
        micro::store(out + i * out_row, nb, c + (m0 + i) * g.c_row + j0);
  }
}

// Integers: unsigned arithmetic, so that overflow wraps.
template <class S, class U>
struct IntBlocking {
  int64_t columns;
  IntBlocking(const Gemm&, int64_t, int64_t columns) : columns(columns) {}
  size_t bytes() const { return Parts::bytes<U>(columns); }
  void run(const Gemm& g, const S* a, const S* b, S* c, int64_t m0, int64_t m1, int64_t n0,
           int64_t n1, char* memory) const;
};
template <class S, class U>
void IntBlocking<S, U>::run(const Gemm& g, const S* a, const S* b, S* c, int64_t m0, int64_t m1,
                            int64_t n0, int64_t n1, char* memory) const {
  const int64_t n = n1 - n0;
  U* sum = reinterpret_cast<U*>(memory);
  const S* bias = static_cast<const S*>(g.bias);
  const bool dots = g.a_col == 1 && g.b_row == 1 && g.b_col != 1;  // both in order of memory
  for (int64_t i = m0; i < m1; ++i) {
    if (i > m0) stop_if_asked();
    for (int64_t j = 0; j < n; ++j) sum[j] = bias ? static_cast<U>(bias[n0 + j]) : U(0);
    if (dots) {
      const S* row = a + i * g.a_row;
      for (int64_t j = 0; j < n; ++j) {
        const S* column = b + (n0 + j) * g.b_col;
        U more = 0;
        for (int64_t p = 0; p < g.k; ++p)
          more += static_cast<U>(row[p]) * static_cast<U>(column[p]);
        sum[j] += more;
      }
    }
    for (int64_t p = 0; p < g.k && !dots; ++p) {
      if (p % kK == kK - 1) stop_if_asked();
      const U x = static_cast<U>(a[i * g.a_row + p * g.a_col]);
      const S* row = b + p * g.b_row + n0 * g.b_col;
      if (g.b_col == 1)
        for (int64_t j = 0; j < n; ++j) sum[j] += x * static_cast<U>(row[j]);
      else
        for (int64_t j = 0; j < n; ++j) sum[j] += x * static_cast<U>(row[j * g.b_col]);
    }
    for (int64_t j = 0; j < n; ++j) c[i * g.c_row + n0 + j] = static_cast<S>(sum[j]);
  }
}

// A grid of blocks, about one for each thread. How it is cut changes no value.
struct Grid {
  int64_t rows = 1, cols = 1;
  Grid(const Gemm& g, int threads) {
    const double work = 2.0 * double(g.m) * double(g.n) * double(std::max<int64_t>(g.k, 1));
    // Below about 4 microseconds of arithmetic for each thread, waking it costs more.
    int64_t want = std::min<int64_t>(threads, static_cast<int64_t>(work * double(g.batch) / 2.5e5));
    want = (want + g.batch - 1) / g.batch;
    while (rows * cols < want) {
      const bool more_rows = g.m / (rows + 1) >= 24, more_cols = g.n / (cols + 1) >= 64;
      if (more_rows && (!more_cols || g.m / rows >= g.n / cols))
        ++rows;
      else if (more_cols)
        ++cols;
      else
        break;
    }
  }
};

// Packed operands of a product that one thread computes lie on its stack up to here.
constexpr size_t kOwnBytes = size_t{32} << 10;

// By one thread, in a frame of its own: of threads with small stacks it is never called.
template <class S, class How, class C>
[[gnu::noinline]] void alone(const Gemm& g) {
  const How how(g, g.m, g.n);
  LocalScratch<kOwnBytes> memory(how.bytes());
  for (int64_t i = 0; i < g.batch; ++i)
    how.run(g, static_cast<const S*>(g.a) + i * g.a_batch,
            static_cast<const S*>(g.b) + i * g.b_batch, static_cast<C*>(g.c) + i * g.c_batch, 0,
            g.m, 0, g.n, memory.data());
}

template <class S, class How, class C = S>
void over_grid(const Gemm& g) {
  const S* a = static_cast<const S*>(g.a);
  const S* b = static_cast<const S*>(g.b);
  C* c = static_cast<C*>(g.c);
  const double work = double(g.batch) * double(g.m) * double(g.n) * double(g.k);
  if (work < 2.5e5 && !stack_is_small()) return alone<S, How, C>(g);
  const Grid grid(g, num_threads());
  const int64_t cells = grid.rows * grid.cols;
  const int64_t grain =
      std::max<int64_t>(1, static_cast<int64_t>(1.2e5 / (work / double(g.batch * cells))));
  const How how(g, (g.m + grid.rows - 1) / grid.rows, (g.n + grid.cols - 1) / grid.cols);
  parallel_with(g.batch * cells, grain, how.bytes(), [&](int64_t begin, int64_t end, char* memory) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t i = t / cells, r = t % cells / grid.cols, q = t % grid.cols;
      how.run(g, a + i * g.a_batch, b + i * g.b_batch, c + i * g.c_batch, g.m * r / grid.rows,
              g.m * (r + 1) / grid.rows, g.n * q / grid.cols, g.n * (q + 1) / grid.cols, memory);
    }
  });
}

}  // namespace

void gemm_own(const Gemm& g) {
  if (g.wide) return over_grid<int8_t, Blocking<int8_t, int32_t, int32_t>, int32_t>(g);
  dispatch(g.dtype, [&]<class S>() {
    if constexpr (kIsFloatType<S>)
      over_grid<S, Blocking<S, ComputeType<S>, S>>(g);
    else if constexpr (!std::is_same_v<S, bool8>)  // the operation has refused it
      over_grid<S, IntBlocking<S, std::conditional_t<sizeof(S) == 8, uint64_t, uint32_t>>>(g);
  });
}

}  // namespace pyflame::cpu
