// What the convolutions of the CPU share: sizes, strides, and which taps of which pixels are
// inside.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "cpu/kept_forms.h"
#include "cpu/kernel.h"
#include "cpu/scratch.h"
#include "table/kernels/conv.h"

namespace pyflame::cpu {

using Space = std::array<int64_t, 3>;

// Work is cut into at least so many units, where that leaves enough for each.
inline constexpr int64_t kUnits = 8;
// Lines of fewer pixels keep a product's kernels waiting; lines of fewer than the other are no
// better than columns for all pixels.
inline constexpr int64_t kShortLine = 4, kNarrowLine = 6;
inline constexpr int64_t kTileBytes = 256 << 10, kShortTile = 32, kLongTile = 2048;

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// A tensor [outer, channels, space] or [channels out, channels in, taps]: sizes and strides.
struct Lay {
  int64_t outer, channel;
  Space at;

  explicit Lay(const pf_tensor& t) : outer(t.strides[0]), channel(t.strides[1]), at{} {
    for (int d = 2; d < t.ndim; ++d) at[static_cast<size_t>(d - t.ndim + 3)] = t.strides[d];
  }
};
inline Space space_of(const pf_tensor& t) {
  Space r{1, 1, 1};
  for (int d = 2; d < t.ndim; ++d) r[static_cast<size_t>(d - t.ndim + 3)] = t.shape[d];
  return r;
}
inline int64_t product(const Space& s) {
  return s[0] * s[1] * s[2];
}
// The step between the elements of a space in row-major order; 0 where there is no such step, or
// all are one element.
inline int64_t step_of(const Space& sizes, const Space& strides) {
  int64_t step = 1, count = 1;  // count: elements of the dimensions that were seen
  for (size_t d = 3; d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (count == 1) step = strides[d];
    if (strides[d] != step * count) return 0;
    count *= sizes[d];
  }
  return step;
}
// a + b; integers wrap.
template <class T>
T plus(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}

struct Problem {
  int64_t n, groups, in, out;  // channels of a group
  Space x, y, taps, stride, padding, dilation;
  int64_t pixels, ntaps, k;  // of y; k: taps of all channels of a group

  Problem(const KernelArgs& a, const pf_tensor& xt, const pf_tensor& yt, const pf_tensor& wt)
      : n(xt.shape[0]), x(space_of(xt)), y(space_of(yt)), taps(space_of(wt)) {
    constexpr auto number = kernels::numbers<kernels::Conv>;
    for (int i = 0; i < 3; ++i) {
      const auto d = static_cast<size_t>(i);
      stride[d] = a.i(number.stride_d + i);
      padding[d] = a.i(number.padding_d + i);
      dilation[d] = a.i(number.dilation_d + i);
    }
    groups = a.i(number.groups);
    in = wt.shape[1];
    out = wt.shape[0] / groups;
    pixels = product(y);
    ntaps = product(taps);
    k = in * ntaps;
  }
  // Each pixel reads the one at its place.
  bool pointwise() const {
    return ntaps == 1 && stride == Space{1, 1, 1} && padding == Space{0, 0, 0} && x == y;
  }
  // Where each pixel reads its own, and items lie one behind the other, they are one item.
  void join(Lay& from, Lay& to) {
    if (!pointwise()) return;
    const int64_t x_step = pixels == 1 ? from.outer : step_of(x, from.at);
    const int64_t y_step = pixels == 1 ? to.outer : step_of(y, to.at);
    if (x_step == 0 || from.outer != pixels * x_step || to.outer != pixels * y_step) return;
    pixels *= n, n = 1;
    x = y = Space{1, 1, pixels};
    from.at = {0, 0, x_step}, to.at = {0, 0, y_step};
  }
  // Pixels of a tile.
  int64_t tile(size_t item, int64_t most = kLongTile) const {
    const int64_t fit = kTileBytes / static_cast<int64_t>(item) / std::max<int64_t>(k, 1);
    const int64_t share = ceil_div(n * groups * pixels, kUnits);
    const int64_t wide = std::min({std::max(fit, kShortTile), most, std::max(share, kShortTile)});
    return std::min(ceil_div(wide, 16) * 16, std::max<int64_t>(pixels, 1));
  }
};

// Runs of pixels [first, last) that lie in one line of y: fn(depth, height, from, to, place).
template <class F>
void each_line(const Problem& p, int64_t first, int64_t last, F&& fn) {
  for (int64_t at = first; at < last;) {
    const int64_t line = at / p.y[2], from = at % p.y[2];
    const int64_t to = std::min(p.y[2], from + last - at);
    fn(line / p.y[1], line % p.y[1], from, to, at - first);
    at += to - from;
  }
}
// Pixels of a line [from, to) whose tap is inside of x: [begin, end).
struct Inside {
  int64_t begin, end;
  Inside(const Problem& p, int64_t tap, int64_t from, int64_t to) {
    const int64_t shift = tap * p.dilation[2] - p.padding[2];  // x = pixel * stride + shift
    begin = shift < 0 ? ceil_div(-shift, p.stride[2]) : 0;
    end = p.x[2] - shift <= 0 ? 0 : ceil_div(p.x[2] - shift, p.stride[2]);
    begin = std::clamp(begin, from, to);
    end = std::clamp(end, begin, to);
  }
};
inline int64_t place(const Problem& p, size_t d, int64_t pixel, int64_t tap) {
  return pixel * p.stride[d] + tap * p.dilation[d] - p.padding[d];
}
inline bool within(const Problem& p, size_t d, int64_t at) {
  return at >= 0 && at < p.x[d];
}

// What is behind a convolution, over the part of its result [item, channels, pixels) that is done.
struct Done {
  Behind* behind;  // null: nothing
  const Lay& y;
  int64_t pixel;  // the step between pixels

  Done(const KernelArgs& a, const Problem& p, const Lay& lay)
      : behind(a.behind), y(lay), pixel(step_of(p.y, lay.at)) {
    if (behind) behind->take();
  }
  void operator()(int64_t item, int64_t channel, int64_t channels, int64_t first,
                  int64_t pixels) const {
    if (!behind || channels <= 0 || pixels <= 0) return;
    const int64_t at = item * y.outer + channel * y.channel + first * pixel;
    if (y.channel == 1)
      behind->run(at, pixels, channels, pixel);
    else
      behind->run(at, channels, pixels, y.channel);
  }
};

// Each channel by itself: no channel of a group but one goes in. False where they are not for it.
bool depthwise(const KernelArgs&, const Problem&, const Lay& x, const Lay& y, const Lay& weight);
bool depthwise_input(const KernelArgs&, const Problem&, const Lay& x, const Lay& y,
                     const Lay& weight);
bool depthwise_weight(const KernelArgs&, const Problem&, const Lay& x, const Lay& y,
                      const Lay& weight);

// Of pixels whose channels lie side by side: what their taps see, added up (depthwise_kernels.cpp).
template <class T>
struct SeenTaps {
  const T* x;
  int64_t step;  // between what neighbouring pixels see
  const T* weights;
  const T* bias;
  const int64_t *at, *which;  // of the taps: places in x, and numbers of weights
  int64_t taps, channels;
  T* to;
  int64_t apart;  // between the pixels
};
// sums[k] += the products of g and x over n pixels, x being `next` further for the next tap.
template <class T>
struct TapProducts {
  T* sums;
  const T* g;
  int64_t g_step;
  const T* x;
  int64_t x_step, next, n, channels;
};
template <class T>
struct DepthwiseKernels {
  static constexpr int kPixels = 4, kTaps = 4;
  void (*pixel)(const SeenTaps<T>&);
  void (*pixels)(const SeenTaps<T>&);              // kPixels of them
  void (*products[kTaps])(const TapProducts<T>&);  // of one tap, of two ..
};
template <class T>
const DepthwiseKernels<T>& depthwise_kernels();

// Floats of few pixels as one product (conv_flat.cpp). False where they are not few, or weights lie
// in an odd way.
template <class T>
bool flat(const KernelArgs&, const Problem&, const Lay& x, const Lay& y, const Lay& weight);
template <class T>
bool flat_input(const KernelArgs&, const Problem&, const Lay& x, const Lay& y, const Lay& weight);
template <class T>
bool flat_weight(const KernelArgs&, const Problem&, const Lay& x, const Lay& y, const Lay& weight);

// Floats as sums over taps (conv_taps.cpp). False where lines or channels are too few for it.
bool taps(const KernelArgs&, const Problem&, const Lay& x, const Lay& y, const Lay& weight);
bool taps_input(const KernelArgs&, const Problem&, const Lay& x, const Lay& y, const Lay& weight);
// The sums of `chunks` parts of the pixels, [chunk, result channel, tap, channel]; `parts` of the
// result channels are made apart.
bool taps_weight(const KernelArgs&, const Problem&, const Lay& x, const Lay& y, int64_t chunks,
                 int64_t parts, void* sums);

}  // namespace pyflame::cpu
