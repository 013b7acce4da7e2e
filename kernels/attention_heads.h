// Where the matrices of a head lie.
#ifndef PF_ATTENTION_HEADS_H
#define PF_ATTENTION_HEADS_H
#include "attention_args.h"
#include "axes.h"

// The matrix of one head: its first element.
PF_DEVICE pf_i64 pf_head_offset(const pf_attention& a, const pf_matrix& m, pf_i64 head) {
  pf_i64 at = 0;
  for (int d = a.batch - 1; d >= 0; --d) {
    const pf_i64 q = pf_quotient(head, a.size[d]);
    at += (head - q * a.size[d]) * m.batch[d];
    head = q;
  }
  return at;
}

#endif
