#include "gpu/convolution_hopper.h"

#include <algorithm>
#include <cstdlib>

#include "gpu/axes.h"
#include "gpu/tensor_map.h"
#include "kernels/conv_rows_hopper_args.h"

namespace pyflame::gpu {
namespace {

// Of x or y: where the first pixel's first tap is, and the last one.
int64_t first_seen(const RowConvolution& r, int d) {
  const pf_conv& q = r.conv;
  // Of the gradient of the input the taps are seen backwards.
  return r.inverse ? q.padding[d] - (q.taps[d] - 1) * q.dilation[d] : -q.padding[d];
}
int64_t last_seen(const RowConvolution& r, int d) {
  return first_seen(r, d) + (r.conv.taps[d] - 1) * r.conv.dilation[d];
}

struct Shape {
  int64_t pixels, columns, stages;
  int64_t lead, made;  // a tile sees columns so far in front of those that it makes
  int64_t runs, taps, seen;
  int64_t lines() const { return pixels / columns; }
  int64_t stage() const { return seen * columns * 128; }  // bytes, of 64 channels
  int64_t weights() const { return runs * taps * 64 * 128; }
  static constexpr int64_t kBarriers = 16;  // of a stage, bytes
  int64_t shared() const { return weights() + stages * (stage() + kBarriers) + 8; }
};

// The input as the copy unit reads it.
TensorView image(const RowConvolution& r, const Shape& s) {
  constexpr int64_t kAny = 8;  // of a dimension of one place
  const pf_conv& q = r.conv;
  TensorView v;
  v.data = q.gathered;
  v.dtype = r.dtype;
  v.rank = 4;
  const int64_t columns = std::min<int64_t>(s.columns, 64),
                size[] = {q.size[2], q.kept, q.size[1], r.images},
                stride[] = {q.size[2] == 1 ? 1 : q.at[2], q.channel, q.at[1], q.batch},
                box[] = {columns, 64, s.seen, 1};
  v.permuted = static_cast<int32_t>(columns * 2);
  for (int d = 0; d < 4; ++d) {
    v.size[d] = size[d];
    v.stride[d] = d > 0 && size[d] == 1 ? kAny : stride[d];
    v.box[d] = static_cast<int32_t>(box[d]);
  }
  return v;
}

// The columns of a tile: a whole line, or what can be made of so many.
bool cut(const RowConvolution& r, Shape& s) {
  const pf_conv& q = r.conv;
  s.lead = 0, s.made = s.columns;
  if (std::max<int64_t>(q.size[2], q.pixels[2]) <= s.columns) return true;
  // Copies begin at whole chunks.
  s.lead = ceil_div(std::max<int64_t>(-first_seen(r, 2), 0), 8) * 8;
  s.made = (s.columns - s.lead - std::max<int64_t>(last_seen(r, 2), 0)) / 8 * 8;
  return s.made > 0;
}
// As many stages as there is room for; false: less than two, or a box that the unit cannot copy.
bool fits(const Traits& t, const RowConvolution& r, Shape& s) {
  s.seen = s.lines() + (r.conv.taps[1] - 1) * r.conv.dilation[1];
  const int64_t room = static_cast<int64_t>(t.max_shared) - 8 - s.weights();
  s.stages = std::min<int64_t>(room / (s.stage() + Shape::kBarriers), 6);
  return s.stages >= 2 && s.seen <= 256 && tensor_map_fits(image(r, s));
}
bool choose(const Traits& t, const RowConvolution& r, Shape& best) {
  const pf_conv& q = r.conv;
  // Each column of taps has sums of its own, of 192 registers together.
  for (const int64_t pixels : {128, 64}) {
    if (q.taps[2] * pixels > 3 * 128) continue;
    double least = 0;
    for (int64_t columns = pixels; columns >= 16; columns /= 2) {
      Shape s{};
      s.pixels = pixels, s.columns = columns;
      s.runs = ceil_div(q.channels, 64), s.taps = q.taps[1] * q.taps[2];
      if (!cut(r, s) || !fits(t, r, s)) continue;
      const double work =
          double(ceil_div(q.pixels[2], s.made)) * double(ceil_div(q.pixels[1], s.lines()));
      if (least != 0 && work >= least) continue;
      least = work, best = s;
    }
    if (least != 0) return true;
  }
  return false;
}

}  // namespace

bool row_convolution_fits(const Traits& t, const RowConvolution& r) {
  constexpr int64_t kMost = 1 << 30;
  const pf_conv& q = r.conv;
  Shape s;
  if (!tensor_maps(t) || !is_float(r.dtype) || itemsize(r.dtype) != 2 || q.groups != 1 ||
      q.size[0] != 1 || q.pixels[0] != 1 || q.taps[0] != 1 || q.m == 0 || q.n == 0 || q.kept == 0 ||
      !aligned(q.out, 16))
    return false;
  for (int d = 1; d < 3; ++d) {
    if (q.stride[d] != 1 || q.size[d] < 1 || q.taps[d] < 1 ||
        std::max<int64_t>({q.size[d], q.pixels[d], q.padding[d], q.taps[d] * q.dilation[d]}) >=
            kMost / 4)
      return false;
  }
  const int64_t tiles = r.images * ceil_div(q.n, 64) * q.pixels[1] * ceil_div(q.pixels[2], 8);
  return std::max<int64_t>({q.n, q.kept, r.images, tiles}) < kMost && q.taps[1] * q.taps[2] <= 64 &&
         std::abs(first_seen(r, 2)) <= 256 && q.dilation[2] <= 64 &&
         q.size[1] * q.size[2] < kMost / 4 && choose(t, r, s);
}

void row_convolution(const KernelArgs& args, const RowConvolution& r, const void* weights) {
  const pf_conv& q = r.conv;
  Shape s;
  if (!choose(args.traits(), r, s)) throw Failure(PF_INVALID, "no row-major convolution for this");
  pf_conv_rows_args a{};
  a.x = tensor_map(image(r, s));
  TensorView w;
  w.data = weights;
  w.dtype = r.dtype;
  w.rank = 3;
  w.size[0] = s.runs * 64, w.size[1] = s.taps, w.size[2] = q.n;
  w.stride[0] = 1, w.stride[1] = w.size[0], w.stride[2] = w.size[0] * s.taps;
  w.box[0] = 64, w.box[1] = 1, w.box[2] = 64;
  a.weight = tensor_map(w);
  a.y = q.out, a.bias = q.bias;
  const auto of = [](int64_t v) { return static_cast<pf_i32>(v); };
  a.images = of(r.images), a.outs = of(q.n);
  a.height = of(q.pixels[1]), a.width = of(q.pixels[2]);
  a.top = of(first_seen(r, 1)), a.left = of(-s.lead);
  a.columns = of(s.made);
  const int64_t x = ceil_div(q.pixels[2], s.made), y = ceil_div(q.pixels[1], s.lines()),
                outs = ceil_div(q.n, 64), tiles = r.images * x * y * outs;
  a.blocks_x = of(x), a.blocks_y = of(y), a.blocks_outs = of(outs), a.tiles = of(tiles);
  // Blocks stay, each with weights of its own.
  const int64_t blocks = std::max<int64_t>(args.traits().compute_units / outs, 1) * outs;
  const Defines defines = Defines()
                              .type("PF_T", r.dtype)
                              .value("PF_HIGH", q.taps[1])
                              .value("PF_WIDE", q.taps[2])
                              .value("PF_DOWN", q.dilation[1])
                              .value("PF_RIGHT", q.dilation[2])
                              .value("PF_RUNS", s.runs)
                              .value("PF_PIXELS", s.pixels)
                              .value("PF_COLUMNS", s.columns)
                              .value("PF_FIRST", s.lead + first_seen(r, 2))
                              .value("PF_STAGES", s.stages)
                              .value("PF_INVERSE", r.inverse)
                              .value("PF_RESIDENT", 1)
                              .value("PF_MATRIX_UNIT", 2);
  const int64_t vec = q.pixels[2] % 8 == 0 ? 8 : 1;
  args.launch(args.join("conv_rows_hopper.h", defines, "pf_conv_rows",
                        {-1, r.images * q.n, q.pixels[1] * q.pixels[2], vec}),
              Grid(std::min(tiles, blocks)), 3 * 128, static_cast<size_t>(s.shared()), a);
}

}  // namespace pyflame::gpu
