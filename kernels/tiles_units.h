// The tiles of matmul_tiles.h on AMD's matrix units (matrix_units.h), acted out by the host: memory
// is read into registers while the tile before is multiplied, and tiles lie along k whatever memory
// does.
#ifndef PF_TILES_UNITS_H
#define PF_TILES_UNITS_H

// Where chunk `c` of line `r` of an operand lies.
PF_DEVICE int pf_place(int r, int c) {
  return pf_chunk(r, c, TILE_K / CHUNK);
}

// What a thread reads of an operand for each tile: N chunks' worth of words. Along k these are
// chunks. Across k they are pieces of PER lines of k, so that elements that share a word in shared
// memory are in one thread.
template <int ALONG_K, int OUTER, int N>
struct pf_portion {
  enum {
    LINES = ALONG_K ? 1 : int(PER),
    BYTES = N * 16 / LINES < 16 ? N * 16 / LINES : 16,  // of a line
    WORDS = BYTES / 4,
    ELEMENTS = BYTES / SIZE,
    COUNT = N * 16 / (LINES * BYTES),
    IN_LINE = (ALONG_K ? TILE_K : OUTER) / ELEMENTS,
  };
  pf_u32 w[COUNT][LINES][WORDS];

  // The line and the first element in it of piece i.
  static PF_METHOD int line(int i) {
    return (i * THREADS + static_cast<int>(pf_thread())) / IN_LINE * LINES;
  }
  static PF_METHOD int along(int i) {
    return (i * THREADS + static_cast<int>(pf_thread())) % IN_LINE * ELEMENTS;
  }
  PF_METHOD void fetch(const char* base, pf_i64 first, pf_i64 size, pf_i64 stride, pf_i64 k0,
                       pf_i64 k) {
    PF_UNROLL for (int i = 0; i < COUNT; ++i) {
      const pf_i64 at = (ALONG_K ? k0 : first) + along(i), left = (ALONG_K ? k : size) - at;
      PF_UNROLL for (int l = 0; l < LINES; ++l) {
        const pf_i64 row = (ALONG_K ? first : k0) + line(i) + l;
        const char* p = base + (row * stride + at) * SIZE;
        PF_UNROLL for (int v = 0; v < WORDS; ++v) w[i][l][v] = 0;
        if (row >= (ALONG_K ? size : k)) continue;
        if (left >= ELEMENTS) {
          pf_load_words<BYTES, false>(p, w[i][l]);
        } else {
          PF_UNROLL for (int e = 0; e < ELEMENTS; ++e) {
            if (e >= left) continue;
            pf_u32 x;
            pf_load_words<SIZE, false>(p + e * SIZE, &x);
            w[i][l][e / PER] |= x << (e % PER * 8 * SIZE);
          }
        }
      }
    }
  }
  // Word v of each line becomes a word for each of its elements: the same element of each line.
  static PF_METHOD void turn(const pf_u32 (&from)[LINES][WORDS], int v, pf_u32 (&to)[PER]) {
    if constexpr (SIZE == 4) {
      to[0] = from[0][v];
    } else if constexpr (SIZE == 2) {
      to[0] = pf_pick_bytes<0x5410>(from[0][v], from[1][v]);
      to[1] = pf_pick_bytes<0x7632>(from[0][v], from[1][v]);
    } else {
      const pf_u32 a = pf_pick_bytes<0x5140>(from[0][v], from[1][v]),
                   b = pf_pick_bytes<0x7362>(from[0][v], from[1][v]),
                   c = pf_pick_bytes<0x5140>(from[2][v], from[3][v]),
                   d = pf_pick_bytes<0x7362>(from[2][v], from[3][v]);
      to[0] = pf_pick_bytes<0x5410>(a, c);
      to[1] = pf_pick_bytes<0x7632>(a, c);
      to[2] = pf_pick_bytes<0x5410>(b, d);
      to[3] = pf_pick_bytes<0x7632>(b, d);
    }
  }
  PF_METHOD void put(char* tile) const {
    PF_UNROLL for (int i = 0; i < COUNT; ++i) {
      if constexpr (ALONG_K) {
        pf_u32 x[WORDS];
        PF_UNROLL for (int v = 0; v < WORDS; ++v) x[v] = rounded(w[i][0][v]);
        pf_store_words<BYTES, false>(tile + pf_place(line(i), along(i) / CHUNK), x);
      } else {
        const int k = line(i);
        PF_UNROLL for (int v = 0; v < WORDS; ++v) {
          pf_u32 x[PER];
          turn(w[i], v, x);
          PF_UNROLL for (int e = 0; e < PER; ++e) {
            x[e] = rounded(x[e]);
            pf_store_words<4, false>(
                tile + pf_place(along(i) + v * PER + e, k / CHUNK) + k % CHUNK * SIZE, x + e);
          }
        }
      }
    }
  }
  static PF_METHOD pf_u32 rounded(pf_u32 x) { return PF_TF32 ? pf_tf32_bits(x) : x; }
};

#if PF_GATHERED == 1 || PF_GATHERED == 3
// The same of an operand that is gathered, one tile after the other.
template <int OUTER, int N>
struct pf_gathered_portion : pf_portion<1, OUTER, N> {
  typedef pf_portion<1, OUTER, N> plain;
  pf_gather<N, THREADS / plain::IN_LINE> lines;

  // Lines from pixel `first` on, before `end`.
  PF_METHOD void start(const pf_conv& q, char* memory, pf_i64 first, pf_i64 end) {
    lines.template start<OUTER>(q, memory, first, end, plain::line(0), plain::along(0));
  }
  PF_METHOD void fetch(const pf_conv& q) {
    PF_UNROLL for (int i = 0; i < N; ++i) {
      PF_UNROLL for (int v = 0; v < 4; ++v) this->w[i][0][v] = 0;
      if (lines.has(i)) pf_load_words<16, false>(lines.at(i), this->w[i][0]);
    }
    lines.next(q);
  }
};
#elif PF_GATHERED == 2
template <int OUTER, int N>
struct pf_gathered_portion : pf_portion<0, OUTER, N> {
  typedef pf_portion<0, OUTER, N> plain;
  pf_gather_table table;
  pf_gather_column column;

  PF_METHOD void start(const pf_tiles_args& q, const pf_matmul_tile& t, char* memory) {
    column.start(q.conv, t.col + plain::along(0));
    table = pf_gather_share(q, t, memory);
    table.make(q.conv);
    pf_barrier();
  }
  PF_METHOD void fetch(const pf_conv& q) {
    PF_UNROLL for (int i = 0; i < plain::COUNT; ++i) {
      PF_UNROLL for (int l = 0; l < plain::LINES; ++l) {
        PF_UNROLL for (int v = 0; v < plain::WORDS; ++v) this->w[i][l][v] = 0;
        const pf_gather_line line = table.line(plain::line(i) + l);
        if (column.has(line))
          pf_load_words<plain::BYTES, false>(static_cast<const char*>(q.gathered) + column.of(line),
                                             this->w[i][l]);
      }
    }
    table.make(q);
  }
};
#endif

struct pf_pipeline {
#if PF_GATHERED == 1
  pf_gathered_portion<TILE_M, TILE_M * TILE_K / CHUNK / THREADS> a;
#else
  pf_portion<A_ALONG_K, TILE_M, TILE_M * TILE_K / CHUNK / THREADS> a;
#endif
#if PF_GATHERED >= 2
  pf_gathered_portion<TILE_N, TILE_N * TILE_K / CHUNK / THREADS> b;
#else
  pf_portion<B_ALONG_K, TILE_N, TILE_N * TILE_K / CHUNK / THREADS> b;
#endif

  pf_i64 end = 0;  // of k

  PF_METHOD void start(const pf_tiles_args& q, const pf_matmul_tile& t, char* memory) {
    end = q.k;
#if PF_GATHERED == 1
    a.start(q.conv, memory + STAGES * STAGE_BYTES, t.row, q.m);
#elif PF_GATHERED == 2
    b.start(q, t, memory + STAGES * STAGE_BYTES);
    end = b.table.end - b.table.k + TILE_K;
#elif PF_GATHERED == 3
    const pf_i64 before = pf_gather_image(q, t);
    b.start(q.conv, memory + STAGES * STAGE_BYTES, before + t.col, before + q.n);
#endif
  }
  PF_METHOD void load(const pf_tiles_args& q, const pf_matmul_tile& t, pf_i64 k0) {
#if PF_GATHERED == 1
    a.fetch(q.conv);
#else
    a.fetch(static_cast<const char*>(q.a) + t.a * SIZE, t.row, q.m, A_ALONG_K ? q.a_row : q.a_col,
            k0, end);
#endif
#if PF_GATHERED >= 2
    b.fetch(q.conv);
#else
    b.fetch(static_cast<const char*>(q.b) + t.b * SIZE, t.col, q.n, B_ALONG_K ? q.b_col : q.b_row,
            k0, end);
#endif
  }
  PF_METHOD void store(char* stage) const {
    a.put(stage);
    b.put(stage + A_BYTES);
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

PF_DEVICE void pf_sum_tiles(pf_tile_sums& sums, char* memory, const pf_tiles_args& q,
                            const pf_matmul_tile& t, int warp_row, int warp_col, int lane) {
  pf_pipeline pipe;
  const pf_i64 steps = (q.k + TILE_K - 1) / TILE_K;
  pipe.start(q, t, memory);
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
