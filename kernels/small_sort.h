// Sorting up to 2048 keys by one block, in shared memory.
#include "prelude.h"

enum { BLOCK = 256, SMALL = 2048, AT_BITS = 11 };

// A bitonic network over the first `padded` (a power of 2, at most BLOCK * EACH) of key, and of at
// where keys of 64 bits leave no room for the position: then equal keys go by at. The block has
// seen them; it sees the result. A thread has EACH neighbours in registers; it exchanges with the
// threads of its warp through registers, with others through the memory of the keys.
template <bool WIDE, int EACH>
struct pf_network {
  pf_u64* key;
  pf_u32* at;
  pf_u64 k[EACH];
  pf_u32 a[EACH];

  PF_METHOD bool after(int e, pf_u64 key2, pf_u32 at2) const {
    return k[e] > key2 || (WIDE && k[e] == key2 && a[e] > at2);
  }
  PF_METHOD void take(int e, pf_u64 key2, pf_u32 at2, bool smaller) {
    if (after(e, key2, at2) != smaller) return;
    k[e] = key2;
    a[e] = at2;
  }
  PF_METHOD void across(int size, int step) {
    const int t = static_cast<int>(pf_thread()), apart = step / EACH;
    const bool smaller = ((t * EACH & size) == 0) == ((t & apart) == 0);
    if (apart < PF_WARP) {
      const pf_u32 mask = static_cast<pf_u32>(apart);
      PF_UNROLL for (int e = 0; e < EACH; ++e) {
        const pf_u64 other = pf_shuffle_xor(k[e], mask);
        take(e, other, WIDE ? pf_shuffle_xor(a[e], mask) : 0, smaller);
      }
      return;
    }
    pf_barrier();
    PF_UNROLL for (int e = 0; e < EACH; ++e) {
      key[e * BLOCK + t] = k[e];
      if (WIDE) at[e * BLOCK + t] = a[e];
    }
    pf_barrier();
    PF_UNROLL for (int e = 0; e < EACH; ++e) {
      const int other = e * BLOCK + (t ^ apart);
      take(e, key[other], WIDE ? at[other] : 0, smaller);
    }
  }
  PF_METHOD void within(int size) {
    const int first = static_cast<int>(pf_thread()) * EACH;
    PF_UNROLL for (int step = EACH / 2; step > 0; step /= 2) {
      if (2 * step > size) continue;
      PF_UNROLL for (int e = 0; e < EACH; ++e) {
        if (e & step) continue;
        if (after(e, k[e + step], a[e + step]) != (((first + e) & size) == 0)) continue;
        const pf_u64 x = k[e];
        const pf_u32 y = a[e];
        k[e] = k[e + step], a[e] = a[e + step];
        k[e + step] = x, a[e + step] = y;
      }
    }
  }
  PF_METHOD void sort(int padded) {
    const int first = static_cast<int>(pf_thread()) * EACH;
    PF_UNROLL for (int e = 0; e < EACH; ++e) {
      const bool there = first + e < padded;
      k[e] = there ? key[first + e] : ~pf_u64(0);
      a[e] = WIDE && there ? at[first + e] : 0;
    }
    PF_NO_UNROLL for (int size = 2; size <= padded; size *= 2) {
      PF_NO_UNROLL for (int step = size / 2; step >= EACH; step /= 2) across(size, step);
      within(size);
    }
    pf_barrier();
    PF_UNROLL for (int e = 0; e < EACH; ++e) {
      if (first + e >= padded) continue;
      key[first + e] = k[e];
      if (WIDE) at[first + e] = a[e];
    }
    pf_barrier();
  }
};
template <bool WIDE>
PF_DEVICE void pf_small_sort(pf_u64* key, pf_u32* at, int padded) {
  if (padded <= BLOCK) {
    pf_network<WIDE, 1> n;
    n.key = key, n.at = at;
    n.sort(padded);
  } else if (padded <= 4 * BLOCK) {
    pf_network<WIDE, 4> n;
    n.key = key, n.at = at;
    n.sort(padded);
  } else {
    pf_network<WIDE, 8> n;
    n.key = key, n.at = at;
    n.sort(padded);
  }
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
