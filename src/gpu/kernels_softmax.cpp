// softmax, log_softmax and their gradients (kernels/softmax.h, softmax_long.h).
#include "gpu/axes.h"
#include "gpu/kernel.h"
#include "kernels/softmax_args.h"
#include "table/kernels/softmax.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

// `from` is x, or where there is a `result`, which is y, the gradient.
void launch(const KernelArgs& a, bool log, int to, int from, int result) {
  const bool backward = result >= 0;
  const pf_tensor& x = a.tensor(from);
  const DType t = a.dtype(from);
  const int64_t n = x.ndim == 0 ? 1 : x.shape[x.ndim - 1], total = numel(x);
  if (total == 0) return;
  const void* y = backward ? a.data(result) : nullptr;
  const auto size = static_cast<int64_t>(itemsize(t));
  const int64_t v = vector_width(n, {{x.data, t}, {a.data(to), t}, {y, t}});
  pf_softmax r{x.data, y, a.data(to), total / n, n / v, 0, 0};
  // Loads of half as many bytes, where a program before it reads 16 bits: twice as many at a time.
  const RowShape shape = row_shape(r.vectors, v, t, t == DType::Float32 ? 8 : 4);
  r.width = static_cast<uint32_t>(shape.width);
  const bool past = larger_than_caches(total * size);
  Defines d =
      Defines().type("PF_T", t).value("PF_V", v).value("PF_LOG", log).value("PF_PAST", past);
  if (shape.vectors > 0) {
    const int block = row_block(shape.width, a.traits());
    const Joined f =
        a.join("softmax.h",
               std::move(d)
                   .value("PF_VECS", shape.vectors)
                   .value("PF_WHOLE", whole_rows(shape, r.vectors, r.rows, block / shape.width)),
               backward ? "softmax_rows_backward" : "softmax_rows", {from, r.rows, n, v, past});
    if (!a.asked()) a.launch(f, Grid(ceil_div(r.rows, block / shape.width)), block, 0, r);
    return;
  }
  if (a.asked()) return;
  const KeptRow kept = kept_row(n * size, a.traits());
  const bool keep = !backward && kept.fits;
  a.launch(a.compile("softmax_long.h", std::move(d).value("PF_KEEP", keep),
                     backward ? "softmax_long_backward" : "softmax_long"),
           Grid(r.rows), keep ? kept.block : 512, keep ? kept.bytes : 0, r);
}

template <class K>
void forward(const KernelArgs& a) {
  constexpr auto at = tensors<K>;
  launch(a, std::is_same_v<K, LogSoftmax>, at.y, at.x, -1);
}
template <class K>
void backward(const KernelArgs& a) {
  constexpr auto at = tensors<K>;
  launch(a, std::is_same_v<K, LogSoftmaxBackward>, at.dx, at.dy, at.y);
}

}  // namespace

PF_GPU_ROW_KERNEL(Softmax::kInfo, forward<Softmax>)
PF_GPU_ROW_KERNEL(LogSoftmax::kInfo, forward<LogSoftmax>)
PF_GPU_ROW_KERNEL(SoftmaxBackward::kInfo, backward<SoftmaxBackward>)
PF_GPU_ROW_KERNEL(LogSoftmaxBackward::kInfo, backward<LogSoftmaxBackward>)

}  // namespace pyflame::gpu
