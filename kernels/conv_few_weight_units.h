// pf_conv_few_weight of conv_few_weight.h on the matrix units of matrix_units.h. k counts pixels,
// of which a lane wants neighbours: the gradients lie turned in shared memory, [channel][pixel],
// and what the windows see is read element by element. So a column is any tap and channel, in the
// order of the result, and none is of nobody but behind the last one.
//   -DSPLIT= warps that share the pixels of 32 columns
//   PF_THREADS = PF_WARP SPLIT (32 columns, so many times as taps and channels fill)
#ifndef PF_CONV_FEW_WEIGHT_UNITS_H
#define PF_CONV_FEW_WEIGHT_UNITS_H
// Several loads under way; this compiler wants to be told how many.
#if defined(PF_HOST)
#define PF_FEW_SHARES
#else
#define PF_FEW_SHARES _Pragma("unroll 8")
#endif

enum {
  TAPS = PF_HIGH * PF_WIDE * PF_C,
  COLUMNS = 32,  // of a warp
  SUMS_M = PF_N / UNIT_M,
  SUMS_N = COLUMNS / UNIT_N,
  CHUNKS_N = PF_N / 8,
  LINE_BYTES = (PIXELS * PF_PITCH + 1) / 2 * 4,
  GRADIENT =
      WIDE / 2 + 1,  // words of a channel: an odd number, so that channels meet no bank twice
  GRADIENTS = ROWS * PF_N * GRADIENT * 4,
  STEPS_K = WIDE / PF_UNIT_K,  // of a line
};
static_assert(WIDE % 16 == 0 && PF_N == 64, "whole steps and chunks");
static_assert(THREADS == PF_WARP * SPLIT * ((TAPS + COLUMNS - 1) / COLUMNS), "as the host counts");

// The gradients of a tile, two pixels of eight channels at a time; 0 outside.
PF_DEVICE void pf_take_gradients(const pf_few& q, const pf_few_tile& t, pf_i32 channel,
                                 pf_u32* to) {
  const char* base = static_cast<const char*>(q.y);
  PF_NO_UNROLL for (int at = static_cast<int>(pf_thread()); at < ROWS * WIDE / 2 * CHUNKS_N;
                    at += THREADS) {
    const int chunk = at % CHUNKS_N, pair = at / CHUNKS_N, row = pair / (WIDE / 2),
              pixel = pair % (WIDE / 2) * 2;
    const pf_i32 y = t.y + row, n = channel + chunk * 8;
    pf_u32 w[2][4];
    PF_UNROLL for (int h = 0; h < 2; ++h) {
      const pf_i32 x = t.x + pixel + h;
      PF_UNROLL for (int v = 0; v < 4; ++v) w[h][v] = 0;
      if (y < q.out_height && x < q.out_width && n < q.outs)
        pf_load_words<16, false>(
            base + (t.image * q.y_batch + y * q.y_line + x * q.y_pixel + n) * 2, w[h]);
    }
    pf_u32* line = to + (row * PF_N + chunk * 8) * GRADIENT + pixel / 2;
    PF_UNROLL for (int e = 0; e < 8; ++e) line[e * GRADIENT] =
        (w[0][e / 2] >> (e % 2 * 16) & 0xffffu) | w[1][e / 2] >> (e % 2 * 16) << 16;
  }
}

PF_KERNEL(pf_conv_few_weight, THREADS)(const pf_few q, const pf_i64 tiles) {
  char* memory = pf_dynamic_shared();
  pf_u32* gradients = reinterpret_cast<pf_u32*>(memory);
  const char* lines = memory + GRADIENTS;
  const int lane = static_cast<int>(pf_lane()), warp = static_cast<int>(pf_thread()) / PF_WARP,
            first = warp / SPLIT * COLUMNS + lane % UNIT_N, part = warp % SPLIT;
  const pf_u32 share = pf_block() / static_cast<pf_u32>(q.tiles_n),
               shares = pf_blocks() / static_cast<pf_u32>(q.tiles_n);
  const pf_i32 channel =
      static_cast<pf_i32>(pf_block() - share * static_cast<pf_u32>(q.tiles_n)) * PF_N;
  float c[SUMS_M][SUMS_N][UNIT_SUMS];
  int column[SUMS_N];  // where it begins in the lines, in bytes
  PF_UNROLL for (int j = 0; j < SUMS_N; ++j) {
    const int e = first + j * UNIT_N < TAPS ? first + j * UNIT_N : 0, x = e / PF_C % PF_WIDE;
    column[j] = e / (PF_WIDE * PF_C) * LINE_BYTES + (x * PF_PITCH + e % PF_C) * 2;
    PF_UNROLL for (int i = 0; i < SUMS_M; ++i) PF_UNROLL for (int v = 0; v < UNIT_SUMS; ++v)
        c[i][j][v] = 0.0f;
  }

  for (pf_i64 at = share; at < tiles; at += shares) {
    pf_few_tile tile;
    tile.start(q, at);
    pf_take_gradients(q, tile, channel, gradients);
    pf_take_lines<LINE_BYTES>(q, static_cast<const char*>(q.x) + tile.image * q.x_batch * 2,
                              tile.y * PF_DOWN - q.top, tile.x * PF_RIGHT - q.left,
                              memory + GRADIENTS, warp, lane);
    pf_barrier();
    const pf_i32 high = q.out_height - tile.y, wide = q.out_width - tile.x;
    PF_NO_UNROLL for (int s = part; s < ROWS * STEPS_K; s += SPLIT) {
      const int row = s / STEPS_K, k = s % STEPS_K * PF_UNIT_K, mine = k + pf_unit_k(lane);
      if (row >= high || k >= wide) continue;
      pf_u32 a[SUMS_M][PF_UNIT_WORDS];
      PF_UNROLL for (int i = 0; i < SUMS_M; ++i) {
        const pf_u32* line =
            gradients + (row * PF_N + i * UNIT_M + lane % UNIT_M) * GRADIENT + mine / 2;
        PF_UNROLL for (int v = 0; v < PF_UNIT_WORDS; ++v) a[i][v] = line[v];
      }
      PF_UNROLL for (int j = 0; j < SUMS_N; ++j) {
        const char* seen =
            lines + row * PF_DOWN * LINE_BYTES + column[j] + mine * (PF_RIGHT * PF_PITCH * 2);
        pf_u32 b[PF_UNIT_WORDS];
        PF_UNROLL for (int v = 0; v < PF_UNIT_WORDS; ++v) {
          pf_u32 w[2];
          PF_UNROLL for (int h = 0; h < 2; ++h)
              pf_load_words<2, false>(seen + (2 * v + h) * (PF_RIGHT * PF_PITCH * 2), &w[h]);
          b[v] = w[0] | w[1] << 16;
        }
        if (k + PF_UNIT_K > wide) {  // what is no pixel may be no number
          PF_UNROLL for (int v = 0; v < PF_UNIT_WORDS; ++v) {
            const int p = mine + 2 * v;
            b[v] &= (p < wide ? 0xffffu : 0) | (p + 1 < wide ? 0xffff0000u : 0);
          }
        }
        PF_UNROLL for (int i = 0; i < SUMS_M; ++i) pf_unit_multiply<PF_T>(a[i], b, c[i][j]);
      }
    }
    pf_barrier();
  }

  // [share][channel of the result][tap][channel]
  float* to = static_cast<float*>(q.packed) +
              static_cast<pf_i64>(share * SPLIT + static_cast<pf_u32>(part)) * q.outs * TAPS;
  PF_UNROLL for (int i = 0; i < SUMS_M; ++i) PF_UNROLL for (int j = 0; j < SUMS_N; ++j)
      PF_UNROLL for (int v = 0; v < UNIT_SUMS; ++v) {
    const pf_i32 n = channel + i * UNIT_M + pf_unit_row(lane, v);
    const int e = first + j * UNIT_N;
    if (n < q.outs && e < TAPS) to[n * TAPS + e] = c[i][j][v];
  }
}

#endif
