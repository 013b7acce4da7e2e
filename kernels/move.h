// Kernels that move elements: copies between any strides, with conversion where dtypes differ.
//   -DPF_BYTES=n, or -DPF_TO=type -DPF_FROM=type
#include "space.h"

PF_DEVICE void pf_move_one(void* out, pf_i64 i, const void* in, pf_i64 j) {
#ifdef PF_BYTES
  pf_move<PF_BYTES>(out, i, in, j);
#else
  pf_put<PF_TO>(out, i, pf_get<PF_FROM>(in, j));
#endif
}

PF_KERNEL(pf_copy, 256)(pf_space s, void* out, const void* in) {
  for (pf_u64 i = pf_first_item(); i < static_cast<pf_u64>(s.numel); i += pf_item_step()) {
    pf_i64 at[2];
    pf_offsets<2>(s, static_cast<pf_index>(i), at);
    pf_move_one(out, at[0], in, at[1]);
  }
}

#ifdef PF_BYTES
// A transposed plane through shared memory, 32 x 32 elements at a time: both sides are touched in
// the order of memory. out[r * out_row + c] = in[r + c * in_column], for every plane of `s`.
PF_KERNEL(pf_transpose, 256)
(pf_space s, void* out, const void* in, pf_i64 rows, pf_i64 columns, pf_i64 out_row,
 pf_i64 in_column) {
  struct cell {
    pf_u32 w[(PF_BYTES + 3) / 4];
  };
  PF_SHARED cell tile[32 * 33];
  const pf_i64 tiles_c = (columns + 31) / 32, tiles = (rows + 31) / 32 * tiles_c;
  const pf_u32 x = pf_thread() % 32, y = pf_thread() / 32;
  for (pf_i64 t = pf_block(); t < tiles * s.numel; t += pf_blocks()) {
    pf_i64 at[2];
    pf_offsets<2>(s, static_cast<pf_index>(t / tiles), at);
    const pf_i64 r0 = t % tiles / tiles_c * 32, c0 = t % tiles_c * 32;
    for (pf_u32 k = y; k < 32; k += 8)
      if (r0 + x < rows && c0 + k < columns)
        pf_load_words<PF_BYTES, false>(
            static_cast<const char*>(in) + (at[1] + r0 + x + (c0 + k) * in_column) * PF_BYTES,
            tile[x * 33 + k].w);
    pf_barrier();
    for (pf_u32 k = y; k < 32; k += 8)
      if (r0 + k < rows && c0 + x < columns)
        pf_store_words<PF_BYTES, false>(
            static_cast<char*>(out) + (at[0] + (r0 + k) * out_row + c0 + x) * PF_BYTES,
            tile[k * 33 + x].w);
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
