"""torch._C: the few names of PyTorch's insides that programs use."""

import contextlib as _contextlib

from ... import _C as _pyflame_c
from ... import Generator, Size, Tensor, device, dtype  # noqa: F401
from ...nn import functional as _functional
from ...nn.module import _parse_to
from ..absent import absent as _absent

_graphs = _absent("torch._C", "graphs of TorchScript need PyTorch")
Graph, Node, Value, TensorType = map(_graphs, ("Graph", "Node", "Value", "TensorType"))
_has_cuda = _pyflame_c._device_count("rocm") + _pyflame_c._device_count("cuda") > 0
_has_xpu = _has_mps = False
_LinAlgError = _pyflame_c.LinAlgError
TensorBase = _TensorBase = Tensor
_TensorMeta = type(Tensor)
_disabled_torch_function_impl = None  # as `__torch_function__` of a class: it is not asked


def _log_api_usage_once(*args):
    """Accepted: nothing is counted."""


def _get_tracing_state():
    """None: nothing is traced."""


def _are_functorch_transforms_active():
    """Whether a vmap runs."""
    return bool(_pyflame_c._vmap_active())


class _Layers:
    """torch._C._nn: functions of torch.nn.functional, and how to() reads its arguments."""

    @staticmethod
    def _parse_to(*args, **kwargs):
        device_, *others = _parse_to(*args, **kwargs)
        return (None if device_ is None else device(device_), *others)

    def __getattr__(self, name):
        return getattr(_functional, name)


_nn = _Layers()


class _Keys(type):
    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class Tag(metaclass=_Keys):
    """Any name is a tag of an operator: they are accepted."""


class _Schema:
    """A signature as text; it is compatible with no other, since nothing here is dispatched by one."""

    def __init__(self, text):
        self.name, self._text = text.partition("(")[0], text

    def is_backward_compatible_with(self, other):
        """False."""
        return False

    def __str__(self):
        return self._text


def parse_schema(text):
    """The signature of an operator."""
    return _Schema(text)


class DisableTorchFunctionSubclass:
    """A block in which operations see subclasses of Tensor as plain tensors."""

    def __enter__(self):
        _pyflame_c._ignore_subclasses(True)

    def __exit__(self, *unused):
        _pyflame_c._ignore_subclasses(False)


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """The same, and no mode of torch.overrides is asked."""

    def __enter__(self):
        super().__enter__()
        _pyflame_c._rest_modes(True)

    def __exit__(self, *unused):
        _pyflame_c._rest_modes(False)
        super().__exit__()


class DispatchKeySet:
    """Keys of PyTorch's dispatcher, which does not exist here: they are accepted."""

    def __init__(self, key=None):
        self.key = key

    def __or__(self, other):
        return self

    def has(self, key):
        """False."""
        return False


class DispatchKey(metaclass=_Keys):
    """Any name is a key."""


class _ExcludeDispatchKeyGuard(_contextlib.nullcontext):
    """Accepted: there is no dispatcher."""


_IncludeDispatchKeyGuard = _AutoDispatchBelowAutograd = _ExcludeDispatchKeyGuard


def __getattr__(name):
    if name.startswith("_jit_"):  # switches of TorchScript
        return lambda *args, **kwargs: None
    raise AttributeError(name)
