// Windows of two or three elements, every second one, over pictures whose channels do not lie side
// by side (pool-inl.h has all others). Some vectors of windows go down a plane together: what they
// have of the line that two lines of windows see stays in registers. Include between
// HWY_BEFORE_NAMESPACE() and HWY_AFTER_NAMESPACE() of a foreach_target file.
#if defined(PYFLAME_CPU_POOL_SMALL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PYFLAME_CPU_POOL_SMALL_INL_H_
#undef PYFLAME_CPU_POOL_SMALL_INL_H_
#else
#define PYFLAME_CPU_POOL_SMALL_INL_H_
#endif

#include "cpu/pool_back-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {

// Whether windows are such; of means those that all have the same number of elements.
inline bool AreSmall(const Windows& w, bool means) {
  if (w.inner > 1 || w.adaptive || w.in[0] > 1 || w.out[0] > 1 || w.kernel[0] > 1) return false;
  for (size_t d = 1; d < 3; ++d)
    if (w.stride[d] != 2 || w.dilation[d] != 1 || w.kernel[d] != w.kernel[1] || w.kernel[d] < 2 ||
        w.kernel[d] > 3 || w.padding[d] != w.padding[1] ||
        w.padding[d] > w.kernel[d] - 2)  // padded pairs are rare
      return false;
  const auto alike = [&](size_t d) {
    return std::all_of(w.counted[d].begin(), w.counted[d].end(),
                       [&](double n) { return n == w.counted[d][0]; });
  };
  return !means || w.divisor != 0 || (alike(1) && alike(2));
}
// fn.operator()<kernel, padding>(), if windows are such; what goes forward needs no other padding.
template <class S, class F>
bool WithSmall(const Windows& w, bool means, F&& fn) {
  if constexpr (kInUse<S>) {
    if (!AreSmall(w, means)) return false;
    if (w.kernel[1] == 2)
      fn.template operator()<2, 0>();
    else if (w.padding[1] == 1)
      fn.template operator()<3, 1>();
    else
      fn.template operator()<3, 0>();
    return true;
  }
  return false;
}

template <class S, class Rule, bool kTaps, int kKernel>
class SmallForward {
  using N = PoolOf<S>;
  static constexpr int64_t W = Wide<N>::kLanes;
  static constexpr int kMost = 4;  // vectors beside each other
  // Triples without padding are those with it from the second element on.
  static constexpr int kPadding = kKernel - 2;

 public:
  static constexpr int64_t kItemBytes = static_cast<int64_t>(sizeof(S));
  static constexpr bool kGradient = false;

  SmallForward(const Windows& w, const S* x, S* y, uint8_t* taps)
      : w_(w),
        x_(x),
        y_(y),
        taps_(taps),
        shift_(kPadding - w.padding[1]),
        pitch_(w.in[2]),
        width_(w.in[2] - shift_),
        height_(w.in[1] - shift_) {
    strip_ = kMost * W;
    strips_ = (w.out[2] + strip_ - 1) / strip_;
    // Of a part of a line the same part of a later one.
    ahead_ = strips_ == 1 ? kFetch : 4 * pitch_ * kItemBytes;
  }
  int64_t units() const { return w_.outer * strips_ * w_.out[1]; }
  size_t bytes() const { return 2 * Sink::kBytes; }

  void run(int64_t begin, int64_t end, char* memory, bool stream) const {
    Parts parts(memory);
    Sink y(parts.take<char>(Sink::kBytes), stream), taps(parts.take<char>(Sink::kBytes), stream);
    for (int64_t u = begin; u < end;) {
      const int64_t item = u / w_.out[1], line = u % w_.out[1];
      const int64_t lines = std::min(end - u, w_.out[1] - line);
      const int64_t q0 = item % strips_ * strip_, n = std::min(strip_, w_.out[2] - q0);
      const Part part{item / strips_, q0, n, line, lines};
      switch ((n + W - 1) / W) {
        case 1:
          down<1>(part, y, taps);
          break;
        case 2:
          down<2>(part, y, taps);
          break;
        default:  // of three, the fourth has nothing inside
          down<4>(part, y, taps);
      }
      u += lines;
    }
    y.finish();
    taps.finish();
  }

 private:
  struct Part {
    int64_t plane, q0, n, line, lines;
  };
  struct Cell {
    Wide<N> best, which;
  };
  // Without `kExact` no element is NaN.
  template <bool kExact>
  static HWY_INLINE void take(const Wide<N>& v, const Wide<N>& tap, Cell& to) {
    if constexpr (kTaps) {
      const auto more = kExact ? Rule::above(v, to.best) : GreaterThan(v, to.best);
      to.best = Choose(more, v, to.best);
      to.which = Choose(more, tap, to.which);
    } else if constexpr (kExact || Rule::kMean) {
      to.best = Rule::join(to.best, v);
    } else {
      to.best = WMax(v, to.best);
    }
  }
  template <bool kExact>
  static HWY_INLINE void add(const Cell& more, N base, Cell& to) {
    take<kExact>(more.best, kTaps ? more.which + Fill(base) : more.best, to);
  }

  // What windows [q0, q0 + n) have of a line of x, some at a time.
  template <bool kExact>
  class Reduced {
   public:
    HWY_INLINE Reduced(const SmallForward& f, const S* x, int64_t q0, const Turn<N>& turn)
        : f_(f), x_(x + 2 * q0), left_(f.width_ - 2 * q0), turn_(turn) {
      if (q0 == 0 && f.shift_ == 0) return;
      const N v = OneAs<N>(x_[-1]);
      before_ = Turned<N>(v);
      seen_ = Fill(v);
    }
    HWY_INLINE Cell next(const Wide<N>& first) {
      __builtin_prefetch(reinterpret_cast<const char*>(x_) + f_.ahead_, 0, 2);
      if constexpr (W * sizeof(S) > 32)
        __builtin_prefetch(reinterpret_cast<const char*>(x_ + W) + f_.ahead_, 0, 2);
      const Wide<N> a = get(0), b = get(W);
      seen_ = seen_ + (a + b);
      Wide<N> tap[3];
      if constexpr (kPadding == 1) {
        Split(a, b, tap[1], tap[2]);
        tap[0] = before_.next(tap[2], turn_);
      } else {
        Split(a, b, tap[0], tap[1]);
      }
      x_ += 2 * W;
      left_ -= 2 * W;
      Cell r{tap[0], first};
      for (int k = 1; k < kKernel; ++k) take<kExact>(tap[k], Fill(static_cast<N>(k)), r);
      return r;
    }
    // Something was NaN, or both infinities were there.
    HWY_INLINE bool doubtful() const { return !kExact && AnyTrue(IsNaN(seen_)); }

   private:
    HWY_INLINE Wide<N> get(int64_t i) const {
      if (HWY_LIKELY(i + W <= left_)) return LoadAs<N>(x_ + i);
      return FirstAs<N>(x_ + i, left_ - i, Rule::outside());
    }
    const SmallForward& f_;
    const S* x_;
    int64_t left_;
    const Turn<N>& turn_;
    Turned<N> before_{Rule::outside()};
    Wide<N> seen_ = Fill(N(0));
  };

  // What does not change from line to line.
  struct Same {
    const S* x;  // of the plane
    Turn<N> turn;
    Wide<N> first, by;  // the first window may lack its first tap
  };
  template <int kVectors>
  HWY_NOINLINE void down(const Part& p, Sink& y_sink, Sink& tap_sink) const {
    alignas(64) N lacking[W] = {};
    if (kPadding > shift_ && p.q0 == 0) lacking[0] = 1;
    const Same same{x_ + p.plane * w_.inputs() + shift_ * (pitch_ + 1), TurnOf<N>(), LoadN(lacking),
                    Fill(Rule::kMean ? static_cast<N>(w_.by_line(0, 0) * w_.along(0)) : N(1))};
    Cell above[kVectors];
    bool doubtful = reduce_above<Rule::kMean>(same, p, 2 * p.line - kPadding, above);
    for (int64_t line = p.line; line < p.line + p.lines; ++line) {
      const int64_t o = (p.plane * w_.out[1] + line) * w_.out[2] + p.q0;
      S* const y = y_sink.at(y_ + o, p.n);
      uint8_t* taps = nullptr;
      if constexpr (kTaps) taps = tap_sink.at(taps_ + o, p.n);
      if (kKernel == 2) doubtful = reduce_above<Rule::kMean>(same, p, 2 * line - kPadding, above);
      // Of the line that the next windows begin with, it is known before.
      const bool known = doubtful;
      const bool again = write<Rule::kMean>(same, p, line, above, y, taps, doubtful);
      if constexpr (!Rule::kMean)
        if (HWY_UNLIKELY(known || again)) exactly(same, p, line, y, taps);
    }
  }
  // Vector by vector: it is seldom asked for.
  HWY_NOINLINE void exactly(Same same, Part p, int64_t line, S* y, uint8_t* taps) const {
    for (int64_t end = p.q0 + p.n; p.q0 < end; p.q0 += W, y += W, taps += kTaps ? W : 0) {
      Cell above[1];
      bool doubtful;
      reduce_above<true>(same, p, 2 * line - kPadding, above);
      write<true>(same, p, line, above, y, taps, doubtful);
      same.first = Fill(N(0));
    }
  }
  // The first of the lines that windows see, if it is inside.
  template <bool kExact, int kVectors>
  HWY_INLINE bool reduce_above(const Same& same, const Part& p, int64_t y,
                               Cell (&above)[kVectors]) const {
    Reduced<kExact> line(*this, same.x + std::max(y, -shift_) * pitch_, p.q0, same.turn);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) above[v] = line.next(v == 0 ? same.first : Fill(N(0)));
    return line.doubtful();
  }
  // A line of results; `above` becomes the last line that it sees, whether that is doubtful is
  // told, and whether another is.
  template <bool kExact, int kVectors>
  HWY_INLINE bool write(const Same& same, const Part& p, int64_t line, Cell (&above)[kVectors],
                        S* y, uint8_t* taps, bool& last_doubtful) const {
    const int64_t from = 2 * line - kPadding;
    const bool has0 = from >= -shift_, has1 = from + 1 < height_;
    const bool has2 = kKernel == 3 && from + 2 < height_;
    const S* const lines = same.x + from * pitch_;
    Reduced<kExact> second(*this, has1 ? lines + pitch_ : same.x, p.q0, same.turn);
    Reduced<kExact> third(*this, has2 ? lines + 2 * pitch_ : same.x, p.q0, same.turn);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Wide<N> first = v == 0 ? same.first : Fill(N(0));
      Cell r = above[v];
      if (HWY_LIKELY(has1)) {
        const Cell here = second.next(first);
        if (HWY_LIKELY(has0)) {
          add<kExact>(here, N(kKernel), r);
        } else {
          r.best = here.best;
          if constexpr (kTaps) r.which = here.which + Fill(N(kKernel));
        }
      }
      if (HWY_LIKELY(has2)) {
        above[v] = third.next(first);
        add<kExact>(above[v], N(2 * kKernel), r);
      }
      if constexpr (Rule::kMean) r.best = r.best / same.by;
      StoreAs(r.best, y + v * W);
      if constexpr (kTaps) StoreAs(r.which, taps + v * W);
    }
    last_doubtful = third.doubtful();
    return second.doubtful() || last_doubtful;
  }

  const Windows& w_;
  const S* x_;
  S* y_;
  uint8_t* taps_;
  // From the shifted origin; lines are `pitch_` apart.
  int64_t shift_, pitch_, width_, height_, strips_, strip_, ahead_;
};

// A line of x gets from one line of windows, or from two; of these elements from one window or two,
// the second of which is the neighbour to the right, or to the left.
template <class S, bool kTaps, int kKernel, int kPadding>
class SmallBackward {
  using N = PoolOf<S>;
  static constexpr int64_t W = Wide<N>::kLanes;

 public:
  static constexpr int64_t kItemBytes = static_cast<int64_t>(sizeof(S));
  static constexpr bool kGradient = true;

  SmallBackward(const Windows& w, const S* dy, const uint8_t* taps, S* dx)
      : w_(w), dy_(dy), taps_(taps), dx_(dx), end_(w.outer * w.outputs()) {
    if (!kTaps) by_ = static_cast<N>(w.by_line(0, 0) * w.along(0));
  }
  int64_t units() const { return w_.outer * w_.in[1]; }
  size_t bytes() const {
    return Sink::kBytes + static_cast<size_t>(Sink::kMost / kItemBytes + 2 * W) * sizeof(N);
  }

  void run(int64_t begin, int64_t end, char* memory, bool stream) const {
    Parts parts(memory);
    Sink sink(parts.take<char>(Sink::kBytes), stream);
    N* const own = parts.take<N>(Sink::kMost / kItemBytes + 2 * W);
    int64_t plane = begin / w_.in[1], y = begin % w_.in[1];
    for (int64_t u = begin; u < end; ++u) {
      // Windows of the line's phase, in their order: as tap k from line (y + padding - k) / 2.
      Line lines[2];
      int count = 0;
      for (int k = kKernel - 1; k >= 0; --k) {
        const int64_t at = y + kPadding - k;
        if (at < 0 || at % 2 != 0 || at / 2 >= w_.out[1]) continue;
        lines[count++] = {(plane * w_.out[1] + at / 2) * w_.out[2], static_cast<N>(k * kKernel)};
      }
      S* const to = dx_ + u * w_.in[2];
      if (count == 2)
        line<2>(lines, to, sink, own);
      else if (count == 1)
        line<1>(lines, to, sink, own);
      else
        line<0>(lines, to, sink, own);
      if (++y == w_.in[1]) y = 0, ++plane;
    }
    sink.finish();
  }

 private:
  struct Line {
    int64_t at;
    N first;  // number of the line's first tap
  };
  struct Got {
    Wide<N> g, taps;
  };
  // Of windows [q, q + W) of a line.
  HWY_INLINE Got get(int64_t line, int64_t q) const {
    const int64_t n = w_.out[2], at = line + q;
    Got r;
    if (HWY_LIKELY(q >= 0 && q + W <= n)) {
      r.g = LoadAs<N>(dy_ + at);
      if constexpr (kTaps) r.taps = LoadTaps<N>(taps_ + at);
      return r;
    }
    const int64_t from = q < 0 ? -q : 0, to = std::min(W, n - q);
    const auto mask = LanesFrom<N>(from, to);
    if (at >= 0 && at + W <= end_) {  // what is read besides belongs to other lines
      r.g = LoadAs<N>(dy_ + at);
      if constexpr (kTaps) r.taps = LoadTaps<N>(taps_ + at);
    } else {
      alignas(64) S g[W] = {};
      alignas(64) uint8_t taps[W] = {};
      for (int64_t i = from; i < to; ++i) {
        g[i] = dy_[at + i];
        if constexpr (kTaps) taps[i] = taps_[at + i];
      }
      r.g = LoadAs<N>(g);
      if constexpr (kTaps) r.taps = LoadTaps<N>(taps);
    }
    r.g = Choose(mask, r.g, Fill(N(0)));
    if constexpr (kTaps) r.taps = Choose(mask, r.taps, Fill(N(-1)));
    return r;
  }
  HWY_INLINE void add(const Got& v, N tap, Wide<N>& sum) const {
    if constexpr (kTaps)
      sum = sum + Choose(Equal(v.taps, Fill(tap)), v.g, Fill(N(0)));
    else
      sum = sum + v.g;
  }
  template <int kLines>
  HWY_NOINLINE void line(const Line* lines, S* to, Sink& sink, N* own) const {
    constexpr int64_t kChunk = Sink::kMost / kItemBytes / (2 * W) * (2 * W);
    const Wide<N> by = Fill(by_);
    for (int64_t x = 0; x < w_.in[2]; x += kChunk) {
      const int64_t some = std::min(kChunk, w_.in[2] - x);
      S* const mem = sink.at(to + x, some);
      N* out = own;
      if constexpr (std::is_same_v<S, N>) out = mem;
      for (int64_t i = 0; i < some; i += 2 * W) {
        const int64_t q = (x + i) / 2;
        Wide<N> even = Fill(N(0)), odd = even;
#pragma GCC unroll 2
        for (int l = 0; l < kLines; ++l) {
          const N first = lines[l].first;
          FetchAhead(dy_ + lines[l].at + q);
          if constexpr (kTaps) FetchAhead(taps_ + lines[l].at + q);
          Got here = get(lines[l].at, q);
          if constexpr (!kTaps) here.g = here.g / by;
          if constexpr (kPadding == 1) {
            add(here, first + N(1), even);
            if constexpr (kKernel == 3) add(here, first + N(2), odd);
            Got next = get(lines[l].at, q + 1);
            if constexpr (!kTaps) next.g = next.g / by;
            add(next, first, odd);
          } else {
            if constexpr (kKernel == 3) {
              Got last = get(lines[l].at, q - 1);
              if constexpr (!kTaps) last.g = last.g / by;
              add(last, first + N(2), even);
            }
            add(here, first, even);
            add(here, first + N(1), odd);
          }
        }
        StoreMerged(even, odd, out + i);
      }
      if constexpr (!std::is_same_v<S, N>)
        for (int64_t i = 0; i < some; i += W) StoreAs(LoadN(out + i), mem + i);
    }
  }

  const Windows& w_;
  const S* dy_;
  const uint8_t* taps_;
  S* dx_;
  int64_t end_;
  N by_ = 1;
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
