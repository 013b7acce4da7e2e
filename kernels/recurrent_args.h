// The arguments of the kernels of recurrent.h.
#ifndef PF_RECURRENT_ARGS_H
#define PF_RECURRENT_ARGS_H
#include "integers.h"

// Rows of one step: `items` threads have PF_V of the `hidden` elements each.
struct pf_recurrent {
  const void *x, *product;    // [rows, gates, hidden]: what the input and the state give
  const void *before, *cell;  // the states before it
  void *h, *c, *kept;         // those behind it; kept may be null
  pf_i64 items, hidden;
};
// `sum` is what reaches the state from the next step, in T, `carried` what reaches it around the
// product (of a GRU) or reaches an LSTM's c, in C; behind the first `old` elements of the states
// there is no next step, and `last` and `given` stand for them.
struct pf_recurrent_back {
  const void *dout, *sum, *last, *given;  // null: 0
  const void *before, *behind;            // states before and behind it, of an LSTM c
  const void* kept;
  void *dx, *dstate;  // of a GRU the second
  void* carried;
  pf_i64 items, hidden, old;
};
static_assert(sizeof(pf_recurrent) == 72 && sizeof(pf_recurrent_back) == 104, "as hosts fill them");

#endif
