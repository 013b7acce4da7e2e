// softmax and log_softmax over the last axis of contiguous tensors, and their gradients. One loop
// per row does three rows' worth of work at once (store of row r-1, exp of row r, maximum of row
// r+1, prefetch of row r+2), so that memory and arithmetic overlap.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/softmax.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "cpu/kernel.h"
#include "cpu/rows-inl.h"
#include "table/kernels/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {

template <class S>
HWY_INLINE ComputeOf<S> RowMax(const S* x, int64_t n) {
  using T = ComputeOf<S>;
  constexpr T kLow = -std::numeric_limits<T>::infinity();
  Four<T> m(kLow);
  ForRow<T>(
      n, At<1, 0, S>{{x}, {}}, kLow,
      [&](auto step, const auto& at, int64_t j)
          PF_INLINE { m.a[step.index] = WMax(m.a[step.index], Load(at.in[0] + j)); },
      []() PF_INLINE {});
  return m.max();
}

// In `exps` lie exp(x - max) of two rows in turn. The first row's loop has nothing to write.
template <class S, bool kStream>
void SoftmaxRows(Ahead<S> ahead, const Rows<S>& x, Feed feed, S* y, int64_t n, int64_t begin,
                 int64_t end, char* memory) {
  using T = ComputeOf<S>;
  constexpr T kLow = -std::numeric_limits<T>::infinity();
  const int64_t padded = whole_stretches(n);
  T* const exps = Parts(memory).take<T>(2 * padded);
  feed.whole(n);
  T max_now = RowMax(x.at(begin), n);
  Wide<T> scale = Fill(T(0));  // 1 / sum of row r-1
  const auto loop = [&](auto is_first, int64_t r) PF_INLINE {
    constexpr bool kFirst = decltype(is_first)::value;
    const S* now = x.at(r);
    const S* next = x.at(r + 1 < end ? r + 1 : r);
    const auto before = feed.beside(r + 1 < end);
    T* e = exps + (r & 1) * padded;
    const T* e_before = exps + (~r & 1) * padded;
    const Wide<T> shift = Fill(max_now);
    Four<T> m(kLow), s(T(0));
    T total = 0;
    const auto body = [&](auto step, const auto& at, int64_t j) PF_INLINE {
      Wide<T> out;
      if constexpr (!kFirst) {
        out = Load(e_before) * scale;
        e_before += Wide<T>::kLanes;
      }
      const Wide<T> v = WExpNeg(Load(at.in[0] + j) - shift);
      m.a[step.index] = WMax(m.a[step.index], Load(at.in[1] + j));
      s.a[step.index] = s.a[step.index] + v;
      ahead.fetch(step, r * n + at.first + j);
      if constexpr (!kFirst) Put<kStream>(out, at.out[0] + j);  // after the loads: see rows-inl.h
      Store(v, e);
      e += Wide<T>::kLanes;
    };
    const auto fold = [&]() PF_INLINE {
      total += s.sum();
      s.reset(T(0));
    };
    if constexpr (kFirst)
      ForRow<T>(n, At<2, 0, S>{{now, next}, {}}, kLow, body, fold, before);
    else
      ForRow<T>(n, At<2, 1, S>{{now, next}, {y + (r - 1) * n}}, kLow, body, fold, before);
    scale = Fill(T(1) / total);
    max_now = m.max();
  };
  loop(std::true_type(), begin);
  for (int64_t r = begin + 1; r < end; ++r) loop(std::false_type(), r);
  const T* e = exps + (~end & 1) * padded;
  ForRow<T>(
      n, At<0, 1, S>{{}, {y + (end - 1) * n}}, T(0),
      [&](auto, const auto& at, int64_t j) PF_INLINE {
        Put<kStream>(Load(e) * scale, at.out[0] + j);
        e += Wide<T>::kLanes;
      },
      []() PF_INLINE {});
}

template <class S, bool kStream>
void LogSoftmaxRows(Ahead<S> ahead, const Rows<S>& x, Feed feed, S* y, int64_t n, int64_t begin,
                    int64_t end) {
  using T = ComputeOf<S>;
  constexpr T kLow = -std::numeric_limits<T>::infinity();
  feed.whole(n);
  T max_now = RowMax(x.at(begin), n);
  Wide<T> max_before = Fill(T(0)), log_before = Fill(T(0));
  // Two subtractions: max + log(sum) would lose the logarithm beside a large maximum.
  const auto result = [&](const S* p) PF_INLINE { return Load(p) - max_before - log_before; };
  const auto loop = [&](auto is_first, int64_t r) PF_INLINE {
    constexpr bool kFirst = decltype(is_first)::value;
    const S* now = x.at(r);
    const S* next = x.at(r + 1 < end ? r + 1 : r);
    const auto before = feed.beside(r + 1 < end);
    const Wide<T> shift = Fill(max_now);
    Four<T> m(kLow), s(T(0));
    T total = 0;
    const auto body = [&](auto step, const auto& at, int64_t j) PF_INLINE {
      Wide<T> out;
      if constexpr (!kFirst) out = result(at.in[2] + j);
      s.a[step.index] = s.a[step.index] + WExpNeg(Load(at.in[0] + j) - shift);
      m.a[step.index] = WMax(m.a[step.index], Load(at.in[1] + j));
      ahead.fetch(step, r * n + at.first + j);
      if constexpr (!kFirst) Put<kStream>(out, at.out[0] + j);
    };
    const auto fold = [&]() PF_INLINE {
      total += s.sum();
      s.reset(T(0));
    };
    if constexpr (kFirst)
      ForRow<T>(n, At<2, 0, S>{{now, next}, {}}, kLow, body, fold, before);
    else
      ForRow<T>(n, At<3, 1, S>{{now, next, x.at(r - 1)}, {y + (r - 1) * n}}, kLow, body, fold,
                before);
    max_before = shift;
    log_before = Fill(T(std::log(total)));
    max_now = m.max();
  };
  loop(std::true_type(), begin);
  for (int64_t r = begin + 1; r < end; ++r) loop(std::false_type(), r);
  ForRow<T>(
      n, At<1, 1, S>{{x.at(end - 1)}, {y + (end - 1) * n}}, T(0),
      [&](auto, const auto& at, int64_t j)
          PF_INLINE { Put<kStream>(result(at.in[0] + j), at.out[0] + j); },
      []() PF_INLINE {});
}

template <class S, bool kLog>
void SoftmaxOf(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::Softmax>;
  const pf_tensor& in = a.tensor(at.x);
  const int64_t n = in.ndim == 0 ? 1 : in.shape[in.ndim - 1];
  const int64_t total = numel(in);
  if (total == 0) return;
  const Rows<S> x(a, at.x, n);
  const Ahead<S> ahead(a, a.data<S>(at.x), n);
  const Feed feed(a);
  S* y = a.data<S>(at.y);
  const int64_t bytes = static_cast<int64_t>(sizeof(S));
  const bool stream = Streams(a, y, n * bytes, total * bytes);
  char* own = a.piece ? a.piece->scratch : nullptr;
  const auto rows = [&](int64_t begin, int64_t end, char* memory) {
    const auto run = [&](auto streams) {
      constexpr bool kStream = decltype(streams)::value;
      if constexpr (kLog)
        LogSoftmaxRows<S, kStream>(ahead, x, feed, y, n, begin, end);
      else
        SoftmaxRows<S, kStream>(ahead, x, feed, y, n, begin, end, memory);
    };
    if constexpr (std::is_same_v<S, float>)
      if (stream) {
        run(std::true_type());
        return FinishRows(a, end - begin == total / n);
      }
    run(std::false_type());
  };
  if (feed) return rows(0, total / n, own);
  for_rows(own, total / n, RowGrain(n), softmax_scratch(a.dtype(0), n), rows);
}

// softmax: dx = y (g - sum(g y)); log_softmax: dx = g - exp(y) sum(g). Sums row r+1 and writes row
// r in one loop.
template <class S, bool kLog, bool kStream>
void BackwardRows(const Rows<S>& g, const Rows<S>& y, Feed feed, S* dx, int64_t n, int64_t begin,
                  int64_t end) {
  using T = ComputeOf<S>;
  const auto add = [](Wide<T>& s, const S* gp, const S* yp) PF_INLINE {
    if constexpr (kLog)
      s = s + Load(gp);
    else
      s = Fma(Load(gp), Load(yp), s);
  };
  Four<T> s(T(0));
  T total = 0;
  const auto fold = [&]() PF_INLINE {
    total += s.sum();
    s.reset(T(0));
  };
  feed.whole(n);
  ForRow<T>(
      n, At<2, 0, S>{{g.at(begin), y.at(begin)}, {}}, T(0),
      [&](auto step, const auto& at, int64_t j)
          PF_INLINE { add(s.a[step.index], at.in[0] + j, at.in[1] + j); },
      fold);
  for (int64_t r = begin; r < end; ++r) {
    const int64_t up = r + 1 < end ? r + 1 : r;
    const auto before = feed.beside(up > r);
    const Wide<T> d = Fill(total);
    total = 0;
    ForRow<T>(
        n, At<4, 1, S>{{g.at(r), y.at(r), g.at(up), y.at(up)}, {dx + r * n}}, T(0),
        [&](auto step, const auto& at, int64_t j) PF_INLINE {
          const Wide<T> vg = Load(at.in[0] + j), vy = Load(at.in[1] + j);
          add(s.a[step.index], at.in[2] + j, at.in[3] + j);
          if constexpr (kLog)
            Put<kStream>(vg - WExpNeg(vy) * d, at.out[0] + j);
          else
            Put<kStream>(vy * (vg - d), at.out[0] + j);
        },
        fold, before);
  }
}

template <class S, bool kLog>
void BackwardOf(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::SoftmaxBackward>;
  const pf_tensor& in = a.tensor(at.dy);
  const int64_t n = in.ndim == 0 ? 1 : in.shape[in.ndim - 1];
  const int64_t total = numel(in);
  if (total == 0) return;
  const Rows<S> g(a, at.dy, n), y(a, at.y, n);
  const Feed feed(a);
  S* dx = a.data<S>(at.dx);
  const int64_t bytes = static_cast<int64_t>(sizeof(S));
  const bool stream = Streams(a, dx, n * bytes, total * bytes);
  ForRows(a, total / n, RowGrain(n), [&](int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<S, float>)
      if (stream) {
        BackwardRows<S, kLog, true>(g, y, feed, dx, n, begin, end);
        return FinishRows(a, end - begin == total / n);
      }
    BackwardRows<S, kLog, false>(g, y, feed, dx, n, begin, end);
  });
}

}  // namespace

void Softmax(const KernelArgs& a) {
  dispatch_float(a.dtype(0), [&]<class S>() { SoftmaxOf<S, false>(a); });
}
void LogSoftmax(const KernelArgs& a) {
  dispatch_float(a.dtype(0), [&]<class S>() { SoftmaxOf<S, true>(a); });
}
void SoftmaxBackward(const KernelArgs& a) {
  dispatch_float(a.dtype(0), [&]<class S>() { BackwardOf<S, false>(a); });
}
void LogSoftmaxBackward(const KernelArgs& a) {
  dispatch_float(a.dtype(0), [&]<class S>() { BackwardOf<S, true>(a); });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
namespace {
// All tensors have the same shape, and their rows are one another's business.
Pieces pieces(const KernelArgs& a) {
  const pf_tensor& t = a.tensor(0);
  const int64_t n = t.ndim == 0 ? 1 : t.shape[t.ndim - 1];
  Pieces p;
  if (n == 0) return p;
  p.rows = numel(t) / n;
  p.width = n;
  p.scratch = softmax_scratch(a.dtype(0), n);
  for (int i = 0; i < a.ntensors; ++i) p.per_row[i] = n;
  p.feeds = ~uint32_t{0};
  return p;
}
}  // namespace
PF_CPU_SIMD_KERNEL(Softmax, pieces)
PF_CPU_SIMD_KERNEL(LogSoftmax, pieces)
PF_CPU_SIMD_KERNEL(SoftmaxBackward, pieces)
PF_CPU_SIMD_KERNEL(LogSoftmaxBackward, pieces)
}  // namespace pyflame::cpu
#endif  // HWY_ONCE
