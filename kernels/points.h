// Where indices point to, and keys for sorting points by the place that they write: see scatter.h.
// With the sort itself: one program for them all.
#include "index_error.h"
#include "points_args.h"
#include "radix.h"
#include "space.h"

// Where each point is, in elements. PLACES (writing): -1 for a wrong index, which is not clamped.
PF_KERNEL(pf_points, BLOCK)
(pf_indices q, pf_i64* offsets, int wrap, int places, pf_error error) {
  for (pf_u64 u = pf_first_item(); u < static_cast<pf_u64>(q.points); u += pf_item_step()) {
    pf_i64 sum = 0;
    for (pf_i64 k = 0; k < q.count; ++k) {
      pf_i64 rest = static_cast<pf_i64>(u), at = 0;
      for (pf_i64 d = q.ndim - 1; d >= 0; --d) {
        at += rest % q.shape[d] * q.strides[k][d];
        rest /= q.shape[d];
      }
      pf_i64 i = static_cast<const pf_i64*>(q.data[k])[at];
      if (places) {
        i = pf_written_place(error, i, q.size[k], PF_LONG_MIN, true);
        if (i < 0) {
          sum = -1;
          continue;
        }
      } else {
        i = pf_clamped(error, i, q.size[k], wrap != 0);
      }
      if (sum >= 0) sum += i * q.step[k];
    }
    offsets[u] = sum;
  }
}

// Of offsets in elements, multiples of `unit`; -1 for a point that is not written.
PF_KERNEL(pf_point_keys, BLOCK)
(const pf_i64* offsets, pf_i64 unit, pf_u64* keys, pf_i64* at, pf_i64 n) {
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(n); i += pf_item_step()) {
    keys[i] = static_cast<pf_u64>(offsets[i] < 0 ? offsets[i] : offsets[i] / unit);
    at[i] = static_cast<pf_i64>(i);
  }
}
// Of indices along one dimension.
PF_KERNEL(pf_index_keys, BLOCK)
(const pf_i64* index, pf_i64 index_step, pf_i64 n, pf_i64 size, pf_i64 skip, int wrap, pf_u64* keys,
 pf_i64* at, pf_error error) {
  for (pf_u64 u = pf_first_item(); u < static_cast<pf_u64>(n); u += pf_item_step()) {
    const pf_i64 i = index[static_cast<pf_i64>(u) * index_step];
    keys[u] = static_cast<pf_u64>(pf_written_place(error, i, size, skip, wrap != 0));
    at[u] = static_cast<pf_i64>(u);
  }
}
// Of indices along one dimension of many lanes (operands of the space: out, index, src): point
// lane * length + j, and where its value is.
PF_KERNEL(pf_lane_keys, BLOCK)
(pf_space s, const pf_i64* index, pf_i64 length, pf_i64 size, pf_i64 out_step, pf_i64 index_step,
 pf_i64 src_step, pf_i64 skip, pf_u64* keys, pf_i64* at, pf_i64* from, pf_error error) {
  const pf_u64 all = static_cast<pf_u64>(s.numel) * static_cast<pf_u64>(length);
  for (pf_u64 u = pf_first_item(); u < all; u += pf_item_step()) {
    const pf_i64 j = static_cast<pf_i64>(u) % length;
    pf_i64 x[3];
    pf_offsets<3>(s, static_cast<pf_index>(static_cast<pf_i64>(u) / length), x);
    const pf_i64 place = pf_written_place(error, index[x[1] + j * index_step], size, skip, true);
    keys[u] = static_cast<pf_u64>(place < 0 ? place : x[0] + place * out_step);
    at[u] = static_cast<pf_i64>(u);
    from[u] = x[2] + j * src_step;
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
