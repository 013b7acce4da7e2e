// Our own matrix products: matrix units for 16-bit floats, int8 and, where they have them, float32
// or the tf32 that may take its place; ordinary arithmetic for the rest. The
// tile is chosen from the product's sizes alone.
#include <algorithm>

#include "gpu/product_own.h"
#include "kernels/conv_product_args.h"

namespace pyflame::gpu {
namespace {

// 0: k has stride 1; 1: the other dimension has; -1: the tiles cannot be read in chunks.
int along_k(const void* at, int64_t outer, int64_t k, int item, bool batches_fit) {
  if (!batches_fit) return -1;
  if (k == 1 && aligned(at, outer, item)) return 1;
  if (outer == 1 && aligned(at, k, item)) return 0;
  return -1;
}

bool is_wide(DType t) {
  return itemsize(compute_type(t)) > 4;
}

struct Tiling {
  int m, n, line;  // line: bytes of k
  int warp_m, warp_n, stages;
  bool wgmma = false;
  // Results of less than 4 bytes go through shared memory too.
  int64_t shared(int out_item) const {
    const int64_t operands = int64_t{1} * (m + n) * line * stages;
    return out_item >= 4 ? operands : std::max(operands, int64_t{out_item} * m * n);
  }
  int threads(int warp) const { return m / warp_m * (n / warp_n) * warp; }
};

// The widest tile that still gives every compute unit work.
// `tile` takes one of them (from the widest), if it is not -1. `across`: an operand's k has not
// stride 1. False where there is no such tile.
bool choose(const Traits& t, const Product& p, bool across, int tile, Tiling* s) {
  const int item = static_cast<int>(itemsize(p.dtype)), out = static_cast<int>(itemsize(p.out));
  const auto fits = [&](const Tiling& x) { return t.max_shared >= size_t(x.shared(out)); };
  if (t.amd) {
    // 64 KB of LDS; two blocks share a compute unit.
    // RDNA 3 keeps both operands twice in registers: a warp takes half as much there.
    static constexpr Tiling kWide{128, 128, 64, 64, 64, 2}, kTall{128, 128, 64, 64, 32, 2},
        kSmall{64, 64, 64, 32, 32, 2};
    if (tile == 1) return false;
    if (tile < 0 ? blocks(p, 128, 128) < t.compute_units : tile == 2)
      *s = kSmall;
    else
      *s = t.architecture.rfind("gfx11", 0) == 0 ? kTall : kWide;
    return fits(*s);
  }
  static constexpr Tiling kHopper{128, 256, 128, 16, 256, 4, true},
      kHopperTall{256, 128, 128, 16, 128, 4, true}, kHopperPair{128, 128, 128, 16, 128, 2, true},
      kHopperSingle{128, 128, 128, 16, 128, 6, true}, kWide{128, 256, 128, 64, 64, 3},
      kMiddle{128, 128, 128, 64, 64, 3}, kMiddleAcross{128, 128, 128, 64, 32, 3},
      kSmall{64, 64, 128, 32, 32, 4};
  // Lines of int8 across k are as long as two small tiles.
  const bool has_small = item > 1 || !across;
  // What takes operands across k apart needs registers for it.
  const Tiling& middle = item != 2 && across ? kMiddleAcross : kMiddle;
  const bool hopper = t.architecture == "sm_90" && (item == 2 || !across);
  if (tile >= 0) {
    if (tile == 2 && !has_small) return false;
    *s = tile == 2 ? kSmall
         : hopper  ? (tile == 0 ? kHopper : kHopperPair)
                   : (tile == 0 ? kWide : middle);
    return fits(*s);
  }
  if (hopper) {
    // Large tiles read least. Two blocks of the narrower one share a compute unit where there are
    // that many.
    *s = p.n > 128 && blocks(p, 128, 256) >= t.compute_units        ? kHopper
         : p.n <= 128 && blocks(p, 256, 128) >= 2 * t.compute_units ? kHopperTall
         : blocks(p, 128, 128) > t.compute_units                    ? kHopperPair
         : blocks(p, 128, 128) >= t.compute_units / 2               ? kHopperSingle
                                                                    : kSmall;
    return fits(*s);
  }
  if (blocks(p, 128, 256) >= t.compute_units && fits(kWide))
    *s = kWide;
  else if ((!has_small || blocks(p, 128, 128) >= t.compute_units / 2) && fits(middle))
    *s = middle;
  else
    *s = kSmall;
  return fits(*s) && (has_small || s->m > 64);
}

// Whether matrix units multiply a dtype, and whether they round it first.
bool units_take(const Traits& t, DType dtype, bool allowed, bool* tf32) {
  const int unit = matrix_unit(t);
  if (!unit) return false;
  if (dtype != DType::Float32)
    return dtype == DType::BFloat16 || dtype == DType::Float16 || dtype == DType::Int8;
  // NVIDIA's units take float32 only rounded, AMD's CDNA as it is; RDNA's not at all.
  *tf32 = allowed && (!t.amd || t.architecture == "gfx942");
  return t.amd ? unit == 1 : *tf32;
}

// What a convolution gathers; of a few channels the tile is as narrow.
struct Gathered {
  const pf_conv& conv;
  int operand, inverse;
};
bool choose_gathered(const Traits& t, const Product& p, int operand, Tiling* s) {
  // Several blocks of Hopper's narrow one share a compute unit.
  static constexpr Tiling kNarrow{128, 64, 64, 64, 32, 2},
      kHopperNarrow{128, 64, 128, 16, 64, 2, true}, kAmpereNarrow{128, 64, 128, 64, 32, 3},
      kFlat{64, 128, 64, 32, 64, 2}, kHopperFlat{64, 128, 128, 16, 128, 4, true},
      kAmpereFlat{64, 128, 128, 32, 64, 3};
  const bool hopper = t.architecture == "sm_90";
  if (operand == 2) {
    if (p.m > 64) return choose(t, p, true, -1, s);
    *s = t.amd ? kFlat : hopper && itemsize(p.dtype) == 2 ? kHopperFlat : kAmpereFlat;
  } else if (operand == 3 && p.m <= 64 && p.n > 64) {
    *s = t.amd ? kFlat : hopper ? kHopperFlat : kAmpereFlat;
  } else {
    if (p.n > 64 || blocks(p, 128, 64) < t.compute_units) return choose(t, p, false, -1, s);
    *s = t.amd ? kNarrow : hopper ? kHopperNarrow : kAmpereNarrow;
  }
  return t.max_shared >= size_t(s->shared(static_cast<int>(itemsize(p.out))));
}

// A convolution's tiles by kernels/tiles_hopper_windows.h.
struct Windows {
  int m, n, taps;
  bool several;
  int64_t shared;
  pf_conv_windows q;
};
// Several taps of runs of 64 channels, in two dimensions, whose lines fit into shared memory.
bool choose_windows(const Traits& t, const Product& p, const pf_conv& conv, int inverse,
                    Windows* w) {
  constexpr int64_t kLine = 128, kChannels = 64;
  const int64_t taps = conv.taps[1] * conv.taps[2], channels = conv.channels,
                runs = ceil_div(channels, kChannels);
  w->n = p.n > 64 ? 128 : 64;
  if (t.architecture != "sm_90" || itemsize(p.dtype) != 2 || inverse == 2 || conv.size[0] != 1 ||
      conv.pixels[0] != 1 || conv.taps[0] != 1 || taps < 3 || 4 * channels < 3 * runs * kChannels ||
      blocks(p, 256, w->n) < t.compute_units)
    return false;
  // Of the gradient of the input the taps are seen backwards.
  int64_t padding[2], stride[2], reach[2];
  for (int d = 0; d < 2; ++d) {
    reach[d] = (conv.taps[d + 1] - 1) * conv.dilation[d + 1];
    padding[d] = inverse ? reach[d] - conv.padding[d + 1] : conv.padding[d + 1];
    stride[d] = inverse ? 1 : conv.stride[d + 1];
    if (padding[d] < 0) return false;
  }
  // Lines are as many as lets the windows of a later pixel see no earlier ones.
  const int64_t wide = conv.pixels[2], high = conv.pixels[1], images = p.m / (wide * high),
                pitch = std::max<int64_t>(conv.size[2] + padding[1],
                                          ceil_div(wide * stride[1], stride[0])),
                lines = std::max<int64_t>(conv.size[1] + padding[0], high * stride[0]);
  if (double(images) * double(lines) * double(pitch) > 0x1p30) return false;
  // Where there is room, a block makes several tiles, the next one's lines come meanwhile, and the
  // weights of half of 3 x 3 taps are one stage.
  w->several = w->n == 64 && taps > 5;
  w->taps = w->n == 64 ? 5 : 3;
  int64_t least = 0;  // rows of the tiles that a compute unit makes one after the other
  for (const int m : {256, 192, 128}) {
    const int64_t rows = std::min(ceil_div(m - 1, wide), p.m / wide),
                  ends = std::min(ceil_div(m - 1, wide * high), images - 1),
                  seen = (m - 1) * stride[1] + rows * (stride[0] * pitch - wide * stride[1]) +
                         ends * (lines - high * stride[0]) * pitch + reach[0] * pitch + reach[1] +
                         1;
    const int64_t room = ceil_div(seen, 8) * 8, rooms = w->several || runs > 1 ? 2 : 1,
                  operands = (rooms * room + 2 * w->taps * w->n) * kLine,
                  results = int64_t{2} * m * w->n, places = room * 4 * (w->several ? 2 : 1),
                  shared = w->several ? operands + results + places
                                      : std::max(operands + places, results);
    const int64_t cost = ceil_div(blocks(p, m, w->n), t.compute_units) * (m + 16);
    if (shared > static_cast<int64_t>(t.max_shared) || (least != 0 && cost >= least)) continue;
    least = cost;
    w->m = m;
    w->shared = shared;
    w->q.room = static_cast<pf_i32>(room);
    w->q.rooms = static_cast<pf_i32>(rooms);
    w->q.results = static_cast<pf_i32>(w->several ? operands : 0);
    w->q.places = static_cast<pf_i32>(operands + (w->several ? results : 0));
  }
  if (least == 0) return false;
  pf_conv_windows& q = w->q;
  static_cast<pf_matmul_args&>(q) = arguments(p, w->m, w->n);
  q.conv = conv;
  q.pitch = static_cast<pf_u32>(pitch), q.high = static_cast<pf_u32>(lines);
  q.top = static_cast<pf_u32>(padding[0]), q.left = static_cast<pf_u32>(padding[1]);
  q.images = static_cast<pf_u32>(images);
  return true;
}
bool by_windows(const KernelArgs& args, const Product& p, const pf_conv& conv, int inverse) {
  Windows w{};
  if (!choose_windows(args.traits(), p, conv, inverse, &w)) return false;
  const Defines options = Defines()
                              .type("PF_T", p.dtype)
                              .value("TILE_M", w.m)
                              .value("TILE_N", w.n)
                              .value("TILE_K", 64)
                              .value("WARP_M", 16)
                              .value("WARP_N", w.n)
                              .value("STAGES", 2)
                              .value("TAPS", w.taps)
                              .value("PF_SEVERAL", w.several)
                              .value("PF_MATRIX_UNIT", 2)
                              .value("A_ALONG_K", 1)
                              .value("B_ALONG_K", 1)
                              .value("PF_GATHERED", 4)
                              .value("PF_INVERSE", inverse);
  const int64_t all = blocks(p, w.m, w.n);
  args.launch(args.join("matmul_tiles.h", options, "pf_matmul_tiles", {-1, p.m, p.n, together(p)}),
              Grid(w.several ? std::min<int64_t>(all, args.traits().compute_units) : all), w.m * 2,
              static_cast<size_t>(w.shared), w.q);
  return true;
}

bool on_units(const KernelArgs& args, const Product& p, int tile, const Gathered* gathered,
              bool& tf32) {
  const Traits& t = args.traits();
  const int item = static_cast<int>(itemsize(p.dtype));
  if (!units_take(t, p.dtype, p.tf32, &tf32) || p.k == 0) return false;
  // Few tiles leave most units idle: smaller ones, of ordinary arithmetic, find more.
  if (t.amd && p.dtype == DType::Float32 && tile < 0 && blocks(p, 64, 64) < t.compute_units / 8)
    return false;
  bool a_fits = true, b_fits = true;
  for (int d = 0; d < p.ndim; ++d) {
    a_fits = a_fits && p.batch[d].a * item % 16 == 0;
    b_fits = b_fits && p.batch[d].b * item % 16 == 0;
  }
  const int operand = gathered ? gathered->operand : 0;
  const int a = operand == 1 ? 1 : along_k(p.a, p.a_row, p.a_col, item, a_fits),
            b = operand >= 2 ? operand - 2 : along_k(p.b, p.b_col, p.b_row, item, b_fits);
  if (a < 0 || b < 0 || reinterpret_cast<uintptr_t>(p.c) % 16 != 0) return false;
  if (!gathered && product_by_maps(args, p, tile, a != 0, b != 0, tf32)) return true;
  if (tile == kAsideTile) return false;
  Tiling s;
  if (gathered ? !choose_gathered(t, p, operand, &s) : !choose(t, p, !a || !b, tile, &s))
    return false;
  Defines options = Defines()
                        .type("PF_T", p.dtype)
                        .value("TILE_M", s.m)
                        .value("TILE_N", s.n)
                        .value("TILE_K", s.line / item)
                        .value("WARP_M", s.warp_m)
                        .value("WARP_N", s.warp_n)
                        .value("STAGES", s.stages)
                        .value("PF_MATRIX_UNIT", t.amd     ? matrix_unit(t)
                                                 : s.wgmma ? 2
                                                           : 1)
                        .value("A_ALONG_K", a)
                        .value("B_ALONG_K", b);
  if (tf32) options = std::move(options).value("PF_TF32", 1);
  if (p.out != p.dtype) options = std::move(options).type("PF_OUT", p.out);
  options = with_cdna(options, t);
  const int out_item = static_cast<int>(itemsize(p.out));
  if (gathered) {
    options =
        std::move(options).value("PF_GATHERED", operand).value("PF_INVERSE", gathered->inverse);
    const pf_conv& conv = gathered->conv;
    const bool many = conv.taps[0] * conv.taps[1] * conv.taps[2] > 32;
    if (many) options = std::move(options).value("PF_MANY_TAPS", 1);
    pf_conv_product q{arguments(p, s.m, s.n), conv};
    // Lines of two tiles of k, or of one operand and the taps.
    const int64_t line = many ? 16 : 8, table = operand == 2
                                                    ? 2 * line * s.line / item
                                                    : line * (operand == 1 ? s.m : s.n) + 64 * 4;
    const int64_t shared = std::max(s.shared(out_item), s.shared(4) + table);
    // Shares of a sum are no results yet.
    args.launch(operand == 2 ? Joined{args.compile("matmul_tiles.h", options, "pf_matmul_tiles")}
                             : args.join("matmul_tiles.h", options, "pf_matmul_tiles",
                                         {-1, p.batches() * p.m, p.n, together(p)}),
                Grid(blocks(p, s.m, s.n)), s.threads(t.warp), size_t(shared), q);
    return true;
  }
  args.launch(args.join("matmul_tiles.h", options, "pf_matmul_tiles",
                        {-1, p.batches() * p.m, p.n, together(p)}),
              Grid(blocks(p, s.m, s.n)), s.threads(t.warp), size_t(s.shared(out_item)),
              arguments(p, s.m, s.n));
  return true;
}
bool tiles(const KernelArgs& args, const Product& p, int tile, const Gathered* gathered = nullptr) {
  bool tf32 = false;
  if (!on_units(args, p, tile, gathered, tf32)) return false;
  note_ours(args, p.dtype, tf32);
  return true;
}

}  // namespace

pf_matmul_args arguments(const Product& p, int tile_m, int tile_n) {
  pf_matmul_args q{};
  q.a = p.a, q.b = p.b, q.bias = p.bias, q.c = p.c;
  q.m = p.m, q.n = p.n, q.k = p.k;
  q.a_row = p.a_row, q.a_col = p.a_col, q.b_row = p.b_row, q.b_col = p.b_col;
  q.tiles_m = ceil_div(p.m, tile_m);
  q.tiles_n = ceil_div(p.n, tile_n);
  q.ndim = p.ndim;
  for (int d = 0; d < p.ndim; ++d) {
    q.size[d] = p.batch[d].size;
    q.a_step[d] = p.batch[d].a;
    q.b_step[d] = p.batch[d].b;
  }
  return q;
}

int matrix_unit(const Traits& t) {
  const std::string& a = t.architecture;
  if (!t.amd) return a.rfind("sm_", 0) == 0 && std::stoi(a.substr(3)) >= 80;
  if (a == "gfx90a" || a == "gfx942" || a == "gfx950") return 1;
  return a.rfind("gfx11", 0) == 0 ? 2 : a.rfind("gfx12", 0) == 0 ? 3 : 0;
}

Defines with_cdna(Defines options, const Traits& t) {
  const int cdna = t.architecture == "gfx90a" ? 2 : t.architecture == "gfx950" ? 4 : 3;
  return cdna == 3 ? options : std::move(options).value("PF_CDNA", cdna);
}

int small_product_tile(const Traits& t, const Product& p) {
  return blocks(p, 32, 32) < t.compute_units && p.k > 16 ? kSharedTile : kSmallTile;
}

bool gathered_product_fits(const Traits& t, DType dtype, bool tf32) {
  return units_take(t, dtype, tf32, &tf32);
}
bool gathered_product(const KernelArgs& args, const Product& p, const pf_conv& conv, int operand,
                      int inverse) {
  if (operand == 1) {
    bool tf32 = false;
    if (p.n > 64 && units_take(args.traits(), p.dtype, p.tf32, &tf32) &&
        windows_by_maps(args, p, conv, inverse, tf32)) {
      note_ours(args, p.dtype, tf32);
      return true;
    }
    if (by_windows(args, p, conv, inverse)) return true;
  }
  const Gathered gathered{conv, operand, inverse};
  return tiles(args, p, -1, &gathered);
}

bool product_and_after(const KernelArgs& args, const Product& p) {
  constexpr int64_t kWide = 192;
  // Where somebody else reads the product, too, one pass through memory is saved, which is as long
  // as our product takes longer than a library's.
  return args.around && args.around->after.program && !args.around->after.keep &&
         itemsize(p.dtype) == 2 && itemsize(p.out) == 2 && p.n % 8 == 0 &&
         reinterpret_cast<uintptr_t>(p.bias) % 4 == 0 &&
         blocks(p, 128, kWide) >= args.traits().compute_units &&
         8 * kWide * ceil_div(p.n, kWide) <= 9 * p.n && tiles(args, p, kAsideTile);
}

bool own_product(const KernelArgs& args, const Product& p, int tile) {
  if (tile >= kOwnTiles) return false;
  if (tile < 3 && tiles(args, p, tile)) return true;
  if (tile >= 0 && tile < 3) return false;
  if (!arithmetic_product(args, p, tile)) return false;
  note_ours(args, p.dtype, false);
  return true;
}

bool arithmetic_product(const KernelArgs& args, const Product& p, int tile, const pf_u32* range) {
  struct Shape {
    int m, n, k, reg_m, reg_n;
  };
  // By number of the tile, from 3.
  static constexpr Shape kShapes[] = {
      {128, 128, 8, 8, 8}, {64, 64, 16, 4, 4}, {32, 32, 32, 2, 2}, {16, 16, 16, 2, 2}};
  // What fits into registers without spilling: 64-bit and integer sums do not in the large one,
  // nor does anything where the compiler aims at 128 registers.
  const Traits& t = args.traits();
  const bool whole = t.amd && !is_float(p.dtype);
  const bool large = !t.amd && is_float(p.dtype) && itemsize(p.dtype) <= 4;
  if ((tile == 3 && !large) || (tile == 4 && whole)) return false;
  // So few tiles that most compute units would wait: small ones, and the threads share k.
  if (tile < 0)
    tile = small_product_tile(t, p) == kSharedTile           ? kSharedTile
           : large && blocks(p, 128, 128) >= t.compute_units ? 3
           : !whole && blocks(p, 64, 64) >= t.compute_units  ? 4
                                                             : kSmallTile;
  const Shape& s = kShapes[tile - 3];
  const int most = tile != kSharedTile ? 1 : is_wide(p.dtype) ? 8 : 16;
  const auto parts = static_cast<int>(std::clamp<int64_t>(ceil_div(p.k, s.k), 1, most));
  Defines options = Defines()
                        .type("PF_T", p.dtype)
                        .value("TILE_M", s.m)
                        .value("TILE_N", s.n)
                        .value("TILE_K", s.k)
                        .value("REG_M", s.reg_m)
                        .value("REG_N", s.reg_n)
                        .value("PARTS", most);
  if (p.out != p.dtype) options = std::move(options).type("PF_OUT", p.out);
  if (range) options = std::move(options).value("PF_UNLESS_PARTS", 1);
  const Joined f = args.join("matmul.h", options, "pf_matmul", {-1, p.batches() * p.m, p.n, 1});
  const Grid grid(blocks(p, s.m, s.n));
  const int threads = s.m / s.reg_m * (s.n / s.reg_n) * parts;
  if (range)
    args.launch(f, grid, threads, 0, arguments(p, s.m, s.n), pf_i32{0}, range);
  else
    args.launch(f, grid, threads, 0, arguments(p, s.m, s.n), pf_i32{p.steady});
  return true;
}

}  // namespace pyflame::gpu
