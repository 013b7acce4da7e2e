"""What packages compiled against PyTorch, under `pyflame run`.

Their libraries expect PyTorch's memory and its classes of C++, so that none of them may ever come into
the process. In place of an extension module stands one whose names raise when they are called, and an
operator of a library raises, too, but where PyFlame has it: `vision`, `image` and `audio`, whose tables
say which. Of a module in Python ours take the place of functions that would call such operators:
`xformers`.
"""

import importlib
import importlib.machinery
import mmap
import os
import struct
import types

from ... import _C
from ..absent import absent

# Modules of ours with a table OPERATORS, by the namespace of torch.ops that it is for.
_OURS = {"torchvision": "vision", "image": "image", "torchaudio": "audio", "_torchaudio": "audio"}
# Modules of ours with a table FUNCTIONS, by the module of a package whose functions these are.
FUNCTIONS = {"xformers.ops.fmha": "xformers"}
_PYTORCHS = ("aten", "prim", "prims", "profiler", "quantized")
_MARKS = (b"libtorch", b"libc10", b"_ZN2at", b"_ZN3c10", b"N5torch", b"THPVariable")
_WHY = "it is compiled in {path} against PyTorch, whose C++ is not here; {what}"
_INSTEAD = "write it with torch, torch.library or pyflame.kernel"

libraries = []  # paths of those that programs asked for, in order


def load(path, asked):
    """Takes note of a library of operators; nothing of it is read before an operator of it is looked
    for, and nothing of it runs.

    Raises:
        FileError: there is no such file.
    """
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise _C.FileError(f"{asked}: got '{path}'; expected a file that is there")
    if path not in libraries:
        libraries.append(path)


def holds(path, name):
    """Whether a library may register `name`: where it is read from, its text is in the file; a
    compiler may cut a short one after 8 letters. One that is shorter ends there."""
    text = name.encode()
    texts = [text[:8]] if len(text) >= 8 else [text + end for end in (b"\0", b"(", b".")]
    try:
        with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return any(data.find(t) >= 0 for t in texts)
    except (OSError, ValueError):  # gone meanwhile, or empty
        return False


def ours(namespace, name):
    """Our function for the operator torch.ops.`namespace`.`name` of a package, or None."""
    if namespace not in _OURS:
        return None
    return importlib.import_module(f"{__name__}.{_OURS[namespace]}").OPERATORS.get(name)


def reason(namespace, name):
    """Why an operator raises when it is called, or None where no library holds such a name."""
    if namespace in _PYTORCHS:
        return None
    path = next((p for p in libraries if holds(p, name)), None)
    return path and _WHY.format(path=path, what=_INSTEAD)


def with_ours(name, path):
    """How a package's own module is found that then gets functions of ours; None where it is not."""
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    if spec is None or spec.loader is None:
        return spec
    run = spec.loader.exec_module

    def exec_module(module):
        run(module)
        ours = importlib.import_module(f"{__name__}.{FUNCTIONS[name]}").FUNCTIONS
        vars(module).update((n, f) for n, f in ours.items() if n in vars(module))

    spec.loader.exec_module = exec_module
    return spec


def _names(path):
    """The names that a shared library asks of others or offers: its dynamic table of strings."""
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:6] != b"\x7fELF\x02\x01":  # 64 bits, little endian
            return b""
        (table,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        parts = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
        dynamic = next((p for p in parts if p[0] == 2), None)
        if dynamic is None:
            return b""
        words = struct.unpack_from(f"<{dynamic[5] // 8}Q", data, dynamic[2])
        said = dict(zip(words[::2], words[1::2]))
        where, length = said.get(5, 0), said.get(10, 0)
        for kind, _, offset, address, _, filled in parts:
            if kind == 1 and address <= where < address + filled:
                return data[offset + where - address :][:length]
    return b""


def is_against_torch(path):
    """Whether a shared library stands on PyTorch's."""
    try:
        names = _names(path)
    except (OSError, ValueError, OverflowError, struct.error):
        return False
    return any(mark in names for mark in _MARKS)


class Extension(types.ModuleType):
    """In place of an extension module: its names are classes that raise when they are called."""

    def __getattr__(self, name):
        path = self.__dict__.get("__file__")
        if name.startswith("__") or path is None or not holds(path, name):
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        why = _WHY.format(path=path, what=_INSTEAD)
        made = self.__dict__[name] = absent(self.__name__, why)(name)
        return made


def install():
    """From here on extension modules that stand on PyTorch are imported as such."""
    loader = importlib.machinery.ExtensionFileLoader
    create, run = loader.create_module, loader.exec_module

    def create_module(self, spec):
        if is_against_torch(spec.origin):
            return Extension(spec.name)
        return create(self, spec)

    def exec_module(self, module):
        if not isinstance(module, Extension):
            run(self, module)

    loader.create_module, loader.exec_module = create_module, exec_module
