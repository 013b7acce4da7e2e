// What all kernels of scaled dot-product attention are given.
#ifndef PF_ATTENTION_ARGS_H
#define PF_ATTENTION_ARGS_H
#include "integers.h"

#define PF_MAX_BATCH 10

// One matrix for each head.
struct pf_matrix {
  void* data;
  pf_i64 row, col;             // strides
  pf_i64 whole;                // 8 elements of a row may be read at once
  pf_i64 batch[PF_MAX_BATCH];  // strides
};
struct pf_attention {
  pf_matrix q, k, v, out, mask;
  pf_matrix dout, dq, dk, dv;  // backward
  void* lse;                   // [heads][queries]
  void* delta;                 // [heads][queries]: sum of out * dout
  pf_i64 size[PF_MAX_BATCH];
  pf_i32 batch, causal;
  pf_i64 queries, keys, depth, depth_v;
  pf_i64 tiles, chunks;  // blocks along queries (or keys), and along columns of results
  double scale;
};
static_assert(sizeof(pf_attention) == 1168, "as hosts fill it");

#endif
