"""Samples into batches."""

import collections.abc
import copy
import re

from ... import _C, _ops
from ..._C import Tensor

np_str_obj_array_pattern = re.compile(r"[SaUO]")  # dtypes of NumPy that no tensor has


def _like(kind, values):
    """A mapping or sequence of the class of `kind` with other values, where the class allows it."""
    try:
        if isinstance(kind, collections.abc.MutableMapping):
            made = copy.copy(kind)  # keeps what the object has besides its entries
            made.update(values)
            return made
        if isinstance(kind, collections.abc.MutableSequence):
            made = copy.copy(kind)
            for i, value in enumerate(values):
                made[i] = value
            return made
        return type(kind)(values)
    except TypeError:
        return values


def mapped(batch, fn):
    """A batch with fn(leaf) for its leaves: lists, tuples and dicts stay such."""
    if isinstance(batch, collections.abc.Mapping):
        return _like(batch, {k: mapped(v, fn) for k, v in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(mapped(v, fn) for v in batch))
    if isinstance(batch, list | tuple):
        return _like(batch, [mapped(v, fn) for v in batch])
    return fn(batch)


def moved(batch, device, non_blocking=False):
    """A batch with its tensors on a device."""

    def move(x):
        if isinstance(x, Tensor) or (hasattr(x, "to") and callable(x.to)):
            return x.to(device, non_blocking=non_blocking)
        return x

    return mapped(batch, move)


def _is_array(x):
    # Images of PIL have the interface, but no dtype.
    return hasattr(x, "__array_interface__") and hasattr(x, "dtype") and not isinstance(x, Tensor)


# Functions for classes of samples, by class: fn(batch, *, collate_fn_map). default_collate() asks them.
default_collate_fn_map = {}


def collate(batch, *, collate_fn_map=None):
    """default_collate() with other functions for classes of samples."""
    return _collate(batch, {} if collate_fn_map is None else collate_fn_map)


def default_collate(batch):
    """Stacks samples: tensors, arrays and numbers become tensors; tuples and dicts keep form.

    Arrays and NumPy's numbers keep their dtype, Python's floats become float64, its ints int64. A
    tuple of columns comes as a list (a namedtuple as such); dicts and lists keep their class.
    """
    return _collate(batch, default_collate_fn_map)


def _collate(batch, functions):
    first = batch[0]
    for kind, function in functions.items():
        if isinstance(first, kind):
            return function(batch, collate_fn_map=functions)
    if isinstance(first, Tensor):
        return _ops.stack(list(batch))
    if _is_array(first):
        if first.dtype.kind not in "fiubc":
            raise TypeError(
                f"pf.utils.data.default_collate: got an array of dtype {first.dtype}; expected "
                "numbers; pass collate_fn"
            )
        if getattr(first, "shape", None) == ():  # also NumPy's scalars
            return _ops.stack([_C.as_tensor(x) for x in batch])
        return _ops.stack([_C.from_numpy(x) for x in batch])
    if isinstance(first, float):
        return _C.tensor(list(batch), dtype=_C.float64)
    if isinstance(first, int):
        return _C.tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, collections.abc.Mapping):
        return _like(
            first, {k: _collate([sample[k] for sample in batch], functions) for k in first}
        )
    if isinstance(first, collections.abc.Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError(
                "pf.utils.data.default_collate: samples of one batch have different lengths; "
                "expected equal ones; pass collate_fn"
            )
        columns = [_collate(column, functions) for column in zip(*batch)]
        if hasattr(first, "_fields"):
            return type(first)(*columns)
        return columns if isinstance(first, tuple) else _like(first, columns)
    raise TypeError(
        f"pf.utils.data.default_collate: got {type(first).__name__}; expected tensors, arrays, "
        "numbers, text, dicts or lists; pass collate_fn"
    )


def default_convert(data):
    """NumPy arrays inside tuples, lists and dicts as tensors; the rest as it is."""
    if _is_array(data):
        return _C.as_tensor(data) if data.dtype.kind in "fiubc" else data
    if isinstance(data, collections.abc.Mapping):
        return _like(data, {k: default_convert(v) for k, v in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(v) for v in data))
    if isinstance(data, tuple):
        return [default_convert(v) for v in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _like(data, [default_convert(v) for v in data])
    return data
