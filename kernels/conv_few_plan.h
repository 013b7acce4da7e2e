// How conv_few.h cuts its work, and how its weights lie; its options.
#ifndef PF_CONV_FEW_PLAN_H
#define PF_CONV_FEW_PLAN_H
#include "conv_few_args.h"
#include "mma.h"
#ifndef PF_MMA
#include "matrix_units.h"
#endif

enum {
  THREADS = 256,
  WARPS = THREADS / PF_WARP,
  ROWS = 8,
  ACROSS = PF_WIDE * PF_PITCH,  // elements of a run
  RUN = (ACROSS + 7) / 8,
  TAIL = ACROSS - (RUN - 1) * 8,
  CHUNKS = PF_HIGH * RUN,
#ifdef PF_MMA
  UNIT_M = 16,
  UNIT_N = 8,
  UNIT_SUMS = 4,
  STEP = 2,  // chunks
#else
  UNIT_M = PF_UNIT_M,
  UNIT_N = PF_UNIT_N,
  UNIT_SUMS = PF_UNIT_SUMS,
  STEP = PF_UNIT_K / 8,
#endif
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

// The channel of the result that column `n` of a tile is. On NVIDIA a thread has two columns of
// each unit: four units side by side give it eight neighbours, a chunk.
PF_DEVICE int pf_channel_of(int n) {
#ifdef PF_MMA
  const int unit = n / 8, pair = n % 8 / 2;
  return unit / 4 * 32 + pair * 8 + unit % 4 * 2 + n % 2;
#else
  return n;
#endif
}

#endif
