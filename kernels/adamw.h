// One step of Adam or AdamW over a list of tensors.
//
//   -DPF_AMSGRAD=0|1 and what optim_narrow.h takes
#include "optim_narrow.h"

// Arrays: parameter, average, average of squares, [its maximum,] [weight,] gradient.
struct pf_adam_step {
  const pf_entry_of& e;
  const pf_adam<C>& a;
  template <int W, int U>
  PF_METHOD void run(pf_i64 i, pf_i64 apart) const {
    // Asked anew each time: a compiler would write the loops once for each case.
    const pf_i32 kind = pf_opaque<true>(a.decays ? a.decoupled ? 2 : 1 : 0);
    C p[U][W], m[U][W], v[U][W], g[U][W], top[U][W];
    pf_take<T>(e.data[0], i, apart, p);
    pf_take<S>(e.data[1], i, apart, m);
    pf_take<S>(e.data[2], i, apart, v);
    if constexpr (PF_AMSGRAD) pf_take<S>(e.data[3], i, apart, top);
    pf_wait_for_earlier();
    pf_take<G>(e.data[3 + PF_AMSGRAD + HAS_WEIGHTS], i, apart, g);
    pf_follow(e.data[3 + PF_AMSGRAD], i, apart, p);
    PF_UNROLL for (int u = 0; u < U; ++u) {
      PF_UNROLL for (int j = 0; j < W; ++j) {
        C gv = g[u][j] * a.sign, pv = p[u][j];
        gv = kind == 1 ? gv + a.decay * pv : gv;
        pv = kind == 2 ? pv * a.decay : pv;
        m[u][j] = m[u][j] + a.c1 * (gv - m[u][j]);
        v[u][j] = v[u][j] * a.b2 + a.c2 * (gv * gv);
        C high = v[u][j];
        if constexpr (PF_AMSGRAD) {
          high = top[u][j] > high || top[u][j] != top[u][j] ? top[u][j] : high;
          top[u][j] = high;
        }
        p[u][j] = pv + a.size * (m[u][j] / (pf_sqrt(high) * a.root + a.eps));
      }
      const pf_i64 at = i + u * apart;
      const pf_rounding r{a.seed, e.random};
      pf_copy_out(e.data[3 + PF_AMSGRAD], at, p[u]);
      r.put<T, 0>(e.data[0], at, p[u]);
      r.put<S, 1>(e.data[1], at, m[u]);
      r.put<S, 2>(e.data[2], at, v[u]);
      if constexpr (PF_AMSGRAD) r.put<S, 3>(e.data[3], at, top[u]);
    }
  }
};

PF_KERNEL(adamw, PF_OPTIM_THREADS)(const pf_list l, const pf_adam<C> a) {
  pf_next_may_start();
  pf_begin_step(l);
  PF_SHARED pf_i32 slot;
  const pf_stretch s(l, &slot);
  pf_for_stretch(s, pf_adam_step{s.tensor, a});
}
