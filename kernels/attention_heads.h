// Where the matrices of a head lie, which of its queries and keys meet, and what becomes of the
// product of two rows: text of both families of kernels of attention (attention.h, flash.h).
//
//   -DPF_FEATURES=  what attention_args.h lists
#ifndef PF_ATTENTION_HEADS_H
#define PF_ATTENTION_HEADS_H
#include "attention_args.h"
#include "axes.h"
#include "math.h"
#include "philox.h"

#define PF_HAS(FEATURE) ((PF_FEATURES & (FEATURE)) != 0)

// The matrix of one head: its first element. There are fewer heads than blocks of a grid.
PF_DEVICE pf_i64 pf_head_offset(const pf_attention& a, const pf_matrix& m, pf_i64 head) {
  pf_i64 at = 0;
  pf_u32 h = static_cast<pf_u32>(head);
  PF_NO_UNROLL for (int d = a.batch - 1; d >= 0; --d) {
    const pf_u32 size = static_cast<pf_u32>(a.size[d]), q = h / size;
    at += static_cast<pf_i64>(h - q * size) * m.batch[d];
    h = q;
  }
  return at;
}

// Head n of those that share the mask of `owner`.
PF_DEVICE pf_i64 pf_sharing_head(const pf_attention& a, pf_i64 owner, pf_i64 n) {
  pf_i64 head = 0, step = 1;
  PF_NO_UNROLL for (int d = a.batch - 1; d >= 0; --d) {
    pf_i64& from = a.dmask.batch[d] == 0 ? n : owner;
    const pf_i64 q = pf_quotient(from, a.size[d]);
    head += (from - q * a.size[d]) * step;
    step *= a.size[d];
    from = q;
  }
  return head;
}

// What meets in a block: all queries and keys of a head, or those of one sequence.
struct pf_part {
  pf_i64 q0, k0;         // rows before them
  pf_i64 queries, keys;  // rows of them
  pf_i64 low, high;      // query i sees keys i + low to i + high
  pf_i64 shift;          // query i stands beside key i + shift
  pf_i64 head;
  pf_u64 counter;  // of dropout, the first
  float slope;
  int sequence;
  float b, h;  // batch and head, for a function of scores
};
PF_DEVICE pf_i64 pf_between(pf_i64 x, pf_i64 low, pf_i64 high) {
  x = x > high ? high : x;
  return x < low ? low : x;
}
PF_DEVICE pf_part pf_part_of(const pf_attention& a, pf_i64 head, int sequence) {
  pf_part p = {0, 0, a.queries, a.keys, a.low, a.high, 0, head, 0, 0.0f, sequence, 0.0f, 0.0f};
  if constexpr (PF_HAS(PF_SCORE)) {
    const pf_i64 b = pf_quotient(head, a.score_heads);
    p.b = static_cast<float>(b);
    p.h = static_cast<float>(head - b * a.score_heads);
  }
  if constexpr (PF_HAS(PF_SEQUENCES)) {  // whatever these numbers are, rows lie within the tensors
    p.q0 = pf_between(a.starts_q[sequence], 0, a.queries);
    const pf_i64 left = a.queries - p.q0;
    p.queries =
        pf_between(a.starts_q[sequence + 1] - p.q0, 0, left < a.max_queries ? left : a.max_queries);
    pf_i64 room = a.pages_row * a.page;
    if (!PF_HAS(PF_PAGES)) {
      p.k0 = pf_between(a.starts_k[sequence], 0, a.keys);
      room = a.keys - p.k0;
    }
    p.keys = a.used_k ? a.used_k[sequence] : a.starts_k[sequence + 1] - a.starts_k[sequence];
    p.keys = pf_between(p.keys, 0, room < a.max_keys ? room : a.max_keys);
  }
  if (PF_HAS(PF_SEQUENCES | PF_SLOPES) && a.bottom_right) p.shift = p.keys - p.queries;
  if constexpr (PF_HAS(PF_SEQUENCES)) {
    p.low += p.shift;
    p.high += p.shift;
  }
  if constexpr (PF_HAS(PF_DROPOUT))
    p.counter =
        a.offset + static_cast<pf_u64>(head * a.drawn_rows + ((p.q0 + 15 * sequence) >> 4) * 8) *
                       static_cast<pf_u64>(a.drawn);
  if constexpr (PF_HAS(PF_SLOPES))
    p.slope = static_cast<const float*>(
        a.slopes.data)[pf_head_offset(a, a.slopes, head) + sequence * a.slopes.row];
  return p;
}
// Query i of a part, as an element of lse.
PF_DEVICE pf_i64 pf_lse_at(const pf_attention& a, const pf_part& p, pf_i64 i) {
  return p.head * a.queries + (PF_HAS(PF_SEQUENCES) ? p.q0 + i : i);
}
// Key j of a part with pages, as a row of k and v.
PF_DEVICE pf_i64 pf_row_of_key(const pf_attention& a, const pf_part& p, pf_i64 j) {
  const pf_i64 n = pf_quotient(j, a.page);
  const pf_i64 at = a.pages[p.sequence * a.pages_row + n];
  return pf_between(at, 0, pf_quotient(a.keys, a.page) - 1) * a.page + (j - n * a.page);
}

// Element `at` of a table: hosts have seen that it is there for all that are queries and keys.
PF_DEVICE float pf_look_up(const pf_score_table& t, float at) {
  const pf_i64 last = t.size - 1, n = at < 0.0f ? 0 : static_cast<pf_i64>(at);
  return pf_global(t.data)[n < last ? n : last];
}

// What is drawn for queries i and i + 8, keys j, j + 1, j + 8 and j + 9 (i of [0, 8) of 16, j of
// {0, 2, 4, 6}, or any of those), and who of them keeps its weight. table/kernels/attention.h has
// the rule.
PF_DEVICE pf_words pf_drawn(const pf_attention& a, const pf_part& p, int i, int j) {
  return pf_philox(p.counter +
                       static_cast<pf_u64>((i >> 4) * 8 + (i & 7)) * static_cast<pf_u64>(a.drawn) +
                       static_cast<pf_u64>((j >> 4) * 4 + ((j & 7) >> 1)),
                   a.seed);
}
PF_DEVICE bool pf_keeps(const pf_attention& a, const pf_words& w, int i, int j) {
  const pf_u32 low = i & 8 ? w.w[2] : w.w[0], high = i & 8 ? w.w[3] : w.w[1],
               word = j & 8 ? high : low;
  return (j & 1 ? word >> 16 : word & 0xffffu) >= static_cast<pf_u32>(a.threshold);
}

#endif
