// Connectionist temporal classification (table/kernels/ctc.h): a block for each sequence, whose
// threads share its positions; one step of time after the other. What is added has one order.
//
//   -DPF_T=  float, double
#include "kernels/error_args.h"
#include "kernels/integers.h"

struct pf_ctc {
  const void* probs;  // [steps, batch, classes] with these strides
  pf_i64 step_t, step_n, step_c;
  pf_i64 steps, batch, classes, labels, blank;
  const pf_i64 *targets, *inputs, *lengths;
  void *loss, *alpha;
  void* grad;  // [steps, batch, classes], contiguous
  const void* g;
  pf_i64 step_g;
  void* rows;      // three rows of positions for each sequence
  pf_i32* behind;  // of each label the next that is the same; of one that is not the first, -2
  pf_i64 zero_infinity;
  pf_error error;
};
static_assert(sizeof(pf_ctc) == 192, "as hosts fill it");

#ifdef PF_DEVICE_TEXT
#include "kernels/index_error.h"
#include "kernels/math.h"
#include "kernels/space.h"

typedef PF_T T;

enum { PF_CTC_THREADS = 128 };

PF_DEVICE T pf_never() {
  return -pf_float<T>::infinity();
}
// log(exp(a) + exp(b) + exp(c)), where -inf is what cannot be.
PF_DEVICE T pf_log_sum(T a, T b, T c) {
  const T ab = a > b ? a : b, top = ab > c ? ab : c;
  const T by = top == pf_never() ? T(0) : top;
  return by + pf_log(pf_exp(a - by) + pf_exp(b - by) + pf_exp(c - by));
}

// One sequence.
struct pf_reading {
  const pf_ctc& q;
  pf_i64 n, steps, width;
  const pf_i64* target;
  PF_METHOD pf_reading(const pf_ctc& c)
      : q(c),
        n(static_cast<pf_i64>(pf_block())),
        steps(c.inputs[pf_block()]),
        width(2 * c.lengths[pf_block()] + 1),
        target(c.targets + static_cast<pf_i64>(pf_block()) * c.labels) {}
  PF_METHOD pf_i64 label(pf_i64 s) const {
    return s % 2 == 0 ? q.blank : pf_clamped(q.error, target[s / 2], q.classes, false);
  }
  PF_METHOD T prob(pf_i64 t, pf_i64 c) const {
    return static_cast<const T*>(q.probs)[t * q.step_t + n * q.step_n + c * q.step_c];
  }
  // Whether a reading may go from position s - 2 to s.
  PF_METHOD bool skips(pf_i64 s) const {
    return s % 2 == 1 && s > 1 && s < width && label(s) != label(s - 2) && label(s) != q.blank;
  }
};

PF_KERNEL(pf_ctc_forward, PF_CTC_THREADS)(const pf_ctc q) {
  const pf_reading r(q);
  const pf_i64 whole = 2 * q.labels + 1, first = pf_thread(), step = pf_threads();
  T* alpha = static_cast<T*>(q.alpha) + r.n * q.steps * whole;
  for (pf_i64 t = 0; t < r.steps; ++t) {
    const T* before = alpha - whole;
    for (pf_i64 s = first; s < r.width; s += step) {
      const T emit = r.prob(t, r.label(s));
      T value = pf_never();
      if (t == 0)
        value = s < 2 ? emit : value;
      else
        value = pf_log_sum(before[s], s > 0 ? before[s - 1] : pf_never(),
                           r.skips(s) ? before[s - 2] : pf_never()) +
                emit;
      alpha[s] = value;
    }
    pf_barrier();
    alpha += whole;
  }
  if (first != 0) return;
  T total = pf_never();
  if (r.steps == 0)
    total = r.width == 1 ? T(0) : total;
  else
    total = pf_log_sum(alpha[r.width - 1 - whole],
                       r.width > 1 ? alpha[r.width - 2 - whole] : pf_never(), pf_never());
  static_cast<T*>(q.loss)[r.n] = -total;
}

PF_KERNEL(pf_ctc_backward, PF_CTC_THREADS)(const pf_ctc q) {
  PF_SHARED T sums[PF_CTC_THREADS];
  const pf_reading r(q);
  const pf_i64 whole = 2 * q.labels + 1, first = pf_thread(), step = pf_threads();
  const T loss = static_cast<const T*>(q.loss)[r.n];
  const T factor = static_cast<const T*>(q.g)[r.n * q.step_g];
  const bool none = q.zero_infinity != 0 && loss == -pf_never();
  T* grads = static_cast<T*>(q.grad) + r.n * q.classes;
  const pf_i64 apart = q.batch * q.classes;
  for (pf_i64 t = none ? 0 : r.steps; t < q.steps; ++t)
    for (pf_i64 c = first; c < q.classes; c += step) grads[t * apart + c] = T(0);
  if (none) return;

  pf_i32* behind = q.behind + r.n * q.labels;
  const pf_i64 labels = r.width / 2;
  for (pf_i64 i = first; i < labels; i += step) {
    const pf_i64 own = r.label(2 * i + 1);
    pf_i64 next = i + 1, before = i - 1;
    while (next < labels && r.label(2 * next + 1) != own) ++next;
    while (before >= 0 && r.label(2 * before + 1) != own) --before;
    pf_i32 value = next < labels ? static_cast<pf_i32>(next) : -1;
    // Bit 30: not the first of its kind, or a blank, which all are added up at once.
    if (before >= 0 || own == q.blank) value = value < 0 ? -2 : value | (1 << 30);
    behind[i] = value;
  }
  T* rows = static_cast<T*>(q.rows) + r.n * 3 * whole;
  T* share = rows + 2 * whole;
  for (pf_i64 t = r.steps - 1; t >= 0; --t) {
    const T* after = rows + (t + 1) % 2 * whole;
    T* beta = rows + t % 2 * whole;
    const T* alpha = static_cast<const T*>(q.alpha) + (r.n * q.steps + t) * whole;
    T* grad = grads + t * apart;
    for (pf_i64 s = first; s < r.width; s += step) {
      const T emit = r.prob(t, r.label(s));
      T value = pf_never();
      if (t == r.steps - 1)
        value = s >= r.width - 2 ? emit : value;
      else
        value = pf_log_sum(after[s], s + 1 < r.width ? after[s + 1] : pf_never(),
                           r.skips(s + 2) ? after[s + 2] : pf_never()) +
                emit;
      beta[s] = value;
      const T through = alpha[s] + value;
      // NaN where the loss is inf.
      share[s] = pf_exp(through == pf_never() ? through + loss : through - emit + loss);
    }
    for (pf_i64 c = first; c < q.classes; c += step) grad[c] = pf_exp(r.prob(t, c));
    pf_barrier();
    T blanks = T(0);
    for (pf_i64 s = first; s < r.width; s += step)
      if (r.label(s) == q.blank) blanks = blanks + share[s];
    sums[first] = blanks;
    for (pf_i64 i = first; i < labels; i += step) {
      if (behind[i] == -2 || (behind[i] >= 0 && (behind[i] & (1 << 30)) != 0)) continue;
      T total = share[2 * i + 1];
      for (pf_i32 k = behind[i]; k >= 0;) {
        total = total + share[2 * static_cast<pf_i64>(k) + 1];
        const pf_i32 more = behind[k];
        k = more < 0 ? -1 : more & ~(1 << 30);
      }
      grad[r.label(2 * i + 1)] -= total;
    }
    pf_barrier();
    for (int half = PF_CTC_THREADS / 2; half > 0; half /= 2) {
      if (first < half) sums[first] = sums[first] + sums[first + half];
      pf_barrier();
    }
    if (first == 0) grad[q.blank] -= sums[0];
    pf_barrier();
    for (pf_i64 c = first; c < q.classes; c += step) grad[c] = grad[c] * factor;
  }
}

#else  // launchers
#include "gpu/kernel.h"
#include "table/kernels/ctc.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int kThreads = 128;

template <class Positions>
pf_ctc operands(const KernelArgs& a, const Positions& at, int64_t blank) {
  const pf_tensor& probs = a.tensor(at.log_probs);
  pf_ctc q{};
  q.probs = probs.data;
  q.step_t = probs.strides[0];
  q.step_n = probs.strides[1];
  q.step_c = probs.strides[2];
  q.steps = probs.shape[0];
  q.batch = probs.shape[1];
  q.classes = probs.shape[2];
  q.labels = a.tensor(at.targets).shape[1];
  q.blank = blank;
  q.targets = static_cast<const pf_i64*>(a.data(at.targets));
  q.inputs = static_cast<const pf_i64*>(a.data(at.input_lengths));
  q.lengths = static_cast<const pf_i64*>(a.data(at.target_lengths));
  q.loss = a.data(at.loss);
  q.alpha = a.data(at.alpha);
  q.error = a.error();
  return q;
}
Function text(const KernelArgs& a, DType t, const char* entry) {
  return a.compile("kernels_ctc.cpp", Defines().type("PF_T", t).text("PF_INDEX", "pf_u64"), entry);
}

void ctc(const KernelArgs& a) {
  constexpr auto at = tensors<Ctc>;
  const pf_ctc q = operands(a, at, a.i(numbers<Ctc>.blank));
  a.launch(text(a, a.dtype(at.loss), "pf_ctc_forward"), Grid(q.batch), kThreads, 0, q);
}
void ctc_backward(const KernelArgs& a) {
  constexpr auto at = tensors<CtcBackward>;
  constexpr auto number = numbers<CtcBackward>;
  pf_ctc q = operands(a, at, a.i(number.blank));
  q.grad = a.data(at.grad);
  q.g = a.data(at.g);
  q.step_g = a.tensor(at.g).strides[0];
  q.zero_infinity = a.i(number.zero_infinity);
  const DType type = a.dtype(at.grad);
  const auto sequences = static_cast<size_t>(q.batch);
  const size_t row = static_cast<size_t>(2 * q.labels + 1) * itemsize(type);
  q.rows = a.workspace(3 * row * sequences);
  q.behind = static_cast<pf_i32*>(
      a.workspace(sizeof(pf_i32) * sequences * static_cast<size_t>(q.labels + 1)));
  a.launch(text(a, type, "pf_ctc_backward"), Grid(q.batch), kThreads, 0, q);
}

}  // namespace

PF_GPU_KERNEL(Ctc::kInfo, ctc)
PF_GPU_KERNEL(CtcBackward::kInfo, ctc_backward)

}  // namespace pyflame::gpu
#endif
