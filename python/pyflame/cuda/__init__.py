"""GPUs of any vendor under the names of torch.cuda."""

# ruff: noqa: F401 (what is imported here is the interface)

import functools as _functools

from .. import _C, _TYPED, memory
from ..memory import (
    MemPool,
    empty_cache,
    get_memory_manager,
    get_per_process_memory_fraction,
    get_pinned_pool,
    mem_get_info,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    use_mem_pool,
    warmup_memory_pool,
)
from ..random import seed_number as _seed_number
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
from .random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .settings import (
    CudaError,
    device_memory_used,
    get_allocator_backend,
    get_arch_list,
    get_gencode_flags,
    get_sync_debug_mode,
    has_half,
    has_magma,
    init,
    ipc_collect,
    is_tf32_supported,
    memory_stats_as_nested_dict,
    set_sync_debug_mode,
)

OutOfMemoryError = _C.OutOfMemoryError


def device_count():
    """Usable GPUs, AMD and NVIDIA together."""
    return _C._device_count("rocm") + _C._device_count("cuda")


def is_available():
    """True when a GPU of any vendor is usable."""
    return device_count() > 0


def _of_gpus(count):
    @_functools.wraps(count)
    def counted(device=None):
        named = isinstance(device, int) or _C.device(device or "cpu").type == "cuda"
        return 0 if named and not is_available() else count(device)

    return counted


memory_allocated = _of_gpus(memory.memory_allocated)
max_memory_allocated = _of_gpus(memory.max_memory_allocated)
memory_reserved = _of_gpus(memory.memory_reserved)
max_memory_reserved = _of_gpus(memory.max_memory_reserved)
memory_cached, max_memory_cached = memory_reserved, max_memory_reserved  # older names
reset_max_memory_cached = reset_peak_memory_stats


def _need(name):
    """DeviceError where there is no GPU that the function could speak of."""
    if not is_available():
        raise _C.DeviceError(
            f"pf.cuda.{name}: there is no usable GPU; expected one; ask is_available() first, and "
            "backend_status() for the reason"
        )


def current_device():
    """Number of the current GPU; DeviceError where there is none."""
    _need("current_device")
    return _C.get_device().index or 0


def set_device(device):
    """Makes a GPU the thread's current device."""
    _C.set_device(f"gpu:{device}" if isinstance(device, int) else device)


class device:
    """Within it a GPU is the thread's current device; afterwards the one before is again.

    Args:
        device: number of a GPU, or a device; None or -1 change nothing. DeviceError where it is not
            there.
    """

    def __init__(self, device):
        if device is not None and device != -1:
            device = _device(device)
            _C.device_info(device)  # raises where there is none
        self._entered = [] if isinstance(device, _C.device) else None
        self.device = device

    def __enter__(self):
        if self._entered is not None:
            self._entered.append(_C.get_device())
            _C.set_device(self.device)
        return self

    def __exit__(self, *error):
        if self._entered:
            _C.set_device(self._entered.pop())


class device_of(device):
    """`device` of a tensor; on the CPU it changes nothing."""

    def __init__(self, obj):
        if not isinstance(obj, _C.Tensor):
            raise TypeError(
                f"pf.cuda.device_of: got a {type(obj).__name__}; expected a tensor; use device()"
            )
        super().__init__(obj.device if obj.is_cuda else None)


def _info(device, name):
    _need(name)
    return _C.device_info(_device(device))


def get_device_name(device=None):
    """Name of a GPU; DeviceError where there is none."""
    return _info(device, "get_device_name").get("name", "")


def get_device_capability(device=None):
    """(major, minor) of an NVIDIA GPU, such as (9, 0); of an AMD one (9, 4) for gfx942.

    DeviceError where there is no GPU.
    """
    arch = _info(device, "get_device_capability")["architecture"]
    digits = arch.removeprefix("sm_").removeprefix("gfx")
    if arch.startswith("gfx"):
        return int(digits[:-2]), int(digits[-2], 16)
    return int(digits[:-1]), int(digits[-1])


def get_device_properties(device=None):
    """name, total_memory (bytes), multi_processor_count, warp_size, major, minor, gcnArchName.

    DeviceError where there is no GPU.
    """
    from types import SimpleNamespace

    info = _info(device, "get_device_properties")
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
    _C._manual_seed(_seed_number(seed, "cuda.manual_seed"))


manual_seed_all = manual_seed
seed = seed_all


def is_bf16_supported(including_emulation=True):
    """True where there is a GPU: bfloat16 works on all of them."""
    return is_available()


def is_initialized():
    """True when GPUs can be used."""
    return is_available()


_GRAPHS = (
    "CUDAGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
)


def __getattr__(name):
    if name == "default_generators":
        return (_C._import("pyflame.random").default_generator,) * device_count()
    if name in ("amp", "graphs", "nvtx"):
        return _C._import(f"{__name__}.{name}")
    if name in _GRAPHS:
        return getattr(_C._import(f"{__name__}.graphs"), name)
    if name in _TYPED:
        return _C._import("pyflame._typed").typed(name, __name__)
    raise AttributeError(f"module 'pyflame.cuda' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), "amp", "graphs", "nvtx", "default_generators", *_GRAPHS, *_TYPED})
