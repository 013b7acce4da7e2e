// layer_norm, rms_norm and their gradients (kernels/norm*.h).
#include <algorithm>

#include "gpu/axes.h"
#include "gpu/kernel.h"
#include "kernels/norm_args.h"
#include "table/kernels/norm.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

Accessed accessed(const KernelArgs& a, int i) {
  return a.has(i) ? Accessed{a.data(i), a.dtype(i)} : Accessed{nullptr, DType::Float32};
}

// Rows that leave compute units idle: a launch takes as long as its loads that wait for others.
constexpr int64_t kFewRows = 64;

template <bool kRms>
void norm(const KernelArgs& a) {
  constexpr auto at = tensors<LayerNorm>;
  constexpr auto number = numbers<LayerNorm>;
  const DType t = a.dtype(at.x);
  const int64_t n = a.i(number.length), total = numel(a.tensor(at.x));
  if (total == 0) return;
  const Accessed w = accessed(a, at.weight), b = accessed(a, at.bias);
  const int64_t v = vector_width(n, {{a.data(at.x), t}, {a.data(at.y), t}, w, b});
  pf_norm r{a.data(at.x),
            w.data,
            b.data,
            a.data(at.y),
            a.data(at.mean),
            a.data(at.rstd),
            total / n,
            n / v,
            a.f(number.eps),
            0,
            0};
  const int64_t bytes = n * static_cast<int64_t>(itemsize(t));
  const bool past = larger_than_caches(r.rows * bytes);
  Defines d = Defines()
                  .type("PF_T", t)
                  .type("PF_W", w.dtype)
                  .type("PF_B", b.dtype)
                  .value("PF_V", v)
                  .value("PF_HAS_W", w.data != nullptr)
                  .value("PF_HAS_B", b.data != nullptr)
                  .value("PF_RMS", kRms)
                  .value("PF_PAST", past);
  const RowShape shape = r.rows == 1 ? one_row_shape(r.vectors, v, t) : row_shape(r.vectors, v, t);
  if (shape.vectors == 0) {
    if (a.asked()) return;
    const KeptRow kept = kept_row(bytes, a.traits());
    a.launch(a.compile("norm_long.h", std::move(d).value("PF_KEEP", kept.fits), "norm_long"),
             Grid(r.rows), kept.fits ? kept.block : 512, kept.fits ? kept.bytes : 0, r);
    return;
  }
  r.width = static_cast<uint32_t>(shape.width);
  const int block = row_block(shape.width, a.traits());
  const int64_t groups = block / shape.width;
  // Two rows at a time hide each other's waits, where there are rows for it and registers.
  const bool two = !kRms && !(a.around && a.around->before.program) && shape.width <= 32 &&
                   t != DType::Float64 && shape.vectors * v <= 32 &&
                   r.rows >= int64_t{64} * a.traits().compute_units * groups;
  const int64_t at_a_time = two ? 2 : 1;
  const Joined f =
      a.join("norm.h",
             std::move(d)
                 .value("PF_VECS", shape.vectors)
                 .value("PF_ROWS", at_a_time)
                 .value("PF_FEW", r.rows <= kFewRows)
                 .value("PF_WHOLE", whole_rows(shape, r.vectors, r.rows, groups * at_a_time)),
             "norm_rows", {at.x, r.rows, n, v, past});
  if (!a.asked()) a.launch(f, Grid(ceil_div(r.rows, groups * at_a_time)), block, 0, r);
}

struct BackwardRow {
  int64_t width = 0;    // threads; 0: too long a row
  int64_t vectors = 1;  // of one thread
  int64_t most = 256;   // threads of a compute unit: the more registers, the fewer
};

// All of a row in the registers of few warps, best of one, which then waits for no other. Measured
// on an H200 for rows of 256 to 2048.
BackwardRow backward_row(int64_t vectors, int64_t v, DType t, int warp, bool sums) {
  const size_t size = itemsize(t);
  for (int64_t warps = 1; warps * warp <= 512; warps *= 2) {
    const int64_t width = warps * warp, each = ceil_div(vectors, width);
    // Of a thread; 512 of them have no more than 128 registers each.
    const int64_t values = size == 8 ? 8 : width == 512 ? (sums ? 16 : 20) : size == 4 ? 24 : 32;
    if (each > (warps == 1 ? 3 : 8) || each * v > values) continue;
    const int64_t most = each == 1 ? 768 : each == 2 ? 512 : each == 3 ? 384 : 256;
    return {width, each, std::max(width, most)};
  }
  return {};
}

template <bool kRms>
void norm_backward(const KernelArgs& a) {
  constexpr auto at = tensors<LayerNormBackward>;
  const DType t = a.dtype(at.dy);
  const int64_t n = a.i(numbers<LayerNormBackward>.length), total = numel(a.tensor(at.dy));
  bool sums = false;
  for (const int i : {at.dweight, at.dbias}) {
    sums = sums || a.has(i);
    if (total == 0 && a.has(i) && !a.asked())
      a.fill(a.data(i), 0, nbytes(a.dtype(i), numel(a.tensor(i))));
  }
  if (total == 0) return;
  const Traits& device = a.traits();
  const Accessed w = accessed(a, at.weight);
  int64_t v = vector_width(n, {{a.data(at.dy), t}, {a.data(at.x), t}, {a.data(at.dx), t}, w});
  while (v > 1 && n / v < device.warp) v /= 2;  // a row keeps a warp busy at least
  pf_norm_backward r{a.data(at.dy),
                     a.data(at.x),
                     a.data(at.mean),
                     a.data(at.rstd),
                     w.data,
                     a.data(at.dx),
                     nullptr,
                     total / n,
                     n / v,
                     0,
                     0,
                     0};
  const BackwardRow row = backward_row(r.vectors, v, t, device.warp, sums);
  const size_t wide = t == DType::Float64 ? 8 : 4;
  Defines d = Defines()
                  .type("PF_T", t)
                  .type("PF_W", w.dtype)
                  .value("PF_V", v)
                  .value("PF_HAS_W", w.data != nullptr)
                  .value("PF_RMS", kRms)
                  .value("PF_SUMS", sums)
                  .value("PF_VECS", row.vectors)
                  .value("PF_THREADS", row.most);
  const auto function = [&](const char* entry) { return a.compile("norm_backward.h", d, entry); };
  const int64_t row_sums = (kRms ? 1 : 2) * n;
  int64_t stretches;
  if (row.width) {
    const Joined f = a.join("norm_backward.h", d, "norm_backward", {at.dy, r.rows, n, v});
    if (a.asked()) return;
    const int64_t groups = std::max<int64_t>(1, 4 * device.warp / row.width);
    const int64_t blocks = std::max<int64_t>(1, row.most / (groups * row.width));
    r.width = static_cast<uint32_t>(row.width);
    r.stretch = ceil_div(ceil_div(r.rows, blocks * device.compute_units), groups) * groups;
    stretches = ceil_div(r.rows, r.stretch);
    const size_t shared = sums && groups > 1 ? static_cast<size_t>(row_sums) * wide : 0;
    if (sums) r.partial = a.workspace(static_cast<size_t>(stretches * row_sums) * wide);
    a.launch(f, Grid(stretches), static_cast<int>(row.width * groups), shared, r);
  } else {
    if (a.asked()) return;
    a.launch(function("norm_backward_long"), Grid(r.rows), 512, 0, r);
    const int64_t tiles = ceil_div(r.vectors, 256);
    r.stretch = std::max<int64_t>(16, ceil_div(r.rows * tiles, int64_t{8} * device.compute_units));
    stretches = ceil_div(r.rows, r.stretch);
    if (sums) {
      r.partial = a.workspace(static_cast<size_t>(stretches * row_sums) * wide);
      a.launch(function("norm_columns"), Grid(tiles * stretches), 256, 0, r, tiles);
    }
  }
  if (!sums) return;
  const int64_t tiles = ceil_div(n, 32);
  const auto add = [&](bool dw, bool db) {
    if (!dw && !db) return;
    const DType to = a.dtype(dw ? at.dweight : at.dbias);
    const Function f =
        to == w.dtype
            ? function("norm_params")
            : a.compile("norm_params.h",
                        Defines().text("PF_C", wide == 8 ? "double" : "float").type("PF_W", to),
                        "norm_params");
    a.launch(f, Grid(db ? 2 * tiles : tiles), 1024, 0, r.partial, dw ? a.data(at.dweight) : nullptr,
             db ? a.data(at.dbias) : nullptr, n, row_sums, stretches, tiles);
  };
  const bool dw = a.has(at.dweight), db = a.has(at.dbias),
             alike = db && dw && a.dtype(at.dweight) == a.dtype(at.dbias);
  add(dw, alike);
  if (!alike) add(false, db);
}

}  // namespace

PF_GPU_TOGETHER("norm_backward.h", "norm_backward norm_params")
PF_GPU_ROW_KERNEL(LayerNorm::kInfo, norm<false>)
PF_GPU_ROW_KERNEL(RmsNorm::kInfo, norm<true>)
PF_GPU_ROW_KERNEL(LayerNormBackward::kInfo, norm_backward<false>)
PF_GPU_ROW_KERNEL(RmsNormBackward::kInfo, norm_backward<true>)

}  // namespace pyflame::gpu
