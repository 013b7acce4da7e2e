"""SGD, Adam and AdamW, whose steps have kernels of their own."""

from itertools import repeat

from .. import _ops
from .._C import DTypeError
from . import narrow
from .optimizer import Optimizer, in_one_dtype, set_all


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
            numbers = (
                float(group["lr"]), momentum, float(group["dampening"]), float(group["weight_decay"]),
                group["nesterov"], group["maximize"], first, *narrow.last_arguments(kind, weights),
            )  # fmt: skip
            try:
                _ops._sgd(params, grads, buffers, *numbers)
            except DTypeError as e:
                if kind or not buffers:
                    raise
                with in_one_dtype(e, params, grads, buffers) as lists:
                    _ops._sgd(*lists, *numbers)
            if first:
                set_all(states, "momentum_buffer", buffers)

    def _step_in_turn(self, group):
        new = {id(p) for p in group["params"] if "momentum_buffer" not in self.state.get(p, ())}
        for params in self._turns(group):
            for (
                p
            ) in params:  # each place begins a momentum of its own; the last is kept, as in PyTorch
                if id(p) in new and p in self.state:
                    self.state[p].pop("momentum_buffer", None)
            self._step_once(group | {"params": params})

    def _recorded_step(self, group):
        from ._formulas import step

        params = [p for p in group["params"] if p.grad is not None]
        momentum, decay = group["momentum"], group["weight_decay"]
        numbers = (group["lr"], momentum, 1 - group["dampening"], group["nesterov"])
        step(
            "sgd", params, [p.grad for p in params], [self.state[p] for p in params], numbers,
            int(bool(decay != 0)), decay, group["maximize"],
        )  # fmt: skip


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
        if not group["eps"] >= 0:
            raise ValueError(
                f"pf.optim.{type(self).__name__}: invalid epsilon value: {group['eps']}"
            )
        self._check_betas(group)

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
            numbers = (
                float(group["lr"]), float(beta1), float(beta2), float(group["eps"]),
                float(group["weight_decay"]), step, group["decoupled_weight_decay"], group["maximize"],
            )  # fmt: skip
            last = narrow.last_arguments(kind, weights)
            try:
                _ops._adamw(params, grads, *moments, *numbers, maxima or None, *last)
            except DTypeError as e:
                if kind:
                    raise
                several = (*moments, maxima) if maxima else moments
                with in_one_dtype(e, params, grads, *several) as (*lists, final):
                    if maxima:
                        _ops._adamw(*lists, *numbers, final, *last)
                    else:
                        _ops._adamw(*lists, final, *numbers, None, *last)
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
