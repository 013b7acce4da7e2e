// What kernels of small windows over pictures share: windows of PF_K x PF_K, PF_S apart, with a
// padding of PF_P. Results are those of pool.h, bit by bit.
//   -DPF_T=         dtype
//   -DPF_K={2,3} -DPF_S={1,2} -DPF_P={0,1}
//   -DPF_V=         elements of a thread
//   -DPF_KEEP=      1: which element it was, as the number of the tap, is written too
//   -DPF_INDEX=     integers that count elements
#ifndef PF_POOL_WINDOW_H
#define PF_POOL_WINDOW_H

#include "math.h"
#include "pool_args.h"
#include "space.h"
#include "vector.h"

typedef PF_T T;
typedef pf_compute<T> C;

PF_DEVICE bool pf_inside(pf_i32 i, pf_i32 size) {
  return static_cast<pf_u32>(i) < static_cast<pf_u32>(size);
}

// The largest of each of N windows so far, and the tap that it was; -1 before there is one.
template <int N>
struct pf_best {
  C value[N];
  pf_i32 tap[N];
  PF_METHOD void clear() {
    PF_UNROLL for (int i = 0; i < N; ++i) {
      value[i] = -pf_float<C>::infinity();
      tap[i] = -1;
    }
  }
  PF_METHOD void see(int i, C v, int t) {
    if constexpr (PF_KEEP) {
      if (v > value[i] || v != v || tap[i] < 0) {
        value[i] = v;
        tap[i] = t;
      }
    } else {
      value[i] = v > value[i] || v != v ? v : value[i];
    }
  }
  // What line j of the windows has, whose taps are counted from 0.
  PF_METHOD void follow(const pf_best& line, int j) {
    PF_UNROLL for (int i = 0; i < N; ++i) {
      if constexpr (PF_KEEP) {
        const C v = line.value[i];
        if (line.tap[i] >= 0 && (v > value[i] || v != v || tap[i] < 0)) {
          value[i] = v;
          tap[i] = line.tap[i] + j * PF_K;
        }
      } else {
        see(i, line.value[i], 0);
      }
    }
  }
  PF_METHOD void store(const pf_pool& p, pf_index at) {
    pf_store<T, N, false>(static_cast<T*>(p.to) + at, value);
    if constexpr (PF_KEEP) {
      PF_UNROLL for (int i = 0; i < N; ++i) tap[i] &= 255;
      pf_store<pf_u8, N, false>(static_cast<pf_u8*>(p.index) + at, tap);
    }
  }
};

// Of PF_S x PF_S pixels' gradient: PER windows in each direction contain some of these pixels, LEAD
// of them begin before the square.
enum { LEAD = (PF_K - 1 - PF_P) / PF_S, PER = (PF_S - 1 + PF_P) / PF_S + LEAD + 1 };
// The tap of the o-th of them that is pixel `i` of a square; or one that there is not.
PF_DEVICE constexpr int pf_tap_of_window(int o, int i) {
  const int tap = i + PF_P - (o - LEAD) * PF_S;
  return tap >= 0 && tap < PF_K ? tap : -1;
}

#endif
