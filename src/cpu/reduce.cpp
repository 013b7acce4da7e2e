// Sums of floating-point numbers, plain and of squared differences (variance, norms). Order: a
// block is 64 vectors of 64 bytes, and element k of it goes to lane k mod 16 (float64: 8); lanes
// are added in halves, blocks in a tree. All layouts keep it: rows in registers (four blocks at a
// time), columns with a table of lanes for every column, anything else packed block by block.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/reduce.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "cpu/kernel.h"
#include "cpu/reduce_plan.h"
#include "cpu/rows-inl.h"
#include "cpu/threads.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {

// A lane adds 64 elements: a block is 64 vectors.
template <class S>
inline constexpr int64_t kSumBlock = 64 * Wide<ComputeOf<S>>::kLanes;

// The sums of kCount blocks side by side; only a single block may be shorter than the rest.
template <class S, bool kSquare, int kCount>
HWY_INLINE void BlockSums(const S* x, int64_t n, ComputeOf<S> mean, ComputeOf<S>* out) {
  using T = ComputeOf<S>;
  constexpr int64_t W = Wide<T>::kLanes;
  const Wide<T> m = Fill(mean);
  Wide<T> s[kCount];
  for (auto& w : s) w = Fill(T(0));
  const auto term = [&](const Wide<T>& v) PF_INLINE {
    if constexpr (kSquare) {
      const Wide<T> d = v - m;
      return d * d;
    } else {
      return v;
    }
  };
  int64_t i = 0;
  for (; i + W <= n; i += W)
    for (int b = 0; b < kCount; ++b) s[b] = s[b] + term(Load(x + b * kSumBlock<S> + i));
  if (kCount == 1 && i < n) s[0] = s[0] + term(LoadPart(x + i, n - i, mean));
  for (int b = 0; b < kCount; ++b) out[b] = SumOf(s[b]);
}

// Where sums go, and what is done to them at the end.
template <class S>
struct Finish {
  S* out;
  ComputeOf<S> divisor;
  bool divide;
  void operator()(int64_t o, ComputeOf<S> total) const {
    StoreOne(divide ? total / divisor : total, out + o);
  }
};

template <class S, bool kSquare>
void SumRows(const S* x, const S* mean, const ReducePlan& plan, const Finish<S>& finish) {
  using T = ComputeOf<S>;
  constexpr int64_t B = kSumBlock<S>, kGroup = 4;
  const int64_t k = plan.reduced.count, outs = plan.kept.count;
  const int64_t blocks = (k + B - 1) / B, groups = (blocks + kGroup - 1) / kGroup;
  const bool rows = plan.rows();
  // The sums of the blocks of one group to `to`.
  const auto group_sums = [&](int64_t o, int64_t g, S* packed, T* to) {
    const S* row = x + plan.kept.offset(o);
    const T m = kSquare && mean ? ToCompute(mean[plan.kept.other_offset(o)]) : T(0);
    const int64_t first = g * kGroup * B, n = std::min(k - first, kGroup * B);
    const S* from = row + first;
    if (!rows) {
      pack(row, plan.reduced, first, n, packed);
      from = packed;
    }
    if (n == kGroup * B) return BlockSums<S, kSquare, kGroup>(from, B, m, to);
    for (int64_t i = 0; i < n; i += B)
      BlockSums<S, kSquare, 1>(from + i, std::min(B, n - i), m, to + i / B);
  };
  const auto plus = [](T p, T q) { return p + q; };
  const int64_t packed_size = rows ? 0 : std::min(k, kGroup * B);
  if (groups <= 1) {
    parallel_for(outs, 4 * RowGrain(k), [&](int64_t begin, int64_t end) {
      Scratch<S> packed(packed_size);
      for (int64_t o = begin; o < end; ++o) {
        T part[kGroup];
        group_sums(o, 0, packed.get(), part);
        finish(o, tree(part, blocks, 1, plus));
      }
    });
    return;
  }
  Scratch<T> partial(outs * blocks);
  parallel_for(outs * groups, 8, [&](int64_t begin, int64_t end) {
    Scratch<S> packed(packed_size);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t o = i / groups, g = i % groups;
      group_sums(o, g, packed.get(), partial.get() + o * blocks + g * kGroup);
    }
  });
  for (int64_t o = 0; o < outs; ++o) finish(o, tree(partial.get() + o * blocks, blocks, 1, plus));
}

// One tile of columns over one block of rows: lanes[k mod W][column].
template <class S, bool kSquare>
void ColumnBlock(const S* x, const Axes& reduced, int64_t first, int64_t count, int64_t width,
                 const ComputeOf<S>* mean, ComputeOf<S>* lanes, ComputeOf<S>* out) {
  using T = ComputeOf<S>;
  constexpr int64_t W = Wide<T>::kLanes;
  const int64_t padded = (width + W - 1) / W * W;
  Odometer where(reduced, first);
  for (int64_t k = 0; k < count; ++k) {
    const S* row = x + where.offset();
    where.next();
    T* lane = lanes + k % W * padded;
    const auto add = [&](int64_t c, Wide<T> v) PF_INLINE {
      if constexpr (kSquare) {
        v = v - Load(mean + c);
        v = v * v;
      }
      Store(v + (k < W ? Fill(T(0)) : Load(lane + c)), lane + c);
    };
    int64_t c = 0;
    if (k < W)
      for (; c + W <= width; c += W) add(c, Load(row + c));
    else
      for (; c + W <= width; c += W) {
        Wide<T> v = Load(row + c);
        if constexpr (kSquare) {
          v = v - Load(mean + c);
          v = v * v;
        }
        Store(v + Load(lane + c), lane + c);
      }
    if (c < width) add(c, LoadPart(row + c, width - c, T(0)));
  }
  // The same tree as over the lanes of a row; lanes that took nothing are skipped.
  for (int64_t c = 0; c < padded; c += W) {
    int64_t n = std::min(count, W);
    for (int64_t h = W / 2; h >= 1; h /= 2) {
      for (int64_t l = 0; l + h < n; ++l) {
        if (l >= h) break;
        T* q = lanes + l * padded + c;
        Store(Load(q) + Load(q + h * padded), q);
      }
      n = std::min(n, h);
    }
    Store(Load(lanes + c), out + c);
  }
}

template <class S, bool kSquare>
void SumColumns(const S* x, const S* mean, const ReducePlan& plan, const Finish<S>& finish) {
  using T = ComputeOf<S>;
  constexpr int64_t W = Wide<T>::kLanes, B = kSumBlock<S>;
  const int64_t k = plan.reduced.count, inner = plan.inner(), outer = plan.kept.count / inner;
  const int64_t blocks = (k + B - 1) / B;
  const int64_t tile = 32768 / 64;  // lanes of a tile take 32 KB: they stay in L1
  const int64_t tiles = (inner + tile - 1) / tile;
  const int64_t padded_tile = (std::min(tile, inner) + W - 1) / W * W;
  Scratch<T> partial(outer * tiles * blocks * padded_tile);
  const int64_t work = std::min(k, B) * std::min(tile, inner);
  parallel_for(outer * tiles * blocks, 4 * RowGrain(work), [&](int64_t begin, int64_t end) {
    Scratch<T> lanes(W * padded_tile), means(kSquare ? padded_tile : 0);
    for (int64_t i = begin; i < end; ++i) {
      // Neighbouring units are tiles of the same rows.
      const int64_t t = i % tiles, b = i / tiles % blocks, o = i / tiles / blocks;
      const int64_t first = o * inner + t * tile, width = std::min(tile, inner - t * tile);
      if constexpr (kSquare)
        for (int64_t c = 0; c < padded_tile; ++c)
          means.get()[c] =
              mean && c < width ? ToCompute(mean[plan.kept.other_offset(first + c)]) : T(0);
      ColumnBlock<S, kSquare>(x + plan.kept.offset(first), plan.reduced, b * B,
                              std::min(B, k - b * B), width, means.get(), lanes.get(),
                              partial.get() + ((o * tiles + t) * blocks + b) * padded_tile);
    }
  });
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t t = 0; t < tiles; ++t) {
      T* p = partial.get() + (o * tiles + t) * blocks * padded_tile;
      const int64_t width = std::min(tile, inner - t * tile);
      for (int64_t c = 0; c < width; ++c)
        finish(o * inner + t * tile + c,
               tree(p + c, blocks, padded_tile, [](T a, T b) { return a + b; }));
    }
}

// attrs: mask of reduced dimensions, squares?, divide by the count?; tensors: out, x, mean or none.
template <class S>
void SumOfType(const KernelArgs& a) {
  using T = ComputeOf<S>;
  const pf_tensor& in = a.tensor(1);
  const pf_tensor* mean = a.has(2) ? &a.tensor(2) : nullptr;
  const ReducePlan plan = plan_reduction(in, a.i(0), mean);
  const Finish<S> finish{a.data<S>(0), static_cast<T>(plan.reduced.count), a.i(2) != 0};
  if (plan.kept.count == 0) return;
  if (plan.reduced.count == 0) {
    for (int64_t o = 0; o < plan.kept.count; ++o) finish(o, T(0));
    return;
  }
  const S* x = static_cast<const S*>(in.data);
  const S* m = mean ? static_cast<const S*>(mean->data) : nullptr;
  const bool columns = plan.columns();
  if (a.i(1) != 0)
    columns ? SumColumns<S, true>(x, m, plan, finish) : SumRows<S, true>(x, m, plan, finish);
  else
    columns ? SumColumns<S, false>(x, m, plan, finish) : SumRows<S, false>(x, m, plan, finish);
}

}  // namespace

void Sum(const KernelArgs& a) {
  switch (a.dtype(1)) {
    case DType::Float32:
      return SumOfType<float>(a);
    case DType::Float64:
      return SumOfType<double>(a);
    case DType::BFloat16:
      return SumOfType<bfloat16>(a);
    case DType::Float16:
      return SumOfType<float16>(a);
    default:
      return;
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
HWY_EXPORT(Sum);
namespace {
void sum(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(Sum)(a);
}
}  // namespace
PF_CPU_KERNEL("sum", sum)
}  // namespace pyflame::cpu
#endif  // HWY_ONCE
