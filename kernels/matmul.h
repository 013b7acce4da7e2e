// Matrix products of any dtype and strides, on ordinary arithmetic: c = a b + bias, one rounding.
// -DPF_T=<storage> -DTILE_M, -DTILE_N, -DTILE_K, -DREG_M, -DREG_N; -DPF_OUT=pf_i32 for c and bias
// of int8 operands that are not cut. A thread block makes one tile of c, a thread REG_M x REG_N of
// its elements, in the order of k. -DPARTS: up to so many times as many threads, each set with a
// share of k of its own; the sums of the shares are added in their order. -DPF_UNLESS_PARTS: only
// what products of parts cannot do (float_parts.h).
#ifndef PF_OUT
#define PF_OUT PF_T
#endif
#include "matmul_result.h"
#ifdef PF_UNLESS_PARTS
#include "float_parts_fit.h"
#define PF_UNLESS_ARGS , const pf_u32* range
#else
#define PF_UNLESS_ARGS
#endif

#ifndef PARTS
#define PARTS 1
#endif
#define THREADS ((TILE_M / REG_M) * (TILE_N / REG_N))  // of one share of k

typedef pf_compute<PF_T> pf_acc;

// This thread's share of a tile of OUTER x TILE_K elements, into registers; 0 outside the matrix.
// Threads follow each other along the dimension whose stride is 1.
template <int OUTER, int N>
PF_DEVICE void pf_fetch(const PF_T* p, int thread, pf_i64 first, pf_i64 size, pf_i64 stride,
                        pf_i64 k0, pf_i64 k, pf_i64 k_stride, pf_acc (&r)[N]) {
  PF_UNROLL for (int i = 0; i < N; ++i) {
    const int at = i * THREADS + thread;
    const int outer = k_stride == 1 ? at / TILE_K : at % OUTER;
    const int kk = k_stride == 1 ? at % TILE_K : at / OUTER;
    pf_acc v = pf_acc(0);
    if (first + outer < size && k0 + kk < k)
      pf_load<PF_T, 1, false>(p + (first + outer) * stride + (k0 + kk) * k_stride, &v);
    r[i] = v;
  }
}
template <int OUTER, int N>
PF_DEVICE void pf_put(pf_acc (*tile)[OUTER + 1], int thread, pf_i64 k_stride,
                      const pf_acc (&r)[N]) {
  PF_UNROLL for (int i = 0; i < N; ++i) {
    const int at = i * THREADS + thread;
    const int outer = k_stride == 1 ? at / TILE_K : at % OUTER;
    const int kk = k_stride == 1 ? at % TILE_K : at / OUTER;
    tile[kk][outer] = r[i];
  }
}

// `steady`: nobody writes b meanwhile: it may be read before the kernel has waited.
PF_KERNEL(pf_matmul, THREADS* PARTS)
(pf_matmul_args q, pf_i32 steady PF_UNLESS_ARGS PF_EPILOGUE_ARGS) {
  pf_next_may_start();  // first, or pf_begin() comes before it
#ifdef PF_UNLESS_PARTS
  pf_wait_for_earlier();
  if (pf_parts_fit(range)) return;
#endif
  PF_SHARED pf_acc tiles_a[PARTS][TILE_K][TILE_M + 1];
  PF_SHARED pf_acc tiles_b[PARTS][TILE_K][TILE_N + 1];
  const pf_matmul_tile at = pf_matmul_where(q, TILE_M, TILE_N);
  const PF_T* a = static_cast<const PF_T*>(q.a) + at.a;
  const PF_T* b = static_cast<const PF_T*>(q.b) + at.b;
  const int part = PARTS == 1 ? 0 : static_cast<int>(pf_thread() / THREADS),
            thread = static_cast<int>(pf_thread()) - part * THREADS;
  const int row = thread / (TILE_N / REG_N), col = thread % (TILE_N / REG_N);
  const int parts = PARTS == 1 ? 1 : static_cast<int>(pf_threads() / THREADS);
  pf_acc(*tile_a)[TILE_M + 1] = tiles_a[part];
  pf_acc(*tile_b)[TILE_N + 1] = tiles_b[part];
  // Shares of whole tiles: every thread meets every barrier.
  pf_i64 share = q.k;
  if (PARTS > 1) share = ((q.k + parts - 1) / parts + TILE_K - 1) / TILE_K * TILE_K;
  const pf_i64 begin = part * share, end = begin + share < q.k ? begin + share : q.k;
  typedef pf_result<PF_T, PF_OUT> Result;
  constexpr bool FEW = REG_M * REG_N <= 4;  // what goes with all results waits in registers
  Result results[FEW ? REG_M * REG_N : REG_M];
  const auto own_row = [&](int i) PF_INLINE { return row + i * (TILE_M / REG_M); };
  const auto own_col = [&](int j) PF_INLINE { return col + j * (TILE_N / REG_N); };
  const auto load = [&](int r, int c, Result& to) PF_INLINE {
    const pf_i64 m = at.row + r, n = at.col + c;
    if (m < q.m && n < q.n) to.load(q, at.rows + m, n PF_EPILOGUE_PASS);
  };
  const auto finish = [&](int r, int c, pf_acc v, Result& of) PF_INLINE {
    const pf_i64 m = at.row + r, n = at.col + c;
    if (m < q.m && n < q.n) of.finish(q, at.rows + m, n, v PF_EPILOGUE_PASS);
  };
  if (!steady) pf_wait_for_earlier();
  pf_acc next_a[TILE_M * TILE_K / THREADS], next_b[TILE_N * TILE_K / THREADS];
  pf_fetch<TILE_N>(b, thread, at.col, q.n, q.b_col, begin, end, q.b_row, next_b);
  pf_wait_for_earlier();
  pf_fetch<TILE_M>(a, thread, at.row, q.m, q.a_row, begin, end, q.a_col, next_a);
  if (parts > 1) {
    const int e = static_cast<int>(pf_thread());
    if (e < TILE_M * TILE_N) load(e / TILE_N, e % TILE_N, results[0]);
  } else if constexpr (FEW) {
    PF_UNROLL for (int j = 0; j < REG_N; ++j) {
      PF_UNROLL for (int i = 0; i < REG_M; ++i)
          load(own_row(i), own_col(j), results[j * REG_M + i]);
    }
  }
  pf_acc sum[REG_M][REG_N];
  PF_UNROLL for (int i = 0; i < REG_M; ++i) {
    PF_UNROLL for (int j = 0; j < REG_N; ++j) sum[i][j] = pf_acc(0);
  }
  for (pf_i64 k0 = begin; k0 < begin + share; k0 += TILE_K) {
    pf_put<TILE_M>(tile_a, thread, q.a_col, next_a);
    pf_put<TILE_N>(tile_b, thread, q.b_row, next_b);
    pf_barrier();
    if (k0 + TILE_K < end) {
      pf_fetch<TILE_M>(a, thread, at.row, q.m, q.a_row, k0 + TILE_K, end, q.a_col, next_a);
      pf_fetch<TILE_N>(b, thread, at.col, q.n, q.b_col, k0 + TILE_K, end, q.b_row, next_b);
    }
    const pf_i64 left = end - k0;
    const int steps = left < TILE_K ? static_cast<int>(left) : TILE_K;
    PF_STEPS for (int kk = 0; kk < steps; ++kk) {
      pf_acc x[REG_M], y[REG_N];
      PF_UNROLL for (int i = 0; i < REG_M; ++i) x[i] = tile_a[kk][row + i * (TILE_M / REG_M)];
      PF_UNROLL for (int j = 0; j < REG_N; ++j) y[j] = tile_b[kk][col + j * (TILE_N / REG_N)];
      PF_UNROLL for (int i = 0; i < REG_M; ++i) {
        PF_UNROLL for (int j = 0; j < REG_N; ++j) sum[i][j] =
            pf_multiply_add(x[i], y[j], sum[i][j]);
      }
    }
    pf_barrier();
  }
  if (parts == 1) {
    PF_UNROLL for (int j = 0; j < REG_N; ++j) {
      if constexpr (!FEW)
        PF_UNROLL for (int i = 0; i < REG_M; ++i) load(own_row(i), own_col(j), results[i]);
      PF_UNROLL for (int i = 0; i < REG_M; ++i)
          finish(own_row(i), own_col(j), sum[i][j], results[FEW ? j * REG_M + i : i]);
    }
    return;
  }
  // The tiles of a have been read: their place takes the sums.
  constexpr int SIZE = TILE_M * TILE_N;
  static_assert(PARTS == 1 || TILE_K * (TILE_M + 1) >= SIZE, "room for the sums");
  pf_acc* sums = &tiles_a[0][0][0];
  PF_UNROLL for (int i = 0; i < REG_M; ++i) {
    PF_UNROLL for (int j = 0; j < REG_N; ++j)
        sums[part * SIZE + (row + i * (TILE_M / REG_M)) * TILE_N + col + j * (TILE_N / REG_N)] =
            sum[i][j];
  }
  pf_barrier();
  for (int e = static_cast<int>(pf_thread()); e < SIZE; e += parts * THREADS) {
    pf_acc all = sums[e];
    for (int p = 1; p < parts; ++p) all = pf_sum(all, sums[p * SIZE + e]);
    if (e >= parts * THREADS) load(e / TILE_N, e % TILE_N, results[0]);
    finish(e / TILE_N, e % TILE_N, all, results[0]);
  }
}
