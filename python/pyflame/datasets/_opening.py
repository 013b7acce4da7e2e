"""How the files of datasets are opened, and what is said when they cannot be."""

import contextlib
import os

from .. import _C, _files


def needs(package, pip, what):
    """The error for a package that is not installed."""
    return _C.NotSupportedError(
        f"pf.datasets.{what}: needs the package {package}, which is not installed; expected it "
        f"beside PyFlame; run: pip install {pip}"
    )


def damaged(what, path, why, expected, fix="check the file"):
    return _C.FileError(
        f"pf.datasets.{what}: '{_files.shown(path)}' {why}; expected {expected}; {fix}"
    )


def path_text(path, what):
    try:
        return os.fsdecode(path)
    except TypeError:
        raise TypeError(
            f"pf.datasets.{what}: got {type(path).__name__}; expected the path of a file"
        ) from None


@contextlib.contextmanager
def regular(path, what):
    """The regular file `path`, open for reading; every OSError as a FileError that names it."""
    try:
        with open(_files.open_regular(path, f"datasets.{what}"), "rb") as file:
            yield file
    except _C.FileError:
        raise
    except (OSError, ValueError) as e:
        named = "a NUL in its name" if "\0" in os.fsdecode(path) else None
        why = named or getattr(e, "strerror", None) or str(e)
        raise damaged(
            what, path, f"cannot be read ({why})", "a readable file", "check the path"
        ) from None


def mapped(file, begin, dtype, count, path, what):
    """(array of one dimension over bytes of an open file, what its `check` tells of pages that went away)

    The array shows the file until its last view goes; what others cut off it reads as zeros.
    """
    import numpy as np

    if not count:  # no bytes can be mapped
        return np.empty(0, dtype), None
    end = begin + count * np.dtype(dtype).itemsize
    memory = _C._MappedBytes(file.fileno(), end, _files.shown(path), f"datasets.{what}", "none")
    return np.frombuffer(memory, dtype, count, begin), memory


class Mappings:
    """Mapped files that are asked, after they were read, whether pages of theirs went away. A copy in
    another process has copies of the arrays, and nothing to ask."""

    def __init__(self, mappings=()):
        self._mappings = [m for m in mappings if m is not None]

    def check(self, what):
        for mapping in self._mappings:
            mapping.check(f"datasets.{what}")

    def __reduce__(self):
        return Mappings, ()


def checked_index(index, size, what):
    """`index` from 0 on; IndexError outside, where iteration ends."""
    if not -size <= index < size:
        raise _C.IndexError(
            f"pf.datasets.{what}: got sample {index}; expected -{size} to {size - 1}"
        )
    return index + size if index < 0 else index


def rows(array, indices):
    """The rows `indices` in memory of their own; those in order are one slice."""
    import numpy as np

    indices = list(indices)
    first = indices[0] if indices else 0
    if indices == list(range(first, first + len(indices))):
        taken = array[first : first + len(indices)]
    else:
        taken = array[np.asarray(indices, dtype=np.int64)]
    return np.array(taken, dtype=array.dtype.newbyteorder("="), order="C", subok=False)


class Transformed:
    """A dataset with `transform` for its first value: called with one sample, or with a whole batch
    if it says that it takes these (`batches`, as those of pyflame.transforms do)."""

    transform = None

    def _alone(self):
        return self.transform is not None and not getattr(self.transform, "batches", False)

    def _transformed(self, x):
        return x if self.transform is None else self.transform(x)
