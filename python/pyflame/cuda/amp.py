"""torch.cuda.amp's names: autocast and GradScaler of GPUs."""

import functools

from .. import amp as _amp

__path__ = []  # for modules below it: _aliases.py

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(_amp.autocast):
    """autocast(enabled, dtype, cache_enabled) of GPUs; takes device_type as amp.autocast too."""

    def __init__(self, enabled=True, dtype=None, cache_enabled=True, *, device_type="cuda"):
        if isinstance(enabled, str):
            device_type, enabled = enabled, True
        super().__init__(device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """amp.GradScaler of GPUs."""

    __init__ = functools.partialmethod(_amp.GradScaler.__init__, "cuda")


custom_fwd = functools.partial(_amp.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(_amp.custom_bwd, device_type="cuda")
