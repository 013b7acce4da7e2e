// cross_entropy of class indices over (N, C) logits, and nll_loss. Forward reads each row once, in
// pieces that stay in L1: exp of a piece and maximum of the next in one loop. Backward reads and
// writes it once; of both, it finds the row in a cache.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/loss.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "core/kernel_numbers.h"
#include "cpu/kernel.h"
#include "cpu/reduce_plan.h"
#include "cpu/rows-inl.h"
#include "cpu/threads.h"
#include "table/kernels/loss.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {

inline constexpr int64_t kPiece = 4096;

HWY_INLINE int64_t ClassAt(const pf_tensor& t, int64_t i) {
  if (HWY_LIKELY(t.dtype == static_cast<uint8_t>(DType::Int64)))
    return static_cast<const int64_t*>(t.data)[i];
  int64_t c = 0;
  dispatch_integer(static_cast<DType>(t.dtype),
                   [&]<class I>() { c = static_cast<const I*>(t.data)[i]; });
  return c;
}

// What every row needs to know.
template <class T>
struct Job {
  const KernelArgs& args;
  const pf_tensor& target;
  int64_t classes, ignore;
  Reduction reduction;
  T smoothing;
  const T* weight;  // null when all are 1
  T weight_sum;

  // The class of row i, clamped; -1 when the row does not count.
  int64_t class_of(int64_t i) const {
    const int64_t t = ClassAt(target, i);
    if (t == ignore) return -1;
    if (t < 0 || t >= classes) {
      args.bad_index(t, 0, classes);
      return t < 0 || classes == 0 ? 0 : classes - 1;
    }
    return t;
  }
  T weight_of(int64_t t) const { return weight ? weight[t] : T(1); }
};

// What becomes of a row. Not a parameter of Statistics' type: that would be made for every kernel.
template <class T>
struct Done {
  const void* self;
  void (*call)(const void* self, int64_t row, T high, T sum, T below);
};

// done(row, maximum, sum of exp(x - maximum), sum of w (maximum - x)) for rows [begin, end); the
// last with kSmooth only.
template <class S, bool kSmooth>
void Statistics(const Rows<S>& x, RowFeed* feed, int64_t classes, const ComputeOf<S>* weight,
                ComputeOf<S> weight_sum, int64_t begin, int64_t end, Done<ComputeOf<S>> done) {
  using T = ComputeOf<S>;
  constexpr T kLow = -std::numeric_limits<T>::infinity();
  const int64_t pieces = (classes + kPiece - 1) / kPiece;
  const auto length = [&](int64_t p) { return std::min(kPiece, classes - p * kPiece); };
  // What ForRow() asks before it reads a row from there on.
  const auto make = [](RowFeed* from, int64_t first) PF_INLINE {
    if (from && first == 0) from->next();
    return [from, first](int64_t i, int64_t count) {
      if (from) from->columns(first + i, count);
    };
  };
  Four<T> m(kLow), s(T(0)), z(T(0));
  T sum = 0, below = 0, high = kLow, base = 0;
  ForRow<T>(
      length(0), At<1, 0, S>{{x.at(begin)}, {}}, kLow,
      [&](auto step, const auto& at, int64_t j)
          PF_INLINE { m.a[step.index] = WMax(m.a[step.index], Load(at.in[0] + j)); },
      []() PF_INLINE {}, make(feed, 0));
  T piece_max = m.max();
  const int64_t total = (end - begin) * pieces;
  for (int64_t u = 0; u < total; ++u) {
    const int64_t p = u % pieces, n = length(p), r = begin + u / pieces;
    const S* now = x.at(r) + p * kPiece;
    // Beyond the last piece the maximum is taken of this one again, and not used.
    const bool more = u + 1 < total;
    const int64_t next_p = more ? (p + 1) % pieces : p, next_n = length(next_p);
    const S* next = x.at(more ? begin + (u + 1) / pieces : r) + next_p * kPiece;
    const auto made = make(more ? feed : nullptr, next_p * kPiece);
    if (p == 0) {
      high = kLow;
      sum = below = 0;
      base = piece_max == kLow ? T(0) : piece_max;  // logits are summed relative to this
    }
    const T top = piece_max > high ? piece_max : high;
    if (top != high && high != kLow) sum *= std::exp(high - top);
    high = top;
    const Wide<T> shift = Fill(high == kLow ? T(0) : high);  // all -inf: exp gives 0, not NaN
    const Wide<T> origin = Fill(base);
    m.reset(kLow);
    const auto fold = [&]() PF_INLINE {
      sum += s.sum();
      s.reset(T(0));
      if (kSmooth) {
        below += z.sum();
        z.reset(T(0));
      }
    };
    const T* w = kSmooth && weight ? weight + p * kPiece : nullptr;
    const auto add = [&](auto step, const auto& at, int64_t j) PF_INLINE {
      const Wide<T> v = Load(at.in[0] + j);
      s.a[step.index] = s.a[step.index] + WExpNeg(v - shift);
      if constexpr (kSmooth) {
        const Wide<T> d = origin - v, wv = w ? d * Load(w + at.first + j) : d;
        z.a[step.index] = z.a[step.index] + Valid(wv, at, j);
      }
      hwy::Prefetch(at.in[0] + j + kPiece + 1024);
    };
    if (next_n == n) {
      ForRow<T>(
          n, At<2, 0, S>{{now, next}, {}}, kLow,
          [&](auto step, const auto& at, int64_t j) PF_INLINE {
            add(step, at, j);
            m.a[step.index] = WMax(m.a[step.index], Load(at.in[1] + j));
          },
          fold, made);
    } else {
      ForRow<T>(n, At<1, 0, S>{{now}, {}}, kLow, add, fold);
      ForRow<T>(
          next_n, At<1, 0, S>{{next}, {}}, kLow,
          [&](auto step, const auto& at, int64_t j)
              PF_INLINE { m.a[step.index] = WMax(m.a[step.index], Load(at.in[0] + j)); },
          []() PF_INLINE {}, made);
    }
    piece_max = m.max();
    if (p + 1 == pieces)
      done.call(done.self, r, high, sum, kSmooth ? below + weight_sum * (high - base) : T(0));
  }
}

template <class T>
T LaneSum(const T* p, int64_t n) {
  Four<T> s(T(0));
  T total = 0;
  ForRow<T>(
      n, At<1, 0, T>{{p}, {}}, T(0),
      [&](auto step, const auto& at, int64_t j)
          PF_INLINE { s.a[step.index] = s.a[step.index] + Load(at.in[0] + j); },
      [&]() PF_INLINE {
        total += s.sum();
        s.reset(T(0));
      });
  return total;
}

// The class weights in the compute type.
template <class S>
struct Weights {
  using T = ComputeOf<S>;
  Scratch<T> values;
  T sum;
  Weights(const KernelArgs& a, int i, int64_t classes)
      : values(a.has(i) ? (classes + 63) / 64 * 64 : 0), sum(static_cast<T>(classes)) {
    if (!a.has(i)) return;
    for (int64_t c = 0; c < (classes + 63) / 64 * 64; ++c)
      values.get()[c] = c < classes ? ToCompute(a.data<S>(i)[c]) : T(0);
    sum = LaneSum(values.get(), classes);
  }
};

// dx = scale (softmax a - u), less b at the class: see cross_entropy in ops/loss.cpp.
template <class S, bool kStream>
void BackwardRow(const S* x, S* dx, int64_t classes, int64_t t, ComputeOf<S> high, ComputeOf<S> a,
                 ComputeOf<S> b, ComputeOf<S> u, const ComputeOf<S>* weight) {
  using T = ComputeOf<S>;
  constexpr int64_t W = Wide<T>::kLanes;
  const Wide<T> shift = Fill(high), scale = Fill(a), uniform = Fill(u);
  const auto value = [&](const S* from, int64_t c) PF_INLINE {
    Wide<T> y = WExpNeg(Load(from) - shift) * scale;
    if (u != 0) y = y - (weight ? uniform * Load(weight + c) : uniform);
    return y;
  };
  const int64_t special = t / W * W;  // the vector that holds the class is written by itself
  const auto range = [&](int64_t begin, int64_t end) PF_INLINE {
    for (int64_t c = begin; c < end; c += W) {
      Put<kStream>(value(x + c, c), dx + c);
      hwy::Prefetch(x + c + 2048);
    }
  };
  const int64_t whole = classes / W * W;
  alignas(64) S in[W];
  alignas(64) T out[W];
  const auto apart = [&](int64_t c) PF_INLINE {
    const int64_t n = classes - c < W ? classes - c : W;
    Store(Fill(T(0)), in);
    std::memcpy(in, x + c, static_cast<size_t>(n) * sizeof(S));
    Store(value(in, c), out);
    if (c == special) out[t - c] -= b;
    StorePart(Load(out), dx + c, n);
  };
  range(0, special < whole ? special : whole);
  apart(special);
  range(special + W, whole);
  if (whole < classes && special != whole) apart(whole);
}

// Where the tensors of a call are; -1: it has none.
struct Order {
  int stats, total, x, target, weight, loss = -1, dx = -1, dloss = -1;
};
template <class K>
constexpr Order order_of() {
  constexpr auto at = kernels::tensors<K>;
  Order o{at.stats, at.total, at.x, at.target, at.weight};
  if constexpr (!std::is_same_v<K, kernels::CrossEntropyBackward>) o.loss = at.loss;
  if constexpr (!std::is_same_v<K, kernels::CrossEntropy>) o.dx = at.dx, o.dloss = at.dloss;
  return o;
}

// Two sums, of each row the loss and its weight, the weights of classes.
inline size_t entropy_workspace(DType t, bool loss, int64_t rows, int64_t classes, bool weighted) {
  const auto bytes = [t](int64_t n) {
    return Parts::bytes<char>(n * (t == DType::Float64 ? 8 : 4));
  };
  return bytes(2) + (loss ? 2 : 0) * bytes(rows) + (weighted ? bytes(whole_stretches(classes)) : 0);
}

// The loss K, its gradient, or both: what stands before the first row, some rows, and what is left
// then. All rows share the piece's workspace. L: of the loss and of its gradient.
template <class K, class S, class L>
class Entropy {
  using T = ComputeOf<S>;
  static constexpr Order at = order_of<K>();
  static constexpr bool kLoss = at.loss >= 0, kGradient = at.dx >= 0;

 public:
  explicit Entropy(const KernelArgs& a)
      : a_(a),
        rows_(a.piece->rows),
        job_{a,
             a.tensor(at.target),
             a.tensor(at.x).shape[1],
             a.i(number.ignore),
             Reduction{a.i(number.reduction)},
             static_cast<T>(a.f(number.smoothing)),
             nullptr,
             T(0)} {
    Parts parts(static_cast<char*>(a.piece->workspace));
    sums_ = parts.take<T>(2);
    losses_ = parts.take<T>(kLoss ? rows_ : 0);
    weights_ = parts.take<T>(kLoss ? rows_ : 0);
    of_classes_ = parts.take<T>(0);
    job_.weight = a.has(at.weight) ? of_classes_ : nullptr;
    job_.weight_sum = sums_[0];
  }

  void begin() {
    const int64_t classes = job_.classes;
    sums_[0] = static_cast<T>(classes);
    if (job_.weight) {
      for (int64_t c = 0; c < whole_stretches(classes); ++c)
        of_classes_[c] = c < classes ? ToCompute(a_.data<S>(at.weight)[c]) : T(0);
      sums_[0] = LaneSum(of_classes_, classes);
    }
    if (!kGradient) return;
    sums_[1] = T(1);  // what the gradient is divided by
    if (job_.reduction != Reduction::Mean) return;
    if (kLoss) {
      for (int64_t r = 0; r < rows_; ++r) {
        const int64_t t = job_.class_of(r);
        weights_[r] = t < 0 ? T(0) : job_.weight_of(t);
      }
      sums_[1] = LaneSum(weights_, rows_);
    } else {
      sums_[1] = *a_.data<T>(at.total);
    }
  }

  void run() const {
    const int64_t rows = a_.tensor(at.x).shape[0], classes = job_.classes;
    if (classes == 0) return;
    const Rows<S> x(a_, at.x, classes);
    const int64_t row_bytes = classes * static_cast<int64_t>(sizeof(S));
    const bool stream = kGradient && std::is_same_v<S, float> &&
                        Streams(a_, a_.data<S>(at.dx), row_bytes, rows_ * row_bytes);
    ForRows(a_, rows, RowGrain(classes), [&](int64_t begin, int64_t end) {
      if constexpr (kLoss) {
        const auto finish = [&](int64_t r, T high, T sum, T below) {
          finish_row(x.at(r), r, high, sum, below, stream);
        };
        const Done<T> done{&finish, [](const void* self, int64_t r, T high, T sum, T below) {
                             (*static_cast<decltype(finish)*>(self))(r, high, sum, below);
                           }};
        if (job_.smoothing > 0)
          Statistics<S, true>(x, a_.piece->feed, classes, job_.weight, job_.weight_sum, begin, end,
                              done);
        else
          Statistics<S, false>(x, a_.piece->feed, classes, job_.weight, job_.weight_sum, begin, end,
                               done);
      } else {
        const T* stats = a_.data<T>(at.stats);
        for (int64_t r = begin; r < end; ++r)
          gradient(x.at(r), r, job_.class_of(r), stats[2 * r], stats[2 * r + 1], stream);
      }
      if (stream) FinishRows(a_, end - begin == rows);
    });
  }

  void finish() const {
    if constexpr (kLoss) {
      if (job_.classes == 0) std::fill_n(losses_, rows_, T(0)), std::fill_n(weights_, rows_, T(0));
      const T total = LaneSum(weights_, rows_);
      *a_.data<T>(at.total) = total;
      if (job_.reduction == Reduction::None) return;
      const T sum = LaneSum(losses_, rows_);
      StoreOne(job_.reduction == Reduction::Mean ? sum / total : sum, a_.data<L>(at.loss));
    }
  }

 private:
  static constexpr auto number = kernels::numbers<K>;

  void finish_row(const S* x, int64_t r, T high, T sum, T below, bool stream) const {
    const int64_t t = job_.class_of(r), of_all = a_.piece->first_row + r;
    T* const stats = a_.data<T>(at.stats) + 2 * r;
    stats[0] = high;
    stats[1] = T(1) / sum;
    T loss = 0, weight = 0;
    if (t >= 0) {
      // lse - x, the large parts first
      const T log_sum = std::log(sum);
      weight = job_.weight_of(t);
      loss = weight * (high - ToCompute(x[t]) + log_sum);
      if (job_.smoothing > 0) {
        const T all = below + job_.weight_sum * log_sum;  // the losses of all classes
        loss = (T(1) - job_.smoothing) * loss + job_.smoothing / static_cast<T>(job_.classes) * all;
      }
    }
    losses_[of_all] = loss;
    weights_[of_all] = weight;
    if (job_.reduction == Reduction::None) StoreOne(loss, a_.data<L>(at.loss) + r);
    if constexpr (kGradient) gradient(x, r, t, stats[0], stats[1], stream);
  }

  void gradient(const S* x, int64_t r, int64_t t, T high, T inverse, bool stream) const {
    const int64_t classes = job_.classes;
    S* const to = a_.data<S>(at.dx) + r * classes;
    if (t < 0) {
      std::memset(static_cast<void*>(to), 0, static_cast<size_t>(classes) * sizeof(S));
      return;
    }
    const L g = a_.data<L>(at.dloss)[job_.reduction == Reduction::None ? r : 0];
    const T scale = ToCompute(g) / sums_[1], e = job_.smoothing;
    const T b = scale * (T(1) - e) * job_.weight_of(t), u = scale * e / static_cast<T>(classes);
    const T y = (b + u * job_.weight_sum) * inverse;
    if constexpr (std::is_same_v<S, float>)
      if (stream) return BackwardRow<S, true>(x, to, classes, t, high, y, b, u, job_.weight);
    BackwardRow<S, false>(x, to, classes, t, high, y, b, u, job_.weight);
  }

  const KernelArgs& a_;
  int64_t rows_;  // of the whole
  Job<T> job_;
  T *sums_, *losses_, *weights_, *of_classes_;
};

template <class K, class F>
void EntropyOf(const KernelArgs& a, F&& fn) {
  constexpr Order at = order_of<K>();
  dispatch_float(a.dtype(at.x), [&]<class S>() {
    if (a.dtype(at.loss >= 0 ? at.loss : at.dloss) == a.dtype(at.x))
      fn(std::type_identity<Entropy<K, S, S>>());
    else
      fn(std::type_identity<Entropy<K, S, ComputeOf<S>>>());
  });
}

template <class S>
void NllOf(const KernelArgs& a) {
  using T = ComputeOf<S>;
  constexpr auto at = kernels::tensors<kernels::NllLoss>;
  constexpr auto number = kernels::numbers<kernels::NllLoss>;
  const pf_tensor& in = a.tensor(at.x);
  const int64_t rows = in.shape[0], classes = in.shape[1];
  const S* x = static_cast<const S*>(in.data);
  const Weights<S> w(a, at.weight, classes);
  const T* weight = a.has(at.weight) ? w.values.get() : nullptr;
  const Job<T> job{a,
                   a.tensor(at.target),
                   classes,
                   a.i(number.ignore),
                   Reduction{a.i(number.reduction)},
                   T(0),
                   weight,
                   w.sum};
  Scratch<T> losses(rows), weights(rows);
  parallel_for(rows, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t t = job.class_of(r);
      const T wt = t < 0 || classes == 0 ? T(0) : job.weight_of(t);
      weights.get()[r] = wt;
      losses.get()[r] = wt == 0 ? T(0) : -(wt * ToCompute(x[r * classes + t]));
    }
  });
  const T total = LaneSum(weights.get(), rows);
  *a.data<T>(at.total) = total;
  if (job.reduction == Reduction::None) {
    for (int64_t r = 0; r < rows; ++r) StoreOne(losses.get()[r], a.data<S>(at.loss) + r);
  } else {
    const T sum = LaneSum(losses.get(), rows);
    StoreOne(job.reduction == Reduction::Mean ? sum / total : sum, a.data<S>(at.loss));
  }
}

}  // namespace

void NllLoss(const KernelArgs& a) {
  dispatch_float(a.dtype(kernels::tensors<kernels::NllLoss>.x), [&]<class S>() { NllOf<S>(a); });
}
// The whole, some rows of it, what is before them, what is behind them.
enum class Stage { All, Begin, Rows, Finish };
template <class K>
void EntropyStages(const KernelArgs& a, Stage stage) {
  EntropyOf<K>(a, [&](auto type) {
    using Work = typename decltype(type)::type;
    if (stage == Stage::All) {
      constexpr Order at = order_of<K>();
      const pf_tensor& x = a.tensor(at.x);
      const Scratch<char> workspace(static_cast<int64_t>(entropy_workspace(
          a.dtype(at.x), at.loss >= 0, x.shape[0], x.shape[1], a.has(at.weight))));
      Piece all{};
      all.rows = x.shape[0];
      all.workspace = workspace.get();
      all.stream = x.shape[0] * x.shape[1] * static_cast<int64_t>(sizeof(float)) >= kStreamBytes;
      KernelArgs whole = a;
      whole.piece = &all;
      Work(whole).begin();
      Work(whole).run();
      if (all.stream) hwy::FlushStream();
      Work(whole).finish();
    } else if (stage == Stage::Begin) {
      Work(a).begin();
    } else if (stage == Stage::Rows) {
      Work(a).run();
    } else {
      Work(a).finish();
    }
  });
}
#define PF_ENTROPY_STAGE(K)                       \
  void K##Stage(const KernelArgs& a, int stage) { \
    EntropyStages<kernels::K>(a, Stage{stage});   \
  }
PF_ENTROPY_STAGE(CrossEntropy)
PF_ENTROPY_STAGE(CrossEntropyBackward)
PF_ENTROPY_STAGE(CrossEntropyBoth)

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
HWY_EXPORT(CrossEntropyStage);
HWY_EXPORT(CrossEntropyBackwardStage);
HWY_EXPORT(CrossEntropyBothStage);
namespace {
using HWY_NAMESPACE::Stage;
void check_classes(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::CheckClasses>;
  constexpr auto number = kernels::numbers<kernels::CheckClasses>;
  const int64_t classes = a.i(number.classes), ignore = a.i(number.ignore);
  const int64_t n = numel(a.tensor(at.target));
  dispatch_integer(a.dtype(at.target), [&]<class I>() {
    const I* t = a.data<I>(at.target);
    for (int64_t i = 0; i < n; ++i)
      if (const auto c = static_cast<int64_t>(t[i]); (c < 0 || c >= classes) && c != ignore)
        return a.bad_index(c, 0, classes);
  });
}
template <class K, Stage kStage>
void stage(const KernelArgs& a) {
  if constexpr (std::is_same_v<K, kernels::CrossEntropy>)
    HWY_DYNAMIC_DISPATCH(CrossEntropyStage)(a, static_cast<int>(kStage));
  else if constexpr (std::is_same_v<K, kernels::CrossEntropyBackward>)
    HWY_DYNAMIC_DISPATCH(CrossEntropyBackwardStage)(a, static_cast<int>(kStage));
  else
    HWY_DYNAMIC_DISPATCH(CrossEntropyBothStage)(a, static_cast<int>(kStage));
}
template <class K>
Pieces pieces(const KernelArgs& a) {
  constexpr auto at = HWY_NAMESPACE::order_of<K>();
  const pf_tensor& x = a.tensor(at.x);
  Pieces p;
  if (x.shape[1] == 0) return p;
  const bool each = Reduction{a.i(kernels::numbers<K>.reduction)} == Reduction::None;
  p.rows = x.shape[0];
  p.width = p.per_row[at.x] = x.shape[1];
  p.per_row[at.target] = 1;
  p.per_row[at.stats] = 2;
  if (at.loss >= 0) {
    p.per_row[at.loss] = each;
    p.feeds = 1U << at.x;
  }
  if (at.dx >= 0) {
    p.per_row[at.dx] = p.width;
    p.per_row[at.dloss] = each;
  }
  p.workspace = HWY_NAMESPACE::entropy_workspace(a.dtype(at.x), at.loss >= 0, p.rows, p.width,
                                                 a.has(at.weight));
  p.begin = stage<K, Stage::Begin>;
  p.run = stage<K, Stage::Rows>;
  p.finish = stage<K, Stage::Finish>;
  return p;
}
}  // namespace
PF_CPU_SIMD_KERNEL(NllLoss)
PF_CPU_KERNEL(kernels::CheckClasses::kInfo, check_classes)
#define PF_ENTROPY(K) \
  PF_CPU_KERNEL(kernels::K::kInfo, (stage<kernels::K, Stage::All>), pieces<kernels::K>)
PF_ENTROPY(CrossEntropy)
PF_ENTROPY(CrossEntropyBackward)
PF_ENTROPY(CrossEntropyBoth)
}  // namespace pyflame::cpu
#endif  // HWY_ONCE
