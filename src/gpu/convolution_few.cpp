#include "gpu/convolution_few.h"

#include <algorithm>
#include <utility>

#include "gpu/axes.h"
#include "gpu/product.h"
#include "kernels/conv_few_args.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;
using Kind = Convolution::Kind;

constexpr int64_t kFewRows = 8;  // of kernels/conv_few.h

// Elements of a pixel in shared memory, so that windows begin at words, or (of the gradient by the
// weight) at chunks.
int64_t pitch_of(const pf_conv& q, Kind kind) {
  if (kind == Kind::Forward) return q.channels + q.channels * q.stride[2] % 2;
  int64_t pitch = 8;
  while (pitch / 2 >= q.channels && pitch / 2 * q.stride[2] % 8 == 0) pitch /= 2;
  return pitch;
}
// What both take; tiles are the caller's.
pf_few arguments(const FewConvolution& p) {
  const pf_conv& q = p.conv;
  pf_few f{};
  f.x = p.x.data, f.weight = p.weight.data, f.bias = q.bias, f.y = p.y.data;
  f.x_batch = q.batch, f.x_line = q.at[1], f.x_pixel = q.at[2], f.x_channel = q.channel;
  f.y_batch = q.pixel_batch, f.y_line = q.pixel_at[1], f.y_pixel = q.pixel_at[2];
  f.y_channel = p.y.strides[1];
  f.w_out = p.weight.strides[0], f.w_in = q.tap_channel;
  f.w_line = q.tap_at[1], f.w_pixel = q.tap_at[2];
  const auto of = [](pf_i64 v) { return static_cast<pf_i32>(v); };
  f.height = of(q.size[1]), f.width = of(q.size[2]);
  f.out_height = of(q.pixels[1]), f.out_width = of(q.pixels[2]);
  f.top = of(q.padding[1]), f.left = of(q.padding[2]), f.outs = of(q.n);
  return f;
}
Defines options_of(const KernelArgs& a, const FewConvolution& p, int64_t pitch, int64_t wide,
                   int64_t tile_n) {
  const pf_conv& q = p.conv;
  return with_cdna(Defines()
                       .type("PF_T", p.dtype)
                       .value("PF_C", q.channels)
                       .value("PF_PITCH", pitch)
                       .value("PF_HIGH", q.taps[1])
                       .value("PF_WIDE", q.taps[2])
                       .value("PF_DOWN", q.stride[1])
                       .value("PF_RIGHT", q.stride[2])
                       .value("WIDE", wide)
                       .value("PF_N", tile_n)
                       .value("PF_MATRIX_UNIT", matrix_unit(a.traits())),
                   a.traits());
}
// The gradient by the weight: blocks that stay, and what joins their sums.
bool weight_gradient(const KernelArgs& a, const FewConvolution& p) {
  const pf_conv& q = p.conv;
  const Traits& t = a.traits();
  constexpr int64_t kN = 64;
  pf_few f = arguments(p);
  // On AMD two blocks share 64 KB.
  const int64_t rows = t.amd ? 2 : 4, most = t.amd ? 64 : 128,
                pitch = pitch_of(q, t.amd ? Kind::Forward : p.kind),
                wide = ceil_div(ceil_div(q.pixels[2], ceil_div(q.pixels[2], most)), 16) * 16,
                parts = t.amd ? ceil_div(q.m, 32) : q.taps[1],  // of columns, each a warp's
      split = std::max<int64_t>(1, 8 / parts), threads = t.warp * parts * split;
  f.tiles_n = static_cast<pf_i32>(ceil_div(q.n, kN));
  f.tiles_x = static_cast<pf_i32>(ceil_div(q.pixels[2], wide));
  f.tiles_y = static_cast<pf_i32>(ceil_div(q.pixels[1], rows));
  // As the kernels count them.
  const int64_t columns = ceil_div(q.taps[2] * pitch, 16) * 16,
                lines = (rows - 1) * q.stride[1] + q.taps[1],
                seen = (wide - 1) * q.stride[2] * pitch,
                line = t.amd ? ceil_div(seen + q.taps[2] * pitch, 2) * 4 : 2 * (seen + columns),
                shared = 2 * rows * kN * (t.amd ? wide + 2 : wide) + lines * line,
                resident = t.amd                           ? (2 * shared <= 65536 ? 2 : 1)
                           : columns > 32 || threads > 256 ? 1
                                                           : 2;
  if (t.max_shared < static_cast<size_t>(shared)) return false;
  const pf_i64 tiles = p.x.shape[0] * f.tiles_x * f.tiles_y;
  const int64_t shares = std::clamp<int64_t>(resident * t.compute_units / f.tiles_n, 1,
                                             std::max<int64_t>(tiles, 1)),
                outs = q.n * q.m;
  f.packed = a.workspace(static_cast<size_t>(shares * split * outs) * sizeof(float));
  const Defines options = options_of(a, p, pitch, wide, kN)
                              .value("PF_ROWS", rows)
                              .value("SPLIT", split)
                              .value("PF_THREADS", threads)
                              .value("PF_RESIDENT", resident);
  a.launch(a.compile("conv_few_weight.h", options, "pf_conv_few_weight"), Grid(shares * f.tiles_n),
           static_cast<int>(threads), static_cast<size_t>(shared), f, tiles);
  a.launch(a.compile("conv_few_weight.h", options, "pf_conv_few_weight_finish"),
           Grid(ceil_div(outs, 32)), 256, 0, f, static_cast<pf_i32>(shares * split));
  return true;
}

}  // namespace

bool few_convolution_fits(const Traits& traits, const FewConvolution& p) {
  const pf_conv& q = p.conv;
  if (p.kind == Kind::Input || itemsize(p.dtype) != 2 || q.groups != 1 || p.x.ndim != 4 ||
      q.channels < 1 || q.channels > 4 || q.n < 16 || q.n % 8 != 0 || q.taps[1] > 11 ||
      q.taps[2] > 11 || q.stride[2] > 4 || q.stride[1] > 4 || q.dilation[1] != 1 ||
      q.dilation[2] != 1 || q.m == 0 || q.k == 0 || !aligned(p.y.data, 16) ||
      !aligned(q.bias, 16) || !gathered_product_fits(traits, p.dtype, false))
    return false;
  constexpr int64_t kMost = int64_t{1} << 30;
  // On NVIDIA a warp keeps the sums of a line of taps in registers.
  if (p.kind == Kind::Weight &&
      (!p.pixels || (!traits.amd && q.taps[2] * pitch_of(q, p.kind) > (q.taps[1] > 8 ? 32 : 48))))
    return false;
  return (p.pixels || p.images) && q.size[1] < kMost && q.size[2] < kMost &&
         q.pixels[1] < kMost / 8 && q.pixels[2] < kMost / 8;
}

bool few_convolution(const KernelArgs& a, const FewConvolution& p) {
  if (!few_convolution_fits(a.traits(), p)) return false;
  if (p.kind == Kind::Weight) return weight_gradient(a, p);
  const pf_conv& q = p.conv;
  pf_few f = arguments(p);
  const auto of = [](pf_i64 v) { return static_cast<pf_i32>(v); };
  const int64_t tile_n = q.n > 32 ? 64 : 32,
                wide = std::clamp<int64_t>(power_of_two_from(q.pixels[2]), 32, 128);
  f.tiles_n = of(ceil_div(q.n, tile_n));
  f.tiles_x = of(ceil_div(q.pixels[2], wide));
  f.tiles_y = of(ceil_div(q.pixels[1], kFewRows));
  const int64_t pitch = pitch_of(q, p.kind);
  // As the kernel counts them.
  const int64_t run = ceil_div(q.taps[2] * pitch, 8), chunks = ceil_div(q.taps[1] * run, 2) * 2 + 1,
                column = 16 * chunks, lines = (kFewRows - 1) * q.stride[1] + q.taps[1],
                line = 4 * ceil_div(((wide - 1) * q.stride[2] + q.taps[2]) * pitch + 8, 2);
  const int64_t shared = tile_n * column + lines * line;
  if (a.traits().max_shared < static_cast<size_t>(shared)) return false;
  f.packed = a.workspace(static_cast<size_t>(f.tiles_n * tile_n * column));
  const Defines defines = options_of(a, p, pitch, wide, tile_n);
  a.launch(a.compile("conv_few_pack.h", defines, "pf_conv_few_pack"),
           blocks_for(f.tiles_n * tile_n * column / 2, 256), 256, 0, f);
  a.launch(a.compile("conv_few.h", defines, "pf_conv_few"),
           Grid(int64_t{f.tiles_n} * f.tiles_x * f.tiles_y * p.x.shape[0]), 256,
           static_cast<size_t>(shared), f);
  return true;
}

}  // namespace pyflame::gpu
