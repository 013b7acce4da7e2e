// The gradients of pool-inl.h: an element of x has the sum of what the windows got that it is in,
// or of those whose largest one it was, in the order of the windows. A line gathers it from the
// lines of windows that see it. Where elements of a channel lie side by side, those of one phase of
// the stride are the same tap of windows that are neighbours. Include between
// HWY_BEFORE_NAMESPACE() and HWY_AFTER_NAMESPACE() of a foreach_target file.
#if defined(PYFLAME_CPU_POOL_BACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PYFLAME_CPU_POOL_BACK_INL_H_
#undef PYFLAME_CPU_POOL_BACK_INL_H_
#else
#define PYFLAME_CPU_POOL_BACK_INL_H_
#endif

#include "cpu/pool-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {

template <class N>
HWY_INLINE Wide<N> LoadTaps(const uint8_t* p) {
  if constexpr (std::is_same_v<N, float>) {
    const Wide<float>::D d;
    const hn::Rebind<int32_t, Wide<float>::D> di;
    const hn::Rebind<uint8_t, Wide<float>::D> d8;
    Wide<float> r;
    for (int k = 0; k < Wide<float>::kParts; ++k)
      r.v[k] = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, p + k * Wide<float>::kPart)));
    return r;
  } else {
    alignas(64) N all[Wide<N>::kLanes];
    for (int64_t i = 0; i < Wide<N>::kLanes; ++i) all[i] = static_cast<N>(p[i]);
    return Load(all);
  }
}

// The gradient of lines [begin, end) of x; with the numbers of the largest taps, or of means.
template <class S, bool kTaps>
class Backward {
  using N = PoolOf<S>;
  static constexpr int64_t W = Wide<N>::kLanes;
  static constexpr int64_t kItem = static_cast<int64_t>(sizeof(N));

 public:
  static constexpr int64_t kItemBytes = static_cast<int64_t>(sizeof(S));
  static constexpr bool kGradient = true;
  Backward(const Windows& w, const S* dy, const uint8_t* taps, S* dx)
      : w_(w), dy_(dy), taps_(taps), dx_(dx), d_(w.covered(0)), h_(w.covered(1)), x_(w.covered(2)) {
    stride_ = w.stride[2];
    phased_ = w.inner == 1 && !w.adaptive && stride_ <= kMostPhases && w.in[2] >= 4;
    const int64_t lines = (kTaps ? 2 : 1) * d_.span * h_.span;
    const int64_t each = kItem * (w.inner * (lines + 1) / (phased_ ? stride_ : 1) + 1);
    strips_ = Strips(w.in[2], each, phased_ ? stride_ * W : 1, w.inner >= W ? 4 : 64);
    if (phased_) {
      const int64_t low = FloorDiv(w.padding[2] - (w.kernel[2] - 1) * w.dilation[2], stride_);
      before_ = WholeVectors(std::max<int64_t>(0, -low), W);
      const int64_t high = FloorDiv(stride_ - 1 + w.padding[2], stride_);
      most_windows_ = before_ + WholeVectors((strips_.width + stride_ - 1) / stride_, W) + high;
    } else {
      for (int64_t i = 0; i < strips_.count; ++i)
        most_windows_ = std::max(most_windows_, seen(i).to - seen(i).from);
    }
    length_ = WholeVectors(most_windows_ * w.inner, W) + W;
  }
  int64_t units() const { return w_.outer * strips_.count * w_.in[0] * w_.in[1]; }
  size_t bytes() const {
    const int64_t lines = length_ * ((kTaps ? 2 : 1) * d_.span * h_.span + 1);
    return static_cast<size_t>((lines + room()) * kItem + Sink::kBytes + 512);
  }
  void run(int64_t begin, int64_t end, char* memory, bool stream) const {
    Thread(*this, memory, dx_, stream).run(begin, end);
  }

 private:
  struct Span {
    int64_t from, to;
  };
  // Windows that see a strip.
  Span seen(int64_t strip) const {
    Span s{w_.out[2], 0};
    const int64_t first = strips_.first(strip);
    for (int64_t x = first; x < first + strips_.size(strip); ++x)
      for (const auto* c = x_.begin(x); c < x_.end(x); ++c)
        s = {std::min(s.from, c->window), std::max(s.to, c->window + 1)};
    return {std::min(s.from, s.to), s.to};
  }
  // Elements of x that are written at once, and that lie in memory of the thread before.
  int64_t chunk() const {
    const int64_t all = Sink::kMost / static_cast<int64_t>(sizeof(S)), whole = stride_ * W;
    return phased_ ? all / whole * whole : all;
  }
  int64_t room() const { return phased_ ? chunk() + 2 * W : strips_.width + W; }

  // What elements get from a line of windows, as one of their taps. The numbers of that line's
  // largest taps lie behind all lines.
  struct Term {
    const N* g;
    N tap;
  };
  struct Line {
    const N* g;
    N first;  // number of the line's first tap
  };
  // A tap of the elements of a phase, and where in a line of windows the first one has it.
  struct PhaseTap {
    int64_t at;
    N tap;
  };

  class Thread {
   public:
    Thread(const Backward& b, char* memory, S* dx, bool stream)
        : b_(b),
          w_(b.w_),
          dx_(dx),
          lines_(b.d_.span, b.h_.span, w_.out[1]),
          parts_(memory),
          sink_(parts_.take<char>(Sink::kBytes), stream),
          kept_(parts_.template take<N>(b.length_ * lines_.slots() * (kTaps ? 2 : 1))),
          by_(parts_.template take<N>(b.length_)),
          own_(parts_.template take<N>(b.room())),
          behind_(b.length_ * lines_.slots()),
          chunk_(b.chunk()),
          chunk_groups_(chunk_ / b.stride_),
          equal_(w_.equal_along()),
          from_(static_cast<size_t>(lines_.slots())) {
      for (int64_t f = 0; b.phased_ && f < b.stride_; ++f)
        for (int64_t k = w_.kernel[2] - 1; k >= 0; --k) {
          const int64_t at = f + w_.padding[2] - k * w_.dilation[2];
          if (at % b.stride_ == 0)
            taps_[f].push_back({b.before_ + at / b.stride_, static_cast<N>(k)});
        }
      for (int64_t f = 0; f < kMostPhases; ++f) terms_[f].resize(taps_[f].size() * from_.size());
    }

    void run(int64_t begin, int64_t end) {
      const int64_t lines = w_.in[0] * w_.in[1];
      int64_t item = begin / lines, z = begin % lines / w_.in[1], y = begin % w_.in[1];
      start(item);
      const auto place = [&] {
        return ((item / b_.strips_.count * lines + z * w_.in[1] + y) * w_.in[2] + x0_) * w_.inner;
      };
      S* to = dx_ + place();
      for (int64_t u = begin; u < end; ++u, to += w_.in[2] * w_.inner) {
        if (y == w_.in[1]) {
          y = 0;
          if (++z == w_.in[0]) z = 0, start(++item);
          to = dx_ + place();
        }
        look(z, y++);
        if (w_.inner > 1)
          channels(to);
        else if (b_.phased_)
          phases(to);
        else
          ranges(to);
      }
      sink_.finish();
    }

   private:
    void start(int64_t item) {
      const int64_t strip = item % b_.strips_.count;
      lines_.forget();
      first_line_ = item / b_.strips_.count * w_.lines();
      if (x0_ >= 0 && b_.strips_.count == 1) return;
      x0_ = b_.strips_.first(strip);
      n_ = b_.strips_.size(strip);
      groups_ = (n_ + b_.stride_ - 1) / b_.stride_;
      last_by_ = -1;
      if (b_.phased_) {
        base_ = x0_ / b_.stride_ - b_.before_;
        windows_ = {std::clamp<int64_t>(base_, 0, w_.out[2]),
                    std::clamp<int64_t>(base_ + b_.most_windows_, 0, w_.out[2])};
        std::fill_n(kept_, behind_, N(0));
        if constexpr (kTaps) std::fill_n(kept_ + behind_, behind_, N(-1));
      } else {
        windows_ = b_.seen(strip);
        base_ = windows_.from;
      }
    }
    // Which lines of windows see a line of x.
    HWY_INLINE void look(int64_t z, int64_t y) {
      Line* to = from_.data();
      for (const auto *d = b_.d_.begin(z), *d0 = d, *d1 = b_.d_.end(z); d < d1; ++d)
        for (const auto *h = b_.h_.begin(y), *h1 = b_.h_.end(y); h < h1; ++h) {
          const int64_t slot = lines_.slot(d - d0, h->window);
          N* const g = kept_ + slot * b_.length_;
          if (!lines_.has(slot, d->window * w_.out[1] + h->window))
            prepare(d->window, h->window, g);
          const int64_t first = (d->tap * w_.kernel[1] + h->tap) * w_.kernel[2];
          *to++ = {g, static_cast<N>(first)};
        }
      count_ = to - from_.data();
    }
    HWY_NOINLINE void prepare(int64_t z, int64_t y, N* g) {
      const int64_t at = ((first_line_ + z * w_.out[1] + y) * w_.out[2] + windows_.from) * w_.inner;
      const int64_t to = (windows_.from - base_) * w_.inner;
      const int64_t count = (windows_.to - windows_.from) * w_.inner;
      N *const gs = g + to, *const ns = gs + behind_;
      Wide<N> by = Fill(N(1));
      if constexpr (!kTaps) {
        const double by_line = w_.by_line(z, y);
        if (equal_)
          by = Fill(static_cast<N>(by_line * w_.along(0)));
        else if (by_line != last_by_)
          divide_by(by_line);
      }
      const auto put = [&](int64_t i) PF_INLINE {
        const Wide<N> v = LoadAs<N>(b_.dy_ + at + i);
        if constexpr (kTaps) {
          StoreAs(v, gs + i);
          StoreAs(LoadTaps<N>(b_.taps_ + at + i), ns + i);
        } else {
          StoreAs(v / (equal_ ? by : LoadN(by_ + i)), gs + i);
        }
      };
      int64_t i = 0;
      for (; i + W <= count; i += W) {
        FetchAhead(b_.dy_ + at + i);
        if constexpr (kTaps) FetchAhead(b_.taps_ + at + i);
        put(i);
      }
      if (i < count && count >= W) {
        put(count - W);
      } else {
        for (; i < count; ++i) {
          const N v = OneAs<N>(b_.dy_[at + i]);
          if constexpr (kTaps)
            gs[i] = v, ns[i] = static_cast<N>(b_.taps_[at + i]);
          else
            gs[i] = v / (equal_ ? static_cast<N>(w_.by_line(z, y) * w_.along(0)) : by_[i]);
        }
      }
    }
    void divide_by(double by_line) {
      last_by_ = by_line;
      N* to = by_;
      for (int64_t q = windows_.from; q < windows_.to; ++q, to += w_.inner)
        std::fill_n(to, w_.inner, static_cast<N>(by_line * w_.along(q)));
    }

    HWY_INLINE void add(const N* g, const Wide<N>& tap, Wide<N>& sum) const {
      if constexpr (kTaps)
        sum = sum + Choose(Equal(LoadN(g + behind_), tap), LoadN(g), Fill(N(0)));
      else
        sum = sum + LoadN(g);
    }
    HWY_INLINE Wide<N> sum(const Term* terms, int64_t count, int64_t i) const {
      Wide<N> s = Fill(N(0));
      for (const Term* t = terms; t < terms + count; ++t) add(t->g + i, Fill(t->tap), s);
      return s;
    }
    // Groups [j0, j0 + groups) of two phases, with so many terms each.
    template <int kEven, int kOdd>
    HWY_NOINLINE void two_phases(int64_t j0, int64_t groups, N* out) const {
      const N* g[kEven + kOdd];
      Wide<N> tap[kEven + kOdd];
      for (int k = 0; k < kEven + kOdd; ++k) {
        const Term& t = k < kEven ? terms_[0][static_cast<size_t>(k)]
                                  : terms_[1][static_cast<size_t>(k - kEven)];
        g[k] = t.g + j0;
        tap[k] = Fill(t.tap);
      }
      for (int64_t j = 0; j < groups; j += W) {
        Wide<N> even = Fill(N(0)), odd = even;
#pragma GCC unroll 8
        for (int k = 0; k < kEven; ++k) add(g[k] + j, tap[k], even);
#pragma GCC unroll 8
        for (int k = kEven; k < kEven + kOdd; ++k) add(g[k] + j, tap[k], odd);
        StoreMerged(even, odd, out + 2 * j);
      }
    }
    void phases(S* to) {
      const int64_t s = b_.stride_;
      int64_t count[kMostPhases];
      for (int64_t f = 0; f < s; ++f) {
        Term* t = terms_[f].data();
        for (int64_t l = 0; l < count_; ++l) {
          const Line& line = from_[static_cast<size_t>(l)];
          for (const PhaseTap& p : taps_[f]) *t++ = {line.g + p.at, line.first + p.tap};
        }
        count[f] = t - terms_[f].data();
      }
      for (int64_t x = 0, j0 = 0; x < n_; x += chunk_, j0 += chunk_groups_) {
        const int64_t some = std::min(chunk_, n_ - x);
        const int64_t groups = std::min(chunk_groups_, groups_ - j0);
        S* const mem = sink_.at(to + x, some);
        N* out = own_;
        if constexpr (std::is_same_v<S, N>) out = mem;
        if (s == 1) {
          for (int64_t j = 0; j < groups; j += W)
            StoreAs(sum(terms_[0].data(), count[0], j0 + j), out + j);
        } else if (s == 2) {
          if (count[0] == 1 && count[1] == 1)
            two_phases<1, 1>(j0, groups, out);
          else if (count[0] == 1 && count[1] == 2)
            two_phases<1, 2>(j0, groups, out);
          else if (count[0] == 2 && count[1] == 4)
            two_phases<2, 4>(j0, groups, out);
          else
            for (int64_t j = 0; j < groups; j += W)
              StoreMerged(sum(terms_[0].data(), count[0], j0 + j),
                          sum(terms_[1].data(), count[1], j0 + j), out + 2 * j);
        } else {
          alignas(64) N part[W];
          for (int64_t f = 0; f < s; ++f)
            for (int64_t j = 0; j < groups; j += W) {
              StoreAs(sum(terms_[f].data(), count[f], j0 + j), part);
              for (int64_t i = 0; i < W && (j + i) * s + f < some; ++i)
                out[(j + i) * s + f] = part[i];
            }
        }
        if constexpr (!std::is_same_v<S, N>)
          for (int64_t i = 0; i < some; i += W) StoreAs(LoadN(out + i), mem + i);
      }
    }
    // Pixel by pixel, vectors of channels.
    template <int kTerms>
    HWY_INLINE void pixel(const Term* terms, int64_t count, S* to) {
      const N* g[kTerms > 0 ? kTerms : 1];
      Wide<N> tap[kTerms > 0 ? kTerms : 1];
      for (int k = 0; k < kTerms; ++k) g[k] = terms[k].g, tap[k] = Fill(terms[k].tap);
      for (int64_t c = 0; c < count; c += W) {
        Wide<N> s = Fill(N(0));
#pragma GCC unroll 4
        for (int k = 0; k < kTerms; ++k) add(g[k] + c, tap[k], s);
        StoreAs(s, to + c);
      }
    }
    void channels(S* to) {
      const int64_t inner = w_.inner, chunk = chunk_;
      std::vector<Term>& terms = terms_[0];
      for (int64_t x = 0; x < n_; ++x) {
        terms.clear();
        for (int64_t l = 0; l < count_; ++l) {
          const Line& line = from_[static_cast<size_t>(l)];
          for (const auto* c = b_.x_.begin(x0_ + x); c < b_.x_.end(x0_ + x); ++c)
            terms.push_back(
                {line.g + (c->window - base_) * inner, line.first + static_cast<N>(c->tap)});
        }
        for (int64_t c0 = 0; c0 < inner; c0 += chunk) {
          const int64_t count = std::min(chunk, inner - c0);
          S* const mem = sink_.at(to + x * inner + c0, count);
          switch (terms.size()) {
            case 1:
              pixel<1>(terms.data(), count, mem);
              break;
            case 2:
              pixel<2>(terms.data(), count, mem);
              break;
            case 4:
              pixel<4>(terms.data(), count, mem);
              break;
            default:
              for (int64_t c = 0; c < count; c += W)
                StoreAs(sum(terms.data(), static_cast<int64_t>(terms.size()), c), mem + c);
          }
          for (Term& t : terms) t.g += chunk;
        }
      }
    }
    void ranges(S* to) {
      std::fill_n(own_, n_, N(0));
      for (int64_t i = 0; i < count_; ++i) {
        const Line& l = from_[static_cast<size_t>(i)];
        for (int64_t q = windows_.from; q < windows_.to; ++q) {
          const Windows::Range& r = w_.of(2, q);
          const N v = l.g[q - base_];
          for (int64_t k = r.from; k < r.to; ++k) {
            const int64_t x = r.begin + (k - r.from) * w_.step(2) - x0_;
            if (x < 0 || x >= n_) continue;
            if constexpr (kTaps)
              own_[x] += l.g[behind_ + q - base_] == l.first + static_cast<N>(k) ? v : N(0);
            else
              own_[x] += v;
          }
        }
      }
      for (int64_t x = 0; x < n_; x += b_.chunk()) {
        const int64_t count = std::min(b_.chunk(), n_ - x);
        S* const mem = sink_.at(to + x, count);
        for (int64_t i = 0; i < count; i += W) StoreAs(LoadN(own_ + x + i), mem + i);
      }
    }

    const Backward& b_;
    const Windows& w_;
    S* const dx_;
    KeptLines lines_;
    Parts parts_;
    Sink sink_;
    N *kept_, *by_, *own_;
    const int64_t behind_, chunk_, chunk_groups_;
    const bool equal_;
    std::vector<Line> from_;
    std::vector<PhaseTap> taps_[kMostPhases];
    std::vector<Term> terms_[kMostPhases];
    int64_t count_ = 0, first_line_ = 0, x0_ = -1, n_ = 0, base_ = 0, groups_ = 0;
    Span windows_{0, 0};
    double last_by_ = -1;
  };

  const Windows& w_;
  const S* dy_;
  const uint8_t* taps_;
  S* dx_;
  Windows::Covered d_, h_, x_;
  int64_t stride_, before_ = 0, most_windows_ = 0, length_;
  bool phased_;
  Strips strips_;
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
