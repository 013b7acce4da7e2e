// Strips of strips.h with mma.
#ifndef PF_STRIPS_MMA_H
#define PF_STRIPS_MMA_H

#define PF_STEP_ENDS() (void)0
#define PF_FEW_REGISTERS 0

// ---- strips -------------------------------------------------------------------------------------
template <int OWN, int COLS>
struct pf_strip {
  enum { MS = OWN / 16, NS = COLS / 8, ROWS = 2 * MS };  // ROWS: of which a lane has some
  float c[MS][NS][4];
  // Row number r of the lane, in the strip.
  static PF_METHOD int row(int r, int lane) { return r / 2 * 16 + r % 2 * 8 + lane / 4; }
  // f(r, column, value)
  template <class F>
  PF_METHOD void each(int lane, F f) {
    PF_UNROLL for (int i = 0; i < MS; ++i) PF_UNROLL for (int j = 0; j < NS; ++j)
        PF_UNROLL for (int v = 0; v < 4; ++v)
            f(i * 2 + v / 2, j * 8 + lane % 4 * 2 + v % 2, c[i][j][v]);
  }
  // f(r, column, value, value of the other strip)
  template <class F>
  PF_METHOD void each_with(int lane, pf_strip& t, F f) {
    PF_UNROLL for (int i = 0; i < MS; ++i) PF_UNROLL for (int j = 0; j < NS; ++j)
        PF_UNROLL for (int v = 0; v < 4; ++v)
            f(i * 2 + v / 2, j * 8 + lane % 4 * 2 + v % 2, c[i][j][v], t.c[i][j][v]);
  }
  PF_METHOD void clear() {
    PF_UNROLL for (int i = 0; i < MS; ++i) PF_UNROLL for (int j = 0; j < NS; ++j)
        PF_UNROLL for (int v = 0; v < 4; ++v) c[i][j][v] = 0.0f;
  }
};
// Which of the counters of a lane's strip serve for what, in the order of each(): of eight values
// those of rows i, i + 8 and columns j, j + 1, j + 8, j + 9 (or, turned, the other way) have one.
template <bool TURNED>
struct pf_draws {
  enum { SLOTS = TURNED ? 2 : 1 };
  static PF_METHOD int slot(int n) { return n % SLOTS; }
  static PF_METHOD bool fresh(int n) { return n < SLOTS; }
};
// Joins what the lanes of a row have.
template <class Op>
PF_DEVICE float pf_join_row(float x) {
  PF_UNROLL for (pf_u32 m = 1; m < 4; m *= 2) x = Op::join(x, pf_shuffle_xor(x, m));
  return x;
}
#if defined(PF_PARTS)
#include "strips_parts.h"
#else
// ---- tiles --------------------------------------------------------------------------------------
// fetch() begins, land() makes sure that they lie in shared memory after the next barrier.
// How much of chunk c of a row there is.
PF_DEVICE int pf_chunk_bytes(const pf_lines& m, int c) {
  const int n = m.cols - c * 8;
  return n < 0 ? 0 : n > 8 ? 16 : n * 2;
}
enum { PF_FETCH_STAGES = 2 };  // fetched into other memory than is being read
enum { PF_TURNED_TILES = 0 };  // results need no turned tiles
template <int ROWS, int D, int THREADS>
struct pf_fill {
  enum { CHUNKS = D / 8, COUNT = ROWS * CHUNKS };
  PF_METHOD void fetch(char* tile, const pf_lines& m, int first) {
    const int thread = static_cast<int>(pf_thread());
    const int rows = m.rows - first;
    if (!m.whole) {
      PF_ONE_BY_ONE for (int at = thread; at < COUNT; at += THREADS) {
        pf_u32 w[4];
        pf_gather<8>(m.p + ((first + at / CHUNKS) * m.row + at % CHUNKS * 8 * m.col) * 2, m.col,
                     at / CHUNKS < rows ? m.cols - at % CHUNKS * 8 : 0, w);
        pf_store_words<16, false>(tile + pf_chunk_at<CHUNKS>(at / CHUNKS, at % CHUNKS), w);
      }
    } else if constexpr (THREADS % (8 * CHUNKS) == 0) {  // a thread stays in its column
      constexpr int step = THREADS / CHUNKS;
      const int r = thread / CHUNKS, c = thread % CHUNKS, bytes = pf_chunk_bytes(m, c);
      const char* p = m.p + ((first + r) * m.row + c * 8) * 2;
      const pf_shared_at to = pf_shared_address(tile) + pf_chunk_at<CHUNKS>(r, c);
      PF_UNROLL for (int i = 0; i < (ROWS + step - 1) / step; ++i) {
        if (ROWS % step == 0 || r + i * step < ROWS)
          pf_copy_async(to + i * step * CHUNKS * 16, p, r + i * step < rows ? bytes : 0);
        p += m.row * (2 * step);
      }
    } else {
      PF_ONE_BY_ONE for (int at = thread; at < COUNT; at += THREADS) {
        const int r = at / CHUNKS, c = at % CHUNKS;
        pf_copy_async(pf_shared_address(tile) + pf_chunk_at<CHUNKS>(r, c),
                      m.p + ((first + r) * m.row + c * 8) * 2, r < rows ? pf_chunk_bytes(m, c) : 0);
      }
    }
  }
  PF_METHOD void land(char*, char*) {}
};
PF_DEVICE void pf_land() {
  pf_copies_end();
  pf_copies_wait<0>();
}

// ---- own rows: of BLOCK rows of a thread block those of the warp, from `row` on -----------------
// HELD: in registers. tile: BYTES of shared memory. After fetch: land and a barrier, then ready.
template <int OWN, int D, int BLOCK, int THREADS, bool HELD>
struct pf_own {
  enum { BYTES = BLOCK * D * 2, MS = OWN / 16 };
  pf_u32 w[HELD ? D / 16 : 1][MS][4];
  pf_shared_at at;
  int row;

  PF_METHOD void fetch(char* tile, const pf_lines& m, int first, int mine, int) {
    pf_fill<BLOCK, D, THREADS>().fetch(tile, m, first);
    at = pf_shared_address(tile);
    row = mine;
  }
  PF_METHOD void load(int kk, int lane, pf_u32 (&r)[MS][4]) const {
    PF_UNROLL for (int i = 0; i < MS; ++i) pf_load_matrices<0>(
        at + pf_chunk_at<D / 8>(row + i * 16 + lane % 16, kk / 8 ^ lane / 16), r[i]);
  }
  PF_METHOD void ready(int lane) {
    if constexpr (HELD) PF_UNROLL for (int kk = 0; kk < D; kk += 16) load(kk, lane, w[kk / 16]);
  }
  PF_METHOD void read(int kk, int lane, pf_u32 (&r)[MS][4]) const {
    if constexpr (HELD) {
      PF_UNROLL for (int i = 0; i < MS; ++i) PF_UNROLL for (int v = 0; v < 4; ++v) r[i][v] =
          w[kk / 16][i][v];
    } else {
      load(kk, lane, r);
    }
  }
};

// ---- products of strips
// --------------------------------------------------------------------------
template <int OWN, int OTHER>
struct pf_weights {
  enum { MS = OWN / 16 };
  pf_u32 w[MS][OTHER / 16][4];
  PF_METHOD pf_weights() {}
  PF_METHOD pf_weights(const pf_strip<OWN, OTHER>& s, int, int = 0) {
    PF_UNROLL for (int i = 0; i < MS; ++i) PF_UNROLL for (int k = 0; k < OTHER / 16; ++k)
        PF_UNROLL for (int v = 0; v < 4; ++v) w[i][k][v] = pf_pairs<PF_T>::of(
            s.c[i][2 * k + v / 2][v % 2 * 2], s.c[i][2 * k + v / 2][v % 2 * 2 + 1]);
  }
};
template <int OWN, int OTHER, int D, int BLOCK, int THREADS, bool HELD>
PF_DEVICE void pf_add_products(const pf_own<OWN, D, BLOCK, THREADS, HELD>& x, const char* tile,
                               const pf_lines&, int, int lane, pf_strip<OWN, OTHER>& s) {
  const pf_shared_at y = pf_shared_address(tile);
  PF_UNROLL for (int kk = 0; kk < D; kk += 16) {
    pf_u32 a[OWN / 16][4];
    x.read(kk, lane, a);
    PF_UNROLL for (int j = 0; j < OTHER / 8; j += 2) {
      pf_u32 b[4];
      pf_load_matrices<0>(
          y + pf_chunk_at<D / 8>(j * 8 + lane % 8 + lane / 16 * 8, kk / 8 ^ (lane / 8 & 1)), b);
      PF_UNROLL for (int i = 0; i < OWN / 16; ++i) {
        pf_mma(PF_T{}, s.c[i][j], a[i], b);
        pf_mma(PF_T{}, s.c[i][j + 1], a[i], b + 2);
      }
    }
  }
}
// `tile` has OTHER rows of D; the transposed one is not used.
template <int OWN, int OTHER, int D>
PF_DEVICE void pf_add_results(const pf_weights<OWN, OTHER>& p, const char* tile, const char*,
                              const pf_lines&, int, int lane, pf_strip<OWN, D>& r) {
  const pf_shared_at z = pf_shared_address(tile);
  PF_UNROLL for (int k = 0; k < OTHER / 16; ++k) {
    PF_UNROLL for (int j = 0; j < D / 8; j += 2) {
      pf_u32 b[4];
      pf_load_matrices<1>(z + pf_chunk_at<D / 8>(k * 16 + lane % 16, j ^ lane / 16), b);
      PF_UNROLL for (int i = 0; i < OWN / 16; ++i) {
        pf_mma(PF_T{}, r.c[i][j], p.w[i][k], b);
        pf_mma(PF_T{}, r.c[i][j + 1], p.w[i][k], b + 2);
      }
    }
  }
}
// Rounded, into a tile of rows of D, the strip's first one being `row`.
template <int OWN, int D>
PF_DEVICE void pf_put_strip(char* tile, int row, int lane, pf_strip<OWN, D>& s) {
  PF_UNROLL for (int i = 0; i < OWN / 16; ++i) PF_UNROLL for (int j = 0; j < D / 8; ++j)
      PF_UNROLL for (int h = 0; h < 2; ++h) {
    const pf_u32 w = pf_pairs<PF_T>::of(s.c[i][j][2 * h], s.c[i][j][2 * h + 1]);
    pf_store_words<4, false>(
        tile + pf_chunk_at<D / 8>(row + i * 16 + h * 8 + lane / 4, j) + lane % 4 * 4, &w);
  }
}
#endif

#endif
