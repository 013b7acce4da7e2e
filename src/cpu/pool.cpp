// The largest elements and averages of windows (table/kernels/pool.h). Where channels lie side by
// side a window is taken for a block of them at once; else the lines of a window are joined first,
// elements side by side, and then what is left of each window.
#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "cpu/kernel.h"
#include "cpu/pool.h"
#include "cpu/scratch.h"
#include "cpu/strided.h"
#include "cpu/threads.h"
#include "table/kernels/pool.h"

namespace pyflame::cpu {
namespace {

using Space = std::array<int64_t, 3>;

constexpr auto kNumber = kernels::numbers<kernels::PoolMax>;
constexpr int64_t kGrain = 1 << 14, kChannels = 64;

struct Windows {
  int64_t outer, inner;
  Space in, out, kernel, stride, padding, dilation;
  bool adaptive, counts_padding;
  int64_t divisor;

  explicit Windows(const KernelArgs& a)
      : outer(a.i(kNumber.outer)),
        inner(a.i(kNumber.inner)),
        in(three(a, kNumber.in_d)),
        out(three(a, kNumber.out_d)),
        kernel(three(a, kNumber.kernel_d)),
        stride(three(a, kNumber.stride_d)),
        padding(three(a, kNumber.padding_d)),
        dilation(three(a, kNumber.dilation_d)),
        adaptive(a.i(kNumber.adaptive) != 0),
        counts_padding(a.i(kNumber.counts_padding) != 0),
        divisor(a.i(kNumber.divisor)) {
    for (int64_t q = 0; q < out[2]; ++q)
      columns.push_back({range_of(2, q), static_cast<double>(counted(2, q))});
  }
  static Space three(const KernelArgs& a, int first) {
    return {a.i(first), a.i(first + 1), a.i(first + 2)};
  }
  int64_t inputs() const { return in[0] * in[1] * in[2]; }
  int64_t lines() const { return out[0] * out[1]; }
  int64_t outputs() const { return lines() * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }

  // Taps [from, to) of window i of a dimension are inside, the first of them at `begin`.
  struct Range {
    int64_t begin, from, to;
  };
  Range of(size_t d, int64_t i) const {
    return d == 2 ? columns[static_cast<size_t>(i)].range : range_of(d, i);
  }
  Range range_of(size_t d, int64_t i) const {
    if (adaptive) {
      const int64_t begin = i * in[d] / out[d];
      return {begin, 0, ((i + 1) * in[d] + out[d] - 1) / out[d] - begin};
    }
    const int64_t at = i * stride[d] - padding[d], step = dilation[d];
    const int64_t from = at < 0 ? (-at + step - 1) / step : 0;
    const int64_t to = at < in[d] ? std::min(kernel[d], (in[d] - at + step - 1) / step) : 0;
    return {at + from * step, from, std::max(from, to)};
  }
  // How many elements a window has in a dimension for its average.
  int64_t counted(size_t d, int64_t i) const {
    const Range r = range_of(d, i);
    if (adaptive || !counts_padding) return r.to - r.from;
    return std::min(kernel[d], in[d] + 2 * padding[d] - i * stride[d]);
  }
  // What the sums of a line are divided by, but for the number along it.
  double divisor_of(int64_t line) const {
    if (divisor != 0) return static_cast<double>(divisor);
    return static_cast<double>(counted(0, line / out[1]) * counted(1, line % out[1]));
  }
  double along(int64_t q) const {
    return divisor != 0 ? 1 : columns[static_cast<size_t>(q)].counted;
  }
  // Of the last dimension, which all lines ask for.
  struct Column {
    Range range;
    double counted;
  };
  std::vector<Column> columns;
  int64_t step(size_t d) const { return adaptive ? 1 : dilation[d]; }
};

// Whether v takes the place of `best`.
template <class N>
bool above(N v, N best) {
  if constexpr (std::is_floating_point_v<N>)
    return v > best || v != v;
  else
    return v > best;
}
template <class N>
constexpr N lowest() {
  if constexpr (std::is_floating_point_v<N>)
    return -std::numeric_limits<N>::infinity();
  else
    return std::numeric_limits<N>::lowest();
}

// The lines of x that a line of windows sees: where they begin, and the number of their first tap.
struct Seen {
  struct Row {
    int64_t place, tap;
  };
  std::vector<Row> rows;

  void look(const Windows& w, int64_t line) {
    rows.clear();
    const auto d = w.of(0, line / w.out[1]), h = w.of(1, line % w.out[1]);
    for (int64_t i = d.from; i < d.to; ++i)
      for (int64_t j = h.from; j < h.to; ++j)
        rows.push_back(
            {((d.begin + (i - d.from) * w.step(0)) * w.in[1] + h.begin + (j - h.from) * w.step(1)) *
                 w.in[2],
             (i * w.kernel[1] + j) * w.kernel[2]});
  }
};

// Writes where the largest one of a window is.
struct At {
  const Windows& w;
  uint8_t* taps;  // one of these, or none
  int64_t* places;
  bool any() const { return taps || places; }
  void put(int64_t o, const Seen& seen, int64_t row, const Windows::Range& range,
           int64_t column) const {
    if (row < 0) {  // nothing was inside
      if (taps) taps[o] = 255;
      if (places) places[o] = -1;
      return;
    }
    const Seen::Row& r = seen.rows[static_cast<size_t>(row)];
    if (taps) taps[o] = static_cast<uint8_t>(r.tap + column);
    if (places) places[o] = r.place + range.begin + (column - range.from) * w.step(2);
  }
};

// Of the columns of a line of x, or of the windows of a line: the largest so far, in which line,
// and which tap.
template <class T>
struct Best {
  Compute<T>* most;
  int32_t *row, *tap;
  Best(char* memory, int64_t n)
      : most(reinterpret_cast<Compute<T>*>(memory)),
        row(reinterpret_cast<int32_t*>(memory + static_cast<size_t>(n) * sizeof(Compute<T>))),
        tap(row + n) {}
  static int64_t bytes(int64_t n) {
    return (n * (static_cast<int64_t>(sizeof(Compute<T>)) + 8) + 63) / 64 * 64;
  }
};

// A line of windows of one channel.
template <class T>
void plane_line(const Windows& w, const Seen& seen, const T* x, char* scratch, T* y, int64_t o,
                const At& at) {
  using N = Compute<T>;
  const int64_t width = w.in[2];
  const Best<T> line(scratch, width);
  N* const best = line.most;
  int32_t* const which = line.row;
  const auto rows = static_cast<int32_t>(seen.rows.size());
  for (int32_t r = 0; r < rows; ++r) {
    const T* row = x + seen.rows[static_cast<size_t>(r)].place;
    if (r == 0)
      for (int64_t i = 0; i < width; ++i) best[i] = load(row[i]), which[i] = 0;
    else
      for (int64_t i = 0; i < width; ++i) {
        const N v = load(row[i]);
        const bool more = above(v, best[i]);
        best[i] = more ? v : best[i];
        which[i] = more ? r : which[i];
      }
  }
  // Then tap by tap, all windows at once, without a branch: which one is larger is a matter of
  // luck.
  const Best<T> r(scratch + Best<T>::bytes(width), w.out[2]);
  for (int64_t q = 0; q < w.out[2]; ++q) r.most[q] = lowest<N>(), r.row[q] = -1, r.tap[q] = 0;
  const auto take = [&](int64_t q, int64_t i, int32_t k) {
    const N v = best[i];
    // Of equals the one of the earlier line, of several NaN the last.
    const bool later = (r.most[q] == r.most[q]) | (which[i] >= r.row[q]);
    const bool more = (r.row[q] < 0) | (v > r.most[q]) |
                      ((v == r.most[q]) & (which[i] < r.row[q])) | ((v != v) & later);
    r.most[q] = more ? v : r.most[q];
    r.row[q] = more ? which[i] : r.row[q];
    r.tap[q] = more ? k : r.tap[q];
  };
  if (rows > 0 && w.adaptive) {
    for (int64_t q = 0; q < w.out[2]; ++q) {
      const auto range = w.of(2, q);
      for (int64_t k = 0; k < range.to; ++k) take(q, range.begin + k, static_cast<int32_t>(k));
    }
  } else if (rows > 0) {
    const int64_t s = w.stride[2];
    for (int64_t k = 0; k < w.kernel[2]; ++k) {
      const int64_t at = k * w.dilation[2] - w.padding[2];
      const int64_t from = at < 0 ? (-at + s - 1) / s : 0;
      const int64_t to = at < width ? std::min(w.out[2], (width - at + s - 1) / s) : 0;
      for (int64_t q = from; q < to; ++q) take(q, q * s + at, static_cast<int32_t>(k));
    }
  }
  for (int64_t q = 0; q < w.out[2]; ++q, ++o) {
    y[o] = store<T>(r.most[q]);
    if (at.any()) at.put(o, seen, r.row[q], w.of(2, q), r.tap[q]);
  }
}

// A window over up to kChannels channels that lie side by side.
template <class T>
void window(const Windows& w, const Seen& seen, const Windows::Range& range, const T* x,
            int64_t channels, T* y, int64_t o, const At& at) {
  using N = Compute<T>;
  N best[kChannels];
  int32_t which[kChannels];
  std::fill_n(best, channels, lowest<N>());
  std::fill_n(which, channels, -1);
  const auto across = static_cast<int32_t>(range.to - range.from);
  const auto rows = static_cast<int32_t>(seen.rows.size());
  for (int32_t r = 0; r < rows; ++r)
    for (int32_t k = 0; k < across; ++k) {
      const T* from =
          x + (seen.rows[static_cast<size_t>(r)].place + range.begin + k * w.step(2)) * w.inner;
      const int32_t code = r * across + k;
      if (code == 0)
        for (int64_t c = 0; c < channels; ++c) best[c] = load(from[c]), which[c] = 0;
      else
        for (int64_t c = 0; c < channels; ++c) {
          const N v = load(from[c]);
          const bool more = above(v, best[c]);
          best[c] = more ? v : best[c];
          which[c] = more ? code : which[c];
        }
    }
  for (int64_t c = 0; c < channels; ++c) y[c] = store<T>(best[c]);
  if (at.taps) {  // fewer than 255 of them
    uint8_t taps[256] = {255};
    for (int32_t r = 0, code = 0; r < rows; ++r)
      for (int64_t k = range.from; k < range.to; ++k)
        taps[++code] = static_cast<uint8_t>(seen.rows[static_cast<size_t>(r)].tap + k);
    for (int64_t c = 0; c < channels; ++c) at.taps[o + c] = taps[which[c] + 1];
  } else if (at.places) {
    for (int64_t c = 0; c < channels; ++c)
      at.put(o + c, seen, which[c] < 0 ? -1 : which[c] / across, range,
             which[c] < 0 ? 0 : range.from + which[c] % across);
  }
}

// The largest elements alone, of a line of windows: false where vectors do not help.
template <class T>
bool values_line(const Windows& w, const Seen& seen, const T* x, T* y,
                 std::vector<int64_t>& places) {
  const PoolKernels<T>& kernels = pool_kernels<T>();
  if (w.inner > 1) {
    for (int64_t q = 0; q < w.out[2]; ++q) {
      const auto range = w.of(2, q);
      places.clear();
      for (const Seen::Row& r : seen.rows)
        for (int64_t k = 0; k < range.to - range.from; ++k)
          places.push_back((r.place + range.begin + k * w.step(2)) * w.inner);
      kernels.channels(x, places.data(), static_cast<int64_t>(places.size()), w.inner,
                       y + q * w.inner);
    }
    return true;
  }
  const int64_t kernel = w.kernel[2], stride = w.stride[2], padding = w.padding[2];
  if (w.adaptive || w.dilation[2] != 1 || stride > 2 || kernel < stride || kernel > w.in[2])
    return false;
  // Windows [from, to) lie inside; those at the ends are taken one by one.
  const int64_t from = (padding + stride - 1) / stride;
  const int64_t to = std::min(w.out[2], (w.in[2] + padding - kernel) / stride + 1);
  places.clear();
  for (const Seen::Row& r : seen.rows) places.push_back(r.place + from * stride - padding);
  if (!kernels.pixels(x, places.data(), static_cast<int64_t>(places.size()), kernel, stride,
                      to - from, y + from))
    return false;
  for (int64_t q = from > 0 ? 0 : to; q < w.out[2]; q = q + 1 == from ? to : q + 1) {
    const auto range = w.of(2, q);
    T best = lowest<T>();
    for (const Seen::Row& r : seen.rows)
      for (int64_t k = 0; k < range.to - range.from; ++k)
        if (const T v = x[r.place + range.begin + k]; above(v, best)) best = v;
    y[q] = best;
  }
  return true;
}

template <class T>
void largest(const Windows& w, const T* x, T* y, const At& at) {
  const int64_t all = w.outer * w.lines();
  const auto room =
      static_cast<size_t>(w.inner == 1 ? Best<T>::bytes(w.in[2]) + Best<T>::bytes(w.out[2]) : 0);
  const int64_t work = w.out[2] * w.inner * std::max<int64_t>(1, w.inputs() / w.outputs());
  parallel_with(
      all, std::max<int64_t>(1, kGrain / work), room, [&](int64_t begin, int64_t end, char* own) {
        Seen seen;
        std::vector<int64_t> places;
        for (int64_t u = begin; u < end; ++u) {
          const int64_t n = u / w.lines();
          const T* from = x + n * w.inputs() * w.inner;
          seen.look(w, u % w.lines());
          if constexpr (std::is_floating_point_v<T>)
            if (!at.any() && values_line(w, seen, from, y + u * w.out[2] * w.inner, places))
              continue;
          if (w.inner == 1) {
            plane_line(w, seen, from, own, y, u * w.out[2], at);
            continue;
          }
          for (int64_t q = 0; q < w.out[2]; ++q) {
            const auto range = w.of(2, q);
            const int64_t o = (u * w.out[2] + q) * w.inner;
            for (int64_t c = 0; c < w.inner; c += kChannels)
              window(w, seen, range, from + c, std::min(kChannels, w.inner - c), y + o + c, o + c,
                     at);
          }
        }
      });
}

// The place in the space of x that an index stands for, or -1.
template <class I>
class Places {
 public:
  explicit Places(const Windows& w) : w_(w) {
    if constexpr (sizeof(I) == 1)
      for (int64_t t = 0; t < w.taps(); ++t)
        by_tap_.push_back((t / w.kernel[2] / w.kernel[1] * w.dilation[0] * w.in[1] +
                           t / w.kernel[2] % w.kernel[1] * w.dilation[1]) *
                              w.in[2] +
                          t % w.kernel[2] * w.dilation[2]);
  }
  // Of the window at a line and a column.
  int64_t corner(int64_t line, int64_t q) const {
    if constexpr (sizeof(I) != 1) return 0;
    const int64_t d = line / w_.out[1] * w_.stride[0] - w_.padding[0];
    const int64_t h = line % w_.out[1] * w_.stride[1] - w_.padding[1];
    return (d * w_.in[1] + h) * w_.in[2] + q * w_.stride[2] - w_.padding[2];
  }
  int64_t of(int64_t corner, I index) const {
    if constexpr (sizeof(I) == 1)
      return index < by_tap_.size() ? corner + by_tap_[index] : -1;
    else
      return index < w_.inputs() ? index : -1;
  }

 private:
  const Windows& w_;
  std::vector<int64_t> by_tap_;
};

template <class T, class I>
void add_back(const Windows& w, const T* dy, const I* index, T* dx) {
  using N = Compute<T>;
  const Places<I> places(w);
  const int64_t wide = std::min(w.inner, int64_t{16}), blocks = (w.inner + wide - 1) / wide;
  const size_t room = std::is_same_v<N, T> ? 0 : static_cast<size_t>(w.inputs() * wide) * sizeof(N);
  parallel_with(w.outer * blocks, std::max<int64_t>(1, kGrain / (w.inputs() * wide)), room,
                [&](int64_t begin, int64_t end, char* own) {
                  for (int64_t u = begin; u < end; ++u) {
                    const int64_t n = u / blocks, c0 = u % blocks * wide;
                    const int64_t channels = std::min(wide, w.inner - c0);
                    T* const to = dx + n * w.inputs() * w.inner + c0;
                    // 16 bits are added up in float32, apart.
                    N* sums = reinterpret_cast<N*>(own);
                    int64_t pitch = channels;
                    if constexpr (std::is_same_v<N, T>) sums = to, pitch = w.inner;
                    for (int64_t i = 0; i < w.inputs(); ++i)
                      std::fill_n(sums + i * pitch, channels, N(0));
                    for (int64_t line = 0; line < w.lines(); ++line)
                      for (int64_t q = 0; q < w.out[2]; ++q) {
                        const int64_t corner = places.corner(line, q);
                        const int64_t o = ((n * w.lines() + line) * w.out[2] + q) * w.inner + c0;
                        for (int64_t c = 0; c < channels; ++c)
                          if (const int64_t at = places.of(corner, index[o + c]); at >= 0)
                            sums[at * pitch + c] += load(dy[o + c]);
                      }
                    if constexpr (!std::is_same_v<N, T>)
                      for (int64_t i = 0; i < w.inputs(); ++i)
                        for (int64_t c = 0; c < channels; ++c)
                          to[i * w.inner + c] = store<T>(sums[i * pitch + c]);
                  }
                });
}

template <class T, class I>
void pick(const Windows& w, const T* x, const I* index, T* y) {
  const Places<I> places(w);
  parallel_for(w.outer * w.lines(), std::max<int64_t>(1, kGrain / (w.out[2] * w.inner)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t u = begin; u < end; ++u) {
                   const T* from = x + u / w.lines() * w.inputs() * w.inner;
                   for (int64_t q = 0; q < w.out[2]; ++q) {
                     const int64_t corner = places.corner(u % w.lines(), q);
                     const int64_t o = (u * w.out[2] + q) * w.inner;
                     for (int64_t c = 0; c < w.inner; ++c) {
                       const int64_t at = places.of(corner, index[o + c]);
                       y[o + c] = at >= 0 ? from[at * w.inner + c] : store<T>(Compute<T>(0));
                     }
                   }
                 }
               });
}

// ---- averages -----------------------------------------------------------------------------------

template <class T>
void averages(const Windows& w, const T* x, T* y) {
  using N = Compute<T>;
  const int64_t width = w.inner == 1 ? w.in[2] : std::min(w.inner, kChannels);
  const int64_t work = w.out[2] * w.inner * std::max<int64_t>(1, w.inputs() / w.outputs());
  parallel_with(w.outer * w.lines(), std::max<int64_t>(1, kGrain / work),
                static_cast<size_t>(width) * sizeof(N), [&](int64_t begin, int64_t end, char* own) {
                  Seen seen;
                  N* const sums = reinterpret_cast<N*>(own);
                  const auto add = [&](const T* from, int64_t n) {
                    for (int64_t i = 0; i < n; ++i) sums[i] += load(from[i]);
                  };
                  for (int64_t u = begin; u < end; ++u) {
                    const int64_t line = u % w.lines();
                    const T* from = x + u / w.lines() * w.inputs() * w.inner;
                    T* to = y + u * w.out[2] * w.inner;
                    const double by_line = w.divisor_of(line);
                    seen.look(w, line);
                    if (w.inner == 1) {
                      std::fill_n(sums, width, N(0));
                      for (const Seen::Row& r : seen.rows) add(from + r.place, width);
                      for (int64_t q = 0; q < w.out[2]; ++q) {
                        const auto range = w.of(2, q);
                        N sum = 0;
                        for (int64_t k = 0; k < range.to - range.from; ++k)
                          sum += sums[range.begin + k];
                        to[q] = store<T>(sum / static_cast<N>(by_line * w.along(q)));
                      }
                      continue;
                    }
                    for (int64_t q = 0; q < w.out[2]; ++q) {
                      const auto range = w.of(2, q);
                      const N by = static_cast<N>(by_line * w.along(q));
                      for (int64_t c = 0; c < w.inner; c += kChannels) {
                        const int64_t channels = std::min(kChannels, w.inner - c);
                        std::fill_n(sums, channels, N(0));
                        for (const Seen::Row& r : seen.rows)
                          for (int64_t k = 0; k < range.to - range.from; ++k)
                            add(from + (r.place + range.begin + k) * w.inner + c, channels);
                        for (int64_t i = 0; i < channels; ++i)
                          to[q * w.inner + c + i] = store<T>(sums[i] / by);
                      }
                    }
                  }
                });
}

template <class T>
void averages_back(const Windows& w, const T* dy, T* dx) {
  using N = Compute<T>;
  const int64_t wide = std::min(w.inner, int64_t{16}), blocks = (w.inner + wide - 1) / wide;
  const size_t room = std::is_same_v<N, T> ? 0 : static_cast<size_t>(w.inputs() * wide) * sizeof(N);
  parallel_with(w.outer * blocks, std::max<int64_t>(1, kGrain / (w.inputs() * wide)), room,
                [&](int64_t begin, int64_t end, char* own) {
                  Seen seen;
                  for (int64_t u = begin; u < end; ++u) {
                    const int64_t n = u / blocks, c0 = u % blocks * wide;
                    const int64_t channels = std::min(wide, w.inner - c0);
                    T* const to = dx + n * w.inputs() * w.inner + c0;
                    N* sums = reinterpret_cast<N*>(own);
                    int64_t pitch = channels;
                    if constexpr (std::is_same_v<N, T>) sums = to, pitch = w.inner;
                    for (int64_t i = 0; i < w.inputs(); ++i)
                      std::fill_n(sums + i * pitch, channels, N(0));
                    for (int64_t line = 0; line < w.lines(); ++line) {
                      const double by_line = w.divisor_of(line);
                      seen.look(w, line);
                      for (int64_t q = 0; q < w.out[2]; ++q) {
                        const auto range = w.of(2, q);
                        const N by = static_cast<N>(by_line * w.along(q));
                        const T* from = dy + ((n * w.lines() + line) * w.out[2] + q) * w.inner + c0;
                        for (int64_t c = 0; c < channels; ++c) {
                          const N g = load(from[c]) / by;
                          for (const Seen::Row& r : seen.rows)
                            for (int64_t k = 0; k < range.to - range.from; ++k)
                              sums[(r.place + range.begin + k) * pitch + c] += g;
                        }
                      }
                    }
                    if constexpr (!std::is_same_v<N, T>)
                      for (int64_t i = 0; i < w.inputs(); ++i)
                        for (int64_t c = 0; c < channels; ++c)
                          to[i * w.inner + c] = store<T>(sums[i * pitch + c]);
                  }
                });
}

template <class F>
void with_number(DType t, F&& fn) {
  dispatch(t, [&fn]<class T>() {
    if constexpr (!std::is_same_v<T, bool8>) fn.template operator()<T>();
  });
}
// fn.operator()<T, I>(), of floats and of the kind of index.
template <class F>
void with_index(DType t, DType index, F&& fn) {
  dispatch_float(t, [&]<class T>() {
    if (index == DType::UInt8)
      fn.template operator()<T, uint8_t>();
    else
      fn.template operator()<T, int64_t>();
  });
}

void pool_max(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolMax>;
  const Windows w(a);
  const bool bytes = a.dtype(at.index) == DType::UInt8;
  const At where{w, bytes ? a.data<uint8_t>(at.index) : nullptr,
                 bytes ? nullptr : a.data<int64_t>(at.index)};
  with_number(a.dtype(at.x), [&]<class T>() {
    largest(w, static_cast<const T*>(a.data<T>(at.x)), a.data<T>(at.y), where);
  });
}
void pool_max_values(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolMaxValues>;
  const Windows w(a);
  with_number(a.dtype(at.x), [&]<class T>() {
    largest(w, static_cast<const T*>(a.data<T>(at.x)), a.data<T>(at.y), At{w, nullptr, nullptr});
  });
}
void pool_max_input(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolMaxInput>;
  const Windows w(a);
  with_index(a.dtype(at.dx), a.dtype(at.index), [&]<class T, class I>() {
    add_back(w, static_cast<const T*>(a.data<T>(at.dy)), static_cast<const I*>(a.data<I>(at.index)),
             a.data<T>(at.dx));
  });
}
void pool_max_pick(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolMaxPick>;
  const Windows w(a);
  with_index(a.dtype(at.x), a.dtype(at.index), [&]<class T, class I>() {
    pick(w, static_cast<const T*>(a.data<T>(at.x)), static_cast<const I*>(a.data<I>(at.index)),
         a.data<T>(at.y));
  });
}
void pool_average(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolAverage>;
  const Windows w(a);
  dispatch_float(a.dtype(at.x), [&]<class T>() {
    averages(w, static_cast<const T*>(a.data<T>(at.x)), a.data<T>(at.y));
  });
}
void pool_average_input(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolAverageInput>;
  const Windows w(a);
  dispatch_float(a.dtype(at.dy), [&]<class T>() {
    averages_back(w, static_cast<const T*>(a.data<T>(at.dy)), a.data<T>(at.dx));
  });
}
PF_CPU_KERNEL(kernels::PoolMax::kInfo, pool_max)
PF_CPU_KERNEL(kernels::PoolMaxValues::kInfo, pool_max_values)
PF_CPU_KERNEL(kernels::PoolMaxInput::kInfo, pool_max_input)
PF_CPU_KERNEL(kernels::PoolMaxPick::kInfo, pool_max_pick)
PF_CPU_KERNEL(kernels::PoolAverage::kInfo, pool_average)
PF_CPU_KERNEL(kernels::PoolAverageInput::kInfo, pool_average_input)

}  // namespace
}  // namespace pyflame::cpu
