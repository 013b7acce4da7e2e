"""Names that exist under `torch` only; the modules of this folder are those of torch."""

import functools as _functools
import importlib as _importlib
import math as _math
import operator as _operator
import types as _types

import pyflame as _pyflame

from ... import _foreach
from ..._tensor import TypedStorage  # noqa: F401
from ..absent import absent as _absent
from ..version import TEXT as _TEXT
from ..version import TorchVersion as _TorchVersion

__version__ = _TorchVersion(_TEXT)


def save(obj, f, pickle_module=None, pickle_protocol=2, _use_new_zipfile_serialization=True,
         _disable_byteorder_record=False):  # fmt: skip
    """Saves `obj` to the path or binary file object `f`, so that PyTorch's torch.load reads it, too.

    What PyTorch's files hold only as pickled objects (whole models, dataclasses, sets of tensors) goes
    into a file as pyflame.save writes it, under the same name: torch.load reads both. Nothing is ever
    pickled; `pickle_module` and what follows it are accepted.

    Raises:
        TypeError: `obj` holds what neither can say; the message says where.
        FileError: the file cannot be written.
    """
    from ...torch_files import writing

    try:
        expressed = writing.expressed(obj)
    except writing.InexpressibleError:
        _pyflame.save(obj, f)
    else:
        writing.write_expressed(*expressed, f)


_needs = _absent("torch", "archives are read and written by torch.load and torch.save")
PyTorchFileReader, PyTorchFileWriter = map(_needs, ("PyTorchFileReader", "PyTorchFileWriter"))
_needs = _absent("torch", "sizes are plain numbers")  # asked for by isinstance
SymInt, SymFloat, SymBool = map(_needs, ("SymInt", "SymFloat", "SymBool"))
complex32 = chalf = _absent("torch", "complex numbers have 32 or 64 bits a part")("complex32")
_needs = _absent("torch", "integers have 8 to 64 bits, or 4 as pyflame.int4")
uint1, uint2, uint3, uint4, uint5, uint6, uint7 = (_needs(f"uint{n}") for n in range(1, 8))
int1, int2, int3, int5, int6, int7 = (_needs(f"int{n}") for n in (1, 2, 3, 5, 6, 7))
sym_int, sym_float, sym_not = _math.trunc, float, _operator.not_
sym_max, sym_min, sym_sqrt, sym_sum = max, min, _math.sqrt, sum
has_lapack = has_spectral = has_openmp = True


def sym_ite(b, t, f):
    """t or f."""
    return t if b else f


def compiled_with_cxx11_abi():
    """True."""
    return True


def is_vulkan_available():
    """False."""
    return False


def _assert(condition, message=""):
    """AssertionError unless the condition holds."""
    assert condition, message


_assert.has_side_effect = True  # for torch.fx


def _check_with(error, condition, message=None):
    """Raises `error` unless the condition holds; the message is text or a function that gives it."""
    if not condition:
        raise error(message() if callable(message) else message or "the check has failed")


def _check(condition, message=None):
    """RuntimeError unless the condition holds."""
    _check_with(RuntimeError, condition, message)


def _check_index(condition, message=None):
    """IndexError unless the condition holds."""
    _check_with(IndexError, condition, message)


def _check_type(condition, message=None):
    """TypeError unless the condition holds."""
    _check_with(TypeError, condition, message)


def _check_value(condition, message=None):
    """ValueError unless the condition holds."""
    _check_with(ValueError, condition, message)


def _check_tensor_all_with(error, condition, message=None):
    """Raises `error` unless all elements of a tensor of bool hold."""
    if getattr(condition, "dtype", None) != _pyflame.bool:
        given = getattr(condition, "dtype", type(condition).__name__)
        raise TypeError(f"torch._check_tensor_all: got {given}; expected a tensor of bool; compare")
    _check_with(error, bool(condition.all()), message)


def _check_tensor_all(condition, message=None):
    """RuntimeError unless all elements of a tensor of bool hold."""
    _check_tensor_all_with(RuntimeError, condition, message)


_check_not_implemented = _functools.partial(_check_with, NotImplementedError)


def _check_is_size(i, message=None, *, max=None):
    """RuntimeError unless a number is one from 0 (to max)."""
    _check_with(RuntimeError, i >= 0 and (max is None or i <= max), message)


def _assert_async(condition, message="expected a tensor that is not 0"):
    """RuntimeError, at once, unless the element of a tensor is not 0."""
    _check_with(RuntimeError, bool(condition), message)


def _disable_dynamo(fn=None, recursive=True):
    """The function, or a decorator: nothing is captured unless a program asks for it."""
    return (lambda f: f) if fn is None else fn


def _shape_as_tensor(x):
    """The sizes of a tensor as one of int64."""
    return _pyflame.tensor(x.shape, dtype=_pyflame.int64)


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) or false_fn(*operands), by one bool or a tensor of one element."""
    return (true_fn if bool(pred) else false_fn)(*operands)


def get_device_module(device=None):
    """The module of a device's kind: torch.cuda or torch.cpu; of the GPU where there is one and none is
    given."""
    kind = device.type if isinstance(device, _pyflame.device) else device
    if kind is None:
        kind = "cuda" if _pyflame.cuda.is_available() else "cpu"
    kind = {"gpu": "cuda", "hip": "cuda", "rocm": "cuda"}.get(*[str(kind).partition(":")[0]] * 2)
    if kind not in ("cuda", "cpu"):
        raise RuntimeError(f"torch.get_device_module: got {device!r}; expected 'cuda' or 'cpu'")
    return _importlib.import_module(f"torch.{kind}")


# torch.__config__: how the library was built.
__config__ = _types.SimpleNamespace(
    show=lambda: _importlib.import_module("torch.utils.collect_env").get_pretty_env_info(),
    parallel_info=lambda: f"threads of operations: {_pyflame.get_num_threads()}",
)


def __getattr__(name):
    if name.startswith("_foreach_"):
        return _foreach.named(name)
    if name == "to_dlpack":
        return _importlib.import_module("torch.utils.dlpack").to_dlpack
    if name == "has_mkl":
        return _importlib.import_module("torch.backends.mkl").is_available()
    if name == "Future":
        return _importlib.import_module("torch.futures").Future
    if name in ("TensorType", "Tag"):
        return getattr(_importlib.import_module("torch._C"), name)
    if name == "ScriptModule":
        return _importlib.import_module("torch.jit").ScriptModule
    raise AttributeError(name)
