// How conv_few.h cuts its work, and how its weights lie; its options.
#ifndef PF_CONV_FEW_PLAN_H
#define PF_CONV_FEW_PLAN_H
#include "conv_few_args.h"
#include "mma.h"
#ifdef PF_MMA
#include "conv_few_mma.h"
#else
#include "conv_few_units.h"
#endif

enum {
  THREADS = 256,
  WARPS = THREADS / PF_WARP,
  ROWS = 8,
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

#endif
