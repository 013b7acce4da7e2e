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

// Results of `rows` windows below each other, the first of which begins at line y of the input,
// where `line` points: what two windows share of a line is seen once. A Seen is what windows see of
// a line: load(line, x, whether it is there, p), and best(x, p). AHEAD: the lines of the next
// window are on their way.
enum { SHARE = PF_K > PF_S ? PF_K - PF_S : 0, FRESH = PF_K - SHARE };
template <class Seen>
PF_DEVICE void pf_read_lines(const pf_pool& p, const T* line, pf_i64 pitch, pf_i32 x, pf_i32 y,
                             int count, bool there, Seen* seen) {
  PF_UNROLL for (int j = 0; j < count; ++j) seen[j].load(line + j * pitch, x,
                                                         there && pf_inside(y + j, p.h.in), p);
}
template <class Seen, bool AHEAD>
PF_DEVICE void pf_walk(const pf_pool& p, const T* line, pf_i64 pitch, pf_i32 x, pf_i32 y,
                       pf_i32 rows, pf_index to, pf_index step) {
  pf_best<PF_V> lines[PF_K];
  Seen shared[SHARE ? SHARE : 1], next[FRESH];
  pf_read_lines(p, line, pitch, x, y, SHARE, true, shared);
  y += SHARE;
  line += SHARE * pitch;
  if constexpr (AHEAD) pf_read_lines(p, line, pitch, x, y, FRESH, true, next);
  PF_UNROLL for (int j = 0; j < SHARE; ++j) lines[PF_S + j] = shared[j].best(x, p);
  PF_NO_UNROLL for (pf_i32 row = 0; row < rows; ++row) {
    PF_UNROLL for (int j = 0; j < SHARE; ++j) lines[j] = lines[PF_S + j];
    Seen seen[FRESH];
    if constexpr (AHEAD)
      PF_UNROLL for (int j = 0; j < FRESH; ++j) seen[j] = next[j];
    else
      pf_read_lines(p, line, pitch, x, y, FRESH, true, seen);
    y += PF_S;
    line += PF_S * pitch;
    if constexpr (AHEAD) pf_read_lines(p, line, pitch, x, y, FRESH, row + 1 < rows, next);
    PF_UNROLL for (int j = 0; j < FRESH; ++j) lines[SHARE + j] = seen[j].best(x, p);
    pf_best<PF_V> best = lines[0];
    PF_UNROLL for (int j = 1; j < PF_K; ++j) best.follow(lines[j], j);
    best.store(p, to);
    to += step;
  }
}

// Of PF_S x PF_S pixels' gradient: PER windows in each direction contain some of these pixels, LEAD
// of them begin before the square.
enum { LEAD = (PF_K - 1 - PF_P) / PF_S, PER = (PF_S - 1 + PF_P) / PF_S + LEAD + 1 };
// The tap of the o-th of them that is pixel `i` of a square; or one that there is not.
PF_DEVICE constexpr int pf_tap_of_window(int o, int i) {
  const int tap = i + PF_P - (o - LEAD) * PF_S;
  return tap >= 0 && tap < PF_K ? tap : -1;
}

#endif
