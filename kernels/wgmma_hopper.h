// Hopper's wgmma on 16-bit matrices, asynchronously: four warps multiply 64 rows, 16 a warp, by N
// columns; sums lie as mma.sync's do, in strips (strips.h). One operand may be a strip's weights.
// Between pf_products_begin() and pf_products_end() of tma_nvidia.h; the host acts it out.
//
// Tiles lie in shared memory in panels of 64 columns: lines of 128 bytes, their chunks permuted by
// the line's number, as copies by tensor maps leave them. What is multiplied across may have panels
// of 32 or 16 columns.
#ifndef PF_WGMMA_HOPPER_H
#define PF_WGMMA_HOPPER_H
#include "registers_hopper.h"
#include "strips.h"
#include "tma_nvidia.h"

// A tile: its first line, and the distance of its panels.
struct pf_panels {
  pf_shared_at at;
  pf_u32 panel;
};

#if defined(PF_NVIDIA)
// What tells the unit where an operand lies, in units of 16 bytes: groups of 8 lines lie one behind
// the other, chunks permuted within lines of LINE bytes. The lower half is for the address, and
// what is added to it, and the panel; it comes from one lane, so that compilers know that it is the
// same for all: else they keep it in a register of each lane and make every operand's from there.
PF_DEVICE pf_u32 pf_panel_of(pf_u32 address) {
  return pf_shuffle_word(address >> 4, 0);
}
template <int LINE = 128>
PF_DEVICE pf_u64 pf_panel_at(pf_u32 of, pf_u32 bytes, pf_u32 panel = 0) {
  return static_cast<pf_u64>(of + (bytes >> 4 | panel >> 4 << 16)) |
         static_cast<pf_u64>(8 * LINE >> 4) << 32 |
         static_cast<pf_u64>(LINE == 128  ? 1
                             : LINE == 64 ? 2
                                          : 3)
             << 62;
}

// c (+)= a b: both operands in shared memory, a along k and b along (pf_wgmma) or across it; or a
// in registers and b across k.
#define PF_WGMMA_PANELS(NAME, ACROSS, T, TYPE, N, NUMBERS, A, B, ADD, ...)                    \
  PF_DEVICE void NAME(T, float(&c)[N / 8][4], pf_u64 a, pf_u64 b, int add) {                  \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADD                                      \
                 ", 0;\n"                                                                     \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" NUMBERS \
                 "}, " A ", " B ", p, 1, 1, 0, " ACROSS ";\n}"                                \
                 : __VA_ARGS__                                                                \
                 : "l"(a), "l"(b), "r"(add));                                                 \
  }
#define PF_WGMMA_WEIGHTS(T, TYPE, N, NUMBERS, A, B, ...)                                      \
  PF_DEVICE void pf_wgmma(T, float(&c)[N / 8][4], const pf_u32(&a)[4], pf_u64 b) {            \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" NUMBERS \
                 "}, {" A "}, " B ", 1, 1, 1, 1;"                                             \
                 : __VA_ARGS__                                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                       \
  }
#define PF_WGMMA_OF(T, TYPE)                                                                       \
  PF_WGMMA_PANELS(pf_wgmma, "0", T, TYPE, 64, PF_NUMBERS_32, "%32", "%33", "%34",                  \
                  PF_SUMS_8(PF_FLOATS, 0))                                                         \
  PF_WGMMA_PANELS(pf_wgmma, "0", T, TYPE, 128, PF_NUMBERS_64, "%64", "%65", "%66",                 \
                  PF_SUMS_8(PF_FLOATS, 0), PF_SUMS_8(PF_FLOATS, 8))                                \
  PF_WGMMA_PANELS(pf_wgmma_across, "1", T, TYPE, 64, PF_NUMBERS_32, "%32", "%33", "%34",           \
                  PF_SUMS_8(PF_FLOATS, 0))                                                         \
  PF_WGMMA_PANELS(pf_wgmma_across, "1", T, TYPE, 128, PF_NUMBERS_64, "%64", "%65", "%66",          \
                  PF_SUMS_8(PF_FLOATS, 0), PF_SUMS_8(PF_FLOATS, 8))                                \
  PF_WGMMA_PANELS(pf_wgmma_across, "1", T, TYPE, 256, PF_NUMBERS_128, "%128", "%129", "%130",      \
                  PF_SUMS_8(PF_FLOATS, 0), PF_SUMS_8(PF_FLOATS, 8), PF_SUMS_8(PF_FLOATS, 16),      \
                  PF_SUMS_8(PF_FLOATS, 24))                                                        \
  PF_WGMMA_WEIGHTS(T, TYPE, 64, PF_NUMBERS_32, "%32,%33,%34,%35", "%36", PF_SUMS_8(PF_FLOATS, 0))  \
                                                                                                   \
  PF_WGMMA_WEIGHTS(T, TYPE, 128, PF_NUMBERS_64, "%64,%65,%66,%67", "%68", PF_SUMS_8(PF_FLOATS, 0), \
                   PF_SUMS_8(PF_FLOATS, 8))
PF_WGMMA_OF(pf_bf16, "bf16")
PF_WGMMA_OF(pf_f16, "f16")

// s = x y^T over DEPTH columns: x 64 lines, y N lines.
template <int DEPTH, int N>
PF_DEVICE void pf_start_products(pf_strip<16, N>& s, const pf_panels& x, const pf_panels& y) {
  const pf_u32 a = pf_panel_of(x.at), b = pf_panel_of(y.at);
  PF_UNROLL for (int k = 0; k < DEPTH / 16; ++k)
      pf_wgmma(PF_T{}, s.c[0], pf_panel_at(a, k / 4 * x.panel + k % 4 * 32),
               pf_panel_at(b, k / 4 * y.panel + k % 4 * 32), k > 0);
}
// r += w z: z has K lines.
template <int LINE = 128, int K, int D>
PF_DEVICE void pf_start_results(pf_strip<16, D>& r, const pf_weights<16, K>& w,
                                const pf_panels& z) {
  const pf_u32 b = pf_panel_of(z.at);
  PF_UNROLL for (int k = 0; k < K / 16; ++k)
      pf_wgmma(PF_T{}, r.c[0], w.w[0][k], pf_panel_at<LINE>(b, k * 16 * LINE, z.panel));
}
// r (+)= x z over 64 of k: x has 64 lines along it, z lies across it.
template <int LINE, int D>
PF_DEVICE void pf_start_sums(pf_strip<16, D>& r, const pf_panels& x, const pf_panels& z, int add) {
  const pf_u32 a = pf_panel_of(x.at), b = pf_panel_of(z.at);
  PF_UNROLL for (int k = 0; k < 4; ++k)
      pf_wgmma_across(PF_T{}, r.c[0], pf_panel_at(a, k * 32),
                      pf_panel_at<LINE>(b, k * 16 * LINE, z.panel), k > 0 || add);
}
// The compiler is not to move what is done to these across here: the unit works on them.
template <int N>
PF_DEVICE void pf_hold(pf_strip<16, N>& s) {
  PF_UNROLL for (int j = 0; j < N / 8; ++j)
      PF_UNROLL for (int v = 0; v < 4; ++v) asm volatile("" : "+f"(s.c[0][j][v])::"memory");
}
template <int K>
PF_DEVICE void pf_hold(pf_weights<16, K>& w) {
  PF_UNROLL for (int k = 0; k < K / 16; ++k)
      PF_UNROLL for (int v = 0; v < 4; ++v) asm volatile("" : "+r"(w.w[0][k][v])::"memory");
}

#elif defined(PF_HOST)
template <int LINE = 128>
PF_DEVICE float pf_panel_value(const pf_panels& t, int r, int c) {
  constexpr int cols = LINE / 2, chunks = LINE / 16;
  pf_u32 w;
  pf_load_words<2, false>(
      t.at + c / cols * t.panel + pf_chunk_at<chunks>(r, c % cols / 8) + c % 8 * 2, &w);
  return pf_acted_value<PF_T>(&w, 0);
}
// Their 16 rows of a tile's 64 begin here.
PF_DEVICE int pf_rows_of_warp() {
  return static_cast<int>(pf_thread()) / PF_WARP % 4 * 16;
}
template <int DEPTH, int N>
PF_DEVICE void pf_start_products(pf_strip<16, N>& s, const pf_panels& x, const pf_panels& y) {
  const int lane = static_cast<int>(pf_lane()), first = pf_rows_of_warp();
  s.clear();
  s.each(lane, [&](int r, int col, float& sum) PF_INLINE {
    for (int k = 0; k < DEPTH; ++k)
      pf_acted_add(sum, pf_panel_value(x, first + s.row(r, lane), k), pf_panel_value(y, col, k));
  });
}
template <int LINE = 128, int K, int D>
PF_DEVICE void pf_start_results(pf_strip<16, D>& r, const pf_weights<16, K>& w,
                                const pf_panels& z) {
  const int lane = static_cast<int>(pf_lane());
  for (int k = 0; k < K; ++k) {
    // Row lane / 4 (+ 8 in odd words) of columns of the quad's lanes, 8 further in words 2, 3.
    const pf_u32 from = static_cast<pf_u32>(lane / 4 * 4 + k % 8 / 2);
    float x[2];
    for (int h = 0; h < 2; ++h) {
      const pf_u32 word = pf_shuffle_word(w.w[0][k / 16][h + k % 16 / 8 * 2], from);
      x[h] = pf_acted_value<PF_T>(&word, k % 2);
    }
    r.each(lane, [&](int row, int col, float& sum)
                     PF_INLINE { pf_acted_add(sum, x[row], pf_panel_value<LINE>(z, k, col)); });
  }
}
template <int LINE, int D>
PF_DEVICE void pf_start_sums(pf_strip<16, D>& r, const pf_panels& x, const pf_panels& z, int add) {
  const int lane = static_cast<int>(pf_lane()), first = pf_rows_of_warp();
  if (!add) r.clear();
  r.each(lane, [&](int row, int col, float& sum) PF_INLINE {
    for (int k = 0; k < 64; ++k)
      pf_acted_add(sum, pf_panel_value(x, first + r.row(row, lane), k),
                   pf_panel_value<LINE>(z, k, col));
  });
}
template <int N>
PF_DEVICE void pf_hold(pf_strip<16, N>&) {}
template <int K>
PF_DEVICE void pf_hold(pf_weights<16, K>&) {}
#endif

#endif
