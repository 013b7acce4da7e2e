"""Stochastic gradient descent."""

from .. import _ops
from . import narrow
from .optimizer import Optimizer, set_all


class SGD(Optimizer):
    """p -= lr * g, with momentum, Nesterov's form and weight decay as in torch.optim.SGD.

    One multi-tensor operation a group; `foreach` and `fused` are accepted and change nothing; with
    `differentiable` gradients go through the step. `master_weights`, `stochastic_rounding` and
    `state_dtype` (of the momentum) are Adam's.
    """

    _only_kernels = True
    _narrow = True

    def __init__(
        self,
        params,
        lr=1e-3,
        momentum=0,
        dampening=0,
        weight_decay=0,
        nesterov=False,
        *,
        maximize=False,
        foreach=None,
        differentiable=False,
        fused=None,
        master_weights=False,
        stochastic_rounding=False,
        state_dtype=None,
    ):
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        defaults |= narrow.given(master_weights, stochastic_rounding, state_dtype)
        super().__init__(params, defaults)

    def _check(self, group):
        super()._check(group)
        if not group["momentum"] >= 0:
            raise ValueError(f"pf.optim.SGD: invalid momentum: {group['momentum']}")
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("pf.optim.SGD: nesterov needs a momentum and zero dampening")

    def _step(self, group):
        if group.get("differentiable"):
            return self._recorded_step(group)
        momentum = float(group["momentum"])
        state = self.state
        how = narrow.way(group)
        calls = {}  # by way, and whether it is the first step: a first gradient may come later
        for p in group["params"]:
            g = p.grad
            if g is None:
                continue
            first = False
            buffer = None
            if momentum != 0:
                buffer = state[p].get("momentum_buffer")
                if buffer is None:
                    buffer = narrow.zeros(group, p)
                    first = True
            kind = how and narrow.way_of(p, how)
            lists = calls.get((first, kind))
            if lists is None:
                lists = calls[first, kind] = ([], [], [], [], [])
            params, grads, buffers, weights, states = lists
            params.append(narrow.master(state[p], p) if kind == narrow.MASTERS else p)
            grads.append(g)
            weights.append(p)
            if buffer is not None:
                buffers.append(buffer)
                states.append(state[p])
        for (first, kind), (params, grads, buffers, weights, states) in calls.items():
            _ops._sgd(
                params, grads, buffers, float(group["lr"]), momentum,
                float(group["dampening"]), float(group["weight_decay"]), group["nesterov"],
                group["maximize"], first, *narrow.last_arguments(kind, weights),
            )  # fmt: skip
            if first:
                set_all(states, "momentum_buffer", buffers)

    def _recorded_step(self, group):
        from ._formulas import step

        params = [p for p in group["params"] if p.grad is not None]
        momentum, decay = group["momentum"], group["weight_decay"]
        numbers = (group["lr"], momentum, 1 - group["dampening"], group["nesterov"])
        step(
            "sgd", params, [p.grad for p in params], [self.state[p] for p in params], numbers,
            int(bool(decay != 0)), decay, group["maximize"],
        )  # fmt: skip


def __getattr__(name):
    if name == "sgd":  # the function, where PyTorch has it
        from .functional import sgd

        return sgd
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
