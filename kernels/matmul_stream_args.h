// What matmul_stream.h is given.
#ifndef PF_MATMUL_STREAM_ARGS_H
#define PF_MATMUL_STREAM_ARGS_H
#include "matmul_args.h"

struct pf_matmul_stream_args {
  pf_matmul_args of;
  pf_i32 parts;   // of a column
  pf_i32 steady;  // nobody writes b meanwhile: it may be read before the kernel has waited
};
static_assert(sizeof(pf_matmul_stream_args) == 408, "as hosts fill it");

#endif
