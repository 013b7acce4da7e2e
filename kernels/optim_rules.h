// Steps of optimizers, element by element, over a value type: an element of a GPU's thread, a
// vector of the CPU. Formulas are torch.optim's, those of lion and lamb their papers'. Stands on
// pf_sqrt, pf_abs and PF_SELECT.
//
// A rule gets the parameter x[0], its states, and last the gradient, and changes all but that; n
// are numbers of the step, in the order that python/pyflame/optim gives them. Weight decay is done.
#ifndef PF_OPTIM_RULES_H
#define PF_OPTIM_RULES_H

enum pf_rule {
  pf_rmsprop,
  pf_rmsprop_centered,
  pf_rmsprop_momentum,
  pf_rmsprop_centered_momentum,
  pf_adagrad,
  pf_adadelta,
  pf_adamax,
  pf_nadam,
  pf_radam,
  pf_asgd,
  pf_rprop,
  pf_lion,
  pf_lamb,
  pf_rules
};

template <class V>
PF_DEVICE V pf_greater_of(V a, V b) {  // NaN if either is
  return PF_SELECT(a != a, a, PF_SELECT(b > a, b, PF_SELECT(b != b, b, a)));
}
template <class V>
PF_DEVICE V pf_sign_of(V x) {  // 0 for NaN
  return PF_SELECT(x > V(0), V(1), PF_SELECT(V(0) > x, V(-1), V(0)));
}

// n: rate, alpha, 1 - alpha, eps, momentum. States: average of squares, [average,] [momentum].
template <bool kCentered, bool kMomentum, class V, int A>
PF_DEVICE void pf_rmsprop_step(V (&x)[A], const V* n) {
  const V g = x[A - 1];
  x[1] = x[1] * n[1] + n[2] * (g * g);
  V spread = x[1];
  if constexpr (kCentered) {
    x[2] = x[2] + n[2] * (g - x[2]);
    spread = spread - x[2] * x[2];
  }
  const V u = g / (pf_sqrt(spread) + n[3]);
  if constexpr (kMomentum) {
    constexpr int kBuffer = kCentered ? 3 : 2;
    x[kBuffer] = x[kBuffer] * n[4] + u;
    x[0] = x[0] - n[0] * x[kBuffer];
  } else {
    x[0] = x[0] - n[0] * u;
  }
}

template <int kRule, class V, int A>
PF_DEVICE void pf_rule_step(V (&x)[A], const V* n) {
  const V g = x[A - 1];
  if constexpr (kRule == pf_rmsprop) {
    pf_rmsprop_step<false, false>(x, n);
  } else if constexpr (kRule == pf_rmsprop_centered) {
    pf_rmsprop_step<true, false>(x, n);
  } else if constexpr (kRule == pf_rmsprop_momentum) {
    pf_rmsprop_step<false, true>(x, n);
  } else if constexpr (kRule == pf_rmsprop_centered_momentum) {
    pf_rmsprop_step<true, true>(x, n);
  } else if constexpr (kRule == pf_adagrad) {  // n: rate, eps
    x[1] = x[1] + g * g;
    x[0] = x[0] - n[0] * (g / (pf_sqrt(x[1]) + n[1]));
  } else if constexpr (kRule == pf_adadelta) {  // n: rate, rho, 1 - rho, eps
    x[1] = x[1] * n[1] + n[2] * (g * g);
    const V u = pf_sqrt(x[2] + n[3]) / pf_sqrt(x[1] + n[3]) * g;
    x[2] = x[2] * n[1] + n[2] * (u * u);
    x[0] = x[0] - n[0] * u;
  } else if constexpr (kRule == pf_adamax) {  // n: corrected rate, 1 - beta1, beta2, eps
    x[1] = x[1] + n[1] * (g - x[1]);
    x[2] = pf_greater_of(x[2] * n[2], pf_abs(g) + n[3]);
    x[0] = x[0] - n[0] * (x[1] / x[2]);
  } else if constexpr (kRule == pf_nadam) {
    // n: rate of the gradient, rate of the average, 1 - beta1, beta2, 1 - beta2, 1 / correction2,
    // eps
    x[1] = x[1] + n[2] * (g - x[1]);
    x[2] = x[2] * n[3] + n[4] * (g * g);
    const V root = pf_sqrt(x[2] * n[5]) + n[6];
    x[0] = x[0] - n[0] * (g / root) - n[1] * (x[1] / root);
  } else if constexpr (kRule == pf_radam) {
    // n: rate of the average divided by the root, rate of the average alone, 1 - beta1, beta2,
    // 1 - beta2, eps; one of the two rates is 0
    x[1] = x[1] + n[2] * (g - x[1]);
    x[2] = x[2] * n[3] + n[4] * (g * g);
    x[0] =
        x[0] - n[1] * x[1] - PF_SELECT(n[0] != V(0), n[0] * (x[1] / (pf_sqrt(x[2]) + n[5])), V(0));
  } else if constexpr (kRule == pf_asgd) {  // n: 1 - lambd * eta, eta, mu
    x[0] = x[0] * n[0] - n[1] * g;
    x[1] = PF_SELECT(n[2] != V(1), x[1] + n[2] * (x[0] - x[1]), x[0]);
  } else if constexpr (kRule == pf_rprop) {
    // n: etaminus, etaplus, smallest and largest step. States: gradient before, step.
    const V turn = g * x[1], zero(0);
    const V by = PF_SELECT(turn > zero, n[1], PF_SELECT(zero > turn, n[0], V(1)));
    V size = x[2] * by;
    size = PF_SELECT(size > n[3], n[3], size);
    size = PF_SELECT(n[2] > size, n[2], size);
    x[2] = size;
    x[1] = PF_SELECT(zero > turn, zero, g);
    x[0] = x[0] - pf_sign_of(x[1]) * size;
  } else if constexpr (kRule == pf_lion) {  // n: rate, beta1, 1 - beta1, beta2, 1 - beta2
    const V u = x[1] * n[1] + n[2] * g;
    x[0] = x[0] - n[0] * pf_sign_of(u);
    x[1] = x[1] * n[3] + n[4] * g;
  } else if constexpr (kRule == pf_lamb) {
    // n: 1 - beta1, beta2, 1 - beta2, 1 / correction1, 1 / correction2, eps, decay. The parameter
    // stays; the last state is the step before it is scaled.
    x[1] = x[1] + n[0] * (g - x[1]);
    x[2] = x[2] * n[1] + n[2] * (g * g);
    x[3] = x[1] * n[3] / (pf_sqrt(x[2] * n[4]) + n[5]) + n[6] * x[0];
  }
}

#endif
