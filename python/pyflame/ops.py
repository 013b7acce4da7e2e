"""The table of operations: what there is, and adding to it at run time."""

import builtins

from . import _C

_list = builtins.list


def list():
    """Names of all operations, sorted."""
    return sorted({row["name"] for row in _C._table()})


def table():
    """Every row as a dict: name, schema, doc, family, function, method, functional, ..."""
    return _C._table()


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
