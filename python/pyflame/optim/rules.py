"""Optimizers whose step is made element by element: one multi-tensor kernel for all parameters.

A step's formula stands in kernels/optim_rules.h under the name of its rule; `_numbers` gives the
numbers that it reads. `foreach`, `fused` and `capturable` are accepted and change nothing;
`differentiable` makes the step of recorded operations instead (see _formulas.py).
"""

from collections import deque
from itertools import chain, repeat

from .. import _ops
from .._C import DTypeError, NotSupportedError
from .optimizer import Optimizer, in_one_dtype


class ByRule(Optimizer):
    """A step by a rule: subclasses say which, its states, and its numbers."""

    _decoupled = False  # weight decay: of the parameter, not added to the gradient
    _only_kernels = True
    _not_negative = ()  # options

    def __init__(self, params, **defaults):
        super().__init__(params, defaults)

    def _rule(self, group):
        """(name of the rule, names of its states)"""
        raise NotImplementedError

    def _fresh(self, group, p, names):
        """The state of a parameter before its first step."""
        zeros = p.detach()
        return {"step": 0} | {name: _ops._zeros_beside(zeros) for name in names}

    def _key(self, s):
        """What the numbers of a step depend on, besides the group."""
        return s["step"] + 1

    def _numbers(self, group, key):
        """(numbers of the rule, what is new in the state) for a step."""
        raise NotImplementedError

    def _decay(self, group):
        """(kind, number) of the weight decay: see kernels/optim_args.h."""
        decay = group.get("weight_decay", 0)
        if not _is_set(decay):
            return 0, 0.0
        if group.get("decoupled_weight_decay", self._decoupled):
            return 2, 1 - group["lr"] * decay
        return 1, decay

    def _check(self, group):
        super()._check(group)
        for name in self._not_negative:
            if not group[name] >= 0:
                raise ValueError(f"pf.optim.{type(self).__name__}: invalid {name}: {group[name]}")
        if "betas" in group:
            self._check_betas(group)

    def _refuse_differentiable(self, group):
        if group["differentiable"]:
            raise NotSupportedError(
                f"pf.optim.{type(self).__name__}: differentiable=True is not supported; expected False"
            )

    @staticmethod
    def _call(rule, params, grads, arrays, *last, **options):
        try:
            _ops._optim_step(rule, params, grads, list(chain(*arrays)), *last, **options)
        except DTypeError as e:
            with in_one_dtype(e, params, grads, *arrays) as (params, grads, *arrays):
                _ops._optim_step(rule, params, grads, list(chain(*arrays)), *last, **options)

    def _step(self, group):
        rule, names = self._rule(group)
        calls = {}  # parameters that had no gradient for a while lag behind
        for p in group["params"]:
            g = p.grad
            if g is None:
                continue
            s = self.state[p]
            if not s:
                s.update(self._fresh(group, p, names))  # at once: a signal's handler may raise
            key = self._key(s)
            lists = calls.get(key)
            if lists is None:
                lists = calls[key] = ([], [], [], [[] for _ in names])
            lists[0].append(p)
            lists[1].append(g)
            lists[2].append(s)
            for name, of_all in zip(names, lists[3]):
                of_all.append(s[name])
        kind, decay = self._decay(group)
        for key, (params, grads, states, arrays) in calls.items():
            numbers, news = self._numbers(group, key)
            if group.get("differentiable"):
                from ._formulas import step

                step(rule, params, grads, states, numbers, kind, decay, group["maximize"])
            else:
                last = [float(n) for n in numbers], kind, float(decay), group["maximize"]
                self._call(rule, params, grads, arrays, *last)
            # No line of Python between two parameters' states, as in set_all().
            deque(map(dict.update, states, repeat(news)), maxlen=0)


def _is_set(number):
    """Whether a number, or a tensor of one, is not 0."""
    return bool(number != 0)


class RMSprop(ByRule):
    """p -= lr * g / (sqrt(average of g²) + eps), the average with decay `alpha`.

    `centered` takes the square of g's average off; with `momentum` the quotients are gathered.
    """

    _not_negative = ("eps", "momentum", "alpha")

    def __init__(
        self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False,
        capturable=False, foreach=None, maximize=False, differentiable=False,
    ):  # fmt: skip
        super().__init__(
            params, lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered,
            weight_decay=weight_decay, capturable=capturable, foreach=foreach, maximize=maximize,
            differentiable=differentiable,
        )  # fmt: skip

    def _rule(self, group):
        rule, names = "rmsprop", ["square_avg"]
        if group["centered"]:
            rule, names = rule + "_centered", [*names, "grad_avg"]
        if group["momentum"] > 0:
            rule, names = rule + "_momentum", [*names, "momentum_buffer"]
        return rule, names

    def _numbers(self, group, step):
        alpha = group["alpha"]
        numbers = (group["lr"], alpha, 1 - alpha, group["eps"])
        if group["momentum"] > 0:
            numbers += (group["momentum"],)
        return numbers, {"step": step}


class Adagrad(ByRule):
    """p -= lr / (1 + (step - 1) * lr_decay) * g / (sqrt(sum of g²) + eps)"""

    _not_negative = ("eps", "lr_decay", "initial_accumulator_value")

    def __init__(
        self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10,
        foreach=None, *, maximize=False, differentiable=False, fused=None,
    ):  # fmt: skip
        super().__init__(
            params, lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value, foreach=foreach, maximize=maximize,
            differentiable=differentiable, fused=fused,
        )  # fmt: skip
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = self._fresh(group, p, ("sum",))

    def share_memory(self):
        """The sums of squares in memory that processes share."""
        for s in self.state.values():
            s["sum"].share_memory_()

    def _rule(self, group):
        return "adagrad", ("sum",)

    def _fresh(self, group, p, names):
        fresh = super()._fresh(group, p, names)
        if group["initial_accumulator_value"]:
            fresh["sum"].fill_(group["initial_accumulator_value"])
        return fresh

    def _numbers(self, group, step):
        rate = group["lr"] / (1 + (step - 1) * group["lr_decay"])
        return (rate, group["eps"]), {"step": step}


class Adadelta(ByRule):
    """p -= lr * u with u = g * sqrt(average of u² + eps) / sqrt(average of g² + eps)"""

    _not_negative = ("eps",)

    def __init__(
        self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *,
        capturable=False, maximize=False, differentiable=False,
    ):  # fmt: skip
        super().__init__(
            params, lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize,
            capturable=capturable, foreach=foreach, differentiable=differentiable,
        )  # fmt: skip

    def _check(self, group):
        super()._check(group)
        if not 0 <= group["rho"] <= 1:
            raise ValueError(f"pf.optim.Adadelta: invalid rho: {group['rho']}")

    def _rule(self, group):
        return "adadelta", ("square_avg", "acc_delta")

    def _numbers(self, group, step):
        rho = group["rho"]
        return (group["lr"], rho, 1 - rho, group["eps"]), {"step": step}


class Adamax(ByRule):
    """Adam with the largest of |g|, decaying by beta2, in place of the root of the squares."""

    _not_negative = ("eps",)

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *,
        maximize=False, differentiable=False, capturable=False,
    ):  # fmt: skip
        super().__init__(
            params, lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay, foreach=foreach,
            maximize=maximize, differentiable=differentiable, capturable=capturable,
        )  # fmt: skip

    def _rule(self, group):
        return "adamax", ("exp_avg", "exp_inf")

    def _numbers(self, group, step):
        beta1, beta2 = group["betas"]
        return (group["lr"] / (1 - beta1**step), 1 - beta1, beta2, group["eps"]), {"step": step}


class NAdam(ByRule):
    """Adam with Nesterov's momentum, whose share grows with the step (`momentum_decay`)."""

    _not_negative = ("eps", "momentum_decay")
    _scalars = {"step": int, "mu_product": float}

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
        decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False,
        differentiable=False,
    ):  # fmt: skip
        super().__init__(
            params, lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay,
            momentum_decay=momentum_decay, decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize, foreach=foreach, capturable=capturable,
            differentiable=differentiable,
        )  # fmt: skip

    def _rule(self, group):
        return "nadam", ("exp_avg", "exp_avg_sq")

    def _fresh(self, group, p, names):
        return super()._fresh(group, p, names) | {"mu_product": 1.0}

    def _key(self, s):
        return s["step"] + 1, s["mu_product"]

    def _numbers(self, group, key):
        step, product = key
        beta1, beta2 = group["betas"]
        mu = beta1 * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
        after = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * group["momentum_decay"]))
        product = product * mu
        rate = group["lr"]
        numbers = (
            rate * (1 - mu) / (1 - product),
            rate * after / (1 - product * after),
            1 - beta1,
            beta2,
            1 - beta2,
            1 / (1 - beta2**step),
            group["eps"],
        )
        return numbers, {"step": step, "mu_product": product}


class RAdam(ByRule):
    """Adam that divides by the root of the squares only when enough of them were seen."""

    _not_negative = ("eps",)

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0,
        decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False,
        differentiable=False,
    ):  # fmt: skip
        super().__init__(
            params, lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay,
            maximize=maximize, foreach=foreach, capturable=capturable,
            decoupled_weight_decay=decoupled_weight_decay, differentiable=differentiable,
        )  # fmt: skip

    def _rule(self, group):
        return "radam", ("exp_avg", "exp_avg_sq")

    def _numbers(self, group, step):
        beta1, beta2 = group["betas"]
        power = beta2**step
        longest = 2 / (1 - beta2) - 1  # of the average, in steps
        length = longest - 2 * step * power / (1 - power)
        rate = group["lr"] / (1 - beta1**step)
        divided, alone = 0.0, rate
        if length > 5:
            share = (length - 4) * (length - 2) * longest
            share /= (longest - 4) * (longest - 2) * length
            divided, alone = rate * (share * (1 - power)) ** 0.5, 0.0
        numbers = (divided, alone, 1 - beta1, beta2, 1 - beta2, group["eps"])
        return numbers, {"step": step}


class ASGD(ByRule):
    """Gradient descent with a falling rate; `ax` in the state is the mean of the parameters from
    step t0 on."""

    _scalars = {"step": int, "eta": float, "mu": float}

    def __init__(
        self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None,
        maximize=False, differentiable=False, capturable=False,
    ):  # fmt: skip
        super().__init__(
            params, lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay,
            foreach=foreach, maximize=maximize, differentiable=differentiable,
            capturable=capturable,
        )  # fmt: skip

    def _rule(self, group):
        return "asgd", ("ax",)

    def _fresh(self, group, p, names):
        return super()._fresh(group, p, names) | {"eta": group["lr"], "mu": 1.0}

    def _key(self, s):
        return s["step"] + 1, s["eta"], s["mu"]

    def _numbers(self, group, key):
        step, eta, mu = key
        lambd = group["lambd"]
        news = {
            "step": step,
            "eta": group["lr"] / (1 + lambd * group["lr"] * step) ** group["alpha"],
            "mu": 1 / max(1, step - group["t0"]),
        }
        return (1 - lambd * eta, eta, mu), news


class Rprop(ByRule):
    """Steps by the sign of the gradient, of a size that grows while the sign stays."""

    def __init__(
        self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False,
        foreach=None, maximize=False, differentiable=False,
    ):  # fmt: skip
        super().__init__(
            params, lr=lr, etas=tuple(etas), step_sizes=tuple(step_sizes), foreach=foreach,
            maximize=maximize, differentiable=differentiable, capturable=capturable,
        )  # fmt: skip

    def _check(self, group):
        super()._check(group)
        low, high = group["etas"]
        if not 0.0 < low < 1.0 < high:
            raise ValueError(f"pf.optim.Rprop: invalid eta values: {low}, {high}")

    def _rule(self, group):
        return "rprop", ("prev", "step_size")

    def _decay(self, group):
        return 0, 0.0  # it has none, also where a group says so for another optimizer

    def _fresh(self, group, p, names):
        fresh = super()._fresh(group, p, names)
        fresh["step_size"].fill_(float(group["lr"]))
        return fresh

    def _numbers(self, group, step):
        return (*group["etas"], *group["step_sizes"]), {"step": step}


class Lion(ByRule):
    """Steps of one size by the sign of an average of the gradients (Chen and others, 2023).

    p -= lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * p), m = beta2 * m + (1 - beta2) * g
    """

    _decoupled = True

    def __init__(
        self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, *, foreach=None,
        maximize=False, capturable=False, differentiable=False, fused=None,
    ):  # fmt: skip
        super().__init__(
            params, lr=lr, betas=tuple(betas), weight_decay=weight_decay, maximize=maximize,
            foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused,
        )  # fmt: skip

    def _rule(self, group):
        return "lion", ("exp_avg",)

    def _numbers(self, group, step):
        beta1, beta2 = group["betas"]
        return (group["lr"], beta1, 1 - beta1, beta2, 1 - beta2), {"step": step}
