// What the host needs to act out matrix instructions (mma.h, matrix_units.h): the elements in a
// lane's words, and one step of a sum. -DPF_TF32=1: units see 10 bits of a float's fraction.
#ifndef PF_ACTED_H
#define PF_ACTED_H
#include "prelude.h"

#if defined(PF_HOST)
template <class T>
PF_DEVICE pf_compute<T> pf_acted_value(const pf_u32* w, int i) {
  constexpr int size = sizeof(T), per = 4 / size;
  pf_u32 b = w[i / per] >> (i % per * 8 * size);
  if (size == 2) b &= 0xffffu;
#if PF_TF32
  if (size == 4) b &= ~0x1fffu;
#endif
  return pf_dtype<T>::decode(b);
}
PF_DEVICE void pf_acted_add(float& c, float a, float b) {
  c += a * b;
}
PF_DEVICE void pf_acted_add(pf_i32& c, pf_i32 a, pf_i32 b) {  // wraps
  c = static_cast<pf_i32>(static_cast<pf_u32>(c) + static_cast<pf_u32>(a) * static_cast<pf_u32>(b));
}
#endif

#endif
