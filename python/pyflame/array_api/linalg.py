"""The standard's extension for linear algebra, on :mod:`pyflame.linalg`."""

from typing import NamedTuple

from .. import _C, _ops
from .. import linalg as _linalg
from .._named_errors import name_errors as _name_errors
from ._manipulation import matrix_transpose
from ._reductions import matmul, tensordot, vecdot

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd",
    "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


class EighResult(NamedTuple):
    eigenvalues: object
    eigenvectors: object


class QRResult(NamedTuple):
    Q: object
    R: object


class SlogdetResult(NamedTuple):
    sign: object
    logabsdet: object


class SVDResult(NamedTuple):
    U: object
    S: object
    Vh: object


def cholesky(x, /, *, upper=False):
    return _linalg.cholesky(x, upper=upper)


def cross(x1, x2, /, *, axis=-1):
    return _linalg.cross(x1, x2, dim=axis)


def det(x, /):
    return _linalg.det(x)


def diagonal(x, /, *, offset=0):
    return _ops.diagonal(x, offset, -2, -1)


def eigh(x, /):
    return EighResult(*_linalg.eigh(x))


def eigvalsh(x, /):
    return _linalg.eigvalsh(x)


def inv(x, /):
    return _linalg.inv(x)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    return _linalg.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_power(x, n, /):
    return _linalg.matrix_power(x, n)


def matrix_rank(x, /, *, rtol=None):
    return _linalg.matrix_rank(x, rtol=rtol)


def outer(x1, x2, /):
    return _ops.outer(x1, x2)


def pinv(x, /, *, rtol=None):
    return _linalg.pinv(x, rtol=rtol)


def qr(x, /, *, mode="reduced"):
    return QRResult(*_linalg.qr(x, mode))


def slogdet(x, /):
    return SlogdetResult(*_linalg.slogdet(x))


def solve(x1, x2, /):
    """`x2` is one vector where it has one dimension, else matrices; in the dtype of both."""
    x1, x2 = (x.to(_C.promote_types(x1.dtype, x2.dtype)) for x in (x1, x2))
    if x2.ndim == 1:
        return _linalg.solve(x1, x2.unsqueeze(-1)).squeeze(-1)
    return _linalg.solve(x1, x2)


def svd(x, /, *, full_matrices=True):
    return SVDResult(*_linalg.svd(x, full_matrices))


def svdvals(x, /):
    return _linalg.svdvals(x)


def trace(x, /, *, offset=0, dtype=None):
    from ._reductions import sum

    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    if axis == ():
        return x.abs() if ord != 0 else (x != 0).to(x.dtype)
    return _linalg.vector_norm(x, ord, list(axis) if isinstance(axis, tuple) else axis, keepdims)


_name_errors(__name__)
