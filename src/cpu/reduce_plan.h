// How a reduction walks its input: kept and reduced dimensions, each merged where strides allow.
// Element k of a reduction is numbered in row-major order over the reduced dimensions, whatever
// the strides: the order of summation follows k, so the layout of the input changes no bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cpu/kernel.h"

namespace pyflame::cpu {

// Some dimensions of a tensor in order, with up to two sets of strides (input, per-output operand).
struct Axes {
  int n = 0;
  int64_t size[PF_MAX_DIMS];
  int64_t stride[PF_MAX_DIMS];
  int64_t other[PF_MAX_DIMS];
  int64_t count = 1;

  void add(int64_t s, int64_t st, int64_t o) {
    count *= s;
    if (s == 1) return;
    if (n > 0 && stride[n - 1] == st * s && other[n - 1] == o * s) {
      size[n - 1] *= s;
      stride[n - 1] = st;
      other[n - 1] = o;
      return;
    }
    size[n] = s;
    stride[n] = st;
    other[n++] = o;
  }
  int64_t offset(int64_t i) const { return at(i, stride); }
  int64_t other_offset(int64_t i) const { return at(i, other); }

 private:
  int64_t at(int64_t i, const int64_t* st) const {
    int64_t o = 0;
    for (int d = n - 1; d >= 0; --d) {
      o += i % size[d] * st[d];
      i /= size[d];
    }
    return o;
  }
};

struct ReducePlan {
  Axes kept, reduced;
  // reduced elements of one output lie side by side
  bool rows() const { return reduced.n == 0 || (reduced.n == 1 && reduced.stride[0] == 1); }
  // outputs that are neighbours have inputs that are neighbours
  bool columns() const { return kept.n > 0 && kept.stride[kept.n - 1] == 1 && !rows(); }
  int64_t inner() const { return kept.n > 0 ? kept.size[kept.n - 1] : 1; }
};

// Bit d of `mask`: dimension d of x is reduced. `extra` (may be null) broadcasts over the reduced
// dimensions: it has the rank of x.
inline ReducePlan plan_reduction(const pf_tensor& x, int64_t mask, const pf_tensor* extra) {
  ReducePlan p;
  for (int d = 0; d < x.ndim; ++d) {
    const bool reduce = mask >> d & 1;
    (reduce ? p.reduced : p.kept)
        .add(x.shape[d], x.strides[d], extra && !reduce ? extra->strides[d] : 0);
  }
  return p;
}

// Copies elements [first, first + count) of the axes at `base` to `to`.
template <class S>
void pack(const S* base, const Axes& axes, int64_t first, int64_t count, S* to) {
  if (axes.n == 0) {
    for (int64_t i = 0; i < count; ++i) to[i] = base[0];
    return;
  }
  const int last = axes.n - 1;
  const int64_t run = axes.size[last], step = axes.stride[last];
  int64_t k = first;
  while (k < first + count) {
    const int64_t in = k % run, n = std::min(run - in, first + count - k);
    const S* from = base + axes.offset(k - in) + in * step;
    if (step == 1)
      std::memcpy(static_cast<void*>(to), from, sizeof(S) * static_cast<size_t>(n));
    else
      for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
    to += n;
    k += n;
  }
}

// Walks the offsets of consecutive elements of some axes without divisions.
class Odometer {
 public:
  Odometer(const Axes& a, int64_t first) : a_(a), offset_(a.offset(first)) {
    for (int d = a.n - 1; d >= 0; --d) {
      at_[d] = first % a.size[d];
      first /= a.size[d];
    }
  }
  int64_t offset() const { return offset_; }
  void next() {
    for (int d = a_.n - 1; d >= 0; --d) {
      offset_ += a_.stride[d];
      if (++at_[d] < a_.size[d]) return;
      offset_ -= a_.size[d] * a_.stride[d];
      at_[d] = 0;
    }
  }

 private:
  const Axes& a_;
  int64_t at_[PF_MAX_DIMS];
  int64_t offset_;
};

// How the rows of a norm are shared out for the gradients of weight and bias, by their number
// alone.
struct NormBlocks {
  int64_t rows, count;  // of a block; blocks
  explicit NormBlocks(int64_t all)
      : rows(std::max<int64_t>(16, (all + 63) / 64)), count((all + rows - 1) / rows) {}
};

// Blocks of the longest row whose sum is cut into pieces of whole rows.
inline constexpr int64_t kLongestRow = 16;

// Adds neighbours, then neighbours of those, ...: p[0] is the sum. Items are `stride` apart.
template <class T, class F>
T tree(T* p, int64_t n, int64_t stride, F combine) {
  while (n > 1) {
    for (int64_t i = 0; i + 1 < n; i += 2)
      p[i / 2 * stride] = combine(p[i * stride], p[(i + 1) * stride]);
    if (n % 2) p[n / 2 * stride] = p[(n - 1) * stride];
    n = (n + 1) / 2;
  }
  return p[0];
}

}  // namespace pyflame::cpu
