// Matrix units of matrix_units.h for conv_few.h; as in conv_few_mma.h.
#ifndef PF_CONV_FEW_UNITS_H
#define PF_CONV_FEW_UNITS_H
#include "matrix_units.h"
// Unrolled, all steps' operands would be read ahead into more registers than there are.
#define PF_FEW_STEPS PF_NO_UNROLL

enum { UNIT_M = PF_UNIT_M, UNIT_N = PF_UNIT_N, UNIT_SUMS = PF_UNIT_SUMS, STEP = PF_UNIT_K / 8 };

PF_DEVICE int pf_channel_of(int n) {
  return n;
}
template <int PITCH, int MS, int NS, class Word>
PF_DEVICE void pf_few_step(const pf_u32* columns, int s, int lane, Word word,
                           float (&c)[MS][NS][UNIT_SUMS]) {
  const int k = s * PF_UNIT_K + pf_unit_k(lane);
  pf_u32 a[MS][PF_UNIT_WORDS];
  PF_UNROLL for (int i = 0; i < MS; ++i) {
    PF_UNROLL for (int v = 0; v < PF_UNIT_WORDS; ++v) a[i][v] =
        word(i * UNIT_M + lane % UNIT_M, (k + 2 * v) / 8, (k + 2 * v) % 8 / 2);
  }
  PF_UNROLL for (int j = 0; j < NS; ++j) {
    const pf_u32* column = columns + (j * UNIT_N + lane % UNIT_N) * PITCH + k / 2;
    pf_u32 b[PF_UNIT_WORDS];
    PF_UNROLL for (int v = 0; v < PF_UNIT_WORDS; ++v) b[v] = column[v];
    PF_UNROLL for (int i = 0; i < MS; ++i) pf_unit_multiply<PF_T>(a[i], b, c[i][j]);
  }
}
template <int MS, int NS, class Give>
PF_DEVICE void pf_few_give(const pf_few&, char*, pf_i32, pf_i32, int lane, Give give,
                           const float (&c)[MS][NS][UNIT_SUMS]) {
  PF_UNROLL for (int i = 0; i < MS; ++i) {
    PF_UNROLL for (int j = 0; j < NS; ++j) {
      PF_UNROLL for (int v = 0; v < UNIT_SUMS; ++v)
          give(i * UNIT_M + pf_unit_row(lane, v), j * UNIT_N + lane % UNIT_N, c[i][j][v]);
    }
  }
}

#endif
