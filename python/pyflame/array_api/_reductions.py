"""Functions that look at many elements at once."""

import builtins
from typing import NamedTuple

from .. import _C, _ops
from .._named_errors import name_errors as _name_errors
from . import _arguments

_axes = _arguments.axes


def _over(x, axis, keepdims, reduce):
    """`reduce(x, dim, keepdim)`; over no dimension at all every element is its own result."""
    if axis == ():
        return x.clone()
    return reduce(x, _axes(axis), keepdims)


def all(x, /, *, axis=None, keepdims=False):
    return _over(x.bool(), axis, keepdims, _ops.all)


def any(x, /, *, axis=None, keepdims=False):
    return _over(x.bool(), axis, keepdims, _ops.any)


def max(x, /, *, axis=None, keepdims=False):
    return _over(x, axis, keepdims, _ops.amax)


def min(x, /, *, axis=None, keepdims=False):
    return _over(x, axis, keepdims, _ops.amin)


def mean(x, /, *, axis=None, keepdims=False):
    return _over(x, axis, keepdims, _ops.mean)


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """Unless `dtype` says otherwise unsigned integers add up in uint64, others and bools in int64."""
    dtype = _arguments.wide(x, dtype)
    return _over(x.to(dtype), axis, keepdims, lambda x, d, k: _ops.sum(x, d, k, dtype=dtype))


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """As :func:`sum`."""
    dtype = _arguments.wide(x, dtype)
    return _over(x.to(dtype), axis, keepdims, lambda x, d, k: _ops.prod(x, d, k, dtype=dtype))


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The variance, dividing by n - `correction`."""
    if axis == ():
        return _ops.zeros_like(x)
    return _ops.var(x, _axes(axis), keepdim=keepdims, correction=correction)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _ops.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def _cumulative(operation, first):
    def function(x, /, *, axis=None, dtype=None, include_initial=False):
        if axis is None:
            if x.ndim > 1:
                raise _C.ValueError(
                    f"pf.array_api.{function.__name__}: got {x.ndim} dimensions without axis; expected one, "
                    "or an axis"
                )
            axis, x = 0, x.reshape(-1)
        dtype = _arguments.wide(x, dtype)
        out = operation(x, axis, dtype=dtype)
        if not include_initial:
            return out
        shape = list(x.shape)
        shape[axis] = 1
        return _ops.concat([_ops.full(shape, first, dtype=dtype, device=x.device), out], axis)

    return function


cumulative_sum = _cumulative(_ops.cumsum, 0)
cumulative_prod = _cumulative(_ops.cumprod, 1)
for _name, _f in (("cumulative_sum", cumulative_sum), ("cumulative_prod", cumulative_prod)):
    _f.__name__ = _f.__qualname__ = _name
    _f.__doc__ = "Along `axis`; with `include_initial` one more, the first, of no element."


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    return _ops.diff(x, n, axis, prepend, append)


# ---- searching and sorting ----------------------------------------------------------------------


def argmax(x, /, *, axis=None, keepdims=False):
    out = _ops.argmax(x, axis, keepdims)
    return out.reshape((1,) * x.ndim) if axis is None and keepdims else out


def argmin(x, /, *, axis=None, keepdims=False):
    out = _ops.argmin(x, axis, keepdims)
    return out.reshape((1,) * x.ndim) if axis is None and keepdims else out


def count_nonzero(x, /, *, axis=None, keepdims=False):
    return sum((x != 0), axis=axis, keepdims=keepdims)


def nonzero(x, /):
    if x.ndim == 0:
        raise _C.ShapeError(
            "pf.array_api.nonzero: got an array of 0 dimensions; expected at least 1"
        )
    return tuple(_ops.nonzero(x).unbind(1))


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    return _ops.searchsorted(x1, x2, side=side, sorter=sorter)


def where(condition, x1, x2, /):
    return _ops.where(condition, x1, x2)


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    return _ops.argsort(x, axis, descending, True)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    return _ops.sort(x, axis, descending, True)[0]


# ---- sets ---------------------------------------------------------------------------------------


class UniqueAll(NamedTuple):
    values: object
    indices: object
    inverse_indices: object
    counts: object


class UniqueCounts(NamedTuple):
    values: object
    counts: object


class UniqueInverse(NamedTuple):
    values: object
    inverse_indices: object


def _unique(x):
    """Values, inverse and counts; each NaN is a value of its own, and -0 equals 0."""
    flat = x.reshape(-1)
    if not x.dtype.is_floating_point or not flat.isnan().any().item():
        return _ops.unique(flat, return_inverse=True, return_counts=True)
    order = _ops.argsort(flat, stable=True)  # NaN last
    ordered = flat[order]
    fresh = _ops.concat([_ops.ones_like(ordered[:1], dtype=_C.bool), ordered[1:] != ordered[:-1]])
    group = _ops.cumsum(fresh.long(), 0) - 1
    values = ordered[fresh]
    inverse = _ops.zeros_like(group).scatter(0, order, group)
    return values, inverse, _ops.bincount(group, minlength=values.shape[0])


def unique_values(x, /):
    return _unique(x)[0]


def unique_counts(x, /):
    values, _, counts = _unique(x)
    return UniqueCounts(values, counts)


def unique_inverse(x, /):
    values, inverse, _ = _unique(x)
    return UniqueInverse(values, inverse.reshape(x.shape))


def unique_all(x, /):
    """`indices` are those of the first element with each value."""
    values, inverse, counts = _unique(x)
    flat = inverse.reshape(-1)
    places = _ops.arange(flat.shape[0], device=x.device)
    first = _ops.full((values.shape[0],), flat.shape[0], dtype=_C.int64, device=x.device)
    first = first.scatter_reduce(0, flat, places, "amin", include_self=True)
    return UniqueAll(values, first, inverse.reshape(x.shape), counts)


# ---- products -----------------------------------------------------------------------------------


def matmul(x1, x2, /):
    return _ops.matmul(x1, x2)


def tensordot(x1, x2, /, *, axes=2):
    from .. import _misc

    return _misc.tensordot(x1, x2, dims=axes)


def vecdot(x1, x2, /, *, axis=-1):
    """The sum of the products along `axis`, of complex arrays with the conjugate of `x1`."""
    if not -builtins.min(x1.ndim, x2.ndim) <= axis < 0:
        raise _C.ValueError(
            f"pf.array_api.vecdot: got axis {axis}; expected a negative one of both"
        )
    if x1.shape[axis] != x2.shape[axis]:
        raise _C.ShapeError(
            f"pf.array_api.vecdot: got lengths {x1.shape[axis]} and {x2.shape[axis]} along axis {axis}; "
            "expected the same"
        )
    if x1.dtype.is_complex or x2.dtype.is_complex or not x1.dtype.is_floating_point:
        first = _ops.conj(x1) if x1.dtype.is_complex else x1
        product = first * x2
        return product.sum(axis).to(product.dtype)
    return _ops.vecdot(x1, x2, dim=axis)


_name_errors(__name__)
