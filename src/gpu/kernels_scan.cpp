// Launchers of running sums, products and extremes.
#include <algorithm>

#include "gpu/kernel.h"

namespace pyflame::gpu {
namespace {

// The lines along `dim` of out, in and (perhaps) indices.
Space lines(pf_tensor out, pf_tensor in, pf_tensor indices, int dim) {
  for (pf_tensor* t : {&out, &in, &indices})
    if (t->ndim) t->shape[dim] = 1;
  return make_space({&out, &in, &indices});
}

void scan(const KernelArgs& a, const Defines& defines, const pf_tensor& out,
          const pf_tensor* indices, const pf_tensor& in, bool backwards) {
  if (!numel(in)) return;
  const int dim = static_cast<int>(a.i(0));
  const bool point = in.ndim == 0;
  const int64_t length = point ? 1 : in.shape[dim];
  auto step = [&](const pf_tensor& t) { return point ? 0 : t.strides[dim]; };
  const Space s = lines(out, in, indices ? *indices : out, dim);
  int64_t out_step = step(out), in_step = step(in);
  char *to = static_cast<char*>(out.data), *from = static_cast<char*>(in.data);
  if (backwards) {
    const auto bytes = static_cast<int64_t>(itemsize(static_cast<DType>(in.dtype)));
    to += (length - 1) * out_step * bytes;
    from += (length - 1) * in_step * bytes;
    out_step = -out_step;
    in_step = -in_step;
  }
  const Function f = a.compile("scan.h", defines, "pf_scan");
  a.launch(f, std::min<int64_t>(s.numel, 1 << 16), 256, 0, s, to, indices ? indices->data : nullptr,
           from, length, out_step, indices ? step(*indices) : 0, in_step);
}

// attrs: dim, backwards
void run(const KernelArgs& a, const char* op) {
  scan(a, Defines().type("PF_T", a.dtype(0)).text("PF_INDEX", "pf_u64").text("PF_OP", op),
       a.tensor(0), nullptr, a.tensor(1), a.i(1) != 0);
}
void cumsum(const KernelArgs& a) {
  run(a, "pf_scan_sum");
}
void cumprod(const KernelArgs& a) {
  run(a, "pf_scan_product");
}
void logcumsumexp(const KernelArgs& a) {
  run(a, "pf_scan_logsumexp");
}

// outs: values, indices; in. attrs: dim, 1 for the smallest.
void cumextreme(const KernelArgs& a) {
  scan(a,
       Defines()
           .type("PF_T", a.dtype(0))
           .text("PF_INDEX", "pf_u64")
           .value("PF_EXTREME", a.i(1) ? -1 : 1),
       a.tensor(0), &a.tensor(1), a.tensor(2), false);
}

}  // namespace

PF_GPU_KERNEL("cumsum", cumsum)
PF_GPU_KERNEL("cumprod", cumprod)
PF_GPU_KERNEL("logcumsumexp", logcumsumexp)
PF_GPU_KERNEL("cumextreme", cumextreme)

}  // namespace pyflame::gpu
