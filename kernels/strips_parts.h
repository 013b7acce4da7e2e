// Strips of strips.h of float32 with mma: each number is the sum of PF_PARTS of bfloat16, which lie
// in as many tiles (three have all 24 bits), and a product of two is those of the parts that are
// not below what all of them leave out. What has no such parts is multiplied by ordinary
// arithmetic.
#ifndef PF_STRIPS_PARTS_H
#define PF_STRIPS_PARTS_H

// Whether the parts of a number, and products with those of others, are normal numbers, and sums of
// products finite: 0, and what is from 2^-90 to 2^40.
PF_DEVICE bool pf_has_parts(float x) {
  const pf_u32 bits = pf_bits<pf_u32>(x) << 1;
  return bits == 0 || bits - (37u << 24) < 130u << 24;
}
// The first words of the block's memory: whether own rows have numbers without parts, and which
// tile had some, as its row + 1.
enum { PF_STRIP_HEAD = 16 };
PF_DEVICE pf_u32* pf_strange() {
  return reinterpret_cast<pf_u32*>(pf_dynamic_shared());
}
PF_DEVICE char* pf_strip_memory() {
  if (pf_thread() < 2) pf_strange()[pf_thread()] = 0;
  pf_barrier();
  return pf_dynamic_shared() + PF_STRIP_HEAD;
}
PF_DEVICE bool pf_is_strange(int tile) {
  return (pf_strange()[0] | (pf_strange()[1] == static_cast<pf_u32>(tile) + 1)) != 0;
}

// Two numbers as pairs of parts, each the nearest to what is left.
PF_DEVICE void pf_parts_of(float a, float b, pf_u32 (&w)[PF_PARTS]) {
  PF_UNROLL for (int p = 0; p < PF_PARTS; ++p) {
    w[p] = pf_bf16_pair(a, b);
    a -= pf_bits<float>(w[p] << 16);
    b -= pf_bits<float>(w[p] & 0xffff0000u);
  }
}
PF_DEVICE float pf_number_of(const pf_lines& m, int r, int c) {
  return r < m.rows && c < m.cols ? pf_get_one<float>(pf_global(m.p), r * m.row + c * m.col) : 0.0f;
}

// Steps of a product that are written out: of many columns all would take more registers than there
// are.
#if defined(PF_HOST)
#define PF_SOME_STEPS
#elif PF_D > 96 && PF_GIVES
#define PF_SOME_STEPS PF_ONE_BY_ONE
#elif PF_D > 64
#define PF_SOME_STEPS _Pragma("unroll 2")
#else
#define PF_SOME_STEPS _Pragma("unroll")
#endif

// ---- tiles --------------------------------------------------------------------------------------
// fetch() begins, where registers are there for it (PF_AHEAD); land() makes sure that all parts lie
// in shared memory after the next barrier.
enum { PF_FETCH_STAGES = 1, PF_TURNED_TILES = 0 };
template <int ROWS, int D, int THREADS>
struct pf_fill {
  enum { CHUNKS = D / 8, COUNT = ROWS * CHUNKS, STEPS = (COUNT + THREADS - 1) / THREADS };
  enum { PART = ROWS * D * 2 };
  float x[PF_AHEAD ? STEPS : 1][8];
  pf_lines from;
  int first;
  static PF_METHOD void read(const pf_lines& m, int first, int at, float (&v)[8]) {
    const int r = first + at / CHUNKS, c = at % CHUNKS * 8;
    PF_UNROLL for (int h = 0; h < 8; h += 4) {
      if (m.whole) {
        pf_u32 w[4] = {0, 0, 0, 0};
        if (r < m.rows && c + h < m.cols)
          pf_load_words<16, false>(m.p + (r * m.row + c + h) * 4, w);
        PF_UNROLL for (int e = 0; e < 4; ++e) v[h + e] = pf_bits<float>(w[e]);
      } else {
        PF_UNROLL for (int e = 0; e < 4; ++e) v[h + e] = pf_number_of(m, r, c + h + e);
      }
    }
  }
  // False: some have no parts.
  static PF_METHOD bool put(char* tile, int at, const float (&v)[8]) {
    pf_u32 w[PF_PARTS][4];
    bool all = true;
    PF_UNROLL for (int e = 0; e < 4; ++e) {
      all = all && pf_has_parts(v[2 * e]) && pf_has_parts(v[2 * e + 1]);
      pf_u32 pair[PF_PARTS];
      pf_parts_of(v[2 * e], v[2 * e + 1], pair);
      PF_UNROLL for (int p = 0; p < PF_PARTS; ++p) w[p][e] = pair[p];
    }
    char* to = tile + pf_chunk_at<CHUNKS>(at / CHUNKS, at % CHUNKS);
    PF_UNROLL for (int p = 0; p < PF_PARTS; ++p) pf_store_words<16, false>(to + p * PART, w[p]);
    return all;
  }
  static PF_METHOD bool copy(char* tile, const pf_lines& m, int first) {
    bool all = true;
    PF_ONE_BY_ONE for (int at = static_cast<int>(pf_thread()); at < COUNT; at += THREADS) {
      float v[8];
      read(m, first, at, v);
      all = put(tile, at, v) && all;
    }
    return all;
  }
  PF_METHOD void fetch(char*, const pf_lines& m, int first_row) {
    from = m;
    first = first_row;
    if constexpr (PF_AHEAD) {
      const int thread = pf_opaque<false>(static_cast<int>(pf_thread()));
      if (m.whole)
        PF_UNROLL for (int i = 0; i < STEPS;
                       ++i) if (COUNT % THREADS == 0 || i * THREADS + thread < COUNT)
            read(m, first, i * THREADS + thread, x[i]);
    }
  }
  PF_METHOD void land(char* tile, char*) const {
    bool all = true;
    if (PF_AHEAD && from.whole) {
      const int thread = pf_opaque<false>(static_cast<int>(pf_thread()));
      PF_UNROLL for (int i = 0; i < (PF_AHEAD ? STEPS : 0);
                     ++i) if (COUNT % THREADS == 0 || i * THREADS + thread < COUNT) all =
          put(tile, i * THREADS + thread, x[i]) && all;
    } else {
      all = copy(tile, from, first);
    }
    if (!all) pf_strange()[1] = static_cast<pf_u32>(first) + 1;
  }
};
PF_DEVICE void pf_land() {}

// ---- own rows: of BLOCK rows of a thread block those of the warp, from `row` on -----------------
template <int OWN, int D, int BLOCK, int THREADS, bool HELD>
struct pf_own {
  typedef pf_fill<BLOCK, D, THREADS> Fill;
  enum { BYTES = PF_PARTS * Fill::PART, MS = OWN / 16 };
  pf_lines from;
  pf_shared_at at;
  int first, row;
  PF_METHOD void fetch(char* tile, const pf_lines& m, int first_row, int mine, int) {
    from = m;
    first = first_row;
    at = pf_shared_address(tile);
    row = mine;
    if (!Fill::copy(tile, m, first)) pf_strange()[0] = 1;
  }
  PF_METHOD void ready(int) {}
  PF_METHOD void read(int p, int kk, int lane, pf_u32 (&r)[MS][4]) const {
    PF_UNROLL for (int i = 0; i < MS; ++i) pf_load_matrices<0>(
        at + p * Fill::PART + pf_chunk_at<D / 8>(row + i * 16 + lane % 16, kk / 8 ^ lane / 16),
        r[i]);
  }
};

// ---- strips -------------------------------------------------------------------------------------
template <int OWN, int OTHER>
struct pf_weights {
  enum { MS = OWN / 16 };
  pf_u32 w[PF_PARTS][MS][OTHER / 16][4];
  // For the tile from row `first` on; where that has numbers without parts two words are two
  // floats.
  PF_METHOD pf_weights(const pf_strip<OWN, OTHER>& s, int, int first) {
    const bool whole = pf_is_strange(first);
    PF_UNROLL for (int i = 0; i < MS; ++i) PF_UNROLL for (int k = 0; k < OTHER / 16; ++k)
        PF_UNROLL for (int v = 0; v < 4; ++v) {
      const float a = s.c[i][2 * k + v / 2][v % 2 * 2], b = s.c[i][2 * k + v / 2][v % 2 * 2 + 1];
      pf_u32 pair[PF_PARTS];
      pf_parts_of(a, b, pair);
      PF_UNROLL for (int p = 0; p < PF_PARTS; ++p) w[p][i][k][v] = pair[p];
      if (whole) {
        w[0][i][k][v] = pf_bits<pf_u32>(a);
        w[1][i][k][v] = pf_bits<pf_u32>(b);
      }
    }
  }
  // That of row number r of the lane and a column, which another lane of the row has.
  PF_METHOD float at(int r, int col, int lane) const {
    pf_u32 x[2] = {0, 0};
    PF_UNROLL for (int k = 0; k < OTHER / 16; ++k) PF_UNROLL for (int h = 0; h < 2; ++h)
        PF_UNROLL for (int n = 0; n < 2; ++n) x[n] |=
        w[n][r / 2][k][h * 2 + r % 2] & (0u - pf_u32(col / 8 == 2 * k + h));
    const pf_u32 from = static_cast<pf_u32>(lane / 4 * 4 + col % 8 / 2);
    const pf_u32 even = pf_shuffle(x[0], from), odd = pf_shuffle(x[1], from);
    return pf_bits<float>(col % 2 ? odd : even);
  }
};
// The sums of two neighbouring tiles of 8 columns that fit into one step of operands.
template <int MS>
struct pf_part_sums {
  float big[MS][2][4], small[MS][2][4];
  PF_METHOD pf_part_sums() {
    PF_UNROLL for (int i = 0; i < MS; ++i) PF_UNROLL for (int n = 0; n < 2; ++n)
        PF_UNROLL for (int v = 0; v < 4; ++v) big[i][n][v] = small[i][n][v] = 0.0f;
  }
  // a(part, i): words of 16 rows; b: of both tiles.
  template <class A>
  PF_METHOD void add(const A& a, const pf_u32 (&b)[PF_PARTS][4]) {
    PF_UNROLL for (int below = PF_PARTS; below-- > 0;) PF_UNROLL for (int p = 0; p <= below; ++p)
        PF_UNROLL for (int i = 0; i < MS; ++i) PF_UNROLL for (int n = 0; n < 2; ++n)
            pf_mma(pf_bf16{}, below == 0 ? big[i][n] : small[i][n], a(p, i), b[below - p] + 2 * n);
  }
  // mma cuts what it adds to a larger sum; this rounds.
  template <class Strip>
  PF_METHOD void give(Strip& s, int j) const {
    PF_UNROLL for (int i = 0; i < MS; ++i) PF_UNROLL for (int n = 0; n < 2; ++n)
        PF_UNROLL for (int v = 0; v < 4; ++v) s.c[i][j + n][v] += big[i][n][v] + small[i][n][v];
  }
};
// `tile` has rows of `from`, from `first` on.
template <int OWN, int OTHER, int D, int BLOCK, int THREADS, bool HELD>
PF_DEVICE void pf_add_products(const pf_own<OWN, D, BLOCK, THREADS, HELD>& x, const char* tile,
                               const pf_lines& from, int first, int lane, pf_strip<OWN, OTHER>& s) {
  if (pf_is_strange(first)) {
    PF_ONE_BY_ONE for (int d = 0; d < from.cols; ++d)
        s.each(lane, [&](int r, int col, float& sum) PF_INLINE {
          sum = pf_fma(pf_number_of(x.from, x.first + x.row + s.row(r, lane), d),
                       pf_number_of(from, first + col, d), sum);
        });
    return;
  }
  const pf_shared_at y = pf_shared_address(tile);
  PF_SOME_STEPS for (int kk = 0; kk < D; kk += 16) {
    pf_u32 a[PF_PARTS][OWN / 16][4];
    PF_UNROLL for (int p = 0; p < PF_PARTS; ++p) x.read(p, kk, lane, a[p]);
    PF_UNROLL for (int j = 0; j < OTHER / 8; j += 2) {
      pf_u32 b[PF_PARTS][4];
      PF_UNROLL for (int p = 0; p < PF_PARTS; ++p) pf_load_matrices<0>(
          y + p * OTHER * D * 2 +
              pf_chunk_at<D / 8>(j * 8 + lane % 8 + lane / 16 * 8, kk / 8 ^ (lane / 8 & 1)),
          b[p]);
      pf_part_sums<OWN / 16> sums;
      sums.add([&](int p, int i) PF_INLINE { return a[p][i]; }, b);
      sums.give(s, j);
    }
  }
}
template <int OWN, int OTHER, int D>
PF_DEVICE void pf_add_results(const pf_weights<OWN, OTHER>& w, const char* tile, const char*,
                              const pf_lines& from, int first, int lane, pf_strip<OWN, D>& r) {
  if (pf_is_strange(first)) {
    const int rows = from.rows - first < OTHER ? from.rows - first : OTHER;
    PF_ONE_BY_ONE for (int k = 0; k < rows; ++k) {
      float weight[pf_strip<OWN, D>::ROWS];
      PF_UNROLL for (int n = 0; n < pf_strip<OWN, D>::ROWS; ++n) weight[n] = w.at(n, k, lane);
      r.each(lane, [&](int n, int col, float& sum) PF_INLINE {
        sum = pf_fma(weight[n], pf_number_of(from, first + k, col), sum);
      });
    }
    return;
  }
  const pf_shared_at z = pf_shared_address(tile);
  PF_UNROLL for (int j = 0; j < D / 8; j += 2) {
    pf_part_sums<OWN / 16> sums;
    PF_UNROLL for (int k = 0; k < OTHER / 16; ++k) {
      pf_u32 b[PF_PARTS][4];
      PF_UNROLL for (int p = 0; p < PF_PARTS; ++p) pf_load_matrices<1>(
          z + p * OTHER * D * 2 + pf_chunk_at<D / 8>(k * 16 + lane % 16, j ^ lane / 16), b[p]);
      sums.add([&](int p, int i) PF_INLINE { return w.w[p][i][k]; }, b);
    }
    sums.give(r, j);
  }
}
// As they are, into a tile of rows of D, the strip's first one being `row`.
template <int OWN, int D>
PF_DEVICE void pf_put_strip(char* tile, int row, int lane, pf_strip<OWN, D>& s) {
  s.each(lane, [&](int r, int col, float& x) PF_INLINE {
    pf_store<float, 1, false>(
        tile + pf_chunk_at<D / 4>(row + s.row(r, lane), col / 4) + col % 4 * 4, &x);
  });
}
#endif
