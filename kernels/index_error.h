// Reporting a wrong index: the first one wins, the kernel clamps and goes on.
#ifndef PF_INDEX_ERROR_H
#define PF_INDEX_ERROR_H

#include "error_args.h"
#include "prelude.h"

// One outside [lowest, limit).
PF_DEVICE void pf_bad_index(const pf_error& e, pf_i64 index, pf_i64 lowest, pf_i64 limit) {
  if (pf_atomic_exchange(e.lock, 1u) != 0) return;
  e.record->index = index;
  e.record->lowest = lowest;
  e.record->limit = limit;
  e.record->op = e.op;
  e.record->kind = e.kind;
  pf_fence();
  e.record->set = 1;
}

// As checked_index of the CPU: a wrong index is reported and clamped.
PF_DEVICE pf_i64 pf_clamped(const pf_error& e, pf_i64 i, pf_i64 n, bool wrap) {
  const pf_i64 at = i < 0 && wrap ? i + n : i;
  if (at >= 0 && at < n) return at;
  pf_bad_index(e, i, wrap ? -n : 0, n);
  return at < 0 ? 0 : n - 1;
}

// The place that an index writes, or -1: one that is to be skipped, or wrong, which is reported.
// PF_LONG_MIN skips nothing.
PF_DEVICE pf_i64 pf_written_place(const pf_error& e, pf_i64 i, pf_i64 n, pf_i64 skip, bool wrap) {
  if (i == skip && skip != PF_LONG_MIN) return -1;
  const pf_i64 at = i < 0 && wrap ? i + n : i;
  if (at >= 0 && at < n) return at;
  pf_bad_index(e, i, wrap ? -n : 0, n);
  return -1;
}

#endif
