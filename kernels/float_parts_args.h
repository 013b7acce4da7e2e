// What float_parts.h is given, and whether products of parts are those of the floats.
#ifndef PF_FLOAT_PARTS_ARGS_H
#define PF_FLOAT_PARTS_ARGS_H
#include "integers.h"

// `lines` lines of n floats, `stride` elements apart; each of three planes of `to` has them `pitch`
// elements of bfloat16 apart, which are multiples of 8. Where images are turned: `lines` channels
// of n pixels, and planes have lines of channels.
struct pf_float_parts {
  const void* from;
  void* to;
  pf_u32* range;  // of all operands' numbers, as pf_parts_range says, zeros before
  pf_i64 lines, n, stride, pitch;
};
static_assert(sizeof(pf_float_parts) == 56, "as hosts fill it");

// Of an operand, as bits without their sign: the largest number, and what its smallest one that is
// not 0 has below the largest bits.
enum { PF_RANGE_WORDS = 2, PF_RANGE_TOP = 0x7fffffff };

#endif
