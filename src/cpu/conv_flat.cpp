// Convolutions of more weights than pixels: deep layers on small pictures, or on one. What the taps
// see is put in columns for all items at once, and one product does the rest. Of a result from few
// pixels most of the work is to read weights: a panel of them at a time is read once, by all
// pixels.
#include <algorithm>
#include <vector>

#include "cpu/conv.h"
#include "cpu/gemm.h"
#include "cpu/gemm_own.h"
#include "cpu/move.h"
#include "cpu/scratch.h"
#include "cpu/threads.h"

namespace pyflame::cpu {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements of columns

// Rows are pixels of y of all items; the k of each row lies as the weights of a result do.
template <class T>
class Flat {
 public:
  // Whether weights are rows of k as [channel, tap], or [tap, channel].
  static bool fits(const Problem& p, const Lay& w, int64_t outs) {
    const int64_t step = step_of(p.taps, w.at), m = p.n * p.pixels;
    const bool dense = w.outer == p.k && ((step == 1 && w.channel == p.ntaps) ||
                                          (w.channel == 1 && (step == p.in || p.ntaps == 1)));
    // Short lines are little for sums over taps, however many they are.
    const bool few = m <= outs || (p.y[2] < kShortLine && m * p.k <= kMost);
    return p.groups == 1 && dense && m > 0 && few && p.k * outs >= kLeast;
  }
  Flat(const Problem& p, const Lay& w) : p_(p), taps_first_(w.channel == 1), rows(p.n * p.pixels) {}

  // What the taps see of x.
  void columns(const T* x, const Lay& lay, T* to) const {
    parallel_for(rows, std::max<int64_t>(1, kGrain / p_.k), [&](int64_t begin, int64_t end) {
      columns_of(x, lay, begin, end, to + begin * p_.k);
    });
  }
  // The same as tiles of the product's kernels: [tile, k, row of the tile].
  void tiles(const T* x, const Lay& lay, T* to) const {
    const micro::Split split(rows, micro::kernels<T>().mr);
    const auto room = static_cast<size_t>(ceil_div(rows, split.count) * p_.k) * sizeof(T);
    parallel_with(split.count, 1, room, [&](int64_t begin, int64_t end, char* own) {
      T* const some = reinterpret_cast<T*>(own);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = split.at(i), high = split.at(i + 1) - first;
        columns_of(x, lay, first, first + high, some);
        micro::pack(some, p_.k, 1, static_cast<int>(high), p_.k, static_cast<int>(high),
                    to + first * p_.k);
      }
    });
  }
  // Few enough that all of them read a panel of weights while it is in the L1.
  bool few_rows() const { return rows > 1 && rows <= kFewRows; }
  // c[rows, results] of columns in tiles; each sum is over blocks of kSteps, in order.
  void multiply(const T* columns, const T* weight, const T* bias, T* c) const {
    const micro::Kernels<T>& kernels = micro::kernels<T>();
    const int64_t nr = kernels.nr, panels = ceil_div(p_.out, nr);
    const micro::Split tiles(rows, kernels.mr);
    const int64_t parts = std::clamp<int64_t>(kUnits / panels, 1, ceil_div(tiles.count, 2));
    const auto pack = [&](int64_t n0, int64_t k0, int64_t k, T* to) {
      micro::pack(weight + n0 * p_.k + k0, p_.k, 1, static_cast<int>(std::min(nr, p_.out - n0)), k,
                  static_cast<int>(nr), to);
    };
    const auto held = kept({kFlatForm, sizeof(T), address(weight), p_.out, p_.k},
                           static_cast<size_t>(panels * nr * p_.k) * sizeof(T), [&](char* to) {
                             parallel_for(panels, 1, [&](int64_t begin, int64_t end) {
                               for (int64_t j = begin; j < end; ++j)
                                 pack(j * nr, 0, p_.k, reinterpret_cast<T*>(to) + j * nr * p_.k);
                             });
                           });
    const T* const all = reinterpret_cast<const T*>(held.get());
    const auto room = all ? 0 : static_cast<size_t>(std::min(p_.k, kSteps) * nr) * sizeof(T);
    parallel_with(panels * parts, 1, room, [&](int64_t begin, int64_t end, char* own) {
      T* const panel = reinterpret_cast<T*>(own);
      for (int64_t u = begin; u < end; ++u) {
        const int64_t n0 = u / parts * nr, part = u % parts;
        const int64_t cols = std::min(nr, p_.out - n0);
        for (int64_t k0 = 0; k0 < p_.k; k0 += kSteps) {
          const int64_t k = std::min(kSteps, p_.k - k0);
          if (!all) pack(n0, k0, k, panel);
          const int64_t i0 = tiles.count * part / parts, i1 = tiles.count * (part + 1) / parts;
          for (int64_t i = i0; i < i1; ++i) {
            const int64_t r = tiles.at(i), high = tiles.at(i + 1) - r;
            if (all) {  // the next block of weights: a part of it beside each tile
              const char* next = reinterpret_cast<const char*>(all + n0 * p_.k + (k0 + k) * nr);
              const int64_t bytes = k * nr * static_cast<int64_t>(sizeof(T));
              const int64_t from = bytes * (i - i0) / (i1 - i0),
                            to = bytes * (i + 1 - i0) / (i1 - i0);
              for (int64_t at = from & ~int64_t{63}; at < to; at += 64)
                __builtin_prefetch(next + at, 0, 2);
            }
            kernels.run(static_cast<int>(high),
                        {.k = k,
                         .a = columns + r * p_.k + k0 * high,
                         .a_row = 1,
                         .a_col = high,
                         .b = all ? all + n0 * p_.k + k0 * nr : panel,
                         .b_row = nr,
                         .c = c + r * p_.out + n0,
                         .c_row = p_.out,
                         .cols = static_cast<int>(cols),
                         .accumulate = k0 > 0,
                         .bias = bias && k0 + k == p_.k ? bias + n0 : nullptr});
          }
        }
      }
    });
  }
  // Columns added to where they came from, in x, which begins as zeros.
  void add_columns(const T* columns, T* x, const Lay& lay) const {
    const int64_t step = step_of(p_.x, lay.at), count = product(p_.x);
    const bool last = lay.channel == 1;
    parallel_for(p_.n, 1, [&](int64_t begin, int64_t end) {
      std::vector<Tap> taps;
      for (int64_t n = begin; n < end; ++n) {
        T* to = x + n * lay.outer;
        for (int64_t i = 0; i < (last ? count : p_.in); ++i)
          std::fill_n(to + i * (last ? step : lay.channel), last ? p_.in : count, T(0));
        for (int64_t q = 0; q < p_.pixels; ++q) {
          const T* row = columns + (n * p_.pixels + q) * p_.k;
          see(q, lay, taps);
          if (taps_first_)
            for (const Tap& t : taps)
              for (int64_t c = 0; c < p_.in; ++c)
                to[t.at + c * lay.channel] += row[t.number * p_.in + c];
          else
            for (int64_t c = 0; c < p_.in; ++c)
              for (const Tap& t : taps) to[t.at + c * lay.channel] += row[c * p_.ntaps + t.number];
        }
      }
    });
  }
  // Whether y is [rows, results] as it lies.
  bool flat(const Lay& y) const {
    const int64_t step = step_of(p_.y, y.at);
    return y.channel == 1 && (step == p_.out || p_.pixels == 1) &&
           (y.outer == p_.pixels * p_.out || p_.n == 1);
  }
  void gather(const T* y, const Lay& lay, T* to) const {
    each_item([&](int64_t n) {
      gather_box(to + n * p_.pixels * p_.out, y + n * lay.outer, sizeof(T), p_.pixels, p_.out,
                 step_of(p_.y, lay.at), lay.channel);
    });
  }
  void scatter(const T* from, T* y, const Lay& lay) const {
    each_item([&](int64_t n) {
      scatter_box(y + n * lay.outer, from + n * p_.pixels * p_.out, sizeof(T), p_.pixels, p_.out,
                  step_of(p_.y, lay.at), lay.channel, /*stream=*/false);
    });
  }

 private:
  static constexpr int64_t kLeast = 1 << 14, kMost = 16 << 20;  // of weights, of columns
  static constexpr int64_t kFewRows = 256;
  static constexpr int64_t kSteps = 256;  // of k: a panel of weights is then 32 KB
  struct Tap {
    int64_t number, at;
  };
  // The taps of a pixel that are inside of x.
  void see(int64_t pixel, const Lay& x, std::vector<Tap>& taps) const {
    taps.clear();
    const int64_t w = pixel % p_.y[2], h = pixel / p_.y[2] % p_.y[1], d = pixel / p_.y[2] / p_.y[1];
    int64_t number = 0;
    for (int64_t a = 0; a < p_.taps[0]; ++a)
      for (int64_t b = 0; b < p_.taps[1]; ++b)
        for (int64_t e = 0; e < p_.taps[2]; ++e, ++number) {
          const int64_t z = place(p_, 0, d, a), y = place(p_, 1, h, b), v = place(p_, 2, w, e);
          if (within(p_, 0, z) && within(p_, 1, y) && within(p_, 2, v))
            taps.push_back({number, z * x.at[0] + y * x.at[1] + v * x.at[2]});
        }
  }
  void columns_of(const T* x, const Lay& lay, int64_t begin, int64_t end, T* row) const {
    std::vector<Tap> taps;
    for (int64_t r = begin; r < end; ++r, row += p_.k) {
      const T* from = x + r / p_.pixels * lay.outer;
      see(r % p_.pixels, lay, taps);
      if (std::ssize(taps) < p_.ntaps) std::fill_n(row, p_.k, T(0));
      if (taps_first_ && lay.channel == 1)
        for (const Tap& t : taps) std::copy_n(from + t.at, p_.in, row + t.number * p_.in);
      else if (taps_first_)
        for (const Tap& t : taps)
          for (int64_t c = 0; c < p_.in; ++c)
            row[t.number * p_.in + c] = from[t.at + c * lay.channel];
      else
        for (int64_t c = 0; c < p_.in; ++c)
          for (const Tap& t : taps) row[c * p_.ntaps + t.number] = from[t.at + c * lay.channel];
    }
  }
  template <class F>
  void each_item(F&& fn) const {
    parallel_for(p_.n, std::max<int64_t>(1, kGrain / (p_.pixels * p_.out)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t n = begin; n < end; ++n) fn(n);
                 });
  }

  const Problem& p_;
  bool taps_first_;

 public:
  const int64_t rows;
};

template <class T>
Gemm product_of(DType t, int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_col,
                const T* b, int64_t b_row, int64_t b_col, T* c) {
  return {.m = m,
          .n = n,
          .k = k,
          .dtype = t,
          .a = a,
          .a_batch = 0,
          .a_row = a_row,
          .a_col = a_col,
          .b = b,
          .b_batch = 0,
          .b_row = b_row,
          .b_col = b_col,
          .c = c,
          .c_batch = 0,
          .c_row = n};
}

}  // namespace

template <class T>
bool flat(const KernelArgs& a, const Problem& p, const Lay& x, const Lay& y, const Lay& weight) {
  constexpr auto at = kernels::tensors<kernels::Conv>;
  if (!Flat<T>::fits(p, weight, p.out)) return false;
  const Flat<T> f(p, weight);
  const bool direct = f.flat(y);
  const Scratch<T> columns(f.rows * p.k), results(direct ? 0 : f.rows * p.out);
  const T* const bias = a.has(at.bias) ? a.data<T>(at.bias) : nullptr;
  T* const to = direct ? a.data<T>(at.y) : results.get();
  if (f.few_rows()) {
    f.tiles(a.data<T>(at.x), x, columns.get());
    f.multiply(columns.get(), a.data<T>(at.weight), bias, to);
  } else {
    f.columns(a.data<T>(at.x), x, columns.get());
    Gemm g =
        product_of(a.dtype(at.x), f.rows, p.out, p.k, static_cast<const T*>(columns.get()), p.k,
                   int64_t{1}, static_cast<const T*>(a.data<T>(at.weight)), int64_t{1}, p.k, to);
    g.bias = bias;
    gemm(g);
  }
  if (!direct) f.scatter(results.get(), a.data<T>(at.y), y);
  return true;
}

template <class T>
bool flat_input(const KernelArgs& a, const Problem& p, const Lay& x, const Lay& y,
                const Lay& weight) {
  constexpr auto at = kernels::tensors<kernels::ConvInput>;
  if (!Flat<T>::fits(p, weight, p.out)) return false;
  const Flat<T> f(p, weight);
  const bool direct = f.flat(y);
  const Scratch<T> columns(f.rows * p.k), gathered(direct ? 0 : f.rows * p.out);
  if (!direct) f.gather(a.data<T>(at.dy), y, gathered.get());
  gemm(product_of(a.dtype(at.dy), f.rows, p.k, p.out,
                  static_cast<const T*>(direct ? a.data<T>(at.dy) : gathered.get()), p.out,
                  int64_t{1}, static_cast<const T*>(a.data<T>(at.weight)), p.k, int64_t{1},
                  columns.get()));
  f.add_columns(columns.get(), a.data<T>(at.dx), x);
  return true;
}

template <class T>
bool flat_weight(const KernelArgs& a, const Problem& p, const Lay& x, const Lay& y,
                 const Lay& weight) {
  constexpr auto at = kernels::tensors<kernels::ConvWeight>;
  if (!Flat<T>::fits(p, weight, p.out)) return false;
  const Flat<T> f(p, weight);
  const bool direct = f.flat(y);
  const Scratch<T> columns(f.rows * p.k), gathered(direct ? 0 : f.rows * p.out);
  if (!direct) f.gather(a.data<T>(at.dy), y, gathered.get());
  f.columns(a.data<T>(at.x), x, columns.get());
  gemm(product_of(a.dtype(at.x), p.out, p.k, f.rows,
                  static_cast<const T*>(direct ? a.data<T>(at.dy) : gathered.get()), int64_t{1},
                  p.out, static_cast<const T*>(columns.get()), p.k, int64_t{1},
                  a.data<T>(at.dweight)));
  return true;
}

#define PF_FLAT(T)                                                                              \
  template bool flat<T>(const KernelArgs&, const Problem&, const Lay&, const Lay&, const Lay&); \
  template bool flat_input<T>(const KernelArgs&, const Problem&, const Lay&, const Lay&,        \
                              const Lay&);                                                      \
  template bool flat_weight<T>(const KernelArgs&, const Problem&, const Lay&, const Lay&,       \
                               const Lay&);
PF_FLAT(float)
PF_FLAT(double)
#undef PF_FLAT

}  // namespace pyflame::cpu
