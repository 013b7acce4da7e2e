// Kernels that move elements: copies between any strides, with conversion where dtypes differ.
//   -DPF_TO=type -DPF_FROM=type for a copy that converts, -DPF_BYTES=n for the others
#include "move_args.h"
#include "space.h"

#ifndef PF_BYTES
// `bytes` of a unit, where both sides have one dtype.
PF_KERNEL(pf_copy, 256)(pf_space s, void* out, const void* in, int bytes) {
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(s.numel); i += pf_item_step()) {
    pf_i64 at[2];
    pf_offsets<2>(s, static_cast<pf_index>(i), at);
#ifdef PF_TO
    pf_put<PF_TO>(out, at[0], pf_get<PF_FROM>(in, at[1]));
#else
    pf_move_bytes(bytes, out, at[0], in, at[1]);
#endif
  }
}

// `bytes` of a unit.
PF_KERNEL(pf_cat, 256)(pf_cat_parts q, void* out, int bytes) {
  const pf_index columns = static_cast<pf_index>(q.begin[q.count] - q.begin[0]);
  const pf_u64 all = static_cast<pf_u64>(q.rows) * columns;
  for (pf_u64 i = pf_first_item(); i < all; i += pf_item_step()) {
    const pf_index row = static_cast<pf_index>(i) / columns;
    const pf_i64 column =
        q.begin[0] + static_cast<pf_i64>(static_cast<pf_index>(i) - row * columns);
    int k = 0;
    while (column >= q.begin[k + 1]) ++k;
    const pf_i64 r = static_cast<pf_i64>(row), width = q.begin[k + 1] - q.begin[k];
    pf_move_bytes(bytes, out, r * q.width + column, q.data[k], r * width + column - q.begin[k]);
  }
}
#else
// A transposed plane through shared memory, a square tile at a time: both sides are touched in the
// order of memory, and a thread's loads are all on their way before the first is needed.
// out[r * out_row + c] = in[r + c * in_column], for every plane of `s`.
enum { SIDE = PF_BYTES <= 4 ? 64 : 32 };

PF_KERNEL(pf_transpose, 256)
(pf_space s, void* out, const void* in, pf_i64 rows, pf_i64 columns, pf_i64 out_row,
 pf_i64 in_column, pf_i64 tiles_r, pf_i64 tiles_c) {
  struct cell {
    pf_u32 w[(PF_BYTES + 3) / 4];
  };
  PF_SHARED cell tile[SIDE * (SIDE + 1)];
  constexpr int step = 256 / SIDE, count = SIDE / step;
  const pf_index tiles = static_cast<pf_index>(tiles_r * tiles_c),
                 wide = static_cast<pf_index>(tiles_c);
  const int x = static_cast<int>(pf_thread()) % SIDE, y = static_cast<int>(pf_thread()) / SIDE;
  const pf_u64 all = static_cast<pf_u64>(tiles) * static_cast<pf_u64>(s.numel);
  for (pf_u64 u = pf_block(); u < all; u += pf_blocks()) {
    const pf_index t = static_cast<pf_index>(u), plane = t / tiles, here = t - plane * tiles;
    const pf_index tr = here / wide;
    const pf_i64 r0 = static_cast<pf_i64>(tr) * SIDE,
                 c0 = static_cast<pf_i64>(here - tr * wide) * SIDE;
    pf_i64 at[2];
    pf_offsets<2>(s, plane, at);
    const char* from =
        static_cast<const char*>(in) + (at[1] + r0 + x + (c0 + y) * in_column) * PF_BYTES;
    char* to = static_cast<char*>(out) + (at[0] + (r0 + y) * out_row + c0 + x) * PF_BYTES;
    cell v[count];
    PF_UNROLL for (int k = 0; k < count; ++k) {
      if (r0 + x < rows && c0 + y + k * step < columns)
        pf_load_words<PF_BYTES, false>(from + k * step * in_column * PF_BYTES, v[k].w);
    }
    PF_UNROLL for (int k = 0; k < count; ++k) tile[x * (SIDE + 1) + y + k * step] = v[k];
    pf_barrier();
    PF_UNROLL for (int k = 0; k < count; ++k) {
      if (r0 + y + k * step < rows && c0 + x < columns)
        pf_store_words<PF_BYTES, false>(to + k * step * out_row * PF_BYTES,
                                        tile[(y + k * step) * (SIDE + 1) + x].w);
    }
    pf_barrier();
  }
}

// tril and triu. The last two dimensions are rows and columns; s spans all elements.
PF_KERNEL(pf_triangle, 256)
(pf_space s, void* out, const void* in, pf_i64 rows, pf_i64 columns, pf_i64 diagonal, int upper) {
  const pf_u32 zero[(PF_BYTES + 3) / 4] = {};
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(s.numel); i += pf_item_step()) {
    pf_i64 at[2];
    pf_offsets<2>(s, static_cast<pf_index>(i), at);
    const pf_i64 column = static_cast<pf_i64>(i) % columns;
    const pf_i64 over = column - static_cast<pf_i64>(i) / columns % rows - diagonal;
    if (upper ? over >= 0 : over <= 0)
      pf_move<PF_BYTES>(out, at[0], in, at[1]);
    else
      pf_store_words<PF_BYTES, false>(static_cast<char*>(out) + at[0] * PF_BYTES, zero);
  }
}
#endif
