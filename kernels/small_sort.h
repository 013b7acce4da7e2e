// Sorting up to 2048 keys by one block, in shared memory.
#include "prelude.h"

enum { BLOCK = 256, SMALL = 2048, AT_BITS = 11 };

// A bitonic network over the first `padded` (a power of 2) of key, and of at where keys of 64 bits
// leave no room for the position: then equal keys go by at. The block has seen them; it sees the
// result. A step over fewer elements than a warp has pairs stays within the warp.
template <bool WIDE>
PF_DEVICE void pf_small_sort(pf_u64* key, pf_u32* at, int padded) {
  PF_NO_UNROLL for (int size = 2; size <= padded; size *= 2) {
    PF_NO_UNROLL for (int step = size / 2; step > 0; step /= 2) {
      PF_NO_UNROLL for (int p = static_cast<int>(pf_thread()); p < padded / 2; p += BLOCK) {
        const int i = 2 * p - (p & (step - 1)), j = i + step;
        const bool up = (i & size) == 0;
        const pf_u64 x = key[i], y = key[j];
        const bool after = x > y || (WIDE && x == y && at[i] > at[j]);
        if (after == up) {
          key[i] = y, key[j] = x;
          if (WIDE) {
            const pf_u32 a = at[i];
            at[i] = at[j], at[j] = a;
          }
        }
      }
      const int next = step > 1 ? step / 2 : size;
      if (step > PF_WARP || next > PF_WARP)
        pf_barrier();
      else
        pf_warp_barrier();
    }
  }
  pf_barrier();
}

// Keys of one row with the positions they came from.
template <bool WIDE>
struct pf_small_row {
  pf_u64* key;
  pf_u32* places;

  // A narrow key has at most 64 - AT_BITS bits.
  PF_METHOD void set(int j, pf_u64 k) const {
    key[j] = WIDE ? k : k << AT_BITS | static_cast<pf_u64>(j);
    if (WIDE) places[j] = static_cast<pf_u32>(j);
  }
  // What stands behind everything.
  PF_METHOD void pad(int j) const {
    key[j] = ~pf_u64(0);
    if (WIDE) places[j] = static_cast<pf_u32>(j);
  }
  PF_METHOD pf_i64 at(int j) const {
    return WIDE ? static_cast<pf_i64>(places[j]) : static_cast<pf_i64>(key[j] & (SMALL - 1));
  }
  PF_METHOD void sort(int padded) const {
    pf_barrier();
    pf_small_sort<WIDE>(key, places, padded);
  }
};
// Declares one, with its memory.
#define PF_SMALL_ROW(NAME, WIDE)                      \
  PF_SHARED pf_u64 NAME##_keys[SMALL];                \
  PF_SHARED pf_u32 NAME##_places[(WIDE) ? SMALL : 1]; \
  const pf_small_row<WIDE> NAME = {NAME##_keys, NAME##_places}
