// What the kernels of scaled dot-product attention share. A block of 256 threads works on square
// tiles of scores: thread (y, x) of 16 x 16 has SIDE x SIDE of them, rows y * SIDE + i and columns
// x + 16 j, and of a tile of results rows y * SIDE + i and columns x + 16 j. Any strides; sums in
// fixed order, without atomics.
//
//   -DPF_T=     dtype
//   -DPF_MASK=  0: none, 1: bool, 2: numbers of dtype T that are added
//   -DPF_FEATURES= as attention_args.h says
//   -DPF_WIDE=  results of a block: 64 * PF_WIDE columns
#ifndef PF_ATTENTION_H
#define PF_ATTENTION_H

#include "attention_heads.h"
#include "rows.h"

typedef PF_T T;
typedef pf_compute<T> C;
// float32 takes the general exponential here: the quick one needs registers that are not there.
struct Math {
  static PF_METHOD C exp(C x) {
    if constexpr (sizeof(T) == 4)
      return pf_exp(x);
    else
      return pf_row_math<T>::exp(x);
  }
};

#define PF_ATTENTION_THREADS 256

// Whole loops would take more registers than there are.
#if defined(PF_HOST)
#define PF_UNROLL_4
#else
#define PF_UNROLL_4 _Pragma("unroll 4")
#endif

constexpr int TILE = sizeof(C) == 4 ? 64 : 32;  // shared memory
constexpr int SIDE = TILE / 16;
constexpr int DEPTH = 32;             // of what one step of a product reads
constexpr int COLUMNS = 64;           // results that one step of a product adds to
constexpr int RESULTS = 4 * PF_WIDE;  // columns of results of a thread
constexpr int ROOM = TILE * (COLUMNS + 1) > 2 * TILE*(DEPTH + 1) ? TILE*(COLUMNS + 1)
                                                                 : 2 * TILE*(DEPTH + 1);
constexpr int WEIGHTS = TILE * (TILE + 1);

struct pf_view {
  const char* data;
  pf_i64 row, col, rows, cols;
  const pf_i32* pages = nullptr;  // of its sequence, for rows of keys that lie on such
  pf_i64 page = 1, pages_there = 0;
  PF_METHOD C get(pf_i64 i, pf_i64 j) const {
    if (i >= rows || j >= cols) return C(0);
    if (PF_HAS(PF_PAGES) && pages) {
      const pf_i64 n = pf_quotient(i, page);
      i += (pf_between(pages[n], 0, pages_there - 1) - n) * page;
    }
    return pf_get_one<T>(data, i * row + j * col);
  }
};
PF_DEVICE pf_view pf_view_of(const pf_attention& a, const pf_matrix& m, pf_i64 head, pf_i64 row,
                             pf_i64 rows, pf_i64 cols) {
  return {pf_at<T>(m.data, pf_head_offset(a, m, head) + row * m.row), m.row, m.col, rows, cols};
}
// Keys or values of a part.
PF_DEVICE pf_view pf_keys_of(const pf_attention& a, const pf_matrix& m, pf_i64 head,
                             const pf_part& part, pf_i64 cols) {
  pf_view v = pf_view_of(a, m, head, part.k0, part.keys, cols);
  if constexpr (PF_HAS(PF_PAGES)) {
    v.pages = a.pages + part.sequence * a.pages_row;
    v.page = a.page;
    v.pages_there = pf_quotient(a.keys, a.page);
  }
  return v;
}

// s = x[x0..][*] y[y0..][*]^T, for a tile.
PF_DEVICE void pf_product(const pf_view& x, pf_i64 x0, const pf_view& y, pf_i64 y0, C* room,
                          C (&s)[SIDE][SIDE]) {
  const int t = static_cast<int>(pf_thread_anew()), tx = t % 16, ty = t / 16;
  C *xs = room, *ys = room + TILE * (DEPTH + 1);
  PF_UNROLL for (int i = 0; i < SIDE; ++i) PF_UNROLL for (int j = 0; j < SIDE; ++j) s[i][j] = C(0);
  for (pf_i64 d = 0; d < x.cols; d += DEPTH) {
    pf_barrier();
    PF_UNROLL_4 for (int n = 0; n < TILE * DEPTH / PF_ATTENTION_THREADS; ++n) {
      const int i = n * PF_ATTENTION_THREADS + t, r = i / DEPTH, c = i % DEPTH;
      xs[r * (DEPTH + 1) + c] = x.get(x0 + r, d + c);
      ys[r * (DEPTH + 1) + c] = y.get(y0 + r, d + c);
    }
    pf_barrier();
    PF_UNROLL_4 for (int c = 0; c < DEPTH; ++c) {
      C p[SIDE], q[SIDE];
      PF_UNROLL for (int i = 0; i < SIDE; ++i) p[i] = xs[(ty * SIDE + i) * (DEPTH + 1) + c];
      PF_UNROLL for (int j = 0; j < SIDE; ++j) q[j] = ys[(tx + 16 * j) * (DEPTH + 1) + c];
      PF_UNROLL for (int i = 0; i < SIDE; ++i) PF_UNROLL for (int j = 0; j < SIDE; ++j) s[i][j] =
          pf_fma(p[i], q[j], s[i][j]);
    }
  }
}
// r += w m[m0..][first..], w a tile in shared memory.
PF_DEVICE void pf_add_product(const C* w, const pf_view& m, pf_i64 m0, pf_i64 first, C* room,
                              C (&r)[SIDE][RESULTS]) {
  const int t = static_cast<int>(pf_thread_anew()), tx = t % 16, ty = t / 16;
  PF_UNROLL for (int v = 0; v < PF_WIDE; ++v) {
    pf_barrier();
    PF_UNROLL_4 for (int n = 0; n < TILE * COLUMNS / PF_ATTENTION_THREADS; ++n) {
      const int i = n * PF_ATTENTION_THREADS + t, k = i / COLUMNS, c = i % COLUMNS;
      room[k * (COLUMNS + 1) + c] = m.get(m0 + k, first + v * COLUMNS + c);
    }
    pf_barrier();
    PF_UNROLL_4 for (int k = 0; k < TILE; ++k) {
      C p[SIDE], x[4];
      PF_UNROLL for (int i = 0; i < SIDE; ++i) p[i] = w[(ty * SIDE + i) * (TILE + 1) + k];
      PF_UNROLL for (int j = 0; j < 4; ++j) x[j] = room[k * (COLUMNS + 1) + tx + 16 * j];
      PF_UNROLL for (int i = 0; i < SIDE; ++i) PF_UNROLL for (int j = 0; j < 4; ++j)
          r[i][v * 4 + j] = pf_fma(p[i], x[j], r[i][v * 4 + j]);
    }
  }
}
// Results of this thread to rows from i0 on, columns from `first` on.
PF_DEVICE void pf_store_results(const pf_attention& a, const pf_matrix& m, pf_i64 head,
                                pf_i64 before, pf_i64 i0, pf_i64 rows, pf_i64 first, pf_i64 cols,
                                const C (&r)[SIDE][RESULTS]) {
  const int t = static_cast<int>(pf_thread_anew()), tx = t % 16, ty = t / 16;
  char* to = pf_at<T>(m.data, pf_head_offset(a, m, head) + before * m.row);
  PF_UNROLL for (int i = 0; i < SIDE; ++i) {
    const pf_i64 row = i0 + ty * SIDE + i;
    PF_UNROLL for (int j = 0; j < RESULTS; ++j) {
      const pf_i64 c = first + j / 4 * COLUMNS + tx + 16 * (j % 4);
      if (row < rows && c < cols) pf_put_one<T>(to, row * m.row + c * m.col, r[i][j]);
    }
  }
}
// The score of query i and key j from their product: scaled and masked. `slope` gets that of what
// is a function of it.
PF_DEVICE C pf_score(const pf_attention& a, const pf_part& part, pf_i64 mask, pf_i64 i, pf_i64 j,
                     C product, C* slope = nullptr) {
  const C low = -pf_float<C>::infinity();
  if (i >= part.queries || j >= part.keys || j - i > part.high) return low;
  if (PF_HAS(PF_WINDOW) && j - i < part.low) return low;
  C s = product * static_cast<C>(a.scale);
  if constexpr (PF_HAS(PF_SOFT_CAP)) {
    const C t = pf_tanh(product * static_cast<C>(a.scale / a.soft_cap));
    s = static_cast<C>(a.soft_cap) * t;
    if (slope) *slope = C(1) - t * t;
  }
#ifdef PF_SCORE_TEXT
  const float query = static_cast<float>(a.first_query + i),
              key = static_cast<float>(a.first_key + j), x = static_cast<float>(s);
  if (slope) *slope = static_cast<C>(pf_score_slope(a, x, part.b, part.h, query, key));
  s = static_cast<C>(pf_score_value(a, x, part.b, part.h, query, key));
#endif
  if constexpr (PF_HAS(PF_SLOPES)) {
    const pf_i64 d = i + part.shift - j;
    s -= static_cast<C>(part.slope) * static_cast<C>(d < 0 ? -d : d);
  }
  if constexpr (PF_MASK == 1)
    return pf_get_one<pf_bool>(a.mask.data, mask + i * a.mask.row + j * a.mask.col) ? s : low;
  else if constexpr (PF_MASK == 2)
    return s + pf_get_one<T>(a.mask.data, mask + i * a.mask.row + j * a.mask.col);
  else
    return s;
}
PF_DEVICE bool pf_kept(const pf_attention& a, const pf_part& part, pf_i64 i, pf_i64 j) {
  const int x = static_cast<int>(i), y = static_cast<int>(j);
  return pf_keeps(a, pf_drawn(a, part, x, y), x, y);
}

// Tiles of keys that a tile of queries from i0 on meets, and the other way.
struct pf_span {
  pf_i64 begin, end;
};
PF_DEVICE pf_span pf_keys_seen(const pf_part& p, pf_i64 i0) {
  const pf_i64 from = PF_HAS(PF_WINDOW) ? i0 + p.low : 0, to = i0 + TILE + p.high;
  return {from > 0 ? from / TILE * TILE : 0, to < p.keys ? to : p.keys};
}
PF_DEVICE pf_span pf_queries_seeing(const pf_part& p, pf_i64 j0) {
  const pf_i64 from = j0 - p.high, to = PF_HAS(PF_WINDOW) ? j0 + TILE - p.low : p.queries;
  return {from > 0 ? from / TILE * TILE : 0, to < p.queries ? to : p.queries};
}

// Which block this is: along the columns of results, the tiles, the heads.
struct pf_block_place {
  pf_i64 head, tile, chunk;
  int sequence;
  PF_METHOD pf_block_place(const pf_attention& a) {
    const pf_i64 b = pf_block(), rest = pf_quotient(b, a.chunks);
    chunk = b - rest * a.chunks;
    head = pf_quotient(rest, a.tiles);
    tile = rest - head * a.tiles;
    sequence = 0;
    if constexpr (PF_HAS(PF_SEQUENCES)) {
      const pf_i64 whole = head;
      head = pf_quotient(whole, a.sequences);
      sequence = static_cast<int>(whole - head * a.sequences);
    }
  }
};

#endif
