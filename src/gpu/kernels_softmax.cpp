// softmax, log_softmax and their gradients (kernels/softmax.h, softmax_long.h).
#include "gpu/axes.h"
#include "gpu/kernel.h"

namespace pyflame::gpu {
namespace {

// pf_softmax of kernels/softmax.h.
struct Softmax {
  const void* x;
  const void* y;
  void* out;
  int64_t rows, vectors;
  uint32_t width, unused;
};

// Tensors: y, x; backward: dx, gradient, y. All contiguous, rows along the last dimension.
template <bool kLog, bool kBackward>
void softmax(const KernelArgs& a) {
  const pf_tensor& x = a.tensor(1);
  const DType t = a.dtype(1);
  const int64_t n = x.ndim == 0 ? 1 : x.shape[x.ndim - 1], total = numel(x);
  if (total == 0) return;
  const void* y = kBackward ? a.data(2) : nullptr;
  const auto size = static_cast<int64_t>(itemsize(t));
  const int64_t v = vector_width(n, {{x.data, t}, {a.data(0), t}, {y, t}});
  Softmax r{x.data, y, a.data(0), total / n, n / v, 0, 0};
  const RowShape shape = row_shape(r.vectors, v, t);
  r.width = static_cast<uint32_t>(shape.width);
  const bool past = larger_than_caches(total * size);
  Defines d =
      Defines().type("PF_T", t).value("PF_V", v).value("PF_LOG", kLog).value("PF_PAST", past);
  if (shape.vectors > 0) {
    const int block = row_block(shape.width, a.traits());
    const Joined f =
        a.join("softmax.h", std::move(d).value("PF_VECS", shape.vectors),
               kBackward ? "softmax_rows_backward" : "softmax_rows", {1, r.rows, n, v, past});
    if (!a.asked()) a.launch(f, Grid(ceil_div(r.rows, block / shape.width)), block, 0, r);
    return;
  }
  if (a.asked()) return;
  const KeptRow kept = kept_row(n * size, a.traits());
  const bool keep = !kBackward && kept.fits;
  a.launch(a.compile("softmax_long.h", std::move(d).value("PF_KEEP", keep),
                     kBackward ? "softmax_long_backward" : "softmax_long"),
           Grid(r.rows), keep ? kept.block : 512, keep ? kept.bytes : 0, r);
}

}  // namespace

PF_GPU_ROW_KERNEL("softmax", (softmax<false, false>))
PF_GPU_ROW_KERNEL("log_softmax", (softmax<true, false>))
PF_GPU_ROW_KERNEL("softmax_backward", (softmax<false, true>))
PF_GPU_ROW_KERNEL("log_softmax_backward", (softmax<true, true>))

}  // namespace pyflame::gpu
