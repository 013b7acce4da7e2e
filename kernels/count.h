// How often each index occurs. Counts are whole numbers: they come out the same in any order.
#include "index_error.h"
#include "space.h"

// WORDS: counters that a block keeps of its own. BINS: above, it keeps none.
enum { BLOCK = 256, WORDS = 8192, BINS = 2048 };

PF_DEVICE pf_i64 pf_bin(const pf_i64* index, pf_i64 step, pf_i64 i, pf_i64 n, pf_i64 bins,
                        const pf_error& error) {
  if (i >= n) return -1;
  const pf_i64 bin = index[i * step];
  if (bin >= 0 && bin < bins) return bin;
  pf_bad_index(error, bin, 0, bins);
  return -1;
}

// For up to BINS bins: the block counts in its own memory, in several copies, so that lanes with
// the same index seldom meet. A block takes fewer than 2^32 elements.
PF_KERNEL(pf_count_few, BLOCK)
(const pf_i64* index, pf_i64 step, pf_i64 n, pf_i64 bins, pf_u64* out, pf_error error) {
  PF_SHARED pf_u32 counts[WORDS];
  const pf_u32 size = static_cast<pf_u32>(bins);
  pf_u32 copies = 1;
  while (copies < PF_WARP && copies * 2 * size <= WORDS) copies *= 2;
  for (pf_u32 w = pf_thread(); w < copies * size; w += BLOCK) counts[w] = 0;
  pf_barrier();
  const pf_u32 copy = pf_thread() % copies;
  for (pf_u64 u = pf_first_item(); u < static_cast<pf_u64>(n); u += pf_item_step()) {
    const pf_i64 bin = pf_bin(index, step, static_cast<pf_i64>(u), n, bins, error);
    if (bin >= 0) pf_atomic_add(&counts[static_cast<pf_u32>(bin) * copies + copy], 1u);
  }
  pf_barrier();
  for (pf_u32 bin = pf_thread(); bin < size; bin += BLOCK) {
    pf_u64 sum = 0;
    for (pf_u32 c = 0; c < copies; ++c) sum += counts[bin * copies + (bin + c) % copies];
    if (sum) pf_atomic_add(&out[bin], sum);
  }
}

// A warp that has one index only, as in sorted ones, adds once.
PF_KERNEL(pf_count_many, BLOCK)
(const pf_i64* index, pf_i64 step, pf_i64 n, pf_i64 bins, pf_u64* out, pf_error error) {
  for (pf_u64 first = static_cast<pf_u64>(pf_block()) * BLOCK; first < static_cast<pf_u64>(n);
       first += pf_item_step()) {
    const pf_i64 i = static_cast<pf_i64>(first) + pf_thread();
    const pf_i64 bin = pf_bin(index, step, i, n, bins, error);
    const bool alike = pf_all(bin == pf_shuffle(bin, 0u));
    if (bin >= 0 && (!alike || pf_lane() == 0))
      pf_atomic_add(&out[bin], static_cast<pf_u64>(alike ? PF_WARP : 1));
  }
}
