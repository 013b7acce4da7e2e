"""The device that calculates fastest here, whoever made it; names as in torch.accelerator.

It is a GPU or there is none: the CPU is no accelerator. Numbers count the GPUs of
:func:`pyflame.cuda.device_count`.
"""

from . import _C, cuda, memory, streams
from .cuda import get_device_capability
from .streams import current_stream, set_stream, synchronize

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream",
    "device_count", "device_index", "empty_cache", "empty_host_cache", "get_device_capability",
    "get_memory_info", "is_available", "max_memory_allocated", "max_memory_reserved",
    "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats",
    "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream", "synchronize",
]  # fmt: skip


def device_count():
    """How many there are."""
    return cuda.device_count()


def is_available():
    """True when there is one."""
    return device_count() > 0


def current_accelerator(check_available=False):
    """The kind of device, without a number; None where there is none."""
    return _C.device("gpu") if is_available() else None


def current_device_index():
    """Number of the current one; DeviceError where there is none."""
    return cuda.current_device()


def set_device_index(device):
    """Makes the one of this number (or this device) the thread's current device."""
    if isinstance(device, int) and device < 0:
        return
    cuda.set_device(device)


current_device_idx, set_device_idx = current_device_index, set_device_index


class device_index:
    """Within it another one is current; None changes nothing."""

    def __init__(self, device):
        self.index = device

    def __enter__(self):
        self._before = None
        if self.index is not None:
            self._before = _C.get_device()
            set_device_index(self.index)

    def __exit__(self, *unused):
        if self._before is not None:
            _C.set_device(self._before)


def _of(function, nothing=0):
    def of_accelerators(device_index=None):
        return function(device_index) if is_available() else nothing

    of_accelerators.__name__ = of_accelerators.__qualname__ = function.__name__
    of_accelerators.__doc__ = function.__doc__
    return of_accelerators


memory_allocated = _of(cuda.memory_allocated)
max_memory_allocated = _of(cuda.max_memory_allocated)
memory_reserved = _of(cuda.memory_reserved)
max_memory_reserved = _of(cuda.max_memory_reserved)
memory_stats = _of(memory.memory_stats, {})
reset_peak_memory_stats = _of(memory.reset_peak_memory_stats, None)
reset_accumulated_memory_stats = _of(memory.reset_accumulated_memory_stats, None)


def get_memory_info(device_index=None):
    """(free bytes, all bytes) of one."""
    return memory.mem_get_info(device_index)


def empty_cache():
    """Gives memory that nothing uses back to the device."""
    memory.empty_cache(streams._device(None))


def empty_host_cache():
    """Accepted: pinned memory is given back with what used it."""
