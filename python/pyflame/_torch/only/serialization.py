"""Names of torch.serialization that have no counterpart of the same name."""

import os as _os
import typing as _typing

from ... import _C

DEFAULT_PROTOCOL = 2  # of pickles: of no other is anything read or written
FILE_LIKE = str | _os.PathLike | _typing.IO[bytes]
MAP_LOCATION = _typing.Callable | _C.device | str | dict[str, str] | None


def location_tag(storage):
    """Where a tensor or storage is, as files of PyTorch write it."""
    device = _C.device(storage.device)
    return "cpu" if device.type == "cpu" else f"cuda:{device.index or 0}"


def default_restore_location(storage, location):
    """What stands in a file, on the device `location`: for functions that are `map_location`."""
    return storage.to(location)


def get_default_load_endianness():
    """None: files say their byte order."""


_crc32 = True


def set_crc32_options(compute_crc32):
    """Kept: archives always have their sums, which every reader of ZIP files asks for."""
    global _crc32
    _crc32 = bool(compute_crc32)


def get_crc32_options():
    """What set_crc32_options() was given."""
    return _crc32


def get_default_mmap_options():
    """MAP_PRIVATE: what is written to tensors of a mapped file does not reach it."""
    import mmap

    return mmap.MAP_PRIVATE
