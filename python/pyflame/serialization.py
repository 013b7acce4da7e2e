"""Saving and loading values: nested dicts, lists, tuples, numbers, text and tensors.

A saved file is a safetensors file whose metadata carries the tree of values, so other programs
can read its tensors, and nothing in it can run code.
"""

import contextlib
import os
import tempfile

from . import _C

__all__ = ["load", "save"]

FileError = _C.FileError


class MissingFileError(FileError, FileNotFoundError):
    """A file that should be read is not there."""


def path_text(f, op):
    """The path as text; MissingFileError when it should be read and is not there."""
    path = os.fspath(f)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if op == "load" and not os.path.lexists(path):
        raise MissingFileError(
            f"pf.{op}: there is no file '{path}' (from {os.getcwd()}); expected a file written "
            "by pf.save or another safetensors file; check the path"
        )
    return path


def target_device(map_location):
    """What `map_location` means: a device or None for the CPU."""
    if isinstance(map_location, dict):
        devices = set(map(str, map_location.values()))
        if len(devices) != 1:
            raise _C.ValueError(
                f"pf.load: got map_location={map_location!r}; expected one target device; files "
                "do not say where tensors were: give the device alone"
            )
        return devices.pop()
    if callable(map_location):
        raise TypeError(
            "pf.load: got a function as map_location; expected a device such as 'cpu'; load to "
            "the CPU and move tensors with .to(device)"
        )
    return map_location


@contextlib.contextmanager
def _scratch():
    handle, path = tempfile.mkstemp(suffix=".safetensors")
    os.close(handle)
    try:
        yield path
    finally:
        os.unlink(path)


def save(obj, f):
    """Saves `obj` to the path or binary file object `f`.

    `obj` may be a tensor, a number, text, bytes, None, or lists, tuples and dicts of them, nested
    up to 100 levels: a ``state_dict()``, or a dict of several of them. Tensors that share memory
    (tied weights) still share it after loading. The file is written beside its final name and
    renamed when it is complete: a full disk or a kill leaves the old file as it was.

    Raises:
        FileError: the file cannot be written, for example on a full disk.
        TypeError: `obj` holds something else. Nothing is ever pickled.
        ValueError: values nested too deep, or in a cycle.
    """
    if hasattr(f, "write"):
        with _scratch() as path:
            _C._save_tree(obj, path)
            with open(path, "rb") as data:
                f.write(data.read())
        return
    _C._save_tree(obj, path_text(f, "save"))


def load(f, map_location=None, *, mmap=False, weights_only=True):
    """Loads what :func:`save` wrote, or the tensors of any safetensors file as a dict.

    Args:
        f: a path, or a binary file object open for reading.
        map_location: the device of the tensors; the CPU by default.
        mmap: show the pages of the file itself instead of reading them: opens at once, uses memory
            only for what is touched. Writes to the tensors do not reach the file.
        weights_only: accepted for PyTorch's sake. Loading never runs code from the file.

    Raises:
        FileError: the file is missing, cut off, damaged or of another format; the message names it.
    """
    device = target_device(map_location)
    if hasattr(f, "read"):
        data = f.read()
        if isinstance(data, str):
            raise TypeError("pf.load: got a text file; expected a binary one; open it with 'rb'")
        with _scratch() as path:
            with open(path, "wb") as scratch:
                scratch.write(data)
            # The file goes away at once, so its pages cannot be shown.
            return _C._load_tree(path, device, False)
    return _C._load_tree(path_text(f, "load"), device, bool(mmap))
