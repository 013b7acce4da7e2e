"""GPUs of any vendor under the names of torch.cuda."""

# ruff: noqa: F401 (what is imported here is the interface)

import importlib as _importlib

from .. import _C, memory
from ..memory import (
    empty_cache,
    get_memory_manager,
    get_per_process_memory_fraction,
    get_pinned_pool,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    warmup_memory_pool,
)
from ..streams import (
    Event,
    Stream,
    StreamContext,
    _device,
    current_stream,
    default_stream,
    set_stream,
    stream,
    synchronize,
)

OutOfMemoryError = _C.OutOfMemoryError


def device_count():
    """Usable GPUs, AMD and NVIDIA together."""
    return _C._device_count("rocm") + _C._device_count("cuda")


def is_available():
    """True when a GPU of any vendor is usable."""
    return device_count() > 0


def current_device():
    """Number of the current GPU."""
    d = _C.get_device()
    return d.index or 0


def set_device(device):
    """Makes a GPU the thread's current device."""
    _C.set_device(f"gpu:{device}" if isinstance(device, int) else device)


def _info(device):
    return _C.device_info(_device(device))


def get_device_name(device=None):
    """Name of a device."""
    return _info(device).get("name", "")


def get_device_capability(device=None):
    """(major, minor) of an NVIDIA GPU, such as (9, 0); of an AMD one (9, 4) for gfx942."""
    arch = _info(device)["architecture"]
    digits = arch.removeprefix("sm_").removeprefix("gfx")
    if arch.startswith("gfx"):
        return int(digits[:-2]), int(digits[-2], 16)
    return int(digits[:-1]), int(digits[-1])


def get_device_properties(device=None):
    """name, total_memory (bytes), multi_processor_count, warp_size, major, minor, gcnArchName."""
    from types import SimpleNamespace

    info = _info(device)
    major, minor = get_device_capability(device)
    return SimpleNamespace(
        name=info["name"],
        total_memory=int(info["total_memory"]),
        multi_processor_count=int(info["compute_units"]),
        warp_size=int(info["warp_size"]),
        shared_memory_per_block=int(info["shared_memory_per_block"]),
        major=major,
        minor=minor,
        gcnArchName=info["target"],
    )


def manual_seed(seed):
    """Seeds the random generator; there is one for all devices."""
    _C._manual_seed(int(seed) & 0xFFFFFFFFFFFFFFFF)


manual_seed_all = manual_seed


def is_bf16_supported():
    """True: bfloat16 works on every device."""
    return True


def is_initialized():
    """True when GPUs can be used."""
    return is_available()


def __getattr__(name):
    if name == "amp":
        return _importlib.import_module(".amp", __name__)
    raise AttributeError(f"module 'pyflame.cuda' has no attribute '{name}'")
