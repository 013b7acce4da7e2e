// The matrix instructions of AMD's GPUs on 16-bit floats and float32 with float sums, and on int8
// with int32 sums: one step multiplies an M x K by a K x N matrix that lie in the registers of a
// warp. NVIDIA's are in mma.h, since there the loads are part of the layout.
//
//   lane l holds ROW l % M of a, elements k(l) .. k(l) + DEPTH - 1; of b likewise a column;
//   value i of c belongs to row row(l, i) and column l % N.
//
// Where an instruction takes less of a lane than is read at once, a step is REPEAT of them, each on
// its part of every lane's elements: which k meet in an instruction does not matter.
//
// -DPF_T says which elements. -DPF_MATRIX_UNIT=1 (MFMA, CDNA), 2 (WMMA, RDNA 3) or 3 (WMMA, RDNA 4)
// and -DPF_CDNA=2|3|4 say which unit; without them the target does. -DPF_TF32=1: floats with 10
// bits of fraction, where the unit is faster on them (CDNA 3's xf32). The host acts it out.
#ifndef PF_MATRIX_UNITS_H
#define PF_MATRIX_UNITS_H
#include "acted.h"
#include "prelude.h"

#if defined(PF_AMD) && !defined(PF_MATRIX_UNIT)
#if defined(__GFX9__)
#define PF_MATRIX_UNIT 1
#elif defined(__GFX11__)
#define PF_MATRIX_UNIT 2
#else
#define PF_MATRIX_UNIT 3
#endif
#endif
#ifndef PF_CDNA
#if defined(__gfx90a__)
#define PF_CDNA 2
#elif defined(__gfx950__)
#define PF_CDNA 4
#else
#define PF_CDNA 3
#endif
#endif

#if PF_MATRIX_UNIT == 1
enum {
  PF_UNIT_M = 32,
  PF_UNIT_N = 32,
  PF_UNIT_SUMS = 16,
  PF_UNIT_DEPTH = sizeof(PF_T) == 1                   ? 16
                  : sizeof(PF_T) == 2 && PF_CDNA >= 4 ? 8
                                                      : 4,
  PF_UNIT_K = PF_UNIT_DEPTH * 2,
#if PF_TF32
  PF_UNIT_REPEAT = 2,
#else
  PF_UNIT_REPEAT = sizeof(PF_T) == 2 || (sizeof(PF_T) == 1 && PF_CDNA >= 4) ? 1
                   : sizeof(PF_T) == 1 && PF_CDNA >= 3                      ? 2
                                                                            : 4,
#endif
};
PF_DEVICE int pf_unit_k(int lane) {
  return lane / 32 * PF_UNIT_DEPTH;
}
PF_DEVICE int pf_unit_row(int lane, int i) {
  return i / 4 * 8 + lane / 32 * 4 + i % 4;
}
#elif PF_MATRIX_UNIT == 2
enum { PF_UNIT_M = 16, PF_UNIT_N = 16, PF_UNIT_SUMS = 8 };
enum { PF_UNIT_K = 16, PF_UNIT_DEPTH = 16, PF_UNIT_REPEAT = 1 };
PF_DEVICE int pf_unit_k(int) {
  return 0;
}
PF_DEVICE int pf_unit_row(int lane, int i) {
  return 2 * i + lane / 16;
}
#elif PF_MATRIX_UNIT == 3
enum { PF_UNIT_M = 16, PF_UNIT_N = 16, PF_UNIT_SUMS = 8 };
enum { PF_UNIT_K = 16, PF_UNIT_DEPTH = 8, PF_UNIT_REPEAT = 1 };
PF_DEVICE int pf_unit_k(int lane) {
  return lane / 16 * 8;
}
PF_DEVICE int pf_unit_row(int lane, int i) {
  return i + lane / 16 * 8;
}
#endif
enum { PF_UNIT_WORDS = PF_UNIT_DEPTH * sizeof(PF_T) / 4 };

// c += a b. a and b: this lane's DEPTH elements of type T, in words.
template <class T>
PF_DEVICE void pf_unit_multiply(const pf_u32 (&a)[PF_UNIT_WORDS], const pf_u32 (&b)[PF_UNIT_WORDS],
                                pf_compute<T> (&c)[PF_UNIT_SUMS]);

#if defined(PF_AMD)
typedef short pf_short4 __attribute__((ext_vector_type(4)));
typedef _Float16 pf_half4 __attribute__((ext_vector_type(4)));
typedef float pf_float2 __attribute__((ext_vector_type(2)));
typedef float pf_unit_floats __attribute__((ext_vector_type(PF_UNIT_SUMS)));
typedef int pf_unit_ints __attribute__((ext_vector_type(PF_UNIT_SUMS)));
typedef pf_compute<PF_T> pf_unit_sums __attribute__((ext_vector_type(PF_UNIT_SUMS)));

template <class V>
struct pf_unit_words {
  pf_u32 w[sizeof(V) / 4];
};
template <class V>
PF_DEVICE V pf_unit_vector(const pf_u32* w) {
  pf_unit_words<V> s;
  PF_UNROLL for (int i = 0; i < static_cast<int>(sizeof(V) / 4); ++i) s.w[i] = w[i];
  return __builtin_bit_cast(V, s);
}

// One instruction.
#if PF_MATRIX_UNIT == 1
#if PF_CDNA >= 4
typedef __bf16 pf_bfloat8 __attribute__((ext_vector_type(8)));
typedef _Float16 pf_half8 __attribute__((ext_vector_type(8)));
typedef int pf_int4 __attribute__((ext_vector_type(4)));
PF_DEVICE pf_unit_floats pf_unit_step(pf_bf16, const pf_u32* a, const pf_u32* b, pf_unit_floats c) {
  return __builtin_amdgcn_mfma_f32_32x32x16_bf16(pf_unit_vector<pf_bfloat8>(a),
                                                 pf_unit_vector<pf_bfloat8>(b), c, 0, 0, 0);
}
PF_DEVICE pf_unit_floats pf_unit_step(pf_f16, const pf_u32* a, const pf_u32* b, pf_unit_floats c) {
  return __builtin_amdgcn_mfma_f32_32x32x16_f16(pf_unit_vector<pf_half8>(a),
                                                pf_unit_vector<pf_half8>(b), c, 0, 0, 0);
}
PF_DEVICE pf_unit_ints pf_unit_step(pf_i8, const pf_u32* a, const pf_u32* b, pf_unit_ints c) {
  return __builtin_amdgcn_mfma_i32_32x32x32_i8(pf_unit_vector<pf_int4>(a),
                                               pf_unit_vector<pf_int4>(b), c, 0, 0, 0);
}
#else
PF_DEVICE pf_unit_floats pf_unit_step(pf_bf16, const pf_u32* a, const pf_u32* b, pf_unit_floats c) {
  return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(pf_unit_vector<pf_short4>(a),
                                                  pf_unit_vector<pf_short4>(b), c, 0, 0, 0);
}
PF_DEVICE pf_unit_floats pf_unit_step(pf_f16, const pf_u32* a, const pf_u32* b, pf_unit_floats c) {
  return __builtin_amdgcn_mfma_f32_32x32x8f16(pf_unit_vector<pf_half4>(a),
                                              pf_unit_vector<pf_half4>(b), c, 0, 0, 0);
}
#endif
#if PF_TF32
PF_DEVICE pf_unit_floats pf_unit_step(float, const pf_u32* a, const pf_u32* b, pf_unit_floats c) {
  return __builtin_amdgcn_mfma_f32_32x32x4_xf32(pf_unit_vector<pf_float2>(a),
                                                pf_unit_vector<pf_float2>(b), c, 0, 0, 0);
}
#else
PF_DEVICE pf_unit_floats pf_unit_step(float, const pf_u32* a, const pf_u32* b, pf_unit_floats c) {
  return __builtin_amdgcn_mfma_f32_32x32x2f32(pf_unit_vector<float>(a), pf_unit_vector<float>(b), c,
                                              0, 0, 0);
}
#endif
#if PF_CDNA == 3
PF_DEVICE pf_unit_ints pf_unit_step(pf_i8, const pf_u32* a, const pf_u32* b, pf_unit_ints c) {
  return __builtin_amdgcn_mfma_i32_32x32x16_i8(pf_unit_vector<long>(a), pf_unit_vector<long>(b), c,
                                               0, 0, 0);
}
#elif PF_CDNA == 2
PF_DEVICE pf_unit_ints pf_unit_step(pf_i8, const pf_u32* a, const pf_u32* b, pf_unit_ints c) {
  return __builtin_amdgcn_mfma_i32_32x32x8i8(pf_unit_vector<int>(a), pf_unit_vector<int>(b), c, 0,
                                             0, 0);
}
#endif
#else
// RDNA 4 takes half of a lane at once and gives its instructions another name.
#if PF_MATRIX_UNIT == 2
#define PF_WMMA(NAME) __builtin_amdgcn_wmma_##NAME##_w32
#else
#define PF_WMMA(NAME) __builtin_amdgcn_wmma_##NAME##_w32_gfx12
#endif
typedef short pf_unit_shorts __attribute__((ext_vector_type(PF_UNIT_DEPTH)));
typedef _Float16 pf_unit_halves __attribute__((ext_vector_type(PF_UNIT_DEPTH)));
typedef int pf_unit_bytes __attribute__((ext_vector_type(PF_UNIT_DEPTH / 4)));
PF_DEVICE pf_unit_floats pf_unit_step(pf_bf16, const pf_u32* a, const pf_u32* b, pf_unit_floats c) {
  return PF_WMMA(f32_16x16x16_bf16)(pf_unit_vector<pf_unit_shorts>(a),
                                    pf_unit_vector<pf_unit_shorts>(b), c);
}
PF_DEVICE pf_unit_floats pf_unit_step(pf_f16, const pf_u32* a, const pf_u32* b, pf_unit_floats c) {
  return PF_WMMA(f32_16x16x16_f16)(pf_unit_vector<pf_unit_halves>(a),
                                   pf_unit_vector<pf_unit_halves>(b), c);
}
PF_DEVICE pf_unit_ints pf_unit_step(pf_i8, const pf_u32* a, const pf_u32* b, pf_unit_ints c) {
  return PF_WMMA(i32_16x16x16_iu8)(true, pf_unit_vector<pf_unit_bytes>(a), true,
                                   pf_unit_vector<pf_unit_bytes>(b), c, false);
}
#endif
template <class T>
PF_DEVICE void pf_unit_multiply(const pf_u32 (&a)[PF_UNIT_WORDS], const pf_u32 (&b)[PF_UNIT_WORDS],
                                pf_compute<T> (&c)[PF_UNIT_SUMS]) {
  constexpr int words = PF_UNIT_WORDS / PF_UNIT_REPEAT;
  pf_unit_sums s;
  PF_UNROLL for (int i = 0; i < PF_UNIT_SUMS; ++i) s[i] = c[i];
  PF_UNROLL for (int r = 0; r < PF_UNIT_REPEAT; ++r) s =
      pf_unit_step(T{}, a + r * words, b + r * words, s);
  PF_UNROLL for (int i = 0; i < PF_UNIT_SUMS; ++i) c[i] = s[i];
}
#else
#include "matrix_units_host.h"
#endif

#endif
