// a * b + c with one rounding; integers wrap.
#ifndef PF_MULTIPLY_ADD_H
#define PF_MULTIPLY_ADD_H
#include "math.h"

PF_DEVICE float pf_multiply_add(float a, float b, float c) {
  return pf_fma(a, b, c);
}
PF_DEVICE double pf_multiply_add(double a, double b, double c) {
  return pf_fma(a, b, c);
}
PF_DEVICE pf_i32 pf_multiply_add(pf_i32 a, pf_i32 b, pf_i32 c) {
  return static_cast<pf_i32>(static_cast<pf_u32>(a) * static_cast<pf_u32>(b) +
                             static_cast<pf_u32>(c));
}
PF_DEVICE pf_i64 pf_multiply_add(pf_i64 a, pf_i64 b, pf_i64 c) {
  return static_cast<pf_i64>(static_cast<pf_u64>(a) * static_cast<pf_u64>(b) +
                             static_cast<pf_u64>(c));
}

template <class C>
PF_DEVICE C pf_sum(C a, C b) {
  return pf_multiply_add(C(1), a, b);
}

#endif
