// The tiles of matmul_tiles.h on AMD's matrix units (matrix_units.h), acted out by the host: memory
// is read into registers while the tile before is multiplied, and tiles lie along k whatever memory
// does.
#ifndef PF_TILES_UNITS_H
#define PF_TILES_UNITS_H

// Where chunk `c` of line `r` of an operand lies.
PF_DEVICE int pf_place(int r, int c) {
  return pf_chunk(r, c, TILE_K / CHUNK);
}

// One chunk of an operand in memory and how many of its elements are inside of the matrix.
struct pf_source {
  const char* p;
  int elements;
};
template <int ALONG_K, int OUTER>
PF_DEVICE pf_source pf_locate(const char* base, pf_i64 first, pf_i64 size, pf_i64 stride, pf_i64 k0,
                              pf_i64 k, int at) {
  constexpr int chunks = (ALONG_K ? TILE_K : OUTER) / CHUNK;
  const int r = at / chunks, c = at % chunks * CHUNK;
  const pf_i64 line = ALONG_K ? first + r : k0 + r, along = ALONG_K ? k0 + c : first + c;
  const pf_i64 left = ALONG_K ? k - along : size - along;
  pf_source s = {base, 0};
  if (line < (ALONG_K ? size : k) && left > 0) {
    s.p = base + (line * stride + along) * SIZE;
    s.elements = left < CHUNK ? static_cast<int>(left) : CHUNK;
  }
  return s;
}

struct pf_pipeline {
  enum { NA = TILE_M * TILE_K / CHUNK / THREADS, NB = TILE_N * TILE_K / CHUNK / THREADS };
  pf_u32 a[NA][4], b[NB][4];

  template <int ALONG_K, int OUTER, int N>
  static PF_METHOD void fetch(pf_u32 (&r)[N][4], const char* base, pf_i64 first, pf_i64 size,
                              pf_i64 stride, pf_i64 k0, pf_i64 k) {
    PF_UNROLL for (int i = 0; i < N; ++i) {
      const int at = i * THREADS + static_cast<int>(pf_thread());
      const pf_source s = pf_locate<ALONG_K, OUTER>(base, first, size, stride, k0, k, at);
      PF_UNROLL for (int w = 0; w < 4; ++w) r[i][w] = 0;
      if (s.elements == CHUNK) {
        pf_load_words<16, false>(s.p, r[i]);
      } else {
        PF_UNROLL for (int e = 0; e < CHUNK; ++e) {
          if (e >= s.elements) continue;
          pf_u32 w;
          pf_load_words<SIZE, false>(s.p + e * SIZE, &w);
          r[i][e / PER] |= w << (e % PER * 8 * SIZE);
        }
      }
    }
  }
  template <int ALONG_K, int OUTER, int N>
  static PF_METHOD void put(char* tile, const pf_u32 (&r)[N][4]) {
    constexpr int chunks = TILE_K / CHUNK;
    PF_UNROLL for (int i = 0; i < N; ++i) {
      const int at = i * THREADS + static_cast<int>(pf_thread());
      pf_u32 w[4];
      PF_UNROLL for (int v = 0; v < 4; ++v) w[v] = PF_TF32 ? pf_tf32_bits(r[i][v]) : r[i][v];
      if constexpr (ALONG_K) {
        pf_store_words<16, false>(tile + pf_place(at / chunks, at % chunks), w);
      } else {
        const int k = at / (OUTER / CHUNK), outer = at % (OUTER / CHUNK) * CHUNK;
        PF_UNROLL for (int e = 0; e < CHUNK; ++e) {
          const pf_u32 x = w[e / PER] >> (e % PER * 8 * SIZE);
          pf_store_words<SIZE, false>(tile + pf_place(outer + e, k / CHUNK) + k % CHUNK * SIZE, &x);
        }
      }
    }
  }
  PF_METHOD void load(const pf_matmul_args& q, const pf_matmul_tile& t, pf_i64 k0) {
    fetch<A_ALONG_K, TILE_M>(a, static_cast<const char*>(q.a) + t.a * SIZE, t.row, q.m,
                             A_ALONG_K ? q.a_row : q.a_col, k0, q.k);
    fetch<B_ALONG_K, TILE_N>(b, static_cast<const char*>(q.b) + t.b * SIZE, t.col, q.n,
                             B_ALONG_K ? q.b_col : q.b_row, k0, q.k);
  }
  PF_METHOD void store(char* stage) const {
    put<A_ALONG_K, TILE_M>(stage, a);
    put<B_ALONG_K, TILE_N>(stage + A_BYTES, b);
  }
};

struct pf_tile_sums {
  enum { MS = WARP_M / PF_UNIT_M, NS = WARP_N / PF_UNIT_N };
  pf_acc c[MS][NS][PF_UNIT_SUMS];

  static PF_METHOD void read(const char* tile, int line, int k, pf_u32 (&w)[PF_UNIT_WORDS]) {
    constexpr int step = int(PF_UNIT_DEPTH) < int(CHUNK) ? int(PF_UNIT_DEPTH) : int(CHUNK);
    PF_UNROLL for (int e = 0; e < PF_UNIT_DEPTH; e += step) pf_load_words<step * SIZE, false>(
        tile + pf_place(line, (k + e) / CHUNK) + (k + e) % CHUNK * SIZE, w + e / PER);
  }
  PF_METHOD void multiply(const char* stage, int warp_row, int warp_col, int lane) {
    PF_UNROLL for (int kk = 0; kk < TILE_K; kk += PF_UNIT_K) {
      pf_u32 x[MS][PF_UNIT_WORDS], y[NS][PF_UNIT_WORDS];
      const int k = kk + pf_unit_k(lane);
      PF_UNROLL for (int i = 0; i < MS; ++i)
          read(stage, warp_row + i * PF_UNIT_M + lane % PF_UNIT_M, k, x[i]);
      PF_UNROLL for (int j = 0; j < NS; ++j)
          read(stage + A_BYTES, warp_col + j * PF_UNIT_N + lane % PF_UNIT_N, k, y[j]);
      PF_UNROLL for (int i = 0; i < MS; ++i) {
        PF_UNROLL for (int j = 0; j < NS; ++j) pf_unit_multiply<PF_T>(x[i], y[j], c[i][j]);
      }
    }
  }
  // f(row, column, value), within the warp's part
  template <class F>
  PF_METHOD void each(int lane, F f) const {
    PF_UNROLL for (int i = 0; i < MS; ++i) {
      PF_UNROLL for (int j = 0; j < NS; ++j) {
        PF_UNROLL for (int v = 0; v < PF_UNIT_SUMS; ++v)
            f(i * PF_UNIT_M + pf_unit_row(lane, v), j * PF_UNIT_N + lane % PF_UNIT_N, c[i][j][v]);
      }
    }
  }
  PF_METHOD void clear() {
    PF_UNROLL for (int i = 0; i < MS; ++i) {
      PF_UNROLL for (int j = 0; j < NS; ++j) {
        PF_UNROLL for (int v = 0; v < PF_UNIT_SUMS; ++v) c[i][j][v] = pf_acc(0);
      }
    }
  }
};

PF_DEVICE void pf_sum_tiles(pf_tile_sums& sums, char* memory, const pf_matmul_args& q,
                            const pf_matmul_tile& t, int warp_row, int warp_col, int lane) {
  pf_pipeline pipe;
  const pf_i64 steps = (q.k + TILE_K - 1) / TILE_K;
  pipe.load(q, t, 0);
  pipe.store(memory);
  for (pf_i64 s = 0; s < steps; ++s) {
    pf_barrier();
    if (s + 1 < steps) pipe.load(q, t, (s + 1) * TILE_K);
    sums.multiply(memory + s % 2 * STAGE_BYTES, warp_row, warp_col, lane);
    if (s + 1 < steps) pipe.store(memory + (s + 1) % 2 * STAGE_BYTES);
  }
  pf_barrier();
}

#endif
