// Reading by index: advanced indexing (also index_select and embedding), gather, one_hot, searches.
#include "index_error.h"
#include "space.h"

enum { BLOCK = 256 };

#ifndef PF_BYTES
// out [before, points, after], dense; before and after are spaces of the tensor that is read.
// `bytes` of an element, or of a vector of neighbours in `after`.
PF_KERNEL(pf_index_read, BLOCK)
(pf_space before, pf_space after, const pf_i64* offsets, pf_i64 points, pf_i64 per, void* out,
 const void* self, int bytes) {
  const pf_u64 all = static_cast<pf_u64>(before.numel) * static_cast<pf_u64>(points * after.numel);
  for (pf_u64 u = pf_first_item(); u < all; u += pf_item_step()) {
    const pf_index i = static_cast<pf_index>(u);
    const pf_index run = static_cast<pf_index>(after.numel), line = i / run;
    const pf_index b = line / static_cast<pf_index>(points);
    const pf_index point = line - b * static_cast<pf_index>(points);
    pf_i64 x[1], y[1];
    pf_offsets<1>(before, b, x);
    pf_offsets<1>(after, i - line * run, y);
    // Offsets count elements, of which a vector has `per`.
    pf_move_bytes(bytes, out, static_cast<pf_i64>(u), self, (x[0] + offsets[point]) / per + y[0]);
  }
}
#else

// out (dense, of index's shape) = self[.. index ..] along one dimension. Operand 0 of the space is
// the index, 1 the tensor with a step of 0 there. -DPF_VEC: so many neighbours of a row at a time,
// which lie together in the index; `along` is the step of the tensor between them.
#ifndef PF_VEC
#define PF_VEC 1
#endif
PF_KERNEL(pf_gather, BLOCK)
(pf_space s, void* out, const pf_i64* index, const void* self, pf_i64 size, pf_i64 step,
 pf_i64 along, pf_error error) {
  // At a time: every place must be known before its element can be asked for.
  enum { MANY = PF_VEC == 1 ? 4 : 2, WORDS = (PF_BYTES + 3) / 4, LINE = PF_VEC * PF_BYTES };
  const pf_u64 all = static_cast<pf_u64>(s.numel) / PF_VEC, by = pf_item_step();
  for (pf_u64 u = pf_first_item(); u < all; u += MANY * by) {
    pf_i64 at[MANY][2], i[MANY][PF_VEC];
    pf_u32 w[MANY][PF_VEC * WORDS];
    PF_UNROLL for (int k = 0; k < MANY; ++k) {
      const pf_u64 v = u + k * by < all ? u + k * by : u;
      pf_offsets<2>(s, static_cast<pf_index>(v * PF_VEC), at[k]);
      pf_load<pf_i64, PF_VEC, false>(index + at[k][0], i[k]);
    }
    PF_UNROLL for (int k = 0; k < MANY; ++k) {
      PF_UNROLL for (int j = 0; j < PF_VEC; ++j) {
        const pf_i64 from = at[k][1] + j * along + pf_clamped(error, i[k][j], size, true) * step;
        pf_load_words<PF_BYTES, false>(static_cast<const char*>(self) + from * PF_BYTES,
                                       w[k] + j * WORDS);
      }
    }
    PF_UNROLL for (int k = 0; k < MANY; ++k) {
      if (u + k * by >= all) continue;
      char* to = static_cast<char*>(out) + static_cast<pf_i64>(u + k * by) * LINE;
      if constexpr (PF_VEC > 1 && PF_BYTES == 2) {
        PF_UNROLL for (int j = 0; j < PF_VEC / 2; ++j) w[k][j] = w[k][2 * j] | w[k][2 * j + 1]
                                                                                   << 16;
      }
      constexpr int most = LINE < 16 || PF_VEC == 1 ? LINE : 16;
      PF_UNROLL for (int b = 0; b < LINE; b += most)
          pf_store_words<most, false>(to + b, w[k] + b / 4);
    }
  }
}
#endif

// out [n, classes] is zero before.
PF_KERNEL(pf_one_hot, BLOCK)
(pf_space s, pf_i64* out, const pf_i64* index, pf_i64 classes, pf_error error) {
  for (pf_u64 u = pf_first_item(); u < static_cast<pf_u64>(s.numel); u += pf_item_step()) {
    pf_i64 at[1];
    pf_offsets<1>(s, static_cast<pf_index>(u), at);
    out[static_cast<pf_i64>(u) * classes + pf_clamped(error, index[at[0]], classes, false)] = 1;
  }
}

#ifdef PF_T
// How many of the sorted boundaries are below each value (or not above: `right`). NaN counts as
// larger than every number. One row of boundaries for all values, or one for each row of them.
PF_DEVICE bool pf_less(pf_compute<PF_T> x, pf_compute<PF_T> y) {
  return x < y || (y != y && x == x);
}
PF_KERNEL(pf_searchsorted, BLOCK)
(pf_space s, pf_i64* out, const void* values, const void* sorted, pf_i64 n, pf_i64 row,
 pf_i64 row_step, int right) {
  for (pf_u64 u = pf_first_item(); u < static_cast<pf_u64>(s.numel); u += pf_item_step()) {
    pf_i64 at[1];
    pf_offsets<1>(s, static_cast<pf_index>(u), at);
    const pf_compute<PF_T> v = pf_get<PF_T>(values, at[0]);
    const pf_i64 first = static_cast<pf_i64>(u) / row * row_step;
    pf_i64 low = 0, high = n;
    while (low < high) {
      const pf_i64 mid = low + (high - low) / 2;
      const pf_compute<PF_T> m = pf_get<PF_T>(sorted, first + mid);
      if (right ? !pf_less(v, m) : pf_less(m, v))
        low = mid + 1;
      else
        high = mid;
    }
    out[u] = low;
  }
}
#endif
