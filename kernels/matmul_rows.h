// A few rows times a matrix whose columns are contiguous along k (a linear layer's weight): bound
// by reading the matrix, so each element of it is read once, 16 bytes at a time. -DPF_T=<storage>,
// -DROWS: of a, in a tile of c; -DCOLUMNS, whose k the -DWARPS of a block share. A thread adds in
// the order of k, then lanes by halves, then warps in their order: a row has the same bits however
// many there are.
#include "matmul_result.h"
#include "vector.h"

typedef pf_compute<PF_T> pf_acc;
enum { CHUNK = 16 / sizeof(PF_T) };

// `steady`: nobody writes b meanwhile: it may be read before the kernel has waited.
PF_KERNEL(pf_matmul_rows, WARPS* PF_WARP)(pf_matmul_args q, pf_i32 steady PF_EPILOGUE_ARGS) {
  pf_next_may_start();
  PF_SHARED pf_acc shares[WARPS][ROWS * COLUMNS];
  const pf_u32 across = static_cast<pf_u32>(q.tiles_n);
  const pf_i64 top = static_cast<pf_i64>(pf_block() / across) * ROWS,
               first = static_cast<pf_i64>(pf_block() % across) * COLUMNS, chunks = q.k / CHUNK;
  const PF_T* rows[ROWS];
  const PF_T* columns[COLUMNS];
  // What is beyond the end is read as the last one, and not written.
  PF_UNROLL for (int r = 0; r < ROWS; ++r) rows[r] =
      static_cast<const PF_T*>(q.a) + (top + r < q.m ? top + r : q.m - 1) * q.a_row;
  PF_UNROLL for (int c = 0; c < COLUMNS; ++c) columns[c] =
      static_cast<const PF_T*>(q.b) + (first + c < q.n ? first + c : q.n - 1) * q.b_col;
  pf_acc sums[ROWS][COLUMNS];
  PF_UNROLL for (int r = 0; r < ROWS; ++r) {
    PF_UNROLL for (int c = 0; c < COLUMNS; ++c) sums[r][c] = pf_acc(0);
  }
  static_assert(ROWS * COLUMNS <= PF_WARP, "a sum for each thread of the first warp");
  const int mine = static_cast<int>(pf_thread());
  const pf_i64 m = top + mine / COLUMNS, n = first + mine % COLUMNS;
  const bool finishes = mine < ROWS * COLUMNS && m < q.m && n < q.n;
  pf_result<PF_T, PF_T> result;
  pf_vector<PF_T, CHUNK> b[COLUMNS];
  pf_i64 i = pf_thread();
  const auto start = [&]() PF_INLINE {
    if (i < chunks)
      PF_UNROLL for (int c = 0; c < COLUMNS; ++c) b[c].template load<true>(columns[c] + i * CHUNK);
  };
  if (!steady) pf_wait_for_earlier();
  start();
  pf_wait_for_earlier();
  if (finishes) result.load(q, m, n PF_EPILOGUE_PASS);
  while (i < chunks) {
    PF_UNROLL for (int r = 0; r < ROWS; ++r) {
      pf_vector<PF_T, CHUNK> a;
      a.template load<false>(rows[r] + i * CHUNK);
      PF_UNROLL for (int c = 0; c < COLUMNS; ++c) {
        PF_UNROLL for (int e = 0; e < CHUNK; ++e) sums[r][c] =
            pf_multiply_add(a.get(e), b[c].get(e), sums[r][c]);
      }
    }
    i += WARPS * PF_WARP;
    start();
  }
  const int warp = static_cast<int>(pf_thread() / PF_WARP);
  PF_UNROLL for (int r = 0; r < ROWS; ++r) {
    PF_UNROLL for (int c = 0; c < COLUMNS; ++c) {
      PF_UNROLL for (pf_u32 half = PF_WARP / 2; half; half /= 2) sums[r][c] =
          pf_sum(sums[r][c], pf_shuffle_xor(sums[r][c], half));
      if (pf_lane() == 0) shares[warp][r * COLUMNS + c] = sums[r][c];
    }
  }
  pf_barrier();
  if (!finishes) return;
  pf_acc sum = shares[0][mine];
  PF_UNROLL for (int w = 1; w < WARPS; ++w) sum = pf_sum(sum, shares[w][mine]);
  result.finish(q, m, n, sum PF_EPILOGUE_PASS);
}
