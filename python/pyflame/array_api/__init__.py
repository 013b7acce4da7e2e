"""PyFlame by the names of the array API standard, version 2024.12.

    xp = pyflame.array_api            # or x.__array_namespace__()
    xp.sum(xp.asarray([[1, 2], [3, 4]]), axis=0)

Arrays are PyFlame's tensors. Operators and the attributes ``dtype``, ``device``, ``ndim``, ``shape``, ``T`` and ``mT``
are the standard's; ``x.size`` is a method, as programs for PyTorch expect (``xp.info.size`` is not
needed: ``math.prod(x.shape)``). What the standard leaves open, such as an integer plus a float, is
answered as PyFlame does.
"""

# ruff: noqa: F401 (what is imported here is the interface)

from .. import _C
from ._creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from ._elementwise import *  # noqa: F403
from ._elementwise import __all__ as _elementwise
from ._info import (
    __array_namespace_info__,
    astype,
    broadcast_arrays,
    broadcast_to,
    can_cast,
    finfo,
    iinfo,
    isdtype,
    result_type,
)
from ._manipulation import (
    concat,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    take,
    take_along_axis,
    tile,
    unstack,
)
from ._reductions import (
    all,
    any,
    argmax,
    argmin,
    argsort,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    diff,
    matmul,
    max,
    mean,
    min,
    nonzero,
    prod,
    searchsorted,
    sort,
    std,
    sum,
    tensordot,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    var,
    vecdot,
    where,
)

__array_api_version__ = "2024.12"

e, pi = 2.718281828459045, 3.141592653589793
inf, nan = float("inf"), float("nan")
newaxis = None

int8, int16, int32, int64 = _C.int8, _C.int16, _C.int32, _C.int64
uint8, uint16, uint32, uint64 = _C.uint8, _C.uint16, _C.uint32, _C.uint64
float32, float64 = _C.float32, _C.float64
complex64, complex128 = _C.complex64, _C.complex128
bool = _C.bool


def __getattr__(name):
    if name in ("linalg", "fft"):
        return _C._import(f"{__name__}.{name}")
    raise AttributeError(f"module 'pyflame.array_api' has no attribute '{name}'")


def __dir__():
    return sorted({n for n in globals() if not n.startswith("_")} | {"linalg", "fft"})
