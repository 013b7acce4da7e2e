// What the kernels of attention's gradients on matrix units share.
#ifndef PF_FLASH_GRADIENTS_H
#define PF_FLASH_GRADIENTS_H
#include "flash.h"

// In powers of two, as scores are here; 2^(x - this) is 0 where a query sees nothing.
PF_DEVICE float pf_lse_or_none(const pf_attention& a, const pf_flash_part& part, int row) {
  if (row >= part.rows) return pf_float<float>::infinity();
  const float x = static_cast<const float*>(a.lse)[pf_lse_at(a, part, row)];
  return x == -pf_float<float>::infinity() ? pf_float<float>::infinity()
                                           : x * static_cast<float>(PF_LOG2E);
}
PF_DEVICE float pf_delta_of(const pf_attention& a, const pf_flash_part& part, int row) {
  return row < part.rows ? static_cast<const float*>(a.delta)[pf_lse_at(a, part, row)] : 0.0f;
}
// A row of out times that of dout, eight columns from c on.
PF_DEVICE float pf_row_product(const pf_lines& o, const pf_lines& g, int row, int c) {
  float d = 0.0f;
#if defined(PF_PARTS)
  PF_UNROLL for (int e = 0; e < 8; ++e) d =
      pf_fma(pf_number_of(o, row, c + e), pf_number_of(g, row, c + e), d);
#else
  pf_u32 x[4], y[4];
  pf_read_line<8>(o, row, c, x);
  pf_read_line<8>(g, row, c, y);
  PF_UNROLL for (int e = 0; e < 8; ++e) d =
      pf_fma(pf_dtype<PF_T>::decode(x[e / 2] >> (e % 2 * 16) & 0xffffu),
             pf_dtype<PF_T>::decode(y[e / 2] >> (e % 2 * 16) & 0xffffu), d);
#endif
  return d;
}
// Whether gradients begin at products; where lanes have registers for it, also those that draw.
#define PF_LATE \
  PF_HAS(PF_FEW_REGISTERS ? PF_SOFT_CAP | PF_SCORE : PF_SOFT_CAP | PF_SCORE | PF_DROPOUT)

// Products of a strip become scores, where those are all that gradients need: before dout v^T is
// made, for registers are few. What needs more of a product is left as it is.
template <bool OWN_QUERIES>
PF_DEVICE void pf_score_early(const pf_attention& a, const pf_flash_part& part, pf_i64 mask,
                              int own, int other, int lane, pf_scores& s) {
  if constexpr (!PF_LATE) pf_score_strip<OWN_QUERIES>(a, part, mask, own, other, lane, s);
}
// What that left and dout v^T of a strip become p, as it meets values, and ds: of the products
// (times the scale), or of the scores. lse and delta of (row of the lane, column).
template <bool OWN_QUERIES, bool OF_SCORES, class L, class G>
PF_DEVICE void pf_score_gradients(const pf_attention& a, const pf_flash_part& part, pf_i64 mask,
                                  int own, int other, int lane, pf_scores& s, pf_scores& ds, L lse,
                                  G delta) {
  lane = pf_opaque<false>(lane);
  pf_dropped<OWN_QUERIES> drawn(a, part, own, other);
  const auto finish = [&](int r, int col, float& x, float& y, float slope) PF_INLINE {
    const bool outside = x == -pf_float<float>::infinity();
    x = pf_power(x - lse(r, col));
    if constexpr (PF_HAS(PF_DROPOUT)) {
      const float factor = drawn.keeps(s.row(r, lane), col) ? static_cast<float>(a.keeping) : 0.0f;
      y = outside ? 0.0f : x * (y * factor - delta(r, col));
      x *= factor;
    } else {
      y = outside ? 0.0f : x * (y - delta(r, col));
    }
    if constexpr (PF_HAS(PF_SOFT_CAP) && !OF_SCORES) y *= slope;
    if constexpr (PF_HAS(PF_SCORE) && !OF_SCORES) y = outside ? 0.0f : y * slope;
  };
  if constexpr (PF_LATE)
    pf_each_score<OWN_QUERIES>(a, part, mask, own, other, lane, s, ds, finish);
  else
    s.each_with(lane, ds,
                [&](int r, int col, float& x, float& y) PF_INLINE { finish(r, col, x, y, 1.0f); });
}

#endif
