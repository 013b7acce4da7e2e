// What reductions of floating-point numbers do to blocks and columns. A block is 64 vectors of 64
// bytes, and element k of it goes to lane k mod 16 (float64: 8), four vectors at a time; lanes are
// joined in halves, blocks in a tree. Include as wide-inl.h.
#if defined(PYFLAME_CPU_REDUCE_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PYFLAME_CPU_REDUCE_BLOCKS_INL_H_
#undef PYFLAME_CPU_REDUCE_BLOCKS_INL_H_
#else
#define PYFLAME_CPU_REDUCE_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <limits>

#include "core/kernel_numbers.h"
#include "cpu/reduce_plan.h"
#include "cpu/rows-inl.h"
#include "table/kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {

// A lane adds 64 elements: a block is 64 vectors.
template <class S>
inline constexpr int64_t kSumBlock = 64 * Wide<ComputeOf<S>>::kLanes;

using Kind = SumKind;
constexpr bool is_extreme(Kind k) {
  return k == kernels::kLargest || k == kernels::kSmallest;
}
// Differences and Spread are one: sums of differences from the first element, and of squares about
// the mean of these. They are joined as moments are, so that one reading does for both, and the
// squares are about the mean that is asked for at the end. However far from 0 the elements are,
// the mean of differences is at most sqrt(n) standard deviations.
constexpr bool is_moments(Kind k) {
  return k == Kind::Differences || k == Kind::Spread;
}
// Of a kind that is joined as this one is.
constexpr Kind joined_as(Kind k) {
  return is_extreme(k) || k == kernels::kProduct ? k : Kind::Plain;
}
template <Kind kKind, class T>
constexpr T kStart = kKind == kernels::kProduct    ? T(1)
                     : kKind == kernels::kLargest  ? -std::numeric_limits<T>::infinity()
                     : kKind == kernels::kSmallest ? std::numeric_limits<T>::infinity()
                                                   : T(0);

// ---- lanes --------------------------------------------------------------------------------------

// Of two numbers; in favour of the second where one is NaN, or both are the same.
template <Kind kKind, class T>
HWY_INLINE Wide<T> Beyond(const Wide<T>& a, const Wide<T>& b) {
  return kKind == kernels::kLargest ? WMax(a, b) : WMin(a, b);
}
template <Kind kKind, class D>
HWY_INLINE hn::Vec<D> JoinV(D, hn::Vec<D> a, hn::Vec<D> b) {
  if constexpr (kKind == kernels::kProduct)
    return hn::Mul(a, b);
  else if constexpr (is_extreme(kKind))
    return hn::IfThenElse(hn::IsNaN(b), b,
                          kKind == kernels::kLargest ? hn::Max(b, a) : hn::Min(b, a));
  else
    return hn::Add(a, b);
}
template <Kind kKind, class T>
HWY_INLINE Wide<T> Join(const Wide<T>& a, const Wide<T>& b) {
  if constexpr (kKind == kernels::kProduct)
    return a * b;
  else if constexpr (is_extreme(kKind))
    return Choose(IsNaN(b), b, Beyond<kKind>(b, a));
  else
    return a + b;
}
template <Kind kKind, class T>
T JoinOne(T a, T b) {
  if constexpr (kKind == kernels::kProduct)
    return a * b;
  else if constexpr (is_extreme(kKind))
    return b != b || (kKind == kernels::kLargest ? b > a : b < a) ? b : a;
  else
    return a + b;
}
template <Kind kKind, class T>
HWY_INLINE T Across(const Wide<T>& a) {
  return OverLanes(
      a, [](auto p, auto q) HWY_ATTR { return JoinV<kKind>(hn::DFromV<decltype(p)>(), p, q); });
}
template <Kind kKind, class T>
HWY_INLINE Wide<T> Term(const Wide<T>& v) {
  if constexpr (kKind == Kind::Squares)
    return v * v;
  else if constexpr (kKind == Kind::Numbers)
    return Choose(NotEqual(v, v), Fill(T(0)), v);
  else
    return v;
}

// What a lane has so far; `squares` of moments alone.
template <class T>
struct Lane {
  Wide<T> sum, squares;
};
// Of four vectors behind `groups` times four: the mean of those before is so much of their sum, and
// the square of the difference between this and the mean of the four counts so often.
template <class T, class V>
struct Weights {
  V of_four, of_sum, of_square;
};
template <class T>
constexpr Weights<T, T> WeightsOf(int64_t before, int64_t n) {  // vectors
  const T b = static_cast<T>(before), m = static_cast<T>(n);
  return {T(1) / std::max(m, T(1)), before == 0 ? T(0) : T(1) / b, b * m / std::max(b + m, T(1))};
}
template <class T>
constexpr auto kWeights = [] {  // of the fours of a block
  std::array<Weights<T, T>, 16> all{};
  for (size_t j = 0; j < 16; ++j) all[j] = WeightsOf<T>(static_cast<int64_t>(4 * j), 4);
  return all;
}();
template <class T>
HWY_INLINE void AddMoments(Lane<T>& a, const Wide<T>& s, const Wide<T>& mean, const Wide<T>& q,
                           const Wide<T>& of_sum, const Wide<T>& of_square) {
  const Wide<T> d = mean - a.sum * of_sum;
  a.sum = a.sum + s;
  a.squares = Fma(d * of_square, d, a.squares + q);
}
// Four vectors more, as Some() would; `w` of moments.
template <Kind kKind, class T>
HWY_INLINE void Four(Lane<T>& a, const Wide<T>& v0, const Wide<T>& v1, const Wide<T>& v2,
                     const Wide<T>& v3, const Wide<T>& origin, const Weights<T, T>& w) {
  if constexpr (is_moments(kKind)) {
    const Wide<T> e0 = v0 - origin, e1 = v1 - origin, e2 = v2 - origin, e3 = v3 - origin;
    const Wide<T> s = (e0 + e1) + (e2 + e3), m = s * Fill(T(0.25));
    const Wide<T> d0 = e0 - m, d1 = e1 - m, d2 = e2 - m, d3 = e3 - m;
    AddMoments(a, s, m, Fma(d3, d3, Fma(d2, d2, Fma(d1, d1, d0 * d0))), Fill(w.of_sum),
               Fill(w.of_square));
  } else if constexpr (is_extreme(kKind)) {
    const Wide<T> most = Beyond<kKind>(Beyond<kKind>(v3, v2), Beyond<kKind>(v1, v0));
    const WideMask<T> nan = (IsNaN(v0) | IsNaN(v1)) | (IsNaN(v2) | IsNaN(v3));
    a.sum = Choose(nan, Fill(std::numeric_limits<T>::quiet_NaN()), Beyond<kKind>(most, a.sum));
  } else {
    a.sum = Join<kKind>(a.sum, Term<kKind>(v0));
    a.sum = Join<kKind>(a.sum, Term<kKind>(v1));
    a.sum = Join<kKind>(a.sum, Term<kKind>(v2));
    a.sum = Join<kKind>(a.sum, Term<kKind>(v3));
  }
}
// n < 4 of them, or 4: load(i) gives one. Of moments only lanes of the last one that are `there`;
// else the others are as at the start.
template <Kind kKind, class T, class F>
HWY_INLINE void Some(Lane<T>& a, int64_t n, const F& load, const WideMask<T>& there,
                     const Wide<T>& origin, const Weights<T, Wide<T>>& w) {
  if constexpr (is_moments(kKind)) {
    const Wide<T> none = Fill(T(0));
    const auto of = [&](int64_t i, const Wide<T>& x)
                        PF_INLINE { return i + 1 < n ? x : Choose(there, x, none); };
    Wide<T> e1 = none, e2 = none, e3 = none;
    const Wide<T> e0 = of(0, load(0) - origin);
    if (n > 1) e1 = of(1, load(1) - origin);
    if (n > 2) e2 = of(2, load(2) - origin);
    if (n > 3) e3 = of(3, load(3) - origin);
    const Wide<T> s = (e0 + e1) + (e2 + e3), m = s * w.of_four;
    Wide<T> d = of(0, e0 - m), q = d * d;
    const auto more = [&](int64_t i, const Wide<T>& e) PF_INLINE {
      if (i >= n) return;
      d = of(i, e - m);
      q = Fma(d, d, q);
    };
    more(1, e1), more(2, e2), more(3, e3);
    AddMoments(a, s, m, q, w.of_sum, w.of_square);
  } else {
    for (int64_t i = 0; i < n; ++i) a.sum = Join<kKind>(a.sum, Term<kKind>(load(i)));
  }
}

// ---- blocks -------------------------------------------------------------------------------------

// Blocks whose lanes are joined together: as many as make a vector of sums.
template <class T>
inline constexpr int64_t kTogether = std::is_same_v<T, float> &&
                                             (Wide<T>::kPart == 8 || Wide<T>::kPart == 16)
                                         ? Wide<T>::kPart
                                         : 1;

// At most so many are asked for at a time.
template <class T>
inline constexpr int64_t kRows = std::max<int64_t>(4, kTogether<T>);

// The row whose sum comes out where that of argument i of AcrossEach() does.
template <class T>
constexpr int64_t RowOf(int64_t i) {
  if (kTogether<T> == 16) return (i / 2 % 2 + i % 2 * 2) * 4 + i / 8 % 2 + i / 4 % 2 * 2;
  return kTogether<T> == 8 ? i % 2 * 4 + i / 4 % 2 + i / 2 % 2 * 2 : i;
}
// Across() of each, by the same halves.
template <Kind kKind, class T>
HWY_INLINE void AcrossEach(const Wide<T>* a, T* to) {
  if constexpr (kTogether<T> == 1) {
    *to = Across<kKind>(*a);
  } else {
    const typename Wide<T>::D d;
    const hn::Repartition<double, typename Wide<T>::D> d2;
    using V = typename Wide<T>::V;
    V v[kTogether<T>];
    if constexpr (kTogether<T> == 16) {
      for (int64_t i = 0; i < 8; ++i) {
        const V x = a[2 * i].v[0], y = a[2 * i + 1].v[0];
        v[i] = JoinV<kKind>(d, hn::ConcatLowerLower(d, y, x), hn::ConcatUpperUpper(d, y, x));
      }
    } else {
      for (int64_t i = 0; i < 8; ++i)
        v[i] = JoinV<kKind>(d, a[i].v[0], a[i].v[Wide<T>::kParts - 1]);
    }
    for (int64_t i = 0; i < 4; ++i) {
      const V x = v[2 * i], y = v[2 * i + 1];
      v[i] = JoinV<kKind>(d, hn::OddEvenBlocks(hn::SwapAdjacentBlocks(y), x),
                          hn::OddEvenBlocks(y, hn::SwapAdjacentBlocks(x)));
    }
    for (int64_t i = 0; i < 2; ++i) {
      const auto x = hn::BitCast(d2, v[2 * i]), y = hn::BitCast(d2, v[2 * i + 1]);
      v[i] = JoinV<kKind>(d, hn::BitCast(d, hn::InterleaveLower(d2, x, y)),
                          hn::BitCast(d, hn::InterleaveUpper(d2, x, y)));
    }
    hn::StoreU(JoinV<kKind>(d, hn::OddEven(hn::Shuffle2301(v[1]), v[0]),
                            hn::OddEven(v[1], hn::Shuffle2301(v[0]))),
               d, to);
  }
}
// Across each of some vectors.
template <Kind kKind, class T>
void AcrossAll(const Wide<T>* v, int64_t many, T* out) {
  if (many == kTogether<T>) return AcrossEach<kKind>(v, out);
  for (int64_t r = 0; r < many; ++r) out[r] = Across<kKind>(v[RowOf<T>(r)]);
}

// What is fetched beside a loop over blocks: of every `step`th of these from `first` on what lies
// so many elements ahead; nothing where that is 0.
struct Beside {
  int64_t ahead = 0;
  int first = 0, step = 1;
  bool of(int64_t i) const {
    return ahead != 0 && (step == 1 || static_cast<int>(i) % step == first);
  }
};

// Blocks of n elements each: their sums, and squares about their means.
template <class S, Kind kKind>
void Blocks(const S* const* x, int64_t many, int64_t n, const ComputeOf<S>* origin, Beside beside,
            ComputeOf<S>* to, ComputeOf<S>* squares) {
  using T = ComputeOf<S>;
  constexpr int64_t W = Wide<T>::kLanes, kStep = 4 * W,
                    kLine = 64 / static_cast<int64_t>(sizeof(S));
  // Sums wait for the one before them, which others do not: so many at a time.
  constexpr int64_t kSide = is_moments(kKind) || is_extreme(kKind) ? 1 : 4;
  const int64_t steps = n / kStep, whole = n % kStep / W, part = n % W;
  Weights<T, Wide<T>> last{};
  Wide<T> count{}, of_sum{};
  const WideMask<T> there = LanesFrom<T>(0, part > 0 ? part : W);
  if constexpr (is_moments(kKind)) {
    const auto w = WeightsOf<T>(4 * steps, whole), more = WeightsOf<T>(4 * steps, whole + 1);
    const WideMask<T> longer = LanesFrom<T>(0, part);
    const auto of = [&](T a, T b) PF_INLINE { return Choose(longer, Fill(b), Fill(a)); };
    last = {of(w.of_four, more.of_four), Fill(w.of_sum), of(w.of_square, more.of_square)};
    const int64_t k = 4 * steps + whole;
    count = of(static_cast<T>(k), static_cast<T>(k + 1));
    of_sum = of(WeightsOf<T>(k, 0).of_sum, WeightsOf<T>(k + 1, 0).of_sum);
  }
  if (many < 1) __builtin_unreachable();
  Wide<T> sums[kRows<T>], about[kRows<T>];  // of `many` rows
  struct One {
    Lane<T> a;
    const S* p;
    Wide<T> origin;
    int64_t row, ahead;
  };
  const auto fetch = [&](const S* p, int64_t ahead, int64_t count) PF_INLINE {
    if (ahead)
      for (int64_t b = 0; b < count; b += kLine) __builtin_prefetch(p + ahead + b, 0, 2);
  };
  // Rows of less than four vectors, whose loop would take longer than its sum.
  const bool few = kSide > 1 && steps == 0;
  if (few)
    for (int64_t r = 0; r < many; ++r) {
      const S* p = x[r];
      fetch(p, beside.of(r) ? beside.ahead : 0, n);
      Wide<T> a = Fill(kStart<kKind, T>);
      const auto add = [&](const Wide<T>& v) PF_INLINE {
        a = Join<joined_as(kKind)>(a, Term<kKind>(v));
        p += W;
      };
      switch (whole) {
        case 3:
          add(Load(p));
          [[fallthrough]];
        case 2:
          add(Load(p));
          [[fallthrough]];
        case 1:
          add(Load(p));
          [[fallthrough]];
        default:
          if (part > 0) add(LoadPart(p, part, kStart<kKind, T>));
      }
      sums[RowOf<T>(r)] = a;
    }
  for (int64_t r = few ? many : 0; r < many; r += kSide) {
    const auto one = [&](int64_t i) PF_INLINE {
      const int64_t row = std::min(r + i, many - 1);
      return One{{Fill(kStart<kKind, T>), Fill(T(0))},
                 x[row],
                 Fill(origin[row]),
                 row,
                 beside.of(row) ? beside.ahead : 0};
    };
    const auto four = [&](One& o, int64_t j) PF_INLINE {
      const S* const p = o.p + j * kStep;
      fetch(p, o.ahead, kStep);
      Weights<T, T> w{};
      if constexpr (is_moments(kKind)) w = kWeights<T>[static_cast<size_t>(j)];
      Four<kKind>(o.a, Load(p), Load(p + W), Load(p + 2 * W), Load(p + 3 * W), o.origin, w);
    };
    const auto end = [&](One& o) PF_INLINE {
      const S* const p = o.p + steps * kStep;
      fetch(p, o.ahead, n % kStep);
      const auto load = [&](int64_t i) PF_INLINE {
        return i < whole ? Load(p + i * W) : LoadPart(p + i * W, part, kStart<kKind, T>);
      };
      if (n % kStep > 0) Some<kKind>(o.a, whole + (part > 0), load, there, o.origin, last);
      sums[RowOf<T>(o.row)] = o.a.sum;
      if constexpr (is_moments(kKind)) about[RowOf<T>(o.row)] = o.a.squares;
    };
    One o0 = one(0);
    if constexpr (kSide == 1) {
      for (int64_t j = 0; j < steps; ++j) four(o0, j);
      end(o0);
    } else {
      One o1 = one(1), o2 = one(2), o3 = one(3);
      for (int64_t j = 0; j < steps; ++j) four(o0, j), four(o1, j), four(o2, j), four(o3, j);
      end(o0), end(o1), end(o2), end(o3);
    }
  }
  AcrossAll<joined_as(kKind)>(sums, many, to);
  if constexpr (is_moments(kKind)) {
    for (int64_t r = 0; r < many; ++r) {
      Wide<T>& q = about[RowOf<T>(r)];
      const Wide<T> d = sums[RowOf<T>(r)] * of_sum - Fill(to[r] / static_cast<T>(n));
      q = Fma(count * d, d, q);
      if (n < W) q = FirstLanes(q, n);
    }
    AcrossAll<Kind::Plain>(about, many, squares);
  }
}

// The extreme of n elements, n at least 4 W and below 2^24, and which it is: the first of equal
// ones, or the first NaN. Places are numbers of the vectors' type.
template <class S, bool kMax>
void FindInRow(const S* x, int64_t n, ComputeOf<S>* best, int64_t* place) {
  using T = ComputeOf<S>;
  constexpr int64_t W = Wide<T>::kLanes;
  constexpr Kind kKind = kMax ? kernels::kLargest : kernels::kSmallest;
  struct One {
    Wide<T> best, at;
  };
  One o0{Fill(kStart<kKind, T>), Fill(T(0))}, o1 = o0, o2 = o0, o3 = o0;
  WideMask<T> nan = LanesFrom<T>(0, 0);
  const auto look = [&](One& o, const S* p, const Wide<T>& at) PF_INLINE {
    const Wide<T> v = Load(p);
    const WideMask<T> wins = kMax ? GreaterThan(v, o.best) : GreaterThan(o.best, v);
    o.best = Choose(wins, v, o.best);
    o.at = Choose(wins, at, o.at);
    nan = nan | IsNaN(v);
  };
  // The last four vectors may have elements of those before, which win no more.
  const auto four = [&](int64_t i) PF_INLINE {
    const Wide<T> at = Fill(static_cast<T>(i));
    look(o0, x + i, at), look(o1, x + i + W, at), look(o2, x + i + 2 * W, at);
    look(o3, x + i + 3 * W, at);
  };
  int64_t i = 0;
  for (; i + 4 * W <= n; i += 4 * W) four(i);
  if (i < n) four(n - 4 * W);
  if (AnyTrue(nan)) {
    for (i = 0; ToCompute(x[i]) == ToCompute(x[i]);) ++i;
    *best = ToCompute(x[i]);
    *place = i;
    return;
  }
  *best = Across<kKind>(
      Beyond<kKind>(Beyond<kKind>(o3.best, o2.best), Beyond<kKind>(o1.best, o0.best)));
  alignas(64) static constexpr auto kLane = [] {
    std::array<T, W> all{};
    for (int64_t l = 0; l < W; ++l) all[static_cast<size_t>(l)] = static_cast<T>(l);
    return all;
  }();
  const Wide<T> none = Fill(std::numeric_limits<T>::infinity()), is = Fill(*best);
  const auto of = [&](const One& o, int64_t first) PF_INLINE {
    return Choose(Equal(o.best, is), o.at + (Load(kLane.data()) + Fill(static_cast<T>(first))),
                  none);
  };
  *place = static_cast<int64_t>(Across<kernels::kSmallest>(
      WMin(WMin(of(o0, 0), of(o1, W)), WMin(of(o2, 2 * W), of(o3, 3 * W)))));
  *best = ToCompute(x[*place]);  // of zeros the sign
}

// ---- columns ------------------------------------------------------------------------------------

// Rows [from, from + count) of a block, `from` being a multiple of 4 W, over one tile of columns:
// lanes[k mod W][column], and behind these what moments have of squares. The table of lanes is
// larger than the first cache, so four rows of a lane are added at a time: four streams, each in
// the order of memory. `first` is where row `from` is among the reduced elements at x.
template <class S, Kind kKind>
void AddRows(const S* x, const Axes& reduced, int64_t first, int64_t from, int64_t count,
             int64_t width, const ComputeOf<S>* origin, Beside beside, ComputeOf<S>* lanes) {
  using T = ComputeOf<S>;
  constexpr int64_t W = Wide<T>::kLanes;
  constexpr bool kMoments = is_moments(kKind);
  const int64_t padded = (width + W - 1) / W * W, whole = width / W * W, apart = W * padded;
  if (from == 0) {
    std::fill_n(lanes, apart, kStart<kKind, T>);
    if (kMoments) std::fill_n(lanes + apart, apart, T(0));
  }
  Odometer where(reduced, first);
  const S* rows[4 * W];
  for (int64_t done = 0; done < count; done += 4 * W) {
    const int64_t before = (from + done) / W, n = std::min(4 * W, count - done);
    for (int64_t r = 0; r < n; ++r, where.next()) rows[r] = x + where.offset();
    for (int64_t l = 0; l < W && l < n; ++l) {
      const int64_t many = (n - l + W - 1) / W;
      T* const lane = lanes + l * padded;
      const S *p0 = rows[l], *p1 = rows[(l + W) % (4 * W)], *p2 = rows[(l + 2 * W) % (4 * W)],
              *p3 = rows[(l + 3 * W) % (4 * W)];
      const Weights<T, T> w = WeightsOf<T>(before, many);
      const bool fetches = beside.of(l);
      const auto add = [&](int64_t c, const auto& more) PF_INLINE {
        Lane<T> a{Load(lane + c), {}};
        if constexpr (kMoments) a.squares = Load(lane + apart + c);
        if (fetches)
          for (const S* p : {p0, p1, p2, p3}) __builtin_prefetch(p + beside.ahead + c, 0, 2);
        more(a, kMoments ? Load(origin + c) : Fill(T(0)));
        Store(a.sum, lane + c);
        if constexpr (kMoments) Store(a.squares, lane + apart + c);
      };
      int64_t c = 0;
      for (; n == 4 * W && c < whole; c += W)
        add(c, [&](Lane<T>& a, const Wide<T>& o) PF_INLINE {
          Four<kKind>(a, Load(p0 + c), Load(p1 + c), Load(p2 + c), Load(p3 + c), o, w);
        });
      for (; c < width; c += W)
        add(c, [&](Lane<T>& a, const Wide<T>& o) PF_INLINE {
          const auto load = [&](int64_t i) PF_INLINE {
            const S* const p = rows[l + i * W] + c;
            return c < whole ? Load(p) : LoadPart(p, width - c, T(0));
          };
          Some<kKind>(a, many, load, LanesFrom<T>(0, W), o,
                      {Fill(w.of_four), Fill(w.of_sum), Fill(w.of_square)});
        });
    }
  }
}

// As across the lanes of a block of so many rows; those that took nothing are skipped.
template <Kind kKind, class T>
void FoldLanes(T* lanes, int64_t count, int64_t padded, T* out, T* squares) {
  constexpr int64_t W = Wide<T>::kLanes;
  const int64_t used = std::min(count, W);
  for (int64_t c = 0; c < padded; c += W) {
    Wide<T> v[W];
    const auto fold = [&](T* to) PF_INLINE {
      int64_t n = used;
      for (int64_t h = W / 2; h >= 1; h /= 2) {
        for (int64_t l = 0; l < h && l + h < n; ++l) v[l] = Join<kKind>(v[l], v[l + h]);
        n = std::min(n, h);
      }
      Store(v[0], to + c);
    };
    for (int64_t l = 0; l < used; ++l) v[l] = Load(lanes + l * padded + c);
    fold(out);
    if constexpr (is_moments(kKind)) {
      const Wide<T> mean = Load(out + c) / Fill(static_cast<T>(count));
      for (int64_t l = 0; l < used; ++l) {
        const int64_t k = (count - l + W - 1) / W;
        const Wide<T> d = Load(lanes + l * padded + c) * Fill(WeightsOf<T>(k, 0).of_sum) - mean;
        v[l] = Fma(Fill(static_cast<T>(k)) * d, d, Load(lanes + (W + l) * padded + c));
      }
      fold(squares);
    }
  }
}

// The tree over the blocks, a vector of columns at a time: the sums of one column are often 4096
// bytes apart, in one set of the first cache.
template <Kind kKind, class T>
void FoldBlocks(T* p, int64_t blocks, int64_t padded) {
  for (int64_t n = blocks; n > 1; n = (n + 1) / 2)
    for (int64_t b = 0; b < n; b += 2) {
      T* to = p + b / 2 * padded;
      const T *from = p + b * padded, *other = b + 1 < n ? from + padded : nullptr;
      for (int64_t c = 0; c < padded; c += Wide<T>::kLanes)
        Store(other ? Join<kKind>(Load(from + c), Load(other + c)) : Load(from + c), to + c);
    }
}

// What is done to elements, blocks and columns in one kind of reduction.
template <class S>
struct Made {
  using T = ComputeOf<S>;
  bool moments;
  T start;
  void (*blocks)(const S* const* x, int64_t many, int64_t n, const T* origin, Beside beside, T* to,
                 T* squares);
  T (*join)(T, T);
  void (*add_rows)(const S* x, const Axes& reduced, int64_t first, int64_t from, int64_t count,
                   int64_t width, const T* origin, Beside beside, T* lanes);
  void (*fold_lanes)(T* lanes, int64_t count, int64_t padded, T* out, T* squares);
  void (*fold_blocks)(T* p, int64_t blocks, int64_t padded);
};
template <class S, Kind kKind>
constexpr Made<S> kMade{is_moments(kKind),
                        kStart<kKind, ComputeOf<S>>,
                        Blocks<S, kKind>,
                        JoinOne<kKind, ComputeOf<S>>,
                        AddRows<S, kKind>,
                        FoldLanes<is_moments(kKind) ? kKind : joined_as(kKind), ComputeOf<S>>,
                        FoldBlocks<joined_as(kKind), ComputeOf<S>>};
template <class S>
const Made<S>* made_of(Kind kind) {
  static constexpr const Made<S>* kAll[] = {
      &kMade<S, Kind::Plain>,       &kMade<S, Kind::Squares>,     &kMade<S, Kind::Spread>,
      &kMade<S, Kind::Spread>,      &kMade<S, Kind::Numbers>,     &kMade<S, kernels::kProduct>,
      &kMade<S, kernels::kLargest>, &kMade<S, kernels::kSmallest>};
  return kAll[static_cast<int>(kind)];
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
