// Sorting rows of a tensor: keys of its elements, and the sorted rows. Keys order as values do,
// NaN last, -0 equal to 0.
//   -DTYPE=type
#include "small_sort.h"
#include "sort_args.h"
#include "space.h"

PF_DEVICE pf_u64 pf_key(float v) {
  if (v != v) return 0xffffffffu;
  const pf_u32 b = pf_bits<pf_u32>(v == 0 ? 0.0f : v);
  return b >> 31 ? ~b : b | 0x80000000u;
}
PF_DEVICE pf_u64 pf_key(double v) {
  if (v != v) return ~pf_u64(0);
  const pf_u64 b = pf_bits<pf_u64>(v == 0 ? 0.0 : v);
  return b >> 63 ? ~b : b | pf_u64(1) << 63;
}
PF_DEVICE pf_u64 pf_key(pf_i64 v) {
  return static_cast<pf_u64>(v) ^ pf_u64(1) << 63;
}
PF_DEVICE pf_u64 pf_key(pf_i32 v) {  // sizeof(PF_T) bytes
  const pf_i64 low = sizeof(PF_T) == 4 ? 0x80000000ll : sizeof(PF_T) == 2 ? 0x8000 : 0x80;
  const bool negative = pf_i32(pf_dtype<PF_T>::round(pf_compute<PF_T>(-1))) == -1;
  return static_cast<pf_u64>(v + (negative ? low : 0));
}
PF_DEVICE pf_u64 pf_key(bool v) {
  return v;
}
PF_DEVICE pf_u64 pf_key_at(const void* in, pf_i64 offset, int descending) {
  const pf_u64 key = pf_key(pf_get<PF_T>(in, offset));
  const int bits = sizeof(pf_compute<PF_T>) == 8 ? 64 : 8 * static_cast<int>(sizeof(PF_T));
  const bool floats = sizeof(pf_compute<PF_T>) == 4 && sizeof(PF_T) == 2 &&
                      pf_compute<PF_T>(0.5f) != pf_compute<PF_T>(0);
  const pf_u64 mask = bits == 64 ? ~pf_u64(0) : floats ? 0xffffffffu : (pf_u64(1) << bits) - 1;
  return descending ? ~key & mask : key;
}

PF_KERNEL(pf_sort_keys, BLOCK)
(pf_sort_rows q, const void* in, pf_u64* keys, pf_i64* at, int descending) {
  const pf_u64 all = static_cast<pf_u64>(q.rows.numel * q.n);
  for (pf_u64 i = pf_first_item(); i < all; i += pf_item_step()) {
    const pf_i64 row = static_cast<pf_i64>(i) / q.n, j = static_cast<pf_i64>(i) % q.n;
    pf_i64 start[1];
    pf_offsets<1>(q.rows, static_cast<pf_index>(row), start);
    keys[i] = pf_key_at(in, start[0] + j * q.in_step, descending);
    at[i] = j;
  }
}

PF_KERNEL(pf_sort_write, BLOCK)
(pf_sort_rows q, const void* in, void* values, pf_i64* indices, const pf_i64* at) {
  const pf_u64 all = static_cast<pf_u64>(q.rows.numel * q.k);
  for (pf_u64 i = pf_first_item(); i < all; i += pf_item_step()) {
    const pf_i64 row = static_cast<pf_i64>(i) / q.k, j = static_cast<pf_i64>(i) % q.k;
    pf_i64 start[3];
    pf_offsets<3>(q.rows, static_cast<pf_index>(row), start);
    const pf_i64 from = at[row * q.n + j];
    pf_move<sizeof(PF_T)>(values, start[1] + j * q.value_step, in, start[0] + from * q.in_step);
    indices[start[2] + j * q.index_step] = from;
  }
}

// One position of each sorted row: of the element with `number` smaller ones, or of a median, which
// may be the first NaN. at(j): where element j of the sorted row was.
enum { PF_SMALLEST, PF_MEDIAN, PF_NAN_MEDIAN };  // Nth of src/core/kernel_numbers.h
template <class At>
PF_DEVICE pf_i64 pf_nth_of(const pf_sort_rows& q, const void* in, pf_i64 start, pf_i64 which,
                           pf_i64 number, At at) {
  if (which == PF_SMALLEST) return at(number);
  pf_i64 low = 0, high = q.n;  // how many are numbers: NaN are at the end
  while (low < high) {
    const pf_i64 mid = low + (high - low) / 2;
    const auto v = pf_get<PF_T>(in, start + at(mid) * q.in_step);
    if (v == v)
      low = mid + 1;
    else
      high = mid;
  }
  return at(which == PF_MEDIAN && low < q.n ? low : low > 0 ? (low - 1) / 2 : 0);
}
PF_KERNEL(pf_pick_nth, BLOCK)
(pf_sort_rows q, const void* in, const pf_i64* at, pf_i64* out, pf_i64 which, pf_i64 number) {
  for (pf_u64 r = pf_first_item(); r < static_cast<pf_u64>(q.rows.numel); r += pf_item_step()) {
    pf_i64 start[2];
    pf_offsets<2>(q.rows, static_cast<pf_index>(r), start);
    const pf_i64* row = at + static_cast<pf_i64>(r) * q.n;
    out[start[1]] =
        pf_nth_of(q, in, start[0], which, number, [&](pf_i64 j) PF_INLINE { return row[j]; });
  }
}

// ---- rows of at most SMALL elements: one block each, in shared memory ---------------------------
// `padded`: the next power of 2.
enum { WIDE = sizeof(pf_compute<PF_T>) == 8 };

PF_DEVICE void pf_sort_one(const pf_small_row<WIDE>& row, const pf_sort_rows& q, const void* in,
                           pf_i64 start, int descending, int padded) {
  for (int j = static_cast<int>(pf_thread()); j < padded; j += BLOCK)
    if (j < q.n)
      row.set(j, pf_key_at(in, start + j * q.in_step, descending));
    else
      row.pad(j);
  row.sort(padded);
}

PF_KERNEL(pf_sort_small, BLOCK)
(pf_sort_rows q, const void* in, void* values, pf_i64* indices, int descending, int padded) {
  PF_SMALL_ROW(sorted, WIDE);
  for (pf_i64 row = pf_block(); row < q.rows.numel; row += pf_blocks()) {
    pf_i64 start[3];
    pf_offsets<3>(q.rows, static_cast<pf_index>(row), start);
    pf_sort_one(sorted, q, in, start[0], descending, padded);
    for (int j = static_cast<int>(pf_thread()); j < q.k; j += BLOCK) {
      const pf_i64 from = sorted.at(j);
      pf_move<sizeof(PF_T)>(values, start[1] + j * q.value_step, in, start[0] + from * q.in_step);
      indices[start[2] + j * q.index_step] = from;
    }
    pf_barrier();
  }
}

PF_KERNEL(pf_nth_small, BLOCK)
(pf_sort_rows q, const void* in, pf_i64* out, pf_i64 which, pf_i64 number, int padded) {
  PF_SMALL_ROW(sorted, WIDE);
  for (pf_i64 row = pf_block(); row < q.rows.numel; row += pf_blocks()) {
    pf_i64 start[2];
    pf_offsets<2>(q.rows, static_cast<pf_index>(row), start);
    pf_sort_one(sorted, q, in, start[0], 0, padded);
    if (pf_thread() == 0)
      out[start[1]] = pf_nth_of(q, in, start[0], which, number,
                                [&](pf_i64 j) PF_INLINE { return sorted.at(static_cast<int>(j)); });
    pf_barrier();
  }
}

// ---- groups of equal neighbours -----------------------------------------------------------------

// The position of the first element of every group of equal neighbours is marked. A NaN equals
// nothing.
PF_KERNEL(pf_group_marks, BLOCK)(const void* in, pf_i64 step, pf_i64 n, pf_i64* marks) {
  for (pf_u64 u = pf_first_item(); u < static_cast<pf_u64>(n); u += pf_item_step()) {
    const pf_i64 i = static_cast<pf_i64>(u);
    marks[i] = i > 0 && pf_get<PF_T>(in, i * step) != pf_get<PF_T>(in, (i - 1) * step);
  }
}
// counts is zero before. Where a group begins is where the one before it ends.
PF_KERNEL(pf_unique, BLOCK)
(const void* sorted, const pf_i64* at, const pf_i64* group, void* values, pf_i64* inverse,
 pf_i64* counts, pf_i64 n) {
  for (pf_u64 u = pf_first_item(); u < static_cast<pf_u64>(n); u += pf_item_step()) {
    const pf_i64 i = static_cast<pf_i64>(u), g = group[i];
    if (i == 0 || g != group[i - 1]) {
      pf_move<sizeof(PF_T)>(values, g, sorted, i);
      pf_atomic_add(&counts[g], -i);
      if (g > 0) pf_atomic_add(&counts[g - 1], i);
    }
    if (i == n - 1) pf_atomic_add(&counts[g], n);
    inverse[at ? at[i] : i] = g;
  }
}
