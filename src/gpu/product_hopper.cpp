// Our own matrix products on Hopper, whose operands its copy unit reads (kernels/matmul_hopper.h).
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "gpu/device_text.h"
#include "gpu/product_own.h"
#include "gpu/tensor_map.h"
#include "kernels/float_parts_args.h"
#include "kernels/matmul_hopper_args.h"

namespace pyflame::gpu {
namespace {

struct MapTiling {
  int m, n, stages, cluster;
  bool turns, aside = false;
  int parts = 1;  // of each operand
  // Stages, results on their way, barriers.
  int64_t shared() const {
    return int64_t{1} * (m + n) * 128 * stages * parts + (aside ? m * n * 2 : 8 * 2 * 16 * 128) +
           16 * stages + (aside ? 48 : 16);
  }
  int threads() const { return aside ? 4 * 128 : 3 * 128; }
};
// Tiles whose results a group of warps of its own finishes, for which the others do not wait.
constexpr MapTiling kAside{128, 192, 4, 1, false, true};
bool is_float8(const Product& p) {
  return p.dtype == DType::Float8E4M3 || p.dtype == DType::Float8E5M2;
}
bool promoted(const Product& p) {
  return is_float8(p) && !p.scaling.fast_sums;
}
// The quicker of two tiles, in steps of the wide one's k as they were measured on an H100: all
// write a wide tile's results together, and nothing is multiplied meanwhile; of the other one, half
// of the warps multiply then, but read more.
bool choose(const Traits& t, const Product& p, int64_t steps, int tile, MapTiling* s) {
  static constexpr MapTiling kWide{128, 256, 4, 1, false}, kTurns{128, 128, 6, 1, true},
      kTwice{128, 192, 4, 1, false}, kTwiceNarrow{128, 128, 6, 1, false};
  const auto waves = [&](const MapTiling& x) {
    return double(ceil_div(blocks(p, x.m, x.n), t.compute_units));
  };
  const double of_k = double(steps), wide = waves(kWide) * (of_k + 5),
               turns = waves(kTurns) * (0.53 * of_k + 1) + 4;
  // Of sums that are kept twice there are registers for fewer columns: one of the narrower tile
  // takes a tenth longer.
  if (promoted(p)) {
    *s = waves(kTwice) * kTwice.n <= waves(kTwiceNarrow) * kTwiceNarrow.n * 1.1 ? kTwice
                                                                                : kTwiceNarrow;
    return true;
  }
  if (tile > 1 ||
      (tile < 0 && !is_float8(p) && 5 * blocks(p, 128, 128) < int64_t{2} * t.compute_units))
    return false;
  // What writes such float32 results by itself has no registers left for scales.
  const bool scattered = is_float8(p) && itemsize(p.out) == 4 && p.n % 4 != 0;
  *s = !scattered && (tile == 0 || (tile < 0 && wide < turns)) ? kWide : kTurns;
  return true;
}

// Elements of a line of shared memory.
int64_t line_of(const Product& p) {
  return 128 / static_cast<int64_t>(itemsize(p.dtype));
}

// An operand that k has stride 1 in (`along`), or the other dimension.
TensorView view_of(const Product& p, bool a, bool along, int box, bool tf32, int dims) {
  const int64_t outer = a ? p.m : p.n, outer_stride = a ? p.a_row : p.b_col,
                k_stride = a ? p.a_col : p.b_row, line = line_of(p);
  TensorView v;
  v.data = a ? p.a : p.b;
  v.dtype = p.dtype;
  v.tf32 = tf32;
  v.rank = 2 + dims;
  v.size[0] = along ? p.k : outer;
  v.size[1] = along ? outer : p.k;
  v.stride[0] = 1;
  v.stride[1] = along ? outer_stride : k_stride;
  v.box[0] = static_cast<int32_t>(line);
  v.box[1] = along ? box : static_cast<int32_t>(line);
  for (int d = 0; d < dims; ++d) {
    const int64_t stride = d >= p.ndim ? 0 : a ? p.batch[d].a : p.batch[d].b;
    v.size[2 + d] = stride ? p.batch[d].size : 1;
    v.stride[2 + d] = stride ? stride : line;
    v.box[2 + d] = 1;
  }
  return v;
}

// The results, a warp's 16 lines at a time.
TensorView view_of_results(const Product& p) {
  TensorView v;
  v.data = p.c;
  v.dtype = p.out;
  v.rank = 3;
  v.size[0] = p.n, v.size[1] = p.m, v.size[2] = p.batches();
  v.stride[0] = 1, v.stride[1] = p.n, v.stride[2] = p.m * p.n;
  v.box[0] = static_cast<int32_t>(128 / itemsize(p.out)), v.box[1] = 16, v.box[2] = 1;
  return v;
}

void launch(const KernelArgs& args, const Product& p, const MapTiling& s, Defines options,
            bool tf32, pf_matmul_hopper_args& q) {
  options = std::move(options)
                .text("PF_T", device_stored(p.dtype))
                .value("TILE_M", s.m)
                .value("TILE_N", s.n)
                .value("TILE_K", line_of(p))
                .value("STAGES", s.stages)
                .value("TURNS", s.turns)
                .value("ASIDE", s.aside)
                .value("PF_MATRIX_UNIT", 2);
  if (s.aside) options = std::move(options).value("WHOLE", p.m % s.m == 0 && p.n % s.n == 0);
  if (s.parts > 1) options = std::move(options).value("PF_PARTS", s.parts);
  if (s.cluster > 1) options = std::move(options).value("PF_CLUSTER", s.cluster);
  if (tf32) options = std::move(options).value("PF_TF32", 1);
  if (is_float8(p)) {
    options = std::move(options).text("PF_OTHER", device_stored(p.scaling.b));
    if (promoted(p)) options = std::move(options).value("PROMOTED", 1);
    q.scale_a = static_cast<const float*>(p.scaling.of_a);
    q.scale_b = static_cast<const float*>(p.scaling.of_b);
    q.by_row = p.scaling.by_row;
  }
  if (p.out != p.dtype) options = std::move(options).type("PF_OUT", p.out);
  // Results of 4 bytes fill no lines as they lie in registers (tf32 350 and 385 TFLOP/s); others
  // are written from shared memory by the warps, which wait less (k of 768: 525 and 631).
  if (const TensorView c = view_of_results(p); itemsize(p.out) == 4 && tensor_map_fits(c)) {
    options = std::move(options).value("STORED", 1);
    q.c = tensor_map(c);
  }
  q.product = arguments(p, s.m, s.n);
  q.batches = static_cast<pf_i32>(p.batches());
  // Blocks stay for several tiles.
  const int64_t clusters = std::min(blocks(p, s.m * s.cluster, s.n),
                                    int64_t{1} * args.traits().compute_units / s.cluster);
  args.launch(args.join("matmul_hopper.h", options, "pf_matmul_hopper",
                        {-1, p.batches() * p.m, p.n, together(p)}),
              Grid(clusters * s.cluster), s.threads(), size_t(s.shared()), q);
}

}  // namespace

bool maps_usable(const Traits& t, const Product& p) {
  return tensor_maps(t) && reinterpret_cast<uintptr_t>(p.c) % 16 == 0 &&
         std::max({p.m, p.n, p.k}) < 1 << 30 && blocks(p, 64, 64) < int64_t{1} << 30;
}

bool product_by_maps(const KernelArgs& args, const Product& p, int tile, bool a_along, bool b_along,
                     bool tf32) {
  MapTiling s;
  if (!maps_usable(args.traits(), p) || p.ndim > 3 ||
      (itemsize(p.dtype) != 2 && !(a_along && b_along)))
    return false;
  const int64_t steps = ceil_div(p.k, line_of(p));
  if (tile == kAsideTile)
    s = kAside;
  else if (!choose(args.traits(), p, steps, tile, &s))
    return false;
  if (args.traits().max_shared < size_t(s.shared())) return false;
  const int dims = p.ndim > 1 ? 3 : p.ndim;
  const TensorView a = view_of(p, true, a_along, std::min(s.m, 128), tf32, dims),
                   b = view_of(p, false, b_along, s.n / 2, tf32, dims);
  if (!tensor_map_fits(a) || !tensor_map_fits(b)) return false;
  pf_matmul_hopper_args q{};
  q.a = tensor_map(a), q.b = tensor_map(b);
  q.steps = static_cast<pf_i32>(steps);
  launch(args, p, s,
         Defines().value("BATCHES", dims).value("A_ALONG_K", a_along).value("B_ALONG_K", b_along),
         tf32, q);
  return true;
}

namespace {

// An operand as three planes of bfloat16 that lie as it does, and the numbers it has.
struct Planes {
  void* data;
  int64_t lines, n, stride, pitch;
  bool along;
  static int64_t pitch_of(int64_t n) { return ceil_div(n, 8) * 8; }
};
// False where neither dimension has stride 1.
bool planes_of(const Product& p, bool a, Planes* r) {
  const int64_t outer = a ? p.m : p.n, outer_stride = a ? p.a_row : p.b_col,
                k_stride = a ? p.a_col : p.b_row;
  r->along = k_stride == 1;
  if (!r->along && outer_stride != 1) return false;
  r->lines = r->along ? outer : p.k, r->n = r->along ? p.k : outer;
  r->stride = r->along ? outer_stride : k_stride;
  r->pitch = Planes::pitch_of(r->n);
  return r->lines * r->pitch < int64_t{1} << 31 && r->stride >= 0;
}
void split(const KernelArgs& args, const void* from, Planes& r, pf_u32* range) {
  r.data = args.workspace(static_cast<size_t>(3 * r.lines * r.pitch) * 2);
  const pf_float_parts q{from, r.data, range, r.lines, r.n, r.stride, r.pitch};
  const bool vector = aligned(from, r.stride, 4);
  args.launch(
      args.compile("float_parts.h", Defines().value("PF_V", vector ? 4 : 1), "pf_float_parts_of"),
      blocks_for(r.lines * r.pitch / 4, 256, int64_t{8} * args.traits().compute_units), 256, 0, q);
}
// The same of images, of so many pixels each, whose channels come side by side; 0: as it lies.
void split(const KernelArgs& args, const void* from, Planes& r, pf_u32* range, int64_t pixels) {
  if (pixels == 0) return split(args, from, r, range);
  r.data = args.workspace(static_cast<size_t>(3 * r.lines * r.pitch) * 2);
  const pf_float_parts q{from, r.data, range, r.n, pixels, pixels, r.pitch};
  const Defines options =
      Defines().value("PF_V", aligned(from, pixels, 4) ? 4 : 1).value("PF_TURN", 1);
  args.launch(args.compile("float_parts.h", options, "pf_float_parts_turned"),
              Grid(r.lines / pixels * ceil_div(pixels, 64) * ceil_div(r.pitch, 64)), 256, 0, q);
}
TensorView view_of(const Planes& r, int box) {
  TensorView v;
  v.data = r.data;
  v.dtype = DType::BFloat16;
  v.rank = 3;
  v.size[0] = r.n, v.size[1] = r.lines, v.size[2] = 3;
  v.stride[0] = 1, v.stride[1] = r.pitch, v.stride[2] = r.lines * r.pitch;
  v.box[0] = 64, v.box[1] = r.along ? box : 64, v.box[2] = 1;
  return v;
}
constexpr MapTiling kParts{128, 128, 2, 1, false, false, 3};
MapTiling parts_tiling(const Product& p) {
  MapTiling s = kParts;
  if (p.n <= 64) s.n = 64;  // 57 TFLOP/s for 37 of 64 channels (H200)
  return s;
}
// Beside what parts cost, of each compute unit; sums of few products err less by ordinary
// arithmetic.
constexpr double kLeastWork = 0x1p23;
constexpr int64_t kLeastK = 128, kLeastSide = 200, kMostBytes = int64_t{1} << 30;

}  // namespace

bool vectors_asked() {
  static const bool asked = [] {
    const char* v = std::getenv("PYFLAME_GPU_FLOAT32");
    return v && std::strcmp(v, "vector") == 0;
  }();
  return asked;
}

bool product_of_parts(const KernelArgs& args, const Product& p) {
  const Traits& t = args.traits();
  if (p.dtype != DType::Float32 || p.out != DType::Float32 || p.tf32 || p.ndim != 0 ||
      p.k < kLeastK || p.m * p.n < kLeastSide * (p.m + p.n) || !maps_usable(t, p) ||
      vectors_asked() || double(p.m) * double(p.n) * double(p.k) < kLeastWork * t.compute_units ||
      2 * blocks(p, 128, 128) < t.compute_units || t.max_shared < size_t(kParts.shared()))
    return false;
  Planes x, y;
  if (!planes_of(p, true, &x) || !planes_of(p, false, &y) ||
      6 * (x.lines * x.pitch + y.lines * y.pitch) > kMostBytes)
    return false;
  auto* range = static_cast<pf_u32*>(args.workspace(2 * PF_RANGE_WORDS * sizeof(pf_u32)));
  args.fill(range, 0, 2 * PF_RANGE_WORDS * sizeof(pf_u32));
  split(args, p.a, x, range);
  split(args, p.b, y, range + PF_RANGE_WORDS);
  Product in_parts = p;
  in_parts.dtype = DType::BFloat16;
  pf_matmul_hopper_args q{};
  const MapTiling s = parts_tiling(p);
  q.a = tensor_map(view_of(x, 128)), q.b = tensor_map(view_of(y, s.n / 2));
  q.range = range;
  q.steps = static_cast<pf_i32>(ceil_div(p.k, 64));
  launch(args, in_parts, s,
         Defines().value("BATCHES", 0).value("A_ALONG_K", x.along).value("B_ALONG_K", y.along),
         false, q);
  arithmetic_product(args, p, -1, range);
  note_float32(args, p.dtype, false, {"our kernels, in float32 by parts of bfloat16", nullptr});
  return true;
}

bool convolution_gains(const Traits& t, const Product& p, const pf_conv& conv, int inverse) {
  const int64_t pictures = p.m / (conv.pixels[1] * conv.pixels[2]),
                pixels = pictures * conv.size[1] * conv.size[2];
  return !vectors_asked() && p.k >= kLeastK && p.n >= 48 && conv.channels % 8 == 0 &&
         inverse != 2 && conv.pixels[0] == 1 && conv.taps[0] == 1 && conv.size[0] == 1 &&
         double(p.m) * double(p.n) * double(p.k) >= kLeastWork * t.compute_units &&
         2 * blocks(p, 128, 128) >= t.compute_units && t.max_shared >= size_t(kParts.shared()) &&
         6 * (pixels * conv.channels + p.n * p.k) <= kMostBytes;
}

const pf_u32* convolution_of_parts(const KernelArgs& args, const Product& p, const pf_conv& conv,
                                   int inverse, bool images) {
  const int64_t pictures = p.m / (conv.pixels[1] * conv.pixels[2]), c = conv.channels;
  Planes x{nullptr, pictures * conv.size[1] * conv.size[2], c, c, c, true},
      w{nullptr, p.n * p.k / c, c, c, c, true};
  auto* range = static_cast<pf_u32*>(args.workspace(2 * PF_RANGE_WORDS * sizeof(pf_u32)));
  args.fill(range, 0, 2 * PF_RANGE_WORDS * sizeof(pf_u32));
  split(args, conv.gathered, x, range, images ? conv.size[1] * conv.size[2] : 0);
  split(args, p.b, w, range + PF_RANGE_WORDS);
  Product in_parts = p;
  in_parts.dtype = DType::BFloat16;
  in_parts.b = w.data;
  pf_conv planes = conv;
  planes.gathered = x.data;
  return windows_by_maps(args, in_parts, planes, inverse, false, range) ? range : nullptr;
}

namespace {

// What a map and a kernel are told of the windows of a convolution; `windows` of a copy.
WindowView view_of_windows(const pf_conv& conv, const Product& p, int inverse, bool tf32,
                           int64_t pictures, int windows, pf_matmul_hopper_args& q) {
  const int64_t line = line_of(p);
  WindowView a;
  a.data = conv.gathered;
  a.dtype = p.dtype;
  a.tf32 = tf32;
  a.channels = conv.channels;
  a.pictures = pictures;
  a.picture = conv.batch;
  a.box_channels = static_cast<int32_t>(line);
  a.box_windows = windows;
  for (int d = 0; d < 2; ++d) {  // x, y
    const int from = 2 - d;
    const int64_t reach = (conv.taps[from] - 1) * conv.dilation[from];
    a.size[d] = conv.size[from];
    a.stride[d] = conv.size[from] == 1 ? line : conv.at[from];
    // Of the gradient of the input the taps are seen backwards.
    a.first[d] = inverse ? conv.padding[from] - reach : -conv.padding[from];
    a.step[d] = inverse ? 1 : conv.stride[from];
    a.windows[d] = conv.pixels[from];
    a.far[d] = reach;
    q.windows[d] = static_cast<pf_i32>(a.windows[d]);
    q.first[d] = static_cast<pf_i32>(a.first[d]);
    q.step[d] = static_cast<pf_i32>(a.step[d]);
    q.taps[d] = static_cast<pf_i32>(conv.taps[from]);
    q.apart[d] = static_cast<pf_i32>(conv.dilation[from]);
  }
  q.runs = static_cast<pf_i32>(ceil_div(conv.channels, line));
  return a;
}
bool flat(const pf_conv& conv) {
  return conv.size[0] == 1 && conv.pixels[0] == 1 && conv.taps[0] == 1;
}

}  // namespace

bool weight_gradient_gains(const Traits& t, const Product& p, const pf_conv& conv) {
  const int64_t pixels = p.k / (conv.pixels[1] * conv.pixels[2]) * conv.size[1] * conv.size[2];
  return !vectors_asked() && p.k >= kLeastK && p.m >= 48 && p.m % 8 == 0 &&
         conv.channels % 64 == 0 && flat(conv) &&
         double(p.m) * double(p.n) * double(p.k) >= kLeastWork * t.compute_units &&
         t.max_shared >= size_t(kParts.shared()) &&
         6 * (pixels * conv.channels + p.m * p.k) <= kMostBytes;
}

const pf_u32* weight_gradient_of_parts(const KernelArgs& args, const Product& p,
                                       const pf_conv& conv, bool x_images, bool y_images) {
  const int64_t pictures = conv.k / (conv.pixels[1] * conv.pixels[2]), c = conv.channels;
  Planes y{nullptr, conv.k, p.m, p.m, p.m, false},
      x{nullptr, pictures * conv.size[1] * conv.size[2], c, c, c, true};
  auto* range = static_cast<pf_u32*>(args.workspace(2 * PF_RANGE_WORDS * sizeof(pf_u32)));
  args.fill(range, 0, 2 * PF_RANGE_WORDS * sizeof(pf_u32));
  split(args, p.a, y, range, y_images ? conv.pixels[1] * conv.pixels[2] : 0);
  split(args, conv.gathered, x, range + PF_RANGE_WORDS, x_images ? conv.size[1] * conv.size[2] : 0);
  Product in_parts = p;
  in_parts.dtype = DType::BFloat16;
  pf_conv planes = conv;
  planes.gathered = x.data;
  pf_matmul_hopper_args q{};
  WindowView b = view_of_windows(planes, in_parts, 0, false, pictures, 64, q);
  q.pictures = static_cast<pf_i32>(pictures);
  b.pictures *= 3;
  const TensorView a = view_of(y, 128);
  if (!maps_usable(args.traits(), p) || !window_map_fits(b) || !tensor_map_fits(a)) return nullptr;
  q.a = tensor_map(a);
  q.b = window_map(b);
  q.range = range;
  q.share = static_cast<pf_i32>(conv.share);
  q.steps = static_cast<pf_i32>(conv.share / 64);
  launch(args, in_parts, kParts,
         Defines()
             .value("BATCHES", 0)
             .value("A_ALONG_K", 0)
             .value("B_ALONG_K", 0)
             .value("PF_GATHERED", 2)
             .value("PF_INVERSE", 0),
         false, q);
  return range;
}

bool windows_by_maps(const KernelArgs& args, const Product& p, const pf_conv& conv, int inverse,
                     bool tf32, const pf_u32* range) {
  MapTiling s = parts_tiling(p);
  if (!maps_usable(args.traits(), p) || p.ndim != 0 || inverse == 2 || !flat(conv) ||
      p.k != conv.channels * conv.taps[1] * conv.taps[2])
    return false;
  const int64_t line = line_of(p), taps = conv.taps[1] * conv.taps[2],
                runs = ceil_div(conv.channels, line);
  if ((!range && !choose(args.traits(), p, taps * runs, -1, &s)) ||
      args.traits().max_shared < size_t(s.shared()))
    return false;
  pf_matmul_hopper_args q{};
  WindowView a = view_of_windows(conv, p, inverse, tf32, p.m / (conv.pixels[1] * conv.pixels[2]),
                                 std::min(s.m, 128), q);
  TensorView b;
  b.data = p.b;
  b.dtype = p.dtype;
  b.tf32 = tf32;
  b.rank = 3;
  b.size[0] = conv.channels, b.size[1] = taps, b.size[2] = p.n;
  b.stride[0] = 1, b.stride[1] = conv.channels, b.stride[2] = p.b_col;
  b.box[0] = static_cast<int32_t>(line), b.box[1] = 1, b.box[2] = s.n / 2;
  if (range) {
    q.range = range;
    q.pictures = static_cast<pf_i32>(a.pictures);
    a.pictures *= 3;
    b.rank = 4;
    b.size[3] = 3, b.stride[3] = p.n * p.b_col, b.box[3] = 1;
  }
  if (!window_map_fits(a) || !tensor_map_fits(b)) return false;
  q.a = window_map(a);
  q.b = tensor_map(b);
  q.steps = static_cast<pf_i32>(taps * runs);
  launch(args, p, s,
         Defines()
             .value("BATCHES", 0)
             .value("A_ALONG_K", 1)
             .value("B_ALONG_K", 1)
             .value("PF_GATHERED", 1)
             .value("PF_INVERSE", inverse),
         tf32, q);
  return true;
}

}  // namespace pyflame::gpu
