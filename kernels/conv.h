// Convolutions and their gradients of any dtype, strides and layout, as products whose one operand
// is gathered while it is read (conv_args.h): a thread block makes a tile of the result, a thread
// REG x REG of its elements, in the order of k. Where k is long and results are few it is cut into
// shares, whose sums are added in their order.
//   -DPF_T=         dtype
//   -DPF_OF_WEIGHT= 1: m counts taps and k pixels (the gradient by the weight); 0: the other way
//   -DTILE_N= -DREG=
//   -DPF_FAST_M=    1: neighbours in m are neighbours in memory, of what is gathered; 0: in k
//   -DPF_FAST_N=    1: neighbours in n are neighbours in memory, of what is plain; 0: in k
//   -DPF_UNLESS_PARTS: only what products of parts cannot do (float_parts.h)
//   and what conv_places.h takes
#include "axes.h"
#include "conv_places.h"
#ifdef PF_UNLESS_PARTS
#include "float_parts_fit.h"
#define PF_UNLESS_ARGS , const pf_u32* range
#else
#define PF_UNLESS_ARGS
#endif
#include "multiply_add.h"
#include "rows.h"

enum { TILE_M = 64, TILE_K = 16, THREADS = TILE_M * TILE_N / (REG * REG) };
typedef PF_T T;
typedef pf_compute<T> C;

PF_DEVICE pf_spot pf_row(const pf_conv& q, pf_i64 m) {
  if (m >= q.m) return pf_nowhere();
  return PF_OF_WEIGHT ? pf_tap(q, static_cast<pf_number>(m))
                      : pf_pixel(q, static_cast<pf_number>(m));
}
PF_DEVICE pf_spot pf_term(const pf_conv& q, pf_i64 k, pf_i64 end) {
  if (k >= end) return pf_nowhere();
  return PF_OF_WEIGHT ? pf_pixel(q, static_cast<pf_number>(k))
                      : pf_tap(q, static_cast<pf_number>(k));
}
// Which line of OUTER x TILE_K elements, and which k in it, item i of a tile is.
template <int OUTER, bool FAST>
PF_DEVICE void pf_split(int i, int& line, int& k) {
  line = FAST ? i % OUTER : i / TILE_K;
  k = FAST ? i / OUTER : i % TILE_K;
}

PF_KERNEL(pf_conv_tiles, THREADS)(pf_conv q PF_UNLESS_ARGS) {
#ifdef PF_UNLESS_PARTS
  if (pf_parts_fit(range)) return;
#endif
  PF_SHARED C tile_a[TILE_K][TILE_M + 1];
  PF_SHARED C tile_b[TILE_K][TILE_N + 1];
  PF_SHARED pf_spot rows[TILE_M];
  PF_SHARED pf_spot terms[TILE_K];
  constexpr int OF_A = TILE_M * TILE_K / THREADS, OF_B = TILE_N * TILE_K / THREADS;
  const int thread = static_cast<int>(pf_thread());
  pf_u32 block = pf_block();
  const auto next = [&](pf_i64 size) PF_INLINE {
    const pf_u32 n = static_cast<pf_u32>(size), rest = block / n, at = block - rest * n;
    block = rest;
    return static_cast<pf_i64>(at);
  };
  const pf_i64 first_n = next(q.tiles_n) * TILE_N, first_m = next(q.tiles_m) * TILE_M,
               group = next(q.groups), part = block, begin = part * q.share,
               end = begin + q.share < q.k ? begin + q.share : q.k;
  const void* gathered = pf_at<T>(q.gathered, group * q.group);
  const void* plain = pf_at<T>(q.plain, group * q.plain_group);
  C sum[REG][REG], a[OF_A], b[OF_B];
  PF_UNROLL for (int i = 0; i < REG; ++i) {
    PF_UNROLL for (int j = 0; j < REG; ++j) sum[i][j] = C(0);
  }
  const auto find = [&](pf_i64 k0) PF_INLINE {
    for (int i = thread; i < TILE_K; i += THREADS) terms[i] = pf_term(q, k0 + i, end);
  };
  const auto fetch = [&](pf_i64 k0) PF_INLINE {
    PF_UNROLL for (int i = 0; i < OF_A; ++i) {
      int m, k;
      pf_split<TILE_M, PF_FAST_M>(i * THREADS + thread, m, k);
      a[i] = pf_meet(q, rows[m], terms[k])
                 ? pf_get_one<T>(gathered, rows[m].gathered + terms[k].gathered)
                 : C(0);
    }
    PF_UNROLL for (int i = 0; i < OF_B; ++i) {
      int n, k;
      pf_split<TILE_N, PF_FAST_N>(i * THREADS + thread, n, k);
      b[i] = first_n + n < q.n && k0 + k < end
                 ? pf_get_one<T>(plain, (first_n + n) * q.plain_n + terms[k].other)
                 : C(0);
    }
  };
  for (int i = thread; i < TILE_M; i += THREADS) rows[i] = pf_row(q, first_m + i);
  find(begin);
  pf_barrier();
  fetch(begin);
  pf_barrier();
  constexpr int ROWS = TILE_M / REG, COLS = TILE_N / REG;
  constexpr bool down = PF_OF_WEIGHT || PF_FAST_M;  // neighbours of a column are in neighbours
  const int row = down ? thread % ROWS : thread / COLS, col = down ? thread / ROWS : thread % COLS;
  for (pf_i64 k0 = begin; k0 < end; k0 += TILE_K) {
    PF_UNROLL for (int i = 0; i < OF_A; ++i) {
      int m, k;
      pf_split<TILE_M, PF_FAST_M>(i * THREADS + thread, m, k);
      tile_a[k][m] = a[i];
    }
    PF_UNROLL for (int i = 0; i < OF_B; ++i) {
      int n, k;
      pf_split<TILE_N, PF_FAST_N>(i * THREADS + thread, n, k);
      tile_b[k][n] = b[i];
    }
    find(k0 + TILE_K);
    pf_barrier();
    if (k0 + TILE_K < end) fetch(k0 + TILE_K);
    PF_STEPS for (int k = 0; k < TILE_K; ++k) {
      C x[REG], y[REG];
      PF_UNROLL for (int i = 0; i < REG; ++i) x[i] = tile_a[k][row + i * ROWS];
      PF_UNROLL for (int j = 0; j < REG; ++j) y[j] = tile_b[k][col + j * COLS];
      PF_UNROLL for (int i = 0; i < REG; ++i) {
        PF_UNROLL for (int j = 0; j < REG; ++j) sum[i][j] = pf_multiply_add(x[i], y[j], sum[i][j]);
      }
    }
    pf_barrier();
  }
  PF_UNROLL for (int j = 0; j < REG; ++j) {
    const pf_i64 n = first_n + col + j * COLS;
    if (n >= q.n) continue;
    const C bias = q.bias ? pf_get_one<T>(q.bias, group * q.n + n) : C(0);
    PF_UNROLL for (int i = 0; i < REG; ++i) {
      const int m = row + i * ROWS;
      if (first_m + m >= q.m) continue;
      if (q.shares > 1)
        static_cast<C*>(q.partial)[((part * q.groups + group) * q.n + n) * q.m + first_m + m] =
            sum[i][j];
      else
        pf_put_one<T>(q.out, group * q.out_group + rows[m].other + n * q.out_n,
                      pf_sum(sum[i][j], bias));
    }
  }
}
