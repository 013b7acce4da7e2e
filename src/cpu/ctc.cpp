// Connectionist temporal classification: each sequence by one thread, its positions by vectors.
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/ctc.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <hwy/highway.h>

#include "core/dispatch.h"
#include "cpu/kernel.h"
#include "cpu/scratch.h"
#include "cpu/vmath-inl.h"
#include "table/kernels/ctc.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {

template <class T>
inline constexpr T kNever = -std::numeric_limits<T>::infinity();
inline constexpr int64_t kPad = 16;  // elements around a row: as many as a vector has, or more

template <class T>
HWY_INLINE Lanes<T> At(const T* p) {
  return Lanes<T>(hn::LoadU(typename Lanes<T>::D(), p));
}

// log(exp(a) + exp(b) + exp(c)), where -inf is what cannot be.
template <class T>
HWY_INLINE Lanes<T> LogSum(Lanes<T> a, Lanes<T> b, Lanes<T> c) {
  const Lanes<T> top = Max(a, Max(b, c));
  const Lanes<T> by = Select(top == Lanes<T>(kNever<T>), Lanes<T>(T(0)), top);
  return by + Log(Exp(a - by) + Exp(b - by) + Exp(c - by));
}
template <class T>
T LogSum(T a, T b) {
  const T top = std::max(a, b);
  return top == kNever<T> ? top : top + std::log1p(std::exp(std::min(a, b) - top));
}

// One sequence: its positions, and rows of them, each with room around it that is never written.
template <class T>
struct Sequence {
  const pf_tensor& probs;
  const T* base;
  int64_t steps, length, width, whole;  // positions, and those that rows have room for
  int64_t classes, wide;                // positions in vectors, wholly
  int64_t* label;
  T *skip, *emit, *now, *next;

  static int64_t room(int64_t width) { return (width + kPad - 1) / kPad * kPad + 2 * kPad; }
  static size_t bytes(int64_t width) {
    return static_cast<size_t>(room(width)) * (sizeof(int64_t) + 4 * sizeof(T));
  }

  Sequence(const KernelArgs& a, const pf_tensor& p, int64_t n, const int64_t* targets,
           int64_t labels, int64_t input_length, int64_t target_length, int64_t blank, char* memory)
      : probs(p),
        base(static_cast<const T*>(p.data) + n * p.strides[1]),
        steps(input_length),
        length(target_length),
        width(2 * target_length + 1),
        whole(2 * labels + 1),
        classes(p.shape[2]) {
    const int64_t size = room(whole);
    wide = (width + kPad - 1) / kPad * kPad;
    label = reinterpret_cast<int64_t*>(memory) + kPad;
    T* rows = reinterpret_cast<T*>(memory + static_cast<size_t>(size) * sizeof(int64_t));
    std::fill(rows, rows + 4 * size, kNever<T>);
    skip = rows + kPad;
    emit = skip + size;
    now = emit + size;
    next = now + size;
    for (int64_t s = 0; s < width; ++s) {
      int64_t c = blank;
      if (s % 2 == 1) c = targets[s / 2];
      if (c < 0 || c >= classes) {
        a.bad_index(c, 0, classes);
        c = blank;
      }
      label[s] = c;
      // Over a blank, unless two labels are the same.
      if (s % 2 == 1 && s > 1 && c != label[s - 2] && c != blank) skip[s] = T(0);
    }
  }
  const T& prob(int64_t t, int64_t c) const {
    return base[t * probs.strides[0] + c * probs.strides[2]];
  }
  void emissions(int64_t t) {
    for (int64_t s = 0; s < width; ++s) emit[s] = prob(t, label[s]);
  }
  void hide_rest(T* row) const { std::fill(row + width, row + wide, kNever<T>); }
};

template <class T>
void ForwardOf(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::Ctc>;
  const pf_tensor& probs = a.tensor(at.log_probs);
  const int64_t blank = a.i(kernels::numbers<kernels::Ctc>.blank);
  const int64_t steps = probs.shape[0], batch = probs.shape[1];
  const int64_t labels = a.tensor(at.targets).shape[1], whole = 2 * labels + 1;
  const auto* targets = a.data<int64_t>(at.targets);
  const auto* in = a.data<int64_t>(at.input_lengths);
  const auto* out = a.data<int64_t>(at.target_lengths);
  T* loss = a.data<T>(at.loss);
  T* alphas = a.data<T>(at.alpha);
  const int64_t grain = std::max<int64_t>(1, 2000 / std::max<int64_t>(1, steps * whole));
  parallel_with(batch, grain, Sequence<T>::bytes(whole), [&](int64_t begin, int64_t end, char* m) {
    for (int64_t n = begin; n < end; ++n) {
      Sequence<T> q(a, probs, n, targets + n * labels, labels, in[n], out[n], blank, m);
      T* alpha = alphas + n * steps * whole;
      if (q.steps == 0) {
        loss[n] = q.length == 0 ? T(0) : -kNever<T>;
        continue;
      }
      for (int64_t t = 0; t < q.steps; ++t, alpha += whole) {
        q.emissions(t);
        if (t == 0) {
          q.now[0] = q.emit[0];
          if (q.width > 1) q.now[1] = q.emit[1];
        } else {
          for (int64_t s = 0; s < q.width;
               s += static_cast<int64_t>(hn::Lanes(typename Lanes<T>::D())))
            hn::StoreU(
                (LogSum(At(q.now + s), At(q.now + s - 1), At(q.now + s - 2) + At(q.skip + s)) +
                 At(q.emit + s))
                    .v,
                typename Lanes<T>::D(), q.next + s);
          q.hide_rest(q.next);
          std::swap(q.now, q.next);
        }
        std::memcpy(alpha, q.now, static_cast<size_t>(q.width) * sizeof(T));
      }
      const T last = q.now[q.width - 1];
      loss[n] = -(q.width > 1 ? LogSum(last, q.now[q.width - 2]) : last);
    }
  });
}

template <class T>
void BackwardOf(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::CtcBackward>;
  constexpr auto number = kernels::numbers<kernels::CtcBackward>;
  const pf_tensor& probs = a.tensor(at.log_probs);
  const pf_tensor& g = a.tensor(at.g);
  const int64_t blank = a.i(number.blank);
  const bool zero_infinity = a.i(number.zero_infinity) != 0;
  const int64_t steps = probs.shape[0], batch = probs.shape[1], classes = probs.shape[2];
  const int64_t labels = a.tensor(at.targets).shape[1], whole = 2 * labels + 1;
  const auto* targets = a.data<int64_t>(at.targets);
  const auto* in = a.data<int64_t>(at.input_lengths);
  const auto* out = a.data<int64_t>(at.target_lengths);
  const T* loss = a.data<T>(at.loss);
  const T* alphas = a.data<T>(at.alpha);
  T* grads = a.data<T>(at.grad);
  using D = typename Lanes<T>::D;
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t grain = std::max<int64_t>(1, 2000 / std::max<int64_t>(1, steps * whole));
  parallel_with(batch, grain, Sequence<T>::bytes(whole), [&](int64_t begin, int64_t end, char* m) {
    for (int64_t n = begin; n < end; ++n) {
      Sequence<T> q(a, probs, n, targets + n * labels, labels, in[n], out[n], blank, m);
      const T factor = static_cast<const T*>(g.data)[n * g.strides[0]];
      const bool none = zero_infinity && loss[n] == -kNever<T>;
      for (int64_t t = none ? 0 : q.steps; t < steps; ++t)
        std::fill_n(grads + (t * batch + n) * classes, classes, T(0));
      for (int64_t t = none ? -1 : q.steps - 1; t >= 0; --t) {
        q.emissions(t);
        if (t == q.steps - 1) {  // next: what leads from each position to the end, from here on
          q.next[q.width - 1] = q.emit[q.width - 1];
          if (q.width > 1) q.next[q.width - 2] = q.emit[q.width - 2];
        } else {
          for (int64_t s = 0; s < q.width; s += lanes)
            hn::StoreU(
                (LogSum(At(q.now + s), At(q.now + s + 1), At(q.now + s + 2) + At(q.skip + s + 2)) +
                 At(q.emit + s))
                    .v,
                D(), q.next + s);
          q.hide_rest(q.next);
        }
        const T* alpha = alphas + (n * steps + t) * whole;
        T* grad = grads + (t * batch + n) * classes;
        for (int64_t c = 0; c < classes; ++c) grad[c] = q.prob(t, c);
        int64_t c = 0;
        for (; c + lanes <= classes; c += lanes) hn::StoreU(Exp(At(grad + c)).v, D(), grad + c);
        for (; c < classes; ++c) grad[c] = std::exp(grad[c]);
        for (int64_t s = 0; s < q.width; ++s) {
          const T through = alpha[s] + q.next[s];
          if (through != kNever<T>)
            q.now[s] = through - q.emit[s] + loss[n];
          else
            q.now[s] = through + loss[n];  // NaN where the loss is inf
        }
        for (int64_t s = 0; s < q.width; s += lanes)
          hn::StoreU(Exp(At(q.now + s)).v, D(), q.now + s);
        for (int64_t s = 0; s < q.width; ++s) grad[q.label[s]] -= q.now[s];
        for (c = 0; c < classes; ++c) grad[c] *= factor;
        std::swap(q.now, q.next);
      }
    }
  });
}

}  // namespace

void Ctc(const KernelArgs& a) {
  dispatch_wide(a.dtype(kernels::tensors<kernels::Ctc>.loss), [&]<class T>() { ForwardOf<T>(a); });
}
void CtcBackward(const KernelArgs& a) {
  dispatch_wide(a.dtype(kernels::tensors<kernels::CtcBackward>.grad),
                [&]<class T>() { BackwardOf<T>(a); });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {
PF_CPU_SIMD_KERNEL(Ctc)
PF_CPU_SIMD_KERNEL(CtcBackward)
}  // namespace pyflame::cpu
#endif  // HWY_ONCE
