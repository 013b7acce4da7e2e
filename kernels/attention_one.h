// Scaled dot-product attention of one query for each head, such as a step of decoding: bound by
// waiting for keys and values, of which a block has some under way in every thread. 16-bit floats,
// PF_D columns that lie side by side, in chunks of 16 bytes whose number is a power of two.
//
//   -DPF_T=  dtype;  -DPF_D=  columns;  -DPF_FEATURES=  0 or PF_SEQUENCES
//
// A chunk each of LANES lanes makes a row; the GROUPS of a block take keys in turn, AT_ONCE at a
// time, with a maximum and a sum of their own, which are put together in their order.
#include "attention_heads.h"
#include "vector.h"

enum { CHUNK = 16 / sizeof(PF_T), LANES = PF_D / CHUNK, GROUPS = 256 / LANES, AT_ONCE = 4 };
static_assert(LANES <= PF_WARP && (LANES & (LANES - 1)) == 0, "lanes of one warp share a row");

PF_KERNEL(sdpa_one, 256)(const pf_attention a) {
  PF_SHARED float parts[GROUPS][PF_D];
  PF_SHARED float highs[GROUPS], sums[GROUPS];
  const float low = -pf_float<float>::infinity();
  const int t = static_cast<int>(pf_thread()), lane = t % LANES, group = t / LANES;
  const pf_u32 sequences = static_cast<pf_u32>(a.sequences), head = pf_block() / sequences;
  const pf_part part = pf_part_of(a, head, static_cast<int>(pf_block() - head * sequences));
  if (PF_HAS(PF_SEQUENCES) && part.queries < 1) return;
  const PF_T* q = static_cast<const PF_T*>(a.q.data) + pf_head_offset(a, a.q, head) +
                  part.q0 * a.q.row + lane * CHUNK;
  const PF_T* k = static_cast<const PF_T*>(a.k.data) + pf_head_offset(a, a.k, head) +
                  part.k0 * a.k.row + lane * CHUNK;
  const PF_T* v = static_cast<const PF_T*>(a.v.data) + pf_head_offset(a, a.v, head) +
                  part.k0 * a.v.row + lane * CHUNK;
  pf_vector<PF_T, CHUNK> query;
  query.template load<false>(q);
  float high = low, sum = 0, o[CHUNK];
  PF_UNROLL for (int e = 0; e < CHUNK; ++e) o[e] = 0;
  for (pf_i64 j0 = 0; j0 < part.keys; j0 += GROUPS * AT_ONCE) {
    pf_vector<PF_T, CHUNK> keys[AT_ONCE], values[AT_ONCE];
    PF_UNROLL for (int u = 0; u < AT_ONCE; ++u) {
      pf_i64 j = j0 + u * GROUPS + group;
      j = j < part.keys ? j : part.keys - 1;  // beyond the end: read, and not counted
      keys[u].template load<false>(k + j * a.k.row);
      values[u].template load<false>(v + j * a.v.row);
    }
    float s[AT_ONCE], top = high;
    PF_UNROLL for (int u = 0; u < AT_ONCE; ++u) {
      s[u] = 0;
      PF_UNROLL for (int e = 0; e < CHUNK; ++e) s[u] = pf_fma(query.get(e), keys[u].get(e), s[u]);
      PF_UNROLL for (pf_u32 m = 1; m < LANES; m *= 2) s[u] += pf_shuffle_xor(s[u], m);
      s[u] = j0 + u * GROUPS + group < part.keys ? s[u] * static_cast<float>(a.scale) : low;
      top = s[u] > top || s[u] != s[u] ? s[u] : top;
    }
    const float shift = top == low ? 0.0f : top;  // nothing is seen so far: exp(-inf) is 0
    const float less = pf_exp(high - shift);
    sum *= less;
    PF_UNROLL for (int e = 0; e < CHUNK; ++e) o[e] *= less;
    PF_UNROLL for (int u = 0; u < AT_ONCE; ++u) {
      const bool there = j0 + u * GROUPS + group < part.keys;
      const float p = pf_exp(s[u] - shift);
      sum += there ? p : 0.0f;
      PF_UNROLL for (int e = 0; e < CHUNK; ++e) o[e] =
          there ? pf_fma(p, values[u].get(e), o[e]) : o[e];
    }
    high = top;
  }
  PF_UNROLL for (int e = 0; e < CHUNK; ++e) parts[group][lane * CHUNK + e] = o[e];
  if (lane == 0) {
    highs[group] = high;
    sums[group] = sum;
  }
  pf_barrier();
  for (int c = t; c < PF_D; c += 256) {
    float top = low, all = 0, value = 0;
    for (int g = 0; g < GROUPS; ++g) top = highs[g] > top || highs[g] != highs[g] ? highs[g] : top;
    const float shift = top == low ? 0.0f : top;
    for (int g = 0; g < GROUPS; ++g) {
      const float part_of_all = pf_exp(highs[g] - shift);
      all = pf_fma(sums[g], part_of_all, all);
      value = pf_fma(parts[g][c], part_of_all, value);
    }
    const float result[1] = {pf_dtype<PF_T>::round(all == 0 ? 0.0f : value / all)};
    pf_store<PF_T, 1, false>(static_cast<PF_T*>(a.out.data) + pf_head_offset(a, a.out, head) +
                                 part.q0 * a.out.row + c * a.out.col,
                             result);
    if (c == 0) {
      const float lse = all == 0 ? top : top + pf_log(all);
      static_cast<float*>(a.lse)[pf_lse_at(a, part, 0)] = lse;
      if (a.logs) static_cast<float*>(a.logs)[pf_lse_at(a, part, 0)] = lse;
    }
  }
}
