// One step of an optimizer of kernels/optim_rules.h over a list of tensors.
//
//   -DPF_T=  dtype    -DPF_RULE=  of pf_rule    -DPF_ARRAYS=  parameter, states, gradient
#include "optim.h"
#include "optim_rules.h"

struct pf_step_of_rule {
  const pf_entry_of& e;
  const pf_step<C>& a;
  template <int W, int U>
  PF_METHOD void run(pf_i64 i, pf_i64 apart) const {
    const pf_i32 kind = pf_opaque<true>(a.decays);
    C x[PF_ARRAYS][U][W];
    PF_UNROLL for (int k = 0; k + 1 < PF_ARRAYS; ++k) pf_take(e.data[k], i, apart, x[k]);
    pf_wait_for_earlier();
    pf_take(e.data[PF_ARRAYS - 1], i, apart, x[PF_ARRAYS - 1]);
    PF_UNROLL for (int u = 0; u < U; ++u) {
      PF_UNROLL for (int j = 0; j < W; ++j) {
        C v[PF_ARRAYS];
        PF_UNROLL for (int k = 0; k < PF_ARRAYS; ++k) v[k] = x[k][u][j];
        C& g = v[PF_ARRAYS - 1];
        g = g * a.sign;
        g = kind == 1 ? g + a.decay * v[0] : g;
        v[0] = kind == 2 ? v[0] * a.decay : v[0];
        pf_rule_step<PF_RULE>(v, a.numbers);
        PF_UNROLL for (int k = 0; k + 1 < PF_ARRAYS; ++k) x[k][u][j] = v[k];
      }
      PF_UNROLL for (int k = 0; k + 1 < PF_ARRAYS; ++k)
          pf_put<T, W, true>(pf_at<T>(e.data[k], i + u * apart), x[k][u]);
    }
  }
};

PF_KERNEL(optim_step, PF_OPTIM_THREADS)(const pf_list l, const pf_step<C> a) {
  pf_next_may_start();
  pf_begin_step(l);
  PF_SHARED pf_i32 slot;
  const pf_stretch s(l, &slot);
  pf_for_stretch(s, pf_step_of_rule{s.tensor, a});
}
