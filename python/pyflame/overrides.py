"""Functions that ask classes of tensors whether they have something to say: names as in
torch.overrides. What `__torch_function__` is stands in docs/autograd.md."""

import contextlib
import functools

from . import _C

__all__ = [
    "TorchFunctionMode", "get_ignored_functions", "get_overridable_functions",
    "get_testing_overrides", "handle_torch_function", "has_torch_function", "is_tensor_like",
    "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip

_OWN = _C.Tensor.__torch_function__


def _says(value):
    """The value's __torch_function__ where it is another than tensors have."""
    cls = type(value)
    if cls is _C.Tensor:
        return None
    found = getattr(cls, "__torch_function__", None)
    return None if found is None or getattr(found, "__func__", found) is _plain() else found


def _plain():
    return getattr(_OWN, "__func__", _OWN)


class TorchFunctionMode:
    """A base class for what changes every function within a ``with`` block.

    Within the block ``__torch_function__(self, func, types, args, kwargs)`` gets what this thread calls:
    operations, functions that make tensors, those of ``nn.functional`` and ``nn.init``, methods of
    tensors. What it returns is the result; ``func(*args, **kwargs)``, or anything else that it calls, goes
    to the mode around it and not to itself. `types` are the classes among the arguments that have a
    ``__torch_function__`` of their own, which is asked after the modes. Blocks nest; the innermost is asked
    first. Attributes and methods that only tell of a tensor (``shape``, ``size()``, ``dtype``) and the
    backward pass are not asked about.
    """

    def __init__(self):
        pass

    def __enter__(self):
        _C._enter_mode(self)
        return self

    def __exit__(self, *unused):
        _C._exit_mode()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(
            f"pf.overrides.TorchFunctionMode: {type(self).__name__} has no __torch_function__; expected "
            "one; define __torch_function__(self, func, types, args=(), kwargs=None)"
        )


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_function_mode_stack():
    return _C._modes()


def _get_current_function_mode():
    return next(reversed(_C._modes()), None)


@contextlib.contextmanager
def _pop_mode_temporarily():
    mode = _C._exit_mode()
    try:
        yield mode
    finally:
        _C._enter_mode(mode)


def has_torch_function(relevant_args):
    """Whether one of the arguments has a __torch_function__ of its own, or a mode is on."""
    return _C._mode_is_on() or any(_says(a) is not None for a in relevant_args)


def has_torch_function_variadic(*relevant_args):
    """has_torch_function of arguments one by one."""
    return has_torch_function(relevant_args)


has_torch_function_unary = has_torch_function_variadic


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """What the innermost mode says, if there is one. Else calls the __torch_function__ of the arguments
    in turn, subclasses before their bases, until one returns something else than NotImplemented. TypeError
    when none does."""
    asked = []
    for a in relevant_args:
        if _says(a) is None or any(type(a) is type(b) for b in asked):
            continue
        at = next((i for i, b in enumerate(asked) if isinstance(a, type(b))), len(asked))
        asked.insert(at, a)
    types = tuple(map(type, asked))
    if _C._mode_is_on():
        with _pop_mode_temporarily() as mode:
            result = mode.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for a in asked:
        result = a.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"pf.overrides: no implementation of '{resolve_name(public_api) or public_api}' found for "
        f"{[t.__name__ for t in types]}; expected one that does not return NotImplemented; handle "
        "the function in __torch_function__"
    )


def wrap_torch_function(dispatcher):
    """A decorator for functions of a program's own: `dispatcher`, called with the same arguments,
    returns those that are asked first."""

    def decorate(function):
        @functools.wraps(function)
        def asking(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(asking, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return asking

    return decorate


def is_tensor_like(inp):
    """True for tensors and what has a __torch_function__."""
    return type(inp) is _C.Tensor or hasattr(inp, "__torch_function__")


@functools.cache
def get_overridable_functions():
    """The functions that ask, as lists by where they are found."""
    import pyflame
    from pyflame.nn import functional

    def rows(owner, names):
        return [getattr(owner, n) for n in sorted(names) if not n.startswith("_")]

    return {
        pyflame: rows(pyflame, [n for n in _C._functions if hasattr(pyflame, n)]),
        functional: rows(functional, [n for n in _C._functional if hasattr(functional, n)]),
        _C.Tensor: [getattr(_C.Tensor, n) for n in sorted(_C._methods) if hasattr(_C.Tensor, n)],
    }


def get_testing_overrides():
    """The same functions, each with one that takes anything and returns -1."""
    return {
        f: lambda *args, **kwargs: -1
        for functions in get_overridable_functions().values()
        for f in functions
    }


def get_ignored_functions():
    """Functions that never ask: they make tensors of no tensors."""
    import pyflame

    names = ["arange", "as_tensor", "empty", "eye", "from_numpy", "full", "linspace", "logspace",
             "ones", "rand", "randint", "randn", "randperm", "tensor", "zeros", "manual_seed",
             "save", "load", "is_tensor", "get_default_dtype", "set_default_dtype"]  # fmt: skip
    return {getattr(pyflame, n) for n in names}


def is_tensor_method_or_property(func):
    """Whether a function is one of Tensor's."""
    return func in _methods() or getattr(func, "__name__", None) == "__get__"


def _name_of(func):
    """What an operation is called that a __torch_function__ gets; a property by its own name."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        name = func.__self__.__name__
    return name.rpartition(".")[2]


@functools.cache
def _methods():
    return set(get_overridable_functions()[_C.Tensor])


def resolve_name(f):
    """The name of a function with the module in which it is found, or None."""
    if isinstance(f, str):
        return f
    for owner, functions in get_overridable_functions().items():
        if any(f is g for g in functions):
            where = "pyflame.Tensor" if owner is _C.Tensor else owner.__name__
            return f"{where}.{getattr(f, '__name__', '').rpartition('.')[2]}"
    name, module = getattr(f, "__qualname__", None), getattr(f, "__module__", None)
    return f"{module}.{name}" if name and module else None
