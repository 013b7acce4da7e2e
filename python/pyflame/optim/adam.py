"""Adam and AdamW."""

from itertools import repeat

from .. import _ops
from . import narrow
from .optimizer import Optimizer, set_all


class Adam(Optimizer):
    """Adam, with weight decay added to the gradient (see AdamW for the decoupled form).

    One multi-tensor operation a group; `foreach`, `fused` and `capturable` are accepted and change
    nothing; with `differentiable` gradients go through the step.

    Of parameters in bfloat16 or float16: with `master_weights` the state has a float32 "master" of
    each, which the step changes, and the parameter is that rounded; it follows what is written to the
    parameter. With `stochastic_rounding` there is no master: the step's result is rounded up with the
    probability of what is cut off, by numbers of the generator. Averages are float32 with both, or with
    the second of `state_dtype`, the parameters' own, and then rounded so too. ValueError for both
    together, NotSupportedError with `differentiable`.
    """

    _decoupled = False
    _only_kernels = True
    _narrow = True

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        amsgrad=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
        fused=None,
        decoupled_weight_decay=None,
        master_weights=False,
        stochastic_rounding=False,
        state_dtype=None,
    ):
        defaults = {
            "lr": lr,
            "betas": tuple(betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
        }
        if decoupled_weight_decay is not None:
            self._decoupled = bool(decoupled_weight_decay)
        defaults["decoupled_weight_decay"] = self._decoupled
        defaults |= narrow.given(master_weights, stochastic_rounding, state_dtype)
        super().__init__(params, defaults)

    def _check(self, group):
        super()._check(group)
        name = type(self).__name__
        if not group["eps"] >= 0:
            raise ValueError(f"pf.optim.{name}: invalid epsilon value: {group['eps']}")
        for i, beta in enumerate(group["betas"]):
            if not 0 <= beta < 1:
                raise ValueError(f"pf.optim.{name}: invalid beta parameter at index {i}: {beta}")

    def _step(self, group):
        amsgrad = group["amsgrad"]
        state = self.state
        how = narrow.way(group)
        # By step count (parameters that had no gradient for a while lag behind) and way.
        calls = {}
        for p in group["params"]:
            g = p.grad
            if g is None:
                continue
            s = state[p]
            if not s:
                names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")[: 3 if amsgrad else 2]
                fresh = {"step": 0} | {name: narrow.zeros(group, p) for name in names}
                s.update(fresh)  # at once: a signal's handler may raise between two lines
            key = (s["step"] + 1, how and narrow.way_of(p, how))
            lists = calls.get(key)
            if lists is None:
                lists = calls[key] = ([], [], [], [], [], [], [])
            lists[0].append(narrow.master(s, p) if key[1] == narrow.MASTERS else p)
            lists[1].append(g)
            lists[2].append(s["exp_avg"])
            lists[3].append(s["exp_avg_sq"])
            if amsgrad:
                lists[4].append(s["max_exp_avg_sq"])
            lists[5].append(p)
            lists[6].append(s)
        beta1, beta2 = group["betas"]
        if group.get("differentiable"):
            return self._recorded_step(group, calls)
        for (step, kind), (params, grads, *moments, maxima, weights, states) in calls.items():
            _ops._adamw(
                params, grads, *moments, float(group["lr"]), float(beta1),
                float(beta2), float(group["eps"]), float(group["weight_decay"]), step,
                group["decoupled_weight_decay"], group["maximize"], maxima or None,
                *narrow.last_arguments(kind, weights),
            )  # fmt: skip
            set_all(states, "step", repeat(step))

    def _recorded_step(self, group, calls):
        from ._formulas import step as recorded

        beta1, beta2 = group["betas"]
        lr, decay, decoupled = group["lr"], group["weight_decay"], group["decoupled_weight_decay"]
        decays = 0 if not bool(decay != 0) else 2 if decoupled else 1
        for (step, _), (params, grads, *_, states) in calls.items():
            numbers = (
                1 - beta1, beta2, 1 - beta2, lr / (1 - beta1**step), (1 - beta2**step) ** -0.5,
                group["eps"], group["amsgrad"],
            )  # fmt: skip
            recorded(
                "adam", params, grads, states, numbers, decays,
                1 - lr * decay if decoupled else decay, group["maximize"],
            )  # fmt: skip
            set_all(states, "step", repeat(step))


class AdamW(Adam):
    """Adam with decoupled weight decay: p *= 1 - lr * weight_decay before the step."""

    _decoupled = True

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False,
        **options,
    ):  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **options)


def __getattr__(name):
    if name == "adam":  # the function, where PyTorch has it
        from .functional import adam

        return adam
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
