// pf_conv_few_weight of conv_few_weight.h by the matrix instructions of mma.h. A warp has a line of
// taps: with PITCH channels a pixel, windows begin at chunks, so an operand is a matrix of shared
// memory whose lines overlap.
//   PF_RIGHT * PF_PITCH is a multiple of 8
//   -DSPLIT= warps that share the pixels of a line of taps, PF_THREADS = 32 PF_HIGH SPLIT
#ifndef PF_CONV_FEW_WEIGHT_MMA_H
#define PF_CONV_FEW_WEIGHT_MMA_H
#define PF_FEW_SHARES PF_UNROLL

enum {
  COLUMNS = (ACROSS + 15) / 16 * 16,  // of a line of taps, the last ones of nobody
  SUMS_M = PF_N / 16,
  SUMS_N = COLUMNS / 8,
  CHUNKS_N = PF_N / 8,
  LINE_BYTES = ((WIDE - 1) * PF_RIGHT * PF_PITCH + COLUMNS) * 2,
  WINDOW = PF_RIGHT * PF_PITCH * 2,  // bytes from one to the next
  GRADIENTS = ROWS * WIDE * PF_N * 2,
};
static_assert(WINDOW % 16 == 0 && WIDE % 16 == 0 && PF_N == 64, "whole chunks and steps");
static_assert(THREADS == PF_WARP * PF_HIGH * SPLIT, "a warp for each line of taps");

// The gradients of a tile begin to come, in lines of a pixel whose chunks are permuted; 0 outside.
PF_DEVICE void pf_take_gradients(const pf_few& q, const pf_few_tile& t, pf_i32 channel,
                                 pf_shared_at to) {
  const char* base = static_cast<const char*>(q.y);
  for (int at = static_cast<int>(pf_thread()); at < ROWS * WIDE * CHUNKS_N; at += THREADS) {
    const int pixel = at / CHUNKS_N, chunk = at % CHUNKS_N;
    const pf_i32 y = t.y + pixel / WIDE, x = t.x + pixel % WIDE, n = channel + chunk * 8;
    const bool in = y < q.out_height && x < q.out_width && n < q.outs;
    const char* from = base + (t.image * q.y_batch + y * q.y_line + x * q.y_pixel + n) * 2;
    pf_copy_async(to + (pixel * CHUNKS_N + (chunk ^ pixel % 8)) * 16, in ? from : base,
                  in ? 16 : 0);
  }
  pf_copies_end();
}

PF_KERNEL(pf_conv_few_weight, THREADS)(const pf_few q, const pf_i64 tiles) {
  char* memory = pf_dynamic_shared();
  const pf_shared_at gradients = pf_shared_address(memory), lines = gradients + GRADIENTS;
  const int lane = static_cast<int>(pf_lane()), warp = static_cast<int>(pf_thread()) / PF_WARP,
            tap = warp / SPLIT, part = warp % SPLIT;
  const pf_u32 share = pf_block() / static_cast<pf_u32>(q.tiles_n),
               shares = pf_blocks() / static_cast<pf_u32>(q.tiles_n);
  const pf_i32 channel =
      static_cast<pf_i32>(pf_block() - share * static_cast<pf_u32>(q.tiles_n)) * PF_N;
  float c[SUMS_M][SUMS_N][4];
  PF_UNROLL for (int i = 0; i < SUMS_M; ++i) PF_UNROLL for (int j = 0; j < SUMS_N; ++j)
      PF_UNROLL for (int v = 0; v < 4; ++v) c[i][j][v] = 0.0f;

  for (pf_i64 at = share; at < tiles; at += shares) {
    pf_few_tile tile;
    tile.start(q, at);
    pf_take_gradients(q, tile, channel, gradients);
    pf_take_lines<LINE_BYTES>(q, static_cast<const char*>(q.x) + tile.image * q.x_batch * 2,
                              tile.y * PF_DOWN - q.top, tile.x * PF_RIGHT - q.left,
                              memory + GRADIENTS, warp, lane);
    pf_copies_wait<0>();
    pf_barrier();
    const pf_i32 high = q.out_height - tile.y, wide = q.out_width - tile.x;
    PF_NO_UNROLL for (int row = 0; row < ROWS && row < high; ++row) {
      const pf_shared_at line = lines + (row * PF_DOWN + tap) * LINE_BYTES;
      PF_NO_UNROLL for (int k = part * 16; k < WIDE && k < wide; k += SPLIT * 16) {
        pf_u32 a[SUMS_M][4];
        const int pixel = row * WIDE + k + lane / 16 * 8 + lane % 8;
        PF_UNROLL for (int i = 0; i < SUMS_M; ++i) pf_load_matrices<1>(
            gradients + (pixel * CHUNKS_N + ((i * 2 + (lane / 8 & 1)) ^ lane % 8)) * 16, a[i]);
        PF_UNROLL for (int j = 0; j < SUMS_N; j += 2) {
          pf_u32 b[4];
          pf_load_matrices<1>(
              line + (k + (lane / 8 & 1) * 8 + lane % 8) * WINDOW + (j + lane / 16) * 16, b);
          if (k + 16 > wide) {  // what is no pixel may be no number
            PF_UNROLL for (int h = 0; h < 2; ++h) {
              const int p = k + h * 8 + lane % 4 * 2;
              const pf_u32 kept = (p < wide ? 0xffffu : 0) | (p + 1 < wide ? 0xffff0000u : 0);
              b[h] &= kept, b[2 + h] &= kept;
            }
          }
          PF_UNROLL for (int i = 0; i < SUMS_M; ++i) {
            pf_mma(PF_T{}, c[i][j], a[i], b);
            pf_mma(PF_T{}, c[i][j + 1], a[i], b + 2);
          }
        }
      }
    }
    pf_barrier();
  }

  // [share][channel of the result][tap][channel]
  constexpr int taps = PF_HIGH * PF_WIDE * PF_C;
  float* to = static_cast<float*>(q.packed) +
              static_cast<pf_i64>(share * SPLIT + static_cast<pf_u32>(part)) * q.outs * taps;
  PF_UNROLL for (int i = 0; i < SUMS_M; ++i) PF_UNROLL for (int j = 0; j < SUMS_N; ++j)
      PF_UNROLL for (int v = 0; v < 4; ++v) {
    const pf_i32 n = channel + i * 16 + v / 2 * 8 + lane / 4;
    const int e = j * 8 + lane % 4 * 2 + v % 2, x = e / PF_PITCH, in = e % PF_PITCH;
    if (n < q.outs && x < PF_WIDE && in < PF_C)
      to[n * taps + (tap * PF_WIDE + x) * PF_C + in] = c[i][j][v];
  }
}

#endif
