// What all kernels of scaled dot-product attention are given.
#ifndef PF_ATTENTION_ARGS_H
#define PF_ATTENTION_ARGS_H
#include "integers.h"

#define PF_MAX_BATCH 10

// What a program can do beside masks, as sums in PF_FEATURES; without any it has no text for them.
#define PF_WINDOW 1      // a query does not see all keys before it
#define PF_SOFT_CAP 2    // scores are c tanh(s / c)
#define PF_SLOPES 4      // a slope for each head, times the distance in keys
#define PF_DROPOUT 8     // of weights
#define PF_SEQUENCES 16  // of several lengths, one behind the other
#define PF_PAGES 32      // keys and values of a sequence lie on pages
#define PF_GROUPS 64     // gradients of keys and values are sums over neighbouring heads
#define PF_SCORE 128     // a function of each score, as text before the kernel

// One matrix for each head.
struct pf_matrix {
  void* data;
  pf_i64 row, col;             // strides
  pf_i64 whole;                // 8 elements of a row may be read at once
  pf_i64 batch[PF_MAX_BATCH];  // strides
};
// Numbers that such a function looks up.
struct pf_score_table {
  const float* data;
  pf_i64 size;
};
struct pf_attention {
  pf_matrix q, k, v, out, mask;
  pf_matrix dout, dq, dk, dv, dmask;  // backward
  pf_matrix slopes;                   // float; rows are sequences
  void* lse;                          // [heads][queries]: natural logarithms of the sums
  void* delta;                        // [heads][queries]: sum of out * dout
  void* logs;                         // [heads][queries] or null: the same, for whom asked
  const pf_i32 *starts_q, *starts_k;  // [sequences + 1]
  const pf_i32* used_k;               // [sequences] or null
  const pf_i32* pages;                // [sequences][pages_row]
  pf_i64 size[PF_MAX_BATCH];
  pf_i32 batch, causal;  // causal: no query sees all keys behind it
  pf_i64 queries, keys, depth, depth_v;
  pf_i64 tiles, chunks;  // blocks along queries (or keys), and along columns of results
  pf_i64 low, high;      // query i sees keys i + low to i + high; of sequences, before alignment
  pf_i64 sequences, max_queries, max_keys, bottom_right;
  pf_i64 page, pages_row;
  pf_i64 group;                     // heads that share a gradient of keys
  pf_u64 seed, offset;              // of dropout,
  pf_i64 drawn_rows, drawn;         // rows of counters of a head, counters of one,
  pf_i64 threshold;                 // 16 bits from this on keep,
  double scale, soft_cap, keeping;  // and what is kept is multiplied with
  pf_score_table table[4];
  pf_i64 score_heads, first_query, first_key;  // matrices of a batch, positions of the first ones
};
static_assert(sizeof(pf_attention) == 1648, "as hosts fill it");

#endif
