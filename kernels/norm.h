// layer_norm and rms_norm over rows of contiguous tensors: rows that stay in the registers of a
// group of threads, several of them at a time. Longer ones: norm_long.h; gradients:
// norm_backward.h. Programs around them join: the one before makes x.
//
//   -DPF_T=  dtype    -DPF_V=  elements of one access; divides the length of rows
//   -DPF_W= -DPF_B=   dtypes of weight and bias      -DPF_HAS_W=0|1 -DPF_HAS_B=0|1
//   -DPF_RMS=0|1      rms_norm
//   -DPF_PAST=0|1     the tensors are larger than caches
//   -DPF_VECS=        accesses of one thread         -DPF_ROWS=  rows of a group at a time
//   -DPF_WHOLE=0|1    rows.h
//   -DPF_FEW=0|1      few rows: all that a thread reads is on its way at once
#include "norm_args.h"
#include "norm_row.h"

typedef PF_T T;
typedef PF_W W;
typedef PF_B B;
typedef pf_compute<T> C;
constexpr int V = PF_V, VECS = PF_VECS, ROWS = PF_ROWS;
typedef pf_vector<T, V> Vector;

#define PF_ROW_THREADS 512

PF_KERNEL(norm_rows, PF_ROW_THREADS)(const pf_norm r PF_AROUND_ARGS) {
  pf_next_may_start();
  PF_SHARED C room[PF_MAX_WARPS * ROWS], room2[PF_MAX_WARPS * pf_norm_of<C, ROWS>::SUMS];
  const pf_u32 t = pf_thread() % r.width;
  const pf_i64 first =
      (static_cast<pf_i64>(pf_block()) * (pf_threads() / r.width) + pf_thread() / r.width) * ROWS;
  const pf_i32 vectors = static_cast<pf_i32>(r.vectors);
  const pf_i64 cols = r.vectors * V;
  Vector in[ROWS][VECS];
  pf_input<T, V, PF_PAST> from[ROWS][VECS];
  pf_vector<W, V> weights[VECS];
  pf_vector<B, V> biases[VECS];
  if constexpr (PF_FEW) PF_UNROLL for (int i = 0; i < VECS; ++i) {
      const pf_i32 c = static_cast<pf_i32>(t + i * r.width);
      if (PF_HAS_W && pf_has(c, vectors)) pf_prefetch(pf_at<W>(r.weight, c * V));
      if (PF_HAS_B && pf_has(c, vectors)) pf_prefetch(pf_at<B>(r.bias, c * V));
    }
  pf_wait_for_earlier();
  PF_UNROLL for (int k = 0; k < ROWS; ++k) PF_UNROLL for (int i = 0; i < VECS; ++i) {
    const pf_i32 c = static_cast<pf_i32>(t + i * r.width);
    if (pf_has(first + k, r.rows) && pf_has(c, vectors))
      from[k][i].load(in[k][i], r.x, first + k, cols, c * V PF_PROLOGUE_PASS);
    else
      PF_UNROLL for (int j = 0; j < Vector::words; ++j) in[k][i].w[j] = 0;
  }
  if constexpr (PF_FEW) PF_UNROLL for (int i = 0; i < VECS; ++i) {
      const pf_i32 c = static_cast<pf_i32>(t + i * r.width);
      if (PF_HAS_W && pf_has(c, vectors))
        weights[i].template load<false>(pf_at<W>(r.weight, c * V));
      if (PF_HAS_B && pf_has(c, vectors)) biases[i].template load<false>(pf_at<B>(r.bias, c * V));
    }
  PF_UNROLL for (int k = 0; k < ROWS; ++k) PF_UNROLL for (int i = 0; i < VECS; ++i) {
    const pf_i32 c = static_cast<pf_i32>(t + i * r.width);
    if (pf_has(first + k, r.rows) && pf_has(c, vectors))
      from[k][i].make(in[k][i], first + k, c * V PF_PROLOGUE_PASS);
  }
  pf_norm_of<C, ROWS> found;
  found.template find<T, V, VECS>(in, t, r.width, vectors, static_cast<C>(r.eps), room, room2);
  PF_UNROLL for (int i = 0; i < VECS; ++i) {
    const pf_i32 c = static_cast<pf_i32>(t + i * r.width);
    if (!pf_has(c, vectors)) continue;
    pf_compute<W> w[V];
    pf_compute<B> b[V];
    if constexpr (PF_FEW) {
      PF_UNROLL for (int j = 0; j < V; ++j) {
        if constexpr (PF_HAS_W) w[j] = weights[i].get(j);
        if constexpr (PF_HAS_B) b[j] = biases[i].get(j);
      }
    } else {
      if constexpr (PF_HAS_W) pf_load<W, V, false>(pf_at<W>(r.weight, c * V), w);
      if constexpr (PF_HAS_B) pf_load<B, V, false>(pf_at<B>(r.bias, c * V), b);
    }
    PF_UNROLL for (int k = 0; k < ROWS; ++k) {
      if (!pf_has(first + k, r.rows)) continue;
      C o[V];
      PF_UNROLL for (int j = 0; j < V; ++j) {
        o[j] = found.apply(in[k][i].get(j), k);
        if constexpr (PF_HAS_W) o[j] = o[j] * static_cast<C>(w[j]);
        if constexpr (PF_HAS_B) o[j] = o[j] + static_cast<C>(b[j]);
      }
      pf_output<T, V, PF_PAST> out;
      out.load(first + k, c * V PF_EPILOGUE_PASS);
      out.put(r.y, first + k, cols, c * V, o PF_EPILOGUE_PASS);
    }
  }
  if (t == 0) PF_UNROLL for (int k = 0; k < ROWS; ++k) if (first + k < r.rows) {
      if constexpr (!PF_RMS) {
        static_cast<C*>(r.mean)[2 * (first + k)] = found.mean[k];
        static_cast<C*>(r.mean)[2 * (first + k) + 1] = found.rest[k];
      }
      static_cast<C*>(r.rstd)[first + k] = found.rstd[k];
    }
}
