"""What happened inside: counters of the engine, the eager oracle, memory, injected faults."""

from __future__ import annotations

from contextlib import contextmanager

from . import _C


def stats() -> dict[str, int]:
    """Counters since the start or the last :func:`reset_stats`.

    ``flush.<reason>`` says why groups were run, ``groups`` how many ran, ``nodes`` how many
    operations were recorded, ``programs`` and ``kernels`` what was launched, ``programs_made``
    how many programs were compiled and ``programs_found`` how often one was found again.
    """
    return _C._stats()


def reset_stats() -> None:
    """Sets every counter of :func:`stats` to zero."""
    _C._reset_stats()


def device_statistics(device) -> dict[str, int]:
    """What a GPU's plug-in has counted: ``kernels_compiled`` and ``kernels_from_disk``, programs
    that the run-time compiler built and that the cache on disk had; ``graphs`` and
    ``kernels_in_graphs``, small launches that were handed to the driver together. Empty for the
    CPU."""
    lines = _C._device_statistics(str(device)).splitlines()
    return {name: int(value) for name, value in (line.split("=") for line in lines)}


def is_eager() -> bool:
    """True when every operation runs before its call returns (``PYFLAME_EAGER=1``)."""
    return _C._eager()


def set_eager(on: bool) -> None:
    """Switches the eager oracle: same numbers bit for bit, one operation at a time."""
    _C._set_eager(bool(on))


@contextmanager
def eager(on: bool = True):
    """Runs a block with the eager oracle switched on (or off)."""
    before = is_eager()
    set_eager(on)
    try:
        yield
    finally:
        set_eager(before)


def memory_stats(device: str = "cpu") -> dict[str, int]:
    """Bytes of live tensors (``allocated``) and held from the device (``reserved``), with peaks."""
    return _C._memory_stats(_C.device(str(device)))


def reset_peak_memory_stats(device: str = "cpu") -> None:
    """Sets the peaks of :func:`memory_stats` to the present values."""
    _C._reset_peak_memory_stats(_C.device(str(device)))


def empty_cache(device: str = "cpu") -> None:
    """Gives freed blocks back to the device."""
    _C._empty_cache(_C.device(str(device)))


def set_memory_limit(nbytes: int, device: str = "cpu") -> None:
    """Limits what tensors may take on a device, in bytes; 0 restores the default."""
    _C._set_memory_limit(_C.device(str(device)), int(nbytes))


@contextmanager
def fault(call: str, nth: int = 1, kind: str = "launch", device: str = "cpu"):
    """Makes the n-th next backend call of a kind fail within the block, for tests.

    ``call`` is one of allocate, program_create, program_launch, kernel_launch, copy; ``kind`` one
    of oom, compile, launch, lost.
    """
    _C._inject_fault(str(device), call, int(nth), kind)
    try:
        yield
    finally:
        _C._inject_fault(str(device), call, 0, kind)
