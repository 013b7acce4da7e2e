// What matmul_stream.h is given.
#ifndef PF_MATMUL_STREAM_ARGS_H
#define PF_MATMUL_STREAM_ARGS_H
#include "error_args.h"
#include "matmul_args.h"

enum { PF_STEADY_B = 1, PF_STEADY_NORM = 2 };  // b; the norm's weight and bias
struct pf_matmul_stream_args {
  pf_matmul_args of;
  pf_i32 parts;   // of a column
  pf_i32 steady;  // what nobody writes meanwhile: it may be read before the kernel has waited
};
static_assert(sizeof(pf_matmul_stream_args) == 408, "as hosts fill it");

// Some columns also go to a row of a matrix.
struct pf_kept_row {
  void* data;
  const pf_i64* place;  // of the row
  pf_i64 rows, step;    // there are, elements from one to the next
  pf_i64 first, count;  // columns
  pf_error error;
};
static_assert(sizeof(pf_kept_row) == 80, "as hosts fill it");

#endif
