"""Dtypes and devices."""

import builtins

from .. import _C, _misc, _ops
from . import _arguments

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


class _Info:
    """What this namespace can do; see the standard's "inspection API"."""

    def capabilities(self):
        """Whether boolean indexing and shapes that follow from data are there, and the most dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        return _C.get_device()

    def devices(self):
        """The CPU and the GPUs that can be used."""
        from .. import cuda

        found = [_C.device("cpu")]
        if cuda.is_available():
            found += [_C.device("cuda", i) for i in range(cuda.device_count())]
        here = _C.get_device()
        return found if here in found else [*found, here]

    def default_dtypes(self, *, device=None):
        real = _C.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": _C.complex128 if real == _C.float64 else _C.complex64,
            "integral": _C.int64,
            "indexing": _C.int64,
        }

    def dtypes(self, *, device=None, kind=None):
        kinds = (
            kind if isinstance(kind, tuple) else ("bool", "numeric") if kind is None else (kind,)
        )
        names = []
        for k in kinds:
            if k not in _KINDS:
                raise _C.ValueError(
                    f"pf.array_api.dtypes: got kind {k!r}; expected some of {', '.join(_KINDS)}"
                )
            names += [n for n in _KINDS[k] if n not in names]
        return {n: getattr(_C, n) for n in names}


def __array_namespace_info__():
    """An object that tells capabilities, devices and dtypes."""
    return _Info()


def astype(x, dtype, /, *, copy=True, device=None):
    """`x` with another dtype; a copy unless `copy` is False and nothing changes."""
    _arguments.tensor(x, "astype")
    return x.to(_arguments.device(device, x), dtype, copy=copy)


def broadcast_arrays(*arrays):
    return list(_ops.broadcast_tensors(*arrays))


def broadcast_to(x, /, shape):
    return _ops.broadcast_to(x, tuple(shape))


def _dtype(x):
    return x.dtype if isinstance(x, _C.Tensor) else x


def can_cast(from_, to, /):
    """Whether the standard's table promotes `from_` and `to` to `to`."""
    a, b = _dtype(from_), _dtype(to)
    if a == b:
        return True
    kinds = [k for k in ("bool", "integral", "real floating", "complex floating") if isdtype(a, k)]
    same = builtins.any(isdtype(b, k) for k in kinds) or (
        isdtype(a, "real floating") and isdtype(b, "complex floating")
    )
    return same and _C.promote_types(a, b) == b


class _Limits:
    def __init__(self, **values):
        self.__dict__.update(values)

    def __repr__(self):
        return "limits(" + ", ".join(f"{k}={v}" for k, v in self.__dict__.items()) + ")"


def finfo(type, /):
    """bits, eps, max, min, smallest_normal and dtype of a floating dtype (or that of an array)."""
    kind = _dtype(type)
    real = {_C.complex64: _C.float32, _C.complex128: _C.float64}.get(kind, kind)
    f = _misc.finfo(real)
    return _Limits(
        bits=f.bits, eps=float(f.eps), max=float(f.max), min=float(f.min),
        smallest_normal=float(f.smallest_normal), dtype=real,
    )  # fmt: skip


def iinfo(type, /):
    """bits, max, min and dtype of an integer dtype (or that of an array)."""
    kind = _dtype(type)
    i = _misc.iinfo(kind)
    return _Limits(bits=i.bits, max=int(i.max), min=int(i.min), dtype=kind)


def isdtype(dtype, kind):
    """Whether `dtype` is `kind`: a dtype, the name of a kind, or a tuple of these."""
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, _C.dtype):
        return dtype == kind
    if kind not in _KINDS:
        raise _C.ValueError(
            f"pf.array_api.isdtype: got kind {kind!r}; expected a dtype or one of {', '.join(_KINDS)}"
        )
    return dtype in [getattr(_C, name) for name in _KINDS[kind]]


def result_type(*arrays_and_dtypes):
    """The dtype that operators over these give; numbers of Python count by their kind alone."""
    known = [_dtype(a) for a in arrays_and_dtypes if isinstance(a, _C.Tensor | _C.dtype)]
    numbers = [a for a in arrays_and_dtypes if not isinstance(a, _C.Tensor | _C.dtype)]
    if not known:
        raise _C.ValueError(
            "pf.array_api.result_type: got no array and no dtype; expected at least one"
        )
    out = known[0]
    for dtype in known[1:]:
        out = _C.promote_types(out, dtype)
    for number in numbers:
        out = (
            (_ops.zeros((1,), dtype=out, device="cpu") + number).dtype
            if _weak(out, number)
            else out
        )
    return out


def _weak(dtype, number):
    """Whether a number is of a higher kind than `dtype`, so that it decides."""
    order = ("bool", "integral", "real floating", "complex floating")
    have = next(i for i, k in enumerate(order) if isdtype(dtype, k))
    kind = {builtins.bool: 0, int: 1, float: 2, complex: 3}[type(number)]
    return kind > have
