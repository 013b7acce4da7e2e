"""Optimizer: parameter groups, their state, and what every optimizer shares."""

import copy
from collections import defaultdict, deque
from itertools import repeat
from operator import setitem

from .._C import Tensor
from ..autograd import enable_grad


class _Required:
    def __repr__(self):
        return "<required>"


required = _Required()


def set_all(states, key, values):
    """states[i][key] = values[i]. No line of Python runs meanwhile: a signal's handler that raises
    finds all of it done, or none."""
    deque(map(setitem, states, repeat(key), values), maxlen=0)


class Optimizer:
    """Base class. `params` is an iterable of parameters, of (name, parameter), or of groups.

    A group is a dict with "params" and options that differ from `defaults`. Subclasses define
    `_step(group)`, which updates the parameters of one group with multi-tensor operations.
    """

    def __init__(self, params, defaults):
        if isinstance(params, Tensor):
            raise TypeError(
                f"pf.optim.{type(self).__name__}: got a single Tensor; expected an iterable of "
                "parameters or of dicts; pass [tensor]"
            )
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
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
            raise TypeError(f"param group must be a dict; got {type(param_group).__name__}")
        group = dict(param_group)
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        if params and isinstance(params[0], tuple):
            group["param_names"] = [name for name, _ in params]
            params = [p for _, p in params]
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(
                    f"pf.optim.{type(self).__name__}: optimizer can only optimize Tensors; got "
                    f"{type(p).__name__}"
                )
            if not p.is_leaf:
                raise ValueError(
                    f"pf.optim.{type(self).__name__}: can't optimize a non-leaf Tensor; expected "
                    "parameters, not results of operations; detach it first"
                )
        ids = {id(p) for p in params}
        if len(ids) != len(params):
            raise ValueError(
                f"pf.optim.{type(self).__name__}: a parameter appears twice in one group"
            )
        if any(id(p) in ids for g in self.param_groups for p in g["params"]):
            raise ValueError(
                f"pf.optim.{type(self).__name__}: some parameters appear in more than one group"
            )
        group["params"] = params
        for name, value in self.defaults.items():
            if name not in group:
                if value is required:
                    raise ValueError(f"parameter group needs a value for '{name}'")
                group[name] = value
        self._check(group)
        self.param_groups.append(group)

    def _check(self, group):
        lr = float(group.get("lr", 0.0))
        decay = group.get("weight_decay", 0.0)
        for name, value in (("learning rate", lr), ("weight_decay", decay)):
            if not value >= 0:
                raise ValueError(f"pf.optim.{type(self).__name__}: invalid {name}: {value}")

    def zero_grad(self, set_to_none=True):
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad = p.grad.detach()
                    p.grad.zero_()

    def step(self, closure=None):
        """Updates all parameters that have a gradient. `closure` computes the loss anew."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._step(group)
        return loss

    def _step(self, group):
        raise NotImplementedError(f"{type(self).__name__} does not define _step(group)")

    # ---- state --------------------------------------------------------------------------------

    def state_dict(self):
        """{"state": by number of the parameter, "param_groups": with numbers for parameters}"""
        numbers = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed = {k: v for k, v in group.items() if k != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {numbers[id(p)]: dict(s) for p, s in self.state.items() if id(p) in numbers}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Takes over a state_dict of an optimizer with the same groups and sizes."""
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
        by_number = {
            number: p
            for mine, theirs in zip(self.param_groups, groups)
            for number, p in zip(theirs["params"], mine["params"])
        }
        state = defaultdict(dict)
        for number, values in state_dict["state"].items():
            p = by_number.get(int(number))  # files keep keys of dicts as text
            if p is None:
                continue
            taken = {}
            for key, value in values.items():
                if isinstance(value, Tensor):
                    if key == "step" and value.numel() == 1:  # as PyTorch keeps it
                        value = int(value.item())
                    else:
                        if tuple(value.shape) != tuple(p.shape):
                            raise ValueError(
                                f"pf.optim.{name}.load_state_dict: '{key}' of parameter {number} "
                                f"has shape {list(value.shape)}; expected {list(p.shape)}"
                            )
                        value = value.detach().to(p.dtype).to(p.device).clone()
                taken[key] = value
            state[p] = taken
        for mine, theirs in zip(self.param_groups, groups):
            for key, value in theirs.items():
                if key != "params":
                    mine[key] = tuple(value) if key == "betas" else copy.deepcopy(value)
        self.state = state

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += [""] if i else []
            lines.append(f"Parameter Group {i}")
            lines += [
                f"    {k}: {group[k]}" for k in sorted(group) if k not in ("params", "param_names")
            ]
        return "\n".join(lines) + "\n)"
