"""What a saved tree holds beside plain values: types, each as a name and a plain value.

A file says which type a value had, by name. Names of this table are made again by the code here;
names of other classes only where the program has allowed the class (`add_safe_globals`). Nothing
is imported because a file names it.
"""

import argparse
import collections
import enum
import os
import pathlib
import re
import sys
import types
from dataclasses import fields, is_dataclass

from . import _C
from ._saved_models import (
    Function,
    found,
    is_function,
    make_function,
    make_model,
    plain_function,
    plain_model,
)

_FACTORIES = {f.__name__: f for f in (list, dict, set, tuple, int, float, str, bool, bytes)}


class Kind:
    """How values of one type are written (`plain`) and made again (`make`)."""

    def __init__(self, plain, make):
        self.plain, self.make = plain, make


def _order(value):
    """What sorts the values of a set: the same in every process, also where a value holds sets,
    whose repr() follows the hash seed."""
    if isinstance(value, (set, frozenset)):
        text = ", ".join(f"{name}:{inner}" for name, inner in sorted(map(_order, value)))
    elif isinstance(value, tuple):
        text = ", ".join(f"{name}:{inner}" for name, inner in map(_order, value))
    else:
        text = repr(value)
    return type(value).__name__, text


def in_order(values):
    """A set in an order of its own, so that equal sets give equal bytes."""
    try:
        return sorted(values, key=_order)
    except ValueError:  # a whole number past Python's limit of digits
        return list(values)


def _default_dict(d):
    factory = d.default_factory
    if factory is not None and _FACTORIES.get(getattr(factory, "__name__", "")) is not factory:
        raise Refused(
            "a defaultdict is saved with a built-in type or None as its default_factory: save "
            "dict(d)"
        )
    return [factory and factory.__name__, dict(d)]


def _make_default_dict(of):
    name, items = of
    return collections.defaultdict(None if name is None else _FACTORIES[name], items)


def _check(value, *kinds):
    if type(value) not in kinds:
        raise ValueError(f"got a {type(value).__name__} there")
    return value


def _attributes(cls):
    def make(of):
        value = cls()
        vars(value).update((_check(key, str), v) for key, v in _check(of, dict).items())
        return value

    return Kind(lambda value: dict(vars(value)), make)


def _path_text(path):
    text = str(path)
    return text if text.isprintable() or _is_text(text) else os.fsencode(text)


def _is_text(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _path(cls):
    return Kind(_path_text, lambda of: cls(os.fsdecode(_check(of, str, bytes))))


def _numbers(cls):
    def make(of):
        if any(type(n) not in (int, type(None)) for n in of):
            raise ValueError("something else than whole numbers")
        return cls(*of)

    return Kind(lambda r: [r.start, r.stop, r.step], make)


def _dtype(name):
    value = vars(_C).get(_check(name, str))
    if not isinstance(value, _C.dtype):
        raise ValueError(f"there is no dtype {name}")
    return value


# Names stay as they are: files hold them.
_KINDS = {
    "OrderedDict": Kind(dict, lambda of: collections.OrderedDict(_check(of, dict))),
    "defaultdict": Kind(_default_dict, _make_default_dict),
    "Counter": Kind(dict, lambda of: collections.Counter(_check(of, dict))),
    "deque": Kind(
        lambda d: [list(d), d.maxlen], lambda of: collections.deque(_check(of[0], list), of[1])
    ),
    "set": Kind(in_order, lambda of: set(_check(of, list))),
    "frozenset": Kind(in_order, lambda of: frozenset(_check(of, list))),
    "Namespace": _attributes(argparse.Namespace),
    "SimpleNamespace": _attributes(types.SimpleNamespace),
    "Path": _path(pathlib.Path),
    "PurePosixPath": _path(pathlib.PurePosixPath),
    "PureWindowsPath": _path(pathlib.PureWindowsPath),
    "complex": Kind(lambda z: [z.real, z.imag], lambda of: complex(*of)),
    "bytearray": Kind(bytes, lambda of: bytearray(_check(of, bytes))),
    "Ellipsis": Kind(lambda _: None, lambda _: Ellipsis),
    "slice": Kind(lambda s: [s.start, s.stop, s.step], lambda of: slice(*_check(of, list))),
    "range": _numbers(range),
    "dtype": Kind(lambda d: str(d).rpartition(".")[2], _dtype),
    "device": Kind(lambda d: [d.backend, d.index], lambda of: _device(*of)),
    "Size": Kind(list, lambda of: _C.Size(_check(of, list))),
    # Text with halves of surrogate pairs, which UTF-8 cannot hold: names of files, for example.
    "str": Kind(
        lambda s: s.encode("utf-8", "surrogatepass"),
        lambda of: _check(of, bytes).decode("utf-8", "surrogatepass"),
    ),
}


def _make_sparse(of):
    from .sparse._making import of_file

    return of_file(*of)


def _make_nested(of):
    from .nested import _of_file

    return _of_file(*of)


_KINDS["sparse"] = Kind(lambda t: t._plain(), _make_sparse)
_KINDS["nested"] = Kind(lambda t: t._plain(), _make_nested)
_NAMES = {
    collections.OrderedDict: "OrderedDict",
    collections.defaultdict: "defaultdict",
    collections.Counter: "Counter",
    collections.deque: "deque",
    set: "set",
    frozenset: "frozenset",
    argparse.Namespace: "Namespace",
    types.SimpleNamespace: "SimpleNamespace",
    pathlib.PosixPath: "Path",
    pathlib.PurePosixPath: "PurePosixPath",
    pathlib.PureWindowsPath: "PureWindowsPath",
    complex: "complex",
    bytearray: "bytearray",
    type(Ellipsis): "Ellipsis",
    slice: "slice",
    range: "range",
    _C.dtype: "dtype",
    _C.device: "device",
    _C.Size: "Size",
    str: "str",
}


def _device(type, index):
    return _C.device(_check(type, str)) if index is None else _C.device(type, _check(index, int))


# ---- NumPy ----------------------------------------------------------------------------------------

NUMPY_DTYPE = re.compile(r"[<>|][biufcSUmM]\d*(\[\d*[a-zA-Zμ]+\])?")


def _array_plain(a):
    """[dtype, shape, values]: a tensor of the values where there is a dtype for them, or of bytes."""
    import numpy as np

    if a.dtype.names is not None:
        raise Refused("arrays with fields cannot be saved: save a dict of {name: a[name]}")
    if not NUMPY_DTYPE.fullmatch(a.dtype.str) or a.dtype.itemsize == 0:
        raise Refused(f"arrays of {a.dtype} cannot be saved: save lists")
    if a.dtype.kind in "biuf" and a.dtype.isnative and a.dtype.itemsize <= 8:
        return [a.dtype.str, list(a.shape), _C.from_numpy(np.ascontiguousarray(a).reshape(-1))]
    data = np.frombuffer(a.tobytes(), np.uint8)
    return [a.dtype.str, list(a.shape), _C.from_numpy(data.copy())]


def of_file(values):
    """An array of NumPy whose bytes a file has given: these may be anything, bools and text not."""
    import numpy as np

    if values.dtype.kind == "b":
        return values.view(np.uint8) != 0
    if values.dtype.kind == "U" and values.size:
        letters = np.ascontiguousarray(values).reshape(-1).view(values.dtype.str[0] + "u4")
        if letters.max() > sys.maxunicode:
            raise ValueError("text of no letters")
    return values


def _make_array(of):
    import numpy as np

    name, shape, data = of
    if not NUMPY_DTYPE.fullmatch(_check(name, str)):
        raise ValueError(f"there is no dtype {name[:30]}")
    if any(type(n) is not int or n < 0 for n in _check(shape, list)):
        raise ValueError("a bad shape")
    values = data.detach().cpu().contiguous().numpy()
    a = values.view(np.uint8).view(np.dtype(name)) if values.size else np.zeros(0, np.dtype(name))
    return of_file(a).reshape(shape)


def _scalar_plain(x):
    import numpy as np

    if not NUMPY_DTYPE.fullmatch(x.dtype.str):
        raise Refused("such a scalar of NumPy cannot be saved: save its item()")
    return [x.dtype.str, np.asarray(x).tobytes()]


def _make_scalar(of):
    import numpy as np

    name, data = of
    if not NUMPY_DTYPE.fullmatch(_check(name, str)):
        raise ValueError(f"there is no dtype {name[:30]}")
    dtype = np.dtype(name)
    if dtype.itemsize == 0:  # text or bytes of no length
        return dtype.type()
    (value,) = of_file(np.frombuffer(_check(data, bytes), dtype))
    return value


_KINDS["ndarray"] = Kind(_array_plain, _make_array)
_KINDS["scalar"] = Kind(_scalar_plain, _make_scalar)


def _numpy_kind(value):
    numpy = sys.modules.get("numpy")  # a value of NumPy has imported it
    if numpy is None:
        return None
    if type(value) is numpy.ndarray:
        return "ndarray"
    return "scalar" if isinstance(value, numpy.generic) else None


# ---- classes of programs --------------------------------------------------------------------------

_allowed = {}


def name_of(cls):
    """What a file calls a class: "package.module:Outer.Inner"."""
    return f"{cls.__module__}:{cls.__qualname__}"


def _is_named_tuple(cls):
    names = getattr(cls, "_fields", None)
    return cls.__bases__ == (tuple,) and isinstance(names, tuple) and hasattr(cls, "_make")


def _class_plain(value):
    """The plain value of a dataclass, an enum or a named tuple; None for other values."""
    cls = type(value)
    if isinstance(value, enum.Enum):
        # A combination of flags has no name of its own.
        return [value.name] if value.name in cls.__members__ else [None, value.value]
    if is_dataclass(cls) and not isinstance(value, (dict, list, tuple, set, str, int, float)):
        return {f.name: getattr(value, f.name) for f in fields(cls) if hasattr(value, f.name)}
    if _is_named_tuple(cls):
        return dict(zip(cls._fields, value, strict=True))
    return None


def make_class(cls, of):
    if issubclass(cls, enum.Enum):
        return cls[of[0]] if of[0] is not None else cls(of[1])
    if _is_named_tuple(cls):
        return cls(**of)
    if is_dataclass(cls):
        # As copying does: the values are those that were saved, __init__ has run before.
        if unknown := set(of) - {f.name for f in fields(cls)}:
            raise ValueError(f"{cls.__name__} has no field {sorted(unknown)[0]}")
        value = object.__new__(cls)
        for name, field in of.items():
            object.__setattr__(value, name, field)
        return value
    raise ValueError(f"{cls.__name__} is no dataclass, enum or named tuple any more")


# ---- both ways ------------------------------------------------------------------------------------


class Refused(Exception):
    """Why a value cannot be saved, and the way out."""


def _parameter(value):
    from .nn.parameter import Parameter

    return type(value) is Parameter


def _is_module(value):
    layers = sys.modules.get("pyflame.nn.module")  # a module has imported it
    return layers is not None and isinstance(value, layers.Module)


def describe(value):
    """(type's name, plain value), or text that says why there is none."""
    cls = type(value)
    try:
        if name := _NAMES.get(cls):
            return name, _KINDS[name].plain(value)
        if isinstance(value, _C.Tensor):
            if value.is_nested:
                return "nested", _KINDS["nested"].plain(value)
            if value.layout != "strided":
                return "sparse", _KINDS["sparse"].plain(value)
            if _parameter(value):
                return "Parameter", [value.detach(), value.requires_grad]
            return "save its values as a plain tensor (value.as_subclass(pyflame.Tensor))"
        if kind := _numpy_kind(value):
            return kind, _KINDS[kind].plain(value)
        if _is_module(value):
            return "model", plain_model(value)
        if cls is Function:
            return "function", plain_function(value.value)
        plain = _class_plain(value)
    except Refused as e:
        return str(e)
    if plain is not None:
        if "<locals>" in cls.__qualname__:
            return (
                "a class that is made within a function has no name to be found by: make it in a "
                "module, or save dataclasses.asdict(value)"
            )
        return "object", [name_of(cls), plain]
    return (
        "save its state instead (state_dict(), dataclasses.asdict(value), vars(value), "
        "list(value)), and make the object again when it is loaded"
    )


class Maker:
    """Makes values again, for one file. `where` begins its errors. `trusted`: classes that the program
    has may be made of models, allowed or not."""

    def __init__(self, where, trusted=False):
        self.where, self.trusted = where, trusted
        self.parameters = {}

    def __call__(self, name, of):
        if name == "object" and type(of) is list and [type(v) for v in of[:1]] == [str]:
            return self.object(*of[:2])
        if name == "model" and type(of) is list and [type(v) for v in of] == [str, dict]:
            return self.named(of[0], lambda cls: make_model(cls, of[1]))
        if name == "function" and type(of) is str:
            return self.named(of, make_function)
        try:
            if name == "Parameter":
                return self.parameter(*of)
            kind = _KINDS.get(name)
            if kind is not None:
                return kind.make(of)
        except (ImportError, MemoryError):  # nothing is wrong with the file
            raise
        except Exception as e:
            raise _C.FileError(
                f"pf.load: {self.where}: a value of type '{name}' cannot be made ({e}); expected "
                "what pf.save writes; the file is damaged: restore it from a copy"
            ) from None
        raise _C.FileError(
            f"pf.load: {self.where}: a value of the unknown type '{name[:60]}'; expected a file of "
            "this version of PyFlame or an older one; load it with a newer PyFlame"
        )

    def parameter(self, data, requires_grad):
        """One parameter for one tensor, however often the file names it."""
        from .nn.parameter import Parameter

        key = id(_check(data, _C.Tensor)), _check(requires_grad, bool)
        if key not in self.parameters:
            self.parameters[key] = data, Parameter(data, requires_grad)
        return self.parameters[key][1]

    def object(self, name, of=None):
        cls = _allowed.get(name)
        if cls is None:
            self.refuse(name, "a value of the class")
        return self.named(name, lambda cls: make_class(cls, of))

    def refuse(self, name, what):
        module, _, qualified = name.partition(":")
        more = "" if self.trusted or what != "an object of" else ", or load with weights_only=False"
        raise TypeError(
            f"pf.load: {self.where}: holds {what} '{name[:200]}', which is not allowed; expected "
            "what the program has allowed, for no code is run because a file names it; import "
            f"{qualified[:100]} from {module[:100]} and call "
            f"pf.serialization.add_safe_globals([{qualified[:100]}]) first, if you trust it{more}"
        )

    def named(self, name, make):
        """What `make` makes of the class or function of this name."""
        cls = found(name, self.trusted, _allowed)
        if cls is None:
            self.refuse(name, "an object of")
        try:
            return make(cls)
        except MemoryError:
            raise
        except Exception as e:
            raise _C.FileError(
                f"pf.load: {self.where}: a value of the class '{name}' cannot be made ({e}); "
                "expected the class as it was when the file was saved; change the class back or "
                "restore the file from a copy"
            ) from None


def allow(classes):
    """Takes classes and functions, or pairs of one and the name that files call it by."""
    taken = {}
    for cls in list(classes):
        name = None
        if isinstance(cls, tuple) and len(cls) == 2 and isinstance(cls[1], str):
            cls, name = cls
            name = ":".join(name.rpartition(".")[::2])
        if not isinstance(cls, type) and not is_function(cls):
            raise TypeError(
                f"pf.serialization.add_safe_globals: got a {type(cls).__name__}; expected classes "
                "(dataclasses, enums, named tuples, modules) and functions; give a list of them"
            )
        taken[name or name_of(cls)] = cls
    _allowed.update(taken)


def allowed_class(name):
    """The allowed class that a file calls so, or None."""
    return _allowed.get(name)


def allowed():
    return list(_allowed.values())


def forget():
    _allowed.clear()
