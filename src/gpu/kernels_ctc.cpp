// Launchers of connectionist temporal classification (kernels/ctc.h).
#include "gpu/kernel.h"
#include "kernels/ctc_args.h"
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
  return a.compile("ctc.h", Defines().type("PF_T", t).text("PF_INDEX", "pf_u64"), entry);
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
