"""Autocast: regions in which operations choose between 16 bits and float32 by their class."""

import functools
import warnings

from .. import _C

__all__ = [
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
]

_CPU, _GPU = 0, 1
_KINDS = {"cpu": _CPU, "cuda": _GPU, "rocm": _GPU, "hip": _GPU, "gpu": _GPU, "paranoid": 2}

_OTHERS = ("hpu", "ipu", "maia", "mps", "mtia", "xla", "xpu")  # PyTorch's, that are not there


def _kind(device_type, op="autocast"):
    name = device_type if isinstance(device_type, str) else getattr(device_type, "type", None)
    if not isinstance(name, str):
        raise TypeError(
            f"pf.{op}: got {device_type!r} as device_type; expected a text; pass 'cpu' or 'cuda'"
        )
    kind = _KINDS.get(name.split(":")[0])
    if kind is None:
        raise _C.DeviceError(
            f"pf.{op}: got device_type {name!r}; expected one of {', '.join(_KINDS)}; name the "
            "kind of device that the tensors are on"
        )
    return kind


def _gpu_is_there():
    try:
        return _C._device_count("rocm") + _C._device_count("cuda") > 0
    except _C.PyFlameError:
        return False


def is_autocast_available(device_type):
    """True when `device_type` names a kind of device that autocast knows."""
    return str(device_type).split(":")[0] in _KINDS


def is_autocast_enabled(device_type=None):
    """Whether autocast is on for a kind of device in this thread; GPUs when none is named."""
    if device_type in _OTHERS:
        return False
    return _C._autocast_enabled(_GPU if device_type is None else _kind(device_type))


def set_autocast_enabled(device_type, enabled=None):
    """Switches autocast for a kind of device in this thread; GPUs when only a bool is given."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    _C._set_autocast_enabled(_kind(device_type, "set_autocast_enabled"), bool(enabled))


def get_autocast_dtype(device_type):
    """The lower dtype of autocast: bfloat16 on the CPU, float16 on GPUs until another is set."""
    return _C._autocast_dtype(_kind(device_type, "get_autocast_dtype"))


def set_autocast_dtype(device_type, dtype):
    """Sets the lower dtype of autocast for this thread: float16 or bfloat16."""
    _C._set_autocast_dtype(_kind(device_type, "set_autocast_dtype"), dtype)


class autocast:
    """Within it products run in a lower dtype and sensitive operations in float32.

    `with pf.autocast("cpu"):`, also nested, and as a decorator. Run the forward pass and the loss
    in it, not backward(). The classes of operations are in the documentation (Mixed precision).

    Args:
        device_type: "cpu" or "cuda" ("rocm", "hip", "gpu" are the same): where the tensors are.
            Without a GPU "cuda" warns and changes nothing.
        dtype: float16 or bfloat16; get_autocast_dtype(device_type) by default.
        enabled: False switches autocast off within it.
        cache_enabled: keeps the casts of parameters until the outermost region ends.
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        self._kind = _kind(device_type)
        self.device = device_type
        self.fast_dtype = _C._autocast_dtype(self._kind) if dtype is None else dtype
        self._enabled = bool(enabled)
        cache = _C.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._cache_enabled = bool(cache)
        self._regions = []
        if self._enabled and self._kind == _GPU and not _gpu_is_there():
            warnings.warn(
                f"pf.autocast: got device_type {device_type!r} and there is no usable GPU; "
                "autocast stays off; name 'cpu' to use it there",
                stacklevel=2,
            )
            self._enabled = False
        if self.fast_dtype not in (_C.float16, _C.bfloat16):
            if self._enabled:
                warnings.warn(
                    f"pf.autocast: got dtype {self.fast_dtype}; expected float16 or bfloat16; "
                    "autocast stays off",
                    stacklevel=2,
                )
            self._enabled = False
            self.fast_dtype = None  # what it was

    def __enter__(self):
        self._regions.append(
            _C._autocast_enter(self._kind, self.fast_dtype, self._enabled, self._cache_enabled)
        )
        return self

    def __exit__(self, *unused):
        _C._autocast_exit(self._regions.pop())
        return False

    def __call__(self, fn):
        @functools.wraps(fn)
        def within(*args, **kwargs):
            with self:
                return fn(*args, **kwargs)

        return within


def _cast(value, kind, dtype):
    """Float tensors of that kind of device among the arguments, in `dtype`; float64 stays."""
    if isinstance(value, _C.Tensor):
        takes_part = (
            value.is_floating_point()
            and value.dtype != _C.float64
            and _KINDS.get(value.device.type) == kind
        )
        return value.to(dtype) if takes_part else value
    if isinstance(value, dict):
        return {_cast(k, kind, dtype): _cast(v, kind, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_cast(v, kind, dtype) for v in value)
    return value


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """Decorator of forward() of an autograd.Function that may run under autocast.

    With `cast_inputs` float tensors arrive in that dtype and forward runs with autocast off.
    backward() takes custom_bwd, which gives it the state that forward had.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    kind = _kind(device_type, "custom_fwd")

    @functools.wraps(fwd)
    def forward(ctx, *args, **kwargs):
        ctx._dtype = _C._autocast_dtype(kind)
        on = _C._autocast_enabled(kind)
        ctx._fwd_used_autocast = on and cast_inputs is None
        if not on or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args, kind, cast_inputs), **_cast(kwargs, kind, cast_inputs))

    return forward


def custom_bwd(bwd=None, *, device_type):
    """Decorator of backward() of an autograd.Function: autocast is as it was in forward()."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx, *grads):
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *grads)

    return backward
