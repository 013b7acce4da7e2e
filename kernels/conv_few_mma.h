// Matrix units of mma.h for conv_few.h.
#ifndef PF_CONV_FEW_MMA_H
#define PF_CONV_FEW_MMA_H
#define PF_FEW_STEPS PF_UNROLL

enum { UNIT_M = 16, UNIT_N = 8, UNIT_SUMS = 4, STEP = 2 };  // the last in chunks

// The channel of the result that column `n` of a tile is. A thread has two columns of each unit:
// four units side by side give it eight neighbours, a chunk.
PF_DEVICE int pf_channel_of(int n) {
  const int unit = n / 8, pair = n % 8 / 2;
  return unit / 4 * 32 + pair * 8 + unit % 4 * 2 + n % 2;
}
// c += a step of operands; word(pixel, chunk, word) of operand a, whose columns of b are PITCH
// words from each other.
template <int PITCH, int MS, int NS, class Word>
PF_DEVICE void pf_few_step(const pf_u32* columns, int s, int lane, Word word,
                           float (&c)[MS][NS][UNIT_SUMS]) {
  const int g = lane / 4, t = lane % 4;
  pf_u32 a[MS][4];
  PF_UNROLL for (int i = 0; i < MS; ++i) {
    PF_UNROLL for (int v = 0; v < 4; ++v) a[i][v] = word(i * 16 + v % 2 * 8 + g, 2 * s + v / 2, t);
  }
  PF_UNROLL for (int j = 0; j < NS; ++j) {
    const pf_u32* column = columns + (j * 8 + g) * PITCH + 8 * s + t;
    const pf_u32 b[2] = {column[0], column[4]};
    PF_UNROLL for (int i = 0; i < MS; ++i) pf_mma(PF_T{}, c[i][j], a[i], b);
  }
}
// Results from pixel x0 and channel n0 on: give(pixel, channel, value) writes one, from there.
template <int MS, int NS, class Give>
PF_DEVICE void pf_few_give(const pf_few& q, char* to, pf_i32 x0, pf_i32 n0, int lane, Give give,
                           const float (&c)[MS][NS][UNIT_SUMS]) {
  const int g = lane / 4, t = lane % 4;
  PF_UNROLL for (int i = 0; i < MS; ++i) {
    PF_UNROLL for (int h = 0; h < 2; ++h) {
      PF_UNROLL for (int j = 0; j < NS; j += 4) {
        const int pixel = i * 16 + h * 8 + g, n = j * 8 + t * 8;
        const pf_i32 x = x0 + pixel, channel = n0 + n;
        if (q.y_channel != 1) {
          PF_UNROLL for (int v = 0; v < 8; ++v) give(pixel, n + v, c[i][j + v / 2][h * 2 + v % 2]);
          continue;
        }
        if (x >= q.out_width || channel >= q.outs) continue;
        float v[8];
        PF_UNROLL for (int e = 0; e < 8; ++e) v[e] = c[i][j + e / 2][h * 2 + e % 2];
        if (q.bias) {
          float bias[8];
          pf_load<PF_T, 8, false>(static_cast<const char*>(q.bias) + channel * 2, bias);
          PF_UNROLL for (int e = 0; e < 8; ++e) v[e] += bias[e];
        }
        pf_round<PF_T>(v);
        pf_store<PF_T, 8, false>(to + (x * q.y_pixel + channel) * 2, v);
      }
    }
  }
}

#endif
