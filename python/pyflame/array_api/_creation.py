"""Arrays from nothing, or from other things."""

import math

from .. import _C, _ops
from .._named_errors import name_errors as _name_errors
from . import _arguments

_device = _arguments.device


def _size(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """The numbers from `start` (0 where `stop` is None) by `step` below `stop`; none if there are none."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise _C.ValueError("pf.array_api.arange: got step 0; expected another")
    if math.ceil((stop - start) / step) <= 0:
        kind = _C.int64 if all(isinstance(n, int) for n in (start, stop, step)) else None
        return _ops.empty((0,), dtype=dtype or kind or _C.get_default_dtype(), device=device)
    return _ops.arange(start, stop, step, dtype=dtype, device=device)


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """An array of an array, a number, nested sequences of numbers, or an object with a buffer or DLPack.

    `copy` True always copies, None where it must, and False raises ValueError where it would have to.
    """
    if copy is False:
        shares = isinstance(obj, _C.Tensor) or hasattr(obj, "__dlpack__")
        out = _C.asarray(obj, dtype=dtype, device=device) if shares else None
        source = obj if isinstance(obj, _C.Tensor) else None
        if not shares or (source is not None and out.data_ptr() != source.data_ptr()):
            raise _C.ValueError(
                f"pf.array_api.asarray: got {type(obj).__name__} and copy=False; expected an array of "
                "this dtype and device, whose memory can be shared; leave copy away"
            )
        return out
    if isinstance(obj, _C.Tensor):
        return obj.to(_device(device, obj), dtype or obj.dtype, copy=bool(copy))
    return _C.asarray(obj, dtype=dtype, device=device, copy=copy)


def from_dlpack(x, /, *, device=None, copy=None):
    """An array that shares the memory of `x`, or a copy on another device or where `copy` says so."""
    out = _C.from_dlpack(x)
    if device is not None and out.device != _C.device(device):
        if copy is False:
            raise _C.ValueError(
                f"pf.array_api.from_dlpack: got an array on {out.device}, device {device} and copy=False; "
                "expected them to agree; leave copy away"
            )
        return out.to(device)
    return out.clone() if copy else out


def empty(shape, *, dtype=None, device=None):
    return _ops.empty(_size(shape), dtype=dtype, device=device)


def empty_like(x, /, *, dtype=None, device=None):
    return _ops.empty(x.shape, dtype=dtype or x.dtype, device=_device(device, x))


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """Ones on the `k`-th diagonal, zeros beside it."""
    n_cols = n_rows if n_cols is None else n_cols
    if k == 0:
        return _ops.eye(n_rows, n_cols, dtype=dtype, device=device)
    rows = _ops.arange(n_rows, device=device).unsqueeze(1)
    on = rows + k == _ops.arange(n_cols, device=device)
    return on.to(dtype or _C.get_default_dtype())


def full(shape, fill_value, *, dtype=None, device=None):
    return _ops.full(_size(shape), fill_value, dtype=dtype, device=device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    return _ops.full(x.shape, fill_value, dtype=dtype or x.dtype, device=_device(device, x))


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """`num` numbers from `start` to `stop`, which is the last one with `endpoint`."""
    if endpoint:
        return _ops.linspace(start, stop, num, dtype=dtype, device=device)
    return _ops.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def meshgrid(*arrays, indexing="xy"):
    return list(_ops.meshgrid(*arrays, indexing=indexing))


def ones(shape, *, dtype=None, device=None):
    return _ops.ones(_size(shape), dtype=dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None):
    return _ops.ones(x.shape, dtype=dtype or x.dtype, device=_device(device, x))


def tril(x, /, *, k=0):
    return _ops.tril(x, k)


def triu(x, /, *, k=0):
    return _ops.triu(x, k)


def zeros(shape, *, dtype=None, device=None):
    return _ops.zeros(_size(shape), dtype=dtype, device=device)


def zeros_like(x, /, *, dtype=None, device=None):
    return _ops.zeros(x.shape, dtype=dtype or x.dtype, device=_device(device, x))


_name_errors(__name__)
