// Windows of few elements over pictures whose channels lie side by side: each element is read where
// it lies, once for every window that it is in (pool-inl.h has all others). Nothing is kept between
// lines; what is read again is in a cache. Include between HWY_BEFORE_NAMESPACE() and
// HWY_AFTER_NAMESPACE() of a foreach_target file.
#if defined(PYFLAME_CPU_POOL_LAST_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PYFLAME_CPU_POOL_LAST_INL_H_
#undef PYFLAME_CPU_POOL_LAST_INL_H_
#else
#define PYFLAME_CPU_POOL_LAST_INL_H_
#endif

#include "cpu/pool_back-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {

// How the pixels of a line are cut: some at a time, or some channels of one. What is written goes
// in small parts, for memory has to take them while others are calculated.
struct LastCut {
  static constexpr int64_t kBytes = 512;
  int64_t pixels, channels;
  LastCut(int64_t inner, int64_t item)
      : pixels(std::max<int64_t>(1, kBytes / item / inner)),
        channels(std::min(inner, Sink::kMost / item)) {}
};

// Whether windows are such.
template <class S>
bool AreFew(const Windows& w) {
  constexpr int64_t W = Wide<PoolOf<S>>::kLanes;
  constexpr int64_t kAtOnce = Sink::kMost / static_cast<int64_t>(sizeof(S));
  return w.inner >= W && (w.inner <= kAtOnce || w.inner % W == 0) && w.taps() <= 9;
}

// Lines of windows, with the number of the tap where that is asked for.
template <class S, class Rule, bool kTaps>
class LastForward {
  using N = PoolOf<S>;
  static constexpr int64_t W = Wide<N>::kLanes;

 public:
  static constexpr int64_t kItemBytes = static_cast<int64_t>(sizeof(S));
  static constexpr bool kGradient = false;

  LastForward(const Windows& w, const S* x, S* y, uint8_t* taps)
      : w_(w), x_(x), y_(y), taps_(taps), cut_(w.inner, kItemBytes) {}
  int64_t units() const { return w_.outer * w_.lines(); }
  size_t bytes() const { return 2 * Sink::kBytes; }

  void run(int64_t begin, int64_t end, char* memory, bool stream) const {
    Parts parts(memory);
    Sink y_sink(parts.take<char>(Sink::kBytes), stream),
        tap_sink(parts.take<char>(Sink::kBytes), stream);
    const int64_t inner = w_.inner, out = w_.out[2];
    for (int64_t u = begin; u < end; ++u) {
      const Lines lines = look(u);
      for (int64_t q0 = 0; q0 < out; q0 += cut_.pixels) {
        const int64_t pixels = std::min(cut_.pixels, out - q0);
        for (int64_t c = 0; c < inner; c += cut_.channels) {
          const int64_t n = std::min(cut_.channels, inner - c);
          const int64_t o = (u * out + q0) * inner + c;
          S* y = y_sink.at(y_ + o, pixels * n);
          uint8_t* taps = nullptr;
          if constexpr (kTaps) taps = tap_sink.at(taps_ + o, pixels * n);
          for (int64_t q = q0; q < q0 + pixels; ++q, y += n, taps += kTaps ? n : 0)
            pixel(lines, q, c, n, y, taps);
        }
      }
    }
    y_sink.finish();
    tap_sink.finish();
  }

 private:
  // What a line of windows sees.
  struct Lines {
    const S* x[9];
    N first[9];                    // number of the line's first tap
    int64_t count = 0, known = 0;  // the first so many were seen by windows before
    double by = 1;
  };
  Lines look(int64_t u) const {
    const int64_t line = u % w_.lines(), z = line / w_.out[1], y = line % w_.out[1];
    const Windows::Range &d = w_.of(0, z), &h = w_.of(1, y);
    const S* const x = x_ + u / w_.lines() * w_.inputs() * w_.inner;
    Lines r;
    for (int64_t i = 0; i < d.to - d.from; ++i)
      for (int64_t j = 0; j < h.to - h.from; ++j) {
        const int64_t at = (d.begin + i * w_.step(0)) * w_.in[1] + h.begin + j * w_.step(1);
        r.x[r.count] = x + at * w_.in[2] * w_.inner;
        r.first[r.count++] =
            static_cast<N>(((d.from + i) * w_.kernel[1] + h.from + j) * w_.kernel[2]);
      }
    if (y > 0) r.known = std::max<int64_t>(0, r.count - w_.stride[1]);
    if constexpr (Rule::kMean) r.by = w_.by_line(z, y);
    return r;
  }
  HWY_INLINE void pixel(const Lines& lines, int64_t q, int64_t c, int64_t n, S* y,
                        uint8_t* taps) const {
    const Windows::Range& r = w_.of(2, q);
    const int64_t count = r.to - r.from, ahead = w_.stride[2] * w_.inner;
    for (int64_t l = lines.known; l < lines.count; ++l)
      for (int64_t i = 0; i < ahead; i += 64 / kItemBytes) FetchAhead(lines.x[l] + q * ahead + i);
    if (lines.count == 3 && count == 3)
      join<3, 3>(lines, r, c, n, y, taps, q);
    else if (lines.count == 2 && count == 2)
      join<2, 2>(lines, r, c, n, y, taps, q);
    else
      join<0, 0>(lines, r, c, n, y, taps, q);
  }
  struct Cell {
    Wide<N> best, which;
  };
  static HWY_INLINE void take(const Cell& v, Cell& to) {
    if constexpr (kTaps) {
      const auto more = Rule::above(v.best, to.best);
      to.best = Choose(more, v.best, to.best);
      to.which = Choose(more, v.which, to.which);
    } else {
      to.best = Rule::join(to.best, v.best);
    }
  }
  // The last vector goes back to have a whole one.
  template <int kLines, int kCount>
  HWY_NOINLINE void join(const Lines& lines, const Windows::Range& r, int64_t c, int64_t n, S* y,
                         uint8_t* taps, int64_t q) const {
    const int64_t count = kCount > 0 ? kCount : std::max<int64_t>(0, r.to - r.from);
    const int64_t rows = kLines > 0 ? kLines : count > 0 ? lines.count : 0;
    const int64_t step = w_.step(2) * w_.inner, from = r.begin * w_.inner + c;
    N number[9];
    if constexpr (kTaps)
      for (int64_t l = 0; l < rows; ++l)
        for (int64_t k = 0; k < count; ++k)
          number[l * count + k] = lines.first[l] + static_cast<N>(r.from + k);
    Wide<N> by = Fill(N(1));
    if constexpr (Rule::kMean) by = Fill(static_cast<N>(lines.by * w_.along(q)));
    for (int64_t i = 0; i < n; i += W) {
      const int64_t at = std::min(i, n - W);
      const auto get = [&](int64_t l, int64_t k) HWY_ATTR {
        Cell r{LoadAs<N>(lines.x[l] + from + at + k * step), {}};
        if constexpr (kTaps) r.which = Fill(number[l * count + k]);
        return r;
      };
      const auto line = [&](int64_t l) HWY_ATTR {
        Cell r = get(l, 0);
#pragma GCC unroll 3
        for (int64_t k = 1; k < count; ++k) take(get(l, k), r);
        return r;
      };
      Cell all{Fill(Rule::outside()), Fill(N(255))};  // where nothing is inside
      if (kLines > 0 || rows > 0) all = line(0);
#pragma GCC unroll 3
      for (int64_t l = 1; l < rows; ++l) take(line(l), all);
      if constexpr (Rule::kMean) all.best = all.best / by;
      StoreAs(all.best, y + at);
      if constexpr (kTaps) StoreAs(all.which, taps + at);
    }
  }

  const Windows& w_;
  const S* x_;
  S* y_;
  uint8_t* taps_;
  LastCut cut_;
};

// The gradient of lines of x, by the numbers of the largest taps.
template <class S>
class LastBackward {
  using N = PoolOf<S>;
  static constexpr int64_t W = Wide<N>::kLanes;

 public:
  static constexpr int64_t kItemBytes = static_cast<int64_t>(sizeof(S));
  static constexpr bool kGradient = true;

  LastBackward(const Windows& w, const S* dy, const uint8_t* taps, S* dx)
      : w_(w),
        dy_(dy),
        taps_(taps),
        dx_(dx),
        d_(w.covered(0)),
        h_(w.covered(1)),
        x_(w.covered(2)),
        cut_(w.inner, kItemBytes) {}
  int64_t units() const { return w_.outer * w_.in[0] * w_.in[1]; }
  size_t bytes() const { return Sink::kBytes; }

  void run(int64_t begin, int64_t end, char* memory, bool stream) const {
    Sink sink(memory, stream);
    const int64_t inner = w_.inner, width = w_.in[2];
    for (int64_t u = begin; u < end; ++u) {
      const Lines lines = look(u);
      for (int64_t x0 = 0; x0 < width; x0 += cut_.pixels) {
        const int64_t pixels = std::min(cut_.pixels, width - x0);
        for (int64_t c = 0; c < inner; c += cut_.channels) {
          const int64_t n = std::min(cut_.channels, inner - c);
          S* to = sink.at(dx_ + (u * width + x0) * inner + c, pixels * n);
          for (int64_t x = x0; x < x0 + pixels; ++x, to += n) pixel(lines, x, c, n, to);
        }
      }
    }
    sink.finish();
  }

 private:
  // Lines of windows that see a line of x: where they begin, and the number of the first tap.
  struct Lines {
    int64_t at[9];
    N first[9];
    int64_t count = 0;
  };
  Lines look(int64_t u) const {
    const int64_t plane = u / w_.in[1], z = plane % w_.in[0], y = u % w_.in[1];
    Lines r;
    for (const auto* d = d_.begin(z); d < d_.end(z); ++d)
      for (const auto* h = h_.begin(y); h < h_.end(y); ++h) {
        const int64_t line = plane / w_.in[0] * w_.lines() + d->window * w_.out[1] + h->window;
        r.at[r.count] = line * w_.out[2] * w_.inner;
        r.first[r.count++] = static_cast<N>((d->tap * w_.kernel[1] + h->tap) * w_.kernel[2]);
      }
    return r;
  }
  HWY_INLINE void pixel(const Lines& lines, int64_t x, int64_t c, int64_t n, S* to) const {
    const auto *begin = x_.begin(x), *end = x_.end(x);
    const int64_t count = end - begin;
    if (lines.count == 1 && count == 1)
      sum<1, 1>(lines, begin, count, c, n, to);
    else if (lines.count == 1 && count == 2)
      sum<1, 2>(lines, begin, count, c, n, to);
    else if (lines.count == 2 && count == 1)
      sum<2, 1>(lines, begin, count, c, n, to);
    else if (lines.count == 2 && count == 2)
      sum<2, 2>(lines, begin, count, c, n, to);
    else
      sum<0, 0>(lines, begin, count, c, n, to);
  }
  template <int kLines, int kCount>
  HWY_NOINLINE void sum(const Lines& lines, const Windows::Cover* covers, int64_t count, int64_t c,
                        int64_t n, S* to) const {
    const int64_t rows = kLines > 0 ? kLines : lines.count, all = kCount > 0 ? kCount : count;
    // Where a term lies, and what its tap is.
    int64_t at[9];
    N tap[9];
    for (int64_t l = 0; l < rows; ++l)
      for (int64_t k = 0; k < all; ++k) {
        at[l * all + k] = lines.at[l] + covers[k].window * w_.inner + c;
        tap[l * all + k] = lines.first[l] + static_cast<N>(covers[k].tap);
      }
    for (int64_t i = 0; i < n; i += W) {
      const int64_t j = std::min(i, n - W);
      Wide<N> s = Fill(N(0));
#pragma GCC unroll 4
      for (int64_t t = 0; t < rows * all; ++t) {
        FetchAhead(dy_ + at[t] + j);
        const auto is = Equal(LoadTaps<N>(taps_ + at[t] + j), Fill(tap[t]));
        s = s + Choose(is, LoadAs<N>(dy_ + at[t] + j), Fill(N(0)));
      }
      StoreAs(s, to + j);
    }
  }

  const Windows& w_;
  const S* dy_;
  const uint8_t* taps_;
  S* dx_;
  const Windows::Covered d_, h_, x_;
  LastCut cut_;
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
