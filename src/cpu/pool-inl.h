// What pooling does along lines (pool.h), for the largest elements and for sums. A line of windows
// joins the lines of the input that it sees, from the first to the last, after each of these was
// reduced to its windows: that is done once for all lines of windows that see it. Where elements of
// a channel lie side by side, a line is first split into the phases of the stride, with what counts
// for nothing around it: there each tap of all windows is a run of neighbours. So a window's
// elements are taken in their order, or in groups of it, whatever the layout.
// Include between HWY_BEFORE_NAMESPACE() and HWY_AFTER_NAMESPACE() of a foreach_target file.
#if defined(PYFLAME_CPU_POOL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PYFLAME_CPU_POOL_INL_H_
#undef PYFLAME_CPU_POOL_INL_H_
#else
#define PYFLAME_CPU_POOL_INL_H_
#endif

#include <algorithm>
#include <vector>

#include "cpu/move.h"
#include "cpu/pool.h"
#include "cpu/rows-inl.h"
#include "cpu/scratch.h"
#include "cpu/threads.h"
#include "cpu/widest.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {

// ---- elements ----------------------------------------------------------------------------------

// What elements are compared and added in; the numbers of taps are kept in it, too.
template <class S>
using PoolOf = std::conditional_t<kIsFloatType<S>, ComputeOf<S>, int64_t>;

// float32 and the 16-bit types have loops of their own for what is in use.
template <class S>
inline constexpr bool kInUse = kIsFloatType<S> && sizeof(PoolOf<S>) == 4;

// Calls fn.operator()<S>() for the type, if it is there for this target (see widest.h).
template <class F>
void WithFloat(DType t, F&& fn) {
  dispatch_float(t, [&]<class S>() {
    if constexpr (PF_HAS_TYPE(S)) fn.template operator()<S>();
  });
}

template <class N, class S>
HWY_INLINE N OneAs(S x) {
  if constexpr (kIsFloatType<S>)
    return ToCompute(x);
  else
    return static_cast<N>(x);
}
template <class N, class S>
HWY_INLINE Wide<N> LoadAs(const S* p) {
  if constexpr (kIsFloatType<S>) {
    return Load(p);
  } else {
    Wide<N> r;
    for (int k = 0; k < Wide<N>::kParts; ++k)
      r.v[k] = hn::LoadU(typename Wide<N>::D(), p + k * Wide<N>::kPart);
    return r;
  }
}
template <class N>
HWY_INLINE Wide<N> LoadN(const N* p) {
  return LoadAs<N>(p);
}
// The first n of a vector, the others are `rest`.
template <class N>
HWY_INLINE Wide<N> FirstAs(const N* p, int64_t n, N rest) {
  const typename Wide<N>::D d;
  Wide<N> r;
  for (int k = 0; k < Wide<N>::kParts; ++k) {
    const int64_t left = n - k * Wide<N>::kPart;
    const auto mask = hn::FirstN(d, static_cast<size_t>(left > 0 ? left : 0));
    r.v[k] =
        hn::IfThenElse(mask, hn::MaskedLoad(mask, d, p + k * Wide<N>::kPart), hn::Set(d, rest));
  }
  return r;
}
// One by one: once for all that asks for it.
template <class N, class S>
requires(!std::is_same_v<N, S>) HWY_NOINLINE Wide<N> FirstAs(const S* p, int64_t n, N rest) {
  alignas(64) N all[Wide<N>::kLanes];
  for (int64_t i = 0; i < Wide<N>::kLanes; ++i) all[i] = i < n ? OneAs<N>(p[i]) : rest;
  return LoadN(all);
}
template <class N, class S>
HWY_INLINE void StoreAs(const Wide<N>& v, S* p) {
  if constexpr (kIsFloatType<S>) {
    Store(v, p);
  } else if constexpr (std::is_same_v<S, N>) {
    for (int k = 0; k < Wide<N>::kParts; ++k)
      hn::StoreU(v.v[k], typename Wide<N>::D(), p + k * Wide<N>::kPart);
  } else if constexpr (std::is_same_v<N, float>) {  // the number of a tap
    static_assert(sizeof(S) == 1);
    const hn::Rebind<int32_t, typename Wide<N>::D> di;
    const hn::Rebind<uint32_t, typename Wide<N>::D> du;
    const hn::Rebind<S, typename Wide<N>::D> ds;
    for (int k = 0; k < Wide<N>::kParts; ++k)
      hn::StoreU(hn::U8FromU32(hn::BitCast(du, hn::ConvertTo(di, v.v[k]))), ds,
                 p + k * Wide<N>::kPart);
  } else {
    alignas(64) N all[Wide<N>::kLanes];
    StoreAs(v, all);
    for (int64_t i = 0; i < Wide<N>::kLanes; ++i) p[i] = static_cast<S>(all[i]);
  }
}
// Every second element of two vectors.
template <class N>
HWY_INLINE void Split(const Wide<N>& a, const Wide<N>& b, Wide<N>& even, Wide<N>& odd) {
  const typename Wide<N>::D d;
  constexpr int kParts = Wide<N>::kParts;
  if constexpr (kParts == 1) {
    even.v[0] = hn::ConcatEven(d, b.v[0], a.v[0]);
    odd.v[0] = hn::ConcatOdd(d, b.v[0], a.v[0]);
  } else {
    static_assert(kParts == 2);
    even.v[0] = hn::ConcatEven(d, a.v[1], a.v[0]);
    odd.v[0] = hn::ConcatOdd(d, a.v[1], a.v[0]);
    even.v[1] = hn::ConcatEven(d, b.v[1], b.v[0]);
    odd.v[1] = hn::ConcatOdd(d, b.v[1], b.v[0]);
  }
}
// Each element in the place of its neighbour; what leaves a vector enters the next one.
template <class N>
using Turn = decltype(hn::SetTableIndices(typename Wide<N>::D(),
                                          static_cast<const hwy::MakeSigned<N>*>(nullptr)));
template <class N>
HWY_INLINE Turn<N> TurnOf() {
  constexpr int kLanes = static_cast<int>(Wide<N>::kPart);
  alignas(64) hwy::MakeSigned<N> to[kLanes];
  for (int i = 0; i < kLanes; ++i)
    to[i] = static_cast<hwy::MakeSigned<N>>((i + kLanes - 1) % kLanes);
  return hn::SetTableIndices(typename Wide<N>::D(), to);
}
template <class N>
class Turned {
  using D = typename Wide<N>::D;

 public:
  explicit HWY_INLINE Turned(N before) : carry_(hn::Set(D(), before)) {}
  HWY_INLINE Wide<N> next(const Wide<N>& v, const Turn<N>& turn) {
    Wide<N> r;
    for (int k = 0; k < Wide<N>::kParts; ++k) {
      const auto turned = hn::TableLookupLanes(v.v[k], turn);
      r.v[k] = hn::IfThenElse(hn::FirstN(D(), 1), carry_, turned);
      carry_ = turned;
    }
    return r;
  }

 private:
  typename Wide<N>::V carry_;
};
// And back, two vectors at p.
template <class N>
HWY_INLINE void StoreMerged(const Wide<N>& even, const Wide<N>& odd, N* p) {
  for (int k = 0; k < Wide<N>::kParts; ++k)
    hn::StoreInterleaved2(even.v[k], odd.v[k], typename Wide<N>::D(), p + 2 * k * Wide<N>::kPart);
}

// The largest: of equals the first, of several NaN the last.
template <class N>
struct Largest {
  static constexpr bool kMean = false;
  static constexpr N outside() {
    if constexpr (std::is_floating_point_v<N>)
      return -std::numeric_limits<N>::infinity();
    else
      return std::numeric_limits<N>::lowest();
  }
  static HWY_INLINE bool above(N v, N best) { return (v > best) | (v != v); }
  static HWY_INLINE void one(N v, N tap, N& best, N& which) {
    const bool more = above(v, best);
    best = more ? v : best;
    which = more ? tap : which;
  }
  static HWY_INLINE WideMask<N> above(const Wide<N>& v, const Wide<N>& best) {
    if constexpr (std::is_floating_point_v<N>)
      return GreaterThan(v, best) | IsNaN(v);
    else
      return GreaterThan(v, best);
  }
  static HWY_INLINE Wide<N> join(const Wide<N>& best, const Wide<N>& v) {
    if constexpr (std::is_floating_point_v<N>)
      return Choose(IsNaN(v), v, WMax(v, best));
    else
      return WMax(v, best);
  }
};
// The sum, of which a mean is made.
template <class N>
struct Total {
  static constexpr bool kMean = true;
  static constexpr N outside() { return 0; }
  static HWY_INLINE void one(N v, N, N& best, N&) { best += v; }
  static HWY_INLINE Wide<N> join(const Wide<N>& best, const Wide<N>& v) { return best + v; }
};

// ---- results -----------------------------------------------------------------------------------

// What a thread writes, mostly one line behind the other: from memory of its own, so that whole
// lines of the cache can go around it whatever the length of a result's lines. They go soon, for a
// burst of them is waited for.
class Sink {
 public:
  static constexpr int64_t kMost = 4096;  // bytes asked for at once
  static constexpr int64_t kBytes = 2 * kMost + 512;

  Sink(char* stage, bool stream) : stage_(stage), stream_(stream), to_(stage) {}
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  // Memory for so many bytes at `to`; vectors may be written past their end.
  template <class T>
  HWY_INLINE T* at(T* to, int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    char* const place = reinterpret_cast<char*>(to);
    if (HWY_UNLIKELY(place != to_ + end_ || end_ + bytes > 2 * kMost))
      turn(place);
    else if (stream_)
      drain();
    end_ += bytes;
    return reinterpret_cast<T*>(stage_ + end_ - bytes);
  }
  void finish() {
    turn(nullptr);
    if (stream_) hwy::FlushStream();
  }

 private:
  // Whole lines of the cache go, around it.
  HWY_INLINE void drain() {
    int64_t i = 0;
    if (HWY_UNLIKELY(begin_ > 0)) {  // the first one is not all ours
      if (end_ < 64) return;
      std::memcpy(to_ + begin_, stage_ + begin_, static_cast<size_t>(64 - begin_));
      begin_ = 0;
      i = 64;
    }
    for (; i + 64 <= end_; i += 64)
      Stream(Load(reinterpret_cast<const float*>(stage_ + i)), reinterpret_cast<float*>(to_ + i));
    if (i == 0) return;
    Store(Load(reinterpret_cast<const float*>(stage_ + i)), reinterpret_cast<float*>(stage_));
    to_ += i;
    end_ -= i;
  }
  // Writes what is there, but for less than a line that is gone on with, and is ready for `to`.
  HWY_NOINLINE void turn(char* to) {
    if (stream_) {
      const bool goes_on = to == to_ + end_;
      drain();
      if (goes_on) return;
    }
    if (end_ > begin_)
      std::memcpy(to_ + begin_, stage_ + begin_, static_cast<size_t>(end_ - begin_));
    begin_ = end_ = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % 64);
    to_ = to - begin_;
  }

  char* const stage_;
  const bool stream_;
  // stage_ + begin_ to end_ belongs to to_ + begin_ on; both are at the same place in a line.
  char* to_;
  int64_t begin_ = 0, end_ = 0;
};

// ---- lines -------------------------------------------------------------------------------------

inline constexpr int64_t kMostPhases = 8;
inline constexpr int64_t kOwnLines = 160 << 10;  // bytes that the lines of a thread may have
// How far ahead input is fetched, in bytes: into the second cache.
inline constexpr int64_t kFetch = 8192;

HWY_INLINE int64_t WholeVectors(int64_t n, int64_t lanes) {
  return (n + lanes - 1) / lanes * lanes;
}
HWY_INLINE void FetchAhead(const void* p) {
  __builtin_prefetch(static_cast<const char*>(p) + kFetch, 0, 2);
}
constexpr int64_t FloorDiv(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

// How long lines are cut: windows (or elements) [first, first + count).
struct Strips {
  int64_t all = 0, width = 0, count = 0;
  Strips() = default;
  // Each has so many bytes in the lines of a thread.
  Strips(int64_t n, int64_t bytes, int64_t grain, int64_t least) : all(n), width(n) {
    if (n * bytes > kOwnLines)
      width = std::min(n, WholeVectors(std::max(kOwnLines / bytes, least), grain));
    count = (n + width - 1) / width;
  }
  int64_t first(int64_t strip) const { return strip * width; }
  int64_t size(int64_t strip) const { return std::min(width, all - first(strip)); }
};

// A line of x in the phases of the stride: group i of phase f is element i * stride + f.
template <class S>
class Phases {
  using N = PoolOf<S>;
  static constexpr int64_t W = Wide<N>::kLanes;

 public:
  Phases() = default;
  // For `windows` windows at a time.
  Phases(const Windows& w, int64_t windows)
      : width_(w.in[2]),
        stride_(w.stride[2]),
        low_(FloorDiv(-w.padding[2], stride_)),
        high_(WholeVectors(windows, W) +
              std::max<int64_t>(
                  0, FloorDiv((w.kernel[2] - 1) * w.dilation[2] - w.padding[2], stride_)) +
              1),
        before_(WholeVectors(-low_, W)),
        pitch_(WholeVectors(before_ + high_, W) + W) {}
  int64_t bytes() const { return stride_ * pitch_ * static_cast<int64_t>(sizeof(N)); }
  void take(char* memory) { base_ = reinterpret_cast<N*>(memory); }
  // Where tap k of the first window lies.
  const N* tap(const Windows& w, int64_t k) const {
    const int64_t at = k * w.dilation[2] - w.padding[2], group = FloorDiv(at, stride_);
    return base_ + (at - group * stride_) * pitch_ + before_ + group;
  }
  // From here on lines are split for windows from `q0` on.
  void begin(int64_t q0, N outside) {
    q0_ = q0;
    from_ = std::max<int64_t>(0, q0 + low_);
    to_ = std::clamp(width_ / stride_, from_, q0 + high_);
    std::fill_n(base_, stride_ * pitch_, outside);
  }
  HWY_INLINE void split(const S* x) {
    N* const to = base_ + before_ - q0_;
    if (stride_ == 2)
      pairs(x, to);
    else if (stride_ == 1)
      copied(x, to);
    else
      for (int64_t i = from_; i < to_; ++i)
        for (int64_t f = 0; f < stride_; ++f) to[f * pitch_ + i] = OneAs<N>(x[i * stride_ + f]);
    if (const int64_t i = width_ / stride_; i >= q0_ + low_ && i < q0_ + high_)
      for (int64_t f = 0; f < width_ - i * stride_; ++f)
        to[f * pitch_ + i] = OneAs<N>(x[i * stride_ + f]);
  }

 private:
  HWY_INLINE void pairs(const S* x, N* to) const {
    N* const odds = to + pitch_;
    const auto two = [&](int64_t i) HWY_ATTR {
      Wide<N> even, odd;
      Split(LoadAs<N>(x + 2 * i), LoadAs<N>(x + 2 * i + W), even, odd);
      StoreAs(even, to + i);
      StoreAs(odd, odds + i);
    };
    int64_t i = from_;
    for (; i + W <= to_; i += W) {
      FetchAhead(x + 2 * i);
      if constexpr (W * sizeof(S) > 32) FetchAhead(x + 2 * i + W);
      two(i);
    }
    if (i == to_) return;
    if (to_ - from_ >= W) return two(to_ - W);
    for (; i < to_; ++i) to[i] = OneAs<N>(x[2 * i]), odds[i] = OneAs<N>(x[2 * i + 1]);
  }
  HWY_INLINE void copied(const S* x, N* to) const {
    int64_t i = from_;
    for (; i + W <= to_; i += W) {
      FetchAhead(x + i);
      StoreAs(LoadAs<N>(x + i), to + i);
    }
    for (; i < to_; ++i) to[i] = OneAs<N>(x[i]);
  }

  int64_t width_ = 0, stride_ = 1, low_ = 0, high_ = 0, before_ = 0, pitch_ = 0;
  N* base_ = nullptr;
  int64_t q0_ = 0, from_ = 0, to_ = 0;  // groups that are all inside
};

// Lines that are kept while others need them: of each plane of a window's depth `high` following
// ones.
class KeptLines {
 public:
  KeptLines() = default;
  // Of planes so many lines high.
  KeptLines(int64_t deep, int64_t high, int64_t lines)
      : high_(high), held_(static_cast<size_t>(deep * high)) {
    for (int64_t y = 0; y < lines; ++y) turn_.push_back(y % high);
    forget();
  }
  int64_t slots() const { return static_cast<int64_t>(held_.size()); }
  void forget() { std::fill(held_.begin(), held_.end(), -1); }
  // Where a line of the i-th plane that is looked at belongs, if `y` is its height.
  HWY_INLINE int64_t slot(int64_t i, int64_t y) const {
    return i * high_ + turn_[static_cast<size_t>(y)];
  }
  // Whether it is there; else whoever asks makes it.
  HWY_INLINE bool has(int64_t slot, int64_t line) {
    int64_t& held = held_[static_cast<size_t>(slot)];
    if (held == line) return true;
    held = line;
    return false;
  }

 private:
  int64_t high_ = 1;
  std::vector<int64_t> held_, turn_;
};

// Windows of lines [begin, end), with the number of the tap where that is asked for.
template <class S, class Rule, bool kTaps>
class Forward {
  using N = PoolOf<S>;
  static constexpr int64_t W = Wide<N>::kLanes;
  static constexpr int64_t kItem = static_cast<int64_t>(sizeof(N));

 public:
  static constexpr int64_t kItemBytes = static_cast<int64_t>(sizeof(S));
  static constexpr bool kGradient = false;
  struct Results {
    S* y;
    uint8_t* taps;    // or
    int64_t* places;  // or none
    const TapPlaces* of;
  };

  Forward(const Windows& w, const S* x, const Results& to)
      : w_(w), x_(x), x_end_(x + w.outer * w.inputs() * w.inner), to_(to) {
    deep_ = w.most(0);
    high_ = w.adaptive ? w.most(1) : std::min(w.in[1], (w.kernel[1] - 1) * w.dilation[1] + 1);
    const int64_t each = kItem * (w.inner * (kTaps ? 2 : 1) * deep_ * high_ + w.stride[2]);
    strips_ = Strips(w.out[2], each, w.inner == 1 ? W : 1, w.inner >= W ? 4 : 64);
    phased_ = w.inner == 1 && !w.adaptive && w.stride[2] <= kMostPhases && w.out[2] >= 4;
    if (phased_) phases_ = Phases<S>(w, strips_.width);
    length_ = WholeVectors(strips_.width * w.inner, W) + W;
  }
  int64_t units() const { return w_.outer * strips_.count * w_.lines(); }
  size_t bytes() const {
    const int64_t lines = length_ * kItem * ((kTaps ? 2 : 1) * deep_ * high_ + 2);
    return static_cast<size_t>(lines + (phased_ ? phases_.bytes() : 0) + 2 * Sink::kBytes +
                               chunk() * kItem + 512);
  }

  void run(int64_t begin, int64_t end, char* memory, bool stream) const {
    Thread t(*this, memory, stream);
    t.run(begin, end, to_);
  }

 private:
  // Elements of a line of results that are written at once.
  static constexpr int64_t chunk() { return Sink::kMost / static_cast<int64_t>(sizeof(S)); }

  struct Row {
    const N *most, *taps;
    N first;  // number of the line's first tap
  };

  class Thread {
   public:
    Thread(const Forward& f, char* memory, bool stream)
        : f_(f),
          w_(f.w_),
          phases_(f.phases_),
          lines_(f.deep_, f.high_, w_.in[1]),
          rows_(static_cast<size_t>(lines_.slots())),
          runs_(f.phased_ ? static_cast<size_t>(w_.kernel[2]) : 0),
          parts_(memory),
          y_(parts_.take<char>(Sink::kBytes), stream),
          taps_(parts_.take<char>(kTaps ? Sink::kBytes : 0), stream) {
      if (f.phased_) {
        phases_.take(parts_.template take<char>(phases_.bytes()));
        for (size_t k = 0; k < runs_.size(); ++k)
          runs_[k] = phases_.tap(w_, static_cast<int64_t>(k));
      }
      first_ = parts_.template take<N>(f.length_);
      if constexpr (Rule::kMean) by_ = first_;
      kept_ = parts_.template take<N>(f.length_ * lines_.slots() * (kTaps ? 2 : 1));
      if constexpr (kTaps) numbers_ = parts_.template take<N>(chunk());
      equal_ = w_.equal_along();
      reduce_ = reduction();
    }

    void run(int64_t begin, int64_t end, const Results& to) {
      const int64_t lines = w_.lines(), pitch = w_.out[2] * w_.inner;
      int64_t item = begin / lines, z = begin % lines / w_.out[1], y = begin % w_.out[1];
      start(item);
      const auto place = [&] {
        return ((item / f_.strips_.count * lines + z * w_.out[1] + y) * w_.out[2] + q0_) * w_.inner;
      };
      for (int64_t u = begin, o = place(); u < end; ++u) {
        look(w_.of(0, z), w_.of(1, y));
        write(z, y, o, to);
        o += pitch;
        if (++y < w_.out[1]) continue;
        y = 0;
        if (++z < w_.out[0]) continue;
        z = 0;
        start(++item);
        o = place();
      }
      y_.finish();
      if constexpr (kTaps) taps_.finish();
    }

   private:
    // A strip of a plane.
    void start(int64_t item) {
      const int64_t strip = item % f_.strips_.count;
      lines_.forget();
      x_ = f_.x_ + item / f_.strips_.count * w_.inputs() * w_.inner;
      if (q0_ >= 0 && f_.strips_.count == 1) return;
      q0_ = f_.strips_.first(strip);
      n_ = f_.strips_.size(strip);
      if (f_.phased_) phases_.begin(q0_, Rule::outside());
      last_by_ = -1;
      holes_ = false;
      if constexpr (kTaps) {
        for (int64_t q = 0; q < n_; ++q) {
          const Windows::Range& r = w_.of(2, q0_ + q);
          holes_ |= r.empty();
          if (w_.inner == 1) first_[q] = static_cast<N>(r.from);
        }
        if (w_.inner == 1) std::fill(first_ + n_, first_ + f_.length_, N(0));
      }
    }

    // Which lines of x a line of windows sees, reduced to windows.
    HWY_INLINE void look(const Windows::Range& d, const Windows::Range& h) {
      Row* row = rows_.data();
      for (int64_t i = 0; i < d.to - d.from; ++i) {
        int64_t at = (d.begin + i * w_.step(0)) * w_.in[1] + h.begin;
        N first = static_cast<N>(((d.from + i) * w_.kernel[1] + h.from) * w_.kernel[2]);
        for (int64_t j = h.from, y = h.begin; j < h.to; ++j, ++row, y += w_.step(1)) {
          const int64_t slot = lines_.slot(i, y);
          N* const most = kept_ + slot * f_.length_;
          N* const taps = kTaps ? most + lines_.slots() * f_.length_ : nullptr;
          if (!lines_.has(slot, at)) (this->*reduce_)(x_ + at * w_.in[2] * w_.inner, most, taps);
          *row = {most, taps, first};
          at += w_.step(1);
          first += static_cast<N>(w_.kernel[2]);
        }
      }
      count_ = row - rows_.data();
    }
    using Reduce = void (Thread::*)(const S*, N*, N*);
    Reduce reduction() const {
      if (w_.inner > 1) return &Thread::channels;
      if (!f_.phased_) return &Thread::ranges;
      const int64_t k = w_.kernel[2];
      if (k == 2) return &Thread::template neighbours<2>;
      return k == 3 ? &Thread::template neighbours<3> : &Thread::template neighbours<0>;
    }

    // Tap by tap, vectors of windows.
    template <size_t kRuns>
    HWY_NOINLINE void neighbours(const S* x, N* most, N* taps) {
      phases_.split(x);
      const N* const* runs = runs_.data();
      const size_t count = kRuns > 0 ? kRuns : runs_.size();
      for (int64_t q = 0; q < n_; q += W) {
        if constexpr (kTaps) {
          Wide<N> best = Fill(Rule::outside()), which = LoadN(first_ + q);
          for (size_t k = 0; k < count; ++k)
            take(LoadN(runs[k] + q), Fill(static_cast<N>(k)), best, which);
          StoreAs(which, taps + q);
          StoreAs(best, most + q);
        } else {
          Wide<N> best = LoadN(runs[0] + q);
          for (size_t k = 1; k < count; ++k) best = Rule::join(best, LoadN(runs[k] + q));
          StoreAs(best, most + q);
        }
      }
    }
    // Window by window, vectors of channels. What the last one writes past its pixel is written
    // again, or nobody's.
    HWY_NOINLINE void channels(const S* x, N* most, N* taps) {
      const int64_t inner = w_.inner, step = w_.step(2) * inner;
      const S* ahead = x;
      const S* const ahead_end = x + w_.in[2] * inner;
      for (int64_t q = 0; q < n_; ++q, most += inner, taps += kTaps ? inner : 0) {
        const Windows::Range& r = w_.of(2, q0_ + q);
        const S* const from = x + r.begin * inner;
        const auto count = r.to - r.from;
        for (const S* to = std::min(ahead_end, x + (r.begin + w_.stride[2]) * inner); ahead < to;
             ahead += 64 / sizeof(S))
          FetchAhead(ahead);
        for (int64_t c = 0; c < inner; c += W) {
          const bool whole = from + (count - 1) * step + c + W <= f_.x_end_;
          const auto get = [&](int64_t k) HWY_ATTR {
            const S* const p = from + k * step + c;
            if (HWY_LIKELY(whole)) return LoadAs<N>(p);
            alignas(64) S buffer[W] = {};
            std::copy_n(p, std::min(W, inner - c), buffer);
            return LoadAs<N>(buffer);
          };
          Wide<N> best = Fill(Rule::outside());
          if constexpr (kTaps) {
            Wide<N> which = Fill(static_cast<N>(r.from));
            for (int64_t k = 0; k < count; ++k)
              take(get(k), Fill(static_cast<N>(r.from + k)), best, which);
            StoreAs(which, taps + c);
          } else {
            if (count > 0) best = get(0);
            for (int64_t k = 1; k < count; ++k) best = Rule::join(best, get(k));
          }
          StoreAs(best, most + c);
        }
      }
    }
    // Window by window.
    HWY_NOINLINE void ranges(const S* x, N* most, N* taps) {
      for (int64_t q = 0; q < n_; ++q) {
        const Windows::Range& r = w_.of(2, q0_ + q);
        N best = Rule::outside(), which = static_cast<N>(r.from);
        const S* const from = x + r.begin;
        int64_t k = 0;
        const int64_t count = r.to - r.from;
        if constexpr (Rule::kMean) {
          Wide<N> sum = Fill(N(0));
          for (; w_.step(2) == 1 && k + W <= count; k += W) sum = sum + LoadAs<N>(from + k);
          if (k > 0) best = SumOf(sum);
        }
        for (; k < count; ++k)
          Rule::one(OneAs<N>(from[k * w_.step(2)]), static_cast<N>(r.from + k), best, which);
        most[q] = best;
        if constexpr (kTaps) taps[q] = which;
      }
    }
    static HWY_INLINE void take(const Wide<N>& v, const Wide<N>& tap, Wide<N>& best,
                                Wide<N>& which) {
      const auto more = Rule::above(v, best);
      best = Choose(more, v, best);
      which = Choose(more, tap, which);
    }

    // The lines joined, from element o of the results on.
    HWY_INLINE void write(int64_t z, int64_t y, int64_t o, const Results& to) {
      const int64_t length = n_ * w_.inner;
      Wide<N> by = Fill(N(1));
      if constexpr (Rule::kMean) {
        const double by_line = w_.by_line(z, y);
        if (equal_)
          by = Fill(static_cast<N>(by_line * w_.along(q0_)));
        else if (by_line != last_by_)
          divide_by(by_line);
      }
      for (int64_t e = 0; e < length; e += chunk()) {
        const int64_t count = std::min(chunk(), length - e);
        S* const mem = y_.at(to.y + o + e, count);
        if constexpr (!kTaps) {
          joined(e, count, by, mem, static_cast<N*>(nullptr));
        } else if (to.taps) {
          joined(e, count, by, mem, taps_.at(to.taps + o + e, count));
        } else {
          joined(e, count, by, mem, numbers_);
          places(z * w_.out[1] + y, e, count, *to.of, to.places + o + e);
        }
      }
    }
    template <class I>
    HWY_INLINE void joined(int64_t e, int64_t count, const Wide<N>& by, S* y, I* index) {
      if (count_ == 3)
        join<3>(e, count, by, y, index);
      else if (count_ == 2)
        join<2>(e, count, by, y, index);
      else
        join<0>(e, count, by, y, index);
      if constexpr (kTaps)
        for (int64_t i = 0; (holes_ || count_ == 0) && i < count; ++i)  // nothing was inside
          if (count_ == 0 || w_.of(2, q0_ + (e + i) / w_.inner).empty())
            index[i] = static_cast<I>(-1);
    }
    template <int kRows, class I>
    HWY_NOINLINE void join(int64_t e, int64_t count, Wide<N> by, S* y, I* index) {
      const Row* const rows = rows_.data();
      const int64_t all = kRows > 0 ? kRows : count_;
      const N* const divisors = equal_ ? nullptr : by_;
      for (int64_t i = e; i < e + count; i += W) {
        Wide<N> best = Fill(Rule::outside());
        if (kRows > 0 || all > 0) best = LoadN(rows[0].most + i);
        if constexpr (kTaps) {
          Wide<N> which = Fill(N(0));
          if (kRows > 0 || all > 0) which = LoadN(rows[0].taps + i) + Fill(rows[0].first);
          for (int64_t r = 1; r < all; ++r)
            take(LoadN(rows[r].most + i), LoadN(rows[r].taps + i) + Fill(rows[r].first), best,
                 which);
          StoreAs(which, index + (i - e));
        } else {
          for (int64_t r = 1; r < all; ++r) best = Rule::join(best, LoadN(rows[r].most + i));
        }
        if constexpr (Rule::kMean) best = best / (divisors ? LoadN(divisors + i) : by);
        StoreAs(best, y + (i - e));
      }
    }
    void divide_by(double by_line) {
      last_by_ = by_line;
      for (int64_t q = 0; q < n_; ++q)
        std::fill_n(by_ + q * w_.inner, w_.inner, static_cast<N>(by_line * w_.along(q0_ + q)));
      std::fill(by_ + n_ * w_.inner, by_ + f_.length_, N(1));
    }
    void places(int64_t line, int64_t e, int64_t count, const TapPlaces& of, int64_t* to) const {
      int64_t q = e / w_.inner, c = e % w_.inner;
      for (int64_t i = 0; i < count; ++q, c = 0) {
        const int64_t corner = of.corner(line, q0_ + q);
        for (; c < w_.inner && i < count; ++c, ++i)
          to[i] = of.of(corner, static_cast<int64_t>(numbers_[i]));
      }
    }
    const Forward& f_;
    const Windows& w_;
    Phases<S> phases_;
    KeptLines lines_;
    std::vector<Row> rows_;
    std::vector<const N*> runs_;
    Parts parts_;
    Sink y_, taps_;
    N *first_, *by_ = nullptr, *kept_, *numbers_ = nullptr;
    Reduce reduce_;
    bool equal_, holes_ = false;
    const S* x_ = nullptr;
    int64_t q0_ = -1, n_ = 0, count_ = 0;
    double last_by_ = -1;
  };

  const Windows& w_;
  const S *x_, *x_end_;
  const Results to_;
  int64_t deep_, high_, length_;
  Strips strips_;
  bool phased_;
  Phases<S> phases_;
};

// Runs a Forward, a Backward or their like over all lines.
template <class L>
void ForLines(const Windows& w, const L& lines) {
  constexpr int64_t kWork = 1 << 14;  // elements for one thread at least
  const int64_t units = lines.units();
  if (units == 0) return;
  const int64_t all = w.outer * (w.inputs() + w.outputs()) * w.inner;
  const int64_t written = w.outer * (L::kGradient ? w.inputs() : w.outputs()) * w.inner;
  // What is read goes through the caches, too: few results would not stay beside that.
  const bool stream = written * L::kItemBytes >= streaming_threshold() / 4 &&
                      all * L::kItemBytes >= streaming_threshold();
  parallel_with(units, std::max<int64_t>(1, kWork / std::max<int64_t>(1, all / units)),
                lines.bytes(),
                [&](int64_t begin, int64_t end, char* own) { lines.run(begin, end, own, stream); });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
