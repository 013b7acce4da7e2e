"""What a captured step does besides launches: steps of optimizers and schedules, before, within and behind
them, at each replay."""

import functools

from .. import _C
from ..amp import GradScaler
from ..optim import narrow
from ..optim import optimizer as _optimizer
from ..optim.adam_sgd import Adam
from ..optim.lr_scheduler import LRScheduler
from ..optim.optimizer import Optimizer
from . import guards

Tensor = _C.Tensor


class Recording:
    """While a thread captures: what optimizers and schedules ask to be done outside of it. `arrays`, if a
    list, gets those (of NumPy and others) whose elements the step copies into tensors."""

    def __init__(self, capture, arrays=None):
        self.capture = capture
        self.outside_calls = []  # between two parts
        self.cells = []  # of those within
        self.arrays = arrays
        self.stepped = {}  # parameters of optimizers that made a step
        self.gives_gradients = False  # as results

    def gradients(self):
        """[(leaf, its gradient or None)] of those that the captured launches make gradients of."""
        found = {id(p): p for p, _ in self.capture.leaves()}
        found |= self.stepped
        return [(p, p.grad) for p in found.values()]

    def outside(self, function, args, kwargs):
        if args and isinstance(args[0], Optimizer):
            self.stepped |= {id(p): p for g in args[0].param_groups for p in g["params"]}
        for value in (*args, *kwargs.values()):
            if not isinstance(value, (Optimizer, LRScheduler, GradScaler, *guards.PLAIN)):
                self.capture.break_off(
                    f"{getattr(function, '__qualname__', function)}() gets a {type(value).__name__}"
                )
        before = self.gradients()
        call = (function, args, kwargs, before)
        if _stands_within(args, kwargs):
            self.capture.open_cell()
            try:
                result = function(*args, **kwargs)
            finally:
                if self.capture.close_cell():
                    self.cells.append(
                        Cell(self.capture, len(self.cells), len(self.outside_calls), call)
                    )
                else:
                    self.outside_calls.append(call)
        else:
            self.capture.pause()
            try:
                result = function(*args, **kwargs)
            finally:
                self.capture.resume()
            self.outside_calls.append(call)
        if result is not None:
            self.capture.break_off(f"{getattr(function, '__qualname__', function)}() gives a value")
        return result

    def calls(self):
        return len(self.outside_calls) + len(self.cells)

    def cells_hold(self):
        """Whether what stands within may still do so."""
        for cell in self.cells:
            if not cell.holds():
                return False
        return True

    def replay(self, inputs, at_end):
        """Runs the first stage once more, with what was done outside of it between its parts; leaves
        have the gradients `at_end` behind it."""
        self.capture.start(0, inputs)
        for part, (function, args, kwargs, before) in enumerate(self.outside_calls):
            self._run(part)
            _C._restore_gradients(before)
            function(*args, **kwargs)
        self._run(len(self.outside_calls))
        _C._restore_gradients(at_end)

    def _run(self, part):
        for cell in self.cells:
            if cell.part == part:
                cell.tell()
        self.capture.run(0, part)


class Cell:
    """A step of an optimizer, or of a schedule, whose launches stand within a part."""

    def __init__(self, capture, number, part, call):
        self.capture, self.number, self.part = capture, number, part
        self.function, self.args, self.kwargs, self.before = call
        what = self.args[0]
        self.optimizer = what if isinstance(what, Optimizer) else None
        # Of Adam, whose states and numbers are known, without calling it.
        self.groups = None
        if self.optimizer is not None and type(what)._step is Adam._step:
            self.groups = _groups_of_adam(what, capture.cell_launches(number))

    def holds(self):
        if self.groups is None:
            return _stands_within(self.args, self.kwargs)
        return not _C._steps_hooked(self.optimizer, _optimizer._before_all, _optimizer._after_all)

    def tell(self):
        """Makes the step, of which nothing is launched."""
        if self.groups is not None and _C._tell_adam(
            self.capture, self.number, self.optimizer, self.groups
        ):
            return
        _C._restore_gradients(self.before)
        self.capture.feed(self.number)
        try:
            self.function(*self.args, **self.kwargs)
        finally:
            self.capture.end_feed()


def _groups_of_adam(optimizer, launches):
    """Of each group [parameters, states, names, tensors by name, whether amsgrad]; None where its launch
    is not one for all of them."""
    groups = []
    for group in optimizer.param_groups:
        params = list(group["params"])
        states = [optimizer.state.get(p) for p in params]
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")[: 3 if group["amsgrad"] else 2]
        if any(p.grad is None for p in params) or not all(states):
            return None
        if len({s["step"] for s in states}) != 1:
            return None
        groups.append(
            (params, states, names, [s[n] for n in names for s in states], group["amsgrad"])
        )
    return groups if len(groups) == launches else None


def _stands_within(args, kwargs):
    """Whether a step of an optimizer or a schedule does nothing but tell the numbers of kernels: its
    Python may run before the launches that stand in front of them."""
    if kwargs or len(args) != 1:
        return False
    what = args[0]
    if isinstance(what, Optimizer):
        kind = type(what)
        d = what.__dict__
        return (
            kind.step is Optimizer.step
            and _only_kernels(kind)
            and not what._has_duplicates
            and not (d["_step_pre_hooks"] or d["_step_post_hooks"])
            and not (_optimizer._before_all or _optimizer._after_all)
            and all(_plain_options(g) for g in what.param_groups)
            and not any(g.get(name) for g in what.param_groups for name in narrow.OPTIONS)
        )
    return (
        isinstance(what, LRScheduler)
        and type(what).__module__ == LRScheduler.__module__
        and not hasattr(what, "lr_lambdas")  # functions of the program's
        and all(_plain_options(g) for g in what.optimizer.param_groups)
    )


@functools.cache
def _only_kernels(kind):
    """What the class says that defines the step."""
    return next(c for c in kind.__mro__ if "_step" in vars(c)).__dict__.get("_only_kernels", False)


def _plain_options(group):
    return not group.get("differentiable") and Tensor not in map(type, group.values())
