// Products of matrices of 16-bit floats (of float32: strips_parts.h) whose results stay in the
// registers of a warp and become operands of the next product there, as attention needs it: a warp
// owns a strip of OWN rows.
//
//   pf_strip<OWN, COLS>     float sums of the warp
//   pf_add_products         strip += own rows x (rows of a tile)^T        scores
//   pf_weights<OWN, OTHER>  a strip, rounded, as an operand
//   pf_add_results          strip += weights x tile                       results
//
// With mma a lane has two rows of each 16; AMD's units turn the products around (a strip's rows are
// the columns of what they compute), so that the sums of the first lie as the second wants them.
// Tiles lie in shared memory as rows of 16-byte chunks, permuted so that neither filling nor
// reading meets a bank twice. What pf_add_results reads is transposed on its way: by ldmatrix, and
// on AMD by whoever fills the tile ("turned").
#ifndef PF_STRIPS_H
#define PF_STRIPS_H
#include "mma.h"
#ifndef PF_MMA
#include "matrix_units.h"
#endif
#include "rows.h"

#if defined(PF_HOST)
#define PF_ONE_BY_ONE
#else
#define PF_ONE_BY_ONE _Pragma("unroll 1")
#endif

// One matrix in memory: strides in elements. `whole`: rows are read 16 bytes at once; columns are
// then a multiple of 8.
struct pf_lines {
  const char* p;
  pf_i64 row, col;
  int rows, cols;
  bool whole;
};

template <int CHUNKS>
PF_DEVICE int pf_swizzle(int r) {
  return CHUNKS % 8 == 0 ? r & 7 : CHUNKS % 4 == 0 ? r >> 1 & 3 : r >> 2 & 1;
}
// Where chunk c of row r lies.
template <int CHUNKS>
PF_DEVICE int pf_chunk_at(int r, int c) {
  return (r * CHUNKS + (c ^ pf_swizzle<CHUNKS>(r))) * 16;
}
// N elements from p on, those from `n` on as 0.
template <int N>
PF_DEVICE void pf_gather(const char* p, pf_i64 stride, int n, pf_u32* w) {
  PF_UNROLL for (int e = 0; e < N; e += 2) w[e / 2] = 0;
  PF_UNROLL for (int e = 0; e < N; ++e) {
    if (e >= n) continue;
    pf_u32 x;
    pf_load_words<2, false>(p + e * stride * 2, &x);
    w[e / 2] |= x << (e % 2 * 16);
  }
}
// N elements of row r of a matrix from column c on; 0 outside.
template <int N>
PF_DEVICE void pf_read_line(const pf_lines& m, int r, int c, pf_u32* w) {
  const int n = r < m.rows ? m.cols - c : 0;
  const char* p = m.p + (r * m.row + c * m.col) * 2;
  if (m.whole && n >= N) {
    constexpr int step = N < 8 ? N : 8;
    PF_UNROLL for (int e = 0; e < N; e += step)
        pf_load_words<step * 2, false>(p + e * 2, w + e / 2);
  } else {
    pf_gather<N>(p, m.col, n, w);
  }
}

#if !defined(PF_PARTS)
PF_DEVICE char* pf_strip_memory() {
  return pf_dynamic_shared();
}
#endif
#if defined(PF_MMA)
#include "strips_mma.h"
#else
#include "strips_units.h"
#endif

// A tile of ROWS rows of D to rows from `first` on of a matrix, by THREADS threads that come one
// after the other.
template <int ROWS, int D, int THREADS>
PF_DEVICE void pf_write_tile(const char* tile, const pf_lines& m, int first) {
  constexpr int item = sizeof(PF_T), per = 16 / item, chunks = D / per;
  char* to = const_cast<char*>(m.p);
  for (int at = static_cast<int>(pf_thread()) % THREADS; at < ROWS * chunks; at += THREADS) {
    const int r = at / chunks, c = at % chunks * per;
    if (first + r >= m.rows || c >= m.cols) continue;
    pf_u32 w[4];
    pf_load_words<16, false>(tile + pf_chunk_at<chunks>(r, c / per), w);
    char* p = to + ((first + r) * m.row + c * m.col) * item;
    if (m.whole && c + per <= m.cols) {
      pf_store_words<16, false>(p, w);
    } else {
      PF_UNROLL for (int e = 0; e < per; ++e) {
        const pf_u32 x = w[e * item / 4] >> (e * item % 4 * 8);
        if (c + e < m.cols) pf_store_words<item, false>(p + e * m.col * item, &x);
      }
    }
  }
}

#endif
