// Products of eight-bit floats, and what makes their operands (table/kernels/float8.h). Products
// are the vendor's library's where the device has them, or kernels/matmul_hopper.h's; elsewhere
// both operands are converted to bfloat16, which holds every value of the two dtypes.
//   -DPF_T=  dtype of results and bias (finish), or of what is converted
//   -DPF_TO=  float8 dtype;  -DWHOLE  lines of 16 elements everywhere
#include "kernels/integers.h"

struct pf_scaled_finish {
  const float* c;
  void* out;
  const float *scale_a, *scale_b;  // or both null
  const void* bias;                // or null
  pf_i64 rows, cols;
  pf_i32 by_row;
};
struct pf_to_float8 {
  const void* x;
  pf_u32* parts;       // bits of the largest magnitudes of shares of x
  void *out, *turned;  // the latter or null
  float* inverse;
  pf_i64 rows, cols, tiles;  // tiles: of a line of them
  pf_i32 count;              // of parts, 256 at most
};
static_assert(sizeof(pf_scaled_finish) == 64 && sizeof(pf_to_float8) == 72, "as hosts fill it");

#ifdef PF_DEVICE_TEXT
#include "kernels/space.h"
#include "kernels/stored.h"
#include "kernels/vector.h"

#ifndef PF_TO
// Sums of a product to its results. c and out may be one.
PF_KERNEL(pf_scaled_finish, 256)(const pf_scaled_finish q) {
  const pf_u64 all = static_cast<pf_u64>(q.rows) * static_cast<pf_u64>(q.cols);
  for (pf_u64 e = pf_first_item(); e < all; e += pf_item_step()) {
    const pf_index row = static_cast<pf_index>(e) / static_cast<pf_index>(q.cols),
                   col = static_cast<pf_index>(e) - row * static_cast<pf_index>(q.cols);
    float v = q.c[e];
    if (q.scale_a) v = v * q.scale_a[q.by_row ? row : 0] * q.scale_b[q.by_row ? col : 0];
    if (q.bias) v = v + static_cast<float>(pf_get<PF_T>(q.bias, static_cast<pf_i64>(col)));
    pf_put<PF_T>(q.out, static_cast<pf_i64>(e), v);
  }
}
#else
template <int M, int BIAS>
PF_DEVICE constexpr int pf_mantissa(pf_f8<M, BIAS>) {
  return M;
}
// A finite number stays one; infinity becomes NaN where there is none.
PF_DEVICE pf_u32 pf_scaled_bits(float x, float scale) {
  constexpr bool has_infinity = pf_mantissa(PF_TO{}) == 2;
  constexpr float most = has_infinity ? 57344.0f : 448.0f;
  const pf_u32 sign = pf_bits<pf_u32>(x) >> 24 & 0x80u, a = pf_bits<pf_u32>(x) & 0x7fffffffu;
  const float v = x * scale, kept = v > most ? most : v < -most ? -most : v;
  pf_u32 code;
#ifdef PF_F8_UNIT
  code = has_infinity ? pf_e5m2_bits_of(kept) : pf_e4m3_bits_of(kept);
#else
  PF_TO r;
  pf_f8_set(r, kept);
  code = r.bits;
#endif
  if (a >= 0x7f800000u) code = sign | (has_infinity && a == 0x7f800000u ? 0x7cu : 0x7fu);
  return code;
}

PF_DEVICE pf_u32 pf_larger(pf_u32 a, pf_u32 b) {
  return a > b ? a : b;
}
PF_DEVICE pf_u32 pf_largest_of_warp(pf_u32 v) {
  PF_UNROLL for (pf_u32 by = PF_WARP / 2; by > 0; by /= 2) v = pf_larger(v, pf_shuffle_xor(v, by));
  return v;
}

enum { SHARES = 512, LINES = 4 };

// The largest magnitude of a share of x, by bits: NaN is larger than infinity.
PF_KERNEL(pf_largest, SHARES)(const pf_to_float8 q) {
  PF_SHARED pf_u32 warps[SHARES / PF_WARP];
  const pf_u64 n = static_cast<pf_u64>(q.rows) * static_cast<pf_u64>(q.cols);
  pf_u32 most = 0;
#ifdef WHOLE
  constexpr int per = 16 / sizeof(PF_T);
  const pf_u64 lines = n / per, step = pf_item_step();
  const auto take = [&](const pf_u32(&w)[4]) PF_INLINE {
    PF_UNROLL for (int i = 0; i < 4; ++i) {
      if constexpr (sizeof(PF_T) == 4)
        most = pf_larger(most, w[i] & 0x7fffffffu);
      else
        most = pf_larger(most, pf_larger(w[i] & 0x7fffu, w[i] >> 16 & 0x7fffu));
    }
  };
  const char* x = static_cast<const char*>(q.x);
  pf_u64 line = pf_first_item();
  for (; line + (LINES - 1) * step < lines; line += LINES * step) {
    pf_u32 w[LINES][4];
    PF_UNROLL for (int l = 0; l < LINES; ++l)
        pf_load_words<16, false>(x + (line + static_cast<pf_u64>(l) * step) * 16, w[l]);
    PF_UNROLL for (int l = 0; l < LINES; ++l) take(w[l]);
  }
  for (; line < lines; line += step) {
    pf_u32 w[4];
    pf_load_words<16, false>(x + line * 16, w);
    take(w);
  }
  most = pf_bits<pf_u32>(static_cast<float>(pf_dtype<PF_T>::decode(most)));
#else
  for (pf_u64 e = pf_first_item(); e < n; e += pf_item_step()) {
    const float v = static_cast<float>(pf_get<PF_T>(q.x, static_cast<pf_i64>(e)));
    most = pf_larger(most, pf_bits<pf_u32>(v) & 0x7fffffffu);
  }
#endif
  most = pf_largest_of_warp(most);
  if (pf_lane() == 0) warps[pf_thread() / PF_WARP] = most;
  pf_barrier();
  if (pf_thread() != 0) return;
  for (int w = 1; w < SHARES / PF_WARP; ++w) most = pf_larger(most, warps[w]);
  q.parts[pf_block()] = most;
}

enum { TILE = 64, EACH = 16 };

// A block takes a tile of 64 x 64, a thread 16 elements of one of its rows, and then of its
// columns.
PF_KERNEL(pf_to_float8, 256)(const pf_to_float8 q) {
  constexpr float most = pf_mantissa(PF_TO{}) == 2 ? 57344.0f : 448.0f;
  PF_SHARED pf_u32 warps[256 / PF_WARP];
  const int thread = static_cast<int>(pf_thread()), line = thread / 4, at = thread % 4 * EACH;
  const pf_u32 mine = pf_largest_of_warp(thread < q.count ? q.parts[thread] : 0u);
  if (pf_lane() == 0) warps[thread / PF_WARP] = mine;
  pf_barrier();
  pf_u32 all = warps[0];
  PF_UNROLL for (int w = 1; w < 256 / PF_WARP; ++w) all = pf_larger(all, warps[w]);
  const float amax = pf_bits<float>(all);
  // No larger than what has a reciprocal.
  float scale = most / amax;
  if (!(amax > 0.0f) || pf_bits<pf_u32>(amax) >= 0x7f800000u) scale = 1.0f;
  if (scale > 0x1p126f) scale = 0x1p126f;
  if (pf_block() == 0 && pf_thread() == 0) *q.inverse = 1.0f / scale;

  PF_SHARED pf_u32 tile[TILE * (TILE / 4 + 1)];
  const pf_index block = static_cast<pf_index>(pf_block()),
                 tile_row = block / static_cast<pf_index>(q.tiles),
                 tile_col = block - tile_row * static_cast<pf_index>(q.tiles);
  const pf_i64 row0 = static_cast<pf_i64>(tile_row) * TILE,
               col0 = static_cast<pf_i64>(tile_col) * TILE;
  const pf_i64 row = row0 + line, col = col0 + at;
  pf_u32 words[EACH / 4];
  PF_UNROLL for (int w = 0; w < EACH / 4; ++w) words[w] = 0;
#ifdef WHOLE
  if (row < q.rows && col < q.cols) {
    PF_UNROLL for (int half = 0; half < EACH / 8; ++half) {
      pf_vector<PF_T, 8> v;
      v.template load<false>(static_cast<const PF_T*>(q.x) + row * q.cols + col + half * 8);
      PF_UNROLL for (int i = 0; i < 8; ++i) words[half * 2 + i / 4] |=
          pf_scaled_bits(v.get(i), scale) << (8 * (i % 4));
    }
    pf_store_words<16, false>(static_cast<pf_u8*>(q.out) + row * q.cols + col, words);
  }
#else
  PF_UNROLL for (int i = 0; i < EACH; ++i) {
    if (row >= q.rows || col + i >= q.cols) continue;
    const float x = static_cast<float>(pf_get<PF_T>(q.x, row * q.cols + col + i));
    const pf_u32 code = pf_scaled_bits(x, scale);
    words[i / 4] |= code << (8 * (i % 4));
    static_cast<pf_u8*>(q.out)[row * q.cols + col + i] = static_cast<pf_u8>(code);
  }
#endif
  if (!q.turned) return;
  PF_UNROLL for (int w = 0; w < EACH / 4; ++w) tile[line * (TILE / 4 + 1) + at / 4 + w] = words[w];
  pf_barrier();
  const pf_i64 turned_row = col0 + line, turned_col = row0 + at;
  PF_UNROLL for (int w = 0; w < EACH / 4; ++w) words[w] = 0;
  PF_UNROLL for (int i = 0; i < EACH; ++i) {
    const pf_u32 word = tile[(at + i) * (TILE / 4 + 1) + line / 4];
    words[i / 4] |= (word >> (8 * (line % 4)) & 0xffu) << (8 * (i % 4));
  }
  pf_u8* to = static_cast<pf_u8*>(q.turned) + turned_row * q.rows + turned_col;
#ifdef WHOLE
  if (turned_row < q.cols && turned_col < q.rows) pf_store_words<16, false>(to, words);
#else
  PF_UNROLL for (int i = 0; i < EACH; ++i) if (turned_row < q.cols && turned_col + i < q.rows)
      to[i] = static_cast<pf_u8>(words[i / 4] >> (8 * (i % 4)));
#endif
}
#endif

#else  // launchers
#include <algorithm>
#include <string>

#include "engine/trace.h"
#include "gpu/device_text.h"
#include "gpu/move.h"
#include "gpu/product_own.h"
#include "table/kernels/float8.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int64_t kSmallest = int64_t{1} << 31;  // elements that 32 bits count

void finish(const KernelArgs& a, const Product& p, const void* sums, bool scaled,
            const void* bias) {
  pf_scaled_finish q{};
  q.c = static_cast<const float*>(sums);
  q.out = p.c;
  q.scale_a = scaled ? static_cast<const float*>(p.scaling.of_a) : nullptr;
  q.scale_b = scaled ? static_cast<const float*>(p.scaling.of_b) : nullptr;
  q.bias = bias;
  q.rows = p.m, q.cols = p.n;
  q.by_row = p.scaling.by_row;
  const Function f = a.compile(
      "kernels_float8.cpp",
      Defines().type("PF_T", p.out).text("PF_INDEX", p.m * p.n < kSmallest ? "pf_u32" : "pf_u64"),
      "pf_scaled_finish");
  a.launch(f, blocks_for(p.m * p.n, 256, 1 << 16), 256, 0, q);
}

// The operand as another dtype, with k as dimension `along` and so far from line to line.
void* copied(const KernelArgs& a, const pf_tensor& t, int along, DType dtype, int64_t line) {
  void* to = a.workspace(static_cast<size_t>(t.shape[1 - along] * line) * itemsize(dtype));
  pf_tensor w = t;
  w.data = to;
  w.dtype = static_cast<uint8_t>(dtype);
  w.strides[along] = 1;
  w.strides[1 - along] = line;
  copy_tensor(a, w, t);
  return to;
}

// By Hopper's units, which read operands at multiples of 16 bytes: others are copied there.
bool own_scaled_product(const KernelArgs& args, Product p, const pf_tensor& a, const pf_tensor& b) {
  if (!maps_usable(args.traits(), p)) return false;
  const int64_t line = ceil_div(p.k, 16) * 16;
  const auto fits = [](const void* at, int64_t stride) {
    return (reinterpret_cast<uintptr_t>(at) | static_cast<uintptr_t>(stride)) % 16 == 0;
  };
  if (!fits(p.a, p.a_row)) p.a = copied(args, a, 1, p.dtype, line), p.a_row = line;
  if (!fits(p.b, p.b_col)) p.b = copied(args, b, 0, p.scaling.b, line), p.b_col = line;
  return product_by_maps(args, p, -1, true, true, false);
}

void scaled_matmul(const KernelArgs& args) {
  constexpr auto at = tensors<ScaledMatmul>;
  constexpr auto number = numbers<ScaledMatmul>;
  const pf_tensor &out = args.tensor(at.out), &a = args.tensor(at.a), &b = args.tensor(at.b);
  Product p{};
  p.m = out.shape[0], p.n = out.shape[1], p.k = a.shape[1];
  p.dtype = args.dtype(at.a);
  p.out = args.dtype(at.out);
  p.a = a.data, p.b = b.data, p.c = out.data;
  const int64_t whole = ceil_div(p.k, 16) * 16;  // of one row, any will do
  p.a_row = p.m == 1 ? whole : a.strides[0], p.a_col = 1;
  p.b_row = 1, p.b_col = p.n == 1 ? whole : b.strides[1];
  p.scaling = {args.dtype(at.b), args.data(at.scale_a), args.data(at.scale_b),
               args.i(number.by_row) != 0, args.i(number.fast_sums) != 0};
  const void* bias = args.data(at.bias);
  const bool wide = p.out == DType::Float32;
  const auto room = [&] {
    return wide ? p.c : args.workspace(static_cast<size_t>(p.m * p.n) * sizeof(float));
  };
  const ProductSource from = product_source();
  const auto served = [&](const std::string& by) { engine::note_served(args.op, by.c_str()); };
  std::string why;
  if (from != ProductSource::Own) {
    // Libraries add no bias to float32 results, and old ones have no scales of rows.
    if (!wide) p.bias = bias;
    if (library_scaled_product(args, p, &why)) {
      served(product_library_version(args));
      if (wide && bias) finish(args, p, p.c, false, bias);
      return;
    }
    if (why.empty()) {
      Product sums = p;
      sums.bias = nullptr;
      sums.out = DType::Float32;
      sums.scaling.of_a = sums.scaling.of_b = nullptr;
      sums.scaling.by_row = false;
      sums.c = room();
      if (library_scaled_product(args, sums, &why)) {
        served(product_library_version(args));
        return finish(args, p, sums.c, true, bias);
      }
      why = std::string(product_library()) + " has no such product";
    }
  }
  Product own = p;
  own.bias = bias;
  if (own_scaled_product(args, own, a, b)) {
    served("our kernel for Hopper");
    if (from == ProductSource::Auto && !product_library_usable())
      note_own("_scaled_mm", std::string("products run by our own kernel: ") + product_library(),
               "PYFLAME_GPU_GEMM");
    return;
  }
  if (from == ProductSource::Auto)
    note_own("_scaled_mm", "operands are converted to bfloat16 and multiplied as such: " + why,
             "PYFLAME_GPU_GEMM");
  served("a product of bfloat16");
  Product q = p;
  q.scaling = {};
  q.bias = nullptr;
  q.dtype = DType::BFloat16;
  q.out = DType::Float32;
  q.a = copied(args, a, 1, q.dtype, p.k), q.a_row = p.k;
  q.b = copied(args, b, 0, q.dtype, p.k), q.b_col = p.k;
  q.c = room();
  multiply(args, q);
  finish(args, p, q.c, true, bias);
}

void to_float8(const KernelArgs& a) {
  constexpr auto at = tensors<ToFloat8>;
  const pf_tensor& x = a.tensor(at.x);
  pf_to_float8 q{};
  q.x = x.data;
  q.out = a.data(at.out);
  q.turned = a.has(at.turned) ? a.data(at.turned) : nullptr;
  q.inverse = static_cast<float*>(a.data(at.inverse));
  q.rows = x.shape[0], q.cols = x.shape[1];
  q.tiles = ceil_div(q.cols, 64);
  const bool whole = q.cols % 16 == 0 && (!q.turned || q.rows % 16 == 0) &&
                     (reinterpret_cast<uintptr_t>(q.x) | reinterpret_cast<uintptr_t>(q.out) |
                      reinterpret_cast<uintptr_t>(q.turned)) %
                             16 ==
                         0;
  Defines options = Defines()
                        .type("PF_T", a.dtype(at.x))
                        .text("PF_TO", device_stored(a.dtype(at.out)))
                        .text("PF_INDEX", "pf_u32");
  if (whole) options = std::move(options).value("WHOLE", 1);
  const int64_t bytes = q.rows * q.cols * static_cast<int64_t>(itemsize(a.dtype(at.x)));
  q.count = static_cast<pf_i32>(std::clamp<int64_t>(ceil_div(bytes, 512 * 16 * 4), 1, 256));
  q.parts = static_cast<pf_u32*>(a.workspace(static_cast<size_t>(q.count) * sizeof(pf_u32)));
  a.launch(a.compile("kernels_float8.cpp", options, "pf_largest"), Grid(q.count), 512, 0, q);
  a.launch(a.compile("kernels_float8.cpp", options, "pf_to_float8"),
           Grid(q.tiles * ceil_div(q.rows, 64)), 256, 0, q);
}

PF_GPU_KERNEL(ScaledMatmul::kInfo, scaled_matmul)
PF_GPU_KERNEL(ToFloat8::kInfo, to_float8)
PF_GPU_TOGETHER("kernels_float8.cpp", "pf_largest pf_to_float8")

}  // namespace
}  // namespace pyflame::gpu
#endif
