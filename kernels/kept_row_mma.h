// Vectors that a thread keeps in shared memory as they lie in global memory, and reads itself. The
// copies go on beside it where there are such instructions (PF_MMA).
#ifndef PF_KEPT_ROW_MMA_H
#define PF_KEPT_ROW_MMA_H

#include "mma.h"
#include "vector.h"

template <class T, int V, bool PAST>
PF_DEVICE void pf_keep(char* to, const void* from) {
  constexpr int bytes = pf_vector<T, V>::bytes, step = bytes < 16 ? bytes : 16;
#ifdef PF_MMA
  if constexpr (step >= 4) {
    PF_UNROLL for (int b = 0; b < bytes; b += step)
        pf_copy_async<step>(pf_shared_address(to + b), static_cast<const char*>(from) + b);
    return;
  }
#endif
  pf_vector<T, V> v;
  v.template load<PAST>(from);
  PF_UNROLL for (int b = 0; b < bytes; b += step) pf_store_words<step, false>(to + b, v.w + b / 4);
}
template <class T, int V>
PF_DEVICE void pf_kept(const char* from, pf_vector<T, V>& v) {
  constexpr int bytes = pf_vector<T, V>::bytes, step = bytes < 16 ? bytes : 16;
#ifdef PF_MMA  // behind the wait for the copies, which a compiler does not move these before
  if constexpr (step >= 4) {
    PF_UNROLL for (int b = 0; b < bytes; b += step) {
      if constexpr (step == 16) {
        pf_load_shared4(pf_shared_address(from + b), v.w + b / 4);
      } else if constexpr (step == 8) {
        float x[2];
        pf_load_shared2(pf_shared_address(from), x);
        PF_UNROLL for (int k = 0; k < 2; ++k) v.w[k] = pf_bits<pf_u32>(x[k]);
      } else {
        v.w[0] = pf_load_shared(pf_shared_address(from));
      }
    }
    return;
  }
#endif
  PF_UNROLL for (int b = 0; b < bytes; b += step) pf_load_words<step, false>(from + b, v.w + b / 4);
}
// The end of a round of copies; until all but the last AHEAD rounds have arrived.
PF_DEVICE void pf_keep_end() {
#ifdef PF_MMA
  pf_copies_end();
#endif
}
template <int AHEAD>
PF_DEVICE void pf_keep_wait() {
#ifdef PF_MMA
  pf_copies_wait<AHEAD>();
#endif
}

#endif
