// Several tensors over one iteration space, and single elements of any dtype.
//   -DPF_INDEX=pf_u32 or pf_u64   what positions are calculated in
#ifndef PF_SPACE_H
#define PF_SPACE_H

#include "prelude.h"
#include "space_args.h"

typedef PF_INDEX pf_index;

// Where element i is, in elements from the start of each operand.
template <int N>
PF_DEVICE void pf_offsets(const pf_space& s, pf_index i, pf_i64 (&at)[N]) {
  PF_UNROLL for (int k = 0; k < N; ++k) at[k] = 0;
  const auto step = [&](int d) PF_INLINE {
    const pf_index size = static_cast<pf_index>(s.shape[d]), rest = i / size;
    const pf_i64 here = static_cast<pf_i64>(i - rest * size);
    PF_UNROLL for (int k = 0; k < N; ++k) at[k] += here * s.strides[k][d];
    i = rest;
  };
  if constexpr (sizeof(pf_index) == 4)
    PF_NO_UNROLL for (int d = s.ndim - 1; d > 0; --d) step(d);
  else  // a division is a call there: registers would be spilled around one in a loop
    for (int d = s.ndim - 1; d > 0; --d) step(d);
  PF_UNROLL for (int k = 0; k < N; ++k) at[k] += static_cast<pf_i64>(i) * s.strides[k][0];
}

// Each thread takes every (threads of the grid)th item, beginning with its own number.
PF_DEVICE pf_u64 pf_first_item() {
  return static_cast<pf_u64>(pf_block()) * pf_threads() + pf_thread();
}
PF_DEVICE pf_u64 pf_item_step() {
  return static_cast<pf_u64>(pf_blocks()) * pf_threads();
}

template <class T>
PF_DEVICE pf_compute<T> pf_get(const void* p, pf_i64 i) {
  pf_compute<T> x;
  pf_load<T, 1, false>(static_cast<const T*>(p) + i, &x);
  return x;
}
// Converted and rounded to T.
template <class T, class C>
PF_DEVICE void pf_put(void* p, pf_i64 i, C v) {
  const pf_compute<T> x = pf_dtype<T>::round(pf_cast<pf_compute<T>>(v));
  pf_store<T, 1, false>(static_cast<T*>(p) + i, &x);
}

// BYTES of an element whose dtype does not matter.
template <int BYTES>
PF_DEVICE void pf_move(void* to, pf_i64 i, const void* from, pf_i64 j) {
  pf_u32 w[(BYTES + 3) / 4];
  pf_load_words<BYTES, false>(static_cast<const char*>(from) + j * BYTES, w);
  pf_store_words<BYTES, false>(static_cast<char*>(to) + i * BYTES, w);
}
// The same where only the launch knows how many: 1, 2, 4, 8 or 16, alike for all threads.
PF_DEVICE void pf_move_bytes(int bytes, void* to, pf_i64 i, const void* from, pf_i64 j) {
  if (bytes == 16)
    pf_move<16>(to, i, from, j);
  else if (bytes == 8)
    pf_move<8>(to, i, from, j);
  else if (bytes == 4)
    pf_move<4>(to, i, from, j);
  else if (bytes == 2)
    pf_move<2>(to, i, from, j);
  else
    pf_move<1>(to, i, from, j);
}

#endif
