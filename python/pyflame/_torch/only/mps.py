"""torch.mps: there is no such device. Questions are answered so, what needs one raises DeviceError."""

from ... import manual_seed
from ._absent import no_device as _no_device

_needs = _no_device("torch.mps", "MPS")


def is_available():
    """False."""
    return False


def device_count():
    """0."""
    return 0


def is_initialized():
    """False."""
    return False


def is_bf16_supported(including_emulation=True):
    """False."""
    return False


def empty_cache():
    """Accepted: there is nothing to give back."""


def manual_seed_all(seed):
    """Seeds the one generator."""
    manual_seed(seed)


current_device = _needs("current_device")
current_stream = _needs("current_stream")
get_device_capability = _needs("get_device_capability")
get_device_name = _needs("get_device_name")
get_device_properties = _needs("get_device_properties")
get_rng_state = _needs("get_rng_state")
max_memory_allocated = _needs("max_memory_allocated")
mem_get_info = _needs("mem_get_info")
memory_allocated = _needs("memory_allocated")
current_allocated_memory = _needs("current_allocated_memory")
driver_allocated_memory = _needs("driver_allocated_memory")
recommended_max_memory = _needs("recommended_max_memory")
set_device = _needs("set_device")
set_rng_state = _needs("set_rng_state")
stream = _needs("stream")
synchronize = _needs("synchronize")
Event = _needs("Event")
Stream = _needs("Stream")
