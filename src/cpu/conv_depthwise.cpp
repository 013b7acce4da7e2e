// Convolutions of each channel by itself (as many groups as channels go in): a product of a column
// by a number is no work for a product of matrices. Pixels or channels that lie side by side are
// taken in one go; floats only, others are few.
#include <vector>

#include "cpu/conv.h"
#include "cpu/scratch.h"
#include "cpu/threads.h"

namespace pyflame::cpu {
namespace {

constexpr int64_t kGrain = 1 << 14;  // multiplications

// Taps in row-major order: fn(number, depth, height, width).
template <class F>
void each_tap(const Problem& p, F&& fn) {
  int64_t t = 0;
  for (int64_t a = 0; a < p.taps[0]; ++a)
    for (int64_t b = 0; b < p.taps[1]; ++b)
      for (int64_t e = 0; e < p.taps[2]; ++e) fn(t++, a, b, e);
}
// Pixels of y are in lines, and lines are numbered through.
struct Line {
  int64_t depth, height;
  Line(const Space& sizes, int64_t line) : depth(line / sizes[1]), height(line % sizes[1]) {}
};
int64_t lines_of(const Space& s) {
  return s[0] * s[1];
}
// Where the line of x lies that a tap sees from a line of y, or -1 outside.
int64_t seen_line(const Problem& p, const Lay& x, const Line& l, int64_t a, int64_t b) {
  const int64_t z = place(p, 0, l.depth, a), h = place(p, 1, l.height, b);
  return within(p, 0, z) && within(p, 1, h) ? z * x.at[0] + h * x.at[1] : -1;
}
// The pixel of y whose tap sees this place of x, or -1.
int64_t seeing(const Problem& p, size_t d, int64_t at, int64_t tap) {
  const int64_t v = at + p.padding[d] - tap * p.dilation[d];
  return v >= 0 && v % p.stride[d] == 0 && v / p.stride[d] < p.y[d] ? v / p.stride[d] : -1;
}

template <class T>
void add_scaled(T* __restrict to, const T* __restrict from, int64_t step, T by, int64_t n) {
  if (step == 1)
    for (int64_t i = 0; i < n; ++i) to[i] += by * from[i];
  else
    for (int64_t i = 0; i < n; ++i) to[i] += by * from[i * step];
}
// In eight sums, added at the end: the order is that of the place alone.
template <class T>
struct Dot {
  T sums[8] = {};
  void add(const T* a, const T* b, int64_t step, int64_t n) {
    int64_t i = 0;
    if (step == 1)
      for (; i + 8 <= n; i += 8)
        for (int64_t j = 0; j < 8; ++j) sums[j] += a[i + j] * b[i + j];
    for (; i < n; ++i) sums[i % 8] += a[i] * b[i * step];
  }
  T total() const {
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
           ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  }
};

// Weights as [taps, channels].
template <class T>
void by_tap(const Problem& p, const T* w, const Lay& lay, T* to) {
  each_tap(p, [&](int64_t t, int64_t a, int64_t b, int64_t e) {
    for (int64_t c = 0; c < p.groups; ++c)
      to[t * p.groups + c] = w[c * lay.outer + a * lay.at[0] + b * lay.at[1] + e * lay.at[2]];
  });
}

// Where pixels of y lie side by side.
template <class T>
void planes(const KernelArgs& a, const Problem& p, const Lay& x, const Lay& y, const Lay& w) {
  constexpr auto at = kernels::tensors<kernels::Conv>;
  const T* bias = a.has(at.bias) ? a.data<T>(at.bias) : nullptr;
  const int64_t outs = p.groups * p.out, step = x.at[2] * p.stride[2];
  parallel_for(p.n * outs, std::max<int64_t>(1, kGrain / (p.pixels * p.ntaps)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t u = begin; u < end; ++u) {
                   const int64_t n = u / outs, o = u % outs;
                   const T* from = a.data<T>(at.x) + n * x.outer + o / p.out * x.channel;
                   const T* weights = a.data<T>(at.weight) + o * w.outer;
                   T* to = a.data<T>(at.y) + n * y.outer + o * y.channel;
                   for (int64_t l = 0; l < lines_of(p.y); ++l) {
                     const Line line(p.y, l);
                     T* row = to + l * p.y[2];
                     std::fill_n(row, p.y[2], bias ? bias[o] : T(0));
                     each_tap(p, [&](int64_t, int64_t i, int64_t j, int64_t k) {
                       const int64_t seen = seen_line(p, x, line, i, j);
                       const Inside in(p, k, 0, p.y[2]);
                       if (seen < 0 || in.begin == in.end) return;
                       add_scaled(row + in.begin, from + seen + place(p, 2, in.begin, k) * x.at[2],
                                  step, weights[i * w.at[0] + j * w.at[1] + k * w.at[2]],
                                  in.end - in.begin);
                     });
                   }
                 }
               });
}
template <class T>
void input_planes(const KernelArgs& a, const Problem& p, const Lay& x, const Lay& y, const Lay& w) {
  constexpr auto at = kernels::tensors<kernels::ConvInput>;
  const int64_t count = product(p.x), step = p.stride[2];
  parallel_for(p.n * p.groups, std::max<int64_t>(1, kGrain / (p.pixels * p.ntaps * p.out)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t u = begin; u < end; ++u) {
                   const int64_t n = u / p.groups, g = u % p.groups;
                   T* to = a.data<T>(at.dx) + n * x.outer + g * x.channel;
                   std::fill_n(to, count, T(0));
                   for (int64_t o = g * p.out; o < (g + 1) * p.out; ++o) {
                     const T* from = a.data<T>(at.dy) + n * y.outer + o * y.channel;
                     const T* weights = a.data<T>(at.weight) + o * w.outer;
                     for (int64_t l = 0; l < lines_of(p.y); ++l) {
                       const Line line(p.y, l);
                       const T* row = from + l * p.y[2];
                       each_tap(p, [&](int64_t, int64_t i, int64_t j, int64_t k) {
                         const int64_t seen = seen_line(p, x, line, i, j);
                         const Inside in(p, k, 0, p.y[2]);
                         if (seen < 0 || in.begin == in.end) return;
                         const T by = weights[i * w.at[0] + j * w.at[1] + k * w.at[2]];
                         T* out = to + seen + place(p, 2, in.begin, k);
                         if (step == 1)
                           add_scaled(out, row + in.begin, int64_t{1}, by, in.end - in.begin);
                         else
                           for (int64_t q = in.begin; q < in.end; ++q, out += step)
                             *out += by * row[q];
                       });
                     }
                   }
                 }
               });
}
template <class T>
void weight_planes(const KernelArgs& a, const Problem& p, const Lay& x, const Lay& y,
                   const Lay& w) {
  constexpr auto at = kernels::tensors<kernels::ConvWeight>;
  const int64_t step = x.at[2] * p.stride[2];
  parallel_for(p.groups * p.out, std::max<int64_t>(1, kGrain / (p.n * p.pixels * p.ntaps)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t o = begin; o < end; ++o)
                   each_tap(p, [&](int64_t, int64_t i, int64_t j, int64_t k) {
                     const Inside in(p, k, 0, p.y[2]);
                     Dot<T> dot;
                     for (int64_t n = 0; n < p.n && in.begin < in.end; ++n) {
                       const T* g = a.data<T>(at.dy) + n * y.outer + o * y.channel;
                       const T* from = a.data<T>(at.x) + n * x.outer + o / p.out * x.channel;
                       for (int64_t l = 0; l < lines_of(p.y); ++l) {
                         const int64_t seen = seen_line(p, x, Line(p.y, l), i, j);
                         if (seen < 0) continue;
                         dot.add(g + l * p.y[2] + in.begin,
                                 from + seen + place(p, 2, in.begin, k) * x.at[2], step,
                                 in.end - in.begin);
                       }
                     }
                     a.data<T>(at.dweight)[o * w.outer + i * w.at[0] + j * w.at[1] + k * w.at[2]] =
                         dot.total();
                   });
               });
}

// Where channels lie side by side.

// What a pixel sums up: the places of the taps that are inside, and which weights they take.
struct Seen {
  std::vector<int64_t> at, weights;
  void clear() { at.clear(), weights.clear(); }
  void add(int64_t place, int64_t tap) { at.push_back(place), weights.push_back(tap); }
};

// A line of `count` results: inside(q, k) is where tap k of pixel q lies in a line of x, or -1;
// pixels in [first, last) see all taps, `step` after what the one before sees. `lines` are those
// that are seen, with the number of their first tap.
template <class T, class F>
void sum_line(const Problem& p, const Seen& lines, F&& inside, int64_t count, int64_t first,
              int64_t last, int64_t step, const T* x, const T* weights, const T* bias, T* to,
              int64_t apart, Seen& seen) {
  const auto look = [&](int64_t q) {
    seen.clear();
    for (size_t l = 0; l < lines.at.size(); ++l)
      for (int64_t k = 0; k < p.taps[2]; ++k)
        if (const int64_t at = inside(q, k); at >= 0)
          seen.add(lines.at[l] + at, lines.weights[l] + k);
  };
  const DepthwiseKernels<T>& kernels = depthwise_kernels<T>();
  const auto sum = [&](auto* kernel, int64_t q, const T* from) {
    kernel({from, step, weights, bias, seen.at.data(), seen.weights.data(), std::ssize(seen.at),
            p.groups, to + q * apart, apart});
  };
  for (int64_t q = 0; q < first; ++q) look(q), sum(kernels.pixel, q, x);
  if (first < last) look(first);
  int64_t q = first;
  for (; q + DepthwiseKernels<T>::kPixels <= last; q += DepthwiseKernels<T>::kPixels)
    sum(kernels.pixels, q, x + (q - first) * step);
  for (; q < last; ++q) sum(kernels.pixel, q, x + (q - first) * step);
  for (; q < count; ++q) look(q), sum(kernels.pixel, q, x);
}
// The pixels whose taps are all inside.
Inside all_inside(const Problem& p) {
  Inside all(p, 0, 0, p.y[2]);
  for (int64_t k = 1; k < p.taps[2]; ++k) {
    const Inside in(p, k, 0, p.y[2]);
    all.begin = std::max(all.begin, in.begin), all.end = std::min(all.end, in.end);
  }
  all.end = std::max(all.begin, all.end);
  return all;
}

template <class T>
void lines(const KernelArgs& a, const Problem& p, const Lay& x, const Lay& y, const Lay& w) {
  constexpr auto at = kernels::tensors<kernels::Conv>;
  const int64_t c = p.groups, all = lines_of(p.y), grain = kGrain / (p.y[2] * p.ntaps * c);
  const T* bias = a.has(at.bias) ? a.data<T>(at.bias) : nullptr;
  const Scratch<T> weights(p.ntaps * c);
  by_tap(p, a.data<T>(at.weight), w, weights.get());
  const Inside whole = all_inside(p);
  parallel_for(p.n * all, std::max<int64_t>(1, grain), [&](int64_t begin, int64_t end) {
    Seen rows, seen;
    for (int64_t u = begin; u < end; ++u) {
      const Line line(p.y, u % all);
      rows.clear();
      for (int64_t i = 0; i < p.taps[0]; ++i)
        for (int64_t j = 0; j < p.taps[1]; ++j)
          if (const int64_t row = seen_line(p, x, line, i, j); row >= 0)
            rows.add(row, (i * p.taps[1] + j) * p.taps[2]);
      const auto inside = [&](int64_t q, int64_t k) {
        const int64_t v = place(p, 2, q, k);
        return within(p, 2, v) ? v * x.at[2] : -1;
      };
      sum_line(p, rows, inside, p.y[2], whole.begin, whole.end, p.stride[2] * x.at[2],
               a.data<T>(at.x) + u / all * x.outer, weights.get(), bias,
               a.data<T>(at.y) + u / all * y.outer + line.depth * y.at[0] + line.height * y.at[1],
               y.at[2], seen);
    }
  });
}
template <class T>
void input_lines(const KernelArgs& a, const Problem& p, const Lay& x, const Lay& y, const Lay& w) {
  constexpr auto at = kernels::tensors<kernels::ConvInput>;
  const int64_t c = p.groups, all = lines_of(p.x), grain = kGrain / (p.x[2] * p.ntaps * c);
  const Scratch<T> weights(p.ntaps * c);
  by_tap(p, a.data<T>(at.weight), w, weights.get());
  // Those that all taps are seen by: what the last tap reads begins, and what the first ends.
  const int64_t low = (p.taps[2] - 1) * p.dilation[2] - p.padding[2];
  const int64_t first = p.stride[2] == 1 ? std::clamp<int64_t>(low, 0, p.x[2]) : 0;
  const int64_t last =
      p.stride[2] == 1 ? std::clamp<int64_t>(p.y[2] - p.padding[2], first, p.x[2]) : 0;
  parallel_for(p.n * all, std::max<int64_t>(1, grain), [&](int64_t begin, int64_t end) {
    Seen rows, seen;
    for (int64_t u = begin; u < end; ++u) {
      const Line line(p.x, u % all);
      rows.clear();
      for (int64_t i = 0; i < p.taps[0]; ++i)
        for (int64_t j = 0; j < p.taps[1]; ++j) {
          const int64_t z = seeing(p, 0, line.depth, i), h = seeing(p, 1, line.height, j);
          if (z >= 0 && h >= 0)
            rows.add(z * y.at[0] + h * y.at[1], (i * p.taps[1] + j) * p.taps[2]);
        }
      const auto inside = [&](int64_t v, int64_t k) {
        const int64_t q = seeing(p, 2, v, k);
        return q >= 0 ? q * y.at[2] : -1;
      };
      sum_line<T>(
          p, rows, inside, p.x[2], first, last, y.at[2], a.data<T>(at.dy) + u / all * y.outer,
          weights.get(), nullptr,
          a.data<T>(at.dx) + u / all * x.outer + line.depth * x.at[0] + line.height * x.at[1],
          x.at[2], seen);
    }
  });
}

template <class T>
void weight_lines(const KernelArgs& a, const Problem& p, const Lay& x, const Lay& y, const Lay& w) {
  constexpr auto at = kernels::tensors<kernels::ConvWeight>;
  const DepthwiseKernels<T>& kernels = depthwise_kernels<T>();
  const int64_t c = p.groups, all = p.n * lines_of(p.y), size = p.ntaps * c;
  const int64_t chunks = std::max<int64_t>(1, std::min(all, kUnits));  // each with its own sums
  const Scratch<T> sums(chunks * size);
  std::fill_n(sums.get(), chunks * size, T(0));
  const Inside whole = all_inside(p);
  const int64_t step = p.stride[2] * x.at[2], next = p.dilation[2] * x.at[2];
  parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t u = all * i / chunks; u < all * (i + 1) / chunks; ++u) {
        const int64_t n = u / lines_of(p.y);
        const Line line(p.y, u % lines_of(p.y));
        const T* from = a.data<T>(at.x) + n * x.outer;
        const T* row =
            a.data<T>(at.dy) + n * y.outer + line.depth * y.at[0] + line.height * y.at[1];
        for (int64_t d = 0; d < p.taps[0]; ++d)
          for (int64_t j = 0; j < p.taps[1]; ++j) {
            const int64_t seen = seen_line(p, x, line, d, j);
            if (seen < 0) continue;
            T* const to = sums.get() + i * size + (d * p.taps[1] + j) * p.taps[2] * c;
            // `taps` of the line from tap k, of the pixels from q.
            const auto add = [&](int64_t taps, int64_t k, int64_t q, int64_t stop) {
              if (q < stop)
                kernels.products[taps - 1]({to + k * c, row + q * y.at[2], y.at[2],
                                            from + seen + place(p, 2, q, k) * x.at[2], step, next,
                                            stop - q, c});
            };
            for (int64_t k = 0; k < p.taps[2]; k += DepthwiseKernels<T>::kTaps)
              add(std::min<int64_t>(DepthwiseKernels<T>::kTaps, p.taps[2] - k), k, whole.begin,
                  whole.end);
            for (int64_t k = 0; k < p.taps[2]; ++k) {
              const Inside in(p, k, 0, p.y[2]);
              add(1, k, in.begin, std::min(in.end, whole.begin));
              add(1, k, std::max(in.begin, whole.end), in.end);
            }
          }
      }
  });
  each_tap(p, [&](int64_t t, int64_t i, int64_t j, int64_t k) {
    for (int64_t o = 0; o < c; ++o) {
      T sum = 0;
      for (int64_t s = 0; s < chunks; ++s) sum += sums.get()[s * size + t * c + o];
      a.data<T>(at.dweight)[o * w.outer + i * w.at[0] + j * w.at[1] + k * w.at[2]] = sum;
    }
  });
}

// Which of the two ways: that of planes where both have pixels side by side (x may have any
// strides if `any`), that of lines where both have channels side by side.
enum class Way { None, Planes, Lines };
Way way_of(const KernelArgs& a, const Problem& p, const Lay& x, const Lay& y, bool any) {
  if (p.in != 1 || p.groups == 1 || !is_float(a.dtype(0))) return Way::None;
  if (p.out == 1 && x.channel == 1 && y.channel == 1) return Way::Lines;
  if (step_of(p.y, y.at) == 1 && (any || step_of(p.x, x.at) == 1)) return Way::Planes;
  return Way::None;
}
template <class F>
bool run(const KernelArgs& a, Way way, F&& fn) {
  if (way == Way::None) return false;
  const bool planes = way == Way::Planes;
  a.dtype(0) == DType::Float64 ? fn.template operator()<double>(planes)
                               : fn.template operator()<float>(planes);
  return true;
}

}  // namespace

bool depthwise(const KernelArgs& a, const Problem& p, const Lay& x, const Lay& y, const Lay& w) {
  return run(a, way_of(a, p, x, y, true), [&]<class T>(bool in_planes) {
    in_planes ? planes<T>(a, p, x, y, w) : lines<T>(a, p, x, y, w);
  });
}
bool depthwise_input(const KernelArgs& a, const Problem& p, const Lay& x, const Lay& y,
                     const Lay& w) {
  return run(a, way_of(a, p, x, y, false), [&]<class T>(bool in_planes) {
    in_planes ? input_planes<T>(a, p, x, y, w) : input_lines<T>(a, p, x, y, w);
  });
}
bool depthwise_weight(const KernelArgs& a, const Problem& p, const Lay& x, const Lay& y,
                      const Lay& w) {
  return run(a, way_of(a, p, x, y, true), [&]<class T>(bool in_planes) {
    in_planes ? weight_planes<T>(a, p, x, y, w) : weight_lines<T>(a, p, x, y, w);
  });
}

}  // namespace pyflame::cpu
