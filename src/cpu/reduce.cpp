// Sums of floating-point numbers: plain, without NaN, of squares, and of differences and their
// squares (variance). Order: a block is 64 vectors of 64 bytes, and element k of it goes to lane k
// mod 16 (float64: 8); lanes are added in halves, blocks in a tree. All layouts keep it: rows in
// registers (four blocks at a time), columns with a table of lanes for every column, anything else
// packed block by block.
#include "cpu/one_target.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/reduce.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "core/kernel_numbers.h"
#include "cpu/kernel.h"
#include "cpu/reduce_cut.h"
#include "cpu/rows-inl.h"
#include "cpu/threads.h"
#include "table/kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {

constexpr auto kAt = kernels::tensors<kernels::Sum>;
constexpr auto kNumber = kernels::numbers<kernels::Sum>;

// A lane adds 64 elements: a block is 64 vectors.
template <class S>
inline constexpr int64_t kSumBlock = 64 * Wide<ComputeOf<S>>::kLanes;

using Kind = SumKind;
// The mean of differences from one of the elements is at most sqrt(n) standard deviations, so that
// its rounding does not show in the variance, however far from 0 the elements are.
template <Kind... kKinds>
inline constexpr bool kFromOrigin = ((kKinds == Kind::Differences || kKinds == Kind::Spread) ||
                                     ...);
template <Kind... kKinds>
inline constexpr bool kFromMean = ((kKinds == Kind::Spread) || ...);

template <Kind kKind, class T>
HWY_INLINE Wide<T> Term(const Wide<T>& v, const Wide<T>& origin, const Wide<T>& mean) {
  if constexpr (kKind == Kind::Plain) {
    return v;
  } else if constexpr (kKind == Kind::Squares) {
    return v * v;
  } else if constexpr (kKind == Kind::Numbers) {
    return Choose(NotEqual(v, v), Fill(T(0)), v);
  } else if constexpr (kKind == Kind::Differences) {
    return v - origin;
  } else {
    const Wide<T> d = (v - origin) - mean;
    return d * d;
  }
}

template <class S, Kind kKind>
HWY_INLINE Wide<ComputeOf<S>> BlockLanes(const S* x, int64_t n, ComputeOf<S> origin,
                                         ComputeOf<S> mean) {
  using T = ComputeOf<S>;
  constexpr int64_t W = Wide<T>::kLanes;
  const Wide<T> o = Fill(origin), m = Fill(mean);
  Wide<T> s = Fill(T(0));
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    s = s + Term<kKind>(Load(x + i), o, m);
  }
  if (i < n) s = s + FirstLanes(Term<kKind>(LoadPart(x + i, n - i, T(0)), o, m), n - i);
  return s;
}
template <class S, Kind kKind>
ComputeOf<S> BlockSum(const S* x, int64_t n, ComputeOf<S> origin, ComputeOf<S> mean) {
  return SumOf(BlockLanes<S, kKind>(x, n, origin, mean));
}

// Rows of no more than a block whose lanes are added together: as many as make a vector of sums.
template <class T>
inline constexpr int64_t kTogether = std::is_same_v<T, float> &&
                                             (Wide<T>::kPart == 8 || Wide<T>::kPart == 16)
                                         ? Wide<T>::kPart
                                         : 1;

// The row whose sum comes out where that of argument i of SumsOf() does.
template <class T>
constexpr int64_t RowOf(int64_t i) {
  if (kTogether<T> == 16) return (i / 2 % 2 + i % 2 * 2) * 4 + i / 8 % 2 + i / 4 % 2 * 2;
  return kTogether<T> == 8 ? i % 2 * 4 + i / 4 % 2 + i / 2 % 2 * 2 : 0;
}
// SumOf() of each, by the same halves.
template <class T>
HWY_INLINE void SumsOf(const Wide<T>* a, T* to) {
  if constexpr (kTogether<T> == 1) {
    *to = SumOf(*a);
  } else {
    const typename Wide<T>::D d;
    const hn::Repartition<double, typename Wide<T>::D> d2;
    using V = typename Wide<T>::V;
    V v[kTogether<T>];
    if constexpr (kTogether<T> == 16) {
      for (int64_t i = 0; i < 8; ++i) {
        const V x = a[2 * i].v[0], y = a[2 * i + 1].v[0];
        v[i] = hn::Add(hn::ConcatLowerLower(d, y, x), hn::ConcatUpperUpper(d, y, x));
      }
    } else {
      for (int64_t i = 0; i < 8; ++i) v[i] = hn::Add(a[i].v[0], a[i].v[Wide<T>::kParts - 1]);
    }
    for (int64_t i = 0; i < 4; ++i) {
      const V x = v[2 * i], y = v[2 * i + 1];
      v[i] = hn::Add(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(y), x),
                     hn::OddEvenBlocks(y, hn::SwapAdjacentBlocks(x)));
    }
    for (int64_t i = 0; i < 2; ++i) {
      const auto x = hn::BitCast(d2, v[2 * i]), y = hn::BitCast(d2, v[2 * i + 1]);
      v[i] = hn::Add(hn::BitCast(d, hn::InterleaveLower(d2, x, y)),
                     hn::BitCast(d, hn::InterleaveUpper(d2, x, y)));
    }
    hn::StoreU(
        hn::Add(hn::OddEven(hn::Shuffle2301(v[1]), v[0]), hn::OddEven(v[1], hn::Shuffle2301(v[0]))),
        d, to);
  }
}
// Of each kind, the sums of kTogether rows of k elements; what lies so many `ahead` is fetched,
// unless that is 0.
template <class S, Kind... kKinds>
HWY_INLINE void SumTogether(const S* const* rows, int64_t k, int64_t ahead,
                            const ComputeOf<S>* origin, const ComputeOf<S>* mean,
                            ComputeOf<S>* to) {
  using T = ComputeOf<S>;
  constexpr int64_t N = kTogether<T>;
  const auto add = [&]<Kind kKind>() PF_INLINE {
    Wide<T> v[N];
    for (int64_t i = 0; i < N; ++i) {
      const int64_t r = RowOf<T>(i);
      for (int64_t b = 0; ahead != 0 && b < k; b += 64 / static_cast<int64_t>(sizeof(S)))
        __builtin_prefetch(rows[r] + ahead + b, 0, 2);
      v[i] = BlockLanes<S, kKind>(rows[r], k, origin[r], mean[r]);
    }
    SumsOf(v, to);
    to += N;
  };
  (add.template operator()<kKinds>(), ...);
}

// Values of dtype S, or of what S is calculated in.
template <class S>
class Values {
 public:
  using T = ComputeOf<S>;
  Values() = default;
  explicit Values(const pf_tensor& t)
      : data_(t.data), wide_(itemsize(static_cast<DType>(t.dtype)) == sizeof(T)) {}
  T get(int64_t i) const {
    return wide_ ? static_cast<const T*>(data_)[i] : ToCompute(static_cast<const S*>(data_)[i]);
  }
  void put(int64_t i, T v) const {
    wide_ ? StoreOne(v, static_cast<T*>(data_) + i) : StoreOne(v, static_cast<S*>(data_) + i);
  }

 private:
  void* data_ = nullptr;
  bool wide_ = true;
};

// Where sums go, and what is done to them at the end.
template <class S>
struct Finish {
  Values<S> out;
  ComputeOf<S> divisor;
  void operator()(int64_t o, ComputeOf<S> total) const { out.put(o, total / divisor); }
};
template <class S>
Finish<S> FinishOf(const KernelArgs& a, int out, int divisor) {
  return {Values<S>(a.tensor(out)), static_cast<ComputeOf<S>>(a.f(divisor))};
}

// The elements of one result, added in groups of four blocks; those that do not lie side by side go
// through `packed`, which has room for a group.
template <class S>
class Row {
 public:
  using T = ComputeOf<S>;
  static constexpr int64_t kBlock = kSumBlock<S>, kGroup = 4;
  static int64_t blocks(int64_t k) { return (k + kBlock - 1) / kBlock; }
  static int64_t groups(int64_t k) { return (blocks(k) + kGroup - 1) / kGroup; }
  static size_t packed_bytes(const ReducePlan& plan) {
    return plan.rows() ? 0 : Parts::bytes<S>(std::min(plan.reduced.count, kGroup * kBlock));
  }

  Row(const S* row, const ReducePlan& plan, S* packed)
      : row_(row), plan_(plan), packed_(packed), rows_(plan.rows()) {}
  T origin() const { return ToCompute(row_[0]); }
  // The sums of the blocks of group g to `to`, those of another kind `apart` behind them.
  template <Kind... kKinds>
  void group(int64_t g, T origin, T mean, T* to, int64_t apart) const {
    const int64_t first = g * kGroup * kBlock;
    const int64_t n = std::min(plan_.reduced.count - first, kGroup * kBlock);
    const S* from = row_ + first;
    if (!rows_) {
      pack(row_, plan_.reduced, first, n, packed_);
      from = packed_;
    }
    for (int64_t i = 0; i < n; i += kBlock) {
      T* sum = to + i / kBlock - apart;
      ((*(sum += apart) = BlockSum<S, kKinds>(from + i, std::min(kBlock, n - i), origin, mean)),
       ...);
    }
  }
  // Those of all blocks to `part`; the first of each kind becomes the whole one.
  template <Kind... kKinds>
  void sum(T origin, T mean, T* part) const {
    const int64_t k = plan_.reduced.count, n = blocks(k);
    for (int64_t g = 0; g < groups(k); ++g) group<kKinds...>(g, origin, mean, part + g * kGroup, n);
    for (size_t i = 0; i < sizeof...(kKinds); ++i)
      tree(part + static_cast<int64_t>(i) * n, n, 1, [](T p, T q) { return p + q; });
  }

 private:
  const S* row_;
  const ReducePlan& plan_;
  S* packed_;
  bool rows_;
};

// Rows of no more than a block, as many at a time as are added together.
template <class S>
struct ShortRows {
  using T = ComputeOf<S>;
  static constexpr int64_t kRows = kTogether<T>;
  const S* at[kRows];
  T origin[kRows];
  int64_t first, n = 0;  // of those at hand
  int64_t ahead;         // elements to those that come in two turns

  // `origins`: the first element of each is wanted.
  ShortRows(const S* x, const ReducePlan& plan, int64_t begin, int64_t end, bool origins)
      : first(begin),
        ahead(plan.kept.n > 0 ? 2 * kRows * plan.kept.stride[plan.kept.n - 1] : 0),
        x_(x),
        end_(end),
        where_(plan.kept, begin),
        origins_(origins) {}
  // How many are at hand now: 0 when there are no more.
  HWY_INLINE int64_t next() {
    first += n;
    n = std::min(kRows, end_ - first);
    for (int64_t i = 0; i < n; ++i, where_.next()) {
      at[i] = x_ + where_.offset();
      origin[i] = origins_ ? ToCompute(at[i][0]) : T(0);
    }
    for (int64_t i = std::max<int64_t>(n, 0); i < kRows && n > 0; ++i) {
      at[i] = at[0];
      origin[i] = origin[0];
    }
    return n;
  }

 private:
  const S* x_;
  int64_t end_;
  Odometer where_;
  bool origins_;
};

// Sums of each kind, one of them in `finish`, from one reading of x. `whole`: rows are summed by
// one thread each, however long: a piece has no memory for their blocks.
template <class S, Kind... kKinds>
void SumRows(const S* x, const Values<S>& mean, const ReducePlan& plan, bool whole,
             const Finish<S>* finish) {
  using T = ComputeOf<S>;
  constexpr int64_t kMany = sizeof...(kKinds);
  const int64_t k = plan.reduced.count, outs = plan.kept.count;
  const int64_t blocks = Row<S>::blocks(k), groups = Row<S>::groups(k);
  const auto row = [&](int64_t o, char* packed) {
    return Row<S>(x + plan.kept.offset(o), plan, reinterpret_cast<S*>(packed));
  };
  const auto origin = [](const Row<S>& r) { return kFromOrigin<kKinds...> ? r.origin() : T(0); };
  const auto mean_of = [&](int64_t o) {
    return kFromMean<kKinds...> ? mean.get(plan.kept.other_offset(o)) : T(0);
  };
  const size_t bytes = Row<S>::packed_bytes(plan);
  if (blocks == 1 && plan.rows()) {
    parallel_for(outs, 4 * RowGrain(k), [&](int64_t begin, int64_t end) {
      ShortRows<S> rows(x, plan, begin, end, kFromOrigin<kKinds...>);
      if (whole) rows.ahead = 0;  // a piece is in a cache
      T total[kMany * ShortRows<S>::kRows] = {}, means[ShortRows<S>::kRows] = {};
      for (int64_t n; (n = rows.next()) > 0;) {
        for (int64_t i = 0; i < n && kFromMean<kKinds...>; ++i) means[i] = mean_of(rows.first + i);
        SumTogether<S, kKinds...>(rows.at, k, rows.ahead, rows.origin, means, total);
        for (int64_t i = 0; i < kMany; ++i)
          for (int64_t r = 0; r < n; ++r)
            finish[i](rows.first + r, total[i * ShortRows<S>::kRows + r]);
      }
    });
    return;
  }
  if (groups <= 1 || whole) {
    parallel_with(outs, 4 * RowGrain(k), bytes, [&](int64_t begin, int64_t end, char* memory) {
      T part[kMany * kLongestRow];
      for (int64_t o = begin; o < end; ++o) {
        const Row<S> r = row(o, memory);
        r.template sum<kKinds...>(origin(r), mean_of(o), part);
        for (int64_t i = 0; i < kMany; ++i) finish[i](o, part[i * blocks]);
      }
    });
    return;
  }
  const Scratch<T> partial(kMany * outs * blocks);
  parallel_with(outs * groups, 8, bytes, [&](int64_t begin, int64_t end, char* memory) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t o = i / groups, g = i % groups;
      const Row<S> r = row(o, memory);
      r.template group<kKinds...>(g, origin(r), mean_of(o),
                                  partial.get() + o * blocks + g * Row<S>::kGroup, outs * blocks);
    }
  });
  const auto plus = [](T p, T q) { return p + q; };
  for (int64_t i = 0; i < kMany * outs; ++i)
    finish[i / outs](i % outs, tree(partial.get() + i * blocks, blocks, 1, plus));
}

// Rows [from, from + count) of a block, `from` being a multiple of 4 W, over one tile of columns:
// lanes[k mod W][column]. The table of lanes is larger than the first cache, so four rows of a lane
// are added at a time: four streams, each in the order of memory. `first` is where row `from` is
// among the reduced elements at x. Each kind has a table, one behind the other.
template <class S, Kind... kKinds>
void AddRows(const S* x, const Axes& reduced, int64_t first, int64_t from, int64_t count,
             int64_t width, const ComputeOf<S>* origin, const ComputeOf<S>* mean,
             ComputeOf<S>* lanes) {
  using T = ComputeOf<S>;
  constexpr int64_t W = Wide<T>::kLanes;
  const int64_t padded = (width + W - 1) / W * W, whole = width / W * W;
  Odometer where(reduced, first);
  const S* rows[4 * W];
  for (int64_t done = 0; done < count; done += 4 * W) {
    const int64_t k = from + done, n = std::min(4 * W, count - done);
    for (int64_t r = 0; r < n; ++r, where.next()) rows[r] = x + where.offset();
    for (int64_t l = 0; l < W && l < n; ++l) {
      T* lane = lanes + l * padded;
      const S *p0 = rows[l], *p1 = rows[(l + W) % (4 * W)], *p2 = rows[(l + 2 * W) % (4 * W)],
              *p3 = rows[(l + 3 * W) % (4 * W)];
      const auto add = [&]<Kind kKind>(int64_t c, auto load) PF_INLINE {
        const Wide<T> o = kFromOrigin<kKind> ? Load(origin + c) : Fill(T(0));
        const Wide<T> m = kFromMean<kKind> ? Load(mean + c) : Fill(T(0));
        Wide<T> a = k == 0 ? Fill(T(0)) : Load(lane + c);
        a = a + Term<kKind>(load(p0 + c), o, m);
        if (l + W < n) a = a + Term<kKind>(load(p1 + c), o, m);
        if (l + 2 * W < n) a = a + Term<kKind>(load(p2 + c), o, m);
        if (l + 3 * W < n) a = a + Term<kKind>(load(p3 + c), o, m);
        Store(a, lane + c);
      };
      const auto full = [](const S* p) PF_INLINE { return Load(p); };
      const auto part = [&](const S* p) PF_INLINE { return LoadPart(p, width - whole, T(0)); };
      const auto add_all = [&]<Kind kKind>() PF_INLINE {
        if (n == 4 * W && k > 0) {
          for (int64_t c = 0; c < whole; c += W) {
            const Wide<T> o = kFromOrigin<kKind> ? Load(origin + c) : Fill(T(0));
            const Wide<T> m = kFromMean<kKind> ? Load(mean + c) : Fill(T(0));
            Wide<T> a = Load(lane + c) + Term<kKind>(Load(p0 + c), o, m);
            a = a + Term<kKind>(Load(p1 + c), o, m);
            a = a + Term<kKind>(Load(p2 + c), o, m);
            Store(a + Term<kKind>(Load(p3 + c), o, m), lane + c);
          }
        } else {
          for (int64_t c = 0; c < whole; c += W) add.template operator()<kKind>(c, full);
        }
        if (whole < width) add.template operator()<kKind>(whole, part);
        lane += W * padded;
      };
      (add_all.template operator()<kKinds>(), ...);
    }
  }
}

// The same tree as over the lanes of a row, of a block of so many rows; lanes that took nothing are
// skipped.
template <class T>
void FoldLanes(T* lanes, int64_t count, int64_t padded, T* out) {
  constexpr int64_t W = Wide<T>::kLanes;
  for (int64_t c = 0; c < padded; c += W) {
    int64_t n = std::min(count, W);
    for (int64_t h = W / 2; h >= 1; h /= 2) {
      for (int64_t l = 0; l < h && l + h < n; ++l) {
        T* q = lanes + l * padded + c;
        Store(Load(q) + Load(q + h * padded), q);
      }
      n = std::min(n, h);
    }
    Store(Load(lanes + c), out + c);
  }
}

// The tree over the blocks, a vector of columns at a time: the sums of one column are often 4096
// bytes apart, in one set of the first cache.
template <class T>
void FoldBlocks(T* p, int64_t blocks, int64_t padded) {
  for (int64_t n = blocks; n > 1; n = (n + 1) / 2)
    for (int64_t b = 0; b < n; b += 2) {
      T* to = p + b / 2 * padded;
      const T *from = p + b * padded, *other = b + 1 < n ? from + padded : nullptr;
      for (int64_t c = 0; c < padded; c += Wide<T>::kLanes)
        Store(other ? Load(from + c) + Load(other + c) : Load(from + c), to + c);
    }
}

// As SumRows.
template <class S, Kind... kKinds>
void SumColumns(const S* x, const Values<S>& mean, const ReducePlan& plan,
                const Finish<S>* finish) {
  using T = ComputeOf<S>;
  constexpr int64_t W = Wide<T>::kLanes, B = kSumBlock<S>, kMany = sizeof...(kKinds);
  const int64_t k = plan.reduced.count, inner = plan.inner(), outer = plan.kept.count / inner;
  const int64_t blocks = (k + B - 1) / B;
  const int64_t tile = 1024;
  const int64_t tiles = (inner + tile - 1) / tile, units = outer * tiles * blocks;
  const int64_t padded_tile = (std::min(tile, inner) + W - 1) / W * W;
  const Scratch<T> partial(kMany * units * padded_tile);
  const int64_t work = kMany * std::min(k, B) * std::min(tile, inner);
  const int64_t for_origins = kFromOrigin<kKinds...> ? padded_tile : 0;
  const int64_t for_means = kFromMean<kKinds...> ? padded_tile : 0;
  const size_t bytes = Parts::bytes<T>(kMany * W * padded_tile) + Parts::bytes<T>(for_origins) +
                       Parts::bytes<T>(for_means);
  const auto run = [&](int64_t begin, int64_t end, char* memory) {
    Parts parts(memory);
    T* const lanes = parts.take<T>(kMany * W * padded_tile);
    T* const origins = parts.take<T>(for_origins);
    T* const means = parts.take<T>(for_means);
    for (int64_t i = begin; i < end; ++i) {
      // Neighbouring units are tiles of the same rows.
      const int64_t t = i % tiles, b = i / tiles % blocks, o = i / tiles / blocks;
      const int64_t first = o * inner + t * tile, width = std::min(tile, inner - t * tile);
      const int64_t padded = (width + W - 1) / W * W;
      const S* columns = x + plan.kept.offset(first);
      for (int64_t c = 0; c < for_origins; ++c)
        origins[c] = c < width ? ToCompute(columns[c]) : T(0);
      for (int64_t c = 0; c < for_means; ++c)
        means[c] = c < width ? mean.get(plan.kept.other_offset(first + c)) : T(0);
      const int64_t count = std::min(B, k - b * B);
      AddRows<S, kKinds...>(columns, plan.reduced, b * B, 0, count, width, origins, means, lanes);
      for (int64_t n = 0; n < kMany; ++n)
        FoldLanes(lanes + n * W * padded, count, padded,
                  partial.get() + (n * units + (o * tiles + t) * blocks + b) * padded_tile);
    }
  };
  parallel_with(units, 4 * RowGrain(work), bytes, run);
  for (int64_t i = 0; i < kMany * outer * tiles; ++i) {
    T* p = partial.get() + i * blocks * padded_tile;
    FoldBlocks(p, blocks, padded_tile);
    const int64_t n = i / (outer * tiles), t = i % tiles, o = i / tiles % outer;
    const int64_t width = std::min(tile, inner - t * tile);
    for (int64_t c = 0; c < width; ++c) finish[n](o * inner + t * tile + c, p[c]);
  }
}

// Sums of each kind, of an x of type S.
template <class S, Kind... kKinds>
void SumsOf(const KernelArgs& a, const pf_tensor& in, const pf_tensor* mean, int64_t dims,
            const Finish<S>* finish) {
  const ReducePlan plan = plan_reduction(in, dims, mean);
  const int64_t outs = plan.kept.count;
  if (outs == 0) return;
  if (plan.reduced.count == 0) {
    for (size_t i = 0; i < sizeof...(kKinds); ++i)
      for (int64_t o = 0; o < outs; ++o) finish[i](o, 0);
    return;
  }
  const S* x = static_cast<const S*>(in.data);
  const Values<S> m = mean ? Values<S>(*mean) : Values<S>();
  plan.columns() ? SumColumns<S, kKinds...>(x, m, plan, finish)
                 : SumRows<S, kKinds...>(x, m, plan, a.piece != nullptr, finish);
}

// Rows of up to so many bytes stay in a cache from one sum to the next.
constexpr int64_t kKeptRow = 256 << 10;

// All sums of a row, then those of the next. False where rows are too long, or too few.
template <class S>
bool MomentsOfRows(const KernelArgs& a) {
  using T = ComputeOf<S>;
  constexpr auto at = kernels::tensors<kernels::Moments>;
  constexpr auto number = kernels::numbers<kernels::Moments>;
  const pf_tensor& x = a.tensor(at.x);
  const ReducePlan plan = plan_reduction(x, a.i(number.dims), nullptr);
  const int64_t k = plan.reduced.count, outs = plan.kept.count, blocks = Row<S>::blocks(k);
  const bool kept = k <= Row<S>::kGroup * Row<S>::kBlock ||
                    (outs >= 64 && k * static_cast<int64_t>(sizeof(S)) <= kKeptRow);
  if (outs == 0 || k == 0 || plan.columns() || !(kept || a.piece)) return false;
  const Finish<S> total = FinishOf<S>(a, at.total, number.total),
                  differences = FinishOf<S>(a, at.differences, number.differences),
                  spread = FinishOf<S>(a, at.spread, number.spread);
  if (blocks == 1 && plan.rows()) {
    parallel_for(outs, 4 * RowGrain(k), [&](int64_t begin, int64_t end) {
      constexpr int64_t N = ShortRows<S>::kRows;
      ShortRows<S> rows(static_cast<const S*>(x.data), plan, begin, end, true);
      T sums[2 * N] = {}, means[N] = {};
      for (int64_t n; (n = rows.next()) > 0;) {
        if (a.has(at.total))
          SumTogether<S, Kind::Differences, Kind::Plain>(rows.at, k, rows.ahead, rows.origin, means,
                                                         sums);
        else
          SumTogether<S, Kind::Differences>(rows.at, k, rows.ahead, rows.origin, means, sums);
        for (int64_t i = 0; i < n; ++i) differences(rows.first + i, sums[i]);
        for (int64_t i = 0; i < n && a.has(at.total); ++i) total(rows.first + i, sums[N + i]);
        if (!a.has(at.spread)) continue;
        for (int64_t i = 0; i < n; ++i) means[i] = differences.out.get(rows.first + i);
        SumTogether<S, Kind::Spread>(rows.at, k, 0, rows.origin, means, sums);
        for (int64_t i = 0; i < n; ++i) spread(rows.first + i, sums[i]);
      }
    });
    return true;
  }
  const size_t packed = Row<S>::packed_bytes(plan);
  const auto run = [&](int64_t begin, int64_t end, char* memory) {
    T* const part = reinterpret_cast<T*>(memory + packed);
    for (int64_t o = begin; o < end; ++o) {
      const Row<S> r(static_cast<const S*>(x.data) + plan.kept.offset(o), plan,
                     reinterpret_cast<S*>(memory));
      const T origin = r.origin();
      if (a.has(at.total)) {
        r.template sum<Kind::Differences, Kind::Plain>(origin, 0, part);
        total(o, part[blocks]);
      } else {
        r.template sum<Kind::Differences>(origin, 0, part);
      }
      differences(o, part[0]);
      if (!a.has(at.spread)) continue;
      r.template sum<Kind::Spread>(origin, differences.out.get(o), part);
      spread(o, part[0]);
    }
  };
  parallel_with(outs, 4 * RowGrain(k), packed + Parts::bytes<T>(2 * blocks), run);
  return true;
}

// ---- in pieces
// ------------------------------------------------------------------------------------

// Calls fn<S, kind>() for what is added without looking at other elements.
template <class F>
void DispatchOwn(const KernelArgs& a, F&& fn) {
  dispatch_float(a.dtype(kAt.x), [&]<class S>() {
    switch (Kind{a.i(kNumber.kind)}) {
      case Kind::Squares:
        return fn.template operator()<S, Kind::Squares>();
      case Kind::Numbers:
        return fn.template operator()<S, Kind::Numbers>();
      default:
        return fn.template operator()<S, Kind::Plain>();
    }
  });
}

}  // namespace

void Sum(const KernelArgs& a) {
  dispatch_float(a.dtype(kAt.x), [&]<class S>() {
    const Finish<S> finish = FinishOf<S>(a, kAt.out, kNumber.divisor);
    const auto add = [&]<Kind kKind>() {
      SumsOf<S, kKind>(a, a.tensor(kAt.x), a.has(kAt.mean) ? &a.tensor(kAt.mean) : nullptr,
                       a.i(kNumber.dims), &finish);
    };
    switch (Kind{a.i(kNumber.kind)}) {
      case Kind::Squares:
        return add.template operator()<Kind::Squares>();
      case Kind::Differences:
        return add.template operator()<Kind::Differences>();
      case Kind::Spread:
        return add.template operator()<Kind::Spread>();
      case Kind::Numbers:
        return add.template operator()<Kind::Numbers>();
      default:
        return add.template operator()<Kind::Plain>();
    }
  });
}

void Moments(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::Moments>;
  constexpr auto number = kernels::numbers<kernels::Moments>;
  dispatch_float(a.dtype(at.x), [&]<class S>() {
    if (MomentsOfRows<S>(a)) return;
    const pf_tensor& x = a.tensor(at.x);
    const int64_t dims = a.i(number.dims);
    const Finish<S> differences = FinishOf<S>(a, at.differences, number.differences);
    if (a.has(at.total)) {
      const Finish<S> both[] = {FinishOf<S>(a, at.total, number.total), differences};
      SumsOf<S, Kind::Plain, Kind::Differences>(a, x, nullptr, dims, both);
    } else {
      SumsOf<S, Kind::Differences>(a, x, nullptr, dims, &differences);
    }
    if (!a.has(at.spread)) return;
    const Finish<S> spread = FinishOf<S>(a, at.spread, number.spread);
    SumsOf<S, Kind::Spread>(a, x, &a.tensor(at.differences), dims, &spread);
  });
}

// Rows of the tensor at x are some blocks each; their sums go to the workspace.
void SumBlocks(const KernelArgs& a) {
  DispatchOwn(a, [&]<class S, Kind kKind>() {
    using T = ComputeOf<S>;
    constexpr int64_t B = kSumBlock<S>;
    const int64_t n = numel(a.tensor(kAt.x));
    T* to = static_cast<T*>(a.piece->workspace) + CutReduction::kBlocks / B * a.piece->first_row;
    for (int64_t i = 0; i < n; i += B)
      to[i / B] = BlockSum<S, kKind>(a.data<S>(kAt.x) + i, std::min(B, n - i), T(0), T(0));
  });
}
void FinishBlocks(const KernelArgs& a) {
  dispatch_float(a.dtype(kAt.x), [&]<class S>() {
    using T = ComputeOf<S>;
    const int64_t outs = numel(a.tensor(kAt.out)), k = numel(a.tensor(kAt.x)) / outs;
    const int64_t blocks = (k + kSumBlock<S> - 1) / kSumBlock<S>;
    auto* partial = static_cast<T*>(a.piece->workspace);
    const Finish<S> finish = FinishOf<S>(a, kAt.out, kNumber.divisor);
    for (int64_t o = 0; o < outs; ++o)
      finish(o, tree(partial + o * blocks, blocks, 1, [](T p, T q) { return p + q; }));
  });
}

// Rows of a block come in order and to one thread, which has a table of lanes.
void SumOfColumns(const KernelArgs& a) {
  DispatchOwn(a, [&]<class S, Kind kKind>() {
    using T = ComputeOf<S>;
    constexpr int64_t W = Wide<T>::kLanes, B = kSumBlock<S>, kTile = 1024;
    const pf_tensor& x = a.tensor(kAt.x);
    const int64_t rows = x.shape[0], columns = x.shape[1], padded = (columns + W - 1) / W * W;
    T* const lanes = reinterpret_cast<T*>(a.piece->scratch);
    Axes reduced;
    reduced.add(rows, columns, 0);
    for (int64_t r = 0, count = 0; r < rows; r += count) {
      const int64_t block = (a.piece->first_row + r) / B, from = (a.piece->first_row + r) % B;
      const int64_t of_block = std::min(B, a.piece->rows - block * B);
      count = std::min(rows - r, of_block - from);
      T* sums = static_cast<T*>(a.piece->workspace) + block * padded;
      for (int64_t c = 0; c < columns; c += kTile) {
        const int64_t width = std::min(kTile, columns - c);
        AddRows<S, kKind>(a.data<S>(kAt.x) + c, reduced, r, from, count, width, nullptr, nullptr,
                          lanes + W * c);
        if (from + count == of_block)
          FoldLanes(lanes + W * c, of_block, (width + W - 1) / W * W, sums + c);
      }
    }
  });
}
void FinishColumns(const KernelArgs& a) {
  dispatch_float(a.dtype(kAt.x), [&]<class S>() {
    using T = ComputeOf<S>;
    constexpr int64_t W = Wide<T>::kLanes, B = kSumBlock<S>;
    const int64_t columns = numel(a.tensor(kAt.out)), padded = (columns + W - 1) / W * W;
    auto* sums = static_cast<T*>(a.piece->workspace);
    FoldBlocks(sums, (a.piece->rows + B - 1) / B, padded);
    const Finish<S> finish = FinishOf<S>(a, kAt.out, kNumber.divisor);
    for (int64_t c = 0; c < columns; ++c) finish(c, sums[c]);
  });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
HWY_EXPORT(Sum);
HWY_EXPORT(Moments);
HWY_EXPORT(SumBlocks);
HWY_EXPORT(FinishBlocks);
HWY_EXPORT(SumOfColumns);
HWY_EXPORT(FinishColumns);
namespace {

void sum(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(Sum)(a);
}
void moments(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(Moments)(a);
}
// Whole reductions, each a row.
template <class K>
void of_rows(const KernelArgs& a) {
  pf_scalar attrs[kernels::kCount<K::template Numbers>];
  std::copy_n(a.attrs, a.nattrs, attrs);
  attrs[kernels::numbers<K>.dims] = {2, 2};
  KernelArgs rows = a;
  rows.attrs = attrs;
  std::is_same_v<K, kernels::Sum> ? sum(rows) : moments(rows);
}
void sum_blocks(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(SumBlocks)(a);
}
void finish_blocks(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(FinishBlocks)(a);
}
void sum_of_columns(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(SumOfColumns)(a);
}
void finish_columns(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(FinishColumns)(a);
}

Pieces moments_pieces(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::Moments>;
  const CutReduction c(a.tensor(at.x), at.x, at.differences,
                       a.i(kernels::numbers<kernels::Moments>.dims), false);
  Pieces p = c.pieces;
  for (int out : {at.total, at.spread}) p.per_row[out] = a.has(out);
  p.run = of_rows<kernels::Moments>;
  return p;
}

Pieces sum_pieces(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::Sum>;
  constexpr auto number = kernels::numbers<kernels::Sum>;
  const SumKind kind{a.i(number.kind)};
  const bool mean = a.has(at.mean);
  const pf_tensor& x = a.tensor(at.x);
  const CutReduction c(x, at.x, at.out, a.i(number.dims),
                       kind != SumKind::Differences && kind != SumKind::Spread);
  if (mean && !contiguous(a.tensor(at.mean))) return {};
  Pieces p = c.pieces;
  const int64_t item = x.dtype == static_cast<uint8_t>(DType::Float64) ? 8 : 4;
  const int64_t lanes = 64 / item, blocks = (c.k + 64 * lanes - 1) / (64 * lanes);
  const int64_t padded = (c.outs + lanes - 1) / lanes * lanes;
  const auto bytes = [item](int64_t n) { return static_cast<size_t>(n * item + 63) / 64 * 64; };
  if (c.cut == Cut::Rows) {
    p.per_row[at.mean] = mean;
    p.run = of_rows<kernels::Sum>;
  } else if (c.cut == Cut::Blocks) {
    p.workspace = bytes(c.outs * blocks);
    p.run = sum_blocks;
    p.finish = finish_blocks;
  } else {  // a table of lanes that the second cache holds
    p.workspace = bytes(blocks * padded);
    p.scratch = bytes(lanes * padded);
    p.run = sum_of_columns;
    p.finish = finish_columns;
  }
  return p;
}
}  // namespace
PF_CPU_KERNEL(kernels::Sum::kInfo, sum, sum_pieces)
PF_CPU_KERNEL(kernels::Moments::kInfo, moments, moments_pieces)
}  // namespace pyflame::cpu
#endif  // HWY_ONCE
