// Which elements along one dimension a place of a grid takes, and with which weights: of the CPU,
// too. pf_floor and pf_round of C stand before it.
#ifndef PF_GRID_PLACE_H
#define PF_GRID_PLACE_H

enum { pf_grid_linear = 0, pf_grid_nearest = 1, pf_grid_cubic = 2 };
enum { pf_grid_zeros = 0, pf_grid_border = 1, pf_grid_reflection = 2 };

template <class C>
struct pf_place {
  pf_i64 at[4];  // below 0: nothing is there
  C weight[4];
  C slope[4];  // of the weight by the grid's number
};

PF_DEVICE int pf_grid_taps(int mode) {
  return mode == pf_grid_linear ? 2 : mode == pf_grid_nearest ? 1 : 4;
}

// A place within [0, size - 1], and what its slope is multiplied by.
template <class C>
PF_DEVICE C pf_grid_inside(C u, pf_i64 size, int padding, bool align, C& slope) {
  const C last = static_cast<C>(size - 1);
  if (padding == pf_grid_reflection) {
    const C low = align ? C(0) : C(-0.5), span = align ? last : static_cast<C>(size);
    if (!(span > C(0))) {
      slope = C(0);
      return C(0);
    }
    C far = u - low;
    if (far < C(0)) {
      far = C(0) - far;
      slope = C(0) - slope;
    }
    const C flips = pf_floor(far / span), rest = far - flips * span;
    const bool odd = flips != C(2) * pf_floor(flips / C(2));
    if (odd) slope = C(0) - slope;
    u = (odd ? span - rest : rest) + low;
  }
  if (padding != pf_grid_zeros) {
    if (!(u > C(0))) {  // NaN, too
      slope = C(0);
      return C(0);
    }
    if (!(u < last)) {
      slope = C(0);
      return last;
    }
  }
  return u;
}
template <class C>
PF_DEVICE pf_i64 pf_grid_index(C u, pf_i64 size) {
  return u >= C(0) && u < static_cast<C>(size) ? static_cast<pf_i64>(u) : -1;
}

template <class C>
PF_DEVICE void pf_grid_place(C g, pf_i64 size, int mode, int padding, bool align, pf_place<C>& p) {
  const C wide = static_cast<C>(align ? size - 1 : size), one(1);
  C u = align ? (g + one) / C(2) * wide : ((g + one) * wide - one) / C(2);
  C slope = wide / C(2);
  if (mode == pf_grid_cubic) {
    const C low = pf_floor(u), t = u - low, a(-0.75), s = one - t;
    p.weight[0] = ((a * (t + one) - C(5) * a) * (t + one) + C(8) * a) * (t + one) - C(4) * a;
    p.weight[1] = ((a + C(2)) * t - (a + C(3))) * t * t + one;
    p.weight[2] = ((a + C(2)) * s - (a + C(3))) * s * s + one;
    p.weight[3] = ((a * (s + one) - C(5) * a) * (s + one) + C(8) * a) * (s + one) - C(4) * a;
    const C t1 = t + one, s1 = s + one;
    p.slope[0] = ((C(3) * a * t1 - C(10) * a) * t1 + C(8) * a) * slope;
    p.slope[1] = (C(3) * (a + C(2)) * t - C(2) * (a + C(3))) * t * slope;
    p.slope[2] = (C(2) * (a + C(3)) - C(3) * (a + C(2)) * s) * s * slope;
    p.slope[3] = ((C(10) * a - C(3) * a * s1) * s1 - C(8) * a) * slope;
    for (int k = 0; k < 4; ++k) {
      C none = one;
      p.at[k] = pf_grid_index(
          pf_grid_inside(low + static_cast<C>(k - 1), size, padding, align, none), size);
    }
    return;
  }
  u = pf_grid_inside(u, size, padding, align, slope);
  if (mode == pf_grid_nearest) {
    p.at[0] = pf_grid_index(pf_round(u) + C(0), size);
    p.weight[0] = one;
    p.slope[0] = C(0);
    return;
  }
  const C low = pf_floor(u);
  p.at[0] = pf_grid_index(low, size);
  p.at[1] = pf_grid_index(low + one, size);
  p.weight[0] = low + one - u;
  p.weight[1] = u - low;
  p.slope[0] = C(0) - slope;
  p.slope[1] = slope;
}

#endif
