// What the kernels of attention on matrix units share: 16-bit floats, up to 256 columns; with mma
// also float32 in parts (strips_parts.h), up to 128.
//
//   -DPF_T=pf_bf16|pf_f16|float
//   -DPF_PARTS=3|2 of a float32; -DPF_AHEAD=1: registers are there for the next tile
//   -DPF_FEATURES=  as attention_args.h says
//   -DPF_MASK=   0: none, 1: bool, 2: numbers of dtype T that are added
//   -DPF_D=      columns of a tile: depth and depth_v rounded up; the rest is 0
//   -DPF_OWN=    rows of a warp; -DPF_WARPS= of a block; -DPF_OTHER= rows of the tiles that they
//                meet in turn; -DPF_HELD=1: own rows wait in registers, not in shared memory
//   -DPF_MATRIX_UNIT= as matrix_units.h says
//
// Scores are kept times log2(e) (PF_LOG2E), so that probabilities are powers of two; `lse` holds
// natural logarithms, as those that others make of it.
#ifndef PF_FLASH_H
#define PF_FLASH_H
#include "attention_heads.h"
#include "half_math.h"
#include "math.h"
#include "strips.h"

enum {
  D = PF_D,
  OWN = PF_OWN,
  OTHER = PF_OTHER,
  BLOCK = PF_OWN * PF_WARPS,
  THREADS = PF_WARPS * PF_WARP,
#if defined(PF_PARTS)
  TILE_BYTES = PF_PARTS * OTHER * D * 2,
#else
  TILE_BYTES = OTHER * D * 2,
#endif
  ITEM = sizeof(PF_T),
};
typedef pf_own<OWN, D, BLOCK, THREADS, PF_HELD> pf_own_rows;
typedef pf_fill<OTHER, D, THREADS> pf_fill_other;
typedef pf_strip<OWN, OTHER> pf_scores;
typedef pf_strip<OWN, D> pf_results;

#if defined(PF_PARTS)  // natural ones, and exact functions
#define PF_LOG2E 1.0
PF_DEVICE float pf_power(float x) {
  return pf_exp_of_negative(x);
}
PF_DEVICE float pf_cap(float x) {
  return pf_tanh(x);
}
#else
#define PF_LOG2E 1.4426950408889634
PF_DEVICE float pf_power(float x) {
  return pf_exp2_quick(x);
}
PF_DEVICE float pf_cap(float x) {
  return pf_half::pf_tanh(x);
}
#endif

// Which block and lane this is. Blocks of one head follow each other, so that they share its
// matrices in the cache; of causal ones those with most work come first.
struct pf_flash_place {
  pf_i64 head;
  int sequence;
  int first;       // row of the block
  int lane, mine;  // the warp's first row, in the block
  PF_METHOD pf_flash_place(const pf_attention& a, bool last_first) {
    const pf_u32 b = pf_block(), tiles = static_cast<pf_u32>(a.tiles), h = b / tiles,
                 t = b - h * tiles;
    head = h;
    sequence = 0;
    if constexpr (PF_HAS(PF_SEQUENCES)) {
      head = h / static_cast<pf_u32>(a.sequences);
      sequence = static_cast<int>(h - static_cast<pf_u32>(head) * static_cast<pf_u32>(a.sequences));
    }
    first = static_cast<int>(last_first ? tiles - 1 - t : t) * BLOCK;
    lane = static_cast<int>(pf_thread()) % PF_WARP;
    mine = static_cast<int>(pf_thread()) / PF_WARP * OWN;
  }
};
PF_DEVICE pf_lines pf_lines_of(const pf_attention& a, const pf_matrix& m, pf_i64 head, pf_i64 row,
                               pf_i64 rows, pf_i64 cols) {
  return {static_cast<const char*>(m.data) + (pf_head_offset(a, m, head) + row * m.row) * ITEM,
          m.row,
          m.col,
          static_cast<int>(rows),
          static_cast<int>(cols),
          m.whole != 0 && cols % (16 / ITEM) == 0};
}
// Rows of keys or values from j on, on whose page they are.
PF_DEVICE pf_lines pf_paged(const pf_attention& a, const pf_part& part, pf_lines m, int j) {
  if constexpr (PF_HAS(PF_PAGES))
    if (j < m.rows) m.p += (pf_row_of_key(a, part, j) - j) * m.row * ITEM;
  return m;
}

// A part whose positions are ints; what is beyond all of them is as far as an int goes.
struct pf_flash_part : pf_part {
  int rows, columns;  // queries and keys
  int from, to;       // low and high
  PF_METHOD pf_flash_part(const pf_part& p)
      : pf_part(p),
        rows(static_cast<int>(p.queries)),
        columns(static_cast<int>(p.keys)),
        from(near(p.low)),
        to(near(p.high)) {}
  static PF_METHOD int near(pf_i64 x) {  // of no sequence, hosts have done that
    return static_cast<int>(PF_HAS(PF_SEQUENCES) ? pf_between(x, -(1 << 30), 1 << 30) : x);
  }
  // Keys that queries from `first` on may see, `n` of them: the first, on a border of tiles, and
  // the one behind the last.
  PF_METHOD int first_key(int first) const {
    return PF_HAS(PF_WINDOW) && first + from > 0 ? (first + from) / OTHER * OTHER : 0;
  }
  PF_METHOD int end_key(int first, int n) const {
    return first + (n - 1) < columns - 1 - to ? first + n + to : columns;
  }
  // Queries that may see keys from `first` on, likewise.
  PF_METHOD int first_query(int first) const {
    return first - to > 0 ? (first - to) / OTHER * OTHER : 0;
  }
  PF_METHOD int end_query(int first, int n) const {
    return PF_HAS(PF_WINDOW) && first + (n - 1) < rows - 1 + from ? first + n - from : rows;
  }
  // Whether none of n queries from i on sees any of m keys from j on.
  PF_METHOD bool apart(int i, int n, int j, int m) const {
    return j > i + (n - 1) + to || (PF_HAS(PF_WINDOW) && j + (m - 1) < i + from);
  }
};

// The score of a product, times log2(e); `slope` gets that of what is a function of it.
PF_DEVICE float pf_score_of(const pf_attention& a, const pf_part& part, int i, int j, float product,
                            float scale, float* slope) {
  float x = product * scale;
  if constexpr (PF_HAS(PF_SOFT_CAP)) {  // scale: of the argument
    const float t = pf_cap(x);
    x = t * static_cast<float>(a.soft_cap * PF_LOG2E);
    if (slope) *slope = pf_fma(-t, t, 1.0f);
  }
#ifdef PF_SCORE_TEXT
  const float query = static_cast<float>(a.first_query + i),
              key = static_cast<float>(a.first_key + j);
  if (slope) *slope = pf_score_slope(a, x, part.b, part.h, query, key);
  x = pf_score_value(a, x, part.b, part.h, query, key) * static_cast<float>(PF_LOG2E);
#endif
  if constexpr (PF_HAS(PF_SLOPES)) {
    const pf_i32 d = static_cast<pf_i32>(part.shift) + i - j;
    x = pf_fma(static_cast<float>(d < 0 ? d : -d), part.slope * static_cast<float>(PF_LOG2E), x);
  }
  return x;
}
PF_DEVICE float pf_scale_of(const pf_attention& a) {
  return static_cast<float>(PF_HAS(PF_SOFT_CAP) ? a.scale / a.soft_cap
                            : PF_HAS(PF_SCORE)  ? a.scale
                                                : a.scale * PF_LOG2E);
}

// Products of a strip become scores: scaled, masked, and -inf where there is no query or key.
// Rows of the strip are queries from `own` on and columns keys from `other` on, or the other way.
// f(r, column, score, value of the other strip, slope of the cap) gets them.
template <bool OWN_QUERIES, class F>
PF_DEVICE void pf_each_score(const pf_attention& a, const pf_flash_part& part, pf_i64 mask, int own,
                             int other, int lane, pf_scores& s, pf_scores& beside, F f) {
  const float scale = pf_scale_of(a), low = -pf_float<float>::infinity();
  const int query = OWN_QUERIES ? own : other, key = OWN_QUERIES ? other : own;
  const int queries = part.rows - query, keys = part.columns - key,
            sees = query - key + part.to;  // query i of these sees key i + this, no later
  const pf_u32 span = static_cast<pf_u32>(part.to) - static_cast<pf_u32>(part.from);
  s.each_with(lane, beside, [&](int r, int col, float& x, float& y) PF_INLINE {
    const int row = s.row(r, lane), i = OWN_QUERIES ? row : col, j = OWN_QUERIES ? col : row;
    bool on = i < queries && j < keys && j - i <= sees;
    if constexpr (PF_HAS(PF_WINDOW))  // both limits at once
      on =
          i < queries && j < keys && static_cast<pf_u32>(j - i - (query - key + part.from)) <= span;
    float slope = 1.0f;
    x = pf_score_of(a, part, query + i, key + j, x, scale, &slope);
    if constexpr (PF_MASK != 0) {
      const pf_i64 at = mask + (query + i) * a.mask.row + (key + j) * a.mask.col;
      if constexpr (PF_MASK == 1)
        on = on && pf_get_one<pf_bool>(pf_global(a.mask.data), at);
      else if (on)
        x += pf_get_one<PF_T>(pf_global(a.mask.data), at) * static_cast<float>(PF_LOG2E);
    }
    if (!on) x = low;
    f(r, col, x, y, slope);
  });
}
template <bool OWN_QUERIES>
PF_DEVICE void pf_score_strip(const pf_attention& a, const pf_flash_part& part, pf_i64 mask,
                              int own, int other, int lane, pf_scores& s) {
  lane = pf_opaque<false>(lane);
  const int query = OWN_QUERIES ? own : other, key = OWN_QUERIES ? other : own;
  constexpr int n = OWN_QUERIES ? OWN : OTHER, m = OWN_QUERIES ? OTHER : OWN;
  const bool inside = n <= part.rows - query && m <= part.columns - key &&
                      m - 1 <= query - key + part.to &&
                      (!PF_HAS(PF_WINDOW) || 1 - n >= query - key + part.from);
  // Two ways beside each other take more registers than RDNA has.
  constexpr bool one_way = PF_MASK != 0 || (PF_FEW_REGISTERS && PF_HAS(PF_WINDOW));
  if (!one_way && inside) {
    const float scale = pf_scale_of(a);
    s.each(lane, [&](int r, int col, float& x) PF_INLINE {
      const int row = s.row(r, lane);
      x = pf_score_of(a, part, query + (OWN_QUERIES ? row : col), key + (OWN_QUERIES ? col : row),
                      x, scale, nullptr);
    });
    return;
  }
  pf_each_score<OWN_QUERIES>(a, part, mask, own, other, lane, s, s,
                             [](int, int, float&, float&, float) PF_INLINE {});
}

// Of weights in the order of a strip: which are kept. Rows of the strip are queries from `own` on
// and columns keys from `other` on, or the other way; both begin at multiples of 16.
template <bool OWN_QUERIES>
struct pf_dropped {
  typedef pf_draws<!OWN_QUERIES> Draws;
  const pf_attention& a;
  const pf_part& part;
  const int query, key;
  pf_words words, second, third, fourth;  // no array: its index is known too late
  int n = 0;  // so far; known to the compiler, for loops over strips are unrolled
  PF_METHOD pf_dropped(const pf_attention& attention, const pf_part& p, int own, int other)
      : a(attention), part(p), query(OWN_QUERIES ? own : other), key(OWN_QUERIES ? other : own) {}
  PF_METHOD bool keeps(int row, int col) {
    const int i = OWN_QUERIES ? row : col, j = OWN_QUERIES ? col : row, at = n++ % 8;
    const int slot = Draws::slot(at);
    if (Draws::fresh(at)) {
      PF_STEP_ENDS();
      const pf_words fresh = pf_drawn(a, part, query + i, key + j);
      if (slot == 0) words = fresh;
      if (slot == 1) second = fresh;
      if (slot == 2) third = fresh;
      if (slot == 3) fourth = fresh;
    }
    return slot == 0   ? pf_keeps(a, words, i, j)
           : slot == 1 ? pf_keeps(a, second, i, j)
           : slot == 2 ? pf_keeps(a, third, i, j)
                       : pf_keeps(a, fourth, i, j);
  }
};
// Weights of a strip that are dropped become 0.
template <bool OWN_QUERIES>
PF_DEVICE void pf_drop(const pf_attention& a, const pf_part& part, int own, int other, int lane,
                       pf_scores& s) {
  if constexpr (PF_HAS(PF_DROPOUT)) {
    lane = pf_opaque<false>(lane);
    pf_dropped<OWN_QUERIES> drawn(a, part, own, other);
    s.each(lane, [&](int r, int col, float& x) PF_INLINE {
      if (!drawn.keeps(s.row(r, lane), col)) x = 0.0f;
    });
  }
}

#endif
