// Keys for sorting points by the place that they write: see scatter.h.
#include "index_error.h"
#include "space.h"

enum { BLOCK = 256 };

// Of offsets in elements, -1 for a point that is not written.
PF_KERNEL(pf_point_keys, BLOCK)(const pf_i64* offsets, pf_u64* keys, pf_i64* at, pf_i64 n) {
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(n); i += pf_item_step()) {
    keys[i] = static_cast<pf_u64>(offsets[i]);
    at[i] = static_cast<pf_i64>(i);
  }
}
// Of indices along one dimension.
PF_KERNEL(pf_index_keys, BLOCK)
(const pf_i64* index, pf_i64 index_step, pf_i64 n, pf_i64 size, pf_i64 out_step, pf_i64 skip,
 int wrap, pf_u64* keys, pf_i64* at, pf_error error) {
  for (pf_u64 u = pf_first_item(); u < static_cast<pf_u64>(n); u += pf_item_step()) {
    const pf_i64 i = index[static_cast<pf_i64>(u) * index_step];
    const pf_i64 place = i < 0 && wrap ? i + size : i;
    keys[u] = ~pf_u64(0);
    at[u] = static_cast<pf_i64>(u);
    if (i == skip) continue;
    if (place < 0 || place >= size)
      pf_bad_index(error, i, size);
    else
      keys[u] = static_cast<pf_u64>(place * out_step);
  }
}
// Where each element of a space is: operand 0, from `start`.
PF_KERNEL(pf_space_keys, BLOCK)(pf_space s, pf_i64 start, pf_u64* keys, pf_i64* at) {
  for (pf_u64 u = pf_first_item(); u < static_cast<pf_u64>(s.numel); u += pf_item_step()) {
    pf_i64 x[1];
    pf_offsets<1>(s, static_cast<pf_index>(u), x);
    keys[u] = static_cast<pf_u64>(start + x[0]);
    at[u] = static_cast<pf_i64>(u);
  }
}
PF_KERNEL(pf_space_offsets, BLOCK)(pf_space s, pf_i64* offsets) {
  for (pf_u64 u = pf_first_item(); u < static_cast<pf_u64>(s.numel); u += pf_item_step()) {
    pf_i64 x[1];
    pf_offsets<1>(s, static_cast<pf_index>(u), x);
    offsets[u] = x[0];
  }
}
