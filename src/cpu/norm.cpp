// layer_norm and rms_norm over rows of contiguous tensors. Forward: one loop writes row r-1,
// squares the differences of row r and sums row r+1. A mean is two numbers: the sum's, which is
// rounded, and the mean of the differences from it, which is what it was off by. So a row may lie
// far from 0, and one of its elements far from all others. Backward: one loop writes dx of row r,
// adds to the column partials of its block of rows and takes the two sums of row r+1. Blocks of
// rows are fixed by the shape, so gradients of weight and bias do not depend on threads.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/norm.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "cpu/kernel.h"
#include "cpu/reduce_plan.h"
#include "cpu/rows-inl.h"
#include "cpu/threads.h"
#include "table/kernels/norm.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {

// Also of rms_norm, which has no mean and no bias.
constexpr auto kForward = kernels::tensors<kernels::LayerNorm>;
constexpr auto kBackward = kernels::tensors<kernels::LayerNormBackward>;

// weight or bias in the compute type, filled up to whole stretches.
template <class T>
class Affine {
  static constexpr DType kType = sizeof(T) == 4 ? DType::Float32 : DType::Float64;

 public:
  static bool as_it_is(const KernelArgs& a, int i, int64_t n) {
    return n % 64 == 0 && a.has(i) && a.dtype(i) == kType;
  }
  static size_t bytes(const KernelArgs& a, int i, int64_t n) {
    return as_it_is(a, i, n) ? 0 : affine_scratch(kType, n);
  }
  Affine(const KernelArgs& a, int i, int64_t n, T otherwise, Parts& memory) {
    if (as_it_is(a, i, n)) {
      p_ = a.data<T>(i);
      return;
    }
    T* to = memory.take<T>(whole_stretches(n));
    p_ = to;
    for (int64_t k = 0; k < whole_stretches(n); ++k) to[k] = otherwise;
    if (!a.has(i)) return;
    dispatch_float(a.dtype(i), [&]<class S>() {
      const S* q = a.data<S>(i);
      for (int64_t k = 0; k < n; ++k) to[k] = static_cast<T>(ToCompute(q[k]));
    });
  }
  const T* get() const { return p_; }

 private:
  const T* p_;
};

// From the mean of squares of differences from what was near the mean, and how near it was.
template <class T>
T VarianceOf(T square, T rest) {
  const T var = square - rest * rest;
  if (var != var && rest == rest) return std::numeric_limits<T>::infinity();  // inf - inf
  return var < 0 ? T(0) : var;
}

template <class S, bool kStream>
void LayerNormRows(Ahead<S> ahead, const Rows<S>& x, Feed feed, S* y, ComputeOf<S>* means,
                   ComputeOf<S>* rstds, const ComputeOf<S>* w, const ComputeOf<S>* b,
                   ComputeOf<S> eps, int64_t n, int64_t begin, int64_t end) {
  using T = ComputeOf<S>;
  const T count = static_cast<T>(n);
  Four<T> s(T(0)), e(T(0)), q(T(0));
  T sum = 0, off = 0, square = 0;
  const auto fold = [&]() PF_INLINE {
    sum += s.sum();
    off += e.sum();
    square += q.sum();
    s.reset(T(0));
    e.reset(T(0));
    q.reset(T(0));
  };
  feed.whole(n);
  ForRow<T>(
      n, At<1, 0, S>{{x.at(begin)}, {}}, T(0),
      [&](auto step, const auto& at, int64_t j)
          PF_INLINE { s.a[step.index] = s.a[step.index] + Load(at.in[0] + j); },
      fold);
  Wide<T> mean_before = Fill(T(0)), shift_before = Fill(T(0)), rstd_before = Fill(T(0));
  const auto result = [&](const S* p, int64_t c) PF_INLINE {
    const Wide<T> hat = Fma(Load(p) - mean_before, rstd_before, shift_before);
    return hat * Load(w + c) + Load(b + c);
  };
  const auto loop = [&](auto is_first, int64_t r) PF_INLINE {
    constexpr bool kFirst = decltype(is_first)::value;
    const T mean = sum / count;
    const Wide<T> m = Fill(mean);
    const S* now = x.at(r);
    const S* next = x.at(r + 1 < end ? r + 1 : r);
    const auto before = feed.beside(r + 1 < end);
    sum = off = square = 0;
    const auto body = [&](auto step, const auto& at, int64_t j) PF_INLINE {
      const Wide<T> d = Valid(Load(at.in[0] + j) - m, at, j), v = Load(at.in[1] + j);
      q.a[step.index] = q.a[step.index] + d * d;
      e.a[step.index] = e.a[step.index] + d;
      s.a[step.index] = s.a[step.index] + v;
      ahead.fetch(step, r * n + at.first + j);
      if constexpr (!kFirst)  // after the loads: see rows-inl.h
        Put<kStream>(result(at.in[2] + j, at.first + j), at.out[0] + j);
    };
    if constexpr (kFirst)
      ForRow<T>(n, At<2, 0, S>{{now, next}, {}}, T(0), body, fold, before);
    else
      ForRow<T>(n, At<3, 1, S>{{now, next, x.at(r - 1)}, {y + (r - 1) * n}}, T(0), body, fold,
                before);
    const T rest = off / count;
    const T rstd = T(1) / std::sqrt(VarianceOf(square / count, rest) + eps);
    means[2 * r] = mean;
    means[2 * r + 1] = rest;
    rstds[r] = rstd;
    mean_before = m;
    shift_before = Fill(-rest * rstd);
    rstd_before = Fill(rstd);
  };
  loop(std::true_type(), begin);  // has nothing to write
  for (int64_t r = begin + 1; r < end; ++r) loop(std::false_type(), r);
  ForRow<T>(
      n, At<1, 1, S>{{x.at(end - 1)}, {y + (end - 1) * n}}, T(0),
      [&](auto, const auto& at, int64_t j)
          PF_INLINE { Put<kStream>(result(at.in[0] + j, at.first + j), at.out[0] + j); },
      []() PF_INLINE {});
}

template <class S, bool kStream>
void RmsNormRows(const Rows<S>& x, Feed feed, S* y, ComputeOf<S>* rstds, const ComputeOf<S>* w,
                 ComputeOf<S> eps, int64_t n, int64_t begin, int64_t end) {
  using T = ComputeOf<S>;
  Four<T> q(T(0));
  T square = 0;
  const auto fold = [&]() PF_INLINE {
    square += q.sum();
    q.reset(T(0));
  };
  const auto add = [&](auto step, const S* p) PF_INLINE {
    const Wide<T> v = Load(p);
    q.a[step.index] = q.a[step.index] + v * v;
  };
  feed.whole(n);
  ForRow<T>(
      n, At<1, 0, S>{{x.at(begin)}, {}}, T(0),
      [&](auto step, const auto& at, int64_t j) PF_INLINE { add(step, at.in[0] + j); }, fold);
  for (int64_t r = begin; r < end; ++r) {
    const T rstd = T(1) / std::sqrt(square / static_cast<T>(n) + eps);
    rstds[r] = rstd;
    const Wide<T> k = Fill(rstd);
    const S* now = x.at(r);
    const S* next = x.at(r + 1 < end ? r + 1 : r);
    const auto before = feed.beside(r + 1 < end);
    square = 0;
    ForRow<T>(
        n, At<2, 1, S>{{now, next}, {y + r * n}}, T(0),
        [&](auto step, const auto& at, int64_t j) PF_INLINE {
          const Wide<T> y = Load(at.in[0] + j) * k * Load(w + at.first + j);
          add(step, at.in[1] + j);
          Put<kStream>(y, at.out[0] + j);
        },
        fold, before);
  }
}

template <class S, bool kRms>
void NormOf(const KernelArgs& a) {
  using T = ComputeOf<S>;
  constexpr auto at = kForward;
  constexpr auto number = kernels::numbers<kernels::LayerNorm>;
  const int64_t n = a.i(number.length), total = numel(a.tensor(at.x));
  if (total == 0) return;
  const Rows<S> x(a, at.x, n);
  const Feed feed(a);
  S* y = a.data<S>(at.y);
  const T eps = static_cast<T>(a.f(number.eps));
  const auto both =
      Affine<T>::bytes(a, at.weight, n) + (kRms ? 0 : Affine<T>::bytes(a, at.bias, n));
  const Scratch<char> affine(a.piece ? 0 : static_cast<int64_t>(both));
  Parts memory(a.piece ? a.piece->scratch : affine.get());
  const Affine<T> w(a, at.weight, n, T(1), memory);
  const T* bias = kRms ? nullptr : Affine<T>(a, at.bias, n, T(0), memory).get();
  T* rstd = a.data<T>(at.rstd);
  const int64_t bytes = static_cast<int64_t>(sizeof(S));
  const bool stream = Streams(a, y, n * bytes, total * bytes);
  const auto rows = [&](int64_t begin, int64_t end) {
    const auto run = [&](auto streams) {
      constexpr bool kStream = decltype(streams)::value;
      if constexpr (kRms)
        RmsNormRows<S, kStream>(x, feed, y, rstd, w.get(), eps, n, begin, end);
      else
        LayerNormRows<S, kStream>(Ahead<S>(a, a.data<S>(at.x), n), x, feed, y, a.data<T>(at.mean),
                                  rstd, w.get(), bias, eps, n, begin, end);
    };
    if constexpr (std::is_same_v<S, float>)
      if (stream) {
        run(std::true_type());
        return FinishRows(a, end - begin == total / n);
      }
    run(std::false_type());
  };
  ForRows(a, total / n, RowGrain(n), rows);
}

// xhat = (x - mean) rstd, h = g w: dx = rstd (h - mean(h) - xhat mean(h xhat)); without
// the first mean for rms_norm. dw += g xhat, db += g over the rows of a block.
template <class S, bool kRms, bool kParams, bool kStream>
void BackwardBlock(const Rows<S>& g, const Rows<S>& x, Feed feed, const ComputeOf<S>* means,
                   const ComputeOf<S>* rstds, const ComputeOf<S>* w, S* dx, ComputeOf<S>* dw,
                   ComputeOf<S>* db, int64_t n, int64_t begin, int64_t end) {
  using T = ComputeOf<S>;
  const T scale = T(1) / static_cast<T>(n);
  Four<T> s(T(0)), q(T(0));
  T sum = 0, dot = 0;
  const auto fold = [&]() PF_INLINE {
    if (!kRms) sum += s.sum();
    dot += q.sum();
    if (!kRms) s.reset(T(0));
    q.reset(T(0));
  };
  const auto mean_of = [&](int64_t r, int part)
                           PF_INLINE { return Fill(kRms ? T(0) : means[2 * r + part]); };
  Wide<T> mean_next = mean_of(begin, 0), rest_next = mean_of(begin, 1);
  const auto add = [&](auto step, const S* gp, const S* xp, int64_t c) PF_INLINE {
    const Wide<T> h = Load(gp) * Load(w + c);
    if constexpr (!kRms) {
      s.a[step.index] = s.a[step.index] + h;
      q.a[step.index] = Fma(h, (Load(xp) - mean_next) - rest_next, q.a[step.index]);
    } else {
      q.a[step.index] = Fma(h, Load(xp), q.a[step.index]);
    }
  };
  feed.whole(n);
  ForRow<T>(
      n, At<2, 0, S>{{g.at(begin), x.at(begin)}, {}}, T(0),
      [&](auto step, const auto& at, int64_t j)
          PF_INLINE { add(step, at.in[0] + j, at.in[1] + j, at.first + j); },
      fold);
  for (int64_t r = begin; r < end; ++r) {
    const int64_t up = r + 1 < end ? r + 1 : r;
    const auto before = feed.beside(up > r);
    const Wide<T> mean = mean_next, rstd = Fill(rstds[r]);
    const Wide<T> shift = Fill(kRms ? T(0) : -means[2 * r + 1] * rstds[r]);
    const Wide<T> c1 = Fill(sum * scale), c2 = Fill(dot * rstds[r] * scale);
    mean_next = mean_of(up, 0);
    rest_next = mean_of(up, 1);
    sum = dot = 0;
    ForRow<T>(
        n, At<4, 1, S>{{g.at(r), x.at(r), g.at(up), x.at(up)}, {dx + r * n}}, T(0),
        [&](auto step, const auto& at, int64_t j) PF_INLINE {
          const int64_t c = at.first + j;
          const Wide<T> vg = Load(at.in[0] + j), vx = Load(at.in[1] + j);
          const Wide<T> hat = kRms ? vx * rstd : Fma(vx - mean, rstd, shift);
          const Wide<T> h = vg * Load(w + c);
          add(step, at.in[2] + j, at.in[3] + j, c);
          if constexpr (kParams) {
            const Wide<T> wc = Fma(vg, hat, Load(dw + c));
            if constexpr (!kRms) {
              const Wide<T> bc = Load(db + c) + vg;
              Store(bc, db + c);
            }
            Store(wc, dw + c);
          }
          if constexpr (kRms)
            Put<kStream>(rstd * (h - hat * c2), at.out[0] + j);
          else
            Put<kStream>(rstd * (h - c1 - hat * c2), at.out[0] + j);
        },
        fold, before);
  }
}

template <class T>
void StoreParam(const KernelArgs& a, int i, int64_t k, T v) {
  if (!a.has(i)) return;
  dispatch_float(a.dtype(i),
                 [&]<class S>() { StoreOne(static_cast<ComputeOf<S>>(v), a.data<S>(i) + k); });
}

template <class S, bool kRms>
class Backward {
  using T = ComputeOf<S>;
  static constexpr int64_t kSums = kRms ? 1 : 2;

 public:
  // The tensors of `a` are rows from `first` on of all `rows`.
  Backward(const KernelArgs& a, int64_t first, int64_t rows)
      : a_(a),
        first_(first),
        n_(a.i(kernels::numbers<kernels::LayerNormBackward>.length)),
        padded_((n_ + 63) / 64 * 64),
        blocks_(rows) {}
  bool params() const { return a_.has(kBackward.dweight) || a_.has(kBackward.dbias); }
  // Elements of T for the sums of all blocks.
  int64_t partial() const { return params() ? blocks_.count * kSums * padded_ : 0; }
  const NormBlocks& blocks() const { return blocks_; }

  void run(int64_t begin, int64_t end, const T* w, T* partial, bool stream) const {
    if constexpr (std::is_same_v<S, float>)
      if (stream) {
        params() ? run<true, true>(begin, end, w, partial)
                 : run<false, true>(begin, end, w, partial);
        return FinishRows(a_, true);
      }
    params() ? run<true, false>(begin, end, w, partial) : run<false, false>(begin, end, w, partial);
  }

  // Of the whole.
  void finish(T* partial) const {
    if (!params()) return;
    for (int64_t left = blocks_.count; left > 1; left = (left + 1) / 2)  // a tree over the blocks
      for (int64_t i = 0; i < (left + 1) / 2; ++i) {
        T* to = partial + i * kSums * padded_;
        const T* p = partial + 2 * i * kSums * padded_;
        const T* q = p + kSums * padded_;
        const bool pair = 2 * i + 1 < left;
        for (int64_t c = 0; c < kSums * padded_; c += Wide<T>::kLanes)
          Store(pair ? Load(p + c) + Load(q + c) : Load(p + c), to + c);
      }
    for (int64_t k = 0; k < n_; ++k) {
      StoreParam(a_, kBackward.dweight, k, partial[k]);
      if (!kRms) StoreParam(a_, kBackward.dbias, k, partial[padded_ + k]);
    }
  }

 private:
  template <bool kParams, bool kStream>
  void run(int64_t begin, int64_t end, const T* w, T* partial) const {
    for (int64_t r = begin; r < end;) {
      const int64_t b = (first_ + r) / blocks_.rows;
      const int64_t stop = std::min(end, (b + 1) * blocks_.rows - first_);
      T* dw = partial + (kParams ? b * kSums * padded_ : 0);
      if (kParams && (first_ + r) % blocks_.rows == 0)
        std::memset(static_cast<void*>(dw), 0, sizeof(T) * static_cast<size_t>(kSums * padded_));
      BackwardBlock<S, kRms, kParams, kStream>(
          Rows<S>(a_, kBackward.dy, n_), Rows<S>(a_, kBackward.x, n_), Feed(a_),
          a_.data<T>(kBackward.mean), a_.data<T>(kBackward.rstd), w, a_.data<S>(kBackward.dx), dw,
          dw + padded_, n_, r, stop);
      r = stop;
    }
  }

  const KernelArgs& a_;
  int64_t first_, n_, padded_;
  NormBlocks blocks_;
};

template <class S, bool kRms>
void BackwardOf(const KernelArgs& a) {
  using T = ComputeOf<S>;
  constexpr auto at = kBackward;
  const int64_t n = a.i(kernels::numbers<kernels::LayerNormBackward>.length);
  const int64_t total = numel(a.tensor(at.dy));
  if (total == 0) {
    for (int64_t k = 0; k < n; ++k) {
      StoreParam(a, at.dweight, k, T(0));
      StoreParam(a, at.dbias, k, T(0));
    }
    return;
  }
  const int64_t rows = total / n;
  const auto bytes_of_weight = static_cast<int64_t>(Affine<T>::bytes(a, at.weight, n));
  const Scratch<char> affine(a.piece ? 0 : bytes_of_weight);
  Parts memory(a.piece ? a.piece->scratch : affine.get());
  const Affine<T> w(a, at.weight, n, T(1), memory);
  const int64_t bytes = static_cast<int64_t>(sizeof(S));
  const bool stream =
      std::is_same_v<S, float> && Streams(a, a.data<S>(at.dx), n * bytes, total * bytes);
  if (a.piece) {
    const Backward<S, kRms> work(a, a.piece->first_row, a.piece->rows);
    work.run(0, rows, w.get(), static_cast<T*>(a.piece->workspace), stream);
    return;
  }
  const Backward<S, kRms> work(a, 0, rows);
  const NormBlocks& blocks = work.blocks();
  Scratch<T> partial(work.partial());
  parallel_for(blocks.count, (RowGrain(n) + blocks.rows - 1) / blocks.rows,
               [&](int64_t begin, int64_t end) {
                 work.run(begin * blocks.rows, std::min(rows, end * blocks.rows), w.get(),
                          partial.get(), stream);
               });
  work.finish(partial.get());
}

}  // namespace

void LayerNorm(const KernelArgs& a) {
  dispatch_float(a.dtype(kForward.x), [&]<class S>() { NormOf<S, false>(a); });
}
void RmsNorm(const KernelArgs& a) {
  dispatch_float(a.dtype(kForward.x), [&]<class S>() { NormOf<S, true>(a); });
}
void LayerNormBackward(const KernelArgs& a) {
  dispatch_float(a.dtype(kBackward.dy), [&]<class S>() { BackwardOf<S, false>(a); });
}
void RmsNormBackward(const KernelArgs& a) {
  dispatch_float(a.dtype(kBackward.dy), [&]<class S>() { BackwardOf<S, true>(a); });
}

// The gradients of weight and bias, after the last piece.
void FinishLayerNormBackward(const KernelArgs& a) {
  dispatch_float(a.dtype(kBackward.dy), [&]<class S>() {
    Backward<S, false>(a, 0, a.piece->rows).finish(static_cast<ComputeOf<S>*>(a.piece->workspace));
  });
}
void FinishRmsNormBackward(const KernelArgs& a) {
  dispatch_float(a.dtype(kBackward.dy), [&]<class S>() {
    Backward<S, true>(a, 0, a.piece->rows).finish(static_cast<ComputeOf<S>*>(a.piece->workspace));
  });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
HWY_EXPORT(FinishLayerNormBackward);
HWY_EXPORT(FinishRmsNormBackward);
namespace {
Pieces forward_pieces(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::LayerNorm>;
  Pieces p;
  p.width = a.i(kernels::numbers<kernels::LayerNorm>.length);
  if (p.width == 0) return p;
  const DType t = a.dtype(at.x);
  p.rows = numel(a.tensor(at.x)) / p.width;
  p.per_row[at.y] = p.per_row[at.x] = p.width;
  p.per_row[at.mean] = 2;
  p.per_row[at.rstd] = 1;
  p.scratch = 2 * affine_scratch(t, p.width);
  p.feeds = 1U << at.x;
  return p;
}
void finish_layer_norm(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(FinishLayerNormBackward)(a);
}
void finish_rms_norm(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(FinishRmsNormBackward)(a);
}
template <bool kRms>
Pieces backward_pieces(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::LayerNormBackward>;
  Pieces p;
  p.width = a.i(kernels::numbers<kernels::LayerNormBackward>.length);
  if (p.width == 0) return p;
  const DType t = a.dtype(at.dy);
  p.rows = numel(a.tensor(at.dy)) / p.width;
  p.per_row[at.dx] = p.per_row[at.dy] = p.per_row[at.x] = p.width;
  p.per_row[at.mean] = 2;
  p.per_row[at.rstd] = 1;
  const NormBlocks blocks(p.rows);
  p.range = blocks.rows;
  const int64_t sums = (kRms ? 1 : 2) * ((p.width + 63) / 64 * 64);
  const size_t item = t == DType::Float64 ? 8 : 4;
  p.workspace = static_cast<size_t>(blocks.count * sums) * item;
  p.finish = kRms ? finish_rms_norm : finish_layer_norm;
  p.scratch = affine_scratch(t, p.width);
  p.feeds = 1U << at.dy | 1U << at.x;
  return p;
}
}  // namespace
PF_CPU_SIMD_KERNEL(LayerNorm, forward_pieces)
PF_CPU_SIMD_KERNEL(RmsNorm, forward_pieces)
PF_CPU_SIMD_KERNEL(LayerNormBackward, backward_pieces<false>)
PF_CPU_SIMD_KERNEL(RmsNormBackward, backward_pieces<true>)
}  // namespace pyflame::cpu
#endif  // HWY_ONCE
