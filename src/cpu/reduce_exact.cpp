// Reductions whose result does not depend on order (sums, products and extremes of integers, any,
// all, counts), and the search for the place of a maximum or minimum.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cpu/kernel.h"
#include "cpu/move.h"
#include "cpu/reduce_cut.h"
#include "cpu/scratch.h"
#include "cpu/threads.h"
#include "table/kernels/reduce.h"

namespace pyflame::cpu {
namespace {

// What a storage type is compared and multiplied in.
template <class S>
using ValueOf = std::conditional_t<std::is_same_v<S, bfloat16> || std::is_same_v<S, float16>, float,
                                   std::conditional_t<std::is_same_v<S, bool8>, uint8_t, S>>;
template <class S>
ValueOf<S> value(S x) {
  if constexpr (std::is_same_v<S, bfloat16>)  // as vectors have it
    return std::bit_cast<float>(uint32_t{x.bits} << 16);
  else if constexpr (std::is_same_v<S, float16>)
    return to_float(x);
  else
    return static_cast<ValueOf<S>>(x);
}
template <class S>
S stored(ValueOf<S> v) {
  if constexpr (std::is_same_v<S, bfloat16>)
    return to_bfloat16(v);
  else if constexpr (std::is_same_v<S, float16>)
    return to_float16(v);
  else
    return static_cast<S>(v);
}
template <class V>
bool is_nan(V v) {
  return v != v;
}

// Each operation: accumulator, its start, a step, the joining of two, and the stored result.
template <class S>
struct SumInt {
  using Acc = int64_t;
  using Out = int64_t;
  static constexpr Acc start() { return 0; }
  static Acc step(Acc a, S x) { return join(a, static_cast<int64_t>(x)); }
  static Acc join(Acc a, Acc b) {  // wraps
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
  static Out finish(Acc a) { return a; }
};
template <class S>
struct ProdInt {
  using Acc = int64_t;
  using Out = int64_t;
  static constexpr Acc start() { return 1; }
  static Acc step(Acc a, S x) { return join(a, static_cast<int64_t>(x)); }
  static Acc join(Acc a, Acc b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
  static Out finish(Acc a) { return a; }
};
template <class S>
struct MaxOf {
  using Acc = ValueOf<S>;
  using Out = S;
  static constexpr Acc start() { return std::numeric_limits<Acc>::lowest(); }
  static Acc step(Acc a, S x) { return join(a, value(x)); }
  static Acc join(Acc a, Acc v) { return v > a ? v : a; }
  static Out finish(Acc a) { return stored<S>(a); }
};
template <class S>
struct MinOf {
  using Acc = ValueOf<S>;
  using Out = S;
  static constexpr Acc start() { return std::numeric_limits<Acc>::max(); }
  static Acc step(Acc a, S x) { return join(a, value(x)); }
  static Acc join(Acc a, Acc v) { return v < a ? v : a; }
  static Out finish(Acc a) { return stored<S>(a); }
};
template <class S>
struct AnyOf {
  using Acc = uint8_t;
  using Out = bool;
  static constexpr Acc start() { return 0; }
  static Acc step(Acc a, S x) { return a | static_cast<Acc>(value(x) != ValueOf<S>(0)); }
  static Acc join(Acc a, Acc b) { return a | b; }
  static Out finish(Acc a) { return a != 0; }
};
template <class S>
struct AllOf {
  using Acc = uint8_t;
  using Out = bool;
  static constexpr Acc start() { return 1; }
  static Acc step(Acc a, S x) { return a & static_cast<Acc>(value(x) != ValueOf<S>(0)); }
  static Acc join(Acc a, Acc b) { return a & b; }
  static Out finish(Acc a) { return a != 0; }
};
template <class S>
struct Count {
  using Acc = int64_t;
  using Out = int64_t;
  static constexpr Acc start() { return 0; }
  static Acc step(Acc a, S x) { return a + (value(x) != ValueOf<S>(0)); }
  static Acc join(Acc a, Acc b) { return a + b; }
  static Out finish(Acc a) { return a; }
};

constexpr int64_t kLanes = 32, kBlock = CutReduction::kBlock;

// Small loops that most of the time is spent in: see cmake/Optimise.cmake.
#if defined(__GNUC__) && !defined(__clang__)
#define PF_OPTIMISE(HOW) [[gnu::optimize(HOW)]]
#else
#define PF_OPTIMISE(HOW)
#endif

template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

template <class Op, class S>
PF_OPTIMISE("peel-loops")  // lanes into registers
typename Op::Acc block_reduce(const S* x, int64_t n) {
  using Acc = typename Op::Acc;
  Acc lane[kLanes];
  for (auto& l : lane) l = Op::start();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) lane[l] = Op::step(lane[l], x[i + l]);
  for (int64_t l = 0; i + l < n; ++l) lane[l] = Op::step(lane[l], x[i + l]);
  for (int64_t h = kLanes / 2; h >= 1; h /= 2)
    for (int64_t l = 0; l < h; ++l) lane[l] = Op::join(lane[l], lane[l + h]);
  return lane[0];
}

constexpr auto kAt = kernels::tensors<kernels::SumInt>;  // and of all but find_extreme

template <size_t kBytes>
using BytesOf = std::conditional_t<
    kBytes == 1, uint8_t,
    std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>>;

// What an operation does over elements of a type: what is around it is the same for all.
constexpr int64_t kTile = 256;
// Short rows are columns of a tile that has them beside each other.
constexpr int64_t kTurned = 128, kTurnedTile = 32;  // elements of a row, and such rows
bool turns(const ReducePlan& plan) {
  const int64_t k = plan.reduced.count;
  return plan.rows() && k > 1 && k <= kTurned && plan.inner() >= 8;
}
struct Steps {
  int64_t item, acc;  // bytes of an element, and of an accumulator
  void (*pack)(const void* base, const Axes& axes, int64_t first, int64_t count, void* to);
  // A block of neighbours.
  void (*block)(const void* x, int64_t n, void* to);
  // Results of whole rows.
  void (*rows)(const void* x, int64_t rows, int64_t k, void* out);
  // Rows [from, from + n) of `w` columns of a block: their accumulators.
  void (*columns)(const void* base, Odometer where, int64_t from, int64_t n, int64_t w, void* to);
  // Results from those of their blocks, which are `apart` from each other.
  void (*finish)(void* partial, int64_t outs, int64_t blocks, int64_t next, int64_t apart,
                 void* out);
};
template <class Op, class S>
struct StepsOf {
  using Acc = typename Op::Acc;
  static void pack(const void* base, const Axes& axes, int64_t first, int64_t count, void* to) {
    using Raw = BytesOf<sizeof(S)>;
    cpu::pack(static_cast<const Raw*>(base), axes, first, count, static_cast<Raw*>(to));
  }
  static void block(const void* x, int64_t n, void* to) {
    *static_cast<Acc*>(to) = block_reduce<Op>(static_cast<const S*>(x), n);
  }
  static void rows(const void* x, int64_t rows, int64_t k, void* out) {
    for (int64_t r = 0; r < rows; ++r) {
      const S* row = static_cast<const S*>(x) + r * k;
      Acc part[kLongestRow];
      int64_t n = 0;
      for (int64_t i = 0; i < k; i += kBlock)
        part[n++] = block_reduce<Op>(row + i, std::min(kBlock, k - i));
      static_cast<typename Op::Out*>(out)[r] = Op::finish(tree(part, n, 1, Op::join));
    }
  }
  static void columns(const void* base, Odometer where, int64_t from, int64_t n, int64_t w,
                      void* accumulators) {
    constexpr int64_t kRows = 4;
    Acc* __restrict const to = static_cast<Acc*>(accumulators);
    for (int64_t c = 0; from == 0 && c < w; ++c) to[c] = Op::start();
    const S* rows[kRows];
    for (int64_t done = 0; done < n; done += kRows) {
      const int64_t many = std::min(kRows, n - done);
      for (int64_t r = 0; r < many; ++r, where.next())
        rows[r] = static_cast<const S*>(base) + where.offset();
      const auto step = [&](auto... row) {
        for (int64_t c = 0; c < w; ++c) {
          Acc a = to[c];
          ((a = Op::step(a, rows[row][c])), ...);
          to[c] = a;
        }
      };
      if (many == kRows)
        step(0, 1, 2, 3);
      else
        for (int64_t r = 0; r < many; ++r) step(r);
    }
  }
  static void finish(void* partial, int64_t outs, int64_t blocks, int64_t next, int64_t apart,
                     void* out) {
    Acc* const from = static_cast<Acc*>(partial);
    auto* const to = static_cast<typename Op::Out*>(out);
    for (int64_t o = 0; o < outs; ++o)
      to[o] =
          Op::finish(blocks == 0 ? Op::start() : tree(from + o * next, blocks, apart, Op::join));
  }
  static constexpr Steps kSteps{sizeof(S), sizeof(Acc), pack, block, rows, columns, finish};
};

void reduce(const KernelArgs& a, const Steps& op) {
  const pf_tensor& in = a.tensor(kAt.x);
  const char* x = static_cast<const char*>(in.data);
  void* const out = a.tensor(kAt.out).data;
  const ReducePlan plan = plan_reduction(in, a.i(kernels::numbers<kernels::SumInt>.dims), nullptr);
  const int64_t k = plan.reduced.count, outs = plan.kept.count;
  const int64_t blocks = (k + kBlock - 1) / kBlock;
  if (outs == 0) return;
  if (k == 0) return op.finish(nullptr, outs, 0, 0, 0, out);
  const Scratch<char> partial(outs * blocks * op.acc);
  const bool turned = turns(plan);
  if (plan.columns() || turned) {
    const int64_t tile = turned ? kTurnedTile : kTile;
    const int64_t inner = plan.inner(), outer = outs / inner, tiles = (inner + tile - 1) / tile;
    parallel_for(outer * tiles * blocks, turned ? 64 : 1, [&](int64_t begin, int64_t end) {
      alignas(64) char lanes[kTile * 8], turn[kTurned * kTurnedTile * 8];
      for (int64_t u = begin; u < end; ++u) {
        const int64_t t = u % tiles, b = u / tiles % blocks, o = u / tiles / blocks;
        const int64_t first = o * inner + t * tile, w = std::min(tile, inner - t * tile);
        const int64_t from = b * kBlock, n = std::min(kBlock, k - from);
        const char* base = x + plan.kept.offset(first) * op.item;
        if (turned) {
          gather_box(turn, base, static_cast<int>(op.item), k, w, 1,
                     plan.kept.stride[plan.kept.n - 1]);
          Axes side_by_side;
          side_by_side.add(k, w, 0);
          op.columns(turn, Odometer(side_by_side, 0), 0, k, w, lanes);
        } else {
          op.columns(base, Odometer(plan.reduced, from), 0, n, w, lanes);
        }
        std::memcpy(partial.get() + (b * outs + first) * op.acc, lanes,
                    static_cast<size_t>(w * op.acc));
      }
    });
    return op.finish(partial.get(), outs, blocks, 1, outs, out);
  }
  const bool rows = plan.rows();
  const size_t bytes = rows ? 0 : static_cast<size_t>(std::min(k, kBlock) * op.item) + 64;
  parallel_with(outs * blocks, k >= kBlock ? 4 : 16384 / k + 1, bytes,
                [&](int64_t begin, int64_t end, char* packed) {
                  for (int64_t u = begin; u < end; ++u) {
                    const int64_t from = u % blocks * kBlock, n = std::min(kBlock, k - from);
                    const char* row = x + plan.kept.offset(u / blocks) * op.item;
                    if (!rows) op.pack(row, plan.reduced, from, n, packed);
                    op.block(rows ? row + from * op.item : packed, n, partial.get() + u * op.acc);
                  }
                });
  op.finish(partial.get(), outs, blocks, blocks, 1, out);
}

template <template <class> class Op>
const Steps& for_type(DType t) {  // of integers
  const Steps* s = nullptr;
  dispatch(t, [&]<class S>() {
    if constexpr (!kIsFloatType<S>) s = &StepsOf<Op<S>, S>::kSteps;
  });
  return *s;
}
// Where integers count by being 0 or not.
template <template <class> class Op>
const Steps& for_size(DType t) {
  const Steps* s = nullptr;
  dispatch(t, [&]<class S>() {
    using Raw = std::conditional_t<kIsFloatType<S>, S, BytesOf<sizeof(S)>>;
    s = &StepsOf<Op<Raw>, Raw>::kSteps;
  });
  return *s;
}
using StepsFn = const Steps& (*)(DType);
template <StepsFn kSteps>
void whole(const KernelArgs& a) {
  reduce(a, kSteps(a.dtype(kAt.x)));
}

// ---- in pieces ---------------------------------------------------------------------------------

template <StepsFn kSteps>
void rows(const KernelArgs& a) {
  const pf_tensor& x = a.tensor(kAt.x);
  kSteps(a.dtype(kAt.x)).rows(x.data, x.shape[0], x.shape[1], a.tensor(kAt.out).data);
}
template <StepsFn kSteps>
void blocks(const KernelArgs& a) {
  const Steps& op = kSteps(a.dtype(kAt.x));
  const int64_t n = numel(a.tensor(kAt.x));
  const int64_t first = CutReduction::kBlocks / kBlock * a.piece->first_row;
  for (int64_t i = 0; i < n; i += kBlock)
    op.block(a.data<char>(kAt.x) + i * op.item, std::min(kBlock, n - i),
             static_cast<char*>(a.piece->workspace) + (first + i / kBlock) * op.acc);
}
template <StepsFn kSteps>
void finish_blocks(const KernelArgs& a) {
  const pf_tensor& out = a.tensor(kAt.out);
  const int64_t outs = numel(out), of = (numel(a.tensor(kAt.x)) / outs + kBlock - 1) / kBlock;
  kSteps(a.dtype(kAt.x)).finish(a.piece->workspace, outs, of, of, 1, out.data);
}
// Rows of a block come in order and to one thread, which has their lanes.
template <StepsFn kSteps>
void columns(const KernelArgs& a) {
  const Steps& op = kSteps(a.dtype(kAt.x));
  const pf_tensor& x = a.tensor(kAt.x);
  const int64_t w = x.shape[1];
  Axes reduced;
  reduced.add(x.shape[0], w, 0);
  for (int64_t r = 0, n = 0; r < x.shape[0]; r += n) {
    const int64_t block = (a.piece->first_row + r) / kBlock;
    const int64_t from = (a.piece->first_row + r) % kBlock;
    const int64_t of = std::min(kBlock, a.piece->rows - block * kBlock);
    n = std::min(x.shape[0] - r, of - from);
    for (int64_t c = 0; c < w; c += kTile) {
      const int64_t width = std::min(kTile, w - c);
      char* const lanes = a.piece->scratch + c * op.acc;
      op.columns(a.data<char>(kAt.x) + c * op.item, Odometer(reduced, r), from, n, width, lanes);
      if (from + n == of)
        std::memcpy(static_cast<char*>(a.piece->workspace) + (block * w + c) * op.acc, lanes,
                    static_cast<size_t>(width * op.acc));
    }
  }
}
template <StepsFn kSteps>
void finish_columns(const KernelArgs& a) {
  const pf_tensor& out = a.tensor(kAt.out);
  const int64_t outs = numel(out), of = (a.piece->rows + kBlock - 1) / kBlock;
  kSteps(a.dtype(kAt.x)).finish(a.piece->workspace, outs, of, 1, outs, out.data);
}
template <StepsFn kSteps>
Pieces pieces(const KernelArgs& a) {
  const CutReduction c(a.tensor(kAt.x), kAt.x, kAt.out, a.i(kernels::numbers<kernels::SumInt>.dims),
                       true);
  const int64_t acc = kSteps(a.dtype(kAt.x)).acc, of = (c.k + kBlock - 1) / kBlock;
  Pieces p = c.pieces;
  if (c.cut != Cut::Rows) p.workspace = static_cast<size_t>(c.outs * of * acc + 63) / 64 * 64;
  if (c.cut == Cut::Columns) p.scratch = static_cast<size_t>(c.outs * acc);
  p.run = c.cut == Cut::Rows     ? rows<kSteps>
          : c.cut == Cut::Blocks ? blocks<kSteps>
                                 : columns<kSteps>;
  p.finish = c.cut == Cut::Rows     ? nullptr
             : c.cut == Cut::Blocks ? finish_blocks<kSteps>
                                    : finish_columns<kSteps>;
  return p;
}

// ---- where the extreme is: the first one, or the first NaN --------------------------------------

template <class V>
struct Found {
  V value;
  int64_t index;
};
template <bool kMax, class V>
bool better(V v, V best) {
  const bool wins = kMax ? v > best : v < best;
  if constexpr (std::is_floating_point_v<V>)
    return wins || (is_nan(v) && !is_nan(best));
  else
    return wins;
}

template <bool kMax, class S>
Found<ValueOf<S>> find_block(DType t, const S* x, int64_t n, int64_t stride) {
  using V = ValueOf<S>;
  const bool row = stride == 1 && n >= 2 * kLanes;
  if constexpr (kIsFloatType<S>) {
    Found<V> f;
    if (row) return find_in_row(t, kMax, x, n, &f.value, &f.index), f;
  } else if (row) {
    // The value first, vectorised; then its place, which is usually found soon.
    const V best = [&] {
      if constexpr (kMax)
        return block_reduce<MaxOf<S>>(x, n);
      else
        return block_reduce<MinOf<S>>(x, n);
    }();
    int64_t i = 0;
    for (Bits<V> there = 0; i + kLanes <= n; i += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l) there |= value(x[i + l]) == best ? -1 : 0;
      if (there != 0) break;
    }
    while (value(x[i]) != best) ++i;
    return {best, i};
  }
  Found<V> f{value(x[0]), 0};
  for (int64_t i = 1; i < n; ++i) {
    const V v = value(x[i * stride]);
    if (better<kMax>(v, f.value)) f = {v, i};
  }
  return f;
}

// Of columns: some rows of them, from r on; any of them may be the one before again. Where there is
// a NaN, it is looked for again.
constexpr int64_t kAtOnce = 4;
template <bool kMax, class S, class V>
PF_OPTIMISE("O3")
void find_in_rows(const S* const* rows, int64_t w, int32_t r, V* best, Bits<V>* where) {
  Bits<V> nan = 0;
  const S *x0 = rows[0], *x1 = rows[1], *x2 = rows[2], *x3 = rows[3];
  for (int64_t c = 0; c < w; ++c) {
    V b = best[c];
    Bits<V> at = where[c];
    const auto look = [&](V v, int32_t i) {
      const bool wins = kMax ? v > b : v < b;
      b = wins ? v : b;
      at = wins ? r + i : at;
      nan |= v != v ? -1 : 0;
    };
    look(value(x0[c]), 0), look(value(x1[c]), 1), look(value(x2[c]), 2), look(value(x3[c]), 3);
    best[c] = b;
    where[c] = at;
  }
  for (int32_t i = 0; nan != 0 && i < kAtOnce; ++i)
    for (int64_t c = 0; c < w; ++c) {
      const V v = value(rows[i][c]);
      if (is_nan(v) && !is_nan(best[c])) best[c] = v, where[c] = r + i;
    }
}

template <bool kMax, class S>
void find(const KernelArgs& a) {
  using V = ValueOf<S>;
  constexpr auto at = kernels::tensors<kernels::FindExtreme>;
  const pf_tensor& in = a.tensor(at.x);
  const S* x = static_cast<const S*>(in.data);
  S* values = a.data<S>(at.values);
  int64_t* indices = a.data<int64_t>(at.indices);
  const DType in_type = a.dtype(at.x);
  const int dim = static_cast<int>(a.i(kernels::numbers<kernels::FindExtreme>.dim));
  const ReducePlan plan = plan_reduction(in, in.ndim == 0 ? 0 : int64_t{1} << dim, nullptr);
  const int64_t k = plan.reduced.count, outs = plan.kept.count;
  const int64_t stride = plan.reduced.n > 0 ? plan.reduced.stride[0] : 1;
  if (outs == 0 || k == 0) return;
  const auto store = [&](int64_t o, Found<V> f) {
    if (values) values[o] = stored<S>(f.value);
    indices[o] = f.index;
  };
  const bool turned = turns(plan);
  if (plan.columns() || turned) {
    constexpr int64_t kWide = 1024, kRows = 512;
    const int64_t tile = turned ? kTurnedTile : kWide;
    const int64_t inner = plan.inner(), tiles = (inner + tile - 1) / tile;
    const int64_t blocks = (k + kRows - 1) / kRows;
    const Scratch<Found<V>> partial(blocks > 1 ? outs * blocks : 0);
    parallel_for(
        outs / inner * tiles * blocks, 1 + 8192 / (std::min(k, kRows) * std::min(inner, tile)),
        [&](int64_t begin, int64_t end) {
          V best[kWide];
          Bits<V> where[kWide];
          S turn[kTurned * kTurnedTile];
          for (int64_t u = begin; u < end; ++u) {
            const int64_t t = u % tiles, b = u / tiles % blocks, o = u / tiles / blocks;
            const int64_t first = o * inner + t * tile, w = std::min(tile, inner - t * tile);
            const int64_t from = b * kRows, n = std::min(kRows, k - from);
            const int64_t step = turned ? w : stride;
            const S* base = x + plan.kept.offset(first) + from * stride;
            if (turned) {
              gather_box(turn, base, sizeof(S), k, w, 1, plan.kept.stride[plan.kept.n - 1]);
              base = turn;
            }
            for (int64_t c = 0; c < w; ++c) best[c] = value(base[c]), where[c] = 0;
            for (int64_t r = 1; r < n; r += kAtOnce) {
              const S* rows[kAtOnce];
              for (int64_t q = 0; q < kAtOnce; ++q) rows[q] = base + std::min(r + q, n - 1) * step;
              find_in_rows<kMax>(rows, w, static_cast<int32_t>(r), best, where);
            }
            for (int64_t c = 0; c < w; ++c) {
              const Found<V> f{best[c], from + where[c]};
              if (blocks > 1)
                partial.get()[b * outs + first + c] = f;
              else
                store(first + c, f);
            }
          }
        });
    for (int64_t o = 0; blocks > 1 && o < outs; ++o) {
      Found<V> f = partial.get()[o];
      for (int64_t b = 1; b < blocks; ++b)
        if (const Found<V>& g = partial.get()[b * outs + o]; better<kMax>(g.value, f.value)) f = g;
      store(o, f);
    }
    return;
  }
  constexpr int64_t kPiece = 16 * kBlock;
  const int64_t pieces = (k + kPiece - 1) / kPiece;
  if (pieces == 1) {
    parallel_for(outs, 1 + 8192 / k, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o)
        store(o, find_block<kMax>(in_type, x + plan.kept.offset(o), k, stride));
    });
    return;
  }
  const Scratch<Found<V>> partial(outs * pieces);
  parallel_for(outs * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) {
      const int64_t from = u % pieces * kPiece;
      Found<V> f = find_block<kMax>(in_type, x + plan.kept.offset(u / pieces) + from * stride,
                                    std::min(kPiece, k - from), stride);
      partial.get()[u] = {f.value, f.index + from};
    }
  });
  for (int64_t o = 0; o < outs; ++o) {
    Found<V> f = partial.get()[o * pieces];
    for (int64_t p = 1; p < pieces; ++p) {
      const Found<V>& g = partial.get()[o * pieces + p];
      if (better<kMax>(g.value, f.value)) f = g;
    }
    store(o, f);
  }
}

void find_extreme(const KernelArgs& a) {
  dispatch(a.dtype(kernels::tensors<kernels::FindExtreme>.x), [&]<class S>() {
    if (a.i(kernels::numbers<kernels::FindExtreme>.largest) != 0)
      find<true, S>(a);
    else
      find<false, S>(a);
  });
}

}  // namespace

KernelEntry integer_reduction(SumKind what) {
  if (what == kernels::kProduct) return {whole<for_type<ProdInt>>, pieces<for_type<ProdInt>>};
  if (what == kernels::kLargest) return {whole<for_type<MaxOf>>, pieces<for_type<MaxOf>>};
  return {whole<for_type<MinOf>>, pieces<for_type<MinOf>>};
}

PF_CPU_KERNEL(kernels::SumInt::kInfo, whole<for_type<SumInt>>, pieces<for_type<SumInt>>)
PF_CPU_KERNEL(kernels::Any::kInfo, whole<for_size<AnyOf>>, pieces<for_size<AnyOf>>)
PF_CPU_KERNEL(kernels::All::kInfo, whole<for_size<AllOf>>, pieces<for_size<AllOf>>)
PF_CPU_KERNEL(kernels::CountNonzero::kInfo, whole<for_size<Count>>, pieces<for_size<Count>>)
PF_CPU_KERNEL(kernels::FindExtreme::kInfo, find_extreme)

}  // namespace pyflame::cpu
