"""Arrays of other shapes."""

from .. import _C, _ops
from .._named_errors import name_errors as _name_errors
from . import _arguments


def concat(arrays, /, *, axis=0):
    """Arrays behind each other; with `axis` None each made flat first."""
    arrays = list(arrays)
    if axis is None:
        arrays, axis = [a.reshape(-1) for a in arrays], 0
    return _ops.concat(arrays, axis)


def expand_dims(x, /, axis=0):
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise _C.IndexError(
            f"pf.array_api.expand_dims: got axis {axis} for {x.ndim} dimensions; expected {-x.ndim - 1} "
            f"to {x.ndim}"
        )
    return x.unsqueeze(axis)


def flip(x, /, *, axis=None):
    axis = tuple(range(x.ndim)) if axis is None else axis
    return _ops.flip(x, list(axis) if isinstance(axis, tuple) else [axis])


def matrix_transpose(x, /):
    return x.mT


def moveaxis(x, source, destination, /):
    return _ops.moveaxis(x, source, destination)


def permute_dims(x, /, axes):
    return x.permute(*axes)


def repeat(x, repeats, /, *, axis=None):
    return _ops.repeat_interleave(x, repeats, axis)


def reshape(x, /, shape, *, copy=None):
    """`copy` True copies, None where it must, and False raises ValueError where it would have to."""
    if copy is False:
        try:
            return x.view(tuple(shape))
        except _C.PyFlameError as e:
            raise _C.ValueError(f"pf.array_api.reshape: copy=False, and {e}") from None
    out = x.reshape(tuple(shape))
    return out.clone() if copy and out.data_ptr() == x.data_ptr() else out


def roll(x, /, shift, *, axis=None):
    if axis is None:
        return _ops.roll(x, shift)
    if isinstance(axis, tuple) and isinstance(shift, int):
        shift = (shift,) * len(axis)
    return _ops.roll(x, shift, axis)


def squeeze(x, /, axis):
    axes = [axis] if isinstance(axis, int) else list(axis)
    for a in axes:
        if not -x.ndim <= a < x.ndim or x.shape[a] != 1:
            raise _C.ValueError(
                f"pf.array_api.squeeze: got axis {a} of shape {tuple(x.shape)}; expected one of length 1"
            )
    return _ops.squeeze(x, axes)


def stack(arrays, /, *, axis=0):
    return _ops.stack(list(arrays), axis)


def take(x, indices, /, *, axis=None):
    """Elements, or slices along `axis`, at the places `indices` [n]."""
    if axis is None:
        if x.ndim != 1:
            raise _C.ValueError(
                f"pf.array_api.take: got {x.ndim} dimensions without axis; expected one, or an axis"
            )
        axis = 0
    axis = axis + x.ndim if axis < 0 else axis
    indices = _arguments.tensor(indices, "take").long()
    out = _ops.index_select(x, axis, indices.reshape(-1) % max(x.shape[axis], 1))
    return out.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def take_along_axis(x, indices, /, *, axis=-1):
    indices = indices.long()
    size = x.shape[axis]
    return _ops.take_along_dim(x, _ops.where(indices < 0, indices + size, indices), axis)


def tile(x, repetitions, /):
    return _ops.tile(x, tuple(repetitions))


def unstack(x, /, *, axis=0):
    return tuple(_ops.unbind(x, axis))


_name_errors(__name__)
