"""Optimizer: parameter groups, their state, and what every optimizer shares."""

import contextlib
import copy
import functools
import warnings
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from itertools import chain, repeat
from operator import setitem

from .. import _C, _live, _ops
from .._C import Tensor
from .._hooks import add_hook
from .._named_errors import listed
from ..autograd import enable_grad, no_grad
from . import narrow

_before_all, _after_all = {}, {}  # hooks of every optimizer
_HOOKS = (
    "_step_pre_hooks",
    "_step_post_hooks",
    "_state_dict_pre_hooks",
    "_state_dict_post_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)

# Options that are numbers, or pairs of them, wherever an optimizer has them.
_NUMBERS = (
    "lr", "weight_decay", "momentum", "dampening", "betas", "eps", "alpha", "rho", "lambd", "lr_decay",
)  # fmt: skip


class _Required:
    def __repr__(self):
        return "<required>"


required = _Required()
# What an optimizer is given: tensors, names with tensors, or groups.
ParamsT = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict]
_params_t = ParamsT


def set_all(states, key, values):
    """states[i][key] = values[i]. No line of Python runs meanwhile: a signal's handler that raises
    finds all of it done, or none."""
    deque(map(setitem, states, repeat(key), values), maxlen=0)


@contextlib.contextmanager
def in_one_dtype(error, params, grads, *states):
    """Lists for a step that `error` refused because parameters and their state differ in dtype, as after
    model.float(): each in the dtype that holds both, and written back to its own, as PyTorch keeps it."""
    wide = [
        functools.reduce(_C.promote_types, [t.dtype for t in beside])
        for beside in zip(params, *states)
    ]
    lists = (params, *states)
    if all(t.dtype == dtype for given in lists for t, dtype in zip(given, wide)):
        raise error
    lists = [[t.detach().to(dtype) for t, dtype in zip(given, wide)] for given in lists]
    yield lists[0], [g.to(dtype) for g, dtype in zip(grads, wide)], *lists[1:]
    with no_grad():
        for own, new in zip(chain(params, *states), chain(*lists)):
            if own.dtype != new.dtype:
                own.copy_(new)


def register_optimizer_step_pre_hook(hook):
    """hook(optimizer, args, kwargs) before every step of every optimizer."""
    return add_hook(_before_all, hook)


def register_optimizer_step_post_hook(hook):
    """hook(optimizer, args, kwargs) after every step of every optimizer."""
    return add_hook(_after_all, hook)


def _with_hooks(step):
    """A class's step() with the hooks around it; one that calls its base class's runs them once."""

    @functools.wraps(step)
    def hooked(self, *args, **kwargs):
        if _live.recording is not None and _C._capturing():
            return _live.outside(hooked, (self, *args), kwargs)
        d = self.__dict__
        d["_stepped"] = True  # schedulers ask for it
        before, after = d.get("_step_pre_hooks"), d.get("_step_post_hooks")
        if not (before or after or _before_all or _after_all) or d.get("_stepping"):
            return step(self, *args, **kwargs)
        args = (self, *args)  # as hooks of PyTorch get and give them
        for hook in [*_before_all.values(), *(before or {}).values()]:
            changed = hook(self, args, kwargs)
            if changed is None:
                continue
            if not isinstance(changed, tuple) or len(changed) != 2:
                raise RuntimeError(
                    f"pf.optim.{type(self).__name__}: a hook before the step returned {changed!r}; "
                    "expected None or (args, kwargs)"
                )
            args, kwargs = changed
        d["_stepping"] = True
        try:
            result = step(*args, **kwargs)
        finally:
            del d["_stepping"]
        for hook in [*(after or {}).values(), *_after_all.values()]:
            hook(self, args, kwargs)
        return result

    hooked.hooked = True
    return hooked


class Optimizer:
    """Base class. `params` is an iterable of parameters, of (name, parameter), or of groups.

    A group is a dict with "params" and options that differ from `defaults`. Subclasses define
    `_step(group)`, which updates the parameters of one group with multi-tensor operations, or, as
    programs do, `step(closure=None)` over `param_groups` and `state`.
    """

    _scalars = {"step": int}  # of a state: numbers that PyTorch keeps as tensors of one element
    # Whether _step() reads no tensor's values and launches multi-tensor kernels alone, but for fresh
    # states: then captured steps have its kernels within.
    _only_kernels = False
    _has_complex = False  # a parameter is complex
    _has_duplicates = False  # a parameter stands in a group several times
    _narrow = False  # has the options of narrow.py

    def __new__(cls, *args, **kwargs):
        if not cls._narrow and cls.__module__.startswith(__package__):
            narrow.refuse(cls, kwargs)
        return super().__new__(cls)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if step is not None and not getattr(step, "hooked", False):
            cls.step = _with_hooks(step)

    def __init__(self, params, defaults):
        for table in _HOOKS:
            setattr(self, table, {})
        if isinstance(params, Tensor):
            raise TypeError(
                f"pf.optim.{type(self).__name__}: got a single Tensor; expected an iterable of "
                "parameters or of dicts; pass [tensor]"
            )
        if defaults.get("fused"):
            for other in ("differentiable", "foreach"):
                if defaults.get(other):
                    raise RuntimeError(
                        f"pf.optim.{type(self).__name__}: got fused=True and {other}=True; expected "
                        "one of them; leave one away"
                    )
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = listed(f"optim.{type(self).__name__}", params)
        if not groups:
            raise ValueError(
                f"pf.optim.{type(self).__name__}: got an empty parameter list; expected at least "
                "one parameter; check that the model has parameters"
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group):
        if not isinstance(param_group, dict):
            raise TypeError(
                f"pf.optim.{type(self).__name__}.add_param_group: got {type(param_group).__name__}; "
                "expected a dict; pass {'params': parameters}"
            )
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, set):
            raise TypeError(
                f"pf.optim.{type(self).__name__}: got a set of parameters, whose order differs from run "
                "to run; expected a list"
            )
        name = f"optim.{type(self).__name__}"
        params = [params] if isinstance(params, Tensor) else listed(name, params)
        if params and isinstance(params[0], tuple):
            if not all(isinstance(p, tuple) for p in params):
                raise ValueError(
                    f"pf.optim.{type(self).__name__}: got parameters with and without names; expected "
                    "all as (name, parameter), or none"
                )
            group["param_names"] = [name for name, _ in params]
            params = [p for _, p in params]
        if any(("param_names" in g) != ("param_names" in group) for g in self.param_groups):
            raise ValueError(
                f"pf.optim.{type(self).__name__}: got groups with and without names; expected all "
                "parameters as (name, parameter), or none"
            )
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(
                    f"pf.optim.{type(self).__name__}: optimizer can only optimize Tensors of PyFlame; "
                    f"got {type(p).__module__}.{type(p).__qualname__}"
                    + ("; pass model.parameters()" if hasattr(p, "parameters") else "")
                )
            if not p.is_leaf and not self.defaults.get("differentiable"):
                raise ValueError(
                    f"pf.optim.{type(self).__name__}: can't optimize a non-leaf Tensor; expected "
                    "parameters, not results of operations; detach it first"
                )
        ids = {id(p) for p in params}
        if len(ids) != len(params):
            self._has_duplicates = True
            warnings.warn(
                f"pf.optim.{type(self).__name__}: got a group with duplicate parameters, which a step "
                "updates as often as they appear; expected each once; this will be an error",
                stacklevel=3,
            )
        if any(id(p) in ids for g in self.param_groups for p in g["params"]):
            raise ValueError(
                f"pf.optim.{type(self).__name__}: some parameters appear in more than one group"
            )
        group["params"] = params
        self._has_complex |= any(p.dtype.is_complex for p in params)
        for name, value in self.defaults.items():
            if name not in group:
                if value is required:
                    raise ValueError(f"parameter group needs a value for '{name}'")
                group[name] = value
        self._check(group)
        narrow.check(self, group)
        self.param_groups.append(group)

    def _check(self, group):
        for name in _NUMBERS:
            value = group.get(name, 0)
            for v in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(v, (str, bytes)) or (v is None and name == "lr"):
                    raise TypeError(
                        f"pf.optim.{type(self).__name__}: got {name}={value!r}; expected numbers; convert "
                        "text with float()"
                    )
        lr = float(group.get("lr", 0.0))
        decay = group.get("weight_decay", 0.0)
        for name, value in (("learning rate", lr), ("weight_decay", decay)):
            if not value >= 0:
                raise ValueError(f"pf.optim.{type(self).__name__}: invalid {name}: {value}")

    def _check_betas(self, group):
        for i, beta in enumerate(group["betas"]):
            if not 0 <= beta < 1:
                raise ValueError(
                    f"pf.optim.{type(self).__name__}: invalid beta parameter at index {i}: {beta}"
                )

    def zero_grad(self, set_to_none=True):
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    # Else it stays the same tensor, as a captured step wants it.
                    if p.grad.requires_grad:
                        p.grad = p.grad.detach()
                    p.grad.zero_()

    @_with_hooks
    def step(self, closure=None):
        """Updates all parameters that have a gradient. `closure` computes the loss anew."""
        loss = None
        if closure is not None:
            if not callable(closure):
                raise TypeError(
                    f"pf.optim.{type(self).__name__}.step: got {type(closure).__name__}; expected nothing, or a "
                    "function that computes the loss anew"
                )
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            if self._has_duplicates:
                self._step_in_turn(group)
            else:
                self._step_once(group)
        return loss

    def _step_once(self, group):
        if self._has_complex and not group.get("differentiable"):
            self._step_as_real(group)
        else:
            self._step(group)

    def _step_in_turn(self, group):
        for params in self._turns(group):
            self._step_once(group | {"params": params})

    @staticmethod
    def _turns(group):
        """Lists of the group's parameters, each once in a list: no kernel gets one twice."""
        turns, seen = [], Counter()
        for p in group["params"]:
            turn = seen[id(p)]
            seen[id(p)] += 1
            if turn == len(turns):
                turns.append([])
            turns[turn].append(p)
        return turns

    def _step_as_real(self, group):
        """A step in which complex parameters are tensors of their real and imaginary parts; their state
        is complex, as PyTorch keeps it."""
        params, parts = [], []
        for p in group["params"]:
            real = p
            if p.dtype.is_complex and p.grad is not None:
                real = _ops.view_as_real(p.detach())
                real.grad = _ops.view_as_real(p.grad.detach())
                self.state[real] = {k: self._parts(v) for k, v in self.state[p].items()}
                parts.append((p, real))
            params.append(real)
        try:
            self._step(group | {"params": params})
        finally:
            for p, real in parts:
                self.state[p] = {
                    k: _ops.view_as_complex(v)
                    if isinstance(v, Tensor) and v.shape == real.shape
                    else v
                    for k, v in self.state.pop(real).items()
                }

    @staticmethod
    def _parts(value):
        """A complex tensor as a view of its parts; the rest as it is."""
        is_complex = isinstance(value, Tensor) and value.dtype.is_complex
        return _ops.view_as_real(value) if is_complex else value

    def _step(self, group):
        raise NotImplementedError(f"{type(self).__name__} does not define _step(group)")

    # ---- state --------------------------------------------------------------------------------

    def state_dict(self):
        """{"state": by number of the parameter, "param_groups": with numbers for parameters}"""
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self)
        numbers = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed = {k: v for k, v in group.items() if k != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {
            numbers.get(id(p), p): dict(s) if isinstance(s, dict) else s
            for p, s in self.state.items()
            if id(p) in numbers or not isinstance(p, Tensor)
        }
        result = {"state": state, "param_groups": groups}
        for hook in list(self._state_dict_post_hooks.values()):
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict):
        """Takes over a state_dict of an optimizer with the same groups and sizes, or PyTorch's own."""
        state_dict = dict(state_dict)
        for hook in list(self._load_state_dict_pre_hooks.values()):
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        groups = state_dict["param_groups"]
        name = type(self).__name__
        if len(groups) != len(self.param_groups):
            raise ValueError(
                f"pf.optim.{name}.load_state_dict: got {len(groups)} parameter groups; expected "
                f"{len(self.param_groups)}"
            )
        for i, (mine, theirs) in enumerate(zip(self.param_groups, groups)):
            if len(mine["params"]) != len(theirs["params"]):
                raise ValueError(
                    f"pf.optim.{name}.load_state_dict: group {i} has {len(theirs['params'])} "
                    f"parameters; expected {len(mine['params'])}"
                )
        for mine, theirs in zip(self.param_groups, groups):
            narrow.check(self, mine | theirs | {"params": mine["params"]})
        by_number = {
            number: (p, narrow.state_dtype(mine | theirs, p))
            for mine, theirs in zip(self.param_groups, groups)
            for number, p in zip(theirs["params"], mine["params"])
        }
        state = defaultdict(dict)
        for number, values in state_dict["state"].items():
            try:
                p, dtype = by_number.get(
                    int(number), (None, None)
                )  # files keep keys of dicts as text
            except ValueError:  # what an optimizer keeps under a name of its own
                state[number] = copy.deepcopy(values)
                continue
            if p is not None:
                where = f"pf.optim.{name}.load_state_dict: '{{}}' of parameter {number}"
                state[p] = {
                    k: self._loaded(k, v, p, where.format(k), dtype) for k, v in values.items()
                }
        for mine, theirs in zip(self.param_groups, groups):
            held = {"params": mine.pop("params")}
            for key, value in theirs.items():
                if key != "params":
                    many = isinstance(mine.pop(key, None), tuple)  # which files keep as a list
                    held[key] = tuple(value) if many else copy.deepcopy(value)
            rest = dict(mine)
            mine.clear()  # the loaded order of keys, what is not loaded behind it
            mine.update(held | rest)
        self.state = state
        for hook in list(self._load_state_dict_post_hooks.values()):
            hook(self)

    def _loaded(self, key, value, p, where, dtype):
        """A value of p's state as this optimizer keeps it: tensors in `dtype`, masters in float32."""
        if key in self._scalars:
            return self._scalars[key](value.item() if isinstance(value, Tensor) else value)
        if not isinstance(value, Tensor):
            return copy.deepcopy(value)
        if tuple(value.shape) != tuple(p.shape):
            raise ValueError(f"{where} has shape {list(value.shape)}; expected {list(p.shape)}")
        dtype = _C.float32 if key == "master" else dtype
        return value.detach().to(dtype).to(p.device).clone()

    # ---- hooks --------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook):
        """hook(optimizer, args, kwargs) before each step; may return new (args, kwargs)."""
        return add_hook(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """hook(optimizer, args, kwargs) after each step."""
        return add_hook(self._step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """hook(optimizer) before the state is collected."""
        return add_hook(self._state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """hook(optimizer, state_dict) when it is; a result that is not None takes its place."""
        return add_hook(self._state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """hook(optimizer, state_dict) before it is loaded; a result takes its place."""
        return add_hook(self._load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """hook(optimizer) when a state has been loaded."""
        return add_hook(self._load_state_dict_post_hooks, hook, prepend)

    @staticmethod
    def profile_hook_step(func):
        """`func`, a step, with the hooks around it; steps of subclasses have them already."""
        return func if getattr(func, "hooked", False) else _with_hooks(func)

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if not k.endswith(("_hooks", "_stepped"))}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.__dict__.setdefault("defaults", {})
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)
        for table in _HOOKS:
            self.__dict__.setdefault(table, {})

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += [""] if i else []
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {group[k]}" for k in sorted(group) if k != "params"]
        return "\n".join(lines) + "\n)"
