"""Writes the files of torch.save: PyTorch's zip archive, whose pickle is put together here, opcode
by opcode, of values that are known. No object is asked how it wants to be pickled.
"""

import argparse
import collections
import os
import pathlib
import struct
import sys
import types
import zlib

from .. import _C, _kinds
from .archive import Packer
from .opcodes import is_key
from .reading import _STORAGES

_LEVELS = 100
_TYPES = {f: n for n, f in _STORAGES.items()}
_BUILTINS = (list, dict, set, int, float, str, tuple, bool)


class InexpressibleError(TypeError):
    """A value that such a file holds only as a pickled object."""


def _int(n):
    if 0 <= n < 256:
        return struct.pack("<cB", b"K", n)
    if 0 <= n < 65536:
        return struct.pack("<cH", b"M", n)
    if -(1 << 31) <= n < 1 << 31:
        return struct.pack("<ci", b"J", n)
    data = n.to_bytes(n.bit_length() // 8 + 1, "little", signed=True)
    head = struct.pack("<cB", b"\x8a", len(data)) if len(data) < 256 else b""
    return (head or struct.pack("<cI", b"\x8b", len(data))) + data


def _str(text):
    data = text.encode("utf-8", "surrogatepass")
    return struct.pack("<cI", b"X", len(data)) + data


def _name(module, name):
    return f"c{module}\n{name}\n".encode()


_ORDERED = _name("collections", "OrderedDict") + b")R"


class _Text:
    """The pickle of one value, and the storages that it speaks of."""

    def __init__(self):
        self.parts = []
        self.memo = {}  # id: number; of containers, which are kept alive
        self.alive = []
        self.open = set()
        self.storages = {}  # (address, dtype): (key, tensor)
        self.steps = []

    def put(self, *parts):
        self.parts.extend(parts)

    def value(self, v):
        plain = _PLAIN.get(type(v))
        if plain is not None:
            self.put(plain(v))
        elif id(v) in self.memo and id(v) not in self.open:
            self.put(struct.pack("<cI", b"j", self.memo[id(v)]))
        else:
            self.container(v)

    def container(self, v):
        if id(v) in self.open or len(self.open) >= _LEVELS:
            raise _C.ValueError(
                f"pf.save: got values nested deeper than {_LEVELS} levels; expected a flatter tree "
                "without cycles; check for a list or dict that contains itself"
            )
        self.open.add(id(v))
        write = _CONTAINERS.get(type(v))
        if write is None and isinstance(v, _C.Tensor):
            write = _Text.tensor
        if write is None and type(v).__module__ == "numpy":
            write = _Text.numpy
        if write is None or write(self, v) is False:
            self.refuse(v)
        if not isinstance(v, tuple):  # those are put together when all is there
            self.remember(v)
        self.open.discard(id(v))

    def remember(self, v):
        if id(v) not in self.memo:
            self.memo[id(v)] = len(self.memo)
            self.alive.append(v)
            self.put(struct.pack("<cI", b"r", self.memo[id(v)]))

    def refuse(self, v):
        where = "".join(f"[{s!r}]" for s in self.steps)
        raise InexpressibleError(
            f"pf.torch_files.save: got a value of type '{type(v).__name__}'{where and ' at obj'}"
            f"{where}; expected tensors, numbers, text and containers of them; "
            f"{self.why(v)}"
        )

    def why(self, v):
        why = _kinds.describe(v)
        return why if isinstance(why, str) else "pf.save keeps such values"

    def items(self, pairs):
        self.put(b"(")
        for key, value in pairs:
            if not is_key(key):
                self.refuse(key)
            self.value(key)
            self.steps.append(key)
            self.value(value)
            self.steps.pop()
        self.put(b"u")

    def call(self, module, name, *args):
        self.put(_name(module, name))
        self.tuple(args)
        self.put(b"R")

    # ---- containers -----------------------------------------------------------------------------

    def list(self, v):
        self.put(b"]")
        self.remember(v)
        self.put(b"(")
        self.each(v)
        self.put(b"e")

    def each(self, values):
        for i, item in enumerate(values):
            self.steps.append(i)
            self.value(item)
            self.steps.pop()

    def tuple(self, v):
        if 0 < len(v) < 4:
            self.each(v)
            self.put(b"\x85\x86\x87"[len(v) - 1 : len(v)])
        else:
            self.put(b"(" if v else b")")
            self.each(v)
            self.put(b"t" if v else b"")

    def dict(self, v):
        self.put(b"}")
        self.remember(v)
        self.items(v.items())

    def ordered(self, v):
        self.put(_ORDERED)
        self.remember(v)
        self.items(v.items())
        if getattr(v, "_metadata", None) is not None:
            self.put(b"}")
            self.items([("_metadata", v._metadata)])
            self.put(b"b")

    def default_dict(self, v):
        factory = v.default_factory
        if factory is not None and factory not in _BUILTINS:
            return False
        self.put(_name("collections", "defaultdict"))
        self.put(b")" if factory is None else _name("__builtin__", factory.__name__) + b"\x85")
        self.put(b"R")
        self.remember(v)
        self.items(v.items())

    def namespace(self, v):
        cls = type(v)
        self.put(_name(cls.__module__, cls.__name__), b")\x81" if cls in _NEW else b")R")
        self.remember(v)
        self.put(b"}")
        self.items(vars(v).items())
        self.put(b"b")

    # ---- tensors --------------------------------------------------------------------------------

    def tensor(self, t):
        from ..nn.parameter import Parameter

        if type(t) is Parameter:
            self.put(_name("torch._utils", "_rebuild_parameter"), b"(")
            self.plain_tensor(t.detach())
            self.put(_PLAIN[bool](t.requires_grad), _ORDERED, b"tR")
        elif type(t) is _C.Tensor:
            self.plain_tensor(t)
        else:
            return False

    def plain_tensor(self, t):
        name = str(t.dtype).rpartition(".")[2]
        if t.dtype.bits < 8:
            self.refuse(t)
        typed = _TYPES.get(name)
        size = t.dtype.itemsize
        storage = t.untyped_storage()
        key = storage.data_ptr(), t.dtype
        count = storage.nbytes() // size
        if key not in self.storages:
            whole = t.detach().as_strided((count,), (1,), 0)
            self.storages[key] = str(len(self.storages)), whole
        self.put(_name("torch._utils", f"_rebuild_tensor_v{2 if typed else 3}"), b"((")
        self.put(_str("storage"))
        self.put(_name("torch", typed) if typed else _name("torch.storage", "UntypedStorage"))
        self.put(_str(self.storages[key][0]), _str("cpu"), _int(count if typed else count * size))
        self.put(b"tQ", _int(t.storage_offset()))
        self.tuple(tuple(t.shape))
        self.tuple(tuple(t.stride()))
        self.put(_PLAIN[bool](t.requires_grad), _ORDERED)
        self.put(b"" if typed else _dtype(t.dtype), b"tR")

    # ---- NumPy ----------------------------------------------------------------------------------

    def numpy(self, v):
        import numpy as np

        dtype = v.dtype
        if not _kinds.NUMPY_DTYPE.fullmatch(dtype.str) or dtype.kind in "mM":
            return False
        multiarray = "numpy._core.multiarray" if int(np.__version__[0]) > 1 else (
            "numpy.core.multiarray"
        )  # fmt: skip
        if isinstance(v, np.generic):
            self.put(_name(multiarray, "scalar"))
            self.numpy_dtype(dtype)
            self.value(np.asarray(v).tobytes())
            self.put(b"\x86R")
            return True
        if type(v) is not np.ndarray:
            return False
        self.put(_name(multiarray, "_reconstruct"), _name("numpy", "ndarray"))
        self.put(_int(0), b"\x85")
        self.value(b"b")
        self.put(b"\x87R(", _int(1))
        self.tuple(v.shape)
        self.numpy_dtype(dtype)
        self.put(_PLAIN[bool](False))
        self.value(v.tobytes())
        self.put(b"tb")
        return True

    def numpy_dtype(self, dtype):
        self.call("numpy", "dtype", dtype.str[1:], False, True)
        size = dtype.itemsize if dtype.kind in "SU" else -1
        align = dtype.alignment if dtype.kind in "SU" else -1
        flags = 8 if dtype.kind == "U" else 0
        self.tuple((3, dtype.str[0], None, None, None, size, align, flags))
        self.put(b"b")


def _bytes(v):
    text = _Text()
    text.call("_codecs", "encode", v.decode("latin-1"), "latin1")
    return b"".join(text.parts)


def _dtype(d):
    return _name("torch", str(d).rpartition(".")[2])


_PLAIN = {
    type(None): lambda v: b"N",
    bool: lambda v: b"\x88" if v else b"\x89",
    int: _int,
    float: lambda v: struct.pack(">cd", b"G", v),
    str: _str,
    bytes: _bytes,
    _C.dtype: _dtype,
}


def _called(module, name, args):
    return lambda text, v: text.call(module, name, *args(v))


_NEW = (argparse.Namespace,)
_CONTAINERS = {
    list: _Text.list,
    tuple: _Text.tuple,
    dict: _Text.dict,
    collections.OrderedDict: _Text.ordered,
    collections.defaultdict: _Text.default_dict,
    collections.Counter: _called("collections", "Counter", lambda v: [dict(v)]),
    collections.deque: _called("collections", "deque", lambda v: [list(v), v.maxlen]),
    set: _called("__builtin__", "set", lambda v: [_kinds.in_order(v)]),
    frozenset: _called("__builtin__", "frozenset", lambda v: [_kinds.in_order(v)]),
    complex: _called("__builtin__", "complex", lambda v: [v.real, v.imag]),
    range: _called("__builtin__", "xrange", lambda v: [v.start, v.stop, v.step]),
    slice: _called("__builtin__", "slice", lambda v: [v.start, v.stop, v.step]),
    bytearray: _called(
        "__builtin__", "bytearray", lambda v: [bytes(v).decode("latin-1"), "latin-1"]
    ),
    pathlib.PosixPath: _called("pathlib", "PosixPath", lambda v: v.parts),
    pathlib.PurePosixPath: _called("pathlib", "PurePosixPath", lambda v: v.parts),
    argparse.Namespace: _Text.namespace,
    types.SimpleNamespace: _Text.namespace,
    _C.Size: _called("torch", "Size", lambda v: [tuple(v)]),
    _C.device: _called("torch", "device", lambda v: [str(v)]),
}


def expressed(obj):
    """The pickle of a value and its storages; InexpressibleError where there is none."""
    text = _Text()
    text.put(b"\x80\x02")
    version = sys.modules.get("pyflame._torch.version")
    if version is not None:  # torch.__version__, as programs note it
        obj = str(obj) if type(obj) is version.TorchVersion else obj
    text.value(obj)
    text.put(b".")
    return b"".join(text.parts), [t for _, t in text.storages.values()]


def _archive(write, root, pickle, storages):
    packer = Packer(write)

    def add(name, data):
        packer.add(f"{root}/{name}", len(data), zlib.crc32(data), lambda put: put(data))

    add("data.pkl", pickle)
    add("byteorder", sys.byteorder.encode())
    for i, t in enumerate(storages):
        crc = 0

        def count(view):
            nonlocal crc
            crc = zlib.crc32(view, crc)

        _C._give_bytes(t, count)
        packer.add(
            f"{root}/data/{i}", t.numel() * t.dtype.itemsize, crc,
            lambda put, t=t: _C._give_bytes(t, put),
        )  # fmt: skip
    add("version", b"3\n")
    packer.finish()


def save(obj, f):
    """Writes `obj` as PyTorch's zip archive to the path or binary file object `f`.

    Tensors, parameters, numbers, text, bytes, None, dtypes, devices, sizes, arrays and scalars of
    NumPy, and containers of them; tensors that share memory still share it when they are loaded.
    A path holds the old file or the new one at every moment.

    Raises:
        TypeError: `obj` holds something else; `pf.save` writes more.
        FileError: the file cannot be written.
        ValueError: values nested too deep, or in a cycle.
    """
    pickle, storages = expressed(obj)
    write_expressed(pickle, storages, f)


def write_expressed(pickle, storages, f):
    """The second half of save()."""
    from ..serialization import _writer, path_text

    if hasattr(f, "write"):
        write, flush = _writer(f)
        _archive(lambda data: write(memoryview(data)), "archive", pickle, storages)
        flush()
        return
    path = path_text(f, "save")
    root = os.path.splitext(os.path.basename(path))[0] or "archive"
    _C._write_file_by(path, lambda write: _archive(write, root, pickle, storages))
