"""Reads the files of torch.save: zip archives, and the older form of pickles one behind the other.

What the pickle says is read by `opcodes`; the table of names that may stand in one is here. Memory
is taken for what the file has, never for what it says it has.
"""

import argparse
import collections
import enum
import pathlib
import struct
import types
from dataclasses import fields, is_dataclass

from .. import _C, _kinds
from ..serialization import OtherArchive
from .archive import Archive
from .opcodes import Known, Pending, Pickle, is_key

_OLD_MAGIC = 0x1950A86A20F9469CFC6C
_MOST_DIMS = 64
_STORAGES = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
_UNTYPED = "UntypedStorage"


class PickledClassError(_C.FileError):
    """A file of torch.save holds something that only running its code would make."""


class _Bytes:
    """A storage of a file: 1-D tensors of its elements, one for each dtype that looks at it."""

    def __init__(self, dtype, count, location, read):
        self.dtype, self.count, self.location, self._read = dtype, count, location, read
        self._first = None  # (dtype, tensor)

    def bytes(self):
        return self.count * (self.dtype.itemsize if self.dtype else 1)

    def as_dtype(self, dtype):
        """The elements as a tensor; memory is read once."""
        if self._first is None:
            self._first = dtype, self._read(dtype, self.bytes() // dtype.itemsize)
        first, tensor = self._first
        return tensor if first is dtype else tensor.view(_C.uint8).view(dtype)


class Reader:
    """One file. `where` names it in errors, `place` brings a storage's tensor to its device."""

    def __init__(self, where, place=None):
        self.where, self._place = where, place
        self.only_looking = False  # no tensors are made
        self.raised = None  # by the program's map_location

    def fail(self, what):
        raise _C.FileError(
            f"pf.load: {self.where}: its pickle holds {what}; expected what torch.save writes of "
            "tensors, numbers and containers; restore the file from a copy, or save a state_dict()"
        )

    def place(self, tensor, location):
        """The tensor of a storage, brought to where map_location wants it."""
        if self._place is None:
            return tensor
        try:
            return self._place(tensor, location)
        except Exception as e:
            self.raised = e
            raise

    def refuse(self, name):
        shown = name if len(name) < 200 and name.isprintable() else repr(name[:200])
        raise PickledClassError(
            f"pf.load: {self.where}: holds an object of '{shown}'; expected tensors, numbers, text "
            "and containers of them, for nothing in a file is run or imported; save a "
            "state_dict() where the file was made" + _hint(name)
        )

    # ---- tensors --------------------------------------------------------------------------------

    def tensor(self, storage, offset, size, stride, requires_grad=False, hooks=None, metadata=None,
               dtype=None):  # fmt: skip
        if not isinstance(storage, _Bytes):
            self.fail("a tensor without a storage")
        dtype = dtype or storage.dtype
        if not isinstance(dtype, _C.dtype) or type(requires_grad) is not bool:
            self.fail("a tensor without a dtype")
        shape, steps = _naturals(size), _naturals(stride)
        if (
            shape is None
            or steps is None
            or len(shape) != len(steps)
            or _naturals([offset]) is None
        ):
            self.fail("a tensor with a bad shape")
        count = storage.bytes() // dtype.itemsize
        last = offset + sum((n - 1) * s for n, s in zip(shape, steps))
        if 0 not in shape and last >= count:
            self.fail(f"a tensor of shape {shape} that reaches past its {count} elements")
        if _product(shape) >= 1 << 60:
            self.fail(f"a tensor of shape {shape}")
        if self.only_looking:
            return _C._functions["empty"]((0,))
        base = storage.as_dtype(dtype)
        if 0 in shape:
            t = base[:0].reshape(shape) if len(shape) else base[:0]
        else:
            t = base.as_strided(shape, steps, offset)
        if metadata:
            t = self.resolved(t, metadata)
        return t.requires_grad_() if requires_grad else t

    def resolved(self, t, metadata):
        if type(metadata) is not dict or not metadata.keys() <= {"conj", "neg"}:
            self.fail("a tensor of a kind that PyFlame does not have")
        a = t.numpy()
        if metadata.get("conj"):
            a = a.conj()
        if metadata.get("neg"):
            a = -a
        return _C.tensor(a)

    def tensor_of_dtype(self, storage, offset, size, stride, requires_grad, hooks, dtype,
                        metadata=None):  # fmt: skip
        return self.tensor(storage, offset, size, stride, requires_grad, hooks, metadata, dtype)

    def parameter(self, data, requires_grad=True, hooks=None, state=None):
        from ..nn.parameter import Parameter

        if not isinstance(data, _C.Tensor) or type(requires_grad) is not bool:
            self.fail("a parameter without a tensor")
        return self.with_state(Parameter(data.detach(), requires_grad), state)

    def with_state(self, t, state):
        """Attributes that a program has given to a tensor."""
        if isinstance(state, tuple) and len(state) == 2 and not state[1]:
            state = state[0]
        if state:
            if type(state) is not dict or not all(type(name) is str for name in state):
                self.fail("a tensor with a bad state")
            t.__dict__.update(state)
        return t

    def tensor_of_type(self, make, cls, args, state):
        if getattr(cls, "name", None) not in ("torch.Tensor", "torch.nn.parameter.Parameter",
                                              "torch.nn.parameter.Buffer"):  # fmt: skip
            self.refuse(getattr(cls, "name", type(cls).__name__))
        if not isinstance(make, Known) or make.call is None or type(args) is not tuple:
            self.fail("a tensor that nothing makes")
        t = make.call(*args)
        if not isinstance(t, _C.Tensor):
            self.fail("a tensor that is none")
        return self.with_state(t, state)

    # ---- names ----------------------------------------------------------------------------------

    def find(self, module, name):
        """What stands for a global of the pickle."""
        full = f"{module}.{name}"
        if module in ("torch", "torch.cuda", "torch.storage"):
            if name in _STORAGES or name == _UNTYPED:
                return Known(full, value=name)
            dtype = vars(_C).get(name) if module == "torch" else None
            if isinstance(dtype, _C.dtype):
                return dtype
        method = _METHODS.get(full)
        if method is not None:
            return Known(full, getattr(self, method))
        known = _TABLE.get(full)
        if known is not None:
            return known
        cls = _kinds.allowed_class(f"{module}:{name}")
        if cls is not None:
            return _of_class(full, cls)
        self.refuse(full)


_METHODS = {
    "torch._utils._rebuild_tensor": "tensor",
    "torch._utils._rebuild_tensor_v2": "tensor",
    "torch._utils._rebuild_tensor_v3": "tensor_of_dtype",
    "torch._utils._rebuild_parameter": "parameter",
    "torch._utils._rebuild_parameter_with_state": "parameter",
    "torch._tensor._rebuild_from_type_v2": "tensor_of_type",
    "torch.nn.parameter.Parameter": "parameter",
}


def _hint(name):
    if name.startswith(("torch.nn.modules.", "__main__.")) or ".models." in name:
        return " (it looks as if a whole model had been saved)"
    if name.startswith("torch.jit"):
        return " (TorchScript programs need PyTorch)"
    return ""


def _naturals(values):
    """A tuple of whole numbers from 0 below 2**62, or None."""
    if not isinstance(values, (tuple, list)) or len(values) > _MOST_DIMS:
        return None
    good = all(type(n) is int and 0 <= n < 1 << 62 for n in values)
    return tuple(values) if good else None


def _product(shape):
    n = 1
    for s in shape:
        n *= max(s, 1)
    return n


# ---- the table of plain values ------------------------------------------------------------------


def _items(of):
    """The values of a container that has them already: a range would make new ones."""
    if not isinstance(of, (list, tuple, set, frozenset)):
        raise TypeError(f"the values of a {type(of).__name__}")
    return of


def _keys(values):
    values = list(_items(values))
    if not all(map(is_key, values)):
        raise TypeError("something that is no plain value")
    return values


def _ordered(pairs=()):
    pairs = [(k, v) for k, v in map(_items, _items(pairs))]
    _keys([k for k, _ in pairs])
    return collections.OrderedDict(pairs)


def _counter(of=()):
    if of and type(of) is not dict:
        raise TypeError("no counts")
    return collections.Counter(of)


def _text(of):
    if type(of) is not str:
        raise TypeError("no text")
    return of


def _whole(*numbers):
    if not all(type(n) in (int, type(None)) for n in numbers):
        raise TypeError("something else than whole numbers")
    return numbers


def _default_dict(factory=None):
    of = {None: None, **_FACTORIES}.get(factory and factory.name.rpartition(".")[2], False)
    if of is False:
        raise TypeError(f"a factory of {factory.name}")
    return collections.defaultdict(of)


_FACTORIES = {f.__name__: f for f in (list, dict, set, int, float, str, tuple, bool)}


def _encode(text, encoding):
    if encoding not in ("latin1", "latin-1"):
        raise ValueError(f"the encoding {encoding}")
    return text.encode("latin-1")


def _byte_array(of=b"", encoding=None):
    if isinstance(of, str):
        of = _encode(of, encoding)
    if not isinstance(of, bytes):
        raise TypeError("no bytes")
    return bytearray(of)


def _path(*parts):
    if not all(type(p) is str for p in parts):
        raise TypeError("no text")
    return pathlib.PurePosixPath(*parts)


def _posix_path(*parts):
    return pathlib.Path(_path(*parts))


def _device(kind, index=None):
    return _C.device(kind) if index is None else _C.device(kind, *_whole(index))


def _numbers(z):
    return [float(part) for part in z]


# ---- NumPy --------------------------------------------------------------------------------------


class _NumpyType:
    """A dtype of NumPy as its pickle gives it: letters, and then the order of bytes."""

    def __init__(self, letters, order="|"):
        self.text = order + letters

    def of(self):
        import numpy as np

        if not _kinds.NUMPY_DTYPE.fullmatch(self.text):
            raise ValueError(f"the dtype {self.text[:30]}")
        return np.dtype(self.text)


def _numpy_dtype(letters, align=False, copy=True):
    if type(letters) is not str or letters[:1] in "mM":  # times have units behind
        raise TypeError(f"the dtype {letters!r:.30}")
    return Pending(_NUMPY_DTYPE, (letters,))


def _numpy_dtype_state(letters, state):
    order = state[1]
    if type(state) is not tuple or order not in ("<", ">", "|", "=") or any(state[2:5]):
        raise ValueError("a dtype with fields")
    return _NumpyType(letters, "<" if order == "=" else order)


def _numpy_scalar(dtype, data):
    import numpy as np

    if not isinstance(dtype, _NumpyType) or type(data) is not bytes:
        raise TypeError("no number")
    of = dtype.of()
    if of.kind == "O" or len(data) != of.itemsize or not data:
        raise ValueError("a scalar of another size")
    return _kinds.of_file(np.frombuffer(data, of))[0]


def _numpy_empty(cls, shape, letters):
    if cls.name != "numpy.ndarray":
        raise TypeError(cls.name)
    return Pending(_NUMPY_ARRAY, ())


def _numpy_array(state):
    version, shape, dtype, by_columns, data = state
    return _numpy_from(data, dtype, shape, "F" if by_columns else "C")


def _numpy_from(data, dtype, shape, order):
    import numpy as np

    if not isinstance(dtype, _NumpyType) or not isinstance(data, (bytes, bytearray)):
        raise TypeError("an array of objects")
    sizes, of = _naturals(shape), dtype.of()
    if sizes is None or order not in ("C", "F") or of.itemsize == 0:
        raise ValueError("a bad shape")
    count = 0 if 0 in sizes else _product(sizes)
    if count * of.itemsize != len(data):
        raise ValueError("an array of another size")
    a = np.frombuffer(data, of) if data else np.zeros(0, of)
    return _kinds.of_file(a).reshape(sizes, order=order).copy(order="K")


_NUMPY_DTYPE = Known("numpy.dtype", _numpy_dtype, _numpy_dtype_state)
_NUMPY_ARRAY = Known("numpy.ndarray", None, _numpy_array)


# ---- classes that the program has allowed -------------------------------------------------------


def _of_class(name, cls):
    if issubclass(cls, enum.Enum):
        return Known(name, lambda value: cls(value), value=cls)
    if is_dataclass(cls):

        def build(state):
            if type(state) is not dict or set(state) - {f.name for f in fields(cls)}:
                raise ValueError("other fields than the class has")
            return _kinds.make_class(cls, state)

        return Known(name, None, build)
    return Known(name, lambda *values: cls(*values))


def _member(cls, name):
    """What Python 3.11 makes an enum of: getattr(its class, its name)."""
    if not isinstance(cls, Known) or not isinstance(cls.value, enum.EnumMeta):
        raise TypeError("no member of an enum")
    return cls.value[_text(name)]


_TABLE = {
    "builtins.getattr": _member,
    "builtins.bytes": lambda: b"",
    "collections.OrderedDict": _ordered,
    "collections.defaultdict": _default_dict,
    "collections.Counter": _counter,
    "collections.deque": lambda of=(), most=None: collections.deque(_items(of), *_whole(most)),
    "builtins.set": lambda of=(): set(_keys(of)),
    "builtins.frozenset": lambda of=(): frozenset(_keys(of)),
    "builtins.complex": lambda *z: complex(*_numbers(z)),
    "builtins.slice": lambda *of: slice(*_whole(*of)),
    "builtins.range": lambda *of: range(*_whole(*of)),
    "builtins.bytearray": _byte_array,
    "builtins.list": lambda of=(): list(_items(of)),
    "builtins.dict": lambda of=(): dict(_ordered(of)),
    "builtins.tuple": lambda of=(): tuple(_items(of)),
    "builtins.int": None,
    "builtins.float": None,
    "builtins.str": None,
    "builtins.bool": None,
    "_codecs.encode": _encode,
    "pathlib.PosixPath": _posix_path,
    "pathlib.PurePosixPath": _path,
    "pathlib._local.PosixPath": _posix_path,
    "pathlib._local.PurePosixPath": _path,
    "torch.Size": lambda of=(): _C.Size(list(_whole(*_items(of)))),
    "torch.device": _device,
    "torch.Tensor": None,
    "torch.nn.parameter.Buffer": None,
    "torch.torch_version.TorchVersion": _text,
    "numpy.dtype": _NUMPY_DTYPE,
    "numpy.ndarray": None,
}
for _module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    _TABLE[f"{_module}.scalar"] = _numpy_scalar
    _TABLE[f"{_module}._reconstruct"] = _numpy_empty
for _module in ("numpy.core.numeric", "numpy._core.numeric"):
    _TABLE[f"{_module}._frombuffer"] = _numpy_from
_TABLE = {n: v if isinstance(v, Known) else Known(n, v) for n, v in _TABLE.items()}
for _cls in (argparse.Namespace, types.SimpleNamespace):

    def _space(state, cls=_cls):
        if type(state) is not dict or not all(type(name) is str for name in state):
            raise TypeError("no attributes")
        made = cls()
        vars(made).update(state)
        return made

    _name = f"{_cls.__module__}.{_cls.__name__}"
    _TABLE[_name] = Known(_name, _cls, _space)
_TABLE |= {  # of Python 2, which is what PyTorch's pickles speak
    n.replace("builtins.", "__builtin__."): v
    for n, v in _TABLE.items()
    if n.startswith("builtins.")
}
_TABLE["__builtin__.xrange"] = _TABLE["builtins.range"]


# ---- the two forms of file ----------------------------------------------------------------------


class _Zip(Reader):
    def __init__(self, stored, where, place, device, mmap):
        super().__init__(where, place)
        self.stored, self.device, self.mmap = stored, device, mmap
        self.archive = Archive(stored, where)
        pickles = [n for n in self.archive.names() if n.endswith("/data.pkl")]
        if not pickles:
            raise OtherArchive
        self.root = min(pickles, key=len)[: -len("data.pkl")]
        if self.root + "constants.pkl" in self.archive:
            raise PickledClassError(
                f"pf.load: {where}: holds a TorchScript program; expected tensors and containers; "
                "save the state_dict() of the model where the file was made"
            )
        order = self.root + "byteorder"
        order = self.archive.read(order).strip() if order in self.archive else b"little"
        if order not in (b"little", b"big"):
            self.fail(f"the byte order {bytes(order[:20])!r}, which is neither little nor big")
        self.swapped = order == b"big"
        self.storages = {}

    def value(self):
        data = self.archive.read(self.root + "data.pkl")
        return Pickle(data, self.find, self.persistent, self.fail).load()

    def persistent(self, pid):
        kind, dtype, key, location, count = _checked_id(self, pid, 5)
        name = f"{self.root}data/{key}"
        if name in self.storages:
            storage = self.storages[name]
            if (storage.dtype, storage.count) != (dtype, count):
                self.fail("a storage that is described twice, differently")
            return storage
        if name not in self.archive:
            self.fail(f"a storage {key!r} that is not in the file")
        at, size = self.archive.place(name)
        storage = _Bytes(dtype, count, location, None)
        if storage.bytes() != size:
            self.fail(f"a storage of {storage.bytes()} bytes, of which the file has {size}")
        storage._read = lambda of, n: self.placed(of, n, at, location)
        self.storages[name] = storage
        return storage

    def placed(self, dtype, count, at, location):
        device = self.device(location) if callable(self.device) else self.device
        t = self.stored.tensor(at, count, dtype, device, self.mmap, self.swapped)
        return self.place(t, location)


class _Old(Reader):
    """The form before PyTorch 1.6: magic number, version, facts of the machine, the value, the keys
    of its storages, and these one behind the other."""

    def __init__(self, data, where, place, device):
        super().__init__(where, place)
        self.data, self.device, self.storages = data, device, {}
        self.places = None

    def pickle(self, at):
        p = Pickle(self.data, self.find, self.persistent, self.fail, at)
        return p.load(), p.at

    def value(self):
        magic, at = self.pickle(0)
        version, at = self.pickle(at)
        system, start = self.pickle(at)
        if magic != _OLD_MAGIC or version != 1001 or type(system) is not dict:
            self.fail("no value as torch.save wrote it before PyTorch 1.6")
        self.swapped = system.get("little_endian") is False
        # Where the storages are is known behind the value: it is read twice.
        self.only_looking = True
        _, at = self.pickle(start)
        self.only_looking = False
        keys, at = self.pickle(at)
        if type(keys) is not list:
            self.fail("no keys of storages")
        seen, self.storages = self.storages, {}
        places = {}
        for key in keys:
            storage = seen.get(key) if type(key) is str else None
            if storage is None or key in places or at + 8 > len(self.data):
                self.fail("a storage that nothing looks at")
            (count,) = struct.unpack_from(">Q" if self.swapped else "<Q", self.data, at)
            if count != storage.count or at + 8 + storage.bytes() > len(self.data):
                self.fail(f"a storage of {storage.bytes()} bytes, of which the file has fewer")
            places[key] = at + 8
            at += 8 + storage.bytes()
        self.places = places
        self.stored = _C._Stored(self.where, self.data)
        value, _ = self.pickle(start)
        return value

    def persistent(self, pid):
        if type(pid) is tuple and pid[:1] == ("module",):
            self.refuse("torch.nn.modules.module.Module")
        kind, dtype, key, location, count, view = _checked_id(self, pid, 6)
        if view is not None:
            self.fail("a storage of a kind that torch.save no longer writes")
        storage = self.storages.get(key)
        if storage is None:
            storage = self.storages[key] = _Bytes(dtype, count, location, None)
            if storage.bytes() > len(self.data):
                self.fail(f"a storage of {storage.bytes()} bytes, of which the file has fewer")
            if self.places is not None and key not in self.places:
                self.fail(f"a storage {key!r} that is not in the file")
            storage._read = lambda of, n: self.placed(of, n, key, location)
        if (storage.dtype, storage.count) != (dtype, count):
            self.fail("a storage that is described twice, differently")
        return storage

    def placed(self, dtype, count, key, location):
        device = self.device(location) if callable(self.device) else self.device
        t = self.stored.tensor(self.places[key], count, dtype, device, False, self.swapped)
        return self.place(t, location)


def _checked_id(reader, pid, size):
    """("storage", dtype or None, key, location, count, ...) of a persistent id."""
    if type(pid) is not tuple or len(pid) != size or pid[0] != "storage":
        reader.fail("a persistent id of another kind than a storage")
    kind, storage, key, location, count, *rest = pid
    if not isinstance(storage, Known) or not isinstance(storage.value, str):
        reader.fail(f"a storage of {getattr(storage, 'name', 'no type')}")
    if type(key) is not str or type(location) is not str or _naturals([count]) is None:
        reader.fail("a storage without a key, a place or a size")
    dtype = None if storage.value == _UNTYPED else vars(_C)[_STORAGES[storage.value]]
    return kind, dtype, key, location, count, *rest


def read(source, where, device=None, place=None, mmap=False):
    """The value of a file: `source` is a path, or all of its bytes; `where` is how errors name it.

    `device` is a device, None (the CPU), or a function of a location that gives one; `place` is
    called with each storage's tensor and its location and returns it on some device.
    """
    where = str(where)
    stored = _C._Stored(source, None) if isinstance(source, str) else _C._Stored(where, source)
    if stored.read(0, min(2, stored.size)) == b"PK":
        reader = _Zip(stored, where, place, device, mmap)
    else:
        try:
            data = stored.read(0, stored.size)
        except MemoryError:
            raise _C.OutOfMemoryError(
                f"pf.load: {where}: no room for its {stored.size} bytes, which a file of PyTorch's "
                "before 1.6 is read in as a whole; expected fewer; free memory, or save it anew"
            ) from None
        reader = _Old(data, where, place, device)
    try:
        return reader.value()
    except _C.FileError:
        if reader.raised is not None:
            raise reader.raised from None
        raise
