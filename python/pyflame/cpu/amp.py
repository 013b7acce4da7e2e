"""torch.cpu.amp's names: autocast and GradScaler of the CPU."""

import functools

from .. import amp as _amp

__path__ = []  # for modules below it: _aliases.py

__all__ = ["GradScaler", "autocast"]


class autocast(_amp.autocast):
    """autocast(enabled, dtype, cache_enabled) of the CPU."""

    def __init__(self, enabled=True, dtype=None, cache_enabled=True):
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """amp.GradScaler of the CPU."""

    __init__ = functools.partialmethod(_amp.GradScaler.__init__, "cpu")
