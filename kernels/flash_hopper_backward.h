// Gradients of scaled dot-product attention on Hopper: flash_backward.h by wgmma and tensor maps.
// The kernel for dq runs first: it leaves behind what the other one needs of each row.
//
//   -DPF_GIVES=  what the program makes: 3: dk and dv, 4: dq, and the sum of these
#include "flash_hopper.h"

// A score becomes p, and the gradient of p that of the score, which stays 0 outside.
// Of large scores, lse is rounded: no weight is above 1.
PF_DEVICE float pf_weight_of(float x, float scale, float lse) {
  return pf_exp2_quick(pf_least(pf_fma(x, scale, -lse), 0.0f));
}
PF_DEVICE float pf_slope_of(float p, float dp, float delta, bool masked) {
  return masked && p == 0.0f ? 0.0f : p * (dp - delta);
}
// The same of a score that is a function of the product.
PF_DEVICE float pf_slope_of(float p, float dp, float delta, float slope) {
  return p == 0.0f ? 0.0f : p * (dp - delta) * slope;
}

#if PF_GIVES & 4
// Of a lane's rows, the first of which is `own` of the head's: lse in powers of two, infinity where
// nothing is seen, and delta, the sum of out * dout, to which four lanes add. Both go to the sums.
PF_DEVICE void pf_sums_of_rows(const pf_flash_maps& m, pf_i64 head, int own, int lane,
                               float (&lse)[2], float (&delta)[2]) {
  const pf_attention& a = m.at;
  const float none = pf_float<float>::infinity();
  const auto out = pf_lines_of(a, a.out, head, 0, a.queries, a.depth_v),
             dout = pf_lines_of(a, a.dout, head, 0, a.queries, a.depth_v);
  PF_UNROLL for (int r = 0; r < 2; ++r) {
    const int row = own + pf_results::row(r, lane);
    const bool on = row < a.queries;
    float d = 0.0f;
    if (on) PF_UNROLL for (int c = 0; c < D; c += 32) {
        pf_u32 x[4], y[4];
        pf_read_line<8>(out, row, c + lane % 4 * 8, x);
        pf_read_line<8>(dout, row, c + lane % 4 * 8, y);
        PF_UNROLL for (int e = 0; e < 8; ++e) d =
            pf_fma(pf_dtype<PF_T>::decode(x[e / 2] >> (e % 2 * 16) & 0xffffu),
                   pf_dtype<PF_T>::decode(y[e / 2] >> (e % 2 * 16) & 0xffffu), d);
      }
    d += pf_shuffle_xor(d, 1);
    delta[r] = d + pf_shuffle_xor(d, 2);
    const float x = on ? static_cast<const float*>(a.lse)[head * a.queries + row] : none;
    lse[r] = x == -none ? none : x * static_cast<float>(PF_LOG2E);
    if (lane % 4 != 0) continue;
    float* to = m.rows + head * 2 * m.padded + row;
    to[0] = lse[r];
    to[m.padded] = delta[r];
  }
}

PF_KERNEL(flash_hopper_dq, ALL_THREADS)(PF_GRID_CONSTANT pf_flash_maps m) {
  const pf_attention& a = m.at;
  char* memory = pf_dynamic_shared();
  const pf_shared_at own_q = pf_shared_address(memory), own_g = own_q + OWN_BYTES,
                     barriers = own_g + (OWN_BYTES + pf_flash_ring::BYTES);
  pf_flash_ring ring = pf_make_ring(own_g + OWN_BYTES, barriers + 8);
  pf_make_barriers(barriers, barriers + 8);
  const pf_flash_place at(a, a.causal != 0);
  const int group = at.mine / 64;
  const pf_flash_part part(pf_part_of(a, at.head, 0));
  const pf_flash_steps steps = pf_steps_of_queries(part, at.first, at.first + group * 64);

  if (!pf_multiplies()) {
    if (!pf_copies()) return;
    const pf_head_index head(m, at.head), q = head.in(m.step_q), g = head.in(m.step_dout),
                                          k = head.in(m.step_k), v = head.in(m.step_v);
    pf_mbarrier_expect(barriers, 2 * OWN_BYTES);
    pf_copy_own(own_q, m.q, barriers, at.first, q);
    pf_copy_own(own_g, m.dout, barriers, at.first, g);
    PF_NO_UNROLL for (int j = steps.end - 1; j >= steps.begin; --j, ring.next()) {
      pf_copy_panels<OTHER>(ring.tile(0), m.k, ring.fill(0, TILE_BYTES), j * OTHER, k);
      pf_copy_panels<OTHER>(ring.tile(1), m.v, ring.fill(1, TILE_BYTES), j * OTHER, v);
    }
    return;
  }

  const int lane = at.lane, own = at.first + at.mine;
  const pf_panels q = pf_own_panels(own_q, group), g = pf_own_panels(own_g, group);
  const pf_i64 mask = PF_MASK ? pf_head_offset(a, a.mask, at.head) : 0;
  const float by = EACH_SCORE ? 1.0f : pf_scale_of(a);
  pf_results dq;
  pf_scores s, ds;
  pf_weights<OWN, OTHER> w;
  dq.clear();
  float lse[2], delta[2];
  pf_sums_of_rows(m, at.head, own, lane, lse, delta);
  pf_mbarrier_wait(barriers, 0);
  pf_u32 before = 0;  // the stage of the step before
  const auto step = [&](int j, bool masked) PF_INLINE {
    ring.wait(0);
    ring.wait(1);
    pf_hold(s);
    pf_hold(ds);
    pf_hold(dq);
    pf_products_begin();
    pf_start_products<D>(s, q, ring.panels(0));
    pf_products_end();
    pf_start_products<D>(ds, g, ring.panels(1));
    pf_products_end();
    pf_products_wait<SLOPED ? 0 : 1>();
    pf_hold(s);
    pf_hold(w);
    if (j < steps.end - 1) ring.release(0, before);  // what was added to dq is through, too
    if constexpr (SLOPED) {
      // Below.
    } else if constexpr (EACH_SCORE)
      pf_score_strip<true>(a, part, mask, own, j * OTHER, lane, s);
    else if (masked)
      pf_hide<true>(part, own, j * OTHER, lane, s);
    if constexpr (!SLOPED)
      s.each(lane, [&](int r, int, float& x) PF_INLINE { x = pf_weight_of(x, by, lse[r]); });
    pf_products_wait<0>();
    pf_hold(ds);
    ring.release(1);
    pf_dropped<true> drawn(a, part, own, j * OTHER);
    const auto meet = [&](int r, int col, float& y) PF_INLINE {
      if constexpr (PF_HAS(PF_DROPOUT))
        y = drawn.keeps(s.row(r, lane), col) ? y * static_cast<float>(a.keeping) : 0.0f;
    };
    if constexpr (SLOPED)
      pf_each_score<true>(a, part, mask, own, j * OTHER, lane, s, ds,
                          [&](int r, int col, float& x, float& y, float slope) PF_INLINE {
                            meet(r, col, y);
                            x = pf_slope_of(pf_weight_of(x, 1.0f, lse[r]), y, delta[r], slope);
                          });
    else
      s.each_with(lane, ds, [&](int r, int col, float& x, float& y) PF_INLINE {
        meet(r, col, y);
        x = pf_slope_of(x, y, delta[r], masked);
      });
    w = pf_weights<OWN, OTHER>(s, lane);
    pf_hold(w);
    pf_hold(dq);
    pf_products_begin();
    pf_start_results(dq, w, ring.panels(0));
    pf_products_end();
    before = ring.stage;
    ring.next();
  };
  int j = steps.end - 1;
  for (; j >= steps.begin && (EACH_SCORE || j >= steps.not_whole); --j) step(j, true);
  for (; j >= steps.begin && j >= steps.whole; --j) step(j, false);
  if constexpr (PF_HAS(PF_WINDOW))
    for (; j >= steps.begin; --j) step(j, true);
  pf_products_wait<0>();
  pf_hold(dq);
  const float scale = static_cast<float>(a.scale);
  dq.each(lane, [&](int, int, float& x) PF_INLINE { x *= scale; });
  pf_write_group(m, 0, a.dq, at.head, a.queries, a.depth, memory, at.first, dq);
}
#endif

#if PF_GIVES & 3
PF_KERNEL(flash_hopper_dkv, ALL_THREADS)(PF_GRID_CONSTANT pf_flash_maps m) {
  const pf_attention& a = m.at;
  char* memory = pf_dynamic_shared();
  enum { SUMS_BYTES = 2 * OTHER * 4, SUMS = 2 * OWN_BYTES + pf_flash_ring::BYTES };
  const pf_shared_at own_k = pf_shared_address(memory), own_v = own_k + OWN_BYTES,
                     sums = own_k + SUMS, barriers = sums + PF_STAGES * SUMS_BYTES;
  pf_flash_ring ring = pf_make_ring(own_v + OWN_BYTES, barriers + 8);
  pf_make_barriers(barriers, barriers + 8);
  const pf_flash_place at(a, false);
  // Of neighbouring heads that share these keys, all, one after the other.
  const int heads = PF_HAS(PF_GROUPS) ? static_cast<int>(a.group) : 1, group = at.mine / 64;
  const pf_i64 head = at.head * heads;
  const pf_flash_part part(pf_part_of(a, head, 0));
  const pf_flash_steps steps = pf_steps_of_keys(part, at.first, at.first + group * 64);

  if (!pf_multiplies()) {
    if (!pf_copies()) return;
    const pf_head_index own(m, head), k = own.in(m.step_k), v = own.in(m.step_v);
    pf_mbarrier_expect(barriers, 2 * OWN_BYTES);
    pf_copy_own(own_k, m.k, barriers, at.first, k);
    pf_copy_own(own_v, m.v, barriers, at.first, v);
    for (int n = 0; n < heads; ++n) {
      const pf_head_index other(m, head + n), q = other.in(m.step_q), g = other.in(m.step_dout);
      PF_NO_UNROLL for (int i = steps.begin; i < steps.end; ++i, ring.next()) {
        const pf_shared_at full = ring.fill(0, TILE_BYTES + SUMS_BYTES);
        pf_copy_panels<OTHER>(ring.tile(0), m.q, full, i * OTHER, q);
        pf_tensor_copy(sums + ring.stage * SUMS_BYTES, m.sums, full, i * OTHER,
                       static_cast<pf_i32>(head + n) * 2);
        pf_copy_panels<OTHER>(ring.tile(1), m.dout, ring.fill(1, TILE_BYTES), i * OTHER, g);
      }
    }
    return;
  }

  const int lane = at.lane, own = at.first + at.mine;
  const pf_panels k = pf_own_panels(own_k, group), v = pf_own_panels(own_v, group);
  pf_i64 mask = PF_MASK ? pf_head_offset(a, a.mask, head) : 0;
  pf_flash_part part_of_n = part;
  const float by = EACH_SCORE ? 1.0f : pf_scale_of(a);
  pf_results dk, dv;
  pf_scores s, ds;
  pf_weights<OWN, OTHER> p, w;
  dk.clear();
  dv.clear();
  pf_mbarrier_wait(barriers, 0);
  pf_u32 before = 0;  // the stage of the step before
  const auto step = [&](int n, int i, bool masked) PF_INLINE {
    ring.wait(0);
    ring.wait(1);
    if constexpr (D > 64) {  // registers: p is free before the sums of this step are there
      pf_products_wait<1>();
      pf_hold(p);
      pf_hold(dv);
    }
    pf_hold(s);
    pf_hold(ds);
    pf_hold(dk);
    pf_hold(dv);
    pf_products_begin();
    pf_start_products<D>(s, k, ring.panels(0));
    pf_products_end();
    pf_start_products<D>(ds, v, ring.panels(1));
    pf_products_end();
    pf_products_wait<SLOPED ? 0 : 1>();
    pf_hold(s);
    if constexpr (D == 64) pf_hold(p);
    pf_hold(w);
    if (i > steps.begin || n > 0) {  // what was added to dk and dv is through, too
      ring.release(0, before);
      ring.release(1, before);
    }
    if constexpr (SLOPED) {
      pf_hold(ds);
      const pf_shared_at row = sums + ring.stage * SUMS_BYTES;
      pf_dropped<false> drawn(a, part_of_n, own, i * OTHER);
      pf_each_score<false>(
          a, part_of_n, mask, own, i * OTHER, lane, s, ds,
          [&](int r, int col, float& x, float& y, float slope) PF_INLINE {
            float lse[2], delta[2];
            pf_load_shared2(row + col / 2 * 8, lse);
            pf_load_shared2(row + (OTHER * 4 + col / 2 * 8), delta);
            float met = 1.0f;
            if constexpr (PF_HAS(PF_DROPOUT))
              met = drawn.keeps(s.row(r, lane), col) ? static_cast<float>(a.keeping) : 0.0f;
            x = pf_weight_of(x, 1.0f, lse[col % 2]);
            y = pf_slope_of(x, y * met, delta[col % 2], slope);
            x *= met;
          });
      p = pf_weights<OWN, OTHER>(s, lane);
      w = pf_weights<OWN, OTHER>(ds, lane);
      pf_hold(p);
      pf_hold(w);
      pf_hold(dv);
      pf_hold(dk);
      pf_products_begin();
      pf_start_results(dv, p, ring.panels(1));
      pf_products_end();
      pf_products_begin();
      pf_start_results(dk, w, ring.panels(0));
      pf_products_end();
      before = ring.stage;
      ring.next();
      return;
    } else if constexpr (EACH_SCORE)
      pf_score_strip<false>(a, part_of_n, mask, own, i * OTHER, lane, s);
    else if (masked)
      pf_hide<false>(part, own, i * OTHER, lane, s);
    const pf_shared_at row = sums + (ring.stage * SUMS_BYTES + lane % 4 * 8);
    PF_UNROLL for (int j = 0; j < OTHER / 8; ++j) {
      float lse[2];
      pf_load_shared2(row + j * 32, lse);
      PF_UNROLL for (int v = 0; v < 4; ++v) s.c[0][j][v] =
          pf_weight_of(s.c[0][j][v], by, lse[v % 2]);
    }
    pf_u32 kept = 0;  // a bit for each of the lane's weights
    if constexpr (PF_HAS(PF_DROPOUT)) {
      static_assert(OTHER <= 64, "as many weights as there are bits");
      pf_dropped<false> drawn(a, part_of_n, own, i * OTHER);
      pf_scores meets = s;
      int at = 0;
      meets.each(lane, [&](int r, int col, float& x) PF_INLINE {
        const bool on = drawn.keeps(s.row(r, lane), col);
        kept |= on ? 1u << at : 0u;
        x = on ? x * static_cast<float>(a.keeping) : 0.0f;
        ++at;
      });
      p = pf_weights<OWN, OTHER>(meets, lane);
    } else {
      p = pf_weights<OWN, OTHER>(s, lane);
    }
    pf_products_wait<0>();
    pf_hold(ds);
    pf_hold(p);
    pf_hold(dv);
    pf_products_begin();
    pf_start_results(dv, p, ring.panels(1));
    pf_products_end();
    PF_UNROLL for (int j = 0; j < OTHER / 8; ++j) {
      float delta[2];
      pf_load_shared2(row + (OTHER * 4 + j * 32), delta);
      PF_UNROLL for (int v = 0; v < 4; ++v) {
        float dp = ds.c[0][j][v];
        if constexpr (PF_HAS(PF_DROPOUT))
          dp = kept >> (j * 4 + v) & 1u ? dp * static_cast<float>(a.keeping) : 0.0f;
        s.c[0][j][v] = pf_slope_of(s.c[0][j][v], dp, delta[v % 2], masked);
      }
    }
    w = pf_weights<OWN, OTHER>(s, lane);
    pf_hold(w);
    pf_hold(dk);
    pf_products_begin();
    pf_start_results(dk, w, ring.panels(0));
    pf_products_end();
    before = ring.stage;
    ring.next();
  };
  for (int n = 0; n < heads; ++n) {
    if constexpr (PF_HAS(PF_GROUPS)) {
      if constexpr (EACH_SCORE || PF_HAS(PF_DROPOUT))
        part_of_n = pf_flash_part(pf_part_of(a, head + n, 0));
      if constexpr (PF_MASK != 0) mask = pf_head_offset(a, a.mask, head + n);
    }
    int i = steps.begin;
    for (; i < steps.end && (EACH_SCORE || i < steps.whole); ++i) step(n, i, true);
    for (; i < steps.end && i < steps.not_whole; ++i) step(n, i, false);
    if constexpr (PF_HAS(PF_WINDOW))
      for (; i < steps.end; ++i) step(n, i, true);
  }
  pf_products_wait<0>();
  pf_hold(dk);
  pf_hold(dv);
  const float scale = static_cast<float>(a.scale);
  dk.each(lane, [&](int, int, float& x) PF_INLINE { x *= scale; });
  pf_write_group(m, 0, a.dk, head, a.keys, a.depth, memory, at.first, dk);
  pf_write_group(m, 1, a.dv, head, a.keys, a.depth_v, memory + OWN_BYTES, at.first, dv);
}
#endif
