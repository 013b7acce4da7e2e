// Reporting a wrong index: the first one wins, the kernel clamps and goes on.
#ifndef PF_INDEX_ERROR_H
#define PF_INDEX_ERROR_H

#include "error_args.h"
#include "prelude.h"

PF_DEVICE void pf_bad_index(const pf_error& e, pf_i64 index, pf_i64 limit) {
  if (pf_atomic_exchange(e.lock, 1u) != 0) return;
  e.record->index = index;
  e.record->limit = limit;
  e.record->op = e.op;
  pf_fence();
  e.record->set = 1;
}

// The position that `index` means in [0, limit): negative ones count from the end when WRAP.
template <bool WRAP>
PF_DEVICE pf_i64 pf_checked_index(const pf_error& e, pf_i64 index, pf_i64 limit) {
  const pf_i64 at = WRAP && index < 0 ? index + limit : index;
  if (at >= 0 && at < limit) return at;
  pf_bad_index(e, index, limit);
  return 0;
}

// As checked_index of the CPU: a wrong index is reported and clamped.
PF_DEVICE pf_i64 pf_clamped(const pf_error& e, pf_i64 i, pf_i64 n, bool wrap) {
  const pf_i64 at = i < 0 && wrap ? i + n : i;
  if (at >= 0 && at < n) return at;
  pf_bad_index(e, i, n);
  return at < 0 ? 0 : n - 1;
}

// The place that an index writes, or -1: one that is to be skipped, or wrong, which is reported.
// PF_LONG_MIN skips nothing.
PF_DEVICE pf_i64 pf_written_place(const pf_error& e, pf_i64 i, pf_i64 n, pf_i64 skip, bool wrap) {
  if (i == skip && skip != PF_LONG_MIN) return -1;
  const pf_i64 at = i < 0 && wrap ? i + n : i;
  if (at >= 0 && at < n) return at;
  pf_bad_index(e, i, n);
  return -1;
}

#endif
