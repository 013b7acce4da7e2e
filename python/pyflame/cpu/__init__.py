"""The CPU under the names of torch.cpu."""

from .. import _C
from ..streams import Event, Stream, current_stream, stream
from . import amp

__all__ = [
    "Event",
    "Stream",
    "amp",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
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
