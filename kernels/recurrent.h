// One step of a recurrent layer behind its product with the state, its gradient before that, and
// what is carried to the state before the first step (src/table/kernels/recurrent.h). A thread has
// PF_V neighbouring elements of the state, and those of all gates.
//   -DPF_T=      dtype
//   -DPF_MODE=   0 tanh, 1 relu, 2 LSTM, 3 GRU
//   -DPF_V=      elements of a thread; hidden is a multiple of it
//   -DPF_INDEX=  integers that count elements
#include "recurrent_args.h"
#include "rows.h"
#include "space.h"

typedef PF_T T;
typedef pf_compute<T> C;
constexpr int G = PF_MODE == 2 ? 4 : PF_MODE == 3 ? 3 : 1;

PF_DEVICE C pf_gate(C x) {
  if constexpr (sizeof(T) == 2) return pf_half::pf_sigmoid(x);
  return pf_sigmoid(x);
}
PF_DEVICE C pf_value(C x) {
  if constexpr (sizeof(T) == 2) return pf_half::pf_tanh(x);
  return pf_tanh(x);
}
#include "recurrent_cells.h"

// Where a thread is: its element of a state, and of the first gate where there are GATES.
struct pf_place {
  pf_index state, row, column;
  PF_METHOD pf_index gate(pf_index hidden, int gates, int g) const {
    return (row * static_cast<pf_index>(gates) + static_cast<pf_index>(g)) * hidden + column;
  }
};
PF_DEVICE pf_place pf_place_of(pf_u64 item, pf_index hidden) {
  const pf_index at = static_cast<pf_index>(item) * PF_V, row = at / hidden;
  return {at, row, at - row * hidden};
}
PF_DEVICE void pf_take(const void* p, pf_index at, C (&v)[PF_V]) {
  pf_load<T, PF_V, false>(static_cast<const T*>(p) + at, v);
}
PF_DEVICE void pf_give(void* p, pf_index at, C (&v)[PF_V]) {
  pf_put<T, PF_V, false>(static_cast<T*>(p) + at, v);
}
PF_DEVICE void pf_add(const void* p, pf_index at, C (&v)[PF_V]) {
  if (!p) return;
  C more[PF_V];
  pf_take(p, at, more);
  PF_UNROLL for (int i = 0; i < PF_V; ++i) v[i] += more[i];
}

PF_KERNEL(recurrent_step, 128)(const pf_recurrent r) {
  const pf_index hidden = static_cast<pf_index>(r.hidden);
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(r.items); e += pf_item_step()) {
    const pf_place at = pf_place_of(e, hidden);
    C x[G][PF_V], p[G][PF_V], h[PF_V], c[PF_V];
    PF_UNROLL for (int g = 0; g < G; ++g) {
      pf_take(r.x, at.gate(hidden, G, g), x[g]);
      pf_take(r.product, at.gate(hidden, G, g), p[g]);
    }
    if constexpr (PF_MODE == 2) pf_take(r.cell, at.state, c);
    if constexpr (PF_MODE == 3) pf_take(r.before, at.state, h);
    PF_UNROLL for (int i = 0; i < PF_V; ++i) {
      C of_x[G], of_state[G];
      PF_UNROLL for (int g = 0; g < G; ++g) of_x[g] = x[g][i], of_state[g] = p[g][i];
      pf_cell_step<PF_MODE>(of_x, of_state, h[i], c[i]);
      PF_UNROLL for (int g = 0; g < G; ++g) x[g][i] = of_x[g];
    }
    pf_give(r.h, at.state, h);
    if constexpr (PF_MODE == 2) pf_give(r.c, at.state, c);
    if constexpr (G > 1) {
      if (!r.kept) continue;
      PF_UNROLL for (int g = 0; g < G; ++g) pf_give(r.kept, at.gate(hidden, 4, g), x[g]);
      if constexpr (G == 3) pf_give(r.kept, at.gate(hidden, 4, 3), p[2]);
    }
  }
}

PF_KERNEL(recurrent_step_back, 128)(const pf_recurrent_back r) {
  const pf_index hidden = static_cast<pf_index>(r.hidden);
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(r.items); e += pf_item_step()) {
    const pf_place at = pf_place_of(e, hidden);
    C g[PF_V], carried[PF_V], y[PF_V], before[PF_V], k[4][PF_V], d[G][PF_V], part[PF_V];
    PF_UNROLL for (int i = 0; i < PF_V; ++i) {
      g[i] = carried[i] = y[i] = before[i] = C(0);
      PF_UNROLL for (int j = 0; j < 4; ++j) k[j][i] = C(0);
    }
    const bool old = at.state < static_cast<pf_index>(r.old);
    pf_add(r.dout, at.state, g);
    pf_add(old ? r.sum : r.last, at.state, g);
    C* const carry = static_cast<C*>(r.carried) + at.state;
    if constexpr (G == 1) pf_take(r.behind, at.state, y);
    if constexpr (G > 1) {
      if (old) pf_load<C, PF_V, false>(carry, carried);
      PF_UNROLL for (int j = 0; j < 4; ++j) pf_take(r.kept, at.gate(hidden, 4, j), k[j]);
      pf_take(r.before, at.state, before);
    }
    if constexpr (PF_MODE == 2) {
      if (!old) pf_add(r.given, at.state, carried);
      pf_take(r.behind, at.state, y);
    }
    PF_UNROLL for (int i = 0; i < PF_V; ++i) {
      C of_gate[G];
      const C kept[4] = {k[0][i], k[1][i], k[2][i], k[3][i]};
      pf_cell_back<PF_MODE>(g[i], carried[i], kept, y[i], before[i], of_gate, part[i]);
      PF_UNROLL for (int j = 0; j < G; ++j) d[j][i] = of_gate[j];
    }
    PF_UNROLL for (int j = 0; j < G; ++j) pf_give(r.dx, at.gate(hidden, G, j), d[j]);
    if constexpr (PF_MODE == 3) {
      PF_UNROLL for (int j = 0; j < 2; ++j) pf_give(r.dstate, at.gate(hidden, 3, j), d[j]);
      pf_give(r.dstate, at.gate(hidden, 3, 2), part);
    }
    if constexpr (G > 1) pf_store<C, PF_V, false>(carry, carried);
  }
}

// The gradient of what a projection gave: of the step, and of the next one for the first `old`.
PF_KERNEL(recurrent_sum, 128)
(const void* dout, const void* sum, const void* last, void* to, pf_i64 items, pf_i64 old) {
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(items); e += pf_item_step()) {
    const pf_index at = static_cast<pf_index>(e) * PF_V;
    C v[PF_V];
    PF_UNROLL for (int i = 0; i < PF_V; ++i) v[i] = C(0);
    pf_add(dout, at, v);
    pf_add(at < static_cast<pf_index>(old) ? sum : last, at, v);
    pf_give(to, at, v);
  }
}

// The carried part and, where there is one, that of a product, as the gradient of a first state.
PF_KERNEL(recurrent_end, 128)(const void* carried, const void* sum, void* to, pf_i64 items) {
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(items); e += pf_item_step()) {
    const pf_index at = static_cast<pf_index>(e) * PF_V;
    C v[PF_V];
    pf_load<C, PF_V, false>(static_cast<const C*>(carried) + at, v);
    pf_add(sum, at, v);
    pf_give(to, at, v);
  }
}
