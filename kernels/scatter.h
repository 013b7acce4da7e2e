// Writing by index. What meets in one place is combined in the order of the indices, as on the
// CPU: one thread goes through all that meets. Either each lane (a position in the dimensions that
// are not indexed) goes through its indices, or the indices were sorted by their place before and
// each group of equal ones is gone through, for every lane.
//   -DTYPE=type -DMODE=0 assign, 1 add, 2 multiply, 3 max, 4 min
#include "index_error.h"
#include "space.h"

enum { BLOCK = 256 };
typedef pf_compute<PF_T> pf_value;

PF_DEVICE pf_value pf_combine(pf_value x, pf_value y) {
#if PF_MODE == 1
  return pf_dtype<PF_T>::round(static_cast<pf_value>(x + y));
#elif PF_MODE == 2
  return pf_dtype<PF_T>::round(static_cast<pf_value>(x * y));
#elif PF_MODE == 3  // NaN wins
  return x > y || x != x ? x : y;
#elif PF_MODE == 4
  return x < y || x != x ? x : y;
#else
  return y;
#endif
}

// Operands of the space of lanes: out, index, src.
PF_KERNEL(pf_scatter, BLOCK)
(pf_space s, void* out, const pf_i64* index, const void* src, pf_i64 length, pf_i64 size,
 pf_i64 out_step, pf_i64 index_step, pf_i64 src_step, pf_i64 skip, pf_error error) {
  for (pf_u64 u = pf_first_item(); u < static_cast<pf_u64>(s.numel); u += pf_item_step()) {
    pf_i64 at[3];
    pf_offsets<3>(s, static_cast<pf_index>(u), at);
    for (pf_i64 j = 0; j < length; ++j) {
      const pf_i64 i = index[at[1] + j * index_step];
      if (i == skip) continue;
      const pf_i64 place = i < 0 ? i + size : i;
      if (place < 0 || place >= size) {
        pf_bad_index(error, i, size);
        continue;
      }
      const pf_i64 to = at[0] + place * out_step;
      const pf_value y = pf_get<PF_T>(src, at[2] + j * src_step);
      pf_value v = y;
      if (PF_MODE != 0) v = pf_combine(pf_get<PF_T>(out, to), y);
      pf_put<PF_T>(out, to, v);
    }
  }
}

// Points sorted by where they write: keys are offsets, wrong ones ~0 at the end. Operands of the
// space of lanes: out, src. `from`: where the point's values begin, or null: point * src_step.
PF_KERNEL(pf_scatter_sorted, BLOCK)
(pf_space s, void* out, const void* src, const pf_u64* keys, const pf_i64* point, pf_i64 points,
 const pf_i64* from, pf_i64 src_step) {
  const pf_u64 all = static_cast<pf_u64>(s.numel) * static_cast<pf_u64>(points);
  for (pf_u64 u = pf_first_item(); u < all; u += pf_item_step()) {
    const pf_i64 k = static_cast<pf_i64>(u / static_cast<pf_u64>(s.numel));
    const pf_u64 key = keys[k];
    if (key == ~pf_u64(0) || (k > 0 && keys[k - 1] == key)) continue;
    pf_i64 at[2];
    pf_offsets<2>(s, static_cast<pf_index>(u % static_cast<pf_u64>(s.numel)), at);
    const pf_i64 to = at[0] + static_cast<pf_i64>(key);
    pf_value v = pf_value(0);
    if (PF_MODE != 0) v = pf_get<PF_T>(out, to);
    for (pf_i64 i = k; i < points && keys[i] == key; ++i) {
      const pf_i64 p = point[i];
      v = pf_combine(v, pf_get<PF_T>(src, at[1] + (from ? from[p] : p * src_step)));
    }
    pf_put<PF_T>(out, to, v);
  }
}
