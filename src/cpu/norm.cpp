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

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {

// weight or bias in the compute type, filled up to whole stretches.
template <class T>
class Affine {
 public:
  Affine(const KernelArgs& a, int i, int64_t n, T otherwise) : p_((n + 63) / 64 * 64) {
    for (int64_t k = 0; k < (n + 63) / 64 * 64; ++k) p_.get()[k] = otherwise;
    if (!a.has(i)) return;
    dispatch_float(a.dtype(i), [&]<class S>() {
      const S* q = a.data<S>(i);
      for (int64_t k = 0; k < n; ++k) p_.get()[k] = static_cast<T>(ToCompute(q[k]));
    });
  }
  const T* get() const { return p_.get(); }

 private:
  Scratch<T> p_;
};

// From the mean of squares of differences from what was near the mean, and how near it was.
template <class T>
T VarianceOf(T square, T rest) {
  const T var = square - rest * rest;
  if (var != var && rest == rest) return std::numeric_limits<T>::infinity();  // inf - inf
  return var < 0 ? T(0) : var;
}

template <class S, bool kStream>
void LayerNormRows(const S* x, S* y, ComputeOf<S>* means, ComputeOf<S>* rstds,
                   const ComputeOf<S>* w, const ComputeOf<S>* b, ComputeOf<S> eps, int64_t n,
                   int64_t begin, int64_t end) {
  using T = ComputeOf<S>;
  const T count = static_cast<T>(n);
  Scratch<S> nowhere(n);
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
  ForRow<T>(
      n, At<1, 0, S>{{x + begin * n}, {}}, T(0),
      [&](auto step, const auto& at, int64_t j)
          PF_INLINE { s.a[step.index] = s.a[step.index] + Load(at.in[0] + j); },
      fold);
  Wide<T> mean_before = Fill(T(0)), shift_before = Fill(T(0)), rstd_before = Fill(T(0));
  for (int64_t r = begin; r <= end; ++r) {
    const bool last = r == end;
    const S* before = x + (r > begin ? r - 1 : r) * n;
    S* out = r > begin ? y + (r - 1) * n : nowhere.get();
    const auto write = [&](const auto& at, int64_t j) PF_INLINE {
      const int64_t c = at.first + j;
      const Wide<T> hat = Fma(Load(at.in[0] + j) - mean_before, rstd_before, shift_before);
      Put<kStream>(hat * Load(w + c) + Load(b + c), at.out[0] + j);
    };
    if (last) {
      ForRow<T>(
          n, At<1, 1, S>{{before}, {out}}, T(0),
          [&](auto, const auto& at, int64_t j) PF_INLINE { write(at, j); }, []() PF_INLINE {});
      break;
    }
    const T mean = sum / count;
    const Wide<T> m = Fill(mean);
    const S* now = x + r * n;
    const S* next = r + 1 < end ? now + n : now;
    sum = off = square = 0;
    ForRow<T>(
        n, At<3, 1, S>{{before, now, next}, {out}}, T(0),
        [&](auto step, const auto& at, int64_t j) PF_INLINE {
          const Wide<T> d = Valid(Load(at.in[1] + j) - m, at, j), v = Load(at.in[2] + j);
          q.a[step.index] = q.a[step.index] + d * d;
          e.a[step.index] = e.a[step.index] + d;
          s.a[step.index] = s.a[step.index] + v;
          PrefetchAt(at.in[1] + j + 2 * n);
          write(at, j);  // after the loads: see rows-inl.h
        },
        fold);
    const T rest = off / count;
    const T rstd = T(1) / std::sqrt(VarianceOf(square / count, rest) + eps);
    means[2 * r] = mean;
    means[2 * r + 1] = rest;
    rstds[r] = rstd;
    mean_before = m;
    shift_before = Fill(-rest * rstd);
    rstd_before = Fill(rstd);
  }
  if (kStream) hwy::FlushStream();
}

template <class S, bool kStream>
void RmsNormRows(const S* x, S* y, ComputeOf<S>* rstds, const ComputeOf<S>* w, ComputeOf<S> eps,
                 int64_t n, int64_t begin, int64_t end) {
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
  ForRow<T>(
      n, At<1, 0, S>{{x + begin * n}, {}}, T(0),
      [&](auto step, const auto& at, int64_t j) PF_INLINE { add(step, at.in[0] + j); }, fold);
  for (int64_t r = begin; r < end; ++r) {
    const T rstd = T(1) / std::sqrt(square / static_cast<T>(n) + eps);
    rstds[r] = rstd;
    const Wide<T> k = Fill(rstd);
    const S* now = x + r * n;
    const S* next = r + 1 < end ? now + n : now;
    square = 0;
    ForRow<T>(
        n, At<2, 1, S>{{now, next}, {y + r * n}}, T(0),
        [&](auto step, const auto& at, int64_t j) PF_INLINE {
          const Wide<T> y = Load(at.in[0] + j) * k * Load(w + at.first + j);
          add(step, at.in[1] + j);
          Put<kStream>(y, at.out[0] + j);
        },
        fold);
  }
  if (kStream) hwy::FlushStream();
}

// Tensors: y, [mean,] rstd, x, weight, [bias]. attrs: length of a row, eps.
template <class S, bool kRms>
void NormOf(const KernelArgs& a) {
  using T = ComputeOf<S>;
  const pf_tensor& in = a.tensor(kRms ? 2 : 3);
  const int64_t n = a.i(0), total = numel(in);
  if (total == 0) return;
  const S* x = static_cast<const S*>(in.data);
  S* y = a.data<S>(0);
  const T eps = static_cast<T>(a.f(1));
  const Affine<T> w(a, kRms ? 3 : 4, n, T(1)), b(a, kRms ? a.ntensors : 5, n, T(0));
  T* rstd = a.data<T>(kRms ? 1 : 2);
  const int64_t bytes = static_cast<int64_t>(sizeof(S));
  const bool stream = Streams(y, n * bytes, total * bytes);
  parallel_for(total / n, RowGrain(n), [&](int64_t begin, int64_t end) {
    const auto run = [&](auto streams) {
      constexpr bool kStream = decltype(streams)::value;
      if constexpr (kRms)
        RmsNormRows<S, kStream>(x, y, rstd, w.get(), eps, n, begin, end);
      else
        LayerNormRows<S, kStream>(x, y, a.data<T>(1), rstd, w.get(), b.get(), eps, n, begin, end);
    };
    if constexpr (std::is_same_v<S, float>)
      if (stream) return run(std::true_type());
    run(std::false_type());
  });
}

// xhat = (x - mean) rstd, h = g w: dx = rstd (h - mean(h) - xhat mean(h xhat)); without
// the first mean for rms_norm. dw += g xhat, db += g over the rows of a block.
template <class S, bool kRms, bool kParams, bool kStream>
void BackwardBlock(const S* g, const S* x, const ComputeOf<S>* means, const ComputeOf<S>* rstds,
                   const ComputeOf<S>* w, S* dx, ComputeOf<S>* dw, ComputeOf<S>* db, int64_t n,
                   int64_t begin, int64_t end) {
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
  ForRow<T>(
      n, At<2, 0, S>{{g + begin * n, x + begin * n}, {}}, T(0),
      [&](auto step, const auto& at, int64_t j)
          PF_INLINE { add(step, at.in[0] + j, at.in[1] + j, at.first + j); },
      fold);
  for (int64_t r = begin; r < end; ++r) {
    const int64_t up = r + 1 < end ? n : 0;
    const Wide<T> mean = mean_next, rstd = Fill(rstds[r]);
    const Wide<T> shift = Fill(kRms ? T(0) : -means[2 * r + 1] * rstds[r]);
    const Wide<T> c1 = Fill(sum * scale), c2 = Fill(dot * rstds[r] * scale);
    mean_next = mean_of(r + (up > 0), 0);
    rest_next = mean_of(r + (up > 0), 1);
    sum = dot = 0;
    const S *gr = g + r * n, *xr = x + r * n;
    ForRow<T>(
        n, At<4, 1, S>{{gr, xr, gr + up, xr + up}, {dx + r * n}}, T(0),
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
        fold);
  }
  if (kStream) hwy::FlushStream();
}

template <class T>
void StoreParam(const KernelArgs& a, int i, int64_t k, T v) {
  if (!a.has(i)) return;
  dispatch_float(a.dtype(i),
                 [&]<class S>() { StoreOne(static_cast<ComputeOf<S>>(v), a.data<S>(i) + k); });
}

// Tensors: dx, dweight, [dbias,] g, x, [mean,] rstd, weight. attrs: length of a row.
template <class S, bool kRms>
void BackwardOf(const KernelArgs& a) {
  using T = ComputeOf<S>;
  const int in = kRms ? 2 : 3;
  const int64_t n = a.i(0), total = numel(a.tensor(in));
  const bool params = a.has(1) || (!kRms && a.has(2));
  if (total == 0) {
    for (int64_t k = 0; params && k < n; ++k) {
      StoreParam(a, 1, k, T(0));
      if (!kRms) StoreParam(a, 2, k, T(0));
    }
    return;
  }
  const int64_t rows = total / n, padded = (n + 63) / 64 * 64;
  const int64_t block = std::max<int64_t>(16, (rows + 63) / 64),
                blocks = (rows + block - 1) / block;
  const S *g = a.data<S>(in), *x = a.data<S>(in + 1);
  const T* means = kRms ? nullptr : a.data<T>(in + 2);
  const T* rstds = a.data<T>(in + (kRms ? 2 : 3));
  const Affine<T> w(a, in + (kRms ? 3 : 4), n, T(1));
  S* dx = a.data<S>(0);
  constexpr int64_t kSums = kRms ? 1 : 2;
  Scratch<T> partial(params ? blocks * kSums * padded : 0);
  const int64_t bytes = static_cast<int64_t>(sizeof(S));
  const bool stream = std::is_same_v<S, float> && Streams(dx, n * bytes, total * bytes);
  const auto run = [&](int64_t b, auto streams, auto with_params) {
    T* dw = partial.get() + (with_params.value ? b * kSums * padded : 0);
    if constexpr (with_params.value)
      std::memset(static_cast<void*>(dw), 0, sizeof(T) * static_cast<size_t>(kSums * padded));
    BackwardBlock<S, kRms, with_params.value, streams.value>(g, x, means, rstds, w.get(), dx, dw,
                                                             dw + padded, n, b * block,
                                                             std::min(rows, (b + 1) * block));
  };
  parallel_for(blocks, (RowGrain(n) + block - 1) / block, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      if constexpr (std::is_same_v<S, float>) {
        if (stream) {
          params ? run(b, std::true_type(), std::true_type())
                 : run(b, std::true_type(), std::false_type());
          continue;
        }
      }
      params ? run(b, std::false_type(), std::true_type())
             : run(b, std::false_type(), std::false_type());
    }
  });
  if (!params) return;
  for (int64_t left = blocks; left > 1; left = (left + 1) / 2)  // a tree over the blocks
    for (int64_t i = 0; i < (left + 1) / 2; ++i) {
      T* to = partial.get() + i * kSums * padded;
      const T* p = partial.get() + 2 * i * kSums * padded;
      const T* q = p + kSums * padded;
      const bool pair = 2 * i + 1 < left;
      for (int64_t c = 0; c < kSums * padded; c += Wide<T>::kLanes)
        Store(pair ? Load(p + c) + Load(q + c) : Load(p + c), to + c);
    }
  for (int64_t k = 0; k < n; ++k) {
    StoreParam(a, 1, k, partial.get()[k]);
    if (!kRms) StoreParam(a, 2, k, partial.get()[padded + k]);
  }
}

}  // namespace

void LayerNorm(const KernelArgs& a) {
  dispatch_float(a.dtype(3), [&]<class S>() { NormOf<S, false>(a); });
}
void RmsNorm(const KernelArgs& a) {
  dispatch_float(a.dtype(2), [&]<class S>() { NormOf<S, true>(a); });
}
void LayerNormBackward(const KernelArgs& a) {
  dispatch_float(a.dtype(3), [&]<class S>() { BackwardOf<S, false>(a); });
}
void RmsNormBackward(const KernelArgs& a) {
  dispatch_float(a.dtype(2), [&]<class S>() { BackwardOf<S, true>(a); });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
HWY_EXPORT(LayerNorm);
HWY_EXPORT(RmsNorm);
HWY_EXPORT(LayerNormBackward);
HWY_EXPORT(RmsNormBackward);
namespace {
void layer_norm(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(LayerNorm)(a);
}
void rms_norm(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(RmsNorm)(a);
}
void layer_norm_backward(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(LayerNormBackward)(a);
}
void rms_norm_backward(const KernelArgs& a) {
  HWY_DYNAMIC_DISPATCH(RmsNormBackward)(a);
}
}  // namespace
PF_CPU_KERNEL("layer_norm", layer_norm)
PF_CPU_KERNEL("rms_norm", rms_norm)
PF_CPU_KERNEL("layer_norm_backward", layer_norm_backward)
PF_CPU_KERNEL("rms_norm_backward", rms_norm_backward)
}  // namespace pyflame::cpu
#endif  // HWY_ONCE
