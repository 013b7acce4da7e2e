// One row times a matrix whose columns are contiguous along k (a linear layer's weight on one
// token): bound by reading the matrix. A warp has whole columns, part by part, and always SLOTS
// parts on their way into shared memory, where each lane copies what it will read itself: nobody
// waits for others. Where nobody writes the matrix meanwhile, the first are on their way before the
// kernels in front of this one have ended, with room for its block beside theirs.
//
//   -DPF_T=  a float of 4 or 2 bytes    -DWARPS=  of a block    -DSLOTS=  of a warp
//   -DCHUNKS= of 16 bytes of a part that a lane has
//   -DWHOLE=0|1  a part is a column: the row stays in registers
//
// A lane adds in the order of k, in a sum for each word of a chunk; then words are added, and lanes
// by halves.
#include "matmul_stream_args.h"
#include "matmul_where.h"
#include "mma.h"
#include "multiply_add.h"
#include "vector.h"

typedef pf_compute<PF_T> pf_acc;
enum { CHUNK = 16 / sizeof(PF_T), SUMS = 4, PART = CHUNKS * PF_WARP * 16, OF_SUM = CHUNK / SUMS };

// What goes with a sum: loaded some time before that is there.
struct pf_stream_after {
  pf_acc bias;
#ifdef PF_EPILOGUE
  pf_after<1> program;
#endif
  PF_METHOD void load(const pf_matmul_args& q, pf_i64 n PF_EPILOGUE_REF) {
    if (q.bias) pf_load<PF_T, 1, false>(static_cast<const PF_T*>(pf_global(q.bias)) + n, &bias);
#ifdef PF_EPILOGUE
    program.load(epilogue, 0, n);
#endif
  }
  PF_METHOD void finish(const pf_matmul_args& q, pf_i64 n, pf_acc sum PF_EPILOGUE_REF) {
    if (q.bias) sum = pf_sum(sum, bias);
    const pf_acc value[1] = {pf_dtype<PF_T>::round(sum)};
    if (pf_result_kept) pf_store<PF_T, 1, false>(static_cast<PF_T*>(pf_global(q.c)) + n, value);
#ifdef PF_EPILOGUE
    program.run(epilogue, 0, n, value);
#endif
  }
};

PF_KERNEL(pf_matmul_stream, WARPS* PF_WARP)(const pf_matmul_stream_args given PF_EPILOGUE_ARGS) {
  pf_next_may_start();
  const pf_matmul_args& q = given.of;
  const pf_i32 t = static_cast<pf_i32>(pf_thread()), lane = t % PF_WARP, warp = t / PF_WARP,
               blocks = static_cast<pf_i32>(pf_blocks()), n = static_cast<pf_i32>(q.n),
               chunks = static_cast<pf_i32>(q.k / CHUNK), step = blocks * WARPS;
  // The row, with zeros behind the end of each part, then the slots of warps.
  const pf_shared_at row = pf_shared_address(pf_dynamic_shared()),
                     mine = row + given.parts * PART + (warp * SLOTS * CHUNKS * PF_WARP + lane) * 16;
  const auto there = [&](pf_i32 part, int u) PF_INLINE {  // whether a lane has that chunk
    const pf_i32 i = u * PF_WARP + lane;
    return i < given.chunks && part * given.chunks + i < chunks;
  };
  // Neighbouring columns go to different compute units, so that all have about as many.
  pf_i32 column = warp * blocks + static_cast<pf_i32>(pf_block()), part = 0;
  pf_i32 next_column = column, next_part = 0;
  const auto start = [&](pf_i32 slot) PF_INLINE {
    if (next_column < n) {
      const PF_T* from = static_cast<const PF_T*>(q.b) + next_column * q.b_col +
                         static_cast<pf_i64>(next_part) * given.chunks * CHUNK;
      PF_UNROLL for (int u = 0; u < CHUNKS; ++u) {
        const bool has = there(next_part, u);
        pf_copy_async(mine + (slot * CHUNKS + u) * (PF_WARP * 16),
                      has ? from + (u * PF_WARP + lane) * CHUNK : from, has ? 16 : 0);
      }
      if (++next_part == given.parts) {
        next_part = 0;
        next_column += step;
      }
    }
    pf_copies_end();
  };
  if (given.steady) PF_UNROLL for (int s = 0; s < SLOTS; ++s) start(s);
  pf_wait_for_earlier();
  if (!given.steady) PF_UNROLL for (int s = 0; s < SLOTS; ++s) start(s);

  pf_vector<PF_T, CHUNK> a[CHUNKS];
  const auto fetch = [&](pf_i32 p, pf_i32 i, pf_vector<PF_T, CHUNK>& to) PF_INLINE {
    PF_UNROLL for (int w = 0; w < 4; ++w) to.w[w] = 0;
    const pf_i32 at = p * given.chunks + i;
    if (i < given.chunks && at < chunks)
      to.template load<false>(static_cast<const PF_T*>(q.a) + static_cast<pf_i64>(at) * CHUNK);
  };
  if constexpr (WHOLE) {
    PF_UNROLL for (int u = 0; u < CHUNKS; ++u) fetch(0, u * PF_WARP + lane, a[u]);
  } else {
    for (pf_i32 p = 0; p < given.parts; ++p)
      for (pf_i32 i = t; i < CHUNKS * PF_WARP; i += WARPS * PF_WARP) {
        fetch(p, i, a[0]);
        pf_store_shared4(row + p * PART + i * 16, a[0].w);
      }
    pf_barrier();
  }
  pf_acc sums[SUMS];
  PF_UNROLL for (int e = 0; e < SUMS; ++e) sums[e] = pf_acc(0);
  pf_stream_after after;
  pf_i32 slot = 0;
  while (column < n) {
    const bool whole = WHOLE || part + 1 == given.parts;
    if (whole && lane == 0) after.load(q, column PF_EPILOGUE_PASS);
    pf_copies_wait<SLOTS - 1>();
    pf_vector<PF_T, CHUNK> b[CHUNKS];
    PF_UNROLL for (int u = 0; u < CHUNKS; ++u)
        pf_load_shared4(mine + (slot * CHUNKS + u) * (PF_WARP * 16), b[u].w);
    PF_UNROLL for (int u = 0; u < CHUNKS; ++u) {
      if constexpr (!WHOLE) pf_load_shared4(row + part * PART + (u * PF_WARP + lane) * 16, a[u].w);
      PF_UNROLL for (int e = 0; e < CHUNK; ++e) sums[e / OF_SUM] =
          pf_multiply_add(a[u].get(e), b[u].get(e), sums[e / OF_SUM]);
    }
    start(slot);
    slot = slot + 1 == SLOTS ? 0 : slot + 1;
    part = whole ? 0 : part + 1;
    if (!whole) continue;
    pf_acc sum = pf_sum(pf_sum(sums[0], sums[1]), pf_sum(sums[2], sums[3]));
    PF_UNROLL for (pf_u32 half = PF_WARP / 2; half; half /= 2) sum =
        pf_sum(sum, pf_shuffle_xor(sum, half));
    if (lane == 0) after.finish(q, column, sum PF_EPILOGUE_PASS);
    PF_UNROLL for (int e = 0; e < SUMS; ++e) sums[e] = pf_acc(0);
    column += step;
  }
}
