// The matrix instructions of AMD's GPUs on 16-bit floats, with float sums: one step multiplies
// an M x K by a K x N matrix that lie in the registers of a warp. NVIDIA's are in mma.h, since
// there the loads are part of the layout.
//
//   lane l holds ROW l % M of a, elements k(l) .. k(l) + DEPTH - 1; of b likewise a column;
//   value i of c belongs to row row(l, i) and column l % N.
//
// -DPF_MATRIX_UNIT=1 (MFMA, CDNA), 2 (WMMA, RDNA 3) or 3 (WMMA, RDNA 4) says which; without it the
// target does. The host acts it out.
#ifndef PF_MATRIX_UNITS_H
#define PF_MATRIX_UNITS_H
#include "prelude.h"

#if !defined(PF_NVIDIA)
#if defined(PF_AMD)
#ifndef PF_MATRIX_UNIT
#if defined(__GFX9__)
#define PF_MATRIX_UNIT 1
#elif defined(__GFX11__)
#define PF_MATRIX_UNIT 2
#else
#define PF_MATRIX_UNIT 3
#endif
#endif
typedef short pf_short4 __attribute__((ext_vector_type(4)));
typedef short pf_short8 __attribute__((ext_vector_type(8)));
typedef short pf_short16 __attribute__((ext_vector_type(16)));
typedef _Float16 pf_half4 __attribute__((ext_vector_type(4)));
typedef _Float16 pf_half8 __attribute__((ext_vector_type(8)));
typedef _Float16 pf_half16 __attribute__((ext_vector_type(16)));
typedef float pf_float8 __attribute__((ext_vector_type(8)));
typedef float pf_float16v __attribute__((ext_vector_type(16)));
#endif

#if PF_MATRIX_UNIT == 1
enum { PF_UNIT_M = 32, PF_UNIT_N = 32, PF_UNIT_K = 8, PF_UNIT_DEPTH = 4, PF_UNIT_SUMS = 16 };
PF_DEVICE int pf_unit_k(int lane) {
  return lane / 32 * 4;
}
PF_DEVICE int pf_unit_row(int lane, int i) {
  return i / 4 * 8 + lane / 32 * 4 + i % 4;
}
#elif PF_MATRIX_UNIT == 2
enum { PF_UNIT_M = 16, PF_UNIT_N = 16, PF_UNIT_K = 16, PF_UNIT_DEPTH = 16, PF_UNIT_SUMS = 8 };
PF_DEVICE int pf_unit_k(int) {
  return 0;
}
PF_DEVICE int pf_unit_row(int lane, int i) {
  return 2 * i + lane / 16;
}
#elif PF_MATRIX_UNIT == 3
enum { PF_UNIT_M = 16, PF_UNIT_N = 16, PF_UNIT_K = 16, PF_UNIT_DEPTH = 8, PF_UNIT_SUMS = 8 };
PF_DEVICE int pf_unit_k(int lane) {
  return lane / 16 * 8;
}
PF_DEVICE int pf_unit_row(int lane, int i) {
  return i + lane / 16 * 8;
}
#endif
enum { PF_UNIT_WORDS = PF_UNIT_DEPTH / 2 };

// c += a b. a and b: this lane's DEPTH elements of type T, two a word.
template <class T>
PF_DEVICE void pf_unit_multiply(const pf_u32 (&a)[PF_UNIT_WORDS], const pf_u32 (&b)[PF_UNIT_WORDS],
                                float (&c)[PF_UNIT_SUMS]);

#if defined(PF_AMD)
struct pf_unit_words {
  pf_u32 w[PF_UNIT_WORDS];
};
template <class V>
PF_DEVICE V pf_unit_vector(const pf_u32 (&w)[PF_UNIT_WORDS]) {
  pf_unit_words s;
  PF_UNROLL for (int i = 0; i < PF_UNIT_WORDS; ++i) s.w[i] = w[i];
  return __builtin_bit_cast(V, s);
}
#if PF_MATRIX_UNIT == 1
typedef pf_float16v pf_unit_sums;
#define PF_UNIT_BF16(A, B, C)                                            \
  __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(pf_unit_vector<pf_short4>(A), \
                                           pf_unit_vector<pf_short4>(B), C, 0, 0, 0)
#define PF_UNIT_F16(A, B, C)                                                                     \
  __builtin_amdgcn_mfma_f32_32x32x8f16(pf_unit_vector<pf_half4>(A), pf_unit_vector<pf_half4>(B), \
                                       C, 0, 0, 0)
#elif PF_MATRIX_UNIT == 2
typedef pf_float8 pf_unit_sums;
#define PF_UNIT_BF16(A, B, C)                                                \
  __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(pf_unit_vector<pf_short16>(A), \
                                              pf_unit_vector<pf_short16>(B), C)
#define PF_UNIT_F16(A, B, C)                                               \
  __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(pf_unit_vector<pf_half16>(A), \
                                             pf_unit_vector<pf_half16>(B), C)
#else
typedef pf_float8 pf_unit_sums;
#define PF_UNIT_BF16(A, B, C)                                                     \
  __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(pf_unit_vector<pf_short8>(A), \
                                                    pf_unit_vector<pf_short8>(B), C)
#define PF_UNIT_F16(A, B, C)                                                    \
  __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(pf_unit_vector<pf_half8>(A), \
                                                   pf_unit_vector<pf_half8>(B), C)
#endif
PF_DEVICE pf_unit_sums pf_unit_step(pf_bf16, const pf_u32 (&a)[PF_UNIT_WORDS],
                                    const pf_u32 (&b)[PF_UNIT_WORDS], pf_unit_sums c) {
  return PF_UNIT_BF16(a, b, c);
}
PF_DEVICE pf_unit_sums pf_unit_step(pf_f16, const pf_u32 (&a)[PF_UNIT_WORDS],
                                    const pf_u32 (&b)[PF_UNIT_WORDS], pf_unit_sums c) {
  return PF_UNIT_F16(a, b, c);
}
template <class T>
PF_DEVICE void pf_unit_multiply(const pf_u32 (&a)[PF_UNIT_WORDS], const pf_u32 (&b)[PF_UNIT_WORDS],
                                float (&c)[PF_UNIT_SUMS]) {
  pf_unit_sums s;
  PF_UNROLL for (int i = 0; i < PF_UNIT_SUMS; ++i) s[i] = c[i];
  s = pf_unit_step(T{}, a, b, s);
  PF_UNROLL for (int i = 0; i < PF_UNIT_SUMS; ++i) c[i] = s[i];
}
#else  // the host: lanes leave their operands where the others of the warp find them
static float pf_unit_room[32][2][64][PF_UNIT_DEPTH];
template <class T>
PF_DEVICE void pf_unit_multiply(const pf_u32 (&a)[PF_UNIT_WORDS], const pf_u32 (&b)[PF_UNIT_WORDS],
                                float (&c)[PF_UNIT_SUMS]) {
  const int lane = static_cast<int>(pf_lane());
  auto& room = pf_unit_room[pf_thread() / PF_WARP];
  for (int i = 0; i < PF_UNIT_DEPTH; ++i) {
    room[0][lane][i] = pf_dtype<T>::decode(a[i / 2] >> (16 * (i % 2)) & 0xffffu);
    room[1][lane][i] = pf_dtype<T>::decode(b[i / 2] >> (16 * (i % 2)) & 0xffffu);
  }
  pf_shuffle_word(0, 0);  // all have written
  for (int i = 0; i < PF_UNIT_SUMS; ++i) {
    for (int k = 0; k < PF_UNIT_K; ++k) {
      // Lanes that hold the same line each read their own copies.
      const int part = PF_UNIT_DEPTH == PF_UNIT_K ? lane / PF_UNIT_N : k / PF_UNIT_DEPTH,
                at = k % PF_UNIT_DEPTH;
      c[i] += room[0][part * PF_UNIT_M + pf_unit_row(lane, i)][at] *
              room[1][part * PF_UNIT_N + lane % PF_UNIT_N][at];
    }
  }
  pf_shuffle_word(0, 0);  // all have read
}
#endif
#endif
#endif
