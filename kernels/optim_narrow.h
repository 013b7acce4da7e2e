// What steps of Adam and of gradient descent share: parameters, states and gradients of dtypes of
// their own, float32 parameters beside 16-bit weights, and rounding at random.
//
//   -DPF_T=  -DPF_S=  -DPF_G=  dtypes of parameters, states and gradients
//   -DPF_WEIGHTS=0|1|2  1: the parameters are masters of weights, 2: copies of them are written
//                       where there is an address    -DPF_W=  their dtype
//   -DPF_RANDOM=0|1     16 bits are rounded at random
#ifndef PF_OPTIM_NARROW_H
#define PF_OPTIM_NARROW_H

#include "optim.h"
#if PF_RANDOM
#include "philox.h"
#include "random_rounding.h"
#endif

typedef PF_S S;
typedef PF_G G;
#if PF_WEIGHTS
typedef PF_W Weight;
#else
typedef PF_G Weight;
#endif
constexpr int HAS_WEIGHTS = PF_WEIGHTS != 0;

// Where a weight is not its master rounded it was written by somebody: the master follows.
template <int W, int U>
PF_DEVICE void pf_follow(const void* weights, pf_i64 i, pf_i64 apart, C (&p)[U][W]) {
  if constexpr (PF_WEIGHTS == 1) {
    C w[U][W];
    pf_take<Weight>(weights, i, apart, w);
    PF_UNROLL for (int u = 0; u < U; ++u) {
      C near[W];
      PF_UNROLL for (int j = 0; j < W; ++j) near[j] = p[u][j];
      pf_round<Weight>(near);
      PF_UNROLL for (int j = 0; j < W; ++j) p[u][j] = near[j] == w[u][j] ? p[u][j] : w[u][j];
    }
  }
}
template <int W>
PF_DEVICE void pf_copy_out(void* weights, pf_i64 at, const C (&p)[W]) {
  if (!PF_WEIGHTS || (PF_WEIGHTS == 2 && !weights)) return;
  C near[W];
  PF_UNROLL for (int j = 0; j < W; ++j) near[j] = p[j];
  pf_put<Weight, W, true>(pf_at<Weight>(weights, at), near);
}

#if PF_RANDOM
template <class To>
struct pf_randomly;
template <>
struct pf_randomly<pf_bf16> {
  static PF_METHOD float of(float x, pf_u32 r) { return pf_round_randomly_bf16(x, r); }
};
template <>
struct pf_randomly<pf_f16> {
  static PF_METHOD float of(float x, pf_u32 r) { return pf_round_randomly_f16(x, r); }
};
#endif

struct pf_rounding {
  pf_u64 seed, first;
  // W elements of an array from `at` on: eight from a multiple of eight, or one.
  template <class To, int ARRAY, int W>
  PF_METHOD void put(void* p, pf_i64 at, C (&x)[W]) const {
#if PF_RANDOM
    if constexpr (pf_pairs<To>::exist) {
      const pf_words w = pf_rounding_words(first + static_cast<pf_u64>(at) / 8, ARRAY, seed);
      PF_UNROLL for (int j = 0; j < W; ++j) {
        x[j] = pf_randomly<To>::of(x[j], pf_half_of(w, W == 8 ? j : static_cast<int>(at % 8)));
      }
    }
#endif
    pf_put<To, W, true>(pf_at<To>(p, at), x);
  }
};

#endif
