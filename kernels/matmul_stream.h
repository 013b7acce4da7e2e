// One row times a matrix whose columns are contiguous along k (a linear layer's weight on one
// token): bound by reading the matrix. A warp has whole columns, one after the other, and always a
// part of one on its way into registers. Where nobody writes the matrix meanwhile, the first are on
// their way before the kernels in front of this one have ended: its few blocks find room beside
// theirs.
//
//   -DPF_T=  a float of 4 or 2 bytes    -DWARPS=  of a block
//   -DCHUNKS= of 16 bytes of a part that a lane has
//
// With PF_NORM the row is made by a layer_norm or rms_norm of another one, in each block anew,
// which takes less than a kernel for it, by groups of threads as norm.h has them, and with its
// bits:
//   -DPF_NORM= threads of a group    -DPF_VECS= accesses of one
//   -DPF_RMS=0|1  -DPF_HAS_W=0|1  -DPF_HAS_B=0|1
// and -DPF_KEPT=0|1: some columns also go to a row of another matrix.
//
// A lane adds in the order of k, then lanes are added by halves.
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
// The norm of a row into shared memory; the first block keeps it, and what it found.
PF_DEVICE void pf_stream_norm(const pf_norm& r, char* row) {
  PF_SHARED pf_acc room[PF_MAX_WARPS], room2[PF_MAX_WARPS * pf_norm_of<pf_acc, 1>::SUMS];
  const pf_u32 t = pf_thread() % PF_NORM;
  const pf_i32 vectors = static_cast<pf_i32>(r.vectors);
  pf_vector<PF_T, CHUNK> in[1][PF_VECS], weights[PF_VECS], biases[PF_VECS];
  PF_UNROLL for (int i = 0; i < PF_VECS; ++i) {
    const pf_i32 c = static_cast<pf_i32>(t + i * PF_NORM);
    PF_UNROLL for (int w = 0; w < 4; ++w) in[0][i].w[w] = weights[i].w[w] = biases[i].w[w] = 0;
    if (c >= vectors) continue;
    in[0][i].template load<false>(pf_at<PF_T>(r.x, c * CHUNK));
    if (PF_HAS_W) weights[i].template load<false>(pf_at<PF_T>(r.weight, c * CHUNK));
    if (PF_HAS_B) biases[i].template load<false>(pf_at<PF_T>(r.bias, c * CHUNK));
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
        if constexpr (PF_HAS_W) o[j] = o[j] * weights[i].get(j);
        if constexpr (PF_HAS_B) o[j] = o[j] + biases[i].get(j);
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
  pf_barrier();
}
#else
#define PF_NORM_ARGS
#endif

PF_KERNEL(pf_matmul_stream, WARPS* PF_WARP)
(const pf_matmul_stream_args given PF_NORM_ARGS PF_EPILOGUE_ARGS) {
  pf_next_may_start();
  const pf_matmul_args& q = given.of;
  const pf_i32 t = static_cast<pf_i32>(pf_thread()), lane = t % PF_WARP,
               blocks = static_cast<pf_i32>(pf_blocks()), n = static_cast<pf_i32>(q.n),
               chunks = static_cast<pf_i32>(q.k / CHUNK), step = blocks * WARPS;
  // Neighbouring columns go to different compute units, so that all have about as many.
  pf_i32 column = t / PF_WARP * blocks + static_cast<pf_i32>(pf_block()), part = 0;
  pf_vector<PF_T, CHUNK> b[CHUNKS];
  const auto start = [&]() PF_INLINE {
    const PF_T* from = static_cast<const PF_T*>(q.b) + column * q.b_col;
    PF_UNROLL for (int u = 0; u < CHUNKS; ++u) {
      const pf_i32 i = (part * CHUNKS + u) * PF_WARP + lane;
      PF_UNROLL for (int w = 0; w < 4; ++w) b[u].w[w] = 0;
      if (column < n && i < chunks) b[u].template load<true>(from + static_cast<pf_i64>(i) * CHUNK);
    }
  };
  if (given.steady) start();
  pf_wait_for_earlier();
  if (!given.steady) start();

#ifdef PF_NORM
  PF_SHARED char row[PF_VECS * PF_NORM * 16];
  const pf_i64 place = PF_KEPT ? *kept.place : 0;  // on its way meanwhile
  pf_stream_norm(norm, row);
  PF_T* keep = nullptr;
  if constexpr (PF_KEPT) {
    // Reported by one.
    const pf_i64 at = place < 0 ? place + kept.rows : place;
    if (at >= 0 && at < kept.rows)
      keep = static_cast<PF_T*>(kept.data) + at * kept.step;
    else if (pf_block() == 0 && t == 0)
      pf_bad_index(kept.error, place, -kept.rows, kept.rows);
  }
#else
  const char* row = static_cast<const char*>(q.a);
#endif
  pf_acc sum = pf_acc(0);
  pf_result<PF_T, PF_T> result;
  while (column < n) {
    if (part == 0 && lane == 0) result.load(q, 0, column PF_EPILOGUE_PASS);
    PF_UNROLL for (int u = 0; u < CHUNKS; ++u) {
      const pf_i32 i = (part * CHUNKS + u) * PF_WARP + lane;
      pf_vector<PF_T, CHUNK> a;
      PF_UNROLL for (int w = 0; w < 4; ++w) a.w[w] = 0;
      if (i < chunks) a.template load<false>(row + static_cast<pf_i64>(i) * 16);
      PF_UNROLL for (int e = 0; e < CHUNK; ++e) sum = pf_multiply_add(a.get(e), b[u].get(e), sum);
    }
    const bool whole = part + 1 == given.parts;
    const pf_i32 made = column;
    part = whole ? 0 : part + 1;
    if (whole) column += step;
    start();
    if (!whole) continue;
    PF_UNROLL for (pf_u32 half = PF_WARP / 2; half; half /= 2) sum =
        pf_sum(sum, pf_shuffle_xor(sum, half));
    if (lane == 0) {
      const pf_acc value[1] = {result.finish(q, 0, made, sum PF_EPILOGUE_PASS)};
#ifdef PF_NORM
      const pf_i64 to = made - kept.first;
      if (PF_KEPT && keep && to >= 0 && to < kept.count) pf_store<PF_T, 1, false>(keep + to, value);
#else
      (void)value;
#endif
    }
    sum = pf_acc(0);
  }
}
