// Random choices: permutations and samples, with the CPU's numbers in the CPU's order.
//   -DTYPE=type
#include "philox.h"
#include "space.h"

enum { BLOCK = 256 };

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

// One thread goes through each row, so that the sums are the CPU's: running sums (with
// replacement) or the weights. Status: 1 a weight is negative or not finite, 2 a row sums to zero,
// 3 fewer nonzero weights than samples; of several the first row's.
PF_KERNEL(pf_weights, BLOCK)
(const void* weights, pf_i64 row_step, pf_i64 step, pf_i64 rows, pf_i64 n, pf_i64 k,
 int replacement, double* sums, pf_i64* last, pf_i64* status) {
  const pf_i64 r = static_cast<pf_i64>(pf_first_item());
  if (r >= rows) return;
  double total = 0;
  pf_i64 nonzero = 0, wrong = 0;
  last[r] = 0;
  for (pf_i64 j = 0; j < n; ++j) {
    const double w = static_cast<double>(pf_get<PF_T>(weights, r * row_step + j * step));
    if (!(w >= 0) || w > 1.7976931348623157e308) wrong = 1;
    if (w > 0) ++nonzero, last[r] = j;
    total += w;
    sums[r * n + j] = replacement ? total : w;
  }
  if (!wrong && !(total > 0)) wrong = 2;
  if (wrong != 1 && !replacement && nonzero < k) wrong = 3;
  // The first row that is wrong decides: its number above its status.
  if (wrong) {
    pf_u64* word = reinterpret_cast<pf_u64*>(status);
    const pf_u64 mine = (static_cast<pf_u64>(rows - r) << 8) | static_cast<pf_u64>(wrong);
    pf_atomic_max(word, mine);
  }
}
PF_KERNEL(pf_status, 1)(pf_i64* status) {
  *status &= 255;
}

PF_KERNEL(pf_draw, BLOCK)
(const double* sums, const pf_i64* last, pf_i64 rows, pf_i64 n, pf_i64 k, pf_u64 seed,
 pf_u64 offset, pf_i64* out) {
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(rows * k); i += pf_item_step()) {
    const pf_i64 r = static_cast<pf_i64>(i) / k;
    const double* row = sums + r * n;
    const pf_u64 word = i * 2;
    const pf_words w = pf_philox(offset + word / 4, seed);
    const double u =
        (word % 4 ? pf_unit_double(w.w[2], w.w[3]) : pf_unit_double(w.w[0], w.w[1])) * row[n - 1];
    pf_i64 low = 0, high = n;
    while (low < high) {
      const pf_i64 mid = low + (high - low) / 2;
      if (row[mid] <= u)
        low = mid + 1;
      else
        high = mid;
    }
    out[i] = low < last[r] ? low : last[r];
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
