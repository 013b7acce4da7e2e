// The arguments of conv_turn.h.
#ifndef PF_CONV_TURN_ARGS_H
#define PF_CONV_TURN_ARGS_H
#include "integers.h"

struct pf_turned {
  const void* from;
  void* to;
  pf_i64 size[3], at[3], batch, channel;  // strides in elements
  pf_i64 channels, padded;                // with those that are zeros
};
static_assert(sizeof(pf_turned) == 96, "as hosts fill it");

#endif
