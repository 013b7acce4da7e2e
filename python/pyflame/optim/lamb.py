"""LAMB: Adam with a rate for each layer."""

from itertools import repeat

from .. import _ops
from ..autograd import no_grad
from .optimizer import set_all
from .rules import ByRule


class LAMB(ByRule):
    """Adam's step u, with `weight_decay` times the parameter, at a rate for each parameter tensor:
    p -= lr * |p| / |u| * u, or lr * u where a norm is 0 (You and others, 2020).

    `differentiable` is refused.
    """

    _not_negative = ("eps",)

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, *, foreach=None,
        maximize=False, capturable=False, differentiable=False, fused=None,
    ):  # fmt: skip
        super().__init__(
            params, lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay, maximize=maximize,
            foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused,
        )  # fmt: skip

    def _check(self, group):
        super()._check(group)
        self._refuse_differentiable(group)

    def _step(self, group):
        calls = {}
        for p in group["params"]:
            if p.grad is None:
                continue
            s = self.state[p]
            if not s:
                s.update(self._fresh(group, p, ("exp_avg", "exp_avg_sq")))
            calls.setdefault(s["step"] + 1, []).append((p, s))
        beta1, beta2 = group["betas"]
        rate = float(group["lr"])
        for step, pairs in calls.items():
            params, states = zip(*pairs)
            with no_grad():
                steps = [_ops.empty_like(p.detach()) for p in params]
                numbers = [
                    1 - beta1, beta2, 1 - beta2, 1 / (1 - beta1**step), 1 / (1 - beta2**step),
                    group["eps"], group["weight_decay"],
                ]  # fmt: skip
                grads = [p.grad for p in params]
                arrays = [[s[name] for s in states] for name in ("exp_avg", "exp_avg_sq")] + [steps]
                numbers = [float(n) for n in numbers]
                self._call("lamb", params, grads, arrays, numbers, maximize=group["maximize"])
                set_all(states, "step", repeat(step))
                for p, u in zip(params, steps):
                    own, made = p.norm(), u.norm()
                    trust = _ops.where((own > 0) & (made > 0), own / made, 1.0)
                    p.sub_(u * (trust * rate))
