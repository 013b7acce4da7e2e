// One step of gradient descent over a list of tensors.
//
//   -DPF_MOMENTUM=0|1 and what optim_narrow.h takes
#include "optim_narrow.h"

// Arrays: parameter, [momentum,] [weight,] gradient.
struct pf_sgd_step {
  const pf_entry_of& e;
  const pf_sgd<C>& a;
  template <int W, int U>
  PF_METHOD void run(pf_i64 i, pf_i64 apart) const {
    C p[U][W], b[U][W], g[U][W];
    pf_take<T>(e.data[0], i, apart, p);
    if (PF_MOMENTUM && !a.first) pf_take<S>(e.data[1], i, apart, b);
    pf_wait_for_earlier();
    pf_take<G>(e.data[1 + PF_MOMENTUM + HAS_WEIGHTS], i, apart, g);
    pf_follow(e.data[1 + PF_MOMENTUM], i, apart, p);
    PF_UNROLL for (int u = 0; u < U; ++u) {
      PF_UNROLL for (int j = 0; j < W; ++j) {
        C gv = g[u][j] * a.sign;
        if (a.decays) gv = gv + a.decay * p[u][j];
        if constexpr (PF_MOMENTUM) {
          const C bv = a.first ? gv : b[u][j] * a.momentum + a.undamped * gv;
          b[u][j] = bv;
          gv = a.nesterov ? gv + a.momentum * bv : bv;
        }
        p[u][j] = p[u][j] + a.rate * gv;
      }
      const pf_i64 at = i + u * apart;
      const pf_rounding r{a.seed, e.random};
      if constexpr (PF_MOMENTUM) r.put<S, 1>(e.data[1], at, b[u]);
      pf_copy_out(e.data[1 + PF_MOMENTUM], at, p[u]);
      r.put<T, 0>(e.data[0], at, p[u]);
    }
  }
};

PF_KERNEL(sgd, PF_OPTIM_THREADS)(const pf_list l, const pf_sgd<C> a) {
  pf_next_may_start();
  pf_begin_step(l);
  PF_SHARED pf_i32 slot;
  const pf_stretch s(l, &slot);
  pf_for_stretch(s, pf_sgd_step{s.tensor, a});
}
