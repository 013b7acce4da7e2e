// What kernels of one row times a matrix (matmul_stream.h) have before their sums: with PF_NORM the
// row is made by a layer_norm or rms_norm of another one, in each block anew, which takes less than
// a kernel for it, by groups of threads as norm.h has them, and with its bits:
//
//   -DPF_NORM= threads of a group    -DPF_VECS= accesses of one
//   -DPF_RMS=0|1  -DPF_HAS_W=0|1  -DPF_HAS_B=0|1
// and -DPF_KEPT=0|1: some columns also go to a row of another matrix.
#ifndef PF_MATMUL_STREAM_ROW_H
#define PF_MATMUL_STREAM_ROW_H
#include "matmul_result.h"
#include "matmul_stream_args.h"
#include "vector.h"
#ifdef PF_NORM
#include "index_error.h"
#include "norm_args.h"
#include "norm_row.h"
#endif

typedef pf_compute<PF_T> pf_acc;
enum { CHUNK = 16 / sizeof(PF_T) };

#ifdef PF_NORM
#define PF_NORM_ARGS , const pf_norm norm, const pf_kept_row kept
// What a thread of a group multiplies by and adds.
struct pf_stream_weights {
  pf_vector<PF_T, CHUNK> weights[PF_VECS], biases[PF_VECS];
  PF_METHOD void load(const pf_norm& r) {
    PF_UNROLL for (int i = 0; i < PF_VECS; ++i) {
      const pf_i32 c = static_cast<pf_i32>(pf_thread() % PF_NORM + i * PF_NORM);
      PF_UNROLL for (int w = 0; w < 4; ++w) weights[i].w[w] = biases[i].w[w] = 0;
      if (c >= static_cast<pf_i32>(r.vectors)) continue;
      if (PF_HAS_W) weights[i].template load<false>(pf_at<PF_T>(r.weight, c * CHUNK));
      if (PF_HAS_B) biases[i].template load<false>(pf_at<PF_T>(r.bias, c * CHUNK));
    }
  }
};

// The norm of a row into shared memory, where it is behind a barrier; the first block keeps it, and
// what it found.
PF_DEVICE void pf_stream_norm(const pf_norm& r, const pf_stream_weights& by, char* row) {
  PF_SHARED pf_acc room[PF_MAX_WARPS], room2[PF_MAX_WARPS * pf_norm_of<pf_acc, 1>::SUMS];
  const pf_u32 t = pf_thread() % PF_NORM;
  const pf_i32 vectors = static_cast<pf_i32>(r.vectors);
  pf_vector<PF_T, CHUNK> in[1][PF_VECS];
  PF_UNROLL for (int i = 0; i < PF_VECS; ++i) {
    const pf_i32 c = static_cast<pf_i32>(t + i * PF_NORM);
    PF_UNROLL for (int w = 0; w < 4; ++w) in[0][i].w[w] = 0;
    if (c < vectors) in[0][i].template load<false>(pf_at<PF_T>(r.x, c * CHUNK));
  }
  pf_norm_of<pf_acc, 1> found;
  found.template find<PF_T, CHUNK, PF_VECS>(in, t, PF_NORM, vectors, static_cast<pf_acc>(r.eps),
                                            room, room2);
  const bool keep = pf_block() == 0;
  if (pf_thread() < PF_NORM) PF_UNROLL for (int i = 0; i < PF_VECS; ++i) {
      const pf_i32 c = static_cast<pf_i32>(t + i * PF_NORM);
      if (c >= vectors) continue;
      pf_acc o[CHUNK];
      PF_UNROLL for (int j = 0; j < CHUNK; ++j) {
        o[j] = found.apply(in[0][i].get(j), 0);
        if constexpr (PF_HAS_W) o[j] = o[j] * by.weights[i].get(j);
        if constexpr (PF_HAS_B) o[j] = o[j] + by.biases[i].get(j);
      }
      pf_round<PF_T>(o);
      pf_store<PF_T, CHUNK, false>(row + c * 16, o);
      if (keep) pf_store<PF_T, CHUNK, false>(pf_at<PF_T>(r.y, c * CHUNK), o);
    }
  if (keep && pf_thread() == 0) {
    if constexpr (!PF_RMS) {
      static_cast<pf_acc*>(r.mean)[0] = found.mean[0];
      static_cast<pf_acc*>(r.mean)[1] = found.rest[0];
    }
    static_cast<pf_acc*>(r.rstd)[0] = found.rstd[0];
  }
}
// The row of the other matrix, or null: a wrong place is reported by one.
PF_DEVICE PF_T* pf_stream_kept(const pf_kept_row& kept, pf_i64 place) {
  const pf_i64 at = place < 0 ? place + kept.rows : place;
  if (at >= 0 && at < kept.rows) return static_cast<PF_T*>(kept.data) + at * kept.step;
  if (pf_block() == 0 && pf_thread() == 0) pf_bad_index(kept.error, place, -kept.rows, kept.rows);
  return nullptr;
}
PF_DEVICE void pf_stream_keep(const pf_kept_row& kept, PF_T* row, pf_i64 column,
                              const pf_acc (&value)[1]) {
  const pf_i64 to = column - kept.first;
  if (row && to >= 0 && to < kept.count) pf_store<PF_T, 1, false>(row + to, value);
}
#else
#define PF_NORM_ARGS
#endif

#endif
