"""What programs ask of torch.cuda besides memory, streams and seeds."""

from .. import _C, memory

CudaError = _C.BackendError
has_half = True
has_magma = False


def init():
    """Looks for a GPU now; DeviceError where there is none."""
    from . import _need

    _need("init")


def ipc_collect():
    """Nothing: memory of GPUs is not shared between processes."""


def is_tf32_supported():
    """True for NVIDIA GPUs of compute capability 8.0 and above."""
    from . import get_device_properties, is_available

    if not is_available():
        return False
    info = get_device_properties()
    return info.gcnArchName.startswith("sm_") and info.major >= 8


def get_arch_list():
    """Architectures of the GPUs there are, such as "sm_90"; kernels are compiled for what is found."""
    from . import device_count, get_device_properties

    return sorted({get_device_properties(i).gcnArchName for i in range(device_count())})


def get_gencode_flags():
    """The same as options of NVIDIA's compiler."""
    numbers = [a.removeprefix("sm_") for a in get_arch_list() if a.startswith("sm_")]
    return " ".join(f"-gencode compute=compute_{n},code=sm_{n}" for n in numbers)


def get_allocator_backend():
    """Always "native": PyFlame's own allocator."""
    return "native"


_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode):
    """Accepted for programs that call it; pf.explain and pf.debug.stats() tell what was waited for."""
    if debug_mode not in (*_MODES, 0, 1, 2):
        raise _C.ValueError(
            f"pf.cuda.set_sync_debug_mode: got {debug_mode!r}; expected 0 to 2 or one of {_MODES}"
        )


def get_sync_debug_mode():
    """0."""
    return 0


def device_memory_used(device=None):
    """Bytes of a GPU's memory that are taken, by all processes; DeviceError where there is none."""
    from . import _need

    _need("device_memory_used")
    free, total = memory.mem_get_info(device)
    return total - free


def memory_stats_as_nested_dict(device=None):
    """memory_stats() with a dict for each part of its names between dots."""
    nested = {}
    for name, value in memory.memory_stats(device).items():
        *path, last = name.split(".")
        at = nested
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return nested
