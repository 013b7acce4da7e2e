// cross_entropy of class indices over (N, C) logits, and nll_loss. Forward reads each row once, in
// pieces that stay in L1: exp of a piece and maximum of the next in one loop. Backward reads and
// writes it once.
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

// done(row, maximum, sum of exp(x - maximum), sum of w (maximum - x)) for rows [begin, end); the
// last with kSmooth only.
template <class S, bool kSmooth, class Done>
void Statistics(const S* x, int64_t classes, const ComputeOf<S>* weight, ComputeOf<S> weight_sum,
                int64_t begin, int64_t end, Done done) {
  using T = ComputeOf<S>;
  constexpr T kLow = -std::numeric_limits<T>::infinity();
  const int64_t pieces = (classes + kPiece - 1) / kPiece;
  const auto length = [&](int64_t p) { return std::min(kPiece, classes - p * kPiece); };
  Four<T> m(kLow), s(T(0)), z(T(0));
  T sum = 0, below = 0, high = kLow, base = 0;
  ForRow<T>(
      length(0), At<1, 0, S>{{x + begin * classes}, {}}, kLow,
      [&](auto step, const auto& at, int64_t j)
          PF_INLINE { m.a[step.index] = WMax(m.a[step.index], Load(at.in[0] + j)); },
      []() PF_INLINE {});
  T piece_max = m.max();
  const int64_t total = (end - begin) * pieces;
  for (int64_t u = 0; u < total; ++u) {
    const int64_t p = u % pieces, n = length(p), r = begin + u / pieces;
    const S* now = x + r * classes + p * kPiece;
    // Beyond the last piece the maximum is taken of this one again, and not used.
    const bool more = u + 1 < total;
    const int64_t next_n = more ? length((p + 1) % pieces) : n;
    const S* next =
        more ? x + (begin + (u + 1) / pieces) * classes + (p + 1) % pieces * kPiece : now;
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
          fold);
    } else {
      ForRow<T>(n, At<1, 0, S>{{now}, {}}, kLow, add, fold);
      ForRow<T>(
          next_n, At<1, 0, S>{{next}, {}}, kLow,
          [&](auto step, const auto& at, int64_t j)
              PF_INLINE { m.a[step.index] = WMax(m.a[step.index], Load(at.in[0] + j)); },
          []() PF_INLINE {});
    }
    piece_max = m.max();
    if (p + 1 == pieces) done(r, high, sum, kSmooth ? below + weight_sum * (high - base) : T(0));
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

// L: of the loss.
template <class S, class L>
void ForwardOf(const KernelArgs& a) {
  using T = ComputeOf<S>;
  constexpr auto at = kernels::tensors<kernels::CrossEntropy>;
  constexpr auto number = kernels::numbers<kernels::CrossEntropy>;
  const pf_tensor& in = a.tensor(at.x);
  const int64_t rows = in.shape[0], classes = in.shape[1];
  const S* x = static_cast<const S*>(in.data);
  const Weights<S> w(a, at.weight, classes);
  const Job<T> job{a,
                   a.tensor(at.target),
                   classes,
                   a.i(number.ignore),
                   Reduction{a.i(number.reduction)},
                   static_cast<T>(a.f(number.smoothing)),
                   a.has(at.weight) ? w.values.get() : nullptr,
                   w.sum};
  T* stats = a.data<T>(at.stats);
  Scratch<T> losses(rows), weights(rows);
  const auto done = [&](int64_t r, T high, T sum, T below) {
    const int64_t t = job.class_of(r);
    stats[2 * r] = high;
    stats[2 * r + 1] = T(1) / sum;
    losses.get()[r] = weights.get()[r] = 0;
    if (t < 0) return;
    // lse - x, the large parts first
    const T log_sum = std::log(sum), wt = job.weight_of(t);
    T loss = wt * (high - ToCompute(x[r * classes + t]) + log_sum);
    if (job.smoothing > 0) {
      const T all = below + job.weight_sum * log_sum;  // the losses of all classes
      loss = (T(1) - job.smoothing) * loss + job.smoothing / static_cast<T>(classes) * all;
    }
    losses.get()[r] = loss;
    weights.get()[r] = wt;
  };
  if (classes > 0)
    parallel_for(rows, RowGrain(classes), [&](int64_t begin, int64_t end) {
      if (job.smoothing > 0)
        Statistics<S, true>(x, classes, job.weight, job.weight_sum, begin, end, done);
      else
        Statistics<S, false>(x, classes, job.weight, job.weight_sum, begin, end, done);
    });
  const T total = LaneSum(weights.get(), rows);
  *a.data<T>(at.total) = total;
  L* out = a.data<L>(at.loss);
  if (job.reduction == Reduction::None) {
    for (int64_t r = 0; r < rows; ++r) StoreOne(losses.get()[r], out + r);
  } else {
    const T sum = LaneSum(losses.get(), rows);
    StoreOne(job.reduction == Reduction::Mean ? sum / total : sum, out);
  }
}

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

// L: of the gradient that comes.
template <class S, class L>
void BackwardOf(const KernelArgs& a) {
  using T = ComputeOf<S>;
  constexpr auto at = kernels::tensors<kernels::CrossEntropyBackward>;
  constexpr auto number = kernels::numbers<kernels::CrossEntropyBackward>;
  const pf_tensor& in = a.tensor(at.x);
  const int64_t rows = in.shape[0], classes = in.shape[1];
  if (rows == 0 || classes == 0) return;
  const L* g = a.data<L>(at.dloss);
  const S* x = static_cast<const S*>(in.data);
  const T* stats = a.data<T>(at.stats);
  S* dx = a.data<S>(at.dx);
  const Weights<S> w(a, at.weight, classes);
  const Job<T> job{a,
                   a.tensor(at.target),
                   classes,
                   a.i(number.ignore),
                   Reduction{a.i(number.reduction)},
                   static_cast<T>(a.f(number.smoothing)),
                   a.has(at.weight) ? w.values.get() : nullptr,
                   w.sum};
  const T divisor = job.reduction == Reduction::Mean ? *a.data<T>(at.total) : T(1);
  const int64_t row_bytes = classes * static_cast<int64_t>(sizeof(S));
  const bool stream = std::is_same_v<S, float> && Streams(a, dx, row_bytes, rows * row_bytes);
  parallel_for(rows, RowGrain(classes), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      S* to = dx + r * classes;
      const int64_t t = job.class_of(r);
      if (t < 0) {
        std::memset(static_cast<void*>(to), 0, static_cast<size_t>(row_bytes));
        continue;
      }
      const T scale = ToCompute(g[job.reduction == Reduction::None ? r : 0]) / divisor;
      const T e = job.smoothing, b = scale * (T(1) - e) * job.weight_of(t);
      const T u = scale * e / static_cast<T>(classes);
      const T y = (b + u * job.weight_sum) * stats[2 * r + 1];
      if constexpr (std::is_same_v<S, float>) {
        if (stream) {
          BackwardRow<S, true>(x + r * classes, to, classes, t, stats[2 * r], y, b, u, job.weight);
          continue;
        }
      }
      BackwardRow<S, false>(x + r * classes, to, classes, t, stats[2 * r], y, b, u, job.weight);
    }
    if (stream) hwy::FlushStream();
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
void CrossEntropy(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::CrossEntropy>;
  dispatch_float(a.dtype(at.x), [&]<class S>() {
    if (a.dtype(at.loss) == a.dtype(at.x))
      ForwardOf<S, S>(a);
    else
      ForwardOf<S, ComputeOf<S>>(a);
  });
}
void CrossEntropyBackward(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::CrossEntropyBackward>;
  dispatch_float(a.dtype(at.x), [&]<class S>() {
    if (a.dtype(at.dloss) == a.dtype(at.x))
      BackwardOf<S, S>(a);
    else
      BackwardOf<S, ComputeOf<S>>(a);
  });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
HWY_EXPORT(CrossEntropy);
HWY_EXPORT(CrossEntropyBackward);
HWY_EXPORT(NllLoss);
namespace {
void nll_loss(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(NllLoss)(a);
}
void cross_entropy(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(CrossEntropy)(a);
}
void cross_entropy_backward(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(CrossEntropyBackward)(a);
}
}  // namespace
PF_CPU_KERNEL(kernels::NllLoss::kInfo, nll_loss)
PF_CPU_KERNEL(kernels::CrossEntropy::kInfo, cross_entropy)
PF_CPU_KERNEL(kernels::CrossEntropyBackward::kInfo, cross_entropy_backward)
}  // namespace pyflame::cpu
#endif  // HWY_ONCE
