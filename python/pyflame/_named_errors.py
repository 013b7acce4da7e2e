"""An argument of the wrong class is a TypeError that names the function and the argument, although what noticed
is a line somewhere inside that looked for an attribute of it."""

import contextlib
import functools
import os
import sys

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
        if name in names:
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


def _raised(f, name, args, kwargs, error):
    """The TypeError for an AttributeError, or None where it is about something else."""
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
    given = [(names[i] if i < len(names) else str(i), v) for i, v in enumerate(args)]
    for parameter, value in [*given, *kwargs.items()]:
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


def named(f, name):
    """`f`, whose AttributeErrors that are about its arguments are TypeErrors of the function `name`."""

    @functools.wraps(f)
    def checked(*args, **kwargs):
        try:
            return f(*args, **kwargs)
        except AttributeError as error:
            wrong = _raised(f, name, args, kwargs, error)
            if wrong is None:
                raise
            raise wrong from None

    return checked


def name_errors(module, *only):
    """For the functions and classes of a module (of those names, or of all that are public): called at
    its end."""
    space = vars(sys.modules[module])
    shown = module.partition(".")[2]
    if shown.startswith("_"):  # found as pf.name
        shown = ""
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
