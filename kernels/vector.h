// V elements in words, as memory has them: raw vectors wait in registers.
#ifndef PF_VECTOR_H
#define PF_VECTOR_H

#include "prelude.h"

template <class T, int V>
struct pf_vector {
  enum { bytes = V * static_cast<int>(sizeof(T)), words = (bytes + 3) / 4 };
  pf_u32 w[words];
  template <bool PAST>
  PF_METHOD void load(const void* p) {
    constexpr int step = bytes < 16 ? bytes : 16;
    PF_UNROLL for (int b = 0; b < bytes; b += step)
        pf_load_words<step, PAST>(static_cast<const char*>(p) + b, w + b / 4);
  }
  PF_METHOD pf_compute<T> get(int i) const {
    constexpr int size = sizeof(T);
    if constexpr (size == 8)
      return pf_dtype<T>::decode(static_cast<pf_u64>(w[2 * i + 1]) << 32 | w[2 * i]);
    else
      return pf_dtype<T>::decode(w[i * size / 4] >> (8 * (i * size % 4)));
  }
  // Of values that are rounded to T.
  PF_METHOD void set(const pf_compute<T> (&x)[V]) {
    constexpr int size = sizeof(T);
    PF_UNROLL for (int k = 0; k < words; ++k) w[k] = 0;
    PF_UNROLL for (int i = 0; i < V; ++i) {
      if constexpr (size == 8) {
        const pf_u64 b = pf_dtype<T>::encode(x[i]);
        w[2 * i] = static_cast<pf_u32>(b);
        w[2 * i + 1] = static_cast<pf_u32>(b >> 32);
      } else {
        w[i * size / 4] |= static_cast<pf_u32>(pf_dtype<T>::encode(x[i])) << (8 * (i * size % 4));
      }
    }
  }
};

#endif
