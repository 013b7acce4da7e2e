// What the kernels of attention on matrix units share: 16-bit floats, up to 128 columns.
//
//   -DPF_T=pf_bf16|pf_f16
//   -DPF_MASK=   0: none, 1: bool, 2: numbers of dtype T that are added
//   -DPF_D=      columns of a tile: depth and depth_v rounded up; the rest is 0
//   -DPF_OWN=    rows of a warp; -DPF_WARPS= of a block; -DPF_OTHER= rows of the tiles that they
//                meet in turn; -DPF_HELD=1: own rows wait in registers, not in shared memory
//   -DPF_MATRIX_UNIT= as matrix_units.h says
//
// Scores are kept times log2(e), so that probabilities are powers of two; so is what `lse` holds.
#ifndef PF_FLASH_H
#define PF_FLASH_H
#include "attention_heads.h"
#include "math.h"
#include "strips.h"

enum {
  D = PF_D,
  OWN = PF_OWN,
  OTHER = PF_OTHER,
  BLOCK = PF_OWN * PF_WARPS,
  THREADS = PF_WARPS * PF_WARP,
  TILE_BYTES = OTHER * D * 2,
};
typedef pf_own<OWN, D, BLOCK, THREADS, PF_HELD> pf_own_rows;
typedef pf_fill<OTHER, D, THREADS> pf_fill_other;
typedef pf_strip<OWN, OTHER> pf_scores;
typedef pf_strip<OWN, D> pf_results;

#define PF_LOG2E 1.4426950408889634

// Which block and lane this is. Blocks of one head follow each other, so that they share its
// matrices in the cache; of causal ones those with most work come first.
struct pf_flash_place {
  pf_i64 head;
  int first;       // row of the block
  int lane, mine;  // the warp's first row, in the block
  PF_METHOD pf_flash_place(const pf_attention& a, bool last_first) {
    const pf_u32 b = pf_block(), tiles = static_cast<pf_u32>(a.tiles), h = b / tiles,
                 t = b - h * tiles;
    head = h;
    first = static_cast<int>(last_first ? tiles - 1 - t : t) * BLOCK;
    lane = static_cast<int>(pf_thread()) % PF_WARP;
    mine = static_cast<int>(pf_thread()) / PF_WARP * OWN;
  }
};
PF_DEVICE pf_lines pf_lines_of(const pf_attention& a, const pf_matrix& m, pf_i64 head, pf_i64 rows,
                               pf_i64 cols) {
  return {static_cast<const char*>(m.data) + pf_head_offset(a, m, head) * 2,
          m.row,
          m.col,
          static_cast<int>(rows),
          static_cast<int>(cols),
          m.whole != 0 && cols % 8 == 0};
}

// Products of a strip become scores: scaled, masked, and -inf where there is no query or key.
// Rows of the strip are queries from `own` on and columns keys from `other` on, or the other way.
template <bool OWN_QUERIES>
PF_DEVICE void pf_score_strip(const pf_attention& a, pf_i64 mask, int own, int other, int lane,
                              pf_scores& s) {
  lane = pf_opaque<false>(lane);
  const float scale = static_cast<float>(a.scale * PF_LOG2E), low = -pf_float<float>::infinity();
  const int query = OWN_QUERIES ? own : other, key = OWN_QUERIES ? other : own;
  const int queries = static_cast<int>(a.queries) - query, keys = static_cast<int>(a.keys) - key,
            sees =
                a.causal ? query - key : 1 << 30;  // query i of these sees key i + this, no later
  const bool inside = (OWN_QUERIES ? OWN : OTHER) <= queries &&
                      (OWN_QUERIES ? OTHER : OWN) <= keys &&
                      (OWN_QUERIES ? OTHER : OWN) - 1 <= sees;
  if (PF_MASK == 0 && inside) {
    s.each(lane, [&](int, int, float& x) PF_INLINE { x *= scale; });
    return;
  }
  s.each(lane, [&](int r, int col, float& x) PF_INLINE {
    const int row = s.row(r, lane), i = OWN_QUERIES ? row : col, j = OWN_QUERIES ? col : row;
    bool on = i < queries && j < keys && j - i <= sees;
    x *= scale;
    if constexpr (PF_MASK != 0) {
      const pf_i64 at = mask + (query + i) * a.mask.row + (key + j) * a.mask.col;
      if constexpr (PF_MASK == 1)
        on = on && pf_get_one<pf_bool>(pf_global(a.mask.data), at);
      else if (on)
        x += pf_get_one<PF_T>(pf_global(a.mask.data), at) * static_cast<float>(PF_LOG2E);
    }
    if (!on) x = low;
  });
}

#endif
