// Hopper's wgmma on tiles in shared memory: four warps multiply 64 rows by all columns of the tile,
// asynchronously; the sums lie as mma.sync's do, 16 rows a warp. Floats and eight bits only along
// k. For sm_90a; the host acts it out.
//   -DPF_OTHER=: the dtype of b, of products of eight-bit floats; -DPF_PARTS=3: as matmul_hopper.h
//   has it
#ifndef PF_SUMS_HOPPER_H
#define PF_SUMS_HOPPER_H
#include "registers_hopper.h"
#include "tiles_lines.h"

#ifndef PF_PARTS
#define PF_PARTS 1
#endif
#if PF_PARTS > 1
// Which parts of a and b are multiplied, the smallest products first: 0 is the highest part.
// The unit adds PF_SLICES of the four slices of a stage, and cuts what it adds: more would err
// more.
enum { PF_PRODUCTS = 6, PF_SLICES = 2, PF_SHARES = 4 / PF_SLICES };
PF_DEVICE int pf_part_of_a(int i) {
  return i == 0 ? 2 : i == 1 ? 0 : i == 2 || i == 3 ? 1 : 0;
}
PF_DEVICE int pf_part_of_b(int i) {
  return i == 0 ? 0 : i == 1 ? 2 : i == 2 || i == 4 ? 1 : 0;
}
#endif

static_assert(TILE_N == 64 || TILE_N == 128 || TILE_N == 192 || TILE_N == 256,
              "as the instructions below");
static_assert(SIZE == 2 || (A_ALONG_K && B_ALONG_K), "wgmma transposes 16-bit elements only");

struct pf_tile_sums {
  enum { NS = TILE_N / 8 };
  pf_acc c[NS][4];

  template <class F>
  PF_METHOD void each(int lane, F f) const {
    PF_UNROLL for (int j = 0; j < NS; ++j) {
      f(lane / 4, j * 8 + lane % 4 * 2, c[j][0], c[j][1]);
      f(lane / 4 + 8, j * 8 + lane % 4 * 2, c[j][2], c[j][3]);
    }
  }
  PF_METHOD void clear() {
    PF_UNROLL for (int j = 0; j < NS; ++j) {
      PF_UNROLL for (int v = 0; v < 4; ++v) c[j][v] = pf_acc(0);
    }
  }
  PF_METHOD void add(const pf_tile_sums& x) {
    PF_UNROLL for (int j = 0; j < NS; ++j) {
      PF_UNROLL for (int v = 0; v < 4; ++v) c[j][v] += x.c[j][v];
    }
  }
};

#if defined(PF_NVIDIA)
// What tells the unit where an operand lies (in units of 16 bytes): the address, the distance of
// strips (operands not along k), that of groups of 8 lines, and the permutation of 128 bytes.
PF_DEVICE pf_u64 pf_matrix_at(pf_u32 address) {
  return static_cast<pf_u64>((address & 0x3ffff) >> 4) |
         static_cast<pf_u64>(TILE_K * 128 >> 4) << 16 | static_cast<pf_u64>(1024 >> 4) << 32 |
         static_cast<pf_u64>(1) << 62;
}

#if TILE_N == 64
#define PF_WGMMA_ALL(R) PF_SUMS_8(R, 0)
#define PF_WGMMA_SHAPE "m64n64"
#define PF_WGMMA_TO PF_NUMBERS_32
#define PF_WGMMA_FROM "%32, %33, p"
#define PF_WGMMA_ROWS_FROM "{%32, %33, %34, %35}, %36"
#define PF_WGMMA_TURN "%34, %35"
#elif TILE_N == 128
#define PF_WGMMA_ALL(R) PF_SUMS_8(R, 0), PF_SUMS_8(R, 8)
#define PF_WGMMA_SHAPE "m64n128"
#define PF_WGMMA_TO PF_NUMBERS_64
#define PF_WGMMA_FROM "%64, %65, p"
#define PF_WGMMA_ROWS_FROM "{%64, %65, %66, %67}, %68"
#define PF_WGMMA_TURN "%66, %67"
#elif TILE_N == 192
#define PF_WGMMA_ALL(R) PF_SUMS_8(R, 0), PF_SUMS_8(R, 8), PF_SUMS_8(R, 16)
#define PF_WGMMA_SHAPE "m64n192"
#define PF_WGMMA_TO PF_NUMBERS_96
#define PF_WGMMA_FROM "%96, %97, p"
#define PF_WGMMA_ROWS_FROM "{%96, %97, %98, %99}, %100"
#define PF_WGMMA_TURN "%98, %99"
#else
#define PF_WGMMA_ALL(R) PF_SUMS_8(R, 0), PF_SUMS_8(R, 8), PF_SUMS_8(R, 16), PF_SUMS_8(R, 24)
#define PF_WGMMA_SHAPE "m64n256"
#define PF_WGMMA_TO PF_NUMBERS_128
#define PF_WGMMA_FROM "%128, %129, p"
#define PF_WGMMA_ROWS_FROM "{%128, %129, %130, %131}, %132"
#define PF_WGMMA_TURN "%130, %131"
#endif
// c (ADD "0": c is what it was not, "1":) += a b on 32 bytes of k. What is behind the operands:
// signs, and which are to be transposed.
#define PF_WGMMA(ADD, TYPES, R, MORE, ...)                                           \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADD                               \
               ", 0;\n"                                                              \
               "wgmma.mma_async.sync.aligned." PF_WGMMA_SHAPE TYPES " {" PF_WGMMA_TO \
               "}, " PF_WGMMA_FROM MORE ";\n}"                                       \
               : PF_WGMMA_ALL(R)                                                     \
               : "l"(a), "l"(b)__VA_ARGS__)
#ifdef PF_OTHER
// ADD: to what c is; 0: c becomes the product.
#define PF_WGMMA_FLOAT8(A, B, TYPES)                                            \
  template <int ADD>                                                            \
  PF_DEVICE void pf_wgmma(A, B, float(&c)[TILE_N / 8][4], pf_u64 a, pf_u64 b) { \
    if constexpr (ADD)                                                          \
      PF_WGMMA("1", "k32.f32." TYPES, PF_FLOATS, ", 1, 1");                     \
    else                                                                        \
      PF_WGMMA("0", "k32.f32." TYPES, PF_FLOATS, ", 1, 1");                     \
  }
PF_WGMMA_FLOAT8(pf_e4m3fn, pf_e4m3fn, "e4m3.e4m3")
PF_WGMMA_FLOAT8(pf_e4m3fn, pf_e5m2, "e4m3.e5m2")
PF_WGMMA_FLOAT8(pf_e5m2, pf_e4m3fn, "e5m2.e4m3")
#elif PF_PARTS > 1
template <int ADD>
PF_DEVICE void pf_wgmma(pf_bf16, float (&c)[TILE_N / 8][4], pf_u64 a, pf_u64 b) {
  if constexpr (ADD)
    PF_WGMMA("1", "k16.f32.bf16.bf16", PF_FLOATS, ", 1, 1, " PF_WGMMA_TURN, , "n"(!A_ALONG_K),
             "n"(!B_ALONG_K));
  else
    PF_WGMMA("0", "k16.f32.bf16.bf16", PF_FLOATS, ", 1, 1, " PF_WGMMA_TURN, , "n"(!A_ALONG_K),
             "n"(!B_ALONG_K));
}
#else
PF_DEVICE void pf_wgmma(pf_bf16, float (&c)[TILE_N / 8][4], pf_u64 a, pf_u64 b) {
  PF_WGMMA("1", "k16.f32.bf16.bf16", PF_FLOATS, ", 1, 1, " PF_WGMMA_TURN, , "n"(!A_ALONG_K),
           "n"(!B_ALONG_K));
}
PF_DEVICE void pf_wgmma(pf_f16, float (&c)[TILE_N / 8][4], pf_u64 a, pf_u64 b) {
  PF_WGMMA("1", "k16.f32.f16.f16", PF_FLOATS, ", 1, 1, " PF_WGMMA_TURN, , "n"(!A_ALONG_K),
           "n"(!B_ALONG_K));
}
PF_DEVICE void pf_wgmma(float, float (&c)[TILE_N / 8][4], pf_u64 a, pf_u64 b) {
  PF_WGMMA("1", "k8.f32.tf32.tf32", PF_FLOATS, ", 1, 1");
}
PF_DEVICE void pf_wgmma(pf_i8, pf_i32 (&c)[TILE_N / 8][4], pf_u64 a, pf_u64 b) {
  PF_WGMMA("1", "k32.s32.s8.s8", PF_INTS, "");
}
#endif

#if defined(PF_OTHER) || PF_PARTS > 1
// The compiler is not to move what is done to these across here: the unit works on them.
PF_DEVICE void pf_hold(pf_tile_sums& sums) {
  PF_UNROLL for (int j = 0; j < TILE_N / 8; ++j)
      PF_UNROLL for (int v = 0; v < 4; ++v) asm volatile("" : "+f"(sums.c[j][v])::"memory");
}
#endif
#if PF_PARTS > 1
// A share of a tile's k, to nothing.
PF_DEVICE void pf_multiply_parts(pf_tile_sums& sums, pf_shared_at a, pf_shared_at b, int share) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  const pf_u64 x = pf_matrix_at(a), y = pf_matrix_at(b);
  PF_UNROLL for (int i = 0; i < PF_PRODUCTS; ++i) {
    PF_UNROLL for (int s = 0; s < PF_SLICES; ++s) {
      const int kk = share * PF_SLICES + s;
      const pf_u64 at_a = x + ((pf_part_of_a(i) * A_BYTES + kk * (A_ALONG_K ? 32 : 16 * 128)) >> 4),
                   at_b = y + ((pf_part_of_b(i) * B_BYTES + kk * (B_ALONG_K ? 32 : 16 * 128)) >> 4);
      if (i == 0 && s == 0)
        pf_wgmma<0>(PF_T{}, sums.c, at_a, at_b);
      else
        pf_wgmma<1>(PF_T{}, sums.c, at_a, at_b);
    }
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
#endif

#if PF_GATHERED == 4
// The same with operand a in registers, a warp's 16 rows.
#define PF_WGMMA_ROWS(TYPES)                                                \
  asm volatile(                                                             \
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                            \
      "wgmma.mma_async.sync.aligned." PF_WGMMA_SHAPE TYPES " {" PF_WGMMA_TO \
      "}, " PF_WGMMA_ROWS_FROM ", p, 1, 1, 0;\n}"                           \
      : PF_WGMMA_ALL(PF_FLOATS)                                             \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
PF_DEVICE void pf_wgmma_rows(pf_bf16, float (&c)[TILE_N / 8][4], const pf_u32 (&a)[4], pf_u64 b) {
  PF_WGMMA_ROWS("k16.f32.bf16.bf16");
}
PF_DEVICE void pf_wgmma_rows(pf_f16, float (&c)[TILE_N / 8][4], const pf_u32 (&a)[4], pf_u64 b) {
  PF_WGMMA_ROWS("k16.f32.f16.f16");
}
#endif

// All warps are done with what they multiplied, and their units see what was copied.
PF_DEVICE void pf_multiply_ready() {
  asm volatile("fence.proxy.async;" ::: "memory");
  pf_barrier();
}
// Starts to multiply a tile: 64 rows of a from `a` on by all of b. ADD 0 (of eight-bit floats): to
// nothing.
template <int ADD = 1>
PF_DEVICE void pf_multiply_start(pf_tile_sums& sums, pf_shared_at a, pf_shared_at b) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  const pf_u64 x = pf_matrix_at(a), y = pf_matrix_at(b);
  PF_UNROLL for (int kk = 0; kk < 4; ++kk) {
    // 32 bytes of a line, or 16 lines
    const pf_u64 at_a = x + kk * ((A_ALONG_K ? 32 : 16 * 128) >> 4),
                 at_b = y + kk * ((B_ALONG_K ? 32 : 16 * 128) >> 4);
#if PF_PARTS > 1
    pf_wgmma<1>(PF_T{}, sums.c, at_a, at_b);
#elif defined(PF_OTHER)
    if (kk == 0)
      pf_wgmma<ADD>(PF_T{}, PF_OTHER{}, sums.c, at_a, at_b);
    else
      pf_wgmma<1>(PF_T{}, PF_OTHER{}, sums.c, at_a, at_b);
#else
    pf_wgmma(PF_T{}, sums.c, at_a, at_b);
#endif
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until all but the last AHEAD tiles are multiplied.
template <int AHEAD>
PF_DEVICE void pf_multiply_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(AHEAD) : "memory");
}

#else
#ifndef PF_OTHER
#define PF_OTHER PF_T
#endif
template <class T, int ALONG_K>
PF_DEVICE pf_acc pf_element(const char* operand, int outer, int k) {
  const int at = ALONG_K ? pf_place<1>(outer, k / CHUNK) + k % CHUNK * SIZE
                         : pf_place<0>(k, outer / CHUNK) + outer % CHUNK * SIZE;
  pf_u32 w;
  pf_load_words<SIZE, false>(operand + at, &w);
  return pf_acted_value<T>(&w, 0);
}
PF_DEVICE void pf_multiply_ready() {
  pf_barrier();
}
template <int ADD = 1>
PF_DEVICE void pf_multiply_start(pf_tile_sums& sums, pf_shared_at a, pf_shared_at b) {
  if constexpr (!ADD) sums.clear();
  const int lane = static_cast<int>(pf_lane()), warp = static_cast<int>(pf_thread()) / PF_WARP % 4;
  for (int j = 0; j < pf_tile_sums::NS; ++j)
    for (int v = 0; v < 4; ++v)
      for (int k = 0; k < TILE_K; ++k)
        pf_acted_add(sums.c[j][v],
                     pf_element<PF_T, A_ALONG_K>(a, warp * 16 + lane / 4 + v / 2 * 8, k),
                     pf_element<PF_OTHER, B_ALONG_K>(b, j * 8 + lane % 4 * 2 + v % 2, k));
}
PF_DEVICE void pf_hold(pf_tile_sums&) {}
#if PF_PARTS > 1
PF_DEVICE void pf_multiply_parts(pf_tile_sums& sums, pf_shared_at a, pf_shared_at b, int share) {
  sums.clear();
  const int lane = static_cast<int>(pf_lane()), warp = static_cast<int>(pf_thread()) / PF_WARP % 4;
  for (int i = 0; i < PF_PRODUCTS; ++i)
    for (int j = 0; j < pf_tile_sums::NS; ++j)
      for (int v = 0; v < 4; ++v)
        for (int k = share * (TILE_K / PF_SHARES); k < (share + 1) * (TILE_K / PF_SHARES); ++k)
          pf_acted_add(sums.c[j][v],
                       pf_element<PF_T, A_ALONG_K>(a + pf_part_of_a(i) * A_BYTES,
                                                   warp * 16 + lane / 4 + v / 2 * 8, k),
                       pf_element<PF_T, B_ALONG_K>(b + pf_part_of_b(i) * B_BYTES,
                                                   j * 8 + lane % 4 * 2 + v % 2, k));
}
#endif
// The lanes of a warp come here together.
template <int AHEAD>
PF_DEVICE void pf_multiply_wait() {
  pf_warp_barrier();
}
#endif

#endif
