// Convolutions (table/kernels/conv.h). Floats with channels and lines enough are sums over taps
// (conv_taps.cpp); here are the others, as products over tiles of pixels. What a tile reads is put
// in columns, in the order that fits how the channels lie: with pixels side by side [taps, pixels],
// or with channels side by side [pixels, taps]. How work is cut follows from shapes alone, so that
// results do not depend on the number of threads. 16 bits are widened before (ops/conv.cpp).
#include "cpu/conv.h"

#include <algorithm>
#include <cstring>

#include "cpu/gemm.h"
#include "cpu/move.h"
#include "cpu/scratch.h"
#include "cpu/threads.h"

namespace pyflame::cpu {
namespace {

// Where pixels lie side by side, columns are [taps of channels, width]. For each channel, tap and
// part of a line of y: fn(channel, row of the columns, place in it, pixels from, to, those inside
// of x, and the depth, height and width in x of the first of these).
template <class F>
void each_row(const Problem& p, int64_t channels, int64_t first, int64_t last, F&& fn) {
  int64_t row = 0;
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t a = 0; a < p.taps[0]; ++a)
      for (int64_t b = 0; b < p.taps[1]; ++b)
        for (int64_t e = 0; e < p.taps[2]; ++e, ++row)
          each_line(p, first, last,
                    [&](int64_t depth, int64_t height, int64_t from, int64_t to, int64_t at) {
                      const int64_t z = place(p, 0, depth, a), y = place(p, 1, height, b);
                      const bool in = within(p, 0, z) && within(p, 1, y);
                      const Inside i = in ? Inside(p, e, from, to) : Inside(p, e, to, to);
                      fn(c, row, at, from, to, i, z, y, place(p, 2, i.begin, e));
                    });
}

template <class T>
void columns(const Problem& p, const T* x, const Lay& lay, int64_t first, int64_t last, T* to) {
  const int64_t width = last - first, step = lay.at[2] * p.stride[2];
  each_row(p, p.in, first, last,
           [&](int64_t c, int64_t row, int64_t at, int64_t from, int64_t end, const Inside& i,
               int64_t z, int64_t y, int64_t v) {
             T* out = to + row * width + at - from;
             std::fill(out + from, out + i.begin, T(0));
             std::fill(out + i.end, out + end, T(0));
             if (i.begin == i.end) return;
             const T* s = x + c * lay.channel + z * lay.at[0] + y * lay.at[1] + v * lay.at[2];
             if (step == 1)
               std::memcpy(out + i.begin, s, static_cast<size_t>(i.end - i.begin) * sizeof(T));
             else
               for (int64_t q = i.begin; q < i.end; ++q, s += step) out[q] = *s;
           });
}
// What columns() takes from x, added to it.
template <class T>
void add_columns(const Problem& p, const T* from_columns, int64_t channels, int64_t first,
                 int64_t last, T* x, const Lay& lay) {
  const int64_t width = last - first, step = lay.at[2] * p.stride[2];
  each_row(p, channels, first, last,
           [&](int64_t c, int64_t row, int64_t at, int64_t from, int64_t, const Inside& i,
               int64_t z, int64_t y, int64_t v) {
             if (i.begin == i.end) return;
             const T* s = from_columns + row * width + at - from;
             T* out = x + c * lay.channel + z * lay.at[0] + y * lay.at[1] + v * lay.at[2];
             for (int64_t q = i.begin; q < i.end; ++q, out += step) *out = plus(*out, s[q]);
           });
}

// The same with channels side by side, in x as in columns [width, taps, channels]:
// fn(place in the columns, place in x, or -1 outside).
template <class F>
void each_pixel(const Problem& p, int64_t channels, const Lay& lay, int64_t first, int64_t last,
                F&& fn) {
  each_line(
      p, first, last, [&](int64_t depth, int64_t height, int64_t from, int64_t to, int64_t at) {
        int64_t column = at * p.ntaps * channels;
        for (int64_t q = from; q < to; ++q)
          for (int64_t a = 0; a < p.taps[0]; ++a)
            for (int64_t b = 0; b < p.taps[1]; ++b) {
              const int64_t z = place(p, 0, depth, a), y = place(p, 1, height, b);
              const bool in = within(p, 0, z) && within(p, 1, y);
              for (int64_t e = 0; e < p.taps[2]; ++e, column += channels) {
                const int64_t v = place(p, 2, q, e);
                fn(column, in && within(p, 2, v) ? z * lay.at[0] + y * lay.at[1] + v * lay.at[2]
                                                 : int64_t{-1});
              }
            }
      });
}
template <class T>
void pixel_columns(const Problem& p, const T* x, const Lay& lay, int64_t first, int64_t last,
                   T* to) {
  const auto size = static_cast<size_t>(p.in);
  each_pixel(p, p.in, lay, first, last, [&](int64_t column, int64_t at) {
    if (at < 0)
      std::fill_n(to + column, size, T(0));
    else
      std::memcpy(to + column, x + at, size * sizeof(T));
  });
}
template <class T>
void add_pixel_columns(const Problem& p, const T* from, int64_t channels, int64_t first,
                       int64_t last, T* x, const Lay& lay) {
  each_pixel(p, channels, lay, first, last, [&](int64_t column, int64_t at) {
    if (at < 0) return;
    for (int64_t c = 0; c < channels; ++c) x[at + c] = plus(x[at + c], from[column + c]);
  });
}

// Weights as [blocks of input channels, output channels, rows], rows being (channel, tap) or
// (tap, channel of the block): the tensor itself where it lies so.
template <class T>
class Packed {
 public:
  Packed(const Problem& p, const T* w, const Lay& lay, int64_t block, bool taps_first)
      : as_it_is_(lies_so(p, lay, block, taps_first)),
        room_(as_it_is_ ? 0 : p.out * p.groups * p.k),
        data_(as_it_is_ ? w : room_.get()) {
    if (as_it_is_) return;
    const int64_t outs = p.out * p.groups, blocks = ceil_div(p.in, block);
    parallel_for(outs * blocks, std::max<int64_t>(1, 4096 / std::max<int64_t>(p.k, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t u = begin; u < end; ++u) {
                     const int64_t o = u % outs, c0 = u / outs * block;
                     const int64_t channels = std::min(block, p.in - c0);
                     move(p, w + o * lay.outer + c0 * lay.channel, lay, channels, taps_first,
                          room_.get() + outs * c0 * p.ntaps + o * channels * p.ntaps);
                   }
                 });
  }
  const T* get() const { return data_; }

 private:
  static bool lies_so(const Problem& p, const Lay& lay, int64_t block, bool taps_first) {
    if (block < p.in) return false;
    int64_t step = taps_first ? p.in : 1;
    bool so = (p.out * p.groups == 1 || lay.outer == p.k) &&
              (p.in == 1 || lay.channel == (taps_first ? 1 : p.ntaps));
    for (size_t d = 3; d-- > 0; step *= p.taps[d]) so &= p.taps[d] == 1 || lay.at[d] == step;
    return so;
  }
  static void move(const Problem& p, const T* from, const Lay& lay, int64_t channels,
                   bool taps_first, T* to) {
    const int64_t step = taps_first ? 1 : p.ntaps;
    for (int64_t i = 0; i < p.taps[0]; ++i)
      for (int64_t j = 0; j < p.taps[1]; ++j)
        for (int64_t k = 0; k < p.taps[2]; ++k, to += taps_first ? channels : 1) {
          const T* s = from + i * lay.at[0] + j * lay.at[1] + k * lay.at[2];
          for (int64_t c = 0; c < channels; ++c) to[c * step] = s[c * lay.channel];
        }
  }

  bool as_it_is_;
  Scratch<T> room_;
  const T* data_;
};

template <class T>
Gemm gemm_of(DType t, int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_col,
             const T* b, int64_t b_row, int64_t b_col, T* c, int64_t c_row) {
  Gemm g;
  g.m = m, g.n = n, g.k = k, g.dtype = t;
  g.a = a, g.a_batch = 0, g.a_row = a_row, g.a_col = a_col;
  g.b = b, g.b_batch = 0, g.b_row = b_row, g.b_col = b_col;
  g.c = c, g.c_batch = 0, g.c_row = c_row;
  return g;
}

// Whether channels lie side by side in `t`, which is dense in one of the two ways.
bool channels_last(const pf_tensor& t, const Lay& lay) {
  return t.shape[1] > 1 ? lay.channel == 1 : step_of(space_of(t), lay.at) == 1;
}
bool side_by_side(const pf_tensor& t, const Lay& lay) {
  return t.shape[1] == 1 || lay.channel == 1;
}

// One of `units` pieces of work: which tile (or block) of which group of which item.
struct Unit {
  int64_t part, group, item;
  Unit(int64_t u, int64_t parts, int64_t groups)
      : part(u % parts), group(u / parts % groups), item(u / parts / groups) {}
};

template <class T>
void forward(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::Conv>;
  const pf_tensor &yt = a.tensor(at.y), &xt = a.tensor(at.x), &wt = a.tensor(at.weight);
  Problem p(a, xt, yt, wt);
  if (p.n * p.pixels * p.out * p.groups == 0) return;
  const DType type = a.dtype(at.x);
  Lay x(xt), y(yt);
  const Lay w(wt);
  if (depthwise(a, p, x, y, w)) return;
  p.join(x, y);
  const bool last = channels_last(yt, y) && side_by_side(xt, x);
  const int64_t x_step = step_of(p.x, x.at), y_step = step_of(p.y, y.at);
  const bool direct = p.pointwise() && x_step != 0;
  if constexpr (std::is_floating_point_v<T>)
    if (!direct && p.y[2] < kNarrowLine && flat<T>(a, p, x, y, w)) return;
  if (!direct && taps(a, p, x, y, w)) return;
  const int64_t tile = p.tile(sizeof(T)), tiles = ceil_div(p.pixels, tile);
  const Packed<T> packed(p, a.data<T>(at.weight), w, std::max<int64_t>(p.in, 1), last);
  const Done done(a, p, y);
  const T* bias = a.has(at.bias) ? a.data<T>(at.bias) : nullptr;
  const size_t room = direct ? 0 : static_cast<size_t>(p.k * tile) * sizeof(T);
  parallel_with(p.n * p.groups * tiles, 1, room, [&](int64_t begin, int64_t end, char* own) {
    for (int64_t i = begin; i < end; ++i) {
      const Unit u(i, tiles, p.groups);
      const int64_t first = u.part * tile, stop = std::min(first + tile, p.pixels);
      const int64_t width = stop - first;
      const T* from = a.data<T>(at.x) + u.item * x.outer + u.group * p.in * x.channel;
      T* to = a.data<T>(at.y) + u.item * y.outer + u.group * p.out * y.channel + first * y_step;
      const T* rows = packed.get() + u.group * p.out * p.k;
      T* cols = reinterpret_cast<T*>(own);
      if (last) {
        if (!direct) pixel_columns(p, from, x, first, stop, cols);
        Gemm g = gemm_of(type, width, p.out, p.k, direct ? from + first * x_step : cols,
                         direct ? x_step : p.k, int64_t{1}, rows, int64_t{1}, p.k, to, y_step);
        g.bias = bias ? bias + u.group * p.out : nullptr;
        gemm(g);
        done(u.item, u.group * p.out, p.out, first, width);
        continue;
      }
      if (!direct) columns(p, from, x, first, stop, cols);
      gemm(gemm_of(type, p.out, width, p.k, rows, p.k, int64_t{1},
                   direct ? from + first * x_step : cols, direct ? x.channel : width,
                   direct ? x_step : int64_t{1}, to, y.channel));
      for (int64_t o = 0; bias && o < p.out; ++o) {
        const T b = bias[u.group * p.out + o];
        T* row = to + o * y.channel;
        for (int64_t q = 0; q < width; ++q) row[q] = plus(row[q], b);
      }
      done(u.item, u.group * p.out, p.out, first, width);
    }
  });
}

template <class T>
void backward_input(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::ConvInput>;
  const pf_tensor &xt = a.tensor(at.dx), &yt = a.tensor(at.dy), &wt = a.tensor(at.weight);
  Problem p(a, xt, yt, wt);
  if (p.n * product(p.x) * p.in * p.groups == 0) return;
  const DType type = a.dtype(at.dx);
  Lay x(xt), y(yt);
  const Lay w(wt);
  if (depthwise_input(a, p, x, y, w)) return;
  p.join(x, y);
  const bool last = channels_last(xt, x);
  const int64_t x_step = step_of(p.x, x.at), y_step = step_of(p.y, y.at);
  const bool direct = p.pointwise();
  if constexpr (std::is_floating_point_v<T>)
    if (!direct && flat_input<T>(a, p, x, y, w)) return;
  if (!direct && taps_input(a, p, x, y, w)) return;
  // Tiles of one block of channels follow each other: they meet in dx.
  const int64_t wanted = ceil_div(kUnits, p.n * p.groups);
  const int64_t block =
      direct ? p.in : std::min(p.in, std::max<int64_t>(8, ceil_div(p.in, wanted)));
  const int64_t blocks = ceil_div(p.in, block);
  const int64_t tile = p.tile(sizeof(T)), tiles = ceil_div(p.pixels, tile);
  const Packed<T> packed(p, a.data<T>(at.weight), w, block, last);
  const auto run = [&](const Unit& u, int64_t first, int64_t stop, int64_t c0, T* cols) {
    const int64_t channels = std::min(block, p.in - c0), rows = channels * p.ntaps;
    const int64_t width = stop - first;
    const T* weights = packed.get() + p.out * p.groups * c0 * p.ntaps + u.group * p.out * rows;
    const T* from =
        a.data<T>(at.dy) + u.item * y.outer + u.group * p.out * y.channel + first * y_step;
    T* to = a.data<T>(at.dx) + u.item * x.outer + (u.group * p.in + c0) * x.channel;
    if (last)
      gemm(gemm_of(type, width, rows, p.out, from, y_step, y.channel, weights, rows, int64_t{1},
                   direct ? to + first * x_step : cols, direct ? x_step : rows));
    else
      gemm(gemm_of(type, rows, width, p.out, weights, int64_t{1}, rows, from, y.channel, y_step,
                   direct ? to + first : cols, direct ? x.channel : width));
    if (direct) return;
    if (last)
      add_pixel_columns(p, cols, channels, first, stop, to, x);
    else
      add_columns(p, cols, channels, first, stop, to, x);
  };
  if (direct) {
    parallel_for(p.n * p.groups * tiles, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Unit u(i, tiles, p.groups);
        run(u, u.part * tile, std::min((u.part + 1) * tile, p.pixels), 0, nullptr);
      }
    });
    return;
  }
  const size_t room = static_cast<size_t>(block * p.ntaps * tile) * sizeof(T);
  parallel_with(p.n * p.groups * blocks, 1, room, [&](int64_t begin, int64_t end, char* own) {
    for (int64_t i = begin; i < end; ++i) {
      const Unit u(i, blocks, p.groups);
      const int64_t c0 = u.part * block, channels = std::min(block, p.in - c0);
      T* to = a.data<T>(at.dx) + u.item * x.outer + (u.group * p.in + c0) * x.channel;
      const int64_t count = product(p.x);
      if (last)
        for (int64_t q = 0; q < count; ++q) std::fill_n(to + q * x_step, channels, T(0));
      else
        for (int64_t c = 0; c < channels; ++c) std::fill_n(to + c * x.channel, count, T(0));
      for (int64_t first = 0; first < p.pixels; first += tile)
        run(u, first, std::min(first + tile, p.pixels), c0, reinterpret_cast<T*>(own));
    }
  });
}

template <class T>
void backward_weight(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::ConvWeight>;
  const pf_tensor &wt = a.tensor(at.dweight), &yt = a.tensor(at.dy), &xt = a.tensor(at.x);
  Problem p(a, xt, yt, wt);
  const int64_t outs = p.out * p.groups;
  if (outs * p.k == 0) return;
  const DType type = a.dtype(at.x);
  Lay x(xt), y(yt);
  const Lay w(wt);
  if (depthwise_weight(a, p, x, y, w)) return;
  p.join(x, y);
  bool last = xt.shape[1] > 1 && x.channel == 1;
  const int64_t x_step = step_of(p.x, x.at), y_step = step_of(p.y, y.at);
  const bool direct = p.pointwise() && x_step != 0;
  if constexpr (std::is_floating_point_v<T>)
    if (flat_weight<T>(a, p, x, y, w)) return;
  const int64_t tile = p.tile(sizeof(T), 2 * kLongTile), tiles = ceil_div(p.pixels, tile);
  // Each chunk of the tiles has sums of its own, which are added in their order; where those are
  // large there are fewer, and each makes some of the output channels.
  constexpr int64_t kSums = 2 << 20;
  const int64_t all = p.n * tiles;
  const int64_t chunks = std::max<int64_t>(
      1, std::min({all, kUnits, kSums / (outs * p.k * static_cast<int64_t>(sizeof(T)))}));
  const int64_t parts = std::min(ceil_div(p.out, 32), ceil_div(kUnits, chunks * p.groups));
  const int64_t high = ceil_div(p.out, parts);
  const Scratch<T> sums(chunks * outs * p.k);
  const int64_t columns_size = direct ? 0 : p.k * tile;
  const size_t room = static_cast<size_t>(columns_size + high * p.k) * sizeof(T);
  const bool summed = !direct && taps_weight(a, p, x, y, chunks, parts, sums.get());
  last |= summed;
  const int64_t units = summed ? 0 : chunks * p.groups * parts;
  parallel_with(units, 1, room, [&](int64_t begin, int64_t end, char* own) {
    T* const cols = reinterpret_cast<T*>(own);
    T* const product = cols + columns_size;
    for (int64_t i = begin; i < end; ++i) {
      const Unit u(i, parts, p.groups);  // of the chunk u.item
      const int64_t o0 = u.part * high, rows = std::min(high, p.out - o0);
      if (rows <= 0) continue;
      T* sum = sums.get() + (u.item * outs + u.group * p.out + o0) * p.k;
      std::fill_n(sum, rows * p.k, T(0));
      for (int64_t j = all * u.item / chunks; j < all * (u.item + 1) / chunks; ++j) {
        const int64_t item = j / tiles, first = j % tiles * tile;
        const int64_t stop = std::min(first + tile, p.pixels), width = stop - first;
        const T* from = a.data<T>(at.x) + item * x.outer + u.group * p.in * x.channel;
        const T* g =
            a.data<T>(at.dy) + item * y.outer + (u.group * p.out + o0) * y.channel + first * y_step;
        int64_t row = last ? p.k : 1, col = last ? 1 : width;
        if (direct)
          from += first * x_step, row = x_step, col = x.channel;
        else if (last)
          pixel_columns(p, from, x, first, stop, cols);
        else
          columns(p, from, x, first, stop, cols);
        gemm(gemm_of(type, rows, p.k, width, g, y.channel, y_step, direct ? from : cols, row, col,
                     product, p.k));
        for (int64_t q = 0; q < rows * p.k; ++q) sum[q] = plus(sum[q], product[q]);
      }
    }
  });
  T* const out = a.data<T>(at.dweight);
  const int64_t step = step_of(p.taps, w.at);
  parallel_with(outs, std::max<int64_t>(1, 16384 / p.k), static_cast<size_t>(p.k) * sizeof(T),
                [&](int64_t begin, int64_t end, char* own) {
                  for (int64_t o = begin; o < end; ++o) {
                    T* const sum = reinterpret_cast<T*>(own);
                    std::copy_n(sums.get() + o * p.k, p.k, sum);
                    for (int64_t i = 1; i < chunks; ++i) {
                      const T* more = sums.get() + (i * outs + o) * p.k;
                      for (int64_t k = 0; k < p.k; ++k) sum[k] = plus(sum[k], more[k]);
                    }
                    // One line of taps at a time where they do not lie evenly.
                    const int64_t lines = step != 0 ? 1 : p.taps[0] * p.taps[1];
                    const int64_t taps = p.ntaps / lines, apart = step != 0 ? step : w.at[2];
                    for (int64_t line = 0; line < lines; ++line) {
                      T* to = out + o * w.outer + line / p.taps[1] * w.at[0] +
                              line % p.taps[1] * w.at[1];
                      if (last)
                        scatter_box(to, sum + line * taps * p.in, sizeof(T), taps, p.in, apart,
                                    w.channel, /*stream=*/false);
                      else
                        for (int64_t c = 0; c < p.in; ++c)
                          for (int64_t t = 0; t < taps; ++t)
                            to[c * w.channel + t * apart] = sum[c * p.ntaps + line * taps + t];
                    }
                  }
                });
}

template <class F>
void with_type(DType t, F&& fn) {
  dispatch(t, [&fn]<class T>() {
    if constexpr (!kIsHalf<T> && !std::is_same_v<T, bool8>) fn.template operator()<T>();
  });
}
void conv(const KernelArgs& a) {
  with_type(a.dtype(0), [&]<class T>() { forward<T>(a); });
}
void conv_input(const KernelArgs& a) {
  with_type(a.dtype(0), [&]<class T>() { backward_input<T>(a); });
}
void conv_weight(const KernelArgs& a) {
  with_type(a.dtype(0), [&]<class T>() { backward_weight<T>(a); });
}
PF_CPU_KERNEL(kernels::Conv::kInfo, conv, RunsBehind{})
PF_CPU_KERNEL(kernels::ConvInput::kInfo, conv_input)
PF_CPU_KERNEL(kernels::ConvWeight::kInfo, conv_weight)

}  // namespace
}  // namespace pyflame::cpu
