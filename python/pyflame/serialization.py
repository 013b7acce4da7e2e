"""Saving and loading values: nested dicts, lists, tuples, numbers, text and tensors.

A saved file is a safetensors file whose metadata carries the tree of values, so other programs
can read its tensors, and nothing in it can run code.
"""

import contextlib
import io
import os

from . import _C, _kinds
from ._files import open_regular, shown

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
]

FileError = _C.FileError
_MAX_HEADER = 100_000_000  # as src/io/safetensors.h
_PIECE = 1 << 24
_ALL = 1 << 62
# Of torch.save before PyTorch 1.6: a pickle of this number comes first.
_OLD_MAGIC = b"\x8a\x0a" + (0x1950A86A20F9469CFC6C).to_bytes(10, "little")


class OtherArchive(Exception):
    """A zip archive that torch.save has not written."""


class MissingFileError(FileError, FileNotFoundError):
    """A file that should be read is not there."""


def path_text(f, op):
    """The path as text; MissingFileError when it should be read and is not there."""
    try:
        path = os.fsdecode(f)
    except TypeError:
        raise TypeError(
            f"pf.{op}: got a {type(f).__name__}; expected a path or a binary file object; give one"
        ) from None
    if "\0" in path:
        raise _C.ValueError(
            f"pf.{op}: got the path {path!r} with a NUL in it; expected the name of a file; take "
            "it out"
        )
    if op == "load" and not os.path.lexists(path):
        raise MissingFileError(
            f"pf.{op}: there is no file '{shown(path)}' (from {_here()}); expected a file written "
            "by pf.save or another safetensors file; check the path"
        )
    return path


def _here():
    try:
        return os.getcwd()
    except OSError:
        return "a directory that is gone"


def target_device(map_location):
    """What `map_location` means: a device, or None for the CPU; and a function, or None."""
    if isinstance(map_location, dict):
        if not map_location:
            return None, None
        devices = set(map(str, map_location.values()))
        if "cpu" in map_location:
            return map_location["cpu"], None
        if len(devices) != 1:
            raise _C.ValueError(
                f"pf.load: got map_location={map_location!r}; expected one target device; files "
                "do not say where tensors were: give the device alone"
            )
        return devices.pop(), None
    if callable(map_location):
        return None, lambda tensor: _moved(map_location, tensor, "cpu")
    return map_location, None


def _moved(map_location, tensor, location):
    moved = map_location(tensor, location)
    if moved is None:
        return tensor
    if not isinstance(moved, _C.Tensor):
        raise TypeError(
            f"pf.load: map_location returned a {type(moved).__name__}; expected what it was given, "
            "on some device, or None; return storage.to(device)"
        )
    return moved


# ---- file objects -------------------------------------------------------------------------------


def _name_of(f):
    name = getattr(f, "name", None)
    return str(name) if isinstance(name, (str, int)) else f"<{type(f).__name__}>"


def _text_file(op, mode):
    return TypeError(
        f"pf.{op}: got a text file; expected a binary one; open it with '{mode}', or use its .buffer"
    )


def _writer(f):
    """A function that writes all of a memoryview to the file object, or raises FileError."""
    if isinstance(f, io.TextIOBase):
        raise _text_file("save", "wb")
    # Other objects may keep what they are given, and the memory behind a view goes.
    takes_views = type(f).__module__ in ("io", "_io")

    def fail(what, cause=None):
        raise FileError(
            f"pf.save: cannot write to '{_name_of(f)}': {what}; expected a file object with room "
            "that takes all bytes; what it holds now is cut off: free some space and save again"
        ) from cause

    def write(view):
        at = 0
        while at < view.nbytes:
            with view[at : at + _PIECE] as piece:
                size = piece.nbytes
                try:
                    taken = f.write(piece if takes_views else bytes(piece))
                except (OSError, ValueError) as e:  # ValueError: it is closed
                    fail(e, e)
            if taken is None and not isinstance(f, io.RawIOBase):
                taken = size  # as objects do that say nothing
            if taken is None:
                fail("it is non-blocking and takes nothing now")
            if not isinstance(taken, int) or not 0 < taken <= size:
                fail(f"its write() returned {taken!r} for {size} bytes")
            at += taken

    def flush():
        try:
            getattr(f, "flush", lambda: None)()
        except (OSError, ValueError) as e:
            fail(e, e)

    return write, flush


def _take(f, data, size, name):
    """Reads until `data` has `size` bytes or the stream ends; memory follows what is there."""
    while len(data) < size:
        piece = f.read(min(size - len(data), _PIECE))
        if piece is None:
            raise FileError(
                f"pf.load: '{name}' is non-blocking and has nothing now; expected a whole file; "
                "make it blocking"
            )
        if isinstance(piece, str):
            raise _text_file("load", "rb")
        if not piece:
            return
        data += piece


def _read_stream(f, name):
    """One saved value from where the stream stands, not a byte more."""
    if isinstance(f, io.TextIOBase):
        raise _text_file("load", "rb")
    data = bytearray()
    _take(f, data, 8, name)
    length = int.from_bytes(data, "little")
    if len(data) < 8 or length > _MAX_HEADER:
        _take(f, data, 512, name)  # enough to name the format
        if _of_torch(data):
            _take(f, data, _ALL, name)  # an archive is read from its end
        return data
    _take(f, data, 8 + length, name)
    if len(data) == 8 + length and data[8:9] == b"{":
        _take(f, data, 8 + length + _C._safetensors_data_bytes(bytes(data[8:]), name), name)
    return data


# ---- files of torch.save --------------------------------------------------------------------------


def _head(path):
    """The first bytes of a regular file; none where it cannot be read."""
    try:
        with open(open_regular(path, "load"), "rb", buffering=0) as f:
            return f.read(16)
    except OSError:
        return b""


def _of_torch(head):
    return bytes(head[:4]) in (b"PK\3\4", b"PK\5\6") or _OLD_MAGIC in bytes(head[:16])


def _load_torch(source, where, map_location, mmap=False):
    from .torch_files import reading

    device, place = map_location, None
    if isinstance(map_location, dict):
        device = map_location.get
    elif callable(map_location):
        device, place = None, lambda tensor, location: _moved(map_location, tensor, location)
    return reading.read(source, where, device, place, mmap)


# ---- the functions ------------------------------------------------------------------------------


def save(obj, f):
    """Saves `obj` to the path or binary file object `f`.

    `obj` may be a tensor, a number, text, bytes, None, or lists, tuples and dicts of them, nested
    up to 100 levels: a ``state_dict()``, or a dict of several of them. Sets, arrays and scalars of
    NumPy, paths, dtypes, devices and some more keep their type (the list is in docs/files.md), as
    dataclasses, enums and named tuples do where they are allowed (:func:`add_safe_globals`). A whole
    model is saved as the names of its classes and what their attributes hold.
    Tensors that share memory (tied weights) still share it after loading. The file is written
    beside its final name and renamed when it is complete: a full disk or a kill leaves the old file
    as it was. Its permissions are those of the file that it replaces.

    Raises:
        FileError: the file cannot be written, for example on a full disk.
        TypeError: `obj` holds something else; the message says where. Nothing is ever pickled.
        ValueError: values nested too deep, or in a cycle.
    """
    if hasattr(f, "write"):
        write, flush = _writer(f)
        _C._save_tree_to(obj, write, _kinds.describe)
        flush()
        return
    _C._save_tree(obj, path_text(f, "save"), _kinds.describe)


def load(f, map_location=None, *, mmap=False, weights_only=True):
    """Loads what :func:`save` or PyTorch's ``torch.save`` wrote, or the tensors of any safetensors file
    as a dict. Nothing is unpickled: of PyTorch's files tensors, numbers and containers are read, and
    anything else is refused by its name.

    Args:
        f: a path, or a binary file object open for reading; of that, one saved value is read from
            where it stands.
        map_location: the device of the tensors; the CPU by default. A function is called with each
            tensor of the file, which is on the CPU, and "cpu", and returns it on some device.
        mmap: show the pages of the file itself instead of reading them: opens at once, uses memory
            only for what is touched. Writes to the tensors do not reach the file.
        weights_only: False also makes whole models of classes that the program has, allowed
            (:func:`add_safe_globals`) or not. Loading never runs code from the file, and imports
            nothing because the file names it.

    Raises:
        FileError: the file is missing, cut off, damaged or of another format; the message names it.
        TypeError: it holds a value of a class that is not allowed (:func:`add_safe_globals`).
    """
    if hasattr(f, "read"):
        name = _name_of(f)
        data = _read_stream(f, name)
        if _of_torch(data):
            with contextlib.suppress(OtherArchive):  # whose format is named below
                return _load_torch(bytes(data), f"'{name}'", map_location)
        device, place = target_device(map_location)
        return _C._load_tree_from(
            data, name, device, place, _kinds.Maker(f"'{name}'", not weights_only)
        )
    path = path_text(f, "load")
    if _of_torch(_head(path)):
        with contextlib.suppress(OtherArchive):
            return _load_torch(path, f"'{shown(path)}'", map_location, bool(mmap))
    device, place = target_device(map_location)
    return _C._load_tree(
        path, device, bool(mmap), place, _kinds.Maker(f"'{shown(path)}'", not weights_only)
    )


def add_safe_globals(safe_globals):
    """Allows :func:`load` to make values of these classes: dataclasses, enums, named tuples, modules;
    and to find these functions.

    A file only names them. A dataclass is made without calling its ``__init__``, from the values of
    its fields, a module from its attributes. As in PyTorch the list is the program's own: nothing in a
    file adds to it. A pair of a class and a text is known to files by that name.
    """
    _kinds.allow(safe_globals)


def get_safe_globals():
    """The classes that :func:`add_safe_globals` has allowed."""
    return _kinds.allowed()


def clear_safe_globals():
    """Allows no classes any more."""
    _kinds.forget()


@contextlib.contextmanager
def safe_globals(classes):
    """Allows classes within a ``with`` block."""
    before = _kinds.allowed()
    _kinds.allow(classes)
    try:
        yield
    finally:
        _kinds.forget()
        _kinds.allow(before)
