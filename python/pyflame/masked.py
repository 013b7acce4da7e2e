"""Reductions, scans and softmax of the elements where a mask is True, with the names of torch.masked.

`mask` is a tensor of bools that can be broadcast to the input; None means every element. What is masked
takes no part in values or gradients, NaN and infinities included. `dim` is a number, a tuple, or None
for all dimensions. Where nothing is left a sum is 0, a product 1, the smallest element inf, the largest
-inf (or the dtype's limits), and a mean, variance or softmax NaN.
"""

import math

from . import _C, _misc, _ops
from ._named_errors import name_errors as _name_errors

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp",
    "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip


_TENSORS = ("MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor")


def __getattr__(name):
    if name in _TENSORS:
        return getattr(_C._import("pyflame.masked_tensor"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_TENSORS})


def _checked(name, input, mask):
    """The mask in the input's shape, or None."""
    if not isinstance(input, _C.Tensor):
        raise TypeError(
            f"pf.masked.{name}: got {type(input).__name__} as the input; expected a tensor; call "
            "pf.tensor"
        )
    if mask is None:
        return None
    if not isinstance(mask, _C.Tensor):
        raise TypeError(
            f"pf.masked.{name}: got {type(mask).__name__} as the mask; expected a tensor of bools; "
            "call pf.tensor"
        )
    if mask.dtype != _C.bool:
        mask = mask != 0
    ends = list(mask.shape[::-1])
    if len(ends) > input.dim() or any(
        m not in (1, n) for m, n in zip(ends, input.shape[::-1], strict=False)
    ):
        raise _C.ShapeError(
            f"pf.masked.{name}: got a mask of shape {list(mask.shape)}; expected one that broadcasts "
            f"to {list(input.shape)}; reshape it"
        )
    return mask.expand(input.shape)


def _dims(input, dim):
    if dim is None:
        return tuple(range(input.dim()))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def _filled(name, input, mask, value, dtype=None):
    mask = _checked(name, input, mask)
    if dtype is not None:
        input = input.to(dtype)
    return input if mask is None else _ops.where(mask, input, value)


def _lowest(dtype):
    if dtype.is_floating_point:
        return -math.inf
    return False if dtype == _C.bool else _misc.iinfo(dtype).min


def _highest(dtype):
    if dtype.is_floating_point:
        return math.inf
    return True if dtype == _C.bool else _misc.iinfo(dtype).max


def _floating(name, input, dtype):
    dtype = input.dtype if dtype is None else dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise _C.DTypeError(
            f"pf.masked.{name}: got {dtype}; expected a floating dtype; pass dtype=pf.float32"
        )
    return input.to(dtype)


def _count(name, input, dim, keepdim, mask):
    """How many elements each result has, in the input's dtype."""
    mask = _checked(name, input, mask)
    dims = _dims(input, dim)
    if mask is None:
        return math.prod([input.size(d) for d in dims] if dims and input.dim() else input.shape)
    return _ops.sum(mask, dims, keepdim=keepdim, dtype=_real(input.dtype))


def _real(dtype):
    return {_C.complex64: _C.float32, _C.complex128: _C.float64}.get(dtype, dtype)


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum along `dim`."""
    x = _filled("sum", input, mask, 0, dtype)
    return _ops.sum(x, _dims(x, dim), keepdim=keepdim, dtype=dtype)


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product along `dim`."""
    x = _filled("prod", input, mask, 1, dtype)
    whole = x.shape
    for d in sorted((d % max(x.dim(), 1) for d in _dims(x, dim) or range(x.dim())), reverse=True):
        x = _ops.prod(x, d, keepdim=keepdim, dtype=dtype)
    return x if len(whole) else _ops.prod(x, dtype=dtype)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean along `dim`, of floats; of other dtypes when `dtype` says which floats."""
    x = _floating("mean", input, dtype)
    return sum(x, dim, keepdim=keepdim, mask=mask) / _count("mean", x, dim, keepdim, mask)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The median along `dim`: the lower of two in the middle; NaN where there is a NaN.

    A row of which the mask leaves nothing is NaN, and of integers an error.
    """
    mask = _checked("median", input, mask)
    dim = _along(dim)
    x = input if dtype is None else input.to(dtype)
    if mask is None:
        return _ops.median(x, dim, keepdim=keepdim).values
    if not x.dtype.is_floating_point:
        if not bool(mask.any(dim).all()):
            raise _C.ValueError(
                f"pf.masked.median: got {x.dtype} and a mask that leaves nothing of some rows; expected "
                "an element of each, for integers have no NaN; pass dtype=pf.float32"
            )
    elif x.dim() == 0:
        return _ops.where(mask, x, math.nan)
    # Masked elements come last, behind infinities and NaN.
    order = _ops.argsort(_ops.where(mask, x, _highest(x.dtype)), dim, stable=True)
    first = _ops.argsort(_ops.logical_not(mask).gather(dim, order), dim, stable=True)
    order = order.gather(dim, first)
    count = mask.sum(dim, keepdim=True)
    value = x.gather(dim, order.gather(dim, ((count - 1) // 2).clamp(min=0)))
    if x.dtype.is_floating_point:
        odd = (mask & (x != x)).any(dim, keepdim=True) | (count == 0)
        value = _ops.where(odd, math.nan, value)
    return value if keepdim else value.squeeze(dim)


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest element along `dim`."""
    x = _filled("amax", input, mask, _lowest(dtype or getattr(input, "dtype", _C.float32)), dtype)
    return _ops.amax(x, _dims(x, dim), keepdim=keepdim)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest element along `dim`."""
    x = _filled("amin", input, mask, _highest(dtype or getattr(input, "dtype", _C.float32)), dtype)
    return _ops.amin(x, _dims(x, dim), keepdim=keepdim)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the largest element is along `dim`, a number; None for the flattened input.

    An index in the input's dtype, or in `dtype`, as in PyTorch: call `long()` to index with it.
    """
    x = _filled("argmax", input, mask, _lowest(dtype or getattr(input, "dtype", _C.float32)), dtype)
    return _ops.argmax(x, dim, keepdim=keepdim).to(x.dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the smallest element is along `dim`, a number; None for the flattened input.

    An index in the input's dtype, or in `dtype`, as in PyTorch: call `long()` to index with it.
    """
    x = _filled(
        "argmin", input, mask, _highest(dtype or getattr(input, "dtype", _C.float32)), dtype
    )
    return _ops.argmin(x, dim, keepdim=keepdim).to(x.dtype)


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The vector norm of order `ord` along `dim`, of floats."""
    # A masked element adds nothing: 0 for orders from 0 on, inf for those below.
    x = _filled("norm", input, mask, 0.0 if ord >= 0 else math.inf, dtype)
    return _C._import("pyflame.linalg").vector_norm(x, ord, _dims(x, dim), keepdim=keepdim)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """The input divided by its norm along `dim`, at least `eps`; 0 where it is masked."""
    x = _filled("normalize", input, mask, 0.0, dtype)
    return x / norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask).clamp(min=eps)


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """log of the sum of exponentials along `dim`; -inf where nothing is left."""
    x = _filled("logsumexp", input, mask, -math.inf, dtype)
    return _ops.logsumexp(x, _dims(x, dim), keepdim=keepdim)


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other)) of what the masks leave of each; -inf where that is nothing."""
    a = _filled("logaddexp", input, input_mask, -math.inf, dtype)
    b = _filled("logaddexp", other, other_mask, -math.inf, dtype)
    return _ops.logaddexp(a, b)


def var(
    input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None
):  # fmt: skip
    """The variance along `dim`, divided by the count less `correction` (1); of integers a float."""
    if unbiased is not None and correction is not None:
        raise _C.ValueError(
            "pf.masked.var: got unbiased and correction; expected one of them; leave one out"
        )
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    kind = getattr(input, "dtype", _C.float32) if dtype is None else dtype
    whole = not (kind.is_floating_point or kind.is_complex or kind == _C.bool)
    x = _floating("var", input, _C.get_default_dtype() if whole else dtype)
    center = mean(x, dim, keepdim=True, mask=mask)
    x = _filled("var", x - center, mask, 0)
    count = _count("var", x, dim, keepdim, mask)
    squares = (x.abs() ** 2).to(x.dtype) if x.is_complex() else x * x
    total = _ops.sum(squares, _dims(x, dim), keepdim=keepdim)
    if isinstance(count, _C.Tensor):
        return total / (count - correction).clamp(min=0)
    return total / max(count - correction, 0) if count > correction else total * math.nan


def std(
    input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None
):  # fmt: skip
    """The root of `var`."""
    v = var(
        input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask
    )  # fmt: skip
    return _ops.sqrt(v)


def _along(dim):
    """The one dimension of functions that go along one: the first where none is named."""
    if dim is None:
        return 0
    if isinstance(dim, (tuple, list)):
        if not dim:
            raise _C.IndexError("pf.masked: got no dimension; expected one; pass dim=0")
        return dim[0]
    return dim


def cumsum(input, dim, *, dtype=None, mask=None):
    """Sums of the elements up to each along `dim`."""
    x = _filled("cumsum", input, mask, 0, dtype)
    return _ops.cumsum(x, _along(dim), dtype=None if x.dtype == _C.bool else x.dtype)


def cumprod(input, dim, *, dtype=None, mask=None):
    """Products of the elements up to each along `dim`."""
    x = _filled("cumprod", input, mask, 1, dtype)
    return _ops.cumprod(x, _along(dim), dtype=None if x.dtype == _C.bool else x.dtype)


def softmax(input, dim, *, dtype=None, mask=None):
    """Softmax along `dim`; 0 where it is masked."""
    return _ops.softmax(_filled("softmax", input, mask, -math.inf, dtype), _along(dim))


def log_softmax(input, dim, *, dtype=None, mask=None):
    """log of the softmax along `dim`; -inf where it is masked."""
    return _ops.log_softmax(_filled("log_softmax", input, mask, -math.inf, dtype), _along(dim))


def softmin(input, dim, *, dtype=None, mask=None):
    """Softmax of the negated input along `dim`; 0 where it is masked."""
    return _ops.softmax(-_filled("softmin", input, mask, math.inf, dtype), _along(dim))


_name_errors(__name__)
