// Strips of strips.h on AMD's matrix units.
#ifndef PF_STRIPS_UNITS_H
#define PF_STRIPS_UNITS_H

// ---- tiles --------------------------------------------------------------------------------------
// fetch() begins, land() makes sure that they lie in shared memory after the next barrier.
enum { PF_FETCH_STAGES = 1 };
enum { PF_TURNED_TILES = 1 };  // results read turned tiles
template <int ROWS, int D, int THREADS>
struct pf_fill {
  enum { CHUNKS = D / 8, PAIRS = ROWS / 2 * CHUNKS, STEPS = (PAIRS + THREADS - 1) / THREADS };
  pf_u32 w[STEPS][2][4];  // chunks of two rows, one below the other
  pf_lines from;
  int first;
  PF_METHOD void fetch(char*, const pf_lines& m, int first_row) {
    from = m;
    first = first_row;
    if (!m.whole) return;  // what takes element by element is read when it lands
    const int thread = pf_opaque<false>(static_cast<int>(pf_thread())), rows = m.rows - first;
    PF_UNROLL for (int i = 0; i < STEPS; ++i) {
      const int at = i * THREADS + thread, r = at / CHUNKS * 2, c = at % CHUNKS * 8;
      PF_UNROLL for (int h = 0; h < 2; ++h) {
        PF_UNROLL for (int v = 0; v < 4; ++v) w[i][h][v] = 0;
        if ((PAIRS % THREADS == 0 || at < PAIRS) && r + h < rows && c < m.cols)
          pf_load_words<16, false>(m.p + ((first + r + h) * m.row + c) * 2, w[i][h]);
      }
    }
  }
  // Two chunks as they are, and with rows and columns exchanged; either tile may be null.
  static PF_METHOD void put(char* tile, char* turned, int at, const pf_u32 (&x)[2][4]) {
    const int r = at / CHUNKS * 2, c = at % CHUNKS;
    if (tile) {
      PF_UNROLL for (int h = 0; h < 2; ++h)
          pf_store_words<16, false>(tile + pf_chunk_at<CHUNKS>(r + h, c), x[h]);
    }
    if (turned) {
      PF_UNROLL for (int e = 0; e < 8; ++e) {
        const pf_u32 a = x[0][e / 2] >> (e % 2 * 16) & 0xffffu, b = x[1][e / 2] >> (e % 2 * 16),
                     v = a | b << 16;
        pf_store_words<4, false>(turned + pf_chunk_at<ROWS / 8>(c * 8 + e, r / 8) + r % 8 * 2, &v);
      }
    }
  }
  PF_METHOD void land(char* tile, char* turned) const {
    const int thread = pf_opaque<false>(static_cast<int>(pf_thread()));
    if (from.whole) {
      PF_UNROLL for (int i = 0; i < STEPS; ++i) {
        const int at = i * THREADS + thread;
        if (PAIRS % THREADS == 0 || at < PAIRS) put(tile, turned, at, w[i]);
      }
      return;
    }
    PF_ONE_BY_ONE for (int at = thread; at < PAIRS; at += THREADS) {
      pf_u32 x[2][4];
      PF_UNROLL for (int h = 0; h < 2; ++h)
          pf_read_line<8>(from, first + at / CHUNKS * 2 + h, at % CHUNKS * 8, x[h]);
      put(tile, turned, at, x);
    }
  }
};
PF_DEVICE void pf_land() {}

// ---- own rows: of BLOCK rows of a thread block those of the warp, from `row` on -----------------
// HELD: in registers. tile: BYTES of shared memory. After fetch: land and a barrier, then ready.
// Keeps the compiler from reading all operands of a product before the first step: RDNA has not so
// many registers.
#if defined(PF_AMD) && PF_WARP == 32
#define PF_STEP_ENDS() __builtin_amdgcn_sched_barrier(0)
#define PF_FEW_REGISTERS 1
#else
#define PF_STEP_ENDS() (void)0
#define PF_FEW_REGISTERS 0
#endif
// What a lane reads of a tile: so many elements of a row from k on.
template <int CHUNKS, int DEPTH = PF_UNIT_DEPTH>
PF_DEVICE void pf_read_tile(const char* tile, int row, int k, pf_u32* w) {
  constexpr int step = DEPTH < 8 ? DEPTH : 8;
  PF_UNROLL for (int e = 0; e < DEPTH; e += step) pf_load_words<step * 2, false>(
      tile + pf_chunk_at<CHUNKS>(row, (k + e) / 8) + (k + e) % 8 * 2, w + e / 2);
}
template <int OWN, int D, int BLOCK, int THREADS, bool HELD>
struct pf_own {
  enum { BYTES = HELD ? 0 : BLOCK * D * 2, MS = OWN / PF_UNIT_N };
  pf_u32 w[HELD ? D / PF_UNIT_K : 1][MS][PF_UNIT_WORDS];
  const char* at;
  int row;

  PF_METHOD void fetch(char* tile, const pf_lines& m, int first, int mine, int lane) {
    at = tile;
    row = mine;
    if constexpr (HELD) {
      PF_UNROLL for (int kk = 0; kk < D; kk += PF_UNIT_K) {
        PF_UNROLL for (int i = 0; i < MS; ++i)
            pf_read_line<PF_UNIT_DEPTH>(m, first + mine + i * PF_UNIT_N + lane % PF_UNIT_N,
                                        kk + pf_unit_k(lane), w[kk / PF_UNIT_K][i]);
      }
    } else {
      pf_fill<BLOCK, D, THREADS> f;
      f.fetch(tile, m, first);
      f.land(tile, nullptr);
    }
  }
  PF_METHOD void ready(int) {}
  PF_METHOD void read(int kk, int lane, pf_u32 (&r)[MS][PF_UNIT_WORDS]) const {
    PF_UNROLL for (int i = 0; i < MS; ++i) {
      if constexpr (HELD) {
        PF_UNROLL for (int v = 0; v < PF_UNIT_WORDS; ++v) r[i][v] = w[kk / PF_UNIT_K][i][v];
      } else {
        pf_read_tile<D / 8>(at, row + i * PF_UNIT_N + lane % PF_UNIT_N, kk + pf_unit_k(lane), r[i]);
      }
    }
  }
};

// ---- strips -------------------------------------------------------------------------------------
template <int OWN, int COLS>
struct pf_strip {
  enum { MS = OWN / PF_UNIT_N, NS = COLS / PF_UNIT_M, ROWS = MS };
  float c[MS][NS][PF_UNIT_SUMS];
  static PF_METHOD int row(int r, int lane) { return r * PF_UNIT_N + lane % PF_UNIT_N; }
  template <class F>
  PF_METHOD void each(int lane, F f) {
    PF_UNROLL for (int i = 0; i < MS; ++i) PF_UNROLL for (int j = 0; j < NS; ++j)
        PF_UNROLL for (int v = 0; v < PF_UNIT_SUMS; ++v)
            f(i, j * PF_UNIT_M + pf_unit_row(lane, v), c[i][j][v]);
  }
  template <class F>
  PF_METHOD void each_with(int lane, pf_strip& t, F f) {
    PF_UNROLL for (int i = 0; i < MS; ++i) PF_UNROLL for (int j = 0; j < NS; ++j)
        PF_UNROLL for (int v = 0; v < PF_UNIT_SUMS; ++v)
            f(i, j * PF_UNIT_M + pf_unit_row(lane, v), c[i][j][v], t.c[i][j][v]);
  }
  PF_METHOD void clear() {
    PF_UNROLL for (int i = 0; i < MS; ++i) PF_UNROLL for (int j = 0; j < NS; ++j)
        PF_UNROLL for (int v = 0; v < PF_UNIT_SUMS; ++v) c[i][j][v] = 0.0f;
  }
};
// As with mma; of eight values that each() comes to one after the other.
template <bool TURNED>
struct pf_draws {
#if PF_MATRIX_UNIT == 1  // four neighbours, twice
  enum { SLOTS = TURNED ? 4 : 2 };
  static PF_METHOD int slot(int n) {
    return n % 4 / (TURNED ? 1 : 2);
  }
  static PF_METHOD bool fresh(int n) {
    return n < 4 && (TURNED || n % 2 == 0);
  }
#elif PF_MATRIX_UNIT == 2  // every second
  enum { SLOTS = 4 };
  static PF_METHOD int slot(int n) {
    return n % 4;
  }
  static PF_METHOD bool fresh(int n) {
    return n < 4;
  }
#else                      // eight neighbours
  enum { SLOTS = 1 };
  static PF_METHOD int slot(int) {
    return 0;
  }
  static PF_METHOD bool fresh(int n) {
    return TURNED || n % 2 == 0;
  }
#endif
};
template <class Op>
PF_DEVICE float pf_join_row(float x) {
  PF_UNROLL for (pf_u32 m = PF_UNIT_N; m < PF_WARP; m *= 2) x = Op::join(x, pf_shuffle_xor(x, m));
  return x;
}
template <int OWN, int OTHER>
struct pf_weights {
  enum { MS = OWN / PF_UNIT_N, STEPS = PF_UNIT_M / PF_UNIT_K };  // steps in a product's result
  pf_u32 w[MS][OTHER / PF_UNIT_K][PF_UNIT_WORDS];
  PF_METHOD pf_weights(const pf_strip<OWN, OTHER>& s, int lane, int = 0) {
    PF_UNROLL for (int i = 0; i < MS; ++i) PF_UNROLL for (int k = 0; k < OTHER / PF_UNIT_K; ++k) {
      const float(&c)[PF_UNIT_SUMS] = s.c[i][k / STEPS];
#if PF_MATRIX_UNIT == 2
      // A lane has every second element; the others come from the other half of the warp.
      pf_u32 mine[PF_UNIT_SUMS / 2], others[PF_UNIT_SUMS / 2];
      PF_UNROLL for (int v = 0; v < PF_UNIT_SUMS / 2; ++v) {
        mine[v] = pf_pairs<PF_T>::of(c[2 * v], c[2 * v + 1]);
        others[v] = pf_shuffle_xor(mine[v], PF_UNIT_N);
      }
      PF_UNROLL for (int v = 0; v < PF_UNIT_SUMS; ++v) {
        const pf_u32 a = mine[v / 2] >> (v % 2 * 16) & 0xffffu,
                     b = others[v / 2] >> (v % 2 * 16) & 0xffffu;
        w[i][k][v] = lane < PF_UNIT_N ? a | b << 16 : b | a << 16;
      }
#else
      const int first = k % STEPS * PF_UNIT_DEPTH;
      PF_UNROLL for (int v = 0; v < PF_UNIT_WORDS; ++v) w[i][k][v] =
          pf_pairs<PF_T>::of(c[first + 2 * v], c[first + 2 * v + 1]);
#endif
    }
  }
};
template <int OWN, int OTHER, int D, int BLOCK, int THREADS, bool HELD>
PF_DEVICE void pf_add_products(const pf_own<OWN, D, BLOCK, THREADS, HELD>& x, const char* tile,
                               const pf_lines&, int, int lane, pf_strip<OWN, OTHER>& s) {
  lane = pf_opaque<false>(lane);
  PF_UNROLL for (int kk = 0; kk < D; kk += PF_UNIT_K) {
    pf_u32 own[OWN / PF_UNIT_N][PF_UNIT_WORDS];
    x.read(kk, lane, own);
    PF_UNROLL for (int j = 0; j < OTHER / PF_UNIT_M; ++j) {
      pf_u32 y[PF_UNIT_WORDS];
      pf_read_tile<D / 8>(tile, j * PF_UNIT_M + lane % PF_UNIT_M, kk + pf_unit_k(lane), y);
      PF_UNROLL for (int i = 0; i < OWN / PF_UNIT_N; ++i)
          pf_unit_multiply<PF_T>(y, own[i], s.c[i][j]);
    }
    PF_STEP_ENDS();
  }
}
template <int OWN, int OTHER, int D>
PF_DEVICE void pf_add_results(const pf_weights<OWN, OTHER>& p, const char*, const char* turned,
                              const pf_lines&, int, int lane, pf_strip<OWN, D>& r) {
  lane = pf_opaque<false>(lane);
  PF_UNROLL for (int k = 0; k < OTHER / PF_UNIT_K; ++k) {
    PF_UNROLL for (int j = 0; j < D / PF_UNIT_M; ++j) {
      pf_u32 z[PF_UNIT_WORDS];
      const int row = j * PF_UNIT_M + lane % PF_UNIT_M;
#if PF_MATRIX_UNIT == 1
      // Those k whose weights the lane has: a result comes to it in fours.
      PF_UNROLL for (int e = 0; e < PF_UNIT_DEPTH; e += 4)
          pf_read_tile<OTHER / 8, 4>(turned, row, k * PF_UNIT_K + pf_unit_row(lane, e), z + e / 2);
#else
      pf_read_tile<OTHER / 8>(turned, row, k * PF_UNIT_K + pf_unit_k(lane), z);
#endif
      PF_UNROLL for (int i = 0; i < OWN / PF_UNIT_N; ++i)
          pf_unit_multiply<PF_T>(z, p.w[i][k], r.c[i][j]);
      if (j % 2 == 1) PF_STEP_ENDS();
    }
  }
}
template <int OWN, int D>
PF_DEVICE void pf_put_strip(char* tile, int row, int lane, pf_strip<OWN, D>& s) {
  s.each(lane, [&](int r, int col, float& v) {
    const float x = pf_dtype<PF_T>::round(v);
    pf_store<PF_T, 1, false>(tile + pf_chunk_at<D / 8>(row + s.row(r, lane), col / 8) + col % 8 * 2,
                             &x);
  });
}
#endif
