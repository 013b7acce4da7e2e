// Scaled dot-product attention of one query for each head, such as a step of decoding: bound by
// waiting for keys and values, of which a block has some under way in every thread. 16-bit floats,
// PF_D columns that lie side by side, in chunks of 16 bytes whose number is a power of two.
//
//   -DPF_T=  dtype;  -DPF_D=  columns;  -DPF_FEATURES=  0 or PF_SEQUENCES
//   -DPF_KEYS=  of a block, at most
//
// A chunk each of LANES lanes makes a row; the groups of lanes of a block take keys in turn,
// AT_ONCE at a time, with a maximum and a sum of their own, which are put together within warps and
// then in the order of these. Of long sequences a block has PF_KEYS keys, and sdpa_one_join puts
// the blocks together in their order: what comes of a number of keys does not depend on how many
// there might have been.
#include "attention_heads.h"
#include "vector.h"

enum {
  CHUNK = 16 / sizeof(PF_T),
  LANES = PF_D / CHUNK,
  GROUPS = 256 / LANES,
  WARPS = 256 / PF_WARP,
  AT_ONCE = 4,
};
static_assert(LANES <= PF_WARP && (LANES & (LANES - 1)) == 0, "lanes of one warp share a row");

// What some keys come to: the highest score, and relative to that the sum and the results.
// Nothing is seen so far: exp(-inf) is 0.
PF_DEVICE float pf_one_shift(float high) {
  return high == -pf_float<float>::infinity() ? 0.0f : high;
}
// A NaN stays.
PF_DEVICE float pf_one_high(float a, float b) {
  return b > a || b != b ? b : a;
}
PF_DEVICE void pf_one_write(const pf_attention& a, const pf_part& part, pf_i64 out, int c,
                            float value, float all, float top) {
  const float result[1] = {pf_dtype<PF_T>::round(all == 0 ? 0.0f : value / all)};
  pf_store<PF_T, 1, false>(
      static_cast<PF_T*>(a.out.data) + out + part.q0 * a.out.row + c * a.out.col, result);
  if (c != 0) return;
  const float lse = all == 0 ? top : top + pf_log(all);
  static_cast<float*>(a.lse)[pf_lse_at(a, part, 0)] = lse;
  if (a.logs) static_cast<float*>(a.logs)[pf_lse_at(a, part, 0)] = lse;
}

// `parts`: of PF_D results, a sum and a highest score, for each head, sequence and block of keys;
// null where one block has all keys. `steady`: nobody writes lengths meanwhile.
PF_KERNEL(sdpa_one, 256)
(const pf_attention a, float* parts, pf_u32 blocks, pf_u32 steady) {
  pf_next_may_start();
  PF_SHARED float shares[WARPS][PF_D];
  PF_SHARED float highs[WARPS], sums[WARPS];
  const float low = -pf_float<float>::infinity();
  const int t = static_cast<int>(pf_thread()), lane = t % LANES, group = t / LANES;
  const pf_u32 sequences = static_cast<pf_u32>(a.sequences), row = pf_block() / blocks,
               block = pf_block() - row * blocks, head = row / sequences;
  // Where things lie follows from arguments alone, and is found while others still run.
  const PF_T* q = static_cast<const PF_T*>(a.q.data) + pf_head_offset(a, a.q, head) + lane * CHUNK;
  const PF_T* k = static_cast<const PF_T*>(a.k.data) + pf_head_offset(a, a.k, head) + lane * CHUNK;
  const PF_T* v = static_cast<const PF_T*>(a.v.data) + pf_head_offset(a, a.v, head) + lane * CHUNK;
  const pf_i64 out = pf_head_offset(a, a.out, head), first = static_cast<pf_i64>(block) * PF_KEYS;
  const int sequence = static_cast<int>(row - head * sequences);
  // Keys and values come nearer meanwhile: those that are there, as far as lengths are; where they
  // are not yet, none are lost but time.
  pf_part part = pf_part_of(a, head, sequence);
  if (lane * 16 % 128 == 0) {
    const pf_i64 end = part.keys < first + PF_KEYS ? part.keys : first + PF_KEYS;
    for (pf_i64 j = first + group; j < end; j += GROUPS) {
      pf_prefetch(k + (part.k0 + j) * a.k.row);
      pf_prefetch(v + (part.k0 + j) * a.v.row);
    }
  }
  pf_wait_for_earlier();
  if (PF_HAS(PF_SEQUENCES) && !steady) part = pf_part_of(a, head, sequence);
  if (PF_HAS(PF_SEQUENCES) && part.queries < 1) return;
  const pf_i64 end = parts && part.keys > first + PF_KEYS ? first + PF_KEYS : part.keys;
  q += part.q0 * a.q.row;
  k += part.k0 * a.k.row;
  v += part.k0 * a.v.row;
  pf_vector<PF_T, CHUNK> query;
  query.template load<false>(q);
  float high = low, sum = 0, o[CHUNK];
  PF_UNROLL for (int e = 0; e < CHUNK; ++e) o[e] = 0;
  for (pf_i64 j0 = first; j0 < end; j0 += GROUPS * AT_ONCE) {
    pf_vector<PF_T, CHUNK> keys[AT_ONCE], values[AT_ONCE];
    PF_UNROLL for (int u = 0; u < AT_ONCE; ++u) {
      pf_i64 j = j0 + u * GROUPS + group;
      j = j < end ? j : end - 1;  // beyond the end: read, and not counted
      keys[u].template load<false>(k + j * a.k.row);
      values[u].template load<false>(v + j * a.v.row);
    }
    float s[AT_ONCE], top = high;
    PF_UNROLL for (int u = 0; u < AT_ONCE; ++u) {
      s[u] = 0;
      PF_UNROLL for (int e = 0; e < CHUNK; ++e) s[u] = pf_fma(query.get(e), keys[u].get(e), s[u]);
      PF_UNROLL for (pf_u32 m = 1; m < LANES; m *= 2) s[u] += pf_shuffle_xor(s[u], m);
      s[u] = j0 + u * GROUPS + group < end ? s[u] * static_cast<float>(a.scale) : low;
      top = pf_one_high(top, s[u]);
    }
    const float shift = pf_one_shift(top), less = pf_exp(high - shift);
    sum *= less;
    PF_UNROLL for (int e = 0; e < CHUNK; ++e) o[e] *= less;
    PF_UNROLL for (int u = 0; u < AT_ONCE; ++u) {
      const bool there = j0 + u * GROUPS + group < end;
      const float p = pf_exp(s[u] - shift);
      sum += there ? p : 0.0f;
      PF_UNROLL for (int e = 0; e < CHUNK; ++e) o[e] =
          there ? pf_fma(p, values[u].get(e), o[e]) : o[e];
    }
    high = top;
  }
  PF_UNROLL for (pf_u32 m = LANES; m < PF_WARP; m *= 2) {
    const float other = pf_shuffle_xor(high, m), top = pf_one_high(high, other),
                shift = pf_one_shift(top), mine = pf_exp(high - shift), its = pf_exp(other - shift);
    sum = sum * mine + pf_shuffle_xor(sum, m) * its;
    PF_UNROLL for (int e = 0; e < CHUNK; ++e) o[e] = o[e] * mine + pf_shuffle_xor(o[e], m) * its;
    high = top;
  }
  const int warp = t / PF_WARP;
  if (pf_lane() < LANES)
    PF_UNROLL for (int e = 0; e < CHUNK; ++e) shares[warp][lane * CHUNK + e] = o[e];
  if (pf_lane() == 0) {
    highs[warp] = high;
    sums[warp] = sum;
  }
  pf_barrier();
  for (int c = t; c < PF_D; c += 256) {
    float top = low, all = 0, value = 0;
    PF_UNROLL for (int w = 0; w < WARPS; ++w) top = pf_one_high(top, highs[w]);
    const float shift = pf_one_shift(top);
    PF_UNROLL for (int w = 0; w < WARPS; ++w) {
      const float of_all = pf_exp(highs[w] - shift);
      all = pf_fma(sums[w], of_all, all);
      value = pf_fma(shares[w][c], of_all, value);
    }
    if (!parts) {
      pf_one_write(a, part, out, c, value, all, top);
      continue;
    }
    float* to = parts + static_cast<pf_i64>(pf_block()) * (PF_D + 2);
    to[c] = value;
    if (c == 0) {
      to[PF_D] = all;
      to[PF_D + 1] = top;
    }
  }
}

PF_KERNEL(sdpa_one_join, 256)(const pf_attention a, const float* parts, pf_u32 blocks) {
  const pf_u32 sequences = static_cast<pf_u32>(a.sequences), row = pf_block(),
               head = row / sequences;
  const pf_part part = pf_part_of(a, head, static_cast<int>(row - head * sequences));
  if (PF_HAS(PF_SEQUENCES) && part.queries < 1) return;
  // Blocks behind the last key have nothing; the first one always is there.
  const pf_i64 with = (part.keys + PF_KEYS - 1) / PF_KEYS, count = with < 1 ? 1 : with;
  const float* from = parts + static_cast<pf_i64>(row) * blocks * (PF_D + 2);
  for (int c = static_cast<int>(pf_thread()); c < PF_D; c += 256) {
    float top = -pf_float<float>::infinity(), all = 0, value = 0;
    for (pf_i64 b = 0; b < count; ++b) top = pf_one_high(top, from[b * (PF_D + 2) + PF_D + 1]);
    const float shift = pf_one_shift(top);
    for (pf_i64 b = 0; b < count; ++b) {
      const float* its = from + b * (PF_D + 2);
      const float of_all = pf_exp(its[PF_D + 1] - shift);
      all = pf_fma(its[PF_D], of_all, all);
      value = pf_fma(its[c], of_all, value);
    }
    pf_one_write(a, part, pf_head_offset(a, a.out, head), c, value, all, top);
  }
}
