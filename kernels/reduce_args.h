// The arguments of the kernels of reduce.h and sum.h.
#ifndef PF_REDUCE_ARGS_H
#define PF_REDUCE_ARGS_H
#include "axes_args.h"

struct pf_reduce {
  const void* x;
  void* out;
  void* values;   // find: where the values go, or null
  void* partial;  // results of chunks: [chunks][outputs]
  pf_axes kept, reduced;
  pf_i64 chunk, chunks;  // elements of one chunk
  pf_i64 tiles;          // blocks along the outputs
  pf_u32 width;          // rows: threads of one output; columns: threads along the outputs
  pf_u32 unused;
};
static_assert(sizeof(pf_reduce) == 672, "as hosts fill it");

struct pf_sum {
  const void* x;
  pf_i64 apart[4];   // bytes from x to each of the tensors
  void* out[4];      // of each operation
  const void* mean;  // pf_op_spread: of the differences
  void* partial;     // results of chunks: [chunks][results]
  pf_axes kept, reduced;
  pf_i64 chunk, chunks;  // elements of one
  pf_i64 tiles;          // blocks along the results
  double divisor[4];
  pf_u32 lanes, ways;
  pf_u32 width;  // columns, finish: threads along the results
  pf_u32 unused;
};
static_assert(sizeof(pf_sum) == 768, "as hosts fill it");

// moments.h
struct pf_moments {
  const void* x;
  void *total, *differences, *spread;  // the first may be null
  pf_axes kept, reduced;
  double total_by, differences_by, spread_by;  // divisors
  pf_u32 lanes, unused;                        // of a group of threads
};
static_assert(sizeof(pf_moments) == 672, "as hosts fill it");

#endif
