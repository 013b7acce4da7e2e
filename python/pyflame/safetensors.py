"""Plain safetensors files: names and tensors, as other programs write and read them.

The functions have the names and arguments of the ``safetensors.torch`` module.
"""

from . import _C
from .serialization import path_text

__all__ = ["load_file", "metadata", "save_file"]


def save_file(tensors, filename, metadata=None):
    """Writes a dict of names and tensors; `metadata` is a dict of text to text.

    Tensors that share memory are written once each. The same tensors give the same bytes.
    """
    _C._save_safetensors(dict(tensors), path_text(filename, "save"), dict(metadata or {}))


def load_file(filename, device=None, *, mmap=False):
    """The tensors of a file as a dict, on `device` (the CPU by default).

    With `mmap` the tensors show the pages of the file itself; writes do not reach it.
    """
    return _C._load_safetensors(path_text(filename, "load"), device, bool(mmap))


def metadata(filename):
    """Names with (dtype, shape), and the text metadata of a file, without reading its data."""
    return _C._inspect_safetensors(path_text(filename, "load"))
