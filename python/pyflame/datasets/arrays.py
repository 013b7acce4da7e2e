"""Arrays of NumPy's files, mapped where that can be."""

import math
import os
import struct
import zipfile

from .. import _C
from ..utils.data.dataset import Dataset, batched
from ._opening import (
    Mappings,
    Transformed,
    checked_index,
    damaged,
    mapped,
    path_text,
    regular,
    rows,
)

# What deflate makes of a byte at most: a member that claims more is damaged or malicious.
_DEFLATE = 1032
_LOCAL_HEADER = 30  # bytes of a zip member's own header before its name


def _header(stream, path, what):
    """(shape, whether in Fortran's order, dtype) of the .npy file that begins here."""
    from numpy.lib import format as npy

    try:
        version = npy.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = npy.read_array_header_1_0(stream)
        else:
            shape, fortran, dtype = npy.read_array_header_2_0(stream)
    except _C.FileError:
        raise
    except Exception as e:  # a header is Python's text: NumPy lets through what its parser raises
        raise damaged(what, path, f"has no header of NumPy ({e})", "a .npy file") from None
    numbers = (
        dtype.kind in "iu" and dtype.itemsize <= 8 or dtype.str[1:] in ("b1", "f2", "f4", "f8")
    )
    if not numbers or dtype.fields or dtype.subdtype:
        raise damaged(
            what, path, f"has values of dtype {dtype}", "bools, integers or floats", "convert it"
        )
    if any(isinstance(n, bool) or n < 0 for n in shape):
        raise damaged(what, path, f"says that its shape is {shape}", "sizes from 0 on")
    return shape, fortran, dtype


def _check_size(shape, dtype, have, path, what):
    need = math.prod(shape) * dtype.itemsize
    # A size that the rest makes 0 must be one that NumPy can hold all the same.
    if need != have or math.prod(n or 1 for n in shape) * dtype.itemsize >= 2**63:
        raise damaged(
            what, path, f"has {have} bytes of values", f"{need} for {dtype} of shape {shape}"
        )


def _mapped(file, begin, shape, fortran, dtype, path, what):
    """(array of the bytes from `begin` on that are read when they are looked at, its mapping)"""
    flat, mapping = mapped(file, begin, dtype, math.prod(shape), path, what)
    return flat.reshape(shape, order="F" if fortran else "C"), mapping


def _too_many_dimensions(shape, path, what):
    if len(shape) > 32:
        raise damaged(what, path, f"has {len(shape)} dimensions", "at most 32")


def read_npy(path, what):
    """(array of a .npy file, its mapping or None)"""
    with regular(path, what) as file:
        shape, fortran, dtype = _header(file, path, what)
        _too_many_dimensions(shape, path, what)
        begin = file.tell()
        _check_size(shape, dtype, os.fstat(file.fileno()).st_size - begin, path, what)
        return _mapped(file, begin, shape, fortran, dtype, path, what)


def _member(file, archive, info, path, what):
    """(one array of a .npz file, its mapping): mapped if it is stored as it is, else read."""
    import numpy as np

    shown = f"{path}:{info.filename}"
    if info.flag_bits & 1:
        raise damaged(what, shown, "is encrypted", "an array that can be read")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise damaged(what, shown, "is packed in another way", "what NumPy writes")
    if info.file_size > _DEFLATE * (info.compress_size + 64):
        raise damaged(
            what, shown, f"claims {info.file_size} bytes", "what its packed bytes can hold"
        )
    with archive.open(info) as stream:
        shape, fortran, dtype = _header(stream, shown, what)
        _too_many_dimensions(shape, shown, what)
        begin = stream.tell()
        _check_size(shape, dtype, info.file_size - begin, shown, what)
        if info.compress_type != zipfile.ZIP_STORED:
            data = stream.read()
            _check_size(shape, dtype, len(data), shown, what)
            if not data:
                return np.empty(shape, dtype), None
            read = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
            return read, None
    file.seek(info.header_offset)
    name, extra = struct.unpack("<26xHH", file.read(_LOCAL_HEADER))
    begin += info.header_offset + _LOCAL_HEADER + name + extra
    if begin + math.prod(shape) * dtype.itemsize > os.fstat(file.fileno()).st_size:
        raise damaged(what, shown, "ends before its values do", "a whole file")
    return _mapped(file, begin, shape, fortran, dtype, shown, what)


def read_npz(path, what, names=None):
    """(array, mapping) of a .npz file by name, in the file's order or that of `names`."""
    with regular(path, what) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = {i.filename.removesuffix(".npy"): i for i in archive.infolist()}
                missing = [n for n in names or () if n not in members]
                if missing:
                    raise damaged(
                        what, path, f"has no array '{missing[0]}'", f"one of {list(members)[:10]}"
                    )
                wanted = names if names is not None else members
                return {n: _member(file, archive, members[n], path, what) for n in wanted}
        except _C.FileError:
            raise
        except Exception as e:  # what zipfile and zlib raise for damage is of a dozen classes
            raise damaged(what, path, f"is damaged ({e})", "a .npz file") from None


@batched
class NumPyArrays(Transformed, Dataset):
    """Sample i is the tuple of the i-th entries of the arrays of a .npy or .npz file.

    `arrays` names those of a .npz file that are wanted, in their order (all, in the file's order). They
    are mapped, so files may be larger than memory; those that numpy.savez_compressed wrote are read.
    `transform` gets the first entry. `arrays` of the dataset has NumPy's arrays by name.
    """

    def __init__(self, path, arrays=None, transform=None):
        what = "NumPyArrays"
        path = path_text(path, what)
        self.transform = transform
        if path.endswith(".npz"):
            read = read_npz(path, what, arrays)
        elif arrays is None:
            read = {"": read_npy(path, what)}
        else:
            raise _C.ValueError(
                f"pf.datasets.{what}: got arrays={arrays!r} for '{path}'; names are for .npz files"
            )
        self.arrays = {name: a for name, (a, _) in read.items()}
        self._mappings = Mappings(m for _, m in read.values())
        sizes = {name: a.shape[0] if a.ndim else None for name, a in self.arrays.items()}
        if not sizes or None in sizes.values() or len({*sizes.values()}) != 1:
            raise damaged(
                what, path, f"has arrays of these numbers of entries: {sizes}", "equal numbers",
                "name arrays that belong together",
            )  # fmt: skip

    def __len__(self):
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, index):
        index = checked_index(index, len(self), "NumPyArrays")
        first, *others = (t[0] for t in self._rows([index]))
        return self._transformed(first), *others

    def _rows(self, indices):
        taken = [_C.from_numpy(rows(a, indices)) for a in self.arrays.values()]
        self._mappings.check("NumPyArrays")
        return taken

    def _batch(self, indices):
        first, *others = self._rows(indices)
        return [self._transformed(first), *others]
