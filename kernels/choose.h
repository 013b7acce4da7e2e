// Random choices: permutations and samples, with the CPU's numbers in the CPU's order.
//   -DTYPE=type
#include "math.h"
#include "philox.h"
#include "space.h"

enum { BLOCK = 256, TILE = 1024 };

PF_KERNEL(pf_random_keys, BLOCK)(pf_u64* keys, pf_i64* at, pf_i64 n, pf_u64 seed, pf_u64 offset) {
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(n); i += pf_item_step()) {
    const pf_words w = pf_philox(offset + i / 2, seed);
    keys[i] = i % 2 ? pf_join(w.w[2], w.w[3]) : pf_join(w.w[0], w.w[1]);
    at[i] = static_cast<pf_i64>(i);
  }
}
PF_KERNEL(pf_write_order, BLOCK)(void* out, pf_i64 step, const pf_i64* at, pf_i64 n) {
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(n); i += pf_item_step())
    pf_put<PF_T>(out, static_cast<pf_i64>(i) * step, at[i]);
}

// Sums of weights are made as on the CPU: inside tiles of TILE weights one after the other, then of
// the tiles' totals one after the other. A block brings the numbers of one tile, or of several
// short rows, into its memory, and a thread adds up each.
PF_DEVICE int pf_least(pf_i64 x, int y) {
  return x < y ? static_cast<int>(x) : y;
}
// Of a tile: whether a weight is negative or not finite, how many are above 0, the last that is.
struct pf_mark {
  pf_u32 wrong, nonzero, last;
  PF_METHOD pf_u32 word() const { return wrong << 31 | nonzero << 16 | last; }
  PF_METHOD static pf_mark of(pf_u32 w) { return {w >> 31, w >> 16 & 0x7fff, w & 0xffff}; }
};

// sums: running sums inside the tiles (with replacement) or the weights.
PF_KERNEL(pf_weights, BLOCK)
(const void* weights, pf_i64 row_step, pf_i64 step, pf_i64 rows, pf_i64 n, int replacement,
 double* sums, double* totals, pf_u32* marks) {
  PF_SHARED double tile[TILE];
  const pf_i64 tiles = (n + TILE - 1) / TILE, all = rows * tiles;
  const int width = pf_least(n, TILE), count = pf_least(TILE / width, BLOCK);
  const int thread = static_cast<int>(pf_thread());
  for (pf_i64 first = static_cast<pf_i64>(pf_block()) * count; first < all;
       first += static_cast<pf_i64>(pf_blocks()) * count) {
    for (int e = thread; e < count * width; e += BLOCK) {
      const pf_i64 at = first + e / width, r = at / tiles, j = at % tiles * TILE + e % width;
      if (at < all && j < n)
        tile[e] = static_cast<double>(pf_get<PF_T>(weights, r * row_step + j * step));
    }
    pf_barrier();
    if (thread < count && first + thread < all) {
      const int size = pf_least(n - (first + thread) % tiles * TILE, width);
      pf_mark mark = {0, 0, 0};
      double total = 0;
      for (int j = 0; j < size; ++j) {
        const double w = tile[thread * width + j];
        if (!(w >= 0) || w > 1.7976931348623157e308) mark.wrong = 1;
        if (w > 0) ++mark.nonzero, mark.last = static_cast<pf_u32>(j);
        total += w;
        if (replacement) tile[thread * width + j] = total;
      }
      totals[first + thread] = total;
      marks[first + thread] = mark.word();
    }
    pf_barrier();
    for (int e = thread; e < count * width; e += BLOCK) {
      const pf_i64 at = first + e / width, r = at / tiles, j = at % tiles * TILE + e % width;
      if (at < all && j < n) sums[r * n + j] = tile[e];
    }
    pf_barrier();
  }
}

// Totals of tiles become running sums. Status: 1 a weight is negative or not finite, 2 a row sums
// to zero, 3 fewer nonzero weights than samples; of several the first row's.
PF_KERNEL(pf_rows_of_weights, BLOCK)
(double* totals, const pf_u32* marks, pf_i64 rows, pf_i64 tiles, pf_i64 k, int replacement,
 pf_i64* last, pf_i64* status) {
  PF_SHARED double sums[BLOCK];
  PF_SHARED pf_u32 words[BLOCK];
  const int width = pf_least(tiles, BLOCK), count = BLOCK / width;
  const int thread = static_cast<int>(pf_thread());
  for (pf_i64 first = static_cast<pf_i64>(pf_block()) * count; first < rows;
       first += static_cast<pf_i64>(pf_blocks()) * count) {
    const bool adds = thread < count && first + thread < rows;
    double total = 0;
    pf_i64 nonzero = 0, end = 0;
    int wrong = 0;
    for (pf_i64 from = 0; from < tiles; from += BLOCK) {
      const pf_i64 r = first + thread / width, t = from + thread % width;
      const bool mine = thread < count * width && r < rows && t < tiles;
      if (mine) sums[thread] = totals[r * tiles + t], words[thread] = marks[r * tiles + t];
      pf_barrier();
      const int size = adds ? pf_least(tiles - from, width) : 0;
      for (int i = 0; i < size; ++i) {
        const pf_mark mark = pf_mark::of(words[thread * width + i]);
        if (mark.wrong) wrong = 1;
        if (mark.nonzero) nonzero += mark.nonzero, end = (from + i) * TILE + mark.last;
        total += sums[thread * width + i];
        sums[thread * width + i] = total;
      }
      pf_barrier();
      if (mine) totals[r * tiles + t] = sums[thread];
      pf_barrier();
    }
    if (!adds) continue;
    last[first + thread] = end;
    if (!wrong && !(total > 0)) wrong = 2;
    if (wrong != 1 && !replacement && nonzero < k) wrong = 3;
    // The first row that is wrong decides: its number above its status.
    if (wrong)
      pf_atomic_max(reinterpret_cast<pf_u64*>(status),
                    static_cast<pf_u64>(rows - first - thread) << 8 | static_cast<pf_u64>(wrong));
  }
}
PF_KERNEL(pf_status, 1)(pf_i64* status) {
  *status &= 255;
}

// The first of n places where above(place) holds; above() stays true from there on.
template <class F>
PF_DEVICE pf_i64 pf_first_above(pf_i64 n, const F& above) {
  pf_i64 low = 0, high = n;
  while (low < high) {
    const pf_i64 mid = low + (high - low) / 2;
    if (above(mid))
      high = mid;
    else
      low = mid + 1;
  }
  return low;
}
PF_KERNEL(pf_draw, BLOCK)
(const double* sums, const double* totals, const pf_i64* last, pf_i64 rows, pf_i64 n, pf_i64 k,
 pf_u64 seed, pf_u64 offset, pf_i64* out) {
  const pf_i64 tiles = (n + TILE - 1) / TILE;
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(rows * k); i += pf_item_step()) {
    const pf_i64 r = static_cast<pf_i64>(i) / k;
    const double* ends = totals + r * tiles;
    const pf_u64 word = i * 2;
    const pf_words w = pf_philox(offset + word / 4, seed);
    const double u = (word % 4 ? pf_unit_double(w.w[2], w.w[3]) : pf_unit_double(w.w[0], w.w[1])) *
                     ends[tiles - 1];
    const pf_i64 t = pf_first_above(tiles, [&](pf_i64 x) PF_INLINE { return u < ends[x]; });
    pf_i64 found = n;
    if (t < tiles) {
      const double before = t ? ends[t - 1] : 0.0;
      const double* inside = sums + r * n + t * TILE;
      found = t * TILE + pf_first_above(pf_least(n - t * TILE, TILE),
                                        [&](pf_i64 x) PF_INLINE { return u < before + inside[x]; });
    }
    out[i] = found < last[r] ? found : last[r];
  }
}

// The arrival times of exponential clocks with these rates; never for a rate of 0.
PF_KERNEL(pf_race, BLOCK)
(const double* weights, pf_i64 rows, pf_i64 n, pf_u64 seed, pf_u64 offset, pf_u64* keys,
 pf_i64* at) {
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(rows * n); i += pf_item_step()) {
    const pf_u64 word = i * 2;
    const pf_words w = pf_philox(offset + word / 4, seed);
    const double open = word % 4 ? pf_open_double(w.w[2], w.w[3]) : pf_open_double(w.w[0], w.w[1]);
    const double e = -pf_log_positive(open) / weights[i];  // not negative: its bits order it
    keys[i] = weights[i] > 0 ? pf_bits<pf_u64>(e + 0.0) : ~pf_u64(0);  // no -0
    at[i] = static_cast<pf_i64>(i) % n;
  }
}
PF_KERNEL(pf_arrivals, BLOCK)(const pf_i64* at, pf_i64 rows, pf_i64 n, pf_i64 k, pf_i64* out) {
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(rows * k); i += pf_item_step())
    out[i] = at[static_cast<pf_i64>(i) / k * n + static_cast<pf_i64>(i) % k];
}
