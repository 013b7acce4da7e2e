"""An argument of the wrong class is a TypeError that names the function and the argument, although what noticed
is a line somewhere inside that looked for an attribute of it."""

import contextlib
import functools
import os
import sys
import types

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PLAIN = {str, bytes, int, float, complex, list, tuple, dict, set, object, type(None)}
_EXPECTED = (
    (("model", "module", "conv", "linear", "bn"), "a Module"),
    (("optimizer",), "an Optimizer"),
    (("parameters", "params", "tensors", "tensor_list", "sequences"), "Tensors"),
    (
        ("input", "tensor", "x", "a", "self", "q", "k", "v", "qkv", "kv", "probs", "logits"),
        "a Tensor",
    ),
)


def _expected(name):
    for names, what in _EXPECTED:
        if name.lstrip("*") in names:
            return what
    return "what its documentation names"


def _parts(value, levels=2):
    """An argument, what it holds, and their classes."""
    yield value
    yield type(value)
    if hasattr(value, "dtype"):
        yield value.dtype
    if levels and isinstance(value, (list, tuple, set, frozenset, dict, str)):
        for part in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _parts(part, levels - 1)


def _within(trace):
    """Whether all frames from there on are of this package: what a program's own code lacks is its
    own error."""
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith((_HERE, contextlib.__file__)):
            return False
        trace = trace.tb_next
    return True


def _raised(f, name, args, kwargs, error, bound=False):
    """The TypeError for an AttributeError, or None where it is about something else. What `bound` methods
    have as their first argument is no argument of a caller."""
    if error.name is None or not _within(error.__traceback__):
        return None
    kind = error.obj if isinstance(error.obj, type) else type(error.obj)
    got = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    code = getattr(f, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code else ()
    rest = "*args"
    if code and code.co_flags & 4:  # it takes *args
        rest = "*" + code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
    given = [(names[i] if i < len(names) else rest, v) for i, v in enumerate(args)]
    for parameter, value in [*given[bound:], *kwargs.items()]:
        if any(part is error.obj for part in _parts(value)):
            return TypeError(
                f"pf.{name}: got {got} as or in '{parameter}', which has no '{error.name}'; expected "
                f"{_expected(parameter)}"
            )
    if kind in _PLAIN or kind.__module__ == "numpy":  # made of what was given
        return TypeError(
            f"pf.{name}: got arguments that lead to a {got}, which has no '{error.name}'; expected what "
            "its documentation names"
        )
    return None


def of_call(module, args, kwargs, error):
    """The TypeError for an AttributeError of a module that was called, or the same error."""
    kind = type(module)
    wrong = _raised(kind.forward, f"nn.{kind.__name__}", (module, *args), kwargs, error, True)
    return error if wrong is None else wrong


def named(f, name, bound=False):
    """`f`, whose AttributeErrors that are about its arguments are TypeErrors of the function `name`."""

    @functools.wraps(f)
    def checked(*args, **kwargs):
        try:
            return f(*args, **kwargs)
        except AttributeError as error:
            wrong = _raised(f, name, args, kwargs, error, bound)
            if wrong is None:
                raise
            raise wrong from None

    return checked


def _shown(module):
    """The path of a module as its functions are found: those of inner ones are pf.name."""
    shown = module.partition(".")[2]
    return "" if shown.startswith("_") else shown


def name_methods(module, *only):
    """For the public methods, and `__call__`, of the classes of a module (of those names, or of all that are
    public): called at its end."""
    space, shown = vars(sys.modules[module]), _shown(module)
    for name in only or [n for n in space if not n.startswith("_")]:
        kind = space[name]
        if not isinstance(kind, type) or kind.__module__ != module:
            continue
        for key, value in list(vars(kind).items()):
            if key.startswith("_") and key != "__call__":
                continue
            full = f"{shown}.{name}.{key}".lstrip(".")
            if isinstance(value, classmethod):
                setattr(kind, key, classmethod(named(value.__func__, full, True)))
            elif isinstance(value, types.FunctionType):
                setattr(kind, key, named(value, full, True))


def name_errors(module, *only):
    """For the functions and classes of a module (of those names, or of all that are public): called at
    its end."""
    space, shown = vars(sys.modules[module]), _shown(module)
    for name in only or [n for n in space if not n.startswith("_")]:
        value = space[name]
        code = getattr(value, "__code__", None)
        if (
            code.co_filename != space["__file__"]
            if code
            else getattr(value, "__module__", "") != module
        ):
            continue
        full = f"{shown}.{name}".lstrip(".")
        if isinstance(value, type):
            if "__init__" in vars(value):
                value.__init__ = named(value.__init__, full)
            if isinstance(vars(value).get("__new__"), staticmethod):
                value.__new__ = staticmethod(named(value.__new__, full))
        elif code:
            space[name] = named(value, full)


def listed(name, given):
    """The parameters given to the function `name`, as a list. What is none is mostly a model, or a method
    that was not called."""
    if hasattr(type(given), "__iter__") or hasattr(type(given), "__getitem__"):
        return list(given)
    what = type(given).__qualname__
    do = "pass a list of them"
    if hasattr(given, "parameters"):
        do = "pass model.parameters()"
    elif callable(given):
        what = f"{what} {getattr(given, '__qualname__', what)}"
        do = "call it: model.parameters()"
    raise TypeError(f"pf.{name}: got {what}; expected parameters, one after the other; {do}")


def name_constructors(space):
    """Gives the public classes among `space` whose __init__ is a private base's one of their own: Python's
    errors, such as that an argument is missing, say its name."""
    for name, kind in list(space.items()):
        if name.startswith("_") or not isinstance(kind, type):
            continue
        given = kind.__init__
        made = getattr(given, "__wrapped__", given)
        if not isinstance(made, types.FunctionType) or not made.__qualname__.startswith("_"):
            continue
        own = types.FunctionType(
            made.__code__, made.__globals__, made.__name__, made.__defaults__, made.__closure__
        )
        functools.update_wrapper(own, made)
        del own.__wrapped__
        own.__kwdefaults__ = made.__kwdefaults__
        own.__qualname__ = f"{kind.__name__}.__init__"
        full = f"{_shown(kind.__module__).partition('.')[0]}.{kind.__name__}"
        kind.__init__ = own if made is given else named(own, full)
