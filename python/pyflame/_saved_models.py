"""Whole models in saved trees: the names of their classes, and what their attributes hold.

A file never brings code. Layers of PyFlame are made by their names; classes and functions of a program
only when it has allowed them (`add_safe_globals`), or has said weights_only=False and has them already:
nothing is imported because a file names it. No `__init__` of a program's class runs, no `__setstate__`.
"""

import importlib
import sys
import types

from . import _C

_PACKAGE = __name__.partition(".")[0]
_HOOKS = "hooks"
_TABLES = ("_parameters", "_buffers", "_modules")


def plain_model(model):
    """[class, attributes] of a module; Refused where it has what a file cannot hold."""
    from ._kinds import Refused, name_of

    cls = type(model)
    if "<locals>" in cls.__qualname__:
        raise Refused(
            f"the class {cls.__qualname__} is made within a function and has no name to be found by: "
            "make it in a module, or save model.state_dict()"
        )
    state = {}
    for name, value in vars(model).items():
        if name.endswith(_HOOKS):
            if value:
                raise Refused(
                    f"it has hooks ({name}), which are functions: remove them, or save "
                    "model.state_dict()"
                )
            continue
        plain = dict(value) if name in _TABLES else value
        state[name] = _with_functions(plain)
    return [name_of(cls), state]


class Function:
    """A function that stands in an attribute of a model: elsewhere functions are not saved."""

    def __init__(self, value):
        self.value = value


def _with_functions(value):
    if type(value) in (list, tuple):
        return type(value)(map(_with_functions, value))
    if type(value) is dict:
        return {k: _with_functions(v) for k, v in value.items()}
    return Function(value) if is_function(value) else value


def is_function(value):
    """Whether a value is a function, an operation or a class: what a name stands for."""
    return isinstance(value, (types.FunctionType, types.BuiltinFunctionType, type)) or (
        type(value).__name__ in ("Operation", "Function")
    )


def plain_function(value):
    """The name of a function, by which it is found again; Refused where it has none."""
    from ._kinds import Refused

    name = getattr(value, "__qualname__", "") or ""
    for module in (getattr(value, "__module__", None), f"{_PACKAGE}.nn.functional", _PACKAGE):
        if module and _named(sys.modules.get(module), name) is value:
            return f"{module}:{name}"
    raise Refused(
        f"the function {name} has no name to be found by: give it one in a module (def), or save "
        "model.state_dict()"
    )


def _named(owner, qualified):
    """What a module has under a name such as Outer.Inner, or None."""
    for part in qualified.split("."):
        if owner is None or not part.isidentifier():
            return None
        owner = getattr(owner, part, None)
    return owner


def _own(name):
    """The layer, operation or function of nn.functional that PyFlame has under a name, or None."""
    module, _, qualified = name.partition(":")
    layers = f"{_PACKAGE}.nn"
    if module not in (_PACKAGE, layers) and not module.startswith(layers + "."):
        return None
    if any(part.startswith("_") for part in (*module.split("."), *qualified.split("."))):
        return None
    try:
        importlib.import_module(f"{layers}.module")
        value = _named(importlib.import_module(module), qualified)
    except ImportError:
        return None
    if isinstance(value, type):
        return value if issubclass(value, sys.modules[f"{layers}.module"].Module) else None
    harmless = type(value).__name__ == "Operation" or module == f"{layers}.functional"
    return value if harmless and is_function(value) else None


def found(name, trusted, allowed):
    """The class or function that a file names, or None where it may not be made."""
    if name in allowed:
        return allowed[name]
    own = _own(name)
    if own is not None:
        return own
    module, _, qualified = name.partition(":")
    return _named(sys.modules.get(module), qualified) if trusted else None


def make_model(cls, state):
    """A module of a class with these attributes."""
    from .nn import Module, Parameter

    if not (isinstance(cls, type) and issubclass(cls, Module)):
        raise ValueError(f"{cls!r} is no class of modules")
    of_tables = {
        "_parameters": (Parameter, type(None)),
        "_buffers": (_C.Tensor, type(None)),
        "_modules": (Module, type(None)),
    }
    for table, kinds in of_tables.items():
        values = state.get(table)
        if type(values) is not dict or not all(isinstance(v, kinds) for v in values.values()):
            raise ValueError(f"{table} is damaged")
    if not all(type(name) is str and not name.endswith(_HOOKS) for name in state):
        raise ValueError("an attribute without a name, or hooks")
    model = object.__new__(cls)
    Module.__init__(model)
    vars(model).update(state)
    return model


def make_function(value):
    """A function that a file names."""
    if not is_function(value):
        raise ValueError(f"{value!r} is no function")
    return value
