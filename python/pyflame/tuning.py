"""Measured choices: which kernel computes a matrix product, or a convolution, fastest on the GPU
that is here.

Without measuring, the source follows from the sizes: the vendor's library and its first proposal,
else our own kernel. Within :func:`tune` each product or convolution that was not measured before is
timed with several proposals of the library and with our own, and the fastest is remembered, also
for later processes. Results may differ in their last bits from one choice to another.
"""

from __future__ import annotations

import atexit
import functools
import os
import warnings
from contextlib import contextmanager

from . import _C
from ._locks import shared_lock

_MEASURE, _EXHAUSTIVE, _FILE, _SAVE, _CLEAR, _STATE = range(6)


def _gpu():
    """A usable GPU, or None."""
    for name in ("rocm", "cuda"):
        try:
            if _C._device_count(name) > 0:
                return name
        except RuntimeError:
            pass
    return None


class TuningCache:
    """The choices that were measured. Use :func:`get_tuning_cache`; there is one.

    They are kept in ``$XDG_CACHE_HOME/pyflame/tuning.txt`` (``PYFLAME_TUNING_FILE`` names another
    file, :meth:`set_cache_file` too), by device, library and its version; a file that is damaged is
    ignored with a notice. ``PYFLAME_TUNING=0`` ignores every file. On a machine without a GPU there
    is nothing to measure: counters stay 0.
    """

    def __init__(self):
        self._path = None
        self._asked = False
        self._exhaustive = False
        self._regions, self._lock = 0, shared_lock()

    def _do(self, command, value=0, text=""):
        gpu = _gpu()
        return _C._tuning(gpu, command, int(value), text) if gpu else ""

    def _state(self):
        lines = self._do(_STATE).splitlines()
        return dict(line.split(" ", 1) for line in lines if "\t" not in line)

    def enable_exhaustive_search(self, on: bool = True) -> None:
        """From now on, within :func:`tune` or not, products that were not measured are, with 32
        proposals of the library and every tile of ours, which takes longer than the 4 proposals and
        the tile that :func:`tune` times otherwise. False ends it. What was measured is kept then,
        or at the end of the process."""
        before, self._exhaustive = self._exhaustive, bool(on)
        self._do(_EXHAUSTIVE, on)
        if on and not before:
            atexit.register(self._keep)
        elif before and not on:
            atexit.unregister(self._keep)
            self._keep()

    def _measure(self, more) -> int:
        """A region that measures begins (1) or ends (-1), in some thread: it is measured until the last
        has ended. How many candidates were timed so far."""
        with self._lock:
            self._regions += more
            return int((self._do(_MEASURE, self._regions > 0) or "0 0").split()[1])

    def _keep(self):
        if self.timed:
            self.save()

    @property
    def exhaustive_search(self) -> bool:
        return self._exhaustive

    def set_cache_file(self, path) -> None:
        """Reads choices from this file, if it is there, and keeps them there from now on. What is
        missing of its folder is made when it is written; a place that cannot be written is a
        warning then."""
        self._path = str(path)
        self._do(_FILE, 0, self._path)

    def save(self) -> bool:
        """Writes the file; :func:`tune` does so at its end. False, with a warning, where it cannot
        be written."""
        if _gpu() is None:
            if self._path is not None:
                warnings.warn(
                    f"pf.TuningCache.save: {self._path} was not written: there is no GPU whose "
                    "choices it could hold",
                    stacklevel=2,
                )
            return False
        problem = self._do(_SAVE)
        if problem:
            warnings.warn(
                f"pf.TuningCache.save: the choices were not kept: {problem}; give another file to "
                "set_cache_file",
                stacklevel=2,
            )
        return not problem

    def clear(self) -> None:
        """Forgets all choices of this process and sets the counters to 0; the file stays."""
        self._do(_CLEAR)

    @property
    def file(self) -> str:
        """Where choices are kept."""
        return self._state().get("file", self._path or "")

    @property
    def hits(self) -> int:
        """How many products ran by a measured choice."""
        return int(self._state().get("hits", 0))

    @property
    def misses(self) -> int:
        """How many were looked up and not there."""
        return int(self._state().get("misses", 0))

    @property
    def timed(self) -> int:
        """How many candidates were timed."""
        return int(self._state().get("timed", 0))

    @property
    def hash(self) -> str:
        """Of all choices: two runs with the same one choose alike."""
        return self._state().get("hash", "")

    def entries(self) -> list[dict]:
        """The choices: `device`, `library`, `product`, `choice`, `microseconds`, and `timed`, what
        this process measured of each candidate (empty for what a file said)."""
        found = []
        for line in self._do(_STATE).splitlines():
            if "\t" not in line:
                continue
            device, library, product, choice, time, timed = line.split("\t")
            pairs = [t.rsplit(" ", 1) for t in timed.split(";") if t]
            found.append(
                {
                    "device": device,
                    "library": library,
                    "product": product,
                    "choice": choice,
                    "microseconds": float(time),
                    "timed": {name: float(us) for name, us in pairs},
                }
            )
        return found

    def __len__(self) -> int:
        return int(self._state().get("entries", 0))

    def __repr__(self):
        return f"TuningCache({len(self)} choices, {self.hits} hits, file={self.file!r})"


_cache = TuningCache()


def get_tuning_cache() -> TuningCache:
    """The one cache of measured choices."""
    return _cache


@contextmanager
def tune(exhaustive: bool | None = None):
    """Measures the products and convolutions that run within, and keeps the fastest choice for each:

        with pf.tune():
            train_step()          # slower, once
        train_step()              # by the choices

    `exhaustive` as :meth:`TuningCache.enable_exhaustive_search`. Without a GPU it does nothing.
    """
    cache = get_tuning_cache()
    before = cache.exhaustive_search
    if exhaustive is not None:
        cache.enable_exhaustive_search(exhaustive)
    cache._measure(1)
    try:
        yield cache
    finally:
        cache._measure(-1)
        if exhaustive is not None:
            cache.enable_exhaustive_search(before)
        if len(cache):
            cache.save()


def measured(function):
    """Calls it as within :func:`tune`, and writes the file where something new was timed."""

    @functools.wraps(function, updated=())
    def called(*args, **kwargs):
        timed = _cache._measure(1)
        try:
            result = function(*args, **kwargs)
            _C.flush()
            return result
        finally:
            if _cache._measure(-1) != timed:
                _cache.save()

    return called


def command(args) -> int:
    """What `pyflame tune` does."""
    import runpy

    if _gpu() is None:
        raise RuntimeError("pf.tune: there is no usable GPU; see `pyflame info` for the reason")
    if args.script and not (os.path.isfile(args.script) or os.path.isdir(args.script)):
        raise RuntimeError(f"pf.tune: there is no program '{args.script}'; check the path")
    from . import _common_programs

    _C.set_device(_gpu())
    with tune(exhaustive=args.exhaustive) as cache:
        if args.script:
            runpy.run_path(args.script, run_name="__main__")
        else:
            _common_programs.models()
    for e in cache.entries():
        print(f"{e['microseconds']:10.1f} us  {e['choice']:<10}  {e['product']}")
    print(f"{len(cache)} choices, {cache.timed} candidates timed: {cache.file}")
    return 0
