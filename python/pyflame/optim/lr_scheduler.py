"""Learning rates that change during training. Names and meaning as in torch.optim.lr_scheduler."""

import math
import types
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable

from .. import _ops
from .._C import Tensor
from .._live import live
from .._named_errors import name_errors as _name_errors
from .._named_errors import name_methods as _name_methods
from .optimizer import Optimizer

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
    "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR",
    "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR", "WarmupCosineLR",
]  # fmt: skip


def _copied(value):
    """A rate as its own: one that is a tensor is changed in place by later steps."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def _set(group, key, value):
    """group[key] = value; a tensor that is there gets the value, for a program may hold it."""
    held = group[key]
    if isinstance(held, Tensor):
        held.detach().fill_(value.item() if isinstance(value, Tensor) else value)
    else:
        group[key] = value


def _each(name, value, groups):
    """A value for each group: one for all, or a list of as many."""
    if not isinstance(value, (list, tuple)):
        value = [value] * len(groups)
    for v in value:
        if isinstance(v, (str, bytes)):
            raise TypeError(
                f"pf.optim.lr_scheduler: got {name}={v!r}; expected numbers; convert text with float()"
            )
    if len(value) != len(groups):
        raise ValueError(
            f"pf.optim.lr_scheduler: got {len(value)} values of {name}; expected {len(groups)}, one "
            "for each group"
        )
    return [_copied(v) for v in value]


# What the schedulers of this file compute with.
_NUMBERS = (
    "step_size", "gamma", "factor", "total_iters", "start_factor", "end_factor", "T_max", "T_0", "T_mult",
    "eta_min", "power", "milestones",
)  # fmt: skip


def _check_numbers(scheduler):
    held = vars(scheduler)
    for name in _NUMBERS:
        value = held.get(name)
        for v in value if isinstance(value, Counter) else (value,):
            if isinstance(v, (str, bytes)):
                raise TypeError(
                    f"pf.optim.lr_scheduler.{type(scheduler).__name__}: got {name}={v!r}; expected "
                    "numbers; convert text with int() or float()"
                )


def _no_optimizer(scheduler, given):
    return TypeError(
        f"pf.optim.lr_scheduler.{type(scheduler).__name__}: {type(given).__name__} is not an Optimizer; "
        "expected the one whose learning rate is to be set; pass it first"
    )


class LRScheduler:
    """Base class: sets the learning rate of each group at every `step()`.

    Subclasses define `get_lr()`, which gives the new rates from `last_epoch` and the rates as they
    are (so schedulers can be chained), and may define `_get_closed_form_lr()`, from `last_epoch`
    alone, which `step(epoch)` asks. With `last_epoch` a schedule goes on behind that epoch: the
    optimizer has the rate of the next one already, from the state that was loaded.
    """

    _is_initial = False  # while the scheduler is made: the optimizer has this epoch's rate
    _get_lr_called_within_step = False  # subclasses of programs ask it

    def __init__(self, optimizer, last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise _no_optimizer(self, optimizer)
        # A program's own scheduler may mean something else by the names.
        if type(self).__module__ == __name__:
            _check_numbers(self)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"pf.optim.lr_scheduler.{type(self).__name__}: group {i} has no 'initial_lr'; "
                    "expected it when last_epoch is given; load the optimizer's state first"
                )
        self.base_lrs = [_copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self):
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_last_lr(self):
        """The rates that the last step() has set."""
        return self._last_lr

    def get_lr(self):
        raise NotImplementedError

    def _rates(self):
        return [_copied(group["lr"]) for group in self.optimizer.param_groups]

    @live
    def step(self, epoch=None):
        self._step_count += 1
        if self._step_count == 2 and epoch is None and "_stepped" not in self.optimizer.__dict__:
            warnings.warn(
                f"pf.optim.lr_scheduler.{type(self).__name__}: lr_scheduler.step() was called before "
                "optimizer.step(), so that the first learning rate is skipped; call the optimizer's first",
                stacklevel=3,
            )
        if epoch is not None:
            warnings.warn(
                f"pf.optim.lr_scheduler.{type(self).__name__}: step(epoch) is deprecated; call step() "
                "once an epoch, and load_state_dict() to go on",
                stacklevel=3,
            )
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                rates = getattr(self, "_get_closed_form_lr", self.get_lr)()
        finally:
            self._get_lr_called_within_step = False
        self._put(rates)

    def _put(self, rates):
        for group, lr in zip(self.optimizer.param_groups, rates):
            _set(group, "lr", lr)
        self._last_lr = self._rates()

    def state_dict(self):
        return {k: v for k, v in self.__dict__.items() if k != "optimizer" and not callable(v)}

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)


class _Product(LRScheduler):
    """Rates that are the base rate times a factor of the epoch: `_factor(t)`, and `_ratio(t)`, by
    which it differs from the one before, None where it does not."""

    _resumes = True  # the first rate of a schedule that goes on is the optimizer's

    def _factor(self, t):
        raise NotImplementedError

    def _ratio(self, t):
        before, now = self._factor(t - 1), self._factor(t)
        return None if before == now else now / before

    def _get_closed_form_lr(self):
        factor = self._factor(self.last_epoch)
        return [base * factor for base in self.base_lrs]

    def get_lr(self):
        t = self.last_epoch
        ratio = None if self._is_initial and t != 0 and self._resumes else self._ratio(t)
        return self._rates() if ratio is None else [lr * ratio for lr in self._rates()]


class _OfFunctions(LRScheduler):
    """Rates that come from `lr_lambdas`. A function is no state, what a callable object holds is."""

    def _take(self, optimizer, lr_lambda):
        groups = len(optimizer.param_groups)
        many = isinstance(lr_lambda, (list, tuple))
        self.lr_lambdas = list(lr_lambda) if many else [lr_lambda] * groups
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"expected {groups} lr_lambdas; got {len(self.lr_lambdas)}")
        for f in self.lr_lambdas:
            if not callable(f):
                raise TypeError(
                    f"pf.optim.lr_scheduler.{type(self).__name__}: got lr_lambda={f!r}; expected a "
                    "function of the epoch; pass one, as in lambda epoch: 0.9**epoch"
                )

    def state_dict(self):
        held = [
            None if isinstance(f, types.FunctionType) else dict(getattr(f, "__dict__", {}))
            for f in self.lr_lambdas
        ]
        return super().state_dict() | {"lr_lambdas": held}

    def load_state_dict(self, state_dict):
        state = dict(state_dict)
        for f, held in zip(self.lr_lambdas, state.pop("lr_lambdas", ())):
            if held:
                f.__dict__.update(held)
        super().load_state_dict(state)


class LambdaLR(_OfFunctions):
    """base_lr * lr_lambda(epoch); one function, or one for each group."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self._take(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs)]


class MultiplicativeLR(_OfFunctions):
    """Multiplies the rate by lr_lambda(epoch) at each step."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self._take(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self._is_initial:
            return self._rates()
        return [lr * f(self.last_epoch) for lr, f in zip(self._rates(), self.lr_lambdas)]


class StepLR(_Product):
    """Multiplies the rate by gamma every step_size epochs."""

    _resumes = False

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, t):
        return self.gamma ** (t // self.step_size)

    def _ratio(self, t):
        return self.gamma if t != 0 and t % self.step_size == 0 else None


class MultiStepLR(_Product):
    """Multiplies the rate by gamma at each of the milestones."""

    _resumes = False

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        if not isinstance(milestones, Iterable) or isinstance(milestones, (str, bytes)):
            raise TypeError(
                f"pf.optim.lr_scheduler.MultiStepLR: got milestones={milestones!r}; expected a list of "
                "epochs; pass [30, 80]"
            )
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, t):
        return self.gamma ** sum(n for at, n in self.milestones.items() if at <= t)

    def _ratio(self, t):
        return self.gamma ** self.milestones[t] if t in self.milestones else None


class ConstantLR(_Product):
    """The base rate times `factor` for total_iters epochs, then the base rate."""

    _resumes = False

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        if not 0 <= factor <= 1:
            raise ValueError("factor is expected to be between 0 and 1")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, t):
        return self.factor if t < self.total_iters else 1.0

    def _ratio(self, t):
        if t == 0:
            return self.factor
        return 1.0 / self.factor if t == self.total_iters else None

    def get_lr(self):
        if self.factor == 0 and 0 < self.total_iters == self.last_epoch:
            return [_copied(base) for base in self.base_lrs]  # nothing is left to multiply
        return super().get_lr()


class LinearLR(_Product):
    """From start_factor to end_factor times the base rate, in total_iters epochs."""

    def __init__(
        self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1
    ):
        if not 0 < start_factor <= 1:
            raise ValueError("start_factor is expected to be greater than 0 and at most 1")
        if not 0 <= end_factor <= 1:
            raise ValueError("end_factor is expected to be between 0 and 1")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, t):
        share = min(t, self.total_iters) / self.total_iters if self.total_iters else 1.0
        return self.start_factor + (self.end_factor - self.start_factor) * share

    def _ratio(self, t):
        if t == 0:
            return self.start_factor
        return None if t > self.total_iters else super()._ratio(t)


class ExponentialLR(_Product):
    """Multiplies the rate by gamma every epoch."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, t):
        return self.gamma**t

    def _ratio(self, t):
        return None if self._is_initial else self.gamma


class PolynomialLR(_Product):
    """Falls to 0 in total_iters epochs as (1 - t / total_iters) ** power."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _factor(self, t):
        return (1.0 - min(t, self.total_iters) / self.total_iters) ** self.power

    def _ratio(self, t):
        return None if self._is_initial or t > self.total_iters else super()._ratio(t)


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the base rate to eta_min in T_max epochs."""

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _height(self, t):
        return 1 + math.cos(math.pi * t / self.T_max)

    def _get_closed_form_lr(self):
        height = self._height(self.last_epoch) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def get_lr(self):
        t = self.last_epoch
        if self._is_initial:
            return self._rates()
        if (t - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The lowest point: how far it rises from there cannot be told from the rate alone.
            rise = (2 - self._height(1)) / 2
            return [
                lr + (base - self.eta_min) * rise for lr, base in zip(self._rates(), self.base_lrs)
            ]
        ratio = self._height(t) / self._height(t - 1)
        return [self.eta_min + (lr - self.eta_min) * ratio for lr in self._rates()]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine of T_0 epochs, again and again, each T_mult times as long."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"expected integer T_mult >= 1, but got {T_mult}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    @live
    def step(self, epoch=None):
        """`epoch` may be a fraction: epoch + batch / batches."""
        if epoch is None and self.last_epoch >= 0:
            # From where the cycle stands, which a schedule that goes on begins anew.
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = 0 if epoch is None else epoch
            if epoch < 0:
                raise ValueError(f"expected non-negative epoch, but got {epoch}")
            start, length = 0, self.T_0
            if self.T_mult == 1:
                start = epoch // length * length
            else:
                while epoch >= start + length:
                    start += length
                    length *= self.T_mult
            self.T_cur, self.T_i = epoch - start, length
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            rates = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._put(rates)


class WarmupCosineLR(LRScheduler):
    """Linear warm-up to the base rate in warmup_steps, then half a cosine to min_lr.

    A function of the step count alone (the formula is in C++, pyflame::optim::warmup_cosine).
    """

    def __init__(self, optimizer, warmup_steps, total_steps, min_lr=0.0, last_epoch=-1):
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps
        self.min_lr = min_lr
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [
            _ops._warmup_cosine(
                self.last_epoch, self.warmup_steps, self.total_steps, float(base),
                float(self.min_lr),
            )
            for base in self.base_lrs
        ]  # fmt: skip


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to max_lr, then down to the start divided by final_div_factor.

    Momentum (or beta1) moves the other way between max_momentum and base_momentum.
    """

    def __init__(
        self,
        optimizer,
        max_lr,
        total_steps=None,
        epochs=None,
        steps_per_epoch=None,
        pct_start=0.3,
        anneal_strategy="cos",
        cycle_momentum=True,
        base_momentum=0.85,
        max_momentum=0.95,
        div_factor=25.0,
        final_div_factor=1e4,
        three_phase=False,
        last_epoch=-1,
    ):
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("define total_steps, or both epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0 or not 0 <= pct_start <= 1:
            raise ValueError(
                f"expected total_steps > 0 and 0 <= pct_start <= 1; got {total_steps} and "
                f"{pct_start}"
            )
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be 'cos' or 'linear'; got {anneal_strategy!r}")
        self.total_steps = total_steps
        self._anneal_func_type = anneal_strategy
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            if any("betas" not in g and "momentum" not in g for g in optimizer.param_groups):
                raise ValueError(
                    "pf.optim.lr_scheduler.OneCycleLR: cycle_momentum needs an optimizer with momentum or "
                    "betas; pass cycle_momentum=False"
                )
            self.use_beta1 = "betas" in optimizer.defaults
        peak, last = float(pct_start * total_steps) - 1, total_steps - 1
        if three_phase:
            ends = [(peak, "max_lr"), (2 * peak, "initial_lr"), (last, "min_lr")]
        else:
            ends = [(peak, "max_lr"), (last, "min_lr")]
        # As PyTorch has them, whose files go on here and the other way round.
        self._schedule_phases, rate, momentum = [], "initial_lr", "max_momentum"
        for end, to in ends:
            then = "base_momentum" if to == "max_lr" else "max_momentum"
            phase = {"end_step": end, "start_lr": rate, "end_lr": to}
            self._schedule_phases.append(phase | {"start_momentum": momentum, "end_momentum": then})
            rate, momentum = to, then
        if last_epoch == -1:
            groups = optimizer.param_groups
            peaks = _each("max_lr", max_lr, groups)
            highs, lows = max_momentum, base_momentum
            if cycle_momentum:
                highs, lows = (
                    _each("max_momentum", highs, groups),
                    _each("base_momentum", lows, groups),
                )
            for i, (group, top) in enumerate(zip(groups, peaks)):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
                if cycle_momentum:
                    group["max_momentum"], group["base_momentum"] = highs[i], lows[i]
        super().__init__(optimizer, last_epoch)

    def _between(self, a, b, share):
        if self._anneal_func_type == "cos":
            return b + (a - b) / 2.0 * (math.cos(math.pi * share) + 1)
        return a + (b - a) * share

    def get_lr(self):
        t = self.last_epoch
        if t > self.total_steps:
            raise ValueError(
                f"tried to step {t} times; the total number of steps is {self.total_steps}"
            )
        start, phases = 0.0, self._schedule_phases
        for phase in phases:
            if t <= phase["end_step"] or phase is phases[-1]:
                break
            start = phase["end_step"]
        length = phase["end_step"] - start
        share = (t - start) / length if length else 1.0
        rates = []
        for group in self.optimizer.param_groups:
            a, b = group[phase["start_lr"]], group[phase["end_lr"]]
            rates.append(self._between(a, b, share))
            if self.cycle_momentum:
                a, b = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, self._between(a, b, share))
        return rates


class CyclicLR(LRScheduler):
    """Up from base_lr to max_lr in step_size_up steps, down in step_size_down, again and again.

    The height of a cycle is scaled: "triangular" by 1, "triangular2" by half as much each cycle,
    "exp_range" by gamma ** step, or by `scale_fn` of the cycle, or of the step with scale_mode
    "iterations". Momentum (or beta1) moves the other way, between max_momentum and base_momentum.
    Step it after each batch.
    """

    def __init__(
        self,
        optimizer,
        base_lr,
        max_lr,
        step_size_up=2000,
        step_size_down=None,
        mode="triangular",
        gamma=1.0,
        scale_fn=None,
        scale_mode="cycle",
        cycle_momentum=True,
        base_momentum=0.8,
        max_momentum=0.9,
        last_epoch=-1,
    ):
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(
                f"pf.optim.lr_scheduler.CyclicLR: mode is {mode!r}; expected 'triangular', "
                "'triangular2' or 'exp_range', or a scale_fn"
            )
        groups = optimizer.param_groups
        lows, self.max_lrs = _each("base_lr", base_lr, groups), _each("max_lr", max_lr, groups)
        if last_epoch == -1:
            for group, low in zip(groups, lows):
                _set(group, "lr", low)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self.scale_mode = (
            scale_mode if scale_fn else "cycle" if mode != "exp_range" else "iterations"
        )
        self._scale_fn_custom = scale_fn
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = "betas" in optimizer.defaults
            if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
                raise ValueError(
                    "pf.optim.lr_scheduler.CyclicLR: cycle_momentum needs an optimizer with momentum "
                    "or betas; pass cycle_momentum=False"
                )
            self.base_momentums = _each("base_momentum", base_momentum, groups)
            self.max_momentums = _each("max_momentum", max_momentum, groups)
            if last_epoch == -1:
                for group, low, high in zip(groups, self.base_momentums, self.max_momentums):
                    _set_momentum(group, high)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def scale_fn(self, x):
        """The height of a cycle: of its number, or of the step."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return 0.5 ** (x - 1)
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self):
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        share = 1.0 + self.last_epoch / self.total_size - cycle
        up = self.step_ratio
        height = share / up if share <= up else (share - 1) / (up - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums
            ):
                _set_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self):
        return super().state_dict() | {"_scale_fn_custom": None}  # functions are no state

    def load_state_dict(self, state_dict):
        state = {k: v for k, v in state_dict.items() if k != "_scale_fn_custom"}
        super().load_state_dict(state)


def _set_momentum(group, momentum):
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


def _members(what, optimizer, schedulers):
    """The schedulers that another is made of."""
    name, schedulers = f"pf.optim.lr_scheduler.{what}", list(schedulers)
    if not schedulers:
        raise ValueError(f"{name}: got no schedulers; expected at least one")
    optimizer = optimizer or getattr(schedulers[0], "optimizer", None)
    for i, s in enumerate(schedulers):
        if not hasattr(s, "optimizer"):
            raise TypeError(f"{name}: number {i} is a {type(s).__name__}; expected a scheduler")
        if isinstance(s, ReduceLROnPlateau):
            raise ValueError(
                f"{name}: number {i} is a ReduceLROnPlateau, whose step() takes a metric; step it by itself"
            )
        if s.optimizer is not optimizer:
            raise ValueError(
                f"{name}: all schedulers must belong to the given optimizer; number {i} does not"
            )
    return optimizer, schedulers


class SequentialLR(LRScheduler):
    """One scheduler after the other; the next begins at each milestone."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        self.optimizer, self._schedulers = _members("SequentialLR", optimizer, schedulers)
        if len(milestones) != len(self._schedulers) - 1:
            raise ValueError(
                "SequentialLR expects one milestone less than schedulers; got "
                f"{len(milestones)} and {len(self._schedulers)}"
            )
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        # Making the schedulers has moved the rates and counts: begin again with the first alone.
        for group in optimizer.param_groups:
            _set(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched=None):
        """Takes back the step that each scheduler (of `sched`) made when it was made."""
        s = self if sched is None else sched
        if hasattr(s, "_schedulers"):
            for member in s._schedulers:
                self.recursive_undo(member)
        elif hasattr(s, "last_epoch"):
            s.last_epoch -= 1

    @live
    def step(self, epoch=None):
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self):
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [s.state_dict() for s in self._schedulers]
        return state

    def load_state_dict(self, state_dict):
        state = dict(state_dict)
        for s, theirs in zip(self._schedulers, state.pop("_schedulers")):
            s.load_state_dict(theirs)
        self.__dict__.update(state)


class ChainedScheduler(LRScheduler):
    """Several schedulers stepped together; their factors multiply."""

    def __init__(self, schedulers, optimizer=None):
        self.optimizer, self._schedulers = _members("ChainedScheduler", optimizer, schedulers)
        self._last_lr = self._rates()

    @live
    def step(self, epoch=None):
        for s in self._schedulers:
            s.step()
        self._last_lr = self._rates()

    def _update_lr(self, epoch=None):
        for s in self._schedulers:  # where a sequence comes to it
            s._update_lr(epoch)
        self._last_lr = self._rates()

    state_dict = SequentialLR.state_dict
    load_state_dict = SequentialLR.load_state_dict


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rate by `factor` when a metric has not improved for `patience` epochs."""

    def __init__(
        self,
        optimizer,
        mode="min",
        factor=0.1,
        patience=10,
        threshold=1e-4,
        threshold_mode="rel",
        cooldown=0,
        min_lr=0,
        eps=1e-8,
    ):
        if factor >= 1.0:
            raise ValueError("factor should be < 1.0")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(f"unknown mode {mode!r} or threshold mode {threshold_mode!r}")
        if not isinstance(optimizer, Optimizer):
            raise _no_optimizer(self, optimizer)
        self.optimizer = optimizer
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = _each("min_lr", min_lr, optimizer.param_groups)
        self.mode = mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = self._rates()
        self._reset()

    def _reset(self):
        """Forgets what was seen; the rates stay."""
        self.best = math.inf if self.mode == "min" else -math.inf
        self.num_bad_epochs = 0
        self.cooldown_counter = 0

    @property
    def in_cooldown(self):
        return self.cooldown_counter > 0

    def _better(self, value):
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "abs":
            return sign * value < sign * self.best - self.threshold
        if math.isinf(self.best):
            return sign * value < sign * self.best
        return sign * value < sign * self.best * (1 - sign * self.threshold)

    @live
    def step(self, metrics, epoch=None):
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._better(value):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            groups = self.optimizer.param_groups
            if len(groups) != len(self.min_lrs):  # groups were added since
                if self.default_min_lr is None:
                    raise RuntimeError(
                        f"pf.optim.lr_scheduler.ReduceLROnPlateau: the optimizer has {len(groups)} groups, "
                        f"and min_lrs {len(self.min_lrs)} values; append the new groups' to `min_lrs`"
                    )
                self.min_lrs = _each("min_lr", self.default_min_lr, groups)
            for group, lowest in zip(groups, self.min_lrs):
                before = float(group["lr"])
                lr = max(before * self.factor, float(lowest))
                if before - lr > self.eps:
                    _set(group, "lr", lr)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._rates()


_LRScheduler = LRScheduler  # the name in older programs

_name_errors(__name__)
_name_methods(__name__)
