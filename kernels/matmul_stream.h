// One row times a matrix whose columns are contiguous along k (a linear layer's weight on one
// token): bound by reading the matrix. A warp has whole columns, one after the other, and always a
// part of one on its way into registers. Where nobody writes the matrix meanwhile, the first are on
// their way before the kernels in front of this one have ended: its few blocks find room beside
// theirs.
//
//   -DPF_T=  a float of 4 or 2 bytes    -DWARPS=  of a block
//   -DCHUNKS= of 16 bytes of a part that a lane has
//
// PF_NORM and what belongs to it: matmul_stream_row.h.
//
// A lane adds in the order of k, then lanes are added by halves.
#include "matmul_stream_row.h"

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
  if (given.steady & PF_STEADY_B) start();
  pf_wait_for_earlier();
  if (!(given.steady & PF_STEADY_B)) start();

#ifdef PF_NORM
  PF_SHARED char row[PF_VECS * PF_NORM * 16];
  const pf_i64 place = PF_KEPT ? *kept.place : 0;  // on its way meanwhile
  pf_stream_weights by;
  by.load(norm);
  pf_stream_norm(norm, by, row);
  pf_barrier();
  PF_T* keep = PF_KEPT ? pf_stream_kept(kept, place) : nullptr;
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
      if constexpr (PF_KEPT) pf_stream_keep(kept, keep, made, value);
#else
      (void)value;
#endif
    }
    sum = pf_acc(0);
  }
}
