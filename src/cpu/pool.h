// The geometry of pooling on the CPU (table/kernels/pool.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "cpu/kernel.h"
#include "table/kernels/pool.h"

namespace pyflame::cpu {

struct Windows {
  using Space = std::array<int64_t, 3>;

  // Taps [from, to) of a window in a dimension are inside, the first of them at `begin`. Taps are
  // numbered through in `kernel`, which of adaptive windows is the largest one.
  struct Range {
    int64_t begin, from, to;
    bool empty() const { return from >= to; }
  };
  // A window that an element is in, and as which of its taps.
  struct Cover {
    int64_t window, tap;
  };

  int64_t outer, inner;
  Space in, out, kernel, stride, padding, dilation;
  bool adaptive;
  std::array<std::vector<Range>, 3> ranges;
  std::array<std::vector<double>, 3> counted;  // what a window has for its average
  double divisor;                              // of all windows, or 0

  explicit Windows(const KernelArgs& a);
  int64_t inputs() const { return in[0] * in[1] * in[2]; }
  int64_t lines() const { return out[0] * out[1]; }
  int64_t outputs() const { return lines() * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  const Range& of(size_t d, int64_t i) const { return ranges[d][static_cast<size_t>(i)]; }
  int64_t step(size_t d) const { return adaptive ? 1 : dilation[d]; }
  // How many lines of x a line of windows may see in a dimension.
  int64_t most(size_t d) const { return std::min(kernel[d], in[d]); }
  // What the sums of windows are divided by, but for their number along a line.
  double by_line(int64_t z, int64_t y) const {
    if (divisor != 0) return divisor;
    return counted[0][static_cast<size_t>(z)] * counted[1][static_cast<size_t>(y)];
  }
  double along(int64_t q) const { return divisor != 0 ? 1 : counted[2][static_cast<size_t>(q)]; }
  bool equal_along() const;

  // Of each element of a dimension the windows that it is in, in their order.
  struct Covered {
    std::vector<int64_t> first;
    std::vector<Cover> covers;
    const Cover* begin(int64_t i) const { return covers.data() + first[static_cast<size_t>(i)]; }
    const Cover* end(int64_t i) const { return begin(i + 1); }
    int64_t span = 1;  // from the first to the last of an element
  };
  Covered covered(size_t d) const;

 private:
  Range range_of(size_t d, int64_t i) const;
};

// The place in the space of x that an index stands for, or -1: as int64 it is the place itself, in
// bytes the number of a tap of the window at a line and a column.
class TapPlaces {
 public:
  explicit TapPlaces(const Windows& w);
  int64_t corner(int64_t line, int64_t q) const {
    return (edge(0, line / w_.out[1]) * w_.in[1] + edge(1, line % w_.out[1])) * w_.in[2] +
           edge(2, q);
  }
  int64_t of(int64_t corner, int64_t tap) const {
    if (tap < 0 || tap >= w_.taps()) return -1;
    return corner + (by_tap_.empty() ? offset(tap) : by_tap_[static_cast<size_t>(tap)]);
  }

 private:
  int64_t edge(size_t d, int64_t i) const {
    const Windows::Range& r = w_.of(d, i);
    return r.begin - r.from * w_.step(d);
  }
  int64_t offset(int64_t tap) const;
  const Windows& w_;
  std::vector<int64_t> by_tap_;  // of few taps
};

// PoolMaxInput where the index is int64.
void pool_add_by_places(const KernelArgs& a);

}  // namespace pyflame::cpu
