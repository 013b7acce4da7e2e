"""What the functions of the standard take."""

from .. import _C


def device(given, like=None):
    """A device for `_ops`, of a Device, a name, or None for that of `like`."""
    return given if given is not None or like is None else like.device


def axes(axis):
    """None, a number or a tuple of numbers as PyFlame's `dim`."""
    return list(axis) if isinstance(axis, tuple) else axis


def tensor(x, name):
    if not isinstance(x, _C.Tensor):
        raise TypeError(
            f"pf.array_api.{name}: got {type(x).__name__}; expected an array; make one with asarray()"
        )
    return x


def wide(x, dtype):
    """The dtype in which sums and products of `x` are made and returned: the standard's default."""
    if dtype is not None:
        return dtype
    if x.dtype in (_C.uint8, _C.uint16, _C.uint32, _C.uint64):
        return _C.uint64
    return x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else _C.int64
