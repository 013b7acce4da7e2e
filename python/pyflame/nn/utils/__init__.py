"""Clipping, parameters as one vector, sequences, norms of weights, parametrizations, pruning."""

from ... import _C
from . import rnn
from .clip_grad import *  # noqa: F403
from .clip_grad import __all__ as _CLIPPING
from .convert import *  # noqa: F403
from .convert import __all__ as _CONVERSIONS
from .fusion import *  # noqa: F403
from .fusion import __all__ as _FUSION

_MODULES = ("parametrizations", "parametrize", "prune", "stateless")  # imported when they are used
_HOOKS = ("remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm")
__all__ = [*_CLIPPING, *_CONVERSIONS, *_FUSION, *_HOOKS, *_MODULES, "rnn"]


def __getattr__(name):
    if name in _MODULES:
        return _C._import(f"{__name__}.{name}")
    if name in _HOOKS:
        value = getattr(_C._import(f"{__name__}.weight_hooks"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *__all__})
