// Launchers of convolutions and their gradients: by the vendor's library or our kernels
// (kernels/conv*.h).
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "gpu/axes.h"
#include "gpu/compile_only.h"
#include "gpu/convolution.h"
#include "gpu/convolution_few.h"
#include "gpu/convolution_hopper.h"
#include "gpu/host.h"
#include "gpu/kernel.h"
#include "gpu/move.h"
#include "gpu/product.h"
#include "gpu/tensor_map.h"
#include "gpu/tuning.h"
#include "kernels/conv_args.h"
#include "kernels/conv_turn_args.h"
#include "pyflame/amp.h"
#include "table/kernels/conv.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int kTileM = 64, kTileK = 16;  // of kernels/conv.h
// Shares of k are made until there are so many blocks, and none is shorter than that.
constexpr int64_t kBlocks = 1024, kLeastShare = 256;

using Kind = Convolution::Kind;

// What a convolution is about. x and y are those of the convolution, whichever is written.
struct Problem {
  Kind kind;
  const pf_tensor &x, &weight, &y;
  const void* bias;
  int64_t groups;
  bool tf32;  // float32 may be rounded to it
};

int64_t shape_of(const pf_tensor& t, int d) {
  const int at = d - 3 + t.ndim;
  return at < 2 ? 1 : t.shape[at];
}
int64_t step_at(const pf_tensor& t, int d) {
  const int at = d - 3 + t.ndim;
  return at < 2 ? 0 : t.strides[at];
}
void sizes_of(const pf_tensor& t, pf_i64 (&size)[3]) {
  for (int d = 0; d < 3; ++d) size[d] = shape_of(t, d);
}
void steps_of(const pf_tensor& t, pf_i64 (&step)[3]) {
  for (int d = 0; d < 3; ++d) step[d] = step_at(t, d);
}
int64_t product(const pf_i64 (&size)[3]) {
  return size[0] * size[1] * size[2];
}
// Neighbours in channels are neighbours in memory.
bool channels_last(const pf_tensor& t) {
  return t.strides[1] == 1 && t.shape[1] > 1 &&
         std::any_of(t.shape + 2, t.shape + t.ndim, [](int64_t n) { return n > 1; });
}

pf_conv arguments(const KernelArgs& a, const Problem& p) {
  constexpr auto number = numbers<Conv>;
  pf_conv q{};
  q.groups = p.groups;
  const int64_t ins = p.weight.shape[1], outs = p.weight.shape[0] / q.groups;
  const bool input = p.kind == Kind::Input, weight = p.kind == Kind::Weight;
  const pf_tensor &gathered = input ? p.y : p.x, &paired = input ? p.x : p.y;
  for (int d = 0; d < 3; ++d) {
    q.stride[d] = a.i(number.stride_d + d);
    q.padding[d] = a.i(number.padding_d + d);
    q.dilation[d] = a.i(number.dilation_d + d);
  }
  q.gathered = gathered.data;
  sizes_of(gathered, q.size);
  steps_of(gathered, q.at);
  q.batch = gathered.strides[0];
  q.channel = gathered.strides[1];
  q.group = gathered.strides[1] * (input ? outs : ins);
  sizes_of(paired, q.pixels);
  steps_of(paired, q.pixel_at);
  q.pixel_batch = paired.strides[0];
  sizes_of(p.weight, q.taps);
  steps_of(p.weight, q.tap_at);
  q.channels = q.kept = input ? outs : ins;
  q.tap_channel = p.weight.strides[input ? 0 : 1];
  const int64_t pixels = paired.shape[0] * product(q.pixels), taps = q.channels * product(q.taps);
  q.m = weight ? taps : pixels;
  q.k = weight ? pixels : taps;
  q.n = input ? ins : outs;
  // n counts the channels of the paired tensor, which the weight has, too.
  const int64_t weight_n = p.weight.strides[input ? 1 : 0],
                weight_group = p.weight.strides[0] * outs,
                paired_group = paired.strides[1] * (input ? ins : outs);
  q.plain = weight ? paired.data : p.weight.data;
  q.out = weight ? p.weight.data : paired.data;
  q.bias = p.bias;
  q.plain_n = weight ? paired.strides[1] : weight_n;
  q.out_n = weight ? weight_n : paired.strides[1];
  q.plain_group = weight ? paired_group : weight_group;
  q.out_group = weight ? weight_group : paired_group;
  return q;
}

// PF_INDEX: 32 bits are enough for counts, and for places with what padding and taps add.
bool narrow(const pf_conv& q) {
  constexpr int64_t kMost = int64_t{1} << 29;
  if (q.m >= kMost || q.k >= kMost) return false;
  for (int d = 0; d < 3; ++d) {
    const double reach = double(q.size[d]) + double(q.pixels[d]) * double(q.stride[d]) +
                         double(q.padding[d]) + double(q.taps[d]) * double(q.dilation[d]);
    if (reach >= double(kMost)) return false;
  }
  return true;
}
int inverse(const pf_conv& q, Kind kind) {
  if (kind != Kind::Input) return 0;
  return q.stride[0] == 1 && q.stride[1] == 1 && q.stride[2] == 1 ? 1 : 2;
}

// Cuts k into shares of at least `least`, whole units of it, for `blocks` blocks each.
void share(pf_conv& q, int64_t blocks, int64_t least, int64_t unit) {
  q.shares = std::clamp<int64_t>(std::min<int64_t>(kBlocks / blocks, q.k / least), 1, kBlocks);
  q.share = ceil_div(ceil_div(q.k, q.shares), unit) * unit;
  q.shares = q.share ? ceil_div(q.k, q.share) : 1;
}
void finish(const KernelArgs& a, const Problem& p, const pf_conv& q, DType t, bool last) {
  const Defines defines = Defines()
                              .type("PF_T", t)
                              .value("PF_OF_WEIGHT", p.kind == Kind::Weight)
                              .value("PF_INVERSE", inverse(q, p.kind))
                              .value("PF_LAST", last)
                              .text("PF_INDEX", narrow(q) ? "pf_u32" : "pf_u64");
  a.launch(a.compile("conv_ends.h", defines, "pf_conv_finish"),
           blocks_for(q.groups * q.n * q.m, 256), 256, 0, q);
}

// `range`: only where numbers have no parts (kernels/float_parts_fit.h).
void tiles(const KernelArgs& a, const Problem& p, pf_conv& q, DType t,
           const pf_u32* range = nullptr) {
  const bool weight = p.kind == Kind::Weight,
             last = channels_last(p.kind == Kind::Input ? p.y : p.x);
  const bool few = q.n <= 16 || !is_float(t);
  const int tile_n = few ? 16 : 64, reg = few ? 2 : 4;
  q.tiles_m = ceil_div(q.m, kTileM);
  q.tiles_n = ceil_div(q.n, tile_n);
  const int64_t blocks = q.tiles_m * q.tiles_n * q.groups;
  share(q, range ? kBlocks : blocks, kLeastShare, kTileK);
  const int64_t outs = q.groups * q.n * q.m;
  if (q.shares > 1)
    q.partial = a.workspace(static_cast<size_t>(q.shares * outs) * itemsize(compute_type(t)));
  Defines defines = Defines()
                        .type("PF_T", t)
                        .value("PF_OF_WEIGHT", weight)
                        .value("TILE_N", tile_n)
                        .value("REG", reg)
                        .value("PF_FAST_M", last == weight)
                        .value("PF_FAST_N", q.plain_n == 1)
                        .value("PF_INVERSE", inverse(q, p.kind))
                        .value("PF_LAST", last)
                        .text("PF_INDEX", narrow(q) ? "pf_u32" : "pf_u64");
  if (range) {
    defines = std::move(defines).value("PF_UNLESS_PARTS", 1);
    a.launch(a.compile("conv.h", defines, "pf_conv_tiles"), Grid(blocks),
             kTileM * tile_n / (reg * reg), 0, q, range);
    return;
  }
  a.launch(a.compile("conv.h", defines, "pf_conv_tiles"), Grid(blocks * q.shares),
           kTileM * tile_n / (reg * reg), 0, q);
  if (q.shares > 1) finish(a, p, q, t, last);
}

// ---- each channel by itself ---------------------------------------------------------------------

constexpr int kDepthBlock = 256, kDepthRow = 4, kDepthTaps = 3;  // of kernels/conv_depth.h

// Channels of an access: 16 bytes where they lie side by side in both tensors.
int64_t channels_at_once(const pf_conv& q, const Problem& p, DType t) {
  const int64_t v = std::min<int64_t>(16 / static_cast<int64_t>(itemsize(t)), 8);
  const auto fits = [&](const pf_tensor& x) {
    if (x.strides[1] != 1 || !aligned(x.data, v * static_cast<int64_t>(itemsize(t)))) return false;
    for (int d = 0; d < x.ndim; ++d)
      if (d != 1 && x.strides[d] % v != 0) return false;
    return true;
  };
  return q.groups % v == 0 && fits(p.x) && fits(p.y) ? v : 1;
}

void by_channel(const KernelArgs& a, const Problem& p, pf_conv& q, DType t) {
  const bool last = channels_last(p.x) && channels_last(p.y);
  const int64_t v = channels_at_once(q, p, t), taps = product(q.taps);
  // Of lines the ones below each other: so threads beside each other read neighbours.
  const int along = last || q.pixels[1] == 1 ? 2 : 1;
  const Defines defines = Defines()
                              .type("PF_T", t)
                              .value("PF_V", v)
                              .value("PF_ALONG", along)
                              .value("PF_INVERSE", inverse(q, p.kind))
                              .value("PF_LAST", last)
                              .text("PF_INDEX", narrow(q) ? "pf_u32" : "pf_u64");
  const auto item = static_cast<int64_t>(itemsize(t));
  if (p.kind == Kind::Weight) {
    const int64_t vectors = q.groups / v;
    q.tiles_n = last ? std::min<int64_t>(power_of_two_from(vectors), 32) : 1;
    q.tiles_m = ceil_div(taps, kDepthTaps);
    const int64_t blocks = ceil_div(vectors, q.tiles_n) * q.tiles_m,
                  least = 8 * kDepthBlock / q.tiles_n;
    share(q, blocks, least, 1);
    q.partial =
        a.workspace(static_cast<size_t>(q.shares * q.groups * q.m) * itemsize(compute_type(t)));
    a.launch(a.compile("conv_depth.h", defines, "pf_conv_depth_weight"), Grid(blocks * q.shares),
             kDepthBlock, 0, q);
    finish(a, p, q, t, false);
    return;
  }
  void* packed = a.workspace(static_cast<size_t>(taps * q.groups * item));
  a.launch(a.compile("conv_depth.h", defines, "pf_conv_pack"),
           blocks_for(taps * q.groups, kDepthBlock), kDepthBlock, 0, q, packed);
  int64_t threads = q.groups / v * q.m / product(q.pixels);
  for (int d = 0; d < 3; ++d)
    threads *= d == along ? ceil_div(q.pixels[d], kDepthRow) : q.pixels[d];
  q.k = q.m;  // pixels of the batch, and of one
  q.m = product(q.pixels);
  a.launch(a.compile("conv_depth.h", defines, "pf_conv_depth"), blocks_for(threads, kDepthBlock),
           kDepthBlock, 0, q, packed);
}

// ---- on matrix units ----------------------------------------------------------------------------

// Whether elements [outer][space...][inner] lie densely in this order.
bool dense(int64_t outer, const pf_i64 (&size)[3], int64_t inner, int64_t step,
           const pf_i64 (&at)[3], int64_t inner_step) {
  int64_t expected = 1;
  const auto next = [&](int64_t n, int64_t stride) {
    const bool good = n == 1 || stride == expected;
    expected *= n;
    return good;
  };
  return next(inner, inner_step) && next(size[2], at[2]) && next(size[1], at[1]) &&
         next(size[0], at[0]) && next(outer, step);
}

// Whether a tensor lies densely as pixels of channels, or as images of channels of pixels.
struct Lies {
  bool pixels, images;
  explicit Lies(const pf_tensor& t) {
    pf_i64 size[3], at[3];
    sizes_of(t, size);
    steps_of(t, at);
    const int64_t batch = t.shape[0], channels = t.shape[1], step = t.strides[1];
    pixels = dense(batch, size, channels, t.strides[0], at, step);
    images = dense(1, size, 1, 0, at, 1) && (channels == 1 || step == product(size)) &&
             (batch == 1 || t.strides[0] == channels * product(size));
  }
};

// A copy with its channels side by side, filled up to so many, which are whole chunks.
void turn(const KernelArgs& a, pf_turned q, int64_t batch, int64_t item) {
  const int64_t pixels = product(q.size), chunk = 16 / item;
  const auto whole = [&](int64_t n) { return n % chunk == 0; };
  // The step between neighbours, where there is one for all.
  int64_t step = 0, count = 1;
  bool even = true;
  for (int d = 2; d >= 0; --d) {
    if (q.size[d] == 1) continue;
    if (count == 1) step = q.at[d];
    even = even && q.at[d] == step * count;
    count *= q.size[d];
  }
  if (even) q.at[2] = step;
  const bool few = q.padded == chunk;
  const bool vector = !few && even && (step == 1 || pixels == 1) && whole(pixels) &&
                      whole(q.batch) && whole(q.channel) && aligned(q.from, 16);
  const int64_t channels = few ? chunk : std::clamp<int64_t>(power_of_two_from(q.padded), 16, 64);
  // Of vectors so many that enough is on its way.
  const int64_t tile = few ? 256 : (vector ? 16384 / item : 4096) / channels;
  const Defines defines = Defines()
                              .value("PF_BYTES", item)
                              .value("CHANNELS", channels)
                              .value("PIXELS", tile)
                              .value("PF_EVEN", even)
                              .value("PF_VECTOR", vector);
  a.launch(a.compile("conv_turn.h", defines, "pf_conv_turn"),
           Grid(batch * ceil_div(pixels, tile) * ceil_div(q.padded, channels)), 256, 0, q);
}
void* turned(const KernelArgs& a, const pf_tensor& x, int64_t padded, DType t) {
  pf_turned q{};
  q.from = x.data;
  sizes_of(x, q.size);
  steps_of(x, q.at);
  q.batch = x.strides[0], q.channel = x.strides[1];
  q.channels = x.shape[1], q.padded = padded;
  const auto item = static_cast<int64_t>(itemsize(t));
  q.to = a.workspace(static_cast<size_t>(x.shape[0] * product(q.size) * padded * item));
  turn(a, q, x.shape[0], item);
  return q.to;
}

// The gradient by the weight: pixels, which are k, in shares.
bool weight_on_units(const KernelArgs& a, const Problem& p, pf_conv& q, DType t) {
  const auto item = static_cast<int64_t>(itemsize(t));
  if (q.n * item % 16 != 0) return false;
  const void* dy = q.plain;
  if (!aligned(dy, 16) || !Lies(p.y).pixels) dy = turned(a, p.y, q.n, t);
  const int64_t tiles = ceil_div(q.n, q.n > 64 ? 128 : 64) * ceil_div(q.m, 128), line = 128 / item;
  q.shares = std::clamp<int64_t>(2 * a.traits().compute_units / tiles, 1,
                                 std::max<int64_t>(1, q.k / (8 * line)));
  q.share = ceil_div(ceil_div(q.k, q.shares), line) * line;
  q.shares = ceil_div(q.k, q.share);
  q.partial = a.workspace(static_cast<size_t>(q.shares * q.n * q.m) * sizeof(float));
  Product r{};
  r.m = q.n, r.n = q.m, r.k = q.share;
  r.dtype = t, r.out = DType::Float32, r.tf32 = p.tf32;
  r.a = dy, r.b = q.gathered, r.c = q.partial;
  r.a_row = 1, r.a_col = q.n;
  r.ndim = 1;
  r.batch[0] = {q.shares, q.share * q.n, 0};
  if (!gathered_product(a, r, q, 2, 0)) return false;
  finish(a, p, q, t, true);
  return true;
}

// The weights with k as their fastest dimension, [outs][taps][channels], as many channels as
// q.channels says.
const void* lines_of_weights(const KernelArgs& a, const pf_conv& q, DType t) {
  if (q.kept == q.channels && aligned(q.plain, 16) &&
      dense(q.n, q.taps, q.channels, q.plain_n, q.tap_at, q.tap_channel))
    return q.plain;
  void* packed = a.workspace(static_cast<size_t>(q.n * q.k) * itemsize(t));
  const Defines defines = Defines()
                              .type("PF_T", t)
                              .value("PF_OF_WEIGHT", 0)
                              .value("PF_INVERSE", 0)
                              .value("PF_LAST", 1)
                              .text("PF_INDEX", "pf_u32");
  a.launch(a.compile("conv_ends.h", defines, "pf_conv_pack_lines"), blocks_for(q.n * q.k, 256), 256,
           0, q, packed);
  return packed;
}

// Images of lines as they lie, on Hopper.
bool of_rows(const KernelArgs& a, const Problem& p, const pf_conv& q, DType t) {
  return p.kind != Kind::Weight && product(q.taps) > 1 && narrow(q) &&
         Lies(p.kind == Kind::Input ? p.x : p.y).images &&
         row_convolution_fits(a.traits(), {q, t, p.x.shape[0], p.kind == Kind::Input});
}
bool by_rows(const KernelArgs& a, const Problem& p, pf_conv& q, DType t) {
  if (!of_rows(a, p, q, t)) return false;
  q.channels = ceil_div(q.kept, 64) * 64;
  q.k = q.channels * product(q.taps);
  row_convolution(a, {q, t, p.x.shape[0], p.kind == Kind::Input}, lines_of_weights(a, q, t));
  return true;
}

// What is gathered lies densely, pixels of q.channels.
void as_pixels(pf_conv& q) {
  q.channel = 1;
  q.batch = q.channels;
  for (int d = 2; d >= 0; q.batch *= q.size[d--]) q.at[d] = q.batch;
}

// Channels side by side, as kernels/conv_gather.h takes them.
bool on_units(const KernelArgs& a, const Problem& p, const pf_conv& given, DType t) {
  if (!gathered_product_fits(a.traits(), t, p.tf32)) return false;
  pf_conv q = given;
  const auto chunk = 16 / static_cast<int64_t>(itemsize(t));
  if (q.groups != 1 || product(q.taps) > 64 || q.kept == 0 || !narrow(q)) return false;
  const pf_tensor &x = p.kind == Kind::Input ? p.y : p.x, &y = p.kind == Kind::Input ? p.x : p.y;
  bool fits =
      q.channel == 1 && q.channels % chunk == 0 && q.batch % chunk == 0 && aligned(q.gathered, 16);
  for (int d = 0; d < 3; ++d) {
    if (q.size[d] == 1) q.at[d] = 0;
    fits = fits && q.at[d] % chunk == 0;
  }
  q.channels = ceil_div(q.channels, chunk) * chunk;
  if (!fits) as_pixels(q);
  (p.kind == Kind::Weight ? q.m : q.k) = q.channels * product(q.taps);
  double reach = double(q.batch) * double(x.shape[0]);
  for (int d = 0; d < 3; ++d)
    reach += double(q.at[d]) * double(q.size[d] + 2 * q.padding[d] + q.taps[d] * q.dilation[d]);
  if (reach >= double(chunk) * 0x1p31 || !narrow(q)) return false;
  const Lies result(y);
  if (p.kind != Kind::Weight && ((!result.pixels && !result.images) || !aligned(q.out, 16)))
    return false;
  if (p.kind == Kind::Weight && q.n % chunk != 0) return false;
  // Copies and idle rows of tiles cost more than a few columns are worth.
  if (!fits && (q.n < 16 || q.kept < 3)) return false;
  if (!fits) q.gathered = turned(a, x, q.channels, t);
  if (p.kind == Kind::Weight) return weight_on_units(a, p, q, t);
  const void* weight = lines_of_weights(a, q, t);
  Product r{};
  r.k = q.k;
  r.dtype = r.out = t, r.tf32 = p.tf32;
  r.bias = q.bias, r.c = q.out;
  if (result.pixels) {
    r.m = q.m, r.n = q.n;
    r.b = weight;
    r.b_row = 1, r.b_col = q.k;
  } else {
    r.m = q.n, r.n = product(q.pixels);
    r.a = weight;
    r.a_row = q.k, r.a_col = 1;
    r.ndim = 1;
    r.batch[0] = {y.shape[0], 0, 0};
  }
  return gathered_product(a, r, q, result.pixels ? 1 : 3, inverse(q, p.kind));
}

// As kernels/conv_few.h and conv_few_weight.h take it.
FewConvolution of_few(const Problem& p, const pf_conv& q, DType t) {
  const Lies y(p.y);
  return {q, p.kind, t, p.x, p.weight, p.y, y.pixels, y.images};
}

// ---- each pixel by itself -----------------------------------------------------------------------

// One tap, and pixels at their own places: a product of matrices as they lie.
bool by_pixel(const KernelArgs& a, const Problem& p, const pf_conv& q, DType t) {
  if (q.groups != 1 || !is_float(t) || q.k == 0) return false;
  for (int d = 0; d < 3; ++d)
    if (q.taps[d] != 1 || q.stride[d] != 1 || q.padding[d] != 0) return false;
  const int64_t batch = p.x.shape[0], pixels = product(q.pixels), ins = p.weight.shape[1],
                outs = p.weight.shape[0];
  const Lies x(p.x), y(p.y);
  const bool input = p.kind == Kind::Input;
  const int64_t w_out = p.weight.strides[0], w_in = p.weight.strides[1];
  Product r{};
  r.dtype = r.out = t, r.tf32 = p.tf32;
  r.bias = p.bias;
  if (x.pixels && y.pixels) {
    if (p.kind == Kind::Weight) {
      // Our own products do not share k.
      if ((w_in != 1 && ins > 1) || (w_out != ins && outs > 1) || !product_library_usable() ||
          product_source() == ProductSource::Own)
        return false;
      r.m = outs, r.n = ins, r.k = batch * pixels;
      r.a = p.y.data, r.b = p.x.data, r.c = p.weight.data;
      r.a_row = 1, r.a_col = outs, r.b_row = ins, r.b_col = 1;
    } else {
      r.m = batch * pixels, r.k = input ? outs : ins, r.n = input ? ins : outs;
      r.a = input ? p.y.data : p.x.data, r.b = p.weight.data, r.c = input ? p.x.data : p.y.data;
      r.a_row = r.k, r.a_col = 1;
      r.b_row = input ? w_out : w_in, r.b_col = input ? w_in : w_out;
    }
    multiply(a, r);
    return true;
  }
  if (p.kind == Kind::Weight && t == DType::Float32 && x.images && y.images) {
    // A product for each image, then their sum: where those are less than what is read.
    if (pixels % 4 != 0 || pixels < 256 || outs * ins * 8 > pixels * (outs + ins) || w_in != 1 ||
        !product_library_usable() || product_source() == ProductSource::Own)
      return false;
    pf_conv sum = q;
    sum.shares = batch;
    sum.partial = a.workspace(static_cast<size_t>(batch * outs * ins) * sizeof(float));
    r.m = outs, r.n = ins, r.k = pixels;
    r.a = p.y.data, r.b = p.x.data, r.c = sum.partial;
    r.a_row = pixels, r.a_col = 1, r.b_row = 1, r.b_col = pixels;
    if (batch > 1) {
      r.ndim = 1;
      r.batch[0] = {batch, outs * pixels, ins * pixels};
    }
    KernelArgs alone = a;
    alone.around = nullptr;
    multiply(alone, r);
    finish(a, p, sum, t, true);
    return true;
  }
  // Images of channels: a product for each, of lines of whole chunks.
  if (p.kind == Kind::Weight || p.bias || pixels * static_cast<int64_t>(itemsize(t)) % 16 != 0 ||
      !x.images || !y.images)
    return false;
  r.m = input ? ins : outs, r.n = pixels, r.k = input ? outs : ins;
  r.a = p.weight.data, r.b = input ? p.y.data : p.x.data, r.c = input ? p.x.data : p.y.data;
  r.a_row = input ? w_in : w_out, r.a_col = input ? w_out : w_in;
  r.b_row = pixels, r.b_col = 1;
  if (batch > 1) {
    r.ndim = 1;
    r.batch[0] = {batch, 0, r.k * pixels};
  }
  multiply(a, r);
  return true;
}

// ---- by the vendor's library --------------------------------------------------------------------

ProductSource source() {
  static const ProductSource s = source_asked("PYFLAME_GPU_CONV");
  return s;
}

// So few products take less than a library's call, and what follows joins ours (ResNet-50, one
// picture, on an H200: 3.0 and 2.3 ms).
constexpr double kFewProducts = 0x1p28;

// What our kernels are known to do quicker; all of it stands here.
bool ours_is_quicker(const KernelArgs& a, const Problem& p, const pf_conv& q, DType t) {
  const bool last = channels_last(p.x) && channels_last(p.y);
  const bool by_itself = p.weight.shape[1] == 1 && p.weight.shape[0] == p.groups;
  const double products =
      static_cast<double>(q.m) * static_cast<double>(q.n) * static_cast<double>(q.k);
  const bool few = p.kind == Kind::Forward && products <= kFewProducts && q.groups == 1 &&
                   q.channels % 8 == 0 && product(q.taps) <= 64 && itemsize(t) == 2 &&
                   gathered_product_fits(a.traits(), t, p.tf32);
  // Beside two turns of images (docs/performance.md).
  const bool rows = q.kept >= 32 && q.n >= 32 && q.pixels[2] >= 16 && of_rows(a, p, q, t);
  // Of AMD's nobody has measured which gradient by the weight is quicker.
  const bool asked = p.kind == Kind::Weight && a.traits().amd;
  return (last && (by_itself || few)) || rows ||
         (!asked && few_convolution_fits(a.traits(), of_few(p, q, t)));
}

// Dense, with channels innermost or not; one dimension of space becomes two.
Convolution::Operand operand(const pf_tensor& t, int space, bool last) {
  Convolution::Operand o{};
  o.data = t.data;
  for (int d = 0; d < space + 2; ++d)
    o.size[d] = d < 2 ? t.shape[d] : shape_of(t, d - 2 + 3 - space);
  int64_t step = 1;
  const auto next = [&](int d) {
    o.step[d] = step;
    step *= o.size[d];
  };
  if (last) next(1);
  for (int d = space + 1; d >= 2; --d) next(d);
  if (!last) next(1);
  next(0);
  return o;
}
// The same as t with the memory of the operand.
pf_tensor tensor_of(const pf_tensor& t, const Convolution::Operand& o, int space) {
  pf_tensor r = t;
  r.data = o.data;
  for (int d = 0; d < t.ndim; ++d) r.strides[d] = o.step[d < 2 ? d : d + space + 2 - t.ndim];
  return r;
}
// Images of channels that one transposition of a matrix for each item makes pixels, and back:
// cuDNN's kernels want channels last, and its own copies for that are slow.
bool turns(const KernelArgs& a, const Problem& p, int64_t item) {
  const auto fits = [&](const pf_tensor& t) {
    pf_i64 size[3];
    sizes_of(t, size);
    return t.shape[1] >= 16 && t.shape[1] * item % 16 == 0 && product(size) * item % 16 == 0 &&
           aligned(t.data, 16) && Lies(t).images;
  };
  return !a.traits().amd && (item == 2 || p.tf32) && fits(p.x) && fits(p.y);
}
// Into channels-last memory from images, or back.
void turn_images(const KernelArgs& a, void* to, const void* from, const pf_tensor& images,
                 bool back, int64_t item) {
  pf_i64 size[3];
  sizes_of(images, size);
  const int64_t pixels = product(size), channels = images.shape[1];
  pf_turned q{};
  q.from = from, q.to = to;
  q.size[0] = q.size[1] = 1, q.size[2] = back ? channels : pixels;
  q.at[2] = 1;
  q.channel = q.size[2];
  q.channels = q.padded = back ? pixels : channels;
  q.batch = pixels * channels;
  turn(a, q, images.shape[0], item);
}
bool lies_alike(const pf_tensor& a, const pf_tensor& b) {
  for (int d = 0; d < a.ndim; ++d)
    if (a.shape[d] > 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

// What libraries are asked for: a convolution whose result has all the pixels that fit.
bool ordinary(const Convolution& c) {
  for (int d = 0; d < c.space + 2; ++d)
    if (c.x.size[d] == 0 || c.w.size[d] == 0 || c.y.size[d] == 0) return false;
  for (int d = 0; d < c.space; ++d) {
    const int64_t reach =
        c.x.size[d + 2] + 2 * c.padding[d] - (c.w.size[d + 2] - 1) * c.dilation[d];
    if (c.padding[d] < 0 || reach < 1 || (reach - 1) / c.stride[d] + 1 != c.y.size[d + 2])
      return false;
  }
  return true;
}

// False: what the library does not take is for our kernels.
bool refused(const KernelArgs& a, const std::string& why) {
  note_own(a.op, "convolutions run by our own kernels: " + why, "PYFLAME_GPU_CONV");
  return false;
}

// `proposal`: of a choice that somebody measured or measures, else -1.
bool by_library(const KernelArgs& a, const Problem& p, const pf_conv& q, DType t, int proposal) {
  if (source() == ProductSource::Own || !is_float(t) || !compile_only().empty()) return false;
  if (source() == ProductSource::Auto && proposal < 0 && ours_is_quicker(a, p, q, t)) return false;
  // Among cuDNN's engines for it are some that transform before they sum, and do not say so: sums
  // of whole numbers came out as 29.000008 (9.12, H200).
  if (p.kind == Kind::Weight && t == DType::Float32 && !p.tf32) return false;
  constexpr auto number = numbers<Conv>;
  Convolution c{};
  c.kind = p.kind, c.dtype = t, c.tf32 = p.tf32;
  c.space = std::max(p.x.ndim - 2, 2);
  c.bias = p.bias, c.groups = p.groups, c.proposal = std::max(proposal, 0);
  for (int d = 0; d < c.space; ++d) {
    const int at = d + 3 - c.space;
    c.stride[d] = a.i(number.stride_d + at);
    c.padding[d] = a.i(number.padding_d + at);
    c.dilation[d] = a.i(number.dilation_d + at);
  }
  const auto item = static_cast<int64_t>(itemsize(t));
  const bool turned = turns(a, p, item), last = turned || channels_last(p.x) || channels_last(p.y);
  const pf_tensor* const given[] = {&p.x, &p.weight, &p.y};
  Convolution::Operand* const laid[] = {&c.x, &c.w, &c.y};
  for (int i = 0; i < 3; ++i) *laid[i] = operand(*given[i], c.space, last);
  if (!ordinary(c)) return false;
  if (!convolution_library_usable()) return refused(a, convolution_library());
  // What lies otherwise is copied.
  const int result = p.kind == Kind::Forward ? 2 : p.kind == Kind::Input ? 0 : 1;
  bool apart = false;
  for (int i = 0; i < 3; ++i) {
    pf_tensor as = tensor_of(*given[i], *laid[i], c.space);
    if (lies_alike(*given[i], as)) continue;
    as.data = laid[i]->data = a.workspace(static_cast<size_t>(numel(as)) * itemsize(t));
    if (i == result)
      apart = true;
    else if (turned && i != 1)
      turn_images(a, as.data, given[i]->data, *given[i], false, item);
    else
      copy_tensor(a, as, *given[i]);
  }
  std::string why;
  if (!library_convolution(a, c, why)) return proposal < 0 && refused(a, why);
  if (apart && turned && result != 1)
    turn_images(a, given[result]->data, laid[result]->data, *given[result], true, item);
  else if (apart)
    copy_tensor(a, *given[result], tensor_of(*given[result], *laid[result], c.space));
  return true;
}

void by_ours(const KernelArgs& a, const Problem& p, const pf_conv& given, DType t) {
  pf_conv q = given;
  if (few_convolution(a, of_few(p, q, t)) || by_rows(a, p, q, t) || on_units(a, p, q, t)) return;
  if (q.n == 1 && q.channels == 1)
    by_channel(a, p, q, t);
  else
    tiles(a, p, q, t);
  note_ours(a, t, false);
}

// So many shares of k that blocks have about as much each and the sums of shares are few; in steps
// of a tile, 3 us each (H200), in which the device reads or writes 10 MB.
void share_for_parts(pf_conv& q, const Product& r, int units) {
  const int64_t tiles = ceil_div(r.m, 128) * ceil_div(r.n, 128);
  double least = 0;
  int64_t best = 0;
  for (int64_t s = 1; s == 1 || (s <= 64 && q.k / s >= 512); ++s) {
    const double cost = double(ceil_div(tiles * s, units)) * (double(q.k) / 64 / double(s) + 4) +
                        double(s * r.m * r.n) * 8 / 10e6;
    if (best == 0 || cost < least) least = cost, best = s;
  }
  q.share = ceil_div(ceil_div(q.k, best), 64) * 64;
  q.shares = ceil_div(q.k, q.share);
}

// The same of the gradient by the weight: pixels, which are k, in shares.
bool weight_in_parts(const KernelArgs& given, const Problem& p, const pf_conv& all) {
  if (p.x.ndim != 4 || all.groups != 1 || all.channels != all.kept || !narrow(all)) return false;
  const Lies x(p.x), y(p.y);
  if ((!x.pixels && !x.images) || (!y.pixels && !y.images) || !aligned(p.x.data, 16) ||
      !aligned(p.y.data, 16))
    return false;
  KernelArgs a = given;
  a.around = nullptr;
  pf_conv q = all;
  as_pixels(q);
  q.m = q.channels * product(q.taps);
  Product r{};
  r.m = q.n, r.n = q.m, r.k = q.k;
  r.dtype = r.out = DType::Float32;
  if (!weight_gradient_gains(a.traits(), r, q)) return false;
  r.a = q.plain;
  r.a_row = 1, r.a_col = q.n;
  share_for_parts(q, r, a.traits().compute_units);
  q.partial = a.workspace(static_cast<size_t>(q.shares * q.n * q.m) * sizeof(float));
  r.c = q.partial;
  r.ndim = 1;
  r.batch[0] = {q.shares, q.share * q.n, 0};
  const pf_u32* range = weight_gradient_of_parts(a, r, q, !x.pixels, !y.pixels);
  if (!range) return false;
  finish(a, p, q, DType::Float32, true);
  pf_conv rest = all;
  tiles(a, p, rest, DType::Float32, range);
  note_float32(a, DType::Float32, false, {"our kernels, in float32 by parts of bfloat16", nullptr});
  return true;
}

// In float32 by matrix units (convolution_of_parts()); what follows is not part of it.
bool in_parts(const KernelArgs& given, const Problem& p, const pf_conv& all, DType t) {
  const pf_tensor &x = p.kind == Kind::Input ? p.y : p.x, &y = p.kind == Kind::Input ? p.x : p.y;
  if (source() == ProductSource::Library || t != DType::Float32 || p.tf32 ||
      !tensor_maps(given.traits()))
    return false;
  if (p.kind == Kind::Weight) return weight_in_parts(given, p, all);
  if (all.groups != 1 || all.kept % 8 != 0 || product(all.taps) < 2 || !narrow(all)) return false;
  const Lies from(x), to(y);
  if ((!from.pixels && !from.images) || (!to.pixels && !to.images) || !aligned(p.x.data, 16) ||
      !aligned(p.y.data, 16) || all.n % 4 != 0)
    return false;
  KernelArgs a = given;
  a.around = nullptr;
  pf_conv q = all;
  as_pixels(q);
  q.k = q.channels * product(q.taps);
  Product r{};
  r.m = q.m, r.n = q.n, r.k = q.k;
  r.dtype = r.out = t, r.bias = q.bias;
  r.b_row = 1, r.b_col = q.k;
  if (!convolution_gains(a.traits(), r, q, inverse(q, p.kind))) return false;
  r.b = lines_of_weights(a, q, t);
  r.c = to.pixels ? q.out : a.workspace(static_cast<size_t>(q.m * q.n) * sizeof(float));
  const pf_u32* range = convolution_of_parts(a, r, q, inverse(q, p.kind), !from.pixels);
  if (!range) return false;
  if (!to.pixels && product(all.pixels) % 4 == 0) {
    turn_images(a, y.data, r.c, y, true, sizeof(float));
  } else if (!to.pixels) {  // only whole chunks are turned
    pf_tensor dense = y;
    dense.data = r.c;
    dense.strides[1] = 1;
    pf_i64 step = q.n;
    for (int d = y.ndim - 1; d >= 2; step *= y.shape[d--]) dense.strides[d] = step;
    dense.strides[0] = step;
    copy_tensor(a, y, dense);
  }
  pf_conv rest = all;
  tiles(a, p, rest, t, range);
  note_float32(a, t, false, {"our kernels, in float32 by parts of bfloat16", nullptr});
  return true;
}

// ---- as somebody measured -----------------------------------------------------------------------

// What decides over the speed of a convolution, as text.
std::string description(const Problem& p, const pf_conv& q, DType t) {
  static constexpr const char* kNames[] = {"conv ", "conv_input ", "conv_weight "};
  std::ostringstream s;
  s << kNames[static_cast<int>(p.kind)] << name(t);
  const auto sizes = [&](const char* what, const pf_tensor& x) {
    s << " " << what << " ";
    for (int d = 0; d < x.ndim; ++d) s << (d ? "x" : "") << x.shape[d];
    if (channels_last(x)) s << " last";
    const Lies lies(x);
    if (!lies.pixels && !lies.images) s << " apart";
    if (!aligned(x.data, 16)) s << " odd";
  };
  sizes("x", p.x);
  sizes("w", p.weight);
  s << " stride";
  for (const pf_i64 v : q.stride) s << " " << v;
  s << " padding";
  for (const pf_i64 v : q.padding) s << " " << v;
  s << " dilation";
  for (const pf_i64 v : q.dilation) s << " " << v;
  if (q.groups > 1) s << " groups " << q.groups;
  if (p.bias) s << " bias";
  if (p.tf32) s << " tf32";
  return s.str();
}
// False when nobody measured, or measures now.
bool by_choice(const KernelArgs& a, const Problem& p, const pf_conv& q, DType t) {
  if (source() == ProductSource::Own || !is_float(t) || !convolution_library_usable()) return false;
  const std::string what = description(p, q, t), library = convolution_library_version();
  const auto run = [&](const KernelArgs& with, Choice c) {
    const ScratchScope own;  // each gives back what it took
    if (!c.own) return by_library(with, p, q, t, c.index);
    by_ours(with, p, q, t);
    return true;
  };
  Choice choice;
  if (find_choice(a, library, what, choice)) return run(a, choice);
  if (!measuring()) return false;
  std::vector<Choice> candidates;
  candidates.reserve(kMostProposals + 1);
  for (int i = 0; i < (exhaustive() ? kMostProposals : 4); ++i) candidates.push_back({false, i});
  if (source() == ProductSource::Auto) candidates.push_back({true, -1});
  // What follows must not run as often as is measured.
  KernelArgs alone = a;
  alone.around = nullptr;
  measure(alone, library, what, candidates, [&](Choice c) { return run(alone, c); });
  return true;
}

void run(const KernelArgs& a, const Problem& p, DType t) {
  const pf_conv q = arguments(a, p);
  const bool asked = source() == ProductSource::Library;
  if (!asked && by_pixel(a, p, q, t)) return;
  if (choices_matter() && by_choice(a, p, q, t)) return;
  if (in_parts(a, p, q, t)) return;
  if (by_library(a, p, q, t, -1) || (asked && by_pixel(a, p, q, t))) return;
  by_ours(a, p, q, t);
}

bool tf32(DType t) {
  return t == DType::Float32 && float32_conv_precision() != MatmulPrecision::Highest;
}
void conv(const KernelArgs& a) {
  constexpr auto at = tensors<Conv>;
  run(a,
      {Kind::Forward, a.tensor(at.x), a.tensor(at.weight), a.tensor(at.y),
       a.has(at.bias) ? a.data(at.bias) : nullptr, a.i(numbers<Conv>.groups), tf32(a.dtype(at.y))},
      a.dtype(at.y));
}
void conv_input(const KernelArgs& a) {
  constexpr auto at = tensors<ConvInput>;
  run(a,
      {Kind::Input, a.tensor(at.dx), a.tensor(at.weight), a.tensor(at.dy), nullptr,
       a.i(numbers<ConvInput>.groups), tf32(a.dtype(at.dx))},
      a.dtype(at.dx));
}
void conv_weight(const KernelArgs& a) {
  constexpr auto at = tensors<ConvWeight>;
  run(a,
      {Kind::Weight, a.tensor(at.x), a.tensor(at.dweight), a.tensor(at.dy), nullptr,
       a.i(numbers<ConvWeight>.groups), tf32(a.dtype(at.dweight))},
      a.dtype(at.dweight));
}

}  // namespace

PF_GPU_KERNEL(Conv::kInfo, conv)
PF_GPU_KERNEL(ConvInput::kInfo, conv_input)
PF_GPU_KERNEL(ConvWeight::kInfo, conv_weight)

}  // namespace pyflame::gpu
