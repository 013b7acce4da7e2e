"""Functions of elements: PyFlame's operations by the standard's names, positions only."""

from .. import _C, _ops
from .._named_errors import name_errors as _name_errors

_ONE = """abs acos acosh asin asinh atan atanh bitwise_not=bitwise_invert ceil conj cos cosh exp expm1 floor
isfinite isinf isnan log log1p log2 log10 logical_not neg=negative positive real reciprocal round signbit
sin sinh square sqrt tan tanh trunc imag"""
_TWO = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign
divide eq=equal floor_divide gt=greater ge=greater_equal hypot lt=less le=less_equal logaddexp logical_and
logical_or logical_xor maximum minimum mul=multiply nextafter ne=not_equal pow remainder sub=subtract"""

__all__ = ["clip", "sign"]
# Integers are whole already: what the standard wants of them is no operation of floats.
_WHOLE = {"ceil", "floor", "round", "trunc"}
_REAL = {"conj", "real"}  # of a real array: itself
_TENSORS = {"nextafter", "floor_divide", "remainder"}  # get no numbers


def _floor_divide(x1, x2):
    out = _ops.floor_divide(x1, x2)
    if not out.dtype.is_floating_point:
        return out
    # What is infinite is divided as it is: floor_divide takes the rest away first, which is NaN then.
    return _ops.where(_ops.isinf(x1) | _ops.isinf(x2), _ops.div(x1, x2), out)


def _remainder(x1, x2):
    out = _ops.remainder(x1, x2)
    if not out.dtype.is_floating_point:
        return out
    return _ops.where(out == 0, _ops.copysign(out, x2), out)


_OURS = {"floor_divide": _floor_divide, "remainder": _remainder}


def _one(ours, name):
    def function(x, /):
        if name in _WHOLE and not x.dtype.is_floating_point and not x.dtype.is_complex:
            return x.clone()
        if name in _REAL and not x.dtype.is_complex:
            return x
        return getattr(_ops, ours)(x)

    return function


def _two(ours, name):
    def function(x1, x2, /):
        if not isinstance(x1, _C.Tensor):  # a number first
            if not isinstance(x2, _C.Tensor):
                raise TypeError(f"pf.array_api.{name}: got two numbers; expected an array")
            x1 = _ops.full((), x1, dtype=x2.dtype, device=x2.device)
        elif name in _TENSORS and not isinstance(x2, _C.Tensor):
            x2 = _ops.full((), x2, dtype=x1.dtype, device=x1.device)
        return (_OURS.get(name) or getattr(_ops, ours))(x1, x2)

    return function


for _kind, _names in ((_one, _ONE), (_two, _TWO)):
    for _entry in _names.split():
        _ours, _, _name = _entry.partition("=")
        _name = _name or _ours
        _f = _kind(_ours, _name)
        _f.__name__ = _f.__qualname__ = _name
        _f.__doc__ = (
            f"{_name}({'x' if _kind is _one else 'x1, x2'}, /): pyflame.{_ours} of each element."
        )
        globals()[_name] = _f
        __all__.append(_name)


def clip(x, /, min=None, max=None):
    """Elements within `min` and `max`, numbers or arrays; the result has the dtype of `x`."""
    if min is None and max is None:
        return x.clone()
    if isinstance(min, _C.Tensor) or isinstance(max, _C.Tensor):
        like = [
            v
            if v is None or isinstance(v, _C.Tensor)
            else _ops.full((), v, dtype=x.dtype, device=x.device)
            for v in (min, max)
        ]
        return _ops.clip(x, *like).to(x.dtype)
    return _ops.clip(x, min, max).to(x.dtype)


def sign(x, /):
    """-1, 0 or 1; NaN of NaN."""
    out = _ops.sign(x)
    return _ops.where(x.isnan(), x, out) if x.dtype.is_floating_point else out


_name_errors(__name__)
