"""The CPU under the names of torch.cpu."""

from .. import _C
from ..streams import Event, Stream, StreamContext, current_stream, stream
from . import amp

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
    "device_count",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


def is_available():
    """True."""
    return True


def device_count():
    """1."""
    return 1


def current_device():
    """'cpu'."""
    return "cpu"


def synchronize(device=None):
    """Waits for everything recorded so far."""
    _C.synchronize()


def is_initialized():
    """True."""
    return True


def set_device(device):
    """Accepted: there is one CPU."""


def get_capabilities():
    """What the kernels of this process use of the CPU: the architecture and its instructions."""
    import platform

    info = _C.device_info("cpu")
    return {"architecture": platform.machine(), **{k: v for k, v in info.items() if k != "name"}}
