"""The table of operations: what there is, and adding to it at run time."""

import builtins
import functools
import json
import os

from . import _C
from ._named_errors import name_errors as _name_errors

_list = builtins.list


def list(details=False):
    """Names of all operations, sorted; with details (name, dtypes, on CPUs, on GPUs) for each, see
    support()."""
    names = sorted({row["name"] for row in _C._table()})
    return [(name, *_support(name).values()) for name in names] if details else names


def table():
    """Every row as a dict: name, schema, doc, family, function, method, functional, ..., and what
    support() says of its name."""
    return [row | _support(row["name"]) for row in _C._table()]


_LIBRARIES = {  # kernel: what calculates it on GPUs
    "matmul": "cuBLASLt, hipBLASLt or rocBLAS, or own kernels",
    "conv": "cuDNN or MIOpen, or own kernels",
    **dict.fromkeys(("fft", "rfft", "irfft"), "cuFFT or hipFFT, or on the host"),
}
_DECOMPOSED = "cuSOLVER or hipSOLVER, or on the host"


@functools.cache
def _supported():
    path = os.path.join(os.path.dirname(__file__), "_support.json")
    with open(path, encoding="utf-8") as file:
        table = json.load(file)
    dtypes = table.pop("")  # many operations take the same
    return {name: [dtypes[row[0]], *row[1:]] for name, row in table.items()}


def support(name):
    """What an operation takes and is: dtypes (names of those of its main operand), cpu and gpu (what
    calculates it there), as tools/operation_support.py found them.

    dtypes is None for operations whose names begin with _, and for those defined at run time.
    """
    get(name)  # which says that there is none
    return _support(name)


def _support(name):
    if name not in _supported():
        return {"dtypes": None, "cpu": "own kernels", "gpu": "own kernels"}
    dtypes, kernels, programs, host, lapack = _supported()[name]
    own = ["pointwise programs"] * programs
    on = {}
    for device in ("cpu", "gpu"):
        parts, rest = [*own], [k for k in kernels if device == "cpu" or k not in host]
        for k in rest:
            if device == "gpu" and k in _LIBRARIES:
                parts.append(f"{k} ({_LIBRARIES[k]})")
            elif device == "gpu" and k in lapack:
                parts.append(f"{k} ({_DECOMPOSED})")
            elif device == "cpu" and k == "matmul":
                parts.append("matmul (oneDNN, or own kernels)")
            else:
                parts.append(f"{k} (LAPACK)" if k in lapack else k)
        if device == "gpu" and host:
            parts.append(f"{', '.join(host)} (on the host, copied there and back)")
        on[device] = ", ".join(parts) or "no work on elements"
    return {"dtypes": dtypes, **on}


def get(name):
    """The callable of an operation."""
    for names in (_C._functions, _C._functional, _C._methods, _C._special):
        if name in names:
            return names[name]
    raise AttributeError(f"pyflame has no operation '{name}'; pyflame.ops.list() names them all")


def refresh():
    """Takes rows that were added to the registry into the package; returns their names."""
    import pyflame

    added = _list(_C._sync_registry())
    for name in added:
        if name in _C._functions:
            setattr(pyflame, name, _C._functions[name])
    return added


def define(name, expression, attrs=None, doc=""):
    """Adds a pointwise operation: `define("cube", "x * x * x")`.

    `expression` is text over x, y, z and the attributes (`attrs={"slope": 0.1}`). The operation
    has a kernel, gradients of every order, a function and a method; it is returned.
    """
    for what, text in (("name", name), ("expression", expression), ("doc", doc)):
        if not isinstance(text, str):
            raise TypeError(
                f"pf.ops.define: got a {type(text).__name__} as {what}; expected text; write it as "
                'in define("cube", "x * x * x")'
            )
    attrs = attrs or {}
    _C._define_pointwise(name, expression, [(k, float(v)) for k, v in attrs.items()], doc)
    refresh()
    return get(name)


def __getattr__(name):  # pyflame.ops.add and so on
    if name.startswith("__"):
        raise AttributeError(name)
    return get(name)


_name_errors(__name__)
