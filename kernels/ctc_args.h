// The argument of the kernels of ctc.h.
#ifndef PF_CTC_ARGS_H
#define PF_CTC_ARGS_H
#include "error_args.h"
#include "integers.h"

struct pf_ctc {
  const void* probs;  // [steps, batch, classes] with these strides
  pf_i64 step_t, step_n, step_c;
  pf_i64 steps, batch, classes, labels, blank;
  const pf_i64 *targets, *inputs, *lengths;
  void *loss, *alpha;
  void* grad;  // [steps, batch, classes], contiguous
  const void* g;
  pf_i64 step_g;
  void* rows;      // three rows of positions for each sequence
  pf_i32* behind;  // of each label the next that is the same; of one that is not the first, -2
  pf_i64 zero_infinity;
  pf_error error;
};
static_assert(sizeof(pf_ctc) == 192, "as hosts fill it");

#endif
