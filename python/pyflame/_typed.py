"""pyflame.FloatTensor, pyflame.cuda.LongTensor and their like: classes of tensors by dtype and place.

No tensor is made of them: they construct plain tensors, answer isinstance(), and name what
Tensor.type() converts to.
"""

import builtins
import operator

from . import _C

DTYPES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64",
    "IntTensor": "int32",
    "ShortTensor": "int16",
    "CharTensor": "int8",
    "ByteTensor": "uint8",
    "BoolTensor": "bool",
}
_made = {}


def _is_int(x):
    try:
        operator.index(x)
    except TypeError:
        return False
    return True


class _Typed(type):
    """The class of the classes."""

    def __instancecheck__(cls, x):
        return isinstance(x, _C.Tensor) and x.dtype is cls.dtype and x.is_cuda == cls.is_cuda

    def __call__(cls, *args, device=None):
        if device is None and cls.is_cuda:
            device = "gpu"
        empty = _C._functions["empty"]
        if not args:
            return empty((0,), dtype=cls.dtype, device=device)
        first = args[0]
        if builtins.len(args) > 1 or isinstance(first, _C.Size) or _is_size(first):
            sizes = args if builtins.len(args) > 1 else first
            return empty(sizes, dtype=cls.dtype, device=device)
        return _C.tensor(first, dtype=cls.dtype, device=device)


def _is_size(x):
    return not isinstance(x, _C.Tensor) and _is_int(x)


def typed(name, module="pyflame"):
    """The class of that name, for the CPU (module pyflame) or GPUs (pyflame.cuda)."""
    key = module, name
    if (known := _made.get(key)) is None:
        dtype = getattr(_C, DTYPES[name])
        where = "on a GPU" if module.endswith("cuda") else "on the CPU"
        known = _Typed(
            name,
            (),
            {
                "__module__": module,
                "__doc__": f"A {dtype} tensor {where}: from values, or an empty one from sizes.",
                "dtype": dtype,
                "is_cuda": module.endswith("cuda"),
            },
        )
    return _made.setdefault(key, known)  # one class, also where two threads make it
