"""Memory of devices: statistics, budgets, caches, and pinned memory of the host.

Names and meaning are those of torch.cuda.memory; :mod:`pyflame.cuda` has them too. Without a device
they speak of the current one, or of the first GPU when that is the CPU.
"""

from __future__ import annotations

import gc
import json
import numbers
import weakref

from . import _C
from .streams import _device

__all__ = [
    "MemPool",
    "MemoryManager",
    "MemoryPool",
    "PinnedPool",
    "aggressive_memory_cleanup",
    "empty_cache",
    "get_allocator",
    "get_memory_manager",
    "get_per_process_memory_fraction",
    "get_pinned_pool",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "monitor_gpu_memory",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_reserved",
    "reset_peak_memory_stats",
    "set_allocator",
    "set_memory_limit",
    "set_per_process_memory_fraction",
    "use_mem_pool",
    "warmup_memory_pool",
]

_POOLS = ("all", "small_pool", "large_pool")


def mem_get_info(device=None):
    """(free, total) bytes of a device, as its driver tells."""
    return _C._memory_info(_device(device))


def memory_stats(device=None):
    """Everything that the allocator of a device counts, by PyTorch's keys.

    ``<what>.<pool>.<figure>``: what is allocation, segment, active or inactive_split (numbers), or
    allocated_bytes, requested_bytes, reserved_bytes, active_bytes, inactive_split_bytes. The pool is
    all, small_pool (blocks of up to 256 KiB, on the CPU 64 KiB) or large_pool; the figure is current, peak, allocated or
    freed, of active and inactive_split only current. Besides: num_alloc_retries, num_ooms,
    num_device_alloc, num_device_free, allocations and cache_hits (calls, and those served without
    the device), limit (bytes that may be reserved).
    """
    raw = _C._memory_stats(_device(device))
    flat = {
        f"{what}.{pool}.{figure}": value
        for pool in _POOLS
        for what, figures in raw[pool].items()
        for figure, value in figures.items()
    }
    flat = dict(sorted(flat.items()))
    flat["num_alloc_retries"] = raw["retries"]
    flat["num_ooms"] = raw["ooms"]
    flat["num_device_alloc"] = raw["device_allocs"]
    flat["num_device_free"] = raw["device_frees"]
    for key in ("allocations", "cache_hits", "limit"):
        flat[key] = raw[key]
    return flat


def memory_allocated(device=None):
    """Bytes of live tensors: sizes are rounded up to 256 bytes (64 on the CPU) and more."""
    return _C._memory_stats(_device(device))["allocated"]


def max_memory_allocated(device=None):
    """Peak of :func:`memory_allocated`."""
    return _C._memory_stats(_device(device))["max_allocated"]


def memory_reserved(device=None):
    """Bytes held from the device, with those ready to be used again."""
    return _C._memory_stats(_device(device))["reserved"]


def max_memory_reserved(device=None):
    """Peak of :func:`memory_reserved`."""
    return _C._memory_stats(_device(device))["max_reserved"]


def reset_peak_memory_stats(device=None):
    """Sets the peaks to the present values."""
    _C._reset_peak_memory_stats(_device(device))


reset_max_memory_allocated = reset_max_memory_reserved = reset_peak_memory_stats


def reset_accumulated_memory_stats(device=None):
    """Sets the sums (allocated, freed) and the counts of calls of :func:`memory_stats` to zero."""
    _C._reset_accumulated_memory_stats(_device(device))


def empty_cache(device=None):
    """Gives memory that no tensor uses back to the device."""
    _C._empty_cache(_device(device))


def set_memory_limit(nbytes, device=None):
    """Limits what is reserved on a device, in bytes; 0 restores the default."""
    _C._set_memory_limit(_device(device), int(nbytes))


def set_per_process_memory_fraction(fraction, device=None):
    """Limits what is reserved to a part of the device's memory, above 0 and up to 1.

    What does not fit raises OutOfMemoryError.
    """
    if not isinstance(fraction, numbers.Real):
        raise TypeError(
            "pf.memory.set_per_process_memory_fraction: got a fraction of type "
            f"{type(fraction).__name__}; expected a number above 0 and up to 1; convert it with float()"
        )
    _C._set_memory_fraction(_device(device), float(fraction))


def get_per_process_memory_fraction(device=None):
    """The part of the device's memory that may be reserved."""
    return min(memory_stats(device)["limit"] / mem_get_info(device)[1], 1.0)


def _set_allocator_settings(settings):
    """PYFLAME_ALLOC_CONF's text, at run time."""
    _C._set_allocator_settings(str(settings))


def memory_snapshot(device=None):
    """Every segment and its blocks, as a list of dicts; ``json.dumps`` makes JSON of it.

    A segment has device, address, total_size, allocated_size, active_size, requested_size (bytes),
    stream, segment_type and blocks. A block has address, size, requested_size, state
    (active_allocated, active_awaiting_free or inactive), and in use the operation that asked for
    it, with dtype and shape from 64 KiB on.
    """
    return json.loads(_C._memory_snapshot(_device(device)))


def _dump_snapshot(filename="snapshot.json", device=None):
    """Writes :func:`memory_snapshot` as JSON."""
    with open(filename, "w", encoding="utf-8") as file:
        file.write(_C._memory_snapshot(_device(device)))


def _size(n):
    for unit in ("B", "KiB", "MiB"):
        if abs(n) < 10 * 1024 or unit == "MiB":
            return f"{n:.0f} {unit}"
        n /= 1024


def memory_summary(device=None, abbreviated=False):
    """:func:`memory_stats` as a table to print; abbreviated: without the two pools."""
    on = _device(device)
    stats = memory_stats(on)
    rows = [
        ("allocated", "allocated_bytes", _size),
        ("requested", "requested_bytes", _size),
        ("reserved", "reserved_bytes", _size),
        ("active", "active_bytes", _size),
        ("free within segments", "inactive_split_bytes", _size),
        ("allocations", "allocation", str),
        ("segments", "segment", str),
    ]
    head = f"{'':24}{'now':>12}{'peak':>12}{'in all':>14}{'freed':>14}"
    lines = [
        f"memory of {on}: limit {_size(stats['limit'])}, out of memory {stats['num_ooms']}, "
        f"retries {stats['num_alloc_retries']}",
        head,
        "-" * len(head),
    ]
    for title, what, show in rows:
        for pool in _POOLS[:1] if abbreviated else _POOLS:
            cells = [
                stats.get(f"{what}.{pool}.{f}") for f in ("current", "peak", "allocated", "freed")
            ]
            if pool != "all" and not any(cells):
                continue
            texts = ["" if c is None else show(c) for c in cells]
            name = title if pool == "all" else "  " + pool.replace("_", " ")
            lines.append(
                f"{name:24}{texts[0]:>12}{texts[1]:>12}{texts[2]:>14}{texts[3]:>14}".rstrip()
            )
    return "\n".join(lines)


def monitor_gpu_memory(device=None):
    """total_gb, allocated_gb, reserved_gb, free_gb (10^9 bytes; free as the driver tells it) and
    utilization_percent (allocated of total)."""
    free, total = mem_get_info(device)
    allocated = memory_allocated(device)
    return {
        "total_gb": total / 1e9,
        "allocated_gb": allocated / 1e9,
        "reserved_gb": memory_reserved(device) / 1e9,
        "free_gb": free / 1e9,
        "utilization_percent": allocated / total * 100,
    }


def aggressive_memory_cleanup(device=None):
    """Collects unreachable objects, gives unused memory back, resets the peaks.

    Returns the bytes given back.
    """
    gc.collect()
    before = memory_reserved(device)
    empty_cache(device)
    reset_peak_memory_stats(device)
    return before - memory_reserved(device)


# ---- pools --------------------------------------------------------------------------------------


class PinnedPool:
    """Memory of the host that a GPU reads directly; see :func:`get_pinned_pool`.

    Locking pages takes milliseconds, so freed memory is kept and used again. Where there is no GPU
    the pool is empty and its tensors lie in ordinary memory.
    """

    def __init__(self, device=None):
        self._device = device

    def warmup(self, sizes):
        """Makes memory ready for tensors of these sizes, in bytes."""
        _C._warmup_pinned(self._device, [int(n) for n in sizes])

    def acquire(self, nbytes):
        """A uint8 tensor of ``nbytes`` elements in pinned memory, uninitialised."""
        return _C._pinned_empty(int(nbytes), self._device)

    def stats(self):
        """allocated and reserved (bytes), acquired and hits (calls, those served from the pool)."""
        return _C._pinned_stats(self._device)

    def clear(self):
        """Gives what no tensor uses back to the host."""
        _C._clear_pinned(self._device)


_pinned_pool = None


def get_pinned_pool():
    """The pool that ``pin_memory()`` takes from: always the same object."""
    global _pinned_pool
    if _pinned_pool is None:
        _pinned_pool = PinnedPool()
    return _pinned_pool


class MemPool:
    """Memory of a device apart from all other: tensors made while it is in use (:func:`use_mem_pool`)
    share segments with each other and with nothing else.

    When the object goes its memory goes back to the device; what tensors still use goes when they do.
    Pools with an allocator of the user's, for emergencies or of whole segments are not there:
    NotSupportedError.
    """

    def __init__(self, allocator=None, use_on_oom=False, no_split=False, *, device=None):
        if allocator is not None or use_on_oom or no_split:
            raise _C.NotSupportedError(
                "pf.memory.MemPool: got allocator, use_on_oom or no_split; expected none of them; "
                "PYFLAME_ALLOC_CONF has settings for all pools"
            )
        self.device = _device(device)
        self._number = _C._make_memory_pool(self.device)
        weakref.finalize(self, _C._drop_memory_pool, self.device, self._number)

    @property
    def id(self):
        """(0, number), as segments of :func:`memory_snapshot` name it."""
        return (0, self._number)

    def snapshot(self):
        """The segments of :func:`memory_snapshot` that are in this pool."""
        mine = list(self.id)
        return [s for s in memory_snapshot(self.device) if s["segment_pool_id"] == mine]

    def stats(self):
        """allocations (since it was made), allocated_bytes and reserved_bytes (now)."""
        raw = _C._memory_pool_stats(self.device, self._number)
        return {
            "allocations": raw["allocation"]["allocated"],
            "allocated_bytes": raw["allocated_bytes"]["current"],
            "reserved_bytes": raw["reserved_bytes"]["current"],
        }


MemoryPool = MemPool
_in_use = {}  # {device: the pool that its tensors come from}


def _use(pool, device):
    before = _in_use.pop(device, None)
    _C._use_memory_pool(device, 0 if pool is None else pool._number)
    if pool is not None:
        _in_use[device] = pool
    return before


def _checked_pool(pool, name):
    if not isinstance(pool, MemPool):
        raise TypeError(
            f"pf.memory.{name}: got a pool of type {type(pool).__name__}; expected a MemPool; make one"
        )
    return pool


class use_mem_pool:  # noqa: N801 (PyTorch's name)
    """Within it tensors of the pool's device are made in the pool, by all threads."""

    def __init__(self, pool, device=None):
        self._pool = _checked_pool(pool, "use_mem_pool")
        if device is not None and _device(device) != pool.device:
            raise _C.ValueError(
                f"pf.memory.use_mem_pool: got device {device} and a pool of {pool.device}; expected "
                "the pool's; leave device out"
            )
        self._before = []

    def __enter__(self):
        self._before.append(_use(self._pool, self._pool.device))

    def __exit__(self, *error):
        _use(self._before.pop(), self._pool.device)


def set_allocator(pool):
    """Tensors of the pool's device are made in it from here on; None: in the memory common to all,
    on every device."""
    if pool is None:
        for device in list(_in_use):
            _use(None, device)
        return
    _use(_checked_pool(pool, "set_allocator"), pool.device)


def get_allocator(device=None):
    """The pool that tensors of a device are made in, or None for the memory common to all."""
    return _in_use.get(_device(device))


class MemoryManager:
    """The allocator of the current device as an object; see :func:`get_memory_manager`."""

    def clear_pool(self, device=None):
        """Gives memory that no tensor uses back to the device, and pinned memory to the host."""
        empty_cache(device)
        get_pinned_pool().clear()

    def stats(self, device=None):
        """:func:`memory_stats`."""
        return memory_stats(device)

    def snapshot(self, device=None):
        """:func:`memory_snapshot`."""
        return memory_snapshot(device)

    def set_limit(self, nbytes, device=None):
        """:func:`set_memory_limit`."""
        set_memory_limit(nbytes, device)


_memory_manager = MemoryManager()


def get_memory_manager():
    """The memory manager: always the same object."""
    return _memory_manager


# Elements of one sample in the layers of a model, and how many such layers keep their results.
_MODELS = {"small": (1 << 12, 8), "medium": (1 << 14, 16), "large": (1 << 16, 32)}


def warmup_memory_pool(batch_size=32, model_size="medium", device=None, *, sizes=None):
    """Takes memory from the device before the first step needs it.

    Segments are taken for the activations of a model: ``batch_size`` times 4096 (small), 16384
    (medium) or 65536 (large) float32 elements for each of 8, 16 or 32 layers, or blocks of exactly
    ``sizes`` (bytes). They stay reserved, and allocations of such sizes are served without the
    device. No more is taken than half of what is free. Returns the bytes reserved by it. On the CPU
    nothing is done, where fresh memory costs little.
    """
    if model_size not in _MODELS:
        raise _C.ValueError(
            f"pf.warmup_memory_pool: got model_size {model_size!r}; expected one of "
            f"{', '.join(map(repr, _MODELS))}; pass one of them"
        )
    if batch_size < 1:
        raise _C.ValueError(
            f"pf.warmup_memory_pool: got batch_size {batch_size}; expected at least 1; correct it"
        )
    on = _device(device)
    if on.type == "cpu":
        return 0
    if sizes is None:
        elements, layers = _MODELS[model_size]
        room = mem_get_info(on)[0] // 2
        one = int(batch_size) * elements * 4
        sizes = [one] * max(min(layers, room // one), 0)
    before = memory_reserved(on)
    _C._warmup_memory(on, [int(n) for n in sizes])
    return memory_reserved(on) - before
