// How conv_few.h and conv_few_weight.h cut their work, how weights lie, and how lines of the input
// come into shared memory; their options.
#ifndef PF_CONV_FEW_PLAN_H
#define PF_CONV_FEW_PLAN_H
#include "conv_few_args.h"
#include "mma.h"
#include "vector.h"
#ifdef PF_MMA
#include "conv_few_mma.h"
#else
#include "conv_few_units.h"
#endif

#ifndef PF_ROWS
#define PF_ROWS 8
#endif
#ifndef PF_THREADS
#define PF_THREADS 256
#endif
enum {
  THREADS = PF_THREADS,
  WARPS = THREADS / PF_WARP,
  ROWS = PF_ROWS,
  ACROSS = PF_WIDE * PF_PITCH,  // elements of a run
  RUN = (ACROSS + 7) / 8,
  TAIL = ACROSS - (RUN - 1) * 8,
  CHUNKS = PF_HIGH * RUN,
  STEPS = (CHUNKS + STEP - 1) / STEP,
  PART = 32,  // pixels that a warp makes at a time, however wide it is
  MS = PART / UNIT_M,
  NS = PF_N / UNIT_N,
  LINES = (ROWS - 1) * PF_DOWN + PF_HIGH,
  PIXELS = (WIDE - 1) * PF_RIGHT + PF_WIDE,
  LINE = (PIXELS * PF_PITCH + 8 + 1) / 2,   // words, with those that are masked
  COLUMN = (STEPS * STEP / 2 * 2 + 1) * 4,  // words of operand b: an odd number of chunks
};
static_assert(PF_RIGHT * PF_PITCH % 2 == 0, "windows begin at words");

// The lines of the input from line `y`, pixel `x` on, LINE_BYTES apart; 0 outside.
template <int LINE_BYTES>
PF_DEVICE void pf_take_lines(const pf_few& q, const char* image, pf_i32 y, pf_i32 x, char* lines,
                             int warp, int lane) {
  constexpr int ahead = 4;
  for (int line = warp; line < LINES; line += WARPS) {
    const pf_i32 iy = y + line;
    const bool inside = static_cast<pf_u32>(iy) < static_cast<pf_u32>(q.height);
    const char* from = image + (inside ? iy * q.x_line : 0) * 2;
    char* to = lines + line * LINE_BYTES;
    for (int first = 0; first < PIXELS; first += ahead * PF_WARP) {
      pf_u32 w[ahead][PF_PITCH];
      PF_UNROLL for (int k = 0; k < ahead; ++k) {
        const pf_i32 ix = x + first + k * PF_WARP + lane;
        const bool in = inside && static_cast<pf_u32>(ix) < static_cast<pf_u32>(q.width);
        PF_UNROLL for (int c = 0; c < PF_PITCH; ++c) {
          w[k][c] = 0;
          if (in && c < PF_C)
            pf_load_words<2, false>(from + (ix * q.x_pixel + c * q.x_channel) * 2, &w[k][c]);
        }
      }
      PF_UNROLL for (int k = 0; k < ahead; ++k) {
        const int at = first + k * PF_WARP + lane;
        if (at >= PIXELS) continue;
        if constexpr (PF_PITCH % 4 == 0) {  // 8 bytes at a time
          PF_UNROLL for (int c = 0; c < PF_PITCH; c += 4) {
            const pf_u32 pair[2] = {w[k][c] | w[k][c + 1] << 16, w[k][c + 2] | w[k][c + 3] << 16};
            pf_store_words<8, false>(to + (at * PF_PITCH + c) * 2, pair);
          }
        } else {
          PF_UNROLL for (int c = 0; c < PF_PITCH; ++c)
              pf_store_words<2, false>(to + (at * PF_PITCH + c) * 2, &w[k][c]);
        }
      }
    }
  }
}

#endif
