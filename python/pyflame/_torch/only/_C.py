"""torch._C: the few names of PyTorch's insides that programs use."""

from ... import Generator, Size, Tensor, device, dtype  # noqa: F401

TensorBase = _TensorBase = Tensor


def _log_api_usage_once(*args):
    """Accepted: nothing is counted."""


def _get_tracing_state():
    """None: nothing is traced."""


def __getattr__(name):
    if name.startswith("_jit_"):  # switches of TorchScript
        return lambda *args, **kwargs: None
    raise AttributeError(name)
