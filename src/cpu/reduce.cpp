// Reductions of floating-point numbers: sums, plain, without NaN and of squares; products and
// extremes; sums of differences and their squares (moments); several at once, over one reading of
// what they are of. All layouts keep the order of reduce_blocks-inl.h: rows in registers, columns
// with a table of lanes for every column, anything else packed block by block.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/reduce.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "cpu/kernel.h"
#include "cpu/reduce_blocks-inl.h"
#include "cpu/reduce_cut.h"
#include "cpu/threads.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {

constexpr auto kAt = kernels::tensors<kernels::Sum>;
constexpr auto kNumber = kernels::numbers<kernels::Sum>;

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
  explicit operator bool() const { return data_ != nullptr; }
  HWY_INLINE void put(int64_t i, const Wide<T>& v, int64_t n) const {
    wide_ ? put(v, static_cast<T*>(data_) + i, n) : put(v, static_cast<S*>(data_) + i, n);
  }

 private:
  template <class To>
  HWY_INLINE static void put(const Wide<T>& v, To* to, int64_t n) {
    n == Wide<T>::kLanes ? Store(v, to) : StorePart(v, to, n);
  }
  void* data_ = nullptr;
  bool wide_ = true;
};

// Where results go, and what is done to them at the end.
template <class S>
struct Finish {
  Values<S> out;
  ComputeOf<S> divisor;
  // Of results from o on.
  HWY_NOINLINE void operator()(int64_t o, const ComputeOf<S>* totals, int64_t n) const {
    using T = ComputeOf<S>;
    for (int64_t i = 0, some; i < n; i += some) {
      some = std::min(Wide<T>::kLanes, n - i);
      out.put(o + i, LoadPart(totals + i, some, T(0)) / Fill(divisor), some);
    }
  }
};
template <class S>
Finish<S> FinishOf(const KernelArgs& a, int out, int divisor) {
  return {Values<S>(a.tensor(out)), static_cast<ComputeOf<S>>(a.f(divisor))};
}

// Reductions at once, over tensors that lie alike. What they have of blocks lies in planes, one
// each; moments have squares behind it, and a third one.
template <class S>
struct Sums {
  using T = ComputeOf<S>;
  static constexpr int kMost = kernels::kMostReductions;
  int n = 0, planes = 0;
  const Made<S>* ops[kMost];
  const S* x[kMost];
  int plane[kMost];
  Finish<S> finish[kMost];
  bool moments = false;
  Finish<S> spread{};  // of moments, if it is wanted; finish is of the mean, if that is
  Values<S> mean;      // else

  void add(Kind kind, const void* of, const Finish<S>& to) {
    ops[n] = made_of<S>(kind);
    x[n] = static_cast<const S*>(of);
    finish[n] = to;
    plane[n] = planes;
    planes += ops[n]->moments ? 3 : 1;
    moments = moments || ops[n++]->moments;
  }
  // Of the i-th: `many` results of a block each, or one of several, from o on. These are in planes,
  // which are `apart`.
  void end(int i, int64_t o, int64_t many, const ReducePlan& plan, T* p, int64_t apart) const {
    constexpr int64_t kBlock = kSumBlock<S>;
    const int64_t k = plan.reduced.count, blocks = (k + kBlock - 1) / kBlock;
    const auto whole = [&](T* of) {
      if (blocks > 1) tree(of, blocks, 1, ops[i]->join);
      return of;
    };
    if (!ops[i]->moments) return finish[i](o, whole(p), many);
    T *const squares = p + apart, *const all = squares + apart;
    std::copy_n(p, std::max(many, blocks), all);
    if (finish[i].out) finish[i](o, whole(all), many);
    if (!spread.out) return;
    for (int64_t r = 0; r < many; ++r)
      all[r] = finish[i].out ? finish[i].out.get(o + r) : mean.get(plan.kept.other_offset(o + r));
    const T m = all[0];
    if (blocks == 1)
      for (int64_t r = 0; r < many; ++r)
        squares[r] = about(all[r], p[r], squares[r], static_cast<T>(k));
    else
      for (int64_t b = 0; b < blocks; ++b)
        squares[b] = about(m, p[b], squares[b], static_cast<T>(std::min(kBlock, k - b * kBlock)));
    spread(o, whole(squares), many);
  }
  // Squares of n elements about m, of those about their own mean.
  static T about(T m, T sum, T squares, T n) {
    const T d = sum / n - m;
    return squares + n * (d * d);
  }
};

// `whole`: rows are summed by one thread each, however long: a piece has no memory for their
// blocks, and is in a cache.
template <class S>
void SumRows(const Sums<S>& sums, const ReducePlan& plan, bool whole) {
  using T = ComputeOf<S>;
  constexpr int64_t kBlock = kSumBlock<S>, kGroup = 4, kLongest = kGroup * kBlock;
  const int64_t k = plan.reduced.count, outs = plan.kept.count;
  const int64_t blocks = (k + kBlock - 1) / kBlock, groups = (blocks + kGroup - 1) / kGroup;
  const bool rows = plan.rows();
  const auto beside = [&](int64_t ahead, int i) { return Beside{whole ? 0 : ahead, i, sums.n}; };
  if (blocks == 1 && rows) {
    // Several find as many rows as that in the first cache.
    const int64_t turn =
        sums.n == 1 ? kRows<T> : std::clamp<int64_t>(kLongest / k, kGroup, kRows<T>);
    const int64_t ahead = plan.kept.n > 0 ? 2 * turn * plan.kept.stride[plan.kept.n - 1] : 0;
    parallel_for(outs, 4 * RowGrain(k), [&](int64_t begin, int64_t end) {
      Odometer where(plan.kept, begin);
      T part[Sums<S>::kMost * kRows<T>], origin[kRows<T>] = {};
      int64_t offset[kRows<T>];
      const S* at[kRows<T>];
      for (int64_t o = begin, many; o < end; o += many) {
        many = std::min(turn, end - o);
        for (int64_t r = 0; r < many; ++r, where.next()) offset[r] = where.offset();
        for (int i = 0; i < sums.n; ++i) {
          for (int64_t r = 0; r < many; ++r) {
            at[r] = sums.x[i] + offset[r];
            if (sums.moments) origin[r] = ToCompute(at[r][0]);
          }
          T* const to = part + sums.plane[i] * kRows<T>;
          sums.ops[i]->blocks(at, many, k, origin, beside(ahead, i), to, to + kRows<T>);
          sums.end(i, o, many, plan, to, kRows<T>);
        }
      }
    });
    return;
  }
  // The sums of the blocks of group g of row o; those that do not lie side by side are packed.
  const auto group = [&](int64_t o, int64_t g, S* packed, T* to, int64_t apart) {
    const int64_t first = g * kLongest, n = std::min(k - first, kLongest), full = n / kBlock;
    const int64_t offset = plan.kept.offset(o);
    for (int i = 0; i < sums.n; ++i) {
      const S* const row = sums.x[i] + offset;
      if (!rows && (i == 0 || sums.x[i] != sums.x[i - 1]))
        pack(row, plan.reduced, first, n, packed);
      const S *const from = rows ? row + first : packed, *at[kGroup];
      T origin[kGroup], *const sum = to + sums.plane[i] * apart;
      for (int64_t b = 0; b < kGroup; ++b) {
        at[b] = from + b * kBlock;
        origin[b] = ToCompute(row[0]);
      }
      const auto add = [&](int64_t b, int64_t many, int64_t of) {
        sums.ops[i]->blocks(at + b, many, of, origin, beside(rows ? kLongest : 0, i), sum + b,
                            sum + apart + b);
      };
      if (full > 0) add(0, full, kBlock);
      if (n > full * kBlock) add(full, 1, n - full * kBlock);
    }
  };
  const size_t bytes = rows ? 0 : Parts::bytes<S>(std::min(k, kLongest));
  if (groups <= 1 || whole) {
    parallel_with(outs, 4 * RowGrain(k), bytes, [&](int64_t begin, int64_t end, char* memory) {
      T part[Sums<S>::kMost * kLongestRow];
      for (int64_t o = begin; o < end; ++o) {
        for (int64_t g = 0; g < groups; ++g)
          group(o, g, reinterpret_cast<S*>(memory), part + g * kGroup, kLongestRow);
        for (int i = 0; i < sums.n; ++i)
          sums.end(i, o, 1, plan, part + sums.plane[i] * kLongestRow, kLongestRow);
      }
    });
    return;
  }
  const Scratch<T> partial(sums.planes * outs * blocks);
  parallel_with(outs * groups, 8, bytes, [&](int64_t begin, int64_t end, char* memory) {
    for (int64_t u = begin; u < end; ++u)
      group(u / groups, u % groups, reinterpret_cast<S*>(memory),
            partial.get() + u / groups * blocks + u % groups * kGroup, outs * blocks);
  });
  for (int i = 0; i < sums.n; ++i)
    for (int64_t o = 0; o < outs; ++o)
      sums.end(i, o, 1, plan, partial.get() + (sums.plane[i] * outs + o) * blocks, outs * blocks);
}

template <class S>
void SumColumns(const Sums<S>& sums, const ReducePlan& plan) {
  using T = ComputeOf<S>;
  constexpr int64_t W = Wide<T>::kLanes, B = kSumBlock<S>;
  const int64_t k = plan.reduced.count, inner = plan.inner(), outer = plan.kept.count / inner;
  const int64_t blocks = (k + B - 1) / B, planes = sums.planes;
  // Several find so many rows of a tile in a cache.
  const int64_t tile = 1024, rows = sums.n == 1 ? B : 4 * W;
  const int64_t ahead = 4 * W * plan.reduced.stride[plan.reduced.n - 1];
  const int64_t tiles = (inner + tile - 1) / tile, units = outer * tiles * blocks;
  const int64_t padded_tile = (std::min(tile, inner) + W - 1) / W * W, apart = units * padded_tile;
  const Scratch<T> partial(planes * apart);
  const int64_t work = sums.n * std::min(k, B) * std::min(tile, inner);
  const int64_t for_origins = sums.moments ? padded_tile : 0;
  const size_t bytes = Parts::bytes<T>(planes * W * padded_tile) + Parts::bytes<T>(for_origins);
  const auto run = [&](int64_t begin, int64_t end, char* memory) {
    Parts parts(memory);
    T* const lanes = parts.take<T>(planes * W * padded_tile);
    T* const origins = parts.take<T>(for_origins);
    for (int64_t u = begin; u < end; ++u) {
      // Neighbouring units are tiles of the same rows.
      const int64_t t = u % tiles, b = u / tiles % blocks, o = u / tiles / blocks;
      const int64_t first = o * inner + t * tile, width = std::min(tile, inner - t * tile);
      const int64_t padded = (width + W - 1) / W * W, at = plan.kept.offset(first);
      for (int64_t c = 0; c < for_origins; ++c)
        origins[c] = c < width ? ToCompute(sums.x[0][at + c]) : T(0);
      const int64_t count = std::min(B, k - b * B);
      for (int64_t from = 0; from < count; from += rows)
        for (int i = 0; i < sums.n; ++i)
          sums.ops[i]->add_rows(
              sums.x[i] + at, plan.reduced, b * B + from, from, std::min(rows, count - from), width,
              origins, {sums.n > 1 ? ahead : 0, i, sums.n}, lanes + sums.plane[i] * W * padded);
      for (int i = 0; i < sums.n; ++i) {
        T* const to =
            partial.get() + sums.plane[i] * apart + ((o * tiles + t) * blocks + b) * padded_tile;
        sums.ops[i]->fold_lanes(lanes + sums.plane[i] * W * padded, count, padded, to, to + apart);
      }
    }
  };
  parallel_with(units, 4 * RowGrain(work), bytes, run);
  for (int64_t u = 0; u < outer * tiles; ++u) {
    const int64_t first = u / tiles * inner + u % tiles * tile;
    const int64_t width = std::min(tile, inner - u % tiles * tile), size = blocks * padded_tile;
    for (int i = 0; i < sums.n; ++i) {
      const Made<S>& op = *sums.ops[i];
      T* const p = partial.get() + sums.plane[i] * apart + u * size;
      T *const squares = p + apart, *const all = op.moments ? squares + apart : p;
      if (op.moments) std::copy_n(p, size, all);
      op.fold_blocks(all, blocks, padded_tile);
      const Finish<S>& finish = sums.finish[i];
      if (finish.out) finish(first, all, width);
      if (!op.moments || !sums.spread.out) continue;
      for (int64_t c = 0; c < width; ++c)
        all[c] = finish.out ? finish.out.get(first + c)
                            : sums.mean.get(plan.kept.other_offset(first + c));
      for (int64_t b = 0; b < blocks; ++b) {
        const T n = static_cast<T>(std::min(B, k - b * B));
        for (int64_t c = 0; c < width; ++c) {
          T& s = squares[b * padded_tile + c];
          s = sums.about(all[c], p[b * padded_tile + c], s, n);
        }
      }
      op.fold_blocks(squares, blocks, padded_tile);
      sums.spread(first, squares, width);
    }
  }
}

// Of tensors that lie as `in` does.
template <class S>
void SumsOf(const KernelArgs& a, const Sums<S>& sums, const pf_tensor& in, const pf_tensor* mean,
            int64_t dims) {
  using T = ComputeOf<S>;
  const ReducePlan plan = plan_reduction(in, dims, mean);
  const int64_t outs = plan.kept.count;
  if (outs == 0) return;
  if (plan.reduced.count == 0) {
    const T none = 0;
    for (int64_t o = 0; o < outs; ++o) {
      for (int i = 0; i < sums.n; ++i)
        if (sums.finish[i].out) sums.finish[i](o, &sums.ops[i]->start, 1);
      if (sums.spread.out) sums.spread(o, &none, 1);
    }
    return;
  }
  plan.columns() ? SumColumns(sums, plan) : SumRows(sums, plan, a.piece != nullptr);
}

}  // namespace

void Sum(const KernelArgs& a) {
  dispatch_float(a.dtype(kAt.x), [&]<class S>() {
    const Kind kind{a.i(kNumber.kind)};
    const Finish<S> finish = FinishOf<S>(a, kAt.out, kNumber.divisor);
    const pf_tensor* const mean = a.has(kAt.mean) ? &a.tensor(kAt.mean) : nullptr;
    Sums<S> sums;
    sums.add(kind, a.tensor(kAt.x).data, kind == Kind::Spread ? Finish<S>{} : finish);
    if (kind == Kind::Spread) sums.spread = finish, sums.mean = Values<S>(*mean);
    SumsOf(a, sums, a.tensor(kAt.x), mean, a.i(kNumber.dims));
  });
}

void Moments(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::Moments>;
  constexpr auto number = kernels::numbers<kernels::Moments>;
  dispatch_float(a.dtype(at.x), [&]<class S>() {
    const pf_tensor& x = a.tensor(at.x);
    Sums<S> sums;
    if (a.has(at.total)) sums.add(Kind::Plain, x.data, FinishOf<S>(a, at.total, number.total));
    sums.add(Kind::Spread, x.data, FinishOf<S>(a, at.differences, number.differences));
    if (a.has(at.spread)) sums.spread = FinishOf<S>(a, at.spread, number.spread);
    SumsOf(a, sums, x, nullptr, a.i(number.dims));
  });
}

void ReductionsOf(const KernelArgs& a) {
  using namespace kernels;
  constexpr int kOut = tensors<Reductions>.a, kX = tensors<Reductions>.x;
  constexpr int kWhat = numbers<Reductions>.a, kBy = numbers<Reductions>.a_by;
  dispatch_float(a.dtype(kX), [&]<class S>() {
    Sums<S> sums;
    for (int i = 0; i < kMostReductions; ++i) {
      if (!a.has(kOut + i)) continue;
      const int64_t what = a.i(kWhat + i);
      sums.add(what_of(what), a.tensor(kX + tensor_of(what)).data,
               FinishOf<S>(a, kOut + i, kBy + i));
    }
    SumsOf(a, sums, a.tensor(kX), nullptr, a.i(numbers<Reductions>.dims));
  });
}

void FindExtremeInRow(DType t, bool largest, const void* x, int64_t n, void* best, int64_t* place) {
  dispatch_float(t, [&]<class S>() {
    auto* const to = static_cast<ComputeOf<S>*>(best);
    largest ? FindInRow<S, true>(static_cast<const S*>(x), n, to, place)
            : FindInRow<S, false>(static_cast<const S*>(x), n, to, place);
  });
}

// ---- in pieces ----------------------------------------------------------------------------------

// Rows of the tensor at x are some blocks each; their sums go to the workspace.
void SumBlocks(const KernelArgs& a) {
  dispatch_float(a.dtype(kAt.x), [&]<class S>() {
    using T = ComputeOf<S>;
    constexpr int64_t B = kSumBlock<S>;
    const Made<S>& op = *made_of<S>(Kind{a.i(kNumber.kind)});
    const int64_t n = numel(a.tensor(kAt.x));
    const S* const x = a.data<S>(kAt.x);
    T* to = static_cast<T*>(a.piece->workspace) + CutReduction::kBlocks / B * a.piece->first_row;
    constexpr T kNone[4] = {};
    for (int64_t i = 0, many; i < n; i += many * B, to += many) {
      many = std::clamp<int64_t>((n - i) / B, 1, 4);
      const S* const at[] = {x + i, x + i + B, x + i + 2 * B, x + i + 3 * B};
      op.blocks(at, many, std::min(B, n - i), kNone, {}, to, nullptr);
    }
  });
}
void FinishBlocks(const KernelArgs& a) {
  dispatch_float(a.dtype(kAt.x), [&]<class S>() {
    using T = ComputeOf<S>;
    const int64_t outs = numel(a.tensor(kAt.out)), k = numel(a.tensor(kAt.x)) / outs;
    const int64_t blocks = (k + kSumBlock<S> - 1) / kSumBlock<S>;
    auto* partial = static_cast<T*>(a.piece->workspace);
    const Finish<S> finish = FinishOf<S>(a, kAt.out, kNumber.divisor);
    for (int64_t o = 0; o < outs; ++o) {
      const T total =
          tree(partial + o * blocks, blocks, 1, made_of<S>(Kind{a.i(kNumber.kind)})->join);
      finish(o, &total, 1);
    }
  });
}

// Rows of a block come in order and to one thread, which has a table of lanes.
void SumOfColumns(const KernelArgs& a) {
  dispatch_float(a.dtype(kAt.x), [&]<class S>() {
    using T = ComputeOf<S>;
    const Made<S>& op = *made_of<S>(Kind{a.i(kNumber.kind)});
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
        op.add_rows(a.data<S>(kAt.x) + c, reduced, r, from, count, width, nullptr, {},
                    lanes + W * c);
        if (from + count == of_block)
          op.fold_lanes(lanes + W * c, of_block, (width + W - 1) / W * W, sums + c, nullptr);
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
    made_of<S>(Kind{a.i(kNumber.kind)})->fold_blocks(sums, (a.piece->rows + B - 1) / B, padded);
    const Finish<S> finish = FinishOf<S>(a, kAt.out, kNumber.divisor);
    finish(0, sums, columns);
  });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
HWY_EXPORT(Sum);
HWY_EXPORT(Moments);
HWY_EXPORT(ReductionsOf);
HWY_EXPORT(FindExtremeInRow);
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

// Extremes and products of floats are sums of their kind.
template <SumKind kKind>
KernelArgs as_sum(const KernelArgs& a, pf_scalar* attrs) {
  constexpr auto of = kernels::numbers<kernels::Sum>;
  attrs[of.dims] = a.attrs[kernels::numbers<kernels::SumInt>.dims];
  attrs[of.kind].i = static_cast<int64_t>(kKind);
  attrs[of.divisor].f = 1;
  KernelArgs b = a;
  b.attrs = attrs;
  b.nattrs = kernels::kCount<kernels::Sum::Numbers>;
  return b;
}
template <SumKind kKind, KernelFn kRun>
void as(const KernelArgs& a) {
  pf_scalar attrs[kernels::kCount<kernels::Sum::Numbers>]{};
  kRun(as_sum<kKind>(a, attrs));
}
template <SumKind kKind>
void one_of(const KernelArgs& a) {
  is_float(a.dtype(kernels::tensors<kernels::Sum>.x)) ? as<kKind, sum>(a)
                                                      : integer_reduction(kKind).run(a);
}
template <SumKind kKind>
Pieces one_of_pieces(const KernelArgs& a) {
  if (!is_float(a.dtype(kernels::tensors<kernels::Sum>.x)))
    return integer_reduction(kKind).pieces(a);
  pf_scalar attrs[kernels::kCount<kernels::Sum::Numbers>]{};
  Pieces p = sum_pieces(as_sum<kKind>(a, attrs));
  if (p.run == of_rows<kernels::Sum>) p.run = as<kKind, of_rows<kernels::Sum>>;
  if (p.run == sum_blocks) p.run = as<kKind, sum_blocks>, p.finish = as<kKind, finish_blocks>;
  if (p.run == sum_of_columns)
    p.run = as<kKind, sum_of_columns>, p.finish = as<kKind, finish_columns>;
  return p;
}
}  // namespace
PF_CPU_KERNEL(kernels::Sum::kInfo, sum, sum_pieces)
PF_CPU_KERNEL(kernels::Moments::kInfo, moments, moments_pieces)
PF_CPU_KERNEL(kernels::Prod::kInfo, one_of<kernels::kProduct>, one_of_pieces<kernels::kProduct>)
PF_CPU_KERNEL(kernels::Amax::kInfo, one_of<kernels::kLargest>, one_of_pieces<kernels::kLargest>)
PF_CPU_KERNEL(kernels::Amin::kInfo, one_of<kernels::kSmallest>, one_of_pieces<kernels::kSmallest>)

void find_in_row(DType t, bool largest, const void* x, int64_t n, void* best, int64_t* place) {
  HWY_DYNAMIC_DISPATCH(FindExtremeInRow)(t, largest, x, n, best, place);
}
void reductions_of_floats(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(ReductionsOf)(a);
}
}  // namespace pyflame::cpu
#endif  // HWY_ONCE
