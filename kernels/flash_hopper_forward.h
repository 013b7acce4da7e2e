// Scaled dot-product attention on Hopper: flash_forward.h by wgmma and tensor maps.
//
//   -DPF_TURNS=1: groups start their products in turns, so that one multiplies while the other
//                 takes exponentials
#include "flash_hopper.h"

PF_KERNEL(flash_hopper_forward, ALL_THREADS)(PF_GRID_CONSTANT pf_flash_maps m) {
  const pf_attention& a = m.at;
  char* memory = pf_dynamic_shared();
  const pf_shared_at own_q = pf_shared_address(memory),
                     barriers = own_q + (OWN_BYTES + pf_flash_ring::BYTES);
  pf_flash_ring ring = pf_make_ring(own_q + OWN_BYTES, barriers + 8);
  pf_make_barriers(barriers, barriers + 8);
  const pf_flash_place at(a, a.causal != 0);
  const int group = at.mine / 64;
  const pf_flash_part part(pf_part_of(a, at.head, 0));
  const pf_flash_steps steps = pf_steps_of_queries(part, at.first, at.first + group * 64);

  if (!pf_multiplies()) {
    if (!pf_copies()) return;
    const pf_head_index head(m, at.head), q = head.in(m.step_q), k = head.in(m.step_k),
                                          v = head.in(m.step_v);
    pf_mbarrier_expect(barriers, OWN_BYTES);
    pf_copy_own(own_q, m.q, barriers, at.first, q);
    PF_NO_UNROLL for (int j = steps.end - 1; j >= steps.begin; --j, ring.next()) {
      pf_copy_panels<OTHER>(ring.tile(0), m.k, ring.fill(0, TILE_BYTES), j * OTHER, k);
      pf_copy_panels<OTHER>(ring.tile(1), m.v, ring.fill(1, TILE_BYTES), j * OTHER, v);
    }
    return;
  }

  const int lane = at.lane, own = at.first + at.mine;
  const pf_panels q = pf_own_panels(own_q, group);
  const pf_i64 mask = PF_MASK ? pf_head_offset(a, a.mask, at.head) : 0;
  const float low = -pf_float<float>::infinity(), by = EACH_SCORE ? 1.0f : pf_scale_of(a);
  pf_results o;
  pf_scores s;
  pf_weights<OWN, OTHER> p;
  float high[2] = {low, low}, sum[2] = {0.0f, 0.0f}, less[2];  // unscaled; the lane's part
  o.clear();
  pf_mbarrier_wait(barriers, 0);

  const auto weigh = [&](int j) PF_INLINE {
    if constexpr (EACH_SCORE)
      pf_score_strip<true>(a, part, mask, own, j * OTHER, lane, s);
    else if (j < steps.whole || j >= steps.not_whole)
      pf_hide<true>(part, own, j * OTHER, lane, s);
    float top[2] = {low, low}, base[2], shift[2];
    s.each(lane, [&](int r, int, float& x) PF_INLINE { top[r] = pf_most(top[r], x); });
    PF_UNROLL for (int r = 0; r < 2; ++r) {
      top[r] = pf_join_row<pf_highest>(top[r]);
      // Weights of up to 2^8 are as good as of up to 1: what is summed already stays as it is.
      const bool above = (top[r] - high[r]) * by > 8.0f;
      less[r] = above ? pf_exp2_quick((high[r] - top[r]) * by) : 1.0f;
      high[r] = above ? top[r] : high[r];
      sum[r] *= less[r];
      base[r] = high[r] == low ? 0.0f : high[r];  // nothing is seen so far: 2^-inf is 0
      shift[r] = base[r] * by;
    }
    // In one step, but of large scores, whose rounded product is far from the exact one.
    if (pf_any(pf_abs(shift[0]) > 32768.0f || pf_abs(shift[1]) > 32768.0f))
      s.each(lane, [&](int r, int, float& x) PF_INLINE { x = (x - base[r]) * by; });
    else
      s.each(lane, [&](int r, int, float& x) PF_INLINE { x = pf_fma(x, by, -shift[r]); });
    s.each(lane, [&](int r, int, float& x) PF_INLINE {
      x = pf_exp2_quick(x);
      sum[r] += x;
    });
    pf_drop<true>(a, part, own, j * OTHER, lane, s);
  };
  const auto turn = [&]() PF_INLINE {
    if constexpr (PF_TURNS) pf_group_barrier(1 + group, THREADS);
  };
  const auto pass_on = [&]() PF_INLINE {
    if constexpr (PF_TURNS) pf_group_arrive(1 + (group + 1) % GROUPS, THREADS);
  };
  if (group == GROUPS - 1) pass_on();

  ring.wait(0);
  pf_products_begin();
  pf_start_products<D>(s, q, ring.panels(0));
  pf_products_end();
  pf_products_wait<0>();
  pf_hold(s);
  ring.release(0);
  weigh(steps.end - 1);
  p = pf_weights<OWN, OTHER>(s, lane);
  pf_flash_ring values = ring;  // of the step before
  ring.next();
  // Scores of one step, then results of the one before: the exponentials of the first are taken
  // while the second is multiplied.
  for (int j = steps.end - 2; j >= steps.begin; --j) {
    ring.wait(0);
    turn();
    pf_hold(s);
    pf_hold(o);
    pf_hold(p);
    pf_products_begin();
    pf_start_products<D>(s, q, ring.panels(0));
    pf_products_end();
    values.wait(1);
    pf_products_begin();
    pf_start_results(o, p, values.panels(1));
    pf_products_end();
    pass_on();
    pf_products_wait<1>();
    pf_hold(s);
    ring.release(0);
    weigh(j);
    pf_products_wait<0>();
    pf_hold(o);
    pf_hold(p);
    values.release(1);
    p = pf_weights<OWN, OTHER>(s, lane);
    if (pf_any(less[0] != 1.0f || less[1] != 1.0f))
      o.each(lane, [&](int r, int, float& x) PF_INLINE { x *= less[r]; });
    values = ring;
    ring.next();
  }
  values.wait(1);
  pf_hold(o);
  pf_hold(p);
  pf_products_begin();
  pf_start_results(o, p, values.panels(1));
  pf_products_end();
  float inverse[2];
  PF_UNROLL for (int r = 0; r < 2; ++r) {
    sum[r] = pf_join_row<pf_plus>(sum[r]);
    inverse[r] = sum[r] == 0.0f ? 0.0f : 1.0f / sum[r];
    if constexpr (PF_HAS(PF_DROPOUT)) inverse[r] *= static_cast<float>(a.keeping);
    const int row = own + o.row(r, lane);
    const float lse = sum[r] == 0.0f
                          ? low
                          : pf_fma(high[r] * by, static_cast<float>(1 / PF_LOG2E), pf_log(sum[r]));
    // Lanes of the same row write the same.
    if (row < a.queries) {
      const pf_i64 to = pf_lse_at(a, part, row);
      static_cast<float*>(a.lse)[to] = lse;
      if (a.logs) static_cast<float*>(a.logs)[to] = lse;
    }
  }
  pf_products_wait<0>();
  pf_hold(o);
  o.each(lane, [&](int r, int, float& x) PF_INLINE { x *= inverse[r]; });
  pf_write_group(m, 0, a.out, at.head, a.queries, a.depth_v, memory, at.first, o);
}
