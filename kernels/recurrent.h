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
// g times the slope of a gate, or of tanh, of value y.
PF_DEVICE C pf_behind_gate(C g, C y) {
  return g * (y * (C(1) - y));
}
PF_DEVICE C pf_behind_value(C g, C y) {
  return g * (C(1) - y * y);
}

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
      if constexpr (PF_MODE == 0) h[i] = pf_value(p[0][i] + x[0][i]);
      if constexpr (PF_MODE == 1) {
        const C v = p[0][i] + x[0][i];
        h[i] = v <= C(0) ? C(0) : v;
      }
      if constexpr (PF_MODE == 2) {
        PF_UNROLL for (int g = 0; g < 4; ++g) {
          const C v = x[g][i] + p[g][i];
          x[g][i] = g == 2 ? pf_value(v) : pf_gate(v);
        }
        c[i] = x[1][i] * c[i] + x[0][i] * x[2][i];
        h[i] = x[3][i] * pf_value(c[i]);
      }
      if constexpr (PF_MODE == 3) {
        x[0][i] = pf_gate(x[0][i] + p[0][i]);
        x[1][i] = pf_gate(x[1][i] + p[1][i]);
        x[2][i] = pf_value(x[2][i] + x[0][i] * p[2][i]);
        h[i] = x[2][i] + x[1][i] * (h[i] - x[2][i]);
      }
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
    C g[PF_V], carried[PF_V], d[G][PF_V];
    PF_UNROLL for (int i = 0; i < PF_V; ++i) g[i] = carried[i] = C(0);
    pf_add(r.dout, at.state, g);
    pf_add(r.sum, at.state, g);
    C* const carry = static_cast<C*>(r.carried) + at.state;
    if constexpr (G > 1) {
      if (!r.begins) pf_load<C, PF_V, false>(carry, carried);
    }
    if constexpr (G == 1) {
      C y[PF_V];
      pf_take(r.h, at.state, y);
      PF_UNROLL for (int i = 0; i < PF_V; ++i) d[0][i] =
          PF_MODE == 0 ? pf_behind_value(g[i], y[i]) : (y[i] <= C(0) ? C(0) : g[i]);
    }
    if constexpr (PF_MODE == 2) {
      C k[4][PF_V], c[PF_V], before[PF_V];
      PF_UNROLL for (int j = 0; j < 4; ++j) pf_take(r.kept, at.gate(hidden, 4, j), k[j]);
      pf_take(r.c, at.state, c);
      pf_take(r.cell, at.state, before);
      if (r.begins) pf_add(r.given, at.state, carried);
      PF_UNROLL for (int i = 0; i < PF_V; ++i) {
        const C out = k[3][i], y = pf_value(c[i]);
        const C dc = carried[i] + pf_behind_value(g[i] * out, y);
        d[0][i] = pf_behind_gate(dc * k[2][i], k[0][i]);
        d[1][i] = pf_behind_gate(dc * before[i], k[1][i]);
        d[2][i] = pf_behind_value(dc * k[0][i], k[2][i]);
        d[3][i] = pf_behind_gate(g[i] * y, out);
        carried[i] = dc * k[1][i];
      }
    }
    if constexpr (PF_MODE == 3) {
      C k[4][PF_V], before[PF_V], part[PF_V];
      PF_UNROLL for (int j = 0; j < 4; ++j) pf_take(r.kept, at.gate(hidden, 4, j), k[j]);
      pf_take(r.before, at.state, before);
      PF_UNROLL for (int i = 0; i < PF_V; ++i) {
        const C all = g[i] + carried[i], reset = k[0][i], keep = k[1][i], fresh = k[2][i];
        d[2][i] = pf_behind_value(all * (C(1) - keep), fresh);
        d[1][i] = pf_behind_gate(all * (before[i] - fresh), keep);
        d[0][i] = pf_behind_gate(d[2][i] * k[3][i], reset);
        part[i] = d[2][i] * reset;
        carried[i] = all * keep;
      }
      PF_UNROLL for (int j = 0; j < 2; ++j) pf_give(r.dstate, at.gate(hidden, 3, j), d[j]);
      pf_give(r.dstate, at.gate(hidden, 3, 2), part);
    }
    PF_UNROLL for (int j = 0; j < G; ++j) pf_give(r.dx, at.gate(hidden, G, j), d[j]);
    if constexpr (G > 1) pf_store<C, PF_V, false>(carry, carried);
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
