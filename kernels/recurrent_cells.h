// The cells of recurrent layers (src/table/kernels/recurrent.h) over a value type: an element of a
// GPU's thread, a vector of the CPU. kMode: 0 tanh, 1 relu, 2 LSTM, 3 GRU. Stands on the names of
// elementary.h, and on pf_gate and pf_value: sigmoid and tanh as the dtype wants them.
#ifndef PF_RECURRENT_CELLS_H
#define PF_RECURRENT_CELLS_H

// g times the slope of a gate, or of tanh, of value y.
template <class V>
PF_DEVICE V pf_behind_gate(V g, V y) {
  return g * (y * (V(1) - y));
}
template <class V>
PF_DEVICE V pf_behind_value(V g, V y) {
  return g * (V(1) - y * y);
}

// x and p: what the input and the state give to each gate; x becomes the gates. h and c: the states
// before the step, then those behind it.
template <int kMode, class V, int G>
PF_DEVICE void pf_cell_step(V (&x)[G], const V (&p)[G], V& h, V& c) {
  if constexpr (kMode == 0) {
    h = pf_value(x[0] + p[0]);
  } else if constexpr (kMode == 1) {
    const V v = x[0] + p[0];
    h = PF_SELECT(v <= V(0), V(0), v);
  } else if constexpr (kMode == 2) {
    x[0] = pf_gate(x[0] + p[0]);
    x[1] = pf_gate(x[1] + p[1]);
    x[2] = pf_value(x[2] + p[2]);
    x[3] = pf_gate(x[3] + p[3]);
    c = x[1] * c + x[0] * x[2];
    h = x[3] * pf_value(c);
  } else {
    x[0] = pf_gate(x[0] + p[0]);
    x[1] = pf_gate(x[1] + p[1]);
    x[2] = pf_value(x[2] + x[0] * p[2]);
    h = x[2] + x[1] * (h - x[2]);
  }
}

// g: the gradient of h; k: what was kept; y: the state behind the step, of an LSTM c; before: the
// one before it. carried: the gradient of c, of a GRU what reaches h around the product. d: the
// gradients of the gates; part: of the state's part in a GRU's fresh value.
template <int kMode, class V, int G>
PF_DEVICE void pf_cell_back(V g, V& carried, const V (&k)[4], V y, V before, V (&d)[G], V& part) {
  if constexpr (kMode == 0) {
    d[0] = pf_behind_value(g, y);
  } else if constexpr (kMode == 1) {
    d[0] = PF_SELECT(y <= V(0), V(0), g);
  } else if constexpr (kMode == 2) {
    const V c = pf_value(y), dc = carried + pf_behind_value(g * k[3], c);
    d[0] = pf_behind_gate(dc * k[2], k[0]);
    d[1] = pf_behind_gate(dc * before, k[1]);
    d[2] = pf_behind_value(dc * k[0], k[2]);
    d[3] = pf_behind_gate(g * c, k[3]);
    carried = dc * k[1];
  } else {
    const V all = g + carried;
    d[2] = pf_behind_value(all * (V(1) - k[1]), k[2]);
    d[1] = pf_behind_gate(all * (before - k[2]), k[1]);
    d[0] = pf_behind_gate(d[2] * k[3], k[0]);
    part = d[2] * k[0];
    carried = all * k[1];
  }
}

#endif
